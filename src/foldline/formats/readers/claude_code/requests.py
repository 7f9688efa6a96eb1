"""The requests in a file of Claude Code: what each of them sent, held by the digests that the file names.

From 2.1.332 on an `api-request` lists its messages by SHA-256 of their JSON: those of the request `base` up
to `keep`, then `tail`. What no message record holds as it was sent stands in an `api-request-blob`; system
prompt and tools stand in an `api-request-shape` (docs/design/claude-code.md).
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
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
    ImagePart,
    Kept,
    Part,
    RequestRecord,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    text_parts,
)

from .messages import blocks_of, is_boundary, is_summary, usage_of

REQUEST, _BLOB, _SHAPE = "api-request", "api-request-blob", "api-request-shape"
PARTS_OF_REQUESTS = (_BLOB, _SHAPE)
"""Records that only requests refer to."""
_NOTE_OPEN, _NOTE_CLOSE = "<system-reminder>\n", "\n</system-reminder>"
_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def in_order(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """The records with each request between its notes and its answer: either may be written on its wrong
    side."""
    ordered: list[JsonLine] = []
    begun: dict[str, int] = {}
    unanswered: int | None = None
    for line in lines:
        record, place = line.record, len(ordered)
        if record.kind == "assistant":
            begun.setdefault(record.text("requestRef"), place)
            unanswered = None
        elif record.kind == REQUEST:
            place = begun.get(record.text("id"), place)
            unanswered = place if place == len(ordered) else None
        elif record.kind == "attachment" and unanswered is not None:
            place, unanswered = unanswered, unanswered + 1
        ordered.insert(place, line)
    return ordered


class Sent(NamedTuple):
    """What a request sent."""

    messages: Sequence[BaseMessage]
    """The system prompt, then each block of the others as a message of its own; an answer is one."""
    is_whole: bool
    """Whether all of it, tools and parameters included, has the digest that the file names."""


class RecordedRequests:
    """What the requests of a file sent."""

    def __init__(self, lines: Sequence[JsonLine]) -> None:
        self.waiting: set[int] = set()
        """Positions of the records that a later request sends, in its own order."""
        self._messages: dict[str, JsonObject] = {}
        self._shapes: dict[str, JsonObject] = {}
        self._encoded: dict[str, bytes] = {}
        self._said: dict[str, Sequence[BaseMessage]] = {}
        self._lists: dict[str, list[str] | None] = {}
        """The digests of the messages of each request, by its id; None where one is missing."""
        self._answers: dict[str, JsonObject] = {}
        """The piece with most output of the answer to each request."""
        if any(line.record.kind == REQUEST for line in lines):
            self._take_in(lines)

    def _take_in(self, lines: Sequence[JsonLine]) -> None:
        pieces: dict[str, list[Json]] = defaultdict(list)
        since_request: list[Json] = []
        for line in lines:
            record = line.record
            match record.kind:
                case "api-request":
                    since_request = []
                case "api-request-blob":
                    self._learn(record.object("message"))
                case "api-request-shape":
                    self._shapes[_digest(_encode(record.object("shape")))] = record.object("shape")
                case "assistant":
                    answer = pieces[record.text("message", "id") or record.text("uuid")]
                    answer += blocks_of(record)
                    self._learn(JsonObject(role="assistant", content=[*answer]))
                    self._note_answer(record)
                case "user":
                    since_request += blocks_of(record)
                    self._learn(record.object("message"))
                    self._learn(JsonObject(role="user", content=[*since_request]))
        awaited = False
        for line in reversed(lines):
            if line.record.kind in (REQUEST, "assistant") or is_boundary(line.record):
                awaited = line.record.kind == REQUEST
            elif awaited and _may_wait(line.record):
                self.waiting.add(line.position)

    def _learn(self, message: JsonObject) -> None:
        """Know a message by its digest. A content that is a text counts as one block of text."""
        blocks = JsonObject({**message, "content": message.pieces("content")})
        encoded = _encode(blocks)
        name = _digest(encoded)
        self._messages[name], self._encoded[name] = blocks, encoded

    def _note_answer(self, record: JsonObject) -> None:
        name = record.text("requestRef")
        known = self._answers.get(name, JsonObject())
        if record.count("message", "usage", "output_tokens") >= known.count("usage", "output_tokens"):
            self._answers[name] = record.object("message")

    def read(self, record: JsonObject) -> Sent | None:
        """What this request sent; None where the file does not hold all of it."""
        base, tail = self._lists.get(record.text("base"), []), record.texts("tail")
        shape = self._shapes.get(record.text("shapeHash"))
        if base is None or shape is None or not set(tail) <= self._messages.keys():
            self._lists[record.text("id")] = None
            return None
        listed = self._lists[record.text("id")] = base[: record.count("keep")] + tail
        for name in (record.text("shapeHash"), *tail):
            self._know(name)
        messages = chain.from_iterable(map(self._said.__getitem__, (record.text("shapeHash"), *listed)))
        return Sent([*messages], self._digest_of(record, shape, listed) == record.text("requestDigest"))

    def _know(self, name: str) -> None:
        """Make the messages of this digest, which are the same objects from then on."""
        if name not in self._said and name in self._shapes:
            system = text_in(parts_of(self._shapes[name].get("system"), []))
            self._said[name] = (SystemMessage(parts=text_parts(system)),)
        elif name not in self._said:
            self._said[name] = tuple(_messages_in(self._messages[name]))

    def _digest_of(self, record: JsonObject, shape: JsonObject, listed: Sequence[str]) -> str:
        """The digest of the request: parameters, shape and messages, with the marks for caches."""
        body: Json = {**record.object("params"), **shape}
        marked: dict[int, Json] = {}
        for mark in record.objects("cacheControl"):
            match mark.array("path"):
                case ["messages", int(place), *path] if 0 <= place < len(listed):
                    message = marked.get(place, self._messages[listed[place]])
                    marked[place] = _marked(message, path, mark.get("value"))
                case path:
                    body = _marked(body, path, mark.get("value"))
        messages = [*map(self._encoded.__getitem__, listed)]
        for place, message in marked.items():
            messages[place] = _encode(message)
        fields = {key: self._text_of(key, value, shape) for key, value in JsonObject.of(body).items()}
        fields["messages"] = b"[" + b",".join(messages) + b"]"
        return _digest(b"{" + b",".join(_encode(key) + b":" + fields[key] for key in sorted(fields)) + b"}")

    def _text_of(self, key: str, value: Json, shape: JsonObject) -> bytes:
        """The JSON of a field. That of the tools is long, and mostly the same as before."""
        if shape.get(key) is not value:
            return _encode(value)
        name = f"{id(shape)} {key}"
        if name not in self._encoded:
            self._encoded[name] = _encode(value)
        return self._encoded[name]

    def entry(self, record: JsonObject) -> RequestRecord:
        """The record of a request, to be proved: until then its digest is the file's own."""
        answer = self._answers.get(record.text("id"), JsonObject())
        return RequestRecord(
            digest=record.text("requestDigest"),
            model=answer.text("model") or record.text("params", "model"),
            dialect=CLAUDE_CODE,
            usage=usage_of(answer.object("usage")),
            left=record.time("timestamp"),
        )


