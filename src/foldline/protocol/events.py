"""Events: what the executor reports. Enough to drive any interface; none of them carries a decision."""

from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from .entries import Reason, Rule
from .messages import Entry, Record, Usage


class TaskStarted(Record):
    type: Literal["task_started"] = "task_started"
    task: str
    operation: str
    """The operation's `type`."""


class TaskFinished(Record):
    type: Literal["task_finished"] = "task_finished"
    task: str
    operation: str
    outcome: Literal["done", "cancelled", "failed"]
    error: str | None = None


class ServersAwaited(Record):
    """A turn waits, for a few seconds at most, for tool servers that are starting."""

    type: Literal["servers_awaited"] = "servers_awaited"
    servers: tuple[str, ...]


class ToolsListed(Record):
    """A tool server offers other tools than before. They go with requests from the next turn on."""

    type: Literal["tools_listed"] = "tools_listed"


class SandboxKnown(Record):
    """What the sandbox of this machine is worth, once it was tried."""

    type: Literal["sandbox_known"] = "sandbox_known"
    holds: bool
    """Whether all is held that the modes with a sandbox promise."""


class WindowLearned(Record):
    """The server has reported the size of the model's window."""

    type: Literal["window_learned"] = "window_learned"


class StepStarted(Record):
    """A request leaves for the model."""

    type: Literal["step_started"] = "step_started"
    model: str
    tokens: int
    """Size of the request as decisions use it."""


class Retrying(Record):
    """A request, or that of a draft, failed in a way that may pass, and leaves again after a wait. Nothing
    heard of it so far counts."""

    type: Literal["retrying"] = "retrying"
    sentence: str
    """What went wrong."""
    seconds: float
    """How long the wait is."""
    attempt: int
    """Which retry comes after it, counted from 1."""
    attempts: int
    """How many there are at most; 0: as many as it takes."""

    def __str__(self) -> str:
        """All of it for people."""
        if not self.attempts:
            return self.sentence
        wait = f"{self.seconds:.0f} s ({self.attempt} of {self.attempts})"
        return f"{self.sentence} Trying again in {wait}."


class PromptReading(Record):
    """How far the server is that reads the prompt, in tokens. Few say it."""

    type: Literal["prompt_reading"] = "prompt_reading"
    read: int
    total: int


class TextDelta(Record):
    type: Literal["text_delta"] = "text_delta"
    text: str


class ThinkingDelta(Record):
    type: Literal["thinking_delta"] = "thinking_delta"
    text: str


class ToolStarted(Record):
    type: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str
    title: str
    """The call in one line: the command, or the path."""


class ToolOutput(Record):
    type: Literal["tool_output"] = "tool_output"
    call_id: str
    text: str


class ToolFinished(Record):
    type: Literal["tool_finished"] = "tool_finished"
    call_id: str
    name: str
    is_error: bool
    brief: str


class ApprovalRequested(Record):
    """A tool call waits for the user. Answered by the operation `Approve`."""

    type: Literal["approval_requested"] = "approval_requested"
    call_id: str
    name: str
    title: str
    diff: str | None = None
    """What an edit or write would change, as a unified diff."""
    rules: tuple[Rule, ...] = ()
    """What an "always" may grant, the first by itself; none where each such call asks."""
    also: tuple[Rule, ...] = ()
    """What is granted with the first of these: a line of several commands needs a rule for each."""
    inside: bool = True
    """Whether it stays in the working folder, as far as it is known."""
    who: str = ""
    """The subagent that calls; empty for the agent of this session. The `call_id` names both its session and
    the call, as `CHILD/CALL`."""


class ApprovalResolved(Record):
    type: Literal["approval_resolved"] = "approval_resolved"
    call_id: str
    allowed: bool


SubagentState = Literal["running", "waiting", "background", "done", "failed", "cancelled"]


class SubagentProgress(Record):
    """How far a subagent is. A few a second at most, and one at its end."""

    type: Literal["subagent_progress"] = "subagent_progress"
    call_id: str
    """The call of `task` that it works for."""
    child: str
    """Id of its session."""
    agent: str
    title: str
    """The first line of its task."""
    state: SubagentState
    """`waiting`: for the user to allow a call. `background`: it runs while the agent goes on."""
    steps: int = 0
    """Requests so far."""
    tokens: int = 0
    """What these came to, as reported; estimated where the server reports nothing."""
    doing: str = ""
    """The call that runs, on one line."""


