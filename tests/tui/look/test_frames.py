"""Frames in few bytes: the terminal shows what it would show if all of each frame was written."""

import random
import re

import pyte
import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from foldline.tui.look.frames import Frames

WIDTH, HEIGHT = 30, 12
COLORS = ColorSystem.TRUECOLOR
LOOKS = [
    Style(),
    Style(bold=True),
    Style(color="red"),
    Style(color="default", bgcolor="default"),
    Style(reverse=True),
    Style(link="https://example.org/a", underline=True),
]
WORDS = [
    "order",
    "key",
    " ",
    "      ",
    "                ",
    "订单",
    "e\u0301",
    "┃",
    "🚀",
    "index",
    "\U0010eeee\u0305\u0615" * 3,
]


def line(seed: random.Random, width: int = WIDTH) -> Strip:
    segments = [
        Segment(seed.choice(WORDS), seed.choice(LOOKS))
        for _ in range(seed.randrange(8))
    ]
    return Strip(segments).adjust_cell_length(width)


class Screen:
    """A terminal that is written whole once, and then in parts."""

    def __init__(self, rows: list[Strip]) -> None:
        self.frames, self.rows = Frames(), rows
        self._screen = pyte.Screen(WIDTH, HEIGHT)
        self._stream = pyte.Stream(self._screen)
        self.frames.show([[row] for row in rows])
        self._stream.feed(written_whole(rows))

    def write(self, pieces: list[tuple[int, int, Strip]]) -> str:
        for x, y, strip in pieces:
            row = self.rows[y]
            self.rows[y] = Strip.join(
                [row.crop(0, x), strip, row.crop(x + strip.cell_length)]
            )
        written = self.frames.write(pieces, COLORS)
        assert written is not None
        self._stream.feed(written)
        return written

    @property
    def shown(self) -> list[list[tuple[object, ...]]]:
        return cells_of(self._screen)


def written_whole(rows: list[Strip]) -> str:
    return "".join(
        f"\x1b[{y + 1};1H"
        + "".join(
            Strip.render_style(each.style or Style(), each.text, COLORS) for each in row
        )
        for y, row in enumerate(rows)
    )


def cells_of(screen: pyte.Screen) -> list[list[tuple[object, ...]]]:
    return [[tuple(screen.buffer[y][x]) for x in range(WIDTH)] for y in range(HEIGHT)]


def wanted(rows: list[Strip]) -> list[list[tuple[object, ...]]]:
    screen = pyte.Screen(WIDTH, HEIGHT)
    pyte.Stream(screen).feed(written_whole(rows))
    return cells_of(screen)


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("number", range(40))
def test_the_screen_is_what_whole_frames_would_have_made(number: int) -> None:
    seed = random.Random(number)
    screen = Screen([line(seed) for _ in range(HEIGHT)])
    for _ in range(25):
        top, bottom = sorted(seed.sample(range(HEIGHT + 1), 2))
        by = seed.randrange(4)
        moved = [*screen.rows[top + by : bottom], *(line(seed) for _ in range(by))][
            : bottom - top
        ]
        pieces = [(0, y, row) for y, row in enumerate(moved, start=top)]
        if seed.random() < 0.5:  # a list beside it stays where it is
            pieces = [(x, y, row.crop(0, 20)) for x, y, row in pieces]
        if seed.random() < 0.3:
            pieces.append((seed.randrange(10), seed.randrange(HEIGHT), line(seed, 9)))
        screen.write(pieces)
        assert screen.shown == wanted(screen.rows)


def test_what_has_moved_up_is_not_written_again() -> None:
    rows = [
        Strip([Segment(f"{number} of the lines of an answer".ljust(WIDTH))])
        for number in range(HEIGHT)
    ]
    screen = Screen([*rows])
    new = Strip([Segment("one more".ljust(WIDTH))])
    written = screen.write([(0, y, row) for y, row in enumerate([*rows[1:], new])])
    assert "lines of" not in written and len(written) < 60
    assert screen.shown == wanted([*rows[1:], new])


def test_of_a_row_only_the_words_that_changed_are_written() -> None:
    screen = Screen(
        [Strip([Segment("an answer that gro".ljust(WIDTH))]) for _ in range(HEIGHT)]
    )
    written = screen.write(
        [(0, 3, Strip([Segment("an answer that grows".ljust(WIDTH))]))]
    )
    assert written == "\x1b[4;16Hgrows"
    assert screen.write([(0, 3, screen.rows[3])]) == ""


@pytest.mark.parametrize("look", [Style(), Style(color="red")])
def test_a_link_stays_one_in_a_part_and_one_that_leads_elsewhere_is_written_again(
    look: Style,
) -> None:
    screen = Screen([Strip([Segment("see".ljust(WIDTH))]) for _ in range(HEIGHT)])
    for address in ("https://example.org/a", "https://example.org/b"):
        linked = Strip(
            [Segment("here", look + Style(link=address)), Segment(" " * (WIDTH - 4))]
        )
        written = screen.write([(0, 3, linked)])
        opened = re.findall(r"\x1b\]8;id=[-\d]+;([^\x1b]*)\x1b\\", written)
        assert opened == [address] and written.count("\x1b]8;;\x1b\\") == 1
        assert screen.write([(0, 3, linked)]) == ""


def test_nothing_is_left_out_where_nobody_knows_what_the_terminal_shows() -> None:
    frames, row = Frames(), Strip([Segment("text")])
    assert frames.write([(0, 0, row)], COLORS) is None
    for piece in ((1, 0, row), (0, 1, row), (0, 0, Strip([Segment("text")], 3))):
        frames.show([[row]])
        assert frames.write([(0, 0, row)], COLORS) == ""
        assert frames.write([piece], COLORS) is None
        assert frames.write([(0, 0, row)], COLORS) is None, (
            "not before the next whole frame"
        )


def test_what_follows_a_long_word_directly_stands_directly_behind_it() -> None:
    screen = Screen(
        [Strip([Segment("indexorder".ljust(WIDTH))]) for _ in range(HEIGHT)]
    )
    screen.write([(0, 3, Strip([Segment("indexorderkey┃".ljust(WIDTH))]))])
    assert screen.shown == wanted(screen.rows)
