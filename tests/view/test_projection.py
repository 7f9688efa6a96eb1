"""Examples of projecting the history: fates, positions, rewinds, undo."""

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from foldline.protocol import (
    BaseMessage,
    Compaction,
    Kept,
    SystemMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
    Written,
    dump_entry,
    parse_entry,
    text_parts,
)
from foldline.view.items import Fate
from foldline.view.projection import Projection
from foldline.view.rules import broken
from foldline.view.undo import BUILDS_ON, WOULD_BRING_BACK
from foldline.view.usage_reading import Anchor
from support.effort import effort_of
from support.history import History, call, history


def compaction(
    summary: str,
    covers: Sequence[tuple[int, int]],
    first_kept: int,
    *,
    inputs: Sequence[int] = (),
) -> Compaction:
    message = SystemMessage(origin="summary", parts=text_parts(summary))
    written = Written(message=message, covers=tuple(covers), inputs=tuple(inputs))
    return Compaction(summary=summary, first_kept_index=first_kept, head=(written,))


def view(projection: Projection) -> list[int]:
    assert broken(projection) == []
    return [item.index for item in projection.view]


def compacted_twice() -> History:
    """0 system, 1-4 turns, 5 compaction of 1-2, 6-7 a turn, 8 compaction of 3-4 and of the summary in 5."""
    two = (
        history()
        .system("s")
        .turn("one", "1")
        .turn("two", "2")
        .add(compaction("first", [(1, 2)], 3))
    )
    return two.turn("three", "3").add(compaction("second", [(3, 4)], 6, inputs=[5]))


def test_an_entry_compacted_twice_points_to_its_current_summary() -> None:
    projection = compacted_twice().projection()
    assert view(projection) == [0, 8, 6, 7]
    assert [projection.fate(index) for index in (1, 3, 5)] == [
        Fate("summarised", 8)
    ] * 3


def test_entries_covered_by_no_summary_are_truncated() -> None:
    projection = (
        history()
        .system("s")
        .turn("one", "1")
        .turn("two", "2")
        .add(compaction("x", [(2, 2)], 3))
        .projection()
    )
    assert projection.fate(1) == Fate("truncated", 5)


def test_a_failed_answer_without_text_and_an_orphan_result_are_left_out() -> None:
    projection = (
        history()
        .user("go")
        .assistant(" \n", thinking="hm")
        .result("late", call_id="unknown")
        .projection()
    )
    assert view(projection) == [0]
    assert [projection.fate(index).kind for index in (1, 2)] == ["aside", "aside"]


def test_a_late_result_follows_its_call_and_is_compacted_with_it() -> None:
    late = (
        history()
        .system("s")
        .user("go")
        .assistant(calls=[call("bash")])
        .user("and?")
        .result("done")
    )
    assert view(late.assistant("ok").projection()) == [0, 1, 2, 4, 3, 5]
    late.add(compaction("sum", [(1, 2), (4, 4)], 3))
    projection = late.projection()
    assert view(projection) == [0, 6, 3, 5]
    assert projection.fate(4) == Fate("summarised", 6)


def test_a_result_arriving_after_its_call_was_compacted_is_compacted_too() -> None:
    projection = (
        history()
        .user("a")
        .assistant(calls=[call("bash")])
        .user("b")
        .add(compaction("s", [(0, 1)], 2))
        .result("x")
    ).projection()
    assert view(projection) == [3, 2]
    assert projection.fate(4) == Fate("truncated", 3)


def test_two_calls_with_one_id_get_two_results() -> None:
    same = call("read", call_id="")
    twice = (
        history()
        .user("go")
        .assistant(calls=[same.model_copy(update={"call_id": "0"})] * 2)
    )
    projection = twice.result("a", call_id="0").result("b", call_id="0").projection()
    assert view(projection) == [0, 1, 2, 3]


def test_a_call_id_used_again_belongs_to_the_newest_call() -> None:
    again = call("read", call_id="0")
    projection = (
        history()
        .user("go")
        .assistant(calls=[again])
        .assistant(calls=[again])
        .result("for the second")
    ).projection()
    assert projection.group(3) == (2, 3)
    view(projection)


# --- edits ---------------------------------------------------------------------------------------------


def with_tool_group() -> History:
    """0 system, 1 request, 2-4 a tool group, 5 answer."""
    started = (
        history().system("s").user("go").assistant(calls=[call("read"), call("bash")])
    )
    return started.result("text").result("output").assistant("done")


def test_a_result_that_arrives_after_its_call_was_pinned_is_pinned_too() -> None:
    pinned = (
        history()
        .system("s")
        .assistant(calls=[call("bash")])
        .edit("pin", 1)
        .result("out")
        .clear()
    )
    assert view(pinned.projection()) == [0, 1, 3]


