"""Outlines: the numbers and names of entries, without their text.

A session is projected from outlines, so that a long history can be opened without parsing it or keeping it in
memory. A cache beside the session file (`history/outline_cache.py`) stores the outlines. If you change a
field or its meaning, increase `VERSION` in that module.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
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
    ToolResultMessage,
    Undo,
    Usage,
    UserMessage,
    Written,
)
from foldline.protocol.entries import CLAUDE_CODE, REPLAYS_REASONING

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

PREAMBLE = frozenset({("system", "prompt"), ("developer", "instructions")})
"""Type and origin of the messages that open every view and are never compacted."""


class Reported(NamedTuple):
    """The reported tokens of one request: a `Usage` that takes less memory.

    An estimated input is stored as 0.
    """

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
    """The outline of a message."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    type: str
    tokens: int
    """Estimated size in tokens, without calibration and without reasoning."""
    thinking: int = 0
    """Estimated number of reasoning tokens."""
    says: bool = True
    """Whether the message has content for the model.

    For an answer, this is text or calls; for other messages, any parts.
    """
    origin: str = ""
    """Origin of a system, developer or user message; empty for other messages."""
    call_id: str = ""
    """For a tool result, the id of its call; empty for other messages."""
    name: str = ""
    """For a tool result, the name of its tool; empty for other messages."""
    failed: bool = False
    """Whether the tool or, for an answer, the request failed."""
    touches: tuple[FileTouch, ...] = ()
    """For a tool result, the files that its call read or changed."""
    calls: tuple[str, ...] = ()
    """For an answer, the ids of its calls."""
    call_tokens: int = 0
    """For an answer, the estimated size of its calls, in tokens."""
    model: str | None = None
    usage: Reported | None = None
    nth: int = 0
    images: int = 0
    """Estimated size of the message's images, in tokens."""
    cjk: int = 0
    """Number of ideographs, kana and Hangul characters; see `Scripts`, which also explains `brahmic`."""
    brahmic: int = 0

    @property
    def scripts(self) -> Scripts:
        """Numbers of characters that count as a minimum number of tokens (`Calibration.weigh`)."""
        return Scripts(self.cjk, self.brahmic)

    @property
    def key(self) -> tuple[int, int]:
        """Identifies the message within a view, like `BaseMessage.key`."""
        return (self.index, self.nth)

    @property
    def is_preamble(self) -> bool:
        """Whether the message belongs to the preamble, which opens every view and is never compacted."""
        return (self.type, self.origin) in PREAMBLE

    @property
    def in_words(self) -> bool:
        """Whether the message has text in addition to its calls."""
        return self.tokens - self.call_tokens > MESSAGE_OVERHEAD

    def tokens_with(self, text: str) -> int:
        """Estimate the size of the message, in tokens, if its text is replaced as by `with_text`."""
        overhead = MESSAGE_OVERHEAD + (
            CALL_OVERHEAD if self.type == "tool_result" else 0
        )
        return overhead + estimate_tokens(text) + self.call_tokens


class RequestOutline(NamedTuple):
    """The outline of a request's record."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    model: str
    dialect: str
    estimated: int
    usage: Reported | None
    failed: bool = False
    refused: bool = False
    """Whether the request was rejected as too long."""
    window: int = 0
    """The model's window in tokens, as stated by the server; 0 if the server stated none."""

    @property
    def replays_reasoning(self) -> bool:
        """Whether the API format of the request sends the model's earlier reasoning back."""
        return self.dialect in REPLAYS_REASONING

    @property
    def is_foreign(self) -> bool:
        """Whether another agent sent the request."""
        return self.dialect == CLAUDE_CODE


