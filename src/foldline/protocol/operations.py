"""Operations: requests from a user interface to the executor."""

from typing import Annotated, Literal

from pydantic import Field

from .entries import ApprovalMode, ApprovalScope, EditAction, Reason, Rule
from .messages import Part, Record


class RunAgent(Record):
    """Append the prompt, and run a turn for it."""

    type: Literal["run_agent"] = "run_agent"
    parts: tuple[Part, ...]
    max_steps: int | None = None
    """Maximum number of requests; None means unlimited.

    Tool calls in the response to the last request are still run.
    """


class Retry(Record):
    """Continue a failed or stopped turn from its last step.

    No new prompt is added.
    """

    type: Literal["retry"] = "retry"


class RunShell(Record):
    """Run a shell command for the user, without asking for approval.

    The command and its output are recorded.
    """

    type: Literal["run_shell"] = "run_shell"
    command: str
    aside: bool = False
    """Whether to keep the command out of the view until the user restores its entry."""


class CompactSession(Record):
    """Start a compaction.

    With `preview`, the result is not committed, but becomes a pending proposal.
    """

    type: Literal["compact_session"] = "compact_session"
    reason: Reason
    focus: str | None = None
    preview: bool = False
    pending: int = 0
    """Estimated size of the prompt that is waiting for the compaction, in uncalibrated tokens."""


class HoldCommit(Record):
    """Delay a compaction's commit until the user has decided about its draft.

    Takes effect at once.
    """

    type: Literal["hold_commit"] = "hold_commit"


LedgerChange = Literal["drop", "pin", "unpin"]


class ReviseProposal(Record):
    """Change the pending proposal without calling the model.

    Takes effect at once.

    Fields that are None stay unchanged.
    """

    type: Literal["revise_proposal"] = "revise_proposal"
    proposal: str
    notes: str | None = None
    """Text of the summary, without the lists that are generated from the history."""
    pins: tuple[int, ...] | None = None
    """All entries that the compaction is to pin. A tool group counts as one entry."""
    first_kept_index: int | None = None
    """New position of the cut.

    The proposal is then stale until it is drafted again.
    """
    focus: str | None = None
    """Topic that the next draft is to cover in detail.

    Setting a topic makes the current draft stale.
    """
    ledger: dict[str, LedgerChange] | None = None
    """Changes to the ledger's lines, by id.

    A line can be dropped, kept in later compactions (`pin`), or unpinned.
    """


class RedraftProposal(Record):
    """Draft the pending proposal again.

    The new draft uses the proposal's cut and focus, and the guidance for the model.
    """

    type: Literal["redraft_proposal"] = "redraft_proposal"
    proposal: str
    guidance: str | None = None


class ApplyProposal(Record):
    """Commit exactly the proposal with this id."""

    type: Literal["apply_proposal"] = "apply_proposal"
    proposal: str


class DiscardProposal(Record):
    """Discard the proposal. Takes effect at once."""

    type: Literal["discard_proposal"] = "discard_proposal"
    proposal: str


class Choose(Record):
    """Answer a `ChoiceRequested`."""

    type: Literal["choose"] = "choose"
    choice: str
    key: str
    text: str = ""
    """Text entered with the option, if the option requires one."""


class UndoCompaction(Record):
    """Undo a change of the view.

    By default, this is the newest active compaction, clear or rewind.
    """

    type: Literal["undo_compaction"] = "undo_compaction"
    target: int | None = None


class Rewind(Record):
    """Rewind to a checkpoint, or to a point on any branch.

    Rewinds the context, the files changed by Foldline's tools, or both. A running turn is stopped first.
    """

    type: Literal["rewind"] = "rewind"
    checkpoint: int = -1
    """Id of the checkpoint."""
    moment: int | None = None
    """Index of the newest entry at the target point.

    This is an alternative to `checkpoint`.
    """
    context: bool = True
    files: bool = False


class EditView(Record):
    """Pin, hide, drop or restore an entry."""

    type: Literal["edit_view"] = "edit_view"
    target: int
    action: EditAction


class LoadSkill(Record):
    """Add a skill's instructions to the view, or remove them."""

    type: Literal["load_skill"] = "load_skill"
    asked: str
    """Name of the skill to add or, if `unload` is set, to remove."""


class ReviewPlan(Record):
    """Ask the user to review the model's newest plan."""

    type: Literal["review_plan"] = "review_plan"


class SetGoal(Record):
    """Pin a goal for the session, replacing an earlier goal.

    An empty text only removes the earlier goal.
    """

    type: Literal["set_goal"] = "set_goal"
    text: str


class ClearView(Record):
    """Remove everything from the view except the preamble and pinned items."""

    type: Literal["clear_view"] = "clear_view"


class SwitchModel(Record):
    """Use another model for the next requests."""

    type: Literal["switch_model"] = "switch_model"
    model: str


class SwitchStrategy(Record):
    """Use another strategy for all further compactions."""

    type: Literal["switch_strategy"] = "switch_strategy"
    strategy: str
    """The strategy's short name, or `module:ClassName`."""


class Interrupt(Record):
    """Cancel the running task of any kind."""

    type: Literal["interrupt"] = "interrupt"


class Approve(Record):
    """Answer an `ApprovalRequested`."""

    type: Literal["approve"] = "approve"
    call_id: str
    answer: Literal["once", "always", "project", "deny"]
    """`once` allows only this call, and `deny` rejects it.

    `always` grants a rule for the session, and `project` for all sessions in this folder.
    """
    nth: int = 0
    """Index of the offered rule to grant, counted from 0."""
    why: str = ""
    """For `deny`, the user's reason and instructions for the model."""
    no_one_to_ask: bool = False
    """For `deny`, whether no user was available to decide.

    The model is informed of this.
    """


class Revoke(Record):
    """Revoke a rule. Matching calls then require approval again.

    Takes effect at once.
    """

    type: Literal["revoke"] = "revoke"
    rule: Rule
    scope: ApprovalScope = "session"


class TakeBackTrust(Record):
    """Forget whether the user trusts a file in the folder.

    Takes effect at once.

    The user is asked again at the next prompt.
    """

    type: Literal["take_back_trust"] = "take_back_trust"
    path: str


class SendToBackground(Record):
    """Move running subagents to the background. Takes effect at once.

    Their calls get a result immediately, and their answers arrive later as messages from the program.
    """

    type: Literal["send_to_background"] = "send_to_background"
    call_id: str = ""
    """Id of the `task` call. If empty, all running subagents are moved."""


class SwitchApprovals(Record):
    """Set this session's approval mode.

    Takes effect at once.
    """

    type: Literal["switch_approvals"] = "switch_approvals"
    mode: ApprovalMode


Operation = Annotated[
    RunAgent
    | Retry
    | RunShell
    | CompactSession
    | HoldCommit
    | ReviseProposal
    | RedraftProposal
    | ApplyProposal
    | DiscardProposal
    | UndoCompaction
    | Rewind
    | EditView
    | LoadSkill
    | ReviewPlan
    | SetGoal
    | ClearView
    | SwitchModel
    | SwitchStrategy
    | Interrupt
    | Approve
    | Revoke
    | TakeBackTrust
    | SwitchApprovals
    | SendToBackground
    | Choose,
    Field(discriminator="type"),
]
