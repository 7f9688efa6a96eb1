"""`foldline view` and `foldline history`: what the model sees, now or at any earlier moment; every entry."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, assert_never

from foldline.context.budget import Size
from foldline.context.cache_use import cache_uses
from foldline.context.calls import paired, subject_of
from foldline.context.compactions import sizes_words
from foldline.context.language import within_frame
from foldline.context.moments import at_request, report_at, size_at
from foldline.context.numbers import many, percent, tokens
from foldline.context.permissions import approval_words
from foldline.context.projection import Projection, project
from foldline.context.proof import RecordedRequest, proof_of
from foldline.context.tokens import message_tokens
from foldline.context.view import ViewItem
from foldline.context.weight import (
    MESSAGES_ONLY,
    Weight,
    agent_report,
    entry_weight,
    item_weight,
    view_size,
)
from foldline.history import clip_cells
from foldline.llm.base import OFFLINE
from foldline.protocol import (
    CLAUDE_CODE,
    Approval,
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    Edit,
    Entry,
    FoldlineError,
    ImagePart,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Revert,
    Subagent,
    SystemMessage,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Undo,
    Usage,
    UserMessage,
)

from .output import Cell, Column, Style, note, say, say_heading, say_json, say_legend, say_table
from .settings import Window, window_of
from .sources import Source, read_source

if TYPE_CHECKING:
    from foldline.llm.responses import Rendering


def view(source: str, at: int | None, request: int | None, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    if request is None:
        moment = "now" if at is None else f"entry {at}"
        projection = project(entries_until(found, at))
        show_view(found, projection, moment, as_json, report=agent_report(projection))
        return 0
    now = found.project()
    count = len(now.requests)
    if not 1 <= request <= count:
        known = f"its requests are 1 to {count}" if count else "no request was ever sent from it"
        raise FoldlineError(f"{found.name} has no request {request}: {known}.")
    sent = at_request(now, request)
    size = size_at(now, sent)
    if sent.sent is not None:
        return show_sent(found, now, sent.sent, size, as_json, report_at(now, sent))
    note(f"{found.name} does not record requests: this one is reconstructed from the history.")
    show_view(found, project(found.entries[: sent.length]), sent.name, as_json, report=report_at(now, sent))
    return 0


def history(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    projection = found.project()
    if not as_json:
        say_history(found, projection)
        return 0
    naming = Naming(found.header.cwd, projection)
    for entry in found.entries:
        naming.note(entry)
        fate, weight = projection.fate(entry.index), history_weight(projection, entry)
        line = {
            "index": entry.index,
            "type": entry.type,
            "fate": fate.kind,
            "by": fate.by,
            "tokens": weight.tokens,
            "estimated": weight.estimated,
            "at": entry.at,
            "preview": naming.preview(entry),
        }
        say_json(line, pretty=False)
    return 0


def entries_until(source: Source, at: int | None) -> list[Entry]:
    if at is None:
        return source.entries
    last = source.entries[-1].index if source.entries else -1
    if not 0 <= at <= last:
        raise FoldlineError(f"{source.name} has no entry {at}: its entries are 0 to {last}.")
    return [entry for entry in source.entries if entry.index <= at]


def show_view(
    found: Source,
    projection: Projection,
    moment: str,
    as_json: bool,
    size: Size | None = None,
    report: int = 0,
) -> None:
    """Print a view.

    Args:
        size: of the request, if it is on record.
        report: tokens of another agent's newest request, as reported; 0 for none.
    """
    window = window_of(projection, found.header.cwd)
    size = size or view_size(projection)
    if as_json:
        rendering = _agent_rendering() if projection.of_agent else None
        say_json(view_json(projection, window, size, rendering) | {"agent_tokens": report})
        return
    _say_view(found, projection, window, moment, size, report)


def show_sent(
    found: Source, now: Projection, sent: RecordedRequest, size: Size | None, as_json: bool, report: int
) -> int:
    """Shows a request as its record says it was rendered; 1 where the history does not prove it. For `size`
    and `report` see `show_view`."""
    proof, projection = proof_of(sent, found.entries)
    record = sent.record
    cache = next((use for use in cache_uses(now) if use.number == sent.number), None)
    if as_json:
        from foldline.llm.responses import rendering_named

        from .stats import cache_json

        by_agent = record.dialect == CLAUDE_CODE
        rendering = _agent_rendering() if by_agent else rendering_named(record.dialect, record.model)
        if rendering is None and record.dialect not in ("", OFFLINE):
            note(f"The dialect {record.dialect!r} is not known here: these are OpenAI messages.")
        about = {
            "number": sent.number,
            "entry": record.index,
            "model": record.model,
            "dialect": record.dialect,
            "digest": record.digest,
            "proved": proof.holds,
            **({"cache": cache_json(cache)} if cache else {}),
        }
        window = window_of(projection, found.header.cwd)
        shown = view_json(projection, window, size or view_size(projection), rendering)
        say_json({**shown, "agent_tokens": report, "request": about})
    else:
        proved = "proved" if proof.holds else "not proved"
        moment = (f"request {sent.number} to {record.model}", proved, str(cache or ""))
        show_view(found, projection, ", ".join(filter(None, moment)), False, size, report)
    if not proof.holds:
        note(f"Request {sent.number} (entry {record.index}) is not proved: {proof}.")
    return 0 if proof.holds else 1


def _agent_rendering() -> "Rendering":
    """Return the rendering that keeps the roles in which another agent sent its messages."""
    from foldline.formats.openai_chat import as_sent

    return as_sent


def view_json(
    projection: Projection, window: Window, size: Size, rendering: "Rendering | None" = None
) -> dict[str, object]:
    """Return the view for programs: its messages, and the source of each item.

    Args:
        rendering: of the API that the messages are for; OpenAI chat messages by default.
    """
    from foldline.llm.responses import as_openai

    render = rendering or as_openai
    return {
        "messages": render(paired(item.message for item in projection.view)),
        "items": [_item_json(item, item_weight(projection, item)) for item in projection.view],
        "tokens": size.tokens,
        "estimated": size.estimated,
        "window": window.tokens,
        "window_assumed": window.assumed,
    }


def _item_json(item: ViewItem, weight: Weight) -> dict[str, object]:
    return {
        "index": item.index,
        "kind": item.kind,
        "fate": item.fate,
        "tokens": weight.tokens,
        "estimated": weight.estimated,
        "pinned": item.pinned,
    }


def _say_view(
    source: Source, projection: Projection, window: Window, moment: str, size: Size, report: int
) -> None:
    items = projection.view
    if not items:
        note(f"{source.name}: nothing is in the view, {moment}.")
        return
    fill = f"{tokens(size.tokens, estimated=size.estimated)} of {window}"
    share = percent(size.tokens, window.tokens)
    say_heading(f"{source.name} · LLM view, {moment} · {len(items)} items · {fill} {share}")
    if report:
        sent = f"{tokens(report)} of {window} {percent(report, window.tokens)}"
        say(f"Its agent's request: {sent}, as reported. The items are counted {MESSAGES_ONLY}.")
    naming = Naming(source.header.cwd, projection)
    messages = [item.message for item in items]
    rows: list[list[Cell | str]] = []
    for place, item in enumerate(items):
        naming.note(item.message)
        mark = mark_cell("summarised" if item.written else item.fate, pinned=item.pinned)
        mark = mark._replace(text=mark.text.replace("S", " ")) if item.written else mark
        label = Cell(kind_label(messages, place), _label_style(item.message))
        about: list[Cell | str] = [mark, str(item.index), label, _covered(item) + naming.about(item.message)]
        rows.append([*about, *ending_cells(item.message, item_weight(projection, item))])
    columns = (
        Column("state"),
        Column("no.", right=True),
        Column("kind", most=16),
        Column("item", grows=True),
    )
    say_table((*columns, *END_COLUMNS), rows)
    say_legend(LEGEND)


def _covered(item: ViewItem) -> str:
    """What a summary stands for: `of 118, 119–351`."""
    spans = [str(first) if first == last else f"{first}–{last}" for first, last in item.covers]
    shown = spans if len(spans) <= 4 else [*spans[:3], f"… {spans[-1]}"]
    return f"of {', '.join(shown)}: " if spans else ""


def history_weight(projection: Projection, entry: Entry) -> Weight:
    """The weight of a message as it was said, of a compaction's new text; other markers weigh nothing."""
    match entry:
        case BaseMessage():
            return entry_weight(projection, entry)
        case Compaction():
            scale = projection.scale
            new = sum(message_tokens(piece.message) for piece in entry.written)
            return Weight(round(new * scale), estimated=True)
        case _:
            return Weight(0, estimated=False)


