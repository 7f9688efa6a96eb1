"""The picker, the page and the line dialog: selection, mouse, field and frame."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rich.style import Style
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import Static

from foldline.frontend.keymap import ScreenKey, declared, moves, table
from foldline.protocol import FoldlineError
from foldline.tui.base_app import BaseApp
from foldline.tui.lists.line import LineDialog
from foldline.tui.lists.page import TextScreen
from foldline.tui.lists.picker import AS_TYPED, JUST_OPENED, Picker
from foldline.tui.lists.rows import PickerItem
from foldline.tui.lists.screen import ListScreen
from foldline.tui.look.lines import filled, key_words
from support.chat_app import screen_text


def fruits(count: int = 40) -> list[PickerItem]:
    return [PickerItem(str(at), f"fruit {at}") for at in range(count)]


@asynccontextmanager
async def shown(
    screen: ListScreen[Any, Any] | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Any, Pilot[None]]]:
    app, screen = BaseApp[None](), screen or Picker("Fruit", fruits())
    async with app.run_test(size=size) as pilot:
        await app.push_screen(screen)
        await pilot.pause()
        yield screen, pilot


def text(screen: ListScreen[Any, Any]) -> str:
    return "\n".join(screen_text(screen.app))


async def test_the_mark_moves_within_the_list_and_stays_in_sight() -> None:
    async with shown() as (screen, pilot):
        for key, row in (("up", 39), ("down", 0), ("pagedown", 14), ("down", 15)):
            await pilot.press(key)
            assert screen.marked == str(row) and f"▶fruit {row}" in text(screen)
        top = min(screen.seen.values())
        await pilot.press("up")
        assert min(screen.seen.values()) == top, (
            "the list scrolls only if the mark would leave it"
        )


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
        assert len({style.color for style in inside}) == 1
        assert not any(style.reverse for _, style in painted(screen, row + 1))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("dims", [True, False])
async def test_the_screen_behind_is_dimmed_unless_it_is_a_preview(dims: bool) -> None:
    app = BaseApp[None]()
    async with app.run_test(size=(120, 30)) as pilot:
        await app.mount(Static(Text("behind", style="bold #ff0000")))
        screen = Picker("Fruit", fruits())
        screen.dims = dims
        await app.push_screen(screen)
        await pilot.pause()
        (style,) = (style for text, style in painted(screen, 0) if "behind" in text)
        assert bool(style.bold) is not dims and style.color is not None
        assert (style.color.name == "#ff0000") is not dims


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("width", "rows"), [(200, 5), (80, 8), (40, 9)])
async def test_a_picker_is_as_high_as_its_choices_and_the_longest_note_a_row_has_cut(
    width: int, rows: int
) -> None:
    app = BaseApp[None]()
    note = "What a row has no room for is said in full below the list, for the marked choice"
    picker = Picker(
        "Choose", [PickerItem("a", "a", note), PickerItem("b", "b", "short")]
    )
    async with app.run_test(size=(width, 24)) as pilot:
        await app.push_screen(picker)
        await pilot.pause()
        assert picker.box.size.height == rows
        words = " ".join(" ".join(screen_text(app)).replace("┃", " ").split())
        assert note in words


async def test_a_click_chooses_a_row_and_the_wheel_moves_the_mark() -> None:
    taken: list[str] = []
    async with shown(Picker("Fruit", fruits(), on_take=taken.append)) as (
        screen,
        pilot,
    ):
        box = screen.box.region
        await pilot.click(offset=(box.x + 4, box.y + 5))
        assert screen.marked == "3" and taken == ["3"]
        await pilot.click(offset=(box.x + 4, box.y))
        assert screen.marked == "3", "there is no row on the edge"
        screen.box.on_mouse_scroll_down(_Wheel())
        assert screen.marked == "4"


class _Wheel:
    def stop(self) -> None: ...


async def test_letters_filter_and_only_keys_act() -> None:
    taken: list[str] = []
    removed: list[str] = []
    picker = Picker("Fruit", fruits(), on_take=taken.append, on_remove=removed.append)
    async with shown(picker) as (screen, pilot):
        await pilot.press(*"17")
        assert screen.field.value == "17" and screen.marked == "17"
        await pilot.press("enter", "delete")
        assert taken == removed == ["17"] and screen.is_current


async def test_the_typed_word_may_be_taken_as_it_is() -> None:
    async with shown(Picker("Model", fruits(3), takes_typed=True)) as (screen, pilot):
        await pilot.press(*"own/7")
        assert screen.marked == "own/7" and AS_TYPED in text(screen)


async def test_a_list_that_opens_by_itself_takes_no_enter_at_first() -> None:
    picker = Picker("Fruit", fruits(), deaf_until=100.0)
    picker.clock = lambda: 99.0
    async with shown(picker) as (screen, pilot):
        await pilot.press("enter")
        assert screen.is_current and JUST_OPENED in text(screen)
        picker.clock = lambda: 101.0
        await pilot.press("enter")
        assert not screen.is_open


async def test_other_items_keep_the_mark_at_its_item() -> None:
    async with shown() as (screen, pilot):
        await pilot.press("down", "down")
        screen.offer([PickerItem("new", "new"), *fruits()])
        assert screen.marked == "2"
        screen.offer(())
        assert screen.marked is None
        screen.move(1)
        assert screen.at == 0


async def test_a_line_dialog_keeps_the_text_until_it_is_accepted() -> None:
    async def work(text: str) -> str:
        if "x" in text:
            raise FoldlineError("No x, please.")
        return text.upper()

    results: list[str | None] = []
    app = BaseApp[None]()
    async with app.run_test(size=(80, 24)) as pilot:
        dialog = LineDialog("Word", "Any word.", work, text="a")
        await app.push_screen(dialog, results.append)
        await pilot.press("x", "enter")
        await pilot.pause()
        assert "✗ No x, please." in text(dialog) and dialog.is_current
        await pilot.press("backspace", "b", "enter")
        await pilot.pause()
        assert results == ["AB"]


async def test_a_page_is_as_high_as_its_text() -> None:
    async with shown(TextScreen("Text", "one\ntwo")) as (screen, pilot):
        assert screen.box.size.height == 4
        await pilot.press("escape")
        assert not screen.is_open


async def test_a_terminal_that_is_too_small_says_so_and_the_list_comes_back() -> None:
    async with shown() as (screen, pilot):
        await pilot.resize_terminal(30, 8)
        await pilot.pause()
        assert "Too small: needs 40x10" in text(screen)
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert "▶fruit 0" in text(screen)


async def test_it_is_left_once_with_the_screens_over_it() -> None:
    async with shown() as (screen, pilot):
        await pilot.press("f1")
        await pilot.pause()
        assert "Help · Choose from a list" in text(screen)
        screen.dismiss(None)
        screen.dismiss(None)
        await pilot.pause()
        assert not screen.is_open and len(pilot.app.screen_stack) == 1


def test_a_table_is_declared_by_its_name_and_headings_group_its_keys() -> None:
    keys = table("fruit", "Fruit", ScreenKey[None]("drop", ("x",)), *moves("fruit"))
    assert declared("fruit") is keys and keys.title == "Fruit"
    assert {key.id: key.group for key in keys}.items() >= {
        "drop": "Fruit",
        "up": "List",
    }.items()
    assert {key.screen for key in keys} == {"fruit"}


def test_lines_are_filled_or_cut_and_words_stand_apart() -> None:
    assert filled([[("a", "")]], 2) == [[("a", "")], []] and filled(
        [[], [], []], 1
    ) == [[]]
    assert (
        "".join(
            words for words, _ in key_words((("Enter", "select"), ("Esc", "close")))
        )
        == "Enter select · Esc close"
    )
