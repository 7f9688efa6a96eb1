"""What a request looked like on the wire, by the dialect it was recorded with."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from foldline.protocol import BaseMessage

from .dialect import OPENAI, dialect_named, to_openai
from .responses import RESPONSES, to_input

Rendering: TypeAlias = Callable[[Sequence[BaseMessage]], list[dict[str, Any]]]


def as_openai(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The messages as chat completions at OpenAI take them."""
    return to_openai(messages, OPENAI)


def rendering_named(dialect: str, model: str) -> Rendering | None:
    """How a request to this model was rendered; None for a dialect that is not ours, or for no server."""
    if dialect == RESPONSES:
        return partial(to_input, reader=model)
    known = dialect_named(dialect)
    return None if known is None else partial(to_openai, dialect=known)
