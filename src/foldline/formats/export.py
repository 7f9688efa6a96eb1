"""The formats a session can be written in, and how much of one is written."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from foldline.context.calls import paired
from foldline.context.numbers import many
from foldline.context.projection import Projection, project
from foldline.context.view import ViewItem, is_preamble, is_summary, without_recall
from foldline.context.view_state import unmarked
from foldline.history import typed_path
from foldline.history.paths import check_new
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    CompactionDetails,
    Edit,
    Entry,
    FoldlineError,
    Kept,
    ModelChange,
    NoticeRecord,
    Part,
    Revert,
    SessionHeader,
    Subagent,
    ThinkingPart,
    Title,
    ToolCallPart,
    Written,
)

from .base import parse_object

if TYPE_CHECKING:
    from .redaction import Redactor

HANDED_OVER: Final = ("claude-code", "codex", "pi", "kimi-cli", "copilot", "opencode")
"""Agents that a session is handed over to: no format of an export."""


@dataclass(frozen=True, slots=True)
class Original:
    """The session that is written: one that was read, in whatever format it was."""

    header: SessionHeader
    entries: Sequence[Entry]
    projection: Projection
    folder: Path | None = None
    """Where its side files lie (`outputs/`, `contents/`); None where it has none that may be written."""
    redactor: "Redactor | None" = None
    """What side files are redacted with as they are written; header and entries are redacted already."""
    children: "tuple[Original, ...]" = ()
    """Its subagents."""


@dataclass(frozen=True, slots=True)
class Exported:
    data: bytes
    """What the file holds."""
    notes: tuple[str, ...] = ()
    """What could not be said in this format, counted. Sentences."""
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """Files that lie beside it, by name."""


Writer: TypeAlias = Callable[[Original], Exported]
"""Writes a session in a format of `export`."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format, and the module that writes it."""

    name: str
    title: str
    suffix: str
    """Of its file."""
    module: str
    writer: str
    is_text: bool = True
    """Whether a terminal may show it."""
    has_children: bool = False
    """Whether it has a place for the sessions of subagents."""

    def write(self, original: Original) -> Exported:
        writer: Writer = getattr(import_module(f".{self.module}", __package__), self.writer)
        exported = writer(original)
        if self.has_children or not original.children:
            return exported
        count = many(len(original.children), "subagent")
        left_out = f"Left out: the steps of {count}. What they answered is the result of their calls."
        return replace(exported, notes=(*exported.notes, left_out))


WRITTEN = (
    ExportFormat("openai", "OpenAI chat", ".json", "writers.openai", "write_openai"),
    ExportFormat("markdown", "Markdown", ".md", "writers.markdown", "write_markdown", has_children=True),
    ExportFormat("html", "HTML", ".html", "writers.html", "write_html", has_children=True),
    ExportFormat("foldline", "Foldline, as one file", ".foldline", "bundle", "write_bundle", False, True),
)


def export_format(name: str) -> ExportFormat:
    """The format of this name.

    Raises:
        FoldlineError: there is none.
    """
    for known in WRITTEN:
        if known.name == name:
            return known
    if name in HANDED_OVER:
        raise FoldlineError(handed_over(name))
    names = ", ".join(known.name for known in WRITTEN)
    raise FoldlineError(f"There is no format {name!r} to export to: choose one of {names}.")


def handed_over(agent: str) -> str:
    """Return the error for an agent as a format of an export."""
    return f"{agent} is no format of an export: `foldline handoff --to {agent}` goes on in it."


def only_view(original: Original) -> Original:
    """Return a session of only the view's messages."""
    projection = original.projection
    entries: list[Entry] = []
    if projection.title:
        entries.append(Title(title=projection.title))
    if projection.model:
        entries.append(ModelChange(index=len(entries), model=projection.model))
    head: list[Kept] = []
    for item in projection.view:
        index = len(entries)
        message = _viewed(item, projection)
        if item.written:
            written = Written(message=message.model_copy(update={"nth": 0}))
            compaction = Compaction(
                index=index,
                at=message.at,
                summary=message.text,
                first_kept_index=index,
                head=(*head, written),
                strategy="export",
                details=_files_of(projection),
            )
            entries.append(compaction)
        else:
            entries.append(message.model_copy(update={"index": index}))
        if not is_preamble(message):
            head.append(Kept(ref=index))
    return replace(_with(original, entries), children=())


