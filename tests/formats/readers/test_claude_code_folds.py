"""The compactions of Claude Code, and the view after each."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.formats import ForeignSession
from foldline.formats.parts import LOST_CUTS
from support.claude_code_rows import (
    Record,
    boundary,
    call,
    microcompact,
    piece,
    read,
    result,
    summary,
    text,
    texts,
    user,
)


def kept(**told: Any) -> ForeignSession:
    return read(
        user("one", uuid="a"),
        piece("m1", text("done"), uuid="b"),
        user("two", uuid="c"),
        piece("m2", call("c1", "Bash"), uuid="d"),
        piece("m2", call("c2", "Bash"), uuid="e"),
        result("c1", "r1", uuid="f", parentUuid="d"),
        result("c2", "r2", uuid="g", parentUuid="e"),
        {**boundary(**told), "uuid": "B", "logicalParentUuid": "g"},
        summary("so far", uuid="S"),
        user("three"),
    )


@pytest.mark.parametrize("uuids", [["d"], ["f"], ["g"], ["d", "g"]])
def test_a_tool_group_is_kept_whole(uuids: list[str]) -> None:
    session = kept(preservedMessages={"anchorUuid": "S", "uuids": uuids})
    assert texts(session) == ["so far", "", "r1", "r2", "three"]


@pytest.mark.parametrize(
    "told",
    [
        {"preservedMessages": {"anchorUuid": "S", "uuids": ["a", "elsewhere"]}},
        {
            "preservedSegment": {
                "headUuid": "elsewhere",
                "anchorUuid": "S",
                "tailUuid": "g",
            }
        },
        {"preservedSegment": {"headUuid": "g", "anchorUuid": "S", "tailUuid": "c"}},
    ],
)
def test_kept_records_that_are_not_in_the_file_keep_nothing_and_say_so(
    told: Record,
) -> None:
    session = kept(**told)
    assert texts(session) == ["so far", "three"]
    assert session.notes[0] == LOST_CUTS.format(compactions="1 compaction refers")


def test_what_stands_between_a_boundary_and_its_summary_stays_in_place() -> None:
    hook = {"type": "progress", "data": {"type": "hook_progress"}}
    session = read(user("one"), boundary(), hook, summary("so far"), user("two"))
    assert [(entry.index, entry.type) for entry in session.entries][1:3] == [
        (2, "claude-code.progress"),
        (3, "compaction"),
    ]
    session = read(user("one"), boundary(), hook, user("two"))
    assert [(entry.index, entry.type) for entry in session.entries][1:3] == [
        (1, "compaction"),
        (2, "claude-code.progress"),
    ]


STEPS = 4
UUIDS = (
    "p",
    *(f"{kind}{n}" for n in range(STEPS) for kind in "abrs"),
    "q",
    "S",
    "elsewhere",
)
SOME = st.lists(st.sampled_from(UUIDS), max_size=8, unique=True)
CALLS = st.lists(st.sampled_from([f"c{n}" for n in range(STEPS)]), max_size=STEPS)


@given(
    first=SOME,
    second=SOME,
    anchors=st.tuples(st.booleans(), st.booleans()),
    cleared=CALLS,
    again=CALLS,
)
def test_whatever_compactions_keep_and_take_out_the_view_stays_valid(
    first: list[str],
    second: list[str],
    anchors: tuple[bool, bool],
    cleared: list[str],
    again: list[str],
) -> None:
    """`read` checks every promise of the projection."""
    steps = [
        record
        for n in range(STEPS)
        for record in (
            piece(f"m{n}", call(f"c{n}", "Bash"), uuid=f"a{n}"),
            piece(f"m{n}", call(f"d{n}", "Bash"), uuid=f"b{n}"),
            result(f"c{n}", uuid=f"r{n}", parentUuid=f"a{n}"),
            result(f"d{n}", uuid=f"s{n}", parentUuid=f"b{n}"),
        )
    ]
    told = [
        {
            "preservedMessages": {
                "anchorUuid": name if ahead else "the summary",
                "uuids": uuids,
            }
        }
        for name, ahead, uuids in zip(("B", "C"), anchors, (first, second), strict=True)
    ]
    session = read(
        user("one", uuid="p"),
        *steps[:8],
        microcompact(*again),
        {**boundary(**told[0]), "uuid": "B"},
        summary("first", uuid="S"),
        *steps[8:],
        microcompact(*cleared),
        user("two", uuid="q"),
        {**boundary(**told[1]), "uuid": "C"},
        summary("second"),
        microcompact(*again),
    )
    assert "second" in texts(session)
