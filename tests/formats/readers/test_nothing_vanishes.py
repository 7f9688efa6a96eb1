"""Every text in a file of another agent is in the history that is read from it, or the notes count it.

A word that no file has is put in the place of one text of one record, and must be found again. So must a
record of a kind that no version had so far, and what is left of a file whose beginning is lost.
"""

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import FoldlineError
from formats.readers.test_pages import PAGES
from support.limits import examples

WORD = "Zq7unheard9"
TEXTS = (
    "text",
    "content",
    "thinking",
    "output",
    "summary",
    "user_input",
    "think",
    "reasoning_content",
    "thought",
)
"""The fields that hold texts of a conversation, in any format."""
TWICE = {
    # Beside a result, as progress, or appended again.
    "claude-code": r"(progress|user) .*|\S+ toolUseResult.*",
    # An item says it, too.
    "codex": r"event_msg.*|compacted message|reasoning summary.*|session_meta .*",
    # The text as it was sent stands beside.
    "copilot": r"user.message content|\S+ (result\.detailedContent|kind\.prompt)",
}
"""Texts that another record, or another field, says as well: `kind path`."""
Path_ = tuple[str | int, ...]


@cache
def files() -> list[Path]:
    """The pages that are one file: JSON lines, or a document, which is one record."""
    several_chats = (
        PAGES / "openai" / "of-several-chats-the-first-is-read-with-a-note.json"
    )
    return sorted({*PAGES.rglob("*.jsonl"), *PAGES.rglob("*.json")} - {several_chats})


def records_of(path: Path) -> list[Any]:
    data = path.read_bytes()
    lines = data.splitlines() if path.suffix == ".jsonl" else [data]
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError:  # a page of damage
        return []


def texts_in(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Where texts of a conversation stand in a record."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_in(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from texts_in(inner, (*path, place))
    elif isinstance(value, str) and value.strip() and path and path[-1] in TEXTS:
        yield path


def put(record: Any, path: Path_, value: str) -> Any:
    changed = copy.deepcopy(record)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


def name_of(record: Any, path: Path_) -> str:
    """`kind path`, without the envelope that a record stands in."""
    if not isinstance(record, dict) or "type" not in record:
        return " ".join(step for step in path if isinstance(step, str))
    inside = next(
        (
            record[key]
            for key in ("payload", "data")
            if isinstance(record.get(key), dict)
        ),
        record,
    )
    kind = (
        record.get("type")
        if record.get("type") != "response_item"
        else inside.get("type")
    )
    steps = [
        step
        for step in path
        if isinstance(step, str) and step not in ("payload", "data")
    ]
    return f"{kind} {'.'.join(steps)}"


def read(records: list[Any], like: Path, folder: Path) -> ForeignSession:
    file = folder / like.name
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    try:
        return read_foreign(file)
    except FoldlineError:
        assume(False)
        raise


def notes_of(session: ForeignSession) -> list[str]:
    return [
        *session.notes,
        *(note for child in session.children for note in notes_of(child.session)),
    ]


def holds(session: ForeignSession, word: str) -> bool:
    return any(word in entry.model_dump_json() for entry in session.entries) or any(
        holds(child.session, word) for child in session.children
    )


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
        HealthCheck.too_slow,
    ],
)
@given(st.data())
def test_a_text_of_a_record_is_in_the_history_or_counted(
    tmp_path: Path, data: st.DataObject
) -> None:
    file = data.draw(st.sampled_from(files()))
    records = records_of(file)
    lost = data.draw(
        st.integers(0, max(0, len(records) - 1)), label="lines lost at the beginning"
    )
    records = records[lost:]
    places = [
        (place, path)
        for place, record in enumerate(records)
        for path in texts_in(record)
    ]
    assume(places)
    place, path = data.draw(st.sampled_from(places))
    before = read(records, file, tmp_path)
    changed = [*records[:place], put(records[place], path, WORD), *records[place + 1 :]]
    after = read(changed, file, tmp_path)
    if holds(after, WORD) or notes_of(after) != notes_of(before):
        return
    assert re.fullmatch(TWICE.get(after.format, ""), name_of(records[place], path)), (
        after.format
    )


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
        HealthCheck.too_slow,
    ],
)
@given(st.data())
def test_a_record_of_a_new_kind_is_kept_and_counted(
    tmp_path: Path, data: st.DataObject
) -> None:
    file = data.draw(
        st.sampled_from([file for file in files() if file.suffix == ".jsonl"])
    )
    records = records_of(file)
    # A record of progress repeats one of a subagent, and is read as that.
    kinds = [
        place
        for place, record in enumerate(records)
        if record.get("type", "progress") != "progress"
    ]
    assume(kinds)
    like = data.draw(st.sampled_from(kinds))
    new = {**records[like], "type": "kind_of_tomorrow", "words": WORD}
    for key in ("uuid", "id"):
        if isinstance(new.get(key), str):
            new[key] = f"{new[key]}-tomorrow"
    session = read([*records, new], file, tmp_path)
    assert holds(session, WORD)
    assert any("kind_of_tomorrow" in note for note in notes_of(session))


@pytest.mark.parametrize(
    "file", files(), ids=lambda file: f"{file.parent.name}/{file.stem}"
)
def test_the_pages_are_of_lines_that_can_be_changed(file: Path) -> None:
    assert records_of(file) == [] or all(
        isinstance(record, dict)
        for record in records_of(file)
        if file.suffix == ".jsonl"
    )
