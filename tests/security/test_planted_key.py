"""A key is sent to its own server, and to nothing else: not to disk, not to the screen, not to a command."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CommandLine
from support.fake_key import KEY, files_below, found_below, found_in, spellings
from support.server import MODEL, RunningServer, running_server
from support.terminal import terminal

ENVIRONMENT = "run `env; tr '\\0' '\\n' </proc/self/environ; tr '\\0' '\\n' </proc/$PPID/environ | rev`"
"""Prints the environment; the parent's reversed, to get past a search for the key."""
NOW = {"retry-after": "0"}


def breaks_off(**error: Any) -> dict[str, Any]:
    fault = {"error_after": 2, "body": {"error": {"message": f"Bearer {KEY}", **error}}}
    return {"text": "half a sentence", "chunk": 3, "fault": fault}


SCRIPT = [
    {
        "when": {"content": "break"},
        "times": 1,
        "answer": breaks_off(),
    },  # the request is retried
    {
        "when": {"content": "break"},
        "answer": breaks_off(code=400),
    },  # a permanent failure
    {
        "when": {"content": "shout"},
        "answer": {
            "fault": {"status": 500, "body": f"your key {KEY} is fine", "headers": NOW}
        },
    },
    {
        "when": {"content": "refuse"},
        "answer": {
            "fault": {
                "status": 401,
                "body": {"error": {"message": f"Incorrect: Bearer {KEY}"}},
            }
        },
    },
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    with running_server(
        script=SCRIPT, then_default=True, key=KEY, window=12_000
    ) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("FOLDLINE_MODEL", MODEL)
        monkeypatch.setenv("OPENAI_LOG", "debug")
        yield running


def test_the_search_finds_a_key_in_every_encoding(tmp_path: Path) -> None:
    for number, sign in enumerate(spellings()):
        (tmp_path / f"{number}.txt").write_bytes(b"before " + sign + b" after")
    (tmp_path / "innocent.txt").write_bytes(b"sk-planted elsewhere")
    assert len(found_below(tmp_path)) == len(list(spellings()))


@pytest.mark.slow
@pytest.mark.timeout(
    600
)  # about twenty cold starts, each of which takes twenty seconds on a busy machine
def test_no_command_writes_the_key_anywhere(
    cli: CommandLine, server: RunningServer
) -> None:
    """Run a long session with every feature in separate processes, then check every file and all output.

    With `--debug`, which logs the most.
    """
    (cli.cwd / "big.txt").write_text("a line of a big file that takes its room\n" * 500)
    said: list[tuple[str, bytes]] = []

    def foldline(*arguments: str, code: int = 0) -> None:
        command = [sys.executable, "-m", "foldline", *arguments, "--debug"]
        done = subprocess.run(command, capture_output=True, check=False)
        said.append((" ".join(arguments), done.stdout + done.stderr))
        assert done.returncode == code, done.stderr.decode()

    foldline("run", "--yes", ENVIRONMENT)
    assert b"GOL_IANEPO" in said[0][1], (
        "the environment of this process was read, backwards"
    )
    foldline("run", "-c", "--yes", "--json", "read big.txt")
    foldline("run", "-c", "read big.txt")
    for prompt in ("break", "shout", "refuse"):
        foldline("run", "--json", prompt, code=1)
    session = cli("sessions", "--json").json[0]["id"]
    for arguments in (
        *(
            ("config",),
            ("config", "--json"),
            ("doctor",),
            ("doctor", "--network"),
            ("history", session),
        ),
        *(
            ("view", session),
            ("compact", session, "--keep", "1k"),
            ("export", session, "--to", "markdown"),
        ),
        *(
            ("export", session, "--to", "foldline", "--out", "all.foldline"),
            ("search", "key"),
        ),
    ):
        foldline(*arguments)
    with zipfile.ZipFile("all.foldline") as bundle:
        said += [(name, bundle.read(name)) for name in bundle.namelist()]
    assert found_in(said) == []
    assert found_below(cli.home, cli.cwd) == []
    assert len(list(files_below(cli.home))) > 3
    assert len(server.requests()) > 6, "it was with this key that the server answered"


@pytest.mark.slow
def test_the_screen_never_shows_the_key(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    with running_server(script=SCRIPT, then_default=True, key=KEY) as server:
        env = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": KEY,
            "FOLDLINE_MODEL": MODEL,
        }
        with terminal(
            folder, columns=120, rows=36, FOLDLINE_APPROVALS__MODE="all", **env
        ) as term:
            term.until("Enter sends")
            term.ask("run `env | sort`", wait=False)
            term.until("exit 0")
            for prompt, sign in (("break", "(400)"), ("refuse", "(401)")):
                term.until("Enter sends")
                term.ask(prompt, wait=False)
                term.until(sign)
            term.send("\x1bOQ")
            term.until("Inspector")
            assert found_in([("screen", term.raw)]) == []
    assert found_below(tmp_path) == []


def test_a_crash_dump_contains_no_key(cli: CommandLine, server: RunningServer) -> None:
    """Killed in the middle of a request by a signal that dumps."""
    command = [sys.executable, "-X", "faulthandler", "-m", "foldline", "run", "hello"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        try:
            running.wait(0.5)
        except subprocess.TimeoutExpired:
            running.send_signal(6)
        out, err = running.communicate(timeout=60)
    assert found_in([("stdout", out), ("stderr", err)]) == []
    assert found_below(cli.home, cli.cwd) == []
