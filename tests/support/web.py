"""A web server on loopback in its own process, for the tests of `fetch`.

    python tests/support/web.py FILE

prints its port as the first line of stdout, and ends when its stdin closes. FILE holds a JSON object of
answers by path: `status`, `headers`, `body` (base64), and `stalls` (seconds of silence before the body).
Every request is logged to FILE.log as a line of JSON: its path and its headers.
"""

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def page(
    body: str | bytes = b"",
    content_type: str = "text/html",
    status: int = 200,
    **more: Any,
) -> dict[str, Any]:
    """Return an answer; `more` are headers, with `_` for `-`, and `stalls`."""
    stalls = more.pop("stalls", 0)
    headers = {
        "Content-Type": content_type,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    content = body.encode() if isinstance(body, str) else body
    return {
        "status": status,
        "headers": headers,
        "body": base64.b64encode(content).decode(),
        "stalls": stalls,
    }


@dataclass
class Web:
    """A running server."""

    port: int
    log: Path

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def requests(self) -> list[dict[str, Any]]:
        """The requests so far."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines]


@contextmanager
def running_web(folder: Path, pages: Mapping[str, dict[str, Any]]) -> Iterator[Web]:
    folder.mkdir(exist_ok=True)
    script = folder / "pages.json"
    script.write_text(json.dumps(pages))
    command = [sys.executable, __file__, str(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        try:
            yield Web(int(process.stdout.readline()), Path(f"{script}.log"))
        finally:
            process.stdin.close()


class _Handler(BaseHTTPRequestHandler):
    pages: Mapping[str, dict[str, Any]]
    log: Path
    lock = threading.Lock()

    def do_GET(self) -> None:
        with self.lock, self.log.open("a") as log:
            log.write(
                json.dumps({"path": self.path, "headers": dict(self.headers)}) + "\n"
            )
        answer = self.pages.get(self.path) or page("no such page", "text/plain", 404)
        body = base64.b64decode(answer["body"])
        self.send_response(answer["status"])
        for name, value in answer["headers"].items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        time.sleep(answer["stalls"])
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _main() -> None:
    script = Path(sys.argv[1])
    _Handler.pages, _Handler.log = json.loads(script.read_text()), Path(f"{script}.log")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _main()
