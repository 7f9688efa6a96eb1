"""`foldline export`: a session for people or programs, to stdout or to a new file."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from foldline.cli.declarations import EXPORTS, HANDOFFS
from foldline.cli.transfer import NOT_FOR_TERMINALS
from foldline.formats import read_foreign
from foldline.formats.export import HANDED_OVER, WRITTEN
from foldline.history.paths import FILE_EXISTS
from foldline.protocol import Compaction, SystemMessage, Written, text_parts
from support.command_line import CommandLine
from support.exports import received_messages
from support.fake_secrets import SHAPES
from support.history import History, history
from support.recordings import SHARED, needs_recorded
from support.sentences import says


def compacted() -> History:
    summary = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far"))
    )
    built = history().system("Be kind.").turn("one", "1").turn("two", "2")
    return built.add(Compaction(summary="so far", first_kept_index=3, head=(summary,)))


def test_the_help_names_every_format_there_is() -> None:
    assert tuple(known.name for known in WRITTEN) == EXPORTS
    assert HANDED_OVER == HANDOFFS


def test_without_a_file_stdout_gets_the_export_and_nothing_else(
    cli: CommandLine,
) -> None:
    folder = cli.keep(compacted().entries)
    said = cli("export", folder, "--to", "openai")
    assert said.code == 0
    assert said.json["messages"] == cli("view", folder, "--json").json["messages"]
    assert "2 messages are not in the view" in said.err
    assert list(cli.cwd.iterdir()) == []


def test_a_file_is_new_and_for_its_owner_only(cli: CommandLine) -> None:
    folder = cli.keep(compacted().entries)
    said = cli("export", folder, "--to", "foldline", "--out", "s.foldline")
    file = cli.cwd / "s.foldline"
    assert said.code == 0
    assert said.out == f"s.foldline: 6 entries of {folder} (Foldline file).\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert received_messages(read_foreign(file).entries) == received_messages(
        compacted().entries
    )


@pytest.mark.parametrize("form", ["markdown", "foldline"])
def test_what_is_there_is_never_overwritten(cli: CommandLine, form: str) -> None:
    folder = cli.keep(compacted().entries)
    (cli.cwd / "there").write_text("mine")
    said = cli("export", folder, "--to", form, "--out", "there")
    assert (said.code, said.out) == (1, "")
    assert says(said.err, FILE_EXISTS)
    assert (cli.cwd / "there").read_text() == "mine"


def test_json_says_what_was_written_and_what_was_lost(cli: CommandLine) -> None:
    folder = cli.keep(compacted().entries, session_id="20260101-000000-abcdef")
    said = cli("export", folder, "--to", "openai", "--json").json
    assert (said["format"], said["path"], said["files"]) == (
        "openai",
        "20260101-000000-abcdef.json",
        ["20260101-000000-abcdef.json"],
    )
    assert said["entries"] == 6
    assert any("not in the view" in sentence for sentence in said["notes"])


def test_the_view_alone_and_the_whole_of_it(cli: CommandLine) -> None:
    folder = cli.keep(compacted().entries)

    def texts(*options: str) -> list[Any]:
        said = cli("export", folder, "--to", "openai", *options).json
        return [message["content"] for message in said["messages"]]

    assert texts("--view") == ["Be kind.", "so far", "two", "2"]
    assert texts("--whole") == ["Be kind.", "one", "1", "two", "2"]
    assert '"one"' not in cli("export", folder, "--to", "markdown", "--view").out
    assert cli("export", folder, "--to", "markdown", "--view", "--whole").code == 2


def test_credentials_are_redacted_on_request(cli: CommandLine) -> None:
    key = SHAPES["GitHub token"]
    folder = cli.keep(history().user(f"use {key} here").entries)
    assert key in cli("export", folder, "--to", "openai").out
    said = cli("export", folder, "--to", "openai", "--redact")
    assert key not in said.out
    assert "[redacted:" in said.out
    assert "1 credential redacted" in said.err


def test_a_format_that_there_is_not_is_wrong_usage(cli: CommandLine) -> None:
    folder = cli.keep(compacted().entries)
    said = cli("export", folder, "--to", "docx")
    assert (said.code, said.out) == (2, "")
    assert "docx" in said.err


@pytest.mark.parametrize("agent", HANDED_OVER)
def test_an_agent_is_no_format_and_the_handoff_is_named(
    cli: CommandLine, agent: str
) -> None:
    said = cli("export", cli.keep(compacted().entries), "--to", agent)
    assert (said.code, said.out) == (2, "")
    assert f"foldline handoff --to {agent}" in said.err


def test_a_terminal_gets_no_bytes_and_nothing_that_acts_on_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cli.keep(history().user("red \x9b31m").entries)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x9b" not in cli("export", folder, "--to", "markdown").out
    said = cli("export", folder, "--to", "foldline")
    assert (said.code, said.out) == (2, "")
    assert NOT_FOR_TERMINALS.format(title="Foldline file") in said.err


@pytest.mark.quick_cases(1)
@needs_recorded
@pytest.mark.parametrize("form", ["foldline", "openai"])
def test_an_export_is_imported_and_goes_on(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("FOLDLINE_MODEL", "offline")
    monkeypatch.setenv("FOLDLINE_OFFLINE__WINDOW", "128k")
    assert (
        cli(
            "export",
            SHARED / "codex/mise-1comp-gpt55.jsonl",
            "--to",
            form,
            "--out",
            "out",
        ).code
        == 0
    )
    made = cli("import", cli.cwd / "out", "--json").json
    said = cli("run", "-c", "what did we do?")
    assert said.code == 0, said.err
    assert cli("verify", made["path"]).code == 0
    lines = Path(made["path"]).read_text().splitlines()
    assert len(lines) > made["entries"] + 2
    assert json.loads(lines[-1])["type"] in (
        "request",
        "assistant",
        "checkpoint",
        "title",
    )


def test_a_name_that_begins_with_a_tilde_is_a_name(cli: CommandLine) -> None:
    folder = cli.keep(history().turn("a", "b").entries)
    said = cli("export", folder.name, "--to", "openai", "--out", "~nobodyhere")
    assert (said.code, (cli.cwd / "~nobodyhere").is_file()) == (0, True), said.err
    assert cli("view", "~nobodyhere").code == 0


def test_a_dash_is_stdout(cli: CommandLine) -> None:
    kept = cli.keep(history().user("go").assistant("done").entries)
    assert "go" in cli("export", kept, "--to", "markdown", "--out", "-").out
    assert list(cli.cwd.iterdir()) == []
