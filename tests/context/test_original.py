"""What an entry says: whole, and as it was meant rather than as it was sent."""

import json

import pytest

from foldline.context.moments import entry_text
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    Clear,
    Compaction,
    Entry,
    Revert,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from support.history import call, history


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
def test_an_entry_says_what_it_says(entry: Entry, text: str | None) -> None:
    assert entry_text(entry) == text


def test_a_call_shows_its_arguments_as_values_and_long_ones_on_lines_of_their_own() -> None:
    arguments = {"path": "数据.py", "content": 'x = "1"\ny = 2\n', "count": 2, "tags": ["中"]}
    part = ToolCallPart(call_id="c", name="write", arguments=json.dumps(arguments))
    assert entry_text(AssistantMessage(parts=(*text_parts("I write."), part))) == (
        'I write.\n[call write]\npath: 数据.py\ncontent:\nx = "1"\ny = 2\n\ncount: 2\ntags: ["中"]'
    )


def test_arguments_that_are_no_json_object_are_shown_as_they_came() -> None:
    part = ToolCallPart(call_id="c", name="bash", arguments='{"command": "ls')
    assert entry_text(AssistantMessage(parts=(part,))) == '[call bash]\n{"command": "ls'


def test_thinking_is_told_from_the_answer() -> None:
    [entry] = history().assistant("Done.", thinking="Is it?").entries
    assert entry_text(entry) == "[thinking]\nIs it?\n[answer]\nDone."


def test_calls_can_be_left_out_by_name() -> None:
    [entry] = history().assistant(calls=[call("ls", path="a"), call("history_read", index=3)]).entries
    assert entry_text(entry, without_calls=("history_read",)) == "[call ls]\npath: a"
