"""What the Approvals screen shows, and what may be chosen there. Pure."""

from dataclasses import dataclass, replace

from foldline.protocol import ApprovalMode, Rule
from foldline.protocol.entries import ApprovalScope
from foldline.protocol.operations import Revoke


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in force, and where it came from."""

    rule: Rule
    scope: ApprovalScope
    words: str
    origin: str


@dataclass(frozen=True, slots=True)
class ApprovalsState:
    """The rules, those of the session first, the mark among them, and the mode."""

    rows: tuple[RuleRow, ...] = ()
    mode: ApprovalMode = "ask"
    fault: str = ""
    """Why the rules of the project count for nothing, as a sentence."""
    at: int = 0
    confirming: bool = False
    """Whether `all` was asked for, and is to be confirmed."""

    @property
    def marked(self) -> RuleRow | None:
        return self.rows[self.at] if self.rows else None

    def moved(self, step: int) -> "ApprovalsState":
        at = min(max(self.at + step, 0), max(len(self.rows) - 1, 0))
        return replace(self, at=at, confirming=False)

    def refreshed(self, now: "ApprovalsState") -> "ApprovalsState":
        """What holds now; the mark stays where it is."""
        return now.moved(self.at)

    def revocation(self) -> Revoke | None:
        """What takes the marked rule back."""
        row = self.marked
        return None if row is None else Revoke(rule=row.rule, scope=row.scope)
