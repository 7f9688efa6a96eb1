"""A signal ends the program, whatever its own code is doing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import busy
from support.command_line import CommandLine
from support.terminal import PATIENCE, terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")

_BUSY = [sys.executable, str(Path(busy.__file__))]
_NEVER = PATIENCE - 5
"""Seconds: a program that has not ended by then would not."""


def _until_busy(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (folder / "busy").exists():
        assert time.monotonic() < deadline, "the turn did not begin"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["spin", "thread-spin", "wait", "thread-wait", "backtrack"]
)
def test_run_ends_at_a_signal_while_its_code_is_stuck(
    cli: CommandLine, how: str
) -> None:
    """Code that never lets go of the interpreter is ended by the system itself."""
    command = [*_BUSY, how, "run", "hello", "-m", "offline"]
    with subprocess.Popen(command, cwd=cli.cwd, stdout=subprocess.DEVNULL) as process:
        try:
            _until_busy(cli.cwd)
            process.send_signal(signal.SIGTERM)
            code = -signal.SIGALRM if how == "backtrack" else 128 + signal.SIGTERM
            assert process.wait(_NEVER) == code
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--plain",)], ids=["screen", "plain"])
def test_a_chat_whose_loop_is_stuck_ends_and_leaves_the_terminal_in_order(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with terminal(tmp_path / "shop", *options, program=[*_BUSY, "spin"]) as term:
        term.until("Type /help for help." if options else "Enter sends")
        term.send("hello\r" if options else "hello")
        if not options:
            term.until("❯ hello")
            term.send("\r")
        _until_busy(tmp_path / "shop")
        os.kill(term.child.pid, signal.SIGTERM)
        assert term.ended() == 128 + signal.SIGTERM
        assert term.not_restored() == []
