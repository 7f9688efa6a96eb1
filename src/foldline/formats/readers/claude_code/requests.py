"""The recorded requests of a Claude Code session, checked by the digests in the file.

From 2.1.332 on an `api-request` lists its messages by SHA-256 of their JSON: those of the request `base` up
to `keep`, then `tail`. An `api-request-blob` holds a message that no other record holds as it was sent, an
`api-request-shape` the system prompt and tools (docs/design/claude-code.md).
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from foldline.context.calls import RunningPairs
from foldline.context.projection import Projection
from foldline.context.proof import RunningDigest
from foldline.context.view import extends
from foldline.formats.base import Json, JsonLine, JsonObject
from foldline.formats.parts import parts_of, text_in
from foldline.protocol import (
    CLAUDE_CODE,
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    Entry,
    RequestRecord,
    SystemMessage,
    ToolResultMessage,
    text_parts,
)

from .arrangement import sent_atoms
from .messages import blocks_of, is_boundary, is_summary, sent_parts, usage_of

REQUEST = "api-request"
_BLOB = "api-request-blob"
_SHAPE = "api-request-shape"
REFERENCED = (_BLOB, _SHAPE)
"""Records that only requests refer to."""
_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def in_order(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """Put each request between its notes and its answer.

    Claude Code may write either on the wrong side.
    """
    ordered: list[JsonLine] = []
    answers: dict[str, int] = {}
    """The place of the first record of each answer, by the id of the request."""
    unanswered: int | None = None
    for line in lines:
        record = line.record
        place = len(ordered)
        if record.kind == "assistant":
            answers.setdefault(record.text("requestRef"), place)
            unanswered = None
        elif record.kind == REQUEST and record.text("id") in answers:
            place = answers[record.text("id")]
            unanswered = None
        elif record.kind == REQUEST:
            unanswered = place
        elif record.kind == "attachment" and unanswered is not None:
            place = unanswered
            unanswered += 1
        ordered.insert(place, line)
    return ordered


class SentRequest(NamedTuple):
    """The messages of a request."""

    messages: Sequence[BaseMessage]
    """The system prompt, then one message for each block; an answer is one message."""
    is_proved: bool
    """Whether all of it, with tools and parameters, has the digest in the file."""


class RecordedRequests:
    """Rebuilds the requests of a file from the records they refer to."""

    def __init__(self, lines: Sequence[JsonLine]) -> None:
        self.unplaced: set[int] = set()
        """Positions of records with messages that a later request puts in order."""
        self._messages: dict[str, JsonObject] = {}
        """The messages by digest."""
        self._shapes: dict[str, JsonObject] = {}
        self._encoded: dict[str, bytes] = {}
        self._parsed: dict[str, Sequence[BaseMessage]] = {}
        """Our messages by digest: always the same objects."""
        self._lists: dict[str, list[str] | None] = {}
        """The digests of the messages of each request, by its id; None if one is missing."""
        self._answers: dict[str, JsonObject] = {}
        """The answer to each request, from its record with most output."""
        if any(line.kind == REQUEST for line in lines):
            self._collect(lines)
            self._find_unplaced(lines)

    def _collect(self, lines: Sequence[JsonLine]) -> None:
        pieces: dict[str, list[Json]] = defaultdict(list)
        since_request: list[Json] = []
        for line in lines:
            record = line.record
            match record.kind:
                case "api-request":
                    since_request = []
                case "api-request-blob":
                    self._add_message(record.object("message"))
                case "api-request-shape":
                    shape = record.object("shape")
                    self._shapes[_digest(_encode(shape))] = shape
                case "assistant":
                    answer = pieces[record.text("message", "id") or record.text("uuid")]
                    answer += blocks_of(record)
                    self._add_message(JsonObject(role="assistant", content=[*answer]))
                    self._add_answer(record)
                case "user":
                    since_request += blocks_of(record)
                    self._add_message(record.object("message"))
                    self._add_message(JsonObject(role="user", content=[*since_request]))

    def _find_unplaced(self, lines: Sequence[JsonLine]) -> None:
        request_follows = False
        for line in reversed(lines):
            if line.kind in (REQUEST, "assistant") or is_boundary(line.record):
                request_follows = line.kind == REQUEST
            elif request_follows and _may_be_sent(line.record):
                self.unplaced.add(line.position)

    def _add_message(self, message: JsonObject) -> None:
        """Index a message by its digest. A plain text counts as one block."""
        blocks = JsonObject({**message, "content": message.pieces("content")})
        encoded = _encode(blocks)
        digest = _digest(encoded)
        self._messages[digest] = blocks
        self._encoded[digest] = encoded

    def _add_answer(self, record: JsonObject) -> None:
        request = record.text("requestRef")
        message = record.object("message")
        longest = self._answers.setdefault(request, message)
        if message.count("usage", "output_tokens") >= longest.count("usage", "output_tokens"):
            self._answers[request] = message

    def read(self, record: JsonObject) -> SentRequest | None:
        """Return the messages of this request; None if the file lacks some."""
        base = self._lists.get(record.text("base"), [])
        tail = record.texts("tail")
        shape = self._shapes.get(record.text("shapeHash"))
        if base is None or shape is None or not set(tail) <= self._messages.keys():
            self._lists[record.text("id")] = None
            return None
        digests = base[: record.count("keep")] + tail
        self._lists[record.text("id")] = digests
        messages = [self._system_prompt(record.text("shapeHash"))]
        for digest in digests:
            messages += self._parse(digest)
        return SentRequest(messages, self._digest_of(record, shape, digests) == record.text("requestDigest"))

    def _system_prompt(self, digest: str) -> BaseMessage:
        if digest not in self._parsed:
            system = text_in(parts_of(self._shapes[digest].get("system"), []))
            self._parsed[digest] = (SystemMessage(parts=text_parts(system)),)
        return self._parsed[digest][0]

    def _parse(self, digest: str) -> Sequence[BaseMessage]:
        if digest not in self._parsed:
            self._parsed[digest] = tuple(_messages_in(self._messages[digest]))
        return self._parsed[digest]

    def _digest_of(self, record: JsonObject, shape: JsonObject, digests: Sequence[str]) -> str:
        """Return the digest of a request: parameters, shape and messages, with cache marks."""
        body: Json = {**record.object("params"), **shape}
        messages = [self._encoded[digest] for digest in digests]
        marked: dict[int, Json] = {}
        for mark in record.objects("cacheControl"):
            match mark.array("path"):
                case ["messages", int(place), *path] if 0 <= place < len(digests):
                    message = marked.get(place, self._messages[digests[place]])
                    marked[place] = _marked(message, path, mark.get("value"))
                    messages[place] = _encode(marked[place])
                case path:
                    body = _marked(body, path, mark.get("value"))
        fields = {key: self._encode_field(key, value, shape) for key, value in JsonObject.of(body).items()}
        fields["messages"] = b"[" + b",".join(messages) + b"]"
        pairs = [_encode(key) + b":" + fields[key] for key in sorted(fields)]
        return _digest(b"{" + b",".join(pairs) + b"}")

    def _encode_field(self, key: str, value: Json, shape: JsonObject) -> bytes:
        """Return a field as JSON. The tools are long and mostly the same, so they are cached."""
        if shape.get(key) is not value:
            return _encode(value)
        name = f"{id(shape)} {key}"
        if name not in self._encoded:
            self._encoded[name] = _encode(value)
        return self._encoded[name]

    def entry(self, record: JsonObject) -> RequestRecord:
        """Return the record of a request with the file's own digest, not proved yet."""
        answer = self._answers.get(record.text("id"), JsonObject())
        return RequestRecord(
            digest=record.text("requestDigest"),
            model=answer.text("model") or record.text("params", "model"),
            dialect=CLAUDE_CODE,
            usage=usage_of(answer.object("usage")),
            left=record.time("timestamp"),
        )