def _may_wait(record: JsonObject) -> bool:
    """Whether a record may be a message that a request sends."""
    by_user = record.kind in ("user", "attachment") or record.text("subtype") == "local_command"
    return by_user and not is_summary(record)


def _encode(value: Json) -> bytes:
    return _CANONICAL.encode(value).encode("utf-8", "surrogatepass")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _marked(value: Json, path: Sequence[Json], mark: Json) -> Json:
    """The value with a mark for caches at the end of this path. All beside the path is the same object."""
    if not path:
        return {**value, "cache_control": mark} if isinstance(value, dict) else value
    step, *rest = path
    if isinstance(value, dict) and step in value:
        return {**value, step: _marked(value[step], rest, mark)}
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        return [*value[:step], _marked(value[step], rest, mark), *value[step + 1 :]]
    return value


def _messages_in(message: JsonObject) -> Iterator[BaseMessage]:
    blocks = message.pieces("content")
    if message.get("role") == "assistant":
        yield AssistantMessage(parts=_parts(blocks))
        return
    for block in blocks:
        if block.kind == "tool_result":
            parts = _parts(block.pieces("content"))
            yield ToolResultMessage(
                call_id=block.text("tool_use_id"), is_error=block.flag("is_error"), parts=parts
            )
        elif parts := _parts([block]):
            yield DeveloperMessage(parts=parts, role="user" if message.get("role") == "user" else "system")


def _parts(blocks: Sequence[JsonObject]) -> tuple[Part, ...]:
    return parts_of([block for block in blocks if block.kind != "text" or block.get("text")], [])


# --- what is sent, in pieces that can be compared ------------------------------------------------------

Atom = tuple[str, ...]
"""A role, and what one part says in it. A tool result is one atom."""


def atoms(message: BaseMessage, content: str | None = None) -> tuple[Atom, ...]:
    """What a message sends, its reasoning apart. `content` stands in place of its text, if there is one."""
    said = message.parts if content is None else text_parts(content)
    pieces = tuple(piece for part in said if (piece := _piece(part)))
    match message:
        case ToolResultMessage():
            return (("tool", message.call_id, *(word for piece in pieces for word in piece)),)
        case SystemMessage(origin="prompt"):
            return (("system", text_in(said)),)
        case _:
            return tuple((_role(message), *piece) for piece in pieces)


def _role(message: BaseMessage) -> str:
    match message:
        case DeveloperMessage():
            return message.role
        case AssistantMessage():
            return "assistant"
        case _:
            return "user"


def _piece(part: Part) -> Atom:
    match part:
        case TextPart():
            return (part.text,)
        case ImagePart():
            return ("image", part.data)
        case ToolCallPart():
            return (part.call_id, part.name, part.arguments)
        case _:
            return ()


def sent_atoms(messages: Sequence[BaseMessage]) -> list[Atom]:
    return [atom for message in messages for atom in atoms(message)]


