"""A long day with the real program: turns, compactions, cancels, screens and resizes, by a seed.

Played without pauses.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.server import running_server
from support.terminal import CLEARS, Terminal, terminal

ESC = "\x1b"
F2 = "\x1bOQ"
PAGE_UP = "\x1b[5~"
CTRL_END = "\x1b[1;5F"
SIZES = ((80, 24), (120, 36), (100, 30), (60, 20), (160, 44))
_NEVER = {"text": "…", "fault": {"stall_after": 0}}
_PROSE = (
    "It was read from top to bottom, and nothing in it contradicts what was said before. "
    * 6
)
_CODE = (
    "```python\n"
    + "".join(f"value_{at} = compute({at})\n" for at in range(24))
    + "```\n"
)
_LIST = "".join(f"- point {at}: what was found there\n" for at in range(12))
_TABLE = "| file | lines |\n|---|---|\n" + "".join(
    f"| src/f{at}.py | {at * 7} |\n" for at in range(9)
)


def answers_of(turns: int) -> list[dict[str, Any]]:
    """Return long answers of all kinds, each ending in a line with its turn's number.

    Summaries are as usual.
    """
    kinds = (_PROSE, _CODE, _LIST, _TABLE)
    summary: list[dict[str, Any]] = [
        {"when": {"content": "hold on$|Additional focus: not now"}, "answer": _NEVER},
        {
            "when": {"content": "<conversation>", "tools": False},
            "answer": {"builtin": "summary"},
        },
        {"when": {"content": "<summary-request>"}, "answer": {"builtin": "summary"}},
    ]
    return summary + [
        {
            "when": {"content": f"turn {turn} of the day$"},
            "answer": {"text": f"{kinds[turn % 4]}\n\nend of turn {turn}", "chunk": 16},
        }
        for turn in range(turns)
    ]


def day(folder: Path, turns: int) -> None:
    """Play a day; check that the screen was never cleared and the transcript is complete."""
    with running_server(script=answers_of(turns), window=16_384) as server:
        env = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "a-key",
            "FOLDLINE_MODEL": server.model,
        }
        with terminal(folder, columns=120, rows=36, **env) as term:
            play(term, turns)
            transcript = "\n".join(scrolled_back(term, "❯ turn 0 of the day"))
            assert [clear for clear in CLEARS if clear in term.between] == []
    places = [
        transcript.find(text)
        for turn in range(turns)
        for text in (f"❯ turn {turn} of", f"end of turn {turn}")
    ]
    assert -1 not in places and places == sorted(places), (
        "a line of the transcript is missing, or misplaced"
    )
    events = next(folder.parent.rglob("events.jsonl")).read_text("utf-8")
    compactions = events.count('"type":"compaction"')
    assert compactions and transcript.count("% full") == compactions


def play(term: Terminal, turns: int, seed: int = 7) -> None:
    """Play all turns; end at the largest size, scrolled to the end."""
    chance = random.Random(seed)
    term.until("Enter sends")
    for turn in range(turns):
        if chance.random() < 0.4:
            term.resize(*chance.choice(SIZES))
        term.ask(f"turn {turn} of the day", wait=False)
        if chance.random() < 0.3:
            term.resize(*chance.choice(SIZES))  # while the answer streams
        term.until(f"end of turn {turn}")
        term.until("Enter sends")
        for deed in _BETWEEN:
            if chance.random() < 0.15:
                deed(term)
    term.resize(120, 36)
    term.until(lambda now: "Ctrl+P" in now.rows[35])
    term.send(CTRL_END)


def _look_inside(term: Terminal) -> None:
    term.send(F2)
    term.until("1 History")
    term.send(F2)
    term.until("Enter sends")


def _scroll(term: Terminal) -> None:
    for _ in range(3):
        term.send(PAGE_UP)
    term.until("Enter sends")
    term.send(CTRL_END)


def _compaction(term: Terminal) -> None:
    term.send("/compact\r")
    term.until(
        lambda now: re.search(
            r"▸─ .* → .* Enter expand|othing (to|was) compact", now.text
        )
    )
    term.until("Enter sends")


def _cancel_a_turn(term: Terminal) -> None:
    term.ask("hold on", wait=False)
    term.until("Waiting ·")
    term.send(ESC)
    term.until("Enter sends")
    term.settle()  # a key right after Esc would be read as one sequence with it


def _cancel_a_compaction(term: Terminal) -> None:
    term.send("/compact not now\r")
    term.until(lambda now: re.search(r"Compacting ·|Nothing to compact", now.text))
    if "Compacting" in term.text:
        term.send(ESC)
    term.until("Enter sends")
    term.settle()


_BETWEEN = (_look_inside, _scroll, _compaction, _cancel_a_turn, _cancel_a_compaction)


def scrolled_back(term: Terminal, first: str) -> list[str]:
    """Return the rows of the transcript from the one with `first` to the end, by paging up."""
    pages = list(_pages(term, first))
    rows = pages[0]
    for page in pages[1:]:
        overlap = next(
            (size for size in range(len(page), 0, -1) if page[-size:] == rows[:size]),
            None,
        )
        assert overlap is not None, (
            "two pages have no line in common: something between them is missing"
        )
        rows = page[:-overlap] + rows
    return rows


def _pages(term: Terminal, first: str) -> Iterator[list[str]]:
    """Yield each page of the transcript from the last to the one with `first`."""
    while True:
        term.settle()
        page = _transcript(term)
        yield page
        if any(first in row for row in page):
            return
        term.send(PAGE_UP)
        before = page
        term.until(lambda now, before=before: _transcript(now) != before)  # type: ignore[misc]


def _transcript(term: Terminal) -> list[str]:
    """Return the rows between header and prompt, without gutters, scroll bar and sidebar."""
    rows = term.rows
    end = next(
        at for at, row in enumerate(rows) if row.startswith(("┏━ prompt", "┌─ prompt"))
    )
    return [row[2:86].rstrip(" ▐▎▕█").rstrip() for row in rows[1:end]]
