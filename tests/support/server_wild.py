"""Answers no well-behaved server gives: the fault keys `bytes`, `flood` and `reset_after` of a script.

{"bytes": ["data: …\\n\\n", …],      written as they are, one after the other, Latin-1 for any byte
 "headers": {"content-type": …},     in place of `text/event-stream`
 "gzip": true,                       compressed
 "then": "reset" | "stall"}          instead of an end
{"flood": {"head": "…", "piece": "…", "times": 1000, "tail": "…"}, "headers": {…}}
                                     `piece` so many times; without `times` until the client goes away
                                     both with a "status", where it is not 200
{"reset_after": 2}                   the connection is reset, not closed, before piece 2 of an answer
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
    """Gives such an answer; how it ended, for the log."""
    handler.close_connection = True
    try:
        handler.send_response(fault.get("status", 200))
        for name, value in {"content-type": "text/event-stream", **fault.get("headers", {})}.items():
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
    """Ends the connection with a RST: what is on the way is lost, and no end is said."""
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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
    left = flood.get("times")
    while left is None or left > 0:
        many = at_once if left is None else min(left, at_once)
        yield piece * many
        left = None if left is None else left - many
    yield flood.get("tail", "").encode()


__all__ = ["is_wild", "reset", "send_wild"]
