"""Warm starts of programs: forks of a process that has imported their modules.

There is one such process per worker, because a cold start takes one to three seconds of imports. Cold starts
are tested in `cli/test_imports.py`, `cli/test_door.py`, `cli/test_streams.py` and `security`.

A program lives as long as its connection: closing that kills it. `warm_start.py` is a command that starts
one, for tests that need a command.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
NEEDS = {
    "foldline": "foldline.*",
    "foldline acp": "foldline.* foldline.cli.acp.server openai",
    "support.mcp_server": "foldline.agent.extensions.mcp support.mcp_oauth uvicorn mcp.server.lowlevel "
    "mcp.server.stdio mcp.server.runner mcp.server.subscriptions mcp.server.streamable_http_manager",
    "support.server": "support.server_messages support.server_responses support.server_embeddings",
}
"""Programs, and the modules imported before each."""
NOT_YET = ("foldline.__main__", "foldline.cli.acp", "foldline.cli.serve")
"""Modules not to import: those of optional packages, and `__main__`."""


@cache
def parent() -> Path:
    """Return the socket of the process to fork from."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(folder / "socket")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.kill)
    return folder / "socket"


def command(program: str, *arguments: str) -> list[str]:
    """Return a command that starts a program with the environment, folder and pipes of the command."""
    script = str(Path(__file__).with_name("warm_start.py"))
    return [sys.executable, "-I", "-S", script, str(parent()), program, *arguments]


class Program:
    """A running program with these descriptors as stdin, stdout and stderr."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        fds: Sequence[int],
        env: Mapping[str, str],
        cwd: Path,
    ) -> None:
        request = {
            "program": program,
            "arguments": [*arguments],
            "env": {**env},
            "cwd": str(cwd),
        }
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(str(parent()))
        socket.send_fds(self._connection, [b" "], [*fds])
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        self._said = self._connection.makefile("r")
        self.pid = int(self._said.readline())
        self._status: int | None = None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end; return the exit status, or minus the terminating signal."""
        if self._status is None:
            self._status = int(self._said.readline())
        return self._status

    def close(self) -> None:
        """Kill the program if it is still running."""
        if self._status is None:
            self.kill()
            self.wait()
        self._said.close()
        self._connection.close()


# --- the process to fork from ------------------------------------------------------------------------------


def _import(names: Sequence[str]) -> None:
    for name in names:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for module in pkgutil.walk_packages(
                package.__path__, f"{package.__name__}."
            ):
                if not module.name.startswith(NOT_YET):
                    importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _serve(path: str) -> tuple[dict[str, Any], list[int]]:
    """Fork a program for each connection.

    Returns only in the program, with its request.
    """
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    modules: set[str] = set()
    running: dict[int, socket.socket] = {}
    looked = selectors.DefaultSelector()
    for descriptor in (0, woken, listening):
        looked.register(descriptor, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    while True:
        for key, _ in looked.select():
            if key.fileobj == 0:
                sys.exit()
            elif key.fileobj == woken:
                os.read(woken, 1_024)
                while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    with running.pop(ended[0]) as connection:
                        if connection in looked.get_map():
                            looked.unregister(connection)
                        _say(connection, os.waitstatus_to_exitcode(ended[1]))
            elif key.fileobj is listening:
                connection, _ = listening.accept()
                _, fds, _, _ = socket.recv_fds(connection, 1, 3)
                with connection.makefile("rb") as stream:
                    request = json.loads(stream.readline())
                if request["program"] not in modules:
                    modules.add(request["program"])
                    _import(NEEDS[request["program"]].split())
                if not (pid := os.fork()):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    return request, fds
                for fd in fds:
                    os.close(fd)
                running[pid] = connection
                looked.register(connection, selectors.EVENT_READ, pid)
                _say(connection, pid)
            else:  # the starter has closed the connection
                looked.unregister(key.fileobj)
                os.kill(key.data, signal.SIGKILL)


def _say(connection: socket.socket, number: int) -> None:
    with suppress(OSError):
        connection.sendall(b"%d\n" % number)


def _become(request: dict[str, Any], fds: list[int]) -> None:
    """Run the program, as if it had been started cold."""
    os.setsid()
    for at, fd in enumerate(fds):
        os.dup2(fd, at)
    os.closerange(3, 256)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", errors="surrogateescape")
    buffering = 1 if os.isatty(1) else -1
    sys.stdout = sys.__stdout__ = os.fdopen(
        1, "w", buffering, encoding="utf-8", errors="surrogateescape"
    )
    sys.stderr = sys.__stderr__ = os.fdopen(
        2, "w", 1, encoding="utf-8", errors="backslashreplace"
    )
    module, *first = request["program"].split()
    if module == "foldline":
        sys.path.remove(str(TESTS))
        # After SIGTERM a program has 1.9 s before the system ends it: too short on a busy machine.
        sys.modules["foldline.termination"]._LAST_SECONDS = 60.0  # type: ignore[attr-defined]
    sys.path[:0] = filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = [module, *first, *request["arguments"]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    _become(*_serve(sys.argv[1]))
