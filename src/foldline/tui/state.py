"""What the chat shows, as one immutable value. Plain dataclasses: the first paint pays for nothing else."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from foldline.protocol import ApprovalMode
    from foldline.protocol.events import ProposalReady, SubagentProgress
    from foldline.tui.keys.commands import SlashCommand

Reason = Literal["threshold", "overflow", "manual", "phase"]
Level = Literal["info", "warning", "error"]
Presence = Literal["whole", "part", "name", "none"]
"""How much of something the model still has: verbatim, changed or a part, only through a summary, nothing."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing runs."""


@dataclass(frozen=True, slots=True)
class Working:
    """A task runs and has not said what it is doing yet."""

    since: float
    awaits: tuple[str, ...] = ()
    """The tool servers it waits for."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A request that failed, and is retried automatically after a wait."""

    until: float
    """When it leaves."""
    sentence: str
    """What went wrong."""
    attempt: int
    attempts: int
    """0: as many as it takes."""


@dataclass(frozen=True, slots=True)
class Stepping:
    """A request is with the model."""

    since: float
    model: str = ""
    phase: Literal["waiting", "thinking", "writing"] = "waiting"
    read: int | None = None
    """How much of the prompt the server has read, in per cent; None where it does not say."""
    retry: bool = False
    """Whether this request is sent again after a compaction made room for it."""
    again: Retry | None = None
    """The wait before it leaves once more; over when its time is."""


@dataclass(frozen=True, slots=True)
class RunningTool:
    """A tool call runs."""

    since: float
    call_id: str
    name: str
    title: str


Activity = Idle | Working | Stepping | RunningTool


@dataclass(frozen=True, slots=True)
class Compacting:
    """The status layer above the activity while a compaction runs; taken off, what was below shows again."""

    since: float
    reason: Reason
    tokens_before: int
    expected_after: int | None = None
    entries: int = 0
    stage: Literal["plan", "draft", "verify", "commit"] = "plan"
    detail: str = ""
    """Why the rung before this one gave up, as a sentence."""
    drafted: int = 0
    """Tokens of the draft so far."""
    rung: str = "strategy"
    """The rung of the failure ladder that works."""
    again: Retry | None = None
    """The wait before a request for the draft leaves once more; over when its time is."""


@dataclass(frozen=True, slots=True)
class DraftedAhead:
    """The draft of the next compaction, made beside what runs. Sizes in tokens."""

    since: float
    ready: bool = False
    drafted: int = 0
    """Of the draft so far."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Of the view it was begun for, without it and with it; known once it is ready."""


@dataclass(frozen=True, slots=True)
class Answerable:
    """One answer to a question: the letter that gives it, and what it means."""

    key: str
    label: str
    asks: Literal["", "line", "edit"] = ""
    """What is written with it: a line, which the last answer may ask for; or another text of the question."""
    usual: str | None = None
    """As of an `Option`."""
    agrees: bool = False
    """As of an `Option`: it counts once all of the question was on the screen."""


