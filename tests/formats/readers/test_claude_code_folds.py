"""The compactions of Claude Code, and the view after each."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.projection import project
from foldline.formats import ForeignSession
from foldline.protocol import (
    DeveloperMessage,
    NoticeRecord,
    Written,
)
from support.claude_code_rows import (
    Record,
    beside,
    boundary,
    call,
    fold_of,
    microcompact,
    piece,
    read,
    result,
    summary,
    text,
    texts,
    user,
)


def test_after_a_fold_the_view_is_the_summary_and_what_came_after() -> None:
    session = read(
        user("one"),
        piece("m1", call("c1", "Read", file_path="/x/a")),
        result("c1"),
        piece("m2", text("done")),
        {**boundary(preTokens=99, postTokens=9, userContext="the tests"), "logicalParentUuid": "u3"},
        summary("so far"),
        user("two"),
    )
    fold = fold_of(session)
    assert texts(session) == ["so far", "two"]
    assert (fold.index, fold.first_kept_index, fold.strategy) == (5, 5, "claude-code")
    assert (fold.tokens_before, fold.tokens_after, fold.reason, fold.focus) == (
        99,
        9,
        "threshold",
        "the tests",
    )
    [written] = fold.head
    assert isinstance(written, Written)
    assert (written.covers, written.inputs) == (((0, 3),), ())
    assert fold.details.read_files == ("/x/a",)
    projection = project(session.entries)
    assert [projection.fate(index).kind for index in (0, 1, 2, 3)] == ["summarised"] * 4


def test_a_second_fold_absorbs_the_first_and_its_file_lists() -> None:
    session = read(
        piece("m1", call("c1", "Read", file_path="/x/a")),
        result("c1"),
        boundary(),
        summary("first"),
        piece("m2", call("c2", "Edit", file_path="/x/b")),
        result("c2"),
        boundary(trigger="manual"),
        summary("second"),
        user("on"),
    )
    fold = fold_of(session)
    assert texts(session) == ["second", "on"]
    assert fold.reason == "manual"
    assert fold.head[0].inputs == (3,)  # type: ignore[union-attr]
    assert (fold.details.read_files, fold.details.modified_files) == (("/x/a",), ("/x/b",))


def test_a_summary_without_a_boundary_is_a_fold() -> None:
    """So version 1 wrote it."""
    session = read(user("one"), piece("m1", text("done")), summary("so far", parentUuid=None), user("two"))
    assert texts(session) == ["so far", "two"]
    assert fold_of(session).head[0].covers == ((0, 1),)  # type: ignore[union-attr]


def test_a_second_summary_of_one_compaction_is_machine_text() -> None:
    session = read(user("one"), boundary(), summary("part one"), summary("part two"))
    assert texts(session) == ["part one", "part two"]
    assert isinstance(session.entries[-1], DeveloperMessage)


def test_a_boundary_without_a_summary_leaves_what_came_after() -> None:
    session = read(user("one"), boundary(), user("two"))
    assert texts(session) == ["two"]
    assert project(session.entries).fate(0).kind == "truncated"
    assert session.notes == ("1 compactions have no summary in the file.",)


def test_a_file_that_ends_before_the_summary_is_not_folded_yet() -> None:
    session = read(user("one"), boundary(), {"type": "progress", "data": {}})
    assert texts(session) == ["one"]
    assert [entry.index for entry in session.entries] == [0, 1, 2]


def test_the_record_before_a_fold_may_be_one_of_a_hook_with_a_wrong_parent() -> None:
    """Some versions write it so; what it hides is history all the same."""
    session = read(
        user("one", uuid="a"),
        user("two", uuid="b"),
        {"type": "system", "subtype": "stop_hook_summary", "uuid": "h", "parentUuid": "a"},
        {**boundary(), "logicalParentUuid": "h"},
        summary(),
    )
    assert fold_of(session).head[0].covers == ((0, 1),)  # type: ignore[union-attr]


def test_history_that_is_written_again_counts_once() -> None:
    session = read(
        user("one", uuid="a"),
        user("two", uuid="b"),
        user("one", uuid="a", parentUuid=None),
        user("three", uuid="c", parentUuid="b"),
    )
    assert texts(session) == ["one", "two", "three"]
    assert session.notes == ("Left out: 1 record that the file holds a second time.",)


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


def test_messages_that_a_fold_kept_follow_its_summary() -> None:
    session = kept(preservedMessages={"anchorUuid": "S", "uuids": ["c", "d", "e", "f", "g"]})
    assert texts(session) == ["so far", "two", "", "r1", "r2", "three"]
    assert fold_of(session).first_kept_index == 2


def test_messages_kept_ahead_of_the_summary_stand_there() -> None:
    session = kept(preservedMessages={"anchorUuid": "B", "uuids": ["a", "b"]})
    assert texts(session) == ["one", "done", "so far", "three"]


def test_a_kept_segment_is_named_by_its_ends() -> None:
    session = kept(preservedSegment={"headUuid": "c", "anchorUuid": "S", "tailUuid": "g"})
    assert texts(session) == ["so far", "two", "", "r1", "r2", "three"]


@pytest.mark.parametrize("uuids", [["d"], ["f"], ["g"], ["d", "g"]])
def test_a_tool_group_is_kept_whole(uuids: list[str]) -> None:
    session = kept(preservedMessages={"anchorUuid": "S", "uuids": uuids})
    assert texts(session) == ["so far", "", "r1", "r2", "three"]


@pytest.mark.parametrize(
    "told",
    [
        {"preservedMessages": {"anchorUuid": "S", "uuids": ["a", "elsewhere"]}},
        {"preservedSegment": {"headUuid": "elsewhere", "anchorUuid": "S", "tailUuid": "g"}},
        {"preservedSegment": {"headUuid": "g", "anchorUuid": "S", "tailUuid": "c"}},
    ],
)
def test_kept_records_that_are_not_in_the_file_keep_nothing_and_say_so(told: Record) -> None:
    session = kept(**told)
    assert texts(session) == ["so far", "three"]
    assert "kept records that are not in the file" in session.notes[0]


def test_a_fold_after_one_that_kept_messages_covers_them_too() -> None:
    session = read(
        user("one", uuid="a"),
        user("two", uuid="b"),
        boundary(preservedMessages={"anchorUuid": "u3", "uuids": ["b"]}),
        summary("first"),
        user("three"),
        boundary(),
        summary("second"),
    )
    assert texts(session) == ["second"]
    assert fold_of(session).head[0].covers == ((1, 4),)  # type: ignore[union-attr]


def test_results_taken_out_of_the_context_are_hidden() -> None:
    session = read(
        user("go"),
        piece("m1", call("c1", "Bash")),
        result("c1", "long"),
        piece("m2", call("c2", "Bash")),
        result("c2", "short"),
        microcompact("c1", "c9"),
        user("on"),
    )
    assert texts(session) == ["go", "", "[Old tool result content cleared]", "", "short", "on"]
    assert project(session.entries).fate(2).kind == "hidden"


def test_results_are_taken_out_of_a_view_that_is_folded_already() -> None:
    session = read(
        user("one", uuid="a"),
        piece("m1", call("c1", "Bash"), uuid="b"),
        result("c1", "r1", uuid="c"),
        boundary(preservedMessages={"anchorUuid": "u3", "uuids": ["b", "c"]}),
        summary("so far"),
        piece("m2", call("c2", "Bash")),
        result("c2", "r2"),
        microcompact("c1", "c2"),
        user("on"),
    )
    cleared = "[Old tool result content cleared]"
    assert texts(session) == ["", cleared, "so far", "", cleared, "on"]


def test_a_boundary_that_takes_nothing_out_is_a_notice() -> None:
    session = read(user("go"), {**microcompact(), "content": "Context microcompacted"})
    assert isinstance(session.entries[-1], NoticeRecord)


def test_results_that_the_model_saw_shortened_are_clipped() -> None:
    shorter = {"kind": "tool-result", "toolUseId": "c1", "replacement": "lo…"}
    session = read(
        piece("m1", call("c1", "Bash")),
        result("c1", "long"),
        beside("content-replacement", replacements=[shorter]),
    )
    assert texts(session) == ["", "lo…"]
    assert project(session.entries).fate(1).kind == "clipped"


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
UUIDS = ("p", *(f"{kind}{n}" for n in range(STEPS) for kind in "abrs"), "q", "S", "elsewhere")
SOME = st.lists(st.sampled_from(UUIDS), max_size=8, unique=True)
CALLS = st.lists(st.sampled_from([f"c{n}" for n in range(STEPS)]), max_size=STEPS)


@given(first=SOME, second=SOME, anchors=st.tuples(st.booleans(), st.booleans()), cleared=CALLS, again=CALLS)
def test_whatever_folds_keep_and_take_out_the_view_stays_valid(
    first: list[str], second: list[str], anchors: tuple[bool, bool], cleared: list[str], again: list[str]
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
        {"preservedMessages": {"anchorUuid": name if ahead else "the summary", "uuids": uuids}}
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
