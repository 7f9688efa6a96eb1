"""The parts of messages as agents spell them: texts, thoughts, images and calls; usage; who speaks."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TypeVar

from foldline.protocol import (
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.protocol.messages import StopReason

from .base import Json, JsonObject

V = TypeVar("V")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NAMED_KINDS = 8
BESIDE = "A request beside the conversation."
"""The notice of one: its tokens count."""
LONGEST_KIND = 40


def parts_of(content: Json, left_out: list[str]) -> tuple[Part, ...]:
    """The parts of a content, a text or a list of pieces. The kinds of those left out are added to a list."""
    if isinstance(content, str):
        return text_parts(content)
    parts: list[Part] = []
    for piece in content if isinstance(content, list) else ():
        if isinstance(piece, str):
            parts.append(TextPart(text=piece))
        elif part := _part(JsonObject.of(piece)):
            parts.append(part)
        else:
            left_out.append(kind_of(JsonObject.of(piece)))
    return tuple(parts)


def _part(piece: JsonObject) -> Part | None:
    """A piece of a message, as any agent spells it; None for what cannot be shown here."""
    return _said(piece) or _shown(piece) or _called(piece)


def _said(piece: JsonObject) -> TextPart | ThinkingPart | None:
    match piece.kind:
        case "text" | "input_text" | "output_text":
            return TextPart(text=piece.text("text"))
        case "refusal":
            return TextPart(text=piece.text("refusal"))
        case "think":
            return ThinkingPart(text=piece.text("think"), signature=piece.text("encrypted") or None)
        case "thinking":
            signature = piece.first("signature", "thinkingSignature")
            return ThinkingPart(text=piece.text("thinking"), signature=signature or None)
        case "thinking_text":
            return ThinkingPart(text=piece.text("text"))
        case "tool_reference" if piece.text("tool_name"):
            return TextPart(text=f"(loaded the tool {piece.text('tool_name')})")
        case _:
            return None


def _shown(piece: JsonObject) -> Part | None:
    match piece.kind:
        case "image":
            data = piece.text("data") or piece.text("source", "data")
            return image(data, piece.text("mimeType") or piece.text("source", "media_type"))
        case "image_url" | "input_image":
            return image_at(piece.text("image_url") or piece.text("image_url", "url") or piece.text("url"))
        case "image_file" if piece.text("file_path"):
            return TextPart(text=f"(image: {piece.text('file_path')})")
        case _:
            return None


def _called(piece: JsonObject) -> ToolCallPart | None:
    match piece.kind:
        case "tool_use":
            return call_part(piece.text("id"), piece.text("name"), piece.at("input"))
        case "toolCall":
            return call_part(piece.text("id"), piece.text("name"), piece.at("arguments"))
        case "tool_call":
            return call_part(piece.text("call_id"), piece.text("tool_name"), piece.at("arguments_json"))
        case _:
            return None


def image(data: str, media_type: str) -> ImagePart | None:
    return ImagePart(media_type=media_type or "image/png", data=data) if data else None


def image_at(url: str) -> Part | None:
    """The image a URL holds; where it only points to one, the place it points to, as text."""
    head = _DATA_URL.match(url)
    if head is None:
        return TextPart(text=f"(image: {url})") if url and not url.startswith("data:") else None
    return ImagePart(media_type=head[1], data=url[head.end() :])


def text_in(parts: Iterable[Part], between: str = "\n") -> str:
    return between.join(part.text for part in parts if isinstance(part, TextPart))


def of_kind(pieces: Iterable[JsonObject], kind: str) -> list[JsonObject]:
    """Return the pieces of this type."""
    return [piece for piece in pieces if piece.kind == kind]


def first_text(texts: Iterable[str]) -> str:
    """Return the first text that is not empty, or an empty one."""
    return next(filter(None, texts), "")


# --- calls ------------------------------------------------------------------------------------------


def call_part(call_id: str, name: str, arguments: Json) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, name=name, arguments=arguments_text(arguments))


def tool_call_parts(calls: Json, position: int) -> tuple[ToolCallPart, ...]:
    """The calls of an answer of OpenAI. One without an id gets one made of the answer's position."""
    return tuple(
        call_part(
            call.text("id") or f"call_{position}_{nth}",
            call.text("function", "name"),
            call.at("function", "arguments"),
        )
        for nth, call in enumerate(JsonObject(calls=calls).objects("calls"))
    )


def arguments_of(call: ToolCallPart | None) -> JsonObject:
    return JsonObject.of(call.parsed()) if call else JsonObject()


