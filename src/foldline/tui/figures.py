"""Figures of the projection that meter and side list show."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath

from foldline.agent.cache_end import cache_end
from foldline.agent.state import AgentState
from foldline.context.budget import Budget
from foldline.context.calls import unanswered
from foldline.context.compactions import sizes_words
from foldline.context.files import FileLedger, FileState, NewestFiles
from foldline.context.projection import Projection
from foldline.context.view import first_words, total_tokens
from foldline.context.weight import categories, entry_weight, view_size
from foldline.protocol import BaseMessage, FoldlineError, Reason, Undo
from foldline.tui.state import CacheEnds, CompactionRow, FileRow, PinRow, Room, SidebarData, Weights

_STEPS = 64
"""Steps into which a window is divided: while the view grows by less, no compaction is planned anew."""

_LISTED = 128
"""Files of each kind that are listed beside the transcript: more than a screen has rows."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A planned compaction in figures."""

    index: int | None
    """Index of the entry where it cuts."""
    tail: int
    """Estimate of what it keeps from there on, before calibration, in tokens."""


_NO_PLAN = _Plan(None, 0)


def _plan(state: AgentState, budget: Budget, reason: Reason) -> _Plan:
    planned = state.plan(reason, budget)
    if planned is None or planned.cut is None:
        return _NO_PLAN
    cut = planned.cut
    # A request that is kept, with nothing compacted behind it, stays with its turn.
    index = cut.request.index if cut.request and not cut.prefix else cut.first_kept_index
    return _Plan(index, total_tokens(cut.tail))


def view_moment(projection: Projection, budget: Budget) -> object:
    """Equal for views whose compactions are planned alike: the same changes, and hardly more said since."""
    markers = projection.markers
    newest = markers[-1].index if markers else -1
    return (budget, len(markers), newest, projection.tokens * _STEPS // budget.window)


class Figures:
    """The figures of one agent's session. Call them when an entry came, not for every streamed word."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._plan = _NO_PLAN
        self._planned_for: tuple[object, ...] = ()
        self._undo_for: object = None
        self._undo_more: int | None = None
        """Estimate of what an undo brings back, before calibration."""
        self._files = FileLedger()
        self._files_for = NewestFiles()
        self._marked_for: tuple[object, ...] = ()
        self._side = SidebarData()
        self.compacting: Reason | None = None
        """Why a compaction is being made just now; its part of the view is then shown as such."""

    def room(self) -> Room:
        """The window and what fills it."""
        state = self._state
        shares = categories(state.projection, overhead=state.overhead)
        sized = view_size(state.projection, overhead=state.overhead)
        size, estimated, assumed = sized.tokens, sized.estimated, state.window_is_assumed
        weights = Weights(shares.system, shares.summaries, 0, shares.verbatim)
        try:
            budget = state.budget
        except FoldlineError:  # A window too small to work in: the next turn will say so.
            return Room(size, state.window, None, None, None, weights, assumed, estimated)
        soft, threshold = budget.soft_mark, budget.threshold
        room = Room(size, budget.window, soft, threshold, None, weights, assumed, estimated)
        if not self.compacting and not room.past_soft:
            return room
        plan = self._planned(budget)
        if plan.index is None:
            return room
        total = state.projection.tokens + state.overhead
        place = max(0, size - round(plan.tail * size / total))
        gone = min(max(0, place - weights.system - weights.summaries), weights.verbatim)
        if self.compacting:
            weights = replace(weights, compacting=gone, verbatim=weights.verbatim - gone)
        return replace(room, cut=place, weights=weights)

    def unanswered(self) -> bool:
        """Whether the last turn broke off, so that it can be gone on with."""
        return unanswered(self._state.projection) is not None

    def cache_ends(self, idle: str, now: float) -> CacheEnds | None:
        """When the provider's cache of this view ends, by a clock that says `now`. `idle`: what is set for
        before then."""
        ends = cache_end(self._state)
        if ends is None:
            return None
        found = CacheEnds(now + ends.seconds, ends.tokens, ends.dollars)
        if (first := ends.compacted) is None:
            return found
        wanted = idle if first.pays else "off"
        return replace(found, compacted=first.tokens, compacted_dollars=first.dollars, idle=wanted)

    def undo_adds(self) -> int | None:
        """Tokens by which /undo would make the next request larger; None where there is nothing to undo."""
        projection = self._state.projection
        if projection.newest_change is not self._undo_for:
            self._undo_for = projection.newest_change
            target = projection.undoable
            then = None if target is None else projection.foreseen(Undo(target=target))
            self._undo_more = None if then is None else then.counted - projection.counted
        if self._undo_more is None:
            return None
        # No report is true of the view that comes back: all of it is estimated, as it will be then.
        estimate = projection.counted + self._state.overhead + self._undo_more
        return round(estimate * projection.scale) - self._state.size()

    def cut_index(self) -> int | None:
        """Index of the entry where a compaction would cut now."""
        return self._planned(self._state.budget).index

    def _planned(self, budget: Budget) -> "_Plan":
        """The compaction that would be made now. Planning looks at the whole view: not for every entry."""
        facts = (self.compacting, view_moment(self._state.projection, budget))
        if facts != self._planned_for:
            self._plan = _plan(self._state, budget, self.compacting or "threshold")
            self._planned_for = facts
        return self._plan

    def sidebar(self) -> SidebarData:
        """Files, pins and compactions: the same value until one of them changes."""
        projection = self._state.projection
        files = self._files.newest(projection, _LISTED)
        scale = projection.scale
        marked = (projection.newest_change, len(projection.all_compactions), len(projection.pins), scale)
        if marked != self._marked_for:
            self._marked_for = marked
            self._side = replace(
                self._side, pinned=_pin_rows(projection), compactions=compaction_rows(projection)
            )
        if files is not self._files_for:
            self._files_for = files
            cwd = PurePath(self._state.session.cwd)
            self._side = replace(
                self._side,
                modified=tuple(_file_row(file, cwd) for file in files.modified),
                read=tuple(_file_row(file, cwd) for file in files.read),
                older_modified=files.all_modified - len(files.modified),
                older_read=files.all_read - len(files.read),
            )
        return self._side


def _pin_rows(projection: Projection) -> tuple[PinRow, ...]:
    return tuple(
        PinRow(index, first_words(message), entry_weight(projection, message).tokens)
        for index in sorted(projection.pins)
        if isinstance(message := projection.entry(index), BaseMessage)
    )


def compaction_rows(projection: Projection) -> tuple[CompactionRow, ...]:
    in_force = {made.index for made in projection.compactions()}
    return tuple(
        CompactionRow(
            made.index,
            sizes_words(projection, made),
            f"{made.at.astimezone():%H:%M}" if made.at else "",
            undone=made.index not in in_force,
            written=bool(made.written),
        )
        for made in projection.all_compactions
    )


def _file_row(file: FileState, cwd: PurePath) -> FileRow:
    shown = _shown(file.path, cwd)
    return FileRow(shown, file.presence, file.added, file.removed)


@lru_cache(maxsize=16_384)
def _shown(path: str, cwd: PurePath) -> str:
    """A path relative to the working directory where it lies below it."""
    pure = PurePath(path)
    return str(pure.relative_to(cwd)) if pure.is_absolute() and pure.is_relative_to(cwd) else path
