"""What the edit keys would do at a place, in tokens and money, and what they ask for when pressed."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from foldline.context import numbers
from foldline.context.numbers import many
from foldline.context.outline import CompactionOutline
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW, is_preamble
from foldline.context.view_state import ViewMarker
from foldline.context.weight import item_weight, view_size
from foldline.protocol import BaseMessage, Clear, Compaction, Edit, Revert, ToolResultMessage, Undo
from foldline.protocol.entries import EditAction
from foldline.protocol.operations import EditView, UndoCompaction
from foldline.tui.blocks.cells import Piece, Span, cells_needed, piece, row
from foldline.tui.messages import OperationWanted
from foldline.tui.panels.entry_list import TOOLS_KEY
from foldline.tui.panels.states import signs, state_words
from foldline.tui.widgets.lines import button

EditKey = Literal["pin", "hide", "drop", "restore"]
"""The keys by the names of their commands. The first two take back what they did."""
Picked = tuple[int, ...]
"""Entries that were marked, in order."""
Place = int | Picked | None
"""The entry under the cursor, or those that are marked."""
KeyName = Callable[[str], str]
"""How sentences of a screen call the key of a command."""

_REMOVED: Final = ("summarised", "truncated", "dropped")
"""States that leave nothing of an entry in the view, and from which it can be brought back."""
_EDIT_KEYS: Final = ("hide", "restore", "pin", "drop")
_ORDER: Final = ("restore", "show", "pin", "unpin", "hide", "drop")
"""What brings something back comes first: it is what a reader of compacted work looks for."""


@dataclass(frozen=True, slots=True)
class EditHint:
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
class EditHints:
    """All keys that would do something now."""

    index: int | None = None
    """The entry they act on; None where only an undo is possible."""
    group: tuple[int, ...] = ()
    """The tool group they act on, where there is one."""
    keys: tuple[EditHint, ...] = ()
    refused: str = ""
    """Why the newest change cannot be undone."""
    picked: Picked = ()
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


# --- What the keys would do -------------------------------------------------------------------------------


def action_of(projection: Projection, index: int, key: EditKey) -> EditAction | None:
    """The edit that a key makes of an entry now, if any."""
    if not may_edit(projection, index):
        return None
    group = projection.group(index)
    kinds = [projection.fate(each).kind for each in group]
    match key:
        case "pin" if projection.is_pinned(index):
            return "unpin"
        case "pin":
            if "dropped" in kinds:
                return None  # the user took it from the model: only `restore` gives it back
            return "pin" if any(kind in IN_VIEW or kind in _REMOVED for kind in kinds) else None
        case "hide":
            is_result = isinstance(projection.entry(index), ToolResultMessage)
            shown = {projection.fate(each).kind for each in ([index] if is_result else group[1:])}
            return "hide" if "live" in shown else "show" if shown & {"hidden", "clipped"} else None
        case "drop":
            return "drop" if any(kind in IN_VIEW for kind in kinds) else None
        case "restore":
            altered = (*_REMOVED, "hidden", "clipped")
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
    """Whether the edit keys are of any use on an entry: on messages, the one a rewind carries included, but
    not on what opens every view."""
    entry = projection.entry(index)
    if isinstance(entry, BaseMessage):
        return not is_preamble(entry)
    return isinstance(entry, Revert) and bool(entry.text)


def undo_target(projection: Projection) -> ViewMarker | None:
    """The newest change of the view in force, which an undo takes back."""
    return projection.markers[-1] if projection.markers else None


def edit_hints(projection: Projection, place: Place, limits: Limits) -> EditHints:
    """Everything the keys would do to an entry, or to those that are marked, and what an undo would take
    back. Linear in the history."""
    if isinstance(place, tuple):
        found = tuple(_picked_hints(projection, place, limits))
        return EditHints(place[-1], (), found, picked=place, price=limits.price)
    on_entry = place is not None and place >= 0
    keys = _entry_hints(projection, place, limits) if place is not None and on_entry else []
    refused = ""
    marker = undo_target(projection)
    if marker is not None:
        refused = projection.undo_refusal(marker.index) or ""
        if not refused:
            keys.append(_undo_hint(projection, marker, limits))
    group = projection.group(place) if place is not None and on_entry else ()
    return EditHints(place, group if len(group) > 1 else (), tuple(keys), refused, price=limits.price)


def _picked_hints(projection: Projection, picked: Picked, limits: Limits) -> list[EditHint]:
    hints: list[EditHint] = []
    for key in _EDIT_KEYS:
        action, targets = actions_of(projection, picked, key)
        if action is not None:
            after = projection.foreseen(*(Edit(target=target, action=action) for target in targets))
            hints.append(_hint(projection, after, action, targets[-1], limits))
    return _in_order(hints)


def _entry_hints(projection: Projection, index: int, limits: Limits) -> list[EditHint]:
    hints: list[EditHint] = []
    shown = None
    for key in _EDIT_KEYS:
        action = action_of(projection, index, key)
        if action is None:
            continue
        after = projection.foreseen(Edit(target=index, action=action))
        if after.view == projection.view and after.pins == projection.pins:
            continue
        if action == "restore" and shown is not None and after.view == shown.view:
            continue  # the same as `show`, which has just been offered
        shown = after if action == "show" else shown
        hints.append(_hint(projection, after, action, index, limits))
    return _in_order(hints)


def _in_order(found: Sequence[EditHint]) -> list[EditHint]:
    """In the order they are shown; hiding only where it frees something: a placeholder may be longer than
    what it hides."""
    gains = [hint for hint in found if hint.action != "hide" or hint.change < 0]
    return sorted(gains, key=lambda hint: _ORDER.index(hint.action))


def _undo_hint(projection: Projection, marker: ViewMarker, limits: Limits) -> EditHint:
    after = projection.foreseen(Undo(target=marker.index))
    hint = _hint(projection, after, "undo", marker.index, limits, undo_words(projection, marker))
    if isinstance(marker, Edit):
        return hint
    # So much comes back that its size is what counts: the one the meter will show, and a question names.
    size = view_size(after, overhead=limits.overhead).tokens
    return replace(hint, change=size - (hint.size - hint.change), size=size)


def _hint(
    before: Projection,
    after: Projection,
    action: EditAction | Literal["undo"],
    target: int,
    limits: Limits,
    what: str = "",
) -> EditHint:
    """The change is what the items weigh that go and come, as their rows say it: a report of the whole
    request, where there is one, stands only for `before`, and its difference to the estimate is no effect of
    the key."""
    size = view_size(before, overhead=limits.overhead).tokens
    change = _added(before, after) - _added(after, before)
    past = limits.threshold
    over = past is not None and size < past <= view_size(after, overhead=limits.overhead).tokens
    return EditHint(action, target, change, size + change, over, what)


def _added(before: Projection, after: Projection) -> int:
    """Tokens of the items that only the second view has. Items are replaced, never changed."""
    known = set(map(id, before.view))
    return sum(item_weight(after, item).tokens for item in after.view if id(item) not in known)


# --- Worked out once the cursor rests ---------------------------------------------------------------------

REST: Final = 0.08
"""Seconds the cursor must stay: longer than between two repeats of a key that is held down."""
LONG: Final = 5_000
"""Entries from which on it is worked out beside the drawing: it is linear in their number."""

_Moment = tuple[Projection, int, Limits]
"""A history up to its newest entry, and what it is measured with."""


class HintWorker:
    """Keeps the hints worked out last. `changed` is called when there is something new to show."""

    def __init__(self, owner: Widget, limits: Limits, changed: Callable[[], None]) -> None:
        self.limits = limits
        self._owner = owner
        self._changed = changed
        self._known: dict[Place, EditHints] = {}
        self._moment: _Moment | None = None
        """What `_known` is true of."""
        self._shown: EditHints | None = None
        self._wanted: tuple[_Moment, Place] | None = None
        self._timer: Timer | None = None

    @property
    def known(self) -> bool:
        """Whether the hints asked for last are known."""
        return self._wanted is not None and self._wanted[1] in self._known

    def at(self, projection: Projection, place: Place) -> EditHints | None:
        """The hints at this place; None while they are not known. Where the history has just grown, what was
        true before it: a moment later it is replaced."""
        moment = (projection, projection.last_index, self.limits)
        if moment != self._moment:
            self._moment = moment
            self._known.clear()
        known = self._known.get(place)
        if known is not None:
            self._shown = known
        if self._wanted != (moment, place):
            self._wanted = (moment, place)
            if self._timer is not None:
                self._timer.stop()
                self._timer = None
            if known is None:
                self._timer = self._owner.set_timer(REST, lambda: self._work_out(moment, place))
        here = None if self._shown is None else self._shown.picked or self._shown.index
        return self._shown if here == place else None

    def _work_out(self, moment: _Moment, place: Place) -> None:
        self._timer = None
        projection, _, limits = moment
        if len(projection.entries) <= LONG:
            self._learn(moment, place, edit_hints(projection, place, limits))
            return
        frozen = projection.foreseen()  # the history may grow while another thread reads it
        self._owner.run_worker(self._beside(frozen, moment, place), group="hints", exclusive=True)

    async def _beside(self, frozen: Projection, moment: _Moment, place: Place) -> None:
        self._learn(moment, place, await asyncio.to_thread(edit_hints, frozen, place, moment[2]))

    def _learn(self, moment: _Moment, place: Place, found: EditHints) -> None:
        """An answer for a moment that has passed is dropped: the same is being asked of the present one."""
        if moment == self._moment:
            self._known[place] = found
            self._changed()


# --- The row that says it, in as many words as there is room for ------------------------------------------

_COMMAND: Final = {"unpin": "pin", "show": "hide"}
"""The commands of the edits that take another one back."""
_GAP: Final = 3
_LEVELS: Final = 5
"""Lengths in which a hint can be put."""


def edit_row(
    projection: Projection, hints: EditHints, name: KeyName, *, later: bool, width: int, more: str = ""
) -> list[Span]:
    """` 348 S┊ summarised by 373. Keys act on its tool group 347–348:   r restore +3.2k → 31.8k   …`.

    `later`: something runs, and an edit waits for its end; `more` is known of the entry. What does not fit is
    said shorter, then left out.
    """
    for level in range(_LEVELS):
        left = _place(projection, hints, later, level)
        left += [piece(more, "muted", rank=9)] if more else []
        right = [_piece(hint, hints, name, level, rank) for rank, hint in enumerate(hints.keys, 1)]
        if hints.refused:
            right.append(piece(hints.refused, "muted", rank=len(right) + 1))
        if cells_needed(left) + cells_needed(right) + _GAP <= width - 2:
            break
    return row(left, right, width)


def _place(projection: Projection, hints: EditHints, later: bool, level: int) -> list[Piece]:
    """The entry, its state, and what the keys act on."""
    index = hints.index
    if hints.picked:
        words = f"{many(len(hints.picked), 'entry', 'entries')} marked"
        wait = ", after this turn" if later and hints.keys else ""
        more = f"{wait}. Keys act on all:" if level < 2 else wait
        return [Piece(((words, "bold"), (more, "muted")), least=24)]
    if index == TOOLS_KEY[0]:
        return [piece("The tool schemas go with every request.", "text", cut="right")]
    if index is None or index < 0:
        return []
    spans = [(f"{index} ", "bold"), *signs(projection, index)]
    if level < 4:  # letter and sign say it, too
        spans.append((f" {state_words(projection, index)}", "text"))
    on_entry = any(hint.action != "undo" for hint in hints.keys)
    scope = _scope(hints.group, level) if on_entry else ""
    if later and hints.keys:
        scope = f"{scope}, after this turn" if scope else " · after this turn"
    if scope:
        spans.append((f"{scope}:" if on_entry else scope, "muted"))
    return [Piece(tuple(spans), cut="right", least=24)]


def _scope(group: tuple[int, ...], level: int) -> str:
    if not group:
        return ""
    words = entries_words(group)
    return f". Keys act on its tool group {words}" if level < 2 else f" · group {words}"


def _piece(hint: EditHint, hints: EditHints, name: KeyName, level: int, rank: int) -> Piece:
    over = [(", over the threshold", "alert")] if hint.over else []
    key = name(_COMMAND.get(hint.action, hint.action))
    spans = ((key, "accent"), *_hint_words(hint, hints, level), *over)
    return Piece(button(spans, key), rank=rank, gap=_GAP if level < 3 else 2)


def _hint_words(hint: EditHint, hints: EditHints, level: int) -> Iterator[Span]:
    """The shorter, the higher the level; the change in tokens is said at every one."""
    change = change_words(hint.change)
    if hint.action == "undo":
        size = numbers.tokens(hint.size)
        yield f" undo {hint.what}" if level < 3 else " undo", "text"
        yield f": {numbers.tokens(hint.size - hint.change)} → {size}" if level < 2 else f" {change}", "muted"
        return
    if level < 3:
        # Hiding acts on one result of a group, where all other keys act on the whole.
        one_of_many = hint.action == "hide" and len(hints.group) > 2 and hint.target != hints.group[0]
        alone = f" {hint.target} alone" if one_of_many and level == 0 else ""
        yield f" {hint.action}{alone}", "text"
    yield f" {change}{money_words(hint.change, hints.price) if level < 2 else ''}", "muted"
    if level < 2 and hint.change and hint.action in ("restore", "show"):
        yield f" → {numbers.tokens(hint.size)}", "muted"
    if level == 0 and hint.action == "pin":
        yield ", kept later too", "muted"


def money_words(tokens: int, price: float | None) -> str:
    """` ~$0.010`: what a change of the next request comes to, where the model's price is known and it is
    more than nothing."""
    dollars = abs(tokens) * (price or 0.0)
    return f" {'' if tokens > 0 else '−'}~{numbers.price(dollars)}" if dollars >= 0.0005 else ""


def change_words(tokens: int) -> str:
    """`+3.2k`, `−4.7k`, `±0`."""
    if not tokens:
        return "±0"
    return f"{'+' if tokens > 0 else '−'}{numbers.tokens(abs(tokens))}"


def undo_words(projection: Projection, marker: ViewMarker) -> str:
    """What an undo takes back: `compaction 373`, `pin of 131`."""
    match marker:
        case CompactionOutline():
            return f"compaction {marker.index}"
        case Clear():
            return f"clear {marker.index}"
        case Revert():
            return f"rewind {marker.index}"
        case Edit():
            return f"{marker.action} of {entries_words(projection.group(marker.target))}"


def entries_words(group: tuple[int, ...]) -> str:
    """`348`, or `347–348` for a tool group."""
    return str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}"


# --- What a pressed key asks for --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """The words for the status row, and the edits to ask for, if any."""

    words: str
    wanted: Sequence[Message] = ()


def edit(projection: Projection, place: int | Picked, key: EditKey, name: KeyName, *, later: bool) -> Answer:
    """An edit of one entry, or of all that are marked. `later`: something runs, and it waits for its end."""
    if isinstance(place, int):
        action = action_of(projection, place, key) if place >= 0 else None
        if action is None:
            return Answer(nothing_to(projection, place, key, name))
        what = _later(f"{action} {entries_words(projection.group(place))}", later)
        return Answer(what, (OperationWanted(EditView(target=place, action=action)),))
    action, targets = actions_of(projection, place, key)
    if action is None:
        return Answer(f"Nothing to {key} in what is marked.")
    what = f"{action}: {many(len(targets), 'edit')}"
    back = f"{name('undo')} undoes them one by one"
    return Answer(
        _later(what, later) or f"{what}. {back}.",
        tuple(OperationWanted(EditView(target=each, action=action)) for each in targets),
    )


def undo(projection: Projection, *, later: bool) -> Answer:
    """The newest change of the view taken back, or why it cannot be."""
    marker = undo_target(projection)
    if marker is None:
        return Answer("Nothing to undo: no compaction, edit, clear or rewind is in force.")
    refusal = projection.undo_refusal(marker.index)
    if refusal is not None:
        return Answer(refusal)
    said = _later(f"undo {undo_words(projection, marker)}", later)
    return Answer(said, (OperationWanted(UndoCompaction(target=marker.index)),))


def _later(what: str, later: bool) -> str:
    """A key that acts at once needs no words: the panels show it."""
    return f"{what}: after this turn" if later else ""


def nothing_to(projection: Projection, index: int, key: EditKey, name: KeyName) -> str:
    """Why a key does nothing here."""
    if index < 0:
        return "This is no entry: nothing to edit."
    entry = projection.entry(index)
    if isinstance(entry, BaseMessage) and is_preamble(entry):
        return f"{index} opens every request: no edit applies to it."
    if isinstance(entry, Compaction):
        return f"{index} is a compaction: edit what it stands for, or {name('undo')} undoes the newest."
    if key == "hide" and not projection.group(index)[1:]:
        return f"{index} is no tool result: only those can be hidden. {name('drop')} drops it."
    return f"Nothing to {key}: {index} is {state_words(projection, index)}."
