"""The view and the fates as they are now, what each marker does to them, and what an undo takes back.

Only `ViewState` writes the view, the pins and the fates; what it writes while a marker is applied is
recorded in a `Change`, so that `Projection` can go back.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice, takewhile
from typing import Literal, NamedTuple

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

from .outline import CompactionOutline, Entries, MessageOutline, Outline, WrittenOutline
from .tally import Tally
from .tokens import CHECKPOINT_TOKENS, Scripts
from .view import (
    ASIDE,
    IN_VIEW,
    LIVE,
    Before,
    Fate,
    Fates,
    HeldMessage,
    Key,
    Messages,
    ViewItem,
    hidden_placeholder,
    item_from,
    item_of,
    total_tokens,
    with_recall,
)

ViewMarker = CompactionOutline | Clear | Edit | Revert
"""The markers that change the view, each of which an undo can take back."""


def annulled(undos: Sequence[Undo], markers: Sequence[ViewMarker]) -> set[int]:
    """The targets of the undos in force: neither an undone undo annuls anything, nor one on a branch that was
    left for an earlier moment."""
    targets: set[int] = set()
    moment: int | None = None
    jumps = [each for each in markers if isinstance(each, Revert) and each.moment is not None]
    acts: list[Undo | Revert] = sorted((*undos, *jumps), key=lambda act: act.index, reverse=True)
    for each in acts:
        if each.index in targets or (moment is not None and each.index > moment):
            continue
        if isinstance(each, Undo):
            targets.add(each.target)
        elif each.moment is not None and each.moment < each.index:
            moment = each.moment
    return targets


def reached_by(revert: Revert, checkpoints: Mapping[int, int]) -> int | None:
    """Index of the newest entry at the moment a rewind goes back to; None where it goes nowhere."""
    moment = revert.moment
    back_to = checkpoints.get(revert.checkpoint) if moment is None else moment
    return back_to if revert.context and back_to is not None and back_to < revert.index else None


def in_force(
    markers: Sequence[ViewMarker], undone: Set[int], checkpoints: Mapping[int, int]
) -> list[ViewMarker]:
    """The markers neither undone nor reverted, oldest first. Read backwards: a rewind that counts hides
    everything down to its checkpoint, other rewinds included."""
    found: list[ViewMarker] = []
    back_to: int | None = None
    for marker in reversed(markers):
        if marker.index in undone or (back_to is not None and marker.index > back_to):
            continue
        found.append(marker)
        if isinstance(marker, Revert) and (reached := reached_by(marker, checkpoints)) is not None:
            back_to = reached
    return found[::-1]


def newest_undoable(markers: Sequence[ViewMarker]) -> CompactionOutline | Clear | Revert | None:
    """What an undo without a target takes back: the newest compaction, clear or rewind in force, no edit."""
    return next(
        (each for each in reversed(markers) if isinstance(each, CompactionOutline | Clear | Revert)), None
    )


def built_on_refusal(target: int, markers: Sequence[ViewMarker]) -> str | None:
    """Return why this marker cannot be undone before a later compaction; None if there is none.

    `markers` are those in force, oldest first.
    """
    later = bisect_right(markers, target, key=lambda marker: marker.index)
    for marker in islice(markers, later, None):
        if isinstance(marker, CompactionOutline):
            name = f"compaction {marker.index}"
            return f"{name.capitalize()} builds on entry {target}: undo {name} first."
    return None


def undo_refusal(
    undo: Undo, undos: Sequence[Undo], markers: Sequence[ViewMarker], checkpoints: Mapping[int, int]
) -> str | None:
    """Return why this undo would leave a compaction in force without what it was built on; None if it may.

    Refused if the compaction came after the target, and if undoing an undo or a rewind would bring it back
    after something older was undone.
    """
    before, after = annulled(undos, markers), annulled((*undos, undo), markers)
    known = {marker.index for marker in in_force(markers, before, checkpoints)}
    left = in_force(markers, after, checkpoints)
    if refusal := built_on_refusal(undo.target, left):
        return refusal
    for compaction in left:
        if not isinstance(compaction, CompactionOutline) or compaction.index in known:
            continue
        for earlier in undos:
            counts = earlier.target in after and earlier.index not in after
            if counts and earlier.target < compaction.index < earlier.index:
                return (
                    f"This would bring back compaction {compaction.index}, which builds on entry "
                    f"{earlier.target}: undo entry {earlier.index} first."
                )
    return None


_Left = ViewItem | MessageOutline
"""An item, or what makes it again: of what left the view as it came, the outline is enough."""


class Weighed(NamedTuple):
    """What a view weighs."""

    tokens: int
    """Estimate before calibration, in tokens, without reasoning."""
    thinking: int
    """Estimate of the reasoning."""
    scripts: Scripts

    @classmethod
    def of(cls, view: Sequence[ViewItem]) -> "Weighed":
        scripts = reduce(Scripts.plus, (item.scripts for item in view), Scripts())
        return cls(total_tokens(view), sum(item.thinking for item in view), scripts)


@dataclass(frozen=True, slots=True)
class Change:
    """A marker, and all that it replaced."""

    marker: ViewMarker
    position: int
    """Of the marker among the entries."""
    pins: frozenset[int]
    fates: Before
    weighed: Weighed
    """The view it found."""
    sizes: tuple[int, int]
    """Of the view it found and of the one it left, estimated and calibrated then, in tokens."""
    _view: Sequence[_Left]
    """See `left_behind`."""

    def messages_within(self, spans: Sequence[tuple[int, int]]) -> int:
        """How many messages of the view it found, earlier summaries apart, lie in these spans of indices."""
        found = [item.index for item in self._view if not (isinstance(item, ViewItem) and item.written)]
        return sum(any(first <= index <= last for first, last in spans) for index in found)

    def view_before(self, source: Messages) -> list[ViewItem]:
        """The view it found. What it took out as it came is made anew, with messages from `source`."""
        return [item if isinstance(item, ViewItem) else item_from(item, source) for item in self._view]


def left_behind(marker: ViewMarker, view: Sequence[ViewItem], now: Iterable[ViewItem]) -> Sequence[_Left]:
    """What a change keeps of the view before it; `now` is the one after it."""
    if isinstance(marker, Edit):  # takes out one entry at most: not worth a look at all the others
        return view
    stays = set(map(id, now))
    return [item if id(item) in stays or not _as_it_came(item) else item.outline for item in view]


def _as_it_came(item: ViewItem) -> bool:
    altered = item.content is not None or item.checkpoint is not None or item.fate != "live"
    return not (altered or item.pinned or item.written or isinstance(item.source, HeldMessage))


def _begins_turn(item: ViewItem) -> bool:
    """Whether chat templates take it for a new question: it is sent in the role user."""
    return item.outline.type in ("user", "developer") and not item.is_preamble


class ViewState:
    """Entries, the view over them, and where each of them is. Readers use it and never change it."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self._indices: list[int] = []
        """Of the entries that were taken in; a damaged record leaves a gap."""
        self.view: list[ViewItem] = []
        self.tokens, self.thinking, self.scripts = Weighed(0, 0, Scripts())
        self._earlier_thinking: int | None = 0
        self._tally = Tally()
        self._tallied = 0
        """So many items at the start of the view are those that were tallied last."""
        self.touches: list[tuple[int, FileTouch]] = []
        """Every file a tool call touched, with the index of its result, in order."""
        self._fates = Fates()
        self._pins: set[int] = set()
        self._in_force: list[ViewMarker] = []
        # What these hold is replaced and never changed, so that a copy of them is a shallow one.
        self._open_calls: dict[str, tuple[int, ...]] = {}
        self._results: dict[int, tuple[int, ...]] = {}
        self._caller: dict[int, int] = {}

    # --- reading -------------------------------------------------------------------------------

    @property
    def tally(self) -> Tally:
        """What the view weighs, by kind. Costs what has changed since it was looked at last."""
        self._tally.catch_up(self.view, self._tallied)
        self._tallied = len(self.view)
        return self._tally

    @property
    def earlier_thinking(self) -> int:
        """Estimate of the reasoning before the newest message in the role user."""
        if self._earlier_thinking is None:
            turn = takewhile(lambda item: not _begins_turn(item), reversed(self.view))
            self._earlier_thinking = self.thinking - sum(item.thinking for item in turn)
        return self._earlier_thinking

    def fate(self, index: int) -> Fate:
        """Where an entry is now. A compaction's fate is that of its summary."""
        fate = self._fates.get(index) or ASIDE
        if fate.kind == "summarised":
            fate = self._fates.standing(fate)
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
        """The indices that pin, drop and restore act on together: a whole tool group, or the entry alone."""
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
        """The entry with this index, or None where a damaged record left a gap."""
        position = self._position(index)
        return None if position is None else self.entries[position]

    def outline(self, index: int) -> Outline | None:
        """The outline of the entry with this index, which costs no look at what the entry says."""
        position = self._position(index)
        return None if position is None else self.entries.outlines[position]

    def written_by(self, index: int) -> tuple[WrittenOutline, ...]:
        """The new texts of the compaction with this index; none where it is no compaction."""
        outline = self.outline(index)
        return outline.written if isinstance(outline, CompactionOutline) else ()

    def _position(self, index: int) -> int | None:
        position = bisect_left(self._indices, index)
        found = position < len(self._indices) and self._indices[position] == index
        return position if found else None

    def count_up_to(self, index: int) -> int:
        """How many entries there are up to the one with this index, itself included."""
        return bisect_right(self._indices, index)

    def messages_within(self, first: int, last: int) -> int:
        """How many entries from `first` to `last` are messages."""
        start, stop = bisect_left(self._indices, first), bisect_right(self._indices, last)
        return sum(isinstance(outline, MessageOutline) for outline in self.entries.outlines[start:stop])

    def after(self, index: int, most: int) -> Sequence[Entry]:
        """The entries that follow entry `index`, at most so many, oldest first."""
        start = bisect_right(self._indices, index)
        return self.entries[start : start + most]

    def before(self, index: int, most: int) -> Sequence[Entry]:
        """The entries that lead to entry `index`, at most so many, newest first."""
        stop = bisect_left(self._indices, index)
        return self.entries[max(0, stop - most) : stop][::-1]

    # --- messages ------------------------------------------------------------------------------

    def _place(self, message: MessageOutline) -> None:
        if message.type == "tool_result":
            self._place_result(message)
        elif message.says:
            self._fates.put((message.index, 0), LIVE)
            if message.origin in PINNED:
                self._pins.add(message.index)
            item = item_from(message, self.entries)
            self._insert(len(self.view), replace(item, pinned=True) if message.index in self._pins else item)

    def _place_result(self, result: MessageOutline) -> None:
        caller = self._caller.get(result.index)
        if caller is None:
            return
        if caller in self._pins:
            self._pins.add(result.index)
        place = self._end_of_group(caller)
        if place is not None:
            self._fates.put((result.index, 0), LIVE)
            item = item_from(result, self.entries)
            self._insert(place, replace(item, pinned=True) if result.index in self._pins else item)
            return
        fate = self.fate(caller)  # a result that comes when its call has left the view goes with it
        self._fates.put((result.index, 0), Fate("truncated", fate.by) if fate.kind == "summarised" else fate)

    def _note_group(self, message: MessageOutline) -> None:
        """Which call a result answers. A result without an open call belongs to nothing and stays aside."""
        if message.calls:
            # Some servers repeat an id. Counting where there is one takes as long as all the rest.
            calls = Counter(message.calls) if len(message.calls) > 1 else {message.calls[0]: 1}
            for call_id, times in calls.items():
                self._open_calls[call_id] = (message.index,) * times
        elif message.type == "tool_result":
            waiting = self._open_calls.get(message.call_id)
            if waiting:
                *others, caller = waiting
                if others:
                    self._open_calls[message.call_id] = tuple(others)
                else:
                    del self._open_calls[message.call_id]
                self._caller[message.index] = caller
                self._results[caller] = (*self._results.get(caller, ()), message.index)
            for touch in message.touches:
                self.touches.append((message.index, touch))

    def _end_of_group(self, caller: int) -> int | None:
        """Where in the view the next result of this call goes; None where the call is not in it."""
        if not self._is_in_view(caller):
            return None
        for position in range(len(self.view) - 1, -1, -1):
            index = self.view[position].index
            if index == caller or self._caller.get(index) == caller:
                return position + 1
        return None

    def _rank(self, index: int) -> int:
        return self._caller.get(index, index)

    def _mark(self, checkpoint: Checkpoint) -> None:
        """Name a checkpoint for the model, where it may go back to it."""
        if not checkpoint.shown or not self.view:
            return
        item = self.view[-1]
        own_words = item.outline.type == "assistant"
        if item.written or item.is_preamble or own_words or item.checkpoint is not None:
            return
        marked = replace(item, checkpoint=checkpoint.id, tokens=item.tokens + CHECKPOINT_TOKENS)
        self._replace(len(self.view) - 1, marked)

    # --- the only places that write the view and the fates ---------------------------------------

    def _insert(self, position: int, item: ViewItem) -> None:
        self.view.insert(position, item)
        self.tokens += item.tokens
        self.thinking += item.thinking
        self.scripts = self.scripts.plus(item.scripts)
        self._tallied = min(self._tallied, position)
        if position < len(self.view) - 1 or _begins_turn(item):
            self._earlier_thinking = None

    def _replace(self, position: int, item: ViewItem) -> None:
        before = self.view[position]
        self.view[position] = item
        self.tokens += item.tokens - before.tokens
        self.thinking += item.thinking - before.thinking
        self.scripts = self.scripts.plus(item.scripts).minus(before.scripts)
        self._tallied = min(self._tallied, position)
        self._earlier_thinking = None

    def _remove(self, position: int) -> None:
        item = self.view.pop(position)
        self.tokens -= item.tokens
        self.thinking -= item.thinking
        self.scripts = self.scripts.minus(item.scripts)
        self._tallied = min(self._tallied, position)
        self._earlier_thinking = None

    def _set_view(self, view: list[ViewItem], weighed: Weighed | None = None) -> None:
        self.view = view
        self.tokens, self.thinking, self.scripts = weighed or Weighed.of(view)
        self._tallied = 0
        self._earlier_thinking = None

    def _altered(self, item: ViewItem, piece: Kept, by: int) -> ViewItem:
        fate = piece.fate or "clipped"
        self._fates.put(item.key, Fate(fate, by))
        content = piece.content or ""
        tokens = item.outline.tokens_with(content)
        return replace(item, content=content, checkpoint=None, tokens=tokens, fate=fate)

    def _verbatim(self, index: int) -> ViewItem | None:
        outline = self.outline(index)
        if isinstance(outline, MessageOutline):
            item = item_from(outline, self.entries)
        elif isinstance(outline, Revert) and (carried := carried_by(outline)):
            item = item_of(carried)
        else:
            return None
        return replace(item, pinned=index in self._pins)

    # --- a compaction, a clear, an edit ----------------------------------------------------------------

    def _compact(self, compaction: CompactionOutline) -> None:
        for index in compaction.pins:
            if index < compaction.index:
                self._pin(self.group(index))
        old = {item.key: item for item in self.view}
        written = compaction.written
        head = [self._head_item(compaction, piece, old) for piece in compaction.head]
        placed = {item.key for item in head if item is not None}
        replaced = {(piece.ref, piece.nth): piece for piece in compaction.replaced}
        view = [item for item in self.view if item.is_preamble and item.key not in placed]
        view += [item for item in head if item is not None]
        for item in self._from(compaction.first_kept_index):
            if item.key in placed or item.is_preamble or item.written:
                continue
            other = replaced.get(item.key)
            view.append(self._altered(item, other, compaction.index) if other else item)
        kept = {item.key for item in view}
        fates = [Fate("summarised", compaction.index, nth) for nth in range(len(written))]
        truncated = Fate("truncated", compaction.index)
        for item in self.view:
            if item.key not in kept:
                piece = _covering(item, written)
                self._fates.put(item.key, truncated if piece is None else fates[piece])
        self._set_view(view)

    def _from(self, first_kept: int) -> list[ViewItem]:
        for position, item in enumerate(self.view):
            if item.index == first_kept and not item.written:
                return self.view[position:]
        return [item for item in self.view if self._rank(item.index) >= first_kept]

    def _head_item(
        self, compaction: CompactionOutline, piece: Kept | WrittenOutline, old: dict[Key, ViewItem]
    ) -> ViewItem | None:
        match piece:
            case WrittenOutline(message=outline):
                self._fates.put(outline.key, LIVE)
                return replace(item_from(outline, self.entries), written=True, covers=piece.covers)
            case Kept():
                item = old.get((piece.ref, piece.nth)) or self._verbatim(piece.ref)
                if item is None:
                    return None
                if piece.content is not None:
                    return self._altered(item, piece, compaction.index)
                if item.key not in old:
                    self._fates.put(item.key, LIVE)
                return item

    def _clear(self, marker: Clear) -> None:
        stays = [item for item in self.view if item.is_preamble or item.pinned]
        kept = {item.key for item in stays}
        cleared = Fate("cleared", marker.index)
        for item in self.view:
            if item.key not in kept:
                self._fates.put(item.key, cleared)
        self._set_view(stays)

    def _edit(self, edit: Edit) -> None:
        if edit.target >= edit.index:
            return  # by hand, in the file: what comes later is not meant
        group = self.group(edit.target)
        match edit.action:
            case "pin":
                self._pin(group)
            case "unpin":
                self._pins.difference_update(group)
                self._flag(group)
            case "restore":
                target = self.outline(edit.target)
                if isinstance(target, MessageOutline) and target.origin in PINNED:
                    self._pins.update(group)
                self._show(group)
            case "show":
                self._show(index for index in group if self.fate(index).kind in ("hidden", "clipped"))
            case "hide":
                results = (edit.target,) if edit.target in self._caller else group
                self._hide(results, edit)
            case "drop":
                self._pins.difference_update(group)
                self._drop(group, edit.index)
                self._flag(group)

    def _places(self, indices: Iterable[int]) -> list[int]:
        """Where in the view the items of these entries stand, looked for from the end."""
        wanted = {index for index in indices if self._is_in_view(index)}
        places: list[int] = []
        for position in range(len(self.view) - 1, -1, -1):
            if not wanted:
                break
            item = self.view[position]
            if item.outline.index in wanted:
                places.append(position)
                if not item.written:  # a compaction may have written several
                    wanted.remove(item.index)
        return places

    def _pin(self, group: Sequence[int]) -> None:
        self._pins.update(group)
        self._show(group)
        self._flag(group)

    def _flag(self, group: Sequence[int]) -> None:
        for position in self._places(group):
            item = self.view[position]
            if item.pinned != (item.index in self._pins):
                self._replace(position, replace(item, pinned=not item.pinned))

    def _show(self, indices: Iterable[int]) -> None:
        """Put entries back verbatim: in their place where they are in the view, else behind the summaries."""
        for index in indices:
            fate, item = self.fate(index), self._verbatim(index)
            if item is None or fate.kind in ("live", "aside", "reverted", "cleared"):
                continue
            places = self._places((index,))
            self._fates.put(item.key, LIVE)
            if places:
                self._replace(places[0], item)
            else:
                self._insert(self._place_of(index), item)

    def _place_of(self, index: int) -> int:
        rank = self._rank(index)
        for position, item in enumerate(self.view):
            if item.outline.index <= rank or item.written or item.is_preamble:
                continue  # no entry ranks above its own index
            if self._rank(item.index) > rank:
                return position
        return len(self.view)

    def _hide(self, indices: Sequence[int], edit: Edit) -> None:
        for position in self._places(indices):
            item = self.view[position]
            if item.fate != "hidden" and isinstance(item.message, ToolResultMessage):
                placeholder = hidden_placeholder(item.message)
                text = placeholder if edit.recalls is None else with_recall(placeholder, None)
                piece = Kept(ref=item.index, content=text, fate="hidden")
                self._replace(position, self._altered(item, piece, edit.index))

    def _drop(self, indices: Sequence[int], by: int) -> None:
        for position in self._places(indices):
            item = self.view[position]
            if not (item.written or item.is_preamble):
                self._fates.put(item.key, Fate("dropped", by))
                self._remove(position)


def unmarked(item: ViewItem) -> ViewItem:
    """The item without the checkpoint that was named at its end."""
    return replace(item, checkpoint=None, tokens=item.tokens - CHECKPOINT_TOKENS)


def carried_by(revert: Revert) -> DeveloperMessage | None:
    """The message or note a rewind carries, as an item of the view: it has the rewind's index."""
    if not revert.text:
        return None
    origin: Literal["dmail", "notice"] = "dmail" if revert.message else "notice"
    return DeveloperMessage(index=revert.index, at=revert.at, origin=origin, parts=text_parts(revert.text))


def _covering(item: ViewItem, written: Sequence[WrittenOutline]) -> int | None:
    """Which of these new texts stands for an item; None where none does."""
    for nth, piece in enumerate(written):
        covered = item.index in piece.inputs if item.written else _within(item.index, piece.covers)
        if covered:
            return nth
    return None


def _within(index: int, spans: Sequence[Span]) -> bool:
    for first, last in spans:  # noqa: SIM110 - once for each entry: `any` takes twice as long
        if first <= index <= last:
            return True
    return False
