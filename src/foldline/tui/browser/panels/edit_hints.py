"""The edit keys: their effects in tokens and dollars, and the operations that they request."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NamedTuple

from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from foldline.protocol import (
    BaseMessage,
    Clear,
    Compaction,
    Edit,
    Revert,
    ToolResultMessage,
    Undo,
)
from foldline.protocol.entries import EditAction
from foldline.protocol.operations import EditView, UndoCompaction
from foldline.text import numbers
from foldline.text.numbers import many
from foldline.tui.browser.panels.states import state_words
from foldline.tui.messages import OperationWanted
from foldline.view.items import IN_VIEW, is_preamble
from foldline.view.outline import CompactionOutline
from foldline.view.projection import Projection
from foldline.view.undo import ViewMarker
from foldline.view.weight import item_weight, view_size

EditKey = Literal["pin", "hide", "drop", "restore"]
"""The commands of the edit keys. `pin` and `hide` also undo their own edits."""
MarkedEntries = tuple[int, ...]
"""Indices of the marked entries, in order."""
EditTarget = int | MarkedEntries | None
"""The entry at the cursor, or the marked entries; None if the only possible edit is an undo."""
KeyName = Callable[[str], str]
"""Returns the name of a command's key, for use in sentences."""

_REMOVED: Final = ("summarised", "truncated", "dropped")
"""States of entries that are not in the view but can be pinned or restored."""
_ALTERED: Final = (*_REMOVED, "hidden", "clipped")
"""States that `restore` can reverse."""
_EDIT_KEYS: Final = ("hide", "restore", "pin", "drop")
_ORDER: Final = ("restore", "show", "pin", "unpin", "hide", "drop")
"""Order of the hints. Restoring comes first, because users need it after a compaction."""

NOTHING_TO_UNDO: Final = "There is no compaction, edit, clear or rewind to undo."
UNDO_EACH: Final = "Press {key} to undo them one by one."
NOTHING_MARKED_TO: Final = "Cannot {key} any of the marked entries."
NOT_AN_ENTRY: Final = "This row is not an entry and cannot be edited."
PREAMBLE: Final = "Entry {index} is at the start of every request and cannot be edited."
IS_COMPACTION: Final = (
    "Entry {index} is a compaction. Edit the entries it covers, or press {key} to undo "
    "the newest change."
)
NOT_A_RESULT: Final = (
    "Only tool results can be hidden. Press {key} to drop entry {index}."
)
ALREADY: Final = "Cannot {key} entry {index}: {state}."


@dataclass(frozen=True, slots=True)
class EditHint:
    """The effect of one edit key. Sizes are in tokens."""

    action: EditAction | Literal["undo"]
    target: int
    change: int
    """Change in the size of the next request, in tokens."""
    size: int
    """Size of the next request after the edit, in tokens."""
    crosses_threshold: bool = False
    """Whether the edit makes the next request larger than the compaction threshold."""
    undone: str = ""
    """Name of the change that would be undone."""


@dataclass(frozen=True, slots=True)
class EditHints:
    """The effects of the edit keys that work now."""

    index: int | None = None
    """Index of the entry on which the keys act; None if the only possible edit is an undo."""
    group: tuple[int, ...] = ()
    """The tool group on which the keys act; empty if there is none."""
    keys: tuple[EditHint, ...] = ()
    undo_refusal: str = ""
    """The reason why the newest change cannot be undone."""
    picked: MarkedEntries = ()
    """The marked entries on which the keys act; empty if none are marked."""
    price: float | None = None
    """Price of the next request in dollars per token, if known."""


@dataclass(frozen=True, slots=True)
class SizeBasis:
    """The values from which sizes and costs are computed. Sizes are in tokens."""

    overhead: int = 0
    """Estimated size of the tool schemas, in tokens before calibration."""
    threshold: int | None = None
    price: float | None = None
    """Price of the next request in dollars per token, if known."""


# --- What the keys would do -------------------------------------------------------------------------------


