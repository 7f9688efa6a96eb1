"""The commands on recorded sessions of other agents."""

from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.recordings import READ, needs_recorded, recordings

pytestmark = [needs_recorded, pytest.mark.quick_cases(1)]
SMALL = ("gemini-cli", "qwen-code")
"""Too small for anything to be compacted at a window that holds a session."""
FILES = pytest.mark.parametrize(
    "file",
    [path for folder in (*READ, *SMALL) for path in recordings(folder)],
    ids=lambda path: path.name,
)
ONE_EACH = [
    files[0] for folder in READ if (files := recordings(folder)) and folder != "pi"
]


@FILES
def test_view_gives_a_valid_request(cli: CommandLine, file: Path) -> None:
    said = cli("view", file, "--json")
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
def test_history_gives_every_entry_one_fate(cli: CommandLine, file: Path) -> None:
    rows = cli("history", file, "--json").lines
    indices = [row["index"] for row in rows]
    assert indices == sorted(set(indices))
    in_view = {item["index"] for item in cli("view", file, "--json").json["items"]}
    assert {
        row["index"] for row in rows if row["fate"] in ("live", "hidden", "clipped")
    } == in_view


@FILES
@pytest.mark.parametrize("command", ["view", "history"])
def test_text_stays_within_its_columns_and_acts_on_nothing(
    cli: CommandLine, file: Path, command: str
) -> None:
    said = cli(command, file)
    assert said.code == 0
    rows = said.out.splitlines()[1:]
    assert max(map(len, rows)) <= 130
    assert not any(char < " " for char in said.out if char != "\n")


@pytest.mark.parametrize(
    "file", [*recordings("pi"), *ONE_EACH], ids=lambda path: path.name
)
def test_compact_compacts_a_copy_and_leaves_the_file(
    cli: CommandLine, file: Path
) -> None:
    before = file.read_bytes()
    said = cli(
        "compact", file, "--window", "64k", "--out", "compacted.jsonl", "--json"
    ).json
    assert said["committed"]
    assert said["tokens_after"] < said["tokens_before"]
    assert file.read_bytes() == before
    kinds = [
        item["kind"] for item in cli("view", "compacted.jsonl", "--json").json["items"]
    ]
    assert kinds.count("summary") == 1
