"""Entries: the records of a history.

An entry is either a message, or a marker that changes or annotates the view.
"""

import json
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from .messages import (
    AnyMessage,
    Count,
    Entry,
    Message,
    Record,
    Timestamp,
    Usage,
    omitted_if,
)

Reason = Literal["threshold", "overflow", "manual", "phase"]
Cause = Literal["", "asked", "cache", "model", "price"]
"""The event that caused a compaction, in addition to its reason.

`asked`: the user requested it; `cache`: the provider's cache expired; `model`: another model has a smaller
window; `price`: longer requests have a higher price. Empty if there was no such event.
"""
Span = tuple[int, int]
"""A range of entry indices, including both ends."""


class Kept(Record):
    """An earlier item that is kept in a new view.

    It is kept verbatim, or with `content` replacing its text.
    """

    ref: int
    """Index of the item's entry."""
    nth: int = 0
    content: str | None = None
    fate: Literal["hidden", "clipped"] | None = None


class Written(Record):
    """A new text in a new view, for example a summary."""

    message: Message
    covers: tuple[Span, ...] = ()
    """Spans of the entries that the text replaces.

    Entries in them that were not in the view do not count.
    """
    inputs: tuple[int, ...] = ()
    """Indices of earlier compactions whose summaries this text has absorbed."""


class CompactionDetails(Record):
    """Files that the session accessed before a compaction.

    They are in the order of their first access.
    """

    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


class Compaction(Entry):
    """A compaction.

    The new view consists of the preamble, `head`, and the part of the old view that begins at
    `first_kept_index`.
    """

    type: Literal["compaction"] = "compaction"
    summary: str = ""
    first_kept_index: int
    head: tuple[Kept | Written, ...] = ()
    replaced: tuple[Kept, ...] = ()
    pins: tuple[int, ...] = ()
    """Entries pinned by the compaction, as the user chose in the proposal.

    A tool group is represented by its call's entry.
    """
    strategy: str = ""
    rung: str = "strategy"
    reason: Reason = "manual"
    focus: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cause: Cause = omitted_if("")
    window: Count = omitted_if(0)
    """The model's context window in tokens.

    0 in older sessions and in other agents' sessions.
    """
    limit: Count = omitted_if(0)
    """Size, in tokens, that triggered the compaction: the threshold or the soft mark."""
    tokens_before: Count = 0
    tokens_after: Count = 0
    facts: Count = 0
    """Number of facts that the audit found in the compacted part.

    0 in other agents' sessions.
    """
    lost: Count = 0
    """Number of those facts that the new view did not contain."""
    details: CompactionDetails = CompactionDetails()

    @property
    def written(self) -> tuple[Written, ...]:
        """The new texts in the head, in order."""
        return tuple(piece for piece in self.head if isinstance(piece, Written))


class Undo(Entry):
    """Undoes the marker that has the index `target`."""

    type: Literal["undo"] = "undo"
    target: int


class FileImage(Record):
    """A file's content before and after a change by one of Foldline's tools.

    It is recorded before the tool makes the change. Contents are identified by their SHA-256; None means that
    the file does not exist.
    """

    path: str
    """Path of the file.

    Relative to the working directory if the file is inside it; otherwise absolute.
    """
    before: str | None = None
    after: str | None = None
    mode: int | None = None
    """Permission bits of the file before the change; None if it did not exist."""
    link: str | None = None
    """Resolved path, if `path` is a link or leads through one."""
    by_others: bool = omitted_if(False)
    """Whether something outside this session changed the content to `after`.

    The content has not been changed since, or was restored by a rewind.
    """


class Checkpoint(Entry):
    """A point to which the session can be rewound.

    It is made before a turn, before a step, or before files are changed.
    """

    type: Literal["checkpoint"] = "checkpoint"
    id: int
    """Id that is unique within the session."""
    shown: bool = omitted_if(False)
    """Whether the newest item names the checkpoint at its end.

    The model can then send a D-Mail to the checkpoint.
    """
    files: tuple[FileImage, ...] = omitted_if(())
    """File changes that were made on disk right after the checkpoint."""


