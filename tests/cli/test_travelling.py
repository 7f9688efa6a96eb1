"""A session exported as one file here and imported there: another home and folder, the same next request."""

from pathlib import Path

import pytest

from foldline.history import Session
from foldline.past.proof import digest_of
from foldline.view.calls import paired
from support.command_line import CommandLine
from support.fake_secrets import SHAPES
from support.history import history


def next_request(session: Session) -> str:
    return digest_of(paired(item.message for item in session.projection.view))


@pytest.fixture
def worked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session with requests, tool calls, a compaction and whole outputs; its folder."""
    monkeypatch.setenv("FOLDLINE_MODEL", "offline")
    (cli.cwd / "a.py").write_text("def a():\n    return 1\n")
    for prompt in (
        "Read a.py",
        "Replace `return 1` with `return 2` in a.py",
        "Run `seq 1 30000`",
        "What did we do?",
    ):
        assert (
            cli("run", "-c" if prompt != "Read a.py" else "-y", "-y", prompt).code == 0
        )
    (row,) = cli("sessions", "--json").json
    compacted = cli(
        "compact", row["id"], "--keep", "10", "--strategy", "digest", "--json"
    )
    assert compacted.json["committed"], compacted.err
    assert cli("run", "-c", "-y", "And now?").code == 0
    (folder,) = (path.parent for path in cli.home.rglob("events.jsonl"))
    return folder


def travel(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Off to another machine; the file that came along."""
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "elsewhere" / "data"))
    there = tmp_path / "elsewhere" / "checkout"
    there.mkdir(parents=True)
    monkeypatch.chdir(there)
    return tmp_path / "session.foldline"


def test_the_imported_session_sends_the_same_next_request_and_proves_the_old_ones(
    cli: CommandLine, worked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Session.open(worked)
    file = tmp_path / "session.foldline"
    said = cli("export", worked.name, "--to", "foldline", "--out", file)
    assert said.code == 0, said.err
    seen = cli("view", worked.name, "--json").json["messages"]
    travel(cli, tmp_path, monkeypatch)
    cli.cwd.rename(tmp_path / "gone")
    made = cli("import", file, "--json").json
    assert made["cwd"] == str(tmp_path / "elsewhere" / "checkout")
    after = Session.open(Path(made["path"]))
    assert after.entries[: len(before.entries)] == before.entries
    assert next_request(after) == next_request(before)
    assert cli("view", made["id"], "--json").json["messages"] == seen
    proved = [entry for entry in before.entries if entry.type == "request"]
    assert cli("verify", made["id"], "--json").json["proved"] == len(proved) > 3
    for name in ("outputs", "contents"):
        assert any((worked / name).iterdir())
        there = {
            path.name: path.read_bytes()
            for path in (Path(made["path"]).parent / name).glob("*")
        }
        assert there == {
            path.name: path.read_bytes() for path in (worked / name).glob("*")
        }
    assert cli("run", "-c", "-y", "Go on").code == 0
    assert cli("verify", made["id"]).code == 0


def test_a_session_file_can_be_looked_at_without_importing_it(
    cli: CommandLine, worked: Path, tmp_path: Path
) -> None:
    file = tmp_path / "session.foldline"
    assert cli("export", worked.name, "--to", "foldline", "--out", file).code == 0
    before = file.read_bytes()
    for command in ("view", "history", "verify", "audit"):
        ours, packed = cli(command, worked.name, "--json"), cli(command, file, "--json")
        assert (packed.code, packed.out) == (ours.code, ours.out)
    assert file.read_bytes() == before


def test_a_redacted_session_file_says_that_its_requests_cannot_be_proved(
    cli: CommandLine, tmp_path: Path
) -> None:
    secret = SHAPES["Anthropic key"]
    folder = cli.keep(
        history().system("s").user(f"use {secret}").assistant("Yes.").entries
    )
    file = tmp_path / "session.foldline"
    said = cli("export", folder.name, "--to", "foldline", "--redact", "--out", file)
    assert (said.code, "1 credential redacted: api-key 1." in said.err) == (0, True)
    assert secret not in said.err + said.out
    made = cli("import", file)
    assert "redacted" in made.err
    assert cli("history", file).code == 0