ONCE = (
    Answerable("y", "Allow once", agrees=True),
    Answerable("n", "No, and say why", "line"),
)
"""The answers to a tool call that asks each time."""
APPROVAL = (
    ONCE[0],
    Answerable("a", "Always in this session", agrees=True),
    Answerable("p", "Always in this project", agrees=True),
    ONCE[1],
)
"""The answers to a tool call that asks, if calls like it may be allowed with it."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that waits for the user's word: a tool call, or a choice that only they can make."""

    id: str
    """The call's, or the choice's."""
    name: str
    """The tool; of a choice what it is about."""
    title: str
    """What the call would do, in one line; of a choice what one should know, in any number of them."""
    diff: str | None
    since: float
    options: tuple[Answerable, ...] = APPROVAL
    kind: Literal["call", "choice"] = "call"
    who: str = ""
    """The subagent whose call it is; empty: the agent's own."""
    promises: tuple[str, ...] = ()
    """What "always" may stand for, one of them at a time."""
    outside: bool = False
    """Whether the call reaches out of the working folder: then each such call asks."""
    is_markdown: bool = False
    """Whether `title` is Markdown."""
    opened_by_user: bool = False
    """Whether the user opened it: it takes an answer as soon as it is on the screen."""

    @property
    def asks_agreement(self) -> bool:
        """Whether an answer agrees to all that the question shows."""
        return any(option.agrees for option in self.options)

    @property
    def sentence(self) -> str:
        """What is asked, in a few words."""
        if self.kind == "choice":
            return self.name
        noun = self.name if self.name in ("edit", "fetch", "read", "write") else f"{self.name} call"
        return f"Allow this {noun} of subagent “{self.who}”?" if self.who else f"Allow this {noun}?"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Prompts not sent yet: one held until a compaction is done, the others in order. Paused: Enter sends
    them."""

    held: str | None = None
    queued: tuple[str, ...] = ()
    paused: bool = False
    unsent: str = ""
    """Why the prompt that came back was not sent, and what Enter does now."""
    awaits: str = ""
    """What the first of them waits for, where nothing runs yet."""

    @property
    def count(self) -> int:
        return len(self.queued) + (self.held is not None)


@dataclass(frozen=True, slots=True)
class News:
    """One passing sentence for the status row."""

    text: str
    level: Level
    since: float


@dataclass(frozen=True, slots=True)
class Weights:
    """The view by category, in tokens, oldest first."""

    system: int = 0
    """System prompt, tools and instruction files."""
    summaries: int = 0
    """Summaries and pins."""
    compacting: int = 0
    """What a compaction that is being made or looked at would take away."""
    verbatim: int = 0

    @property
    def total(self) -> int:
        return self.system + self.summaries + self.compacting + self.verbatim


@dataclass(frozen=True, slots=True)
class Room:
    """The context window and what fills it, in tokens."""

    size: int = 0
    """Size of the next request as decisions use it."""
    window: int = 0
    """0 where nothing is known yet."""
    soft: int | None = None
    threshold: int | None = None
    cut: int | None = None
    """Where in the view, in tokens from its start, a compaction would cut now."""
    weights: Weights = Weights()
    assumed: bool = False
    """Whether nobody has said how large the window is."""
    estimated: bool = False
    """Whether the server reported no size of a request like the next one."""

    @property
    def past_soft(self) -> bool:
        return self.soft is not None and self.size >= self.soft

    @property
    def past_threshold(self) -> bool:
        return self.threshold is not None and self.size >= self.threshold


IDLE_BEFORE = 60.0
"""Seconds before the end of a cache at which it is compacted, or offered: enough for a draft."""


@dataclass(frozen=True, slots=True)
class CacheEnds:
    """When the provider's cache ends, and what the next request comes to then. Sizes in tokens, costs in
    dollars where they are known."""

    at: float
    tokens: int
    dollars: float | None = None
    compacted: int = 0
    """The next request, compacted first; 0 where that would not be cheaper."""
    compacted_dollars: float | None = None
    idle: str = "off"
    """What is to be done before the end: `compaction.idle`, where it pays."""

    @property
    def offered_at(self) -> float:
        """From when on something is said of it."""
        return self.at - IDLE_BEFORE if self.idle == "ask" else self.at


@dataclass(frozen=True, slots=True)
class Tab:
    """One of several open sessions."""

    title: str
    state: Literal["", "waits for you", "compacting", "working", "failed", "finished"]
    """What it does, or how it ended since it was seen."""
    shown: bool


@dataclass(frozen=True, slots=True)
class ChatState:
    """Everything the widgets around the transcript show."""

    workdir: str = ""
    """Name of the working directory."""
    title: str = ""
    model: str = ""
    edits: "ApprovalMode" = "ask"
    sandbox_holds: bool | None = None
    """Whether this machine holds all that the modes with a sandbox promise; None until that was tried."""
    compaction_mode: str = "auto"
    tabs: tuple[Tab, ...] = ()
    """The open sessions, where there are several."""
    git: str = ""
    """Branch and number of changed files, such as `main ±3`; empty where there is no repository."""

    task: str | None = None
    """Id of the running task."""
    activity: Activity = Idle()
    tools: tuple[RunningTool, ...] = ()
    """Tool calls that run, oldest first."""
    compacting: Compacting | None = None
    ahead: DraftedAhead | None = None
    cancelling: bool = False
    proposal: "ProposalReady | None" = None
    """The compaction that is drafted and waits for the user."""
    questions: tuple[Question, ...] = ()
    subagents: "tuple[SubagentProgress, ...]" = ()
    """Those that run, in the order they began."""
    waiting: Waiting = Waiting()
    news: News | None = None

    own_commands: "tuple[SlashCommand, ...]" = ()
    """Skills and commands that lie on disk."""
    room: Room = Room()
    cache: CacheEnds | None = None
    """Known at rest only; None where no provider says when its cache ends."""
    unanswered: bool = False
    """Whether the last turn broke off, so that it can be gone on with."""
    undo_adds: int | None = None
    """Tokens that undoing the newest compaction would bring back; None where there is none to undo."""
    cached: int | None = None
    """Input tokens of the last request that came from the provider's cache."""

    @property
    def busy(self) -> bool:
        """Whether anything runs that Esc would cancel."""
        return self.compacting is not None or not isinstance(self.activity, Idle)

    @property
    def drafting_ahead(self) -> bool:
        return self.ahead is not None and not self.ahead.ready

    @property
    def awaited(self) -> "tuple[SubagentProgress, ...]":
        """The subagents that the agent waits for: they can be sent to the background."""
        return tuple(each for each in self.subagents if each.state != "background")

    def retry_at(self, now: float) -> Retry | None:
        """The retry that is waited for at this moment."""
        layer = self.compacting or self.activity
        again = layer.again if isinstance(layer, Compacting | Stepping) else None
        return again if again is not None and now < again.until else None

    @property
    def doing(self) -> str:
        """What the agent does just now, in a few words; empty where nothing runs."""
        if self.question is not None:
            return "a question waits in the chat"
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
        """Whether the open question is a choice and no tool call."""
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
    """`101.3k → 26.1k`."""
    at: str
    """Time of day, `13:20`."""
    undone: bool = False
    written: bool = True
    """Whether a summary stands for what it took; else it hid, clipped or left out."""


@dataclass(frozen=True, slots=True)
class SidebarData:
    """What stands beside the transcript."""

    modified: tuple[FileRow, ...] = ()
    read: tuple[FileRow, ...] = ()
    pinned: tuple[PinRow, ...] = ()
    compactions: tuple[CompactionRow, ...] = ()
    older_modified: int = 0
    """Files beside the newest ones, which are listed."""
    older_read: int = 0


RUNGS = {
    "chunks": "in chunks",
    "hide": "old results hidden",
    "clip": "large results clipped",
    "digest": "digest without a model",
    "truncate": "oldest turns left out",
}
"""The rungs of the failure ladder in words; `foldline.compaction` is too slow for the first paint."""


def rung_words(rung: str) -> str:
    """How a compaction was made; empty where the strategy itself made it."""
    return "" if rung == "strategy" else RUNGS.get(rung, rung)


def reason_words(reason: str) -> str:
    """Why a compaction was made, as screens say it."""
    return "end of task" if reason == "phase" else reason
