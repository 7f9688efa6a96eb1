"""Converts opencode's messages to parts, as sent to the model.

Also divides answers into steps, and recognises summaries.
"""

from collections.abc import Iterable, Iterator, Sequence

from foldline.formats.base import JsonObject
from foldline.formats.parts import image_at, kind_of, of_kind
from foldline.protocol import ImagePart, Part, TextPart

from .tools import IMAGE

ASKED_TO_COMPACT = "What did we do so far?\n\n"
"""The text that the model sees before a summary.

It takes the place of the compaction request.
"""
_RAN_A_SUBTASK = "The following tool was executed by the user"
"""The text that the model sees in place of a request for a subtask."""
_ALSO_AS_TEXT = ("text/plain", "application/x-directory")
"""Types of attached files whose text is also included in the message."""


def completed_compactions(messages: Sequence[JsonObject]) -> set[str]:
    """Return the ids of the compaction requests that have been answered."""
    requested = set()
    answered = set()
    for message in messages:
        info = message.object("info")
        if is_summary(info):
            answered.add(info.text("parentID"))
        elif of_kind(message.objects("parts"), "compaction"):
            requested.add(info.text("id"))
    return (requested & answered) - {""}


def is_summary(info: JsonObject) -> bool:
    """Return whether an answer is a complete summary."""
    is_finished = info.get("finish") and not info.get("error")
    return (
        info.get("role") == "assistant" and info.flag("summary") and bool(is_finished)
    )


def user_parts(
    pieces: Iterable[JsonObject], left_out: list[str]
) -> Iterator[tuple[str, Part]]:
    """Yield the parts of a user message, each with its author."""
    for piece in pieces:
        part = _user_part(piece)
        if part is not None:
            yield _author(piece, part), part
        elif piece.kind == "file" and piece.text("mime") not in _ALSO_AS_TEXT:
            left_out.append(kind_of(piece))


def _user_part(piece: JsonObject) -> Part | None:
    """Convert a part of a user message to the form in which it was sent.

    Returns None if it was not sent.
    """
    match piece.kind:
        case "text" if piece.text("text"):
            return TextPart(text=piece.text("text"))
        case "file" if piece.text("mime").startswith(IMAGE):
            return image_at(piece.text("url"))
        case "compaction":
            return TextPart(text=ASKED_TO_COMPACT.strip())
        case "subtask":
            return TextPart(text=_RAN_A_SUBTASK)
        case _:
            return None


def _author(piece: JsonObject, part: Part) -> str:
    """Return a part's author.

    This is `typed` or `machine`, or `ignored` if the part is not sent.
    """
    if piece.kind == "text" and piece.flag("ignored"):
        return "ignored"
    is_text = piece.kind == "text" and not piece.flag("synthetic")
    return "typed" if is_text or isinstance(part, ImagePart) else "machine"


def steps_of(parts: Sequence[JsonObject]) -> list[list[JsonObject]]:
    """Split an answer's parts into steps. Each step was one request."""
    steps: list[list[JsonObject]] = [[]]
    for part in parts:
        if part.kind == "step-start" and steps[-1]:
            steps.append([])
        steps[-1].append(part)
    return steps
