"""What a projection asks of an entry: a few numbers and names, and none of its text.

A session is projected from outlines, so that a long history need not be parsed, or kept in memory, to be
opened. What an outline holds also stands in the index beside a session file (`history/index.py`): whoever
changes a field, or what it means, raises `VERSION` there.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from sys import intern
from typing import NamedTuple, Self, overload

from foldline.protocol import (
    OVERFLOW,
    Approval,
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    CompactionDetails,
    DeveloperMessage,
    Edit,
    Entry,
    FileTouch,
    ImagePart,
    Kept,
    ModelChange,
    Reason,
    RequestRecord,
    Revert,
    Span,
    Subagent,
    SystemMessage,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Undo,
    Usage,
    UserMessage,
    Written,
)

from .tokens import (
    CALL_OVERHEAD,
    MESSAGE_OVERHEAD,
    Scripts,
    call_tokens,
    estimate_tokens,
    image_tokens,
    message_tokens,
    scripts_in,
    thinking_tokens,
)


class Reported(NamedTuple):
    """Tokens of one request, as the provider reported them: what a `Usage` says, in less memory. An input
    that is only estimated is 0 here."""

    input: int
    cached: int
    output: int
    reasoning: int
    window: int = 0

    @classmethod
    def of(cls, usage: Usage | None) -> "Reported | None":
        if usage is None:
            return None
        reported = 0 if usage.source == "estimated" else usage.input
        return cls(reported, usage.cached, usage.output, usage.reasoning, usage.window)


class MessageOutline(NamedTuple):
    """A message without what it says."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    type: str
    tokens: int
    """Estimate before calibration, without reasoning."""
    thinking: int = 0
    """Estimate of its reasoning."""
    says: bool = True
    """Whether it has something for the model: parts; in an answer, words or calls."""
    origin: str = ""
    """Of a system, developer or user message; empty for others."""
    call_id: str = ""
    """Of a tool result: the call it answers."""
    name: str = ""
    """Of a tool result: the tool."""
    failed: bool = False
    """Whether the tool, or the request that an answer came from, failed."""
    touches: tuple[FileTouch, ...] = ()
    """Of a tool result: the files its call touched."""
    calls: tuple[str, ...] = ()
    """Of an answer: the ids of its calls."""
    call_tokens: int = 0
    """Of an answer: estimate of its calls alone."""
    model: str | None = None
    usage: Reported | None = None
    nth: int = 0
    images: int = 0
    """Estimate of its images alone."""
    cjk: int = 0
    brahmic: int = 0

    @property
    def scripts(self) -> Scripts:
        """Its characters that have a least weight (`Calibration.weigh`)."""
        return Scripts(self.cjk, self.brahmic)

    @property
    def key(self) -> tuple[int, int]:
        """Identity within a view, as `BaseMessage.key`."""
        return (self.index, self.nth)

    @property
    def is_preamble(self) -> bool:
        """Whether it opens every view and is never compacted: system prompts and instruction files."""
        return (self.type == "system" and self.origin == "prompt") or (
            self.type == "developer" and self.origin == "instructions"
        )

    @property
    def in_words(self) -> bool:
        """Whether it says something beside its calls."""
        return self.tokens - self.call_tokens > MESSAGE_OVERHEAD

    def tokens_with(self, text: str) -> int:
        """Estimate of the message with this text in place of its own, as `view.with_text` makes it."""
        overhead = MESSAGE_OVERHEAD + (CALL_OVERHEAD if self.type == "tool_result" else 0)
        return overhead + estimate_tokens(text) + self.call_tokens


class RequestOutline(NamedTuple):
    """What a record of a request teaches about estimates."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    model: str
    dialect: str
    estimated: int
    usage: Reported | None
    failed: bool = False
    refused: bool = False
    """Whether it was refused as too long."""
    window: int = 0
    """What its server said of the model's window, in tokens; 0 where it did not."""


