"""A history followed as its view grows and turns."""

import json

from foldline.formats.writers.view_changes import (
    Appended,
    Unrelated,
    ViewChanged,
    left_out,
    record_line,
    view_changes,
)
from foldline.protocol import Checkpoint, NoticeRecord, Title
from support.history import call, history


def what_happens(entries: list) -> list[str]:
    return [type(change).__name__ for change in view_changes(entries)]


def test_a_message_at_the_end_grows_the_view_and_a_marker_turns_it_before_the_next() -> None:
    built = history().system("Be kind.").turn("one", "1").clear().user("two")
    prompt, one, answer, turned, two = view_changes(built.entries)
    assert isinstance(prompt, Unrelated)
    assert isinstance(one, Appended)
    assert isinstance(answer, Appended)
    assert turned == ViewChanged([], None)
    assert isinstance(two, Appended)
    assert two.message.text == "two"


def test_markers_in_a_row_are_one_turn_also_at_the_end() -> None:
    built = history().turn("one", "1").edit("pin", 0).clear().undo()
    assert what_happens(built.entries) == ["Appended", "Appended", "ViewChanged"]


def test_a_late_result_turns_the_view() -> None:
    built = history().assistant(calls=[call("read", "c1")]).user("meanwhile").result("late", call_id="c1")
    *_, turned = view_changes(built.entries)
    assert isinstance(turned, ViewChanged)
    assert [message.text for message in turned.view] == ["", "late", "meanwhile"]


def test_half_characters_are_written_so_that_they_can_be_read() -> None:
    line = record_line({"text": "a\ud83d", "more": "文\x00"})
    assert json.loads(line.decode()) == {"text": "a\ud83d", "more": "文\x00"}
    assert line.count(b"\n") == 1


def test_what_is_left_out_is_counted_by_kind() -> None:
    assert left_out([], "pi") == ()
    entries = [NoticeRecord(text="a"), Title(title="t"), NoticeRecord(text="b"), Checkpoint(id=1)]
    assert left_out(entries, "pi") == ("pi has no place for 1 checkpoint, 2 notices, 1 title: left out.",)
