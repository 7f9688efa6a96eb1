"""Subagents in the transcript: a line below the call, alive while they work, as their histories say after."""

from pathlib import Path

import pytest

from foldline.context.subagents import Work
from foldline.protocol import Subagent, events
from foldline.tui.blocks import BlockView
from foldline.tui.transcript.children import Children, works_of
from foldline.tui.transcript.feed import Transcript
from support.asking import Asking
from support.children import CALLERS, DOCS, TASKS, TESTS, all_back, at_work, kept, parent


def words(children: Children, started: Subagent) -> str:
    return "".join(text for text, _ in children.words(started))


def progress(child: str, state: str, **more: object) -> events.SubagentProgress:
    known = next(each for each in at_work() if each.child == child)
    return known.model_copy(update={"state": state, **more})


def test_a_subagent_says_what_it_does_and_then_what_it_came_to() -> None:
    projection = parent().projection()
    callers, tests, docs = projection.subagents
    children = Children(projection)
    assert words(children, callers).startswith("explore")
    for event in at_work():
        children.hear(event)
    assert words(children, tests) == (
        "general · 1 step · 2.8k worked · waits for you · bash pytest -q tests/test_orders.py"
    )
    assert words(children, docs) == "explore · 14 steps · 43k worked · read docs/api/orders.md"
    children.learn([(CALLERS, Work(3, 12_345))])
    assert words(children, callers).startswith("explore · 3 steps · 12.3k worked, 0.4k in your view")


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_one_that_did_not_finish_says_so(state: str) -> None:
    children = Children(parent().projection())
    children.hear(progress(DOCS, state))
    shown = words(children, parent().projection().subagents[2])
    assert shown == f"explore · 14 steps · {state} · 43k worked"


def test_one_that_has_just_begun_counts_nothing() -> None:
    projection = parent().projection()
    children = Children(projection)
    children.hear(progress(DOCS, "running", steps=0, tokens=0, doing=""))
    assert words(children, projection.subagents[2]) == "explore"


def test_what_they_saved_is_what_they_worked_and_what_is_left_in_the_view() -> None:
    projection = all_back().projection()
    children = Children(projection)
    assert children.saved() == (0, 0, 0)
    children.learn([(CALLERS, Work(3, 10_000)), (TESTS, Work(1, 5_000))])
    count, worked, left = children.saved()
    assert (count, worked) == (2, 15_000) and 0 < left < 500


def test_the_histories_of_finished_ones_are_read_and_a_missing_one_is_nothing(tmp_path: Path) -> None:
    path = kept(tmp_path, all_back())
    found = dict(works_of(path, [*TASKS, "gone"]))
    assert found == {**dict.fromkeys(TASKS, Work(2, 2_940)), "gone": Work(0, 0)}


def transcript_of(story: Asking) -> tuple[Transcript, list[str]]:
    transcript = Transcript(BlockView(), story.projection())
    return transcript, [block.text() for block in transcript.read(transcript.projection.entries)]


def test_a_resumed_session_shows_them_below_their_calls() -> None:
    transcript, shown = transcript_of(all_back())
    text = "\n".join(shown)
    for agent, title in TASKS.values():
        assert title in text and agent in text
    assert sorted(transcript.children.unread) == sorted(TASKS)
    places = [transcript.calls.of_child(each) for each in transcript.projection.subagents]
    assert [transcript.child_at(place) for place in places if place] == transcript.projection.subagents


def test_one_whose_call_nobody_knows_is_an_entry_of_its_own() -> None:
    story = (
        Asking()
        .user("go")
        .add(Subagent(child="c", call_id="", agent="\x1b[31mred", title="look\x1b]0;x\x07 around"))
    )
    transcript, shown = transcript_of(story)
    assert "look" in shown[-1] and "\x1b" not in shown[-1]
    place = (story.entries[-1].index, 0)
    assert transcript.child_at(place) == story.entries[-1]
    assert transcript.openings.opens(place)
