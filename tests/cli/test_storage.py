"""What commands leave of files: others' as they are, and of ours what they do not know, too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldline.cli.agents import chosen_session
from foldline.history.log import NOT_A_SESSION, NOTHING_ON_DISK
from foldline.protocol import FoldlineError
from support.command_line import CommandLine
from support.damage import everything_in, write_session
from support.history import history

CHAT = [
    {"role": "system", "content": "You are helpful."},
    *(
        {"role": role, "content": f"{role} {n} " * 300}
        for n in range(8)
        for role in ("user", "assistant")
    ),
]

LOOKING = [
    ("view",),
    ("history",),
    ("verify",),
    ("audit",),
    ("doctor",),
    ("doctor", "--repair"),
    ("compact", "--dry-run", "--window", "8k"),
    ("import",),
]


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
@pytest.mark.parametrize("readable", [True, False], ids=["a chat", "no session"])
def test_no_command_touches_a_file_of_somebody_else(
    cli: CommandLine, command: tuple[str, ...], readable: bool
) -> None:
    folder = cli.cwd / "theirs"
    folder.mkdir()
    file = folder / "events.jsonl"  # as ours are called
    file.write_text(json.dumps(CHAT) if readable else "notes to myself\n" * 100)
    before = everything_in(folder)
    said = cli(command[0], file, *command[1:])
    assert said.code == (0 if readable else 1)
    assert everything_in(folder) == before


@pytest.mark.parametrize(
    "content", [json.dumps(CHAT), "notes to myself\n" * 100], ids=["a chat", "notes"]
)
def test_the_chat_does_not_resume_a_file_of_somebody_else(
    cli: CommandLine, content: str
) -> None:
    folder = cli.cwd / "theirs"
    folder.mkdir()
    (folder / "events.jsonl").write_text(content)
    before = everything_in(folder)
    with pytest.raises(
        FoldlineError, match=NOT_A_SESSION.partition("}")[2].partition(",")[0]
    ):
        chosen_session(continues=False, resume=str(folder))
    assert everything_in(folder) == before


def test_compact_into_a_new_file_takes_along_what_this_version_does_not_know(
    cli: CommandLine,
) -> None:
    built = history().system("You are a coding agent.")
    for n in range(6):
        built = built.turn(f"Remember number {n}. " * 100, f"Number {n} it is. " * 100)
    events = write_session(cli.home, built)
    with events.open("ab") as file:
        file.write(b'{"type":"hologram","index":50,"depth":{"z":null}}\n')
    out = cli.cwd / "compacted.jsonl"
    before = everything_in(events.parent)
    assert (
        cli("compact", "abc123", "--window", "8k", "--keep", "500", "--out", out).code
        == 0
    )
    lines = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert {"type": "hologram", "index": 50, "depth": {"z": None}} in lines
    assert lines[-1]["type"] == "compaction"
    left = everything_in(events.parent)
    assert left["events.jsonl"] == before["events.jsonl"]


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from foldline.cli import main
sys.exit(main(["run", "hello"]))
"""


@pytest.mark.slow
def test_run_on_a_full_disk_is_one_sentence_and_exit_code_1(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {**os.environ, "FOLDLINE_HOME": str(home), "FOLDLINE_MODEL": "offline"}
    done = subprocess.run(
        [sys.executable, "-c", FULL],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    [sentence] = done.stderr.decode().splitlines()
    assert sentence.startswith(f"foldline: {NOTHING_ON_DISK}")
    assert "on disk (file too large): " in sentence, (
        "before the long path, so that it is seen on one line"
    )
    assert [path for path in home.rglob("events.jsonl") if path.stat().st_size] == []


@pytest.mark.parametrize("command", ["view", "fork", "compact", "open"])
def test_a_session_of_ours_that_does_not_begin_like_one_leads_to_the_doctor(
    cli: CommandLine, command: str
) -> None:
    file = cli.keep(history().turn("one", "ok").entries, "s-1") / "events.jsonl"
    file.write_bytes(b"x" + file.read_bytes()[1:])
    said = cli(command, "s-1")
    assert (said.code, said.out) == (1, "")
    assert (
        NOT_A_SESSION.partition("}")[2] in said.err
        and "`foldline doctor s-1`" in said.err
    )


def test_what_cannot_be_forked_because_it_is_not_ours_leads_to_import(
    cli: CommandLine,
) -> None:
    file = cli.cwd / "chat.json"
    file.write_text(json.dumps(CHAT))
    said = cli("fork", file)
    assert (said.code, said.out) == (1, "") and f"`foldline import {file}`" in said.err
