"""Reads and writes the chat messages of OpenAI's and Anthropic's APIs as dictionaries.

An unchanged message is returned as the same dictionary object, with all of its keys.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

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
from foldline.view.items import Messages, with_recall

ChatMessage = dict[str, Any]

_MOST_OF_UNKNOWN = 12_000
"""Maximum number of characters counted for a block of an unknown type.

The limit exists because blocks with audio or documents are not text.
"""
_FRAME = re.compile(r"<summary>\n.*\n</summary>\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A Foldline message, with the dictionary from which it was read."""

    message: BaseMessage
    position: int | None
    """Index of the message's dictionary in the conversation; None for a new summary."""
    blocks: tuple[int, ...] | None = None
    """Indexes of the message's blocks in the dictionary's content; None for all blocks."""


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of one message in a compressed conversation."""

    kind: Literal["kept", "shortened", "summary"]
    positions: tuple[int, ...]
    """Zero-based indexes of the input messages that the output message contains or summarises."""


def read_messages(
    message: ChatMessage,
    position: int,
    number: int,
    *,
    calls: Mapping[str, str],
    leading: bool,
) -> list[ReadMessage]:
    """Read a dictionary as one or more messages.

    Each tool result becomes a separate message.

    Args:
        number: index of the first message. The other messages get the indexes that follow.
        calls: name of the tool used by each call so far, by call id.
        leading: whether only system prompts precede this message.

    Raises:
        FoldlineError: the role is not system, developer, user, assistant or tool.
    """
    role = message.get("role")
    content = message.get("content")
    match role:
        case "system" | "developer":
            message_type = SystemMessage if leading else DeveloperMessage
            return [
                ReadMessage(message_type(index=number, parts=_parts(content)), position)
            ]
        case "assistant":
            parts = (*_reasoning(message), *_parts(content), *_calls(message))
            return [ReadMessage(AssistantMessage(index=number, parts=parts), position)]
        case "tool":
            result = _result(
                str(message.get("tool_call_id", "")), content, False, number, calls
            )
            return [ReadMessage(result, position)]
        case "user":
            return list(_read_user(content, position, number, calls))
    raise FoldlineError(
        f"Message {position} has the role {role!r}. "
        "It must be system, developer, user, assistant or tool."
    )


def _read_user(
    content: object, position: int, number: int, calls: Mapping[str, str]
) -> Iterator[ReadMessage]:
    """Yield the tool results and the other blocks of a user message."""
    if not isinstance(content, list) or not content:
        yield ReadMessage(_user(number, _parts(content)), position)
        return
    positions = range(len(content))
    for is_result, run in groupby(
        positions, key=lambda at: _type(content[at]) == "tool_result"
    ):
        block_positions = tuple(run)
        if not is_result:
            parts = _parts([content[at] for at in block_positions])
            yield ReadMessage(_user(number, parts), position, block_positions)
            number += 1
            continue
        for at in block_positions:
            block = content[at]
            call_id = str(block.get("tool_use_id", ""))
            is_error = block.get("is_error") is True
            result = _result(call_id, block.get("content"), is_error, number, calls)
            yield ReadMessage(result, position, (at,))
            number += 1


def _user(number: int, parts: tuple[Part, ...]) -> BaseMessage:
    """Return a user message, or a summary if the text is one."""
    message = UserMessage(index=number, parts=parts)
    if _FRAME.search(message.text):
        return SystemMessage(index=number, origin="summary", parts=parts)
    return message


def _result(
    call_id: str, content: object, is_error: bool, number: int, calls: Mapping[str, str]
) -> BaseMessage:
    """Return a tool result, or a machine message if the result's call is unknown."""
    parts = _parts(content)
    if call_id not in calls:
        return UserMessage(index=number, origin="machine", parts=parts)
    return ToolResultMessage(
        index=number,
        call_id=call_id,
        name=calls[call_id],
        is_error=is_error,
        parts=parts,
    )


def _type(block: object) -> str:
    return str(block.get("type", "")) if isinstance(block, Mapping) else ""


def _parts(content: object) -> tuple[Part, ...]:
    if isinstance(content, str):
        return text_parts(content)
    if isinstance(content, list):
        return tuple(_part(block) for block in content)
    return ()


def _part(block: object) -> Part:
    """Read one block of a message's content.

    A block of an unknown type is read as its JSON text, so that its size is counted.
    """
    if not isinstance(block, Mapping):
        return TextPart(text=str(block))
    match block.get("type"):
        case "text" | "input_text" | "output_text":
            return TextPart(text=str(block.get("text", "")))
        case "thinking":
            return ThinkingPart(
                text=str(block.get("thinking", "")), signature=block.get("signature")
            )
        case "tool_use":
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            return ToolCallPart(
                call_id=str(block.get("id")),
                name=str(block.get("name")),
                arguments=arguments,
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
            call_id=str(call.get("id")),
            name=str(function.get("name")),
            arguments=str(arguments),
        )


# --- writing ----------------------------------------------------------------------------------------


def written(
    view: Messages,
    read: Mapping[int, ReadMessage],
    chat: Sequence[ChatMessage],
    recall: str | None,
) -> tuple[list[ChatMessage], list[Source]]:
    """Return a view as dictionaries, and the source of each dictionary.

    Args:
        recall: name of the tool that shows an original message by its number; None if there is no such tool.
    """
    messages: list[ChatMessage] = []
    sources: list[Source] = []
    message_counts = Counter(source.position for source in read.values())
    shown_positions = {read[message.index].position for message in view}
    summarised = tuple(
        position for position in range(len(chat)) if position not in shown_positions
    )
    for position, run in groupby(
        view, key=lambda message: read[message.index].position
    ):
        group = list(run)
        if position is None:
            for message in group:
                messages.append(
                    {"role": "user", "content": with_recall(message.text, recall)}
                )
                sources.append(Source("summary", summarised))
            continue
        is_complete = len(group) == message_counts[position]
        if is_complete and all(
            message is read[message.index].message for message in group
        ):
            messages.append(chat[position])
            sources.append(Source("kept", (position,)))
        else:
            messages.append(_shortened(chat[position], group, read, recall))
            sources.append(Source("shortened", (position,)))
    return messages, sources


def _shortened(
    chat_message: ChatMessage,
    group: Messages,
    read: Mapping[int, ReadMessage],
    recall: str | None,
) -> ChatMessage:
    """Return the dictionary with only the texts of these messages."""
    content = chat_message.get("content")
    if not isinstance(content, list) or read[group[0].index].blocks is None:
        return {
            **chat_message,
            "content": _with_text(content, with_recall(group[0].text, recall)),
        }
    blocks: list[object] = []
    for message in group:
        source = read[message.index]
        old_blocks = [content[at] for at in source.blocks or ()]
        if message is source.message:
            blocks += old_blocks
        elif isinstance(message, ToolResultMessage):
            blocks.append(
                {**old_blocks[0], "content": with_recall(message.text, recall)}
            )
        else:
            blocks += _with_text(old_blocks, with_recall(message.text, recall))
    return {**chat_message, "content": blocks}


def _with_text(content: object, text: str) -> Any:
    """Return a message's content with its text replaced.

    Calls and thinking are kept.
    """
    if not isinstance(content, list):
        return text
    calls = [block for block in content if _type(block) == "tool_use"]
    thinking = [
        block for block in content if _type(block) in ("thinking", "redacted_thinking")
    ]
    return [*thinking, {"type": "text", "text": text}, *calls]