class OtherOutline(NamedTuple):
    """The outline of an entry that has no effect on the view."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used


@dataclass(frozen=True, slots=True)
class WrittenOutline:
    """The outline of a message written by a compaction."""

    message: MessageOutline
    """The outline of the view's item. Its index is that of the compaction."""
    covers: tuple[Span, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompactionOutline:
    """The outline of a compaction.

    Unlike other outlines, it contains texts: those that replace the texts of kept messages.
    """

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
        """The new texts in the compaction's head, in order."""
        return tuple(piece for piece in self.head if isinstance(piece, WrittenOutline))


MarkerOutline = (
    Undo
    | Checkpoint
    | Revert
    | Clear
    | Edit
    | Title
    | ModelChange
    | Approval
    | Subagent
)
"""Markers are used as their own outlines, because they are few and short."""

Outline = (
    MessageOutline | RequestOutline | OtherOutline | CompactionOutline | MarkerOutline
)


def outline_of(entry: Entry) -> Outline:
    """Return the outline of an entry.

    Takes time linear in the length of the text, because the tokens are estimated.
    """
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
    outline = MessageOutline(
        index=message.index,
        type=message.type,
        tokens=message_tokens(message),
        thinking=thinking_tokens(message),
        says=bool(message.parts),
        nth=message.nth,
        images=sum(
            image_tokens(part) for part in message.parts if isinstance(part, ImagePart)
        ),
        cjk=scripts.cjk,
        brahmic=scripts.brahmic,
    )
    match message:
        case AssistantMessage():
            return outline._replace(
                says=bool(message.calls) or bool(message.text.strip()),
                calls=tuple(part.call_id for part in message.calls),
                call_tokens=sum(map(call_tokens, message.calls)),
                model=message.model,
                usage=Reported.of(message.usage),
                failed=message.error is not None,
            )
        case ToolResultMessage():
            return outline._replace(
                call_id=message.call_id,
                touches=message.details.files,
                name=intern(message.name),
                failed=has_failed(message),
            )
        case SystemMessage() | DeveloperMessage() | UserMessage():
            return outline._replace(origin=message.origin)
        case _:
            return outline


def compaction_outline(compaction: Compaction) -> CompactionOutline:
    head: list[Kept | WrittenOutline] = []
    written_count = 0
    for piece in compaction.head:
        if isinstance(piece, Written):
            head.append(_written_outline(piece, compaction.index, written_count))
            written_count += 1
        else:
            head.append(piece)
    return CompactionOutline(
        index=compaction.index,
        at=compaction.at,
        first_kept_index=compaction.first_kept_index,
        head=tuple(head),
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


def _written_outline(written: Written, index: int, nth: int) -> WrittenOutline:
    outline = message_outline(written.message)._replace(index=index, nth=nth)
    return WrittenOutline(outline, written.covers, written.inputs)


def _shared(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(intern, paths))


def has_failed(result: ToolResultMessage) -> bool:
    """Return whether a tool reported an error, or the command that it ran failed."""
    brief = result.details.brief
    return result.is_error or (
        brief.startswith("exit ") and not brief.startswith("exit 0")
    )


class Entries(Sequence[Entry]):
    """Entries, ordered by index, each with its outline.

    Compares equal to any sequence of equal entries. Only the projection appends entries.
    """

    outlines: list[Outline]
    """The outline of each entry, in the same order."""

    @property
    def all_outlines(self) -> Sequence[Outline]:
        """The outlines of all known entries, including those after the end of a replay."""
        return self.outlines

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Add the next entry and its outline.

        Raises:
            ValueError: the entry's index is not larger than all earlier indices.
        """

    @abstractmethod
    def message(self, outline: MessageOutline) -> BaseMessage:
        """Return the message that an outline describes."""

    @abstractmethod
    def __copy__(self) -> Self:
        """Return a copy with the same entries, to which more entries can be appended."""

    def _check_order(self, entry: Entry) -> None:
        if self.outlines and entry.index <= self.outlines[-1].index:
            raise ValueError(
                f"entry {entry.index} does not come after entry {self.outlines[-1].index}"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} entries>"


def message_in(entry: Entry, outline: MessageOutline) -> BaseMessage:
    """Return the message that an outline describes.

    The message is the entry itself or a text written by a compaction.
    """
    if isinstance(entry, Compaction):
        message = entry.written[outline.nth].message
        return message.model_copy(update={"index": outline.index, "nth": outline.nth})
    assert isinstance(entry, BaseMessage), "a message outline belongs to a message"
    return entry


class MemoryEntries(Entries):
    """Entries in memory."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.outlines = []
        self._entries: list[Entry] = []
        self._by_index: dict[int, Entry] = {}
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        self._check_order(entry)
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
    def __getitem__(self, position: int) -> Entry: ...
    @overload
    def __getitem__(self, position: slice) -> list[Entry]: ...
    def __getitem__(self, position: int | slice) -> Entry | list[Entry]:
        return self._entries[position]

    def __copy__(self) -> Self:
        other = type(self)()
        other.outlines = list(self.outlines)
        other._entries = list(self._entries)
        other._by_index = dict(self._by_index)
        return other
