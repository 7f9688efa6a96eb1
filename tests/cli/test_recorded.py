"""The commands on recorded sessions of other agents."""

from pathlib import Path

import pytest

from support.front_door import FrontDoor
from support.recorded import READ, needs_recorded, recorded

pytestmark = needs_recorded
SMALL = ("gemini-cli", "qwen-code")
"""Too small for anything to be folded at a window that holds a session."""
FILES = pytest.mark.parametrize(
    "file", [path for folder in (*READ, *SMALL) for path in recorded(folder)], ids=lambda path: path.name
)
ONE_EACH = [files[0] for folder in READ if (files := recorded(folder)) and folder != "pi"]


@FILES
def test_view_gives_a_valid_request(door: FrontDoor, file: Path) -> None:
    said = door("view", file, "--json")
    assert said.code == 0
    assert len(said.json["items"]) > 0
    waiting: list[str] = []
    for message in said.json["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting


@FILES
def test_history_gives_every_entry_one_fate(door: FrontDoor, file: Path) -> None:
    rows = door("history", file, "--json").lines
    indices = [row["index"] for row in rows]
    assert indices == sorted(set(indices))
    in_view = {item["index"] for item in door("view", file, "--json").json["items"]}
    assert {row["index"] for row in rows if row["fate"] in ("live", "hidden", "clipped")} == in_view


@FILES
@pytest.mark.parametrize("command", ["view", "history"])
def test_text_stays_within_its_columns_and_acts_on_nothing(door: FrontDoor, file: Path, command: str) -> None:
    said = door(command, file)
    assert said.code == 0
    rows = said.out.splitlines()[1:]
    assert max(map(len, rows)) <= 130
    assert not any(char < " " for char in said.out if char != "\n")


@pytest.mark.parametrize("file", [*recorded("pi"), *ONE_EACH], ids=lambda path: path.name)
def test_compact_folds_a_copy_and_leaves_the_file(door: FrontDoor, file: Path) -> None:
    before = file.read_bytes()
    said = door("compact", file, "--window", "64k", "--out", "folded.jsonl", "--json").json
    assert said["committed"]
    assert said["tokens_after"] < said["tokens_before"]
    assert file.read_bytes() == before
    kinds = [item["kind"] for item in door("view", "folded.jsonl", "--json").json["items"]]
    assert kinds.count("summary") == 1
