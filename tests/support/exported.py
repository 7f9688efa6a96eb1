"""Sessions written in another format and read again, and what has to be the same in both."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from foldline.context.calls import paired
from foldline.context.projection import project
from foldline.context.view import is_preamble
from foldline.formats import ForeignSession, read_foreign
from foldline.formats.export import Exported, HandedView, Original, export_format, handed_view
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

ANNOUNCED = "<system>Previous context has been compacted. Here is the compaction output:</system>"
"""How kimi-cli announces a summary."""


class Heard(NamedTuple):
    """A message as the model hears it, apart from how a format spells it."""

    voice: str
    """Who speaks: the user, the program, the model, or a tool."""
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


def handed(entries: Sequence[Entry], write: Callable[[HandedView], Exported]) -> Exported:
    """What a handoff of these entries writes."""
    return write(handed_view(original(entries)))


def reread(exported: Exported, folder: Path) -> ForeignSession:
    """What our own reader makes of the files, called as kimi-cli calls them."""
    for name, data in {"context.jsonl": exported.data, **exported.beside}.items():
        (folder / name).write_bytes(data)
    return read_foreign(folder / "context.jsonl")


def heard(entries: Iterable[Entry]) -> list[Heard]:
    """The next request of these entries, without what other agents bring of their own: the preamble."""
    view = [item.message for item in project(entries).view]
    return [_heard(message) for message in paired(view) if not is_preamble(message)]


def _heard(message: BaseMessage) -> Heard:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return Heard(
        voice=_voice(message),
        text="\n".join(part.text for part in message.parts if isinstance(part, TextPart)),
        calls=tuple((call.call_id, call.name, _meaning(call.arguments)) for call in calls),
        answers=message.call_id if isinstance(message, ToolResultMessage) else "",
        failed=isinstance(message, ToolResultMessage) and message.is_error,
        images=tuple((part.media_type, part.data) for part in message.parts if isinstance(part, ImagePart)),
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
    """Arguments without their spacing and half characters; what is no JSON object is sent as an empty one."""
    try:
        value = json.loads(arguments, parse_constant=_refuse)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False) if isinstance(value, dict) else "{}"
    except (ValueError, RecursionError):
        return "{}"
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def unmarked(heard: Heard) -> Heard:
    """What is heard, without how kimi-cli marks the words of the program, and others a summary."""
    text = heard.text.removeprefix(" \n")
    if heard.voice == "program":
        text = text.removeprefix(FRAME[0]).removesuffix(FRAME[1]).removeprefix(ASKED_TO_COMPACT)
        text = text.removeprefix(f"{ANNOUNCED}\n").replace(r"<\/system", "</system")
        text = text.replace("<system>", "").replace("</system>", "")
        text = "" if heard.images and text.strip() == "Images:" else text
    return heard._replace(text=text.strip())
