"""Branches: going to any moment restores its view, and the tree keeps the branch that was left."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.protocol import (
    Compaction,
    Entry,
    Kept,
    SystemMessage,
    Written,
    text_parts,
)
from foldline.view.items import ViewItem
from foldline.view.projection import Projection, project
from foldline.view.rules import broken, dangling
from foldline.view.undo import ViewChange
from support.history import History, history
from support.limits import examples

ACTS = [
    "turn",
    "step",
    "rewind",
    "go",
    "undo",
    "undo any",
    "compact",
    "pin",
    "drop",
    "hide",
    "clear",
    "note",
]


def compaction(projection: Projection, chosen: int) -> Compaction | None:
    """Append a summary of the view up to some position, keeping pins."""
    body = [item for item in projection.view if not item.is_preamble]
    cuts = [
        at
        for at, item in enumerate(body)
        if item.outline.type != "tool_result" and not item.written
    ]
    if not cuts:
        return None
    at = cuts[chosen % len(cuts)]
    pinned = {
        index
        for item in body[:at]
        if item.pinned
        for index in projection.group(item.index)
    }
    gone = [item for item in body[:at] if item.index not in pinned]
    if not gone:
        return None
    text = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far")),
        covers=tuple((item.index, item.index) for item in gone if not item.written),
        inputs=tuple({item.index for item in gone if item.written}),
    )
    kept = tuple(
        Kept(ref=item.index, nth=item.key[1])
        for item in body[:at]
        if item.index in pinned
    )
    return Compaction(
        summary="so far", first_kept_index=body[at].index, head=(text, *kept)
    )


def grow(made: History, act: str, chosen: int) -> None:
    """Apply one more act to the session, if it is possible now."""
    projection = made.projection()
    marks = [mark.id for mark in projection.checkpoints]
    messages = [
        item.index for item in projection.view if not (item.is_preamble or item.written)
    ]
    match act:
        case "turn":
            made.checkpoint(len(marks), shown=chosen % 2 == 0).turn(
                f"prompt {made.last}", "answer"
            )
        case "step":
            made.checkpoint(len(marks)).step("read", "much", path="a.py")
        case "rewind" if marks:
            made.revert(marks[chosen % len(marks)])
        case "go":
            made.go_to(made.entries[chosen % len(made.entries)].index)
        case "undo" if (target := projection.undoable) is not None:
            made.undo(target)
        case "undo any":
            target = chosen % (made.last + 1)
            if projection.undo_refusal(target) is None:
                made.undo(target)
        case "compact" if (entry := compaction(projection, chosen)) is not None:
            made.add(entry)
        case "pin" | "drop" | "hide" if messages:
            made.edit(act, messages[chosen % len(messages)])
        case "clear":
            made.clear()
        case _:
            made.notice("a note")


def messages_of(view: list[ViewItem]) -> list[tuple[object, ...]]:
    return [
        (item.message, item.fate, item.content, item.checkpoint, item.pinned)
        for item in view
    ]


def up_to(entries: list[Entry], moment: int) -> Projection:
    return project(entry for entry in entries if entry.index <= moment)


@settings(deadline=None, max_examples=examples(150))
@given(
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 60)), max_size=25),
    st.integers(0, 200),
)
def test_any_sequence_of_acts_restores_a_branch(
    acts: list[tuple[str, int]], chosen: int
) -> None:
    made = history().system("s").instructions("rules")
    live = made.projection()
    for act, number in acts:
        known = len(made.entries)
        grow(made, act, number)
        for entry in made.entries[known:]:
            live.append(entry)
    assert broken(live) == [] and dangling(live) == []
    assert messages_of(live.view) == messages_of(made.projection().view)
    before = messages_of(live.view)
    moment = made.entries[chosen % len(made.entries)].index
    made.go_to(moment)
    live.append(made.entries[-2])
    live.append(made.entries[-1])
    assert broken(live) == []
    assert messages_of(live.view) == messages_of(up_to(made.entries, moment).view)
    made.undo()
    live.append(made.entries[-1])
    assert broken(live) == []
    assert messages_of(live.view) == before


def test_going_back_builds_one_earlier_view_across_any_number_of_rewinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = history().system("s")
    ends = [made.turn(f"prompt {number}", "answer").last for number in range(20)]
    for end in reversed(ends):
        made.go_to(end).turn("another", "answer")
    calls: list[ViewChange] = []
    before = ViewChange.view_before
    monkeypatch.setattr(
        ViewChange,
        "view_before",
        lambda change, *more: calls.append(change) or before(change, *more),
    )
    made.projection()
    assert 0 < len(calls) <= len(ends)
