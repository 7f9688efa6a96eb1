"""Chat messages as programs hold them, dictionaries of OpenAI's or Anthropic's API: read as ours, and written
back. What stays is the very dictionary that came, keys unknown here included."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from foldline.context.view import with_recall
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    FoldlineError,
    ImagePart,
    Part,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

ChatMessage = dict[str, Any]

_MOST_OF_UNKNOWN = 12_000
"""Characters of a block of a kind unknown here that count: audio and documents are no text."""
_FRAME = re.compile(r"<summary>\n.*\n</summary>\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """One message of ours, and what it was made of."""

    message: BaseMessage
    position: int | None
    """Of its dictionary, in the whole conversation; None for a summary that a compaction wrote."""
    blocks: tuple[int, ...] | None = None
    """The places of its blocks in the content; None: all of it."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a message of a compressed conversation comes from."""

    kind: Literal["kept", "shortened", "summary"]
    positions: tuple[int, ...]
    """Of the messages it holds or stands for, in the whole conversation, counted from 0."""


def pieces_of(
    message: ChatMessage, position: int, number: int, *, calls: Mapping[str, str], leading: bool
) -> list[Piece]:
    """A dictionary as messages of ours: one, or more where it holds tool results.

    Args:
        number: of the first of them; the others follow.
        calls: the names of all tools called so far, by the ids of the calls.
        leading: whether only system prompts came before it.

    Raises:
        FoldlineError: its role is none of system, developer, user, assistant and tool.
    """
    role, content = message.get("role"), message.get("content")
    match role:
        case "system" | "developer":
            made = SystemMessage if leading else DeveloperMessage
            return [Piece(made(index=number, parts=_parts(content)), position)]
        case "assistant":
            parts = (*_reasoning(message), *_parts(content), *_calls(message))
            return [Piece(AssistantMessage(index=number, parts=parts), position)]
        case "tool":
            result = _result(str(message.get("tool_call_id", "")), content, False, number, calls)
            return [Piece(result, position)]
        case "user":
            return list(_of_user(content, position, number, calls))
    raise FoldlineError(
        f"Message {position} has the role {role!r}: there are system, developer, user, assistant and tool."
    )


def _of_user(content: object, position: int, number: int, calls: Mapping[str, str]) -> Iterator[Piece]:
    """The results of a message in the role user, each by itself, and what else it holds."""
    if not (isinstance(content, list) and content):
        yield Piece(_user(number, _parts(content)), position)
        return
    for is_result, run in groupby(enumerate(content), key=lambda each: _kind(each[1]) == "tool_result"):
        blocks = list(run)
        if not is_result:
            places = tuple(place for place, _ in blocks)
            yield Piece(_user(number, _parts([block for _, block in blocks])), position, places)
            number += 1
            continue
        for place, block in blocks:
            called, failed = str(block.get("tool_use_id", "")), block.get("is_error") is True
            result = _result(called, block.get("content"), failed, number, calls)
            yield Piece(result, position, (place,))
            number += 1


def _user(number: int, parts: tuple[Part, ...]) -> BaseMessage:
    """What the user said; a summary of ours, where it was given back."""
    message = UserMessage(index=number, parts=parts)
    if _FRAME.search(message.text):
        return SystemMessage(index=number, origin="summary", parts=parts)
    return message


def _result(
    call_id: str, content: object, failed: bool, number: int, calls: Mapping[str, str]
) -> BaseMessage:
    """A tool result; one without its call is text of a program."""
    if call_id not in calls:
        return UserMessage(index=number, origin="machine", parts=_parts(content))
    return ToolResultMessage(
        index=number, call_id=call_id, name=calls[call_id], is_error=failed, parts=_parts(content)
    )


def _kind(block: object) -> str:
    return str(block.get("type", "")) if isinstance(block, Mapping) else ""


