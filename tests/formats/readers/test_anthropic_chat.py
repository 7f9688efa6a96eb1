"""Reading chats with Anthropic's blocks: bare ones, and those of Amp, Cline and Goose."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    AssistantMessage,
    FileTouch,
    FoldlineError,
    ImagePart,
    ThinkingPart,
    Title,
    ToolResultMessage,
    Usage,
)
from support.foreign import DAMAGERS, Damager, faults, view, view_after_a_round_trip
from support.messages import tool_results

Record = dict[str, Any]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_content(content: Any, name: str = "chat.json") -> ForeignSession:
        path = tmp_path / name
        path.write_bytes(
            content if isinstance(content, bytes) else json.dumps(content).encode()
        )
        session = read_foreign(path)
        assert session.format == "anthropic"
        assert faults(session) == []
        return session

    return read_content


def user(*blocks: Any, **fields: Any) -> Record:
    return {
        "role": "user",
        "content": [
            text(block) if isinstance(block, str) else block for block in blocks
        ],
        **fields,
    }


def answer(*blocks: Any, **fields: Any) -> Record:
    return {**user(*blocks, **fields), "role": "assistant"}


def text(said: str) -> Record:
    return {"type": "text", "text": said}


def use(name: str, id: str = "t1", **arguments: Any) -> Record:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(content: Any, id: str = "t1", **fields: Any) -> Record:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **fields}


CHAT = [
    {"role": "user", "content": "look"},
    answer(
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        "I look.",
        use("Read", path="/x/a"),
    ),
    user(
        result(
            [
                text("one"),
                {
                    "type": "image",
                    "source": {"media_type": "image/png", "data": "aGk="},
                },
            ]
        )
    ),
    answer(
        "Done.",
        usage={"input_tokens": 3, "cache_read_input_tokens": 10, "output_tokens": 2},
    ),
]


def lines(*records: Record) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize(
    "content",
    [CHAT, {"messages": CHAT}, lines(*CHAT), json.dumps(CHAT, indent=1).encode()],
    ids=["list", "object", "lines", "indented"],
)
def test_calls_and_results_are_paired_whatever_holds_them(
    read: Any, tmp_path: Path, content: Any
) -> None:
    session = read(content)
    prompt, called, found, done = view(session)
    assert (prompt.text, done.text) == ("look", "Done.")
    assert isinstance(called, AssistantMessage)
    assert called.parts[0] == ThinkingPart(text="hm", signature="sig")
    assert [call.name for call in called.calls] == ["Read"]
    assert isinstance(found, ToolResultMessage)
    assert (found.call_id, found.name, found.text) == ("t1", "Read", "one")
    assert found.parts[1] == ImagePart(media_type="image/png", data="aGk=")
    assert found.details.files == (FileTouch(path="/x/a", action="read"),)
    assert isinstance(done, AssistantMessage)
    assert done.usage == Usage(input=13, cached=10, output=2)
    assert view(session) == view_after_a_round_trip(session, tmp_path)


# --- Amp --------------------------------------------------------------------------------------------


def amp(*messages: Record, **fields: Any) -> Record:
    tree = {"uri": "file:///work/the%20clock", "displayName": "the clock"}
    return {
        "v": 9,
        "id": "T-1",
        "created": 1_767_000_000_000,
        "title": "The clock",
        "messages": list(messages),
        "env": {"initial": {"trees": [tree]}},
        **fields,
    }


def ran(id: str, **run: Any) -> Record:
    return {"type": "tool_result", "toolUseID": id, "run": run}


def test_a_thread_of_amp_is_read(read: Any) -> None:
    usage = {
        "model": "claude-x",
        "inputTokens": 3,
        "cacheCreationInputTokens": 4,
        "cacheReadInputTokens": 5,
        "outputTokens": 6,
    }
    session = read(
        amp(
            user("mend", messageId=0, meta={"sentAt": 1_767_000_001_000}),
            answer(
                use("edit_file", "a", path="/x/a"),
                use("Bash", "b"),
                use("Task", "c"),
                usage=usage,
            ),
            user(
                ran("a", status="done", result={"diff": "-x"}),
                ran("b", status="error", error={"message": "no"}),
                ran("c", status="cancelled", reason="user"),
            ),
            answer("Stopped", state={"type": "cancelled"}),
        )
    )
    results = tool_results(view(session))
    assert [(r.text, r.is_error, r.details.brief) for r in results] == [
        ('{"diff":"-x"}', False, "1 line"),
        ("no", True, "failed"),
        ("user", True, "cancelled"),
    ]
    assert results[0].details.files == (FileTouch(path="/x/a", action="modified"),)
    called = view(session)[1]
    assert isinstance(called, AssistantMessage)
    assert (called.model, called.usage) == (
        "claude-x",
        Usage(input=12, cached=5, output=6),
    )
    assert (session.header.id, session.header.cwd) == ("T-1", "/work/the clock")
    assert [entry.title for entry in session.entries if isinstance(entry, Title)] == [
        "The clock"
    ]


# --- Cline ------------------------------------------------------------------------------------------


# --- Goose ------------------------------------------------------------------------------------------


def asked(id: str, name: str, **arguments: Any) -> Record:
    call = {"status": "success", "value": {"name": name, "arguments": arguments}}
    return {"type": "toolRequest", "id": id, "toolCall": call}


def responded(id: str, value: Any, status: str = "success") -> Record:
    return {
        "type": "toolResponse",
        "id": id,
        "toolResult": {"status": status, "value": value},
    }


GOOSE = [
    user("mend", created=1_767_000_000),
    answer(
        asked("a", "developer__text_editor", command="view", path="/x/a"),
        asked("b", "shell"),
        asked("c", "write"),
    ),
    user(
        responded("a", [text("one")]),
        responded("b", {"content": [text("two")], "isError": True}),
        {
            "type": "toolResponse",
            "id": "c",
            "toolResult": {"status": "error", "error": "denied"},
        },
    ),
    answer("Done."),
]
HEADER = {
    "working_dir": "/work",
    "description": "The clock",
    "message_count": 4,
    "total_tokens": 9,
}


@pytest.mark.parametrize(
    "content",
    [lines(HEADER, *GOOSE), {"id": "2026_1", **HEADER, "conversation": GOOSE}],
    ids=["lines", "export"],
)
def test_a_session_of_goose_is_read(read: Any, content: Any) -> None:
    session = read(content, "20260101_1.jsonl")
    results = tool_results(view(session))
    assert [(r.name, r.text, r.is_error) for r in results] == [
        ("developer__text_editor", "one", False),
        ("shell", "two", True),
        ("write", "denied", True),
    ]
    assert results[0].details.files == (FileTouch(path="/x/a", action="read"),)
    assert session.header.cwd == "/work"
    assert session.header.created_at.year == 2025
    assert [entry.title for entry in session.entries if isinstance(entry, Title)] == [
        "The clock"
    ]


# --- what is damaged --------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_a_damaged_chat_is_read_as_far_as_it_goes(
    tmp_path: Path, damage: Damager
) -> None:
    for seed in range(40):
        path = tmp_path / "a.jsonl"
        path.write_bytes(damage(lines(HEADER, *GOOSE, *CHAT), random.Random(seed)))
        try:
            assert faults(read_foreign(path, "anthropic")) == []
        except FoldlineError:
            continue


def test_values_of_wrong_types_end_nothing(tmp_path: Path) -> None:
    chance = random.Random(1)
    odd: list[Any] = [None, 7, "x", [], {}, [1], {"a": []}, 1e308, -1e308, True]
    thread = amp(*GOOSE, *CHAT, user(ran("a", status="done", result=[])))
    for _ in range(400):
        document = json.loads(json.dumps(thread))
        target: Any = document
        while True:
            keys = (
                list(target) if isinstance(target, dict) else list(range(len(target)))
            )
            key = chance.choice(keys)
            if (
                isinstance(target[key], dict | list)
                and target[key]
                and chance.random() < 0.8
            ):
                target = target[key]
                continue
            target[key] = chance.choice(odd)
            break
        path = tmp_path / "a.json"
        path.write_text(json.dumps(document))
        try:
            assert faults(read_foreign(path, "anthropic")) == []
        except FoldlineError:
            continue
