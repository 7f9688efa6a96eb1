"""A model server on loopback that streams at a given pace, in its own process.

    python -P tests/bench/streamer.py TOKENS_A_SECOND

prints its port, and answers every chat request with Markdown of all kinds, one token per event, until the
client disconnects. It ends with its stdin.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from subprocess import PIPE, Popen

MODEL = "talker"
MOST = 200_000
"""Tokens of an uninterrupted answer."""
_BATCH = 0.010
"""Seconds between writes: a network delivers several events at once."""


class Handler(BaseHTTPRequestHandler):
    pace = 2_000.0
    pieces: tuple[bytes, ...] = ()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        listing = {
            "object": "list",
            "data": [{"id": MODEL, "object": "model", "max_model_len": 1_000_000}],
        }
        self._begin("application/json")
        self.wfile.write(json.dumps(listing).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._begin("text/event-stream")
        try:
            self._speak()
        except ConnectionError:
            self.close_connection = True

    def _speak(self) -> None:
        began, sent = time.monotonic(), 0
        source = cycle(self.pieces)
        while sent < MOST:
            due = int((time.monotonic() - began) * self.pace)
            self.wfile.write(b"".join(next(source) for _ in range(max(0, due - sent))))
            sent = max(due, sent)
            time.sleep(_BATCH)
        self.wfile.write(event({}, "stop") + b"data: [DONE]\n\n")

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@contextmanager
def streaming_server(pace: float) -> Iterator[str]:
    """Run the server; yield its address for `OPENAI_BASE_URL`."""
    command = [sys.executable, "-P", str(Path(__file__).resolve()), str(pace)]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from support.answers import KINDS, split_chunks

    text = "\n\n".join(make(40) for make in KINDS.values()) + "\n\n"
    Handler.pieces = tuple(event({"content": piece}) for piece in split_chunks(text, 4))
    Handler.pace = float(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
