"""Settings: every setting, who set it, and another value, written beside the event loop; and /settings."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.widgets import Input

from foldline.agent.agent import at_rest, retune
from foldline.agent.layers import config_file, dotted
from foldline.agent.settings import DEFAULT, Settings, load_settings
from foldline.agent.settings_edit import change, in_toml, own_values, shown, unset_words
from foldline.agent.settings_schema import KEYS as SETTINGS
from foldline.agent.settings_schema import LABELS, allowed, choices_of
from foldline.compaction.registry import BUILT_IN
from foldline.context.harmless import clean_line
from foldline.context.numbers import tokens
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Piece, Span, crop, cut_left, piece, row, wrap_spans
from foldline.tui.dialogs import pick_theme
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, table
from foldline.tui.lists.picker import Choice, Picker, ranked
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.prompting.completion import arguments
from foldline.tui.runner import Runner
from foldline.tui.themes import own_themes
from foldline.tui.widgets.lines import Line, Rule, boxed, filled

if TYPE_CHECKING:
    from foldline.tui.open_session import OpenSession


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as it is in force and as the user's own file has it."""

    key: str
    value: str
    """In force, as a settings file says it; empty where none is."""
    origin: str
    """Who set it; empty where nobody did."""
    own: str | None
    """What the user's file says; None where nothing."""
    choices: tuple[str, ...] = ()
    """The values it may have, where they are listed."""
    is_overruled: bool = False
    """Whether somebody goes before the user's file."""
    derived: tuple[str, str] = ("", "")
    """What is in force where nothing is set, or only a share, and where that comes from."""

    @property
    def label(self) -> str:
        return LABELS[self.key]

    @property
    def in_force(self) -> str:
        """The value as it is shown: `12.3k`, `75% = 12.3k`, `none`."""
        derived = self.derived[0]
        if self.value and derived and self.value.endswith("%"):
            return f"{self.value} = {derived}"
        return self.value or derived or unset_words(self.key)

    @property
    def source(self) -> str:
        """Who set it, of a file the name; else what its value is derived from."""
        return self.origin.rpartition("/")[2] or ("" if self.value else self.derived[1])

    @property
    def meaning(self) -> str:
        return (SETTINGS[self.key].description or "").replace("\n", " ").replace("`", "")


def list_settings(
    now: Settings,
    environ: Mapping[str, str],
    themes: Sequence[str],
    derived: Mapping[str, tuple[str, str]] | None = None,
) -> tuple[Setting, ...]:
    """All settings, with what the session derives. What is set for one model, provider or tool server is said
    by `foldline config`.

    Raises:
        FoldlineError: the user's file cannot be read.
    """
    own = {dotted(names): shown(value) for names, value in own_values(environ).items()}
    listed = {"theme": tuple(themes), "compaction.strategy": tuple(BUILT_IN)}
    values = now.values()

    def setting(key: str) -> Setting:
        origin = now.origin(key)
        return Setting(
            key,
            value=shown(values.get(key)),
            origin="" if origin == DEFAULT else with_tilde(origin),
            own=own.get(key),
            choices=listed.get(key) or choices_of(SETTINGS[key]),
            is_overruled=origin not in (DEFAULT, str(config_file(environ))),
            derived=(derived or {}).get(key, ("", "")),
        )

    return tuple(map(setting, SETTINGS))


KEYS: Final = table(
    "settings",
    "Setting",
    ScreenKey[None](
        "change",
        ("enter",),
        "Another value: one of a list, or a field to type it in. It is kept in your config.toml, with "
        "everything else in that file as it is.",
        hint="change",
    ),
    ScreenKey("reset", ("ctrl+r",), "Takes the value out of your config.toml.", hint="reset"),
    *moves("setting", letters=False, home=("ctrl+home",), end=("ctrl+end",)),
    replace(HELP, shown="F1"),
    ScreenKey("close", ("escape",), "Leaves the value as it is, else closes.", hint="close"),
)


