"""What a list of sessions shows of one: derived from its entries, kept beside them, never the truth."""

import unicodedata
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

from .origin import foreign_upto, parent_of

TITLE_CELLS = 60
_LOOKED_AT = 4096
"""Characters of a prompt among which its first line is looked for: a pasted file may be one of megabytes."""
_HEADINGS = ("# Files mentioned by the user:", "# Context from my IDE setup:")
_REQUEST = "## My request for Codex:"
"""What Codex's editors put above a prompt."""


class Meta(Record):
    """The content of `meta.json`. Can be thrown away: `describe` makes it again from the entries."""

    id: str
    cwd: str
    title: str = ""
    first_prompt: str = ""
    """First line of the first thing the user typed, shortened."""
    last_prompt: str = ""
    model: str = ""
    entries: Count = 0
    """All of its entries, records of types unknown here included, as `history` and `stats` count them."""
    tokens: Count = 0
    """Size of the context, as a model last reported it or a compaction left it; 0 where neither is
    known, as after an undo."""
    size: Count = 0
    """Bytes of the event file this describes: any other size there makes this stale."""
    created_at: AwareDatetime
    updated_at: AwareDatetime
    """When something was last said or done in it. Only giving it a title does not count."""
    note: str = ""
    """What is wrong with the file, as a sentence; empty where nothing is."""
    imported: bool = False
    """Whether it came from elsewhere to a folder it named itself, and nobody has said anything in it here."""


class Describer:
    """Gathers what a list shows, entry by entry, so that describing a long history costs nothing anew."""

    def __init__(self, header: SessionHeader) -> None:
        self._header = header
        self._title = self._model = self._first = self._last = ""
        self._entries = self._tokens = 0
        self._updated = header.created_at
        self._foreign = foreign_upto(header)
        parent = parent_of(header)
        self._imported = parent is not None and parent.named

    @classmethod
    def after(cls, header: SessionHeader, meta: Meta) -> "Describer":
        """One that continues where this description ended, so that only what came since need be read."""
        made = cls(header)
        made._title = "" if meta.title == meta.first_prompt else meta.title
        made._first, made._last, made._model = meta.first_prompt, meta.last_prompt, meta.model
        made._entries, made._tokens, made._updated = meta.entries, meta.tokens, meta.updated_at
        made._imported = meta.imported
        return made

    def add(self, entry: Entry) -> None:
        self._entries += 1
        if not isinstance(entry, Title):  # an old session that is given a name is still an old one
            self._updated = entry.at or self._updated
        match entry:
            case UserMessage(origin="typed") if entry.text.strip():
                self._last = prompt_line(entry) or self._last
                self._first = self._first or self._last
                self._imported &= entry.index <= self._foreign
            case AssistantMessage():
                self._model = entry.model or self._model
                if entry.usage is not None and entry.usage.total and entry.index > self._foreign:
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
        """What a list shows now, for an event file of `size` bytes."""
        created = aware(self._header.created_at)
        return Meta(
            id=self._header.id,
            cwd=self._header.cwd,
            title=self._title or self._first,
            first_prompt=self._first,
            last_prompt=self._last,
            model=self._model,
            entries=self._entries,
            tokens=self._tokens,
            size=size,
            created_at=created,
            updated_at=max(created, aware(self._updated)),  # a fork is newer than what it began with
            note=note,
            imported=self._imported,
        )


def aware(moment: datetime) -> datetime:
    """The time, in UTC where it names no zone."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def describe(header: SessionHeader, entries: Iterable[Entry], size: int = 0, note: str = "") -> Meta:
    """What a list shows of this history."""
    return describer_of(header, entries).meta(size, note)


def describer_of(header: SessionHeader, entries: Iterable[Entry]) -> Describer:
    """A describer that has seen these entries."""
    describer = Describer(header)
    for entry in entries:
        describer.add(entry)
    return describer


def prompt_line(message: UserMessage) -> str:
    """The first line of what a prompt asks, as titles and lists show it."""
    text = message.text.lstrip()
    if text.startswith(_HEADINGS):
        files, _, asked = text.partition(_REQUEST)
        text = asked.lstrip() or files.partition("\n")[2].lstrip("\n# ")
    for line in text[:_LOOKED_AT].splitlines():
        if shown := clip_cells(line, TITLE_CELLS):
            return shown
    return ""


def clip_cells(text: str, most: int) -> str:
    """One line of at most this many terminal cells: control characters go, what does not fit becomes `…`."""
    text = text.lstrip()[: most * 8]  # enough for any line; a pasted file may be one of megabytes
    text = "".join(char if unicodedata.category(char) not in ("Cc", "Cf", "Cs") else " " for char in text)
    text = " ".join(text.split())
    used = 0
    for position, char in enumerate(text):
        used += cells(char)
        if used > most:
            return _fit(text[:position], most - 1) + "…"
    return text


def _fit(text: str, most: int) -> str:
    while cells(text) > most:
        text = text[:-1]
    return text.rstrip()


def cells(text: str) -> int:
    """How many terminal cells a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