class Revert(Entry):
    """A rewind of the context, of files changed by Foldline's tools, or of both.

    The target is a checkpoint, or any point on any branch.
    """

    type: Literal["revert"] = "revert"
    checkpoint: int
    """Id of the checkpoint to go back to."""
    kept: int | None = None
    """Index of the turn's prompt, if the prompt stays in the view."""
    message: str | None = None
    """D-Mail from the model; None if the user rewound."""
    files: bool = False
    """Whether files were restored."""
    context: bool = omitted_if(True)
    """Whether the view was changed."""
    came_from: int | None = None
    """Id of the checkpoint made right before the rewind.

    It records the rewind's file changes, so that they can be undone.
    """
    moment: int | None = None
    """Index of the entry that was the newest in the view to be restored.

    If this is set, `checkpoint` is the checkpoint right before this entry, so that older versions of Foldline
    still read the rewind correctly.
    """
    note: str | None = None
    """Note that tells the model about the abandoned branch."""

    @property
    def text(self) -> str:
        """Text of the rewind for the model; usually empty."""
        return self.message or self.note or ""


class Clear(Entry):
    """Removes everything from the view except the preamble and pinned items."""

    type: Literal["clear"] = "clear"


EditAction = Literal["pin", "unpin", "hide", "show", "drop", "restore"]


class Edit(Entry):
    """An edit of the view: pins, hides, drops or restores an entry.

    If the entry belongs to a tool group, the edit applies to the whole group.
    """

    type: Literal["edit"] = "edit"
    target: int
    action: EditAction
    recalls: Literal[False] | None = None
    """False if the model had no tool for reading hidden entries."""


OVERFLOW = "overflow"
"""Stop reason of a request that the server rejected as too long."""

CLAUDE_CODE = "claude-code"
"""Dialect of a request sent by Claude Code, as recorded in its session file."""
REPLAYS_REASONING = frozenset(
    {"strict-reasoning", "strict-thinking", "openrouter", "responses", "messages"}
)
"""Names of the dialects (`llm.dialect`) and APIs that send earlier reasoning back to the model."""


class CacheTerms(Record):
    """Terms of a provider's prompt cache, if they are known."""

    life: Count = 0
    """Seconds after its last use until the cache expires; 0 if unknown."""
    least: Count = 1024
    """Minimum size of a cached prefix, in tokens."""
    step: Count = 1
    """The size of a cached prefix is a multiple of this number of tokens."""
    effort: str = omitted_if("")
    """Reasoning effort, if the cache depends on it."""

    def kept(self, prefix: int) -> int:
        """Return how many tokens of a prefix can be read from the cache."""
        if prefix < max(1, self.least):
            return 0
        return prefix - prefix % max(1, self.step)


class RequestRecord(Entry):
    """A request that was sent to a model, with its sizes and the digest of its messages."""

    type: Literal["request"] = "request"
    digest: str
    """SHA-256 of the sent messages in canonical JSON.

    It serves as proof of the view that was sent.
    """
    model: str
    dialect: str = ""
    after: int | None = None
    """Index of the newest entry when the request was sent.

    The view that was sent is the projection of all entries up to this one.
    """
    view_items: int = 0
    """Number of messages in the request."""
    tools: str | None = None
    """SHA-256 of the request's tools.

    The tools are part of the prefix that a provider caches.
    """
    estimated: Count = 0
    """Estimated size of the messages and tools, in uncalibrated tokens."""
    window: Count = omitted_if(0)
    """The model's context window in tokens, if the server stated it."""
    left: Timestamp | None = None
    """Time when the request was sent.

    The lifetime of the request's cache begins at this time.
    """
    cache: CacheTerms | None = None
    """Terms of the provider's cache; None if it is not known to have one."""
    usage: Usage | None = None
    stop_reason: str | None = None
    """Reason why the answer ended.

    `overflow` if the request was rejected as too long.
    """
    error: str | None = None
    said: str | None = None
    """Partial answer that was discarded.

    It was cut off by a failure, or by the end of the window.
    """


