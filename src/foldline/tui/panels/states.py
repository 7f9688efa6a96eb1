"""Where an entry is now, in words, and which row of the LLM view stands for it. Pure."""

from bisect import bisect_left
from dataclasses import dataclass

from foldline.context.compactions import describe_compaction
from foldline.context.outline import CompactionOutline, MessageOutline
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW, Fate
from foldline.protocol import AssistantMessage, Clear, Compaction, Edit, Revert, Undo
from foldline.tui.blocks.block import Key
from foldline.tui.blocks.cells import Span
from foldline.tui.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.tui.panels.entry_list import row_key


def signs(projection: Projection, index: int) -> tuple[Span, Span]:
    """Letter and gutter sign of an entry; a compaction has the sign of what its summary stands for."""
    kind = projection.fate(index).kind
    if kind in IN_VIEW and isinstance(projection.outline(index), CompactionOutline):
        return (" ", ""), GUTTER_SIGNS["name"]
    return letter(kind), gutter_sign(kind)


def row_index(projection: Projection, index: int) -> int:
    """The entry whose row stands for this one: of an answer of nothing but calls its first result, once that
    is there."""
    caller, *results = projection.group(index)
    answer = projection.outline(index) if results and caller == index else None
    if not isinstance(answer, MessageOutline) or answer.in_words or answer.thinking or answer.failed:
        return index
    return results[0]


def sharer(projection: Projection, index: int) -> int | None:
    """The answer for which the row of this result stands, too."""
    caller = projection.group(index)[0]
    return caller if caller != index and row_index(projection, caller) == index else None


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The row of an entry in another panel and how to call it; without a row, why there is none."""

    key: Key | None
    words: str


def in_view(projection: Projection, index: int) -> Counterpart:
    """What stands for an entry in the LLM view: itself, the summary that covers it, or nothing."""
    fate, outline = projection.fate(index), projection.outline(index)
    match fate.kind:
        case "live" if isinstance(outline, CompactionOutline):
            return Counterpart(row_key(index), f"summary {index}")
        case "live" | "hidden" | "clipped":
            return Counterpart(row_key(index), f"{index} → item {index}")
        case "summarised" if fate.by is not None:
            return Counterpart(row_key(fate.by, fate.nth), f"{index} → summary {fate.by}")
        case _:
            return Counterpart(None, f"{index}: {state_words(projection, index)}")


def state_words(projection: Projection, index: int) -> str:
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
            return _note_words(projection, index)
        case kind:
            return f"{kind} by {_who(projection, fate)}"


def _who(projection: Projection, fate: Fate) -> str:
    if fate.by is None:
        return "nobody known"
    match projection.outline(fate.by):
        case CompactionOutline():
            return f"compaction {fate.by}"
        case Edit():
            return f"you at {fate.by}"
        case Revert():
            return f"the rewind {fate.by}"
        case Clear():
            return f"the clear {fate.by}"
        case _:
            return str(fate.by)


def _note_words(projection: Projection, index: int) -> str:
    match projection.entry(index):
        case Compaction() as done:
            return (
                "undone compaction" if is_undone(projection, index) else describe_compaction(projection, done)
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
    return kind == "aside" and all(done.index != index for done in projection.compactions())


def is_gone(projection: Projection, index: int) -> bool:
    """Whether the model no longer has this entry itself; such rows are muted."""
    return projection.fate(index).kind not in IN_VIEW


def compaction_of(projection: Projection, index: int) -> int | None:
    """The compaction that decided an entry's state; a compaction is its own. None where none did."""
    if isinstance(projection.outline(index), CompactionOutline):
        return index
    by = projection.fate(index).by
    return by if by is not None and isinstance(projection.outline(by), CompactionOutline) else None


def first_compacted(projection: Projection, compaction: int) -> int | None:
    """The first entry that is in the view only through this compaction, or was changed by it."""
    outlines = projection.entries.outlines
    low = min((first for piece in projection.written_by(compaction) for first, _ in piece.covers), default=0)
    for at in range(bisect_left(outlines, low, key=lambda outline: outline.index), len(outlines)):
        index = outlines[at].index
        if index >= compaction:
            return None
        if projection.fate(index).by == compaction:
            return index
    return None
