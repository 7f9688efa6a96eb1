"""`foldline export`: a session for people or programs, to stdout or to a new file."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from foldline.cli.commands import EXPORTS, HANDOFFS
from foldline.formats import read_foreign
from foldline.formats.export import HANDED_OVER, WRITTEN
from foldline.protocol import Compaction, SystemMessage, Written, text_parts
from support.exported import heard
from support.front_door import FrontDoor
from support.history import History, history
from support.planted import SHAPES
from support.recorded import SHARED, needs_recorded


def folded() -> History:
    summary = Written(message=SystemMessage(origin="summary", parts=text_parts("so far")))
    built = history().system("Be kind.").turn("one", "1").turn("two", "2")
    return built.add(Compaction(summary="so far", first_kept_index=3, head=(summary,)))


def test_the_help_names_every_format_there_is() -> None:
    assert tuple(known.name for known in WRITTEN) == EXPORTS
    assert HANDED_OVER == HANDOFFS


def test_without_a_file_stdout_gets_the_export_and_nothing_else(door: FrontDoor) -> None:
    folder = door.keep(folded().entries)
    said = door("export", folder, "--to", "openai")
    assert said.code == 0
    assert said.json["messages"] == door("view", folder, "--json").json["messages"]
    assert "2 messages are not in the view" in said.err
    assert list(door.cwd.iterdir()) == []


def test_a_file_is_new_and_for_its_owner_only(door: FrontDoor) -> None:
    folder = door.keep(folded().entries)
    said = door("export", folder, "--to", "foldline", "--out", "s.foldline")
    file = door.cwd / "s.foldline"
    assert said.code == 0
    assert said.out == f"s.foldline: 6 entries of {folder}, as Foldline, as one file.\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert heard(read_foreign(file).entries) == heard(folded().entries)


@pytest.mark.parametrize("form", ["markdown", "foldline"])
def test_what_is_there_is_never_overwritten(door: FrontDoor, form: str) -> None:
    folder = door.keep(folded().entries)
    (door.cwd / "there").write_text("mine")
    said = door("export", folder, "--to", form, "--out", "there")
    assert (said.code, said.out) == (1, "")
    assert "exists already" in said.err
    assert (door.cwd / "there").read_text() == "mine"


def test_json_says_what_was_written_and_what_was_lost(door: FrontDoor) -> None:
    folder = door.keep(folded().entries, session_id="20260101-000000-abcdef")
    said = door("export", folder, "--to", "openai", "--json").json
    assert (said["format"], said["path"], said["files"]) == (
        "openai",
        "20260101-000000-abcdef.json",
        ["20260101-000000-abcdef.json"],
    )
    assert said["entries"] == 6
    assert any("not in the view" in sentence for sentence in said["notes"])


def test_the_view_alone_and_the_whole_of_it(door: FrontDoor) -> None:
    folder = door.keep(folded().entries)

    def texts(*options: str) -> list[Any]:
        said = door("export", folder, "--to", "openai", *options).json
        return [message["content"] for message in said["messages"]]

    assert texts("--view") == ["Be kind.", "so far", "two", "2"]
    assert texts("--whole") == ["Be kind.", "one", "1", "two", "2"]
    assert '"one"' not in door("export", folder, "--to", "markdown", "--view").out
    assert door("export", folder, "--to", "markdown", "--view", "--whole").code == 2


def test_credentials_are_redacted_on_request(door: FrontDoor) -> None:
    key = SHAPES["GitHub token"]
    folder = door.keep(history().user(f"use {key} here").entries)
    assert key in door("export", folder, "--to", "openai").out
    said = door("export", folder, "--to", "openai", "--redact")
    assert key not in said.out
    assert "[redacted:" in said.out
    assert "1 credential redacted" in said.err


def test_a_format_that_there_is_not_is_wrong_usage(door: FrontDoor) -> None:
    folder = door.keep(folded().entries)
    said = door("export", folder, "--to", "docx")
    assert (said.code, said.out) == (2, "")
    assert "docx" in said.err


@pytest.mark.parametrize("agent", HANDED_OVER)
def test_an_agent_is_no_format_and_the_handoff_is_named(door: FrontDoor, agent: str) -> None:
    said = door("export", door.keep(folded().entries), "--to", agent)
    assert (said.code, said.out) == (2, "")
    assert f"foldline handoff --to {agent}" in said.err


def test_a_terminal_gets_no_bytes_and_nothing_that_acts_on_it(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = door.keep(history().user("red \x9b31m").entries)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x9b" not in door("export", folder, "--to", "markdown").out
    said = door("export", folder, "--to", "foldline")
    assert (said.code, said.out) == (2, "")
    assert "name a new file with --out" in said.err


@needs_recorded
@pytest.mark.parametrize("form", ["foldline", "openai"])
def test_an_export_is_imported_and_goes_on(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("FOLDLINE_MODEL", "offline")
    monkeypatch.setenv("FOLDLINE_OFFLINE__WINDOW", "128k")
    assert door("export", SHARED / "codex/mise-1comp-gpt55.jsonl", "--to", form, "--out", "out").code == 0
    made = door("import", door.cwd / "out", "--json").json
    said = door("run", "-c", "what did we do?")
    assert said.code == 0, said.err
    assert door("verify", made["path"]).code == 0
    lines = Path(made["path"]).read_text().splitlines()
    assert len(lines) > made["entries"] + 2
    assert json.loads(lines[-1])["type"] in ("request", "assistant", "checkpoint", "title")


def test_a_name_that_begins_with_a_tilde_is_a_name(door: FrontDoor) -> None:
    folder = door.keep(history().turn("a", "b").entries)
    said = door("export", folder.name, "--to", "openai", "--out", "~nobodyhere")
    assert (said.code, (door.cwd / "~nobodyhere").is_file()) == (0, True), said.err
    assert door("view", "~nobodyhere").code == 0


def test_a_dash_is_stdout(door: FrontDoor) -> None:
    kept = door.keep(history().user("go").assistant("done").entries)
    assert "go" in door("export", kept, "--to", "markdown", "--out", "-").out
    assert list(door.cwd.iterdir()) == []
