"""A strategy's rewrite: the entry derived from it (`derive`) and the checks it must pass (`verify`)."""

from collections.abc import Sequence

import pytest

from foldline.compaction.rewrite import (
    GROUP_INCOMPLETE,
    NOT_SMALLER,
    OUT_OF_ORDER,
    PIN_CHANGED,
    PREAMBLE_MISSING,
    REQUEST_MISSING,
    RESULT_UNSEEN,
    TAIL_BEGINS_WITH,
    TWICE,
    UNKNOWN_INDEX,
    faults,
)
from foldline.compaction.summary_text import framed
from foldline.protocol import BaseMessage, Kept, ToolResultMessage, Written
from foldline.view.calls import ANSWERS_NO_CALL
from foldline.view.derive import derive, spans
from foldline.view.items import Fate, hidden_placeholder, with_text
from foldline.view.projection import Projection
from foldline.view.rules import broken
from support.history import History, call, history

LONG = "what the command said, line after line\n" * 50


def session() -> History:
    """0 system; 1-4 a turn with a tool group; 5-6 a turn; 7 request, 8-9 its group."""
    built = history().system("s").user("one").step("read", LONG).assistant(LONG)
    return built.turn("two " + LONG, LONG).user("three").step("bash", LONG)


def messages(built: History) -> list[BaseMessage]:
    return [item.message for item in built.projection().view]


def commit(built: History, after: Sequence[BaseMessage]) -> Projection:
    """Commit the rewrite and check that the view is legal and exactly as proposed."""
    before = messages(built)
    pins = built.projection().pins
    assert faults(before, after, pins) == []
    projection = built.add(derive(before, after)).projection()
    assert broken(projection) == []
    assert [item.message.parts for item in projection.view] == [
        message.parts for message in after
    ]
    return projection


def fates(projection: Projection, *indices: int) -> list[Fate]:
    return [projection.fate(index) for index in indices]


def test_several_summaries_between_kept_messages_each_cover_their_own_span() -> None:
    built = session()
    m = messages(built)
    projection = commit(built, [m[0], framed("a"), m[4], framed("b"), *m[7:]])
    assert fates(projection, 1, 2, 3) == [Fate("summarised", 10, 0)] * 3
    assert fates(projection, 5, 6) == [Fate("summarised", 10, 1)] * 2
    assert fates(projection, 4, 7) == [Fate("live")] * 2


def test_several_summaries_are_absorbed_by_the_next_compaction() -> None:
    built = session()
    m = messages(built)
    commit(built, [m[0], framed("a"), m[4], framed("b"), *m[7:]])
    built.assistant("done").turn("four", LONG)
    m = messages(built)
    projection = commit(built, [m[0], framed("all of it"), *m[-2:]])
    assert {projection.fate(index).by for index in range(1, 12)} == {built.last}


def test_removed_messages_without_a_summary_are_truncated() -> None:
    built = session()
    m = messages(built)
    projection = commit(built, [m[0], *m[5:]])
    assert fates(projection, 1, 4) == [Fate("truncated", 10)] * 2


def test_a_replaced_result_is_hidden_or_clipped_and_can_be_restored() -> None:
    built = session()
    m = messages(built)
    result = m[3]
    assert isinstance(result, ToolResultMessage)
    hidden = commit(
        built, [*m[:3], with_text(result, hidden_placeholder(result)), *m[4:]]
    )
    assert hidden.fate(3) == Fate("hidden", 10)
    assert view_text(built.edit("show", 3), 3) == LONG
    again = messages(built)
    clipped = commit(built, [*again[:3], with_text(again[3], "what the…"), *again[4:]])
    assert clipped.fate(3) == Fate("clipped", 12)
    assert view_text(built, 3) == "what the…"


def view_text(built: History, index: int) -> str:
    return next(
        item.message.text for item in built.projection().view if item.index == index
    )


def test_a_replaced_result_before_the_tail_keeps_its_replacement() -> None:
    built = session()
    m = messages(built)
    projection = commit(
        built, [m[0], m[1], m[2], with_text(m[3], "short"), framed("x"), *m[7:]]
    )
    assert projection.fate(3) == Fate("clipped", 10)


def test_instructions_loaded_midway_leave_the_summary_complete() -> None:
    built = (
        history()
        .system("s")
        .turn("one", LONG)
        .instructions("rules")
        .turn("two", LONG)
        .user("three")
    )
    m = messages(built)
    projection = commit(built, [m[0], m[3], framed("x"), m[-1]])
    assert fates(projection, 1, 2, 4, 5) == [Fate("summarised", 7)] * 4


def test_instructions_loaded_in_the_tail_move_to_the_front() -> None:
    built = (
        history()
        .system("s")
        .turn("one", LONG)
        .user("two")
        .instructions("rules")
        .assistant("ok")
    )
    m = messages(built)
    projection = commit(built, [m[0], m[4], framed("x"), m[3], m[5]])
    assert projection.compactions()[0].first_kept_index == 3


def test_later_messages_follow_a_compaction_of_everything() -> None:
    built = history().system("s").turn("one", LONG).turn("two", LONG)
    commit(built, [messages(built)[0], framed("all")])
    assert [item.index for item in built.user("three").projection().view] == [0, 5, 6]