def action_of(projection: Projection, index: int, key: EditKey) -> EditAction | None:
    """Return the edit that a key would apply to an entry, if any."""
    if not may_edit(projection, index):
        return None
    group = projection.group(index)
    kinds = {projection.fate(member).kind for member in group}
    is_in_view = not kinds.isdisjoint(IN_VIEW)
    match key:
        case "pin" if projection.is_pinned(index):
            return "unpin"
        case "pin":
            if "dropped" in kinds:
                return None  # only `restore` brings back what the user has dropped
            return "pin" if is_in_view or not kinds.isdisjoint(_REMOVED) else None
        case "hide":
            return _hide_action(projection, index)
        case "drop":
            return "drop" if is_in_view else None
        case "restore":
            return "restore" if not kinds.isdisjoint(_ALTERED) else None


def _hide_action(projection: Projection, index: int) -> Literal["hide", "show"] | None:
    """Return the edit for the hide key.

    The key acts on a single result, or on all results of a response.
    """
    is_result = isinstance(projection.entry(index), ToolResultMessage)
    results = [index] if is_result else projection.group(index)[1:]
    kinds = {projection.fate(result).kind for result in results}
    if "live" in kinds:
        return "hide"
    return "show" if kinds & {"hidden", "clipped"} else None


def actions_of(
    projection: Projection,
    picked: MarkedEntries,
    key: EditKey,
) -> tuple[EditAction | None, MarkedEntries]:
    """Return a key's edit for several entries, and the entries that the edit affects.

    A tool group counts as one. The reverse edit, such as `unpin`, is chosen only if the normal edit applies
    to none of the entries.
    """
    targets: dict[EditAction, dict[int, int]] = {}
    for index in picked:
        action = action_of(projection, index, key)
        if action is None:
            continue
        unit = index if action in ("hide", "show") else projection.group(index)[0]
        targets.setdefault(action, {}).setdefault(unit, index)
    for action in (key, *targets):
        if action in targets:
            return action, tuple(targets[action].values())
    return None, ()


def may_edit(projection: Projection, index: int) -> bool:
    """Whether an entry can be edited.

    Only messages after the preamble, and rewinds that carry text, can be edited.
    """
    entry = projection.entry(index)
    if isinstance(entry, BaseMessage):
        return not is_preamble(entry)
    return isinstance(entry, Revert) and bool(entry.text)


def undo_target(projection: Projection) -> ViewMarker | None:
    """Return the change of the view that an undo would revert, if there is one."""
    return projection.markers[-1] if projection.markers else None


def edit_hints(
    projection: Projection, place: EditTarget, basis: SizeBasis
) -> EditHints:
    """Return the effects of the edit keys on an entry or on the marked entries. Takes linear time."""
    if isinstance(place, tuple):
        marked_hints = tuple(_edit_key_hints(projection, place, basis))
        return EditHints(place[-1], keys=marked_hints, picked=place, price=basis.price)
    keys: list[EditHint] = []
    group: tuple[int, ...] = ()
    if place is not None and place >= 0:
        keys = _edit_key_hints(projection, (place,), basis)
        group = projection.group(place)
    refusal = ""
    marker = undo_target(projection)
    if marker is not None:
        refusal = projection.undo_refusal(marker.index) or ""
        if not refusal:
            keys.append(_undo_hint(projection, marker, basis))
    return EditHints(
        place,
        group if len(group) > 1 else (),
        tuple(keys),
        refusal,
        price=basis.price,
    )


def _edit_key_hints(
    projection: Projection, indices: MarkedEntries, basis: SizeBasis
) -> list[EditHint]:
    """Return hints for the keys that would change the view or the pins, in the order of display.

    A `hide` is left out if the result is so short that hiding saves nothing.
    """
    hints: list[EditHint] = []
    after_show = None
    for key in _EDIT_KEYS:
        action, targets = actions_of(projection, indices, key)
        if action is None:
            continue
        edits = [Edit(target=target, action=action) for target in targets]
        after = projection.with_entries(*edits)
        if after.view == projection.view and after.pins == projection.pins:
            continue
        if action == "show":
            after_show = after.view
        elif action == "restore" and after.view == after_show:
            continue  # the same as `show`, which is offered already
        hint = _hint(
            projection,
            after,
            action,
            targets[-1],
            basis,
        )
        if action != "hide" or hint.change < 0:
            hints.append(hint)
    return sorted(hints, key=lambda hint: _ORDER.index(hint.action))


