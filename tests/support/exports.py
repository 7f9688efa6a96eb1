"""Sessions exported to another format and read back, and their comparison."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.export import (
    Exported,
    HandedView,
    Original,
    export_format,
    handed_view,
)
from foldline.formats.readers.opencode.messages import ASKED_TO_COMPACT
from foldline.formats.readers.pi.reader import FRAME
from foldline.history import utc_now
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Entry,
    ImagePart,
    SessionHeader,
    TextPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.view.calls import paired
from foldline.view.items import is_preamble
from foldline.view.projection import project

ANNOUNCED = "<system>Previous context has been compacted. Here is the compaction output:</system>"
"""kimi-cli's prefix of a summary."""


class ReceivedMessage(NamedTuple):
    """A message as the model receives it, independent of the format."""

    voice: str
    """The speaker: user, program, model or tool."""
    text: str
    calls: tuple[tuple[str, str, str], ...] = ()
    answers: str = ""
    failed: bool = False
    images: tuple[tuple[str, str], ...] = ()


def original(entries: Sequence[Entry], cwd: str = "/work") -> Original:
    header = SessionHeader(id="20260101-000000-abcdef", created_at=utc_now(), cwd=cwd)
    return Original(header, entries, project(entries))


def write(entries: Sequence[Entry], form: str) -> Exported:
    return export_format(form).write(original(entries))


def handoff(
    entries: Sequence[Entry], write: Callable[[HandedView], Exported]
) -> Exported:
    """Return the handoff of these entries."""
    return write(handed_view(original(entries)))


def read_back(exported: Exported, folder: Path) -> ForeignSession:
    """Read the files with our own reader, named as kimi-cli names them."""
    for name, data in {"context.jsonl": exported.data, **exported.side_files}.items():
        (folder / name).write_bytes(data)
    return read_foreign(folder / "context.jsonl")


def received_messages(entries: Iterable[Entry]) -> list[ReceivedMessage]:
    """The next request of these entries, without the preamble."""
    view = [item.message for item in project(entries).view]
    return [_received(message) for message in paired(view) if not is_preamble(message)]


def _received(message: BaseMessage) -> ReceivedMessage:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return ReceivedMessage(
        voice=_voice(message),
        text="\n".join(
            part.text for part in message.parts if isinstance(part, TextPart)
        ),
        calls=tuple(
            (call.call_id, call.name, _meaning(call.arguments)) for call in calls
        ),
        answers=message.call_id if isinstance(message, ToolResultMessage) else "",
        failed=isinstance(message, ToolResultMessage) and message.is_error,
        images=tuple(
            (part.media_type, part.data)
            for part in message.parts
            if isinstance(part, ImagePart)
        ),
    )


def _voice(message: BaseMessage) -> str:
    match message:
        case UserMessage(origin="typed"):
            return "user"
        case AssistantMessage():
            return "model"
        case ToolResultMessage():
            return "tool"
        case _:
            return "program"


def _meaning(arguments: str) -> str:
    """Normalise arguments: no spacing, no lone surrogates, `{}` if not a JSON object."""
    try:
        value = json.loads(arguments, parse_constant=_refuse)
        text = (
            json.dumps(value, ensure_ascii=False, allow_nan=False)
            if isinstance(value, dict)
            else "{}"
        )
    except (ValueError, RecursionError):
        return "{}"
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def without_markers(message: ReceivedMessage) -> ReceivedMessage:
    """Remove kimi-cli's markers of program text and summaries."""
    text = message.text.removeprefix(" \n")
    if message.voice == "program":
        text = (
            text.removeprefix(FRAME[0])
            .removesuffix(FRAME[1])
            .removeprefix(ASKED_TO_COMPACT)
        )
        text = text.removeprefix(f"{ANNOUNCED}\n").replace(r"<\/system", "</system")
        text = text.replace("<system>", "").replace("</system>", "")
        text = "" if message.images and text.strip() == "Images:" else text
    return message._replace(text=text.strip())
