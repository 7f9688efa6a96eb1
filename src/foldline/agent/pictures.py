"""A picture that the server does not take: it is hidden, so that it does not block every later request."""

import re
from collections.abc import Sequence

from foldline.context.view import ViewItem
from foldline.llm import LLMError
from foldline.protocol import Edit, ImagePart, ToolResultMessage, events

from .state import AgentState

_TOO_MANY_BYTES = 413
_NOT_TAKEN = {400, 422}
_PICTURE = re.compile(r"\bimages?\b|\bpictures?\b", re.IGNORECASE)


async def hide_refused_picture(state: AgentState, failure: LLMError) -> bool:
    """Whether the refused request is smaller now, by the largest picture that a tool had put into it.

    What the user sent or pinned stays, and all of it where nothing is folded unasked: `picture_advice`.
    """
    if state.mode == "off" or not _is_about_pictures(failure, state.projection.view):
        return False
    shown = [item for item in state.projection.view if isinstance(item.message, ToolResultMessage)]
    item = _largest([item for item in shown if not item.pinned])
    if item is None:
        return False
    await state.session.append(Edit(target=item.index, action="hide"), durable=True)
    text = f"The server refused the picture in entry {item.index} ({_size(item)}): the model is not shown it."
    state.emit(events.Notice(level="warning", text=text))
    return True


def picture_advice(state: AgentState, failure: LLMError) -> str:
    """Which picture the user may take out of a refused request, as a sentence; empty where none matters."""
    item = _largest(state.projection.view) if _is_about_pictures(failure, state.projection.view) else None
    if item is None:
        return ""
    return f"Entry {item.index} holds a picture of {_size(item)}: drop it in the inspector (F2)."


def _is_about_pictures(failure: LLMError, view: Sequence[ViewItem]) -> bool:
    """Whether it may be: the server says so, or the pictures are most of what was too many bytes."""
    if failure.status == _TOO_MANY_BYTES:
        pictures = sum(map(_bytes, view))
        return pictures > sum(len(item.message.text) for item in view)
    return failure.status in _NOT_TAKEN and bool(_PICTURE.search(str(failure)))


def _largest(items: Sequence[ViewItem]) -> ViewItem | None:
    return max((item for item in items if _bytes(item)), key=_bytes, default=None)


def _bytes(item: ViewItem) -> int:
    """What its pictures take in a request."""
    return sum(len(part.data) for part in item.message.parts if isinstance(part, ImagePart))


def _size(item: ViewItem) -> str:
    return f"{max(1, _bytes(item) // 1000):,} kB"
