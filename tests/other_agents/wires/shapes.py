"""What the four APIs have in common: items of a conversation, tools, and a reply."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

Json = dict[str, Any]
Role = Literal["system", "user", "assistant", "call", "result"]


class Item(NamedTuple):
    """The text of a message, one tool call, or one result. A call is its name and its arguments as JSON."""

    role: Role
    text: str


@dataclass(frozen=True)
class Tool:
    """A tool that an agent offers, with the JSON schema of its arguments."""

    name: str
    schema: Json

    @property
    def properties(self) -> Json:
        return self.schema.get("properties") or {}

    @property
    def required(self) -> list[str]:
        return self.schema.get("required") or []


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Json
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """An answer of the model; its token counts are estimates of four characters a token."""

    text: str
    calls: tuple[Call, ...] = ()
    id: str = "reply"
    input_tokens: int = 1
    output_tokens: int = field(default=1)


class Wire(Protocol):
    """One API. `stream` yields the events of a reply as they are sent."""

    def items(self, body: Json) -> list[Item]: ...

    def tools(self, body: Json) -> list[Tool]: ...

    def whole(self, reply: Reply) -> Json: ...

    def stream(self, reply: Reply) -> Iterator[bytes]: ...


def call_item(name: str, arguments: Any) -> Item:
    """A call as an item. Arguments in JSON text are parsed first, so that spacing and order do not count."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return Item("call", f"{name} {arguments}")
    return Item(
        "call",
        f"{name} {json.dumps(arguments or {}, sort_keys=True, ensure_ascii=False)}",
    )


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or parts, of which others than text are named."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else _part_text(part) for part in content]
    return "\n".join(part for part in parts if part)


def _part_text(part: Json) -> str:
    if "text" in part:
        return str(part["text"])
    return f"<{part.get('type', 'part')}>"


def event(data: Json, name: str = "") -> bytes:
    """A server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def slices(text: str, size: int = 40) -> Iterator[str]:
    """The text in pieces, as a model streams it."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
