"""Reasoning: one line that says how much, until somebody opens it; then its words in plain pieces."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from foldline.tui import numbers
from foldline.tui.blocks import Block, Key, RowBlock, TextBlock, clean

from .calls import INDENT

THOUGHT: Final = -1_000_000
"""Number of an answer's thinking row: before all else of it. Its pieces follow, and end before 0."""
_LINES: Final = 20
_CHARACTERS: Final = 1_500
"""Where a piece ends: none is drawn again once the next has begun."""


def is_thought(key: Key) -> bool:
    """Whether this is the place of a thinking row or one of its pieces."""
    return key[1] < 0


def thought_row(index: int, tokens: int, seconds: float | None, *, opened: bool, gap: int = 1) -> RowBlock:
    """`▸ thinking  0.4k · 6 s`."""
    spent = ""
    if seconds is not None:
        spent = f" · {seconds:.0f} s" if seconds < 99.5 else f" · {numbers.elapsed(seconds)}"
    return RowBlock(
        (index, THOUGHT),
        (("▾ " if opened else "▸ ", "muted"),),
        (("thinking  ", "muted"), (f"{numbers.tokens(tokens)}{spent}", "muted")),
        gap=gap,
    )


@dataclass(slots=True)
class Pieces:
    """Cuts a thought into pieces as it comes: what is finished never changes."""

    index: int
    _open: str = ""
    _count: int = 0

    def feed(self, text: str) -> Iterator[Block]:
        """More of it: the pieces that are finished by that, and the open one as it is now."""
        self._open += text
        while (cut := _end_of_piece(self._open)) is not None:
            yield self._piece(self._open[:cut])
            self._open = self._open[cut:].removeprefix("\n")
            self._count += 1
        if self._open.strip():
            yield self._piece(self._open)

    def _piece(self, text: str) -> Block:
        lead = ((" " * INDENT, "deco"),)
        shown = clean(text).strip("\n")
        return TextBlock((self.index, THOUGHT + 1 + self._count), shown, "muted italic", lead=lead)


def thought_pieces(index: int, text: str) -> list[Block]:
    """A whole thought in pieces, as it would have come."""
    return list(Pieces(index).feed(text.strip()))


def _end_of_piece(text: str) -> int | None:
    """Where the first piece of this ends; None where it may go on."""
    at = -1
    for _ in range(_LINES):
        following = text.find("\n", at + 1)
        if following < 0 or following > _CHARACTERS:
            break
        at = following
    else:
        return at
    if len(text) <= _CHARACTERS:
        return None
    if at > 0:
        return at
    space = text.rfind(" ", 1, _CHARACTERS)
    return space if space > 0 else _CHARACTERS
