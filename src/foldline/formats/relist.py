"""Replaces the model's context with a list of messages.

This is used for agents that rewrite their context.
"""

from collections.abc import Sequence
from datetime import datetime

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ThinkingPart,
    ToolResultMessage,
    UserMessage,
)

from .transcript import Transcript

_SNAPSHOT = "<state_snapshot>"
"""The tag in which Gemini CLI and Qwen Code tell their models to enclose a summary."""


def relist(
    log: Transcript,
    context: Sequence[int | BaseMessage],
    at: datetime | None,
    *,
    strategy: str,
    tokens_before: int = 0,
) -> None:
    """Replace the model's context with this list of entries and messages.

    For a message that is already in the history, the existing entry is used. If the text of a result has
    changed, the new text replaces the old one. A new summary replaces the removed messages. All other new
    messages are added to the history.
    """
    history = log.known_messages(_content)
    indices = [
        history.take(piece) if isinstance(piece, BaseMessage) else piece
        for piece in context
    ]
    before = log.newest_summary()
    new = [
        piece for piece, index in zip(context, indices, strict=True) if index is None
    ]
    summary = _summary_in(new, before.summary if before else "")
    ahead: list[int] = []
    kept: list[int] = []
    texts = {}
    listed = set()
    new_calls: set[str] = set()
    target = ahead if summary else kept
    for piece, index in zip(context, indices, strict=True):
        if summary is not None and piece is summary:
            target = kept
            continue
        if isinstance(piece, AssistantMessage) and index is None:
            new_calls.update(call.call_id for call in piece.calls)
        if isinstance(piece, ToolResultMessage) and piece.call_id not in new_calls:
            result = log.newest_result(piece.call_id)
            if result is not None:
                index = result.index
                if piece.text != result.text:
                    texts[index] = piece.text
        if index is None:
            assert isinstance(piece, BaseMessage), "an index is known"
            index = log.add(piece, at)
        group = [
            place for place in (index, *log.results_of(index)) if place not in listed
        ]
        target += group
        listed.update(group)
    parts = summary.parts if summary else ()
    is_new = summary is not None and (before is None or summary.text != before.summary)
    now = [index for index in log.context() if before is None or index != before.index]
    if is_new or [*ahead, *kept] != now:
        log.compact(
            parts,
            kept,
            at,
            ahead=ahead,
            strategy=strategy,
            tokens_before=tokens_before,
        )
    log.clip(texts, None, strategy=f"{strategy}-clip")


def _content(message: BaseMessage) -> object:
    """Return a message's type and its parts without thinking.

    Agents usually do not send thinking again.
    """
    return message.type, tuple(
        part for part in message.parts if not isinstance(part, ThinkingPart)
    )


def _summary_in(new: Sequence[int | BaseMessage], newest: str) -> UserMessage | None:
    """Return the new summary, if any.

    Agents store summaries as user messages.
    """
    users = [message for message in new if isinstance(message, UserMessage)]
    for message in users:
        if message.text == newest or _SNAPSHOT in message.text:
            return message
    return users[0] if users else None
