"""The items of the LLM view, their placeholders, and the fates of all entries."""

import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from operator import is_
from typing import Literal, NamedTuple, Protocol, Self, TypeVar
from weakref import ref

from foldline.protocol import (
    BaseMessage,
    CheckpointPart,
    DeveloperMessage,
    Span,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.sequences import grouped

from .outline import PREAMBLE, MessageOutline, message_outline
from .tokens import Scripts, fits_text, scripts_of

Messages = Sequence[BaseMessage]
"""The messages of a view or history, in order."""
Key = tuple[int, int]
"""Identifies a message in the view.

The key consists of the index of the message's entry, and the message's number among the texts of a
compaction.
"""

_HIDDEN = "[foldline: result hidden to save context"
_SEARCH = re.compile(r"; history_search finds them|`history_search` finds them, ")
_RECALL = re.compile(
    r" history_read\(\d+\) shows it again\.|; history_read\(\d+\) shows all of entry \d+"
    r"| The originals are kept: `history_read` shows an entry whole\.|; `history_read` opens it"
)
"""Matches sentences in a view that tell the model how to search and read originals.

The sentences for the frame of a summary and for the ledger are in `prompts/`.
"""
INTERRUPTED = (
    "[foldline: interrupted: this tool call has no result; it may or may not have run]"
)


def hidden_placeholder(result: ToolResultMessage) -> str:
    """Return the placeholder of a hidden tool result."""
    label = result.name
    if result.details.brief:
        label += f", {result.details.brief}"
    return f"{_HIDDEN}; it was entry {result.index} ({label}). history_read({result.index}) shows it again.]"


def with_recall(text: str, tool: str | None) -> str:
    """Adapt a compaction's text to the model's tools for reading the history.

    Args:
        tool: name of the tool with which the model can read the history; None if there is no such tool.
    """
    text = _SEARCH.sub("", text)
    return text.replace("history_read", tool) if tool else _RECALL.sub("", text)


def is_hidden_placeholder(text: str) -> bool:
    return text.startswith(_HIDDEN)


def bare_placeholder(message: BaseMessage) -> BaseMessage:
    """Shorten a placeholder to its first line.

    Returns any other message unchanged.
    """
    if not is_hidden_placeholder(message.text):
        return message
    first_line, line_end, _ = message.text.partition("]\n")
    return with_text(message, f"{first_line}]") if line_end else message


def interrupted_result(call: ToolCallPart, index: int) -> ToolResultMessage:
    """Return the result that an API requires for an unanswered call.

    Args:
        index: the index of the message with the call.
    """
    return ToolResultMessage(
        index=index,
        call_id=call.call_id,
        name=call.name,
        is_error=True,
        parts=text_parts(INTERRUPTED),
    )


def extends(earlier: Sequence[object], later: Sequence[object]) -> bool:
    """Return whether `later` starts with the same objects as `earlier`.

    Objects are compared by identity.
    """
    return len(earlier) <= len(later) and all(map(is_, earlier, later))


_M = TypeVar("_M", bound=BaseMessage)


def with_text(message: _M, text: str) -> _M:
    """Return the message with its text replaced.

    Images are removed. Calls and reasoning are kept. Attached texts are kept if the new text ends with them.
    """
    others = tuple(
        part for part in message.parts if part.type in ("tool_call", "thinking")
    )
    attached = message.attached if isinstance(message, UserMessage) else ()
    end = "".join(f"\n{part.text}" for part in attached)
    if not text.endswith(end):
        attached, end = (), ""
    own = TextPart(text=text.removesuffix(end))
    return message.model_copy(update={"parts": (own, *attached, *others)})


def without_recall(message: _M) -> _M:
    """Adapt a compaction's message to a model without our tools."""
    return with_text(message, with_recall(message.text, None))


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
"""Fates of entries that are in the view, in full or in part."""

STANDING: frozenset[FateKind] = IN_VIEW | {"summarised", "truncated"}
"""Fates of entries that the user has not dropped, cleared or rewound."""


class Fate(NamedTuple):
    """The state of an entry with respect to the view."""

    kind: FateKind
    by: int | None = None
    """Index of the entry that caused the fate.

    For a summarised entry, this is the compaction that contains the summary.
    """
    nth: int = 0
    """Position of the summary among the texts written by the compaction."""


LIVE = Fate("live")
ASIDE = Fate("aside")


class MessageSource(Protocol):
    """Storage from which the messages in a view are read."""

    def message(self, outline: MessageOutline) -> BaseMessage: ...


@dataclass(frozen=True, slots=True)
class MessageInMemory:
    """The source of a message that is already in memory, such as the text of a rewind."""

    _message: BaseMessage

    def message(self, outline: MessageOutline) -> BaseMessage:
        return self._message


@dataclass(frozen=True, slots=True, eq=False)
class ViewItem:
    """One message of the view, exactly as it will be sent.

    The message's text is read on demand.
    """

    outline: MessageOutline
    source: MessageSource
    tokens: int
    """Estimated size in tokens, without calibration and without reasoning."""
    thinking: int = 0
    """Estimated number of reasoning tokens. The reasoning is sent back only to some servers."""
    fate: Literal["live", "hidden", "clipped"] = "live"
    pinned: bool = False
    written: bool = False
    """Whether a compaction wrote this text to replace compacted entries."""
    covers: tuple[Span, ...] = ()
    """For a written item, the spans of entries that its text replaces."""
    content: str | None = None
    """Text that replaces the message's own text; None if the item is verbatim."""
    checkpoint: int | None = None
    """Id of the checkpoint named at the end of the message."""
    _altered: "ref[BaseMessage] | None" = field(default=None, init=False, repr=False)
    """Cached message with replaced content, a checkpoint line or a compaction's text.

    The reference is weak.
    """

    @property
    def message(self) -> BaseMessage:
        if self.content is None and self.checkpoint is None and not self.written:
            return self.source.message(self.outline)
        message = None if self._altered is None else self._altered()
        if message is None:
            message = self.source.message(self.outline)
            if self.content is not None:
                message = with_text(message, self.content)
            if self.checkpoint is not None:
                parts = (*message.parts, CheckpointPart(id=self.checkpoint))
                message = message.model_copy(update={"parts": parts})
            object.__setattr__(self, "_altered", ref(message))
        return message

    @property
    def index(self) -> int:
        return self.outline.index

    @property
    def key(self) -> Key:
        return self.outline.key

    @property
    def type(self) -> str:
        return self.outline.type

    @property
    def scripts(self) -> Scripts:
        """Numbers of characters that count as a minimum number of tokens."""
        return (
            self.outline.scripts if self.content is None else scripts_of(self.content)
        )

    @property
    def reported(self) -> int | None:
        """Reported size of a verbatim answer, in tokens.

        None if the reported size does not match the answer's text.
        """
        usage = self.outline.usage
        if usage is None or self.fate != "live" or self.thinking:
            return None
        tokens = usage.output - usage.reasoning
        return tokens if fits_text(tokens, self.tokens) else None

    @property
    def kind(self) -> str:
        """`summary`, or the message's type."""
        return "summary" if self.written else self.type

    @property
    def is_preamble(self) -> bool:
        """Whether the item is part of the preamble, which opens every view and is never compacted."""
        return self.outline.is_preamble

    @property
    def compactable(self) -> bool:
        """Whether a compaction may remove this item.

        It must not remove the preamble or pinned items.
        """
        return not (self.pinned or self.is_preamble)

    def __eq__(self, other: object) -> bool:
        """Compare two items by the content that is sent and the content that is displayed."""
        if self is other or not isinstance(other, ViewItem):
            return self is other
        return self._shown == other._shown and self.message == other.message

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def _shown(self) -> tuple[object, ...]:
        return (
            self.outline,
            self.tokens,
            self.thinking,
            self.fate,
            self.pinned,
            self.written,
            self.covers,
        )


def item_of(message: BaseMessage) -> ViewItem:
    """Return the unaltered view item for an in-memory message."""
    return item_from(message_outline(message), MessageInMemory(message))


def item_from(outline: MessageOutline, source: MessageSource) -> ViewItem:
    """Return the unaltered view item for a message."""
    return ViewItem(outline, source, outline.tokens, outline.thinking)


def is_summary(message: BaseMessage | ViewItem) -> bool:
    """Return whether this is a summary written by a compaction."""
    if isinstance(message, ViewItem):
        return message.outline.type == "system" and message.outline.origin == "summary"
    return isinstance(message, SystemMessage) and message.origin == "summary"


def is_preamble(message: BaseMessage | ViewItem) -> bool:
    """Return whether the message belongs to the preamble.

    The preamble opens every view and is never compacted.
    """
    match message:
        case ViewItem():
            return message.outline.is_preamble
        case SystemMessage() | DeveloperMessage():
            return (message.type, message.origin) in PREAMBLE
        case _:
            return False


def total_tokens(items: Sequence[ViewItem]) -> int:
    return sum(item.tokens for item in items)


_ShortKey = int | Key
"""A key, or only the key's index if the number is 0. This saves memory for most entries."""
FateRecord = tuple[tuple[Fate | None, tuple[_ShortKey, ...]], ...]
"""Each fate with the keys that had it. None stands for having no fate."""


class Fates:
    """The fates of all entries, and of all texts written by compactions."""

    def __init__(self) -> None:
        self._fates: dict[_ShortKey, Fate] = {}
        self._current: dict[Fate, Fate] = {}
        """Cached results of `current`. The cache is cleared when a marker changes the fate of a summary."""
        self._recorded: dict[_ShortKey, Fate | None] | None = None

    def get(self, index: int, nth: int = 0) -> Fate | None:
        """Return the fate of an entry or of a compaction's text.

        Returns None if there is no fate.
        """
        return self._fates.get((index, nth) if nth else index)

    def put(self, key: Key, fate: Fate) -> None:
        short_key = _short(key)
        if self._recorded is not None:
            self._recorded.setdefault(short_key, self._fates.get(short_key))
            self._current.clear()
        self._fates[short_key] = fate

    def start_recording(self) -> None:
        """Start recording changes to fates."""
        self._recorded = {}

    def stop_recording(self) -> FateRecord:
        """Stop recording, and return the fates as they were before the changes."""
        keys_by_fate = grouped(
            (fate, key) for key, fate in (self._recorded or {}).items()
        )
        self._recorded = None
        return tuple((fate, tuple(keys)) for fate, keys in keys_by_fate.items())

    def put_back(self, record: FateRecord) -> None:
        """Restore the recorded fates."""
        self._current.clear()
        for fate, keys in record:
            if fate is None:
                for key in keys:
                    self._fates.pop(key, None)
            else:
                self._fates.update(dict.fromkeys(keys, fate))

    def forget(self, index: int) -> None:
        """Remove the fate of an entry."""
        self._current.clear()
        self._fates.pop(index, None)

    def current(self, fate: Fate) -> Fate:
        """Follow summaries of summaries, and return the newest fate."""
        passed: list[Fate] = []
        current = fate
        while current.kind == "summarised" and (by := current.by) is not None:
            cached = self._current.get(current)
            if cached is not None:
                current = cached
                break
            passed.append(current)
            summary_fate = self.get(by, current.nth) or LIVE
            if summary_fate.kind in IN_VIEW:
                break
            current = summary_fate
        for earlier in passed:
            self._current[earlier] = current
        return current

    def __copy__(self) -> Self:
        other = type(self)()
        other._fates = dict(self._fates)
        other._current = dict(self._current)
        return other


T = TypeVar("T")


def forked(original: T) -> T:
    """Return a copy of an object, with copies of its lists, dictionaries, sets and fates."""
    other = copy(original)
    for name, value in vars(original).items():
        if isinstance(value, list | dict | set | Fates):
            setattr(other, name, copy(value))
    return other


def keys_in(record: FateRecord) -> Iterator[tuple[Key, Fate | None]]:
    """Yield every key in the record, with its fate."""
    for fate, short_keys in record:
        for key in short_keys:
            yield ((key, 0) if isinstance(key, int) else key), fate


def _short(key: Key) -> _ShortKey:
    return key if key[1] else key[0]