class Title(Entry):
    """A new title for the session."""

    type: Literal["title"] = "title"
    title: str


class ModelChange(Entry):
    """Records that the user switched to another model."""

    type: Literal["model"] = "model"
    model: str
    provider: str | None = None


class NoticeRecord(Entry):
    """A notice to the user that is recorded in the history."""

    type: Literal["notice"] = "notice"
    text: str
    level: Literal["info", "warning", "error"] = "info"
    tools: str | None = None
    """Digest of the tools offered from this entry onward.

    Set only if the tools have changed.
    """
    model: str | None = None
    usage: Usage | None = None
    """Usage of another agent's request that is not part of the conversation."""


class Rule(Record):
    """A rule that allows calls of one tool without asking the user.

    With a pattern, it allows only matching calls. Each tool derives the rules that a call would need
    (`Tool.rules`). They are only compared with the granted rules; a rule's pattern is never interpreted.
    """

    tool: str
    pattern: str = ""
    """First words of a command, or host of an address.

    If empty, the rule applies to all calls of the tool.
    """
    exact: bool = omitted_if(False)
    """Whether the pattern is a full command that must match exactly."""
    part: bool = omitted_if(False)
    """Whether the rule also applies to one of several commands on a line.

    False for rules from older versions of Foldline.
    """


ApprovalMode = Literal["ask", "edits", "sandboxed", "read-only", "all", "plan"]
"""Determines which calls run without asking the user.

`ask`: reads; `edits`: reads and edits; `sandboxed`: everything inside the sandbox; `read-only`: everything
that only reads; `all`: everything; `plan`: reads. In this mode, all other calls are rejected until a plan is
accepted.
"""
ApprovalScope = Literal["session", "project"]


class Approval(Entry):
    """The user's decision about which calls run without asking.

    This is a granted or revoked rule, or another mode. Approvals are not part of the view, and are never
    derived from anything that the model reads or writes.
    """

    type: Literal["approval"] = "approval"
    rule: Rule | None = None
    scope: ApprovalScope = "session"
    """Scope of the rule.

    A project's rules are stored outside its sessions; this entry only records them.
    """
    granted: bool = True
    mode: ApprovalMode | None = None
    before: ApprovalMode | None = omitted_if(None)
    """For the mode `plan`, the mode that is restored afterwards."""


class Subagent(Entry):
    """The start of a child session, in which a subagent works on a `task` call.

    The child session is stored in a subfolder of this session's folder. The model sees only the result of the
    call.
    """

    type: Literal["subagent"] = "subagent"
    child: str
    """Id of the child session, which is also the name of its folder."""
    call_id: str
    agent: str
    """Name of the agent."""
    title: str = ""
    """First line of the subagent's task."""


class Unknown(Entry):
    """A record of an unknown type.

    It is kept in the file unchanged, and the view ignores it.
    """

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


class SessionHeader(Record):
    """First line of `events.jsonl`."""

    type: Literal["session"] = "session"
    version: int = 1
    id: str
    created_at: Timestamp
    cwd: str


@cache
def _entry_parser() -> TypeAdapter[Entry]:
    """Return the parser of all known entries, which takes long to build."""
    return TypeAdapter(KnownEntry)


def parse_entry(line: bytes | str) -> Entry:
    """Parse one line of `events.jsonl`.

    Returns `Unknown` for an unknown type, or if fields do not match the type.

    Raises:
        ValueError: the line is not a JSON object with an integer `index`.
    """
    try:
        return _entry_parser().validate_json(line)
    except ValidationError:
        record: Any = json.loads(line)
        if not isinstance(record, dict) or type(record.get("index")) is not int:
            raise ValueError("not an entry: no JSON object with an index") from None
        if not isinstance(record.get("at"), str):
            record["at"] = None
        return Unknown.model_validate(record)


def dump_entry(entry: Entry) -> bytes:
    """Return the entry as one line of `events.jsonl`, without the newline."""
    return entry.model_dump_json(exclude_none=True).encode()
