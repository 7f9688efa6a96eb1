"""The true first start in a real terminal: nothing set, nothing kept."""

import time
from pathlib import Path

import pytest

from foldline.tui.chat.question import DEAF_SECONDS
from support.server import MODEL, running_server
from support.terminal import CLEARS, Terminal, terminal

pytestmark = pytest.mark.slow
KEY = "sk-planted-0123456789abcdef"
PASTE = "\x1b[200~{}\x1b[201~"


def past_the_first_second(term: Terminal) -> None:
    """Enter is taken once the screen has stood for a second. One, and no more: where the machine is slow,
    others would wait behind it, and be taken for what is pasted next."""
    stood = time.monotonic() + DEAF_SECONDS
    term.until(lambda _: time.monotonic() > stood)
    term.send("\r")
    term.until("Server address")


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
def test_from_nothing_to_an_answer_and_it_is_kept(
    tmp_path: Path, columns: int, rows: int
) -> None:
    with running_server(key=KEY) as server:
        with terminal(
            tmp_path / "shop", columns=columns, rows=rows, FOLDLINE_MODEL=""
        ) as term:
            term.until("Choose a model")
            term.send("\x1b[A")  # up, which wraps around
            term.until("▶Another OpenAI-compatible server")
            past_the_first_second(term)
            term.send(PASTE.format(server.base_url + "\n"))
            term.until(server.base_url)
            term.send("\r")
            term.until("if it needs one")
            term.send(PASTE.format(f"  '{KEY}'\r\n"))
            term.until("•" * len(KEY))
            term.send("\r")
            term.until(f"▶{MODEL}")
            term.send("\r")
            term.until("Enter sends")
            term.ask("hello")
            assert KEY.encode() not in term.raw
            assert not [clear for clear in CLEARS if clear in term.between]
            assert term.quit_by_keys() == 0 and term.not_restored() == []
        with terminal(
            tmp_path / "shop", columns=columns, rows=rows, FOLDLINE_MODEL=""
        ) as term:
            term.until(lambda now: MODEL in now.rows[0] and "Enter sends" in now.text)
            assert "Choose a model" not in term.text


def test_skipped_it_does_not_come_again_once_something_was_said(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", "who are you?", FOLDLINE_MODEL="") as term:
        term.until("Choose a model")
        term.resize(39, 9)
        term.until("Too small: needs 40x10")
        term.resize(80, 24)
        term.until("Esc close")
        term.send("\x1b")
        term.until("I am the offline model")
        term.until("Enter sends")
    with terminal(tmp_path / "shop", FOLDLINE_MODEL="") as term:
        term.until(lambda now: "offline" in now.rows[0] and "Enter sends" in now.text)
        term.ask("again")
        assert "Choose a model" not in term.text
