"""Operations: what an interface asks the executor to do."""

from typing import Annotated, Literal

from pydantic import Field

from .entries import ApprovalMode, ApprovalScope, Cause, EditAction, Reason, Rule
from .messages import Part, Record


class RunAgent(Record):
    """Append the prompt and run the turn it begins."""

    type: Literal["run_agent"] = "run_agent"
    parts: tuple[Part, ...]
    max_steps: int | None = None
    """Requests the turn may take; the calls of the last one still run. None: as many as it needs."""


class Retry(Record):
    """Continue the turn that failed or was stopped: its step once more, without a new prompt."""

    type: Literal["retry"] = "retry"


class RunShell(Record):
    """Run a command of the user's own, without asking, and put it and its output into the history."""

    type: Literal["run_shell"] = "run_shell"
    command: str
    aside: bool = False
    """Whether the model is not to see it, unless the user restores the entry."""


class CompactSession(Record):
    """Compact now. With `preview` the finished proposal waits for its reader instead of being committed."""

    type: Literal["compact_session"] = "compact_session"
    reason: Reason
    cause: Cause = ""
    focus: str | None = None
    will_retry: bool = False
    preview: bool = False
    pending: int = 0
    """Estimated tokens, before calibration, of the prompt that waits for this compaction."""


class HoldCommit(Record):
    """The user looks at the draft of a compaction: its commit waits for the decision. Acts at once."""

    type: Literal["hold_commit"] = "hold_commit"


LedgerChange = Literal["drop", "pin", "unpin"]


class ReviseProposal(Record):
    """Change the proposal that waits, without a model call. What is None stays. Acts at once."""

    type: Literal["revise_proposal"] = "revise_proposal"
    proposal: str
    notes: str | None = None
    """The text of the summary, without the lists that are appended from the history."""
    pins: tuple[int, ...] | None = None
    """All entries to pin with it; a tool group counts as one."""
    first_kept_index: int | None = None
    """Where to cut instead. The draft is stale until it is drafted again."""
    focus: str | None = None
    """What the next draft should dwell on; makes this one stale."""
    ledger: dict[str, LedgerChange] | None = None
    """What becomes of lines of the ledger, by their ids: left out, kept by later compactions, too, or not."""


class RedraftProposal(Record):
    """Draft the waiting proposal again, for its cut and focus, with a word on what to do better."""

    type: Literal["redraft_proposal"] = "redraft_proposal"
    proposal: str
    guidance: str | None = None


class ApplyProposal(Record):
    """Commit exactly the proposal of this identity."""

    type: Literal["apply_proposal"] = "apply_proposal"
    proposal: str


class DiscardProposal(Record):
    """Throw the proposal away. Acts at once."""

    type: Literal["discard_proposal"] = "discard_proposal"
    proposal: str


class Choose(Record):
    """The answer to a `ChoiceRequested`."""

    type: Literal["choose"] = "choose"
    choice: str
    key: str
    text: str = ""
    """What was written with it, where the option asks for that."""


class UndoCompaction(Record):
    """Take back a change of the view; none named, the newest compaction, clear or rewind in force."""

    type: Literal["undo_compaction"] = "undo_compaction"
    target: int | None = None


class Rewind(Record):
    """Go back to a checkpoint, or to a moment on any branch: context, files our tools changed, or both.
    Ends a running turn first."""

    type: Literal["rewind"] = "rewind"
    checkpoint: int = -1
    """Its id."""
    moment: int | None = None
    """In place of a checkpoint, the index of the entry that was the newest."""
    context: bool = True
    files: bool = False
    overwrite: tuple[str, ...] = ()
    """Files that somebody else has changed since, and that are to be put back all the same."""


class CopyAnswer(Record):
    """Put an answer of another branch into the view, as a message that says where it comes from."""

    type: Literal["copy_answer"] = "copy_answer"
    answer: int
    """Index of its entry."""


class EditView(Record):
    type: Literal["edit_view"] = "edit_view"
    target: int
    action: EditAction


class LoadSkill(Record):
    """Put the instructions of a skill into the view, or take them out."""

    type: Literal["load_skill"] = "load_skill"
    asked: str
    """Its name; behind `unload`, that of one to take out."""


class ReviewPlan(Record):
    """Ask the user about the plan that the model wrote last."""

    type: Literal["review_plan"] = "review_plan"


class SetGoal(Record):
    """Pin what the session is for, in place of what was pinned before; an empty text only drops that."""

    type: Literal["set_goal"] = "set_goal"
    text: str


class ClearView(Record):
    type: Literal["clear_view"] = "clear_view"


class SwitchModel(Record):
    type: Literal["switch_model"] = "switch_model"
    model: str


class SwitchStrategy(Record):
    """Compact in another way from now on."""

    type: Literal["switch_strategy"] = "switch_strategy"
    strategy: str
    """A short name, or `module:ClassName`."""


class Interrupt(Record):
    """Cancel the running task, whatever it is."""

    type: Literal["interrupt"] = "interrupt"


class Approve(Record):
    """The answer to an `ApprovalRequested`."""

    type: Literal["approve"] = "approve"
    call_id: str
    answer: Literal["once", "always", "project", "deny"]
    """`always` grants a rule for the session, `project` for all sessions of this folder."""
    nth: int = 0
    """Which of the rules that were offered it is about."""
    why: str = ""
    """With `deny`: why, and what instead, in the user's words for the model."""
    no_one_to_ask: bool = False
    """With `deny`: no person could be asked. The model reads this instead of a refusal by the user."""


class Revoke(Record):
    """Take back a rule: its like asks again. Acts at once."""

    type: Literal["revoke"] = "revoke"
    rule: Rule
    scope: ApprovalScope = "session"


class TakeBackTrust(Record):
    """Take back what was said of a file that the folder brings: the next prompt asks. Acts at once."""

    type: Literal["take_back_trust"] = "take_back_trust"
    path: str


class SendToBackground(Record):
    """Let subagents that run go on in the background: their calls have a result at once, and their answers
    come later, as machine text. Acts at once."""

    type: Literal["send_to_background"] = "send_to_background"
    call_id: str = ""
    """The call of `task` that is meant; empty for all of them."""


class SwitchApprovals(Record):
    """Another mode of approvals for this session. Acts at once."""

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
    | CopyAnswer
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
