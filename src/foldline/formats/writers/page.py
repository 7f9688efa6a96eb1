"""Converts a session to the blocks of a page, for the Markdown and HTML writers.

All times are in UTC.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from html import escape
from typing import Any, Final, Literal, TypeAlias

from foldline.formats.export import Original
from foldline.past.compactions import describe_compaction
from foldline.past.describe import call_title, describe, outcome_of, size_words
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
from foldline.text.harmless import with_signs
from foldline.text.numbers import many, seconds, tokens
from foldline.text.shorten import cut, first_line
from foldline.view.items import FateKind
from foldline.view.projection import Projection
from foldline.view.weight import agent_report, view_size

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]{0,64}[mK]")


def readable(text: str) -> str:
    """Remove colour codes, carriage returns and control characters from text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return with_signs(text)


def one_line(text: str, most: int = 200) -> str:
    """Join text to one line of at most `most` characters."""
    line = " ".join(readable(text[: most * 8]).split())
    return cut(line, most)


# --- blocks -----------------------------------------------------------------------------------------

LabelKind = Literal[
    "prompt", "call", "quiet", "thinking", "compaction", "rule", "alert", "info"
]


@dataclass(frozen=True, slots=True)
class Label:
    """A line that describes what follows, or stands for itself."""

    kind: LabelKind
    name: str = ""
    subject: str = ""
    """The file or command that a call is about."""
    words: str = ""
    state: str = ""
    """The entry's state, such as ` · summarised`; empty if the model sees the entry verbatim."""
    time: str = ""
    """The entry's time, for example `14:02`; empty if it is unknown."""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ProsePiece:
    """A prompt, or Markdown written by the model."""

    text: str
    is_prompt: bool = False


@dataclass(frozen=True, slots=True)
class CodePiece:
    """Text to show literally."""

    text: str
    language: str = "text"


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that can be expanded below a label."""

    label: Label
    blocks: "tuple[Block, ...]"
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class PageEntry:
    """The blocks of an entry, and the entry's state in the view."""

    index: int
    anchor: str
    fate: FateKind
    pinned: bool
    kind: str
    """Kind of the entry, as a CSS class."""
    blocks: "tuple[Block, ...]"


Block: TypeAlias = Label | ProsePiece | CodePiece | Fold | ImagePart | PageEntry


@dataclass(frozen=True, slots=True)
class SessionPage:
    title: str
    folder: str
    """The session's folder, on one line; empty if unknown."""
    facts: tuple[str, ...]
    """Models, dates and sizes, each in a few words."""
    entries: tuple[PageEntry, ...]


def label_html(label: Label) -> str:
    """Return a label's text as HTML, without its time and state."""
    parts = [f"<b>{escape(label.name)}</b>" if label.name else ""]
    parts.append(f"<code>{escape(label.subject)}</code>" if label.subject else "")
    line = " ".join(filter(None, parts))
    return " · ".join(filter(None, (line, escape(label.words))))


def page_of(original: Original) -> SessionPage:
    """Convert a whole session to a page.

    Records that are meant only for programs are left out.
    """
    return SessionPage(
        title=_title(original) or f"Session {one_line(original.header.id)}",
        folder=one_line(original.header.cwd),
        facts=tuple(_facts(original.projection, original.entries)),
        entries=tuple(_PageEntries(original)),
    )


def _title(original: Original) -> str:
    title = one_line(original.projection.title or "")
    if title:
        return title
    prompts = (
        one_line(first_line(entry.text), 80).lstrip("# ")
        for entry in original.entries
        if is_typed(entry)
    )
    return next(filter(None, prompts), "")


def _facts(projection: Projection, entries: Sequence[Entry]) -> Iterator[str]:
    models = [
        entry.model
        for entry in entries
        if isinstance(entry, AssistantMessage) and entry.model
    ]
    yield from map(one_line, dict.fromkeys(models))
    times = [entry.at for entry in entries if entry.at is not None]
    if times:
        first, last = (
            f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"
            for time in (min(times), max(times))
        )
        yield f"{first} to {last} UTC"
    yield many(len(entries), "entry", "entries")
    if projection.all_compactions:
        yield many(len(projection.all_compactions), "compaction")
    size = view_size(projection)
    yield f"{size_words(size)} tokens in the next request"
    report = agent_report(projection)
    if report:
        yield f"{tokens(report)} tokens in the agent's last request"


