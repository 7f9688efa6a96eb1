"""A scripted OpenAI-compatible server on loopback, in its own process.

    python tests/support/server.py --port 0 --window 32768 [--script FILE] [--log FILE] [--key KEY] [--strict]

prints its port as the first line of stdout, and serves `/v1/models`, `/v1/chat/completions`, `/v1/responses`
(`server_responses`) and `/v1/messages` (`server_messages`), streamed or not, and optionally `/v1/embeddings`
(`server_embeddings`). It validates every request, enforces the window, counts tokens and cached prefixes
itself (`server_checks`), answers by a script (`server_rules`; the default one is a small usable model), and
logs everything as JSON lines. It ends when its stdin, if a pipe, closes, and after `--ttl` seconds. Stdlib
only. Tests start it with `running_server`.

To add a fault, give it a key in an answer's `fault` (documented in `server_rules`) and a branch in
`Handler.fault` if it replaces the answer, or in `Handler.spoil` if it damages a stream. Malformed responses
are in `server_wild`.
"""

import argparse
import base64
import json
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from support import server_messages, server_responses
from support.server_checks import (
    PrefixCache,
    Violation,
    count,
    count_by,
    pieces,
    request_tokens,
    validate,
)
from support.server_embeddings import WAYS, embedding_answer
from support.server_process import MODEL, RunningServer, Seen, running_server
from support.server_rules import DEFAULT, Script
from support.server_wild import is_wild, reset, send_wild

__all__ = ["MODEL", "RunningServer", "ScriptedServer", "Seen", "running_server"]


@dataclass
class Settings:
    window: int = 32_768
    model: str = MODEL
    key: str = ""
    strict: bool = False
    script: Script = field(default_factory=lambda: Script(DEFAULT))
    log: Path | None = None
    refuse_stream_options: bool = False
    usage_always: bool = False
    """Send usage with the last chunk of every stream, as Mistral does."""
    bare_listing: bool = False
    """Omit the window from `/v1/models`."""
    marked: bool = False
    """Cache only marked chat completions, as OpenRouter does for Claude."""
    embeddings: str = ""
    """Behaviour of `/v1/embeddings`; empty: not served."""


