"""What the preview shows, as one immutable value."""

from dataclasses import dataclass

from foldline.compaction import Plan, Proposal
from foldline.context.projection import Projection
from foldline.llm.models import Price
from foldline.protocol import Reason
from foldline.tui.state import Retry


@dataclass(frozen=True, slots=True)
class Drafting:
    """A draft that is being written."""

    since: float
    """By the clock of the screen, in seconds."""
    text: str = ""
    """What the model has written so far."""
    again: Retry | None = None
    """The wait before the request leaves once more. What it had written until then counts no longer."""

    def waits_at(self, now: float) -> Retry | None:
        """The retry that is waited for at this moment."""
        return self.again if self.again is not None and now < self.again.until else None


@dataclass(frozen=True, slots=True)
class PreviewState:
    """Everything the preview is told. The numbers come from the proposal, before it from the plan."""

    reason: Reason = "manual"
    proposal: Proposal | None = None
    """The one that waits; while a draft is written the one before it, or None."""
    drafting: Drafting | None = None
    plan: Plan | None = None
    """What the fold would do: shown until there is a proposal."""
    projection: Projection | None = None
    """The session's, for the plan and for what calls were about."""
    overhead: int = 0
    """Estimate of the tool schemas, before calibration: for the plan."""
    focus: str | None = None
    """What the next draft should dwell on."""
    hand_written: bool = False
    """Whether the reader has changed the text since it was drafted."""
    waits: bool = False
    """Whether a turn waits for the decision."""
    held: str | None = None
    """The prompt that is sent after the fold."""
    window: int = 0
    """The model's, in tokens; 0 where it is not known."""
    strategy: str = ""
    """The configured one, and the model that drafts: shown until there is a proposal."""
    model: str = ""
    price: Price | None = None
    """Of the model that is asked after the fold; None where it is not known."""
    draft_price: Price | None = None
    """Of the model that drafts."""
    cwd: str = ""
    """Paths below it are shown relative to it."""
    error: str = ""
    """Why the last wish could not be met, as a sentence."""
