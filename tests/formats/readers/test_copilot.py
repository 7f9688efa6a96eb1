"""Reading the sessions of Copilot CLI, on small files made here."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from foldline.cli.sources import read_source
from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    UserMessage,
)
from support.foreign import DAMAGERS, Damager, faults, view, view_after_a_round_trip

Event = dict[str, Any]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a session of these events."""

    def read_events(*events: Event) -> ForeignSession:
        path = tmp_path / "s1" / "events.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(as_lines(events))
        session = read_foreign(path)
        assert session.format == "copilot"
        assert faults(session) == []
        return session

    return read_events


def as_lines(events: Any) -> bytes:
    times = (f"2026-01-02T03:04:{second:02}.000Z" for second in range(60))
    rows = (
        {"timestamp": at, **event} for at, event in zip(times, events, strict=False)
    )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def event(kind: str, *, agent: str = "", **data: Any) -> Event:
    whose = {"agentId": agent} if agent else {}
    return {"type": kind, "data": data, "id": "e", "parentId": None, **whose}


START = event(
    "session.start",
    sessionId="s1",
    context={"cwd": "/w"},
    startTime="2026-01-02T03:04:00Z",
)
NOW = "<current_datetime>now</current_datetime>\n\n"


def user(words: str, **data: Any) -> Event:
    return event(
        "user.message", **{"content": words, "transformedContent": NOW + words, **data}
    )


def answer(words: str, *calls: str, agent: str = "", **data: Any) -> Event:
    made = [
        {"toolCallId": each, "name": "edit", "arguments": {"path": each}}
        for each in calls
    ]
    fields = {"content": words, "toolRequests": made, "model": "gpt-5", **data}
    return event("assistant.message", agent=agent, **fields)


def result(call: str, **data: Any) -> Event:
    ran = {"success": True, "result": {"content": f"of {call}"}, **data}
    return event("tool.execution_complete", toolCallId=call, **ran)


@pytest.mark.parametrize(
    ("content", "sent", "users"),
    [
        ("hi", "", [("typed", "hi")]),
        ("hi", "hello", [("typed", "hello")]),
        ("", "a reminder", [("machine", "a reminder")]),
        (
            "hi",
            "<a/>\n\nhi\n\n<b/>",
            [("machine", "<a/>"), ("typed", "hi"), ("machine", "<b/>")],
        ),
    ],
)
def test_a_prompt_is_what_was_sent(
    read: Any, content: str, sent: str, users: list[tuple[str, str]]
) -> None:
    session = read(START, user(content, transformedContent=sent), answer("ok"))
    found = [message for message in view(session) if isinstance(message, UserMessage)]
    assert [(message.origin, message.text) for message in found] == users


def compaction(summary: str = "so far", **data: Any) -> Event:
    sizes: Event = {"preCompactionTokens": 90, "postCompactionTokens": 20}
    return event(
        "session.compaction_complete",
        success=True,
        summaryContent=summary,
        **sizes,
        **data,
    )


def with_a_subagent() -> list[Event]:
    about = {
        "agentName": "explore",
        "agentDescription": "look at it",
        "toolCallId": "a",
    }
    return [
        START,
        user("hi"),
        answer("", "a"),
        event("subagent.started", agent="b84-1", **about),
        event("user.message", agent="b84-1", content="Look around", source="agent-s1"),
        answer("Nothing there.", agent="b84-1"),
        result("a"),
    ]


def test_a_subagent_is_named_behind_the_file(read: Any, tmp_path: Path) -> None:
    read(*with_a_subagent())
    found = read_source(str(tmp_path / "s1" / "events.jsonl" / "b84"))
    assert [
        entry.text for entry in found.entries if isinstance(entry, AssistantMessage)
    ] == ["Nothing there."]


def test_the_folder_of_a_session_names_it(read: Any, tmp_path: Path) -> None:
    session = read(START, user("hi"))
    assert read_foreign(tmp_path / "s1") == session


def test_a_copy_in_our_format_has_the_same_view(read: Any, tmp_path: Path) -> None:
    session = read(
        *with_a_subagent(), compaction(), user("two"), answer("2", "b"), result("b")
    )
    assert view_after_a_round_trip(session, tmp_path / "home") == view(session)


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_damage_is_read_around(damage: Damager, tmp_path: Path) -> None:
    data = as_lines(
        [*with_a_subagent(), compaction(), user("two"), answer("2", "b"), result("b")]
    )
    for seed in range(30):
        path = tmp_path / "events.jsonl"
        path.write_bytes(damage(data, random.Random(seed)))
        try:
            session = read_foreign(path, "copilot")
        except FoldlineError:
            continue
        assert faults(session) == []
