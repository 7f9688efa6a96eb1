"""The nine recorded Claude Code sessions, against a count of their JSON that knows nothing of the reader."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession
from foldline.formats.base import JsonObject
from foldline.formats.readers.claude_code import reader
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    DeveloperMessage,
    FoldlineError,
    ImagePart,
    SystemMessage,
    Title,
    ToolResultMessage,
    UserMessage,
    Written,
    dump_entry,
    parse_entry,
)
from foldline.view.projection import project
from foldline.view.rules import broken
from support.recordings import needs_recorded, recordings

pytestmark = needs_recorded
FILES = recordings("claude-code")
SESSIONS: dict[str, ForeignSession] = {}

TABLE = {
    "entire-2auto-opus45": (753, 664, 178, 2),
    "entire-manual-compact": (362, 199, 61, 1),
    "entire-v2.0.76-small": (102, 88, 23, 0),
    "entire-opus46-small": (117, 47, 16, 0),
    "entire-tiny": (40, 29, 10, 0),
    "entirecontext-v2.1.235": (160, 60, 26, 0),
    "kimicli-zh-docs": (302, 98, 39, 0),
    "kimicli-zh-images": (458, 211, 72, 0),
    "kimicli-zh-tiny": (60, 26, 8, 0),
}
"""Records, messages (of them, those of the user and the model), tool calls and compactions: the README's."""


