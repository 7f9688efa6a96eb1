"""The state of the chat, as one immutable value.

The classes are plain dataclasses to keep the first paint fast.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from foldline.agent.project.discovery import Extension
    from foldline.protocol import ApprovalMode
    from foldline.protocol.events import ProposalReady, SubagentProgress

WAITING_FOR_ANSWER = "waiting for your answer in the chat"

Reason = Literal["threshold", "overflow", "manual", "phase"]
Level = Literal["info", "warning", "error"]
Presence = Literal["whole", "part", "name", "none"]
"""How much of an entry or file is in the model's context.

The values mean: verbatim, changed or cut, summarised, nothing.
"""


@dataclass(frozen=True, slots=True)
class Idle:
    """No task is running."""


@dataclass(frozen=True, slots=True)
class Working:
    """A task is running; its activity is not known yet."""

    since: float
    awaits: tuple[str, ...] = ()
    """Names of the tool servers that the task waits for."""


@dataclass(frozen=True, slots=True)
class RetryWait:
    """The wait before a failed request is retried."""

    until: float
    """Clock time at which the request is retried, in seconds."""
    sentence: str
    """The error that caused the retry."""
    attempt: int
    attempts: int
    """Maximum number of attempts; 0 if unlimited."""


@dataclass(frozen=True, slots=True)
class Stepping:
    """A request was sent, and its response is not yet complete."""

    since: float
    model: str = ""
    phase: Literal["waiting", "thinking", "writing"] = "waiting"
    read: int | None = None
    """Percentage of the prompt that the server has processed; None if unknown."""
    retry: bool = False
    """Whether the request is sent again after a compaction has made room for it."""
    again: RetryWait | None = None
    """The current wait for a retry."""


@dataclass(frozen=True, slots=True)
class RunningTool:
    """A running tool call."""

    since: float
    call_id: str
    name: str
    title: str


Activity = Idle | Working | Stepping | RunningTool


@dataclass(frozen=True, slots=True)
class Compacting:
    """A running compaction, shown in place of the activity."""

    since: float
    reason: Reason
    tokens_before: int
    expected_after: int | None = None
    entries: int = 0
    stage: Literal["plan", "draft", "verify", "commit"] = "plan"
    detail: str = ""
    """The error message of the previous rung."""
    drafted: int = 0
    """Size of the draft received so far, in tokens."""
    rung: str = "strategy"
    """The current rung of the failure ladder."""
    again: RetryWait | None = None
    """The wait before a request for the draft is retried."""


@dataclass(frozen=True, slots=True)
class DraftedAhead:
    """The background draft of the next compaction.

    Sizes are in tokens.
    """

    since: float
    ready: bool = False
    drafted: int = 0
    """Size of the draft received so far."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Sizes of the view before and after the compaction.

    They are known once the draft is ready.
    """


@dataclass(frozen=True, slots=True)
class Answerable:
    """One possible answer to a question, and its key."""

    key: str
    label: str
    asks: Literal["", "line", "edit"] = ""
    """The text to be entered with this answer, if any.

    Either one line (only for the last answer), or an edited version of the question's text.
    """
    agrees: bool = False
    """Whether the answer means agreement to the question's text.

    If so, it is accepted only after the whole text has been shown.
    """


ONCE = (
    Answerable("y", "Allow once", agrees=True),
    Answerable("n", "No, and say why", "line"),
)
"""The answers if a tool call must be approved each time."""
APPROVAL = (
    ONCE[0],
    Answerable("a", "Always in this session", agrees=True),
    Answerable("p", "Always in this project", agrees=True),
    ONCE[1],
)
"""The answers if the user can also allow similar calls."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the user.

    It asks for approval of a tool call, or for a choice.
    """

    id: str
    """Id of the call or choice."""
    name: str
    """Name of the tool, or subject of the choice."""
    title: str
    """Description of the call (one line) or of the choice (any number of lines)."""
    diff: str | None
    since: float
    options: tuple[Answerable, ...] = APPROVAL
    kind: Literal["call", "choice"] = "call"
    who: str = ""
    """Name of the calling subagent; empty for the main agent."""
    promises: tuple[str, ...] = ()
    """The rules that the answer "Always" can grant.

    It grants the one that is selected.
    """
    outside: bool = False
    """Whether the call accesses files outside the working folder.

    If so, it needs approval each time.
    """
    is_markdown: bool = False
    """Whether `title` is Markdown."""
    opened_by_user: bool = False
    """Whether the user opened the question.

    If so, keys answer it immediately.
    """

    @property
    def asks_agreement(self) -> bool:
        """Whether any answer means agreement to the whole text of the question."""
        return any(option.agrees for option in self.options)

    @property
    def sentence(self) -> str:
        """The question in a few words."""
        if self.kind == "choice":
            return self.name
        noun = (
            self.name
            if self.name in ("edit", "fetch", "read", "write")
            else f"{self.name} call"
        )
        return (
            f"Allow this {noun} by subagent “{self.who}”?"
            if self.who
            else f"Allow this {noun}?"
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """Prompts that have not been sent yet."""

    held: str | None = None
    """The prompt that a running compaction is making room for, if any."""
    queued: tuple[str, ...] = ()
    paused: bool = False
    """Whether the prompts wait for Enter."""
    unsent: str = ""
    """Why a prompt was returned to the editor, and how to send it."""
    awaits: str = ""
    """Why the first prompt waits although no task is running."""

    @property
    def count(self) -> int:
        return len(self.queued) + (self.held is not None)


@dataclass(frozen=True, slots=True)
class News:
    """A temporary message for the status row."""

    text: str
    level: Level
    since: float


@dataclass(frozen=True, slots=True)
class ViewWeights:
    """Size of each category in the view, in tokens.

    The categories are in view order.
    """

    system: int = 0
    """Size of the system prompt, tool schemas and instruction files."""
    summaries: int = 0
    """Size of the summaries and pinned entries."""
    compacting: int = 0
    """Size of the part that the compaction in progress or in the preview removes."""
    verbatim: int = 0

    @property
    def total(self) -> int:
        return self.system + self.summaries + self.compacting + self.verbatim


@dataclass(frozen=True, slots=True)
class ContextUse:
    """How much of the context window is used, in tokens."""

    size: int = 0
    """Size of the next request, as used for deciding when to compact."""
    window: int = 0
    """Size of the context window; 0 if not known yet."""
    soft: int | None = None
    threshold: int | None = None
    cut: int | None = None
    """Position of the next compaction's cut, in tokens from the start of the view."""
    weights: ViewWeights = ViewWeights()
    assumed: bool = False
    """Whether the size of the window is a guess."""
    estimated: bool = False
    """Whether `size` is an estimate, not a figure reported by the server."""

    @property
    def past_soft(self) -> bool:
        return self.soft is not None and self.size >= self.soft

    @property
    def past_threshold(self) -> bool:
        return self.threshold is not None and self.size >= self.threshold


