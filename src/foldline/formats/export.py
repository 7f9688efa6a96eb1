"""The export formats, and how much of a session is exported."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, TypeAlias

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
from foldline.text.numbers import many
from foldline.view.calls import paired
from foldline.view.items import ViewItem, is_preamble, is_summary, without_recall
from foldline.view.projection import Projection, project
from foldline.view.state import unmarked

from .base import parse_object

HANDED_OVER: Final = ("claude-code", "codex", "pi", "kimi-cli", "copilot", "opencode")
"""Agents to which sessions can be handed over.

Their names are not export formats.
"""
NO_SUCH_FORMAT: Final = "There is no export format {name!r}. Available: {formats}."
USE_HANDOFF: Final = (
    "{agent} is not an export format. Use `foldline handoff --to {agent}` instead."
)
CHILDREN_LEFT_OUT: Final = (
    "Left out: the steps of {subagents}. Their answers are in the tool results."
)
OWN_PROMPT: Final = (
    "Left out: the system prompt and the instructions, because {agent} uses its own."
)
INVALID_ARGUMENTS: Final = (
    "The arguments of {calls} are not a JSON object and were replaced by an empty one."
)


class SideFileRedactor(Protocol):
    """Replaces credentials in side files as they are written."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of credentials found, by kind."""

    def data(self, data: bytes) -> bytes:
        """Return a side file's content with its credentials replaced."""


@dataclass(frozen=True, slots=True)
class Original:
    """The session to write, as it was read from any format."""

    header: SessionHeader
    entries: Sequence[Entry]
    projection: Projection
    folder: Path | None = None
    """The folder with the side files (`outputs/`, `contents/`).

    None if there are no side files to write.
    """
    redactor: SideFileRedactor | None = None
    """Redacts side files as they are written.

    The header and the entries have already been redacted.
    """
    children: "tuple[Original, ...]" = ()
    """The session's subagents."""


@dataclass(frozen=True, slots=True)
class Exported:
    data: bytes
    """The content of the main file."""
    notes: tuple[str, ...] = ()
    """Notes, with counts, on parts of the session that this format cannot express."""
    side_files: Mapping[str, bytes] = field(default_factory=dict)
    """Additional files for the same folder, with their contents by name."""


Writer: TypeAlias = Callable[[Original], Exported]
"""A function that writes a session in one of the export formats."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """An export format, and the module that writes it."""

    name: str
    title: str
    suffix: str
    """The file name suffix of an exported file."""
    module: str
    writer: str
    is_text: bool = True
    """Whether the file can be printed in a terminal."""
    has_children: bool = False
    """Whether the format can contain the sessions of subagents."""

    def write(self, original: Original) -> Exported:
        writer: Writer = getattr(
            import_module(f".{self.module}", __package__), self.writer
        )
        exported = writer(original)
        if self.has_children or not original.children:
            return exported
        count = many(len(original.children), "subagent")
        left_out = CHILDREN_LEFT_OUT.format(subagents=count)
        return replace(exported, notes=(*exported.notes, left_out))


WRITTEN = (
    ExportFormat("openai", "OpenAI chat", ".json", "writers.openai", "write_openai"),
    ExportFormat(
        "markdown",
        "Markdown",
        ".md",
        "writers.markdown",
        "write_markdown",
        has_children=True,
    ),
    ExportFormat(
        "html", "HTML", ".html", "writers.html", "write_html", has_children=True
    ),
    ExportFormat(
        "foldline",
        "Foldline file",
        ".foldline",
        "bundle",
        "write_bundle",
        False,
        True,
    ),
)


def export_format(name: str) -> ExportFormat:
    """Return the format with this name.

    Raises:
        FoldlineError: no format has this name.
    """
    for form in WRITTEN:
        if form.name == name:
            return form
    if name in HANDED_OVER:
        raise FoldlineError(handed_over(name))
    names = ", ".join(form.name for form in WRITTEN)
    raise FoldlineError(NO_SUCH_FORMAT, name=name, formats=names)


def handed_over(agent: str) -> str:
    """Return the error for naming an agent as an export format."""
    return USE_HANDOFF.format(agent=agent)


def only_view(original: Original) -> Original:
    """Return a copy of the session that contains only the messages in the view."""
    projection = original.projection
    entries: list[Entry] = []
    if projection.title:
        entries.append(Title(title=projection.title))
    if projection.meter.model:
        entries.append(ModelChange(index=len(entries), model=projection.meter.model))
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
    """Return an item's message.

    Its usage is removed if the usage belongs to another view.
    """
    message = unmarked(item).message
    change = projection.newest_change
    if item.written or (change is not None and message.index <= change.index):
        return _without_usage(message)
    return message


def _files_of(projection: Projection) -> CompactionDetails:
    compactions = projection.compactions()
    return compactions[-1].details if compactions else CompactionDetails()


PROVIDER: Final = "unknown"
"""The provider named in sessions that are written for other agents.

