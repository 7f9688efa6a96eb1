"""A session as a page shows it, in whatever it is written: who said what, what tools did, what was compacted.

Times are UTC: a page is read elsewhere than it was written.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from foldline.context.calls import subject_of
from foldline.context.compactions import describe_compaction, sizes_words
from foldline.context.harmless import with_signs
from foldline.context.numbers import change, many, seconds, tokens
from foldline.context.permissions import approval_words
from foldline.context.projection import Projection
from foldline.context.view import FateKind
from foldline.context.weight import agent_report, view_size
from foldline.protocol import (
    Approval,
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    DeveloperMessage,
    Edit,
    Entry,
    ImagePart,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Revert,
    Subagent,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Undo,
    UserMessage,
    is_typed,
)
from foldline.sequences import grouped

from ..export import Original

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]{0,64}[mK]")


def readable(text: str) -> str:
    """The text with LF line ends, without colours, and with a sign for every character that is none."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return with_signs(text)


def one_line(text: str, most: int = 200) -> str:
    """The text on one line, in full up to `most` characters."""
    line = " ".join(readable(text[: most * 8]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def first_line(text: str, most: int = 200) -> str:
    return next((shown for line in text.splitlines() if (shown := one_line(line, most))), "")


Piece: TypeAlias = TextPart | ThinkingPart | ImagePart
Voice = Literal["prompt", "answer", "machine", "system", "instructions", "summary"]


@dataclass(frozen=True, slots=True)
class Place:
    index: int
    at: datetime | None
    fate: FateKind
    pinned: bool = False

    @property
    def time(self) -> str:
        """`14:02`; empty where it is not known."""
        return f"{self.at.astimezone(UTC):%H:%M}" if self.at else ""


@dataclass(frozen=True, slots=True)
class MessageItem:
    place: Place
    voice: Voice
    title: str
    """`Prompt 3`, `System prompt`, the file of instructions; empty for an answer."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ToolItem:
    place: Place
    """Of the result; of the call where there is none."""
    name: str
    subject: str
    """What it acts on, on one line."""
    arguments: str
    outcome: str
    """`exit 1 ✗ · 6.8 s`."""
    failed: bool
    output: str
    images: tuple[ImagePart, ...]
    diff: str
    path: str
    """Of the file it is about; for colours. Empty where there is none."""


@dataclass(frozen=True, slots=True)
class CompactionItem:
    place: Place
    words: str
    """`116.2k → 27.4k tokens, 123 entries compacted`."""
    summary: str


@dataclass(frozen=True, slots=True)
class MarkerItem:
    place: Place
    words: str
    text: str = ""
    level: Literal["rule", "info", "alert"] = "info"


@dataclass(frozen=True, slots=True)
class ChildItem:
    """A subagent's session, below the call that started it."""

    place: Place
    words: str
    """`Explore: Find the lock · 35 entries`."""
    page: "Page"


Item = MessageItem | ToolItem | CompactionItem | MarkerItem | ChildItem


@dataclass(frozen=True, slots=True)
class Page:
    id: str
    """Of the session."""
    title: str
    folder: str
    """On one line; empty where it is not known."""
    facts: tuple[str, ...]
    """Models, dates, sizes, each in a few words."""
    items: tuple[Item, ...]


def page_of(original: Original) -> Page:
    """The whole session, records that are for programs left out."""
    entries = list(original.entries)
    return Page(
        id=one_line(original.header.id),
        title=_title(original.projection, entries) or f"Session {one_line(original.header.id)}",
        folder=one_line(original.header.cwd),
        facts=tuple(_facts(original.projection, entries)),
        items=tuple(_items(entries, original)),
    )


def _title(projection: Projection, entries: Sequence[Entry]) -> str:
    prompts = filter(is_typed, entries)
    title = one_line(projection.title or "")
    return title or next(
        (line for prompt in prompts if (line := first_line(prompt.text, 80).lstrip("# "))), ""
    )


def _facts(projection: Projection, entries: Sequence[Entry]) -> Iterator[str]:
    models = [entry.model for entry in entries if isinstance(entry, AssistantMessage) and entry.model]
    yield from map(one_line, dict.fromkeys(models))
    times = [entry.at for entry in entries if entry.at is not None]
    if times:
        first, last = min(times).astimezone(UTC), max(times).astimezone(UTC)
        day = f"{last:%Y-%m-%d} " if last.date() != first.date() else ""
        yield f"{first:%Y-%m-%d %H:%M} to {day}{last:%H:%M} UTC"
    yield many(len(entries), "entry", "entries")
    if projection.all_compactions:
        yield many(len(projection.all_compactions), "compaction")
    size, report = view_size(projection), agent_report(projection)
    yield f"{tokens(size.tokens, estimated=size.estimated)} tokens in the next request"
    if report:
        yield f"{tokens(report)} tokens in its agent's last request"


# --- items ------------------------------------------------------------------------------------------


def _items(entries: Sequence[Entry], original: Original) -> Iterator[Item]:
    projection, cwd = original.projection, original.header.cwd
    children = {child.header.id: child for child in original.children}
    markers = [entry for entry in entries if isinstance(entry, Subagent)]
    below = cwd.rstrip("/\\") + ("\\" if "\\" in cwd else "/")
    results = _results(entries)
    prompts = 0
    for entry in entries:
        place = _place(entry, projection)
        match entry:
            case UserMessage(origin="typed"):
                prompts += 1
                yield MessageItem(place, "prompt", f"Prompt {prompts}", _pieces(entry))
            case AssistantMessage():
                yield MessageItem(place, "answer", "", _pieces(entry))
                for call in entry.calls:
                    result = _result_of(call, entry.index, results)
                    yield _used(call, result, _place(result or entry, projection), below)
                    own = (marker for marker in markers if marker.call_id == call.call_id)
                    yield from _children(own, children, projection)
                yield from _failure(entry, place)
            case ToolResultMessage() if entry in results.get(entry.call_id, ()):
                call = ToolCallPart(call_id=entry.call_id, name=entry.name or "tool")
                yield _used(call, entry, place, below)
            case ToolResultMessage():
                pass  # stands with its call
            case BaseMessage():
                yield MessageItem(place, *_voice(entry), _pieces(entry))
            case Compaction():
                yield CompactionItem(place, _compaction_words(entry, projection), readable(entry.summary))
            case Subagent():
                yield from _children([entry], children, projection)  # where its call was not found
            case _:
                yield from _marked(entry, place, projection)


def _children(
    markers: Iterable[Subagent], children: dict[str, Original], projection: Projection
) -> Iterator[ChildItem]:
    """Those of the subagents that were not shown yet."""
    for marker in markers:
        if (child := children.pop(marker.child, None)) is not None:
            words = ": ".join(filter(None, (one_line(marker.agent) or "subagent", one_line(marker.title))))
            counted = many(len(child.entries), "entry", "entries")
            yield ChildItem(_place(marker, projection), f"{words} · {counted}", page_of(child))


def _compaction_words(compaction: Compaction, projection: Projection) -> str:
    words = sizes_words(projection, compaction, "tokens")
    in_force = any(marker.index == compaction.index for marker in projection.markers)
    undone = "" if in_force else "no longer in force"
    return ", ".join(filter(None, (words, describe_compaction(projection, compaction), undone)))


def _failure(answer: AssistantMessage, place: Place) -> Iterator[MarkerItem]:
    if answer.error:
        yield MarkerItem(place, "the answer failed", readable(answer.error), "alert")
    elif answer.stop_reason == "cancelled":
        yield MarkerItem(place, "cancelled")


def _result_of(
    call: ToolCallPart, index: int, results: dict[str, list[ToolResultMessage]]
) -> ToolResultMessage | None:
    """The first result behind the answer at this index; it waits no longer."""
    waiting = results.get(call.call_id, [])
    result = next((each for each in waiting if each.index > index), None)
    if result is not None:
        waiting.remove(result)
    return result


def _results(entries: Sequence[Entry]) -> dict[str, list[ToolResultMessage]]:
    return grouped((entry.call_id, entry) for entry in entries if isinstance(entry, ToolResultMessage))


def _place(entry: Entry, projection: Projection) -> Place:
    return Place(entry.index, entry.at, projection.fate(entry.index).kind, projection.is_pinned(entry.index))


def _pieces(message: BaseMessage) -> tuple[Piece, ...]:
    """The parts but the calls, readable; what is empty is left out."""
    pieces: list[Piece] = []
    for part in message.parts:
        match part:
            case TextPart() | ThinkingPart():
                if part.text.strip():
                    pieces.append(part.model_copy(update={"text": readable(part.text)}))
            case ImagePart():
                pieces.append(part)
            case _:
                pass
    return tuple(pieces)


def _voice(message: BaseMessage) -> tuple[Voice, str]:
    """Who speaks, and the title of what is said."""
    match message:
        case SystemMessage(origin="summary"):
            return "summary", "Summary"
        case SystemMessage():
            return "system", "System prompt"
        case DeveloperMessage(origin="instructions"):
            return "instructions", "Instructions" if message.source is None else one_line(message.source)
        case DeveloperMessage(source=str() as source):
            return "machine", one_line(source)
        case DeveloperMessage():
            return "machine", "D-Mail" if message.origin == "dmail" else "Notice to the model"
        case UserMessage(origin="shell"):
            return "machine", "Shell command"
        case _:
            return "machine", "Machine text"


def _used(call: ToolCallPart, result: ToolResultMessage | None, place: Place, below: str) -> ToolItem:
    subject = subject_of(call)
    words = one_line(subject.text.removeprefix(below) if subject.kind == "path" else subject.text)
    details = result.details if result is not None else None
    return ToolItem(
        place=place,
        name=one_line(call.name) or "tool",
        subject=words,
        arguments=readable(call.arguments),
        outcome=_outcome(result),
        failed=result is not None and result.is_error,
        output=readable(result.text) if result is not None else "",
        images=tuple(part for part in result.parts if isinstance(part, ImagePart)) if result else (),
        diff=readable(details.diff or "") if details is not None else "",
        path=words if subject.kind == "path" else "",
    )


def _outcome(result: ToolResultMessage | None) -> str:
    if result is None:
        return "no result"
    details = result.details
    brief = one_line(details.brief)
    if not brief:
        added = sum(touch.added for touch in details.files)
        brief = change(added, sum(touch.removed for touch in details.files))
    if result.is_error and "✗" not in brief:
        brief = f"{brief or 'failed'} ✗"
    took = seconds(details.seconds) if details.seconds is not None else ""
    return " · ".join(filter(None, (brief, took)))


def _marked(entry: Entry, place: Place, projection: Projection) -> Iterator[MarkerItem]:
    match entry:
        case Revert():
            how = (" · files restored" if entry.files else "") if entry.context else " · files only"
            where = f"checkpoint {entry.checkpoint}" if entry.moment is None else f"entry {entry.moment}"
            yield MarkerItem(place, f"rewind to {where}{how}", readable(entry.text), "rule")
        case Clear():
            yield MarkerItem(place, "context cleared: the history stays", level="rule")
        case Undo():
            target = projection.entry(entry.target)
            kind = target.type if target else "entry"
            what = "rewind" if kind == "revert" else kind
            yield MarkerItem(place, f"{what} {entry.target} undone", level="rule")
        case Edit():
            yield MarkerItem(place, f"{entry.action} {entry.target}")
        case ModelChange():
            yield MarkerItem(place, f"model: {one_line(entry.model)}")
        case Approval():
            yield MarkerItem(place, one_line(approval_words(entry)))
        case NoticeRecord():
            yield MarkerItem(place, one_line(entry.text), level="alert" if entry.level == "error" else "info")
        case RequestRecord(error=str() as error):
            yield MarkerItem(
                place, "the request failed", readable(f"{error}\n\n{entry.said or ''}".strip()), "alert"
            )
        case _:
            pass


_SHOWN: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures made of pixels. SVG is a document of its own."""


def image_words(image: ImagePart) -> str:
    """`image: image/png, 1024 × 768, 45 kB`."""
    size = f", {image.width} × {image.height}" if image.width and image.height else ""
    kind = image.media_type if image.media_type in _SHOWN else "of another kind"
    return f"image: {kind}{size}, {max(1, len(image.data) * 3 // 4000)} kB"


def image_source(image: ImagePart) -> str | None:
    """A `data:` address that a page can show; None where it holds no picture that it may."""
    if image.media_type not in _SHOWN:
        return None
    try:
        data = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"data:{image.media_type};base64,{base64.b64encode(data).decode()}" if data else None
