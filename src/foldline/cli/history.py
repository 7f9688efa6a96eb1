"""`foldline history`: every entry of a session, with its state now; and the rows of that and of the view."""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from foldline.compaction.summary_text import unframed
from foldline.context.calls import subject_of
from foldline.context.numbers import many, sizes, tokens
from foldline.context.permissions import approval_words
from foldline.context.projection import Projection
from foldline.context.tokens import message_tokens
from foldline.context.weight import Weight, entry_weight, view_size
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

from .arguments import Handler, add_json, add_source
from .output import Cell, Column, Style, note, say_heading, say_json, say_legend, say_table
from .sources import Source, read_source


def history_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    add_json(parser, "one JSON object a line, one line an entry")
    return history


def history(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    projection = found.project()
    if not as_json:
        _say_history(found, projection)
        return 0
    naming = Naming(found.header.cwd)
    for entry in found.entries:
        naming.note(entry)
        fate, weight = projection.fate(entry.index), _weight(projection, entry)
        line = {
            "index": entry.index,
            "type": entry.type,
            "fate": fate.kind,
            "by": fate.by,
            "tokens": weight.tokens,
            "estimated": weight.estimated,
            "at": entry.at.isoformat() if entry.at else None,
            "preview": naming.preview(entry),
        }
        say_json(line, pretty=False)
    return 0


def _weight(projection: Projection, entry: Entry) -> Weight:
    """The weight of a message as it was said, of a compaction's new text; other markers weigh nothing."""
    match entry:
        case BaseMessage():
            return entry_weight(projection, entry)
        case Compaction():
            scale = projection.calibration.scale(projection.model)
            new = sum(message_tokens(piece.message) for piece in entry.written)
            return Weight(round(new * scale), estimated=True)
        case _:
            return Weight(0, estimated=False)


def _say_history(source: Source, projection: Projection) -> None:
    entries = source.entries
    if not entries:
        note(f"{source.name} has no entries.")
        return
    size = view_size(projection)
    count = len(projection.compactions())
    parts = (
        source.name,
        f"{len(entries)} entries",
        many(count, "compaction") if count else "never compacted",
        f"{len(projection.view)} items in the view, {tokens(size.tokens, estimated=size.estimated)} tokens",
    )
    say_heading(" · ".join(parts))
    naming = Naming(source.header.cwd)
    rows: list[list[Cell | str]] = []
    for place, entry in enumerate(entries):
        naming.note(entry)
        fate = projection.fate(entry.index)
        by = Cell("" if fate.by is None else str(fate.by), "muted")
        label = Cell(kind_label(entries, place), _label_style(entry))
        about: list[Cell | str] = [mark_cell(fate.kind), by, str(entry.index), label, naming.about(entry)]
        rows.append([*about, *ending_cells(entry, _weight(projection, entry))])
    columns = (
        Column("state"),
        Column("by", right=True),
        Column("no.", right=True),
        Column("type", most=16),
        Column("entry", grows=True),
    )
    say_table((*columns, *END_COLUMNS), rows)
    say_legend(LEGEND)


def _label_style(entry: Entry) -> Style | None:
    if isinstance(entry, BaseMessage):
        return "bold" if entry.type == "user" else None
    return "compacted" if isinstance(entry, Compaction) else "muted"


# --- rows, of the view as well ------------------------------------------------------------------------

PREVIEW_CELLS: Final = 160
"""Of one entry's text: more than any terminal is wide, less than a page."""
OUTCOME_CELLS: Final = 24
END_COLUMNS: Final = (Column("outcome"), Column("tokens", right=True))
_MARKS: Final[Mapping[str, tuple[str, str, Style | None]]] = {
    "live": ("L", "┃", None),
    "clipped": ("C", "╏", "altered"),
    "hidden": ("H", "╏", "altered"),
    "summarised": ("S", "┊", "compacted"),
    "truncated": ("T", " ", "muted"),
    "reverted": ("R", " ", "muted"),
    "cleared": ("X", " ", "muted"),
    "dropped": ("D", " ", "muted"),
    "aside": (" ", " ", "muted"),
}
LEGEND: Final = (
    "┃ verbatim  ╏ changed  ┊ in a summary  * pinned  ~ estimated\n"
    "L live  C clipped  H hidden  S summarised  T truncated  R reverted  X cleared  D dropped"
)


def mark_cell(kind: str, *, pinned: bool = False) -> Cell:
    """State and gutter: `L┃`."""
    letter, line, style = _MARKS[kind]
    return Cell(f" {letter}{line}{'*' if pinned else ''}", style)


def ending_cells(entry: Entry, weight: Weight) -> list[Cell]:
    """The last two cells of a row: how a call ended, and what the entry weighs."""
    failed = isinstance(entry, ToolResultMessage) and entry.is_error
    is_marker = not isinstance(entry, BaseMessage)
    size = tokens(weight.tokens, estimated=weight.estimated) if weight.tokens or not is_marker else ""
    return [Cell(_outcome(entry), "alert" if failed else "muted"), Cell(size, "muted")]


def kind_label(entries: Sequence[Entry], place: int) -> str:
    """The kind of an entry; of a tool result its tool's name, hung under its call."""
    match entries[place]:
        case ToolResultMessage() as result:
            is_last = place + 1 >= len(entries) or not isinstance(entries[place + 1], ToolResultMessage)
            return f"{'└' if is_last else '├'} {clip_cells(result.name or 'tool', 14)}"
        case SystemMessage(origin="summary"):
            return "summary"
        case UserMessage(origin="machine"):
            return "machine"
        case entry:
            return clip_cells(entry.type, 16)


class Naming:
    """Names entries in order: a result is named after the call it answers. Paths below `cwd` are relative."""

    def __init__(self, cwd: str) -> None:
        self._below = cwd.rstrip("/\\") + ("\\" if "\\" in cwd else "/")
        self._calls: dict[str, ToolCallPart] = {}

    def note(self, entry: Entry) -> None:
        if isinstance(entry, AssistantMessage):
            self._calls |= {call.call_id: call for call in entry.calls}

    def preview(self, entry: Entry) -> str:
        """What an entry says, outcome included, on one line. Foreign text, made harmless."""
        return _joined(self.about(entry), _outcome(entry))

    def about(self, entry: Entry) -> str:
        """The first line of an entry's text, or of the call that a result answers."""
        return clip_cells(self._about(entry), PREVIEW_CELLS)

    def _about(self, entry: Entry) -> str:
        match entry:
            case ToolResultMessage():
                call = self._calls.get(entry.call_id)
                return self._title(call) if call else _first_line(entry.text)
            case AssistantMessage() if not entry.text.strip():
                calls = ", ".join(f"{call.name} {self._title(call)}".strip() for call in entry.calls)
                thought = _first_line(entry.thinking)
                return calls or entry.error or (f"({thought})" if thought else "")
            case SystemMessage(origin="summary"):
                return _first_note(unframed(entry))
            case BaseMessage():
                images = sum(isinstance(part, ImagePart) for part in entry.parts)
                shown = f"[{many(images, 'image')}] " if images else ""
                return shown + _first_line(entry.text)
            case Undo() | Checkpoint() | Revert() | Clear() | Edit():
                return _change(entry)
            case _:
                return _marker(entry)

    def _title(self, call: ToolCallPart) -> str:
        return _first_line(subject_of(call).text).removeprefix(self._below)


def _outcome(entry: Entry) -> str:
    """How a tool call ended, in a few words."""
    if not isinstance(entry, ToolResultMessage):
        return ""
    brief = entry.details.brief or _first_line(entry.text)
    failed = entry.is_error and "✗" not in brief
    return clip_cells(f"{brief} ✗" if failed else brief, OUTCOME_CELLS)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _first_note(summary: str) -> str:
    """The first line of a summary that is no heading."""
    return _first_line("\n".join(line for line in summary.splitlines() if not line.startswith("#")))


def _marker(entry: Entry) -> str:
    match entry:
        case Compaction():
            size = sizes(entry.tokens_before, entry.tokens_after, "tokens")
            return _joined(size, entry.reason, _first_note(entry.summary))
        case RequestRecord():
            size = tokens(entry.usage.input) if entry.usage else tokens(entry.estimated, estimated=True)
            return _joined(entry.model, f"{size} tokens", entry.error or entry.stop_reason)
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


def _change(entry: Undo | Checkpoint | Revert | Clear | Edit) -> str:
    match entry:
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
        case _:
            assert_never(entry)


def _joined(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)
