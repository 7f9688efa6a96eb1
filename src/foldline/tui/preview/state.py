"""What the preview shows, as one immutable value; and what the reader has changed of it."""

from dataclasses import dataclass, field

from foldline.compaction import Plan, Proposal
from foldline.context.projection import Projection
from foldline.llm.models import Price
from foldline.protocol import Reason
from foldline.protocol.operations import LedgerChange, ReviseProposal
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
    """Everything the preview shows. The numbers come from the proposal, before it from the plan."""

    reason: Reason = "manual"
    proposal: Proposal | None = None
    """The one that waits; while a draft is written the one before it, or None."""
    drafting: Drafting | None = None
    plan: Plan | None = None
    """What the compaction would do: shown until there is a proposal."""
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
    """The prompt that is sent after the compaction."""
    window: int = 0
    """The model's, in tokens; 0 where it is not known."""
    strategy: str = ""
    """The configured one, and the model that drafts: shown until there is a proposal."""
    model: str = ""
    price: Price | None = None
    """Of the model that is asked after it; None where it is not known."""
    draft_price: Price | None = None
    """Of the model that drafts."""
    cwd: str = ""
    """Paths below it are shown relative to it."""
    error: str = ""
    """Why the last wish could not be met, as a sentence."""


@dataclass
class PendingRevision:
    """What the reader has changed since the last operation; the later of two changes of a kind holds."""

    notes: str | None = None
    pin: frozenset[int] = frozenset()
    unpin: frozenset[int] = frozenset()
    ledger: dict[str, LedgerChange] = field(default_factory=dict)
    focus: list[str] = field(default_factory=list)
    cut: int | None = None
    """Index of the entry to cut before."""
    heading: int | None = None
    """Where the cut will be once all this is done; None where it stays."""
    asked: str = ""
    """Identity of the proposal whose revision is under way."""

    def want_cut(self, index: int) -> None:
        self.cut = self.heading = index

    def want_pins(self, pin: frozenset[int] = frozenset(), unpin: frozenset[int] = frozenset()) -> None:
        self.pin = (self.pin - unpin) | pin
        self.unpin = (self.unpin - pin) | unpin

    @property
    def open(self) -> bool:
        """Whether anything is under way or still to be asked for."""
        wanted = self.pin or self.unpin or self.focus or self.ledger
        return bool(self.asked or wanted or self.notes is not None or self.cut is not None)

    def answered(self, proposal: Proposal | None) -> None:
        """A proposal is shown."""
        if proposal is None:
            self.forget()
        elif proposal.id != self.asked:
            self.asked = ""
            if proposal.cut is not None and proposal.cut.first_kept_index == self.heading:
                self.heading = None

    def forget(self) -> None:
        """Ask for nothing more: the reader has to see first what went wrong."""
        self._clear()
        self.heading, self.asked = None, ""

    def _clear(self) -> None:
        self.notes = self.cut = None
        self.pin = self.unpin = frozenset()
        self.focus, self.ledger = [], {}

    def next(self, proposal: Proposal, focus: str | None) -> ReviseProposal | None:
        """The operation for all that changes anything in this proposal; it is under way from now on."""
        if self.asked:
            return None
        notes = self.notes if self.notes is not None and self.notes.strip() != proposal.notes else None
        pins = (proposal.pins | self.pin) - self.unpin
        added = [text for text in dict.fromkeys(self.focus) if text not in (focus or "")]
        cut = self.cut if proposal.cut is not None and self.cut != proposal.cut.first_kept_index else None
        asked = ReviseProposal(
            proposal=proposal.id,
            notes=notes,
            pins=tuple(sorted(pins)) if pins != proposal.pins else None,
            first_kept_index=cut,
            focus="; ".join(filter(None, [focus, *added])) if added else None,
            ledger=self.ledger or None,
        )
        self._clear()
        if asked == ReviseProposal(proposal=proposal.id):
            self.heading = None
            return None
        self.asked = proposal.id
        return asked
