"""Settings: every setting, who set it, and another value, written beside the event loop; and /settings.

First the settings as rows: what each is, what the files say of it, and what is in force; then the screen.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from rich.cells import cell_len
from textual import on
from textual.binding import BindingType
from textual.widgets import Input

from foldline.agent.agent import at_rest, retune
from foldline.agent.layers import BY_NAME, MODELS, config_file, dotted
from foldline.agent.settings import DEFAULT, Settings, load_settings
from foldline.agent.settings_edit import change, in_toml, own_values, shown, unset_words
from foldline.agent.settings_schema import KEYS as SETTINGS
from foldline.agent.settings_schema import TABLES, allowed, choices_of, field_of, is_secret, kind_of
from foldline.compaction import load_strategy
from foldline.compaction.registry import BUILT_IN
from foldline.context.harmless import clean_line
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Piece, Span, cut_left, cut_right, piece, row, wrap_spans
from foldline.tui.dialogs import pick_theme
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, name_of, table
from foldline.tui.lists.picker import Choice, Picker
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.runner import Runner
from foldline.tui.themes import own_themes
from foldline.tui.widgets.lines import Line, Rule, boxed, filled, window_start

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp


Names = tuple[str, ...]
"""A key, name by name: the name of a model may hold dots."""

Kind = Literal["cycle", "pick", "text", "model", "provider", "file"]
"""How a value is changed: the next of a few, one of a list, typed, on the screen that chooses models or
providers, or only in the file."""

Effect = Literal["now", "start", "sessions"]
"""When a change counts: at once, with the next start, in new sessions."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as it is in force and as the user's own file has it."""

    names: Names
    group: str
    meaning: str
    allowed: str
    """What it may be, in words."""
    kind: Kind
    effect: Effect
    value: str = ""
    """In force, as a settings file says it; empty where none is."""
    unset: str = ""
    """What stands for it where none is."""
    origin: str = ""
    """Who set it; empty where nobody did."""
    default: str = ""
    own: str | None = None
    """What the user's file says; None where nothing."""
    overruled_by: str = ""
    """Who goes before the user's file; empty where nobody does."""
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return dotted(self.names)

    @property
    def is_typed(self) -> bool:
        """Whether it can be written in a field."""
        return self.kind == "text" or (self.kind == "pick" and self.names != ("theme",))

    @property
    def next_choice(self) -> str:
        """The value after the one in the user's file, or after the one in force; the first after the last."""
        now = self.value if self.own is None else self.own
        at = self.choices.index(now) if now in self.choices else -1
        return self.choices[(at + 1) % len(self.choices)]

    def holds(self, words: Sequence[str]) -> bool:
        """Whether all these words, in small letters, are in what is seen of it."""
        text = f"{self.group} {self.key} {self.value} {self.origin} {self.meaning}".lower()
        return all(word in text for word in words)


_GENERAL = "General"
_AT_ONCE = frozenset({"theme", "model", "provider"})
_FROM_THE_START = frozenset({"embedding_model", "window"})
"""Of compaction: the last names of keys that are built into a running session."""
_CYCLED = 4
"""Values of which the next one is taken, instead of one from a list."""


def list_settings(
    now: Settings, environ: Mapping[str, str], *, model: str, themes: Sequence[str]
) -> tuple[Setting, ...]:
    """All settings, by groups; what may be set for the session's model, and what was set for others.

    Raises:
        FoldlineError: the user's file cannot be read.
    """
    own = {_low(names): value for names, value in own_values(environ).items()}
    found = now.values()
    file = str(config_file(environ))
    return tuple(
        _setting(names, group, now, found, own, file, themes) for names, group in _listed(now, own, model)
    )


def _listed(now: Settings, own: Mapping[Names, object], model: str) -> Iterator[tuple[Names, str]]:
    """Every key, name by name, and the group it stands in: of tables with names, what was set."""
    for key in SETTINGS:
        section = key.rpartition(".")[0]
        yield tuple(key.split(".")), section.capitalize() or _GENERAL
    here = model.lower()
    for key in TABLES[MODELS]:
        yield (MODELS, here, key), f"This model: {model}"
    for section in BY_NAME:
        tables = {name: list(table.model_fields_set) for name, table in getattr(now, section).items()}
        for names in own:
            if names[0] == section and len(names) == 3 and names[2] not in tables.setdefault(names[1], []):
                tables[names[1]].append(names[2])
        for name, keys in tables.items():
            if (section, name) != (MODELS, here):
                yield from (((section, name, key), f"{_TITLES[section]} {name}") for key in sorted(keys))


_TITLES = {"models": "Model", "providers": "Provider", "mcp": "MCP server"}


