"""The point in history that the Inspector shows, and steps to other points.

This module also provides the data for the timeline.
"""

from dataclasses import dataclass
from typing import Final

from foldline.past.moments import (
    Moment,
    at_compaction,
    at_request,
    report_at,
    requests_before,
    size_at,
)
from foldline.past.subagents import SubagentAnswers
from foldline.tui.browser.inspector.past import Past, RequestFacts
from foldline.tui.browser.inspector.sizes import WindowUse, use_at
from foldline.tui.browser.inspector.timeline import (
    TimelineData,
    brief_words,
    compaction_slots,
    compaction_words,
    now_words,
    request_words,
    slot_of,
    subagent_slots,
    subagent_words,
)
from foldline.tui.browser.keys import key_name
from foldline.tui.look.cells import Spans
from foldline.view.budget import Size
from foldline.view.projection import Projection
from foldline.view.weight import agent_report, view_size

NOTHING_NEWER: Final = "This is already the current state."
NO_REQUEST: Final = "No request has been sent yet."
FIRST_REQUEST: Final = "This is the first request."
NO_COMPACTION_BEFORE: Final = "There is no earlier compaction."
NO_COMPACTION_AFTER: Final = "There is no later compaction."
CANNOT_MARK: Final = "Only sent requests can be marked. Press {key} to go back to one."
REQUEST_MARKED: Final = (
    "△ {request} is marked. Go to another request and press {key} to compare them."
)


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """The point in the history that the panels show.

    With a second point, the LLM view shows the differences between both views.
    """

    moment: Moment | None = None
    """None stands for the current state."""
    before: Moment | None = None
    """The earlier point to compare with; None shows a single view."""
    draft: bool = False
    """Whether the current view is compared with the one that a compaction would leave."""

    @property
    def as_of(self) -> str:
        """The name of the point; empty for the current state."""
        return self.moment.name if self.moment is not None else ""

    def title(self, now: Projection) -> str:
        """Return the names of both points: `request 84 → request 85`."""
        if self.before is None:
            return self.as_of
        if self.before.kind == "before":
            return f"before and after compaction {self.before.number}"
        after = self.as_of or f"request {len(now.meter.requests) + 1}, the next"
        return f"{self.before.name} → {after}"


NOW: Final = Viewpoint()
"""The current state."""
PROPOSED: Final = Viewpoint(draft=True)
"""The current state, and the compaction that a draft proposes."""


def comparisons(
    now: Projection,
    moment: Moment | None,
    marked: Moment | None,
    compaction: int | None,
) -> list[Viewpoint]:
    """Return the useful comparisons at a point in history, best first.

    They compare the views before and after a compaction, this view with that of the marked request, and this
    view with that of the previous request. The first request has no comparisons.

    Args:
        moment: None means the current state.
        compaction: index of the compaction under the cursor, if any.
    """
    is_request = moment is None or moment.kind == "request"
    if compaction is None and moment is not None and not is_request:
        compaction = moment.number
    points: list[Viewpoint] = []
    if compaction is not None:
        before = at_compaction(now, compaction, before=True)
        points.append(Viewpoint(at_compaction(now, compaction), before))
    if marked is not None and marked != moment:
        is_earlier = moment is None or marked.length <= moment.length
        points.append(
            Viewpoint(moment, marked) if is_earlier else Viewpoint(marked, moment)
        )
    number = len(now.meter.requests) + 1 if moment is None else moment.number
    if is_request and number > 1:
        points.append(Viewpoint(moment, at_request(now, number - 1)))
    return points


