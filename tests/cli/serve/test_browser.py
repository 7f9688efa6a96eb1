"""The chat in a real browser."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import tab

pytestmark = pytest.mark.slow


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`foldline serve` in a folder of its own: its address, and its process."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "notes.txt").write_text("remember the milk\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FOLDLINE", "OPENAI"))}
    kept |= {"FOLDLINE_HOME": str(tmp_path / "home"), "FOLDLINE_MODEL": "offline"}
    server = subprocess.Popen(
        [str(Path(sys.executable).with_name("foldline")), "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**kept, "FOLDLINE_OFFLINE__PACE": "0"},
        text=True,
    )
    assert server.stdout is not None
    address = re.search(r"http://\S+", server.stdout.readline())
    try:
        assert address is not None
        yield address[0], server
    finally:
        server.kill()
        server.wait()


def children_of(process: subprocess.Popen[str]) -> list[str]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return path.read_text().split()


def test_a_chat_in_a_browser(served: tuple[str, subprocess.Popen[str]], tmp_path: Path) -> None:
    address, server = served
    with tab(address) as page:
        page.until("Enter sends")
        page.page.keyboard.type("read notes.txt")
        page.until("❯ read notes.txt")
        page.press("Enter")
        page.until("▏ remember the milk")
        wide = page.size
        page.page.set_viewport_size({"width": 700, "height": 500})
        page.until(lambda now: now.size < wide and "Modified" not in now.text and "Ctrl+P" in now.text)
        page.press("F2")
        page.until("▸ Inspector")
        page.press("Escape")
        page.until("Enter sends")
        page.press("F1")
        page.until("━ Help")
        page.press("Escape")
        page.until("Enter sends")
        page.press("Control+p")
        page.until(lambda now: "Enter sends" not in now.text)
        page.press("Escape")
        page.until("Enter sends")
        # What a browser keeps for itself has another way: every key of the chat is a command as well.
        page.page.keyboard.type("/help")
        page.press("Enter")
        page.until("━ Help")
        assert len(children_of(server)) == 1
        assert all(place.split("/")[2] == address.split("/")[2] for place in page.asked), page.asked
        page.page.close()
        page_gone(server)
    [events] = (tmp_path / "home" / "sessions").rglob("events.jsonl")
    assert "remember the milk" in events.read_text()
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 128 + signal.SIGTERM


def page_gone(server: subprocess.Popen[str]) -> None:
    """Wait until what ran behind the page has ended."""
    deadline = time.monotonic() + 30
    while children_of(server):
        assert time.monotonic() < deadline, "what ran behind the page did not end"
        time.sleep(0.02)