def _setting(
    names: Names,
    group: str,
    now: Settings,
    found: Mapping[str, object],
    own: Mapping[Names, object],
    file: str,
    themes: Sequence[str],
) -> Setting:
    key, field = dotted(names), field_of(names)
    origin = now.origin(key)
    choices = choices_of(field)
    if key == "theme":
        choices = tuple(themes)
    elif key == "compaction.strategy":
        choices = tuple(BUILT_IN)
    ours = own.get(_low(names))
    before = "" if origin in (DEFAULT, file) else origin
    if ours is not None and names[0] == MODELS and key not in found:
        # What is said for all models for this run goes before what a file says for one.
        origin = before = now.origin(f"{'context' if names[-1] == 'window' else 'compaction'}.{names[-1]}")
    return Setting(
        names,
        group,
        meaning=(field.description or "").replace("\n", " ").replace("`", ""),
        allowed=_allowed(key, allowed(field), choices),
        kind=_kind(names, key, kind_of(field), choices),
        effect=_effect(names, key),
        value=shown(found.get(key)),
        unset=unset_words(names),
        origin="" if origin == DEFAULT else with_tilde(origin),
        default=shown(field.default),
        own=None if ours is None else "(set)" if is_secret(names) else shown(ours),
        overruled_by=with_tilde(before),
        choices=choices,
    )


def _low(names: Names) -> Names:
    """Servers do not tell models and providers apart by upper and lower case."""
    return (names[0], names[1].lower(), *names[2:]) if names[0] in BY_NAME and len(names) > 2 else names


def _allowed(key: str, words: str, choices: Sequence[str]) -> str:
    return f"one of {len(choices)}, listed by Enter" if key == "theme" else words


def _kind(names: Names, key: str, kind: object, choices: Sequence[str]) -> Kind:
    if key in ("model", "provider"):
        return "model" if key == "model" else "provider"
    if kind not in (str, int, float, bool) and not choices and "Amount" not in str(kind):
        return "file"
    if is_secret(names):
        return "file"
    if choices:
        return "cycle" if len(choices) <= _CYCLED and key != "theme" else "pick"
    return "text"


def _effect(names: Names, key: str) -> Effect:
    if key == "approvals.mode":
        return "sessions"
    compaction = names[0] in ("compaction", MODELS) and names[-1] not in _FROM_THE_START
    return "now" if key in _AT_ONCE or compaction else "start"


# --- the screen -----------------------------------------------------------------------------------------

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
_VALUE_AT_LEAST: Final = 14
_KEY_AT_MOST: Final = 36
_ORIGIN_FROM: Final = 56
"""Columns from which a row says who set the value."""