@dataclass(frozen=True, slots=True)
class CacheEnds:
    """When the provider's cache expires, and the cost of the next request after that.

    Sizes are in tokens, costs in dollars if known.
    """

    at: float
    tokens: int
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class Tab:
    """One of several open sessions."""

    title: str
    state: Literal["", "waits for you", "compacting", "working", "failed", "finished"]
    """The session's activity, or how its last task ended.

    The end of a task is included only until the session is on the screen again.
    """
    shown: bool


@dataclass(frozen=True, slots=True)
class ChatState:
    """The data shown by all widgets around the transcript."""

    workdir: str = ""
    """Name of the working directory."""
    title: str = ""
    model: str = ""
    edits: "ApprovalMode" = "ask"
    sandbox_holds: bool | None = None
    """Whether the sandbox works on this machine; None until it has been tested."""
    compaction_mode: str = "auto"
    tabs: tuple[Tab, ...] = ()
    """The open sessions, if there are several."""
    git: str = ""
    """Branch and number of changed files, such as `main ±3`; empty without a repository."""

    task: str | None = None
    """Id of the running task."""
    activity: Activity = Idle()
    tools: tuple[RunningTool, ...] = ()
    """Running tool calls, oldest first."""
    compacting: Compacting | None = None
    ahead: DraftedAhead | None = None
    cancelling: bool = False
    proposal: "ProposalReady | None" = None
    """The drafted compaction that the user has to decide on."""
    questions: tuple[Question, ...] = ()
    subagents: "tuple[SubagentProgress, ...]" = ()
    """Running subagents, in the order of their start."""
    waiting: Waiting = Waiting()
    news: News | None = None

    own_commands: "tuple[Extension, ...]" = ()
    """Skills and command files of the user."""
    room: ContextUse = ContextUse()
    cache: CacheEnds | None = None
    """When the cache expires.

    None while a task runs, or if the provider does not document the lifetime.
    """
    unanswered: bool = False
    """Whether the last turn was interrupted and can be continued."""
    undo_adds: int | None = None
    """Tokens that undoing the newest compaction would restore.

    None if there is no compaction to undo.
    """
    cached: int | None = None
    """Input tokens of the last request that came from the provider's cache."""

    @property
    def busy(self) -> bool:
        """Whether anything is running that Esc can cancel."""
        return self.compacting is not None or not isinstance(self.activity, Idle)

    @property
    def drafting_ahead(self) -> bool:
        return self.ahead is not None and not self.ahead.ready

    @property
    def awaited(self) -> "tuple[SubagentProgress, ...]":
        """Subagents in the foreground, which can be sent to the background."""
        return tuple(child for child in self.subagents if child.state != "background")

    def retry_at(self, now: float) -> RetryWait | None:
        """Return the retry that is pending now, if any."""
        layer = self.compacting or self.activity
        if (
            isinstance(layer, Compacting | Stepping)
            and layer.again is not None
            and now < layer.again.until
        ):
            return layer.again
        return None

    @property
    def doing(self) -> str:
        """The agent's activity in a few words; empty if the agent is idle."""
        if self.question is not None:
            return WAITING_FOR_ANSWER
        if self.compacting is not None:
            return "compacting"
        match self.activity:
            case Idle():
                return ""
            case Working():
                return "working"
            case Stepping():
                return "request in flight"
            case RunningTool():
                return f"running {self.activity.name}"

    @property
    def question(self) -> Question | None:
        return self.questions[0] if self.questions else None

    @property
    def asks_choice(self) -> bool:
        """Whether the open question is a choice, not a tool call."""
        return self.question is not None and self.question.kind == "choice"


