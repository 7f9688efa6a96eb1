"""Another process that holds a session's lock."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

HOLD = """
    import asyncio, os, subprocess, sys, time
    from foldline.history import Session
    from foldline.protocol import FoldlineError, UserMessage, text_parts

    session = Session.open(sys.argv[1])

    def append(text):
        try:
            asyncio.run(session.append(UserMessage(parts=text_parts(text))))
        except FoldlineError as refusal:
            return str(refusal)

    def start():
        nothing = subprocess.DEVNULL
        command = ["sleep", "60"]
        return subprocess.Popen(
            command, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing
        ).pid

    def fork():
        pid = os.fork()
        if not pid:
            os.close(0)
            os.close(1)
            time.sleep(60)
        return pid

    append("held")
    print("held", flush=True)
    for line in sys.stdin:
        print(eval(line), flush=True)
"""


class Holder:
    """Controls the process that holds the session."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert self._hear() == "held"

    @property
    def pid(self) -> int:
        return self.process.pid

    def append(self, text: str) -> str:
        """Append a message; return the error, empty if it was written."""
        return self._do(f"append({text!r}) or ''")

    def start(self) -> int:
        """Start a program that outlives the call; return its pid."""
        return int(self._do("start()"))

    def fork(self) -> int:
        """Fork an idle process; return its pid."""
        return int(self._do("fork()"))

    def close(self) -> None:
        """Close the session without ending the process."""
        self._do("session.close() or ''")

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait for it."""
        self.process.kill()
        self.process.wait()

    def _do(self, expression: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return self._hear()

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")


@contextmanager
def holder(session: Path) -> Iterator[Holder]:
    """Start a process that holds the session in this folder and has appended one message."""
    with subprocess.Popen(
        [sys.executable, "-c", dedent(HOLD), str(session)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Holder(process)
        finally:
            process.kill()
