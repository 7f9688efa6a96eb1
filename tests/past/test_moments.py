"""Moments of a history, differences between two views, and the text of an entry."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.past.moments import (
    SLICE,
    ItemPair,
    at_compaction,
    at_request,
    difference,
    empty_prefix,
    entry_text,
    first_entry,
    replay_to,
    runs,
    since_request,
    sums,
)
from foldline.past.proof import proof_by, proof_of, recorded_requests
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    Clear,
    Compaction,
    Entry,
    RequestRecord,
    Revert,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.view.projection import Projection, project
from foldline.view.weight import item_weight
from support.history import call, history
from support.limits import examples
from support.projections import State
from support.random_histories import build_history, steps
from support.request_stories import compacted_story
from support.stories import long_story

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@settings(max_examples=examples(60))
@given(steps, st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_an_earlier_moment_is_the_projection_of_the_history_up_to_it(
    happened: list[tuple[str, int, int]], shares: list[float]
) -> None:
    entries = build_history(happened)
    whole = project(entries)
    projection = empty_prefix(whole.entries)
    for length in sorted(round(share * len(entries)) for share in shares):
        before, projection = projection, projection.fork()
        was = State.of(before)
        for _ in replay_to(projection, length):
            pass
        assert State.of(projection) == State.of(project(entries[:length]))
        assert State.of(before) == was, (
            "the compaction that another one starts from stays as it is"
        )


def test_a_long_history_is_replayed_in_slices() -> None:
    whole = long_story(3 * SLICE).projection()
    projection = empty_prefix(whole.entries)
    lengths = [len(projection.entries) for _ in replay_to(projection, 2 * SLICE + 5)]
    assert lengths == [SLICE, 2 * SLICE, 2 * SLICE + 5]
    assert State.of(projection) == State.of(
        project(list(whole.entries[: 2 * SLICE + 5]))
    )


def test_each_request_is_at_its_recorded_position_and_proved() -> None:
    story = compacted_story()
    now = story.projection()
    recorded = recorded_requests(story.entries)
    assert len(recorded) == len(now.meter.requests) == 15
    for sent in recorded:
        moment = at_request(now, sent.number)
        assert moment.recorded == sent and moment.length == sent.length
        proof, then = proof_of(sent, story.entries)
        assert proof.holds and proof_by(sent, then).holds
        assert now.meter.requests[sent.number - 1].reported == (
            sent.record.usage.input if sent.record.usage else 0
        )


def _records(places: Sequence[int | None]) -> list[Entry]:
    """Append prompts, each followed by a record of a request sent at this index."""
    entries: list[Entry] = []
    for after in places:
        entries.append(UserMessage(parts=text_parts("more"), at=NOON))
        entries.append(AssistantMessage(parts=text_parts("answer"), at=NOON))
        entries.append(RequestRecord(digest="", model="m", after=after, at=NOON))
    return [
        entry.model_copy(update={"index": index}) for index, entry in enumerate(entries)
    ]


@given(st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=8))
def test_a_record_sent_before_an_earlier_one_is_not_trusted(
    places: list[int | None],
) -> None:
    entries = _records(places)
    now = project(entries)
    found = [at_request(now, number).recorded for number in range(1, len(places) + 1)]
    assert found == recorded_requests(entries)


def test_an_answer_stands_for_its_unrecorded_request() -> None:
    story = (
        history()
        .system("prompt")
        .user("one")
        .assistant("first", usage=Usage(input=70))
        .user("two")
    )
    now = story.assistant("second").projection()
    assert [at_request(now, number).length for number in (1, 2)] == [2, 4]
    assert [asked.reported for asked in now.meter.requests] == [
        70,
        0,
    ] and now.meter.requests[1].is_estimated
    now.append(RequestRecord(index=9, digest="", model="m", estimated=100))
    assert [asked.entry for asked in now.meter.requests] == [9], (
        "once there are records they are what counts"
    )


def test_no_request_precedes_the_first_or_follows_the_last() -> None:
    now = compacted_story().projection()
    for number in (0, len(now.meter.requests) + 1):
        with pytest.raises(IndexError):
            at_request(now, number)


def test_undoing_a_compaction_does_not_count_a_request_twice() -> None:
    story = compacted_story()
    before = [asked.entry for asked in story.projection().meter.requests]
    assert [
        asked.entry
        for asked in story.undo(story.projection().all_compactions[-1].index)
        .projection()
        .meter.requests
    ] == before


def test_the_first_entry_of_a_request_is_the_first_one_not_sent_before() -> None:
    now = compacted_story().projection()
    assert first_entry(now, at_request(now, 1)) == 0
    # Request 2 sends the answer to request 1 and the result of its call.
    assert first_entry(now, at_request(now, 2)) == 2
    assert (
        first_entry(now, at_compaction(now, now.all_compactions[0].index))
        == now.all_compactions[0].index
    )
    assert first_entry(now, None) == now.last_index - 2, (
        "the last answer, of which nobody has been asked yet"
    )


def test_new_entries_since_the_previous_request_are_counted_and_changes_named() -> None:
    now = compacted_story().projection()

    def against(number: int) -> tuple[int, tuple[int, ...]]:
        then: Projection = project(list(now.entries[: at_request(now, number).length]))
        found = since_request(then, number - 1, at_request(now, number - 1).length)
        return found.added, found.changed_by

    assert against(3) == (2, ())
    assert against(12) == (2, (now.all_compactions[0].index,))
    assert against(14) == (0, ()), "the same request once more, after it failed"


def _compaction(index: int) -> tuple[Projection, Projection, list[ItemPair]]:
    entries = compacted_story().entries
    now = project(entries)
    before, after = (
        project(
            entries[
                : at_compaction(now, now.all_compactions[index].index, before=b).length
            ]
        )
        for b in (True, False)
    )
    return before, after, difference(before.view, after.view)


def test_a_compaction_removes_items_and_adds_a_summary() -> None:
    _, after, pairs = _compaction(0)
    changes = [(change, len(run)) for change, run in runs(pairs)]
    assert changes == [("same", 1), ("new", 1), ("gone", 16), ("same", 6)]
    assert [pair.item.index for pair in pairs if pair.change == "new"] == [
        after.all_compactions[0].index
    ]


def test_clipped_and_hidden_results_count_as_changed() -> None:
    _, after, pairs = _compaction(1)
    changed = [pair for pair in pairs if pair.change == "changed"]
    assert [pair.after.fate for pair in changed if pair.after] == ["clipped", "hidden"]
    assert all(
        pair.before is not None and pair.before.fate == "live" for pair in changed
    )
    assert {pair.change for pair in pairs} == {"same", "changed"}
    total = sums(after, pairs)
    assert total["changed"].change < 0 == total["same"].change


@settings(max_examples=examples(60))
@given(steps, st.floats(0, 1))
def test_each_item_is_listed_once_and_the_totals_add_up(
    happened: list[tuple[str, int, int]], share: float
) -> None:
    entries = build_history(happened)
    before, after = project(entries[: round(share * len(entries))]), project(entries)
    pairs = difference(before.view, after.view)
    assert [pair.after for pair in pairs if pair.after is not None] == after.view
    assert sorted(p.before.key for p in pairs if p.before is not None) == sorted(
        i.key for i in before.view
    )
    total = sums(after, pairs).values()
    assert sum(part.before for part in total) == sum(
        item_weight(after, item).tokens for item in before.view
    )
    assert sum(part.after for part in total) == sum(
        item_weight(after, item).tokens for item in after.view
    )


def test_a_view_shares_everything_with_itself() -> None:
    view = compacted_story().projection().view
    assert {pair.change for pair in difference(view, view)} == {"same"}


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (UserMessage(parts=text_parts("a\n\n b ")), "a\n\n b "),
        (ToolResultMessage(call_id="c", parts=text_parts("out\t1\n")), "out\t1\n"),
        (Compaction(summary="so far", first_kept_index=3), "so far"),
        (Revert(checkpoint=1, message="skip it"), "skip it"),
        (Revert(checkpoint=1), None),
        (Checkpoint(id=1), None),
        (Clear(), None),
    ],
)
def test_each_kind_of_entry_has_its_text(entry: Entry, text: str | None) -> None:
    assert entry_text(entry) == text


def test_a_call_shows_its_argument_values_with_long_ones_on_separate_lines() -> None:
    arguments = {
        "path": "数据.py",
        "content": 'x = "1"\ny = 2\n',
        "count": 2,
        "tags": ["中"],
    }
    part = ToolCallPart(call_id="c", name="write", arguments=json.dumps(arguments))
    assert entry_text(AssistantMessage(parts=(*text_parts("I write."), part))) == (
        'I write.\n[call write]\npath: 数据.py\ncontent:\nx = "1"\ny = 2\n\ncount: 2\ntags: ["中"]'
    )


def test_arguments_that_are_not_a_json_object_are_shown_verbatim() -> None:
    part = ToolCallPart(call_id="c", name="bash", arguments='{"command": "ls')
    assert entry_text(AssistantMessage(parts=(part,))) == '[call bash]\n{"command": "ls'


def test_thinking_is_separate_from_the_answer() -> None:
    [entry] = history().assistant("Done.", thinking="Is it?").entries
    assert entry_text(entry) == "[thinking]\nIs it?\n[answer]\nDone."


def test_calls_can_be_excluded_by_name() -> None:
    [entry] = (
        history()
        .assistant(calls=[call("ls", path="a"), call("history_read", index=3)])
        .entries
    )
    assert entry_text(entry, without_calls=("history_read",)) == "[call ls]\npath: a"
