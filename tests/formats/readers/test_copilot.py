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
    Compaction,
    FoldlineError,
    ModelChange,
    NoticeRecord,
    Subagent,
    ThinkingPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from support.foreign import DAMAGERS, Damager, faults, said, view, view_after_a_round_trip

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
    rows = ({"timestamp": at, **event} for at, event in zip(times, events, strict=False))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def event(kind: str, *, agent: str = "", **data: Any) -> Event:
    whose = {"agentId": agent} if agent else {}
    return {"type": kind, "data": data, "id": "e", "parentId": None, **whose}


START = event("session.start", sessionId="s1", context={"cwd": "/w"}, startTime="2026-01-02T03:04:00Z")
NOW = "<current_datetime>now</current_datetime>\n\n"


def user(words: str, **data: Any) -> Event:
    return event("user.message", **{"content": words, "transformedContent": NOW + words, **data})


def answer(words: str, *calls: str, agent: str = "", **data: Any) -> Event:
    made = [{"toolCallId": each, "name": "edit", "arguments": {"path": each}} for each in calls]
    fields = {"content": words, "toolRequests": made, "model": "gpt-5", **data}
    return event("assistant.message", agent=agent, **fields)


def result(call: str, **data: Any) -> Event:
    ran = {"success": True, "result": {"content": f"of {call}"}, **data}
    return event("tool.execution_complete", toolCallId=call, **ran)


def system(words: str) -> Event:
    return event("system.message", role="system", content=words)


def test_a_turn_is_read_with_its_system_prompt_first(read: Any) -> None:
    session = read(
        START, user("hi"), system("Be kind."), answer("I look.", "a"), result("a"), answer("Done.")
    )
    assert said(session) == ["Be kind.", NOW.strip(), "hi", "I look.", "of a", "Done."]
    assert (session.header.id, session.header.cwd) == ("s1", "/w")
    assert session.notes == ()


def test_only_what_was_typed_is_the_user_s(read: Any) -> None:
    session = read(
        START, user("hi"), user("go", source="skill-x"), event("system.notification", content="ran")
    )
    users = [message for message in view(session) if isinstance(message, UserMessage)]
    assert [message.text for message in users if message.origin == "typed"] == ["hi"]
    assert users[-1].text == "ran"


@pytest.mark.parametrize(
    ("content", "sent", "users"),
    [
        ("hi", "", [("typed", "hi")]),
        ("hi", "hello", [("typed", "hello")]),
        ("", "a reminder", [("machine", "a reminder")]),
        ("hi", "<a/>\n\nhi\n\n<b/>", [("machine", "<a/>"), ("typed", "hi"), ("machine", "<b/>")]),
    ],
)
def test_a_prompt_is_what_was_sent(read: Any, content: str, sent: str, users: list[tuple[str, str]]) -> None:
    session = read(START, user(content, transformedContent=sent), answer("ok"))
    found = [message for message in view(session) if isinstance(message, UserMessage)]
    assert [(message.origin, message.text) for message in found] == users


def test_results_stand_in_the_order_of_their_calls(read: Any) -> None:
    session = read(START, user("hi"), answer("", "a", "b"), result("b"), result("a"))
    assert said(session)[-2:] == ["of a", "of b"]


def test_a_failed_call_has_the_text_of_the_file_which_says_less(read: Any) -> None:
    failed = result("a", success=False, result=None, error={"message": "No match found"})
    session = read(START, user("hi"), answer("", "a"), failed)
    [found] = [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]
    assert (found.text, found.is_error) == ("No match found", True)
    assert session.notes == ("1 failed call: the file has a shorter text than the model got.",)


def test_a_result_has_its_diff_its_exit_code_and_its_time(read: Any) -> None:
    diff = "--- a/a\n+++ b/a\n@@ -1,1 +1,2 @@\n-old\n+new\n+more"
    begun = event("tool.execution_start", toolCallId="a", toolName="edit")
    ended = result("a", result={"content": "ok", "detailedContent": diff})
    session = read(
        START, user("hi"), answer("", "a", "b"), begun, ended, result("b", shellExecution={"exitCode": 2})
    )
    first, second = (entry.details for entry in session.entries if isinstance(entry, ToolResultMessage))
    assert (first.brief, first.seconds, first.files[0].path) == ("+2 −1", 1.0, "a")
    assert second.brief == "exit 2"


def test_usage_and_thinking_are_the_answer_s(read: Any) -> None:
    usage = {"inputTokens": 9, "cacheReadTokens": 4, "outputTokens": 3, "apiCallId": "r1"}
    counted = event("session.usage_record", usage=usage)
    session = read(START, user("hi"), counted, answer("ok", apiCallId="r1", reasoningText="well"))
    [found] = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert found.usage == Usage(input=9, cached=4, output=3)
    assert found.parts[0] == ThinkingPart(text="well")
    assert found.model == "gpt-5"


def compaction(summary: str = "so far", **data: Any) -> Event:
    sizes: Event = {"preCompactionTokens": 90, "postCompactionTokens": 20}
    return event("session.compaction_complete", success=True, summaryContent=summary, **sizes, **data)


