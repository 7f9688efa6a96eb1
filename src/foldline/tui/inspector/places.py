"""Where an entry is now: in signs, in words, and in the other panel."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from foldline.context.files import describe_compaction
from foldline.context.outline import CompactionOutline
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW, Fate, FateKind
from foldline.protocol import AssistantMessage, Clear, Compaction, Edit, Revert, Undo
from foldline.tui.blocks import Key, Span
from foldline.tui.state import Rail

_STRIDE: Final = 1 << 20
"""Pieces an opened row may have: more than any text has screens."""

TOOLS_KEY: Final[Key] = (-2, 0)
"""The row of the tool schemas, which are sent with every request and are no entry."""
DIVIDER_KEY: Final[Key] = (-1, 0)
"""The rule between what the last request sent and what is new."""


def row_key(index: int, nth: int = 0) -> Key:
    """The row of an entry, or of the nth message a compaction wrote."""
    return (index, nth * _STRIDE)


def row_of(key: Key) -> Key:
    """The row a piece belongs to; a row is its own."""
    return (key[0], key[1] - key[1] % _STRIDE)


def piece_key(row: Key, number: int) -> Key:
    """A piece below a row, counted from 0."""
    return (row[0], row[1] + 1 + number)


def preview_key(row: Key) -> Key:
    """The first lines of a summary, below its row while it is closed."""
    return (row[0], row[1] + _STRIDE - 1)


LETTERS: Final[dict[FateKind, str]] = {
    "live": "L",
    "clipped": "C",
    "hidden": "H",
    "summarised": "S",
    "truncated": "T",
    "reverted": "R",
    "cleared": "X",
    "dropped": "D",
    "aside": " ",
}
RAILS: Final[dict[Rail, Span]] = {
    "whole": ("┃", "live"),
    "part": ("╏", "altered"),
    "name": ("┊", "folded"),
    "none": (" ", ""),
}
_RAIL_OF: Final[dict[FateKind, Rail]] = {
    "live": "whole",
    "clipped": "part",
    "hidden": "part",
    "summarised": "name",
    "truncated": "none",
    "reverted": "none",
    "cleared": "none",
    "dropped": "none",
    "aside": "none",
}


def rail(kind: FateKind) -> Span:
    """The rail of a fate, in its colour."""
    return RAILS[_RAIL_OF[kind]]


def marks(projection: Projection, index: int) -> tuple[Span, Span]:
    """Letter and rail of an entry; a fold has the rail of what its summary stands for."""
    kind = projection.fate(index).kind
    if kind in IN_VIEW and isinstance(projection.outline(index), CompactionOutline):
        return (" ", ""), RAILS["name"]
    return letter(kind), rail(kind)


def letter(kind: FateKind) -> Span:
    """The letter of a fate, in the colour of its rail."""
    return LETTERS[kind], rail(kind)[1] or "muted"


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Where a place shows in another panel: its row there and how to call it, or why it has none."""

    key: Key | None
    words: str


def in_view(projection: Projection, index: int) -> Counterpart:
    """Where the LLM view has what stands for an entry: itself, the summary that covers it, or nothing."""
    fate, outline = projection.fate(index), projection.outline(index)
    match fate.kind:
        case "live" if isinstance(outline, CompactionOutline):
            return Counterpart(row_key(index), f"summary {index}")
        case "live" | "hidden" | "clipped":
            return Counterpart(row_key(index), f"{index} → item {index}")
        case "summarised" if fate.by is not None:
            return Counterpart(row_key(fate.by, fate.nth), f"{index} → summary {fate.by}")
        case _:
            return Counterpart(None, f"{index}: {fate_words(projection, index)}")


def fate_words(projection: Projection, index: int) -> str:
    """Where an entry is now, and who did it: `summarised by 373`, `dropped by you at 384`."""
    fate = projection.fate(index)
    match fate.kind:
        case "live" if isinstance(projection.outline(index), CompactionOutline):
            return "its summary is in the view"
        case "live":
            return "pinned, verbatim in the view" if projection.is_pinned(index) else "verbatim in the view"
        case "summarised":
            return f"summarised by {fate.by}"
        case "truncated":
            return f"left out by {_who(projection, fate)}, in no summary"
        case "aside":
            return _aside_words(projection, index)
        case kind:
            return f"{kind} by {_who(projection, fate)}"


def _who(projection: Projection, fate: Fate) -> str:
    if fate.by is None:
        return "nobody known"
    match projection.outline(fate.by):
        case CompactionOutline():
            return f"fold {fate.by}"
        case Edit():
            return f"you at {fate.by}"
        case Revert():
            return f"the rewind {fate.by}"
        case Clear():
            return f"the clear {fate.by}"
        case _:
            return str(fate.by)


def _aside_words(projection: Projection, index: int) -> str:
    match projection.entry(index):
        case Compaction() as fold:
            return (
                "a fold that is undone"
                if is_undone(projection, index)
                else describe_compaction(projection, fold)
            )
        case Revert() | Clear() | Undo() | Edit():
            return "a marker, not sent to the model"
        case AssistantMessage(error=str()):
            return "a failed answer, not sent to the model"
        case _:
            return "not meant for the model"


def is_undone(projection: Projection, index: int) -> bool:
    """Whether a compaction is neither in force nor reverted."""
    kind = projection.fate(index).kind
    return kind == "aside" and all(fold.index != index for fold in projection.compactions())


def fold_of(projection: Projection, index: int) -> int | None:
    """The compaction that decided an entry's fate; a compaction is its own. None where no fold did."""
    if isinstance(projection.outline(index), CompactionOutline):
        return index
    by = projection.fate(index).by
    return by if by is not None and isinstance(projection.outline(by), CompactionOutline) else None


def first_folded(projection: Projection, fold: int) -> int | None:
    """The first entry that is only in the view through this compaction, or was changed by it."""
    outlines = projection.entries.outlines
    low = min((first for piece in projection.written_by(fold) for first, _ in piece.covers), default=0)
    for at in range(bisect_left(outlines, low, key=lambda outline: outline.index), len(outlines)):
        index = outlines[at].index
        if index >= fold:
            return None
        if projection.fate(index).by == fold:
            return index
    return None


def is_gone(projection: Projection, index: int) -> bool:
    """Whether the model no longer has this entry itself: drawn muted."""
    return projection.fate(index).kind not in IN_VIEW