def _undo_hint(
    projection: Projection, marker: ViewMarker, basis: SizeBasis
) -> EditHint:
    after = projection.with_entries(Undo(target=marker.index))
    hint = _hint(
        projection, after, "undo", marker.index, basis, undo_words(projection, marker)
    )
    if isinstance(marker, Edit):
        return hint
    # Such an undo restores much, so use the size that the meter and the confirmation will show.
    size = view_size(after, overhead=basis.overhead).tokens
    size_before = hint.size - hint.change
    return replace(hint, change=size - size_before, size=size)


def _hint(
    before: Projection,
    after: Projection,
    action: EditAction | Literal["undo"],
    target: int,
    basis: SizeBasis,
    undone: str = "",
) -> EditHint:
    """Compute the effect of an edit from the items that it adds and removes.

    Subtracting the two view sizes would be wrong: the earlier size may have been reported, while the later
    one is an estimate.
    """
    size = view_size(before, overhead=basis.overhead).tokens
    size_after = view_size(after, overhead=basis.overhead).tokens
    change = _added(before, after) - _added(after, before)
    threshold = basis.threshold
    crosses = threshold is not None and size < threshold <= size_after
    return EditHint(
        action,
        target,
        change,
        size + change,
        crosses,
        undone,
    )


def _added(before: Projection, after: Projection) -> int:
    """Return the tokens of the items that only the view after the edit contains."""
    # Items are compared by identity: they are replaced, never modified.
    before_ids = set(map(id, before.view))
    return sum(
        item_weight(after, item).tokens
        for item in after.view
        if id(item) not in before_ids
    )


# --- Computed once the cursor rests ---------------------------------------------------------------------

REST: Final = 0.08
"""How long, in seconds, the cursor must stay still before hints are computed.

This is longer than the repeat interval of a key.
"""


class HintWorker:
    """Computes hints in a thread once the cursor stays still."""

    def __init__(
        self, owner: Widget, basis: SizeBasis, changed: Callable[[], None]
    ) -> None:
        """Create a worker without hints.

        `changed` is called when new hints are ready.
        """
        self.basis = basis
        self._owner = owner
        self._changed = changed
        self._hints: EditHints | None = None
        """The newest hints."""
        self._timer: Timer | None = None
        self._requested: HintRequest | None = None
        self._ready: HintRequest | None = None
        """The request that `_hints` answers."""

    @property
    def is_ready(self) -> bool:
        """Whether the most recently requested hints are ready."""
        return self._requested is not None and self._requested == self._ready

    def at(self, projection: Projection, place: EditTarget) -> EditHints | None:
        """Return the hints for a target.

        Returns None until the hints are ready. When the history has grown, the old hints are returned until
        the new ones are ready.
        """
        request = HintRequest(projection, projection.last_index, self.basis, place)
        if request != self._requested:
            self._requested = request
            if self._timer is not None:
                self._timer.stop()
            self._timer = self._owner.set_timer(REST, partial(self._start, request))
        if self._ready is None or self._ready.place != place:
            return None
        return self._hints

    def _start(self, request: "HintRequest") -> None:
        # Pass a function: a coroutine would never be awaited if the worker is cancelled at once.
        compute = partial(self._compute, request)
        _: Worker[None] = self._owner.run_worker(compute, group="hints", exclusive=True)

    async def _compute(self, request: "HintRequest") -> None:
        # Use a copy, because the history may grow during the computation.
        frozen = request.projection.with_entries()
        self._hints = await asyncio.to_thread(
            edit_hints, frozen, request.place, request.basis
        )
        self._ready = request
        self._changed()


