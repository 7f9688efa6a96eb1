"""Settings: every setting, who set it, and another value, written beside the event loop; and /settings."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from rich.cells import cell_len
from textual import on
from textual.binding import BindingType
from textual.widgets import Input

from foldline.agent.agent import at_rest, retune
from foldline.agent.layers import MODELS, config_file, dotted
from foldline.agent.settings import DEFAULT, Settings, load_settings
from foldline.agent.settings_edit import change, in_toml, own_values, shown, unset_words
from foldline.agent.settings_schema import KEYS as SETTINGS
from foldline.agent.settings_schema import TABLES, allowed, choices_of, field_of
from foldline.compaction import load_strategy
from foldline.compaction.registry import BUILT_IN
from foldline.context.harmless import clean_line
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Piece, cut_left, piece, row, wrap_spans
from foldline.tui.dialogs import pick_theme
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, name_of, table
from foldline.tui.lists.picker import Choice, Picker
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.runner import Runner
from foldline.tui.themes import own_themes
from foldline.tui.widgets.lines import Line, Rule, boxed, filled

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp

Names = tuple[str, ...]
"""A key, name by name: the name of a model may hold dots."""

_CYCLED: Final = 4
"""Values of which the next one is taken, instead of one from a list."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as it is in force and as the user's own file has it."""

    names: Names
    value: str
    """In force, as a settings file says it; empty where none is."""
    origin: str
    """Who set it; empty where nobody did."""
    own: str | None
    """What the user's file says; None where nothing."""
    overruled_by: str
    """Who goes before the user's file; empty where nobody does."""
    choices: tuple[str, ...]

    @property
    def key(self) -> str:
        return dotted(self.names)

    @property
    def meaning(self) -> str:
        return (field_of(self.names).description or "").replace("\n", " ").replace("`", "")

    @property
    def changed_by(self) -> Literal["next", "list", "typing", "screen"]:
        """How another value is chosen: the next of a few, one of a list, typed, or on the screen that chooses
        models and providers."""
        if self.key in ("model", "provider"):
            return "screen"
        if not self.choices:
            return "typing"
        return "list" if self.key == "theme" or len(self.choices) > _CYCLED else "next"

    @property
    def next_choice(self) -> str:
        """The value after the one in the user's file, or after the one in force; the first after the last."""
        now = self.value if self.own is None else self.own
        at = self.choices.index(now) if now in self.choices else -1
        return self.choices[(at + 1) % len(self.choices)]

    def holds(self, words: Sequence[str]) -> bool:
        """Whether all these words, in small letters, are in what is seen of it."""
        text = f"{self.key} {self.value} {self.origin} {self.meaning}".lower()
        return all(word in text for word in words)


def effect_of(names: Names) -> Literal["now", "start", "sessions"]:
    """When a change counts: at once, with the next start, in new sessions."""
    if names == ("approvals", "mode"):
        return "sessions"
    built_in = names[-1] in ("embedding_model", "window")
    at_once = names[0] in ("theme", "model", "provider", "effort", "compaction", MODELS) and not built_in
    return "now" if at_once or names == ("context", "cache_life") else "start"


def list_settings(
    now: Settings, environ: Mapping[str, str], *, model: str, themes: Sequence[str]
) -> tuple[Setting, ...]:
    """All settings, and what may be set for the session's model alone. What is set for other models, for
    providers and tool servers is said by `foldline config`.

    Raises:
        FoldlineError: the user's file cannot be read.
    """
    # Servers do not tell models apart by upper and lower case.
    own = {tuple(map(str.lower, names)): value for names, value in own_values(environ).items()}
    found, file = now.values(), str(config_file(environ))

    def setting(names: Names) -> Setting:
        key, ours = dotted(names), own.get(names)
        origin = now.origin(key)
        if ours is not None and names[0] == MODELS and key not in found:
            # What is said for all models for this run goes before what a file says for one.
            origin = now.origin(f"{'context' if names[-1] == 'window' else 'compaction'}.{names[-1]}")
        listed = {"theme": tuple(themes), "compaction.strategy": tuple(BUILT_IN)}
        return Setting(
            names,
            value=shown(found.get(key)),
            origin="" if origin == DEFAULT else with_tilde(origin),
            own=None if ours is None else shown(ours),
            overruled_by="" if origin in (DEFAULT, file) else with_tilde(origin),
            choices=listed.get(key) or choices_of(field_of(names)),
        )

    of_all = (tuple(key.split(".")) for key in SETTINGS)
    return tuple(map(setting, (*of_all, *((MODELS, model.lower(), key) for key in TABLES[MODELS]))))


