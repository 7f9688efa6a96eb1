"""The level of turns: a conversation as pieces to read, each a turn or as much of one as can be read at once.

Pure. The messages are shortened; each text keeps the entry it comes from.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from foldline.context.serialise import labelled_blocks
from foldline.context.tokens import estimate_tokens
from foldline.protocol import BaseMessage, UserMessage

from .shortening import BREVITIES, shortened

_LEAST_NOTE = 24
"""Tokens of a note at least: one line."""
_NOTE_SHARE = 3
"""A note takes at most this part of what it is about."""
_MANY_REQUESTS = 12
"""Where a conversation takes more requests than this, its messages are shortened further."""
_TOGETHER = 2
"""All notes on a conversation take so many times the longest answer at most: more only costs requests."""
_LEAST_PART = 40
"""Characters: no text is divided further."""

Block = tuple[int, str]
"""A text with its label, and the entry it comes from."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A turn or a part of one, as it is read."""

    blocks: tuple[Block, ...]
    size: int
    """In estimated tokens."""
    longest: int
    """Tokens of the longest note on any piece."""

    @property
    def text(self) -> str:
        return "\n\n".join(text for _, text in self.blocks)

    @property
    def first(self) -> int:
        return self.blocks[0][0]

    @property
    def last(self) -> int:
        return self.blocks[-1][0]

    @property
    def asked(self) -> int:
        """Tokens the note on it may take."""
        return max(_LEAST_NOTE, min(self.size // _NOTE_SHARE, self.longest))

    def parts(self, room: int) -> list["Piece"]:
        """The same in pieces of at most so many tokens; itself where it cannot be divided."""
        blocks = [(index, part) for index, text in self.blocks for part in parts_of(text, room)]
        return list(_packed(blocks, room, self.longest))


def pieces_of(messages: Sequence[BaseMessage], room: int, longest: int, answer: int) -> list[Piece]:
    """The turns in pieces of at most `room` tokens: their messages as short as it takes for a number of
    requests one can wait for, the notes on them of at most `longest` tokens, and so that few of the longest
    answers hold them all."""
    pieces: list[Piece] = []
    for brevity in BREVITIES:
        messages = [shortened(message, brevity) for message in messages]
        turns = [_blocks(turn, room) for turn in turns_of(messages)]
        pieces = [piece for blocks in turns for piece in _packed(blocks, room, longest)]
        if sum(piece.size for piece in pieces) <= _MANY_REQUESTS * room:
            break
    most = max(_LEAST_NOTE, min(longest, _TOGETHER * answer // max(1, len(pieces))))
    return [replace(piece, longest=most) for piece in pieces]


def turns_of(messages: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """A user's message and all that follows up to the next one; what stands before the first is one, too."""
    turns: list[list[BaseMessage]] = []
    for message in messages:
        if not turns or (isinstance(message, UserMessage) and message.origin == "typed"):
            turns.append([])
        turns[-1].append(message)
    return turns


def parts_of(text: str, max_tokens: int) -> Iterator[str]:
    """The text, halved as often as it takes; each part under its label, where it has one."""
    if estimate_tokens(text) <= max_tokens or len(text) < _LEAST_PART:
        yield text
        return
    label = text.partition(":")[0] if text.startswith("[") else ""
    again = f"{label}: […] " if 0 < len(label) < _LEAST_PART // 2 else ""
    if len(text) < 4 * len(again):
        again = ""
    middle = len(text) // 2
    yield from parts_of(text[:middle], max_tokens)
    yield from parts_of(again + text[middle:], max_tokens)


def _blocks(turn: Iterable[BaseMessage], room: int) -> list[Block]:
    return [
        (message.index, part)
        for message in turn
        for block in labelled_blocks([message])
        for part in parts_of(block, room)
    ]


def _packed(blocks: Iterable[Block], room: int, longest: int) -> Iterator[Piece]:
    """The blocks in as few pieces of at most so many tokens as their order allows."""
    held: list[Block] = []
    size = 0
    for block in blocks:
        cost = estimate_tokens(block[1]) + 1
        if held and size + cost > room:
            yield Piece(tuple(held), size, longest)
            held, size = [], 0
        held.append(block)
        size += cost
    if held:
        yield Piece(tuple(held), size, longest)
