"""`foldline view`: the view of the model, now or at an earlier moment. `foldline history`: every entry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
from foldline.context.weight import MESSAGES_ONLY, Weight, agent_report, entry_weight, item_weight, view_size
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
from .stats import cache_json

if TYPE_CHECKING:
    from foldline.llm.responses import Rendering


def view(source: str, at: int | None, request: int | None, as_json: bool, format_name: str | None) -> int:
    """Print the view now, after entry `at`, or of one request."""
    session = read_source(source, format_name)
    if request is not None:
        return _view_request(session, request, as_json)
    projection = session.project() if at is None else project(entries_until(session, at))
    moment = "now" if at is None else f"entry {at}"
    _show(ShownView(session, projection, moment, view_size(projection), agent_report(projection)), as_json)
    return 0


def history(source: str, as_json: bool, format_name: str | None) -> int:
    """Print every entry with its state."""
    session = read_source(source, format_name)
    projection = session.project()
    if not as_json:
        _say_history(session, projection)
        return 0
    naming = Naming(session.header.cwd, projection)
    for entry in session.entries:
        fate = projection.fate(entry.index)
        weight = history_weight(projection, entry)
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


def entries_until(session: Source, at: int | None) -> list[Entry]:
    """Return the entries up to index `at`, or all of them."""
    if at is None:
        return session.entries
    last = session.entries[-1].index if session.entries else -1
    if not 0 <= at <= last:
        raise FoldlineError(f"{session.name} has no entry {at}: its entries are 0 to {last}.")
    return [entry for entry in session.entries if entry.index <= at]


# --- a view -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownView:
    """A view that is printed."""

    session: Source
    projection: Projection
    moment: str
    size: Size
    report: int
    """Tokens of another agent's newest request, as reported; 0 if unknown."""

    @property
    def window(self) -> Window:
        return window_of(self.projection, self.session.header.cwd)

    def json(self, rendering: "Rendering | None") -> dict[str, object]:
        shown = view_json(self.projection, self.window, self.size, rendering)
        return {**shown, "agent_tokens": self.report}


def _show(shown: ShownView, as_json: bool) -> None:
    if as_json:
        say_json(shown.json(_agent_rendering() if shown.projection.of_agent else None))
    else:
        _say_view(shown)


def _view_request(session: Source, request: int, as_json: bool) -> int:
    now = session.project()
    count = len(now.requests)
    if not 1 <= request <= count:
        known = f"its requests are 1 to {count}" if count else "no request was ever sent from it"
        raise FoldlineError(f"{session.name} has no request {request}: {known}.")
    moment = at_request(now, request)
    size = size_at(now, moment)
    report = report_at(now, moment)
    if moment.sent is not None:
        return _show_recorded(session, now, moment.sent, size, report, as_json)
    note(f"{session.name} does not record requests: this one is reconstructed from the history.")
    projection = project(session.entries[: moment.length])
    _show(ShownView(session, projection, moment.name, view_size(projection), report), as_json)
    return 0


def _show_recorded(
    session: Source, now: Projection, sent: RecordedRequest, size: Size | None, report: int, as_json: bool
) -> int:
    """Print a recorded request. Return 1 if it is not proved."""
    proof, projection = proof_of(sent, session.entries)
    record = sent.record
    cache = next((use for use in cache_uses(now) if use.number == sent.number), None)
    words = (f"request {sent.number} to {record.model}", "proved" if proof.holds else "not proved")
    moment = ", ".join((*words, str(cache)) if cache else words)
    shown = ShownView(session, projection, moment, size or view_size(projection), report)
    if as_json:
        about = {
            "number": sent.number,
            "entry": record.index,
            "model": record.model,
            "dialect": record.dialect,
            "digest": record.digest,
            "proved": proof.holds,
        }
        if cache:
            about["cache"] = cache_json(cache)
        say_json({**shown.json(_rendering_of(record)), "request": about})
    else:
        _say_view(shown)
    if proof.holds:
        return 0
    note(f"Request {sent.number} (entry {record.index}) is not proved: {proof}.")
    return 1


def _agent_rendering() -> "Rendering":
    """Return the rendering in the roles of another agent."""
    from foldline.formats.writers.openai import as_sent

    return as_sent


def _rendering_of(record: RequestRecord) -> "Rendering | None":
    """Return the rendering of a request; None for an unknown dialect."""
    from foldline.llm.responses import rendering_named

    if record.dialect == CLAUDE_CODE:
        return _agent_rendering()
    rendering = rendering_named(record.dialect, record.model)
    if rendering is None and record.dialect not in ("", OFFLINE):
        note(f"The dialect {record.dialect!r} is not known here: these are OpenAI messages.")
    return rendering


