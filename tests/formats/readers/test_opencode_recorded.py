"""The three recorded opencode sessions, against a count of their JSON that knows nothing of the reader."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession
from foldline.formats.base import JsonObject
from foldline.formats.readers.opencode import reader
from foldline.past.files import file_lists
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    UserMessage,
    dump_entry,
    parse_entry,
)
from foldline.view.projection import project
from support.foreign import faults, flip_bytes
from support.messages import tool_results
from support.recordings import needs_recorded, recordings
from support.sentences import pattern

pytestmark = needs_recorded
FILES = recordings("opencode")
EVERY_FILE = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)

TABLE = {"prsui-mimo": (78, 75), "prsui-111tools": (50, 111), "prsui-small": (11, 19)}
"""Messages and tool calls: the README's."""


@cache
def document(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())  # type: ignore[no-any-return]


@cache
def load(path: Path) -> ForeignSession:
    return reader.read(path.read_bytes(), path)


def parts(path: Path, role: str, *kinds: str) -> list[dict[str, Any]]:
    messages = [
        message
        for message in document(path)["messages"]
        if message["info"]["role"] == role
    ]
    return [
        part
        for message in messages
        for part in message["parts"]
        if part["type"] in kinds
    ]


def answers(session: ForeignSession) -> list[AssistantMessage]:
    return [entry for entry in session.entries if isinstance(entry, AssistantMessage)]


@EVERY_FILE
def test_the_counts_are_those_of_the_table(path: Path) -> None:
    session = load(path)
    typed = [
        entry
        for entry in session.entries
        if isinstance(entry, UserMessage) and entry.origin == "typed"
    ]
    calls = [call for answer in answers(session) for call in answer.calls]
    assert (len(typed) + len(answers(session)), len(calls)) == TABLE[path.stem]
    assert reader.recognises(JsonObject(document(path)))
    assert session.notes == ()


@EVERY_FILE
def test_every_word_of_the_model_comes_along_once(path: Path) -> None:
    session = load(path)
    assert [
        part.text
        for one in answers(session)
        for part in one.parts
        if part.type == "text"
    ] == [part["text"] for part in parts(path, "assistant", "text") if part["text"]]
    assert [one.thinking for one in answers(session) if one.thinking] == [
        part["text"] for part in parts(path, "assistant", "reasoning") if part["text"]
    ]
    assert [
        (call.name, call.parsed()) for one in answers(session) for call in one.calls
    ] == [
        (part["tool"], part["state"]["input"])
        for part in parts(path, "assistant", "tool")
    ]


@EVERY_FILE
def test_every_result_comes_along_once(path: Path) -> None:
    results = tool_results(load(path).entries)
    states = [part["state"] for part in parts(path, "assistant", "tool")]
    assert [result.text for result in results] == [
        state.get("output", state.get("error")) for state in states
    ]
    wrong = [
        state["status"] == "error" or bool(state["metadata"].get("exit"))
        for state in states
    ]
    assert [result.is_error for result in results] == wrong


@EVERY_FILE
def test_only_what_was_typed_is_the_users(path: Path) -> None:
    users = [entry for entry in load(path).entries if isinstance(entry, UserMessage)]
    said = parts(path, "user", "text")
    for origin, synthetic in (("typed", False), ("machine", True)):
        texts = [
            part.text
            for one in users
            if one.origin == origin
            for part in one.parts
            if part.type == "text"
        ]
        assert texts == [
            part["text"] for part in said if part.get("synthetic", False) is synthetic
        ]


@EVERY_FILE
def test_every_token_is_counted_once(path: Path) -> None:
    usages = [one.usage for one in answers(load(path)) if one.usage]
    total = document(path)["info"]["tokens"]
    assert sum(usage.input for usage in usages) == total["input"] + sum(
        total["cache"].values()
    )
    assert sum(usage.cached for usage in usages) == total["cache"]["read"]
    assert sum(usage.output for usage in usages) == total["output"] + total["reasoning"]


@EVERY_FILE
def test_every_file_that_changed_is_in_the_list(path: Path) -> None:
    changed = {
        file for part in parts(path, "assistant", "patch") for file in part["files"]
    }
    assert changed <= set(file_lists(project(load(path).entries)).modified_files)


@pytest.mark.parametrize("seed", range(8))
@EVERY_FILE
def test_a_file_with_wrong_bytes_is_read_or_refused(path: Path, seed: int) -> None:
    assert_read_or_refused(flip_bytes(path.read_bytes(), random.Random(seed)))


@EVERY_FILE
def test_a_file_that_is_cut_off_is_refused(path: Path) -> None:
    data = path.read_bytes()
    with pytest.raises(FoldlineError, match=pattern(reader.NOT_COMPLETE)):
        reader.read(data[: len(data) * 2 // 3], path)


@pytest.mark.parametrize("seed", range(12))
@EVERY_FILE
def test_messages_in_any_order_compacted_hidden_and_failed_are_read_without_fault(
    path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    messages: list[Any] = json.loads(
        json.dumps(chance.sample(document(path)["messages"], 10))
    )
    for message in messages:
        info = message["info"]
        if info["role"] == "user" and chance.random() < 0.3:
            message["parts"] = [
                {
                    "type": "compaction",
                    "tail_start_id": chance.choice(messages)["info"]["id"],
                }
            ]
        if info["role"] == "assistant" and chance.random() < 0.2:
            info["summary"], info["finish"] = True, "stop"
        if chance.random() < 0.2:
            info["error"] = {"name": chance.choice(["APIError", "MessageAbortedError"])}
        for part in message["parts"]:
            if part["type"] == "tool" and chance.random() < 0.3:
                part["state"]["time"]["compacted"] = info["time"][
                    "created"
                ] + chance.randrange(10**6)
    info = {
        **document(path)["info"],
        "revert": {"messageID": chance.choice(messages)["info"]["id"]},
    }
    assert_read_or_refused(json.dumps({"info": info, "messages": messages}).encode())


def assert_read_or_refused(data: bytes) -> None:
    try:
        session = reader.read(data, Path("session.json"))
    except FoldlineError:
        return
    assert faults(session) == []
    assert all(parse_entry(dump_entry(entry)) == entry for entry in session.entries)
