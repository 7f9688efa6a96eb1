"""Describes a session for lists.

The description is derived from the entries, and cached in `meta.json`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from pydantic import AwareDatetime

from foldline.protocol import (
    AssistantMessage,
    Clear,
    Compaction,
    Entry,
    ModelChange,
    Revert,
    SessionHeader,
    Title,
    Undo,
    UserMessage,
)
from foldline.protocol.messages import Count, Record
from foldline.text.shorten import clip_cells

from .origin import foreign_upto, parent_of

TITLE_CELLS = 60
_SEARCHED_LENGTH = 4096
"""A prompt's first line is searched for only in this many characters.

A pasted line may have megabytes.
"""
_HEADINGS = ("# Files mentioned by the user:", "# Context from my IDE setup:")
_REQUEST = "## My request for Codex:"
"""Heading that Codex's editor extensions place before a prompt.

`_HEADINGS` are the headings of the sections before it.
"""


class Meta(Record):
    """The content of `meta.json`, which is a cache.

    `describe` derives this content from the entries.
    """

    id: str
    cwd: str
    title: str = ""
    first_prompt: str = ""
    """First line of the first typed prompt, shortened."""
    last_prompt: str = ""
    model: str = ""
    entries: Count = 0
    """Number of entries, including those of unknown types."""
    tokens: Count = 0
    """Size of the context, in tokens; 0 if unknown.

    This is the size last reported by a model, or left by a compaction.
    """
    size: Count = 0
    """Size of the described event file, in bytes.

    If the file's actual size differs, the description is outdated.
    """
    created_at: AwareDatetime
    updated_at: AwareDatetime
    """Time of the newest entry that is not a title."""
    note: str = ""
    """Description of a problem with the file, as a sentence.

    Empty if there is none.
    """
    imported: bool = False
    """Whether the session was imported into a folder chosen by the imported file.

    False again after the user has typed a prompt.
    """


class Describer:
    """Builds a description entry by entry.

    A long history therefore has to be read only once.
    """

    def __init__(self, header: SessionHeader, earlier: Meta | None = None) -> None:
        """Begin a description, or continue an earlier one."""
        parent = parent_of(header)
        start = earlier or Meta(
            id=header.id,
            cwd=header.cwd,
            created_at=aware(header.created_at),
            updated_at=aware(header.created_at),
            imported=parent is not None and parent.named,
        )
        self._start = start
        self._foreign = foreign_upto(header)
        self._title = "" if start.title == start.first_prompt else start.title
        self._model = start.model
        self._first_prompt = start.first_prompt
        self._last_prompt = start.last_prompt
        self._entries = start.entries
        self._tokens = start.tokens
        self._updated = start.updated_at
        self._imported = start.imported

    def add(self, entry: Entry) -> None:
        self._entries += 1
        if not isinstance(
            entry, Title
        ):  # a new title does not make an old session a recent one
            self._updated = entry.at or self._updated
        match entry:
            case UserMessage(origin="typed") if entry.text.strip():
                self._last_prompt = prompt_line(entry) or self._last_prompt
                self._first_prompt = self._first_prompt or self._last_prompt
                self._imported &= entry.index <= self._foreign
            case AssistantMessage():
                self._model = entry.model or self._model
                if (
                    entry.usage is not None
                    and entry.usage.total
                    and entry.index > self._foreign
                ):
                    self._tokens = entry.usage.total
            case Title():
                self._title = clip_cells(entry.title, TITLE_CELLS) or self._title
            case ModelChange():
                self._model = entry.model
            case Compaction() if entry.index > self._foreign:
                self._tokens = entry.tokens_after
            case Clear() | Undo() | Revert(context=True):
                self._tokens = 0
            case _:
                pass

    def meta(self, size: int = 0, note: str = "") -> Meta:
        """Return the description so far.

        Args:
            size: size of the event file, in bytes.
        """
        return self._start.model_copy(
            update={
                "title": self._title or self._first_prompt,
                "first_prompt": self._first_prompt,
                "last_prompt": self._last_prompt,
                "model": self._model,
                "entries": self._entries,
                "tokens": self._tokens,
                "size": size,
                # A fork is newer than its copied entries.
                "updated_at": max(self._start.created_at, aware(self._updated)),
                "note": note,
                "imported": self._imported,
            }
        )


def aware(moment: datetime) -> datetime:
    """Return the time. If it has no time zone, UTC is assumed."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def describe(header: SessionHeader, entries: Iterable[Entry], size: int = 0) -> Meta:
    """Describe a history."""
    return describer_of(header, entries).meta(size)


def describer_of(header: SessionHeader, entries: Iterable[Entry]) -> Describer:
    """Return a describer that has processed these entries."""
    describer = Describer(header)
    for entry in entries:
        describer.add(entry)
    return describer


def prompt_line(message: UserMessage) -> str:
    """Return a prompt's first line, shortened."""
    text = message.text.lstrip()
    if text.startswith(_HEADINGS):
        files, _, request = text.partition(_REQUEST)
        text = request.lstrip() or files.partition("\n")[2].lstrip("\n# ")
    for line in text[:_SEARCHED_LENGTH].splitlines():
        if shown := clip_cells(line, TITLE_CELLS):
            return shown
    return ""
