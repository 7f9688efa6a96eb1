"""The compactions of Codex, on rows made here."""

import pytest

from foldline.context.projection import project
from foldline.formats import ForeignSession
from foldline.formats.readers.codex.items import ABSENT
from foldline.formats.readers.codex.items import SEALED as SEALED_LINE
from foldline.protocol import Compaction, DeveloperMessage, Kept, UserMessage, Written
from support.codex_rows import (
    SEALED,
    answer,
    call,
    compacted,
    event,
    item,
    output,
    prompt,
    read_rows,
    rolled_back,
    row,
    told,
    usage,
)
from support.foreign import faults, said, view

RULES = told("developer", "rules")
AGENTS = "# AGENTS.md instructions for /x\n\nBe kind."
HERE, THERE = (f"<environment_context>{place}</environment_context>" for place in ("here", "there"))
SUMMARY = "Another language model started to solve this problem and produced a summary of it.\nDone: a."


def folds(session: ForeignSession) -> list[Compaction]:
    return [entry for entry in session.entries if isinstance(entry, Compaction)]


def fates(session: ForeignSession) -> dict[str, str]:
    """By text: what became of the messages."""
    projection = project(session.entries)
    return {
        text: projection.fate(entry.index).kind
        for entry in session.entries
        if (text := getattr(entry, "text", ""))
    }


def test_the_view_after_a_fold_is_the_context_it_lists_in_its_order() -> None:
    session = read_rows(
        RULES,
        *prompt("one"),
        *answer("first"),
        usage(99),
        *prompt("two"),
        compacted(told("user", "one"), RULES, told("user", "two"), told("user", SUMMARY), message=SUMMARY),
        *answer("second"),
    )
    assert said(session) == ["one", "rules", "two", SUMMARY, "second"]
    assert fates(session)["first"] == "summarised"
    [fold] = folds(session)
    assert (fold.strategy, fold.summary, fold.tokens_before) == ("codex", SUMMARY, 13)
    assert [piece.ref for piece in fold.head if isinstance(piece, Kept)] == [2, 1, 7]
    assert faults(session) == []


def test_an_encrypted_summary_leaves_a_line_in_its_place() -> None:
    session = read_rows(*prompt("one"), *answer("1"), compacted(told("user", "one"), SEALED), *answer("2"))
    assert said(session) == ["one", SEALED_LINE, "2"]
    assert session.notes == ("Encrypted summaries of compactions, each replaced by a line that says so: 1.",)


def test_what_the_new_context_says_anew_joins_the_history() -> None:
    session = read_rows(
        told("user", AGENTS, HERE),
        *prompt("one"),
        *answer("1"),
        compacted(told("user", AGENTS, THERE), told("user", "one"), told("user", SUMMARY)),
    )
    assert said(session) == [AGENTS, THERE, "one", SUMMARY]
    assert fates(session)[HERE] == "summarised"
    anew = session.entries[-2]
    assert isinstance(anew, DeveloperMessage)
    assert anew.text == THERE
    assert faults(session) == []


def test_instructions_that_changed_replace_the_old_ones() -> None:
    newer = AGENTS + " And brief."
    session = read_rows(
        told("user", AGENTS), *prompt("one"), *answer("1"), compacted(told("user", newer), SEALED)
    )
    assert said(session) == [newer, SEALED_LINE]
    assert faults(session) == []


def test_the_same_prompt_twice_is_kept_twice() -> None:
    again = told("user", "again")
    session = read_rows(*prompt("again"), *answer("1"), *prompt("again"), compacted(again, again, SEALED))
    assert said(session) == ["again", "again", SEALED_LINE]
    assert faults(session) == []


def test_a_second_fold_absorbs_the_first() -> None:
    session = read_rows(
        *prompt("one"),
        *answer("1"),
        compacted(told("user", "one"), told("user", SUMMARY)),
        *answer("2"),
        compacted(told("user", "one"), told("user", SUMMARY + " And b.")),
    )
    first, second = folds(session)
    [text] = [piece for piece in second.head if isinstance(piece, Written)]
    assert text.inputs == (first.index,)
    assert said(session) == ["one", SUMMARY + " And b."]
    assert fates(session)["1"] == "summarised"
    assert faults(session) == []


