"""The LLM view: the items the next request sends, each with its provenance; and the fates of all entries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol
from weakref import ref

from foldline.protocol import BaseMessage, CheckpointPart, DeveloperMessage, Span, SystemMessage

from .calibration import fits_text
from .outline import MessageOutline, message_outline
from .stubs import with_text

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


class Messages(Protocol):
    """Where the messages of a view are kept."""

    def message(self, outline: MessageOutline) -> BaseMessage: ...


@dataclass(frozen=True, slots=True)
class Held:
    """One message that is in memory anyway: what a rewind says."""

    held: BaseMessage

    def message(self, outline: MessageOutline) -> BaseMessage:
        return self.held


@dataclass(frozen=True, slots=True, eq=False)
class ViewItem:
    """One message of the view, exactly as it will be sent. Its text is fetched when it is looked at."""

    outline: MessageOutline
    source: Messages
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
    content: str | None = None
    """What stands in place of its text; None where it is verbatim."""
    checkpoint: int | None = None
    """Id of the checkpoint that the model is told of at its end."""
    _made: "ref[BaseMessage] | None" = field(default=None, init=False, repr=False)
    """The message with its content and its mark, or as a fold wrote it, as long as somebody uses it."""

    @property
    def message(self) -> BaseMessage:
        if self.content is None and self.checkpoint is None and not self.written:
            return self.source.message(self.outline)
        made = None if self._made is None else self._made()
        if made is None:
            made = self.source.message(self.outline)
            if self.content is not None:
                made = with_text(made, self.content)
            if self.checkpoint is not None:
                parts = (*made.parts, CheckpointPart(id=self.checkpoint))
                made = made.model_copy(update={"parts": parts})
            object.__setattr__(self, "_made", ref(made))
        return made

    @property
    def index(self) -> int:
        return self.outline.index

    @property
    def key(self) -> tuple[int, int]:
        return self.outline.key

    @property
    def reported(self) -> int | None:
        """What its provider reported it to weigh, in tokens: of an answer as it came, and of nothing else.
        A count that cannot be that of its text is none."""
        usage = self.outline.usage
        if usage is None or self.fate != "live" or self.thinking:
            return None
        tokens = usage.output - usage.reasoning
        return tokens if fits_text(tokens, self.tokens) else None

    @property
    def kind(self) -> str:
        """`summary`, or the message's type."""
        return "summary" if self.written else self.outline.type

    @property
    def is_preamble(self) -> bool:
        """Whether it opens every view and is never folded."""
        return self.outline.is_preamble

    @property
    def foldable(self) -> bool:
        """Whether a fold may take it out of the view: all but the preamble and pins."""
        return not (self.pinned or self.is_preamble)

    def __eq__(self, other: object) -> bool:
        """Whether they would be sent and shown alike, wherever their messages are kept."""
        if self is other or not isinstance(other, ViewItem):
            return self is other
        return self._shown == other._shown and self.message == other.message

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def _shown(self) -> tuple[object, ...]:
        return (self.outline, self.tokens, self.thinking, self.fate, self.pinned, self.written, self.covers)


def item_of(message: BaseMessage) -> ViewItem:
    """An item for a message that is held in memory."""
    return item_from(message_outline(message), Held(message))


def item_from(outline: MessageOutline, source: Messages) -> ViewItem:
    """An item for a message as it came."""
    return ViewItem(outline, source, outline.tokens, outline.thinking)


def is_summary(piece: BaseMessage | ViewItem) -> bool:
    """Whether a compaction wrote this message, or that of this item."""
    if isinstance(piece, ViewItem):
        return piece.outline.type == "system" and piece.outline.origin == "summary"
    return isinstance(piece, SystemMessage) and piece.origin == "summary"


def is_preamble(piece: BaseMessage | ViewItem) -> bool:
    """Whether it opens every view and is never folded: system prompts and instruction files."""
    match piece:
        case ViewItem():
            return piece.outline.is_preamble
        case SystemMessage():
            return piece.origin == "prompt"
        case DeveloperMessage():
            return piece.origin == "instructions"
        case _:
            return False


def total_tokens(items: Sequence[ViewItem]) -> int:
    return sum(item.tokens for item in items)


def first_words(message: BaseMessage) -> str:
    """The first line that says something, for lists; may be empty."""
    return next((line.strip() for line in message.text.splitlines() if line.strip()), "")
