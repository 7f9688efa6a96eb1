"""What the edit keys would do at a place, in tokens, before one of them is pressed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.context.outline import CompactionOutline
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW, is_preamble
from foldline.context.view_state import ViewMarker
from foldline.context.weight import item_weight, view_size
from foldline.protocol import BaseMessage, Clear, Edit, Entry, Revert, ToolResultMessage, Undo
from foldline.protocol.entries import EditAction

EditKey = Literal["pin", "hide", "drop", "restore"]
"""The keys by the names of their commands. The first two take back what they did."""

_GONE: Final = ("summarised", "truncated", "dropped")
"""Fates that leave nothing of an entry in the view, and from which it can be brought back."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one key would do. Sizes in tokens."""

    action: EditAction | Literal["undo"]
    target: int
    change: int
    """Of the next request."""
    size: int
    """The next request after it."""
    over: bool = False
    """Whether that is past the threshold, and the size before it is not."""
    what: str = ""
    """What an undo would take back."""


@dataclass(frozen=True, slots=True)
class Offers:
    """All keys that would do something now."""

    index: int | None = None
    """The entry they act on; None where only an undo is offered."""
    group: tuple[int, ...] = ()
    """The tool group they act on, where there is one."""
    keys: tuple[Offer, ...] = ()
    refused: str = ""
    """Why the newest change cannot be undone."""
    picked: tuple[int, ...] = ()
    """The entries they act on, where several are marked."""
    price: float | None = None
    """Dollars that a token of the next request costs, where that is known."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What sizes are measured with and against, in tokens."""

    overhead: int = 0
    """Estimate of the tool schemas, before calibration."""
    threshold: int | None = None
    price: float | None = None
    """Dollars that a token of the next request costs, where that is known."""


Picked = tuple[int, ...]
"""Entries that were marked, in order."""


def action_of(projection: Projection, index: int, key: EditKey) -> EditAction | None:
    """What a key would do to an entry now; None where it does nothing."""
    entry = projection.entry(index)
    if entry is None or not _may_edit(entry):
        return None
    group = projection.group(index)
    kinds = [projection.fate(each).kind for each in group]
    match key:
        case "pin" if projection.is_pinned(index):
            return "unpin"
        case "pin":
            return "pin" if any(kind in IN_VIEW or kind in _GONE for kind in kinds) else None
        case "hide":
            results = [index] if isinstance(entry, ToolResultMessage) else list(group[1:])
            shown = {projection.fate(each).kind for each in results}
            return "hide" if "live" in shown else "show" if shown & {"hidden", "clipped"} else None
        case "drop":
            return "drop" if any(kind in IN_VIEW for kind in kinds) else None
        case "restore":
            altered = (*_GONE, "hidden", "clipped")
            return "restore" if any(kind in altered for kind in kinds) else None


def actions_of(projection: Projection, picked: Picked, key: EditKey) -> tuple[EditAction | None, Picked]:
    """What a key would do to several entries, and to which of them: of a tool group it does it once. What
    takes back what a key did comes only where none is left to do it to."""
    found: dict[EditAction, dict[int, int]] = {}
    for index in picked:
        action = action_of(projection, index, key)
        if action is not None:
            once = index if action in ("hide", "show") else projection.group(index)[0]
            found.setdefault(action, {}).setdefault(once, index)
    for action in (key, *found):
        if action in found:
            return action, tuple(found[action].values())
    return None, ()


def may_edit(projection: Projection, index: int) -> bool:
    """Whether the edit keys are of any use on an entry."""
    entry = projection.entry(index)
    return entry is not None and _may_edit(entry)


def _may_edit(entry: Entry) -> bool:
    """Messages, the one a rewind carries included; never what opens every view."""
    if isinstance(entry, BaseMessage):
        return not is_preamble(entry)
    return isinstance(entry, Revert) and bool(entry.message)


def undo_target(projection: Projection) -> ViewMarker | None:
    """The newest change of the view in force: what an undo takes back."""
    return projection.markers[-1] if projection.markers else None