def test_a_summary_that_codex_took_for_a_prompt_stays_a_summary() -> None:
    handed_over = told("user", "So far.")
    session = read_rows(
        compacted(handed_over, message="So far."),
        *prompt("one"),
        *answer("1"),
        compacted(handed_over, told("user", "one"), told("user", SUMMARY), message=SUMMARY),
        *answer("2"),
        compacted(handed_over, told("user", "one"), told("user", SUMMARY + " And b.")),
    )
    assert said(session) == ["So far.", "one", SUMMARY + " And b."]
    assert [item.kind for item in project(session.entries).view] == ["summary", "user", "summary"]
    assert faults(session) == []


def test_a_text_the_user_never_typed_is_not_passed_off_as_typed() -> None:
    session = read_rows(*prompt("a long story"), compacted(told("user", "a long…tokens truncated…"), SEALED))
    shortened = view(session)[0]
    assert isinstance(shortened, UserMessage)
    assert shortened.origin == "machine"


def test_without_a_listed_context_the_opening_and_the_users_words_are_kept() -> None:
    session = read_rows(
        RULES,
        told("user", AGENTS),
        *prompt("one"),
        *answer("1"),
        told("developer", "a hint in between"),
        *prompt("two"),
        row("compacted", message="So far."),
        *answer("2"),
    )
    assert said(session) == ["rules", AGENTS, "one", "two", "So far.", "2"]
    assert fates(session)["a hint in between"] == "summarised"
    assert faults(session) == []


def test_of_many_words_the_newest_are_kept_and_the_last_that_fits_is_shortened() -> None:
    long = "é" * 60_000  # 30,000 of Codex's tokens
    session = read_rows(*prompt("old"), *prompt(long), *prompt("new"), row("compacted", message="So far."))
    shortened, newest, summary = said(session)
    assert (newest, summary) == ("new", "So far.")
    assert len(shortened.encode()) < 81_000
    assert "tokens truncated" in shortened
    assert faults(session) == []


def test_a_compaction_without_any_summary_says_so() -> None:
    assert said(read_rows(*prompt("one"), row("compacted", message=""))) == ["one", "(no summary available)"]


def test_sizes_and_reason_of_a_fold() -> None:
    before, after = usage(99, input=200_000), usage(99, input=0, output=0)
    after["payload"]["info"]["last_token_usage"]["total_tokens"] = 15_000
    started = event("task_started")
    session = read_rows(
        *prompt("one"), *answer("1"), before, compacted(SEALED), after, started, compacted(SEALED)
    )
    auto, manual = folds(session)
    assert (auto.tokens_before, auto.tokens_after, auto.reason) == (200_003, 15_000, "threshold")
    assert manual.reason == "manual"


def test_a_result_that_comes_after_the_fold_goes_with_its_call() -> None:
    session = read_rows(
        *prompt("one"), call("c"), compacted(told("user", "one"), SEALED), output("c"), *answer("2")
    )
    assert said(session) == ["one", SEALED_LINE, "2"]
    assert faults(session) == []


def test_going_back_behind_a_fold_brings_back_what_it_folded() -> None:
    session = read_rows(
        *prompt("one"),
        *answer("1"),
        *prompt("two"),
        compacted(told("user", "one"), told("user", "two"), SEALED),
        *answer("2"),
        rolled_back(1),
        *prompt("three"),
    )
    assert said(session) == ["one", "1", "three"]
    assert faults(session) == []


@pytest.mark.parametrize("kind", ["function_call", "reasoning", "ghost_snapshot"])
def test_items_that_are_no_messages_do_not_survive_a_fold(kind: str) -> None:
    odd = row("response_item", type=kind, call_id="c", name="f", arguments="{}")
    assert said(read_rows(*prompt("one"), compacted(told("user", "one"), odd, SEALED))) == [
        "one",
        SEALED_LINE,
    ]


def test_nothing_is_called_encrypted_that_is_not_in_the_file() -> None:
    empty = item("compaction", encrypted_content=None)
    for kept in ([told("user", "one")], [told("user", "one"), empty]):
        session = read_rows(
            *prompt("one"), item("reasoning", summary=[], content=None), *answer("1"), compacted(*kept)
        )
        assert said(session) == ["one", ABSENT]
        assert session.notes == (
            "Compactions whose summary is not in the file, each replaced by a line that says so: 1.",
            "Pieces of reasoning whose text is not in the file: 1.",
        )