class SettingsScreen(ListScreen[None, Setting]):
    """What is changed counts as soon as it is written down; the screen shows what is in force then."""

    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")

    def __init__(self, keeper: "OwnSettings", query: str = "") -> None:
        """`keeper`: reads the settings, and writes them down."""
        self.query_field = Field("settings-query", "type to find a setting")
        self.entry = Field("settings-entry", "empty: reset")
        super().__init__((), (self.query_field, self.entry))
        self._keeper = keeper
        self.settings: tuple[Setting, ...] = ()
        self.typing = False
        """Whether a value is being typed."""
        self.said: Span = ("", "")
        """What became of the last change, or why it was not kept."""
        self.query_field.value = query

    def field(self) -> Field:
        return self.entry if self.typing else self.query_field

    def on_screen_resume(self) -> None:
        """It is open, or a screen above is closed, which may have changed something."""
        self._refresh()

    def _refresh(self) -> None:
        """Show the settings as they are now; of files that cannot be read, as they were before."""
        try:
            self.settings = self._keeper.read()
        except FoldlineError as failure:
            self._refused(failure)
        self.show_rows(self._found(), lambda one, other: one.key == other.key)

    def _found(self) -> list[Setting]:
        """Those that hold what is looked for, best first."""
        by_key = {each.key: each for each in self.settings}
        choices = [
            Choice(key, each.label, f"{key} {each.value} {each.origin} {each.meaning}")
            for key, each in by_key.items()
        ]
        return [by_key[each.choice.id] for each in ranked(self.query_field.value, choices)]

    @on(Input.Changed, "#settings-query")
    def _searched(self, event: Input.Changed) -> None:
        event.stop()
        self.show_rows(self._found())
        self.move_to(0)

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        self.action_list("change")

    def move_to(self, at: int) -> None:
        self.said = ("", "")
        super().move_to(at)

    def _refused(self, failure: FoldlineError) -> None:
        self.said = (f"! {failure}", "alert")
        self.update()

    def leave(self) -> None:
        if self.typing:
            self._type(None)
        else:
            self.dismiss(None)

    # --- changing ---------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        if command == "reset":
            return not self.typing and self.row is not None and self.row.own is not None
        return not self.typing or command in ("change", "help", "close")

    def act(self, command: str) -> None:
        setting = self.row
        if setting is None:
            return
        if command == "reset":
            self._keep(setting, None)
        elif self.typing:
            self._keep(setting, self.entry.value.strip() or None)
        elif setting.choices or setting.key in ("model", "provider"):
            try:
                self._keeper.choose(setting, lambda text: None if text is None else self._keep(setting, text))
            except FoldlineError as failure:
                self._refused(failure)
        else:
            self._type(setting.value if setting.own is None else setting.own)

    def _type(self, text: str | None, said: str = "") -> None:
        """Open the field with this value; None closes it."""
        self.typing, self.said = text is not None, (said, "text")
        self.entry.value = text or ""
        self.entry.cursor_position = len(self.entry.value)
        self.update()

    def _keep(self, setting: Setting, text: str | None) -> None:
        self.run_worker(self._kept(setting.key, text), group="keep")

    async def _kept(self, key: str, text: str | None) -> None:
        try:
            said = await self._keeper.keep(key, text)
        except FoldlineError as failure:
            self._refused(failure)
        else:
            self._type(None, said)
            self._refresh()

    # --- drawing ----------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        setting = self.row
        rule, details = Rule(), list[Line]()
        if setting is not None:
            rule = Rule(((setting.label, "text bold"), (f"  {setting.key}", "muted")))
            details = self._details(setting, width - 4)
        below = 6 if height >= 20 else max(3, min(len(details), height - 5))
        if setting is not None and len(details) > below:
            details = self._details(setting, width - 4, flowing=True)
        if len(details) > below:  # the cut is seen
            details[below - 1] = crop([*details[below - 1], *details[below]], width - 4)
        details = [[(" ", ""), *line] for line in details]
        column = min(max(map(len, LABELS.values())), width // 2 - 4)
        draw = partial(_row_line, column=column, width=width - 2)
        rows = self.row_lines(max(height - 4 - below, 1), 2, draw, [[("   No setting holds that.", "muted")]])
        body: list[Line | Rule] = [[(" ❯ ", "accent")], *rows, rule, *filled(details, below)]
        title = (
            ("Settings", "text bold"),
            (f" ▸ {setting.label}" if setting and self.typing else "", "text"),
        )
        count = f"{self.at + 1} of {len(self.rows)}" if self.rows else ""
        return boxed(width, title, count, body, *self.foot(width))

    def _details(self, setting: Setting, width: int, *, flowing: bool = False) -> list[Line]:
        """What became of a change, what goes before it, what the setting means, what it may be, who set it;
        `flowing` without a new line for each, nor what Enter lists."""
        declared = SETTINGS[setting.key]
        may_be = f"one of {len(setting.choices)}" if setting.key == "theme" else allowed(declared)
        default = shown(declared.default) or unset_words(setting.key)
        derived, source = setting.derived
        takes = f"Takes {may_be}. Default: {default}."
        who = f"Not set: {derived}, {source}." if derived and source else "Not set: the default holds."
        if setting.origin:
            who = f"Set by {setting.origin}."
        overruled = f"! {setting.origin} goes before {self._keeper.file}." if setting.is_overruled else ""
        spans = [
            self.said,
            (overruled, "text"),
            (setting.meaning, "text"),
            (f"Default: {default}." if flowing and setting.choices else takes, "muted"),
            ("" if overruled else who, "muted"),
        ]
        cleaned = [(clean_line(text), style) for text, style in spans if text]
        if flowing:
            return wrap_spans([(f"{text} ", style) for text, style in cleaned], width)
        return [line for each in cleaned for line in wrap_spans([each], width)]

    def word(self, key: ScreenKey[Any]) -> str:
        while_typing = {"change": "save", "close": "cancel"}
        return while_typing.get(key.id, key.hint) if self.typing else key.hint


def _row_line(setting: Setting, marked: bool, *, column: int, width: int) -> Line:
    """`▶Compact at      12.3k   from the window      compaction.threshold`, exactly as wide."""
    style = "text bold" if setting.origin else "text" if setting.value or setting.derived[0] else "muted"
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        piece(f"{cut_left(setting.label, column):<{column}}", gap=0),
        Piece(((clean_line(setting.in_force), style),), gap=2, cut="right", least=12),
    ]
    if setting.source:
        left.append(piece(clean_line(setting.source), "muted", rank=1))
    return row(left, [piece(setting.key, "muted", rank=2)], width)


