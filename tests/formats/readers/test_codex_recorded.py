"""The five recorded Codex sessions, against a count of their JSON that knows nothing of the reader."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession
from foldline.formats.base import JsonObject
from foldline.formats.readers.codex import reader
from foldline.formats.readers.codex.items import ABSENT, SEALED
from foldline.past.files import file_lists
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    DeveloperMessage,
    UserMessage,
)
from foldline.view.projection import project
from support.foreign import faults, view_texts
from support.messages import tool_results
from support.recordings import needs_recorded, recordings

pytestmark = needs_recorded
FILES = recordings("codex")
EVERY_FILE = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)

TABLE = {
    "mise-2comp-gpt56": (1723, 374, 2),
    "mise-1comp-gpt55": (747, 174, 1),
    "mise-mid": (366, 72, 0),
    "entirecontext-v0.147": (190, 33, 0),
    "mise-small": (200, 49, 0),
}
"""Records, tool calls and compactions: the README's."""
CALLS = ("function_call", "custom_tool_call", "web_search_call")


@cache
def load(stem: str) -> ForeignSession:
    path = next(path for path in FILES if path.stem == stem)
    return reader.read(path.read_bytes(), path)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def items(path: Path, *kinds: str) -> list[dict[str, Any]]:
    return [
        row["payload"]
        for row in rows(path)
        if row["type"] == "response_item" and row["payload"]["type"] in kinds
    ]


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    payloads = [row["payload"] for row in rows(path) if row["type"] == "event_msg"]
    return [payload for payload in payloads if payload["type"] == kind]


def texts(content: Any) -> str:
    return (
        content
        if isinstance(content, str)
        else "\n".join(piece["text"] for piece in content)
    )


def answers(session: ForeignSession) -> list[AssistantMessage]:
    return [entry for entry in session.entries if isinstance(entry, AssistantMessage)]


@EVERY_FILE
def test_the_counts_are_those_of_the_table(path: Path) -> None:
    session = load(path.stem)
    calls = [call for answer in answers(session) for call in answer.calls]
    compactions = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert (len(rows(path)), len(calls), len(compactions)) == TABLE[path.stem]
    assert any(reader.recognises(JsonObject(row)) for row in rows(path)[:20])
    assert not session.damage


@EVERY_FILE
def test_every_word_of_the_model_comes_along_once(path: Path) -> None:
    session = load(path.stem)
    messages = [item for item in items(path, "message") if item["role"] == "assistant"]
    assert "\n".join(one.text for one in answers(session) if one.text) == "\n".join(
        texts(message["content"]) for message in messages
    )
    assert [call.call_id for one in answers(session) for call in one.calls] == [
        item.get("call_id", item.get("id")) for item in items(path, *CALLS)
    ]
    thoughts = [
        part.text
        for one in answers(session)
        for part in one.parts
        if part.type == "thinking"
    ]
    summaries = [
        item["summary"] for item in items(path, "reasoning") if item["summary"]
    ]
    assert thoughts == [
        "\n\n".join(piece["text"] for piece in summary) for summary in summaries
    ]


@EVERY_FILE
def test_every_result_comes_along_once(path: Path) -> None:
    results = tool_results(load(path.stem).entries)
    outputs = items(path, "function_call_output", "custom_tool_call_output")
    recorded = [result for result in results if result.name != "web_search"]
    assert [(result.call_id, result.text) for result in recorded] == [
        (item["call_id"], texts(item["output"])) for item in outputs
    ]


@EVERY_FILE
def test_only_what_was_typed_is_the_users(path: Path) -> None:
    session = load(path.stem)
    users = [entry for entry in session.entries if isinstance(entry, UserMessage)]
    assert [(user.text, user.origin) for user in users] == [
        (event["message"], "typed") for event in events(path, "user_message")
    ]
    machine = [
        entry for entry in session.entries if isinstance(entry, DeveloperMessage)
    ]
    instructions = [one.source for one in machine if one.origin == "instructions"]
    assert instructions == [f"{session.header.cwd}/AGENTS.md"]


@EVERY_FILE
def test_every_token_is_counted_once(path: Path) -> None:
    usages = [one.usage for one in answers(load(path.stem)) if one.usage]
    reports = [event["info"] for event in events(path, "token_count") if event["info"]]
    total = reports[-1]["total_token_usage"]
    assert sum(usage.input for usage in usages) == total["input_tokens"]
    assert sum(usage.cached for usage in usages) == total["cached_input_tokens"]
    assert sum(usage.output for usage in usages) == total["output_tokens"]
    assert sum(usage.reasoning for usage in usages) == total["reasoning_output_tokens"]


@EVERY_FILE
def test_every_file_a_patch_changed_is_in_the_list(path: Path) -> None:
    changed = {
        name for event in events(path, "patch_apply_end") for name in event["changes"]
    }
    assert set(file_lists(project(load(path.stem).entries)).modified_files) == changed


@pytest.mark.parametrize("stem", ["mise-1comp-gpt55", "mise-2comp-gpt56"])
def test_the_view_opens_with_the_context_of_the_newest_compaction(stem: str) -> None:
    path = next(path for path in FILES if path.stem == stem)
    newest = [row["payload"] for row in rows(path) if row["type"] == "compacted"][-1]
    listed = [
        item for item in newest["replacement_history"] if item["type"] == "message"
    ]
    _, *after = view_texts(load(stem))
    context = after[
        : next(place for place, text in enumerate(after) if text in (SEALED, ABSENT))
    ]
    assert "\n".join(context) == "\n".join(texts(item["content"]) for item in listed)


def test_the_compactions_say_how_large_the_context_was() -> None:
    compactions = [
        entry
        for entry in load("mise-2comp-gpt56").entries
        if isinstance(entry, Compaction)
    ]
    assert [
        (compaction.tokens_before, compaction.tokens_after, compaction.reason)
        for compaction in compactions
    ] == [
        (233_599, 14_890, "threshold"),
        (compactions[1].tokens_before, compactions[1].tokens_after, "threshold"),
    ]
    assert compactions[1].tokens_after < 20_000 < 200_000 < compactions[1].tokens_before


@pytest.mark.parametrize("seed", range(6))
def test_a_piece_of_a_compacted_file_in_any_order_is_read_without_fault(
    seed: int,
) -> None:
    chance = random.Random(seed)
    lines = (FILES[-1].parent / "mise-2comp-gpt56.jsonl").read_bytes().splitlines()
    compactions = [
        place for place, line in enumerate(lines) if b'"type":"compacted"' in line[:80]
    ]
    piece = [line for place in compactions for line in lines[place - 60 : place + 60]]
    chance.shuffle(piece)
    assert faults(reader.read(b"\n".join(piece), Path("piece.jsonl"))) == []