def _viewed(item: ViewItem, projection: Projection) -> BaseMessage:
    """Return an item's message, without the usage of another view."""
    message = unmarked(item).message
    change = projection.newest_change
    if item.written or (change is not None and message.index <= change.index):
        return _without_usage(message)
    return message


def _files_of(projection: Projection) -> CompactionDetails:
    compactions = projection.compactions()
    return compactions[-1].details if compactions else CompactionDetails()


PROVIDER: Final = "unknown"
"""The provider in sessions for other agents, which choose one of their own when they open one."""


@dataclass(frozen=True, slots=True)
class HandedView:
    """The view of a session as another agent continues it."""

    header: SessionHeader
    title: str
    model: str
    files: CompactionDetails
    """The files that the summaries list."""
    summary: BaseMessage | None
    """The summary that opens the view."""
    messages: list[tuple[datetime, BaseMessage]]
    """The other messages with their times: no preamble and no thinking, and a result for each call."""
    invalid_calls: int
    """How many calls had arguments that JSON cannot hold. Theirs are empty objects, as in a request."""

    def exported(
        self, agent: str, data: bytes, *notes: str, beside: Mapping[str, bytes] | None = None
    ) -> Exported:
        """Return the written files, with notes on omissions."""
        own = f"{agent} brings its own system prompt and reads instruction files itself: none are written."
        if self.invalid_calls:
            calls = many(self.invalid_calls, "call has", "calls have")
            notes = (f"{calls} arguments that are no JSON object: an empty one is written.", *notes)
        return Exported(data, (own, *notes), beside or {})


def handed_view(original: Original) -> HandedView:
    """Prepare a view for an agent without our tools."""
    projection = original.projection
    view = paired(_handed(item, projection) for item in projection.view if not item.is_preamble)
    summary = None
    if view and is_summary(view[0]) and view[0].text.strip():
        summary = view.pop(0)
    time = original.header.created_at
    messages: list[tuple[datetime, BaseMessage]] = []
    invalid = 0
    for message in view:
        time = message.at or time
        valid = tuple(_with_valid_arguments(part) for part in message.parts)
        invalid += sum(old is not new for old, new in zip(message.parts, valid, strict=True))
        messages.append((time, message.model_copy(update={"parts": valid})))
    return HandedView(
        original.header,
        projection.title or "",
        projection.model or "",
        _files_of(projection),
        summary,
        messages,
        invalid,
    )


def _handed(item: ViewItem, projection: Projection) -> BaseMessage:
    message = _viewed(item, projection)
    if item.written or item.content is not None:
        message = without_recall(message)
    parts = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
    return message.model_copy(update={"parts": parts})


_LEVELS: Final = 8
"""More than the nesting of a record around the arguments of a call."""


def _with_valid_arguments(part: Part) -> Part:
    if not isinstance(part, ToolCallPart):
        return part
    data = part.arguments.encode()
    arguments = parse_object(data)
    if arguments is not None and parse_object(b'{"":' * _LEVELS + data + b"}" * _LEVELS) is not None:
        with suppress(ValueError):  # Python reads NaN and Infinity, which are not JSON
            json.dumps(arguments, allow_nan=False)
            return part
    return part.model_copy(update={"arguments": "{}"})


def uncompacted(original: Original) -> Original:
    """Return all messages, without compactions, clears, rewinds and edits."""
    entries: list[Entry] = []
    turned = False
    for entry in original.entries:
        match entry:
            case BaseMessage():
                entries.append(_without_usage(entry) if turned else entry)
            case Title() | ModelChange() | NoticeRecord() | Subagent():
                entries.append(entry)
            case Compaction() | Clear() | Edit() | Revert():
                turned = True
            case _:
                pass
    return replace(_with(original, entries), children=tuple(map(uncompacted, original.children)))


def _without_usage(message: BaseMessage) -> BaseMessage:
    """Drop an answer's usage, which counts another view."""
    return message.model_copy(update={"usage": None}) if isinstance(message, AssistantMessage) else message


def _with(original: Original, entries: Sequence[Entry]) -> Original:
    return replace(original, entries=entries, projection=project(entries))


def destination(out: str | None, form: ExportFormat, session: str, folder: Path = Path()) -> Path:
    """Return a free path: `out`, or one named after the session.

    Raises:
        FoldlineError: something is there, or its folder is not.
    """
    if out is not None:
        path = folder / typed_path(out)
    else:
        name = re.sub(r"[^\w.-]+", "-", session).strip("-.")[:100] or "session"
        path = folder / f"{name}{form.suffix}"
    check_new(path)
    return path
