"""A recorded session as a replay takes it: its messages in order, numbered the same for every strategy."""

from collections.abc import Sequence
from pathlib import Path

from foldline.context.projection import Projection, project
from foldline.protocol import AssistantMessage, BaseMessage, Entry, UserMessage

STRIDE = 8
"""Between the indices of two recorded messages there is room for the markers of any strategy."""


def recorded_messages(entries: Sequence[Entry]) -> tuple[BaseMessage, ...]:
    """The messages a replay plays again: all that the session went on from, its own folds left out.

    What was taken back by a rewind is no part of it. Usage is that of another view, and is dropped.
    """
    return tuple(
        message.model_copy(update={"index": STRIDE * (at + 1), **_forgotten(message)})
        for at, message in enumerate(_gone_on_from(entries, project(entries)))
    )


def recorded_pins(entries: Sequence[Entry]) -> frozenset[int]:
    """What the user had pinned in the end, by the index it has in `recorded_messages`."""
    projection = project(entries)
    messages = _gone_on_from(entries, projection)
    return frozenset(
        STRIDE * (at + 1) for at, message in enumerate(messages) if message.index in projection.pins
    )


def _gone_on_from(entries: Sequence[Entry], projection: Projection) -> list[BaseMessage]:
    said = [
        entry
        for entry in entries
        if isinstance(entry, BaseMessage) and projection.fate(entry.index).kind not in ("reverted", "aside")
    ]
    opening = next((at for at, message in enumerate(said) if isinstance(message, UserMessage)), len(said))
    return [message for at, message in enumerate(said) if at > opening or not _is_answer(message)]


def _is_answer(message: BaseMessage) -> bool:
    """Whether it answers a request: before the first one there is nothing to answer."""
    return message.type in ("assistant", "tool_result")


def _forgotten(message: BaseMessage) -> dict[str, object]:
    return {"usage": None, "model": None} if isinstance(message, AssistantMessage) else {}


def session_name(path: Path) -> str:
    """What a report calls a session."""
    return path.parent.name if path.name == "events.jsonl" else path.name.split(".", 1)[0]
