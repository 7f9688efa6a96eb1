"""The formats a session can be written in, and how much of one is written."""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from foldline.context.numbers import many
from foldline.context.projection import Projection, project
from foldline.context.view import is_preamble
from foldline.context.view_state import unmarked
from foldline.history import typed_path
from foldline.history.paths import check_new, write_new
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
    Title,
    Written,
    system_words,
)

if TYPE_CHECKING:
    from .redaction import Redactor

WrittenFormat = Literal["openai", "kimi-cli", "pi", "markdown", "html", "foldline"]


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
    files: Mapping[str, bytes]
    """By name; just one, unless the format is a folder."""
    main: str
    notes: tuple[str, ...] = ()
    """What could not be said in this format, counted. Sentences."""

    @property
    def data(self) -> bytes:
        return self.files[self.main]


Writer: TypeAlias = Callable[[Original], Exported]


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format, and the module that writes it."""

    name: WrittenFormat
    title: str
    suffix: str
    """Of its file; of the folder's main file where it is a folder."""
    module: str
    writer: str
    kind: Literal["text", "binary", "folder"] = "text"
    """Text may go to stdout, a binary file only where nobody's terminal is, a folder never."""
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
    ExportFormat("openai", "OpenAI chat", ".json", "openai_chat", "write_openai"),
    ExportFormat("kimi-cli", "kimi-cli", ".jsonl", "writers.kimi", "write_kimi", kind="folder"),
    ExportFormat("pi", "pi", ".jsonl", "writers.pi", "write_pi"),
    ExportFormat("markdown", "Markdown", ".md", "writers.markdown", "write_markdown", has_children=True),
    ExportFormat("html", "HTML", ".html", "writers.html", "write_html", has_children=True),
    ExportFormat("foldline", "Foldline, as one file", ".foldline", "bundle", "write_bundle", "binary", True),
)


def export_format(name: str) -> ExportFormat:
    """Raises FoldlineError where there is no writer of this name."""
    for known in WRITTEN:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in WRITTEN)
    raise FoldlineError(f"There is no format {name!r} to export to: choose one of {names}.")


def only_view(original: Original) -> Original:
    """A session that is the view and nothing else. Its summaries stand for entries that are not there."""
    projection = original.projection
    entries: list[Entry] = [Title(title=projection.title)] if projection.title else []
    entries += [ModelChange(index=len(entries), model=projection.model)] if projection.model else []
    known = projection.compactions()
    details = known[-1].details if known else CompactionDetails()
    turned = projection.newest_change.index if projection.newest_change else -1
    shown: list[Kept] = []
    for item in projection.view:
        index, message = len(entries), unmarked(item).message
        if item.written:
            text = Written(message=message.model_copy(update={"nth": 0}))
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
        path = folder / (f"{name}-{form.name}" if form.kind == "folder" else f"{name}{form.suffix}")
    check_new(path)
    return path


def write_exported(exported: Exported, form: ExportFormat, path: Path) -> None:
    """Writes the file, or the folder with all of its files, or nothing.

    Raises:
        FoldlineError: it is there already, or the disk refused.
    """
    if form.kind != "folder":
        write_new(path, exported.data)
        return
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise FoldlineError(f"{path} cannot be made: {system_words(error)}.") from None
    try:
        for name, data in exported.files.items():
            write_new(path / name, data)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