def test_a_compaction_leaves_every_prompt_and_the_summary(read: Any) -> None:
    turn = [user("one"), answer("1"), event("session.compaction_start"), compaction()]
    session = read(START, *turn, user("two"), answer("2"), compaction("so far, again"), user("three"))
    assert said(session) == ["one", "two", "so far, again", NOW.strip(), "three"]
    [first, _] = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert (first.tokens_before, first.tokens_after) == (90, 20)


def test_what_came_while_the_summary_was_written_stays(read: Any) -> None:
    begun = event("session.compaction_start")
    session = read(
        START, user("one"), answer("1", "a"), result("a"), begun, answer("2", "b"), result("b"), compaction()
    )
    assert said(session) == ["one", "so far", "2", "of b"]


def test_a_compaction_that_failed_changes_nothing(read: Any) -> None:
    failed = event("session.compaction_complete", success=False, error="no")
    session = read(START, user("one"), answer("1"), failed)
    assert said(session)[1:] == ["one", "1"]
    assert not any(isinstance(entry, Compaction) for entry in session.entries)


def test_the_newest_system_prompt_is_the_one_in_the_view(read: Any) -> None:
    session = read(START, user("one"), system("old"), answer("1"), user("two"), system("new"))
    assert said(session)[0] == "new"
    assert "old" not in said(session)
    assert session.notes == ("Left out: 1 earlier system prompt; the newest stands before all.",)


def test_what_the_model_is_not_sent_is_no_message(read: Any) -> None:
    session = read(
        START,
        event("session.model_change", newModel="gpt-6"),
        event("session.info", message="Rewound the conversation."),
        event("session.error", message="Too many requests"),
        event("abort", reason="user"),
        event("hook.start"),
        event("session.truncation", messagesRemovedDuringTruncation=3),
        user("hi"),
    )
    assert said(session) == [NOW.strip(), "hi"]
    notices = [(entry.level, entry.text) for entry in session.entries if isinstance(entry, NoticeRecord)]
    assert notices[0] == ("info", "Rewound the conversation.")
    assert notices[1] == ("error", "Too many requests")
    assert any(isinstance(entry, ModelChange) for entry in session.entries)
    assert session.notes == ("Not in the view, records of kinds unknown here: session.truncation (1).",)


def test_a_cleared_context_is_empty(read: Any) -> None:
    session = read(
        START, user("one"), answer("1"), event("session.context_cleared", messagesCleared=2), user("two")
    )
    assert said(session) == [NOW.strip(), "two"]


def test_a_picture_is_read_and_one_without_data_is_counted(read: Any) -> None:
    files = [
        {"type": "blob", "mimeType": "image/png", "data": "AAAA"},
        {"type": "blob", "mimeType": "image/gif"},
    ]
    session = read(START, user("look", attachments=files))
    assert view(session)[-1].parts[-1].type == "image"
    assert session.notes == (
        "Left out, pieces of messages of a kind that cannot be shown here: image/gif (1).",
    )


def with_a_subagent() -> list[Event]:
    about = {"agentName": "explore", "agentDescription": "look at it", "toolCallId": "a"}
    return [
        START,
        user("hi"),
        answer("", "a"),
        event("subagent.started", agent="b84-1", **about),
        event("user.message", agent="b84-1", content="Look around", source="agent-s1"),
        answer("Nothing there.", agent="b84-1"),
        result("a"),
    ]


def test_a_subagent_s_events_are_a_session_of_their_own(read: Any) -> None:
    session = read(*with_a_subagent())
    assert said(session)[1:] == ["hi", "", "of a"]
    [marker] = [entry for entry in session.entries if isinstance(entry, Subagent)]
    assert (marker.child, marker.agent, marker.title, marker.call_id) == (
        "b84-1",
        "explore",
        "look at it",
        "a",
    )
    [child] = session.children
    assert said(child.session) == ["Look around", "Nothing there."]


def test_a_subagent_is_named_behind_the_file(read: Any, tmp_path: Path) -> None:
    read(*with_a_subagent())
    found = read_source(str(tmp_path / "s1" / "events.jsonl" / "b84"))
    assert [entry.text for entry in found.entries if isinstance(entry, AssistantMessage)] == [
        "Nothing there."
    ]


def test_the_folder_of_a_session_names_it(read: Any, tmp_path: Path) -> None:
    session = read(START, user("hi"))
    assert read_foreign(tmp_path / "s1") == session


def test_a_copy_in_our_format_has_the_same_view(read: Any, tmp_path: Path) -> None:
    session = read(*with_a_subagent(), compaction(), user("two"), answer("2", "b"), result("b"))
    assert view_after_a_round_trip(session, tmp_path / "home") == view(session)


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_damage_is_read_around(damage: Damager, tmp_path: Path) -> None:
    data = as_lines([*with_a_subagent(), compaction(), user("two"), answer("2", "b"), result("b")])
    for seed in range(30):
        path = tmp_path / "events.jsonl"
        path.write_bytes(damage(data, random.Random(seed)))
        try:
            session = read_foreign(path, "copilot")
        except FoldlineError:
            continue
        assert faults(session) == []