def test_pin_and_drop_act_on_the_whole_group_from_any_of_its_entries() -> None:
    for target in (2, 3, 4):
        assert with_tool_group().edit("pin", target).projection().pins == {2, 3, 4}
        assert view(with_tool_group().edit("drop", target).projection()) == [0, 1, 5]


def test_hide_acts_on_one_result_and_show_restores_it() -> None:
    hidden = with_tool_group().edit("hide", 3)
    projection = hidden.projection()
    assert [projection.fate(index).kind for index in (3, 4)] == ["hidden", "live"]
    assert "history_read(3)" in projection.view[3].message.text
    assert hidden.edit("show", 3).projection().view[3].message.text == "text"


def test_restore_shows_a_compacted_group_verbatim_right_after_the_summary() -> None:
    restored = (
        with_tool_group()
        .user("next")
        .add(compaction("sum", [(1, 5)], 6))
        .edit("restore", 4)
    )
    assert view(restored.projection()) == [0, 7, 2, 3, 4, 6]


def test_restore_never_splits_a_group_with_a_late_result() -> None:
    late = (
        history()
        .user("a")
        .assistant(calls=[call("bash")])
        .user("b")
        .user("c")
        .result("x")
    )
    assert view(late.edit("drop", 2).edit("restore", 2).projection()) == [0, 1, 4, 2, 3]


def test_dropping_a_pinned_system_prompt_only_removes_the_pin() -> None:
    projection = history().system("s").edit("pin", 0).edit("drop", 0).projection()
    assert view(projection) == [0]
    assert not projection.view[0].pinned


def test_cleared_outranks_dropped_until_the_clear_is_rewound() -> None:
    dropped = with_tool_group().edit("drop", 5).checkpoint(0).clear()
    assert dropped.projection().fate(5) == Fate("cleared", 8)
    assert dropped.revert(0).projection().fate(5) == Fate("dropped", 6)


def test_clear_leaves_the_system_prompt_instructions_and_pins() -> None:
    cleared = (
        history()
        .system("s")
        .instructions("rules")
        .turn("a", "b")
        .edit("pin", 2)
        .clear()
    )
    assert view(cleared.projection()) == [0, 1, 2]


def test_a_pinned_summary_survives_a_clear_and_its_entries_stay_summarised() -> None:
    projection = compacted_twice().edit("pin", 8).clear().projection()
    assert view(projection) == [0, 8]
    assert projection.fate(1) == Fate("summarised", 8)


# --- rewinds -------------------------------------------------------------------------------------------


def test_a_rewind_across_a_compaction_restores_that_view_and_keeps_the_request() -> (
    None
):
    before = history().system("s").turn("one", "1").checkpoint(0).user("two")
    projection = (
        before.assistant("2")
        .add(compaction("x", [(1, 2)], 4))
        .revert(0, kept=4)
        .projection()
    )
    assert view(projection) == [0, 1, 2, 4]
    assert projection.compactions() == []
    assert projection.fate(5) == Fate("reverted", 7)


def test_a_rewind_to_after_a_compaction_restores_the_compacted_state() -> None:
    projection = (
        compacted_twice().checkpoint(0).turn("four", "4").revert(0).projection()
    )
    assert view(projection) == [0, 8, 6, 7]


def test_a_rewind_keeps_only_a_request() -> None:
    assert view(
        with_tool_group().checkpoint(0).step("read", "x").revert(0, kept=8).projection()
    ) == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]


def test_a_dmail_enters_the_view_as_machine_text_after_the_request() -> None:
    dmail = (
        history()
        .system("s")
        .user("go")
        .checkpoint(0)
        .step("read", "much")
        .revert(0, message="line 50")
    )
    [_, request, message] = dmail.projection().view
    assert isinstance(request.message, UserMessage)
    assert (message.kind, message.message.text) == ("developer", "line 50")


def test_a_dropped_or_compacted_dmail_can_be_restored() -> None:
    dmail = (
        history()
        .user("go")
        .checkpoint(0)
        .step("read", "much")
        .revert(0, message="line 50")
    )
    restored = dmail.edit("drop", 4).edit("restore", 4).projection()
    assert [item.message.text for item in restored.view] == ["go", "line 50"]


def test_a_rewind_can_itself_be_rewound() -> None:
    there = (
        history()
        .system("s")
        .checkpoint(0)
        .turn("one", "1")
        .add(compaction("x", [(2, 2)], 3))
        .checkpoint(1)
    )
    back = there.user("two").revert(0)
    assert view(back.projection()) == [0]
    projection = back.revert(1).projection()
    assert view(projection) == [0, 4, 3]
    assert [each.index for each in projection.compactions()] == [4]


