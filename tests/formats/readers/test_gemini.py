"""Reading the sessions of Gemini CLI, on files made here and on its recorded ones."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.parts import BY_SUBAGENT
from foldline.formats.readers.gemini.reader import NO_MESSAGES
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    FileTouch,
    FoldlineError,
    Revert,
    ThinkingPart,
    Title,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from support.foreign import (
    DAMAGERS,
    Damager,
    faults,
    view,
    view_after_a_round_trip,
    view_texts,
)
from support.messages import tool_results
from support.recordings import SHARED, needs_recorded, recordings
from support.sentences import pattern

Record = dict[str, Any]
META: Record = {
    "sessionId": "s1",
    "projectHash": "p",
    "startTime": "2026-04-29T21:39:22Z",
    "kind": "main",
}
SNAPSHOT = "<state_snapshot><goal>mend the clock</goal></state_snapshot>"
FILES = [*recordings("gemini-cli"), *recordings("other-agents/gemini")]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a document, or a log of records after its first line."""

    def read_records(*records: Record, **document: Any) -> ForeignSession:
        path = tmp_path / "tmp/p/chats/session-2026-04-29T21-39-abcdef01.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [{**META, **document}] if document else [META, *records]
        path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        session = read_foreign(path)
        assert session.format == "gemini-cli"
        assert faults(session) == []
        return session

    return read_records


def user(text: Any, id: str = "", **fields: Any) -> Record:
    return {
        "type": "user",
        "id": id or f"u-{text}",
        "timestamp": "2026-04-29T21:39:33Z",
        "content": text,
        **fields,
    }


def gemini(text: Any = "", *runs: Record, id: str = "", **fields: Any) -> Record:
    calls = {"toolCalls": list(runs)} if runs else {}
    about = {
        "type": "gemini",
        "id": id or f"g-{text}",
        "timestamp": "2026-04-29T21:39:34Z",
    }
    return {**about, "content": text, "model": "gemini-3", **calls, **fields}


def run(
    name: str, output: str, id: str = "c1", status: str = "success", **fields: Any
) -> Record:
    response = {
        "functionResponse": {"id": id, "name": name, "response": {"output": output}}
    }
    return {
        "id": id,
        "name": name,
        "args": {},
        "result": [response],
        "status": status,
        **fields,
    }


def changed(**values: Any) -> Record:
    return {"$set": values}


def test_a_document_and_a_log_of_the_same_messages_are_read_alike(read: Any) -> None:
    tokens = {
        "input": 100,
        "cached": 40,
        "output": 10,
        "thoughts": 5,
        "tool": 0,
        "total": 115,
    }
    thoughts = [{"subject": "Plan", "description": "look first"}]
    messages = [
        user("list"),
        gemini("", run("list_directory", "a b"), tokens=tokens, thoughts=thoughts),
        gemini("Done."),
    ]
    log, document = read(*messages), read(messages=messages, summary="The files")
    assert view(log) == [
        message.model_copy(update={"index": message.index - 1})
        for message in view(document)
    ]
    _, answer, result, _ = view(log)
    assert isinstance(answer, AssistantMessage)
    assert answer.parts[0] == ThinkingPart(text="**Plan** look first")
    assert (answer.model, answer.usage) == (
        "gemini-3",
        Usage(input=100, cached=40, output=15, reasoning=5),
    )
    assert isinstance(result, ToolResultMessage)
    assert (result.name, result.text, result.is_error) == (
        "list_directory",
        "a b",
        False,
    )
    assert [entry.title for entry in document.entries if isinstance(entry, Title)] == [
        "The files"
    ]
    assert (log.header.id, log.header.created_at.year) == ("s1", 2026)


def test_a_message_that_is_written_again_is_as_it_was_last_where_it_was_first(
    read: Any,
) -> None:
    session = read(
        user("list"), gemini("Looking.", id="g"), user("and then"),
        gemini("Looking.", run("ls", "a b"), id="g"),
    )  # fmt: skip
    assert view_texts(session) == ["list", "Looking.", "a b", "and then"]