class TimeTravel:
    """The selected, displayed and marked points in history.

    None stands for the current state.
    """

    def __init__(self, now: Projection, overhead: int, window: int) -> None:
        """Start at the current state.

        Args:
            overhead: estimated size of the tool schemas, in tokens.
            window: size of the model's context window, in tokens; 0 if unknown.
        """
        self._overhead = overhead
        self.window = window
        self.begin(now)

    def begin(self, now: Projection) -> None:
        """Show the current state of another history."""
        self.now = now
        self.past = Past(now)
        self._answers = SubagentAnswers()
        self.chosen = NOW
        """The point that the user has selected."""
        self.shown = NOW
        """The point that the panels show. Once its rows have been built, it equals `chosen`."""
        self.marked: Moment | None = None
        """The request marked for comparison with other requests."""

    @property
    def moment(self) -> Moment | None:
        """The selected point; None for the current state."""
        return self.chosen.moment

    @property
    def settled(self) -> bool:
        """Whether the panels show the selected point."""
        return self.chosen == self.shown

    @property
    def is_now(self) -> bool:
        """Whether the panels show the current state and no other point is selected."""
        return self.moment is None and self.shown.moment is None

    def weight(self, shown: Projection) -> Size:
        """Return the size of the displayed view."""
        return self.size_of(self.shown.moment, shown)

    def chosen_weight(self, shown: Projection) -> Size | None:
        """Return the size at the selected point.

        Returns None if the size is not known yet.
        """
        if self.settled:
            return self.weight(shown)
        if self.moment is None:
            return self.size_of(None, self.now)
        return size_at(self.now, self.moment)

    @property
    def report(self) -> int:
        """The request size, in tokens, that another agent reported at the selected point; 0 if unknown."""
        return report_at(self.now, self.moment)

    def size_of(self, moment: Moment | None, then: Projection) -> Size:
        """Return the size at a point in history.

        This is the reported or recorded size, or otherwise an estimate.

        Args:
            then: the history at that point.
        """
        recorded = size_at(self.now, moment) if moment is not None else None
        return recorded or view_size(then, overhead=self._overhead)

    def use(self, shown: Projection) -> WindowUse:
        """Return the use of the window by the displayed view."""
        return use_at(shown, self.weight(shown), self._overhead, self.window)

    # --- Steps ----------------------------------------------------------------------------------------

    def step(self, command: str) -> Moment | str | None:
        """Return the point in history to which a timeline command leads.

        Returns:
            A point in history; None for the current state; a message explaining why there is no such point.

        Raises:
            KeyError: the command does not belong to the timeline.
        """
        match command:
            case "older-request" | "newer-request":
                return self._next_request(-1 if command == "older-request" else 1)
            case "before-compaction" | "after-compaction":
                return self._next_compaction(
                    -1 if command == "before-compaction" else 1
                )
            case "now":
                return None
            case _:
                raise KeyError(command)

    def _next_request(self, step: int) -> Moment | str | None:
        """Return the previous or next request.

        A compaction lies between two requests, so the command also works from there.
        """
        moment = self.moment
        if moment is None:
            return (
                NOTHING_NEWER
                if step > 0
                else self.request(len(self.now.meter.requests))
            )
        if moment.kind == "request":
            return self.request(moment.number + step)
        before = requests_before(self.now.meter.requests, moment.length)
        return self.request(before if step < 0 else before + 1)

    def request(self, number: int) -> Moment | str | None:
        """Return the request with this number.

        Returns:
            The request; None for the current state; a message if there is no such request.
        """
        if not self.now.meter.requests:
            return NO_REQUEST
        if number < 1:
            return FIRST_REQUEST
        return (
            at_request(self.now, number)
            if number <= len(self.now.meter.requests)
            else None
        )

    def _next_compaction(self, step: int) -> Moment | str | None:
        """Return the previous or next compaction.

        The point after the last compaction is the current state.
        """
        now = self.now
        moment = self.moment
        indices = [compaction.index for compaction in now.all_compactions]
        if step < 0:
            if moment is not None:
                length = moment.length
                indices = [i for i in indices if now.count_up_to(i) < length]
            return at_compaction(now, indices[-1]) if indices else NO_COMPACTION_BEFORE
        if moment is None:
            return NO_COMPACTION_AFTER
        later = (i for i in indices if now.count_up_to(i) > moment.length)
        first = next(later, None)
        return None if first is None else at_compaction(now, first)

    def mark(self) -> str:
        """Mark or unmark the displayed request.

        Returns a message for the status row.
        """
        moment = self.moment
        if moment is None or moment.kind != "request":
            back = key_name("older-request")
            return CANNOT_MARK.format(key=back)
        self.marked = None if self.marked == moment else moment
        if self.marked is None:
            return ""
        return REQUEST_MARKED.format(request=moment.name, key=key_name("diff"))

    # --- The timeline ---------------------------------------------------------------------------------

    def timeline(self, shown: Projection, activity: str) -> TimelineData:
        """Return the data for the timeline.

        Args:
            shown: the history that the panels show.
            activity: what the agent is doing; empty if it is idle.
        """
        now = self.now
        moment = self.moment
        size = view_size(now, overhead=self._overhead)
        slot = slot_of(now, moment)
        marked = self.chosen.before or self.marked
        subagents = subagent_slots(now, self._answers)
        words = self._words(shown, activity, size)
        running = subagent_words(subagents, slot)
        if running:
            words = ((*words[0], (f"   {running}", "live")), *words[1:])
        return TimelineData(
            sizes=[request.tokens for request in now.meter.requests],
            latest=agent_report(now) or size.tokens,
            window=self.window,
            shown=slot,
            compactions=compaction_slots(now),
            marked=None if marked is None else slot_of(now, marked),
            subagents=subagents,
            words=words,
            brief=brief_words(moment, now, size, self._facts),
        )

    @property
    def _facts(self) -> RequestFacts:
        return RequestFacts() if self.moment is None else self.past.facts(self.moment)

    def _words(self, shown: Projection, activity: str, size: Size) -> tuple[Spans, ...]:
        now = self.now
        moment = self.moment
        if moment is None:
            return now_words(now, size, activity)
        then = shown if self.settled else None
        if moment.kind == "request":
            return request_words(now, moment, then, self._facts)
        return compaction_words(now, moment, key_name("diff"))