class CompactionStart(Record):
    type: Literal["compaction_start"] = "compaction_start"
    reason: Reason
    tokens_before: int
    expected_after: int | None = None
    """The plan's estimate of the view after it, in tokens."""
    entries: int = 0
    """How many entries will be compacted."""


class CompactionProgress(Record):
    type: Literal["compaction_progress"] = "compaction_progress"
    stage: Literal["plan", "draft", "verify", "commit"]
    rung: str = "strategy"
    """Which rung of the failure ladder works: `strategy` until it fails."""
    detail: str = ""
    """Why the rung before it gave up, as a sentence."""
    delta: str = ""
    """The next piece of the draft as the model writes it."""
    drafted_tokens: int = 0


class CompactionEnd(Record):
    type: Literal["compaction_end"] = "compaction_end"
    reason: Reason
    aborted: bool = False
    will_retry: bool = False
    tokens_before: int = 0
    tokens_after: int = 0
    kept_from_index: int | None = None
    index: int | None = None
    """Index of the compaction entry; none where nothing was committed."""
    compacted: int = 0
    rung: str = "strategy"
    summary: str = ""
    error: str | None = None
    nothing: bool = False
    """There was nothing to compact."""
    proposed: bool = False
    """It was drafted, and waits as a proposal: nothing has changed yet."""


class DraftAhead(Record):
    """The draft of the next compaction, begun before the window is full. It changes nothing."""

    type: Literal["draft_ahead"] = "draft_ahead"
    state: Literal["drafting", "ready", "gone"]
    """gone: a compaction has taken it over, the view has changed, or nothing came of it."""
    drafted_tokens: int = 0
    tokens_before: int = 0
    """Of a draft that is ready: size of the view when it was begun."""
    tokens_after: int = 0
    """And with it, as far as the view went then."""


class ProposalReady(Record):
    """A compaction is drafted and waits, or the one that waits was revised. Nothing has changed yet."""

    type: Literal["proposal_ready"] = "proposal_ready"
    proposal: str
    """Its identity: `ApplyProposal` names it, and applies exactly this one."""
    reason: Reason
    state: Literal["current", "edited", "stale"] = "current"
    """`stale`: the cut was moved since it was drafted. It cannot be applied before it is drafted again."""
    waits: bool = False
    """Whether something that runs waits for the decision."""
    tokens_before: int = 0
    tokens_after: int = 0
    compacted: int = 0
    kept: int = 0
    summary: str = ""
    facts: int = 0
    """Facts found in what would be compacted."""
    lost: int = 0
    """Those of them that the view would no longer hold."""


class ProposalClosed(Record):
    type: Literal["proposal_closed"] = "proposal_closed"
    proposal: str
    applied: bool


class Option(Record):
    """One answer to a choice."""

    key: str
    """One letter."""
    label: str
    asks: Literal["", "line", "edit"] = ""
    """What is written with it: a line, which only the last option may ask for; or another text as detail."""
    usual: str | None = None
    """What stands in the line at first, where this is the answer that is likely meant."""
    agrees: bool = False
    """Whether it agrees to what `detail` says: it counts once all of that was shown."""


class ChoiceRequested(Record):
    """Something only the user can decide. Answered by the operation `Choose`."""

    type: Literal["choice_requested"] = "choice_requested"
    choice: str
    """Its identity."""
    title: str
    detail: str = ""
    """More lines, such as the largest items, or what one agrees to."""
    options: tuple[Option, ...]
    is_markdown: bool = False
    """Whether `detail` is Markdown."""
    opened_by_user: bool = False
    """Whether the user opened it with a command: it interrupts nothing, so it takes an answer at once."""


class ChoiceResolved(Record):
    type: Literal["choice_resolved"] = "choice_resolved"
    choice: str
    key: str
    """The option taken; empty where the question went away unanswered."""


class UsageReported(Record):
    type: Literal["usage"] = "usage"
    model: str
    usage: Usage


class EntryAppended(Record):
    """An entry is on disk and in the projection."""

    type: Literal["entry_appended"] = "entry_appended"
    entry: SerializeAsAny[Entry]


class QueueChanged(Record):
    type: Literal["queue_changed"] = "queue_changed"
    held: str | None = None
    queued: tuple[str, ...] = ()
    paused: bool = False
    unsent: str = ""
    """Why the prompt that came back was not sent, and what Enter does now; empty once the user has acted."""
    awaits: str = ""
    """What the first of them waits for, before it is sent."""


class Notice(Record):
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