class SettingsScreen(ListScreen[None, Setting]):
    """What is changed counts as soon as it is written down; the screen shows what is in force then."""

    DEFAULT_CSS: ClassVar[str] = "SettingsScreen > ListBox { width: 104; }"
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(self, keeper: "OwnSettings", query: str = "") -> None:
        """`keeper`: reads the settings, and writes them down."""
        self.query_field = Field("settings-query", "type to find")
        self.value_field = Field("settings-value", "empty: reset")
        super().__init__((), (self.query_field, self.value_field))
        self._keeper = keeper
        self.settings = keeper.settings
        self.searching = self.editing = False
        fault = self._read()
        self._search(query)
        self.fault = fault
        """Why what is typed is no value, or why the last change was not kept."""
        self.news = ""
        """What became of the last change."""

    def height_wanted(self) -> int:
        return 34

    def field(self) -> Field | None:
        return self.value_field if self.editing else self.query_field if self.searching else None

    def field_place(self, height: int) -> tuple[int, int]:
        return (height - 1 - _detail_lines(height) if self.editing else 1), 2

    def on_screen_resume(self) -> None:
        """A screen above is closed: it may have changed something."""
        if not self.fault:
            self._refresh()

    def _read(self) -> str:
        """Take the settings as they are now; what is wrong with a file that cannot be read, else nothing."""
        try:
            self._keeper.read()
        except FoldlineError as failure:
            return str(failure)
        self.settings = self._keeper.settings
        return ""

    def _refresh(self) -> None:
        """Show the settings as they are now; the mark stays with its key."""
        if fault := self._read():
            self._say(fault=fault)
        else:
            self.show_rows(self._found(), lambda one, other: one.names == other.names)

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

    def _search(self, query: str) -> None:
        """Show what holds these words. The mark goes to the key of that name, else stays, else goes to the
        first key they are in."""
        self._query = query
        before, self.rows = self.row, self._found()
        words = query.lower().split()

        def rank(at: int) -> int:
            each = self.rows[at]
            if words and each.names[-1].lower() == "".join(words):
                return 0
            if before is not None and each.names == before.names:
                return 1
            return 2 if all(word in each.key.lower() for word in words) else 3

        self.at = min(range(len(self.rows)), key=rank, default=0)
        self.fault = self.news = ""

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self.query_field and event.value != self._query:
            self._search(event.value)
        elif event.input is self.value_field and self.editing and self.row is not None:
            text = event.value.strip()
            self.fault = _fault(self.row, text) if text else ""
        self.update()

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        if self.searching:
            self.searching = False
            self.update()
        elif self.editing and self.row is not None and not self.fault:
            self.editing = False
            self._keep(self.row, self.value_field.value.strip() or None)

    def leave(self) -> None:
        if self.editing:
            self.editing = False
            self._say()
        elif self._query or self.searching:
            self.searching = False
            self.query_field.value = ""
            self._search("")
            self.update()
        else:
            self.dismiss(None)

    # --- changing ---------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        in_list = not self.editing and not self.searching
        match command:
            case "help" | "close":
                return True
            case "search":
                return in_list
            case "change":
                return in_list and self.row is not None
            case "edit":
                return in_list and self.row is not None and self.row.is_typed
            case "reset":
                return in_list and self.row is not None and self.row.own is not None
            case _:
                return not self.editing

    def act(self, command: str) -> None:
        setting = self.row
        if command == "search":
            self.searching = True
            self._say()
        elif setting is not None:
            match command:
                case "change":
                    self._change(setting)
                case "edit":
                    self._edit(setting)
                case "reset":
                    self._keep(setting, None)

    def _change(self, setting: Setting) -> None:
        match setting.kind:
            case "cycle" if (setting.key, setting.next_choice) == UNCONFIRMED:
                self.confirm(_SURE, "change", partial(self._keep, setting, setting.next_choice))
            case "cycle":
                self._keep(setting, setting.next_choice)
            case "text":
                self._edit(setting)
            case "file":
                self._say(news=f"Lists and tables are written in {self._keeper.file}, in an editor.")
            case _:
                self._choose(setting)

    def _choose(self, setting: Setting) -> None:
        def chosen(text: str | None) -> None:
            if text is not None:
                self._keep(setting, text)

        try:
            self._keeper.choose(setting, chosen)
        except FoldlineError as failure:
            self._say(fault=str(failure))

    def _edit(self, setting: Setting) -> None:
        text = setting.value if setting.own is None else setting.own
        self.value_field.value = text
        self.value_field.cursor_position = len(text)
        self.editing, self.searching = True, False
        self._say()

    def _keep(self, setting: Setting, text: str | None) -> None:
        self._say()
        self.run_worker(self._kept(setting, text), group="keep")

    async def _kept(self, setting: Setting, text: str | None) -> None:
        try:
            news = await self._keeper.keep(setting, text)
        except FoldlineError as failure:
            self._say(fault=str(failure))
            return
        self._refresh()
        if not self.fault:
            self._say(news=news)

    # --- drawing ----------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        below, setting = _detail_lines(height), self.row
        rule = Rule()
        details: list[Line] = []
        if setting is not None:
            rule = Rule(((cut_left(clean_line(setting.key), width - 8), "text bold"),))
            details = [[(" ", ""), *line] for line in self._details(setting, width - 4, below)]
        rows = self._list(width - 2, max(height - 4 - below, 1))
        body: list[Line | Rule] = [self._search_line(), *rows, rule, *filled(details, below)]
        count = f"{self.at + 1} of {len(self.rows)}" if self.rows else ""
        return boxed(width, (("Settings", "text bold"),), count, body, *self.foot(width))

    def _search_line(self) -> Line:
        if self.searching:
            return [(" ❯ ", "accent")]
        if self._query:
            return [(" ❯ ", "muted"), (clean_line(self._query), "text")]
        return [("   ", ""), (f"{name_of(KEYS, 'search')} find a setting", "muted")]

    def _list(self, width: int, room: int) -> list[Line]:
        """The settings around the marked one, each group below its name."""
        column = min(max((cell_len(clean_line(each.key)) for each in self.rows), default=0), _KEY_AT_MOST)
        lines: list[Line] = []
        rows: dict[int, int] = {}
        for at, each in enumerate(self.rows):
            if at == 0 or each.group != self.rows[at - 1].group:
                lines.append([("   ", ""), (clean_line(each.group), "muted bold")])
            rows[at] = len(lines)
            lines.append(_row_line(each, at == self.at, column, width))
        if not lines:
            lines = [[], [("   No setting holds that.", "muted")]]
        marked = rows.get(self.at, 0)
        first = window_start(marked, len(lines), room)
        if first and first == marked:
            first -= 1
        self.seen = {2 + line - first: at for at, line in rows.items() if first <= line < first + room}
        return filled(lines[first:], room)

    def _details(self, setting: Setting, width: int, most: int) -> list[Line]:
        """What it means, what it may be, who set it; at the end what a change does, or did. While a value is
        typed, that stands first, with what is wrong with it."""
        meaning = wrap_spans([(clean_line(setting.meaning), "text")], width)[:2]
        default = setting.default or setting.unset or "empty"
        allowed: Line = [(cut_right(f"May be {setting.allowed}. Default: {default}.", width), "muted")]
        if self.editing:
            judged = (self.fault, "alert") if self.fault else ("Enter saves it.", "muted")
            return [[("❯ ", "accent")], *wrap_spans([judged], width)[:2], allowed, *meaning]
        last = wrap_spans([self._last(setting)], width)[:most]
        facts = [*meaning, allowed, self._set_by(setting, width)]
        return [*filled(facts, most - len(last)), *last]

    def _last(self, setting: Setting) -> Span:
        if self.question is not None:
            return self.question.sentence, "alert"
        if self.fault:
            return f"! {clean_line(self.fault)}", "alert"
        return (clean_line(self.news), "text") if self.news else (_EFFECTS[setting.effect], "muted")

    def _set_by(self, setting: Setting, width: int) -> Line:
        if setting.overruled_by:
            says = f", which says {setting.own or 'empty'}" if setting.own is not None else ""
            words = f"{clean_line(setting.overruled_by)} goes before {self._keeper.file}{clean_line(says)}."
            return [("! ", "altered"), (cut_right(words, width - 2), "text")]
        who = f"Set by {clean_line(setting.origin)}." if setting.origin else "Not set: the default holds."
        return [(cut_right(who, width), "muted")]

    def hints(self) -> list[tuple[str, str]]:
        esc = name_of(KEYS, "close")
        if self.editing:
            return [("Enter", "save"), (esc, "cancel")]
        return [("Enter", "to the list"), (esc, "end search")] if self.searching else super().hints()

    def word(self, key: ScreenKey[Any]) -> str:
        return "end search" if key.id == "close" and self._query else key.hint


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


