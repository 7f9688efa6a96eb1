"""One line of text for each entry: what it is called, and what it says in a few words."""

from collections.abc import Mapping, Sequence

from foldline.compaction.summary_text import unframed
from foldline.context.calls import subject_of
from foldline.context.numbers import sizes, tokens
from foldline.context.permissions import approval_words
from foldline.context.view import Fate, ViewItem
from foldline.history import clip_cells
from foldline.protocol import (
    Approval,
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    Edit,
    Entry,
    ImagePart,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Revert,
    SystemMessage,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Undo,
    UserMessage,
)

from .output import Cell, Style

PREVIEW_CELLS = 160
"""Of one entry's text: more than any terminal is wide, less than a page."""

OUTCOME_CELLS = 24

_MARKS: Mapping[str, tuple[str, str, Style | None]] = {
    "live": ("L", "┃", None),
    "clipped": ("C", "╏", "altered"),
    "hidden": ("H", "╏", "altered"),
    "summarised": ("S", "┊", "folded"),
    "truncated": ("T", " ", "muted"),
    "reverted": ("R", " ", "muted"),
    "cleared": ("X", " ", "muted"),
    "dropped": ("D", " ", "muted"),
    "aside": (" ", " ", "muted"),
}

LEGEND = (
    "┃ verbatim  ╏ changed  ┊ in a summary  * pinned  ~ estimated\n"
    "L live  C clipped  H hidden  S summarised  T truncated  R reverted  X cleared  D dropped"
)


class Naming:
    """Names entries in order: a result is told by the call it answers. Paths below `cwd` are relative."""

    def __init__(self, cwd: str) -> None:
        self._below = cwd.rstrip("/\\") + ("\\" if "\\" in cwd else "/")
        self._calls: dict[str, ToolCallPart] = {}

    def note(self, entry: Entry) -> None:
        if isinstance(entry, AssistantMessage):
            self._calls |= {call.call_id: call for call in entry.calls}

    def preview(self, entry: Entry) -> str:
        """What an entry says, outcome included, on one line. Foreign text, made harmless."""
        return " · ".join(part for part in (self.about(entry), outcome(entry)) if part)

    def about(self, entry: Entry) -> str:
        """What an entry is about: the first line of its text, or of the call a result answers."""
        return clip_cells(self._about(entry), PREVIEW_CELLS)

    def _about(self, entry: Entry) -> str:
        match entry:
            case ToolResultMessage():
                call = self._calls.get(entry.call_id)
                return self._title(call) if call else first_line(entry.text)
            case AssistantMessage() if not entry.text.strip():
                calls = ", ".join(f"{call.name} {self._title(call)}".strip() for call in entry.calls)
                thought = first_line(entry.thinking)
                return calls or entry.error or (f"({thought})" if thought else "")
            case SystemMessage(origin="summary"):
                return first_note(unframed(entry))
            case BaseMessage():
                images = sum(isinstance(part, ImagePart) for part in entry.parts)
                shown = f"[{images} image{'s' if images > 1 else ''}] " if images else ""
                return shown + first_line(entry.text)
            case _:
                return _marker(entry)

    def _title(self, call: ToolCallPart) -> str:
        return first_line(subject_of(call).text).removeprefix(self._below)


def outcome(entry: Entry) -> str:
    """How a tool call ended, in a few words."""
    if not isinstance(entry, ToolResultMessage):
        return ""
    brief = entry.details.brief or first_line(entry.text)
    failed = entry.is_error and "✗" not in brief
    return clip_cells(f"{brief} ✗" if failed else brief, OUTCOME_CELLS)


def is_failure(entry: Entry) -> bool:
    return isinstance(entry, ToolResultMessage) and entry.is_error


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def first_note(summary: str) -> str:
    """The first thing a summary says, headings apart."""
    return first_line("\n".join(line for line in summary.splitlines() if not line.startswith("#")))


def kind_label(entry: Entry, *, last_of_group: bool = True) -> str:
    """The kind of an entry as tables show it; a tool result is its tool's name, hung under its call."""
    match entry:
        case ToolResultMessage():
            name = clip_cells(entry.name or "tool", 14)
            return f"{'└' if last_of_group else '├'} {name}"
        case SystemMessage(origin="summary"):
            return "summary"
        case UserMessage(origin="machine"):
            return "machine"
        case _:
            return clip_cells(entry.type, 16)


def is_last_of_group(messages: Sequence[Entry], position: int) -> bool:
    """Whether no further result of the same answer follows."""
    return position + 1 >= len(messages) or not isinstance(messages[position + 1], ToolResultMessage)


def summary_label(item: ViewItem) -> str:
    """What a summary stands for: `of 118, 119–351`."""
    spans = [str(first) if first == last else f"{first}–{last}" for first, last in item.covers]
    shown = spans if len(spans) <= 4 else [*spans[:3], f"… {spans[-1]}"]
    return f"of {', '.join(shown)}: " if spans else ""


def rail(kind: str, *, pinned: bool = False) -> Cell:
    """Fate and rail: `L┃`."""
    letter, line, style = _MARKS[kind]
    return Cell(f" {letter}{line}{'*' if pinned else ''}", style)


def fate_cell(fate: Fate) -> Cell:
    return rail(fate.kind)


def _marker(entry: Entry) -> str:
    match entry:
        case Compaction():
            known = sizes(entry.tokens_before, entry.tokens_after, "tokens")
            first = first_note(entry.summary)
            return " · ".join(part for part in (known, entry.reason, first) if part)
        case Undo():
            return f"entry {entry.target} undone"
        case Checkpoint():
            return f"checkpoint {entry.id}"
        case Revert():
            return f"back to checkpoint {entry.checkpoint}"
        case Clear():
            return "view cleared"
        case Edit():
            return f"{entry.action} {entry.target}"
        case RequestRecord():
            size = tokens(entry.usage.input) if entry.usage else tokens(entry.estimated, estimated=True)
            return " · ".join(
                part for part in (entry.model, f"{size} tokens", entry.error or entry.stop_reason) if part
            )
        case Title():
            return entry.title
        case ModelChange():
            return entry.model
        case NoticeRecord():
            return entry.text
        case Approval():
            return approval_words(entry)
        case _:
            return ""
