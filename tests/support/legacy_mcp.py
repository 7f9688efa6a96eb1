"""A tool server that knows only the handshake: `python legacy_mcp.py DIARY HOW [--http]`.

HOW is what it does at a request that comes before the handshake. It is written without the package, so that
it can behave as other SDKs do. All it hears goes into DIARY, one JSON object a line.
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
            "properties": {"text": {"type": "string"}, "times": {"type": ["integer", "null"]}},
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


def answer(heard: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a message; None for a notification."""
    if "id" not in heard:
        return None
    frame = {"jsonrpc": "2.0", "id": heard["id"]}
    if heard["method"] == "tools/call":
        content = [{"type": "text", "text": json.dumps(heard["params"]["arguments"], sort_keys=True)}]
        return {**frame, "result": {"content": content}}
    if heard["method"] in RESULTS:
        return {**frame, "result": RESULTS[heard["method"]]}
    return {**frame, "error": {"code": -32601, "message": "Method not found"}}


def over_stdio(diary: Path, how: str) -> None:
    begun = spoiled = False
    for line in sys.stdin:
        with diary.open("a") as file:
            file.write(line)
        heard = json.loads(line)
        begun = begun or (heard.get("method") == "initialize" and not spoiled)
        if not begun and how == "ends":
            sys.exit("Error: expected initialize request")
        if not begun and how == "rubbish":
            print("panicked at src/main.rs: \x1b[31m{not json", flush=True)
            sys.exit(101)
        if not begun and how == "hangs":
            continue
        if not begun and how == "spoiled":  # refuses the handshake, too, once another request came before it
            spoiled = True
            error = {"code": -32600, "message": "Invalid state"}
            print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "error": error}), flush=True)
            continue
        if (reply := answer(heard)) is not None:
            print(json.dumps(reply), flush=True)


def over_http(diary: Path, how: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with diary.open("ab") as file:
                file.write(body + b"\n")
            heard = json.loads(body)
            if heard["method"] == "server/discover":
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
            reply = answer(heard)
            self._send(202 if reply is None else 200, json.dumps(reply).encode() if reply else b"")

        def do_GET(self) -> None:
            self._send(405, b"")

        def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
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