def _parts(content: object) -> tuple[Part, ...]:
    if isinstance(content, str):
        return text_parts(content)
    return tuple(_part(block) for block in content) if isinstance(content, list) else ()


def _part(block: object) -> Part:
    """A block as one of our parts; one of a kind unknown here as the text of its JSON, for its size."""
    if not isinstance(block, Mapping):
        return TextPart(text=str(block))
    match block.get("type"):
        case "text" | "input_text" | "output_text":
            return TextPart(text=str(block.get("text", "")))
        case "thinking":
            return ThinkingPart(text=str(block.get("thinking", "")), signature=block.get("signature"))
        case "tool_use":
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            return ToolCallPart(
                call_id=str(block.get("id")), name=str(block.get("name")), arguments=arguments
            )
        case "image_url" | "image" | "input_image":
            return ImagePart(media_type="image/*", data="")
        case _:
            text = json.dumps(block, ensure_ascii=False, default=str)
            return TextPart(text=text[:_MOST_OF_UNKNOWN])


def _reasoning(message: ChatMessage) -> tuple[ThinkingPart, ...]:
    text = message.get("reasoning_content") or message.get("reasoning")
    return (ThinkingPart(text=text),) if isinstance(text, str) else ()


def _calls(message: ChatMessage) -> Iterator[ToolCallPart]:
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call.get("custom") or {}
        arguments = function.get("arguments", function.get("input", ""))
        yield ToolCallPart(
            call_id=str(call.get("id")), name=str(function.get("name")), arguments=str(arguments)
        )


# --- written back -----------------------------------------------------------------------------------


def written(
    view: Sequence[BaseMessage], pieces: Mapping[int, Piece], chat: Sequence[ChatMessage], recall: str | None
) -> tuple[list[ChatMessage], list[Source]]:
    """A view as dictionaries, and where each comes from. `recall` is the tool that shows an original by its
    number; without one the view does not speak of it."""
    messages: list[ChatMessage] = []
    sources: list[Source] = []
    blocks = Counter(piece.position for piece in pieces.values())
    shown = {pieces[each.index].position for each in view}
    gone = tuple(position for position in range(len(chat)) if position not in shown)
    for position, run in groupby(view, key=lambda each: pieces[each.index].position):
        group = list(run)
        if position is None:
            messages += [{"role": "user", "content": with_recall(each.text, recall)} for each in group]
            sources += [Source("summary", gone) for _ in group]
        elif len(group) == blocks[position] and all(each is pieces[each.index].message for each in group):
            messages.append(chat[position])
            sources.append(Source("kept", (position,)))
        else:
            messages.append(_shortened(chat[position], group, pieces, recall))
            sources.append(Source("shortened", (position,)))
    return messages, sources


def _shortened(
    message: ChatMessage, group: Sequence[BaseMessage], pieces: Mapping[int, Piece], recall: str | None
) -> ChatMessage:
    """The dictionary with the texts of these messages, and without the blocks of others."""
    content = message.get("content")
    if not isinstance(content, list) or pieces[group[0].index].blocks is None:
        return {**message, "content": _in_place(content, with_recall(group[0].text, recall))}
    blocks: list[object] = []
    for each in group:
        piece = pieces[each.index]
        own = [content[place] for place in piece.blocks or ()]
        if each is piece.message:
            blocks += own
        elif isinstance(each, ToolResultMessage):
            blocks.append({**own[0], "content": with_recall(each.text, recall)})
        else:
            blocks += _in_place(own, with_recall(each.text, recall))
    return {**message, "content": blocks}


def _in_place(content: object, text: str) -> Any:
    """A content with this text in place of its own; calls and thinking stay."""
    if not isinstance(content, list):
        return text
    stays = [block for block in content if _kind(block) in ("tool_use", "thinking", "redacted_thinking")]
    thoughts = [block for block in stays if _kind(block) != "tool_use"]
    return [*thoughts, {"type": "text", "text": text}, *(block for block in stays if block not in thoughts)]
