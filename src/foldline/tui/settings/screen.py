"""The Settings screen: its keys at work. What is written is written beside the event loop."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from foldline.agent.agent import at_rest, retune
from foldline.agent.layers import config_file
from foldline.agent.settings import Settings, load_settings
from foldline.agent.settings_edit import change, in_toml
from foldline.compaction import load_strategy
from foldline.compaction.registry import BUILT_IN
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Span
from foldline.tui.choosing.picker import Choice, Picker
from foldline.tui.dialogs import open_help, pick_theme
from foldline.tui.keys.table import bindings, key_of, works
from foldline.tui.runner import Runner
from foldline.tui.settings.gathering import gathered
from foldline.tui.settings.keys import KEYS
from foldline.tui.settings.rows import FIELD_LEFT, SEARCH_LINE, screen_lines, value_line
from foldline.tui.settings.state import UNCONFIRMED, Setting, SettingsState, begin
from foldline.tui.setup.fields import Field
from foldline.tui.themes import own_themes
from foldline.tui.widgets.status import StatusLine

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp


_HEIGHT: Final = 34
"""Rows it takes where there are as many."""
_STEPS: Final = {
    "up": -1,
    "down": 1,
    "page-up": -10,
    "page-down": 10,
    "first": -1_000_000,
    "last": 1_000_000,
}
"""How many rows further a key moves the mark."""


class Keeper(Protocol):
    """What the screen asks of the world outside."""

    def settings(self) -> tuple[Setting, ...]:
        """As they are now.

        Raises:
            FoldlineError: a file of settings is broken.
        """
        ...

    def fault(self, setting: Setting, text: str) -> str:
        """Why this text is no value for it, in one sentence; empty where it is one."""
        ...

    async def keep(self, setting: Setting, text: str | None) -> str:
        """Write the value down, or, where it is None, take it out; what became of it, as a sentence.

        Raises:
            FoldlineError: it was not kept, and nothing has changed.
        """
        ...

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        """Let the reader choose from a list, or on the screen that is there for it, which keeps the choice
        itself.

        Raises:
            FoldlineError: not now.
        """
        ...


class _Box(StatusLine, can_focus=True):
    DEFAULT_CSS: ClassVar[str] = "_Box { height: 1fr; }"

    def __init__(self, state: SettingsState) -> None:
        super().__init__()
        self.state = state
        self.query_field = Field("settings-query", "type to find")
        self.value_field = Field("settings-value", "empty: takes it out")

    def compose(self) -> ComposeResult:
        yield self.query_field
        yield self.value_field

    def place_fields(self) -> None:
        """Show the field of what is being typed where its line is, and give it the focus."""
        state = self.state
        for field, shown, line in (
            (self.query_field, state.searching, SEARCH_LINE),
            (self.value_field, state.editing, value_line(self.size.height)),
        ):
            field.display = shown
            field.styles.margin = (line, 2, 0, FIELD_LEFT)
        wanted = self.value_field if state.editing else self.query_field if state.searching else self
        if not wanted.has_focus:
            wanted.focus()

    def lines(self, width: int) -> list[list[Span]]:
        return self.with_message(screen_lines(self.state, width, self.size.height), width)


class SettingsScreen(ModalScreen[None]):
    """What is changed counts as soon as it is written down; the screen shows what is in force then."""

    DEFAULT_CSS: ClassVar[str] = """
    SettingsScreen { align: center middle; background: transparent; }
    SettingsScreen > Vertical { width: 104; max-width: 100%; max-height: 100%; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "settings")
    AUTO_FOCUS: ClassVar[str | None] = None

    def __init__(self, state: SettingsState, keeper: Keeper) -> None:
        super().__init__()
        self._keeper = keeper
        self._box = _Box(state)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._box

    def on_mount(self) -> None:
        self.query_one(Vertical).styles.height = _HEIGHT
        self._box.place_fields()

    def on_resize(self) -> None:
        self.call_after_refresh(self._redraw)

    def on_screen_resume(self) -> None:
        """A screen above is closed: it may have changed something."""
        if not self.state.fault:
            self.refresh_now()

    @property
    def state(self) -> SettingsState:
        """What is shown."""
        return self._box.state

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self._box.tell(words)

    def refresh_now(self) -> None:
        """Show the settings as they are now."""
        try:
            self._show(self.state.refreshed(self._keeper.settings()))
        except FoldlineError as failure:
            self._show(replace(self.state, fault=str(failure), news=""))

    def _show(self, state: SettingsState) -> None:
        before, self._box.state = self.state, state
        if (before.searching, before.editing) != (state.searching, state.editing):
            self._box.place_fields()
        self._box.update()

    def _redraw(self) -> None:
        self._box.place_fields()
        self._box.update()

    # --- keys -----------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Only the key that asked for it confirms the value that is asked for twice."""
        if self.state.confirming and event.key not in key_of(KEYS, "change").pressed:
            self._show(self.state.quiet())
            event.stop()
            event.prevent_default()

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.state)

    def action_settings(self, command: str) -> None:
        """What a key of the table does."""
        state = self.state
        if not works(KEYS, command, state):
            return
        setting = state.setting
        match command:
            case "change" if setting is not None:
                self._change(setting)
            case "edit" if setting is not None:
                self._edit(setting)
            case "reset" if setting is not None:
                self._keep(setting, None)
            case "search":
                self._show(replace(state.quiet(), searching=True))
            case "help":
                open_help(self.app)
            case "close":
                self._close()
            case _:
                self._show(state.moved(_STEPS[command]))

    def _change(self, setting: Setting) -> None:
        match setting.kind:
            case "cycle":
                following = setting.next_choice
                if (setting.key, following) == UNCONFIRMED and not self.state.confirming:
                    self._show(replace(self.state.quiet(), confirming=True))
                else:
                    self._keep(setting, following)
            case "text":
                self._edit(setting)
            case "file":
                words = f"Lists and tables are written in {self.state.file}, in an editor."
                self._show(replace(self.state.quiet(), news=words))
            case _:
                self._choose(setting)

    def _choose(self, setting: Setting) -> None:
        def chosen(text: str | None) -> None:
            if text is not None:
                self._keep(setting, text)

        try:
            self._keeper.choose(setting, chosen)
        except FoldlineError as failure:
            self._show(replace(self.state.quiet(), fault=str(failure)))

    def _edit(self, setting: Setting) -> None:
        text = setting.value if setting.own is None else setting.own
        field = self._box.value_field
        field.value = text
        field.cursor_position = len(text)
        self._show(self.state.edit())

    def _close(self) -> None:
        state = self.state
        if state.editing:
            self._show(state.left())
        elif state.query or state.searching:
            self._box.query_field.value = ""
            self._show(state.left().searched(""))
        else:
            self.dismiss(None)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        state = self.state
        if event.input is self._box.query_field and state.searching:
            self._show(state.searched(event.value))
        elif event.input is self._box.value_field and state.editing and state.setting is not None:
            text = event.value.strip()
            self._show(replace(state, fault=self._keeper.fault(state.setting, text) if text else ""))

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        state, setting = self.state, self.state.setting
        if state.searching:
            self._show(state.left())
        elif state.editing and setting is not None and not state.fault:
            text = self._box.value_field.value.strip()
            self._show(state.left())
            self._keep(setting, text or None)

    # --- keeping --------------------------------------------------------------------------------------

    def _keep(self, setting: Setting, text: str | None) -> None:
        self._show(self.state.quiet())
        self.run_worker(self._kept(setting, text), group="keep")

    async def _kept(self, setting: Setting, text: str | None) -> None:
        try:
            news = await self._keeper.keep(setting, text)
        except FoldlineError as failure:
            self._show(replace(self.state, fault=str(failure), news=""))
            return
        self.refresh_now()
        if not self.state.fault:
            self._show(replace(self.state, news=news))