def undo_words(projection: Projection, marker: ViewMarker) -> str:
    """What an undo takes back: `fold 373`, `pin of 131`."""
    match marker:
        case CompactionOutline():
            return f"fold {marker.index}"
        case Clear():
            return f"clear {marker.index}"
        case Revert():
            return f"rewind {marker.index}"
        case Edit():
            return f"{marker.action} of {entries_words(projection.group(marker.target))}"


def entries_words(group: tuple[int, ...]) -> str:
    """`348`, or `347–348` for a tool group."""
    return str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}"


def offers(projection: Projection, place: int | Picked | None, limits: Limits) -> Offers:
    """Everything the keys would do to an entry, or to those that are marked, and what an undo would take
    back. Linear in the history."""
    if isinstance(place, tuple):
        keys = _edits_of(projection, place, limits)
        return Offers(place[-1], (), tuple(keys), picked=place, price=limits.price)
    index = place
    keys = _edits(projection, index, limits) if index is not None and index >= 0 else []
    refused = ""
    marker = undo_target(projection)
    if marker is not None:
        refused = projection.undo_refusal(marker.index) or ""
        if not refused:
            keys.append(_undo(projection, marker, limits))
    group = projection.group(index) if index is not None and index >= 0 else ()
    return Offers(index, group if len(group) > 1 else (), tuple(keys), refused, price=limits.price)


def _edits_of(projection: Projection, picked: Picked, limits: Limits) -> list[Offer]:
    found: list[Offer] = []
    for key in _KEYS:
        action, targets = actions_of(projection, picked, key)
        if action is not None:
            after = projection.foreseen(*(Edit(target=target, action=action) for target in targets))
            found.append(_offer(projection, after, action, targets[-1], limits))
    return _in_order(found)


def _in_order(found: Sequence[Offer]) -> list[Offer]:
    """As they are offered; what is to free something, only where it does: a stub may be longer than what it
    hides."""
    gains = [offer for offer in found if offer.action != "hide" or offer.change < 0]
    return sorted(gains, key=lambda offer: _ORDER.index(offer.action))


def _edits(projection: Projection, index: int, limits: Limits) -> list[Offer]:
    found: list[Offer] = []
    shown = None
    for key in _KEYS:
        action = action_of(projection, index, key)
        if action is None:
            continue
        after = projection.foreseen(Edit(target=index, action=action))
        if after.view == projection.view and after.pins == projection.pins:
            continue
        if action == "restore" and shown is not None and after.view == shown.view:
            continue  # the same as `show`, which has just been offered
        shown = after if action == "show" else shown
        found.append(_offer(projection, after, action, index, limits))
    return _in_order(found)


_KEYS: Final[tuple[EditKey, ...]] = ("hide", "restore", "pin", "drop")
_ORDER: Final = ("restore", "show", "pin", "unpin", "hide", "drop")
"""What brings something back comes first: it is what a reader of folded work looks for."""


def _added(before: Projection, after: Projection) -> int:
    """What the items weigh that only the second view has. Items are never changed, only replaced."""
    known = set(map(id, before.view))
    return sum(item_weight(after, item).tokens for item in after.view if id(item) not in known)


def _undo(projection: Projection, marker: ViewMarker, limits: Limits) -> Offer:
    after = projection.foreseen(Undo(target=marker.index))
    offer = _offer(projection, after, "undo", marker.index, limits, undo_words(projection, marker))
    if isinstance(marker, Edit):
        return offer
    # So much comes back that its size is what counts: the one the meter will show, and a question names.
    size = view_size(after, overhead=limits.overhead).tokens
    return replace(offer, change=size - (offer.size - offer.change), size=size)


def _offer(
    before: Projection,
    after: Projection,
    action: EditAction | Literal["undo"],
    target: int,
    limits: Limits,
    what: str = "",
) -> Offer:
    """The change is what the items weigh that go and come, as their rows say it: a report of the whole
    request, where there is one, stands only for `before`, and its difference to the estimate is no effect of
    the key."""
    size = view_size(before, overhead=limits.overhead).tokens
    change = _added(before, after) - _added(after, before)
    past = limits.threshold
    over = past is not None and size < past <= view_size(after, overhead=limits.overhead).tokens
    return Offer(action, target, change, size + change, over, what)
