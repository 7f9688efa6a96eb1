"""The parts of messages as agents spell them: texts, thoughts, images and calls; usage; who speaks."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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

from .base import Json, count_at, list_at, objects_at, text_at, value_at

V = TypeVar("V")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NAMED_KINDS = 8
LONGEST_KIND = 40

PartReader = Callable[[Json], Part | None]


def parts_of(content: Json, left_out: list[str], part_of: PartReader | None = None) -> tuple[Part, ...]:
    """The parts of a content, a text or a list of pieces. The kinds of those left out are added to a list.

    `part_of` is for agents that spell pieces in their own way; without it they are those of OpenAI.
    """
    if isinstance(content, str):
        return text_parts(content)
    parts: list[Part] = []
    for piece in list_at(content):
        part = (part_of or chat_part)(piece)
        if part is None:
            left_out.append(kind_of(piece))
        else:
            parts.append(part)
    return tuple(parts)


def chat_part(piece: Json) -> Part | None:
    """A piece of a chat message of OpenAI, and of kimi-cli; None for what cannot be shown here."""
    if isinstance(piece, str):
        return TextPart(text=piece)
    match value_at(piece, "type"):
        case "text" | "input_text" | "output_text":
            return TextPart(text=text_at(piece, "text"))
        case "refusal":
            return TextPart(text=text_at(piece, "refusal"))
        case "think":
            return ThinkingPart(text=text_at(piece, "think"), signature=text_at(piece, "encrypted") or None)
        case "image_url" | "input_image":
            return image_at(
                text_at(piece, "image_url") or text_at(piece, "image_url", "url") or text_at(piece, "url")
            )
        case _:
            return None


def anthropic_part(block: Json) -> Part | None:
    match value_at(block, "type"):
        case "text":
            return TextPart(text=text_at(block, "text"))
        case "thinking":
            return ThinkingPart(
                text=text_at(block, "thinking"), signature=text_at(block, "signature") or None
            )
        case "tool_use":
            return call_part(text_at(block, "id"), text_at(block, "name"), value_at(block, "input"))
        case "image":
            return image(value_at(block, "source", "data"), value_at(block, "source", "media_type"))
        case "tool_reference" if text_at(block, "tool_name"):
            return TextPart(text=f"(loaded the tool {text_at(block, 'tool_name')})")
        case _:
            return None


def image(data: Json, media_type: Json) -> ImagePart | None:
    if not text_at(data):
        return None
    return ImagePart(media_type=text_at(media_type) or "image/png", data=text_at(data))


def image_at(url: str) -> Part | None:
    """The image a URL holds; where it only points to one, the place it points to, as text."""
    head = _DATA_URL.match(url)
    if head is None:
        return TextPart(text=f"(image: {url})") if url and not url.startswith("data:") else None
    return ImagePart(media_type=head[1], data=url[head.end() :])


def text_in(parts: Iterable[Part], between: str = "\n") -> str:
    return between.join(part.text for part in parts if isinstance(part, TextPart))


# --- calls ------------------------------------------------------------------------------------------


def call_part(call_id: str, name: str, arguments: Json) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, name=name, arguments=arguments_text(arguments))


def tool_call_parts(calls: Json, position: int) -> tuple[ToolCallPart, ...]:
    """The calls of an answer of OpenAI. One without an id gets one made of the answer's position."""
    return tuple(
        call_part(
            text_at(call, "id") or f"call_{position}_{nth}",
            text_at(call, "function", "name"),
            value_at(call, "function", "arguments"),
        )
        for nth, call in enumerate(objects_at(calls))
    )


def arguments_text(arguments: Json) -> str:
    """Arguments as JSON text: as the model wrote them where the file holds text, else written anew."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return _COMPACT.encode({} if arguments is None else arguments)


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

    def read(self, tokens: Json) -> Usage | None:
        """What the provider reported; None where it comes to nothing, as that of an aborted answer does."""
        reported = Usage(
            input=sum(_count(tokens, name) for name in self.input),
            cached=_count(tokens, self.cached),
            output=sum(_count(tokens, name) for name in self.output),
            reasoning=_count(tokens, self.reasoning),
        )
        return reported if reported.total else None


def _count(tokens: Json, name: str) -> int:
    found = (value_at(tokens, *path) for path in _paths(name))
    return count_at(next((value for value in found if value is not None), 0))


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


def stop_reason(record: Json, *path: str) -> StopReason | None:
    """Why an answer ended, in the words of any agent."""
    return _STOP_REASONS.get(text_at(record, *path))


# --- who speaks -------------------------------------------------------------------------------------


def by_voice(spoken: Iterable[tuple[V, Part]]) -> Iterator[tuple[V, tuple[Part, ...]]]:
    """Parts of one message, those together that one voice says in turn."""
    for voice, group in groupby(spoken, key=lambda pair: pair[0]):
        yield voice, tuple(part for _, part in group)


def user_messages(parts: Iterable[Part], is_program: Callable[[str], bool]) -> list[UserMessage]:
    """What stands in the role user: the user's own words apart from the program's, judged by each text,
    which is empty for an image."""
    voices = ((is_program(part.text if isinstance(part, TextPart) else ""), part) for part in parts)
    return [
        UserMessage(origin="machine" if program else "typed", parts=said)
        for program, said in by_voice(voices)
    ]


# --- notes ------------------------------------------------------------------------------------------


def kind_of(piece: Json) -> str:
    return text_at(piece, "type").strip()[:LONGEST_KIND] or "without a type"


def left_out_note(kinds: Iterable[str]) -> tuple[str, ...]:
    named = by_kind(kinds)
    return (f"Left out, pieces of messages of a kind that cannot be shown here: {named}.",) if named else ()


def unknown_note(kinds: Iterable[str]) -> tuple[str, ...]:
    """A sentence on records of unknown kinds: kept, but in no view."""
    named = by_kind(kinds)
    return (f"Not in the view, records of kinds unknown here: {named}.",) if named else ()


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