def arguments_text(arguments: Json) -> str:
    """Arguments as JSON text: as the model wrote them where the file holds text, else written anew."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return _COMPACT.encode({} if arguments is None else arguments)


def thinking_parts(text: str) -> tuple[ThinkingPart, ...]:
    """Return a thought as the parts of a message; none for an empty text."""
    return (ThinkingPart(text=text),) if text else ()


def has_image(parts: Iterable[Part]) -> bool:
    return any(isinstance(part, ImagePart) for part in parts)


# --- usage ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UsageFields:
    """How an agent names the tokens of a request: each is the sum of these fields.

    `cache.read` is a field of a field; of `input|prompt` the first counts that is there.
    """

    input: tuple[str, ...]
    output: tuple[str, ...]
    cached: str
    reasoning: str = "reasoning"

    def read(self, usage: Json) -> Usage | None:
        """What the provider reported; None where it comes to nothing, as that of an aborted answer does."""
        tokens = JsonObject.of(usage)
        reported = Usage(
            input=sum(_count(tokens, name) for name in self.input),
            cached=_count(tokens, self.cached),
            output=sum(_count(tokens, name) for name in self.output),
            reasoning=_count(tokens, self.reasoning),
        )
        return reported if reported.total else None


def _count(tokens: JsonObject, name: str) -> int:
    for path in _paths(name):
        if tokens.at(*path) is not None:
            return tokens.count(*path)
    return 0


@cache
def _paths(name: str) -> list[list[str]]:
    return [each.split(".") for each in name.split("|")]


ANTHROPIC_USAGE = UsageFields(
    input=("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    cached="cache_read_input_tokens",
    output=("output_tokens",),
)


_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop",
    "tool_calls": "tool_calls", "tool-calls": "tool_calls", "tool_use": "tool_calls", "toolUse": "tool_calls",
    "function_call": "tool_calls",
    "length": "length", "max_tokens": "length", "model_context_window_exceeded": "length",
    "content_filter": "filtered", "content-filter": "filtered", "refusal": "filtered",
    "aborted": "cancelled", "error": "error",
}  # fmt: skip


def stop_reason(word: str) -> StopReason | None:
    """Why an answer ended, in the words of any agent."""
    return _STOP_REASONS.get(word)


# --- who speaks -------------------------------------------------------------------------------------


def by_voice(spoken: Iterable[tuple[V, Part]]) -> Iterator[tuple[V, tuple[Part, ...]]]:
    """Parts of one message, those together that one voice says in turn."""
    for voice, group in groupby(spoken, key=lambda pair: pair[0]):
        yield voice, tuple(part for _, part in group)


def user_message(parts: tuple[Part, ...], *, typed: bool) -> UserMessage:
    return UserMessage(parts=parts, origin="typed" if typed else "machine")


def user_messages(parts: Iterable[Part], is_program: Callable[[str], bool]) -> list[UserMessage]:
    """What stands in the role user: the user's own words apart from the program's, judged by each text,
    which is empty for an image."""
    voices = ((is_program(part.text if isinstance(part, TextPart) else ""), part) for part in parts)
    return [
        UserMessage(origin="machine" if program else "typed", parts=said)
        for program, said in by_voice(voices)
    ]


# --- notes ------------------------------------------------------------------------------------------


def kind_of(piece: JsonObject) -> str:
    return piece.kind.strip()[:LONGEST_KIND] or "without a type"


def left_out_note(kinds: Iterable[str]) -> tuple[str, ...]:
    named = by_kind(kinds)
    return (f"Left out, pieces of messages of a kind that cannot be shown here: {named}.",) if named else ()


def unknown_note(kinds: Iterable[str]) -> tuple[str, ...]:
    """A sentence on records of unknown kinds: kept, but in no view."""
    named = by_kind(kinds)
    return (f"Not in the view, records of kinds unknown here: {named}.",) if named else ()


def counted_notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the notes whose count is not 0."""
    return (note for note, count in counts.items() if count)


def by_kind(kinds: Iterable[str]) -> str:
    """`audio (2), document (1)`, the most frequent first."""
    counts = Counter(kinds).most_common()
    named = [f"{kind} ({count})" for kind, count in counts[:_NAMED_KINDS]]
    rest = counts[_NAMED_KINDS:]
    if rest:
        named.append(f"{len(rest)} more kinds ({sum(count for _, count in rest)})")
    return ", ".join(named)


def sub_agent_note(by_agent: bool) -> tuple[str, ...]:
    return (
        ("These are the steps of a sub-agent: the agent that started it wrote its prompts.",)
        if by_agent
        else ()
    )
