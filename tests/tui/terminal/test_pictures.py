"""How a terminal shows pictures, and which pictures can be decoded."""

import base64
import zlib
from collections.abc import Callable

import pytest

from foldline.text.harmless import clean, with_signs
from foldline.tui.terminal.pictures import fitted, unpacked, way_for
from support.images import image

PLACEHOLDER = "\U0010eeee"
"""Kitty's placeholder character, in which it draws a cell of a picture."""
KITTY = {"TERM": "xterm-kitty", "COLORTERM": "truecolor"}


@pytest.mark.parametrize(
    ("environ", "way"),
    [
        ({"TERM": "xterm-256color"}, "Halfcell"),
        ({}, "Halfcell"),
        (KITTY, "TGP"),
        ({"TERM": "xterm-ghostty", "COLORTERM": "truecolor"}, "TGP"),
        ({"TERM": "xterm-kitty"}, "Halfcell"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "Sixel"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "Sixel"),
        (
            {
                "TERM": "xterm-256color",
                "TERM_PROGRAM": "WezTerm",
                "COLORTERM": "truecolor",
            },
            "Sixel",
        ),
        ({"TERM": "foot"}, "Sixel"),
        (
            {"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "KITTY_WINDOW_ID": "1"},
            "Halfcell",
        ),
        (KITTY | {"TMUX": "/tmp/tmux"}, "Halfcell"),
        ({"TERM": "screen.xterm-256color", "LC_TERMINAL": "iTerm2"}, "Halfcell"),
    ],
)
def test_pixels_go_only_to_terminals_that_draw_them_and_never_through_a_multiplexer(
    environ: dict[str, str], way: str
) -> None:
    assert way_for(environ, knows_cells=True) == way
    assert way_for(environ, knows_cells=False) == (
        "Halfcell" if way == "Sixel" else way
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"no picture", image("jpeg"), image("png")[:60], b"%!PS-Adobe-3.0 EPSF-3.0"],
)
def test_what_is_no_whole_picture_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpacked(base64.b64encode(data).decode())


def test_a_picture_too_large_to_unpack_is_not_unpacked() -> None:
    head = (30_000).to_bytes(4) + (30_000).to_bytes(4) + bytes((8, 0, 0, 0, 0))
    body = b"IHDR" + head
    png = (
        b"\x89PNG\r\n\x1a\n"
        + len(head).to_bytes(4)
        + body
        + zlib.crc32(body).to_bytes(4)
    )
    with pytest.raises(ValueError):
        unpacked(base64.b64encode(png).decode())


def test_a_picture_fits_the_room_and_is_never_larger_than_it_is() -> None:
    assert fitted((320, 200), (80, 22), (10, 20)) == (32, 10)
    assert fitted((4000, 1000), (80, 22), (10, 20)) == (80, 10)
    assert fitted((100, 10_000), (80, 22), (10, 20)) == (1, 22)
    assert fitted((1, 1), (80, 22), (10, 20)) == (1, 1)


@pytest.mark.parametrize("clean", [clean, with_signs])
def test_what_others_write_is_never_taken_for_a_picture(
    clean: Callable[[str], str],
) -> None:
    assert PLACEHOLDER not in clean(f"a{PLACEHOLDER}\u0305\u0305b")