_SHORT_DIFF: Final = 60
"""Maximum number of lines in a diff that is shown expanded."""
_SHORT_OUTPUT: Final = 5
"""Maximum number of output lines that are shown expanded."""


class _PageEntries:
    """Yields the entries of a page in order.

    Results and subagents follow their calls. A call without a result is a part of its answer.

    Args:
        suffix: end of the entries' anchors, which makes those of a subagent unique.
    """

    def __init__(self, original: Original, suffix: str = "") -> None:
        self._entries = original.entries
        self._projection = original.projection
        self._cwd = original.header.cwd
        self._suffix = suffix
        self._children = {child.header.id: child for child in original.children}
        """The subagents that have not been shown yet, by id."""
        markers = [entry for entry in self._entries if isinstance(entry, Subagent)]
        self._markers = grouped((marker.call_id, marker) for marker in markers)
        """The markers of subagents, by the id of the call that started them."""
        results = [
            entry for entry in self._entries if isinstance(entry, ToolResultMessage)
        ]
        self._results = grouped((result.call_id, result) for result in results)
        """The results whose calls have not been shown yet, by call id."""

    def __iter__(self) -> Iterator[PageEntry]:
        prompts = 0
        for entry in self._entries:
            match entry:
                case UserMessage(origin="typed"):
                    prompts += 1
                    label = self._label(entry, "prompt", f"Prompt {prompts}")
                    yield self._entry(entry, "prompt", label, *_pieces(entry))
                case AssistantMessage():
                    yield from self._answer(entry)
                case ToolResultMessage():
                    # The result has not been shown yet if its call is missing from the session.
                    if entry in self._results.get(entry.call_id, ()):
                        name = entry.name or "tool"
                        call = ToolCallPart(call_id=entry.call_id, name=name)
                        yield self._entry(entry, "call", self._call(call, entry, entry))
                case BaseMessage():
                    text = readable(entry.text)
                    words = one_line(first_line(text), 100)
                    label = self._label(entry, "quiet", _voice(entry), words=words)
                    images = [
                        part for part in _pieces(entry) if isinstance(part, ImagePart)
                    ]
                    yield self._entry(
                        entry, "quiet", Fold(label, (CodePiece(text),)), *images
                    )
                case Subagent():
                    yield from self._child(entry)
                case _:
                    yield from self._marker(entry)

    def _entry(self, entry: Entry, kind: str, *blocks: Block) -> PageEntry:
        index = entry.index
        return PageEntry(
            index,
            f"e{index}{self._suffix}",
            self._projection.fate(index).kind,
            self._projection.is_pinned(index),
            kind,
            blocks,
        )

    def _label(
        self, entry: Entry, kind: LabelKind, name: str = "", **fields: Any
    ) -> Label:
        """Return a label with the entry's state and time."""
        fate = self._projection.fate(entry.index).kind
        state = " · pinned" if self._projection.is_pinned(entry.index) else ""
        if fate not in ("live", "aside"):
            state += f" · {fate}"
        time = f"{entry.at.astimezone(UTC):%H:%M}" if entry.at else ""
        return Label(kind, name, state=state, time=time, **fields)

    def _answer(self, answer: AssistantMessage) -> Iterator[PageEntry]:
        blocks: list[Block] = [*_pieces(answer)]
        calls: list[PageEntry] = []
        for call in answer.calls:
            waiting = self._results.get(call.call_id, [])
            result = next(
                (result for result in waiting if result.index > answer.index), None
            )
            if result is None:
                blocks.append(self._call(call, None, answer))
            else:
                waiting.remove(result)
                shown = self._call(call, result, result)
                calls.append(self._entry(result, "call", shown))
            for marker in self._markers.get(call.call_id, ()):
                calls += self._child(marker)
        if answer.error:
            blocks.append(Label("alert", words="the answer failed"))
            blocks.append(CodePiece(readable(answer.error)))
        elif answer.stop_reason == "cancelled":
            blocks.append(Label("info", words="cancelled"))
        if blocks:
            yield self._entry(answer, "answer", *blocks)
        yield from calls

    def _call(
        self, call: ToolCallPart, result: ToolResultMessage | None, entry: Entry
    ) -> Block:
        """Return a call with its result."""
        subject = one_line(call_title(call, self._cwd)[0])
        name = one_line(call.name) or "tool"
        label = self._label(entry, "call", name, subject=subject, words="no result")
        arguments = readable(call.arguments)
        blocks: list[Block] = []
        if len(arguments) > len(subject) + 40:
            blocks.append(CodePiece(arguments, "json"))
        is_open = False
        if result is not None:
            details = result.details
            outcome = one_line(outcome_of(result))
            duration = "" if details.seconds is None else seconds(details.seconds)
            words = " · ".join(filter(None, (outcome, duration)))
            label = replace(label, words=words, failed=result.is_error)
            output = readable(result.text)
            is_open = output.count("\n") < _SHORT_OUTPUT
            if details.diff:
                blocks = [CodePiece(readable(details.diff), "diff")]
                is_open = details.diff.count("\n") < _SHORT_DIFF
            elif output.strip():
                blocks.append(CodePiece(output))
            blocks += [part for part in result.parts if isinstance(part, ImagePart)]
        return Fold(label, tuple(blocks), is_open) if blocks else label

    def _child(self, marker: Subagent) -> Iterator[PageEntry]:
        """Yield a subagent's session, below the call that started it."""
        child = self._children.pop(marker.child, None)
        if child is not None:
            title = one_line(describe(self._projection, marker).title)
            count = many(len(child.entries), "entry", "entries")
            label = Label("call", words=f"{title} · {count}")
            entries = tuple(_PageEntries(child, f"-{one_line(child.header.id)}"))
            yield self._entry(marker, "call", Fold(label, entries))

    def _marker(self, entry: Entry) -> Iterator[PageEntry]:
        description = describe(self._projection, entry)
        words = one_line(description.title)
        text = ""
        kind: LabelKind = "info"
        match entry:
            case Compaction():
                scope = describe_compaction(self._projection, entry)
                words = f"{one_line(description.labelled)} · {scope}"
                label = self._label(entry, "compaction", words=words)
                summary = (ProsePiece(readable(entry.summary)),)
                yield self._entry(entry, "compaction", Fold(label, summary))
                return
            case Revert():
                text = entry.text
                kind = "rule"
            case Clear() | Undo():
                kind = "rule"
            case Edit() | ModelChange():
                words = one_line(description.labelled)
            case NoticeRecord(level="error"):
                kind = "alert"
            case NoticeRecord() | Approval():
                pass
            case RequestRecord(error=str() as error):
                words = "the request failed"
                text = f"{error}\n\n{entry.said or ''}".strip()
                kind = "alert"
            case _:
                return
        code = (CodePiece(readable(text)),) if text else ()
        yield self._entry(entry, kind, self._label(entry, kind, words=words), *code)


