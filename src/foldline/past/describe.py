"""One-line descriptions of entries.

All lists, pages and front ends take an entry's words from here, and only paint them. The functions are fast
for messages of any size.
"""

from dataclasses import dataclass
from typing import Final, Literal

from foldline.memory.subjects import subject_of
from foldline.protocol import (
    Approval,
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
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
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.text.shorten import first_line
from foldline.view.budget import Size
from foldline.view.items import ViewItem
from foldline.view.outline import CompactionOutline, has_failed
from foldline.view.projection import Projection

from .approval_words import approval_words
from .compactions import messages_compacted, sizes_words
from .rewind_points import rewind_words

Tone = Literal["text", "thought", "muted", "alert"]
"""How prominently a title is shown."""
KINDS: Final = {
    "system": "system",
    "user": "user",
    "assistant": "assist",
    "developer": "dev",
    "tool_result": "tool",
    "request": "request",
    "notice": "notice",
    "approval": "approve",
    "edit": "edit",
    "checkpoint": "check",
    "title": "title",
    "model": "model",
    "subagent": "agent",
    "compaction": "compaction",
    "revert": "rewind",
    "clear": "clear",
    "undo": "undo",
}
"""Displayed names of the entry types."""
_LOOK: Final = 2_000
"""Maximum number of characters searched for the first words of a message."""
_SHOWN: Final = 400
"""Maximum number of characters of a title. No terminal can show more."""


UNKNOWN_ENTRY: Final = "{type}: unknown to this version of Foldline"
DISCARDED: Final = "discarded with it:\n{text}"
CLEARED: Final = "context cleared; the history is kept"
CLEAR_UNDONE: Final = "clear undone; the context is restored"
REWIND_UNDONE: Final = "rewind undone"
REWIND_AND_FILES_UNDONE: Final = (
    "rewind undone; context and files are as they were before it"
)


@dataclass(frozen=True, slots=True)
class Description:
    """An entry in one line of words, without control characters."""

    kind: str
    """The kind of entry; for a result, the tool's name."""
    title: str = ""
    """The first words of a message, the subject of a call, or the effect of a marker."""
    outcome: str = ""
    """A result in a few words, such as `exit 1 ✗`; for a subagent, its id."""
    tone: Tone = "text"
    is_path: bool = False
    """Whether the title is a path, of which the end is the most important part."""
    failed: bool = False

    @property
    def line(self) -> str:
        """Title and outcome."""
        return " · ".join(filter(None, (self.title, self.outcome)))

    @property
    def labelled(self) -> str:
        """Kind and title: `model: gpt-5`."""
        return f"{self.kind}: {self.title}"


def describe(
    projection: Projection, entry: Entry | CompactionOutline, cwd: str = ""
) -> Description:
    """Describe an entry. Paths below `cwd` are relative."""
    match entry:
        case ToolResultMessage():
            return _result(projection, entry, cwd)
        case BaseMessage():
            return _message(entry)
        case CompactionOutline():
            kind = "compaction"
        case _:
            kind = kind_name(entry.type)
    title = first_words(entry_text(projection, entry))
    match entry:
        case RequestRecord(error=str() as error):
            return Description(kind, f"failed: {first_words(error)}", tone="alert")
        case NoticeRecord(level="error"):
            return Description(kind, title, tone="alert")
        case Subagent():
            return Description(kind, title, clean_line(entry.child), tone="muted")
        case _:
            return Description(kind, title, tone="muted")


def first_words(text: str) -> str:
    """Return the first non-empty line, shortened and without control characters."""
    return clean_line(first_line(text[:_LOOK])[:_SHOWN])


def kind_name(kind: str, origin: str = "") -> str:
    """Return the displayed name of an entry with this type and origin."""
    if (kind, origin) in (("system", "summary"), ("user", "machine")):
        return origin  # so that text from a program does not look typed by the user
    return KINDS.get(kind, "other")


# --- Messages ---------------------------------------------------------------------------------------------


def _message(message: BaseMessage) -> Description:
    kind = kind_name(message.type, getattr(message, "origin", ""))
    images = sum(isinstance(part, ImagePart) for part in message.parts)
    shown_images = f"[{many(images, 'image')}]" if images else ""
    words = _first_words_of(message, TextPart)
    if words:
        if isinstance(message, DeveloperMessage):
            words = f"{clean_line(message.source or message.origin)}: {words}"
        return Description(kind, f"{words} {shown_images}".rstrip())
    if isinstance(message, AssistantMessage) and message.error:
        title = f"failed: {first_words(message.error)}"
        return Description(kind, title, tone="alert", failed=True)
    thought = _first_words_of(message, ThinkingPart)
    if thought:
        return Description(kind, thought, tone="thought")
    calls = [part.name for part in message.parts if isinstance(part, ToolCallPart)]
    title = shown_images or "empty"
    if calls:
        title = f"calls {', '.join(map(clean_line, calls[:8]))}"
    return Description(kind, title, tone="muted")


def _first_words_of(
    message: BaseMessage, kind: type[TextPart] | type[ThinkingPart]
) -> str:
    texts = (part.text for part in message.parts if isinstance(part, kind))
    return next(filter(None, map(first_words, texts)), "")


def _result(projection: Projection, result: ToolResultMessage, cwd: str) -> Description:
    title, is_path = call_title(call_of(projection, result), cwd)
    files = result.details.files
    if not title and files:
        title = clean_line(short_path(files[0].path, cwd))
        is_path = True
    outcome = outcome_of(result)
    if not title and not outcome:
        title = first_words(result.text)
    name = clean_line(result.name)[:24] or "tool"
    failed = has_failed(result)
    return Description(name, title, outcome, is_path=is_path, failed=failed)


def call_of(projection: Projection, result: ToolResultMessage) -> ToolCallPart | None:
    """Return the call to which a result belongs, if there is one."""
    caller = projection.entry(projection.group(result.index)[0])
    if isinstance(caller, AssistantMessage):
        return next(
            (call for call in caller.calls if call.call_id == result.call_id), None
        )
    return None


def call_title(call: ToolCallPart | None, cwd: str = "") -> tuple[str, bool]:
    """Return a call on one line, and whether this title is a path.

    Line ends become `⏎`.
    """
    if call is None:
        return "", False
    subject = subject_of(call)
    if subject.kind == "path":
        return clean_line(short_path(subject.text, cwd)[:_SHOWN]), True
    words = subject.text[:_LOOK]
    if cwd.strip("/"):  # leave out changing to the working directory
        words = (
            words.removeprefix(f"cd {cwd} && ")
            .removeprefix(f"cd {cwd}\n")
            .replace(f"{cwd}/", "")
        )
    words = clean_line(words.strip()[:_SHOWN])
    if subject.kind == "search":
        words = f'"{words}"'
    return words, False


def short_path(path: str, cwd: str) -> str:
    """Return a path, relative to the working directory if the path is below it."""
    separator = "\\" if "\\" in cwd else "/"
    folder = cwd.rstrip("/\\")
    return path.removeprefix(f"{folder}{separator}") if folder else path


def outcome_of(result: ToolResultMessage) -> str:
    """Return a result in a few words: `31 passed`, `+9 −6` or `exit 1 ✗`."""
    details = result.details
    outcome = clean_line(details.brief)
    if not outcome:
        added = sum(touch.added for touch in details.files)
        outcome = numbers.change(added, sum(touch.removed for touch in details.files))
    if has_failed(result) and "✗" not in outcome:
        outcome = f"{outcome or 'failed'} ✗"
    return outcome


def summary_words(projection: Projection, item: ViewItem) -> str:
    """Describe the entries that a summary covers: `of 118 and 119–351, 123 entries`."""
    summaries = projection.written_by(item.index)
    nth = item.key[1]
    inputs = summaries[nth].inputs if nth < len(summaries) else ()
    ranges = [
        f"{first}–{last}" if last > first else str(first) for first, last in item.covers
    ]
    if len(ranges) > 3:
        ranges = [ranges[0], "…", ranges[-1]]
    names = [*map(str, inputs), *ranges]
    parts: list[str] = []
    if names:
        *others, last = names
        parts.append(f"of {', '.join(others)} and {last}" if others else f"of {last}")
    count = messages_compacted(projection, item.index, item.covers)
    if count:
        parts.append(many(count, "entry", "entries"))
    return ", ".join(parts)


# --- Entries that are not messages ------------------------------------------------------------------------


def entry_text(projection: Projection, entry: Entry | CompactionOutline) -> str:
    """Return the full text of an entry that is not a message."""
    match entry:
        case Compaction() | CompactionOutline():
            undone = "undone" if projection.is_undone(entry.index) else ""
            parts = (reason_words(entry.reason), sizes_words(projection, entry), undone)
            return " · ".join(filter(None, parts))
        case Undo():
            return _undone(projection, entry.target)
        case Clear():
            return CLEARED
        case Revert():
            return rewind_words(projection, entry)
        case Edit():
            return f"{entry.action} of {entry.target}"
        case RequestRecord():
            return _request_text(entry)
        case _:
            return _note_text(entry)


def _note_text(entry: Entry) -> str:
    match entry:
        case NoticeRecord():
            return entry.text
        case Approval():
            return approval_words(entry)
        case Checkpoint():
            files = ", ".join(image.path for image in entry.files)
            return f"checkpoint {entry.id}: {files}".removesuffix(": ")
        case Title():
            return entry.title
        case Subagent():
            return ": ".join(filter(None, (entry.agent, entry.title))) or "subagent"
        case ModelChange():
            provider = "" if entry.provider == entry.model else entry.provider
            return " · ".join(filter(None, (entry.model, provider)))
        case _:
            return UNKNOWN_ENTRY.format(type=entry.type)


def reason_words(reason: str) -> str:
    """Return the name of the reason for a compaction."""
    return "end of task" if reason == "phase" else reason


def _undone(projection: Projection, index: int) -> str:
    target = projection.entry(index)
    match target:
        case Compaction():
            sizes = sizes_words(projection, target)
            words = f"compaction {target.index} undone"
            return f"{words} ({sizes})" if sizes else words
        case Clear():
            return CLEAR_UNDONE
        case Edit():
            group = projection.group(target.target)
            entries = str(group[0])
            if len(group) > 1:
                entries += f"–{group[-1]}"
            return f"{target.action} of {entries} undone"
        case Revert():
            return REWIND_AND_FILES_UNDONE if target.files else REWIND_UNDONE
        case _:
            return f"entry {index} undone"


def _request_text(entry: RequestRecord) -> str:
    parts = [entry.model]
    if entry.usage is not None:
        parts += usage_words(entry.usage)
    elif entry.estimated:
        parts.append(f"in {numbers.tokens(entry.estimated, estimated=True)}")
    if entry.error is not None:
        parts.append(f"failed: {entry.error}")
    if entry.said:
        parts.append(DISCARDED.format(text=entry.said))
    return " · ".join(filter(None, parts))


def usage_words(usage: Usage) -> list[str]:
    """Return `in 12.1k, 11.9k from cache` and `out 0.4k`, with `~` if the input is an estimate."""
    cached = f", {numbers.tokens(usage.cached)} from cache" if usage.cached else ""
    sent = numbers.tokens(usage.input, estimated=usage.source == "estimated")
    return [f"in {sent}{cached}", f"out {numbers.tokens(usage.output)}"]


def size_words(size: Size) -> str:
    """Return a size: `28.6k`, or `~28.6k` if it is an estimate."""
    return numbers.tokens(size.tokens, estimated=size.estimated)
