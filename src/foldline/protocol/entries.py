"""Entries: the records of a history. Messages, and the markers that change or annotate the view."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from .messages import AnyMessage, Count, Entry, Message, Moment, Record, Usage

Reason = Literal["threshold", "overflow", "manual", "phase"]
Cause = Literal["", "asked", "cache", "model", "price"]
"""What was behind the reason of a compaction: the user's word, the end of the provider's cache, the smaller
window of another model, the higher price of longer requests."""
Span = tuple[int, int]
"""A range of entry indices, both ends included."""


class Kept(Record):
    """An item of a new view that existed before: verbatim, or with `content` in place of its text."""

    ref: int
    nth: int = 0
    content: str | None = None
    fate: Literal["hidden", "clipped"] | None = None


class Written(Record):
    """An item of a new view that is new text."""

    message: Message
    covers: tuple[Span, ...] = ()
    """The entries it stands for: those within these spans that were in the view."""
    inputs: tuple[int, ...] = ()
    """The earlier compactions whose summaries it absorbed."""


class CompactionDetails(Record):
    """Cumulative file lists at the time of a compaction, in order of first touch."""

    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


class Compaction(Entry):
    """The view becomes preamble + `head` + the view from `first_kept_index` on."""

    type: Literal["compaction"] = "compaction"
    summary: str = ""
    first_kept_index: int
    head: tuple[Kept | Written, ...] = ()
    replaced: tuple[Kept, ...] = ()
    pins: tuple[int, ...] = ()
    """Entries that it pins: the reader chose them with the proposal. Of a tool group, its call."""
    strategy: str = ""
    rung: str = "strategy"
    reason: Reason = "manual"
    focus: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cause: Cause = Field(default="", exclude_if=lambda cause: not cause)
    window: Count = Field(default=0, exclude_if=lambda window: window == 0)
    """The model's context window in tokens; 0 in older sessions and in those of other agents."""
    limit: Count = Field(default=0, exclude_if=lambda limit: limit == 0)
    """The size from which on its reason holds, in tokens: threshold or soft mark."""
    tokens_before: Count = 0
    tokens_after: Count = 0
    facts: Count = 0
    """Facts the audit found in what was compacted; 0 in sessions of other agents."""
    lost: Count = 0
    """Those of them that the view no longer held."""
    details: CompactionDetails = CompactionDetails()

    @property
    def written(self) -> tuple[Written, ...]:
        """The new texts of its head, in order."""
        return tuple(piece for piece in self.head if isinstance(piece, Written))


class Undo(Entry):
    type: Literal["undo"] = "undo"
    target: int


class FileImage(Record):
    """A file as found and as left, recorded before a tool of ours changes it. Contents are named by SHA-256;
    None is no file."""

    path: str
    """Relative to the working directory, where it is inside; else absolute."""
    before: str | None = None
    after: str | None = None
    mode: int | None = None
    """Its permission bits before."""
    link: str | None = None
    """Where the path leads, named like it, where it is a link or lies behind one."""
    by_others: bool = Field(default=False, exclude_if=lambda by_others: not by_others)
    """Whether `after` is somebody else's work: found so (`before` is the same), or put back by a rewind."""


class Checkpoint(Entry):
    """A place to go back to: before a turn, before a step, before files are changed."""

    type: Literal["checkpoint"] = "checkpoint"
    id: int
    """Never used twice in a session."""
    shown: bool = Field(default=False, exclude_if=lambda shown: not shown)
    """Whether the model is shown it, at the end of the newest item of the view: it may send a D-Mail."""
    files: tuple[FileImage, ...] = Field(default=(), exclude_if=lambda files: not files)
    """What is changed on disk right after it."""


class Revert(Entry):
    """Going back to a checkpoint, or to any moment, on another branch, too: the context, the files our tools
    changed, or both."""

    type: Literal["revert"] = "revert"
    checkpoint: int
    """The id of the checkpoint gone back to."""
    kept: int | None = None
    """Index of the request of that turn, which survives."""
    message: str | None = None
    """A D-Mail, or none for a rewind by the user."""
    files: bool = False
    """Whether files were put back."""
    context: bool = Field(default=True, exclude_if=lambda context: context)
    """Whether the view falls back."""
    came_from: int | None = None
    """Id of the checkpoint right before it, which holds what it did to files: the way back."""
    moment: int | None = None
    """Index of an entry: the view is again what it was when that was the newest. `checkpoint` is then the one
    right before this entry, so that to older versions nothing changes."""
    note: str | None = None
    """What the model is told of the branch that is left."""

    @property
    def text(self) -> str:
        """What it says to the model; mostly nothing."""
        return self.message or self.note or ""


class Clear(Entry):
    type: Literal["clear"] = "clear"


EditAction = Literal["pin", "unpin", "hide", "show", "drop", "restore"]


class Edit(Entry):
    type: Literal["edit"] = "edit"
    target: int
    action: EditAction
    recalls: Literal[False] | None = None
    """False: the model had no tool to read what is hidden."""


OVERFLOW = "overflow"
CLAUDE_CODE = "claude-code"
"""The dialect of a request that Claude Code sent, as its file records it."""


