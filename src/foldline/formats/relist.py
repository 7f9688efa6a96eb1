"""Makes a list of messages the model's context, for agents that rewrite their context."""

from collections.abc import Sequence
from datetime import datetime

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Part,
    ThinkingPart,
    ToolResultMessage,
    UserMessage,
)

from .transcript import Transcript

_SNAPSHOT = "<state_snapshot>"
"""Gemini CLI and Qwen Code ask their models to put it around a summary."""


def relist(
    log: Transcript,
    context: Sequence[int | BaseMessage],
    at: datetime | None,
    *,
    strategy: str,
    tokens_before: int = 0,
) -> None:
    """Make this list of entries and messages the model's context.

    A message that the history holds is that entry; a result with another text replaces the old text. Of the
    new messages, the summary replaces what is gone, and the others join the history.
    """
    history = log.known_messages(_content)
    indices = [history.take(piece) if isinstance(piece, BaseMessage) else piece for piece in context]
    before = log.newest_summary()
    new = [piece for piece, index in zip(context, indices, strict=True) if index is None]
    summary = _summary_in(new, before.summary if before else "")
    ahead: list[int] = []
    kept: list[int] = []
    texts: dict[int, str] = {}
    listed: set[int] = set()
    new_calls: set[str] = set()
    target = ahead if summary else kept
    for piece, index in zip(context, indices, strict=True):
        if summary is not None and piece is summary:
            target = kept
            continue
        if isinstance(piece, AssistantMessage) and index is None:
            new_calls.update(call.call_id for call in piece.calls)
        if (
            isinstance(piece, ToolResultMessage)
            and piece.call_id not in new_calls
            and (result := log.newest_result(piece.call_id))
        ):
            index = result.index
            if piece.text != result.text:
                texts[index] = piece.text
        if index is None:
            assert isinstance(piece, BaseMessage), "an index is known"
            index = log.add(piece, at)
        group = [place for place in (index, *log.results_of(index)) if place not in listed]
        target += group
        listed.update(group)
    parts: tuple[Part, ...] = summary.parts if summary else ()
    is_new = summary is not None and (before is None or summary.text != before.summary)
    now = [index for index in log.context() if before is None or index != before.index]
    if is_new or [*ahead, *kept] != now:
        log.compact(parts, kept, at, ahead=ahead, strategy=strategy, tokens_before=tokens_before)
    log.clip(texts, None, strategy=f"{strategy}-clip")


def _content(message: BaseMessage) -> object:
    """Return the content without thinking, which is mostly not sent again."""
    return message.type, tuple(part for part in message.parts if not isinstance(part, ThinkingPart))


def _summary_in(new: Sequence[int | BaseMessage], newest: str) -> UserMessage | None:
    """Return the new summary: agents put it into the role user."""
    users = [message for message in new if isinstance(message, UserMessage)]
    marked = (message for message in users if message.text == newest or _SNAPSHOT in message.text)
    return next(marked, next(iter(users), None))