def test_checkpoint_ids_are_never_reused() -> None:
    reverted = history().checkpoint(0).user("a").checkpoint(1).revert(0)
    assert reverted.projection().next_checkpoint_id == 2


def test_an_edit_of_a_later_entry_changes_nothing() -> None:
    early = history().system("s").user("go").edit("pin", 4).step("read", "text").clear()
    assert early.projection().pins == frozenset() and len(early.projection().view) == 1


def test_a_rewind_to_an_unknown_checkpoint_changes_nothing() -> None:
    assert view(with_tool_group().revert(7, message="lost").projection()) == view(
        with_tool_group().projection()
    )


def test_a_compaction_without_a_summary_is_reverted_like_any_other() -> None:
    clips = Compaction(
        first_kept_index=1, replaced=(Kept(ref=3, content="te…", fate="clipped"),)
    )
    reverted = with_tool_group().checkpoint(0).add(clips).revert(0)
    assert reverted.projection().compactions() == []
    assert reverted.projection().fate(3).kind == "live"


# --- undo ----------------------------------------------------------------------------------------------


def test_undo_ten_turns_later_restores_the_earlier_view_as_an_exact_prefix() -> None:
    long = history().system("s").turn("one", "1").turn("two", "2")
    earlier = list(long.projection().view)
    long.add(compaction("x", [(1, 2)], 3))
    for turn in range(10):
        long.turn(f"more {turn}", "yes")
    later = long.undo(5).projection().view
    assert later[: len(earlier)] == earlier
    assert len(later) == len(earlier) + 20


def test_undoing_an_undo_compacts_again() -> None:
    again = compacted_twice()
    compacted = again.projection().view
    assert again.undo().undo().projection().view == compacted


def test_a_compaction_cannot_be_undone_before_a_later_one_built_on_it() -> None:
    projection = compacted_twice().projection()
    assert projection.undo_refusal(5) == BUILDS_ON.format(8, 5)
    assert view(compacted_twice().undo(5).projection()) == view(projection)
    assert view(compacted_twice().undo(8).undo(5).projection()) == [0, 1, 2, 3, 4, 6, 7]


def test_a_rewound_compaction_does_not_block_an_undo() -> None:
    reverted = (
        with_tool_group()
        .edit("drop", 5)
        .checkpoint(0)
        .add(compaction("x", [(1, 4)], 5))
        .revert(0)
    )
    assert reverted.projection().undo_refusal(6) is None
    assert view(reverted.undo(6).projection()) == [0, 1, 2, 3, 4, 5]


def test_a_compaction_is_not_restored_after_its_base_was_undone() -> None:
    dropped = (
        with_tool_group()
        .edit("drop", 5)
        .add(compaction("x", [(1, 4)], 6))
        .undo(7)
        .undo(6)
    )
    assert dropped.projection().undo_refusal(8) == WOULD_BRING_BACK.format(7, 6, 9)
    assert dropped.undo(9).projection().undo_refusal(8) is None


@pytest.mark.parametrize("target", [0, 1, 99, 6])
def test_only_existing_changes_of_the_view_can_be_undone(target: int) -> None:
    same = with_tool_group().undo(target)
    assert view(same.projection()) == view(with_tool_group().projection())
    assert same.projection().undo_refusal(0) is not None


# --- files with gaps, and sizes ------------------------------------------------------------------------


def test_an_undecodable_record_does_not_shift_later_cuts() -> None:
    whole = history().system("s").turn("lost", "too").turn("one", "1").turn("two", "2")
    damaged = history().system("s").gap(2).turn("one", "1").turn("two", "2")
    marker = compaction("x", [(1, 4)], 5)
    assert (
        view(whole.add(marker).projection())
        == view(damaged.add(marker).projection())
        == [0, 7, 5, 6]
    )


def test_compact_close_resume_twice_keeps_a_view_of_few_items() -> None:
    long = history().system("s")
    for turn in range(30):
        long.turn(f"question {turn}", "answer")
    long.add(compaction("x", [(1, 50)], 51))
    reloaded = Projection()
    for entry in long.entries:
        reloaded.append(parse_entry(dump_entry(entry)))
    again = compaction("y", [(51, 54)], 55, inputs=[61]).model_copy(
        update={"index": 62}
    )
    reloaded.append(parse_entry(dump_entry(again)))
    assert view(reloaded) == [0, 62, 55, 56, 57, 58, 59, 60]


def test_indices_must_increase() -> None:
    projection = history().user("a").projection()
    with pytest.raises(ValueError, match="does not come after"):
        projection.append(UserMessage(index=0, parts=text_parts("again")))