class HintRequest(NamedTuple):
    """The target of the hints, and the version of the history for which they hold."""

    projection: Projection
    last_index: int
    basis: SizeBasis
    place: EditTarget


# --- Words ----------------------------------------------------------------------------------------------

_LEAST_DOLLARS: Final = 0.0005


def money_words(tokens: int, price: float | None) -> str:
    """Return the cost of a change, ` ~$0.010`; empty if unknown or negligible."""
    dollars = abs(tokens) * (price or 0.0)
    if dollars < _LEAST_DOLLARS:
        return ""
    sign = "" if tokens > 0 else "−"
    return f" {sign}~{numbers.price(dollars)}"


def change_words(tokens: int) -> str:
    """Return a signed number of tokens: `+3.2k`, `−4.7k`, `±0`."""
    if not tokens:
        return "±0"
    sign = "+" if tokens > 0 else "−"
    return f"{sign}{numbers.tokens(abs(tokens))}"


def undo_words(projection: Projection, marker: ViewMarker) -> str:
    """Return the name of a change that can be undone: `compaction 373`, `pin of 131`."""
    match marker:
        case CompactionOutline():
            return f"compaction {marker.index}"
        case Clear():
            return f"clear {marker.index}"
        case Revert():
            return f"rewind {marker.index}"
        case Edit():
            return (
                f"{marker.action} of {entries_words(projection.group(marker.target))}"
            )


def entries_words(group: tuple[int, ...]) -> str:
    """Return `348`, or `347–348` for a tool group."""
    return str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}"


# --- The operations of a pressed key ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EditRequest:
    """The edits triggered by a key press, as messages, and the text for the status row."""

    words: str
    messages: Sequence[Message] = ()


def edit(
    projection: Projection,
    place: int | MarkedEntries,
    key: EditKey,
    name: KeyName,
    *,
    later: bool,
) -> EditRequest:
    """Return the request for editing an entry or all marked entries.

    Args:
        name: returns the name of a command's key.
        later: whether the edit is postponed until the current turn ends.
    """
    is_marked = isinstance(place, tuple)
    picked = place if isinstance(place, tuple) else (place,)
    action, targets = actions_of(projection, picked, key)
    if action is None and is_marked:
        return EditRequest(NOTHING_MARKED_TO.format(key=key))
    if action is None:
        return EditRequest(nothing_to(projection, picked[0], key, name))
    what = f"{action} {entries_words(projection.group(targets[0]))}"
    if is_marked:
        what = f"{action}: {many(len(targets), 'edit')}"
    words = f"{what}: after this turn" if later else ""
    if is_marked and not later:
        words = f"{what}. {UNDO_EACH.format(key=name('undo'))}"
    edits = [EditView(target=target, action=action) for target in targets]
    return EditRequest(words, tuple(map(OperationWanted, edits)))


def undo(projection: Projection, *, later: bool) -> EditRequest:
    """Return the request for undoing the newest change.

    If the change cannot be undone, the request contains only the reason.
    """
    marker = undo_target(projection)
    if marker is None:
        return EditRequest(NOTHING_TO_UNDO)
    refusal = projection.undo_refusal(marker.index)
    if refusal is not None:
        return EditRequest(refusal)
    change = undo_words(projection, marker)
    words = f"undo {change}: after this turn" if later else ""
    return EditRequest(words, (OperationWanted(UndoCompaction(target=marker.index)),))


def nothing_to(projection: Projection, index: int, key: EditKey, name: KeyName) -> str:
    """Return the reason why a key has no effect on an entry."""
    if index < 0:
        return NOT_AN_ENTRY
    entry = projection.entry(index)
    if isinstance(entry, BaseMessage) and is_preamble(entry):
        return PREAMBLE.format(index=index)
    if isinstance(entry, Compaction):
        return IS_COMPACTION.format(index=index, key=name("undo"))
    if key == "hide" and not projection.group(index)[1:]:
        return NOT_A_RESULT.format(index=index, key=name("drop"))
    return ALREADY.format(key=key, index=index, state=state_words(projection, index))
