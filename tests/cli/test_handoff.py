"""`foldline handoff`: a session where another agent looks for its own, and the command that resumes it."""

import json
import stat
from pathlib import Path

import pytest

from foldline.cli.declarations import HANDOFFS
from foldline.formats import read_foreign
from foldline.formats.handoff import EMPTY_VIEW, RESUMED_BY, _claude_project
from foldline.formats.session_list import found_sessions
from foldline.protocol import (
    Compaction,
    Kept,
    SystemMessage,
    ToolResultMessage,
    Written,
    text_parts,
)
from foldline.view.items import hidden_placeholder
from support.command_line import CommandLine
from support.exports import received_messages, without_markers
from support.fake_secrets import SHAPES
from support.history import History, call, history

agents = pytest.mark.parametrize("agent", HANDOFFS)


def worked() -> History:
    summary = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far"))
    )
    built = history().system("Be kind.").turn("one", "1").turn("two", "2")
    return built.add(Compaction(summary="so far", first_kept_index=3, head=(summary,)))


@pytest.fixture
def homes(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder in which no agent has ever run."""
    home = cli.cwd.parent / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in (
        "CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR",
        "KIMI_SHARE_DIR", "KIMI_CODE_HOME", "COPILOT_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    return home


def test_the_help_names_every_agent_there_is() -> None:
    assert tuple(RESUMED_BY) == HANDOFFS


@agents
def test_what_is_written_is_the_view_and_reads_back_the_same(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    folder = cli.keep(worked().entries)
    said = cli("handoff", folder, "--to", agent, "--json").json
    path = Path(said["path"])
    again = [
        without_markers(each) for each in received_messages(read_foreign(path).entries)
    ]
    assert again == [
        without_markers(each) for each in received_messages(worked().entries)
    ]
    assert "one" not in [each.text for each in again]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@agents
def test_the_commands_read_what_was_written(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    path = cli("handoff", cli.keep(worked().entries), "--to", agent, "--json").json[
        "path"
    ]
    assert cli("view", path).code == 0


@pytest.mark.parametrize("agent", [agent for agent in HANDOFFS if agent != "opencode"])
def test_the_agent_s_own_list_has_it(cli: CommandLine, homes: Path, agent: str) -> None:
    cli("handoff", cli.keep(worked().entries), "--to", agent)
    [found] = found_sessions([agent], cwd=cli.cwd)
    assert found.first_prompt == "two"


@agents
def test_stdout_is_the_command_that_resumes_it(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    said = cli("handoff", cli.keep(worked().entries), "--to", agent)
    command, program = (
        said.out.strip(),
        {"claude-code": "claude", "kimi-cli": "kimi"}.get(agent, agent),
    )
    assert (said.code, len(command.splitlines())) == (0, 1)
    assert command.startswith(program)


def test_from_another_folder_the_command_goes_there_first(
    cli: CommandLine, homes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cli.keep(worked().entries)
    monkeypatch.chdir(homes)
    assert cli("handoff", folder, "--to", "codex").out.startswith(
        f"cd {cli.cwd} && codex resume "
    )


@pytest.mark.parametrize(
    ("agent", "variable", "below"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "projects/*/*.jsonl"),
        ("codex", "CODEX_HOME", "sessions/*/*/*/rollout-*.jsonl"),
        ("pi", "PI_CODING_AGENT_DIR", "sessions/--*--/*.jsonl"),
        ("pi", "PI_CODING_AGENT_SESSION_DIR", "*.jsonl"),
        ("kimi-cli", "KIMI_SHARE_DIR", "sessions/*/*/context.jsonl"),
    ],
)
def test_a_home_that_the_environment_names_is_taken(
    cli: CommandLine,
    homes: Path,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
    variable: str,
    below: str,
) -> None:
    monkeypatch.setenv(variable, str(homes / "elsewhere"))
    path = Path(
        cli("handoff", cli.keep(worked().entries), "--to", agent, "--json").json["path"]
    )
    assert list((homes / "elsewhere").glob(below)) == [path]


@pytest.mark.parametrize("name", ["a:b", "a\\b"])
def test_pi_s_folder_has_neither_colons_nor_backslashes(
    cli: CommandLine, homes: Path, name: str
) -> None:
    (folder := cli.cwd / name).mkdir()
    kept = cli.keep(worked().entries, cwd=folder)
    path = Path(cli("handoff", kept, "--to", "pi", "--json").json["path"])
    assert path.parent.name.endswith("-a-b--")


@agents
def test_a_second_one_is_a_session_of_its_own(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    folder = cli.keep(worked().entries)
    first, second = (
        cli("handoff", folder, "--to", agent, "--json").json["path"] for _ in range(2)
    )
    assert first != second
    assert Path(first).is_file()


def test_kimi_cli_knows_the_folder_and_keeps_what_it_knew(
    cli: CommandLine, homes: Path
) -> None:
    known = homes / ".kimi" / "kimi.json"
    known.parent.mkdir()
    other = {"path": "/other", "kaos": "local", "last_session_id": "x"}
    known.write_text(json.dumps({"work_dirs": [other], "more": 1}))
    folder = cli.keep(worked().entries)
    for _ in range(2):
        cli("handoff", folder, "--to", "kimi-cli")
    now = json.loads(known.read_text())
    assert now["more"] == 1
    assert [each["path"] for each in now["work_dirs"]] == ["/other", str(cli.cwd)]
    assert now["work_dirs"][0] == other


def test_a_damaged_list_of_kimi_cli_s_is_left_as_it_is(
    cli: CommandLine, homes: Path
) -> None:
    known = homes / ".kimi" / "kimi.json"
    known.parent.mkdir()
    known.write_text("{")
    said = cli("handoff", cli.keep(worked().entries), "--to", "kimi-cli")
    assert (said.code, said.out) == (1, "")
    assert "kimi.json cannot be read" in said.err
    assert known.read_text() == "{"
    assert list(known.parent.iterdir()) == [known]


@agents
def test_credentials_are_redacted_on_request(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    key = SHAPES["GitHub token"]
    folder = cli.keep(history().user(f"use {key} here").entries)
    said = cli("handoff", folder, "--to", agent, "--redact", "--json").json
    written = Path(said["path"]).read_text()
    assert key not in written
    assert "[redacted:" in written
    assert "1 credential redacted" in " ".join(said["notes"])


@agents
def test_no_text_names_a_tool_that_the_other_agent_has_not(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    built = (
        history()
        .user("go")
        .assistant(calls=[call("read", "c1", path="a.py")])
        .result("long" * 90)
    )
    result = built.entries[-1]
    assert isinstance(result, ToolResultMessage)
    hidden = Kept(ref=result.index, content=hidden_placeholder(result), fate="hidden")
    built.add(Compaction(first_kept_index=0, replaced=(hidden,)))
    written = Path(
        cli("handoff", cli.keep(built.entries), "--to", agent, "--json").json["path"]
    )
    assert "result hidden to save context" in written.read_text()
    assert "history_read" not in written.read_text()


@agents
def test_thinking_is_left_out_and_counted(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    story = history().user("go").assistant("Well.", thinking="deep thought").user("on")
    folder = cli.keep(story.assistant("So.", thinking="deep thought").entries)
    said = cli("handoff", folder, "--to", agent, "--json").json
    assert "deep thought" not in Path(said["path"]).read_text()
    assert "Left out: the thinking of 2 answers." in said["notes"]


@agents
def test_an_empty_view_is_refused_and_nothing_written(
    cli: CommandLine, homes: Path, agent: str
) -> None:
    said = cli("handoff", cli.keep(history().system("Be kind.").entries), "--to", agent)
    assert (said.code, said.out) == (1, "")
    assert EMPTY_VIEW in said.err
    assert list(homes.iterdir()) == []


def test_the_session_of_another_agent_can_be_handed_over(
    cli: CommandLine, homes: Path, tmp_path: Path
) -> None:
    first = cli("handoff", cli.keep(worked().entries), "--to", "pi", "--json").json[
        "path"
    ]
    second = cli("handoff", first, "--to", "codex", "--json").json["path"]
    again = [
        without_markers(each)
        for each in received_messages(read_foreign(Path(second)).entries)
    ]
    assert again == [
        without_markers(each) for each in received_messages(worked().entries)
    ]


def test_a_long_folder_and_one_with_signs_beyond_16_bits_are_called_as_claude_code_calls_them() -> (
    None
):
    """As 2.1.197 called them."""
    long = f"/tmp/h2t/{'long-folder-name-' * 9}/{'another-long-one-' * 5}"
    assert _claude_project(long) == f"{long.replace('/', '-')[:200]}-2gdamf"
    assert _claude_project("/tmp/h2t/emo\N{GRINNING FACE}ji") == "-tmp-h2t-emo--ji"
