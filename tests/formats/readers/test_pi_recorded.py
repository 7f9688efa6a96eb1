"""The five recorded pi sessions, against a count of their JSON that knows nothing of the reader."""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    DeveloperMessage,
    NoticeRecord,
    ToolResultMessage,
    Unknown,
    UserMessage,
)
from foldline.view.projection import project
from support.recordings import needs_recorded, recordings

pytestmark = needs_recorded
FILES = recordings("pi")


def load(name: str) -> tuple[ForeignSession, list[dict[str, Any]]]:
    path = next(path for path in FILES if path.name == name)
    return read_foreign(path), [
        json.loads(line) for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_lost_or_made_up(path: Path) -> None:
    session = read_foreign(path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    messages = [record["message"] for record in records if record["type"] == "message"]
    answers = [message for message in messages if message["role"] == "assistant"]
    kinds = Counter(record["type"] for record in records)
    roles = Counter(message["role"] for message in messages)

    def count(*types: type) -> int:
        return sum(isinstance(entry, types) for entry in session.entries)

    assert len(session.entries) == len(records) - 1
    assert count(UserMessage) == roles["user"] + roles["bashExecution"]
    assert count(AssistantMessage) == roles["assistant"]
    assert count(ToolResultMessage) == roles["toolResult"]
    assert count(Compaction) == kinds["compaction"]
    assert count(DeveloperMessage) == kinds["custom_message"]
    assert count(NoticeRecord) == 0
    ours = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert [call.call_id for entry in ours for call in entry.calls] == [
        part["id"]
        for message in answers
        for part in message["content"]
        if part["type"] == "toolCall"
    ]
    assert [call.parsed() for entry in ours for call in entry.calls] == [
        part["arguments"]
        for message in answers
        for part in message["content"]
        if part["type"] == "toolCall"
    ]
    assert Counter(entry.stop_reason for entry in ours)["cancelled"] == sum(
        message["stopReason"] == "aborted" for message in answers
    )
    assert sum(entry.usage.total for entry in ours if entry.usage) == sum(
        message["usage"][key]
        for message in answers
        for key in ("input", "output", "cacheRead", "cacheWrite")
    )
    assert sum(
        len(entry.text)
        for entry in session.entries
        if isinstance(entry, ToolResultMessage)
    ) == sum(
        len("\n".join(part["text"] for part in message["content"]))
        for message in messages
        if message["role"] == "toolResult"
    )
    assert not session.damage
    assert all(
        entry.at is not None
        for entry in session.entries
        if not isinstance(entry, Unknown)
    )


def test_the_two_compactions_of_v1_and_the_view_after_each() -> None:
    session, records = load("pimono-v1-2comp.jsonl")
    first, second = (
        entry for entry in session.entries if isinstance(entry, Compaction)
    )
    assert (first.index, first.first_kept_index, first.tokens_before) == (
        359,
        293,
        175004,
    )
    assert (second.index, second.first_kept_index, second.tokens_before) == (
        628,
        551,
        185014,
    )
    assert first.head[0].covers == ((1, 292),)  # type: ignore[union-attr]
    assert second.head[0].covers == ((293, 550),)  # type: ignore[union-attr]
    assert second.head[0].inputs == (359,)  # type: ignore[union-attr]
    assert records[628]["summary"] in second.summary
    projection = project(session.entries)
    assert projection.view[0].key == (628, 0)
    assert projection.view[1].message.text == "can leave it"
    fates = Counter(
        projection.fate(entry.index).kind
        for entry in session.entries
        if entry.index < 551
    )
    assert set(fates) == {"summarised", "aside"}
    files = second.details
    assert files.modified_files[0].endswith("/docs/refactor.md")
    assert not set(files.read_files) & set(files.modified_files)


def test_aborted_turns_and_calls_without_results_come_through() -> None:
    session, _ = load("pimono-v1-2comp.jsonl")
    answers = [
        entry for entry in session.entries if isinstance(entry, AssistantMessage)
    ]
    assert sum(entry.stop_reason == "cancelled" for entry in answers) == 18
    answered = {
        entry.call_id
        for entry in session.entries
        if isinstance(entry, ToolResultMessage)
    }
    calls = [call.call_id for entry in answers for call in entry.calls]
    assert len(calls) - len(answered) == 6
    failed = next(entry for entry in answers if entry.stop_reason == "error")
    assert failed.index == 847
    assert "tool_use" in (failed.error or "")


def test_shell_commands_of_the_user_in_v1() -> None:
    session, records = load("pimono-v1-2comp.jsonl")
    shell = [
        entry
        for entry in session.entries
        if isinstance(entry, UserMessage) and entry.origin == "shell"
    ]
    assert [entry.index for entry in shell] == [639, 996, 1001]
    assert shell[0].text.startswith("$ ls\nAGENTS.md\nbiome.json")
    assert shell[0].at == datetime.fromisoformat(records[639]["timestamp"])


def test_oh_my_pi_files_touched_are_real_paths() -> None:
    session, _ = load("preloop-omp-v3-large.jsonl")
    touches = [
        touch
        for entry in session.entries
        if isinstance(entry, ToolResultMessage)
        for touch in entry.details.files
    ]
    assert touches
    assert all(
        touch.path.startswith("/") and ":" not in touch.path for touch in touches
    )
    assert sum(touch.action == "modified" for touch in touches) == 26
    machine = next(
        entry for entry in session.entries if isinstance(entry, DeveloperMessage)
    )
    assert machine.index == 397
    assert machine.text.startswith("<system-interrupt")
