"""The LLM view: the items the next request sends, their placeholders, and the fates of all entries."""

import re
from collections.abc import Iterator, Sequence
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
    text_parts,
)
from foldline.sequences import grouped

from .outline import MessageOutline, message_outline
from .tokens import Scripts, fits_text, scripts_of

_HIDDEN = "[foldline: result hidden to save context"
_SEARCH = re.compile(r"; history_search finds them|`history_search` finds them, ")
_RECALL = re.compile(
    r" history_read\(\d+\) shows it again\.|; history_read\(\d+\) shows all of entry \d+"
    r"| The originals are kept: `history_read` shows an entry whole\.|; `history_read` opens it"
)
"""How a view says that the model can search, and read an original; the summary's frame and the ledger do so
in prompts/."""
INTERRUPTED = "[foldline: interrupted: this tool call has no result; it may or may not have run]"


def hidden_placeholder(result: ToolResultMessage) -> str:
    """The placeholder of a hidden tool result: unmistakably one, and how to read the original back."""
    what = f"{result.name}, {result.details.brief}" if result.details.brief else result.name
    return f"{_HIDDEN}; it was entry {result.index} ({what}). history_read({result.index}) shows it again.]"


def with_recall(text: str, tool: str | None) -> str:
    """What a compaction wrote, for a model that cannot search the history, and reads it with this tool."""
    text = _SEARCH.sub("", text)
    return text.replace("history_read", tool) if tool else _RECALL.sub("", text)


def is_hidden_placeholder(text: str) -> bool:
    return text.startswith(_HIDDEN)


def bare_placeholder(message: BaseMessage) -> BaseMessage:
    """The message; a placeholder without what stands behind its first line."""
    first, rest, _ = message.text.partition("]\n") if is_hidden_placeholder(message.text) else ("", "", "")
    return with_text(message, f"{first}]") if rest else message


def interrupted_result(call: ToolCallPart, index: int) -> ToolResultMessage:
    """The stated result of a call that has none, for the API's sake. `index` is the calling message's."""
    return ToolResultMessage(
        index=index, call_id=call.call_id, name=call.name, is_error=True, parts=text_parts(INTERRUPTED)
    )


def extends(earlier: Sequence[object], later: Sequence[object]) -> bool:
    """Whether one list begins with the very objects of another."""
    return len(earlier) <= len(later) and all(map(is_, earlier, later))


_M = TypeVar("_M", bound=BaseMessage)


def with_text(message: _M, text: str) -> _M:
    """The message with its text replaced; images go, calls and thinking stay."""
    others = tuple(part for part in message.parts if part.type in ("tool_call", "thinking"))
    return message.model_copy(update={"parts": (TextPart(text=text), *others)})


def without_recall(message: _M) -> _M:
    """What a compaction wrote, for a model that has none of our tools."""
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
"""Fates of entries that the view contains, whole or in part."""

STANDING: frozenset[FateKind] = IN_VIEW | {"summarised", "truncated"}
"""Fates of entries that the user has not dropped, cleared or gone back behind."""


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
class HeldMessage:
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
    """Whether a compaction wrote it: new text that stands for compacted entries."""
    covers: tuple[Span, ...] = ()
    """For a written item: the spans of entries it stands for."""
    content: str | None = None
    """What stands in place of its text; None where it is verbatim."""
    checkpoint: int | None = None
    """Id of the checkpoint that is named at its end."""
    _made: "ref[BaseMessage] | None" = field(default=None, init=False, repr=False)
    """The message with its content and its mark, or as a compaction wrote it, as long as somebody uses it."""

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
    def scripts(self) -> Scripts:
        """Its characters that have a least weight."""
        return self.outline.scripts if self.content is None else scripts_of(self.content)

    @property
    def reported(self) -> int | None:
        """What its provider reported an answer to weigh, in tokens, as it came; None where that cannot be its
        text."""
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
        """Whether it opens every view and is never compacted."""
        return self.outline.is_preamble

    @property
    def compactable(self) -> bool:
        """Whether a compaction may take it out of the view: all but the preamble and pins."""
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
    return item_from(message_outline(message), HeldMessage(message))


def item_from(outline: MessageOutline, source: Messages) -> ViewItem:
    """An item for a message as it came."""
    return ViewItem(outline, source, outline.tokens, outline.thinking)


def is_summary(piece: BaseMessage | ViewItem) -> bool:
    """Whether a compaction wrote this message, or that of this item."""
    if isinstance(piece, ViewItem):
        return piece.outline.type == "system" and piece.outline.origin == "summary"
    return isinstance(piece, SystemMessage) and piece.origin == "summary"


def is_preamble(piece: BaseMessage | ViewItem) -> bool:
    """Whether it opens every view and is never compacted: system prompts and instruction files."""
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


Key = tuple[int, int]
_Short = int | Key
"""A key whose second number is 0 is the first alone: most need no tuple of their own."""
Before = tuple[tuple[Fate | None, tuple[_Short, ...]], ...]
"""Fates, each with all that had it; None: none was known."""


class Fates:
    """The fate of each entry, and of each text that a compaction wrote."""

    def __init__(self) -> None:
        self._fates: dict[_Short, Fate] = {}
        self._stands: dict[Fate, Fate] = {}
        """What `standing` found, until a marker changes the fate of a summary."""
        self._recorded: dict[_Short, Fate | None] | None = None

    def get(self, index: int, nth: int = 0) -> Fate | None:
        """None where nothing is known of it."""
        return self._fates.get((index, nth) if nth else index)

    def put(self, key: Key, fate: Fate) -> None:
        short = _short(key)
        if self._recorded is not None:
            self._recorded.setdefault(short, self._fates.get(short))
            self._stands.clear()
        self._fates[short] = fate

    def record(self) -> None:
        """Note from now on what changes."""
        self._recorded = {}

    def recorded(self) -> Before:
        """What was changed since, as it was before; nothing is noted any longer."""
        had = grouped((fate, short) for short, fate in (self._recorded or {}).items())
        self._recorded = None
        return tuple((fate, tuple(shorts)) for fate, shorts in had.items())

    def put_back(self, before: Before) -> None:
        self._stands.clear()
        for fate, shorts in before:
            if fate is None:
                for short in shorts:
                    self._fates.pop(short, None)
            else:
                self._fates.update(dict.fromkeys(shorts, fate))

    def forget(self, index: int) -> None:
        """As if nothing had been known of this entry."""
        self._stands.clear()
        self._fates.pop(index, None)

    def standing(self, fate: Fate) -> Fate:
        """What became of all that has this fate: the fate of the summary that stands for it now."""
        passed: list[Fate] = []
        found = fate
        while found.kind == "summarised" and (by := found.by) is not None:
            known = self._stands.get(found)
            if known is not None:
                found = known
                break
            passed.append(found)
            carrier = self.get(by, found.nth) or LIVE
            if carrier.kind in IN_VIEW:
                break
            found = carrier
        for earlier in passed:
            self._stands[earlier] = found
        return found

    def __copy__(self) -> Self:
        other = type(self)()
        other._fates, other._stands = dict(self._fates), dict(self._stands)
        return other


def keys_in(before: Before) -> Iterator[tuple[Key, Fate | None]]:
    """Everything that had another fate, and that fate."""
    for fate, shorts in before:
        for short in shorts:
            yield ((short, 0) if isinstance(short, int) else short), fate


def _short(key: Key) -> _Short:
    return key if key[1] else key[0]
