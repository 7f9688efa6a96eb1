"""Puts one answer together from the events of a `/responses` stream. Pure, and forgiving.

An answer is a list of items. Deltas let them grow; the finished item fills in what was not streamed.
"""

from collections.abc import Hashable, Mapping
from typing import Literal

from foldline.protocol import AssistantMessage, Part, TextPart, ThinkingPart, ToolCallPart, Usage
from foldline.protocol.messages import StopReason

from ..answer import CallIds, Growing, Room
from ..base import TextChunk, ThinkingChunk, ToolCallChunk
from ..loose import count, is_json_object, mapping, sequence, string
from ..wire import TOO_MUCH, Expected, Said
from .items import signature_of

_Kind = Literal["message", "reasoning", "function_call"]

_DELTAS: Mapping[str, _Kind] = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",  # open models, which hide nothing
    "response.function_call_arguments.delta": "function_call",
}
_ENDS = frozenset({"response.completed", "response.incomplete", "response.cancelled", "response.done"})


class _Item:
    """One item of the answer, while it arrives."""

    def __init__(self, kind: _Kind, room: Room) -> None:
        self.kind = kind
        self.text = Growing(room)
        """What it says; of a call, its arguments."""
        self.name = ""
        self.call_id = ""
        self.signature: str | None = None
        self._told_as = ""
        self._paragraph: object = None
        self._room = room

    def grow(self, told_as: str, paragraph: object, delta: str) -> str:
        """What of a delta can be shown now. Of a summary and the reasoning itself the first counts."""
        self._told_as = self._told_as or told_as
        if told_as != self._told_as:
            return ""
        if self.text and paragraph != self._paragraph:
            delta = "\n\n" + delta
        self._paragraph = paragraph
        return self.text.add(delta)

    def finish(self, item: Mapping[str, object]) -> str:
        """Takes the finished item; what of its text had not been streamed."""
        match self.kind:
            case "function_call":
                self.name = string(item.get("name")) or self.name
                self.call_id = string(item.get("call_id")) or self.call_id
                told = string(item.get("arguments"))
                if self.text and told and str(self.text) != told and not is_json_object(str(self.text)):
                    self.text = Growing(self._room)
            case "message":
                told = "\n".join(_texts(item.get("content")))
            case "reasoning":
                told = "\n\n".join(_texts(item.get("summary")) or _texts(item.get("content")))
                item_id, encrypted = string(item.get("id")), string(item.get("encrypted_content"))
                if item_id and encrypted:
                    self.signature = signature_of(item_id, encrypted)
        return self.text.add(told) if not self.text else ""