def test_a_rewind_takes_back_its_message_and_all_after_it(read: Any) -> None:
    session = read(
        user("one"),
        gemini("first"),
        user("two"),
        gemini("second"),
        {"$rewindTo": "u-two"},
        user("three"),
    )
    assert view_texts(session) == ["one", "first", "three"]
    assert any(isinstance(entry, Revert) for entry in session.entries)
    again = read(user("one"), {"$rewindTo": "gone"}, user("two"))
    assert view_texts(again) == ["two"]


def test_a_compression_leaves_its_summary_and_what_it_kept(read: Any) -> None:
    kept = gemini("second", run("read_file", "a long text"))
    listed = [
        user(SNAPSHOT, id="s"),
        gemini([{"text": "Got it."}], id="ack"),
        user("two"),
        kept,
    ]
    session = read(
        user("one"),
        gemini("first"),
        user("two"),
        kept,
        changed(messages=listed),
        user("three"),
    )
    assert view_texts(session) == [
        SNAPSHOT,
        "Got it.",
        "two",
        "second",
        "a long text",
        "three",
    ]
    (compaction,) = (
        entry for entry in session.entries if isinstance(entry, Compaction)
    )
    assert (compaction.summary, compaction.strategy) == (SNAPSHOT, "gemini-cli")


def test_a_snapshot_that_changes_nothing_says_nothing(read: Any) -> None:
    messages = [user("one"), gemini("first", run("ls", "a b"))]
    session = read(*messages, changed(messages=messages))
    assert not any(isinstance(entry, Compaction) for entry in session.entries)


def test_a_result_that_was_masked_is_shown_as_the_model_has_it(read: Any) -> None:
    session = read(
        user("one"), gemini("", run("read_file", "a long text"), id="g"),
        changed(messages=[user("one"), gemini("", run("read_file", "<tool_output_masked>"), id="g")]),
        gemini("Done."),
    )  # fmt: skip
    assert view_texts(session) == ["one", "", "<tool_output_masked>", "Done."]
    assert "a long text" in [
        entry.text for entry in session.entries if isinstance(entry, ToolResultMessage)
    ]


def test_a_result_that_a_snapshot_forgot_stays_with_its_call(read: Any) -> None:
    called = gemini("", run("ls", "a b"), id="g")
    session = read(
        user("one"),
        called,
        user("two"),
        changed(messages=[gemini("", id="g"), user("two")]),
    )
    assert view_texts(session) == ["", "a b", "two"]


def test_a_result_recorded_with_its_call_and_as_a_message_is_there_once(
    read: Any,
) -> None:
    called = {"functionCall": {"id": "c1", "name": "ls", "args": {}}}
    answered = run("ls", "a b")["result"]
    session = read(
        user("list"),
        gemini([called], run("ls", "a b")),
        user(answered, id="r"),
        gemini("Done."),
    )
    assert view_texts(session) == ["list", "", "a b", "Done."]
    (answer,) = (
        m for m in view(session) if isinstance(m, AssistantMessage) and m.calls
    )
    assert len(answer.calls) == 1


def test_calls_that_failed_or_were_cancelled_are_told_apart(read: Any) -> None:
    denied = {"functionResponse": {"id": "c2", "response": {"error": "no"}}}
    session = read(
        user("go"),
        gemini("", run("ls", "a"), {**run("replace", "", "c2", "cancelled"), "result": [denied]},
               {**run("grep", "", "c3"), "result": "plain"},
               {"id": "c4", "name": "x", "status": "executing"}),
    )  # fmt: skip
    results = tool_results(view(session))
    assert [(r.call_id, r.is_error, r.text, r.details.brief) for r in results] == [
        ("c1", False, "a", "1 line"),
        ("c2", True, "no", "cancelled"),
        ("c3", False, "plain", "1 line"),
    ]


def test_files_are_told_from_the_calls(read: Any) -> None:
    session = read(
        user("go"),
        gemini("", run("read_file", "x", "c1", args={"absolute_path": "/x/a"}),
               run("write_file", "ok", "c2", args={"file_path": "b", "content": "1\n2"})),
    )  # fmt: skip
    files = [m.details.files for m in view(session) if isinstance(m, ToolResultMessage)]
    assert files == [
        (FileTouch(path="/x/a", action="read"),),
        (FileTouch(path="b", action="modified", added=2),),
    ]


