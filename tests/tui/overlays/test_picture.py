"""A picture of the transcript on the screen, and nothing that breaks the terminal."""

import asyncio
import base64
import fcntl
import re
import struct
import termios
from pathlib import Path

import pytest

from foldline.agent.extensions.mcp import sign_in
from foldline.llm.offline.reply import UNCLEAR
from foldline.protocol import ImagePart
from foldline.tui.chat.escape_actions import ESC_TO_PROMPT
from foldline.tui.overlays.picture import (
    NO_VIEWER,
    OPENED,
    UNREADABLE,
    open_in_viewer,
)
from support.images import image
from support.sentences import says
from support.terminal import PATIENCE, terminal


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
        fcntl.ioctl(
            term.child.child_fd,
            termios.TIOCSWINSZ,
            struct.pack("HHHH", 30, 80, 800, 600),
        )
        term.until("of 16.4k")
        term.send("\x1b[200~shot.png\x1b[201~")
        term.until("[picture 1")
        term.send("\r")
        term.until(UNCLEAR.partition(":")[0])
        term.send("\t")
        term.until(ESC_TO_PROMPT)
        term.send("[")
        term.until("▶┃ ❯ [picture")
        before = len(term.raw)
        term.send("v")
        term.until("640×480")
        term.until(lambda term: expected in term.raw[before:])
        term.settle()
        raw = term.raw[before:]
        assert raw.count(b"\x1bP") == len(re.findall(rb"\x1bP[^\x1b]*\x1b\\", raw)), (
            "each is whole"
        )
        assert raw.count(b"\x1b_G") == len(re.findall(rb"\x1b_G[^\x1b]*\x1b\\", raw))
        assert (b"\x1b_G" in raw, b"\x1bP" in raw) == (
            b"\xf4" in expected,
            b"1;1" in expected,
        )
        assert not re.search(rb"\x1b\[c|\x1b\[16t|a=q", raw), (
            "nothing is asked: keys would be the answer"
        )
        term.send("q")
        term.until(lambda term: ESC_TO_PROMPT in term.text and "▀" not in term.text)
        term.send("\x1b")
        term.until("Enter sends")
        term.send("\x1b[200~still here\x1b[201~")
        term.until("still here")


def part_of(content: bytes) -> ImagePart:
    return ImagePart(media_type="image/png", data=base64.b64encode(content).decode())


async def test_a_picture_is_opened_with_the_desktops_viewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, seen = image("png"), tmp_path / "seen"
    viewer = tmp_path / "viewer"
    viewer.write_text(f'#!/bin/sh\ncat "$1" > {seen}.part && mv {seen}.part {seen}\n')
    viewer.chmod(0o755)
    monkeypatch.setattr(sign_in, "opener", lambda environ: str(viewer))
    assert await open_in_viewer(part_of(content)) == OPENED
    async with asyncio.timeout(PATIENCE):
        while not seen.exists():
            await asyncio.sleep(0.01)
    assert seen.read_bytes() == content


async def test_what_is_no_picture_or_has_no_desktop_is_not_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert await open_in_viewer(part_of(image("png"))) == NO_VIEWER
    assert says(await open_in_viewer(part_of(b"#!/bin/sh")), UNREADABLE)
