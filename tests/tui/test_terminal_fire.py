"""The real program in a real terminal, on a server that throttles, breaks off and comes back."""

import re
from pathlib import Path

import pytest

from foldline.llm.failures import BROKEN
from foldline.tui.chat.escape_actions import ESC_STOPS_RETRYING
from support.server import running_server
from support.terminal import CLEARS, Terminal, terminal

pytestmark = pytest.mark.slow
THROTTLES = {"fault": {"status": 429, "headers": {"retry-after": "100"}}}
SAID = {"text": "So much had been said. And more", "chunk": 23}
BREAKS_OFF = {**SAID, "fault": {"cut_after": 2}}
FAILS = {
    **SAID,
    "fault": {"error_after": 2, "body": {"error": {"code": 400, "message": "no more"}}},
}
SCRIPT = [
    {"when": {"content": "first$"}, "times": 1, "answer": THROTTLES},
    {"when": {"content": "first$"}, "times": 1, "answer": BREAKS_OFF},
    {"when": {"content": "first$"}, "times": 1, "answer": FAILS},
    {"when": {"content": "first$"}, "answer": {"text": "All of it."}},
    {"answer": {"text": "The second one, too."}},
]

BROKE_OFF = BROKEN.removeprefix("{at.shown} ").partition(".")[0]
"""The sentence without the server's address. It may be wrapped after the first sentence."""


def counted(term: Terminal) -> int:
    """The seconds that are left; 0 where none are said."""
    found = re.search(r"Trying again in (\d+) s · 1 of 8", term.text)
    return int(found[1]) if found else 0


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 36)])
def test_a_throttled_turn_counts_down_gives_up_and_goes_on(
    tmp_path: Path, columns: int, rows: int
) -> None:
    with running_server(script=SCRIPT) as server:
        env = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "a-key",
            "FOLDLINE_MODEL": server.model,
        }
        with terminal(tmp_path / "shop", columns=columns, rows=rows, **env) as term:
            term.until("Enter sends")
            term.ask("first", wait=False)
            term.until(counted)
            first = counted(term)
            assert "(429)" in term.text and ESC_STOPS_RETRYING in term.text
            term.ask(
                "second", wait=False
            )  # the keyboard is alive, and the queue takes it
            term.until("1 queued")
            term.until(lambda seen: 0 < counted(seen) < first)
            term.send("\x1b")
            term.until("cancelled here")
            term.until("Alt+R try again")
            assert len(server.requests()) == 1
            term.send("\x1br")
            term.until(BROKE_OFF)  # and it is requested again
            term.until("(400)")
            assert "So much had been said." in term.text
            term.until("‖ 1 queued")
            term.send("\x1br")
            term.until("The second one, too.")
            assert "All of it." in term.text and "So much had been said." in term.text
            assert not [clear for clear in CLEARS if clear in term.between]
            shown = [
                line[1:2] for line in term.rows if "So much had been said." in line
            ]
            assert shown == [" ", " "], "the model has neither of them any more"
        asked = [seen.messages[-1]["content"] for seen in server.requests()]
        assert asked == ["first"] * 4 + ["second"]