def test_sub_agents_are_left_out_by_name(read: Any) -> None:
    session = read(
        user("go"), gemini("", run("codebase_investigator", "found", agentId="inv-1"))
    )
    assert any("codebase_investigator (inv-1)" in note for note in session.notes)
    steps = read(messages=[user("your task"), gemini("Done.")], kind="subagent")
    assert BY_SUBAGENT in steps.notes
    assert [m.origin for m in view(steps) if isinstance(m, UserMessage)] == ["machine"]


def test_a_saved_chat_is_read(tmp_path: Path) -> None:
    contents = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "Hello."}]},
    ]
    for document in (contents, {"history": contents, "authType": "x"}):
        path = tmp_path / "checkpoint-a.json"
        path.write_text(json.dumps(document, indent=2))
        session = read_foreign(path)
        assert (session.format, view_texts(session)) == ("gemini-cli", ["hi", "Hello."])


def test_a_file_without_any_message_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "session-a.jsonl"
    path.write_text(
        json.dumps(META) + "\n" + json.dumps(changed(lastUpdated="2026")) + "\n"
    )
    with pytest.raises(FoldlineError, match=pattern(NO_MESSAGES)):
        read_foreign(path)


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_a_damaged_log_is_read_as_far_as_it_goes(
    tmp_path: Path, damage: Damager
) -> None:
    listed = [user(SNAPSHOT, id="s"), gemini("ok", run("ls", "short"), id="g")]
    log = [META, user("one"), gemini("ok", run("ls", "long"), id="g"), changed(messages=listed), user("two"),
           {"$rewindTo": "u-two"}, gemini("", run("x", "y", "c2"))]  # fmt: skip
    data = b"".join(json.dumps(line).encode() + b"\n" for line in log)
    for seed in range(40):
        path = tmp_path / "a.jsonl"
        path.write_bytes(damage(data, random.Random(seed)))
        try:
            assert faults(read_foreign(path, "gemini-cli")) == []
        except FoldlineError:
            continue


def test_values_of_wrong_types_end_nothing(tmp_path: Path) -> None:
    listed = [user(SNAPSHOT, id="s"), gemini("ok", run("ls", "short"), id="g")]
    log = [
        META,
        user("one"),
        gemini("ok", run("ls", "long"), id="g"),
        changed(messages=listed),
        {"$rewindTo": "g"},
    ]
    chance = random.Random(1)
    odd: list[Any] = [None, 7, "x", [], {}, [1], {"a": []}, 1e308, True]
    for _ in range(300):
        records = json.loads(json.dumps(log))
        record = chance.choice(records)
        inner = [value for value in record.values() if isinstance(value, dict)] + [
            one
            for value in record.values()
            if isinstance(value, list)
            for one in value
            if isinstance(one, dict)
        ]
        target = chance.choice([record, *inner])
        target[chance.choice(list(target))] = chance.choice(odd)
        path = tmp_path / "a.jsonl"
        path.write_bytes(
            b"".join(json.dumps(line).encode() + b"\n" for line in records)
        )
        try:
            assert faults(read_foreign(path, "gemini-cli")) == []
        except FoldlineError:
            continue


# --- recorded ---------------------------------------------------------------------------------------


@needs_recorded
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_recorded_session_is_read_with_its_calls_and_results(
    path: Path, tmp_path: Path
) -> None:
    session = read_foreign(path)
    assert (session.format, faults(session)) == ("gemini-cli", [])
    assert view(session) == view_after_a_round_trip(session, tmp_path)
    data = path.read_bytes()
    results = tool_results(view(session))
    assert len(results) == data.count(b'"functionResponse"')


@needs_recorded
def test_the_recorded_log_says_what_was_used() -> None:
    session = read_foreign(SHARED / "other-agents/gemini/jsonl_v040.jsonl")
    used = [
        message.usage
        for message in view(session)
        if isinstance(message, AssistantMessage)
    ]
    assert used == [
        Usage(input=11855, output=81),
        Usage(input=12069, cached=11502, output=147),
    ]
