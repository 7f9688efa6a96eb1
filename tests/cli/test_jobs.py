"""Commands in the background do not outlive `foldline run`, however it ends."""

import os
import signal
import subprocess
import time

import pytest

from support import warm
from support.command_line import CommandLine
from support.mcp_server import is_alive
from support.server import MODEL, running_server

WRITTEN = {"command": 'until [ "$(wc -l <p)" = 2 ]; do sleep 0.01; done'}
"""Until the job has said who it is."""
JOB = {
    "command": "setsid sleep 5000 >/dev/null & echo $! >p; echo $$ >>p; sleep 5000",
    "background": True,
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_no_job_is_left_behind(cli: CommandLine, number: signal.Signals | None) -> None:
    calls = [{"name": "bash", "arguments": JOB}, {"name": "bash", "arguments": WRITTEN}]
    start = {"when": {"role": "user"}, "answer": {"tool_calls": calls}}
    wait = {"name": "jobs", "arguments": {"action": "wait", "job": 1, "seconds": 600}}
    then = {"text": "It runs."} if number is None else {"tool_calls": [wait]}
    with running_server(script=[start, {"answer": then}], window=65_536) as server:
        environ = {**os.environ, "OPENAI_BASE_URL": server.base_url}
        command = warm.command(
            "foldline", "run", "--yes", "--json", "-m", MODEL, "start it"
        )
        process = subprocess.Popen(
            command, env=environ, cwd=cli.cwd, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        begun = 0
        for line in process.stdout:
            begun += '"tool_started"' in line
            if begun == 3:
                break
        if number is not None:
            process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == (0 if number is None else 128 + number)
    started = [int(word) for word in (cli.cwd / "p").read_text().split()]
    assert len(started) == 2
    deadline = time.monotonic() + 60
    while any(map(is_alive, started)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_alive, started))
