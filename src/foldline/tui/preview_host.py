"""Connects the Compact preview to the agent: events become what it shows."""

from dataclasses import replace
from typing import TYPE_CHECKING

from foldline.compaction import strategy_for
from foldline.llm.models import price_of
from foldline.protocol import FoldlineError, Reason, events, operations
from foldline.protocol.events import Event
from foldline.tui.preview import Drafting, PreviewState
from foldline.tui.runner import Runner
from foldline.tui.state import Retry

if TYPE_CHECKING:
    from foldline.tui.open_session import OpenSession
    from foldline.tui.preview.screen import PreviewScreen


class PreviewHost:
    """One per session. Hears every event, so that a draft can be looked at when it is half written."""

    def __init__(self, chat: "OpenSession", runner: Runner) -> None:
        self._chat = chat
        self._runner = runner
        self._state = PreviewState()
        self._screen: PreviewScreen | None = None
        self._stale = False
        self._drafted: str | None = None
        """The notes as they were drafted: what differs is the reader's own."""

    # --- what the program calls ----------------------------------------------------------------------

    def open(self, focus: str = "") -> None:
        """Show the compaction that is being drafted, the proposal that waits, or draft one."""
        from foldline.tui.preview.screen import PreviewScreen

        if self._screen is not None and self._screen.is_open:  # its key came twice, or something lies over it
            self._screen.uncover()
            return
        agent_state = self._runner.agent.state
        made = agent_state.review.proposal
        if self._state.drafting is not None:
            self._runner.submit(operations.HoldCommit())
        elif made is None or not made.fits(agent_state.projection) or focus:
            self._state = self._from_plan("manual", focus or None)
            if self._state.plan is None and not self._runner.agent.executor.busy:
                self._chat.remark(self._state.error or "There is nothing to compact")
                return
            asked = operations.CompactSession(reason="manual", focus=focus or None, preview=True)
            self._runner.submit(asked)
        where, clock = self._chat.where, self._chat.clock
        self._screen = PreviewScreen(where, self._runner.submit, clock=clock, state=self._shown())
        self._chat.push_screen(self._screen, lambda _: self._forget())
        # What is heard before it is mounted, it would show with the next event only; there may be none.
        self._screen.call_after_refresh(self.draw)

    def on_event(self, event: Event) -> None:
        """Take note of an event. Cheap: what is seen of it is drawn by `draw`."""
        state = self._state
        match event:
            case events.ProposalReady():
                self._take_proposal(event)
            case events.ProposalClosed():
                self._state = PreviewState()
                self._drafted = None
                if self._screen is not None and self._screen.is_attached:
                    self._screen.dismiss()
            case events.Notice(level="warning") if self._screen is not None:
                self._state = replace(state, error=event.text)
            case events.QueueChanged():
                pass  # the prompt that is held is shown
            case _:
                changed = self._drafting(event)
                if changed is None:
                    return
                self._state = changed
        self._stale = True

    def _drafting(self, event: Event) -> PreviewState | None:
        """What an event about a draft changes; None where it is about something else."""
        state = self._state
        match event:
            case events.CompactionStart():
                base = state if state.proposal is not None else self._from_plan(event.reason, state.focus)
                if self._screen is not None:  # nothing is committed under the reader's eyes
                    self._runner.submit(operations.HoldCommit())
                return replace(base, reason=event.reason, drafting=self._begun(), error="")
            case events.CompactionProgress() if state.drafting is not None or event.stage == "draft":
                # A proposal that something waits for is drafted again without another start.
                return self._written(event)
            case events.Retrying() if state.drafting is not None:
                until = self._chat.clock() + event.seconds
                again = Retry(until, event.sentence, event.attempt, event.attempts)
                return replace(state, drafting=replace(state.drafting, again=again), error="")
            case events.CompactionEnd():
                error = event.error or ("Cancelled: nothing has changed." if event.aborted else "")
                if event.nothing and not event.error:
                    error = "There is nothing to compact."
                return replace(state, drafting=None, waits=False, error=error)
            case _:
                return None

    def draw(self) -> None:
        """Show what has changed, if anybody looks."""
        if self._stale and self._screen is not None and self._screen.is_mounted:
            self._stale = False
            self._screen.show(self._shown())

    # --- what it shows -------------------------------------------------------------------------------

    def _take_proposal(self, event: events.ProposalReady) -> None:
        review = self._runner.agent.state.review
        made = review.proposal
        if made is None:
            return
        if made.state == "current":
            self._drafted = made.notes
        self._state = replace(
            self._state,
            reason=event.reason,
            proposal=made,
            drafting=None,
            focus=review.focus,
            hand_written=made.notes != self._drafted,
            waits=event.waits,
            error="",
        )

    def _written(self, event: events.CompactionProgress) -> PreviewState:
        """The draft with another piece: the first one after a retry begins it anew, and after a failure, its
        sentence has been read."""
        state = self._state
        drafting, ahead = state.drafting or self._begun(), self._chat.presenter.state.ahead
        if ahead is not None and event.stage == "draft":  # taken over: else it is gone by now
            drafting = replace(drafting, since=ahead.since)
        if event.detail or (event.delta and drafting.again is not None):
            drafting = replace(drafting, text="", again=None)
        error = event.detail or ("" if event.delta else state.error)
        return replace(state, drafting=replace(drafting, text=drafting.text + event.delta), error=error)

    def _begun(self) -> Drafting:
        return Drafting(since=self._chat.clock())

    def _shown(self) -> PreviewState:
        agent_state = self._runner.agent.state
        writer = (agent_state.summary_llm or agent_state.llm).info.id
        return replace(
            self._state,
            held=self._chat.presenter.state.waiting.held,
            projection=agent_state.projection,
            overhead=agent_state.overhead,
            window=agent_state.window,
            strategy=type(strategy_for(agent_state.strategy, self._state.reason)).__name__,
            model=writer,
            price=price_of(agent_state.llm.info.id),
            draft_price=price_of(writer),
            cwd=agent_state.session.cwd,
        )

    def _from_plan(self, reason: Reason, focus: str | None) -> PreviewState:
        agent_state = self._runner.agent.state
        try:
            planned = agent_state.plan(reason)
        except FoldlineError as failure:
            return PreviewState(reason=reason, focus=focus, error=str(failure))
        return PreviewState(reason=reason, plan=planned, focus=focus)

    def _forget(self) -> None:
        self._screen = None
