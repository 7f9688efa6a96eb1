"""The list screen itself: the mark, mouse, questions and fields, whatever the rows are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.pilot import Pilot
from textual.widgets import Static

from foldline.tui.base_app import BaseApp
from foldline.tui.blocks.cells import crop
from foldline.tui.keys.table import HELP, ScreenKey, bindings, declared, moves, table
from foldline.tui.lists.picker import Choice, Picker
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.widgets.lines import Line, Rule, boxed, filled, key_words
from support.chat_app import screen_text

KEYS = table(
    "fruit",
    "Fruit",
    ScreenKey[None]("drop", ("x",), "Drops it, after a question.", hint="drop"),
    ScreenKey("find", ("slash",), "To the field."),
    *moves("fruit"),
    HELP,
    "Program",
    ScreenKey("close", ("escape",), "Closes."),
)


class Fruit(ListScreen[str | None, str]):
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(self, count: int = 40) -> None:
        self.find = Field("find", "type to find")
        super().__init__([f"fruit {number}" for number in range(count)], (self.find,))
        self.finding = False
        self.dropped: list[str | None] = []

    def height_wanted(self) -> int:
        return 14

    def field(self) -> Field | None:
        return self.find if self.finding else None

    def act(self, command: str) -> None:
        match command:
            case "drop":
                self.confirm("Drop it?", "drop", lambda: self.dropped.append(self.row))
            case "find":
                self.finding = True
                self.update()

    def draw(self, width: int, height: int) -> list[Line]:
        def line(row: str, marked: bool) -> Line:
            return crop([("▶" if marked else " ", "accent"), (row, "text bold")], width - 2)

        rows = self.row_lines(height - 4, 2, line)
        asks = self.question.sentence if self.question is not None else ""
        return boxed(width, (("Fruit", ""),), "", [[(" ❯ ", "")], *rows, Rule(((asks, ""),) if asks else ())])


@asynccontextmanager
async def shown(size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Fruit, Pilot[None]]]:
    app, screen = BaseApp[None](), Fruit()
    async with app.run_test(size=size) as pilot:
        await app.push_screen(screen)
        await pilot.pause()
        yield screen, pilot


def text(screen: Fruit) -> str:
    return "\n".join(screen_text(screen.app))


async def test_the_mark_moves_within_the_list_and_stays_in_sight() -> None:
    async with shown() as (screen, pilot):
        for key, row in (("up", 0), ("pagedown", 10), ("j", 11), ("end", 39), ("down", 39), ("k", 38)):
            await pilot.press(key)
            assert screen.row == f"fruit {row}" and f"▶fruit {row}" in text(screen)
        top = min(screen.seen.values())
        await pilot.press("up")
        assert min(screen.seen.values()) == top, "the list scrolls only where the mark would leave it"
        await pilot.press("home")
        assert "▶fruit 0" in text(screen)


def painted(screen: ListScreen[Any, Any], row: int) -> list[tuple[str, Style]]:
    """What a row of the terminal shows, piece by piece."""
    strips = screen._compositor.render_strips()
    return [(segment.text, segment.style or Style()) for segment in strips[row]]


async def test_the_marked_row_is_in_reverse_from_end_to_end_and_in_one_colour() -> None:
    async with shown() as (screen, _):
        row = screen.box.region.y + 2
        inside = [style for _, style in painted(screen, row) if style.reverse]
        cells = sum(len(text) for text, style in painted(screen, row) if style.reverse)
        assert cells == screen.box.size.width - 2
        assert len({style.color for style in inside}) == 1 and any(style.bold for style in inside)
        assert not any(style.reverse for _, style in painted(screen, row + 1))


@pytest.mark.parametrize("dims", [True, False])
async def test_what_is_behind_steps_back_unless_it_is_what_one_looks_at(dims: bool) -> None:
    app = BaseApp[None]()
    async with app.run_test(size=(120, 30)) as pilot:
        await app.mount(Static(Text("behind", style="bold #ff0000")))
        screen = Fruit()
        screen.dims = dims
        await app.push_screen(screen)
        await pilot.pause()
        (style,) = (style for text, style in painted(screen, 0) if "behind" in text)
        assert bool(style.bold) is not dims and style.color is not None
        assert (style.color.name == "#ff0000") is not dims


@pytest.mark.parametrize(("width", "rows"), [(200, 5), (80, 8), (40, 9)])
async def test_a_picker_is_as_high_as_its_choices_and_the_longest_note_a_row_has_cut(
    width: int, rows: int
) -> None:
    app = BaseApp[None]()
    note = "What a row has no room for is said in full below the list, for the marked choice"
    picker = Picker("Choose", [Choice("a", "a", note), Choice("b", "b", "short")], notes_in_full=True)
    async with app.run_test(size=(width, 24)) as pilot:
        await app.push_screen(picker)
        await pilot.pause()
        assert picker.box.size.height == rows
        said = " ".join(" ".join(screen_text(app)).replace("┃", " ").split())
        assert note in said


async def test_a_click_marks_a_row_and_the_wheel_moves_the_mark() -> None:
    async with shown() as (screen, pilot):
        box = screen.box.region
        await pilot.click(offset=(box.x + 4, box.y + 5))
        assert screen.row == "fruit 3"
        await pilot.click(offset=(box.x + 4, box.y))
        assert screen.row == "fruit 3", "there is no row on the edge"
        screen.box.on_mouse_scroll_down(_Wheel())  # type: ignore[arg-type]
        assert screen.row == "fruit 4"


class _Wheel:
    def stop(self) -> None: ...


@pytest.mark.parametrize(
    ("then", "dropped"),
    [
        (("x",), ["fruit 0"]),
        (("enter",), ["fruit 0"]),
        (("y", "x"), []),
        (("down",), []),
        (("y", "enter"), []),
    ],
)
async def test_what_is_asked_for_twice_is_done_by_its_own_key_or_enter_alone(
    then: tuple[str, ...], dropped: list[str]
) -> None:
    async with shown() as (screen, pilot):
        await pilot.press("x")
        assert screen.question is not None and "Drop it?" in screen.question.sentence
        await pilot.press(*then)
        assert screen.dropped == dropped and screen.row == "fruit 0"


async def test_a_key_that_comes_before_the_question_is_on_the_screen_confirms_nothing() -> None:
    async with shown() as (screen, _):
        screen.act("drop")
        screen.on_key(events.Key("enter", "\r"))
        assert screen.dropped == [] and screen.question is not None


async def test_the_end_of_a_line_that_was_typed_at_a_list_confirms_nothing() -> None:
    async with shown() as (screen, pilot):
        now = 100.0
        screen.clock = lambda: now
        await pilot.press("a", "x", "enter")
        assert screen.dropped == [] and screen.question is not None
        now += 1.1
        await pilot.press("enter")
        assert screen.dropped == ["fruit 0"]


async def test_in_an_open_field_letters_are_text_and_the_box_has_the_keys_again_after_it() -> None:
    async with shown() as (screen, pilot):
        await pilot.press("slash", "x", "j")
        assert screen.find.has_focus and screen.find.value == "xj" and screen.row == "fruit 0"
        screen.finding = False
        screen.update()
        await pilot.press("j")
        assert screen.row == "fruit 1" and not screen.find.display


async def test_other_rows_keep_the_mark_at_its_row_or_in_its_place() -> None:
    screen = Fruit()
    screen.move_to(5)
    screen.show_rows(["new", *screen.rows], lambda one, other: one == other)
    assert screen.row == "fruit 5"
    screen.show_rows(["a", "b"])
    assert screen.row == "b"
    screen.show_rows([])
    assert screen.row is None
    screen.move(1)
    assert screen.at == 0


async def test_a_terminal_that_is_too_small_says_so_and_the_list_comes_back() -> None:
    async with shown() as (screen, pilot):
        await pilot.resize_terminal(30, 8)
        await pilot.pause()
        assert "Too small: needs 40x10" in text(screen)
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert "▶fruit 0" in text(screen)


async def test_it_is_left_once_with_what_lies_over_it() -> None:
    async with shown() as (screen, pilot):
        await pilot.press("f1")
        assert "Help · Fruit" in text(screen)
        screen.dismiss(None)
        screen.dismiss(None)
        await pilot.pause()
        assert not screen.is_open and len(pilot.app.screen_stack) == 1


def test_a_table_is_known_by_its_name_and_headings_group_its_keys() -> None:
    known = declared("fruit")
    assert known is KEYS and known.title == "Fruit"
    assert {key.id: key.group for key in KEYS}.items() >= {
        "drop": "Fruit",
        "up": "List",
        "close": "Program",
    }.items()
    assert {key.screen for key in KEYS} == {"fruit"}


def test_lines_are_filled_or_cut_and_words_stand_apart() -> None:
    assert filled([[("a", "")]], 2) == [[("a", "")], []] and filled([[], [], []], 1) == [[]]
    assert (
        "".join(words for words, _ in key_words((("Enter", "select"), ("Esc", "close"))))
        == "Enter select · Esc close"
    )
