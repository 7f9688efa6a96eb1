"""`foldline import`: what another agent was told becomes a session that goes on."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from foldline.cli.transfer import NEW_FOLDER
from foldline.formats import read_foreign
from foldline.history import Session
from foldline.history.catalog import latest
from foldline.protocol import UserMessage, text_parts
from foldline.view.projection import project
from support.command_line import CommandLine
from support.history import history
from support.recordings import SHARED, needs_recorded

FILES = (
    "claude-code/entire-2auto-opus45.jsonl",
    "codex/mise-2comp-gpt56.jsonl",
    "kimi/ctx-a/context.jsonl",
    "mini-swe-agent/astropy-6938.traj.json",
    "opencode/prsui-mimo.json",
    "pi/pimono-v1-2comp.jsonl",
)


@needs_recorded
@pytest.mark.parametrize("file", FILES)
def test_the_copy_sends_what_the_other_agents_model_saw_last(
    cli: CommandLine, file: str
) -> None:
    path = SHARED / file
    before = path.read_bytes()
    said = cli("import", path, "--json")
    assert said.code == 0, said.err
    copy = Session.open(Path(said.json["path"]))
    theirs = project(read_foreign(path).entries)
    assert [item.message for item in copy.projection.view] == [
        item.message for item in theirs.view
    ]
    assert said.json["entries"] == len(theirs.entries)
    assert path.read_bytes() == before


@needs_recorded
def test_an_imported_session_is_listed_and_goes_on(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_MODEL", "offline")
    monkeypatch.setenv("FOLDLINE_OFFLINE__WINDOW", "64k")
    made = cli("import", SHARED / "pi" / "prsui-v3-b.jsonl", "--json").json
    assert made["cwd"] == str(cli.cwd)
    assert [row["id"] for row in cli("sessions", "--json").json] == [made["id"]]
    said = cli("run", "-c", "what did we do?")
    assert said.code == 0, said.err
    grown = Session.open(Path(made["path"]))
    assert len(grown.entries) > made["entries"]
    assert cli("verify", made["path"]).code == 0


def test_a_session_whose_folder_is_here_stays_in_it(
    cli: CommandLine, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "project"
    elsewhere.mkdir()
    folder = cli.keep(history().turn("hello", "hi").entries, cwd=elsewhere)
    said = cli("import", folder)
    assert said.code == 0
    assert "is unchanged" in said.err
    assert len(cli("sessions", "--all", "--json").json) == 2
    assert cli("sessions", "--json").json == []


def test_it_is_not_the_last_session_of_a_folder_that_it_names_before_something_was_said_in_it(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote the file chose that folder; `-c` there would go on with their words."""
    monkeypatch.setenv("FOLDLINE_MODEL", "offline")
    project = tmp_path / "project"
    project.mkdir()
    theirs = cli.keep(history().turn("hello", "now run make").entries, cwd=project)
    mine = cli.keep(history().turn("mine", "yes").entries, cwd=project).name
    brought = cli("import", theirs, "--json").json
    monkeypatch.chdir(project)
    shutil.rmtree(theirs)
    assert cli("rename", brought["id"], "the one to go on with").code == 0
    fork = cli("fork", brought["id"], "--json").json["id"]
    assert {row["id"] for row in cli("sessions", "--json").json} == {
        mine,
        brought["id"],
        fork,
    }
    last = latest(cli.home, project)
    assert last is not None and last.id == mine
    run = Session.open(Path(brought["path"]))
    asyncio.run(run.append(UserMessage(parts=text_parts("go on"))))
    run.save_meta()
    run.close()
    last = latest(cli.home, project)
    assert last is not None and last.id == brought["id"]


@pytest.mark.parametrize("named", ["/", "~", "/../", "~/..", "~/."])
def test_a_session_that_names_all_there_is_stays_in_the_present_folder(
    cli: CommandLine, named: str
) -> None:
    folder = cli.keep(history().turn("hello", "hi").entries, cwd=cli.cwd)
    lines = (folder / "events.jsonl").read_text().splitlines()
    header = json.loads(lines[0]) | {"cwd": os.path.expanduser(named)}  # noqa: PTH111
    (cli.cwd / "a.jsonl").write_text("\n".join([json.dumps(header), *lines[1:], ""]))
    said = cli("import", "a.jsonl")
    assert said.code == 0
    assert "contains your home folder" in said.err
    assert NEW_FOLDER.format(folder=cli.cwd) in said.err


def test_what_is_no_session_is_not_imported(cli: CommandLine) -> None:
    (cli.cwd / "notes.txt").write_text("hello")
    said = cli("import", "notes.txt")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert cli("sessions", "--all", "--json").json == []


def test_a_record_too_deep_to_be_written_again_is_damage_and_no_end(
    cli: CommandLine,
) -> None:
    deep = '{"a":' * 300 + "1" + "}" * 300
    said = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    head = {
        "type": "session",
        "id": "a",
        "timestamp": "2025-12-01T10:00:00.000Z",
        "cwd": "/",
        "provider": "x",
    }
    lines = [
        json.dumps(head),
        json.dumps({"type": "message", "message": said}),
        f'{{"type": "odd", "x": {deep}}}',
    ]
    (cli.cwd / "deep.jsonl").write_text("\n".join([*lines, ""]))
    done = cli("import", "deep.jsonl", "--json")
    assert (done.code, done.json["entries"]) == (0, 1)
    assert "1 damaged record" in done.err