def load(stem: str) -> ForeignSession:
    if stem not in SESSIONS:
        path = next(path for path in FILES if path.stem == stem)
        SESSIONS[stem] = reader.read(path.read_bytes(), path)
    return SESSIONS[stem]


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def blocks(record: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = record["message"]["content"]
    return (
        []
        if isinstance(content, str)
        else [block for block in content if block["type"] == kind]
    )


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_nothing_is_lost_or_made_up(path: Path) -> None:
    session, records = load(path.stem), records_of(path)
    users = [record for record in records if record["type"] == "user"]
    answers = [record for record in records if record["type"] == "assistant"]

    def of(kind: type) -> list[Any]:
        return [entry for entry in session.entries if isinstance(entry, kind)]

    calls = [call for entry in of(AssistantMessage) for call in entry.calls]
    assert (
        len(records),
        len(users) + len(answers),
        len(calls),
        len(of(Compaction)),
    ) == TABLE[path.stem]
    assert len(of(AssistantMessage)) == len(
        {record["message"]["id"] for record in answers}
    )
    asked = [block for record in answers for block in blocks(record, "tool_use")]
    assert [(call.call_id, call.name, call.parsed()) for call in calls] == [
        (block["id"], block["name"], block["input"]) for block in asked
    ]
    names = {block["id"]: block["name"] for block in asked}
    results = [block for record in users for block in blocks(record, "tool_result")]
    assert [
        (entry.call_id, entry.name, entry.is_error) for entry in of(ToolResultMessage)
    ] == [
        (block["tool_use_id"], names[block["tool_use_id"]], bool(block.get("is_error")))
        for block in results
    ]
    pictures = [
        part for entry in session.entries for part in getattr(entry, "parts", ())
    ]
    assert sum(isinstance(part, ImagePart) for part in pictures) == sum(
        len(blocks(record, "image")) for record in users
    )
    thoughts = [
        block["thinking"] for record in answers for block in blocks(record, "thinking")
    ]
    assert "".join(entry.thinking for entry in of(AssistantMessage)).replace(
        "\n", ""
    ) == "".join(thoughts).replace("\n", "")
    assert not session.damage


@each_file
def test_each_answer_has_the_usage_of_its_last_record_once(path: Path) -> None:
    last = {
        record["message"]["id"]: record["message"]["usage"]
        for record in records_of(path)
        if record["type"] == "assistant" and not record.get("isApiErrorMessage")
    }
    answers = [
        entry
        for entry in load(path.stem).entries
        if isinstance(entry, AssistantMessage)
    ]
    keys = (
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens",
    )
    assert sum(entry.usage.total for entry in answers if entry.usage) == sum(
        usage[key] for usage in last.values() for key in keys
    )


@each_file
def test_every_record_of_the_file_counts_as_this_format(path: Path) -> None:
    assert reader.recognises(JsonObject(records_of(path)[0]))


def test_what_the_user_typed_is_told_from_what_stands_in_their_name() -> None:
    voices = Counter[str]()
    for path in FILES:
        for entry in load(path.stem).entries:
            if isinstance(entry, UserMessage):
                voices[entry.origin] += 1
                is_marked = entry.text.startswith(
                    ("<command-name>", "Implement the following plan")
                )
                assert is_marked == (entry.origin == "machine")
            elif isinstance(entry, DeveloperMessage):
                voices[entry.origin] += 1
    assert voices == {"typed": 52, "machine": 5, "notice": 36}


def test_the_two_automatic_compactions_and_the_view_after_them() -> None:
    session = load("entire-2auto-opus45")
    first, second = (
        entry for entry in session.entries if isinstance(entry, Compaction)
    )
    assert (first.index, first.tokens_before, first.reason) == (
        360,
        156912,
        "threshold",
    )
    assert (second.index, second.tokens_before) == (701, 155454)
    [written] = second.head
    assert isinstance(written, Written)
    assert written.inputs == (360,)
    projection = project(session.entries)
    assert isinstance(projection.view[0].message, SystemMessage)
    assert projection.view[0].message.text.startswith("This session is being continued")
    assert projection.view[1].index == 702
    assert {
        projection.fate(entry.index).kind
        for entry in session.entries
        if entry.index < 700
    } == {
        "summarised",
        "aside",
    }
    assert len(second.details.modified_files) == 10
    assert set(first.details.modified_files) <= set(second.details.modified_files)
    assert not set(second.details.read_files) & set(second.details.modified_files)


def test_a_manual_compaction_is_followed_by_the_command_that_asked_for_it() -> None:
    session = load("entire-manual-compact")
    view = project(session.entries).view
    assert [item.index for item in view][:4] == [319, 320, 321, 322]
    [compaction] = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert (compaction.reason, compaction.tokens_before) == ("manual", 163509)
    [note] = session.notes
    assert note.startswith("2 subagents: a1979ad Explore, ae59e48 Explore.")


def test_only_titles_of_this_session_are_its_titles() -> None:
    titles = {
        path.stem: sum(isinstance(entry, Title) for entry in load(path.stem).entries)
        for path in FILES
    }
    assert {stem: count for stem, count in titles.items() if count} == {
        "entire-2auto-opus45": 8
    }


# --- damage -----------------------------------------------------------------------------------------


def lean(path: Path) -> bytes:
    """A copy of a recorded file without its long texts, so that many of them can be read."""

    def short(value: Any) -> Any:
        match value:
            case str():
                return value[:60]
            case list():
                return [short(item) for item in value]
            case dict():
                return {key: short(item) for key, item in value.items()}
            case _:
                return value

    unwanted = ("progress", "file-history-snapshot")
    kept = [
        short(record) for record in records_of(path) if record["type"] not in unwanted
    ]
    return b"".join(json.dumps(record).encode() + b"\n" for record in kept)


def cut(data: bytes, chance: random.Random) -> bytes:
    start, stop = sorted(chance.randrange(len(data)) for _ in range(2))
    return data[:start] + data[stop:]


def repeat(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(chance.choices(lines, k=len(lines)))


def swap(data: bytes, chance: random.Random) -> bytes:
    """Values of the records stand in each other's place: ids, parents, kinds, contents."""
    records = [json.loads(line) for line in data.split(b"\n") if line]
    for _ in range(chance.randint(1, 300)):
        one, other = chance.choice(records), chance.choice(records)
        key = chance.choice(list(one))
        one[key] = other.get(chance.choice([key, chance.choice(list(other))]))
    return b"\n".join(json.dumps(record).encode() for record in records)


Damaging = Callable[[bytes, random.Random], bytes]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("damaging", [cut, repeat, swap])
@pytest.mark.parametrize(
    "stem", ["entire-tiny", "entire-manual-compact", "entirecontext-v2.1.235"]
)
def test_a_damaged_copy_is_still_read(stem: str, damaging: Damaging) -> None:
    whole = lean(next(path for path in FILES if path.stem == stem))
    for seed in range(12):
        damaged = damaging(whole, random.Random(f"{stem} {seed}"))
        try:
            session = reader.read(damaged, Path("damaged.jsonl"))
        except FoldlineError:
            continue
        indices = [entry.index for entry in session.entries]
        assert indices == sorted(set(indices)), seed
        assert broken(project(session.entries)) == [], seed
        for line in map(dump_entry, session.entries):
            assert dump_entry(parse_entry(line)) == line


def test_a_copy_cut_off_anywhere_is_read_up_to_there() -> None:
    whole = lean(next(path for path in FILES if path.stem == "entire-manual-compact"))
    everything = reader.read(whole, Path("whole.jsonl"))
    for stop in range(2000, len(whole), 9973):
        session = reader.read(whole[:stop], Path("cut.jsonl"))
        assert broken(project(session.entries)) == []
        answers = {
            entry.index
            for entry in session.entries
            if isinstance(entry, AssistantMessage)
        }
        assert answers <= {entry.index for entry in everything.entries}
