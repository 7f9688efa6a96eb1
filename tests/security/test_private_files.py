"""All files of Foldline are accessible only to their user, for any umask."""

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from foldline.agent.extensions.mcp import ServerConfig, ToolServers
from foldline.agent.permissions.approvals import ProjectRule, ProjectRules
from foldline.agent.settings.api_keys import save_key
from foldline.agent.settings.model_choice import save_choice
from foldline.agent.tools.base import spilled
from foldline.llm.providers import PROVIDERS
from foldline.protocol import Rule
from support.command_line import CommandLine
from support.tools import call, tool_context
from support.trust import bring

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")


def too_open(folder: Path) -> list[str]:
    """Return all paths accessible to others, including the folder itself."""
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path}"
        for path in [folder, *sorted(folder.rglob("*"))]
        if not path.is_symlink() and path.lstat().st_mode & 0o077
    ]


def foldline(*arguments: str, code: int = 0) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "foldline", *arguments],
        capture_output=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: os.umask(0),
    )
    assert done.returncode == code, done.stderr.decode()


def test_the_check_finds_accessible_files(tmp_path: Path) -> None:
    (tmp_path / "open.txt").write_text("x")
    (tmp_path / "open.txt").chmod(0o644)
    tmp_path.chmod(0o700)
    assert [line.split()[0] for line in too_open(tmp_path)] == ["-rw-r--r--"]


@pytest.mark.slow
def test_all_files_of_a_session_are_private(cli: CommandLine) -> None:
    """Turns, saved outputs, checkpoints with contents, compactions, caches, forks, a bundle."""
    (cli.cwd / "big.txt").write_text(
        "a line of a big file that takes its room\n" * 2_000
    )
    foldline("run", "--yes", "write hello to new.txt", "--window", "12k")
    foldline("run", "--yes", "-c", "run `cat big.txt`", "--window", "12k")
    foldline("run", "--yes", "-c", "read big.txt", "--window", "12k")
    session = cli("sessions", "--json").json[0]["id"]
    foldline("compact", session, "--keep", "500", "--window", "12k")
    foldline("search", "room")
    foldline("fork", session)
    foldline("rename", session, "another title")
    foldline("doctor", session)
    foldline("export", session, "--to", "foldline", "--out", "all.foldline")
    foldline("import", "all.foldline")
    kept = {path.name for path in cli.home.rglob("*")}
    assert {"events.jsonl", "meta.json", "outputs", "contents"} <= kept
    assert too_open(cli.home) == []
    assert stat.S_IMODE((cli.cwd / "all.foldline").stat().st_mode) == 0o600


@pytest.mark.slow
def test_project_files_follow_the_users_umask(cli: CommandLine) -> None:
    foldline("run", "--yes", "write hello to new.txt")
    assert stat.S_IMODE((cli.cwd / "new.txt").stat().st_mode) == 0o666


async def test_all_files_outside_sessions_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys, settings, rules, server logs, outputs of jobs and calls, and created parent folders."""
    home = tmp_path / "new" / "home"
    monkeypatch.setenv("FOLDLINE_HOME", str(home))
    deepseek, config = (
        PROVIDERS["deepseek"],
        ServerConfig("loud", command="sh", args=("-c", "echo hi >&2")),
    )
    context = replace(
        tool_context(tmp_path), spill_dir=home / "sessions" / "a" / "b" / "outputs"
    )
    before = os.umask(0)
    try:
        save_key(os.environ, deepseek, "sk-abcdefgh")
        save_choice(os.environ, deepseek, "deepseek-chat")
        ProjectRules(tmp_path).grant(ProjectRule(rule=Rule(tool="edit")))
        bring(tmp_path / "AGENTS.md", "Be brief.\n")
        servers = ToolServers(
            [config], folder=tmp_path, logs=home / "mcp", environ=os.environ
        )
        servers.start()
        await servers.settled(30)
        await servers.aclose()
        await call(context, "bash", command="true", background=True)
        await context.jobs.aclose()
        spilled("x", home / "sessions" / "c" / "d" / "outputs", "bash")
    finally:
        os.umask(before)
    kept = {path.name for path in home.rglob("*") if path.is_file()}
    assert {"keys.toml", "config.toml", "loud.log", "job-1.txt"} <= kept and len(
        kept
    ) == 7
    assert too_open(tmp_path / "new") == []