def view_json(
    projection: Projection, window: Window, size: Size, rendering: "Rendering | None" = None
) -> dict[str, object]:
    """Return the view for programs: messages and items.

    Args:
        rendering: of the API that the messages are for; OpenAI chat messages by default.
    """
    from foldline.llm.responses import as_openai

    render = rendering or as_openai
    return {
        "messages": render(paired(item.message for item in projection.view)),
        "items": [_item_json(projection, item) for item in projection.view],
        "tokens": size.tokens,
        "estimated": size.estimated,
        "window": window.tokens,
        "window_assumed": window.assumed,
    }


def _item_json(projection: Projection, item: ViewItem) -> dict[str, object]:
    weight = item_weight(projection, item)
    return {
        "index": item.index,
        "kind": item.kind,
        "fate": item.fate,
        "tokens": weight.tokens,
        "estimated": weight.estimated,
        "pinned": item.pinned,
    }


def _say_view(shown: ShownView) -> None:
    projection = shown.projection
    items = projection.view
    if not items:
        note(f"{shown.session.name}: nothing is in the view, {shown.moment}.")
        return
    size = shown.size
    window = shown.window
    fill = f"{tokens(size.tokens, estimated=size.estimated)} of {window}"
    share = percent(size.tokens, window.tokens)
    say_heading(f"{shown.session.name} · LLM view, {shown.moment} · {len(items)} items · {fill} {share}")
    if shown.report:
        sent = f"{tokens(shown.report)} of {window} {percent(shown.report, window.tokens)}"
        say(f"Its agent's request: {sent}, as reported. The items are counted {MESSAGES_ONLY}.")
    naming = Naming(shown.session.header.cwd, projection)
    messages = [item.message for item in items]
    rows = []
    for place, item in enumerate(items):
        cells = _entry_cells(naming, messages, place, item_weight(projection, item), _covered(item))
        mark = _mark("summarised" if item.written else item.fate, pinned=item.pinned, is_summary=item.written)
        rows.append([mark, str(item.index), *cells])
    columns = (
        Column("state"),
        Column("no.", right=True),
        Column("kind", most=16),
        Column("item", grows=True),
    )
    say_table((*columns, *_END_COLUMNS), rows)
    say_legend(LEGEND)


def _covered(item: ViewItem) -> str:
    """Entries behind a summary: `of 118, 119–351: `."""
    if not item.covers:
        return ""
    spans = [str(first) if first == last else f"{first}–{last}" for first, last in item.covers]
    if len(spans) > 4:
        spans = [*spans[:3], f"… {spans[-1]}"]
    return f"of {', '.join(spans)}: "


# --- a history ----------------------------------------------------------------------------------------


def history_weight(projection: Projection, entry: Entry) -> Weight:
    """Return the weight of a message, or a compaction's text."""
    match entry:
        case BaseMessage():
            return entry_weight(projection, entry)
        case Compaction():
            new = sum(message_tokens(piece.message) for piece in entry.written)
            return Weight(round(new * projection.scale), estimated=True)
        case _:
            return Weight(0, estimated=False)


def _say_history(session: Source, projection: Projection) -> None:
    entries = session.entries
    if not entries:
        note(f"{session.name} has no entries.")
        return
    size = view_size(projection)
    report = agent_report(projection)
    compactions = len(projection.compactions())
    parts = [
        session.name,
        f"{len(entries)} entries",
        many(compactions, "compaction") if compactions else "never compacted",
        f"{tokens(report)} tokens in its agent's last request" if report else "",
        f"{len(projection.view)} items in the view, {tokens(size.tokens, estimated=size.estimated)} tokens",
    ]
    say_heading(_joined(*parts))
    naming = Naming(session.header.cwd, projection)
    rows = []
    for place, entry in enumerate(entries):
        fate = projection.fate(entry.index)
        by = Cell("" if fate.by is None else str(fate.by), "muted")
        cells = _entry_cells(naming, entries, place, history_weight(projection, entry))
        rows.append([_mark(fate.kind), by, str(entry.index), *cells])
    columns = (
        Column("state"),
        Column("by", right=True),
        Column("no.", right=True),
        Column("type", most=16),
        Column("entry", grows=True),
    )
    say_table((*columns, *_END_COLUMNS), rows)
    say_legend(LEGEND)


