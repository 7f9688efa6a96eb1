"""Moments of a history: their folds are those of the shorter history, however they were come by."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.context.moments import (
    SLICE,
    at_compaction,
    at_request,
    empty_prefix,
    first_entry,
    replay_to,
    since_request,
)
from foldline.context.projection import Projection, project
from foldline.context.proof import proof_by, proof_of, recorded_requests
from foldline.protocol import AssistantMessage, Entry, RequestRecord, Usage, UserMessage, text_parts
from support.asking import retold
from support.happenings import played, steps
from support.history import history
from support.projections import State
from support.stories import long_story

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@settings(max_examples=60)
@given(steps, st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_an_earlier_moment_is_the_fold_of_the_shorter_history(
    happened: list[tuple[str, int, int]], shares: list[float]
) -> None:
    entries = played(happened)
    whole = project(entries)
    projection = empty_prefix(whole.entries)
    for length in sorted(round(share * len(entries)) for share in shares):
        before, projection = projection, projection.forked()
        was = State.of(before)
        for _ in replay_to(projection, length):
            pass
        assert State.of(projection) == State.of(project(entries[:length]))
        assert State.of(before) == was, "the fold that another one starts from stays as it is"


def test_a_long_history_is_folded_in_slices() -> None:
    whole = long_story(3 * SLICE).projection()
    projection = empty_prefix(whole.entries)
    lengths = [len(projection.entries) for _ in replay_to(projection, 2 * SLICE + 5)]
    assert lengths == [SLICE, 2 * SLICE, 2 * SLICE + 5]
    assert State.of(projection) == State.of(project(list(whole.entries[: 2 * SLICE + 5])))


def test_each_request_is_where_its_record_says_and_proved() -> None:
    story = retold()
    now = story.projection()
    recorded = recorded_requests(story.entries)
    assert len(recorded) == len(now.requests) == 15
    for sent in recorded:
        moment = at_request(now, sent.number)
        assert moment.sent == sent and moment.length == sent.length
        proof, then = proof_of(sent, story.entries)
        assert proof.holds and proof_by(sent, then).holds
        assert now.requests[sent.number - 1].reported == (sent.record.usage.input if sent.record.usage else 0)


def _records(places: Sequence[int | None]) -> list[Entry]:
    """Prompts and, after each, a record that says the request left at this index."""
    entries: list[Entry] = []
    for after in places:
        entries.append(UserMessage(parts=text_parts("more"), at=NOON))
        entries.append(AssistantMessage(parts=text_parts("answer"), at=NOON))
        entries.append(RequestRecord(digest="", model="m", after=after, at=NOON))
    return [entry.model_copy(update={"index": index}) for index, entry in enumerate(entries)]


@given(st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=8))
def test_a_record_that_says_it_left_before_an_earlier_one_is_not_believed(places: list[int | None]) -> None:
    entries = _records(places)
    now = project(entries)
    found = [at_request(now, number).sent for number in range(1, len(places) + 1)]
    assert found == recorded_requests(entries)


def test_where_nothing_is_recorded_an_answer_stands_for_its_request() -> None:
    story = history().system("prompt").user("one").assistant("first", usage=Usage(input=70)).user("two")
    now = story.assistant("second").projection()
    assert [at_request(now, number).length for number in (1, 2)] == [2, 4]
    assert [asked.reported for asked in now.requests] == [70, 0] and now.requests[1].is_estimated
    now.append(RequestRecord(index=9, digest="", model="m", estimated=100))
    assert [asked.entry for asked in now.requests] == [9], "once there are records they are what counts"


def test_there_is_no_request_before_the_first_and_after_the_last() -> None:
    now = retold().projection()
    for number in (0, len(now.requests) + 1):
        with pytest.raises(IndexError):
            at_request(now, number)


def test_undoing_a_fold_counts_no_request_twice() -> None:
    story = retold()
    before = [asked.entry for asked in story.projection().requests]
    assert [
        asked.entry
        for asked in story.undo(story.projection().all_compactions[-1].index).projection().requests
    ] == before


def test_the_first_entry_of_a_request_is_the_first_that_the_one_before_did_not_send() -> None:
    now = retold().projection()
    assert first_entry(now, at_request(now, 1)) == 0
    # Request 2 sends what request 1 was answered, and the result of that call.
    assert first_entry(now, at_request(now, 2)) == 2
    assert first_entry(now, at_compaction(now, now.all_compactions[0].index)) == now.all_compactions[0].index
    assert first_entry(now, None) == now.last_index - 2, "the last answer, of which nobody has been asked yet"


def test_what_came_since_the_request_before_is_counted_and_what_changed_the_view_is_named() -> None:
    now = retold().projection()

    def against(number: int) -> tuple[int, tuple[int, ...]]:
        then: Projection = project(list(now.entries[: at_request(now, number).length]))
        found = since_request(then, number - 1, at_request(now, number - 1).length)
        return found.added, found.changed_by

    assert against(3) == (2, ())
    assert against(12) == (2, (now.all_compactions[0].index,))
    assert against(14) == (0, ()), "the same request once more, after it failed"