class ResponsesAssembly:
    """One answer, while it arrives."""

    def __init__(self, expected: Expected, signer: str) -> None:
        """`signer` is who can read the reasoning again: see `ThinkingPart.signed_by`."""
        self.usage: Usage | None = None
        self._expected = expected
        self._signer = signer
        self._room = Room(expected.most)
        self._items: dict[Hashable, _Item] = {}
        self._end: Mapping[str, object] | None = None
        self._refused = False

    @property
    def started(self) -> bool:
        return any(item.text or item.name for item in self._items.values())

    @property
    def characters(self) -> int:
        return self._room.taken

    @property
    def full(self) -> bool:
        return self._room.full

    @property
    def complete(self) -> bool:
        return self._end is not None

    @property
    def over(self) -> bool:
        return self._end is not None

    @property
    def overflowed(self) -> bool:
        """A full window is an error in this API."""
        return False

    def feed(self, piece: object) -> list[Said]:
        """Takes one decoded event; what it adds to the answer."""
        event = mapping(piece)
        kind = string(event.get("type"))
        if kind in _DELTAS:
            return self._grow(kind, event)
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = mapping(event.get("item"))
            return self._take(self._key(event, item), item, done=kind.endswith("done"))
        if kind in _ENDS:
            return self._finish(mapping(event.get("response")))
        if event.get("object") == "response":  # Asked for a stream, it answers in one piece.
            return self._finish(event)
        return []

    def message(self, error: str | None = None) -> AssistantMessage:
        """The answer so far; with `error`, as what was left by a failure."""
        ids = CallIds(self._expected.taken, self._expected.stem)
        parts: list[Part] = []
        for number, item in enumerate(self._items.values()):
            parts += self._parts(item, number, ids)
        return AssistantMessage(
            parts=tuple(parts),
            model=self._expected.model,
            usage=self.usage,
            stop_reason="error" if error else self._stop_reason(parts),
            error=error or (TOO_MUCH.format(model=self._expected.model) if self.full else None),
        )

    def _parts(self, item: _Item, number: int, ids: CallIds) -> list[Part]:
        text = str(item.text)
        match item.kind:
            case "message":
                return [TextPart(text=text)] if text else []
            case "reasoning":
                if item.signature is None:
                    return [ThinkingPart(text=text)] if text else []
                return [ThinkingPart(text=text, signature=item.signature, signed_by=self._signer)]
            case "function_call":
                arguments = text.strip() or "{}"
                if not item.name and not text:
                    return []
                if self.full and not is_json_object(arguments):
                    return []  # Cut off by us, it cannot run, and says nothing to a reader.
                call_id = ids.unique(item.call_id, number)
                return [ToolCallPart(call_id=call_id, name=item.name, arguments=arguments)]

    def _stop_reason(self, parts: list[Part]) -> StopReason:
        end = self._end or {}
        reason = string(mapping(end.get("incomplete_details")).get("reason"))
        if self.full or "max_output" in reason or reason == "max_tokens":
            return "length"
        if reason == "content_filter" or self._refused:
            return "filtered"
        return "tool_calls" if any(isinstance(part, ToolCallPart) for part in parts) else "stop"

    def _grow(self, kind: str, event: Mapping[str, object]) -> list[Said]:
        self._refused = self._refused or kind == "response.refusal.delta"
        item = self._item(self._key(event, event), _DELTAS[kind])
        paragraph = event.get("summary_index", event.get("content_index"))
        return _shown(item, item.grow(kind, paragraph, string(event.get("delta"))))

    def _take(self, key: Hashable, item: Mapping[str, object], *, done: bool) -> list[Said]:
        kind = item.get("type")
        if kind not in ("message", "reasoning", "function_call"):
            return []
        found = self._item(key, kind)
        if kind == "function_call" and not done:
            found.name, found.call_id = string(item.get("name")), string(item.get("call_id"))
            return [ToolCallChunk(found.name)]
        if not done:
            return []
        contents = sequence(item.get("content"))
        self._refused = self._refused or any(mapping(part).get("type") == "refusal" for part in contents)
        return _shown(found, found.finish(item))

    def _finish(self, response: Mapping[str, object]) -> list[Said]:
        self._end = response
        self._take_usage(response.get("usage"))
        chunks: list[Said] = []
        streamed = bool(self._items)
        for place, value in enumerate(sequence(response.get("output"))):
            if self.full:
                break
            item = mapping(value)
            key: Hashable = place if place in self._items else string(item.get("id"))
            if not streamed:
                chunks += self._take(place, item, done=True)
            elif key in self._items:
                chunks += self._take(key, item, done=True)
        return chunks

    def _key(self, event: Mapping[str, object], item: Mapping[str, object]) -> Hashable:
        """Which item is meant: by its place, else by its id, else the newest."""
        place, item_id = event.get("output_index"), string(item.get("item_id")) or string(item.get("id"))
        if isinstance(place, int):
            return place
        return item_id or next(reversed(self._items), 0)

    def _item(self, key: Hashable, kind: _Kind) -> _Item:
        found = self._items.get(key)
        if found is None or found.kind != kind:
            key = key if found is None else (key, kind)
            if key not in self._items:
                self._room.take_call()
                self._items[key] = _Item(kind, self._room)
        return self._items[key]

    def _take_usage(self, value: object) -> None:
        usage = mapping(value)
        if not usage:
            return
        self.usage = Usage(
            input=count(usage.get("input_tokens")),
            cached=count(mapping(usage.get("input_tokens_details")).get("cached_tokens")),
            output=count(usage.get("output_tokens")),
            reasoning=count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
        )


def _shown(item: _Item, text: str) -> list[Said]:
    match item.kind:
        case _ if not text:
            return []
        case "message":
            return [TextChunk(text)]
        case "reasoning":
            return [ThinkingChunk(text)]
        case "function_call":
            return [ToolCallChunk(item.name, text)]


def _texts(value: object) -> list[str]:
    """The texts of a list of content parts, refusals included."""
    parts = [mapping(part) for part in sequence(value)]
    return [text for part in parts if (text := string(part.get("text")) or string(part.get("refusal")))]