# --- the settings of the session ------------------------------------------------------------------------


def open_settings(chat: "OpenSession", runner: Runner, query: str) -> None:
    """Show all settings; a query finds some of them."""
    chat.push_screen(SettingsScreen(OwnSettings(chat, runner), query.strip()))


_AT_ONCE: Final = ("theme", "model", "provider", "fallback", "effort", "compaction", "context.cache_life")
"""Settings, and sections of them, of which a change holds in the running session."""


class OwnSettings:
    """The user's own settings, and the session they hold in."""

    def __init__(self, chat: "OpenSession", runner: Runner) -> None:
        self._chat = chat
        self._app = chat.program
        self._agent = runner.agent
        self._now = runner.agent.settings or load_settings(runner.agent.state.cwd, {})

    @property
    def file(self) -> str:
        """The file they are kept in, as it is shown."""
        return with_tilde(str(config_file(os.environ)))

    def read(self) -> tuple[Setting, ...]:
        """All settings as the files have them now. Raises FoldlineError where one of them is broken."""
        self._now = self._now.again(self._agent.state.cwd, os.environ)
        return list_settings(self._now, os.environ, own_themes(self._app.themes), dict(self._derived()))

    def _derived(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """What the session works with where nothing is set, and where that comes from."""
        state = self._agent.state
        info = state.llm.info
        whose = "built in" if info.provider == info.id else f"of {info.provider}" if info.provider else ""
        yield "model", (info.id, whose)
        yield "provider", (info.provider, "")
        source = "assumed" if state.window_is_assumed else f"of {info.id}"
        yield "context.window", (tokens(state.window), source)
        yield "compaction.model", (info.id, "the session's")
        with suppress(FoldlineError):  # a window too small to work in
            budget = state.budget
            for name in ("threshold", "reserve_tokens", "keep_recent_tokens", "max_summary_tokens"):
                yield f"compaction.{name}", (tokens(getattr(budget, name)), "from the window")

    async def keep(self, key: str, text: str | None) -> str:
        """Write the value down, or take it out where it is None; what became of it, as a sentence.

        Raises:
            FoldlineError: it was not kept, and nothing has changed.
        """
        if key == "theme" and (fault := self._app.theme_faults().get(text or "")):
            raise FoldlineError(fault)
        value = None if text is None else in_toml(key, text)
        self._now = await asyncio.to_thread(change, self._now, self._agent.state.cwd, os.environ, key, value)
        origin = self._now.origin(key)
        if text is not None and origin != str(config_file(os.environ)):
            return f"Kept in {self.file}. {with_tilde(origin)} goes before it here."
        done = "Taken out of" if text is None else "Kept in"
        return f"{done} {self.file}. {self._hold(key)}".rstrip()

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        """Let the user choose from a list, or on the screen of models, which keeps the choice itself.

        Raises:
            FoldlineError: not now.
        """
        if not setting.choices:
            if self._chat.presenter.state.busy:
                raise FoldlineError("The model is switched between turns: this one is not over yet.")
            self._chat.run_command(setting.key)
        elif setting.key == "theme":
            pick_theme(self._app, chosen)
        else:
            about = {each.label: each.note for each in arguments("strategy", "", self._app)}
            choices = [Choice(each, each, about.get(each, "")) for each in setting.choices]
            picker = Picker(setting.label, choices, marked=setting.value, notes_in_full=True)
            self._chat.push_screen(picker, chosen)

    def _hold(self, key: str) -> str:
        """Let a change hold in this session, where it can; what is to be said of that."""
        now = self._agent.settings = self._now
        if key in ("theme", "theme_background"):
            self._app.use_theme(now.theme)
            self._app.paint_background(now.theme_background == "theme")
            return ""
        if key == "approvals.mode":
            return "It counts in new sessions; /approvals switches this one."
        if key == "compaction.embedding_model" or not key.startswith(_AT_ONCE):
            return "It counts from the next start on."
        tune = retune(self._agent.state, now, os.environ)

        def do() -> None:
            unused = tune()
            if unused is not None:
                self._chat.run_worker(unused.aclose(), group="unused")
            presenter = self._chat.presenter
            presenter.show(replace(presenter.state, compaction_mode=self._agent.state.mode))
            presenter.refresh_figures()

        return "It counts now." if at_rest(self._agent, do) else "It counts after this turn."