# --- rows of a table ----------------------------------------------------------------------------------

PREVIEW_CELLS: Final = 160
"""Most cells of one entry's text: wider than any terminal."""
OUTCOME_CELLS: Final = 24
_END_COLUMNS: Final = (Column("outcome"), Column("tokens", right=True))
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


def _mark(fate: str, *, pinned: bool = False, is_summary: bool = False) -> Cell:
    """State and gutter: `L┃`. A summary has no letter."""
    letter, line, style = _MARKS[fate]
    return Cell(f" {' ' if is_summary else letter}{line}{'*' if pinned else ''}", style)


def _entry_cells(
    naming: "Naming", entries: Sequence[Entry], place: int, weight: Weight, prefix: str = ""
) -> list[Cell | str]:
    """Return kind, text, outcome and size of an entry."""
    entry = entries[place]
    is_failed = isinstance(entry, ToolResultMessage) and entry.is_error
    has_size = weight.tokens or isinstance(entry, BaseMessage)
    return [
        Cell(_kind_label(entries, place), _label_style(entry)),
        prefix + naming.about(entry),
        Cell(_outcome(entry), "alert" if is_failed else "muted"),
        Cell(tokens(weight.tokens, estimated=weight.estimated) if has_size else "", "muted"),
    ]


def _kind_label(entries: Sequence[Entry], place: int) -> str:
    """Return an entry's kind; for a result, its tool's name."""
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


def _label_style(entry: Entry) -> Style | None:
    if isinstance(entry, BaseMessage):
        return "bold" if entry.type == "user" else None
    return "compacted" if isinstance(entry, Compaction) else "muted"


class Naming:
    """Names entries, in order: a result is named after its call. Paths below `cwd` are relative."""

    def __init__(self, cwd: str, projection: Projection) -> None:
        self._projection = projection
        self._below = cwd.rstrip("/\\") + ("\\" if "\\" in cwd else "/")
        self._calls: dict[str, ToolCallPart] = {}

    def preview(self, entry: Entry) -> str:
        """Return an entry on one line with its outcome."""
        return _joined(self.about(entry), _outcome(entry))

    def about(self, entry: Entry) -> str:
        """Return an entry's first line, or its call's subject."""
        return clip_cells(self._about(entry), PREVIEW_CELLS)

    def _about(self, entry: Entry) -> str:
        match entry:
            case ToolResultMessage():
                call = self._calls.get(entry.call_id)
                return self._title(call) if call else _first_line(entry.text)
            case AssistantMessage():
                self._calls |= {call.call_id: call for call in entry.calls}
                return self._answer(entry)
            case SystemMessage(origin="summary"):
                return _first_note(within_frame(entry.text))
            case BaseMessage():
                return _message(entry)
            case Compaction():
                size = sizes_words(self._projection, entry, "tokens")
                return _joined(size, entry.reason, _first_note(entry.summary))
            case _:
                return _marker(entry)

    def _answer(self, answer: AssistantMessage) -> str:
        if answer.text.strip():
            return _message(answer)
        calls = ", ".join(f"{call.name} {self._title(call)}".strip() for call in answer.calls)
        thought = _first_line(answer.thinking)
        return calls or answer.error or (f"({thought})" if thought else "")

    def _title(self, call: ToolCallPart) -> str:
        return _first_line(subject_of(call).text).removeprefix(self._below)


def _message(message: BaseMessage) -> str:
    images = sum(isinstance(part, ImagePart) for part in message.parts)
    shown = f"[{many(images, 'image')}] " if images else ""
    return shown + _first_line(message.text)


def _outcome(entry: Entry) -> str:
    """Return the end of a tool call in a few words."""
    if not isinstance(entry, ToolResultMessage):
        return ""
    brief = entry.details.brief or _first_line(entry.text)
    if entry.is_error and "✗" not in brief:
        brief = f"{brief} ✗"
    return clip_cells(brief, OUTCOME_CELLS)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _first_note(summary: str) -> str:
    """Return the first line of a summary that is not a heading."""
    return _first_line("\n".join(line for line in summary.splitlines() if not line.startswith("#")))


def _marker(entry: Entry) -> str:
    match entry:
        case RequestRecord():
            usage = entry.usage or Usage(input=entry.estimated, source="estimated")
            size = tokens(usage.input, estimated=usage.source == "estimated")
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
            return _change(entry)


def _change(entry: Entry) -> str:
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
            return ""


def _joined(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)
