"""Events: the executor's reports to a user interface.

Events only report; they never contain decisions.
"""

from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from .entries import Reason, Rule
from .messages import Entry, Record, Usage


class TaskStarted(Record):
    """An operation has started."""

    type: Literal["task_started"] = "task_started"
    task: str
    operation: str
    """The operation's `type`."""


class TaskFinished(Record):
    """An operation has finished."""

    type: Literal["task_finished"] = "task_finished"
    task: str
    operation: str
    outcome: Literal["done", "cancelled", "failed"]
    error: str | None = None


class ServersAwaited(Record):
    """A turn waits a few seconds for tool servers to start."""

    type: Literal["servers_awaited"] = "servers_awaited"
    servers: tuple[str, ...]


class ToolsListed(Record):
    """A tool server has changed the tools that it offers.

    Requests include the new tools starting with the next turn.
    """

    type: Literal["tools_listed"] = "tools_listed"


class SandboxKnown(Record):
    """Result of testing the sandbox on this machine."""

    type: Literal["sandbox_known"] = "sandbox_known"
    holds: bool
    """Whether the sandbox enforces everything that the sandboxed modes promise."""


class WindowLearned(Record):
    """The server has stated the size of the model's window."""

    type: Literal["window_learned"] = "window_learned"


class StepStarted(Record):
    """A request to the model is about to be sent."""

    type: Literal["step_started"] = "step_started"
    model: str
    tokens: int
    """Size of the request, in calibrated tokens."""


class Retrying(Record):
    """A request failed for a temporary reason, and will be sent again after a wait.

    The partial answer is discarded. This event is also sent for requests that draft a compaction.
    """

    type: Literal["retrying"] = "retrying"
    sentence: str
    """Reason for the failure, as a sentence."""
    seconds: float
    """Length of the wait, in seconds."""
    attempt: int
    """Number of the next retry, counted from 1."""
    attempts: int
    """Maximum number of retries; 0 means unlimited."""

    def __str__(self) -> str:
        """Return the message for the user."""
        if not self.attempts:
            return self.sentence
        wait = f"{self.seconds:.0f} s ({self.attempt} of {self.attempts})"
        return f"{self.sentence} Trying again in {wait}."


class PromptReading(Record):
    """The server's progress in reading the prompt, in tokens.

    Few servers report this.
    """

    type: Literal["prompt_reading"] = "prompt_reading"
    read: int
    total: int


class TextDelta(Record):
    """The next piece of an answer."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class ThinkingDelta(Record):
    """The next piece of the model's reasoning text."""

    type: Literal["thinking_delta"] = "thinking_delta"
    text: str


class ToolStarted(Record):
    """A tool call begins to run."""

    type: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str
    title: str
    """One-line description of the call, such as the command or the path."""


class ToolOutput(Record):
    """The next piece of a running call's output."""

    type: Literal["tool_output"] = "tool_output"
    call_id: str
    text: str


class ToolFinished(Record):
    """A tool call has finished."""

    type: Literal["tool_finished"] = "tool_finished"
    call_id: str
    name: str
    is_error: bool
    brief: str


class ApprovalRequested(Record):
    """A tool call needs approval.

    The user answers with the operation `Approve`.
    """

    type: Literal["approval_requested"] = "approval_requested"
    call_id: str
    name: str
    title: str
    diff: str | None = None
    """Unified diff, if the call would edit or write a file."""
    rules: tuple[Rule, ...] = ()
    """Rules that the user can grant, the default first.

    Empty if such calls always require approval.
    """
    also: tuple[Rule, ...] = ()
    """Rules that are granted together with the first one.

    This is used for a line of several commands, which needs all of these rules.
    """
    inside: bool = True
    """Whether the call is known to affect only the working folder."""
    who: str = ""
    """The subagent that made the call; empty for this session's own agent.

    For a subagent, `call_id` has the form `CHILD/CALL`: the id of its session, and the call's own id.
    """


class ApprovalResolved(Record):
    """A tool call is no longer waiting for approval."""

    type: Literal["approval_resolved"] = "approval_resolved"
    call_id: str
    allowed: bool


SubagentState = Literal[
    "running", "waiting", "background", "done", "failed", "cancelled"
]


class SubagentProgress(Record):
    """Progress of a subagent.

    Sent at most a few times per second, and once when the subagent finishes.
    """

    type: Literal["subagent_progress"] = "subagent_progress"
    call_id: str
    """Id of the `task` call that the subagent works on."""
    child: str
    """Id of the subagent's session."""
    agent: str
    title: str
    """First line of the subagent's task."""
    state: SubagentState
    """`waiting`: one of its calls needs approval. `background`: it runs while the main agent continues."""
    steps: int = 0
    """Number of requests made so far."""
    tokens: int = 0
    """Number of tokens in these requests.

    This is an estimate if the server does not report usage.
    """
    doing: str = ""
    """One-line description of the call that is running."""


class CompactionStart(Record):
    """A compaction has started."""

    type: Literal["compaction_start"] = "compaction_start"
    reason: Reason
    tokens_before: int
    expected_after: int | None = None
    """Expected size of the view after the compaction, in tokens."""
    entries: int = 0
    """Number of entries that will be compacted."""


