"""A picture of the transcript on the screen, and nothing that breaks the terminal."""

import fcntl
import re
import struct
import termios
from pathlib import Path

import pytest

from support.images import image
from support.kitty import Pictures
from support.terminal import terminal


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
        term.until("Esc to the prompt")
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
        sent = Pictures().take(term.raw)
        assert len(sent.transmitted) == 2 * (b"\xf4" in expected), "among the lines, and as large as it is"
        term.send("\x1b")
        term.until("Enter sends")
        term.send("\x1b[200~still here\x1b[201~")
        term.until("still here")