def test_the_entry_refers_to_old_messages_and_copies_only_new_text() -> None:
    m = messages(session())
    entry = derive(m, [m[0], framed("a"), m[4], *m[7:]])
    assert entry.first_kept_index == 7
    assert [type(piece) for piece in entry.head] == [Written, Kept]
    assert LONG not in entry.model_dump_json()


@pytest.mark.parametrize(
    ("indices", "others", "ranges"),
    [
        ([], [3], ()),
        ([9, 1, 4, 2], [7], ((1, 4), (9, 9))),
        ([1, 9], [], ((1, 9),)),
        ([2, 3], [1, 4], ((2, 3),)),
    ],
)
def test_a_span_may_include_markers_but_no_uncovered_message(
    indices: list[int], others: list[int], ranges: tuple[tuple[int, int], ...]
) -> None:
    assert spans(indices, others) == ranges


def test_checkpoints_between_messages_do_not_enlarge_the_entry() -> None:
    built = history().system("s")
    for nth in range(50):
        built.checkpoint(nth).turn(f"request {nth}", LONG)
    m = messages(built)
    [written] = derive(m, [m[0], framed("x"), *m[-2:]]).head
    assert isinstance(written, Written)
    assert written.covers == ((2, 147),)


# --- rejections, each with a sentence ------------------------------------------------------------------


def faults_of(after: Sequence[BaseMessage], built: History | None = None) -> list[str]:
    projection = (built or session()).projection()
    return faults([item.message for item in projection.view], after, projection.pins)


M = messages(session())


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ([M[0], framed("x"), *M[8:]], REQUEST_MISSING.format("unanswered", 7)),
        (
            [M[0], framed("x"), M[7]],
            RESULT_UNSEEN.format(9),
        ),
        ([M[0], framed("x"), M[2], M[4], *M[7:]], GROUP_INCOMPLETE.format(2)),
        ([M[0], framed("x"), M[3], *M[7:]], ANSWERS_NO_CALL.format(3)),
        ([M[0], framed("x"), M[6], M[5], *M[7:]], OUT_OF_ORDER),
        ([M[0], framed("x"), M[5], M[5], *M[7:]], TWICE),
        (
            [framed("x"), *M[7:]],
            PREAMBLE_MISSING.format(0),
        ),
        (
            [M[0], framed("x"), M[6].model_copy(update={"index": 77}), *M[7:]],
            UNKNOWN_INDEX,
        ),
        (M, NOT_SMALLER),
        ([M[0], framed(LONG * 9), *M[7:]], NOT_SMALLER),
        (
            [*M[:7], with_text(M[7], "3"), *M[8:]],
            REQUEST_MISSING.format("unanswered", 7),
        ),
        (
            [*M[:9], with_text(M[9], "…")],
            RESULT_UNSEEN.format(9),
        ),
    ],
)
def test_a_rewrite_that_breaks_a_rule_is_rejected_with_a_sentence(
    after: Sequence[BaseMessage], sentence: str
) -> None:
    assert any(sentence in fault for fault in faults_of(after))


def test_a_pin_must_be_returned_unchanged() -> None:
    pinned = session().edit("pin", 3)
    m = messages(pinned)
    assert PIN_CHANGED.format(3) in faults_of([m[0], framed("x"), *m[7:]], pinned)
    assert faults_of([m[0], framed("x"), *m[2:4], *m[7:]], pinned) == []


def with_notice() -> History:
    """0 system, 1-2 a turn, 3 a notice, 4-5 a turn, 6 request."""
    return (
        history()
        .system("s")
        .turn("one", LONG)
        .notice("note " + LONG)
        .turn("two", LONG)
        .user("three")
    )


@pytest.mark.parametrize("summary", [(framed("x"),), ()])
def test_a_kept_tail_never_begins_with_a_developer_message(
    summary: tuple[BaseMessage, ...],
) -> None:
    m = messages(with_notice())
    assert TAIL_BEGINS_WITH.format(3, "developer") in faults_of(
        [m[0], *summary, *m[3:]], with_notice()
    )


def test_a_pinned_developer_message_may_stand_before_the_kept_tail() -> None:
    pinned = with_notice().edit("pin", 3)
    m = messages(pinned)
    assert faults_of([m[0], framed("x"), m[3], m[6]], pinned) == []


def test_an_answered_request_may_be_compacted_but_not_an_unanswered_ones_image() -> (
    None
):
    answered = history().system("s").turn("one", LONG).user("two", images=1)
    m = messages(answered)
    assert faults_of([m[0], framed("x"), m[3]], answered) == []
    assert faults_of([m[0], framed("x"), with_text(m[3], "two")], answered) != []


def test_an_answered_request_is_not_dropped_without_a_summary() -> None:
    answered = history().system("s").turn("one", LONG).turn("two", LONG)
    m = messages(answered)
    assert faults_of(m[:3], answered) == [REQUEST_MISSING.format("last", 3)]
    assert faults_of([m[0], *m[3:]], answered) == []
    assert faults_of([m[0], framed("x")], answered) == []


def test_a_call_without_a_result_yet_is_legal_and_stays_one_group() -> None:
    crashed = (
        history()
        .system("s")
        .turn("one", LONG)
        .user("two")
        .assistant(calls=[call("bash")])
        .user("three")
    )
    m = messages(crashed)
    assert faults_of([m[0], framed("x"), *m[3:]], crashed) == []
