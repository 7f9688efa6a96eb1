"""What a list of sessions shows of one: derived from its entries, kept beside them, never the truth."""

import unicodedata
from collections.abc import Iterable
from datetime import datetime

from foldline.protocol import (
    AssistantMessage,
    Clear,
    Compaction,
    Entry,
    ModelChange,
    SessionHeader,
    Title,
    Unknown,
    UserMessage,
)
from foldline.protocol.base import Record

TITLE_CELLS = 60


class Meta(Record):
    """The content of `meta.json`. Can be thrown away: `describe` makes it again from the entries."""

    id: str
    cwd: str
    title: str = ""
    first_prompt: str = ""
    """First line of the first thing the user typed, shortened."""
    last_prompt: str = ""
    model: str = ""
    entries: int = 0
    tokens: int = 0
    """Size of the context, as a model last reported it or a fold left it; 0 where neither is known."""
    size: int = 0
    """Bytes of the event file this describes: any other size there makes this stale."""
    created_at: datetime
    updated_at: datetime
    note: str = ""
    """What is wrong with the file, as a sentence; empty where nothing is."""


class Describer:
    """Gathers what a list shows, entry by entry, so that describing a long history costs nothing anew."""

    def __init__(self, header: SessionHeader) -> None:
        self._header = header
        self._title = self._model = ""
        self._first: UserMessage | None = None
        self._last: UserMessage | None = None
        self._entries = self._tokens = 0
        self._updated = header.created_at

    def add(self, entry: Entry) -> None:
        self._entries += not isinstance(entry, Unknown)
        self._updated = entry.at or self._updated
        match entry:
            case UserMessage(origin="typed") if entry.text.strip():
                self._last = entry
                self._first = self._first or entry
            case AssistantMessage():
                self._model = entry.model or self._model
                if entry.usage is not None and entry.usage.total:
                    self._tokens = entry.usage.total
            case Title():
                self._title = clip_cells(entry.title, TITLE_CELLS) or self._title
            case ModelChange():
                self._model = entry.model
            case Compaction():
                self._tokens = entry.tokens_after
            case Clear():
                self._tokens = 0
            case _:
                pass

    def meta(self, size: int = 0, note: str = "") -> Meta:
        """What a list shows now, for an event file of `size` bytes."""
        first = prompt_line(self._first)
        return Meta(
            id=self._header.id,
            cwd=self._header.cwd,
            title=self._title or first,
            first_prompt=first,
            last_prompt=prompt_line(self._last),
            model=self._model,
            entries=self._entries,
            tokens=self._tokens,
            size=size,
            created_at=self._header.created_at,
            updated_at=self._updated,
            note=note,
        )


def describe(header: SessionHeader, entries: Iterable[Entry], size: int = 0, note: str = "") -> Meta:
    """What a list shows of this history."""
    describer = Describer(header)
    for entry in entries:
        describer.add(entry)
    return describer.meta(size, note)


def prompt_line(message: UserMessage | None) -> str:
    """The first line of a prompt, as titles and lists show it."""
    for line in message.text.splitlines() if message else ():
        if shown := clip_cells(line, TITLE_CELLS):
            return shown
    return ""


def clip_cells(text: str, cells: int) -> str:
    """One line of at most this many terminal cells: control characters go, what does not fit becomes `…`."""
    text = text.lstrip()[: cells * 8]  # enough for any line; a pasted file may be one of megabytes
    text = "".join(char if unicodedata.category(char) not in ("Cc", "Cf", "Cs") else " " for char in text)
    text = " ".join(text.split())
    used = 0
    for position, char in enumerate(text):
        used += _cells(char)
        if used > cells:
            return _fit(text[:position], cells - 1) + "…"
    return text


def _fit(text: str, cells: int) -> str:
    while sum(map(_cells, text)) > cells:
        text = text[:-1]
    return text.rstrip()


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
