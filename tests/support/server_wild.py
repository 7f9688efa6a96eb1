"""Malformed responses: the fault keys `bytes`, `flood` and `reset_after` of a script.

{"bytes": ["data: …\\n\\n", …],      written unchanged one after the other, Latin-1 for any byte
 "headers": {"content-type": …},     instead of `text/event-stream`
 "gzip": true,                       compressed
 "then": "reset" | "stall"}          instead of a regular end
{"flood": {"head": "…", "piece": "…", "times": 1000, "tail": "…"}, "headers": {…}}
                                     `piece` repeated; without `times` until the client disconnects
                                     both with a "status" other than 200, if given
{"reset_after": 2}                   the connection is reset, not closed, before chunk 2 of an answer
"""

import gzip
import select
import socket
import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

_BATCH = 64 * 1024


def is_wild(fault: dict[str, Any]) -> bool:
    return "bytes" in fault or "flood" in fault


def send_wild(handler: BaseHTTPRequestHandler, fault: dict[str, Any]) -> str:
    """Send a malformed response; return its outcome for the log."""
    handler.close_connection = True
    try:
        handler.send_response(fault.get("status", 200))
        for name, value in {
            "content-type": "text/event-stream",
            **fault.get("headers", {}),
        }.items():
            handler.send_header(name, value)
        if fault.get("gzip"):
            handler.send_header("content-encoding", "gzip")
        handler.send_header("connection", "close")
        handler.end_headers()
        for piece in _pieces(fault):
            handler.wfile.write(piece)
            handler.wfile.flush()
        match fault.get("then"):
            case "reset":
                reset(handler)
                return "reset"
            case "stall":
                select.select([handler.connection], [], [])
                return "closed by client"
    except ConnectionError:
        return "closed by client"
    return "answered"


def reset(handler: BaseHTTPRequestHandler) -> None:
    """End the connection with a RST, which discards data in flight."""
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    handler.connection.close()


def _pieces(fault: dict[str, Any]) -> Iterator[bytes]:
    if "bytes" in fault:
        pieces = [piece.encode("latin-1") for piece in fault["bytes"]]
        yield from [gzip.compress(b"".join(pieces))] if fault.get("gzip") else pieces
        return
    flood = fault["flood"]
    yield flood.get("head", "").encode()
    piece = flood["piece"].encode()
    at_once = max(1, _BATCH // len(piece))
    remaining = flood.get("times")
    while remaining is None or remaining > 0:
        many = at_once if remaining is None else min(remaining, at_once)
        yield piece * many
        remaining = None if remaining is None else remaining - many
    yield flood.get("tail", "").encode()


__all__ = ["is_wild", "reset", "send_wild"]
