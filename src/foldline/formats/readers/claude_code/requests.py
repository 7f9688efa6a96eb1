"""Reconstructs a Claude Code session's requests, and checks their digests.

Since 2.1.332, an `api-request` record refers to its messages by the SHA-256 of their JSON: the first `keep`
messages of the request `base`, followed by those in `tail`. An `api-request-blob` contains a message that no
other record contains in the form in which it was sent. An `api-request-shape` contains the system prompt and
the tools (docs/design/claude-code.md).
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from foldline.formats.base import Json, JsonLine, JsonObject
from foldline.formats.parts import parts_of, text_in
from foldline.past.proof import RunningDigest
from foldline.protocol import (
    CLAUDE_CODE,
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    RequestRecord,
    SystemMessage,
    ToolResultMessage,
    text_parts,
)
from foldline.view.calls import RunningPairs
from foldline.view.items import ViewItem

from .arrangement import EqualStart, sent_atoms
from .messages import blocks_of, is_boundary, is_summary, sent_parts, usage_of

REQUEST = "api-request"
_BLOB = "api-request-blob"
_SHAPE = "api-request-shape"
REFERENCED = (_BLOB, _SHAPE)
"""Types of records that exist only because requests refer to them."""
_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def in_order(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """Put each request after its notes and before its answer.

    Claude Code does not always write them in this order.
    """
    ordered: list[JsonLine] = []
    answers: dict[str, int] = {}
    """The position of each answer's first record, by request id."""
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


class _SentMessage:
    """A message that a request may contain.

    If its content is a string, it becomes one block.
    """

    def __init__(self, message: JsonObject) -> None:
        self.json = JsonObject({**message, "content": message.pieces("content")})
        self.encoded = _encode(self.json)
        self.digest = _digest(self.encoded)

    @cached_property
    def messages(self) -> Sequence[BaseMessage]:
        """The corresponding Foldline messages.

        They are cached, so that the same objects are always returned.
        """
        return [*_messages_in(self.json)]


class _Shape:
    """A system prompt and tools, which most requests share."""

    def __init__(self, fields: JsonObject) -> None:
        self.fields = fields
        self.encoded = {key: _encode(value) for key, value in fields.items()}
        self.digest = _digest(_joined(self.encoded))
        system = text_in(parts_of(fields.get("system"), []))
        self.messages = [SystemMessage(parts=text_parts(system))]


