"""Pictures among lines: text whose colour says of which picture it is, and is never changed."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial

import pytest
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from textual.renderables.background_screen import BackgroundScreen
from textual.strip import Strip

from foldline.context.harmless import PLACEHOLDER, clean, with_signs
from foldline.tui.blocks.pictures import _MARKS, Picture, PicturesBlock, Placement, fitted, lines_of
from foldline.tui.blocks.plain import LinesBlock, StackBlock
from foldline.tui.blocks.styles import Styles, cursor_row, faded, selected_text, with_matches, with_selection
from foldline.tui.textual_private import dimmed

PLACED = Placement(0x1DF0A7, 40, 12)
RED = Style(color="red", bold=True, reverse=True)


def picture(**changes: object) -> Picture:
    fields = {"digest": 1, "load": lambda: None, "pixels": (640, 480), "caption": "shot.png 640×480 · 9 kB"}
    return Picture(**fields | changes)  # type: ignore[arg-type]


def test_a_picture_fits_the_room_and_is_never_larger_than_it_is() -> None:
    assert fitted((320, 200), (80, 22), (10, 20)) == (32, 10)
    assert fitted((4000, 1000), (80, 22), (10, 20)) == (80, 10)
    assert fitted((100, 10_000), (80, 22), (10, 20)) == (1, 22)
    assert fitted((1, 1), (80, 22), (10, 20)) == (1, 1)


def test_the_marks_are_kittys() -> None:
    """Its 297: of those known here, what `rowcolumn-diacritics.txt` has on its first and last lines."""
    assert len(set(_MARKS)) == len(_MARKS) == 297
    assert (_MARKS[:3], _MARKS[59], _MARKS[-1]) == ("\u0305\u030d\u030e", "\u0615", "\U0001d244")
    assert {unicodedata.combining(mark) for mark in _MARKS} == {230}


@pytest.mark.parametrize("cut", [0, 1, 17, 39])
def test_each_cell_says_what_it_shows_wherever_a_line_is_cut(cut: int) -> None:
    for row, strip in enumerate(lines_of(PLACED)):
        assert strip.cell_length == Strip(list(strip)).cell_length == PLACED.columns
        part = strip.crop(cut, cut + 1)
        (segment,) = part
        assert segment.text == PLACEHOLDER + _MARKS[row] + _MARKS[cut]
        assert segment.style is not None and segment.style.color is not None
        assert segment.style.color.get_truecolor() == (0x1D, 0xF0, 0xA7)


class Behind(BackgroundScreen):
    """A line below a dialog."""

    def __init__(self, line: Strip) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return iter(self._line)


def below_a_dialog(line: Strip) -> Iterable[Segment]:
    return Console().render(dimmed(Behind(line), RED))


@pytest.mark.parametrize(
    "drawn",
    [
        partial(cursor_row, style=RED),
        partial(faded, style=RED),
        partial(with_matches, needle=re.compile("."), style=RED, start=0),
        partial(with_selection, start=0, stop=-1, style=RED),
        below_a_dialog,
    ],
)
def test_nothing_changes_the_look_of_a_picture(drawn: Callable[[Strip], Iterable[Segment]]) -> None:
    shown = lines_of(PLACED)[3]
    segments = [*drawn(Strip.join([Strip([Segment("a ")]), shown, Strip([Segment(" b")])]))]
    assert [segment for segment in segments if PLACEHOLDER in segment.text] == [*shown]
    around = [segment.style for segment in segments if PLACEHOLDER not in segment.text]
    assert around and all(style is not None and style.color == RED.color for style in around)


def test_a_picture_is_no_text_of_its_lines() -> None:
    line = Strip.join([Strip([Segment("a ")]), lines_of(PLACED)[0], Strip([Segment(" b")])])
    assert selected_text(line, 0, -1) == "a  b"
    stack = StackBlock((0, 0), (LinesBlock((0, 0), ((("said", ""),),)), PicturesBlock((0, 0), (picture(),))))
    assert stack.text() == "said"


@pytest.mark.parametrize("clean", [clean, with_signs])
def test_what_others_write_is_never_taken_for_a_picture(clean: Callable[[str], str]) -> None:
    assert PLACEHOLDER not in clean(f"a{lines_of(PLACED)[0].text}b")


@pytest.mark.parametrize(
    ("shown", "words", "lines"),
    [
        (Styles(pictures=lambda picture, width: Placement(7, width, 2)), "[picture]", 3),
        (Styles(pictures=lambda picture, width: None), "[picture]", 1),
        (Styles(), "[picture]", 1),
        (Styles(), "", 0),
    ],
)
def test_where_a_terminal_shows_no_pictures_words_stand_there_as_ever(
    shown: Styles, words: str, lines: int
) -> None:
    drawn = PicturesBlock((0, 0), (picture(words=words),), indent=4).render(40, shown)
    assert len(drawn) == lines
    if lines == 3:
        assert drawn[0].text.strip() == "shot.png 640×480 · 9 kB"
        assert all(
            strip.text.startswith("    " + PLACEHOLDER) and strip.cell_length == 40 for strip in drawn[1:]
        )
    elif lines:
        assert drawn[0].text.strip() == "[picture]"


def test_a_picture_nobody_has_measured_is_not_drawn_for_its_height_is_not_known() -> None:
    styles = Styles(pictures=lambda picture, width: Placement(7, width, 2))
    assert PicturesBlock((0, 0), (picture(pixels=(0, 0)),)).render(40, styles) == []
