"""Subagents in the transcript: a line below the call, alive while they work, as their histories say after."""

from pathlib import Path

import pytest

from foldline.past.subagents import SubagentWork
from foldline.protocol import AssistantMessage, Subagent, events
from foldline.tui.blocks.view import BlockView
from foldline.tui.transcript.calls import CALL_PIECE
from foldline.tui.transcript.children import ANSWER, USED, Children, works_of
from foldline.tui.transcript.feed import WAITING, ChatTranscript
from foldline.view.projection import project
from support.children import (
    CALLERS,
    DOCS,
    TASKS,
    TESTS,
    finished_parent,
    parent,
    progress_events,
    write_session,
)
from support.history import call
from support.request_stories import RequestStory


def words(children: Children, started: Subagent) -> str:
    return "".join(text for text, _ in children.words(started))


def progress(child: str, state: str, **more: object) -> events.SubagentProgress:
    known = next(each for each in progress_events() if each.child == child)
    return known.model_copy(update={"state": state, **more})


def test_a_subagent_says_what_it_does_and_then_what_it_came_to() -> None:
    projection = parent().projection()
    callers, tests, docs = projection.subagents
    children = Children(projection)
    assert words(children, callers).startswith("explore")
    for event in progress_events():
        children.update(event)
    assert words(children, tests) == (
        "general · waits for you · 1 step · 2.8k · bash pytest -q tests/test_orders.py"
    )
    assert words(children, docs) == "explore · 14 steps · 43k · read docs/api/orders.md"
    children.add_works([(CALLERS, SubagentWork(3, 12_345))])
    assert words(children, callers).startswith(
        "explore · 3 steps · 12.3k" + ANSWER.format(tokens="0.4k")
    )


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_one_that_did_not_finish_says_so(state: str) -> None:
    children = Children(parent().projection())
    children.update(progress(DOCS, state))
    shown = words(children, parent().projection().subagents[2])
    assert shown == f"explore · {state} · 14 steps · 43k{USED}"


def test_one_of_which_the_model_has_yet_to_hear_is_unread_or_unfinished() -> None:
    projection = parent().projection()
    children = Children(projection)
    docs = projection.subagents[2]
    children.add_works(
        [(TESTS, SubagentWork(2, 2_940)), (DOCS, SubagentWork(0, 0, finished=False))]
    )
    assert (
        words(children, projection.subagents[1])
        == f"general · unread · 2 steps · 2.9k{USED}"
    )
    assert words(children, docs) == "explore · unfinished"
    children.update(
        progress(TESTS, "done")
    )  # its call waits for the others of its step
    assert words(children, projection.subagents[1]) == f"general · 1 step · 2.8k{USED}"
    children.update(progress(DOCS, "background"))
    assert words(children, docs) == (
        "explore · in the background · 14 steps · 43k · read docs/api/orders.md"
    )
    after = Children(finished_parent().projection())
    after.add_works([(TESTS, SubagentWork(2, 2_940))])
    assert "unread" not in words(after, after._projection.subagents[1])


def test_the_answer_of_one_in_the_background_is_seen_to_come() -> None:
    *before, brought, _, _ = finished_parent().entries
    transcript = ChatTranscript(BlockView(), project(before))
    view = transcript._view
    transcript.show(transcript.read(transcript.projection.entries))
    transcript.add_child_works([(TESTS, SubagentWork(2, 2_940))])
    key = transcript.calls.of_child(transcript.projection.subagents[1])
    assert key is not None and "unread" in view.block(key).text()  # type: ignore[union-attr]
    transcript.projection.append(brought)
    transcript.add(brought)
    assert "unread" not in view.block(key).text()  # type: ignore[union-attr]


def test_one_that_has_just_begun_counts_nothing() -> None:
    projection = parent().projection()
    children = Children(projection)
    children.update(progress(DOCS, "running", steps=0, tokens=0, doing=""))
    assert words(children, projection.subagents[2]) == "explore"


def test_what_they_saved_is_what_they_worked_and_what_is_left_in_the_view() -> None:
    projection = finished_parent().projection()
    children = Children(projection)
    assert children.saved() == (0, 0, 0)
    children.add_works(
        [(CALLERS, SubagentWork(3, 10_000)), (TESTS, SubagentWork(1, 5_000))]
    )
    count, worked, left = children.saved()
    assert (count, worked) == (2, 15_000) and 0 < left < 500


def test_the_histories_of_finished_ones_are_read_and_a_missing_one_is_nothing(
    tmp_path: Path,
) -> None:
    path = write_session(tmp_path, finished_parent())
    found = dict(works_of(path, [*TASKS, "gone"]))
    assert found == {
        **dict.fromkeys(TASKS, SubagentWork(2, 2_940)),
        "gone": SubagentWork(0, 0, finished=False),
    }


def transcript_of(story: RequestStory) -> tuple[ChatTranscript, list[str]]:
    transcript = ChatTranscript(BlockView(), story.projection())
    return transcript, [
        block.text() for block in transcript.read(transcript.projection.entries)
    ]


def test_a_resumed_session_shows_them_below_their_calls() -> None:
    transcript, shown = transcript_of(finished_parent())
    text = "\n".join(shown)
    for agent, title in TASKS.values():
        assert title in text and agent in text
    assert sorted(transcript.children.unread) == sorted(TASKS)
    places = [
        transcript.calls.of_child(each) for each in transcript.projection.subagents
    ]
    assert [
        transcript.child_at(place) for place in places if place
    ] == transcript.projection.subagents


def test_one_that_has_no_room_to_begin_waits() -> None:
    story = (
        RequestStory()
        .user("go")
        .ask("", call("task", agent="explore", prompt="Look around\nin all of it."))
    )
    transcript, shown = transcript_of(story)
    assert (
        "Look around  " in shown[-1] and WAITING not in shown[-1]
    )  # nobody is at work on what was stored
    transcript.show(transcript.read(transcript.projection.entries))
    answer = next(
        entry for entry in story.entries if isinstance(entry, AssistantMessage)
    )
    [made] = answer.calls
    transcript.start_tool(made.call_id)
    transcript.flush()
    key = (answer.index, CALL_PIECE)
    assert WAITING in transcript._view.block(key).text()  # type: ignore[union-attr]
    begun = Subagent(
        child="c",
        call_id=made.call_id,
        agent="explore",
        title="Look around",
        index=answer.index + 2,
    )
    transcript.projection.append(begun)
    transcript.add(begun)
    assert WAITING not in transcript._view.block(key).text()  # type: ignore[union-attr]


def test_one_whose_call_nobody_knows_is_an_entry_of_its_own() -> None:
    story = (
        RequestStory()
        .user("go")
        .add(
            Subagent(
                child="c",
                call_id="",
                agent="\x1b[31mred",
                title="look\x1b]0;x\x07 around",
            )
        )
    )
    transcript, shown = transcript_of(story)
    assert "look" in shown[-1] and "\x1b" not in shown[-1]
    place = (story.entries[-1].index, 0)
    assert transcript.child_at(place) == story.entries[-1]
    assert transcript.openings.opens(place)