def open_settings(app: "FoldlineApp", runner: Runner, query: str) -> None:
    """Show all settings; a `query` finds some of them."""

    keeper = OwnSettings(app, runner)
    try:
        keeper.read()
        fault = ""
    except FoldlineError as failure:
        fault = str(failure)
    state = begin(keeper.settings_known(), keeper.file)
    screen = SettingsScreen(replace(state.searched(query.strip()), fault=fault), keeper)
    app.push_screen(screen)


class OwnSettings:
    """The user's own settings, and the session they hold in."""

    def __init__(self, app: "FoldlineApp", runner: Runner) -> None:
        self._app = app
        self._agent = runner.agent
        self._now = runner.agent.settings or load_settings(runner.agent.state.cwd, {})

    @property
    def file(self) -> str:
        return with_tilde(str(config_file(os.environ)))

    def read(self) -> None:
        """Look at the files again.

        Raises:
            FoldlineError: one of them is broken.
        """
        self._now = self._now.again(self._agent.state.cwd, os.environ)

    def settings(self) -> tuple[Setting, ...]:
        self.read()
        return self.settings_known()

    def settings_known(self) -> tuple[Setting, ...]:
        """As they were read last; of a broken file, what was in force before it broke."""
        model, themes = self._agent.state.llm.info.id, self._themes()
        try:
            return gathered(self._now, os.environ, model=model, themes=themes)
        except FoldlineError:
            return gathered(self._now, {}, model=model, themes=themes)

    def fault(self, setting: Setting, text: str) -> str:
        try:
            in_toml(setting.names, text)
        except FoldlineError as failure:
            return str(failure)
        return ""

    async def keep(self, setting: Setting, text: str | None) -> str:
        cwd = self._agent.state.cwd
        value = None if text is None else in_toml(setting.names, text)
        if text is not None:
            self._demand_usable(setting, text)
        now = await asyncio.to_thread(change, self._now, cwd, os.environ, setting.names, value)
        self._now = now
        told = f"Kept in {self.file}." if text is not None else f"Taken out of {self.file}."
        origin = now.origin(setting.key)
        if text is not None and origin != str(config_file(os.environ)):
            return f"{told} {with_tilde(origin)} goes before it here."
        return f"{told} {self._hold(setting, now)}".rstrip()

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        if setting.kind in ("model", "provider"):
            if self._app.state.busy:
                raise FoldlineError("The model is switched between turns: this one is not over yet.")
            self._app.chat.run_command(setting.kind)
        elif setting.key == "theme":
            pick_theme(self._app, chosen)
        else:
            notes = _about(setting.choices) if setting.key == "compaction.strategy" else {}
            choices = [Choice(each, each, notes.get(each, "")) for each in setting.choices]
            self._app.push_screen(
                Picker(setting.key, choices, marked=setting.value, notes_in_full=True), chosen
            )

    def _themes(self) -> Sequence[str]:
        return own_themes(self._app.themes)

    def _demand_usable(self, setting: Setting, text: str) -> None:
        """Raises FoldlineError where a name is right as such, and there is nothing of that name."""
        if setting.key == "compaction.strategy":
            load_strategy(text, self._agent.state.dependencies)
        elif setting.key == "theme" and (fault := self._app.theme_faults().get(text)):
            raise FoldlineError(fault)

    def _hold(self, setting: Setting, now: Settings) -> str:
        """Let a change hold in this session, where it can; what is to be said of that."""
        self._agent.settings = now
        if setting.key == "theme":
            self._app.wear(now.theme)
            return ""
        if setting.effect == "sessions":
            return "This session stays as it is; /approvals switches it."
        if setting.effect == "start":
            return "It counts from the next start on."
        tune = retune(self._agent.state, now, os.environ)

        def do() -> None:
            unused = tune()
            if unused is not None:
                self._app.run_worker(unused.aclose(), group="unused")
            self._app.presenter.show(replace(self._app.state, fold=self._agent.state.mode))
            self._app.presenter.refresh_figures()

        return "It counts now." if at_rest(self._agent, do) else "It counts after this turn."


def _about(names: Sequence[str]) -> dict[str, str]:
    """The first sentence that each strategy says of itself."""
    docs = {name: " ".join((BUILT_IN[name].__doc__ or "").split()) for name in names}
    return {name: doc.partition(". ")[0].rstrip(".") for name, doc in docs.items()}


def settings_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    return {"settings": lambda runner, query: open_settings(app, runner, query)}
