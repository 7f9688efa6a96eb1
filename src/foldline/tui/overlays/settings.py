"""The Settings screen: lists all settings with their origins, and changes them."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from textual import on
from textual.widgets import Input

from foldline.agent.agent import at_rest, retune
from foldline.agent.settings.descriptions import add_descriptions
from foldline.agent.settings.edit import change, in_toml, own_values, shown, unset_words
from foldline.agent.settings.layers import config_file, dotted
from foldline.agent.settings.schema import ADVANCED, LABELS, allowed, choices_of
from foldline.agent.settings.schema import KEYS as SETTINGS
from foldline.agent.settings.settings import DEFAULT, Settings, load_settings
from foldline.compaction.registry import BUILT_IN
from foldline.frontend.runner import Runner
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError
from foldline.text.numbers import tokens
from foldline.tui.lists.line import LineDialog
from foldline.tui.lists.picker import Picker
from foldline.tui.lists.rows import PickerItem
from foldline.tui.look.themes import own_themes
from foldline.tui.overlays.dialogs import pick_theme
from foldline.tui.prompting.completion import arguments

if TYPE_CHECKING:
    from foldline.tui.base_app import BaseApp
    from foldline.tui.session_window import SessionWindow


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting with its current value and the value in the user's file."""

    key: str
    value: str
    """Current value as written in a settings file.

    Empty if the setting is not set.
    """
    origin: str
    """The file or environment variable that set the value, or an empty string."""
    own: str | None
    """Value in the user's file, or None."""
    choices: tuple[str, ...] = ()
    """Allowed values, if there is a fixed list."""
    is_overruled: bool = False
    """Whether another origin overrides the value in the user's file."""
    derived: tuple[str, str] = ("", "")
    """The value that the session derives, and its source."""

    @property
    def label(self) -> str:
        return LABELS[self.key]

    @property
    def in_force(self) -> str:
        """The displayed value, such as `12.3k`, `75% = 12.3k` or `none`."""
        derived = self.derived[0]
        if self.value and derived and self.value.endswith("%"):
            return f"{self.value} = {derived}"
        return self.value or derived or unset_words(self.key)

    @property
    def source(self) -> str:
        """The file name of the origin, or the source of the derived value."""
        return self.origin.rpartition("/")[2] or ("" if self.value else self.derived[1])

    @property
    def meaning(self) -> str:
        return (
            (SETTINGS[self.key].description or "").replace("\n", " ").replace("`", "")
        )


def list_settings(
    now: Settings,
    environ: Mapping[str, str],
    themes: Sequence[str],
    derived: Mapping[str, tuple[str, str]] | None = None,
) -> tuple[Setting, ...]:
    """Return all settings, the advanced ones last.

    `derived` contains (value, source) for each value that a session derives.

    Only `foldline config` shows settings of a single model, provider or tool server.

    Raises:
        FoldlineError: the user's file cannot be read.
    """
    add_descriptions()
    own = {dotted(names): shown(value) for names, value in own_values(environ).items()}
    choices = {"theme": tuple(themes), "compaction.strategy": tuple(BUILT_IN)}
    values = now.values()

    def setting(key: str) -> Setting:
        origin = now.origin(key)
        return Setting(
            key,
            value=shown(values.get(key)),
            origin="" if origin == DEFAULT else with_tilde(origin),
            own=own.get(key),
            choices=choices.get(key) or choices_of(SETTINGS[key]),
            is_overruled=origin not in (DEFAULT, str(config_file(environ))),
            derived=(derived or {}).get(key, ("", "")),
        )

    return tuple(map(setting, sorted(SETTINGS, key=ADVANCED.__contains__)))


TITLE: Final = "Settings"
UNFOLD: Final = "Advanced settings"
UNFOLD_NOTE: Final = "{count} more; a search also finds them"
NO_SETTINGS: Final = "The settings cannot be read."
VALUE_HINT: Final = "Leave empty to reset."
VALUES: Final = "Values: {values}."
DEFAULT_VALUE: Final = "Default: {value}."
NOT_SET: Final = "Not set: the default is used."
DERIVED: Final = "Not set: {value}, {source}."
SET_BY: Final = "Set by {origin}."
OVERRULED: Final = "! {origin} overrides {file}."


class SettingsKeeper(Protocol):
    """Reads and writes settings. Its methods raise FoldlineError if they fail."""

    @property
    def file(self) -> str:
        """The displayed path of the user's settings file."""

    def read(self) -> tuple[Setting, ...]: ...

    async def keep(self, key: str, text: str | None) -> str:
        """Write a setting, or remove it if `text` is None. Return a message."""

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        """Open a list of values."""


