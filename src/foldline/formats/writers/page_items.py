"""What a page is made of: messages, tool calls, folds, and what happened beside the conversation."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from foldline.context.view import FateKind
from foldline.protocol import ImagePart, TextPart, ThinkingPart

Piece: TypeAlias = TextPart | ThinkingPart | ImagePart
Voice = Literal["prompt", "answer", "machine", "system", "instructions", "summary"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which entry something is of, and what has become of it."""

    index: int
    at: datetime | None
    fate: FateKind
    pinned: bool = False

    @property
    def time(self) -> str:
        """`14:02`; empty where it is not known."""
        return f"{self.at.astimezone(UTC):%H:%M}" if self.at else ""


@dataclass(frozen=True, slots=True)
class Said:
    """A message without its tool calls."""

    place: Place
    voice: Voice
    title: str
    """`Prompt 3`, `System prompt`, the file of instructions; empty for an answer."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Used:
    """A tool call and what came of it."""

    place: Place
    """Of the result; of the call where there is none."""
    name: str
    subject: str
    """What it acts on, on one line."""
    arguments: str
    outcome: str
    """`exit 1 ✗ · 6.8 s`."""
    failed: bool
    output: str
    images: tuple[ImagePart, ...]
    diff: str
    path: str
    """Of the file it is about; for colours. Empty where there is none."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A compaction."""

    place: Place
    words: str
    """`116.2k → 27.4k tokens, 123 entries folded`."""
    summary: str


@dataclass(frozen=True, slots=True)
class Marked:
    """What happened beside the conversation: a rewind, a clear, a failed request."""

    place: Place
    words: str
    text: str = ""
    level: Literal["rule", "info", "alert"] = "info"


Item = Said | Used | Folded | Marked


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    folder: str
    """On one line; empty where it is not known."""
    facts: tuple[str, ...]
    """Models, dates, sizes, each in a few words."""
    items: tuple[Item, ...]
