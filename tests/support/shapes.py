"""A server that describes its models as a test specifies, in its own process.

    python tests/support/shapes.py ANSWERS.json LOG

prints its port, and answers by method and path without query, as in `{"GET /v1/models": {…}}`. A list of
answers is given one after the other, and its last one repeated; `{"status": 401, "body": …}` sets the status;
other paths get 404. Every request is logged as a line with its headers. The server ends with its stdin.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


@dataclass(frozen=True)
class LoggedRequest:
    """A request as logged by the server."""

    what: str
    """Method and path, with the query."""
    headers: Mapping[str, str]
    """Lower-case names."""
    body: Any


@dataclass(frozen=True)
class ListingServer:
    root: str
    log: Path

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def requests(self) -> list[LoggedRequest]:
        """Return all requests so far, in order."""
        lines = (
            self.log.read_text(encoding="utf-8").splitlines()
            if self.log.exists()
            else []
        )
        return [LoggedRequest(**json.loads(line)) for line in lines]


@contextmanager
def listing_server(answers: Mapping[str, Any]) -> Iterator[ListingServer]:
    """Run a server with these answers."""
    with TemporaryDirectory(prefix="foldline-shapes-") as folder:
        script, log = Path(folder) / "answers.json", Path(folder) / "log.jsonl"
        script.write_text(json.dumps(answers), encoding="utf-8")
        command = [sys.executable, str(Path(__file__).resolve()), str(script), str(log)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port.isdigit(), f"the server of shapes did not start: {port!r}"
            try:
                yield ListingServer(f"http://127.0.0.1:{port}", log)
            finally:
                process.stdin.close()


class Handler(BaseHTTPRequestHandler):
    answers: dict[str, Any]
    log: Path
    lock = threading.Lock()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(
            json.loads(
                self.rfile.read(int(self.headers.get("content-length", 0))) or b"null"
            )
        )

    def _answer(self, body: Any) -> None:
        what = f"{self.command} {self.path}"
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.lock, self.log.open("a", encoding="utf-8") as file:
            file.write(
                json.dumps({"what": what, "headers": headers, "body": body}) + "\n"
            )
        with self.lock:
            answer = self.answers.get(
                what.partition("?")[0], {"status": 404, "body": {"error": "not found"}}
            )
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
        status, content = (
            (answer["status"], answer["body"]) if "status" in answer else (200, answer)
        )
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def main() -> None:
    Handler.answers = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Handler.log = Path(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