class RecordedRequests:
    """Reconstructs the requests in a file from the records that they refer to."""

    def __init__(self, lines: Sequence[JsonLine]) -> None:
        self.unplaced: set[int] = set()
        """Positions of records whose messages will be ordered by a later request."""
        self._messages: dict[str, _SentMessage] = {}
        self._shapes: dict[str, _Shape] = {}
        self._lists: dict[str, list[_SentMessage] | None] = {}
        """The messages of each request, by request id.

        None if some of them are missing from the file.
        """
        self._answers: dict[str, JsonObject] = {}
        """The answer to each request, taken from the record with the most output tokens."""
        self._pairs = RunningPairs()
        self._running = RunningDigest()
        self._proved = EqualStart[BaseMessage]()
        """The newest request that matched the view exactly."""
        if any(line.kind == REQUEST for line in lines):
            self._collect(lines)
            self._find_unplaced(lines)

    def _collect(self, lines: Sequence[JsonLine]) -> None:
        pieces: dict[str, list[Json]] = defaultdict(list)
        since_request: list[Json] = []
        for line in lines:
            record = line.record
            match line.kind:
                case "api-request":
                    since_request = []
                case "api-request-blob":
                    self._add_message(record.object("message"))
                case "api-request-shape":
                    shape = _Shape(record.object("shape"))
                    self._shapes[shape.digest] = shape
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
        indexed = _SentMessage(message)
        self._messages[indexed.digest] = indexed

    def _add_answer(self, record: JsonObject) -> None:
        message = record.object("message")
        longest = self._answers.setdefault(record.text("requestRef"), message)
        if message.count("usage", "output_tokens") >= longest.count(
            "usage", "output_tokens"
        ):
            self._answers[record.text("requestRef")] = message

    def read(self, record: JsonObject) -> Sequence[BaseMessage] | None:
        """Return this request's messages.

        Returns None if some of them are missing from the file.

        The system prompt comes first. An answer is a single message; apart from that, each block is a
        message.
        """
        base = self._lists.get(record.text("base"), [])
        digests = record.texts("tail")
        tail = [
            self._messages[digest] for digest in digests if digest in self._messages
        ]
        shape = self._shapes.get(record.text("shapeHash"))
        if base is None or shape is None or len(tail) < len(digests):
            self._lists[record.text("id")] = None
            return None
        listed = base[: record.count("keep")] + tail
        self._lists[record.text("id")] = listed
        messages: list[BaseMessage] = [*shape.messages]
        for message in listed:
            messages += message.messages
        return messages

    def _digest_of(self, record: JsonObject) -> str:
        """Return the digest of a request, including its cache marks."""
        shape = self._shapes[record.text("shapeHash")]
        listed = self._lists[record.text("id")] or []
        body: Json = {**record.object("params"), **shape.fields}
        messages = [message.encoded for message in listed]
        marked: dict[int, Json] = {}
        for mark in record.objects("cacheControl"):
            value = mark.get("value")
            match mark.array("path"):
                case ["messages", int(place), *path] if 0 <= place < len(listed):
                    message = marked.get(place, listed[place].json)
                    marked[place] = _marked(message, path, value)
                    messages[place] = _encode(marked[place])
                case path:
                    body = _marked(body, path, value)
        fields = {}
        for key, value in JsonObject.of(body).items():
            is_marked = shape.fields.get(key) is not value
            fields[key] = _encode(value) if is_marked else shape.encoded[key]
        fields["messages"] = b"[" + b",".join(messages) + b"]"
        return _digest(_joined(fields))

    def entry(
        self,
        record: JsonObject,
        sent: Sequence[BaseMessage] | None,
        view: Sequence[ViewItem],
    ) -> RequestRecord:
        """Return the record of a request.

        If the request matches the view exactly, the record contains the view's digest, otherwise the digest
        from the file.
        """
        answer = self._answers.get(record.text("id"), JsonObject())
        entry = RequestRecord(
            digest=record.text("requestDigest"),
            model=answer.text("model") or record.text("params", "model"),
            dialect=CLAUDE_CODE,
            usage=usage_of(answer.object("usage")),
            left=record.time("timestamp"),
        )
        messages = self._pairs.of(view)
        if sent is None or self._digest_of(record) != entry.digest:
            return entry
        new_sent, new_view = self._proved.after(sent, messages)
        if sent_atoms(new_sent) != sent_atoms(new_view):
            return entry
        self._proved = EqualStart(sent, messages)
        update = {"digest": self._running.of(messages), "view_items": len(messages)}
        return entry.model_copy(update=update)


def _may_be_sent(record: JsonObject) -> bool:
    """Return whether a record may become part of a request."""
    is_input = (
        record.kind in ("user", "attachment")
        or record.text("subtype") == "local_command"
    )
    return is_input and not is_summary(record)


def _encode(value: Json) -> bytes:
    return _CANONICAL.encode(value).encode("utf-8", "surrogatepass")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _joined(fields: Mapping[str, bytes]) -> bytes:
    """Return a JSON object built from values that are already encoded."""
    encoded = [_encode(key) + b":" + fields[key] for key in sorted(fields)]
    return b"{" + b",".join(encoded) + b"}"


def _marked(value: Json, path: Sequence[Json], mark: Json) -> Json:
    """Return a copy of the value with a cache mark at this path."""
    if not path:
        return {**value, "cache_control": mark} if isinstance(value, dict) else value
    step, *below = path
    if isinstance(value, dict) and step in value:
        return {**value, step: _marked(value[step], below, mark)}
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        items = [*value]
        items[step] = _marked(items[step], below, mark)
        return items
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
            continue
        parts = sent_parts([block], [])
        if parts:
            yield DeveloperMessage(
                parts=parts, role="user" if message.role == "user" else "system"
            )
