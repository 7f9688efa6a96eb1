"""The numbers that the meter and the sidebar show about a session."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath

from foldline.agent.session.state import AgentState
from foldline.compaction import Plan
from foldline.frontend.state import (
    CacheEnds,
    CompactionRow,
    ContextUse,
    FileRow,
    PinRow,
    SidebarData,
    ViewWeights,
)
from foldline.llm.models import price_of
from foldline.past.compactions import sizes_words
from foldline.past.files import FileLedger, FileState, NewestFiles
from foldline.protocol import (
    BaseMessage,
    FoldlineError,
    Reason,
    RequestRecord,
    Undo,
)
from foldline.text.shorten import first_line
from foldline.view.budget import Budget
from foldline.view.calls import unanswered
from foldline.view.items import total_tokens
from foldline.view.projection import Projection
from foldline.view.weight import categories, entry_weight, view_size

_STEPS = 64
"""Number of steps into which the context window is divided.

The compaction is planned again whenever the view has grown by one step.
"""

_LEAST_CACHED = 10_000
"""Minimum size of the next request, in tokens.

For smaller requests, the cache is not mentioned.
"""
_LISTED = 128
"""Maximum number of files in each list of the sidebar.

No screen has that many rows.
"""


@dataclass(frozen=True, slots=True)
class _PlannedCut:
    """The position at which a planned compaction cuts the view."""

    index: int | None
    """Index of the first entry that the compaction keeps."""
    tail: int
    """Estimated tokens from that entry to the end of the view.

    The estimate is not calibrated yet.
    """


_NO_PLAN = _PlannedCut(None, 0)


class Figures:
    """Computes the figures of one session.

    Its methods are called for each entry, not for each streamed word.
    """

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._plan = _NO_PLAN
        self._planned_for: tuple[object, ...] = ()
        self._manual: Plan | None = None
        self._manual_for: object = None
        self._undo_for: object = None
        self._undo_more: int | None = None
        """Estimated tokens that an undo restores.

        The estimate is not calibrated yet.
        """
        self._files = FileLedger()
        self._files_for = NewestFiles()
        self._marked_for: tuple[object, ...] = ()
        self._side = SidebarData()
        self.compacting: Reason | None = None
        """Reason for the running compaction, if any.

        While it is set, the meter marks the part being compacted.
        """

    def room(self) -> ContextUse:
        """Return how much of the context window is used."""
        state = self._state
        shares = categories(state.projection, overhead=state.overhead)
        size = view_size(state.projection, overhead=state.overhead)
        weights = ViewWeights(shares.system, shares.summaries, 0, shares.verbatim)
        room = ContextUse(
            size.tokens,
            state.window,
            weights=weights,
            assumed=state.window_is_assumed,
            estimated=size.estimated,
        )
        try:
            budget = state.budget
        except (
            FoldlineError
        ):  # the window is too small; the next turn reports this error
            return room
        room = replace(
            room,
            window=budget.window,
            soft=budget.soft_mark,
            threshold=budget.threshold,
        )
        if not self.compacting and not room.past_soft:
            return room
        plan = self._planned(budget)
        if plan.index is None:
            return room
        total = state.projection.tokens + state.overhead
        place = max(0, size.tokens - round(plan.tail * size.tokens / total))
        removed = min(
            max(0, place - weights.system - weights.summaries), weights.verbatim
        )
        if self.compacting:
            weights = replace(
                weights, compacting=removed, verbatim=weights.verbatim - removed
            )
        return replace(room, cut=place, weights=weights)

    def unanswered(self) -> bool:
        """Whether the last turn was interrupted and can be continued."""
        return unanswered(self._state.projection) is not None

    def cache_ends(self, now: float) -> CacheEnds | None:
        """Return when the provider's cache expires.

        Returns None if the provider states no cache lifetime, if no part of the current view is cached, or if
        the next request is small.

        Args:
            now: clock time in seconds.
        """
        state = self._state
        record = self._newest_request()
        tokens = state.size()
        if record is None or tokens < _LEAST_CACHED:
            return None
        sent_at = record.left or record.at
        usage, cache = record.usage, record.cache
        if sent_at is None or usage is None or cache is None or not cache.life:
            return None
        idle = state.session.now() - sent_at
        dollars = None
        price = price_of(record.model)
        if price is not None:
            written_1h = tokens if usage.written_1h else 0
            dollars = price.cost(tokens, 0, written_1h=written_1h)
        seconds = cache.life - idle.total_seconds()
        return CacheEnds(now + seconds, tokens, dollars)

    def _newest_request(self) -> RequestRecord | None:
        """Return the record of the newest request, if it matches the current model and view."""
        projection = self._state.projection
        if not (projection.meter.records_requests and projection.meter.prefix_cached):
            return None
        newest = projection.entries[projection.meter.requests[-1].position]
        if isinstance(newest, RequestRecord) and newest.model == self._state.model_id:
            return newest
        return None

    def undo_adds(self) -> int | None:
        """Return the tokens that /undo would add to the next request.

        Returns None if there is no compaction to undo.
        """
        projection = self._state.projection
        if projection.newest_change is not self._undo_for:
            self._undo_for = projection.newest_change
            target = projection.undoable
            self._undo_more = None
            if target is not None:
                after_undo = projection.with_entries(Undo(target=target))
                self._undo_more = after_undo.meter.counted - projection.meter.counted
        if self._undo_more is None:
            return None
        # No reported size applies to the restored view, so its whole size is estimated.
        estimate = projection.meter.counted + self._state.overhead + self._undo_more
        return round(estimate * projection.meter.scale) - self._state.size()

    def cut_index(self) -> int | None:
        """Return the index of the first entry that a compaction would keep."""
        return self._planned(self._state.budget).index

    def _moment(self, budget: Budget) -> object:
        """Return a key that changes when a compaction should be planned again."""
        projection = self._state.projection
        return (
            budget,
            len(projection.markers),
            [marker.index for marker in projection.markers[-1:]],
            projection.tokens * _STEPS // budget.window,
        )

    def manual_plan(self) -> Plan | None:
        """Return the plan of a compaction by the user, cached like the next compaction's cut.

        Returns None if there is nothing to compact, or the window is too small.
        """
        try:
            key = self._moment(self._state.budget)
        except FoldlineError:
            return None
        if key != self._manual_for:
            self._manual_for = key
            self._manual = self._state.plan("manual")
        return self._manual

    def _planned(self, budget: Budget) -> _PlannedCut:
        """Return the cut of the next compaction.

        It is cached, because planning reads the whole view.
        """
        key = (self.compacting, self._moment(budget))
        if key == self._planned_for:
            return self._plan
        planned = self._state.plan(self.compacting or "threshold", budget)
        self._planned_for = key
        self._plan = _NO_PLAN
        if planned is not None and planned.cut is not None:
            cut = planned.cut
            index = cut.first_kept_index
            if (
                cut.request and not cut.prefix
            ):  # everything from this request on is kept
                index = cut.request.index
            self._plan = _PlannedCut(index, total_tokens(cut.tail))
        return self._plan

    def sidebar(self) -> SidebarData:
        """Return the files, pins and compactions for the sidebar.

        The same object is returned until one of them changes.
        """
        projection = self._state.projection
        files = self._files.newest(projection, _LISTED)
        scale = projection.meter.scale
        marker_key = (
            projection.newest_change,
            len(projection.all_compactions),
            len(projection.pins),
            scale,
        )
        if marker_key != self._marked_for:
            self._marked_for = marker_key
            self._side = replace(
                self._side,
                pinned=_pin_rows(projection),
                compactions=compaction_rows(projection),
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
        PinRow(
            index, first_line(message.text), entry_weight(projection, message).tokens
        )
        for index in sorted(projection.pins)
        if isinstance(message := projection.entry(index), BaseMessage)
    )


def compaction_rows(projection: Projection) -> tuple[CompactionRow, ...]:
    in_force = {compaction.index for compaction in projection.compactions()}
    return tuple(
        CompactionRow(
            compaction.index,
            sizes_words(projection, compaction),
            f"{compaction.at.astimezone():%H:%M}" if compaction.at else "",
            undone=compaction.index not in in_force,
            written=bool(compaction.written),
        )
        for compaction in projection.all_compactions
    )


def _file_row(file: FileState, cwd: PurePath) -> FileRow:
    return FileRow(
        _relative_path(file.path, cwd), file.presence, file.added, file.removed
    )


@lru_cache(maxsize=16_384)
def _relative_path(path: str, cwd: PurePath) -> str:
    """Return a path relative to the working directory.

    A path outside the working directory is returned unchanged.
    """
    pure = PurePath(path)
    return (
        str(pure.relative_to(cwd))
        if pure.is_absolute() and pure.is_relative_to(cwd)
        else path
    )
