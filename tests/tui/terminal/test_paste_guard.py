"""A paste is one paste, in whatever pieces the terminal sends it, and nothing in it is a key."""

import pytest
from textual import events

from foldline.tui.terminal.driver import TerminalParser

SENT = "a\x1b[200~one\x1b[31mtwo\r\n\x1b[20x\x1b\x1b[201~b\x1b[A\x1b[200~\x1b[201~\x1b[200~c\x1b[201~"


def heard(pieces: list[str]) -> list[str]:
    parser = TerminalParser()
    return [
        event.text
        if isinstance(event, events.Paste)
        else f"key {getattr(event, 'key', event)}"
        for piece in pieces
        for event in parser.feed(piece)
    ]


def test_alt_enter_is_known_in_both_ways_terminals_send_it() -> None:
    assert heard(["\x1b\r", "\x1b[13;3u", "\r"]) == [
        "key alt+enter",
        "key alt+enter",
        "key enter",
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_an_escape_within_a_paste_is_text(size: int) -> None:
    pieces = [SENT[at : at + size] for at in range(0, len(SENT), size)]
    assert heard(pieces) == [
        "key a",
        "one␛[31mtwo\r\n␛[20x␛",
        "key b",
        "key up",
        "",
        "c",
    ]
