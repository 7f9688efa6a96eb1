"""A picture of the transcript on the screen: which way, how large, and nothing that breaks the terminal."""

import base64
import fcntl
import re
import struct
import termios
import zlib
from pathlib import Path

import pytest

from foldline.tui.screens.picture import fitted, unpacked, way_for
from support.images import image
from support.terminal import terminal


@pytest.mark.parametrize(
    ("environ", "way"),
    [
        ({"TERM": "xterm-256color"}, "Halfcell"),
        ({}, "Halfcell"),
        ({"TERM": "xterm-kitty", "COLORTERM": "truecolor"}, "TGP"),
        ({"TERM": "xterm-ghostty", "COLORTERM": "truecolor"}, "TGP"),
        ({"TERM": "xterm-kitty"}, "Halfcell"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "Sixel"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "Sixel"),
        ({"TERM": "foot"}, "Sixel"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "KITTY_WINDOW_ID": "1"}, "Halfcell"),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, "Halfcell"),
        ({"TERM": "screen.xterm-256color", "LC_TERMINAL": "iTerm2"}, "Halfcell"),
    ],
)
def test_pixels_go_only_to_terminals_that_draw_them_and_never_through_a_multiplexer(
    environ: dict[str, str], way: str
) -> None:
    assert way_for(environ, knows_cells=True) == way
    assert way_for(environ, knows_cells=False) == ("Halfcell" if way == "Sixel" else way)


def test_a_picture_fits_the_room_and_is_never_larger_than_it_is() -> None:
    assert fitted((320, 200), (80, 22), (10, 20)) == (32, 10)
    assert fitted((4000, 1000), (80, 22), (10, 20)) == (80, 10)
    assert fitted((100, 10_000), (80, 22), (10, 20)) == (1, 22)
    assert fitted((1, 1), (80, 22), (10, 20)) == (1, 1)


@pytest.mark.parametrize(
    "data", [b"", b"no picture", image("jpeg"), image("png")[:60], b"%!PS-Adobe-3.0 EPSF-3.0"]
)
def test_what_is_no_whole_picture_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpacked(base64.b64encode(data).decode())


def test_a_picture_too_large_to_unpack_is_not_unpacked() -> None:
    head = (30_000).to_bytes(4) + (30_000).to_bytes(4) + bytes((8, 0, 0, 0, 0))
    body = b"IHDR" + head
    png = b"\x89PNG\r\n\x1a\n" + len(head).to_bytes(4) + body + zlib.crc32(body).to_bytes(4)
    with pytest.raises(ValueError):
        unpacked(base64.b64encode(png).decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"TERM": "xterm-256color"}, "▀".encode()),
        ({"TERM": "xterm-kitty", "COLORTERM": "truecolor"}, chr(0x10EEEE).encode()),
        ({"TERM": "foot"}, b'"1;1;640;480'),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/none,1,0"}, "▀".encode()),
    ],
)
def test_a_picture_is_drawn_as_the_terminal_can_and_nothing_of_it_stays(
    tmp_path: Path, env: dict[str, str], expected: bytes
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "shot.png").write_bytes(image("png"))
    with terminal(folder, columns=80, rows=30, **env) as term:
        fcntl.ioctl(term.child.child_fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 800, 600))
        term.until("of 16.4k")
        term.send("\x1b[200~shot.png\x1b[201~")
        term.until("[picture 1")
        term.send("\r")
        term.until("I could not follow")
        term.send("\t")
        term.until("inspect")
        term.send("[")
        term.until("▶┃ ❯ [picture")
        before = len(term.raw)
        term.send("v")
        term.until("640×480")
        term.until(lambda term: expected in term.raw[before:])
        term.settle()
        raw = term.raw[before:]
        assert raw.count(b"\x1bP") == len(re.findall(rb"\x1bP[^\x1b]*\x1b\\", raw)), "each is whole"
        assert raw.count(b"\x1b_G") == len(re.findall(rb"\x1b_G[^\x1b]*\x1b\\", raw))
        assert (b"\x1b_G" in raw, b"\x1bP" in raw) == (b"\xf4" in expected, b"1;1" in expected)
        assert not re.search(rb"\x1b\[c|\x1b\[16t|a=q", raw), "nothing is asked: keys would be the answer"
        term.send("q")
        term.until(lambda term: "Esc to the prompt" in term.text and "▀" not in term.text)
        assert (b"a=d" in term.raw[before:]) == (b"\xf4" in expected), "Kitty is told to forget it"
        term.send("\x1b")
        term.until("Enter sends")
        term.send("\x1b[200~still here\x1b[201~")
        term.until("still here")