class SettingsScreen(Picker):
    """The list of settings. A change is written at once."""

    def __init__(self, keeper: SettingsKeeper, query: str = "") -> None:
        """Create the screen. `query` is the initial search."""
        super().__init__(
            TITLE,
            (),
            on_take=self._change,
            on_remove=self._reset,
            take_word="change",
            remove_word="reset",
            empty=NO_SETTINGS,
        )
        self._keeper = keeper
        self.settings: dict[str, Setting] = {}
        self.shows_advanced = False
        self._find.value = query

    def on_screen_resume(self) -> None:
        """Refresh the list.

        The screen that was in front may have changed settings.
        """
        self._refresh()

    def _refresh(self) -> None:
        """Read the settings again.

        If a file cannot be read, the old list is kept.
        """
        try:
            self.settings = {setting.key: setting for setting in self._keeper.read()}
        except FoldlineError as failure:
            self._show_error(failure)
        self.offer(self._items())

    def _items(self) -> Iterator[PickerItem]:
        """Yield the items to choose from.

        Without a search, advanced settings are left out until the user unfolds them, unless they are set.
        """
        shows_all = self.shows_advanced or bool(self._find.value)
        shown = [
            setting
            for setting in self.settings.values()
            if shows_all or setting.origin or setting.key not in ADVANCED
        ]
        yield from map(self._item, shown)
        if not shows_all:
            note = UNFOLD_NOTE.format(count=len(self.settings) - len(shown))
            yield PickerItem(UNFOLD, UNFOLD, note)

    @on(Input.Changed)
    def _offer_all_to_a_search(self) -> None:
        self.offer(self._items())

    def _item(self, setting: Setting) -> PickerItem:
        return PickerItem(
            setting.key,
            setting.label,
            setting.in_force,
            setting.source,
            "\n".join(_description(setting, self._keeper.file)),
        )

    def _show_error(self, failure: FoldlineError) -> None:
        self.tell(f"! {failure}")

    def _change(self, key: str) -> None:
        if key == UNFOLD:
            self.shows_advanced = True
            self.offer(self._items())
            return
        setting = self.settings[key]
        if setting.choices or key in ("model", "provider"):
            try:
                self._keeper.choose(
                    setting,
                    lambda text: None if text is None else self._keep(key, text),
                )
            except FoldlineError as failure:
                self._show_error(failure)
            return
        note = "\n".join((VALUE_HINT, *_description(setting, self._keeper.file)))
        dialog = LineDialog(
            f"{TITLE} ▸ {setting.label}",
            note,
            lambda text: self._keeper.keep(key, text.strip() or None),
            text=setting.value if setting.own is None else setting.own,
        )
        self.app.push_screen(dialog, lambda message: self.tell(message or ""))

    def _reset(self, key: str) -> None:
        if key in self.settings:
            self._keep(key, None)

    def _keep(self, key: str, text: str | None) -> None:
        self.run_worker(self._write(key, text), group="keep")

    async def _write(self, key: str, text: str | None) -> None:
        try:
            message = await self._keeper.keep(key, text)
        except FoldlineError as failure:
            self._show_error(failure)
        else:
            self._refresh()
            self.tell(message)


def _description(setting: Setting, file: str) -> Iterator[str]:
    """Yield sentences about a setting, the most important first."""
    declared = SETTINGS[setting.key]
    if setting.is_overruled:
        yield OVERRULED.format(origin=setting.origin, file=file)
    yield f"{setting.key}: {setting.meaning}"
    default = shown(declared.default) or unset_words(setting.key)
    values = allowed(declared)
    if setting.key == "theme":
        values = f"one of {len(setting.choices)}"
    yield f"{VALUES.format(values=values)} {DEFAULT_VALUE.format(value=default)}"
    if setting.origin and not setting.is_overruled:
        yield SET_BY.format(origin=setting.origin)
    elif all(setting.derived):
        value, source = setting.derived
        yield DERIVED.format(value=value, source=source)
    elif not setting.origin:
        yield NOT_SET


# --- the settings of the session ------------------------------------------------------------------------


def open_settings(chat: "SessionWindow", runner: Runner, query: str) -> None:
    """Open the Settings screen with an initial search."""
    chat.push_screen(SettingsScreen(OwnSettings(chat, runner), query.strip()))


def change_setting(chat: "SessionWindow", key: str, runner: Runner, text: str) -> None:
    """Change a setting, and report the result. Without a value, let the user choose one."""
    settings = OwnSettings(chat, runner)

    async def keep(value: str) -> str:
        saved = await settings.keep(key, value)
        return CHANGED.format(setting=LABELS[key], value=value, saved=saved)

    def change(value: str | None) -> None:
        if value:
            chat.report(keep(value), key)

    if text.strip():
        change(text.strip().lower())
        return
    try:
        settings_by_key = {setting.key: setting for setting in settings.read()}
        settings.choose(settings_by_key[key], change)
    except FoldlineError as failure:
        chat.remark(str(failure))


_AT_ONCE: Final = (
    "theme",
    "model",
    "provider",
    "fallback",
    "effort",
    "compaction",
    "context.cache_life",
)
"""Prefixes of settings that take effect in the running session."""


