"""How an agent compacts: strategy and mode, the plan, the proposal and the background draft."""

from dataclasses import dataclass, field
from typing import Literal

from foldline.agent.permissions.approvals import Choices
from foldline.compaction import (
    AdaptiveCompaction,
    CompactionStrategy,
    Plan,
    SessionLedger,
    compaction_undone,
    dependencies,
    load_strategy,
    pause_reason,
    plan,
    plan_early,
)
from foldline.history import Session
from foldline.llm import LLM
from foldline.llm.models import cached_price
from foldline.protocol import Entry, Reason
from foldline.view.budget import Budget

from .context_budget import ContextBudget
from .event_stream import EventStream
from .hook_runs import HookRunner
from .models import Models
from .proposals import BackgroundDraft, Basis, PendingProposal

Mode = Literal["auto", "ask", "off"]
AUTO_OFF = "Automatic compaction is off."
UNDONE = "You undid the last compaction."


@dataclass
class CompactionState:
    """The settings of compaction, the pending proposal and the background draft."""

    session: Session
    events: EventStream
    models: Models
    budget: ContextBudget
    choices: Choices
    hooks: HookRunner
    strategy: CompactionStrategy = field(default_factory=AdaptiveCompaction)
    mode: Mode = "auto"
    """Whether to compact when the window is full: automatically, after asking the user, or never."""
    ledger: SessionLedger = field(default_factory=SessionLedger)
    dismissed_at: object = None
    """The newest change to the view when the user last dismissed the question about a full window."""
    send_uncompacted: bool = False
    """Whether to send the next prompt uncompacted if it fits, because the last compaction failed."""
    _plans: dict[object, Plan | None] = field(default_factory=dict)
    """Cache of compaction plans for the current history. Each new entry clears it."""

    def __post_init__(self) -> None:
        self.projection = self.session.projection
        self.review = PendingProposal(self.events.emit)
        self.draft = BackgroundDraft(self.events.emit)
        self.session.on_append.append(self._on_entry)

    def _on_entry(self, _: Entry) -> None:
        self._plans.clear()
        self.draft.on_entry(self.projection.newest_change)

    def load(self, strategy: str, writer: LLM | None = None) -> CompactionStrategy:
        """Create a strategy, given its name.

        Args:
            writer: model for the strategy's summaries; the current one by default.

        Raises:
            FoldlineError: there is no such strategy, or it cannot be created.
        """
        folder = self.budget.tools.cwd
        objects = dependencies(
            writer or self.models.writer, folder, session=self.session
        )
        return load_strategy(strategy, objects)

    def use_mode(self, mode: Mode, *, draft_ahead: bool) -> None:
        """Set when to compact, and whether to draft in the background.

        Without a user, `ask` behaves like `auto`, and nothing is drafted in the background.
        """
        is_interactive = self.choices.interactive
        self.mode = "auto" if mode == "ask" and not is_interactive else mode
        self.draft.on = draft_ahead and is_interactive

    @property
    def basis(self) -> Basis:
        """The inputs for drafting the next compaction."""
        change = self.projection.newest_change
        return Basis(change, self.strategy, self.models.writer)

    @property
    def blocker(self) -> str | None:
        """Message explaining why compaction is not automatic now.

        None if it is automatic.
        """
        if self.mode == "off":
            return AUTO_OFF
        if paused := pause_reason(self.projection):
            return paused
        return UNDONE if compaction_undone(self.projection) else None

    @property
    def was_declined(self) -> bool:
        """Whether the user discarded a draft of the current view."""
        is_declined = self.review.declined is self.projection.newest_change
        return is_declined and self.budget.fits()

    def plan(
        self,
        reason: Reason,
        limits: Budget | None = None,
        pending: int = 0,
    ) -> Plan | None:
        """Return the plan of a compaction.

        Returns None if there is nothing to compact. Plans are cached until the history changes.

        Args:
            limits: limits of another model; the active ones by default.
            pending: as in `CompactionRequest`. If the usual plan leaves too little room for the prompt, the
                plan keeps less of the view.
        """
        budget = self.budget
        limits = limits or budget.limits
        if pending:
            usual = self.plan(reason, limits)
            if usual is not None:
                expected = usual.tokens_expected + round(pending * budget.scale)
                if expected < limits.threshold:
                    return usual
        key = (reason, limits, budget.overhead, pending)
        if key not in self._plans:
            self._plans[key] = self._planned(reason, limits, pending)
        return self._plans[key]

    def _planned(self, reason: Reason, limits: Budget, pending: int) -> Plan | None:
        if reason == "phase" and not self.budget.past_soft_mark:
            early = self.plan_early()
            if early is not None:
                return early
        return plan(
            self.projection,
            limits,
            reason,
            overhead=self.budget.overhead,
            pending=pending,
        )

    def plan_early(self) -> Plan | None:
        """Return a plan that saves money even before the window is full, if there is one."""
        limits = self.budget.limits
        if not isinstance(self.strategy, AdaptiveCompaction) or limits.soft_ratio >= 1:
            return None
        price = cached_price(self.models.id)
        overhead = self.budget.overhead
        return plan_early(self.projection, limits, price, overhead=overhead)
