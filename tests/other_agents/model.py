"""The scripted model: a server of four APIs on this machine, in a process of its own.

    python -m other_agents.model FOLDER --work WORK [--window N]

writes its port to `FOLDER/port` and each request, with its reply, to `FOLDER/requests.jsonl`. It refuses a
request beyond its window as OpenAI does.
"""

import argparse
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .script import Script, purpose_of
from .wires import WIRES, Json, Reply, wire_of

CHARACTERS_PER_TOKEN = 4


class Model(ThreadingHTTPServer):
    """State that all connections share. Requests are answered one by one, and logged before their replies."""

    daemon_threads = True

    def __init__(self, folder: Path, work: Path, window: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.window = window
        self._log = folder / "requests.jsonl"
        self._script = Script(work)
        self._lock = threading.Lock()
        self._requests = 0

    def answer(self, wire: str, path: str, body: Json, size: int) -> Reply | None:
        """The reply to a request, or None if the request is longer than the window."""
        with self._lock:
            self._requests += 1
            items, tools = WIRES[wire].items(body), WIRES[wire].tools(body)
            purpose = purpose_of(items, tools)
            tokens = size // CHARACTERS_PER_TOKEN
            if tokens > self.window and purpose == "work":
                self.write(
                    {
                        "number": self._requests,
                        "wire": wire,
                        "path": path,
                        "refused": tokens,
                    }
                )
                return None
            text, calls = self._script.reply(purpose, items, tools)
            said = len(text) + sum(len(json.dumps(call.arguments)) for call in calls)
            reply = Reply(
                text,
                calls,
                str(self._requests),
                tokens,
                said // CHARACTERS_PER_TOKEN + 1,
            )
            asked = {
                "number": self._requests,
                "wire": wire,
                "path": path,
                "purpose": purpose,
            }
            said_calls = [
                {"name": call.name, "arguments": call.arguments} for call in calls
            ]
            self.write(
                {**asked, "reply": {"text": text, "calls": said_calls}, "body": body}
            )
            return reply

    def write(self, record: Json) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def do_GET(self) -> None:
        if "/models" in self.path:
            model = {
                "id": "scripted",
                "object": "model",
                "created": 1,
                "owned_by": "local",
            }
            self._send(
                {
                    "object": "list",
                    "data": [{**model, "context_length": self.server.window}],
                }
            )
        else:
            self._send({"error": {"message": "not found"}}, 404)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        path = self.path.partition("?")[0]
        if path.endswith(("count_tokens", "countTokens")):
            count = len(data) // CHARACTERS_PER_TOKEN
            self._send({"input_tokens": count, "totalTokens": count})
            return
        wire = wire_of(path)
        if not wire:
            self._send(
                {"error": {"message": "not found", "type": "invalid_request_error"}},
                404,
            )
            return
        body = json.loads(data)
        reply = self.server.answer(wire, path, body, len(data))
        if reply is None:
            error = {
                "message": "too long",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
            self._send({"error": error}, 400)
        elif body.get("stream") or "streamGenerate" in path:
            self._stream(wire, reply)
        else:
            self._send(WIRES[wire].whole(reply))

    def _send(self, data: Json, status: int = 200) -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, wire: str, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for piece in WIRES[wire].stream(reply):
            self.wfile.write(piece)
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr: the requests are in the log."""


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted model on this machine.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--window", type=int, default=200_000)
    given = parser.parse_args()
    model = Model(given.folder, given.work, given.window)
    port = given.folder / "port"
    port.with_suffix(".new").write_text(str(model.server_port))
    port.with_suffix(".new").rename(port)
    model.serve_forever()


if __name__ == "__main__":
    main()
