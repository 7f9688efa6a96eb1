"""The immutable state of the preview."""

from dataclasses import dataclass

from foldline.compaction import Plan, Proposal
from foldline.frontend.state import RetryWait
from foldline.llm.models import Price
from foldline.protocol import Reason
from foldline.view.projection import Projection


@dataclass(frozen=True, slots=True)
class Drafting:
    """A draft that is being written."""

    since: float
    """Start time in seconds, on the screen's clock."""
    text: str = ""
    """The text written so far."""
    retry: RetryWait | None = None
    """The wait before the request is sent again. Sending it discards the text received so far."""

    def retry_at(self, now: float) -> RetryWait | None:
        """Return the wait that is in progress at this time, if any."""
        if self.retry is None or now >= self.retry.until:
            return None
        return self.retry


@dataclass(frozen=True, slots=True)
class DraftState:
    """Everything that the preview shows.

    Until there is a proposal, sizes come from the plan.
    """

    reason: Reason = "manual"
    proposal: Proposal | None = None
    """The current proposal. While a new draft is being written, this is the previous proposal."""
    drafting: Drafting | None = None
    plan: Plan | None = None
    """The plan for the compaction, shown until there is a proposal."""
    projection: Projection | None = None
    """The history of the session."""
    overhead: int = 0
    """Estimated size of the tool schemas, in tokens before calibration."""
    focus: str | None = None
    """Topic that the next draft should emphasise."""
    waits: bool = False
    """Whether a turn is waiting for the user's decision."""
    held: str | None = None
    """The prompt to be sent after the compaction, if any."""
    window: int = 0
    """Size of the model's context window, in tokens; 0 if unknown."""
    strategy: str = ""
    """The configured strategy, shown until there is a proposal."""
    model: str = ""
    """The model that writes the draft, shown until there is a proposal."""
    price: Price | None = None
    """Price of the session's model; None if unknown."""
    draft_price: Price | None = None
    """Price of the model that writes the draft; None if unknown."""
    cwd: str = ""
    """Working directory. Paths below it are shown relative to it."""
    error: str = ""
    """The reason why the last operation failed, as a sentence."""

    @property
    def is_estimate(self) -> bool:
        """Whether the size after the compaction is only expected, because the draft is missing or stale."""
        return self.proposal is None or self.proposal.state == "stale"
