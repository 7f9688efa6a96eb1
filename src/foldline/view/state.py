"""The view, the fates of all entries, and the effect of each marker on them.

Only `ViewState` modifies the view, the pins and the fates. While it applies a marker, it records the changes
in a `ViewChange`, so that `Projection` can restore the earlier state.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from foldline.protocol import (
    PINNED,
    Checkpoint,
    Clear,
    DeveloperMessage,
    Edit,
    Entry,
    FileTouch,
    Kept,
    Revert,
    Span,
    ToolResultMessage,
    Undo,
    text_parts,
)

from .counted_view import CountedView, Totals
from .items import (
    ASIDE,
    IN_VIEW,
    LIVE,
    Fate,
    FateRecord,
    Fates,
    Key,
    MessageInMemory,
    MessageSource,
    ViewItem,
    hidden_placeholder,
    item_from,
    item_of,
    with_recall,
)
from .outline import CompactionOutline, Entries, MessageOutline, Outline, WrittenOutline
from .tally import Tally
from .tokens import CHECKPOINT_TOKENS, Scripts

ViewMarker = CompactionOutline | Clear | Edit | Revert
"""Markers that change the view. Each of them can be undone."""
BUILDS_ON = "Compaction {0} builds on entry {1}. Undo compaction {0} first."
WOULD_BRING_BACK = "This would bring back compaction {}, which builds on entry {}. Undo entry {} first."


def undone_markers(undos: Sequence[Undo], markers: Sequence[ViewMarker]) -> set[int]:
    """Return the indices of the markers and undos that are undone.

    An undo is ignored if it is itself undone, or if it lies on a branch that a rewind has left.
    """
    jumps = [
        marker
        for marker in markers
        if isinstance(marker, Revert) and marker.moment is not None
    ]
    newest_first: list[Undo | Revert] = sorted(
        (*undos, *jumps), key=lambda entry: entry.index, reverse=True
    )
    targets: set[int] = set()
    moment: int | None = None
    for entry in newest_first:
        if entry.index in targets or (moment is not None and entry.index > moment):
            continue
        if isinstance(entry, Undo):
            targets.add(entry.target)
        elif entry.moment is not None and entry.moment < entry.index:
            moment = entry.moment
    return targets


def reached_by(revert: Revert, checkpoints: Mapping[int, int]) -> int | None:
    """Return the index of the entry to which a rewind goes back.

    Returns None if the rewind does not change the view.

    Args:
        checkpoints: the index of each checkpoint entry, by its id.
    """
    back_to = (
        checkpoints.get(revert.checkpoint) if revert.moment is None else revert.moment
    )
    if not revert.context or back_to is None or back_to >= revert.index:
        return None
    return back_to


def markers_in_force(
    markers: Sequence[ViewMarker], undone: Set[int], checkpoints: Mapping[int, int]
) -> list[ViewMarker]:
    """Return the markers that are neither undone nor reverted, oldest first.

    The newest markers are examined first, because an active rewind cancels everything after its target,
    including other rewinds.
    """
    in_force: list[ViewMarker] = []
    back_to: int | None = None
    for marker in reversed(markers):
        if marker.index in undone or (back_to is not None and marker.index > back_to):
            continue
        in_force.append(marker)
        reached = (
            reached_by(marker, checkpoints) if isinstance(marker, Revert) else None
        )
        if reached is not None:
            back_to = reached
    return in_force[::-1]


def newest_undoable(
    markers: Sequence[ViewMarker],
) -> CompactionOutline | Clear | Revert | None:
    """Return the newest active compaction, clear or rewind.

    This is the marker undone by an undo without a target. Edits are left out, because they have their own
    keys for undoing.
    """
    for marker in reversed(markers):
        if isinstance(marker, CompactionOutline | Clear | Revert):
            return marker
    return None


def built_on_refusal(target: int, markers: Sequence[ViewMarker]) -> str | None:
    """Return the reason why a later compaction prevents undoing this marker.

    Returns None if no later compaction does.

    Args:
        markers: the active markers, oldest first.
    """
    later = bisect_right(markers, target, key=lambda marker: marker.index)
    for marker in islice(markers, later, None):
        if isinstance(marker, CompactionOutline):
            return BUILDS_ON.format(marker.index, target)
    return None


def undo_refusal(
    undo: Undo,
    undos: Sequence[Undo],
    markers: Sequence[ViewMarker],
    checkpoints: Mapping[int, int],
) -> str | None:
    """Return the reason why an undo would leave a compaction without the view on which it is based.

    Returns None if the undo is allowed. The undo is rejected if the compaction came after the target. It is
    also rejected if it cancels an earlier undo or rewind and would thus restore a compaction, although
    something older has been undone since then.
    """
    undone_after = undone_markers((*undos, undo), markers)
    before = markers_in_force(markers, undone_markers(undos, markers), checkpoints)
    after = markers_in_force(markers, undone_after, checkpoints)
    if refusal := built_on_refusal(undo.target, after):
        return refusal
    indices_before = {marker.index for marker in before}
    for compaction in after:
        if (
            not isinstance(compaction, CompactionOutline)
            or compaction.index in indices_before
        ):
            continue
        for earlier in undos:
            counts = (
                earlier.target in undone_after and earlier.index not in undone_after
            )
            if counts and earlier.target < compaction.index < earlier.index:
                return WOULD_BRING_BACK.format(
                    compaction.index, earlier.target, earlier.index
                )
    return None


_ItemBefore = ViewItem | MessageOutline
"""An item of an earlier view. For an unaltered item, the outline is enough to recreate the item."""


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A marker that changed the view, and the state before the change."""

    marker: ViewMarker
    position: int
    """Position of the marker in the list of entries."""
    pins: frozenset[int]
    fates: FateRecord
    totals: Totals
    """Token totals of the view before the change."""
    sizes: tuple[int, int]
    """Sizes of the view before and after the change, in tokens.

    They are estimated with the calibration at that time.
    """
    _view: Sequence[_ItemBefore]
    """The view before the change, as returned by `items_before`."""

    def messages_within(self, spans: Sequence[Span]) -> int:
        """Count the messages of the earlier view that lie within these spans.

        Earlier summaries are not counted.
        """
        messages = (
            item
            for item in self._view
            if not (isinstance(item, ViewItem) and item.written)
        )
        return sum(_is_within(message.index, spans) for message in messages)

    def view_before(self, source: MessageSource) -> list[ViewItem]:
        """Return the view before the change, with new items that read from `source`."""
        return [
            item if isinstance(item, ViewItem) else item_from(item, source)
            for item in self._view
        ]


