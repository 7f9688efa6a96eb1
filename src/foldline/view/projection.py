"""The projection: a pure replay of the history.

It produces the LLM view and the fate of every entry. `Projection.append` is incremental: it takes O(1)
amortised time for messages, time proportional to the view for markers that change it, and time linear in the
number of entries since the target for an undo or a rewind. The projection reads only outlines, never the text
of an entry. Each marker that changes the view leaves a `ViewChange`, which contains everything needed to
restore the earlier state. From the same outlines, the projection's `Meter` learns how many tokens the view
takes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import takewhile

from foldline.protocol import (
    NEW,
    Checkpoint,
    Clear,
    Edit,
    Entry,
    FileImage,
    Revert,
    Subagent,
    Title,
    Undo,
)

from .items import ASIDE, LIVE, Fate, Key, ViewItem, forked, item_of, keys_in
from .meter import Meter
from .outline import CompactionOutline, Entries, MemoryEntries, MessageOutline, Outline
from .state import ViewState, carried_by, unmarked
from .tally import FIXED
from .undo import (
    ViewChange,
    ViewMarker,
    built_on_refusal,
    items_before,
    markers_in_force,
    newest_undoable,
    reached_by,
    undo_refusal,
    undone_markers,
)


class Projection(ViewState):
    """The view and the fates for a history, kept up to date by `append`.

    Code that reads a projection must not change anything in it.
    """

    def __init__(self, entries: Entries | None = None) -> None:
        """Replay `entries`.

        Entries added later are appended to this object.
        """
        super().__init__(MemoryEntries() if entries is None else entries)
        self.meter = Meter(self._view)
        self.title: str | None = None
        self.all_compactions: list[CompactionOutline] = []
        """Every compaction ever made, including undone ones, in order."""
        self.newest_change: ViewMarker | Undo | None = None
        """The newest marker that changed the view, or the newest undo."""
        self.images: list[tuple[int, FileImage]] = []
        """Every file change made by our tools, in order.

        Each has the index of the checkpoint that recorded it.
        """
        self.subagents: list[Subagent] = []
        """Every subagent ever started, in order."""
        self.checkpoints: list[Checkpoint] = []
        """Every checkpoint ever made, in order, including those in reverted parts."""
        self._checkpoints: dict[int, int] = {}
        """Index of each checkpoint entry, by its id."""
        self.next_checkpoint_id = 0
        self._changes: list[ViewChange] = []
        self._markers: list[ViewMarker] = []
        self._undos: list[Undo] = []
        self._undone: set[int] = set()
        """Indices of the markers and undos that are undone."""
        self._replayed: list[int] = []
        """Positions of the messages, checkpoints and markers that make up the view.

        Undone markers are left out.
        """
        self.follow()

    # --- reading -------------------------------------------------------------------------------

    def compactions(self) -> list[CompactionOutline]:
        """Return the active compactions, oldest first."""
        return [
            marker for marker in self._in_force if isinstance(marker, CompactionOutline)
        ]

    @property
    def markers(self) -> Sequence[ViewMarker]:
        """The active view markers, oldest first.

        A marker is active if it is neither undone nor reverted.
        """
        return self._in_force

    def change_by(self, marker: int) -> ViewChange | None:
        """Return the change made by this marker.

        Returns None if the marker is undone or unknown.
        """
        return next(
            (
                change
                for change in reversed(self._changes)
                if change.marker.index == marker
            ),
            None,
        )

    @property
    def fixed(self) -> int:
        """Size of the parts that no compaction may remove, in estimated tokens without calibration.

        This consists of the preamble, pinned items and skills.
        """
        return self.tally.estimate(FIXED | {"pins", "skills"})

    def checkpoint(self, checkpoint_id: int) -> int | None:
        """Return the index of the checkpoint entry with this id."""
        return self._checkpoints.get(checkpoint_id)

    def is_undone(self, index: int) -> bool:
        """Return whether this marker is undone."""
        return index in self._undone

    def reached_by(self, revert: Revert) -> int | None:
        """Return the index of the entry to which a rewind goes back.

        Returns None if the rewind does not change the view.
        """
        return reached_by(revert, self._checkpoints)

    def undo_refusal(self, target: int) -> str | None:
        """Return the reason why this marker cannot be undone now.

        Returns None if the marker can be undone.
        """
        if not isinstance(self.outline(target), ViewMarker | Undo):
            return f"Entry {target} cannot be undone: it is not a compaction, clear, edit, rewind or undo."
        if target in self._undone:
            return f"Entry {target} has already been undone."
        if not self._may_bring_back(target):
            return built_on_refusal(target, self._in_force)
        undo = Undo(index=self.last_index + 1, target=target)
        return undo_refusal(undo, self._undos, self._markers, self._checkpoints)

    def _may_bring_back(self, target: int) -> bool:
        """Return whether undoing the target can make another marker active again.

        This is possible only if the target is an undo or a rewind.
        """
        return isinstance(self.outline(target), Undo | Revert)

    @property
    def undoable(self) -> int | None:
        """Index of the marker that is undone by default.

        None if nothing can be undone.
        """
        newest = newest_undoable(self.markers)
        if newest is None or self.undo_refusal(newest.index) is not None:
            return None
        return newest.index

    # --- appending entries --------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Append the next entry. Indices must increase."""
        self.entries.append(entry)
        self.follow()

    def follow(self) -> None:
        """Process the entries added to `entries` since this was last called."""
        for position in range(len(self._indices), len(self.entries)):
            outline = self.entries.outlines[position]
            self._indices.append(outline.index)
            self.meter.append(outline, position)
            self._apply(outline, position)

    def _apply(self, outline: Outline, position: int) -> None:
        match outline:
            case MessageOutline():
                self._note_group(outline)
                self._replayed.append(position)
                self._add_to_view(outline)
            case CompactionOutline() | Clear() | Edit() | Revert():
                self._add_marker(outline, position)
            case Undo():
                self._undo(outline)
            case Checkpoint():
                self.checkpoints.append(outline)
                self._checkpoints.setdefault(outline.id, outline.index)
                self.next_checkpoint_id = max(self.next_checkpoint_id, outline.id + 1)
                self.images.extend((outline.index, image) for image in outline.files)
                self._replayed.append(position)
                self._show_checkpoint(outline)
            case Title():
                self.title = outline.title
            case Subagent():
                self.subagents.append(outline)

    def _add_marker(self, marker: ViewMarker, position: int) -> None:
        if isinstance(marker, CompactionOutline):
            self.all_compactions.append(marker)
        self._markers.append(marker)
        self.newest_change = marker
        if isinstance(marker, Revert) and marker.moment is not None:
            self._update_undone(position)
        if marker.index not in self._undone:
            self._replayed.append(position)
            self._change(marker, position)

    # --- copies -----------------------------------------------------------------------------------

    def with_entries(self, *entries: Entry) -> "Projection":
        """Return a copy with more entries, for previews.

        An entry without an index gets the next free index.
        """
        other = self.fork()
        for entry in entries:
            index = other.last_index + 1 if entry.index == NEW else entry.index
            other.append(entry.model_copy(update={"index": index}))
        return other

    def fork(self) -> "Projection":
        """Return a shallow copy, to which more entries can be appended."""
        other = forked(self)
        other.entries = copy(self.entries)
        other._view = self._view.fork()
        other.meter = self.meter.fork(other._view)
        return other

    # --- markers ---------------------------------------------------------------------------------

    def _change(self, marker: ViewMarker, position: int) -> None:
        """Apply a marker, and record the state from before the change."""
        pins = frozenset(self._pins)
        totals = self.totals
        size_before = self.meter.view_tokens
        before = self._view.detach()
        self._fates.start_recording()
        match marker:
            case CompactionOutline():
                self._compact(marker)
            case Clear():
                self._clear(marker)
            case Edit():
                self._edit(marker)
            case Revert():
                self._revert(marker)
        fates = self._fates.stop_recording()
        sizes = (size_before, self.meter.view_tokens)
        kept_before = items_before(marker, before, self.view)
        self._changes.append(
            ViewChange(marker, position, pins, fates, totals, sizes, kept_before)
        )
        self._in_force.append(marker)
        if isinstance(marker, Revert):
            self._update_in_force()
        self.meter.forget_usage()

    def _update_in_force(self) -> None:
        self._in_force = markers_in_force(
            self._markers, self._undone, self._checkpoints
        )

    def _revert(self, revert: Revert) -> None:
        back_to = self.reached_by(revert)
        if back_to is None:
            return
        reverted = self._reverted_since(back_to)
        view = self._go_back_to(back_to)
        fate = Fate("reverted", revert.index)
        for key in reverted:
            self._fates.put(key, fate)
        self._view.reset(view)
        kept = None if revert.kept is None else self._verbatim(revert.kept)
        is_prompt = (
            kept is not None and kept.outline.type == "user" and kept.outline.says
        )
        if (
            kept is not None
            and is_prompt
            and all(item.index != kept.index for item in view)
        ):
            self._append_live(kept)
        carried = carried_by(revert)
        if carried is not None:
            self._append_live(item_of(carried))

    def _append_live(self, item: ViewItem) -> None:
        self._fates.put(item.key, LIVE)
        self._view.insert(len(self.view), item)

    def _reverted_since(self, index: int) -> list[Key]:
        """Return the keys of entries that a rewind to `index` reverts."""
        keys = []
        for later in self._indices[bisect_right(self._indices, index) :]:
            fate = self._fates.get(later)
            if fate is not None and fate.kind != "reverted":
                keys.append((later, 0))
        return keys

    def _go_back_to(self, index: int) -> list[ViewItem]:
        """Return the view at entry `index`, and restore the fates and pins."""
        changes_since = list(
            takewhile(
                lambda change: change.marker.index > index, reversed(self._changes)
            )
        )
        for change in changes_since:
            for key, fate in keys_in(change.fates):
                if key[0] <= index:
                    self._fates.put(key, fate or ASIDE)
        view = self.view
        if changes_since:
            # Only the oldest change is used: going through all of them would be cubic in the rewinds.
            oldest = changes_since[-1]
            view = oldest.view_before(self.entries)
            self._pins = set(oldest.pins)
        return [self._with_mark_of(item, index) for item in view if item.index <= index]

    def _with_mark_of(self, item: ViewItem, index: int) -> ViewItem:
        """Return the item without any checkpoint that is newer than entry `index`."""
        if (
            item.checkpoint is None
            or self._checkpoints.get(item.checkpoint, index) <= index
        ):
            return item
        return unmarked(item)

    # --- undo ------------------------------------------------------------------------------------

    def _undo(self, undo: Undo) -> None:
        """Change the view as if the target had never been appended."""
        if undo.target >= undo.index or self.undo_refusal(undo.target) is not None:
            return
        self._undos.append(undo)
        self.newest_change = undo
        if self._may_bring_back(undo.target):
            self._update_undone(len(self._indices))
            self._update_in_force()
        else:
            self._undo_marker(undo.target)
        self.meter.forget_usage()

    def _undo_marker(self, target: int) -> None:
        """Undo a marker without making another marker active again."""
        self._undone.add(target)
        position = bisect_left(self._indices, target)
        del self._replayed[bisect_left(self._replayed, position)]
        self._replay_since(target, len(self._indices), (target,))
        number = bisect_left(self._in_force, target, key=lambda marker: marker.index)
        if number < len(self._in_force) and self._in_force[number].index == target:
            del self._in_force[number]

    def _update_undone(self, stop: int) -> None:
        """Update the set of undone markers, and replay from the first change.

        Args:
            stop: position up to which the history is replayed.
        """
        undone_before = self._undone
        self._undone = undone_markers(self._undos, self._markers)
        if self._undone == undone_before:
            return
        since = min(self._undone ^ undone_before)
        start = bisect_left(self._indices, since)
        self._replayed[bisect_left(self._replayed, start) :] = [
            position
            for position in range(start, stop)
            if isinstance(
                self.entries.outlines[position],
                MessageOutline | Checkpoint | ViewMarker,
            )
            and self._indices[position] not in self._undone
        ]
        self._replay_since(
            since, stop, [index for index in self._undone if index >= since]
        )

    def _replay_since(self, since: int, stop: int, undone: Iterable[int]) -> None:
        """Restore the view before entry `since`, then replay.

        Args:
            undone: indices of the markers to skip, among those at `since` or later.
        """
        start = bisect_left(self._indices, since)
        oldest: ViewChange | None = None
        while self._changes and self._changes[-1].position >= start:
            oldest = self._changes.pop()
            self._fates.put_back(oldest.fates)
        if oldest is not None:
            self._view.reset(oldest.view_before(self.entries), oldest.totals)
            self._pins = set(oldest.pins)
        # Of the messages since then, the restored view contains only those before the next change.
        view = self.view
        for position in range(len(view) - 1, -1, -1):
            item = view[position]
            if item.outline.index >= since:
                self._view.remove(position)
            elif item.checkpoint is not None:
                self._view.replace(position, self._with_mark_of(item, since))
        for index in undone:
            self._fates.forget(index)
        self._replay(start, stop)

    def _replay(self, start: int, stop: int) -> None:
        """Add the entries between two positions to the view again.

        Undone markers are skipped.
        """
        for position in self._replayed[bisect_left(self._replayed, start) :]:
            if position >= stop:
                break
            outline = self.entries.outlines[position]
            match outline:
                case MessageOutline():
                    self._add_to_view(outline)
                case Checkpoint():
                    self._show_checkpoint(outline)
                case CompactionOutline() | Clear() | Edit() | Revert():
                    self._change(outline, position)


def project(entries: Iterable[Entry]) -> Projection:
    """Replay an entire history. Takes linear time."""
    return Projection(MemoryEntries(entries))
