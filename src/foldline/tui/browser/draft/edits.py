"""The user's edits of a proposal that are not part of it yet."""

from foldline.compaction import Proposal
from foldline.protocol.operations import ReviseProposal

_NONE = ReviseProposal(proposal="")


class PendingEdits:
    """Collects edits as one revision, and requests one revision at a time."""

    def __init__(self) -> None:
        self.revision = _NONE
        """All edits that the proposal does not contain yet."""
        self._has_unsent = False
        """Whether some of the edits have not been requested yet."""
        self._revising = ""
        """Id of the proposal whose revision has been requested; empty if there is none."""

    @property
    def is_updating(self) -> bool:
        """Whether some edits are not part of the proposal yet."""
        return bool(self._revising) or self._has_unsent

    def add(self, changes: dict[str, object]) -> None:
        """Add the changed fields of a revision."""
        self.revision = self.revision.model_copy(update=changes)
        self._has_unsent = True

    def next_request(self, proposal: Proposal) -> ReviseProposal | None:
        """Return the revision to request now, if any."""
        if not self._has_unsent or self._revising:
            return None
        self._has_unsent = False
        self._revising = proposal.id
        return self.revision.model_copy(update={"proposal": proposal.id})

    def answered(self, proposal: Proposal | None) -> None:
        """Forget the edits that this proposal contains."""
        if proposal is None:
            self.forget()
        elif proposal.id != self._revising:
            self._revising = ""
            if not self._has_unsent:
                self.revision = _NONE

    def forget(self) -> None:
        """Forget all edits."""
        self.revision = _NONE
        self._has_unsent = False
        self._revising = ""
