"""How much of a session is written: the view alone, or every message as if nothing was compacted."""

from collections.abc import Sequence
from typing import Any

from hypothesis import example, given

from foldline.formats.export import only_view, uncompacted
from foldline.formats.writers.pi import write_pi
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    CompactionDetails,
    Entry,
    SystemMessage,
    Title,
    Usage,
    Written,
    text_parts,
)
from foldline.view.projection import project
from support.exports import handoff, original, read_back, received_messages
from support.history import History, history
from support.random_histories import Step, build_history, steps


def compacted() -> History:
    summary = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far"))
    )
    built = (
        history()
        .system("Be kind.")
        .add(Title(title="Hi"))
        .turn("one", "1")
        .turn("two", "2")
    )
    details = CompactionDetails(read_files=("a.py",))
    return built.add(
        Compaction(
            summary="so far", first_kept_index=4, head=(summary,), details=details
        )
    )


@example([("user", 0, 0), ("checkpoint", 0, 0), ("user", 0, 1), ("revert", 3, 0)])
@given(steps)
def test_the_view_alone_is_the_same_view(happened: list[Step]) -> None:
    before = original(build_history(happened))
    after = only_view(before)
    assert received_messages(after.entries) == received_messages(before.entries)
    assert [item.kind for item in after.projection.view] == [
        item.kind for item in before.projection.view
    ]


def test_the_view_alone_holds_nothing_that_was_compacted() -> None:
    after = only_view(original(compacted().entries))
    assert [
        entry.text for entry in after.entries if isinstance(entry, BaseMessage)
    ] == [
        "Be kind.",
        "two",
        "2",
    ]
    assert (
        after.projection.title,
        after.projection.compactions()[0].details.read_files,
    ) == ("Hi", ("a.py",))


def test_uncompacted_is_every_message_as_it_was_said() -> None:
    built = compacted().edit("drop", 4).clear().user("three")
    after = uncompacted(original(built.entries))
    view = project(after.entries).view
    assert [item.message.text for item in view] == [
        "Be kind.",
        "one",
        "1",
        "two",
        "2",
        "three",
    ]
    assert [item.index for item in view] == [0, 2, 3, 4, 5, 9], (
        "an index is never rebased"
    )


def test_a_summary_of_the_view_alone_is_a_compaction_for_pi(tmp_path: Any) -> None:
    exported = handoff(compacted().entries, write_pi)
    again = project(read_back(exported, tmp_path).entries)
    assert [item.kind for item in again.view] == ["summary", "user", "assistant"]
    assert b'"one"' not in exported.data


def test_a_usage_that_counted_another_view_does_not_come_along() -> None:
    built = (
        history()
        .user("look")
        .step("read", "long", path="a")
        .assistant("1", usage=Usage(input=900, output=1))
    )
    built.edit("hide", 2).user("and?").assistant("2", usage=Usage(input=90, output=1))
    before = original(built.entries)

    def reported(entries: Sequence[Entry]) -> list[int]:
        answers = [
            entry
            for entry in entries
            if isinstance(entry, AssistantMessage) and entry.text
        ]
        return [answer.usage.input if answer.usage else 0 for answer in answers]

    assert reported(only_view(before).entries) == [0, 90]
    assert reported(uncompacted(before).entries) == [900, 0]
