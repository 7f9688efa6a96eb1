"""What a row says of an entry: its kind, first words, a call's title; cheap for texts of any size. Pure."""

from typing import Final

from foldline.context import numbers
from foldline.context.calls import subject_of
from foldline.context.compactions import sizes_words
from foldline.context.harmless import clean_line
from foldline.context.outline import CompactionOutline
from foldline.context.permissions import approval_words
from foldline.context.projection import Projection
from foldline.protocol import (
    Approval,
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    CheckpointPart,
    Clear,
    DeveloperMessage,
    Edit,
    Entry,
    ImagePart,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Revert,
    Subagent,
    TextPart,
    ThinkingPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Undo,
    Usage,
)
from foldline.tui.panels.states import is_undone
from foldline.tui.state import reason_words

_LOOK: Final = 2_000
"""Characters of a text that a row looks at: the first words are there, or nowhere a row could show."""
_SHOWN: Final = 400
"""Characters a row may need: more than the widest terminal has cells."""

KINDS: Final = {"system": "system", "user": "user", "assistant": "assist", "developer": "dev"}
_NOTE_KINDS: Final = {
    RequestRecord: "request",
    NoticeRecord: "notice",
    Approval: "approve",
    Edit: "edit",
    Checkpoint: "check",
    Title: "title",
    ModelChange: "model",
    Subagent: "agent",
}
Marker = CompactionOutline | Revert | Clear | Undo
"""What changed the view by more than an entry."""


def first_words(text: str) -> str:
    """The first line with something in it, clean and short."""
    for line in text[:_LOOK].splitlines():
        if line.strip():
            return clean_line(line.strip()[:_SHOWN])
    return ""


# --- Messages ---------------------------------------------------------------------------------------------


def message_words(message: BaseMessage) -> tuple[str, str]:
    """The first words of a message and their style; of an answer without text what it thinks or calls."""
    for part in message.parts:
        if isinstance(part, TextPart) and (words := first_words(part.text)):
            named = isinstance(message, DeveloperMessage) and message.source
            return f"{clean_line(named)}: {words}" if named else words, "text"
    if isinstance(message, AssistantMessage) and message.error:
        return f"failed: {first_words(message.error)}", "alert"
    for part in message.parts:
        if isinstance(part, ThinkingPart) and (words := first_words(part.text)):
            return words, "muted italic"
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if calls:
        return f"calls {', '.join(clean_line(call.name) for call in calls[:8])}", "muted"
    images = sum(isinstance(part, ImagePart) for part in message.parts)
    if images:
        return "an image" if images == 1 else f"{images} images", "muted"
    return "empty", "muted"


def kind_name(kind: str, origin: str) -> str:
    """The name of a kind of message, by its type and origin."""
    if (kind, origin) in (("system", "summary"), ("user", "machine")):
        return origin  # what a program said in the user's place is not passed off as typed
    return KINDS.get(kind, kind)


def kind_of(message: BaseMessage) -> str:
    """The kind column of a message that is no tool result."""
    return clean_line(kind_name(message.type, getattr(message, "origin", "")))


def call_of(projection: Projection, result: ToolResultMessage) -> ToolCallPart | None:
    """The call a result answers; None for an orphan."""
    caller = projection.entry(projection.group(result.index)[0])
    if isinstance(caller, AssistantMessage):
        return next((call for call in caller.calls if call.call_id == result.call_id), None)
    return None


def call_title(call: ToolCallPart | None, cwd: str = "") -> tuple[str, bool]:
    """A call on one line, and whether that is a path; line ends become `⏎`. Paths below `cwd` are shown
    relative to it."""
    if call is None:
        return "", False
    subject = subject_of(call)
    if subject.kind == "path":
        return clean_line(short_path(subject.text, cwd)[:_SHOWN]), True
    words = subject.text[:_LOOK]
    if cwd.strip("/"):  # a command changes into the directory it is in anyway
        words = words.removeprefix(f"cd {cwd} && ").removeprefix(f"cd {cwd}\n").replace(f"{cwd}/", "")
    words = clean_line(words.strip()[:_SHOWN])
    return (f'"{words}"' if subject.kind == "search" else words), False