The agents choose their own provider when they open a session.
"""


@dataclass(frozen=True, slots=True)
class HandedView:
    """A session's view, prepared for another agent to continue."""

    header: SessionHeader
    title: str
    model: str
    files: CompactionDetails
    """The files that the summaries mention."""
    summary: BaseMessage | None
    """The summary at the start of the view, if there is one."""
    messages: list[tuple[datetime, BaseMessage]]
    """The other messages with their times.

    The preamble and thinking are left out, and each call has a result.
    """
    invalid_calls: int
    """The number of calls whose arguments were invalid JSON.

    The arguments were replaced with an empty object.
    """

    def exported(
        self,
        agent: str,
        data: bytes,
        *notes: str,
        side_files: Mapping[str, bytes] | None = None,
    ) -> Exported:
        """Return the files to write, with notes on parts that are left out."""
        if self.invalid_calls:
            calls = many(self.invalid_calls, "call")
            notes = (INVALID_ARGUMENTS.format(calls=calls), *notes)
        own = OWN_PROMPT.format(agent=agent)
        return Exported(data, (own, *notes), side_files or {})


def handed_view(original: Original) -> HandedView:
    """Prepare a view for an agent that does not have Foldline's tools."""
    projection = original.projection
    view = paired(
        _handed(item, projection) for item in projection.view if not item.is_preamble
    )
    summary = None
    if view and is_summary(view[0]) and view[0].text.strip():
        summary = view.pop(0)
    time = original.header.created_at
    messages: list[tuple[datetime, BaseMessage]] = []
    invalid = 0
    for message in view:
        time = message.at or time
        valid = tuple(_with_valid_arguments(part) for part in message.parts)
        invalid += sum(
            old is not new for old, new in zip(message.parts, valid, strict=True)
        )
        messages.append((time, message.model_copy(update={"parts": valid})))
    return HandedView(
        original.header,
        projection.title or "",
        projection.meter.model or "",
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
"""Number of nesting levels to leave free around a call's arguments.

No record adds this many levels.
"""


def _with_valid_arguments(part: Part) -> Part:
    if not isinstance(part, ToolCallPart):
        return part
    data = part.arguments.encode()
    arguments = parse_object(data)
    if (
        arguments is not None
        and parse_object(b'{"":' * _LEVELS + data + b"}" * _LEVELS) is not None
    ):
        # Python parses NaN and Infinity, which are not valid JSON.
        with suppress(ValueError):
            json.dumps(arguments, allow_nan=False)
            return part
    return part.model_copy(update={"arguments": "{}"})


def uncompacted(original: Original) -> Original:
    """Return a session that contains all messages.

    Compactions, clears, rewinds and edits are ignored.
    """
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
    return replace(
        _with(original, entries), children=tuple(map(uncompacted, original.children))
    )


def _without_usage(message: BaseMessage) -> BaseMessage:
    """Remove an answer's usage, because it describes another view."""
    return (
        message.model_copy(update={"usage": None})
        if isinstance(message, AssistantMessage)
        else message
    )


def _with(original: Original, entries: Sequence[Entry]) -> Original:
    return replace(original, entries=entries, projection=project(entries))


def destination(
    out: str | None,
    form: ExportFormat,
    session: str,
    folder: Path = Path(),
) -> Path:
    """Return the path to write to: `out`, or a path named after the session.

    Raises:
        FoldlineError: the path exists already, or its folder does not exist.
    """
    if out is not None:
        path = folder / typed_path(out)
    else:
        name = re.sub(r"[^\w.-]+", "-", session).strip("-.")[:100] or "session"
        path = folder / f"{name}{form.suffix}"
    check_new(path)
    return path
