"""The formats a session can be written in, one line each. A writer is imported only when it is used.

A writer is a pure function of a session as it was read. What it writes shows the next model what this
session's model sees now, and as much of the history before it as the format can hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from foldline.context.projection import Projection
from foldline.protocol import Entry, FoldlineError, SessionHeader

if TYPE_CHECKING:
    from foldline.formats.redaction.session import Redactor

WrittenFormat = Literal["openai", "kimi-cli", "pi", "markdown", "html", "foldline"]


@dataclass(frozen=True, slots=True)
class Original:
    """The session that is written: one that was read, in whatever format it was."""

    header: SessionHeader
    entries: Sequence[Entry]
    projection: Projection
    """Of these entries."""
    folder: Path | None = None
    """Where its side files lie (`outputs/`, `contents/`); None where it has none that may be written."""
    redactor: "Redactor | None" = None
    """What side files are redacted with as they are written; header and entries are redacted already."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What a writer wrote."""

    files: Mapping[str, bytes]
    """By name; just one, unless the format is a folder."""
    main: str
    """The name of the file to read it by."""
    notes: tuple[str, ...] = ()
    """What could not be said in this format, counted. Sentences."""

    @property
    def data(self) -> bytes:
        """The main file."""
        return self.files[self.main]


Writer: TypeAlias = Callable[[Original], Exported]


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format, and the module that writes it."""

    name: WrittenFormat
    title: str
    """For sentences."""
    suffix: str
    """Of its file; of the folder's main file where it is a folder."""
    module: str
    writer: str
    kind: Literal["text", "binary", "folder"] = "text"
    """Text may go to stdout, a binary file only where nobody's terminal is, a folder never."""

    def write(self, original: Original) -> Exported:
        writer: Writer = getattr(import_module(f".{self.module}", __package__), self.writer)
        return writer(original)


WRITTEN = (
    ExportFormat("openai", "OpenAI chat", ".json", "writers.openai", "write_openai"),
    ExportFormat("kimi-cli", "kimi-cli", ".jsonl", "writers.kimi", "write_kimi", kind="folder"),
    ExportFormat("pi", "pi", ".jsonl", "writers.pi", "write_pi"),
    ExportFormat("markdown", "Markdown", ".md", "writers.markdown", "write_markdown"),
    ExportFormat("html", "HTML", ".html", "writers.html", "write_html"),
    ExportFormat("foldline", "Foldline, as one file", ".foldline", "bundle", "write_bundle", kind="binary"),
)


def export_format(name: str) -> ExportFormat:
    """Raises FoldlineError where there is no writer of this name."""
    for known in WRITTEN:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in WRITTEN)
    raise FoldlineError(f"There is no format {name!r} to export to: choose one of {names}.")