@dataclass(frozen=True, slots=True)
class FileRow:
    path: str
    presence: Presence
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class PinRow:
    index: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CompactionRow:
    index: int
    sizes: str
    """Sizes of the view before and after: `101.3k → 26.1k`."""
    at: str
    """Time of day: `13:20`."""
    undone: bool = False
    written: bool = True
    """Whether the compaction wrote a summary. Otherwise it hid, clipped or dropped entries."""


@dataclass(frozen=True, slots=True)
class SidebarData:
    """Content of the sidebar."""

    modified: tuple[FileRow, ...] = ()
    read: tuple[FileRow, ...] = ()
    pinned: tuple[PinRow, ...] = ()
    compactions: tuple[CompactionRow, ...] = ()
    older_modified: int = 0
    """Number of older files that the list leaves out."""
    older_read: int = 0


RUNGS = {
    "chunks": "in chunks",
    "hide": "old results hidden",
    "clip": "large results clipped",
    "digest": "digest without a model",
    "truncate": "oldest turns left out",
}
"""Names of the rungs of the failure ladder.

Copied from `foldline.compaction`, because importing it would delay the first paint.
"""


def rung_words(rung: str) -> str:
    """Return the name of the rung that made a compaction.

    Returns an empty string if the strategy itself made the compaction.
    """
    return "" if rung == "strategy" else RUNGS.get(rung, rung)


def reason_words(reason: str) -> str:
    """Return the name of the reason for a compaction."""
    return "end of task" if reason == "phase" else reason