def _may_be_sent(record: JsonObject) -> bool:
    """Return whether a record may be a message of a request."""
    is_input = record.kind in ("user", "attachment") or record.text("subtype") == "local_command"
    return is_input and not is_summary(record)


def _encode(value: Json) -> bytes:
    return _CANONICAL.encode(value).encode("utf-8", "surrogatepass")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _marked(value: Json, path: Sequence[Json], mark: Json) -> Json:
    """Return a copy of the value with a cache mark at this path."""
    if not path:
        return {**value, "cache_control": mark} if isinstance(value, dict) else value
    step, *below = path
    if isinstance(value, dict) and step in value:
        return {**value, step: _marked(value[step], below, mark)}
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        return [*value[:step], _marked(value[step], below, mark), *value[step + 1 :]]
    return value


def _messages_in(message: JsonObject) -> Iterator[BaseMessage]:
    blocks = message.pieces("content")
    if message.get("role") == "assistant":
        yield AssistantMessage(parts=sent_parts(blocks, []))
        return
    for block in blocks:
        if block.kind == "tool_result":
            yield ToolResultMessage(
                call_id=block.text("tool_use_id"),
                is_error=block.flag("is_error"),
                parts=sent_parts(block.pieces("content"), []),
            )
        elif parts := sent_parts([block], []):
            yield DeveloperMessage(parts=parts, role="user" if message.get("role") == "user" else "system")


# --- the proof --------------------------------------------------------------------------------------


def proved(entries: Sequence[Entry], sent: Mapping[int, Sequence[BaseMessage]]) -> Iterator[RequestRecord]:
    """Yield each request that sent exactly the view at that moment, with the view's digest.

    Args:
        sent: the messages of each request, by the index of its record.
    """
    projection = Projection()
    pairs = RunningPairs()
    running = RunningDigest()
    # The newest request that was proved, and the view it was compared with.
    earlier_sent: Sequence[BaseMessage] = ()
    earlier_view: Sequence[BaseMessage] = ()
    for entry in entries:
        if isinstance(entry, RequestRecord) and entry.index in sent:
            messages = sent[entry.index]
            view = pairs.of(projection.view)
            if not (extends(earlier_sent, messages) and extends(earlier_view, view)):
                earlier_sent = earlier_view = ()
            if sent_atoms(messages[len(earlier_sent) :]) == sent_atoms(view[len(earlier_view) :]):
                earlier_sent = messages
                earlier_view = view
                yield entry.model_copy(update={"digest": running.of(view), "view_items": len(view)})
        projection.append(entry)