def _pieces(message: BaseMessage) -> Iterator[ProsePiece | Fold | ImagePart]:
    """Yield a message's visible parts, without calls and empty texts."""
    is_prompt = isinstance(message, UserMessage)
    for part in message.parts:
        match part:
            case TextPart() if part.text.strip():
                yield ProsePiece(readable(part.text).strip("\n"), is_prompt)
            case ThinkingPart() if part.text.strip():
                text = readable(part.text)
                label = Label(
                    "thinking", "thinking", words=one_line(first_line(text), 100)
                )
                yield Fold(label, (CodePiece(text.strip()),))
            case ImagePart():
                yield part


def _voice(message: BaseMessage) -> str:
    """Return the title of a message that the program wrote."""
    match message:
        case SystemMessage(origin="summary"):
            return "Summary"
        case SystemMessage():
            return "System prompt"
        case DeveloperMessage(source=str() as source):
            return one_line(source)
        case DeveloperMessage():
            return f"Note to the model ({message.origin})"
        case UserMessage(origin="shell"):
            return "Shell command"
        case _:
            return "Machine text"


# --- images -----------------------------------------------------------------------------------------

_BITMAPS: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types of images that are shown.

SVG is excluded, because an SVG file is a whole document.
"""


def image_words(image: ImagePart) -> str:
    """Describe an image, for example `image: image/png, 1024 × 768, 45 kB`."""
    size = f", {image.width} × {image.height}" if image.width and image.height else ""
    kind = image.media_type if image.media_type in _BITMAPS else "another format"
    return f"image: {kind}{size}, {max(1, len(image.data) * 3 // 4000)} kB"


def image_source(image: ImagePart) -> str | None:
    """Return a bitmap's `data:` URL.

    Returns None if the image is damaged or not a bitmap.
    """
    if image.media_type not in _BITMAPS:
        return None
    try:
        data = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return (
        f"data:{image.media_type};base64,{base64.b64encode(data).decode()}"
        if data
        else None
    )