def short_path(path: str, cwd: str) -> str:
    """A path relative to the working directory where it lies below it."""
    return path.removeprefix(f"{cwd.rstrip('/')}/") if cwd.rstrip("/") else path


def full_text(projection: Projection, message: BaseMessage) -> str:
    """Everything of a message that search looks at."""
    parts: list[str] = []
    if isinstance(message, ToolResultMessage):
        call = call_of(projection, message)
        parts += [message.name, call.arguments if call else "", message.details.brief]
    for part in message.parts:
        match part:
            case TextPart() | ThinkingPart():
                parts.append(part.text)
            case ToolCallPart():
                parts.append(f"{part.name} {part.arguments}")
            case ImagePart() | CheckpointPart():
                pass
    return "\n".join(parts)


def usage_words(usage: Usage) -> list[str]:
    """`in 12.1k, 11.9k from cache`, `out 0.4k`; `in ~12.1k` if the input is an estimate."""
    cached = f", {numbers.tokens(usage.cached)} from cache" if usage.cached else ""
    asked = numbers.tokens(usage.input, estimated=usage.source == "estimated")
    return [f"in {asked}{cached}", f"out {numbers.tokens(usage.output)}"]


# --- System notes: entries that were never meant for the model ------------------------------------------


def note_kind(entry: Entry) -> str:
    """The kind column of a system note."""
    return _NOTE_KINDS.get(type(entry), "other")


def note_words(entry: Entry) -> tuple[str, str]:
    """A system note in a line, and its style."""
    match entry:
        case RequestRecord(error=str() as error):
            return f"failed: {first_words(error)}", "alert"
        case NoticeRecord(text=text, level=level):
            return first_words(text), "alert" if level == "error" else "muted"
        case _:
            return first_words(note_text(entry)), "muted"


def note_text(entry: Entry) -> str:
    """A system note in full."""
    match entry:
        case RequestRecord():
            return _request_text(entry)
        case NoticeRecord(text=text):
            return text
        case Approval():
            return approval_words(entry)
        case Edit():
            return f"{entry.action} of {entry.target}"
        case Checkpoint():
            files = f": {', '.join(image.path for image in entry.files)}" if entry.files else ""
            return f"checkpoint {entry.id}{files}"
        case Title():
            return entry.title
        case Subagent():
            return ": ".join(filter(None, (entry.agent, entry.title))) or "subagent"
        case ModelChange():
            return entry.model if entry.provider is None else f"{entry.model} of {entry.provider}"
        case _:
            return f"{entry.type}: not known to this version"


def _request_text(entry: RequestRecord) -> str:
    parts = [entry.model]
    if entry.usage is not None:
        parts += usage_words(entry.usage)
    elif entry.estimated:
        parts.append(f"in {numbers.tokens(entry.estimated, estimated=True)}")
    if entry.error is not None:
        parts.append(f"failed: {entry.error}")
    if entry.said:
        parts.append(f"given up with it:\n{entry.said}")
    return " · ".join(part for part in parts if part)


# --- Markers ----------------------------------------------------------------------------------------------


def marker_label(projection: Projection, marker: Marker) -> str:
    """What the rule of a marker says: `373 compaction · threshold · 116.2k → 27.4k`."""
    parts: list[str]
    match marker:
        case CompactionOutline():
            parts = [f"{marker.index} compaction", reason_words(marker.reason)]
            if known := sizes_words(projection, marker):
                parts.append(known)
            if is_undone(projection, marker.index):
                parts.append("undone")
        case Revert():
            what = "rewind" if marker.message is None else "D-Mail"
            parts = [f"{marker.index} {what}{_before(projection, marker)}"]
            if marker.files:
                parts.append("files restored")
        case Clear():
            parts = [f"{marker.index} clear"]
        case Undo():
            parts = [f"{marker.index} undo of {marker.target}"]
    return clean_line(" · ".join(parts))


def _before(projection: Projection, revert: Revert) -> str:
    """` to before 386`: the first entry that a rewind took away."""
    if revert.moment is not None:
        return f" to the branch of {revert.moment}"
    checkpoint = projection.checkpoint(revert.checkpoint)
    if checkpoint is None:
        return ""
    for entry in projection.after(checkpoint, 100):
        if isinstance(entry, BaseMessage) and entry.index != revert.kept:
            return f" to before {entry.index}"
    return ""