class ScriptedServer(ThreadingHTTPServer):
    """State shared by all connections.

    One lock: requests are numbered and measured one after the other.
    """

    daemon_threads = True

    def __init__(self, port: int, settings: Settings) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.settings = settings
        self.cache = PrefixCache()
        self.marked = server_messages.MarkedCache()
        self.lock = threading.Lock()
        self.requests = 0

    def write_log(self, record: dict[str, Any]) -> None:
        if self.settings.log is not None:
            with self.lock, self.settings.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=True) + "\n")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients; print any other error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # otherwise each chunked answer waits 40 ms for an acknowledgement
    )
    server: ScriptedServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        settings = self.server.settings
        if not self.authorised():
            return
        if self.path.rstrip("/") != "/v1/models":
            self.refuse(
                404, f"Unknown request URL: GET {self.path}.", code="unknown_url"
            )
            return
        record: dict[str, Any] = {
            "id": settings.model,
            "object": "model",
            "created": 0,
            "owned_by": "tests",
        }
        if not settings.bare_listing:
            record["max_model_len"] = settings.window
        self.send_json(200, {"object": "list", "data": [record]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.authorised():
            return
        if self.path == "/v1/embeddings" and self.server.settings.embeddings:
            self.embed(raw)
            return
        if self.path == "/clock":  # the clock of the marked cache
            self.server.marked.clock += json.loads(raw)["seconds"]
            self.send_json(200, {"clock": self.server.marked.clock})
            return
        if self.path not in ("/v1/chat/completions", "/v1/responses", "/v1/messages"):
            self.refuse(
                404, f"Unknown request URL: POST {self.path}.", code="unknown_url"
            )
            return
        with self.server.lock:
            self.server.requests += 1
            self.nth = self.server.requests
        try:
            body = json.loads(raw.decode())
            if not isinstance(body, dict):
                raise ValueError("not an object")
        except ValueError as error:
            self.note(raw, None, 0, 0, [Violation("shape", str(error))], "invalid")
            self.refuse(
                400, f"We could not parse the JSON body of your request: {error}"
            )
            return
        self.chat(
            raw,
            server_messages.with_blocks(body) if self.path == "/v1/messages" else body,
        )

    def embed(self, raw: bytes) -> None:
        """Answer with vectors of `server_embeddings`, or as the flag says."""
        how = self.server.settings.embeddings
        self.server.write_log(
            {"kind": "embeddings", "raw": base64.b64encode(raw).decode()}
        )
        if how == "hang":
            select.select([self.connection], [], [])
            self.close_connection = True
        else:
            self.send_json(*embedding_answer(json.loads(raw), how))

    def chat(self, raw: bytes, sent: dict[str, Any]) -> None:
        settings = self.server.settings
        responds, messages = self.path == "/v1/responses", self.path == "/v1/messages"
        own: Any = None
        if responds:
            own = server_responses
        if messages:
            own = server_messages
        violations = own.check(sent) if own else validate(sent, settings.strict)
        measurable = not any(violation.rule == "shape" for violation in violations)
        body = own.as_chat(sent) if own and measurable else sent
        tokens = request_tokens(body) if measurable else []
        if (messages or settings.marked) and measurable:
            tokens = [""] * server_messages.size(sent)
        cached = 0 if messages else self.server.cache.cached(tokens)
        room = (
            0 if messages else _room(sent)
        )  # Anthropic ends an answer at the end of the window
        if body.get("model") != settings.model:
            self.note(raw, body, len(tokens), 0, violations, "no such model")
            name = body.get("model")
            message = (
                f"The model `{name}` does not exist or you do not have access to it."
            )
            self.refuse(404, message, code="model_not_found")
        elif settings.refuse_stream_options and "stream_options" in body:
            self.note(raw, body, len(tokens), 0, violations, "refused parameter")
            self.refuse(400, "Unrecognized request argument supplied: stream_options")
        elif violations:
            self.note(raw, body, len(tokens), 0, violations, "invalid")
            self.refuse(
                400, violations[0].message, param="input" if responds else "messages"
            )
        elif len(tokens) + room > settings.window:
            self.note(raw, body, len(tokens), 0, violations, "too long")
            error_text = (
                f"prompt is too long: {len(tokens)} tokens > {settings.window} maximum"
            )
            too_long = (
                error_text
                if messages
                else _too_long(settings.window, len(tokens), room)
            )
            self.refuse(400, too_long, "messages", "context_length_exceeded")
        else:
            with self.server.lock:
                answer = settings.script.answer(body, self.nth)
            fault = answer.get("fault", {})
            if "status" in fault or "hang" in fault or is_wild(fault):
                self.note(
                    raw,
                    body,
                    len(tokens),
                    cached,
                    violations,
                    f"fault {fault.get('status', 'hang')}",
                )
                self.fault(fault)
                return
            with self.server.lock:
                marks = messages or settings.marked
                served = self.server.marked.serve(sent) if marks else None
            if served:
                cached = served.cached
            else:
                self.server.cache.remember(tokens)
            completion = Completion(
                answer, self.nth, settings, len(tokens), cached, _room(sent)
            )
            self.note(
                raw,
                body,
                len(tokens),
                cached,
                violations,
                "",
                completion.usage["completion_tokens"],
            )
            if answer.get("seconds"):
                time.sleep(answer["seconds"])
            if responds:
                stream_events = server_responses.events(completion)
            elif served and messages:
                stream_events = server_messages.events(completion, served)
            else:
                asked_for = (body.get("stream_options") or {}).get("include_usage")
                stream_events = completion.pieces(
                    settings.usage_always or bool(asked_for)
                )
            if sent.get("stream") and not fault.get("unstreamed"):
                self.stream(stream_events, fault)
            else:
                if responds:
                    response = server_responses.response(completion)
                else:
                    response = completion.whole()
                    if served and messages:
                        response = server_messages.response(completion, served)
                try:
                    if "raw" in fault:
                        self.send(200, "".join(map(str, fault["raw"])).encode(), {})
                    else:
                        self.send_json(200, response)
                except ConnectionError:
                    self.end("closed by client")
                else:
                    self.end("answered")

    def fault(self, fault: dict[str, Any]) -> None:
        """Answer with the script's HTTP error, or hang until the client closes."""
        if fault.get("hang"):
            self.wait_for_client()
            return
        if is_wild(fault):
            self.end(send_wild(self, fault))
            return
        body = fault.get(
            "body",
            {"error": {"message": "scripted fault", "type": "fault", "code": None}},
        )
        payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send(fault["status"], payload, fault.get("headers", {}))
        self.end("fault")

    def stream(self, events: Sequence[dict[str, Any]], fault: dict[str, Any]) -> None:
        """Send server-sent events in chunked encoding, with the script's fault."""
        items: Sequence[Any] = fault.get("raw", events)
        try:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for number, item in enumerate(items):
                if self.spoil(number, fault):
                    return
                time.sleep(fault.get("pause", 0.0))
                self.event(item if isinstance(item, str) else json.dumps(item))
            if self.spoil(len(items), fault):
                return
            if self.path == "/v1/chat/completions":
                self.event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except ConnectionError:
            self.close_connection = True
            self.end("closed by client")
            return
        self.end("answered")

    def spoil(self, number: int, fault: dict[str, Any]) -> bool:
        """Apply a fault before chunk `number`; return whether the stream ends here."""
        if fault.get("malformed_after") == number:
            self.event('{"choices": [{"delta": {"content": "tor')
        elif fault.get("error_after") == number:
            self.event(json.dumps(fault["body"]))
        elif fault.get("stall_after") == number:
            self.wait_for_client()
            return True
        elif fault.get("reset_after") == number:
            reset(self)
            self.end("reset")
            return True
        elif fault.get("cut_after") == number:
            self.wfile.flush()
            self.close_connection = True
            self.end("cut")
            return True
        return False

    def wait_for_client(self) -> None:
        select.select(
            [self.connection], [], []
        )  # Readable only when the client closes.
        self.close_connection = True
        self.end("closed by client")

    def event(self, data: str) -> None:
        payload = f"data: {data}\n\n".encode("utf-8", "surrogatepass")
        self.wfile.write(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
        self.wfile.flush()

    def authorised(self) -> bool:
        header, key = self.headers.get("authorization", ""), self.server.settings.key
        if not key or header == f"Bearer {key}":
            return True
        # OpenAI repeats the key it was given, partly masked; some servers repeat all of it.
        sent_key = header.removeprefix("Bearer ")
        self.refuse(
            401, f"Incorrect API key provided: {sent_key}.", code="invalid_api_key"
        )
        return False

    def refuse(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        if self.path == "/v1/messages":
            details = {"type": "invalid_request_error", "message": message}
            self.send_json(
                status, {"type": "error", "error": details, "request_id": "req_1"}
            )
            return
        error = {
            "message": message,
            "type": "invalid_request_error",
            "param": param,
            "code": code,
        }
        self.send_json(status, {"error": error})

    def send_json(self, status: int, value: Any) -> None:
        self.send(
            status, json.dumps(value).encode(), {"content-type": "application/json"}
        )

    def send(self, status: int, payload: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def note(
        self,
        raw: bytes,
        body: dict[str, Any] | None,
        prompt_tokens: int,
        cached_tokens: int,
        violations: Sequence[Violation],
        rejected: str,
        completion_tokens: int = 0,
    ) -> None:
        self.server.write_log(
            {
                "kind": "request",
                "nth": self.nth,
                "at": time.time(),
                "raw": base64.b64encode(raw).decode(),
                "prompt_tokens": prompt_tokens,
                "cached_tokens": cached_tokens,
                "completion_tokens": completion_tokens,
                "violations": [list(violation) for violation in violations],
                "rejected": rejected,
                "max_tokens": _room(body or {}) or None,
                "headers": {
                    name.lower(): value for name, value in self.headers.items()
                },
            }
        )

    def end(self, outcome: str) -> None:
        self.server.write_log({"kind": "end", "nth": self.nth, "outcome": outcome})


def _room(body: dict[str, Any]) -> int:
    """Return the request's limit of output tokens under any name; 0 if absent."""
    names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
    return next((int(body[name]) for name in names if body.get(name)), 0)


def _too_long(window: int, prompt: int, room: int) -> str:
    usage_text = f"your messages resulted in {prompt} tokens"
    if room:
        parts = f"({prompt} in the messages, {room} in the completion)"
        usage_text = f"you requested {prompt + room} tokens {parts}"
    return (
        f"This model's maximum context length is {window} tokens. However, {usage_text}. "
        "Please reduce the length of the messages."
    )


class Completion:
    """A scripted answer in API format: whole, or in streamed chunks."""

    def __init__(
        self,
        answer: dict[str, Any],
        nth: int,
        settings: Settings,
        prompt: int,
        cached: int,
        room: int,
    ) -> None:
        self.nth = nth
        self.model = settings.model
        self.size = int(answer.get("chunk", 24))
        self.thinking = str(answer.get("thinking", ""))
        self.calls = [
            {
                "id": call.get("id", f"call_{nth}_{number}"),
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": _arguments(call.get("arguments", {})),
                },
            }
            for number, call in enumerate(answer.get("tool_calls", ()))
        ]
        text_tokens = pieces(str(answer.get("text", "")))
        thought = count(self.thinking)
        call_tokens = sum(
            count(call["function"]["name"] + call["function"]["arguments"])
            for call in self.calls
        )
        # The answer shares the window with the request, and obeys the limit the request sets.
        remaining = max(
            0,
            min(room or settings.window, settings.window - prompt)
            - thought
            - call_tokens,
        )
        self.text = "".join(text_tokens[:remaining])
        finish = "tool_calls" if self.calls else "stop"
        if len(text_tokens) > remaining:
            finish = "length"
        self.finish = answer.get("finish_reason", finish)
        output = thought + call_tokens + min(remaining, len(text_tokens))
        self.usage = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": thought},
            **answer.get("usage", {}),
        }

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.thinking:
            message["reasoning_content"] = self.thinking
        if self.calls:
            message["tool_calls"] = self.calls
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": self.usage,
        }

    def pieces(self, include_usage: bool) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": part} for part in self.cut(self.thinking)]
        deltas += [{"content": part} for part in self.cut(self.text)]
        for number, call in enumerate(self.calls):
            function = {"name": call["function"]["name"], "arguments": ""}
            first = {
                "index": number,
                "id": call["id"],
                "type": "function",
                "function": function,
            }
            deltas.append({"tool_calls": [first]})
            deltas += [
                {"tool_calls": [{"index": number, "function": {"arguments": part}}]}
                for part in self.cut(call["function"]["arguments"])
            ]
        head = self._head("chat.completion.chunk")
        events = [{**head, "choices": [_choice(delta, None)]} for delta in deltas]
        events.append({**head, "choices": [_choice({}, self.finish)]})
        if include_usage:
            events.append({**head, "choices": [], "usage": self.usage})
        return events

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.nth}",
            "object": kind,
            "created": 0,
            "model": self.model,
        }

    def cut(self, text: str) -> list[str]:
        return [text[at : at + self.size] for at in range(0, len(text), self.size)]