def say_history(source: Source, projection: Projection) -> None:
    entries = source.entries
    if not entries:
        note(f"{source.name} has no entries.")
        return
    size, report = view_size(projection), agent_report(projection)
    count = len(projection.compactions())
    parts = (
        source.name,
        f"{len(entries)} entries",
        many(count, "compaction") if count else "never compacted",
        *([f"{tokens(report)} tokens in its agent's last request"] if report else []),
        f"{len(projection.view)} items in the view, {tokens(size.tokens, estimated=size.estimated)} tokens",
    )
    say_heading(" · ".join(parts))
    naming = Naming(source.header.cwd, projection)
    rows: list[list[Cell | str]] = []
    for place, entry in enumerate(entries):
        naming.note(entry)
        fate = projection.fate(entry.index)
        by = Cell("" if fate.by is None else str(fate.by), "muted")
        label = Cell(kind_label(entries, place), _label_style(entry))
        about: list[Cell | str] = [mark_cell(fate.kind), by, str(entry.index), label, naming.about(entry)]
        rows.append([*about, *ending_cells(entry, history_weight(projection, entry))])
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

    def __init__(self, cwd: str, projection: Projection) -> None:
        self._projection = projection
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
                return _first_note(within_frame(entry.text))
            case BaseMessage():
                images = sum(isinstance(part, ImagePart) for part in entry.parts)
                shown = f"[{many(images, 'image')}] " if images else ""
                return shown + _first_line(entry.text)
            case Undo() | Checkpoint() | Revert() | Clear() | Edit():
                return _change(entry)
            case Compaction():
                size = sizes_words(self._projection, entry, "tokens")
                return _joined(size, entry.reason, _first_note(entry.summary))
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
        case RequestRecord():
            counted = entry.usage or Usage(input=entry.estimated, source="estimated")
            size = tokens(counted.input, estimated=counted.source == "estimated")
            return _joined(entry.model, f"{size} tokens", entry.error or entry.stop_reason)
        case Title():
            return entry.title
        case ModelChange():
            return entry.model
        case NoticeRecord():
            return entry.text
        case Approval():
            return approval_words(entry)
        case Subagent():
            return _joined(entry.agent, entry.child, entry.title)
        case _:
            return ""


def _change(entry: Undo | Checkpoint | Revert | Clear | Edit) -> str:
    match entry:
        case Undo():
            return f"entry {entry.target} undone"
        case Checkpoint():
            return f"checkpoint {entry.id}"
        case Revert(moment=int() as moment):
            return f"to the branch of entry {moment}"
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
