"""A tool server of the handshake era: `python legacy_mcp.py DIARY HOW [--http]`.

HOW is its reaction to a request before the handshake. It does not use the `mcp` package, so it can behave
like other SDKs. Received messages are logged to DIARY, one JSON object a line.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOOLS = [
    {
        "name": "echo",
        "description": "Says it again.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "times": {"type": ["integer", "null"]},
            },
            "required": ["text", "times"],
        },
    }
]
RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "legacy", "version": "1"},
    },
    "tools/list": {"tools": TOOLS},
}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a message; None for a notification."""
    if "id" not in message:
        return None
    frame = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call":
        content = [
            {
                "type": "text",
                "text": json.dumps(message["params"]["arguments"], sort_keys=True),
            }
        ]
        return {**frame, "result": {"content": content}}
    if message["method"] in RESULTS:
        return {**frame, "result": RESULTS[message["method"]]}
    return {**frame, "error": {"code": -32601, "message": "Method not found"}}


def over_stdio(diary: Path, how: str) -> None:
    has_begun = spoiled = False
    for line in sys.stdin:
        with diary.open("a") as file:
            file.write(line)
        message = json.loads(line)
        has_begun = has_begun or (message.get("method") == "initialize" and not spoiled)
        if not has_begun and how == "ends":
            sys.exit("Error: expected initialize request")
        if not has_begun and how == "rubbish":
            print("panicked at src/main.rs: \x1b[31m{not json", flush=True)
            sys.exit(101)
        if not has_begun and how == "hangs":
            continue
        if (
            not has_begun and how == "spoiled"
        ):  # also refuses the handshake after an earlier request
            spoiled = True
            error = {"code": -32600, "message": "Invalid state"}
            print(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}),
                flush=True,
            )
            continue
        if (reply := answer(message)) is not None:
            print(json.dumps(reply), flush=True)


def over_http(diary: Path, how: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with diary.open("ab") as file:
                file.write(body + b"\n")
            message = json.loads(body)
            if message["method"] == "server/discover":
                if how == "ends":
                    self.close_connection = True
                    return
                if how == "hangs":
                    time.sleep(60)
                if how == "rubbish":
                    self._send(200, b"<html>not json", "text/html")
                    return
                if how == "fails":
                    self._send(500, b"", "text/plain")
                    return
            reply = answer(message)
            self._send(
                202 if reply is None else 200,
                json.dumps(reply).encode() if reply else b"",
            )

        def do_GET(self) -> None:
            self._send(405, b"")

        def _send(
            self, status: int, body: bytes, kind: str = "application/json"
        ) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    (over_http if "--http" in sys.argv else over_stdio)(Path(sys.argv[1]), sys.argv[2])
