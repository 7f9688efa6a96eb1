"""Starts the test server (`support.server`) in its own process and reads its log."""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

from support import warm

MODEL = "scripted-1"


@dataclass(frozen=True)
class Seen:
    """A chat request as logged by the server."""

    nth: int
    raw: bytes
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    """Tokens of the answer; 0 if refused or replaced by a fault."""
    violations: tuple[tuple[str, str], ...]
    rejected: str
    """The reason of a refusal; empty if answered."""
    max_tokens: int | None
    outcome: str | None
    """`answered`, `closed by client`, `cut` or `fault`; None while pending, and for refusals."""

    headers: dict[str, str]
    """Lower-case names."""

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in the terms of the API: chat messages, or input items."""
        return list(
            self.body["messages"] if "messages" in self.body else self.body["input"]
        )

    @property
    def marks(self) -> int:
        """Number of `cache_control` marks."""
        return self.raw.count(b'"cache_control"')


class RunningServer:
    """A server in its own process."""

    def __init__(
        self,
        process: "subprocess.Popen[str]",
        port: int,
        log: Path,
        model: str,
        window: int,
    ) -> None:
        self._process = process
        self._log = log
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.model = model
        self.window = window

    def requests(self) -> list[Seen]:
        """All chat requests so far, in order."""
        records = self._records()
        ends = {
            record["nth"]: record["outcome"]
            for record in records
            if record["kind"] == "end"
        }
        return [
            Seen(
                nth=record["nth"],
                raw=base64.b64decode(record["raw"]),
                prompt_tokens=record["prompt_tokens"],
                cached_tokens=record["cached_tokens"],
                completion_tokens=record["completion_tokens"],
                violations=tuple(
                    (rule, message) for rule, message in record["violations"]
                ),
                rejected=record["rejected"],
                max_tokens=record["max_tokens"],
                outcome=ends.get(record["nth"]),
                headers=record["headers"],
            )
            for record in records
            if record["kind"] == "request"
        ]

    def pass_time(self, seconds: float) -> None:
        """Advance the clock of the marked cache."""
        body = json.dumps({"seconds": seconds}).encode()
        request = Request(self.base_url.removesuffix("/v1") + "/clock", body)
        with urlopen(request, timeout=10) as answer:
            answer.read()

    def embedding_requests(self) -> list[dict[str, Any]]:
        """The bodies of all embedding requests so far, in order."""
        raw = [
            record["raw"]
            for record in self._records()
            if record["kind"] == "embeddings"
        ]
        return [json.loads(base64.b64decode(body)) for body in raw]

    def _records(self) -> list[dict[str, Any]]:
        """Read the log without an incomplete last line."""
        if not self._log.exists():
            return []
        lines = self._log.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_for(
        self, condition: Callable[[list[Seen]], bool], seconds: float = 60.0
    ) -> list[Seen]:
        """Wait until the requests meet a condition, and return them; fail after `seconds`."""
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not condition(seen := self.requests()):
            assert time.monotonic() < deadline, (
                f"not seen by the server in {seconds} s: {seen}"
            )
            pause.wait(0.01)
        return seen

    def close(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def running_server(
    *,
    window: int = 32_768,
    script: Sequence[dict[str, Any]] | None = None,
    then_default: bool = False,
    model: str = MODEL,
    key: str = "",
    strict: bool = False,
    flags: Sequence[str] = (),
) -> Iterator[RunningServer]:
    """Run the server in its own process. `flags` are added to its command line."""
    with TemporaryDirectory(prefix="foldline-server-") as folder:
        log = Path(folder) / "log.jsonl"
        command = warm.command(
            "support.server", "--window", str(window), "--model", model
        )
        command += ["--log", str(log), "--ttl", "600", *flags]
        if script is not None:
            path = Path(folder) / "script.json"
            path.write_text(json.dumps(list(script)), encoding="utf-8")
            command += ["--script", str(path)]
        command += ["--then-default"] if then_default else []
        command += ["--key", key] if key else []
        command += ["--strict"] if strict else []
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        assert first.isdigit(), f"the test server did not start: {first!r}"
        server = RunningServer(process, int(first), log, model, window)
        try:
            yield server
        finally:
            server.close()
