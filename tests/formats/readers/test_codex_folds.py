"""The compactions of Codex, on rows made here."""

import pytest

from foldline.formats.readers.codex.items import ABSENT
from foldline.formats.readers.codex.items import SEALED as SEALED_LINE
from foldline.formats.readers.codex.reader import ABSENT_SUMMARIES, ABSENT_THOUGHTS
from support.codex_rows import (
    SEALED,
    answer,
    compaction_row,
    item,
    message_row,
    prompt,
    read_rows,
    row,
)
from support.foreign import faults, view_texts

HERE, THERE = (
    f"<environment_context>{place}</environment_context>" for place in ("here", "there")
)


def test_of_many_words_the_newest_are_kept_and_the_last_that_fits_is_shortened() -> (
    None
):
    long = "é" * 60_000  # 30,000 of Codex's tokens
    session = read_rows(
        *prompt("old"),
        *prompt(long),
        *prompt("new"),
        row("compacted", message="So far."),
    )
    shortened, newest, summary = view_texts(session)
    assert (newest, summary) == ("new", "So far.")
    assert len(shortened.encode()) < 81_000
    assert "tokens truncated" in shortened
    assert faults(session) == []


@pytest.mark.parametrize("kind", ["function_call", "reasoning", "ghost_snapshot"])
def test_items_that_are_no_messages_do_not_survive_a_compaction(kind: str) -> None:
    odd = row("response_item", type=kind, call_id="c", name="f", arguments="{}")
    assert view_texts(
        read_rows(
            *prompt("one"), compaction_row(message_row("user", "one"), odd, SEALED)
        )
    ) == [
        "one",
        SEALED_LINE,
    ]


def test_nothing_is_called_encrypted_that_is_not_in_the_file() -> None:
    empty = item("compaction", encrypted_content=None)
    for kept in ([message_row("user", "one")], [message_row("user", "one"), empty]):
        session = read_rows(
            *prompt("one"),
            item("reasoning", summary=[], content=None),
            *answer("1"),
            compaction_row(*kept),
        )
        assert view_texts(session) == ["one", ABSENT]
        assert session.notes == (
            f"{ABSENT_SUMMARIES}: 1.",
            f"{ABSENT_THOUGHTS}: 1.",
        )