KEYS: Final = table(
    "settings",
    "Setting",
    ScreenKey[None](
        "change",
        ("enter", "space"),
        "Another value: the next one, one of a list, or a field to type it in. It is kept in your "
        "config.toml, with everything else in that file as it is.",
        hint="change",
    ),
    ScreenKey("edit", ("e",), "Types the value, also one that is on no list.", hint="type"),
    ScreenKey("reset", ("r", "delete"), "Takes the value out of your config.toml.", hint="reset"),
    "List",
    ScreenKey("search", ("slash",), "Finds settings by key, value, meaning, or who set them.", hint="find"),
    *moves("setting", home=("home", "ctrl+home"), end=("end", "ctrl+end")),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Leaves the field, ends the search, then closes.", hint="close"),
)

UNCONFIRMED: Final = ("approvals.mode", "all")
"""The one value that is asked for twice, as on the Permissions screen."""
_SURE: Final = "! In new sessions everything will run without asking. Again: yes, any other key: no"
_EFFECTS: Final = {
    "now": "A change counts at once, or after the turn that runs.",
    "start": "A change counts from the next start on.",
    "sessions": "A change counts in new sessions; /approvals switches this one.",
}


class SettingsScreen(ListScreen[None, Setting]):
    """What is changed counts as soon as it is written down; the screen shows what is in force then."""

    DEFAULT_CSS: ClassVar[str] = "SettingsScreen > ListBox { width: 104; }"
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(self, keeper: "OwnSettings", query: str = "") -> None:
        """`keeper`: reads the settings, and writes them down."""
        self.entry = Field("settings-entry", "")
        super().__init__((), (self.entry,))
        self._keeper = keeper
        self.settings = keeper.settings
        self.opened_for: Literal["", "find", "type"] = ""
        """What the field is open for; empty: it is not."""
        self._query = ""
        self.fault = self.news = ""
        """Why what is typed is no value, or why the last change was not kept; what became of that change."""
        self._find(query)
        self._refresh()

    def height_wanted(self) -> int:
        return 34

    def field(self) -> Field | None:
        return self.entry if self.opened_for else None

    def field_place(self, height: int) -> tuple[int, int]:
        return (height - 1 - _detail_lines(height) if self.opened_for == "type" else 1), 2

    def on_screen_resume(self) -> None:
        """A screen above is closed: it may have changed something."""
        self._refresh()

    def _refresh(self) -> None:
        """Show the settings as they are now; of files that cannot be read, as they were before."""
        try:
            self._keeper.read()
            self.settings = self._keeper.settings
        except FoldlineError as failure:
            self.fault = str(failure)
        self.show_rows(self._found(), _is_same)

    def _say(self, *, fault: str = "", news: str = "") -> None:
        self.fault, self.news = fault, news
        self.update()

    def move_to(self, at: int) -> None:
        self.fault = self.news = ""
        super().move_to(at)

    # --- finding ----------------------------------------------------------------------------------------

    def _found(self) -> Sequence[Setting]:
        words = self._query.lower().split()
        return [each for each in self.settings if each.holds(words)] if words else self.settings

    def _find(self, query: str) -> None:
        """Show what holds these words: the mark goes to the key of that name, else to one they are in."""
        self._query = query
        self.show_rows(self._found(), _is_same)
        if wanted := query.lower().strip():
            far = [(each.names[-1].lower() != wanted, wanted not in each.key.lower()) for each in self.rows]
            self.at = far.index(min(far)) if far else 0
        self._say()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        text = self.entry.value
        if self.opened_for == "find" and text != self._query:
            self._find(text)
        elif self.opened_for == "type" and self.row is not None:
            self._say(fault=_fault(self.row, text) if text.strip() else "")

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        if self.opened_for == "find":
            self._open("")
        elif self.opened_for and self.row is not None and not self.fault:
            self._open("")
            self._keep(self.row, self.entry.value.strip() or None)

    def _open(self, wanted: Literal["", "find", "type"], text: str = "", placeholder: str = "") -> None:
        """Open the field for this, or close it."""
        self.opened_for = wanted
        if wanted:
            self.entry.placeholder, self.entry.value = placeholder, text
            self.entry.cursor_position = len(text)
        self._say()

    def leave(self) -> None:
        if self.opened_for == "type":
            self._open("")
        elif self._query or self.opened_for:
            self._open("")
            self._find("")
        else:
            self.dismiss(None)

    # --- changing ---------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        setting = self.row if not self.opened_for else None
        match command:
            case "help" | "close":
                return True
            case "search":
                return not self.opened_for
            case "edit" if setting is not None:
                return setting.changed_by in ("typing", "list") and setting.key != "theme"
            case "change" | "edit":
                return setting is not None
            case "reset":
                return setting is not None and setting.own is not None
            case _:
                return self.opened_for != "type"

    def act(self, command: str) -> None:
        setting = self.row
        if command == "search":
            self._open("find", self._query, "type to find")
        elif setting is None:
            return
        elif command == "reset":
            self._keep(setting, None)
        elif command == "edit" or setting.changed_by == "typing":
            self._open("type", setting.value if setting.own is None else setting.own, "empty: reset")
        elif setting.changed_by == "next":
            keep = partial(self._keep, setting, setting.next_choice)
            is_sure = (setting.key, setting.next_choice) != UNCONFIRMED
            keep() if is_sure else self.confirm(_SURE, "change", keep)
        else:
            try:
                self._keeper.choose(setting, lambda text: None if text is None else self._keep(setting, text))
            except FoldlineError as failure:
                self._say(fault=str(failure))

    def _keep(self, setting: Setting, text: str | None) -> None:
        self._say()
        self.run_worker(self._kept(setting.names, text), group="keep")

    async def _kept(self, names: Names, text: str | None) -> None:
        try:
            self.news = await self._keeper.keep(names, text)
        except FoldlineError as failure:
            self._say(fault=str(failure))
        else:
            self._refresh()

    # --- drawing ----------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        below, rule, details = _detail_lines(height), Rule(), list[Line]()
        if self.row is not None:
            rule = Rule(((cut_left(clean_line(self.row.key), width - 8), "text bold"),))
            details = [[(" ", ""), *line] for line in self._details(self.row, width - 4)]
        head: Line = [("   ", ""), (f"{name_of(KEYS, 'search')} find a setting", "muted")]
        if self._query or self.opened_for == "find":
            head = [(" ❯ ", "accent"), (clean_line(self._query), "text")]
        widest = max((cell_len(clean_line(each.key)) for each in self.rows), default=0)
        draw = partial(_row_line, column=min(widest, width // 2 - 4), width=width - 2)
        rows = self.row_lines(max(height - 4 - below, 1), 2, draw, [[("   No setting holds that.", "muted")]])
        count = f"{self.at + 1} of {len(self.rows)}" if self.rows else ""
        body: list[Line | Rule] = [head, *rows, rule, *filled(details, below)]
        return boxed(width, (("Settings", "text bold"),), count, body, *self.foot(width))

    def _details(self, setting: Setting, width: int) -> list[Line]:
        """The field where one types, what became of a change, what it means, what it may be, who set it."""
        spans: list[Line] = []
        if self.question is not None:
            spans.append([(self.question.sentence, "alert")])
        elif self.fault:
            spans.append([(f"! {clean_line(self.fault)}", "alert")])
        elif self.news:
            spans.append([(clean_line(self.news), "text")])
        declared = field_of(setting.names)
        may_be = f"one of {len(setting.choices)}" if setting.key == "theme" else allowed(declared)
        default = shown(declared.default) or unset_words(setting.names)
        who = f"Set by {setting.origin}." if setting.origin else "Not set: the default holds."
        if setting.overruled_by:
            says = "" if setting.own is None else f", which says {setting.own or 'empty'}"
            who = f"! {setting.overruled_by} goes before {self._keeper.file}{says}."
        spans += [
            [(clean_line(setting.meaning), "text")],
            [(f"May be {may_be}. Default: {default}.", "muted")],
            [(clean_line(who), "text" if setting.overruled_by else "muted")],
            [(_EFFECTS[effect_of(setting.names)], "muted")],
        ]
        field: list[Line] = [[("❯ ", "accent")]] if self.opened_for == "type" else []
        return [*field, *(line for each in spans for line in wrap_spans(each, width))]

    def hints(self) -> list[tuple[str, str]]:
        if not self.opened_for:
            return super().hints()
        done, esc = ("save", "cancel") if self.opened_for == "type" else ("to the list", "end search")
        return [("Enter", done), (name_of(KEYS, "close"), esc)]

    def word(self, key: ScreenKey[Any]) -> str:
        return "end search" if key.id == "close" and self._query else key.hint


def _is_same(one: Setting, other: Setting) -> bool:
    return one.names == other.names


def _fault(setting: Setting, text: str) -> str:
    """Why this text is no value for it, in one sentence; empty where it is one."""
    try:
        in_toml(setting.names, text)
    except FoldlineError as failure:
        return str(failure)
    return ""


def _detail_lines(height: int) -> int:
    """Lines for what is known of the marked setting."""
    return 6 if height >= 20 else 3


def _row_line(setting: Setting, marked: bool, *, column: int, width: int) -> Line:
    """`▶compaction.mode       ask                 config.toml`, exactly as wide."""
    key = cut_left(clean_line(setting.key), column)
    style = "text bold" if setting.origin else "text" if setting.value else "muted"
    if (setting.key, setting.value) == UNCONFIRMED:
        style = "alert bold"
    value = clean_line(setting.value or unset_words(setting.names))
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        Piece(((key, "text reverse" if marked else "text"), (" " * (column - cell_len(key)), "")), gap=1),
        Piece(((value, style),), gap=2, cut="right", least=12),
    ]
    origin = clean_line(setting.origin.rpartition("/")[2])  # of a file, the name
    return row(left, [piece(origin, "muted", rank=1)] if origin else [], width)


# --- the settings of the session ------------------------------------------------------------------------


def settings_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    def show(runner: Runner, query: str) -> None:
        """All settings; a query finds some of them."""
        app.push_screen(SettingsScreen(OwnSettings(app, runner), query.strip()))

    return {"settings": show}


class OwnSettings:
    """The user's own settings, and the session they hold in."""

    def __init__(self, app: "FoldlineApp", runner: Runner) -> None:
        self._app = app
        self._agent = runner.agent
        self._now = runner.agent.settings or load_settings(runner.agent.state.cwd, {})

    @property
    def file(self) -> str:
        """The file they are kept in, as people are told of it."""
        return with_tilde(str(config_file(os.environ)))

    def read(self) -> None:
        """Look at the files again. Raises FoldlineError where one of them is broken."""
        self._now = self._now.again(self._agent.state.cwd, os.environ)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """As they were read last; of a broken file, what was in force before it broke."""
        listed = partial(
            list_settings, self._now, model=self._agent.state.llm.info.id, themes=own_themes(self._app.themes)
        )
        try:
            return listed(os.environ)
        except FoldlineError:
            return listed({})

    async def keep(self, names: Names, text: str | None) -> str:
        """Write the value down, or take it out where it is None; what became of it, as a sentence.

        Raises:
            FoldlineError: it was not kept, and nothing has changed.
        """
        value = None if text is None else in_toml(names, text)
        if text is not None and names == ("compaction", "strategy"):
            load_strategy(text, self._agent.state.dependencies)  # a name may be right, and nothing be there
        elif names == ("theme",) and (fault := self._app.theme_faults().get(text or "")):
            raise FoldlineError(fault)
        now = await asyncio.to_thread(change, self._now, self._agent.state.cwd, os.environ, names, value)
        self._now = now
        origin = now.origin(dotted(names))
        if text is not None and origin != str(config_file(os.environ)):
            return f"Kept in {self.file}. {with_tilde(origin)} goes before it here."
        done = "Taken out of" if text is None else "Kept in"
        return f"{done} {self.file}. {self._hold(names, now)}".rstrip()

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        """Let the user choose from a list, or on a screen that keeps the choice itself.

        Raises:
            FoldlineError: not now.
        """
        if setting.changed_by == "screen":
            if self._app.state.busy:
                raise FoldlineError("The model is switched between turns: this one is not over yet.")
            self._app.chat.run_command(setting.key)
        elif setting.key == "theme":
            pick_theme(self._app, chosen)
        else:
            choices = [Choice(each, each, _about(each)) for each in setting.choices]
            picker = Picker(setting.key, choices, marked=setting.value, notes_in_full=True)
            self._app.push_screen(picker, chosen)

    def _hold(self, names: Names, now: Settings) -> str:
        """Let a change hold in this session, where it can; what is to be said of that."""
        self._agent.settings = now
        effect = effect_of(names)
        if names == ("theme",):
            self._app.wear(now.theme)
            return ""
        if effect != "now":
            return _EFFECTS[effect].replace("A change", "It")
        tune = retune(self._agent.state, now, os.environ)

        def do() -> None:
            unused = tune()
            if unused is not None:
                self._app.run_worker(unused.aclose(), group="unused")
            self._app.presenter.show(replace(self._app.state, compaction_mode=self._agent.state.mode))
            self._app.presenter.refresh_figures()

        return "It counts now." if at_rest(self._agent, do) else "It counts after this turn."


def _about(strategy: str) -> str:
    """The first sentence that a strategy says of itself; of other choices nothing."""
    doc = " ".join((BUILT_IN[strategy].__doc__ or "").split()) if strategy in BUILT_IN else ""
    return doc.partition(". ")[0].rstrip(".")