def _row_line(setting: Setting, marked: bool, column: int, width: int) -> Line:
    """`▶compaction.mode       ask                 config.toml`, exactly as wide."""
    origin = clean_line(setting.origin.rpartition("/")[2])  # of a file, the name
    origin = cut_left(origin, width // 3) if width >= _ORIGIN_FROM else ""
    column = min(column, max(width - cell_len(origin) - _VALUE_AT_LEAST - 8, 8))
    key = cut_left(clean_line(setting.key), column)
    style = "text bold" if setting.origin else "text" if setting.value else "muted"
    if (setting.key, setting.value) == UNCONFIRMED:
        style = "alert bold"
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        Piece(((key, "text reverse" if marked else "text"), (" " * (column - cell_len(key)), "")), gap=1),
        piece(clean_line(setting.value or setting.unset), style, gap=2, cut="right"),
    ]
    return row(left, [piece(origin, "muted")] if origin else [], width)


def open_settings(app: "FoldlineApp", runner: Runner, query: str) -> None:
    """Show all settings; a `query` finds some of them."""
    app.push_screen(SettingsScreen(OwnSettings(app, runner), query.strip()))


def settings_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    return {"settings": lambda runner, query: open_settings(app, runner, query)}


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
        model, themes = self._agent.state.llm.info.id, own_themes(self._app.themes)
        try:
            return list_settings(self._now, os.environ, model=model, themes=themes)
        except FoldlineError:
            return list_settings(self._now, {}, model=model, themes=themes)

    async def keep(self, setting: Setting, text: str | None) -> str:
        """Write the value down, or take it out where it is None; what became of it, as a sentence.

        Raises:
            FoldlineError: it was not kept, and nothing has changed.
        """
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
        """Let the user choose from a list, or on a screen that keeps the choice itself.

        Raises:
            FoldlineError: not now.
        """
        if setting.kind in ("model", "provider"):
            if self._app.state.busy:
                raise FoldlineError("The model is switched between turns: this one is not over yet.")
            self._app.chat.run_command(setting.kind)
        elif setting.key == "theme":
            pick_theme(self._app, chosen)
        else:
            notes = _about(setting.choices) if setting.key == "compaction.strategy" else {}
            choices = [Choice(each, each, notes.get(each, "")) for each in setting.choices]
            picker = Picker(setting.key, choices, marked=setting.value, notes_in_full=True)
            self._app.push_screen(picker, chosen)

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
            self._app.presenter.show(replace(self._app.state, compaction_mode=self._agent.state.mode))
            self._app.presenter.refresh_figures()

        return "It counts now." if at_rest(self._agent, do) else "It counts after this turn."


def _about(names: Sequence[str]) -> dict[str, str]:
    """The first sentence that each strategy says of itself."""
    docs = {name: " ".join((BUILT_IN[name].__doc__ or "").split()) for name in names}
    return {name: doc.partition(". ")[0].rstrip(".") for name, doc in docs.items()}
