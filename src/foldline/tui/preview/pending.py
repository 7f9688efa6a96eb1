"""What the reader asked for and no proposal shows yet. A proposal is revised by one wish at a time, so that
each wish meets the proposal it was made for; keys pressed meanwhile are not lost."""

from dataclasses import dataclass, field

from foldline.compaction import Proposal
from foldline.tui.preview.messages import CutMoved, FocusAdded, NotesEdited, PinsChosen, PreviewMessage


@dataclass
class Pending:
    """Wishes in the order: text, pins, focus, cut. The later of two wishes of a kind holds."""

    notes: str | None = None
    pin: frozenset[int] = frozenset()
    unpin: frozenset[int] = frozenset()
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
        return bool(
            self.asked
            or self.notes is not None
            or self.pin
            or self.unpin
            or self.focus
            or self.cut is not None
        )

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
        self.notes = self.cut = self.heading = None
        self.pin = self.unpin = frozenset()
        self.focus = []
        self.asked = ""

    def next(self, proposal: Proposal, focus: str | None) -> PreviewMessage | None:
        """The next wish that changes anything, for this proposal; it is under way from now on."""
        if self.asked:
            return None
        message = self._next(proposal, focus or "")
        if message is not None:
            self.asked = proposal.id
        return message

    def _next(self, proposal: Proposal, focus: str) -> PreviewMessage | None:
        notes, self.notes = self.notes, None
        if notes is not None and notes.strip() != proposal.notes:
            return NotesEdited(proposal.id, notes)
        pins, self.pin, self.unpin = (proposal.pins | self.pin) - self.unpin, frozenset(), frozenset()
        if pins != proposal.pins:
            return PinsChosen(proposal.id, pins)
        added, self.focus = [text for text in dict.fromkeys(self.focus) if text not in focus], []
        if added:
            return FocusAdded(proposal.id, "; ".join(added), "; ".join(filter(None, [focus, *added])))
        cut, self.cut = self.cut, None
        if cut is not None and proposal.cut is not None and cut != proposal.cut.first_kept_index:
            return CutMoved(proposal.id, cut)
        self.heading = None
        return None