def _choice(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def load_rules(text: str) -> list[dict[str, Any]]:
    value = json.loads(text)
    rules = value["rules"] if isinstance(value, dict) else value
    return [*rules]


def _stop_with_starter(server: ScriptedServer) -> None:
    sys.stdin.buffer.read()
    server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--window", type=int, default=32_768, help="tokens, input and output together"
    )
    parser.add_argument("--model", default=MODEL)
    parser.add_argument(
        "--script", type=Path, help="JSON rules; without it the default script"
    )
    parser.add_argument(
        "--then-default",
        action="store_true",
        help="the default script after the rules of --script",
    )
    parser.add_argument("--log", type=Path, help="JSON lines; appended")
    parser.add_argument(
        "--key", default="", help="the only key accepted; without it any, or none"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="also demand one system message, user first, alternation",
    )
    parser.add_argument("--refuse-stream-options", action="store_true")
    parser.add_argument("--usage-always", action="store_true")
    parser.add_argument(
        "--bare-listing", action="store_true", help="/v1/models does not say the window"
    )
    parser.add_argument(
        "--embeddings",
        choices=WAYS,
        default="",
        help="serve /v1/embeddings, in this way",
    )
    parser.add_argument(
        "--marked",
        action="store_true",
        help="/chat/completions caches only what is marked",
    )
    parser.add_argument(
        "--characters", type=int, default=0, help="of a token; without it by a pattern"
    )
    parser.add_argument("--ttl", type=float, default=3600.0, help="seconds to live")
    options = parser.parse_args()
    count_by(options.characters)
    rules = (
        load_rules(options.script.read_text(encoding="utf-8"))
        if options.script
        else DEFAULT
    )
    if options.then_default and options.script:
        rules = [*rules, *DEFAULT]
    settings = Settings(
        window=options.window,
        model=options.model,
        key=options.key,
        strict=options.strict,
        script=Script(rules),
        log=options.log,
        refuse_stream_options=options.refuse_stream_options,
        usage_always=options.usage_always,
        bare_listing=options.bare_listing,
        embeddings=options.embeddings,
        marked=options.marked,
    )
    server = ScriptedServer(options.port, settings)
    print(server.server_address[1], flush=True)
    timer = threading.Timer(options.ttl, server.shutdown)
    timer.daemon = True
    timer.start()
    # /dev/null is at its end from the start; only a closing pipe shows that the parent has gone.
    if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        threading.Thread(target=_stop_with_starter, args=(server,), daemon=True).start()
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
