"""The projection: a pure fold over the history that gives the LLM view and the fate of every entry.

`Projection.append` is incremental: O(1) amortised for messages, proportional to the view for markers that
change it, linear from its target for an undo or a revert. Each marker that changes the view leaves a
`_Change` behind, with what it takes to go back to the moment before it.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    DeveloperMessage,
    Edit,
    Entry,
    FileTouch,
    Kept,
    ModelChange,
    RequestRecord,
    Revert,
    Span,
    Title,
    ToolResultMessage,
    Undo,
    Usage,
    UserMessage,
    Written,
    text_parts,
)

from .calibration import Calibration
from .stubs import hidden_stub, with_text
from .tokens import message_tokens
from .undoing import ViewMarker, annulled, in_force, undo_refusal
from .view import ASIDE, IN_VIEW, LIVE, Fate, ViewItem, is_preamble

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The newest usage that still describes the view: reported tokens, and the estimate they stand for."""

    reported: int
    estimated: int


@dataclass(frozen=True, slots=True)
class _Change:
    """What one marker did to the view, and how to go back to before it."""

    marker: ViewMarker
    position: int
    view: list[ViewItem]
    pins: frozenset[int]
    fates: tuple[tuple[Key, Fate | None], ...]


class Projection:
    """The view and the fates of a history, kept up to date as entries are appended.

    Readers use the attributes and never change them.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.view: list[ViewItem] = []
        self.tokens = 0
        """Estimate of the view before calibration, in tokens."""
        self.calibration = Calibration()
        self.anchor: Anchor | None = None
        self.touches: list[tuple[int, FileTouch]] = []
        """Every file a tool call touched, with the index of its result, in order."""
        self.folds: list[Compaction] = []
        """Every compaction ever made, undone ones included, in order."""
        self.title: str | None = None
        self.model: str | None = None
        self._indices: list[int] = []
        self._fates: dict[Key, Fate] = {}
        self._pins: set[int] = set()
        self._changes: list[_Change] = []
        self._markers: list[ViewMarker] = []
        self._in_force: list[ViewMarker] = []
        self._undos: list[Undo] = []
        self._annulled: frozenset[int] = frozenset()
        self._checkpoints: dict[int, int] = {}
        self._open_calls: dict[str, list[int]] = {}
        self._results: dict[int, list[int]] = {}
        self._caller: dict[int, int] = {}
        self._recorded: list[tuple[Key, Fate | None]] | None = None

    # --- reading -------------------------------------------------------------------------------

    def entry(self, index: int) -> Entry | None:
        """The entry with this index, or None where a damaged record left a gap."""
        position = bisect_left(self._indices, index)
        if position < len(self._indices) and self._indices[position] == index:
            return self.entries[position]
        return None

    def messages_within(self, first: int, last: int) -> int:
        """How many entries from `first` to `last` are messages."""
        start, stop = bisect_left(self._indices, first), bisect_right(self._indices, last)
        return sum(isinstance(entry, BaseMessage) for entry in self.entries[start:stop])

    @property
    def last_index(self) -> int:
        """Index of the newest entry; -1 in an empty history."""
        return self._indices[-1] if self._indices else -1

    def fate(self, index: int) -> Fate:
        """Where an entry is now. A compaction's fate is that of its summary."""
        fate = self._fates.get((index, 0), ASIDE)
        while fate.kind == "summarised" and fate.by is not None:
            carrier = self._fates.get((fate.by, fate.nth), LIVE)
            if carrier.kind in IN_VIEW:
                return fate
            fate = carrier
        if fate.kind in ("dropped", "truncated") and fate.by is not None:
            return self._cleared_after(fate.by) or fate
        return fate

    def _cleared_after(self, index: int) -> Fate | None:
        """Cleared outranks dropped and truncated (DESIGN §4), though such entries were gone already."""
        for marker in self._in_force:
            if isinstance(marker, Clear) and marker.index > index:
                return Fate("cleared", marker.index)
        return None

    def is_pinned(self, index: int) -> bool:
        return index in self._pins

    def group(self, index: int) -> tuple[int, ...]:
        """The indices that pin, drop and restore act on together: a whole tool group, or the entry alone."""
        caller = self._caller.get(index, index)
        return (caller, *self._results.get(caller, ()))

    def compactions(self) -> list[Compaction]:
        """The compactions in force, oldest first: those neither undone nor reverted."""
        return [marker for marker in self._in_force if isinstance(marker, Compaction)]

    @property
    def markers(self) -> Sequence[ViewMarker]:
        """The markers in force that change the view, oldest first: those neither undone nor reverted."""
        return self._in_force

    def restored_files(self, index: int) -> bool:
        """Whether the entry is a rewind that put the files back, too."""
        marker = self.entry(index)
        return isinstance(marker, Revert) and marker.files

    @property
    def pins(self) -> frozenset[int]:
        return frozenset(self._pins)

    def checkpoint(self, checkpoint_id: int) -> int | None:
        """Index of the checkpoint entry with this id."""
        return self._checkpoints.get(checkpoint_id)

    @property
    def next_checkpoint_id(self) -> int:
        return max(self._checkpoints, default=-1) + 1

    def undo_refusal(self, target: int) -> str | None:
        """Why the marker at `target` cannot be undone now; None where it can."""
        if not isinstance(self.entry(target), ViewMarker | Undo):
            return f"Entry {target} is no fold, clear, edit, rewind or undo: nothing to take back."
        if target in self._annulled:
            return f"Entry {target} is already undone."
        undo = Undo(index=self.last_index + 1, target=target)
        return undo_refusal(undo, self._undos, self._markers, self._checkpoints)

    def view_is_prefix_of(self, later: Sequence[ViewItem]) -> bool:
        """Whether `later` only adds items to the present view."""
        return [item.key for item in later[: len(self.view)]] == [item.key for item in self.view]

    # --- folding in one more entry ---------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Fold in the next entry. Indices must increase."""
        if entry.index <= self.last_index:
            raise ValueError(f"entry {entry.index} does not come after entry {self.last_index}")
        self.entries.append(entry)
        self._indices.append(entry.index)
        if isinstance(entry, Compaction):
            self.folds.append(entry)
        if isinstance(entry, Undo):
            self._undo(entry)
        else:
            self._apply(entry, len(self.entries) - 1)

    def _apply(self, entry: Entry, position: int) -> None:
        match entry:
            case BaseMessage():
                self._add_message(entry)
            case Compaction() | Clear() | Edit() | Revert():
                self._markers.append(entry)
                if entry.index not in self._annulled:
                    self._change(entry, position)
            case Checkpoint():
                self._checkpoints.setdefault(entry.id, entry.index)
            case RequestRecord():
                self._learn(entry)
            case ModelChange():
                self.model = entry.model
                self.anchor = None
            case Title():
                self.title = entry.title

    def _add_message(self, message: BaseMessage) -> None:
        self._note_group(message)
        sent = self.tokens
        self._place(message)
        if isinstance(message, AssistantMessage):
            self.model = message.model or self.model
            if message.usage is not None:
                self._anchor_at(message.usage, message.model or "", sent)

    def _place(self, message: BaseMessage) -> None:
        """At the end of the view, or with its tool group. A failed answer without words stays aside."""
        if isinstance(message, ToolResultMessage):
            self._place_result(message)
        elif message.parts and (
            not isinstance(message, AssistantMessage) or message.text.strip() or message.calls
        ):
            self._set_fate((message.index, 0), LIVE)
            self._insert(len(self.view), _item(message))

    def _place_result(self, result: ToolResultMessage) -> None:
        caller = self._caller.get(result.index)
        if caller is None:
            return
        place = self._end_of_group(caller)
        if place is not None:
            if caller in self._pins:
                self._pins.add(result.index)
            self._set_fate((result.index, 0), LIVE)
            self._insert(place, replace(_item(result), pinned=result.index in self._pins))
            return
        fate = self.fate(caller)  # a result that comes when its call has left the view goes with it
        self._set_fate((result.index, 0), Fate("truncated", fate.by) if fate.kind == "summarised" else fate)

    def _note_group(self, message: BaseMessage) -> None:
        """Which call a result answers. A result without an open call belongs to nothing and stays aside."""
        match message:
            case AssistantMessage():
                counts = Counter(call.call_id for call in message.calls)  # some servers repeat an id
                self._open_calls.update({call_id: [message.index] * n for call_id, n in counts.items()})
            case ToolResultMessage():
                waiting = self._open_calls.get(message.call_id)
                if waiting:
                    caller = waiting.pop()
                    self._caller[message.index] = caller
                    self._results.setdefault(caller, []).append(message.index)
                self.touches.extend((message.index, touch) for touch in message.details.files)
            case _:
                pass

    def _end_of_group(self, caller: int) -> int | None:
        """Where in the view the next result of this call goes; None where the call is not in it."""
        if self._fates.get((caller, 0), ASIDE).kind not in IN_VIEW:
            return None
        for position in range(len(self.view) - 1, -1, -1):
            index = self.view[position].index
            if index == caller or self._caller.get(index) == caller:
                return position + 1
        return None

    def _anchor_at(self, usage: Usage, model: str, sent: int) -> None:
        """`sent` is the estimate of the view before the answer, which counts where the view holds it."""
        answer = usage.output - usage.reasoning if self.tokens > sent else 0
        if usage.input and self.calibration.plausible(model, usage.input, sent):
            self.anchor = Anchor(reported=usage.input + answer, estimated=self.tokens)

    def _learn(self, request: RequestRecord) -> None:
        if request.usage is not None and request.estimated:
            self.calibration = self.calibration.learn(request.model, request.estimated, request.usage.input)

    # --- the view and the fates: the only places that write them -----------------------------------

    def _insert(self, position: int, item: ViewItem) -> None:
        self.view.insert(position, item)
        self.tokens += item.tokens

    def _set_view(self, view: list[ViewItem]) -> None:
        self.view = view
        self.tokens = sum(item.tokens for item in view)

    def _set_fate(self, key: Key, fate: Fate) -> None:
        if self._recorded is not None:
            self._recorded.append((key, self._fates.get(key)))
        self._fates[key] = fate

    def _restore_fates(self, recorded: Iterable[tuple[Key, Fate | None]]) -> None:
        for key, fate in recorded:
            if fate is None:
                self._fates.pop(key, None)
            else:
                self._fates[key] = fate

    # --- markers -----------------------------------------------------------------------------------

    def _change(self, marker: ViewMarker, position: int) -> None:
        view, pins = self.view, frozenset(self._pins)
        self.view = list(view)
        self._recorded = []
        match marker:
            case Compaction():
                self._fold(marker)
            case Clear():
                self._clear(marker)
            case Edit():
                self._edit(marker)
            case Revert():
                self._revert(marker)
        recorded, self._recorded = tuple(reversed(self._recorded)), None
        self._changes.append(_Change(marker, position, view, pins, recorded))
        self._in_force.append(marker)
        if isinstance(marker, Revert):
            self._in_force = in_force(self._markers, self._annulled, self._checkpoints)
        self.anchor = None

    def _fold(self, fold: Compaction) -> None:
        old = {item.key: item for item in self.view}
        written = [piece for piece in fold.head if isinstance(piece, Written)]
        head = [self._head_item(fold, piece, old, written) for piece in fold.head]
        placed = {item.key for item in head if item is not None}
        replaced = {(piece.ref, piece.nth): piece for piece in fold.replaced}
        view = [item for item in self.view if is_preamble(item.message) and item.key not in placed]
        view += [item for item in head if item is not None]
        for item in self._from(fold.first_kept_index):
            if item.key in placed or is_preamble(item.message) or item.written:
                continue
            piece = replaced.get(item.key)
            view.append(self._altered(item, piece, fold.index) if piece else item)
        kept = {item.key for item in view}
        for item in self.view:
            if item.key not in kept:
                self._set_fate(item.key, _fold_fate(item, fold.index, written))
        self._set_view(view)

    def _from(self, first_kept: int) -> list[ViewItem]:
        """The view from this entry on, by place: a late result stands with its call, whatever its index."""
        for position, item in enumerate(self.view):
            if item.index == first_kept and not item.written:
                return self.view[position:]
        return [item for item in self.view if self._rank(item.index) >= first_kept]

    def _rank(self, index: int) -> int:
        """Where an entry belongs in the order of the view: a result with its call."""
        return self._caller.get(index, index)

    def _head_item(
        self, fold: Compaction, piece: Kept | Written, old: dict[Key, ViewItem], written: list[Written]
    ) -> ViewItem | None:
        match piece:
            case Written():
                nth = next(nth for nth, other in enumerate(written) if other is piece)
                message = piece.message.model_copy(update={"index": fold.index, "nth": nth})
                self._set_fate(message.key, LIVE)
                return replace(_item(message), written=True, covers=piece.covers)
            case Kept():
                item = old.get((piece.ref, piece.nth)) or self._verbatim(piece.ref)
                if item is None:
                    return None
                if piece.content is not None:
                    return self._altered(item, piece, fold.index)
                if item.key not in old:
                    self._set_fate(item.key, LIVE)
                return item

    def _altered(self, item: ViewItem, piece: Kept, by: int) -> ViewItem:
        fate = piece.fate or "clipped"
        self._set_fate(item.key, Fate(fate, by))
        message = with_text(item.message, piece.content or "")
        return replace(item, message=message, tokens=message_tokens(message), fate=fate)

    def _verbatim(self, index: int) -> ViewItem | None:
        entry = self.entry(index)
        message = _dmail(entry) if isinstance(entry, Revert) else entry
        if not isinstance(message, BaseMessage):
            return None
        return replace(_item(message), pinned=index in self._pins)

    def _clear(self, marker: Clear) -> None:
        stays = [item for item in self.view if is_preamble(item.message) or item.pinned]
        kept = {item.key for item in stays}
        for item in self.view:
            if item.key not in kept:
                self._set_fate(item.key, Fate("cleared", marker.index))
        self._set_view(stays)

    def _edit(self, edit: Edit) -> None:
        group = self.group(edit.target)
        match edit.action:
            case "pin":
                self._pins.update(group)
                self._show(group)
                self._flag_pins()
            case "unpin":
                self._pins.difference_update(group)
                self._flag_pins()
            case "restore":
                self._show(group)
            case "show":
                self._show(index for index in group if self.fate(index).kind in ("hidden", "clipped"))
            case "hide":
                results = (edit.target,) if edit.target in self._caller else group
                self._hide(results, edit.index)
            case "drop":
                self._pins.difference_update(group)
                self._drop(group, edit.index)
                self._flag_pins()

    def _flag_pins(self) -> None:
        self.view = [
            item if item.pinned == (item.index in self._pins) else replace(item, pinned=not item.pinned)
            for item in self.view
        ]

    def _show(self, indices: Iterable[int]) -> None:
        """Put entries back verbatim: in their place where they are in the view, else behind the summaries."""
        places = {item.key: position for position, item in enumerate(self.view)}
        for index in indices:
            fate, item = self.fate(index), self._verbatim(index)
            if item is None or fate.kind in ("live", "aside", "reverted", "cleared"):
                continue
            self._set_fate(item.key, LIVE)
            if item.key in places:
                self.view[places[item.key]] = item
            else:
                self.view.insert(self._place_of(index), item)
                places = {item.key: position for position, item in enumerate(self.view)}
        self._set_view(self.view)

    def _place_of(self, index: int) -> int:
        for position, item in enumerate(self.view):
            if item.written or is_preamble(item.message):
                continue
            if self._rank(item.index) > self._rank(index):
                return position
        return len(self.view)

    def _hide(self, indices: Sequence[int], by: int) -> None:
        wanted = set(indices)
        for position, item in enumerate(self.view):
            if item.index in wanted and isinstance(item.message, ToolResultMessage) and item.fate != "hidden":
                piece = Kept(ref=item.index, content=hidden_stub(item.message), fate="hidden")
                self.view[position] = self._altered(item, piece, by)
        self._set_view(self.view)

    def _drop(self, indices: Sequence[int], by: int) -> None:
        wanted = set(indices)
        stays = []
        for item in self.view:
            if item.index in wanted and not item.written and not is_preamble(item.message):
                self._set_fate(item.key, Fate("dropped", by))
            else:
                stays.append(item)
        self._set_view(stays)

    def _revert(self, revert: Revert) -> None:
        back_to = self._checkpoints.get(revert.checkpoint, revert.index)
        if back_to >= revert.index:
            return
        reverted = self._reverted_since(back_to)
        view = self._go_back_to(back_to)
        for key in reverted:
            self._set_fate(key, Fate("reverted", revert.index))
        self._set_view(view)
        kept = None if revert.kept is None else self._verbatim(revert.kept)
        if (
            kept is not None
            and isinstance(kept.message, UserMessage)
            and all(item.index != kept.index for item in view)
        ):
            self._set_fate(kept.key, LIVE)
            self._insert(len(self.view), kept)
        dmail = _dmail(revert)
        if dmail is not None:
            self._set_fate(dmail.key, LIVE)
            self._insert(len(self.view), _item(dmail))

    def _reverted_since(self, index: int) -> list[Key]:
        start = bisect_right(self._indices, index)
        keys = [(later, 0) for later in self._indices[start:]]
        return [key for key in keys if key in self._fates and self._fates[key].kind != "reverted"]

    def _go_back_to(self, index: int) -> list[ViewItem]:
        """The view as it was when entry `index` was the newest; fates and pins are put back on the way."""
        view, pins = self.view, self._pins
        for change in reversed(self._changes):
            if change.marker.index < index:
                break
            for key, fate in change.fates:
                if key[0] <= index:
                    self._set_fate(key, fate or ASIDE)
            view, pins = change.view, set(change.pins)
        self._pins = set(pins)
        return [item for item in view if item.index <= index]

    # --- undo --------------------------------------------------------------------------------------

    def _undo(self, undo: Undo) -> None:
        """As if the target had never been appended: back to before it, then everything since once more."""
        if undo.target >= undo.index or self.undo_refusal(undo.target) is not None:
            return
        self._undos.append(undo)
        was_annulled, self._annulled = self._annulled, annulled(self._undos)
        since = min(self._annulled ^ was_annulled)
        start = bisect_left(self._indices, since)
        while self._changes and self._changes[-1].position >= start:
            change = self._changes.pop()
            self._restore_fates(change.fates)
            self._set_view(change.view)
            self._pins = set(change.pins)
        # Messages since then are in the restored view only as far as they came before the next change.
        self._set_view([item for item in self.view if item.index < since])
        self._replay(start)
        self._in_force = in_force(self._markers, self._annulled, self._checkpoints)
        self.anchor = None

    def _replay(self, start: int) -> None:
        for position in range(start, len(self.entries)):
            entry = self.entries[position]
            match entry:
                case BaseMessage():
                    self._place(entry)
                case Compaction() | Clear() | Edit() | Revert():
                    if entry.index not in self._annulled:
                        self._change(entry, position)
                    else:
                        self._fates.pop((entry.index, 0), None)
                case _:
                    pass


def project(entries: Iterable[Entry]) -> Projection:
    """Fold a whole history. Linear in its length."""
    projection = Projection()
    for entry in entries:
        projection.append(entry)
    return projection


def _item(message: BaseMessage) -> ViewItem:
    return ViewItem(message=message, tokens=message_tokens(message))


def _dmail(revert: Revert) -> DeveloperMessage | None:
    """The message a rewind carries, as an item of the view: it has the rewind's index."""
    if not revert.message:
        return None
    return DeveloperMessage(
        index=revert.index, at=revert.at, origin="dmail", parts=text_parts(revert.message)
    )


def _fold_fate(item: ViewItem, fold: int, written: Sequence[Written]) -> Fate:
    for nth, piece in enumerate(written):
        covered = item.index in piece.inputs if item.written else _within(item.index, piece.covers)
        if covered:
            return Fate("summarised", fold, nth)
    return Fate("truncated", fold)


def _within(index: int, spans: Sequence[Span]) -> bool:
    return any(first <= index <= last for first, last in spans)