class OtherOutline(NamedTuple):
    """An entry that means nothing to the view."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used


@dataclass(frozen=True, slots=True)
class WrittenOutline:
    """A text that a compaction wrote, without what it says."""

    message: MessageOutline
    """As an item of the view: it has the index of its compaction."""
    covers: tuple[Span, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompactionOutline:
    """A compaction without its summary and the texts it wrote. What it put in place of others it holds."""

    index: int
    at: datetime | None
    first_kept_index: int
    head: tuple[Kept | WrittenOutline, ...]
    replaced: tuple[Kept, ...]
    pins: tuple[int, ...]
    rung: str
    reason: Reason
    tokens_before: int
    tokens_after: int
    details: CompactionDetails

    @property
    def written(self) -> tuple[WrittenOutline, ...]:
        """The new texts of its head, in order."""
        return tuple(piece for piece in self.head if isinstance(piece, WrittenOutline))


MarkerOutline = Undo | Checkpoint | Revert | Clear | Edit | Title | ModelChange | Approval | Subagent
"""These markers are few and short: they are their own outline."""

Outline = MessageOutline | RequestOutline | OtherOutline | CompactionOutline | MarkerOutline


def outline_of(entry: Entry) -> Outline:
    """The outline of an entry. Linear in its text, which is weighed."""
    match entry:
        case BaseMessage():
            return message_outline(entry)
        case RequestRecord():
            usage = Reported.of(entry.usage)
            return RequestOutline(
                entry.index,
                entry.model,
                entry.dialect,
                entry.estimated,
                usage,
                failed=entry.error is not None,
                refused=entry.stop_reason == OVERFLOW,
                window=entry.window,
            )
        case Compaction():
            return compaction_outline(entry)
        case _ if isinstance(entry, MarkerOutline):
            return entry
        case _:
            return OtherOutline(entry.index)


def message_outline(message: BaseMessage) -> MessageOutline:
    scripts = scripts_in(message)
    plain = MessageOutline(
        index=message.index,
        type=message.type,
        tokens=message_tokens(message),
        thinking=thinking_tokens(message),
        says=bool(message.parts),
        nth=message.nth,
        images=sum(image_tokens(part) for part in message.parts if isinstance(part, ImagePart)),
        cjk=scripts.cjk,
        brahmic=scripts.brahmic,
    )
    match message:
        case AssistantMessage():
            return plain._replace(
                says=bool(message.calls) or bool(message.text.strip()),
                calls=tuple(part.call_id for part in message.calls),
                call_tokens=sum(call_tokens(p) for p in message.parts if isinstance(p, ToolCallPart)),
                model=message.model,
                usage=Reported.of(message.usage),
                failed=message.error is not None,
            )
        case ToolResultMessage():
            return plain._replace(
                call_id=message.call_id,
                touches=message.details.files,
                name=intern(message.name),
                failed=has_failed(message),
            )
        case SystemMessage() | DeveloperMessage() | UserMessage():
            return plain._replace(origin=message.origin)
        case _:
            return plain


def compaction_outline(compaction: Compaction) -> CompactionOutline:
    nth = count()
    return CompactionOutline(
        index=compaction.index,
        at=compaction.at,
        first_kept_index=compaction.first_kept_index,
        head=tuple(
            _written_outline(piece, compaction.index, next(nth)) if isinstance(piece, Written) else piece
            for piece in compaction.head
        ),
        replaced=compaction.replaced,
        pins=compaction.pins,
        rung=intern(compaction.rung),
        reason=compaction.reason,
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        details=CompactionDetails(
            read_files=_shared(compaction.details.read_files),
            modified_files=_shared(compaction.details.modified_files),
        ),
    )


def _written_outline(piece: Written, index: int, nth: int) -> WrittenOutline:
    outline = message_outline(piece.message)._replace(index=index, nth=nth)
    return WrittenOutline(outline, piece.covers, piece.inputs)


def _shared(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(intern, paths))


def has_failed(result: ToolResultMessage) -> bool:
    """Whether a tool reports an error, or its command ended with one."""
    brief = result.details.brief
    return result.is_error or (brief.startswith("exit ") and not brief.startswith("exit 0"))


class Entries(Sequence[Entry]):
    """Entries in index order, each with its outline; equal to any sequence of equal entries. The projection
    appends; others only read."""

    outlines: list[Outline]
    """The outline of each entry, in the same order."""

    @property
    def all_outlines(self) -> Sequence[Outline]:
        """The outlines of all known entries, also of later ones that a replay has not reached."""
        return self.outlines

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Add the next entry, and its outline. Raises ValueError where its index is not next."""

    @abstractmethod
    def message(self, outline: MessageOutline) -> BaseMessage:
        """The message that this is the outline of; of a compaction, that which it wrote."""

    @abstractmethod
    def __copy__(self) -> Self:
        """The same entries, to append others to."""

    def _comes_next(self, entry: Entry) -> None:
        if self.outlines and entry.index <= self.outlines[-1].index:
            raise ValueError(f"entry {entry.index} does not come after entry {self.outlines[-1].index}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(mine == yours for mine, yours in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} entries>"


def message_in(entry: Entry, outline: MessageOutline) -> BaseMessage:
    """The message of this outline: the entry itself, or what it wrote where it is a compaction."""
    if isinstance(entry, Compaction):
        message = entry.written[outline.nth].message
        return message.model_copy(update={"index": outline.index, "nth": outline.nth})
    assert isinstance(entry, BaseMessage), "an outline of a message is of a message"
    return entry


class MemoryEntries(Entries):
    """Entries that are simply in memory."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.outlines = []
        self._entries: list[Entry] = []
        self._by_index: dict[int, Entry] = {}
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        self._comes_next(entry)
        self._entries.append(entry)
        self._by_index[entry.index] = entry
        self.outlines.append(outline_of(entry))

    def message(self, outline: MessageOutline) -> BaseMessage:
        return message_in(self._by_index[outline.index], outline)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __reversed__(self) -> Iterator[Entry]:
        return reversed(self._entries)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return self._entries[place]

    def __copy__(self) -> Self:
        other = type(self)()
        other.outlines = list(self.outlines)
        other._entries = list(self._entries)
        other._by_index = dict(self._by_index)
        return other
