"""An entry's state in words, and its row in the LLM view."""

from bisect import bisect_left
from dataclasses import dataclass

from foldline.past.compactions import describe_compaction
from foldline.protocol import AssistantMessage, Clear, Compaction, Edit, Revert, Undo
from foldline.tui.blocks.block import Key
from foldline.tui.browser.panels.entry_list import row_key
from foldline.tui.look.cells import Span
from foldline.tui.look.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.view.items import IN_VIEW, Fate
from foldline.view.outline import CompactionOutline, MessageOutline
from foldline.view.projection import Projection


def signs(projection: Projection, index: int) -> tuple[Span, Span]:
    """Return an entry's state letter and gutter symbol.

    For a compaction, these are the letter and symbol of its summary.
    """
    kind = projection.fate(index).kind
    if kind in IN_VIEW and isinstance(projection.outline(index), CompactionOutline):
        return (" ", ""), GUTTER_SIGNS["name"]
    return letter(kind), gutter_sign(kind)


def row_index(projection: Projection, index: int) -> int:
    """Return the index of the entry whose row represents this entry.

    A response without text is shown in the row of its first result.
    """
    caller, *results = projection.group(index)
    if caller != index or not results:
        return index
    answer = projection.outline(index)
    if (
        not isinstance(answer, MessageOutline)
        or answer.in_words
        or answer.thinking
        or answer.failed
    ):
        return index
    return results[0]


def sharer(projection: Projection, index: int) -> int | None:
    """Return the index of the response that is also shown in this result's row, if any."""
    caller = projection.group(index)[0]
    return (
        caller if caller != index and row_index(projection, caller) == index else None
    )


@dataclass(frozen=True, slots=True)
class Counterpart:
    """An entry's row in another panel, and the row's name.

    If there is no row, the name is replaced by the reason.
    """

    key: Key | None
    words: str


def in_view(projection: Projection, index: int) -> Counterpart:
    """Return how the LLM view represents an entry: as itself, in a summary, or not at all."""
    fate = projection.fate(index)
    match fate.kind:
        case "live" if isinstance(projection.outline(index), CompactionOutline):
            return Counterpart(row_key(index), f"summary {index}")
        case "live" | "hidden" | "clipped":
            return Counterpart(row_key(index), f"{index} → item {index}")
        case "summarised" if fate.by is not None:
            return Counterpart(
                row_key(fate.by, fate.nth), f"{index} → summary {fate.by}"
            )
        case _:
            return Counterpart(None, f"{index}: {state_words(projection, index)}")


def state_words(projection: Projection, index: int) -> str:
    """Return an entry's state and its cause: `summarised by 373`, `dropped by you (384)`."""
    fate = projection.fate(index)
    match fate.kind:
        case "live" if isinstance(projection.outline(index), CompactionOutline):
            return "its summary is sent"
        case "live":
            return (
                "pinned, sent in full"
                if projection.is_pinned(index)
                else "sent in full"
            )
        case "summarised":
            return f"summarised by {fate.by}"
        case "truncated":
            return f"left out by {_cause(projection, fate)} without a summary"
        case "aside":
            return _note_words(projection, index)
        case kind:
            return f"{kind} by {_cause(projection, fate)}"


def _cause(projection: Projection, fate: Fate) -> str:
    if fate.by is None:
        return "an unknown entry"
    match projection.outline(fate.by):
        case CompactionOutline():
            return f"compaction {fate.by}"
        case Edit():
            return f"you ({fate.by})"
        case Revert():
            return f"rewind {fate.by}"
        case Clear():
            return f"clear {fate.by}"
        case _:
            return str(fate.by)


def _note_words(projection: Projection, index: int) -> str:
    match projection.entry(index):
        case Compaction() if is_undone(projection, index):
            return "undone compaction"
        case Compaction() as compaction:
            return describe_compaction(projection, compaction)
        case Revert() | Clear() | Undo() | Edit():
            return "a marker, not sent to the model"
        case AssistantMessage(error=str()):
            return "a failed answer, not sent to the model"
        case _:
            return "not sent to the model"


def is_undone(projection: Projection, index: int) -> bool:
    """Whether a compaction was undone by the user.

    Returns False if a rewind reverted it.
    """
    if projection.fate(index).kind != "aside":
        return False
    return all(compaction.index != index for compaction in projection.compactions())


def is_gone(projection: Projection, index: int) -> bool:
    """Whether the view no longer contains the entry itself, so that its row is muted."""
    return projection.fate(index).kind not in IN_VIEW


def compaction_of(projection: Projection, index: int) -> int | None:
    """Return the compaction that caused an entry's state, if any.

    For a compaction, return the compaction itself.
    """
    if isinstance(projection.outline(index), CompactionOutline):
        return index
    by = projection.fate(index).by
    return (
        by
        if by is not None and isinstance(projection.outline(by), CompactionOutline)
        else None
    )


def first_compacted(projection: Projection, compaction: int) -> int | None:
    """Return the first entry that this compaction summarised or changed, if any."""
    outlines = projection.entries.outlines
    covered = [
        first
        for summary in projection.written_by(compaction)
        for first, _ in summary.covers
    ]
    start = bisect_left(
        outlines, min(covered, default=0), key=lambda outline: outline.index
    )
    for position in range(start, len(outlines)):
        index = outlines[position].index
        if index >= compaction:
            return None
        if projection.fate(index).by == compaction:
            return index
    return None