def items_before(
    marker: ViewMarker, before: Sequence[ViewItem], after: Iterable[ViewItem]
) -> Sequence[_ItemBefore]:
    """Return the view before a change, in a form that takes little memory.

    Unaltered items that left the view are kept as outlines.
    """
    if isinstance(marker, Edit):
        return before  # an edit removes few items, so the others need not be examined
    kept = set(map(id, after))
    items: list[_ItemBefore] = []
    for item in before:
        can_be_made_again = id(item) not in kept and _is_unaltered(item)
        items.append(item.outline if can_be_made_again else item)
    return items


def _is_unaltered(item: ViewItem) -> bool:
    if item.content is not None or item.checkpoint is not None or item.fate != "live":
        return False
    return not (item.pinned or item.written or isinstance(item.source, MessageInMemory))


class ViewState:
    """The entries, the view resulting from them, and the fate of each entry.

    Other modules must not modify the state.
    """

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self._indices: list[int] = []
        """Indices of the entries so far. A damaged record leaves a gap."""
        self._view = CountedView()
        self.touches: list[tuple[int, FileTouch]] = []
        """Every file access by a tool call, in order, with the index of the call's result."""
        self._fates = Fates()
        self._pins: set[int] = set()
        self._in_force: list[ViewMarker] = []
        # Tuples, so that a shallow copy of the dictionaries is a full copy.
        self._open_calls: dict[str, tuple[int, ...]] = {}
        self._results: dict[int, tuple[int, ...]] = {}
        self._caller: dict[int, int] = {}

    # --- reading -------------------------------------------------------------------------------

    @property
    def view(self) -> list[ViewItem]:
        return self._view.items

    @property
    def tokens(self) -> int:
        """Estimated size of the view in tokens, without calibration and without reasoning."""
        return self._view.totals.tokens

    @property
    def thinking(self) -> int:
        """Estimated size of the reasoning in the view, in tokens."""
        return self._view.totals.thinking

    @property
    def scripts(self) -> Scripts:
        return self._view.totals.scripts

    @property
    def totals(self) -> Totals:
        return self._view.totals

    @property
    def tally(self) -> Tally:
        """The sizes by kind of item.

        Each access counts only the changes since the previous one.
        """
        return self._view.tally

    def fate(self, index: int) -> Fate:
        """Return the fate of an entry.

        The fate of a compaction is that of its summary.
        """
        fate = self._fates.get(index) or ASIDE
        if fate.kind == "summarised":
            fate = self._fates.current(fate)
        if fate.kind in ("dropped", "truncated") and fate.by is not None:
            return self._cleared_after(fate.by) or fate
        return fate

    def _is_in_view(self, index: int) -> bool:
        return (self._fates.get(index) or ASIDE).kind in IN_VIEW

    def _cleared_after(self, index: int) -> Fate | None:
        for marker in self._in_force:
            if isinstance(marker, Clear) and marker.index > index:
                return Fate("cleared", marker.index)
        return None

    def group(self, index: int) -> tuple[int, ...]:
        """Return the indices of the entries that an edit of this entry affects.

        These are the members of a tool group, or only the entry itself.
        """
        caller = self._caller.get(index, index)
        return (caller, *self._results.get(caller, ()))

    @property
    def pins(self) -> frozenset[int]:
        return frozenset(self._pins)

    def is_pinned(self, index: int) -> bool:
        return index in self._pins

    @property
    def last_index(self) -> int:
        """Index of the newest entry; -1 in an empty history."""
        return self._indices[-1] if self._indices else -1

    def entry(self, index: int) -> Entry | None:
        """Return the entry with this index.

        Returns None if a damaged record has left a gap.
        """
        position = self._position(index)
        return None if position is None else self.entries[position]

    def outline(self, index: int) -> Outline | None:
        """Return the outline of the entry with this index.

        The entry's text is not read.
        """
        position = self._position(index)
        return None if position is None else self.entries.outlines[position]

    def written_by(self, index: int) -> tuple[WrittenOutline, ...]:
        """Return the new texts written by this compaction.

        The result is empty for other entries.
        """
        outline = self.outline(index)
        return outline.written if isinstance(outline, CompactionOutline) else ()

    def _position(self, index: int) -> int | None:
        position = bisect_left(self._indices, index)
        if position < len(self._indices) and self._indices[position] == index:
            return position
        return None

    def count_up_to(self, index: int) -> int:
        """Count the entries up to and including this one."""
        return bisect_right(self._indices, index)

    def messages_within(self, first: int, last: int) -> int:
        """Count the messages with an index from `first` to `last`."""
        start = bisect_left(self._indices, first)
        stop = bisect_right(self._indices, last)
        return sum(
            isinstance(outline, MessageOutline)
            for outline in self.entries.outlines[start:stop]
        )

    def entries_after(self, index: int, limit: int) -> Sequence[Entry]:
        """Return up to `limit` entries after entry `index`, oldest first."""
        start = bisect_right(self._indices, index)
        return self.entries[start : start + limit]

    def entries_before(self, index: int, limit: int) -> Sequence[Entry]:
        """Return up to `limit` entries before entry `index`, newest first."""
        stop = bisect_left(self._indices, index)
        return self.entries[max(0, stop - limit) : stop][::-1]

    # --- messages ------------------------------------------------------------------------------

    def _add_to_view(self, message: MessageOutline) -> None:
        if message.type == "tool_result":
            self._add_result(message)
        elif message.says:
            if message.origin in PINNED:
                self._pins.add(message.index)
            self._insert_new(len(self.view), message)

    def _add_result(self, result: MessageOutline) -> None:
        caller = self._caller.get(result.index)
        if caller is None:
            return
        if caller in self._pins:
            self._pins.add(result.index)
        position = self._end_of_group(caller)
        if position is not None:
            self._insert_new(position, result)
            return
        fate = self.fate(caller)  # the call has left the view, so its result leaves too
        if fate.kind == "summarised":
            fate = Fate("truncated", fate.by)
        self._fates.put((result.index, 0), fate)

    def _insert_new(self, position: int, message: MessageOutline) -> None:
        self._fates.put((message.index, 0), LIVE)
        item = item_from(message, self.entries)
        if message.index in self._pins:
            item = replace(item, pinned=True)
        self._view.insert(position, item)

    def _note_group(self, message: MessageOutline) -> None:
        """Record which call a result answers.

        A result without an open call does not belong to any group and is not shown in the view.
        """
        if message.calls:
            # Some servers reuse an id. A `Counter` for each single call would double the cost.
            calls = (
                Counter(message.calls)
                if len(message.calls) > 1
                else {message.calls[0]: 1}
            )
            for call_id, times in calls.items():
                self._open_calls[call_id] = (message.index,) * times
        elif message.type == "tool_result":
            callers = self._open_calls.get(message.call_id)
            if callers:
                *others, caller = callers
                if others:
                    self._open_calls[message.call_id] = tuple(others)
                else:
                    del self._open_calls[message.call_id]
                self._caller[message.index] = caller
                self._results[caller] = (*self._results.get(caller, ()), message.index)
            for touch in message.touches:
                self.touches.append((message.index, touch))

    def _end_of_group(self, caller: int) -> int | None:
        """Return the position at which this call's next result is to be inserted.

        Returns None if the call is not in the view.
        """
        if not self._is_in_view(caller):
            return None
        view = self.view
        for position in range(len(view) - 1, -1, -1):
            index = view[position].index
            if index == caller or self._caller.get(index) == caller:
                return position + 1
        return None

    def _rank(self, index: int) -> int:
        """Return the index by which an entry is ordered in the view.

        For a result, this is the index of its call.
        """
        return self._caller.get(index, index)

    def _show_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Name a checkpoint at the end of the newest item.

        Does nothing unless the model is allowed to go back to the checkpoint.
        """
        if not checkpoint.shown or not self.view:
            return
        item = self.view[-1]
        if item.written or item.is_preamble or item.checkpoint is not None:
            return
        if item.outline.type == "assistant":  # the model's own text is never altered
            return
        marked = replace(
            item, checkpoint=checkpoint.id, tokens=item.tokens + CHECKPOINT_TOKENS
        )
        self._view.replace(len(self.view) - 1, marked)

    # --- making items ----------------------------------------------------------------------------

    def _altered(self, item: ViewItem, replacement: Kept, by: int) -> ViewItem:
        """Return an item with its text replaced, and set the item's fate."""
        fate = replacement.fate or "clipped"
        self._fates.put(item.key, Fate(fate, by))
        content = replacement.content or ""
        tokens = item.outline.tokens_with(content)
        return replace(
            item,
            content=content,
            checkpoint=None,
            tokens=tokens,
            fate=fate,
        )

    def _verbatim(self, index: int) -> ViewItem | None:
        """Return an entry as an unaltered item.

        Returns None if the entry is not a message in the view.
        """
        outline = self.outline(index)
        carried = carried_by(outline) if isinstance(outline, Revert) else None
        if isinstance(outline, MessageOutline):
            item = item_from(outline, self.entries)
        elif carried is not None:
            item = item_of(carried)
        else:
            return None
        return replace(item, pinned=index in self._pins)

    # --- a compaction, a clear, an edit ------------------------------------------------------------

    def _compact(self, compaction: CompactionOutline) -> None:
        for index in compaction.pins:
            if index < compaction.index:
                self._pin(self.group(index))
        old_items = {item.key: item for item in self.view}
        pieces = (
            self._head_item(compaction, piece, old_items) for piece in compaction.head
        )
        head = [item for item in pieces if item is not None]
        head_keys = {item.key for item in head}
        preamble = [
            item for item in self.view if item.is_preamble and item.key not in head_keys
        ]
        tail = self._kept_tail(compaction, head_keys)
        new_view = [*preamble, *head, *tail]
        self._set_compacted_fates(compaction, new_view)
        self._view.reset(new_view)

    def _kept_tail(
        self, compaction: CompactionOutline, head_keys: Set[Key]
    ) -> list[ViewItem]:
        replacements = {(piece.ref, piece.nth): piece for piece in compaction.replaced}
        tail: list[ViewItem] = []
        for item in self._items_from(compaction.first_kept_index):
            if item.key in head_keys or item.is_preamble or item.written:
                continue
            replacement = replacements.get(item.key)
            tail.append(
                self._altered(item, replacement, compaction.index)
                if replacement
                else item
            )
        return tail

    def _items_from(self, first_kept: int) -> list[ViewItem]:
        for position, item in enumerate(self.view):
            if item.index == first_kept and not item.written:
                return self.view[position:]
        return [item for item in self.view if self._rank(item.index) >= first_kept]

    def _set_compacted_fates(
        self, compaction: CompactionOutline, new_view: Sequence[ViewItem]
    ) -> None:
        kept = {item.key for item in new_view}
        written = compaction.written
        summarised = [
            Fate("summarised", compaction.index, nth) for nth in range(len(written))
        ]
        truncated = Fate("truncated", compaction.index)
        for item in self.view:
            if item.key not in kept:
                nth = _covering(item, written)
                self._fates.put(item.key, truncated if nth is None else summarised[nth])

    def _head_item(
        self,
        compaction: CompactionOutline,
        piece: Kept | WrittenOutline,
        old_items: Mapping[Key, ViewItem],
    ) -> ViewItem | None:
        if isinstance(piece, WrittenOutline):
            self._fates.put(piece.message.key, LIVE)
            return replace(
                item_from(piece.message, self.entries),
                written=True,
                covers=piece.covers,
            )
        item = old_items.get((piece.ref, piece.nth)) or self._verbatim(piece.ref)
        if item is None:
            return None
        if piece.content is not None:
            return self._altered(item, piece, compaction.index)
        if item.key not in old_items:
            self._fates.put(item.key, LIVE)
        return item

    def _clear(self, marker: Clear) -> None:
        cleared = Fate("cleared", marker.index)
        for item in self.view:
            if item.compactable:
                self._fates.put(item.key, cleared)
        self._view.reset([item for item in self.view if not item.compactable])

    def _edit(self, edit: Edit) -> None:
        if edit.target >= edit.index:
            return  # only in files edited by hand: ignore a target after the edit itself
        group = self.group(edit.target)
        match edit.action:
            case "pin":
                self._pin(group)
            case "unpin":
                self._pins.difference_update(group)
                self._update_pinned(group)
            case "restore":
                target = self.outline(edit.target)
                if isinstance(target, MessageOutline) and target.origin in PINNED:
                    self._pins.update(group)
                self._restore(group)
            case "show":
                self._restore(
                    index
                    for index in group
                    if self.fate(index).kind in ("hidden", "clipped")
                )
            case "hide":
                results = (edit.target,) if edit.target in self._caller else group
                self._hide(results, edit)
            case "drop":
                self._pins.difference_update(group)
                self._drop(group, edit.index)
                self._update_pinned(group)

    def _positions(self, indices: Iterable[int]) -> list[int]:
        """Return the positions of these entries in the view, in descending order."""
        missing = {index for index in indices if self._is_in_view(index)}
        positions: list[int] = []
        view = self.view
        for position in range(len(view) - 1, -1, -1):
            if not missing:
                break
            item = view[position]
            if item.outline.index in missing:
                positions.append(position)
                if not item.written:  # a compaction may have written several texts
                    missing.remove(item.index)
        return positions

    def _pin(self, group: Sequence[int]) -> None:
        self._pins.update(group)
        self._restore(group)
        self._update_pinned(group)

    def _update_pinned(self, group: Sequence[int]) -> None:
        """Update the `pinned` flags of a group's items."""
        for position in self._positions(group):
            item = self.view[position]
            if item.pinned != (item.index in self._pins):
                self._view.replace(position, replace(item, pinned=not item.pinned))

    def _restore(self, indices: Iterable[int]) -> None:
        """Restore entries verbatim.

        An entry that is in the view is replaced in place. Other entries are inserted after the summaries.
        """
        for index in indices:
            fate = self.fate(index)
            item = self._verbatim(index)
            if item is None or fate.kind in ("live", "aside", "reverted", "cleared"):
                continue
            positions = self._positions((index,))
            self._fates.put(item.key, LIVE)
            if positions:
                self._view.replace(positions[0], item)
            else:
                self._view.insert(self._position_for(index), item)

    def _position_for(self, index: int) -> int:
        rank = self._rank(index)
        for position, item in enumerate(self.view):
            if item.outline.index <= rank or item.written or item.is_preamble:
                continue  # no entry ranks above its own index
            if self._rank(item.index) > rank:
                return position
        return len(self.view)

    def _hide(self, indices: Sequence[int], edit: Edit) -> None:
        for position in self._positions(indices):
            item = self.view[position]
            if item.fate != "hidden" and isinstance(item.message, ToolResultMessage):
                text = hidden_placeholder(item.message)
                if edit.recalls is not None:
                    text = with_recall(text, None)
                replacement = Kept(ref=item.index, content=text, fate="hidden")
                self._view.replace(
                    position, self._altered(item, replacement, edit.index)
                )

    def _drop(self, indices: Sequence[int], by: int) -> None:
        for position in self._positions(indices):
            item = self.view[position]
            if not (item.written or item.is_preamble):
                self._fates.put(item.key, Fate("dropped", by))
                self._view.remove(position)


def unmarked(item: ViewItem) -> ViewItem:
    """Return an item without the checkpoint named at its end."""
    return replace(item, checkpoint=None, tokens=item.tokens - CHECKPOINT_TOKENS)


def carried_by(revert: Revert) -> DeveloperMessage | None:
    """Return the D-Mail or note of a rewind as a message, with the rewind's index.

    Returns None if the rewind has no text.
    """
    if not revert.text:
        return None
    origin: Literal["dmail", "notice"] = "dmail" if revert.message else "notice"
    return DeveloperMessage(
        index=revert.index, at=revert.at, origin=origin, parts=text_parts(revert.text)
    )


def _covering(item: ViewItem, written: Sequence[WrittenOutline]) -> int | None:
    """Return the number of the new text that covers an item.

    Returns None if no new text covers the item.
    """
    for nth, text in enumerate(written):
        is_covered = (
            item.index in text.inputs
            if item.written
            else _is_within(item.index, text.covers)
        )
        if is_covered:
            return nth
    return None


def _is_within(index: int, spans: Sequence[Span]) -> bool:
    for first, last in spans:  # noqa: SIM110 - once for each entry: `any` takes twice as long
        if first <= index <= last:
            return True
    return False
