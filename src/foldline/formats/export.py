"""The formats a session can be written in, and how much of one is written."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from foldline.context.numbers import many
from foldline.context.projection import Projection, project
from foldline.context.view import is_preamble, without_recall
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
    Revert,
    SessionHeader,
    Subagent,
    ThinkingPart,
    Title,
    Written,
)

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
    ExportFormat("openai", "OpenAI chat", ".json", "readers.openai.reader", "write_openai"),
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
    """Says how a session goes on in an agent, which no export is for."""
    return f"{agent} is no format of an export: `foldline handoff --to {agent}` goes on in it."


def only_view(original: Original, *, elsewhere: bool = False) -> Original:
    """A session that is the view and nothing else. Its summaries stand for entries that are not there. To go
    on `elsewhere`, it is without thinking, which only its own server reads, and names no tool of ours."""
    projection = original.projection
    entries: list[Entry] = [Title(title=projection.title)] if projection.title else []
    entries += [ModelChange(index=len(entries), model=projection.model)] if projection.model else []
    known = projection.compactions()
    details = known[-1].details if known else CompactionDetails()
    turned = projection.newest_change.index if projection.newest_change else -1
    shown: list[Kept] = []
    for item in projection.view:
        index, message = len(entries), unmarked(item).message
        if elsewhere and (item.written or item.content is not None):
            message = without_recall(message)
        if elsewhere and item.thinking:
            said = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
            message = message.model_copy(update={"parts": said})
        if item.written:
            text = Written(message=_without_usage(message).model_copy(update={"nth": 0}))
            compaction = Compaction(
                index=index,
                at=message.at,
                summary=message.text,
                first_kept_index=index,
                head=(*shown, text),
                strategy="export",
                details=details,
            )
            entries.append(compaction)
        else:
            message = message if message.index > turned else _without_usage(message)
            entries.append(message.model_copy(update={"index": index}))
        if not is_preamble(message):
            shown.append(Kept(ref=index))
    return replace(_with(original, entries), children=())


def uncompacted(original: Original) -> Original:
    """Every message as it was said, with no compaction, clear, rewind or edit in force, nor summary."""
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
    """An answer's usage counts the view it was given in: in another one it would say something else."""
    return message.model_copy(update={"usage": None}) if isinstance(message, AssistantMessage) else message


def _with(original: Original, entries: Sequence[Entry]) -> Original:
    return replace(original, entries=entries, projection=project(entries))


def destination(out: str | None, form: ExportFormat, session: str, folder: Path = Path()) -> Path:
    """A path that is free: the one asked for, or one in `folder` named after the session of this id.

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
