"""The parts of opencode's messages: who speaks, the steps of an answer, its usage and its failure."""

import re
from collections.abc import Sequence

from foldline.protocol import FileTouch, Part, TextPart, ToolResultMessage, Usage
from foldline.protocol.messages import StopReason

from .base import JsonObject, as_count, as_list, as_object, as_text
from .chat_parts import image_at

STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "tool-calls": "tool_calls",
    "length": "length",
    "content-filter": "filtered",
    "error": "error",
}
ABORTED = "MessageAbortedError"
DEFAULT_TITLE = re.compile(r"(?:New|Child) session - \d{4}-")

_ASKED_TO_COMPACT = "What did we do so far?"
_RAN_A_SUBTASK = "The following tool was executed by the user"
"""What its model is told where a message asks for a compaction that failed, or for a sub-task."""
_ALSO_AS_TEXT = ("text/plain", "application/x-directory")
"""Attached files of these kinds are in the message as text, too."""


def is_summary(info: JsonObject) -> bool:
    """Whether an answer is the summary of a compaction that came to its end."""
    return (
        info.get("role") == "assistant"
        and info.get("summary") is True
        and bool(info.get("finish"))
        and not info.get("error")
    )


def said_in(piece: JsonObject) -> tuple[str, Part | None]:
    """Who speaks in a piece of a user message, and what: `typed`, `machine`, `ignored`, or `nobody`.

    Without a part, it is something that cannot be shown here.
    """
    match piece.get("type"):
        case "text" if as_text(piece.get("text")):
            part = TextPart(text=as_text(piece.get("text")))
            if piece.get("ignored") is True:
                return "ignored", part
            return ("machine" if piece.get("synthetic") is True else "typed"), part
        case "file" if as_text(piece.get("mime")) not in _ALSO_AS_TEXT:
            is_image = as_text(piece.get("mime")).startswith("image/")
            image = image_at(as_text(piece.get("url"))) if is_image else None
            return ("machine" if isinstance(image, TextPart) else "typed"), image
        case "compaction":
            return "machine", TextPart(text=_ASKED_TO_COMPACT)
        case "subtask":
            return "machine", TextPart(text=_RAN_A_SUBTASK)
        case _:
            return "nobody", None


def steps_of(parts: Sequence[JsonObject]) -> list[list[JsonObject]]:
    """The parts of an answer, a list for each request to the model. At least one."""
    steps: list[list[JsonObject]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        steps[-1].append(part)
    return steps


def finish_of(step: Sequence[JsonObject]) -> JsonObject:
    """The part that ends a step; empty where it never ended."""
    return next((part for part in step if part.get("type") == "step-finish"), {})


def usage_of(tokens: JsonObject) -> Usage | None:
    """opencode counts cached input and reasoning apart."""
    cache, thought = as_object(tokens.get("cache")), as_count(tokens.get("reasoning"))
    cached = as_count(cache.get("read"))
    reported = Usage(
        input=as_count(tokens.get("input")) + cached + as_count(cache.get("write")),
        cached=cached,
        output=as_count(tokens.get("output")) + thought,
        reasoning=thought,
    )
    return reported if reported.total else None


def failure(error: JsonObject) -> str:
    return as_text(as_object(error.get("data")).get("message")) or as_text(error.get("name")) or "failed"


def unclaimed(
    step: Sequence[JsonObject], results: Sequence[ToolResultMessage]
) -> list[tuple[FileTouch, ...]]:
    """For each result, the files that changed during the step and that no call names.

    They go to the last call that names no file: mostly a shell command.
    """
    patches = [part for part in step if part.get("type") == "patch"]
    changed = dict.fromkeys(as_text(path) for part in patches for path in as_list(part.get("files")))
    claimed = {file.path for result in results for file in result.details.files}
    free = [path for path in changed if path and path not in claimed]
    touches = tuple(FileTouch(path=path, action="modified") for path in free)
    able = [place for place, result in enumerate(results) if not result.details.files]
    return [touches if able and place == able[-1] else () for place in range(len(results))]
