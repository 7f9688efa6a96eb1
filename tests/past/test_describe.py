"""Entries in one line of words."""

import pytest

from foldline.past.describe import CLEARED, describe
from foldline.protocol import (
    Approval,
    Clear,
    Entry,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Subagent,
    Title,
    Undo,
    Unknown,
)
from support.history import call, history
from support.stories import Story


@pytest.mark.parametrize(
    ("entry", "kind", "line"),
    [
        (Clear(), "clear", CLEARED),
        (Undo(target=0), "undo", "entry 0 undone"),
        (Title(title="Login\nand more"), "title", "Login"),
        (ModelChange(model="m", provider="p"), "model", "m · p"),
        (ModelChange(model="m", provider="m"), "model", "m"),
        (NoticeRecord(text="\x1b[2Jlow disk"), "notice", "␛low disk"),
        (
            RequestRecord(model="m", digest="", error="overloaded"),
            "request",
            "failed: overloaded",
        ),
        (Approval(mode="edits"), "approve", "mode edits: edits need no approval"),
        (Subagent(child="a1", call_id="", agent="explore"), "agent", "explore · a1"),
        (Unknown(type="pi.x", record={}), "other", "pi.x: unknown"),
    ],
)
def test_a_marker_is_described_by_its_effect(
    entry: Entry, kind: str, line: str
) -> None:
    story = history().user("go").add(entry)
    description = describe(story.projection(), story.entries[-1])
    assert description.kind == kind
    assert description.line.startswith(line)


def test_a_result_is_described_by_its_call_and_outcome() -> None:
    made = call("bash", command="cd /w && pytest -q")
    story = Story().user("go").assistant(calls=[made])
    story.answer("...", brief="exit 1")
    description = describe(story.projection(), story.entries[-1], "/w")
    assert (description.kind, description.line) == ("bash", "pytest -q · exit 1 ✗")
    assert description.failed


def test_without_an_outcome_the_changed_lines_are_counted() -> None:
    story = Story().user("go").tool("edit", "ok", path="/w/src/a.py")
    description = describe(story.projection(), story.entries[-1], "/w")
    assert (description.title, description.is_path) == ("src/a.py", True)


def test_thoughts_and_calls_stand_for_an_answer_without_text() -> None:
    story = Story().user("go").assistant("", thinking="First\nthen")
    thought = describe(story.projection(), story.entries[-1])
    assert (thought.title, thought.tone) == ("First", "thought")
    story.assistant("", calls=[call("read", path="a"), call("bash", command="b")])
    assert describe(story.projection(), story.entries[-1]).title == "calls read, bash"
