"""Descriptions of sessions are collected entry by entry, at a constant cost per entry."""

from datetime import UTC, datetime

import pytest

from foldline.history import meta
from foldline.history.meta import Describer, describe
from foldline.protocol import Entry, SessionHeader, UserMessage, parse_entry, text_parts
from foldline.text import shorten
from support.history import History, history
from support.stories import Story

CODEX = "## My request for Codex:"
HEADER = SessionHeader(id="s", created_at=datetime(2026, 1, 1, tzinfo=UTC), cwd="/work")


def long_session(turns: int) -> History:
    built = history()
    for number in range(turns):
        built.user(f"{number} " + "word " * 50_000).step("read", "text " * 50_000)
    return built


def test_each_entry_is_read_once_and_only_as_far_as_a_line_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signs = 0
    cells = shorten.cells

    def counting(char: str) -> int:
        nonlocal signs
        signs += 1
        return cells(char)

    monkeypatch.setattr(shorten, "cells", counting)
    describer = Describer(HEADER)
    costs = []
    for entry in long_session(30).entries:
        before = signs
        describer.add(entry)
        costs.append(signs - before)
    assert max(costs[3:]) <= max(costs[:3]) <= 20 * meta.TITLE_CELLS
    before = signs
    assert describer.meta().entries == len(costs)
    assert signs == before, "describing it looks at no entry again"


def test_a_continued_description_equals_that_of_all_entries() -> None:
    entries: list[Entry] = [
        *long_session(2).entries,
        UserMessage(index=99, parts=text_parts("the last")),
    ]
    half = describe(HEADER, entries[:3])
    later = Describer(HEADER, half)
    for entry in entries[3:]:
        later.add(entry)
    assert later.meta() == describe(HEADER, entries)


def test_a_list_counts_the_same_entries_as_every_command() -> None:
    """Including entries of unknown types: a list once showed 71 entries, and `history` 275."""
    entries = [
        *history().user("hello").assistant("hi").entries,
        parse_entry(b'{"type":"of-others","index":2}'),
    ]
    assert describe(HEADER, entries).entries == len(entries) == 3


def test_an_undo_changes_the_described_size() -> None:
    built = Story().user("a").user("b")
    built.compaction(1, "short", first=0, before=9_000, after=2_000)
    assert describe(HEADER, built.entries).tokens == 2_000
    built.undo(built.last)
    assert describe(HEADER, built.entries).tokens == 0, "not known"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            f"# Files mentioned by the user:\n\n## a.py: /x/a.py\n\n{CODEX}\nFix a.py\n",
            "Fix a.py",
        ),
        (
            f"# Context from my IDE setup:\n\n## Open tabs:\n- b\n\n{CODEX}\n\nGo on",
            "Go on",
        ),
        (
            f"\n# Files mentioned by the user:\n\n## A plan: /x/p.txt\n\n{CODEX}\n\n",
            "A plan: /x/p.txt",
        ),
        ("# Files I mention:\nall", "# Files I mention:"),
    ],
)
def test_the_title_is_the_request_without_the_editors_preamble(
    text: str, title: str
) -> None:
    assert describe(HEADER, history().user(text).entries).title == title
