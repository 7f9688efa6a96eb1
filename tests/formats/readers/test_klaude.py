"""Reading klaude-code's sessions, on small files made here."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    FoldlineError,
    UserMessage,
)
from support.foreign import DAMAGERS, Damager, faults, view, view_after_a_round_trip
from support.limits import examples

Record = dict[str, Any]
AT = "2026-01-02T03:04:05.678"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a session of these events, with this `meta.json` beside it."""

    def read_events(*events: Record, meta: Record | None = None) -> ForeignSession:
        folder = tmp_path / "0123abcd"
        folder.mkdir(exist_ok=True)
        (folder / "events.jsonl").write_bytes(as_lines(events))
        if meta is not None:
            (folder / "meta.json").write_text(json.dumps(meta))
        session = read_foreign(folder / "events.jsonl")
        assert session.format == "klaude-code"
        assert faults(session) == []
        return session

    return read_events


def as_lines(events: Any) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def event(kind: str, **data: Any) -> Record:
    return {"type": kind, "data": {"created_at": AT, **data}}


def text(text: str) -> Record:
    return {"type": "text", "text": text}


def user(words: str, **data: Any) -> Record:
    return event("UserMessage", role="user", parts=[text(words)], **data)


def answer(words: str, *calls: str, **data: Any) -> Record:
    parts = [text(words)] if words else []
    for each in calls:
        arguments = json.dumps({"file_path": each})
        parts.append(
            {
                "type": "tool_call",
                "call_id": each,
                "tool_name": "Edit",
                "arguments_json": arguments,
            }
        )
    return event("AssistantMessage", role="assistant", parts=parts, **data)


def result(call_id: str, status: str = "success") -> Record:
    fields: Record = {"call_id": call_id, "tool_name": "Edit", "status": status}
    return event(
        "ToolResultMessage",
        role="tool",
        output_text=f"of {call_id}",
        parts=[],
        **fields,
    )


def checkpoint(number: int) -> Record:
    words = f"<system-reminder>Checkpoint {number}</system-reminder>"
    return event("DeveloperMessage", role="developer", parts=[text(words)])


def compaction(
    first_kept: int, *kept: tuple[str, int], summary: str = "So far."
) -> Record:
    brief = [{"item_type": kind, "count": count, "preview": ""} for kind, count in kept]
    fields: Record = {
        "first_kept_index": first_kept,
        "tokens_before": 9,
        "kept_items_brief": brief,
    }
    return event("CompactionEntry", summary=summary, **fields)


def rewind(number: int, note: str = "Not that way.") -> Record:
    return event(
        "RewindEntry",
        checkpoint_id=number,
        note=note,
        rationale="It failed.",
        reverted_from_index=9,
    )


# --- compactions -------------------------------------------------------------------------------------------

WORK = [user("one"), answer("two", "a"), result("a"), user("three"), answer("four")]


# --- rewinds and retractions -------------------------------------------------------------------------


# --- anything ----------------------------------------------------------------------------------------

EVENTS = st.one_of(
    st.sampled_from(
        [
            user("prompt"),
            answer("answer"),
            answer("", "a"),
            answer("", "a", "b"),
            result("a"),
            result("b"),
            checkpoint(0),
            checkpoint(1),
            rewind(0),
            rewind(1),
            event("RetractEntry", retracted_text="prompt"),
            event("InterruptEntry"),
        ]
    ),
    st.builds(
        compaction, st.integers(-1, 12), st.tuples(st.just("User"), st.integers(0, 3))
    ),
)


@given(st.lists(EVENTS, min_size=1, max_size=16))
@settings(
    max_examples=examples(200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_events_give_a_sound_session(tmp_path: Path, events: list[Record]) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(as_lines([user("hi"), *events]))
    assert faults(read_foreign(path)) == []


STORY = [
    *WORK,
    compaction(3),
    checkpoint(0),
    user("five"),
    answer("six", "b"),
    result("b"),
    rewind(0),
    user("seven"),
    compaction(5),
    answer("eight"),
]


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_read_as_far_as_it_goes(
    tmp_path: Path, damage: Damager
) -> None:
    path = tmp_path / "events.jsonl"
    for seed in range(40):
        path.write_bytes(
            as_lines([user("hi")]) + damage(as_lines(STORY), random.Random(seed))
        )
        assert faults(read_foreign(path, "klaude-code")) == []


def test_a_session_survives_a_round_trip(read: Any, tmp_path: Path) -> None:
    session = read(*STORY)
    assert view_after_a_round_trip(session, tmp_path / "home") == view(session)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"type": "UserMessage"}\n')
    with pytest.raises(FoldlineError, match="no klaude-code events"):
        read_foreign(path, "klaude-code")


@pytest.mark.parametrize(
    "junk", [None, 3, "x", [], [None, 3, "x"], {"a": 1}, True, -1, 1e400]
)
def test_values_of_the_wrong_shape_are_never_an_error(read: Any, junk: Any) -> None:
    some = (
        "parts",
        "usage",
        "stop_reason",
        "call_id",
        "tool_name",
        "status",
        "output_text",
        "created_at",
    )
    more = (
        "summary",
        "first_kept_index",
        "details",
        "kept_items_brief",
        "checkpoint_id",
        "note",
        "rationale",
    )
    names = (*some, *more, "retracted_text", "error", "to_model", "source")
    messages = (
        "SystemMessage",
        "DeveloperMessage",
        "UserMessage",
        "AssistantMessage",
        "ToolResultMessage",
    )
    entries = (
        "CompactionEntry",
        "RewindEntry",
        "RetractEntry",
        "StreamErrorItem",
        "FallbackModelConfigWarnEntry",
    )
    kinds = (*messages, *entries, junk)
    odd = [{"type": kind, "data": dict.fromkeys(names, junk)} for kind in kinds]
    session = read(
        user("hi"),
        checkpoint(0),
        *odd,
        {"type": "UserMessage", "data": junk},
        meta={"created_at": junk},
    )
    assert isinstance(session.entries[0], UserMessage)
