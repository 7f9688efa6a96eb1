"""Reading OpenAI chat messages, on small files made here and on the recorded trajectories."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from foldline.cli.settings import Window
from foldline.cli.view import view_json
from foldline.formats import ForeignSession, read_foreign
from foldline.formats.readers.openai.reader import NO_MESSAGES
from foldline.protocol import (
    AssistantMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    TextPart,
    Usage,
    UserMessage,
)
from foldline.view.projection import project
from foldline.view.weight import view_size
from support.foreign import (
    DAMAGERS,
    Damager,
    faults,
    view,
    view_after_a_round_trip,
    view_texts,
)
from support.history import call, history
from support.messages import tool_results
from support.recordings import needs_recorded, recordings
from support.sentences import pattern

Record = dict[str, Any]
FILES = recordings("mini-swe-agent")
WINDOW = Window(8000)


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a file with this content, JSON or bytes."""

    def read_content(content: Any) -> ForeignSession:
        path = tmp_path / "chat.json"
        path.write_bytes(
            content if isinstance(content, bytes) else json.dumps(content).encode()
        )
        session = read_foreign(path)
        assert session.format == "openai"
        assert faults(session) == []
        return session

    return read_content


def message(role: str, content: Any = "", **fields: Any) -> Record:
    return {"role": role, "content": content, **fields}


def as_lines(*records: Record) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


CHAT = [
    message("system", "Be kind."),
    message("user", "hi"),
    message("assistant", "Hello."),
]


@pytest.mark.parametrize(
    "content",
    [
        CHAT,
        {"messages": CHAT, "model": "m"},
        as_lines(*CHAT),
        as_lines({"messages": CHAT}),
        json.dumps(CHAT, indent=2).encode(),
        json.dumps({"messages": CHAT}, indent=2).encode(),
        b"\xef\xbb\xbf" + json.dumps(CHAT).encode(),
    ],
    ids=[
        "list",
        "object",
        "lines",
        "object in a line",
        "spread list",
        "spread object",
        "byte order mark",
    ],
)
def test_every_shape_of_a_chat_is_read(read: Any, content: Any) -> None:
    session = read(content)
    assert view_texts(session) == ["Be kind.", "hi", "Hello."]
    assert [entry.index for entry in session.entries] == [0, 1, 2]
    assert session.notes == ()


@pytest.mark.parametrize(
    "content", [b"[]", b"{}", b'{"messages": []}', b"nothing", b"[1]", b"\xff"]
)
def test_a_file_without_messages_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(content)
    with pytest.raises(FoldlineError, match=pattern(NO_MESSAGES)):
        read_foreign(path, "openai")


@pytest.mark.parametrize(
    "junk", [None, 3, "x", [], [None, 3, "x"], {"a": 1}, True, 1e400, -1]
)
def test_values_of_the_wrong_shape_are_never_an_error(read: Any, junk: Any) -> None:
    fields = (
        "tool_calls",
        "function_call",
        "tool_call_id",
        "name",
        "extra",
        "reasoning_content",
        "refusal",
    )
    odd = [
        message(role, junk, **dict.fromkeys(fields, junk))
        for role in ("user", "assistant", "tool", "exit")
    ]
    extra = {
        "response": junk,
        "timestamp": junk,
        "returncode": junk,
        "interrupt_type": junk,
    }
    read(
        [*CHAT, *odd, message(junk, junk), junk, message("assistant", "x", extra=extra)]
    )
    read(
        {
            "messages": CHAT,
            "info": junk,
            "items": junk,
            "instance_id": junk,
            "trajectory_format": junk,
        }
    )


# --- what foldline view wrote ------------------------------------------------------------------------


def again(entries: list[Entry], read: Any) -> tuple[dict[str, object], ForeignSession]:
    written = viewed(entries)
    return written, read(written)


def viewed(entries: Sequence[Entry]) -> dict[str, Any]:
    """As `foldline view --json` prints it."""
    projection = project(entries)
    return view_json(projection, WINDOW, view_size(projection))


def test_what_view_wrote_is_read_as_the_same_view(read: Any) -> None:
    entries = list(
        history()
        .system("You are an agent.")
        .user("Fix it")
        .assistant("I look.", calls=[call("read", path="a")])
        .result("text")
        .assistant("Done.")
        .entries
    )
    written, session = again(entries, read)
    assert viewed(session.entries)["messages"] == written["messages"]


def test_machine_text_that_view_marked_stays_machine_text(read: Any) -> None:
    text = "a result with </system-note> in it"
    written, session = again(
        [UserMessage(index=0, origin="machine", parts=(TextPart(text=text),))], read
    )
    [entry] = session.entries
    assert (entry.origin, entry.text) == ("machine", text)
    assert viewed(session.entries)["messages"] == written["messages"]


# --- trajectories ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@needs_recorded
def test_a_trajectory_comes_whole(path: Path, tmp_path: Path) -> None:
    document = json.loads(path.read_text())
    messages, session = document["messages"], read_foreign(path)
    assert session.format == "openai"
    assert (session.header.id, session.header.cwd) == (
        document["instance_id"],
        "/testbed",
    )
    assert len(session.entries) == len(messages)
    answers = [
        entry for entry in session.entries if isinstance(entry, AssistantMessage)
    ]
    asked = [each for each in messages if each["role"] == "assistant"]
    assert [call.arguments for answer in answers for call in answer.calls] == [
        call["function"]["arguments"] for each in asked for call in each["tool_calls"]
    ]
    usages = [each["extra"]["response"]["usage"] for each in asked]
    assert [answer.usage for answer in answers] == [
        Usage(
            input=usage["prompt_tokens"],
            cached=usage["prompt_tokens_details"]["cached_tokens"],
            output=usage["completion_tokens"],
        )
        for usage in usages
    ]
    results = tool_results(session.entries)
    assert [result.is_error for result in results] == [
        each["extra"]["returncode"] != 0 for each in messages if each["role"] == "tool"
    ]
    assert isinstance(session.entries[-1], NoticeRecord)
    assert [entry.text for entry in view(session)] == [
        each["content"] for each in messages[:-1]
    ]
    assert faults(session) == []
    assert view_after_a_round_trip(session, tmp_path) == view(session)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@needs_recorded
def test_the_view_of_a_trajectory_is_read_again_as_it_is(path: Path, read: Any) -> None:
    written, session = again(read_foreign(path).entries, read)
    assert viewed(session.entries)["messages"] == written["messages"]


@needs_recorded
@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_chat_is_read_as_far_as_it_goes(
    damage: Damager, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    messages = json.loads(FILES[seed % len(FILES)].read_text())["messages"]
    path = tmp_path / "chat.jsonl"
    path.write_bytes(damage(as_lines(*messages), chance))
    assert faults(read_foreign(path, "openai")) == []