def test_usage_from_before_a_compaction_or_rewind_is_ignored_afterwards() -> None:
    usage = Usage(input=900, output=10)
    used = (
        history()
        .system("s")
        .user("x" * 4_000)
        .assistant("ok", usage=usage, model="m")
        .asked()
    )
    assert used.projection().meter.anchor is not None
    assert used.checkpoint(0).revert(0).projection().meter.anchor is None
    assert used.add(compaction("x", [(1, 1)], 2)).projection().meter.anchor is None


def test_a_long_answer_to_a_short_request_does_not_indicate_truncation() -> None:
    usage = Usage(input=12, output=4_100)
    short = (
        history()
        .system("s")
        .user("write it")
        .assistant("word " * 4_000, usage=usage)
        .asked()
    )
    assert short.projection().meter.anchor == Anchor(
        4_112, short.projection().meter.sent
    )


# --- complexity ----------------------------------------------------------------------------------------


def work(projection: Projection, message: BaseMessage) -> int:
    """Count the Python lines that one append executes."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        projection.append(message)
    finally:
        sys.settrace(before)
    return lines


def long_session(steps: int) -> History:
    long = history().system("s")
    for _ in range(steps):
        long.user("go").step("read", "text")
    return long


def test_appending_a_message_takes_constant_work_in_any_session_length() -> None:
    def effort(steps: int) -> list[int]:
        long = long_session(steps).assistant(calls=[call("read", call_id="open")])
        projection, index = long.projection(), long.last
        result = ToolResultMessage(
            index=index + 1, call_id="open", parts=text_parts("x")
        )
        return [
            work(projection, result),
            work(projection, UserMessage(index=index + 2, parts=text_parts("x"))),
        ]

    short, long = effort(100), effort(4_000)
    assert [most <= least + 20 for least, most in zip(short, long, strict=True)] == [
        True,
        True,
    ]


def test_a_late_result_of_a_pinned_call_is_pinned_even_if_the_call_was_cleared() -> (
    None
):
    """Undoing and redoing the compaction gives the same pins."""
    built = (
        history()
        .user("read")
        .assistant(calls=[call("read", "late", path="p")])
        .clear()
        .edit("pin", 1)
    )
    built.user("again").result("there it is", call_id="late")
    before = built.projection()
    assert before.pins == {1, 5}
    after = built.undo(2).undo().projection()
    assert (after.pins, after.view) == (before.pins, before.view)


def test_a_second_result_of_the_same_call_is_an_orphan() -> None:
    story = history().user("go").assistant(calls=[call("read", "c1", path="x")])
    projection = story.result("once").result("twice", call_id="c1").projection()
    assert projection.group(1) == (1, 2)
    assert projection.fate(3).kind == "aside"


def test_changes_to_a_forked_projection_leave_the_original_unchanged() -> None:
    story = (
        history()
        .user("go")
        .assistant(calls=[call("read", path="x"), call("read", path="y")])
        .result("x")
    )
    first = story.projection()
    forked = first.fork()
    forked.append(story.result("y").entries[-1])
    assert (first.group(1), forked.group(1)) == ((1, 2), (1, 2, 3))
    first.append(story.entries[-1])
    assert first.group(1) == forked.group(1)


@pytest.mark.parametrize("at_once", [True, False])
def test_undone_compactions_take_time_linear_in_their_number(at_once: bool) -> None:
    def compacted_and_undone(count: int) -> History:
        built, undone = history().user("go").step("read", "a"), list[int]()
        for _ in range(count):
            built.add(Compaction(first_kept_index=2, head=(Kept(ref=0),)))
            undone.append(built.last)
            if at_once:
                built.undo(undone.pop())
        for index in reversed(undone):
            built.undo(index)
        return built

    small, large = (
        effort_of(compacted_and_undone(count).projection) for count in (40, 80)
    )
    assert large.instructions < 2.2 * small.instructions


@pytest.mark.parametrize("between", [1, 5])
def test_undone_compactions_with_messages_between_take_time_linear_in_their_number(
    between: int,
) -> None:
    most = 40
    """Messages in the view: a window bounds them."""

    def compacted_and_undone(count: int) -> History:
        built, held = history(), 0
        for _ in range(count):
            built.user("one").assistant("two")
            built.add(compaction("all", [(0, built.last - 1)], built.last))
            made = built.last
            for _ in range(between):
                built.user("more")
            built.undo(made)
            held += between + 2
            if held > most:
                built.add(compaction("old", [(0, built.last)], built.last - 1))
                held = 0
        return built

    small, large = (
        effort_of(compacted_and_undone(count).projection) for count in (40, 80)
    )
    assert large.instructions < 2.3 * small.instructions