class CompactionProgress(Record):
    """Progress of a compaction."""

    type: Literal["compaction_progress"] = "compaction_progress"
    stage: Literal["plan", "draft", "verify", "commit"]
    rung: str = "strategy"
    """The fallback ladder's active rung: `strategy` until the strategy fails."""
    detail: str = ""
    """Reason for the previous rung's failure, as a sentence."""
    delta: str = ""
    """Next piece of the draft that the model is writing."""
    drafted_tokens: int = 0


class CompactionEnd(Record):
    """A compaction has ended: committed, proposed, failed or aborted."""

    type: Literal["compaction_end"] = "compaction_end"
    reason: Reason
    aborted: bool = False
    will_retry: bool = False
    tokens_before: int = 0
    tokens_after: int = 0
    kept_from_index: int | None = None
    index: int | None = None
    """Index of the compaction entry; None if nothing was committed."""
    compacted: int = 0
    rung: str = "strategy"
    summary: str = ""
    error: str | None = None
    nothing: bool = False
    """Whether there was nothing to compact."""
    proposed: bool = False
    """Whether the result is a pending proposal, which has not changed anything yet."""


class DraftAhead(Record):
    """State of the background draft for the next compaction."""

    type: Literal["draft_ahead"] = "draft_ahead"
    state: Literal["drafting", "ready", "gone"]
    """`gone`: a compaction has used the draft, the view has changed, or drafting failed."""
    drafted_tokens: int = 0
    tokens_before: int = 0
    """Size of the view when drafting began, in tokens, for a finished draft."""
    tokens_after: int = 0
    """Size of the same view after the compaction, in tokens, for a finished draft."""


class ProposalReady(Record):
    """A compaction is proposed, or the pending proposal was revised.

    The view has not changed yet.
    """

    type: Literal["proposal_ready"] = "proposal_ready"
    proposal: str
    """Id of the proposal.

    `ApplyProposal` contains this id, and applies exactly this version.
    """
    reason: Reason
    state: Literal["current", "edited", "stale"] = "current"
    """`stale`: the cut was moved after drafting.

    A stale proposal must be redrafted before it is applied.
    """
    waits: bool = False
    """Whether a running task is waiting for the decision."""
    tokens_before: int = 0
    tokens_after: int = 0
    compacted: int = 0
    kept: int = 0
    summary: str = ""
    facts: int = 0
    """Number of facts found in the part that would be compacted."""
    lost: int = 0
    """Number of facts that the new view would not contain."""


class ProposalClosed(Record):
    """The pending proposal was applied or discarded."""

    type: Literal["proposal_closed"] = "proposal_closed"
    proposal: str
    applied: bool


class Option(Record):
    """One option of a choice."""

    key: str
    """The key to press, a single letter."""
    label: str
    asks: Literal["", "line", "edit"] = ""
    """Text to enter with the option.

    `line`: a line of text (last option only). `edit`: the edited detail.
    """
    agrees: bool = False
    """Whether choosing the option means agreeing to `detail`.

    It can be chosen only after the entire detail has been shown.
    """


class ChoiceRequested(Record):
    """The user must make a decision.

    The user answers with the operation `Choose`.
    """

    type: Literal["choice_requested"] = "choice_requested"
    choice: str
    """Id of the choice."""
    title: str
    detail: str = ""
    """Additional lines, such as the largest items, or text that the user must accept."""
    options: tuple[Option, ...]
    is_markdown: bool = False
    """Whether `detail` is Markdown."""
    opened_by_user: bool = False
    """Whether the user opened the choice with a command.

    If so, the choice accepts keys at once, because it does not interrupt the user.
    """


class ChoiceResolved(Record):
    """A choice was made, or was closed without an answer."""

    type: Literal["choice_resolved"] = "choice_resolved"
    choice: str
    key: str
    """Key of the chosen option; empty if there was no answer."""


class UsageReported(Record):
    """Usage of a request, as reported by its provider."""

    type: Literal["usage"] = "usage"
    model: str
    usage: Usage


class EntryAppended(Record):
    """An entry was appended, both on disk and in the projection."""

    type: Literal["entry_appended"] = "entry_appended"
    entry: SerializeAsAny[Entry]


class QueueChanged(Record):
    """The queue of prompts has changed."""

    type: Literal["queue_changed"] = "queue_changed"
    held: str | None = None
    """The prompt that waits until a compaction has made space for it."""
    queued: tuple[str, ...] = ()
    paused: bool = False
    unsent: str = ""
    """Why a prompt was returned instead of sent, and what Enter does now.

    Empty as soon as the user has acted.
    """
    awaits: str = ""
    """What the first prompt in the queue is waiting for, if anything."""


class Notice(Record):
    """A message to the user that is not recorded in the history."""

    type: Literal["notice"] = "notice"
    text: str
    level: Literal["info", "warning", "error"] = "info"


Event = Annotated[
    TaskStarted
    | TaskFinished
    | ServersAwaited
    | SandboxKnown
    | ToolsListed
    | WindowLearned
    | StepStarted
    | Retrying
    | PromptReading
    | TextDelta
    | ThinkingDelta
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | ApprovalRequested
    | ApprovalResolved
    | SubagentProgress
    | CompactionStart
    | CompactionProgress
    | CompactionEnd
    | DraftAhead
    | ProposalReady
    | ProposalClosed
    | ChoiceRequested
    | ChoiceResolved
    | UsageReported
    | EntryAppended
    | QueueChanged
    | Notice,
    Field(discriminator="type"),
]
