"""Tool servers from the front door: from the settings to the answer, and nothing of them left behind."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from foldline.agent.extensions.mcp import sign_in
from foldline.agent.extensions.mcp.servers import SIGN_IN
from foldline.cli import tool_servers
from foldline.cli.doctor_checks import TRY_SERVERS
from support import warm
from support.command_line import CommandLine
from support.mcp_server import TESTS, Diary, http_server, is_alive
from support.sentences import says
from support.server import MODEL, running_server
from support.trust import bring

SECRET = "planted-mcp-secret"  # noqa: S105 - it is there to be looked for
ECHO = {"name": "mcp__one__echo", "arguments": {"text": "from afar"}}
SLOW = {"name": "mcp__one__slow", "arguments": {"number": 600}}


def rules(call: dict[str, object]) -> list[dict[str, object]]:
    return [
        {"when": {"role": "user"}, "answer": {"tool_calls": [call]}},
        {"answer": {"text": "It said: ${content}"}},
    ]


@pytest.fixture
def diary(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diary:
    """A server `one` in the settings; what it notes."""
    diary = Diary(tmp_path / "diary")
    cli.home.mkdir()
    (cli.home / "config.toml").write_text(
        f"""
        [mcp.one]
        command = "{sys.executable}"
        args = ["-m", "support.mcp_server", "--diary", "{diary.path}"]
        env = {{ PYTHONPATH = "{TESTS}", TOKEN = "${{MY_TOKEN}}" }}

        [mcp.two]
        command = "no-such-program"
        enabled = false
        """
    )
    monkeypatch.setenv("MY_TOKEN", SECRET)
    return diary


def test_a_run_uses_them_ends_them_and_writes_no_secret(
    cli: CommandLine, diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(script=rules(ECHO), strict=True, window=65_536) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        said = cli("run", "--yes", "-m", MODEL, "say it")
    assert (said.code, said.out) == (0, "It said: from afar\n"), said.err
    assert diary.of("environment")[0]["TOKEN"] == SECRET
    assert not any(map(is_alive, diary.pids))
    assert cli("verify", cli("sessions", "--json").json[0]["id"]).code == 0
    shown = cli("config")
    assert "mcp.one.command" in shown.out
    assert "MY_TOKEN" not in shown.out
    assert SECRET not in said.err + shown.out
    written = [path for path in cli.home.rglob("*") if path.is_file()]
    assert written
    assert not any(SECRET.encode() in path.read_bytes() for path in written)


@pytest.mark.slow
@pytest.mark.timeout(
    300
)  # the first one waits for all imports of the program and of a server, too
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_ended_from_outside_in_mid_call_no_server_is_left_behind(
    cli: CommandLine, diary: Diary, number: signal.Signals
) -> None:
    with running_server(script=rules(SLOW), window=65_536) as server:
        environ = {**os.environ, "OPENAI_BASE_URL": server.base_url}
        command = warm.command("foldline", "run", "--yes", "-m", MODEL, "sleep")
        process = subprocess.Popen(
            command, env=environ, cwd=cli.cwd, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 200
        while not diary.of("called"):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert not any(map(is_alive, diary.pids))


@pytest.mark.slow
def test_the_doctor_connects_where_it_may(cli: CommandLine, diary: Diary) -> None:
    assert f"1 server set up: one; {TRY_SERVERS}" in cli("doctor").out
    assert diary.pids == []
    assert "connected, 10 tools" in cli("doctor", "--network").out
    assert not any(map(is_alive, diary.pids))


def test_a_project_may_not_set_one_up(cli: CommandLine) -> None:
    bring(
        cli.cwd / ".foldline.toml",
        '[mcp.evil]\ncommand = "touch"\nargs = ["/tmp/evil"]\n',
    )
    said = cli("run", "hello")
    assert said.code == 1
    assert "a project cannot set mcp.evil.command" in said.err


@pytest.mark.slow
def test_login_shows_a_page_waits_for_the_answer_and_logout_forgets_it(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sign_in, "opener", lambda environ: ""
    )  # no desktop: the address is shown
    diary = Diary(tmp_path / "diary")
    with (
        http_server(diary.path, "--oauth", "3600") as (url, _),
        ThreadPoolExecutor() as threads,
    ):
        cli.home.mkdir()
        (cli.home / "config.toml").write_text(f'[mcp.far]\nurl = "{url}"\n')
        shown: list[str] = []

        def hear(sentence: str) -> None:
            shown.append(sentence)
            if says(sentence, SIGN_IN):
                page = sentence.rpartition(": ")[2]
                threads.submit(httpx2.get, page, follow_redirects=True)

        monkeypatch.setattr(tool_servers, "note", hear)
        assert cli("mcp", "login", "far").code == 0
        assert shown[-1] == "far: connected, 10 tools."
        assert diary.of("tokens") == ["by code"]
        assert [cli("mcp", "logout", "far").code for _ in range(2)] == [0, 0]
        assert shown[-2:] == [
            "You have been signed out of far.",
            "You were not signed in to far.",
        ]
    assert not list(cli.home.rglob("*.sign-in.json"))


@pytest.mark.parametrize("action", ["login", "logout"])
def test_who_signs_in_to_no_server_hears_which_there_are(
    cli: CommandLine, diary: Diary, action: str
) -> None:
    said = cli("mcp", action, "nope")
    assert said.code != 0
    assert tool_servers.NO_SUCH_SERVER.format(name="nope", servers="one") in said.err
