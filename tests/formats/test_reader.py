import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.parts import UNKNOWN_RECORDS, by_kind
from foldline.formats.reader import NO_MESSAGES, NOTHING_READ, checked
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    Clear,
    Entry,
    FoldlineError,
    SessionHeader,
    SystemMessage,
    Unknown,
    Usage,
    text_parts,
)
from support.messages import user

HEADER = SessionHeader(id="s", created_at=datetime(2026, 1, 2, tzinfo=UTC), cwd="/x")
PATH = Path("/x/session.jsonl")


def check(*entries: Entry) -> tuple[str, ...]:
    placed = [
        entry.model_copy(update={"index": index}) for index, entry in enumerate(entries)
    ]
    return checked(ForeignSession("pi", HEADER, placed, Damage(), ()), "pi", PATH).notes


def unknown(name: str) -> Unknown:
    return Unknown.model_validate({"type": f"pi.{name}", "record": {}})


def answered(text: str, tokens: int) -> AssistantMessage:
    return AssistantMessage(parts=text_parts(text), usage=Usage(input=tokens, output=3))


def test_many_records_without_a_message_are_an_error_that_names_their_kinds() -> None:
    prompt = SystemMessage(parts=text_parts("You are pi."))
    with pytest.raises(FoldlineError) as refusal:
        check(prompt, *[unknown("turn")] * 7, *[unknown("event")] * 3)
    assert str(refusal.value) == (
        NOTHING_READ.format(
            path="/x/session.jsonl", count=10, title="pi", kinds="turn (7), event (3)"
        )
    )


def test_a_session_that_was_opened_and_left_is_no_error_but_said() -> None:
    assert check(unknown("model_change"), unknown("label")) == (NO_MESSAGES,)


def test_a_session_that_was_cleared_at_its_end_is_as_it_was_left() -> None:
    assert check(*[user("hi")] * 10, Clear()) == ()


def test_a_file_of_many_records_and_no_message_is_refused_when_it_is_read(
    tmp_path: Path,
) -> None:
    header = {
        "type": "session",
        "id": "p",
        "timestamp": "2026-01-02T03:04:05Z",
        "cwd": "/x",
    }
    records = [header, *[{"type": "label", "targetId": "a"}] * 12]
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    with pytest.raises(
        FoldlineError, match="12 records of pi, but none could be read as a message"
    ):
        read_foreign(path)


@pytest.mark.parametrize(
    ("length", "reported", "difference"),
    [
        (40_000, 10_000, ""),
        (40_000, 60_000, ""),  # system prompt and tools
        (40_000, 300_000, "the model saw more than the view shows"),
        (400_000, 20_000, "the model saw less than the view shows"),
        (400_000, 2, ""),  # the usage of a stream that had just begun
    ],
)
def test_reported_prompt_tokens_are_held_against_what_was_read(
    length: int, reported: int, difference: str
) -> None:
    notes = check(user("word " * (length // 5)), answered("yes", reported))
    assert [note.rpartition(": ")[2] for note in notes] == (
        [f"{difference}."] if difference else []
    )


def test_a_report_says_nothing_of_a_view_that_was_changed_since() -> None:
    assert (
        check(user("word " * 80_000), answered("yes", 2_000), Clear(), user("on")) == ()
    )


def test_what_is_left_out_is_named_most_frequent_first_and_not_without_end() -> None:
    assert by_kind(["a", "b", "b"]) == "b (2), a (1)"
    assert by_kind(map(str, range(10))).endswith("7 (1), 2 more types (2)")


def test_records_that_are_known_to_say_nothing_are_not_named() -> None:
    log = Transcript("kimi")
    for entry in (unknown("llm.request"), unknown("spine.compaction"), user("hi")):
        log.add(entry)
    assert log.notes(("llm.",)) == (
        UNKNOWN_RECORDS.format(kinds="spine.compaction (1)"),
    )
    assert log.notes(("llm.", "spine.")) == ()
