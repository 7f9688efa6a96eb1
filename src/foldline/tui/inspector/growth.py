"""What a refresh has to touch: the difference between the view that is shown and the view that is."""

from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.outline import Outline
from foldline.context.projection import Projection
from foldline.context.undoing import ViewMarker
from foldline.context.view import ViewItem
from foldline.protocol import AssistantMessage, Undo


def changes_view(entry: Outline) -> bool:
    """Whether an entry of this outline may change fates or the view above its end."""
    return isinstance(entry, ViewMarker | Undo)


def newest_change(projection: Projection) -> int:
    """Index of the newest entry that may have changed fates or the view above its end; -1 without any."""
    newest = projection.newest_change
    return -1 if newest is None else newest.index


def common_prefix(old: Sequence[ViewItem], new: Sequence[ViewItem]) -> int:
    """How many items both begin with. Identity decides: items are never changed, only replaced."""
    count = 0
    for before, after in zip(old, new, strict=False):
        if before is not after:
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class News:
    """What the next request sends that the last one did not."""

    first_index: int
    """Entries of the view from this index on are new; the answer of the last request is the first."""
    position: int | None
    """Where in the view they start; None where a marker has changed what stands above them since."""


def news_of(projection: Projection, last_change: int) -> News | None:
    """None before the first answer. `last_change` is the index of the newest view-changing marker, or -1."""
    for position in range(len(projection.view) - 1, -1, -1):
        item = projection.view[position]
        if isinstance(item.message, AssistantMessage):
            return News(item.index, position if last_change < item.index else None)
    return None
