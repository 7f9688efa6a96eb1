"""Which moment the Inspector shows, the steps to others, and the timeline of them."""

from foldline.context.budget import Size
from foldline.context.moments import Moment, at_compaction, at_request, report_at, requests_before, size_at
from foldline.context.projection import Projection
from foldline.context.subagents import Answers
from foldline.context.weight import agent_report, view_size
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.past import Past
from foldline.tui.inspector.timeline import (
    Scene,
    Series,
    brief_words,
    compaction_slots,
    compaction_words,
    now_words,
    request_words,
    slot_of,
    subagent_slots,
    subagent_words,
)
from foldline.tui.keys.table import name_of


class TimeTravel:
    """The moments of one history. None is now."""

    def __init__(self, now: Projection, overhead: int, window: int) -> None:
        """`overhead` is the estimate of the tool schemas, `window` the model's in tokens, 0 where unknown."""
        self._overhead = overhead
        self.window = window
        self.begin(now)

    def begin(self, now: Projection) -> None:
        """Another history, as it is now."""
        self.now = now
        self.past = Past(now)
        self._series = Series()
        self._answers = Answers()
        self.moment: Moment | None = None
        """What the reader chose."""
        self.shown: Moment | None = None
        """What the panels show: the same, or what they showed before while that is on its way."""
        self.marked: Moment | None = None
        """The request that others are compared with."""

    @property
    def settled(self) -> bool:
        """Whether the panels show what was chosen."""
        return self.moment == self.shown

    @property
    def is_now(self) -> bool:
        """Whether the panels show now, and nothing else is on its way."""
        return self.moment is None and self.shown is None

    @property
    def as_of(self) -> str:
        """The moment that the panels show; empty where that is now."""
        return self.shown.name if self.shown is not None else ""

    def weight(self, shown: Projection) -> Size:
        """The size of what is shown."""
        return self.size_of(self.shown, shown)

    def chosen_weight(self, shown: Projection) -> Size | None:
        """The size at the chosen moment; None while that is not known."""
        if self.settled:
            return self.weight(shown)
        return self.size_of(None, self.now) if self.moment is None else size_at(self.now, self.moment)

    @property
    def report(self) -> int:
        """Tokens of another agent's request at the chosen moment, as reported; 0 for none."""
        return report_at(self.now, self.moment)

    def size_of(self, moment: Moment | None, then: Projection) -> Size:
        """The size at a moment: what was reported or recorded, where that is known, else the estimate of
        `then`, the history as it was."""
        known = size_at(self.now, moment) if moment is not None else None
        return known or view_size(then, overhead=self._overhead)

    # --- Steps ----------------------------------------------------------------------------------------

    def step(self, command: str) -> Moment | str | None:
        """The moment a key leads to, or why there is none, as a sentence.

        Raises:
            KeyError: it is no key of the timeline.
        """
        match command:
            case "older-request" | "newer-request":
                return self._request_beside(-1 if command == "older-request" else 1)
            case "before-compaction" | "after-compaction":
                return self._compaction_beside(-1 if command == "before-compaction" else 1)
            case "first-request":
                return self.request(1)
            case "now":
                return None
            case _:
                raise KeyError(command)

    def _request_beside(self, step: int) -> Moment | str | None:
        """The request before or after. A compaction stands between two of them."""
        moment = self.moment
        if moment is None:
            return "This is now: nothing is newer." if step > 0 else self.request(len(self.now.requests))
        if moment.kind == "request":
            return self.request(moment.number + step)
        before = requests_before(self.now.requests, moment.length)
        return self.request(before if step < 0 else before + 1)

    def request(self, number: int) -> Moment | str | None:
        if not self.now.requests:
            return "No request has been sent yet."
        if number < 1:
            return "This is the first request."
        return at_request(self.now, number) if number <= len(self.now.requests) else None

    def _compaction_beside(self, step: int) -> Moment | str | None:
        """The compaction before or after the moment; after the last one is now."""
        compactions = [each.index for each in self.now.all_compactions]
        moment = self.moment
        if moment is None:
            found = compactions if step < 0 else []
        else:
            known = [(index, self.now.count_up_to(index)) for index in compactions]
            here = moment.length
            found = [i for i, length in known if (length < here if step < 0 else length > here)]
        if found:
            return at_compaction(self.now, found[-1] if step < 0 else found[0])
        if step > 0 and moment is not None:
            return None
        return "No compaction before this." if step < 0 else "No compaction after this."

    def mark(self) -> str:
        """Mark the request that is shown to compare others with it, or unmark it; what to say of it."""
        moment = self.moment
        if moment is None or moment.kind != "request":
            back = name_of(KEYS, "older-request")
            return f"Only a request that was sent can be marked: {back} goes back to one."
        self.marked = None if self.marked == moment else moment
        if self.marked is None:
            return ""
        return f"△ {moment.name} is marked: at another one, {name_of(KEYS, 'diff')} compares."

    # --- The timeline ---------------------------------------------------------------------------------

    def scene(self, shown: Projection, activity: str) -> Scene:
        """What the timeline draws. `activity` is what the agent does just now."""
        now, moment = self.now, self.moment
        self._series.follow(now)
        size = view_size(now, overhead=self._overhead)
        then = shown if self.settled else None
        if moment is None:
            words = now_words(now, size, activity)
        elif moment.kind == "request":
            words = request_words(now, moment, then, self.past.proof(moment), self.past.cache_use(moment))
        else:
            words = compaction_words(now, moment, then, name_of(KEYS, "diff"))
        shown_slot, subagents = slot_of(now, moment), subagent_slots(now, self._answers)
        if ran := subagent_words(subagents, shown_slot):
            words = ((*words[0], (f"   {ran}", "live")), *words[1:])
        return Scene(
            sizes=self._series.sizes,
            latest=agent_report(now) or size.tokens,
            window=self.window,
            shown=shown_slot,
            compactions=compaction_slots(now),
            marked=None if self.marked is None else slot_of(now, self.marked),
            subagents=subagents,
            words=words,
            brief=brief_words(moment, now, size, self.past.cache_use(moment) if moment else None),
        )
