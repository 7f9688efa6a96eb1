"""Standard streams that take no more, or hold what nobody expected."""

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foldline.cli import TRY_DEBUG, _report_crash
from foldline.cli import run as run_module
from foldline.cli.run import TOO_LONG
from foldline.history.log import CANNOT_BE_WRITTEN
from support.command_line import CommandLine
from support.mcp_server import is_alive
from support.sentences import says

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def foldline(*arguments: str, **streams: object) -> "subprocess.Popen[bytes]":
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([sys.executable, "-m", "foldline", *arguments], **pipes)


@pytest.mark.slow
def test_a_run_that_nobody_reads_any_more_ends_and_so_does_what_it_started(
    cli: CommandLine,
) -> None:
    """`foldline run --json … | head`: the write of a long command's output is the first that fails."""
    command = "echo $$ > pid; echo go; sleep 0.2; while echo more; do sleep 0.05; done"
    with foldline("run", "--yes", "--json", f"run {command}") as running:
        assert running.stdout is not None and running.stderr is not None
        for line in running.stdout:
            if json.loads(line)["type"] == "tool_started":
                break
        running.stdout.close()
        assert running.wait(timeout=60) == 141
        assert running.stderr.read() == b""
    [session] = cli("sessions", "--json").json
    last = cli("view", session["id"], "--json").json["messages"][-1]
    assert (last["role"], "nterrupted" in last["content"]) == ("tool", True)
    pid = int((cli.cwd / "pid").read_text())
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)


@pytest.mark.slow
def test_an_answer_that_nobody_reads_was_given_all_the_same(cli: CommandLine) -> None:
    read, write = os.pipe()
    os.close(read)
    with (
        os.fdopen(write, "wb") as closed,
        foldline("run", "hello", stdout=closed) as running,
    ):
        _, err = running.communicate(timeout=60)
    assert running.returncode == 0
    assert b"Traceback" not in err and b"Exception" not in err


@pytest.mark.quick_cases(1)
@needs_full
@pytest.mark.parametrize(
    "arguments", [("--version",), ("run", "hello"), ("run", "hello", "--json")]
)
def test_what_cannot_be_written_is_one_sentence_that_names_stdout(
    cli: CommandLine, arguments: tuple[str, ...]
) -> None:
    with FULL.open("wb") as full, foldline(*arguments, stdout=full) as running:
        _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert (
        err.decode().endswith("foldline: stdout: No space left on device.\n")
        and err.count(b"\n") <= 2
    )


@pytest.mark.slow
@needs_full
def test_a_log_that_is_full_does_not_cost_the_answer(cli: CommandLine) -> None:
    (cli.cwd / "notes.txt").write_text("remember the milk\n")
    with (
        FULL.open("wb") as full,
        foldline("run", "read notes.txt", stderr=full) as running,
    ):
        out, _ = running.communicate(timeout=60)
    assert (running.returncode, b"remember the milk" in out) == (0, True)


def test_a_prompt_that_is_no_utf8_is_sent_with_signs_in_its_place(
    cli: CommandLine,
) -> None:
    assert cli("run", os.fsdecode(b"caf\xe9 \xe4\xbd\xa0")).code == 0
    assert cli("sessions", "--json").json[0]["title"] == "caf� 你"


def test_stdin_without_an_end_is_not_read_for_ever(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "MOST_PIPED", 10)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"12345678901")))
    said = cli("run", "-")
    assert said.code == 2
    assert TOO_LONG in said.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1234567890")))
    assert cli("run", "-").code == 0


def test_a_home_that_is_no_folder_has_no_settings_and_keeps_no_session(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of services have `/dev/null` for a home, or `/nonexistent`."""
    (cli.cwd / "no-folder").write_text("")
    monkeypatch.setenv("FOLDLINE_HOME", str(cli.cwd / "no-folder"))
    assert cli("config").code == 0
    said = cli("run", "hello")
    assert said.code == 1
    assert says(said.err, CANNOT_BE_WRITTEN)


def test_an_unforeseen_error_is_one_line_without_what_was_worked_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _report_crash(
        ValueError,
        ValueError("1 validation error\x1b[2J\n  input_value='sk-planted'"),
        None,
    )
    err = capsys.readouterr().err
    assert f"ValueError: 1 validation error␛[2J. {TRY_DEBUG}" in err
    assert "sk-planted" not in err and err.count("\n") == 1