class Draft(NamedTuple):
    """A message that is new with a request."""

    message: BaseMessage
    nth: int | None = None
    """Its place among the messages that waited for a request; None where only the request holds it."""


Item = tuple[int, BaseMessage, str | None]
"""An entry of the view: its index, and the text that stands in place of its own, if there is one."""


def arranged(
    sent: Sequence[BaseMessage], view: Sequence[Item], waiting: Sequence[BaseMessage]
) -> list[Kept | Draft]:
    """What was sent, in order: entries of the view, messages that waited, and what neither of them says."""
    known: dict[Atom, list[tuple[tuple[Atom, ...], Kept | Draft]]] = defaultdict(list)
    replaceable: dict[str, Kept | Draft] = {}
    """Those whose text a request may change, by the id of their call; the system prompt by none."""
    for index, message, content in view:
        if said := atoms(message, content):
            known[_words(said[0])].append((said, Kept(ref=index)))
        if isinstance(message, ToolResultMessage):
            replaceable[message.call_id] = Kept(ref=index, fate="clipped")
        elif isinstance(message, SystemMessage) and message.origin == "prompt":
            replaceable[""] = Kept(ref=index, fate="clipped")
    for nth, message in enumerate(waiting):
        if isinstance(message, ToolResultMessage):
            replaceable[message.call_id] = Draft(message, nth)
        if said := atoms(message):
            known[_words(said[0])].append((said, Draft(message, nth)))
    messages = [message for message in sent for _ in atoms(message)]
    wanted = sent_atoms(sent)
    order: list[Kept | Draft] = []
    place = 0
    while place < len(wanted):
        choices = known[_words(wanted[place])]
        choice = next((each for each in choices if _fits(each, wanted[place : place + len(each[0])])), None)
        if choice is None:
            order.append(_new(messages[place], replaceable))
            place += len(atoms(messages[place]))
            continue
        choices.remove(choice)
        said, found = choice
        order.append(_as_sent(found, wanted[place : place + len(said)]))
        place += len(said)
    return order


def _words(atom: Atom) -> Atom:
    """What an atom says in any role: a note stands in tags only in the role user, and between neighbours a
    line end may be added."""
    return tuple(word.strip().removeprefix(_NOTE_OPEN).removesuffix(_NOTE_CLOSE) for word in atom[1:])


def _fits(choice: tuple[tuple[Atom, ...], Kept | Draft], wanted: Sequence[Atom]) -> bool:
    said, found = choice
    if isinstance(found, Kept) or isinstance(found.message, ToolResultMessage):
        return [*said] == wanted
    return [*map(_words, said)] == [*map(_words, wanted)]


def _as_sent(found: Kept | Draft, wanted: Sequence[Atom]) -> Kept | Draft:
    """A draft in the role, and in the very words, that it was sent in."""
    if isinstance(found, Kept) or isinstance(found.message, ToolResultMessage):
        return found
    pairs = zip(found.message.parts, wanted, strict=True)
    parts = tuple(TextPart(text=atom[1]) if isinstance(part, TextPart) else part for part, atom in pairs)
    if wanted[0][0] == "system":
        source = found.message.source if isinstance(found.message, DeveloperMessage) else None
        return found._replace(message=DeveloperMessage(parts=parts, source=source))
    role = {"role": "user"} if isinstance(found.message, DeveloperMessage) else {}
    return found._replace(message=found.message.model_copy(update={"parts": parts, **role}))


def _new(message: BaseMessage, replaceable: Mapping[str, Kept | Draft]) -> Kept | Draft:
    """A message that says what none says so far: the new text of one that is known, or another one."""
    key = message.call_id if isinstance(message, ToolResultMessage) else ""
    is_replaceable = isinstance(message, ToolResultMessage | SystemMessage)
    match replaceable.get(key) if is_replaceable else None:
        case Kept() as entry:
            return entry.model_copy(update={"content": message.text})
        case Draft(draft, nth):
            return Draft(draft.model_copy(update={"parts": message.parts}), nth)
        case _:
            return Draft(message)


# --- the proof --------------------------------------------------------------------------------------


def proved(entries: Sequence[Entry], sent: Mapping[int, Sequence[BaseMessage]]) -> Iterator[RequestRecord]:
    """The records whose requests sent what the history up to them gives, each with the digest of that.

    `sent` are the messages of each request that has its digest, by the index of its record.
    """
    projection, pairs, running = Projection(), RunningPairs(), RunningDigest()
    known: tuple[Sequence[BaseMessage], Sequence[BaseMessage]] = (), ()
    """What was sent before, and the messages it was compared with."""
    for entry in entries:
        if isinstance(entry, RequestRecord) and entry.index in sent:
            both = sent[entry.index], pairs.of(projection.view)
            grown = extends(known[0], both[0]) and extends(known[1], both[1])
            starts = (len(known[0]), len(known[1])) if grown else (0, 0)
            if sent_atoms(both[0][starts[0] :]) == sent_atoms(both[1][starts[1] :]):
                known = both
                proof = {"digest": running.of(both[1]), "view_items": len(both[1])}
                yield entry.model_copy(update=proof)
        projection.append(entry)