class CacheTerms(Record):
    """What a provider keeps of a request in its cache, as far as it says so."""

    life: Count = 0
    """Seconds that it is kept without being used; 0 where nobody says."""
    least: Count = 1024
    """Tokens below which nothing is kept."""
    step: Count = 1
    """A prefix that was kept is found in multiples of so many tokens."""
    effort: str = Field(default="", exclude_if=lambda effort: not effort)
    """How much the model thinks, where that is part of what is kept."""

    def kept(self, prefix: int) -> int:
        """Of a prefix of so many tokens, what is found again."""
        return prefix - prefix % max(1, self.step) if prefix >= max(1, self.least) else 0


class RequestRecord(Entry):
    """One request to a model: what was sent, what it was estimated at, what it was."""

    type: Literal["request"] = "request"
    digest: str
    """SHA-256 of the messages sent, as canonical JSON: proves the view."""
    model: str
    dialect: str = ""
    after: int | None = None
    """Index of the newest entry when the request left: the projection up to it is what was sent."""
    view_items: int = 0
    tools: str | None = None
    """SHA-256 of the tools offered with it: part of the prefix that a provider's cache keeps."""
    estimated: Count = 0
    """Tokens, before calibration, of messages and tools."""
    window: Count = Field(default=0, exclude_if=lambda window: window == 0)
    """The model's context window in tokens, where its server has said it."""
    left: Moment | None = None
    """When it left: the life of what it finds in a cache, and leaves there, counts from then."""
    cache: CacheTerms | None = None
    """None where nothing is known of a cache."""
    usage: Usage | None = None
    stop_reason: str | None = None
    """Why its answer ended; `overflow` where it was refused as too long."""
    error: str | None = None
    said: str | None = None
    """What came of an answer that was given up with the request: it broke off, or the window ended in it."""


class Title(Entry):
    type: Literal["title"] = "title"
    title: str


class ModelChange(Entry):
    type: Literal["model"] = "model"
    model: str
    provider: str | None = None


class NoticeRecord(Entry):
    type: Literal["notice"] = "notice"
    text: str
    level: Literal["info", "warning", "error"] = "info"
    tools: str | None = None
    """Digest of the tools the model is offered from here on, where the tools have changed."""
    model: str | None = None
    usage: Usage | None = None
    """Of a request that another agent made beside the conversation."""


class Rule(Record):
    """Calls that an "always" stands for: of this tool, and, where there is a pattern, only those that fit it.
    What fits is the tool's to say (`Tool.rules`): a rule is compared, never interpreted."""

    tool: str
    pattern: str = ""
    """The leading words of a command, the host of an address; empty for the tool as a whole."""
    exact: bool = Field(default=False, exclude_if=lambda exact: not exact)
    """Whether the pattern is the whole command, and no other one fits."""
    part: bool = Field(default=False, exclude_if=lambda part: not part)
    """Whether it counts for a command within a line of several, too. Those of older versions do not."""


ApprovalMode = Literal["ask", "edits", "sandboxed", "read-only", "all", "plan"]
"""What needs no question: reads; reads and edits; what stays in the sandbox; what only reads; everything; and
reads again, where all else is refused until a plan was accepted."""
ApprovalScope = Literal["session", "project"]


class Approval(Entry):
    """The user's decision on what runs without asking: a rule granted or revoked, or another mode. Never
    meant for the model, and never derived from anything it reads or writes."""

    type: Literal["approval"] = "approval"
    rule: Rule | None = None
    scope: ApprovalScope = "session"
    """Of a rule. One of a project is kept apart from its sessions: here it is only recorded."""
    granted: bool = True
    mode: ApprovalMode | None = None
    before: ApprovalMode | None = Field(default=None, exclude_if=lambda before: before is None)
    """With the mode `plan`: the one that comes back after it."""


class Subagent(Entry):
    """A child session begins, on disk below this one's folder: an agent works there for a call of `task`. The
    result of that call is all that the model sees of it."""

    type: Literal["subagent"] = "subagent"
    child: str
    """Id of the child session, and the name of its folder."""
    call_id: str
    agent: str
    """The name of the agent that works in it."""
    title: str = ""
    """The first line of its task."""


class Unknown(Entry):
    """A record this version does not know. Kept in the file as it is, ignored by the view."""

    type: str = "unknown"


Marker = (
    Compaction
    | Undo
    | Checkpoint
    | Revert
    | Clear
    | Edit
    | RequestRecord
    | Title
    | ModelChange
    | NoticeRecord
    | Approval
    | Subagent
)

KnownEntry = Annotated[AnyMessage | Marker, Field(discriminator="type")]
_known: TypeAdapter[Entry] = TypeAdapter(KnownEntry)


class SessionHeader(Record):
    """The first line of `events.jsonl`."""

    type: Literal["session"] = "session"
    version: int = 1
    id: str
    created_at: Moment
    cwd: str


def parse_entry(line: bytes | str) -> Entry:
    """The entry one line of `events.jsonl` holds; `Unknown` where its type or shape is not known here. Raises
    ValueError where it is no JSON object with a whole-number `index`."""
    try:
        return _known.validate_json(line)
    except ValidationError:
        record: Any = json.loads(line)
        if not isinstance(record, dict) or type(record.get("index")) is not int:
            raise ValueError("not an entry: no JSON object with an index") from None
        record["at"] = None if not isinstance(record.get("at"), str) else record["at"]
        return Unknown.model_validate(record)


def dump_entry(entry: Entry) -> bytes:
    """One line for `events.jsonl`, without its line end."""
    return entry.model_dump_json(exclude_none=True).encode()
