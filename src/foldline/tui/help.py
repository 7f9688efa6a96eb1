"""Help, over any screen: its keys first, then what works everywhere, then the slash commands."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from foldline.tui.blocks.cells import Span
from foldline.tui.help_lines import HelpGroup, HelpPart, HelpRow, found, help_lines
from foldline.tui.keys.active import ActiveTable, active_tables
from foldline.tui.keys.commands import CHAT, COMMANDS, Command, is_everywhere
from foldline.tui.keys.table import ScreenKey, bindings, name_of, names_of, table
from foldline.tui.widgets.fields import FieldTop
from foldline.tui.widgets.lines import HEAVY, edge, sides
from foldline.tui.widgets.status import StatusLine

KEYS: Final[tuple[ScreenKey[None], ...]] = table(
    "help",
    ScreenKey("up", ("up",), "One line up.", "Help", place="anywhere"),
    ScreenKey("down", ("down",), "One line down.", "Help", place="anywhere"),
    ScreenKey("page-up", ("pageup",), "A screen up.", "Help", place="anywhere"),
    ScreenKey("page-down", ("pagedown",), "A screen down.", "Help", place="anywhere"),
    ScreenKey("first", ("home",), "To the first line.", "Help", place="anywhere"),
    ScreenKey("last", ("end",), "To the last line.", "Help", place="anywhere"),
    ScreenKey(
        "close",
        ("escape", "f1"),
        "Empties the field, then closes. So does the key that opened the help.",
        "Help",
        place="anywhere",
    ),
)

_WIDEST: Final = 176
"""Cells of the box: two columns; longer lines are hard to read."""
_FAR: Final = 100_000


def open_help(app: App[Any]) -> None:
    """Show what the keys of the screen in front mean."""
    screen = app.screen
    if isinstance(screen, HelpScreen):
        screen.dismiss()
    else:
        app.push_screen(HelpScreen(*help_of(screen)))


def help_of(screen: Screen[Any]) -> tuple[str, list[HelpPart]]:
    """The title and the parts of the help for a screen."""
    here = active_tables(screen)
    inner = [table for table in here if table.name != CHAT]
    parts = [_part(table) for table in (*inner, *(each for each in here if each.name == CHAT))]
    parts.append(HelpPart("On every screen", (HelpGroup("", tuple(_everywhere())),)))
    if any(table.name == CHAT for below in screen.app.screen_stack for table in active_tables(below)):
        parts.append(HelpPart("Slash commands, in the prompt", (HelpGroup("", tuple(_slash())),)))
    first, *others = (part for part in parts if part.count)
    return first.title, [replace(first, title=""), *others]


def _part(table: ActiveTable) -> HelpPart:
    rows: dict[str, list[HelpRow]] = {}
    for key, works in table.entries():
        if key.pressed and not (table.name == CHAT and is_everywhere(key)):
            also = f" Also /{key.slash}." if isinstance(key, Command) and key.slash else ""
            rows.setdefault(key.group, []).append(HelpRow(" ".join(key.names), key.help + also, works))
    return HelpPart(table.table.title, tuple(HelpGroup(group, tuple(each)) for group, each in rows.items()))


def _everywhere() -> Iterator[HelpRow]:
    for key in COMMANDS:
        if is_everywhere(key):
            yield HelpRow(" ".join(key.names), key.help)


def _slash() -> Iterator[HelpRow]:
    for command in sorted((command for command in COMMANDS if command.slash), key=lambda each: each.slash):
        yield HelpRow(command.usage, command.help)


class _Body(StatusLine, can_focus=False):
    """The lines, as far as there is room for them."""

    DEFAULT_CSS: ClassVar[str] = "_Body { height: 1fr; }"

    def __init__(self, parts: Sequence[HelpPart]) -> None:
        super().__init__()
        self._parts = parts
        self._total = sum(part.count for part in parts)
        self._shown = tuple(parts)
        self._top = 0

    def show(self, typed: str) -> None:
        """Only what holds these words."""
        self._shown, self._top = found(self._parts, typed), 0
        self.update()

    def scroll_lines(self, lines: int) -> None:
        self._top = max(self._top + lines, 0)
        self.update()

    @property
    def rows(self) -> int:
        """Lines that are seen at once."""
        return max(self.size.height - 1, 1)

    def lines(self, width: int) -> list[list[Span]]:
        every = help_lines(self._shown, max(width - 4, 1))
        if not every:
            every = [[("Nothing here is called that.", "muted")]]
        self._top = min(self._top, max(len(every) - self.rows, 0))
        shown = every[self._top : self._top + self.rows]
        inside = [sides(HEAVY, [(" ", ""), *line], width) for line in shown]
        inside += [sides(HEAVY, [], width)] * (self.rows - len(inside))
        return self.with_message(
            [*inside, edge(HEAVY, False, self._keys(width), self._place(len(every)), width)], width
        )

    def _keys(self, width: int) -> tuple[Span, ...]:
        scroll = f"{names_of(KEYS, 'up', 'down')} {name_of(KEYS, 'page-down')} scroll"
        find, closes = "type to find", f"{name_of(KEYS, 'close')} closes"
        whole = " · ".join((find, scroll, closes))
        return ((whole if len(whole) <= width - 6 else f"{find} · {closes}", "muted"),)

    def _place(self, lines: int) -> tuple[Span, ...]:
        count = sum(part.count for part in self._shown)
        if count < self._total:
            return ((f"{count} of {self._total}", "muted"),)
        below = lines - self._top - self.rows
        return ((f"{below} more lines ▼", "muted"),) if below > 0 else ()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)


class HelpScreen(ModalScreen[None]):
    """What keys and commands do; closing it gives everything back as it was."""

    DEFAULT_CSS: ClassVar[str] = f"""
    HelpScreen {{ align: center middle; background: transparent; }}
    HelpScreen > Vertical {{
        width: {_WIDEST}; max-width: 100%; height: 100%; background: ansi_default;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "help")

    def __init__(self, title: str, parts: Sequence[HelpPart]) -> None:
        super().__init__()
        self._field = FieldTop(f"Help · {title}", "type to find a key or a command")
        self._body = _Body(parts)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._field
            yield self._body

    def on_mount(self) -> None:
        self._field.input.focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._body.update)

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self._body.tell(words)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value == "?":  # the key that opened it, once more
            self.dismiss()
        self._body.show(event.value)

    def action_help(self, command: str) -> None:
        """What a key of the table does."""
        match command:
            case "up" | "down":
                self._body.scroll_lines(-1 if command == "up" else 1)
            case "page-up" | "page-down":
                self._body.scroll_lines(-self._body.rows if command == "page-up" else self._body.rows)
            case "first" | "last":
                self._body.scroll_lines(-_FAR if command == "first" else _FAR)
            case "close" if self._field.input.value:
                self._field.input.value = ""
            case "close":
                self.dismiss()
