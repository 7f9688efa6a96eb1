"""A session as the items of a page, which the Markdown and HTML writers render. Times are UTC."""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
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
    """Return a text without colours, CRs and control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return with_signs(text)


def one_line(text: str, most: int = 200) -> str:
    """Return a text on one line of at most `most` characters."""
    line = " ".join(readable(text[: most * 8]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def first_line(text: str, most: int = 200) -> str:
    """Return the first line with text, at most `most` characters."""
    return next((line for line in (one_line(line, most) for line in text.splitlines()) if line), "")


# --- items ------------------------------------------------------------------------------------------

Piece: TypeAlias = TextPart | ThinkingPart | ImagePart
Voice = Literal["prompt", "answer", "machine", "system", "instructions", "summary"]


@dataclass(frozen=True, slots=True)
class EntryState:
    """The entry that an item is made from, and its state in the view."""

    index: int
    at: datetime | None
    fate: FateKind
    pinned: bool = False

    @property
    def time(self) -> str:
        """`14:02`; empty if unknown."""
        return f"{self.at.astimezone(UTC):%H:%M}" if self.at else ""


@dataclass(frozen=True, slots=True)
class MessageItem:
    entry: EntryState
    voice: Voice
    title: str
    """`Prompt 3`, `System prompt`, an instruction file; empty for an answer."""
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "\n\n".join(piece.text for piece in self.pieces if isinstance(piece, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, ImagePart))


@dataclass(frozen=True, slots=True)
class ToolItem:
    """A call with its result."""

    entry: EntryState
    """The result, or the call without one."""
    name: str
    subject: str
    """The file or command, on one line."""
    arguments: str
    outcome: str
    """`exit 1 ✗ · 6.8 s`."""
    failed: bool
    output: str
    images: tuple[ImagePart, ...]
    diff: str
    path: str
    """The file that the call is about, if any."""

    @property
    def shows_arguments(self) -> bool:
        """Whether the arguments say much more than the subject."""
        return len(self.arguments) > len(self.subject) + 40


@dataclass(frozen=True, slots=True)
class MarkerItem:
    """A compaction, a rewind, a notice and the like."""

    entry: EntryState
    words: str
    text: str = ""
    """The summary of a compaction, in Markdown; plain text for the other levels."""
    level: Literal["compaction", "rule", "info", "alert"] = "info"


@dataclass(frozen=True, slots=True)
class ChildItem:
    """A subagent's session, below the call that started it."""

    entry: EntryState
    words: str
    """`Explore: Find the lock · 35 entries`."""
    page: "Page"


Item = MessageItem | ToolItem | MarkerItem | ChildItem


@dataclass(frozen=True, slots=True)
class Page:
    id: str
    """The session's."""
    title: str
    folder: str
    """On one line; empty if unknown."""
    facts: tuple[str, ...]
    """Models, dates and sizes, each in a few words."""
    items: tuple[Item, ...]


def page_of(original: Original) -> Page:
    """Return the whole session, without records that are only for programs."""
    session_id = one_line(original.header.id)
    return Page(
        id=session_id,
        title=_title(original) or f"Session {session_id}",
        folder=one_line(original.header.cwd),
        facts=tuple(_facts(original.projection, original.entries)),
        items=tuple(_Items(original)),
    )


def _title(original: Original) -> str:
    title = one_line(original.projection.title or "")
    if title:
        return title
    prompts = (first_line(entry.text, 80).lstrip("# ") for entry in original.entries if is_typed(entry))
    return next(filter(None, prompts), "")


def _facts(projection: Projection, entries: Sequence[Entry]) -> Iterator[str]:
    models = [entry.model for entry in entries if isinstance(entry, AssistantMessage) and entry.model]
    yield from map(one_line, dict.fromkeys(models))
    times = [entry.at for entry in entries if entry.at is not None]
    if times:
        first = min(times).astimezone(UTC)
        last = max(times).astimezone(UTC)
        day = f"{last:%Y-%m-%d} " if last.date() != first.date() else ""
        yield f"{first:%Y-%m-%d %H:%M} to {day}{last:%H:%M} UTC"
    yield many(len(entries), "entry", "entries")
    if projection.all_compactions:
        yield many(len(projection.all_compactions), "compaction")
    size = view_size(projection)
    yield f"{tokens(size.tokens, estimated=size.estimated)} tokens in the next request"
    report = agent_report(projection)
    if report:
        yield f"{tokens(report)} tokens in its agent's last request"


