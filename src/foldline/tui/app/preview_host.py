"""Turns events into the state of the draft that the browser shows."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from foldline.compaction import strategy_for
from foldline.frontend.reduce import NOTHING_TO_COMPACT
from foldline.frontend.state import RetryWait
from foldline.llm.models import price_of
from foldline.protocol import FoldlineError, Reason, events, operations
from foldline.protocol.events import Event
from foldline.tui.browser.draft.state import Drafting, DraftState
from foldline.tui.session_window import AgentRunner, SessionWindow

if TYPE_CHECKING:
    from foldline.tui.browser.inspector.screen import InspectorScreen

NOTHING_CHANGED: Final = "Cancelled: nothing has changed"


class PreviewHost:
    """The draft of one session.

    The host handles all events even while no draft is shown, so that a half-written draft can be opened.
    """

    def __init__(
        self,
        chat: SessionWindow,
        runner: AgentRunner,
        show: "Callable[[DraftState], InspectorScreen]",
    ) -> None:
        """Create the host.

        Args:
            show: shows a draft, and returns its screen.
        """
        self._chat = chat
        self._runner = runner
        self._show = show
        self._state = DraftState()
        self._last_screen: InspectorScreen | None = None
        """The screen that has shown a draft last."""
        self._stale = False
        self._requested = ""
        """The id of the compaction that was requested last, until it has ended."""

    # --- called by the program ------------------------------------------------------------------------

    def open(self, focus: str = "") -> None:
        """Show the current draft or proposal, or start a draft."""
        if self._screen is not None:  # key pressed twice, or screen covered
            self._screen.uncover()
            return
        if self._state.drafting is not None:
            self._runner.submit(operations.HoldCommit())
        elif focus or not (self._requested or self._has_proposal()):
            self._state = self._from_plan("manual", focus or None)
            if self._state.plan is None and not self._runner.agent.executor.busy:
                self._chat.tell_front(self._state.error or NOTHING_TO_COMPACT)
                return
            compaction = operations.CompactSession(
                reason="manual", focus=focus or None, preview=True
            )
            self._requested = self._runner.submit(compaction)
        self._last_screen = self._show(self._current_state())
        # Events that arrive before mounting would be shown only with the next event, which may never come.
        self._last_screen.call_after_refresh(self.draw)

    @property
    def _screen(self) -> "InspectorScreen | None":
        """The screen that shows the draft, if it is open."""
        screen = self._last_screen
        if screen is None or not screen.is_open or not screen.panels.in_draft:
            return None
        return screen

    def _has_proposal(self) -> bool:
        agent_state = self._runner.agent.state
        proposal = agent_state.compaction.review.proposal
        return proposal is not None and proposal.fits(agent_state.projection)

    def on_event(self, event: Event) -> None:
        """Update the state.

        This is cheap, because only `draw` shows the state.
        """
        state = self._state
        match event:
            case events.TaskFinished(task=self._requested):
                self._requested = ""
                return
            case events.ProposalReady():
                self._take_proposal(event)
            case events.ProposalClosed():
                self._state = DraftState()
                if self._screen is not None:
                    self._screen.dismiss()
            case events.Notice(level="warning") if self._screen is not None:
                self._state = replace(state, error=event.text)
            case events.QueueChanged():
                pass  # the held prompt is shown, so the preview must be redrawn
            case _:
                changed = self._drafting(event)
                if changed is None:
                    return
                self._state = changed
        self._stale = True

    def _drafting(self, event: Event) -> DraftState | None:
        """Return the state after an event, if the event is about a draft."""
        state = self._state
        match event:
            case events.CompactionStart():
                base = (
                    state
                    if state.proposal is not None
                    else self._from_plan(event.reason, state.focus)
                )
                if self._screen is not None:  # commit only what the user has decided
                    self._runner.submit(operations.HoldCommit())
                return replace(
                    base, reason=event.reason, drafting=self._new_drafting(), error=""
                )
            case events.CompactionProgress() if (
                state.drafting is not None or event.stage == "draft"
            ):
                # There is no start event for a new draft of a proposal that a turn is waiting for.
                return self._with_progress(event)
            case events.Retrying() if state.drafting is not None:
                until = self._chat.clock() + event.seconds
                retry = RetryWait(until, event.sentence, event.attempt, event.attempts)
                return replace(
                    state, drafting=replace(state.drafting, retry=retry), error=""
                )
            case events.CompactionEnd():
                error = event.error or ""
                if not error and event.nothing:
                    error = NOTHING_TO_COMPACT
                elif not error and event.aborted:
                    error = NOTHING_CHANGED
                return replace(state, drafting=None, waits=False, error=error)
            case _:
                return None

    def draw(self) -> None:
        """Show a changed state, if the draft is shown."""
        screen = self._screen
        if self._stale and screen is not None and screen.panels.is_mounted:
            self._stale = False
            screen.panels.show_draft(self._current_state())

    # --- its state ---------------------------------------------------------------------------------

    def _take_proposal(self, event: events.ProposalReady) -> None:
        review = self._runner.agent.state.compaction.review
        proposal = review.proposal
        if proposal is None:
            return
        self._state = replace(
            self._state,
            reason=event.reason,
            proposal=proposal,
            drafting=None,
            focus=review.focus,
            waits=event.waits,
            error="",
        )

    def _with_progress(self, event: events.CompactionProgress) -> DraftState:
        """Return the state after the draft has received new text.

        The first text after a retry replaces the earlier text; after a failure, it clears the error.
        """
        state = self._state
        drafting = state.drafting or self._new_drafting()
        ahead = self._chat.presenter.state.ahead
        if (
            ahead is not None and event.stage == "draft"
        ):  # a background draft has been taken over
            drafting = replace(drafting, since=ahead.since)
        if event.detail or (event.delta and drafting.retry is not None):
            drafting = replace(drafting, text="", retry=None)
        error = state.error
        if event.detail or event.delta:
            error = event.detail or ""
        drafting = replace(drafting, text=drafting.text + event.delta)
        return replace(state, drafting=drafting, error=error)

    def _new_drafting(self) -> Drafting:
        return Drafting(since=self._chat.clock())

    def _current_state(self) -> DraftState:
        agent_state = self._runner.agent.state
        writer = (agent_state.models.summary_llm or agent_state.models.llm).info.id
        return replace(
            self._state,
            held=self._chat.presenter.state.waiting.held,
            projection=agent_state.projection,
            overhead=agent_state.budget.overhead,
            window=agent_state.models.window,
            strategy=type(
                strategy_for(agent_state.compaction.strategy, self._state.reason)
            ).__name__,
            model=writer,
            price=price_of(agent_state.models.llm.info.id),
            draft_price=price_of(writer),
            cwd=agent_state.session.cwd,
        )

    def _from_plan(self, reason: Reason, focus: str | None) -> DraftState:
        agent_state = self._runner.agent.state
        try:
            planned = agent_state.compaction.plan(reason)
        except FoldlineError as failure:
            return DraftState(reason=reason, focus=focus, error=str(failure))
        return DraftState(reason=reason, plan=planned, focus=focus)
