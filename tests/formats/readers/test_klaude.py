"""Reading klaude-code's sessions, on small files made here."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foldline.context.projection import project
from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    Compaction,
    DeveloperMessage,
    Edit,
    FileTouch,
    FoldlineError,
    ImagePart,
    ModelChange,
    NoticeRecord,
    Revert,
    TextPart,
    ThinkingPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    Written,
)
from support.foreign import DAMAGERS, Damager, faults, said, view, view_after_a_round_trip
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
        parts.append({"type": "tool_call", "call_id": each, "tool_name": "Edit", "arguments_json": arguments})
    return event("AssistantMessage", role="assistant", parts=parts, **data)


def result(call_id: str, status: str = "success") -> Record:
    fields: Record = {"call_id": call_id, "tool_name": "Edit", "status": status}
    return event("ToolResultMessage", role="tool", output_text=f"of {call_id}", parts=[], **fields)


def checkpoint(number: int) -> Record:
    words = f"<system-reminder>Checkpoint {number}</system-reminder>"
    return event("DeveloperMessage", role="developer", parts=[text(words)])


def fold(first_kept: int, *kept: tuple[str, int], summary: str = "So far.") -> Record:
    brief = [{"item_type": kind, "count": count, "preview": ""} for kind, count in kept]
    fields: Record = {"first_kept_index": first_kept, "tokens_before": 9, "kept_items_brief": brief}
    return event("CompactionEntry", summary=summary, **fields)


def rewind(number: int, note: str = "Not that way.") -> Record:
    return event(
        "RewindEntry", checkpoint_id=number, note=note, rationale="It failed.", reverted_from_index=9
    )


def folds(session: ForeignSession) -> list[Compaction]:
    return [entry for entry in session.entries if isinstance(entry, Compaction)]


def test_a_session_is_read_with_what_lies_beside_it(read: Any) -> None:
    meta = {"id": "0123abcd", "work_dir": "/x", "created_at": 1000.5}
    session = read(user("hi"), answer("I edit.", "a.py"), result("a.py"), meta=meta)
    assert (session.header.id, session.header.cwd) == ("0123abcd", "/x")
    assert session.header.created_at == datetime.fromtimestamp(1000.5, UTC)
    assert said(session) == ["hi", "I edit.", "of a.py"]
    assert session.entries[0].at == datetime.fromisoformat(AT + "Z")
    assert session.entries[2].details.files == (FileTouch(path="a.py", action="modified"),)


def test_parts_and_usage_come_along(read: Any) -> None:
    parts = [
        {"type": "thinking_text", "text": "hm"},
        {"type": "thinking_signature", "signature": "sig"},
        text("Look:"),
        {"type": "image_url", "url": "data:image/png;base64,aGk="},
        {"type": "image_file", "file_path": "/x/a.png"},
        {"type": "hologram"},
    ]
    usage = {
        "input_tokens": 100,
        "cached_tokens": 40,
        "output_tokens": 7,
        "reasoning_tokens": 2,
        "model_name": "m",
    }
    session = read(event("AssistantMessage", parts=parts, usage=usage, stop_reason="tool_use"))
    [message] = session.entries
    assert message.parts == (
        ThinkingPart(text="hm", signature="sig"),
        TextPart(text="Look:"),
        ImagePart(media_type="image/png", data="aGk="),
        TextPart(text="(image: /x/a.png)"),
    )
    assert message.usage == Usage(input=100, cached=40, output=7, reasoning=2)
    assert (message.model, message.stop_reason) == ("m", "tool_calls")
    assert session.notes == (
        "Left out, pieces of messages of a kind that cannot be shown here: hologram (1).",
    )


def test_who_wrote_a_message_is_kept(read: Any) -> None:
    session = read(user("typed"), user("$ ls", source="bash_mode"), checkpoint(0))
    assert [getattr(entry, "origin", None) for entry in session.entries] == ["typed", "shell", "notice"]


def test_prompts_of_sub_agents_were_written_by_an_agent(read: Any) -> None:
    session = read(user("Find it."), meta={"sub_agent_state": {"sub_agent_type": "Explore"}})
    assert session.entries[0].origin == "machine"
    assert "sub-agent" in session.notes[0]


def test_failed_and_aborted_calls_are_errors_that_touch_nothing(read: Any) -> None:
    session = read(answer("", "a", "b"), result("a", "error"), result("b", "aborted"))
    results = [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]
    assert [(each.is_error, each.details.brief) for each in results] == [
        (True, "failed"),
        (True, "cancelled"),
    ]
    assert [each.details.files for each in results] == [(), ()]


def test_other_events_are_notices_models_or_kept_raw(read: Any) -> None:
    session = read(
        user("hi"),
        event("StreamErrorItem", error="overloaded"),
        event("InterruptEntry"),
        event("FallbackModelConfigWarnEntry", from_model="a", to_model="b", to_provider="p", reason="r"),
        event("AwaySummaryEntry", text="you were away"),
    )
    _, error, interrupt, model, away = session.entries
    assert isinstance(error, NoticeRecord)
    assert (error.text, error.level) == ("overloaded", "error")
    assert isinstance(interrupt, NoticeRecord)
    assert model == ModelChange(index=3, at=model.at, model="b", provider="p")
    assert away.type == "klaude.AwaySummaryEntry"
    assert said(session) == ["hi"]


# --- folds -------------------------------------------------------------------------------------------

WORK = [user("one"), answer("two", "a"), result("a"), user("three"), answer("four")]


def test_a_fold_keeps_from_the_item_it_names(read: Any) -> None:
    session = read(*WORK, fold(3), user("five"))
    [found] = folds(session)
    assert said(session) == ["So far.", "three", "four", "five"]
    assert (found.first_kept_index, found.tokens_before) == (3, 9)
    assert [piece.covers for piece in found.head if isinstance(piece, Written)] == [((0, 2),)]


def test_a_second_fold_counts_in_the_whole_list_where_nothing_was_reloaded(read: Any) -> None:
    kept = [("User", 1), ("Assistant", 1)]
    session = read(*WORK, fold(3, *kept), user("five"), answer("six"), fold(6, *kept, summary="All."))
    assert said(session) == ["All.", "five", "six"]
    assert folds(session)[1].head[0].inputs == (folds(session)[0].index,)  # type: ignore[union-attr]


def test_a_second_fold_counts_in_the_shortened_list_after_a_reload(read: Any) -> None:
    # After the reload the list is: the summary, three, four; then five and six came. The cut, 3, is five.
    kept = [("User", 1), ("Assistant", 1)]
    session = read(*WORK, fold(3, *kept), user("five"), answer("six"), fold(3, *kept, summary="All."))
    assert said(session) == ["All.", "five", "six"]


def test_a_number_that_would_keep_what_is_folded_counts_in_the_shortened_list(read: Any) -> None:
    session = read(*WORK, fold(3), user("five"), answer("six"), fold(2, summary="All."))
    assert said(session) == ["All.", "four", "five", "six"]


def test_a_cut_inside_a_tool_group_keeps_no_result_without_its_call(read: Any) -> None:
    session = read(*WORK, fold(2))
    assert said(session) == ["So far.", "three", "four"]


# --- rewinds and retractions -------------------------------------------------------------------------


def test_a_rewind_goes_back_to_its_checkpoint_and_leaves_a_message(read: Any) -> None:
    session = read(user("one"), checkpoint(0), answer("two"), user("three"), rewind(0), answer("four"))
    mark = "<system-reminder>Checkpoint 0</system-reminder>"
    assert said(session) == ["one", mark, "It failed.\n\nNot that way.", "four"]
    assert isinstance(view(session)[2], DeveloperMessage)
    reverted = [
        entry.index
        for entry in session.entries
        if project(session.entries).fate(entry.index).kind == "reverted"
    ]
    assert len(reverted) == 2


def test_a_checkpoint_of_which_there_are_two_is_the_one_in_the_session(read: Any) -> None:
    session = read(
        user("one"),
        checkpoint(0),
        answer("two"),
        checkpoint(1),
        rewind(0),
        checkpoint(1),
        answer("three"),
        rewind(1),
    )
    assert sum(isinstance(entry, Revert) for entry in session.entries) == 2
    assert said(session)[2:] == [
        "It failed.\n\nNot that way.",
        "<system-reminder>Checkpoint 1</system-reminder>",
        "It failed.\n\nNot that way.",
    ]


def test_a_rewind_takes_a_fold_back(read: Any) -> None:
    session = read(user("one"), checkpoint(0), answer("two"), fold(2), answer("three"), rewind(0))
    assert said(session)[0] == "one"
    assert len(view(session)) == 3


def test_a_rewind_to_nowhere_is_only_its_message(read: Any) -> None:
    session = read(user("one"), rewind(7))
    assert said(session) == ["one", "It failed.\n\nNot that way."]


def test_a_prompt_that_was_taken_back_is_gone(read: Any) -> None:
    retract = event("RetractEntry", retracted_text="oops")
    session = read(user("one"), answer("two"), user("oops"), retract, user("three"))
    assert said(session) == ["one", "two", "three"]
    assert isinstance(session.entries[3], Edit)


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
    st.builds(fold, st.integers(-1, 12), st.tuples(st.just("User"), st.integers(0, 3))),
)


@given(st.lists(EVENTS, min_size=1, max_size=16))
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_events_give_a_sound_session(tmp_path: Path, events: list[Record]) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(as_lines([user("hi"), *events]))
    assert faults(read_foreign(path)) == []


STORY = [
    *WORK,
    fold(3),
    checkpoint(0),
    user("five"),
    answer("six", "b"),
    result("b"),
    rewind(0),
    user("seven"),
    fold(5),
    answer("eight"),
]


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path: Path, damage: Damager) -> None:
    path = tmp_path / "events.jsonl"
    for seed in range(40):
        path.write_bytes(as_lines([user("hi")]) + damage(as_lines(STORY), random.Random(seed)))
        assert faults(read_foreign(path, "klaude-code")) == []


def test_a_session_survives_a_round_trip(read: Any, tmp_path: Path) -> None:
    session = read(*STORY)
    assert view_after_a_round_trip(session, tmp_path / "home") == view(session)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"type": "UserMessage"}\n')
    with pytest.raises(FoldlineError, match="no event of klaude-code"):
        read_foreign(path, "klaude-code")


@pytest.mark.parametrize("junk", [None, 3, "x", [], [None, 3, "x"], {"a": 1}, True, -1, 1e400])
def test_values_of_the_wrong_shape_are_never_an_error(read: Any, junk: Any) -> None:
    some = ("parts", "usage", "stop_reason", "call_id", "tool_name", "status", "output_text", "created_at")
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
    messages = ("SystemMessage", "DeveloperMessage", "UserMessage", "AssistantMessage", "ToolResultMessage")
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
        user("hi"), checkpoint(0), *odd, {"type": "UserMessage", "data": junk}, meta={"created_at": junk}
    )
    assert isinstance(session.entries[0], UserMessage)