NO_THEME: Final = "No theme named {name}. Available: {names}"
CHANGED: Final = "{setting}: {value}. {saved}"
SAVED: Final = "Saved to {file}."
REMOVED: Final = "Removed from {file}."
SAVED_OVERRULED: Final = "Saved to {file}, but {origin} overrides it here."
TURN_RUNS: Final = "You can change the model once this turn has ended."
IN_EFFECT: Final = "It takes effect now."
AFTER_TURN: Final = "It takes effect after this turn."
AFTER_RESTART: Final = "It takes effect after a restart."
IN_NEW_SESSIONS: Final = "It takes effect in new sessions. Use /approvals to change the mode of this session."


class OwnSettings:
    """Reads and writes the user's settings, and applies them to the session."""

    def __init__(self, chat: "SessionWindow", runner: Runner) -> None:
        self._chat = chat
        self._app = cast("BaseApp[Any]", chat.app)
        self._agent = runner.agent
        self._now = runner.agent.settings or load_settings(runner.agent.state.cwd, {})

    @property
    def file(self) -> str:
        """The displayed path of the user's settings file."""
        return with_tilde(str(config_file(os.environ)))

    def read(self) -> tuple[Setting, ...]:
        """Read all settings.

        Raises:
            FoldlineError: a file cannot be read or is invalid.
        """
        self._now = self._now.again(self._agent.state.cwd, os.environ)
        return list_settings(
            self._now, os.environ, own_themes(self._app.themes), dict(self._derived())
        )

    def _derived(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield (key, (value, source)) for each value that the session derives."""
        state = self._agent.state
        info = state.models.llm.info
        provider = f"from {info.provider}" if info.provider else ""
        yield "model", (info.id, "built in" if info.provider == info.id else provider)
        yield "provider", (info.provider, "")
        source = "assumed" if state.models.window_is_assumed else f"from {info.id}"
        yield "context.window", (tokens(state.models.window), source)
        yield "compaction.model", (info.id, "from the session")
        with suppress(FoldlineError):  # the window is too small for a budget
            budget = state.budget.limits
            for name in (
                "threshold",
                "reserve_tokens",
                "keep_recent_tokens",
                "max_summary_tokens",
            ):
                yield (
                    f"compaction.{name}",
                    (tokens(getattr(budget, name)), "from the window"),
                )

    async def keep(self, key: str, text: str | None) -> str:
        """Write a setting, or remove it if `text` is None.

        Returns:
            A message about the result.

        Raises:
            FoldlineError: the value is invalid, or writing to disk failed.
        """
        if key == "theme" and text is not None:
            self._use_theme(text)
        value = None if text is None else in_toml(key, text)
        self._now = await asyncio.to_thread(
            change,
            self._now,
            self._agent.state.cwd,
            os.environ,
            key,
            value,
        )
        origin = self._now.origin(key)
        if text is not None and origin != str(config_file(os.environ)):
            return SAVED_OVERRULED.format(file=self.file, origin=with_tilde(origin))
        result = REMOVED if text is None else SAVED
        return f"{result.format(file=self.file)} {self._apply(key)}".rstrip()

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        """Open a list of values.

        For the model, open the Setup screen instead, which writes the choice itself.

        Raises:
            FoldlineError: a turn is running.
        """
        if not setting.choices:
            if self._chat.presenter.state.busy:
                raise FoldlineError(TURN_RUNS)
            self._chat.run_command(setting.key)
        elif setting.key == "theme":
            pick_theme(self._app, chosen)
        else:
            notes = {
                argument.label: argument.note
                for argument in arguments("strategy", "", self._app)
            }
            choices = [
                PickerItem(value, value, notes.get(value, ""))
                for value in setting.choices
            ]
            picker = Picker(setting.label, choices, marked=setting.value)
            self._chat.push_screen(picker, chosen)

    def _use_theme(self, name: str) -> None:
        """Show a theme, even if the settings cannot be saved or are overridden.

        Raises:
            FoldlineError: the theme does not exist, or its file is invalid.
        """
        if fault := self._app.theme_faults().get(name):
            raise FoldlineError(fault)
        names = own_themes(self._app.themes)
        if name not in names:
            raise FoldlineError(NO_THEME, name=name, names=", ".join(names))
        self._app.use_theme(name)

    def _apply(self, key: str) -> str:
        """Apply a changed setting to this session.

        Returns:
            A message that says when the setting takes effect.
        """
        now = self._agent.settings = self._now
        if key in ("theme", "theme_background"):
            self._app.use_theme(now.theme)
            self._app.paint_background(now.theme_background == "theme")
            return self._app.theme_clash(now.theme)
        if key == "approvals.mode":
            return IN_NEW_SESSIONS
        if not key.startswith(_AT_ONCE):
            return AFTER_RESTART
        tune = retune(self._agent.state, now, os.environ)

        def do() -> None:
            unused = tune()
            if unused is not None:
                self._chat.run_worker(unused.aclose(), group="unused")
            presenter = self._chat.presenter
            presenter.show(
                replace(
                    presenter.state, compaction_mode=self._agent.state.compaction.mode
                )
            )
            presenter.refresh_figures()

        return IN_EFFECT if at_rest(self._agent, do) else AFTER_TURN
