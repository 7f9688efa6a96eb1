"""The LLM view: the items the next request sends, each with its provenance; and the fates of all entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from foldline.protocol import BaseMessage, DeveloperMessage, Span, SystemMessage

FateKind = Literal[
    "live",
    "hidden",
    "clipped",
    "summarised",
    "truncated",
    "reverted",
    "cleared",
    "dropped",
    "aside",
]

IN_VIEW: frozenset[FateKind] = frozenset({"live", "hidden", "clipped"})
"""Fates of entries that the view contains, whole or in part."""


class Fate(NamedTuple):
    """Where an entry is now. `by` is the index of the entry that did it, or whose text stands for it now."""

    kind: FateKind
    by: int | None = None
    nth: int = 0


LIVE = Fate("live")
ASIDE = Fate("aside")


@dataclass(frozen=True, slots=True)
class ViewItem:
    """One message of the view, exactly as it will be sent."""

    message: BaseMessage
    tokens: int
    """Estimate before calibration, without reasoning."""
    thinking: int = 0
    """Estimate of its reasoning, which only some servers get back."""
    fate: Literal["live", "hidden", "clipped"] = "live"
    pinned: bool = False
    written: bool = False
    """Whether a compaction wrote it: new text that stands for folded entries."""
    covers: tuple[Span, ...] = ()
    """For a written item: the spans of entries it stands for."""

    @property
    def index(self) -> int:
        return self.message.index

    @property
    def key(self) -> tuple[int, int]:
        return self.message.key

    @property
    def kind(self) -> str:
        """`summary`, or the message's type."""
        return "summary" if self.written else self.message.type

    @property
    def foldable(self) -> bool:
        """Whether a fold may take it out of the view: all but the preamble and pins."""
        return not (self.pinned or is_preamble(self.message))


def is_summary(message: BaseMessage) -> bool:
    """Whether a compaction wrote this message."""
    return isinstance(message, SystemMessage) and message.origin == "summary"


def is_preamble(message: BaseMessage) -> bool:
    """Whether a message opens every view and is never folded: system prompts and instruction files."""
    match message:
        case SystemMessage():
            return message.origin == "prompt"
        case DeveloperMessage():
            return message.origin == "instructions"
        case _:
            return False


def total_tokens(items: Sequence[ViewItem]) -> int:
    return sum(item.tokens for item in items)


def first_words(message: BaseMessage) -> str:
    """The first line that says something, for lists; may be empty."""
    return next((line.strip() for line in message.text.splitlines() if line.strip()), "")