class _Items:
    """Yields the items of a session in order: results and subagents with their calls."""

    def __init__(self, original: Original) -> None:
        self._entries = original.entries
        self._projection = original.projection
        cwd = original.header.cwd
        self._below = cwd.rstrip("/\\") + ("\\" if "\\" in cwd else "/")
        self._children = {child.header.id: child for child in original.children}
        """Subagents that were not shown yet."""
        results = [entry for entry in self._entries if isinstance(entry, ToolResultMessage)]
        self._results = grouped((result.call_id, result) for result in results)
        """Results whose call was not shown yet, by call id."""

    def __iter__(self) -> Iterator[Item]:
        prompts = 0
        for entry in self._entries:
            state = self._state(entry)
            match entry:
                case UserMessage(origin="typed"):
                    prompts += 1
                    yield MessageItem(state, "prompt", f"Prompt {prompts}", _pieces(entry))
                case AssistantMessage():
                    yield from self._answer(entry, state)
                case ToolResultMessage():
                    if entry in self._results.get(entry.call_id, ()):  # without a call
                        call = ToolCallPart(call_id=entry.call_id, name=entry.name or "tool")
                        yield self._tool(call, entry, state)
                case BaseMessage():
                    yield MessageItem(state, *_voice(entry), _pieces(entry))
                case Compaction():
                    words = _compaction_words(entry, self._projection)
                    yield MarkerItem(state, words, readable(entry.summary), "compaction")
                case Subagent():
                    yield from self._child(entry)
                case _:
                    yield from self._marker(entry, state)

    def _state(self, entry: Entry) -> EntryState:
        fate = self._projection.fate(entry.index).kind
        return EntryState(entry.index, entry.at, fate, self._projection.is_pinned(entry.index))

    def _answer(self, answer: AssistantMessage, state: EntryState) -> Iterator[Item]:
        yield MessageItem(state, "answer", "", _pieces(answer))
        for call in answer.calls:
            yield from self._call(call, answer)
        if answer.error:
            yield MarkerItem(state, "the answer failed", readable(answer.error), "alert")
        elif answer.stop_reason == "cancelled":
            yield MarkerItem(state, "cancelled")

    def _call(self, call: ToolCallPart, answer: AssistantMessage) -> Iterator[Item]:
        waiting = self._results.get(call.call_id, [])
        result = next((result for result in waiting if result.index > answer.index), None)
        if result is not None:
            waiting.remove(result)
        yield self._tool(call, result, self._state(result or answer))
        for entry in self._entries if self._children else ():
            if isinstance(entry, Subagent) and entry.call_id == call.call_id:
                yield from self._child(entry)

    def _tool(self, call: ToolCallPart, result: ToolResultMessage | None, state: EntryState) -> ToolItem:
        subject = subject_of(call)
        is_path = subject.kind == "path"
        words = one_line(subject.text.removeprefix(self._below) if is_path else subject.text)
        images = [part for part in result.parts if isinstance(part, ImagePart)] if result else []
        return ToolItem(
            entry=state,
            name=one_line(call.name) or "tool",
            subject=words,
            arguments=readable(call.arguments),
            outcome=_outcome(result) if result else "no result",
            failed=result is not None and result.is_error,
            output=readable(result.text) if result else "",
            images=tuple(images),
            diff=readable(result.details.diff or "") if result else "",
            path=words if is_path else "",
        )

    def _child(self, marker: Subagent) -> Iterator[ChildItem]:
        child = self._children.pop(marker.child, None)
        if child is not None:
            words = ": ".join(filter(None, (one_line(marker.agent) or "subagent", one_line(marker.title))))
            count = many(len(child.entries), "entry", "entries")
            yield ChildItem(self._state(marker), f"{words} · {count}", page_of(child))

    def _marker(self, entry: Entry, state: EntryState) -> Iterator[MarkerItem]:
        match entry:
            case Revert():
                yield MarkerItem(state, _rewind_words(entry), readable(entry.text), "rule")
            case Clear():
                yield MarkerItem(state, "context cleared: the history stays", level="rule")
            case Undo():
                target = self._projection.entry(entry.target)
                kind = _KINDS.get(target.type, target.type) if target else "entry"
                yield MarkerItem(state, f"{kind} {entry.target} undone", level="rule")
            case Edit():
                yield MarkerItem(state, f"{entry.action} {entry.target}")
            case ModelChange():
                yield MarkerItem(state, f"model: {one_line(entry.model)}")
            case Approval():
                yield MarkerItem(state, one_line(approval_words(entry)))
            case NoticeRecord(level="error"):
                yield MarkerItem(state, one_line(entry.text), level="alert")
            case NoticeRecord():
                yield MarkerItem(state, one_line(entry.text))
            case RequestRecord(error=str() as error):
                text = readable(f"{error}\n\n{entry.said or ''}".strip())
                yield MarkerItem(state, "the request failed", text, "alert")
            case _:
                pass


_KINDS: Final = {"revert": "rewind"}
"""Names of entry types for people, if they differ."""


def _rewind_words(revert: Revert) -> str:
    target = f"checkpoint {revert.checkpoint}" if revert.moment is None else f"entry {revert.moment}"
    if not revert.context:
        return f"rewind to {target} · files only"
    return f"rewind to {target} · files restored" if revert.files else f"rewind to {target}"


def _compaction_words(compaction: Compaction, projection: Projection) -> str:
    """`116.2k → 27.4k tokens, 123 entries compacted`."""
    words = [sizes_words(projection, compaction, "tokens"), describe_compaction(projection, compaction)]
    if all(marker.index != compaction.index for marker in projection.markers):
        words.append("no longer in force")
    return ", ".join(filter(None, words))


def _pieces(message: BaseMessage) -> tuple[Piece, ...]:
    """Return the shown parts: no calls, no empty texts."""
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
    """Return voice and title of a message by the program."""
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


def _outcome(result: ToolResultMessage) -> str:
    details = result.details
    outcome = one_line(details.brief)
    if not outcome:
        added = sum(touch.added for touch in details.files)
        outcome = change(added, sum(touch.removed for touch in details.files))
    if result.is_error and "✗" not in outcome:
        outcome = f"{outcome or 'failed'} ✗"
    duration = seconds(details.seconds) if details.seconds is not None else ""
    return " · ".join(filter(None, (outcome, duration)))


# --- images -----------------------------------------------------------------------------------------

_BITMAPS: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Not SVG, which is a document of its own."""


def image_words(image: ImagePart) -> str:
    """`image: image/png, 1024 × 768, 45 kB`."""
    size = f", {image.width} × {image.height}" if image.width and image.height else ""
    kind = image.media_type if image.media_type in _BITMAPS else "of another kind"
    return f"image: {kind}{size}, {max(1, len(image.data) * 3 // 4000)} kB"


def image_source(image: ImagePart) -> str | None:
    """Return a bitmap's `data:` address; None if damaged."""
    if image.media_type not in _BITMAPS:
        return None
    try:
        data = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"data:{image.media_type};base64,{base64.b64encode(data).decode()}" if data else None
