"""Programs that are talked to over stdin and stdout: JSON lines, JSON-RPC, the Agent Client Protocol."""

import json
import queue
import subprocess
import threading
import time
from typing import Any

from .wires import Json
from .workspace import RUN_TIMEOUT, RunError, Workspace

END_TIMEOUT = 10


class LineProcess:
    """A running program that reads and writes one JSON object a line."""

    def __init__(self, place: Workspace, *command: str) -> None:
        self.name = command[0]
        self._errors = (place.folder / "stderr.txt").open("ab")
        self._log = (place.folder / "lines.txt").open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            command,
            cwd=place.work,
            env=place.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, data: Json) -> None:
        """Write one object."""
        assert self._process.stdin is not None
        text = json.dumps(data)
        self._log.write(f"> {text}\n")
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()

    def receive(self, timeout: float = RUN_TIMEOUT) -> Json:
        """The next object; other lines are skipped.

        Raises:
            RunError: the program ended, or wrote nothing in time.
        """
        limit = time.monotonic() + timeout
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, limit - time.monotonic()))
            except queue.Empty:
                raise RunError(
                    f"{self.name} gave no answer within {timeout:.0f} s"
                ) from None
            if not line:
                raise RunError(f"{self.name} ended")
            self._log.write(f"< {line.decode(errors='replace')}")
            self._log.flush()
            if line.startswith(b"{"):
                return dict(json.loads(line))

    def close(self) -> None:
        """Close its stdin, and end it if that does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
        self._log.close()


class Rpc:
    """A client of JSON-RPC 2.0. Questions of the server are answered by `answer`."""

    def __init__(self, place: Workspace, *command: str) -> None:
        self._process = LineProcess(place, *command)
        self._last = 0
        self.notes: list[Json] = []

    def request(self, method: str, **parameters: Any) -> Json:
        """Call a method and wait for its result.

        Raises:
            RunError: the server answered with an error.
        """
        self._last += 1
        number = self._last
        self._process.send(
            {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        )
        while True:
            message = self._process.receive()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RunError(f"{method}: {json.dumps(message['error'])[:300]}")
                return message.get("result") or {}
            self._take(message)

    def notify(self, method: str, **parameters: Any) -> None:
        self._process.send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def wait_for(self, method: str) -> Json:
        """The parameters of the next notification of this method."""
        while True:
            message = self._process.receive()
            self._take(message)
            if message.get("method") == method:
                return message.get("params") or {}

    def _take(self, message: Json) -> None:
        if "method" in message and "id" in message:
            result = self.answer(message["method"], message.get("params") or {})
            self._process.send(
                {"jsonrpc": "2.0", "id": message["id"], "result": result}
            )
        elif "method" in message:
            self.notes.append(message)

    def answer(self, method: str, parameters: Json) -> Json:
        """The result of a request that the server makes."""
        return {}

    def close(self) -> None:
        self._process.close()


class Acp(Rpc):
    """A client of the Agent Client Protocol that allows everything."""

    session: str = ""

    def begin(self, folder: str, session: str = "") -> str:
        """Begin a session in a folder, or load one, and return its id."""
        files = {"readTextFile": False, "writeTextFile": False}
        capabilities = {"fs": files, "terminal": False}
        self.request("initialize", protocolVersion=1, clientCapabilities=capabilities)
        if session:
            self.request("session/load", sessionId=session, cwd=folder, mcpServers=[])
            self.session = session
        else:
            self.session = self.request("session/new", cwd=folder, mcpServers=[])[
                "sessionId"
            ]
        return self.session

    def prompt(self, text: str) -> None:
        """Send a prompt, and wait for the end of its turn."""
        self.request(
            "session/prompt",
            sessionId=self.session,
            prompt=[{"type": "text", "text": text}],
        )

    def answer(self, method: str, parameters: Json) -> Json:
        options = parameters.get("options") or []
        allowed = [
            each for each in options if str(each.get("kind", "")).startswith("allow")
        ]
        if method != "session/request_permission" or not allowed:
            return {}
        return {"outcome": {"outcome": "selected", "optionId": allowed[0]["optionId"]}}
