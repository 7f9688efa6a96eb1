"""`foldline view` and `history`: print the model's view and all entries.

The view can be shown at any point in the history.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from foldline.llm.base import OFFLINE
from foldline.past.cache_use import CacheUse, cache_uses
from foldline.past.describe import (
    Description,
    describe,
    size_words,
    summary_words,
)
from foldline.past.moments import at_request, report_at, size_at
from foldline.past.proof import Proof, proof_of
from foldline.protocol import (
    CLAUDE_CODE,
    BaseMessage,
    Compaction,
    Entry,
    FoldlineError,
    RequestRecord,
    ToolResultMessage,
)
from foldline.text.numbers import many, percent, tokens
from foldline.view.budget import Size
from foldline.view.calls import paired
from foldline.view.items import FateKind, ViewItem
from foldline.view.projection import Projection, project
from foldline.view.state_signs import STATE_SIGNS
from foldline.view.tokens import message_tokens
from foldline.view.weight import (
    MESSAGES_ONLY,
    agent_report,
    entry_weight,
    item_weight,
    view_size,
)

from .output import (
    Cell,
    Column,
    Style,
    note,
    say,
    say_heading,
    say_json,
    say_legend,
    say_table,
)
from .settings import Window, window_of
from .sources import SourceSession, read_source
from .stats import cache_json

if TYPE_CHECKING:
    from foldline.llm.responses import Rendering


def view(
    source: str,
    at: int | None,
    request: int | None,
    as_json: bool,
    format_name: str | None,
) -> int:
    """Print a view.

    This is the current view, the view after entry `at`, or the view that a request sent.
    """
    session = read_source(source, format_name)
    if request is not None:
        shown = _at_request(session, request)
    else:
        entries = session.entries if at is None else entries_until(session, at)
        projection = session.project() if at is None else project(entries)
        moment = "now" if at is None else f"entry {at}"
        size = view_size(projection)
        shown = ShownView(session, projection, moment, size, agent_report(projection))
    if as_json:
        say_json(shown.json())
    else:
        _say_view(shown)
    if shown.sent is None or shown.sent.proof.holds:
        return 0
    note(f"{shown.sent.name} is not proved: {shown.sent.proof}.")
    return 1


def history(source: str, as_json: bool, format_name: str | None) -> int:
    """Print all entries with their states."""
    session = read_source(source, format_name)
    projection = session.project()
    if not as_json:
        _say_history(session, projection)
        return 0
    for entry in session.entries:
        fate = projection.fate(entry.index)
        weight = history_weight(projection, entry)
        description = describe(projection, entry, session.header.cwd)
        line = {
            "index": entry.index,
            "type": entry.type,
            "fate": fate.kind,
            "by": fate.by,
            "tokens": weight.tokens,
            "estimated": weight.estimated,
            "at": entry.at,
            "preview": description.line,
        }
        say_json(line, pretty=False)
    return 0


NO_SUCH_ENTRY = "{name} has no entry {at}: its entries are 0 to {last}."
RECONSTRUCTED = (
    "{name} does not record requests. This one is reconstructed from the history."
)
UNKNOWN_DIALECT = (
    "Unknown dialect {dialect!r}: the messages are shown in OpenAI's format."
)
REPORTED = "Request size, as reported by the agent: {size}."
ITEMS_WITHOUT = "Items are counted {without}."


def entries_until(session: SourceSession, at: int) -> list[Entry]:
    last = session.entries[-1].index if session.entries else -1
    if not 0 <= at <= last:
        raise FoldlineError(NO_SUCH_ENTRY, name=session.name, at=at, last=last)
    return [entry for entry in session.entries if entry.index <= at]


# --- a view -------------------------------------------------------------------------------------------


class SentView(NamedTuple):
    """The recorded request that sent a view."""

    number: int
    record: RequestRecord
    proof: Proof
    cache: CacheUse | None

    @property
    def name(self) -> str:
        return f"Request {self.number} (entry {self.record.index})"

    def json(self) -> dict[str, object]:
        record = self.record
        cache = {} if self.cache is None else {"cache": cache_json(self.cache)}
        return {
            "number": self.number,
            "entry": record.index,
            "model": record.model,
            "dialect": record.dialect,
            "digest": record.digest,
            "proved": self.proof.holds,
            **cache,
        }


@dataclass(frozen=True, slots=True)
class ShownView:
    """A view to print, with its session and size."""

    session: SourceSession
    projection: Projection
    moment: str
    size: Size
    report: int
    """The number of tokens reported for another agent's newest request, or 0 if unknown."""
    sent: SentView | None = None

    @property
    def window(self) -> Window:
        return window_of(self.projection, self.session.header.cwd)

    def json(self) -> dict[str, object]:
        rendering = None
        sent: dict[str, object] = {}
        if self.sent is not None:
            rendering = _rendering_of(self.sent.record)
            sent = {"request": self.sent.json()}
        elif self.projection.meter.is_foreign:
            rendering = _agent_rendering()
        shown = view_json(self.projection, self.window, self.size, rendering)
        return {**shown, "agent_tokens": self.report, **sent}


def _at_request(session: SourceSession, number: int) -> ShownView:
    """Return the view that a request sent.

    Without a record of the request, the view is reconstructed.
    """
    now = session.project()
    count = len(now.meter.requests)
    if not 1 <= number <= count:
        valid_range = (
            f"its requests are 1 to {count}" if count else "it has not sent any"
        )
        raise FoldlineError(f"{session.name} has no request {number}: {valid_range}.")
    moment = at_request(now, number)
    report = report_at(now, moment)
    if moment.recorded is None:
        note(RECONSTRUCTED.format(name=session.name))
        then = project(session.entries[: moment.length])
        return ShownView(session, then, moment.name, view_size(then), report)
    proof, then = proof_of(moment.recorded, session.entries)
    record = moment.recorded.record
    cache = next((use for use in cache_uses(now) if use.number == number), None)
    proved = "proved" if proof.holds else "not proved"
    name = f"{moment.name} to {record.model}, {proved}"
    if cache:
        name += f", {cache}"
    size = size_at(now, moment) or view_size(then)
    sent = SentView(number, record, proof, cache)
    return ShownView(session, then, name, size, report, sent)


def _agent_rendering() -> "Rendering":
    """Return a rendering that uses another agent's roles."""
    from foldline.formats.writers.openai import as_sent

    return as_sent


def _rendering_of(record: RequestRecord) -> "Rendering | None":
    """Return the rendering that was used for a request.

    Returns None for an unknown dialect.
    """
    from foldline.llm.responses import rendering_named

    if record.dialect == CLAUDE_CODE:
        return _agent_rendering()
    rendering = rendering_named(record.dialect, record.model)
    if rendering is None and record.dialect not in ("", OFFLINE):
        note(UNKNOWN_DIALECT.format(dialect=record.dialect))
    return rendering


def view_json(
    projection: Projection,
    window: Window,
    size: Size,
    rendering: "Rendering | None" = None,
) -> dict[str, object]:
    """Return the `--json` object for a view, with messages and items.

    Args:
        rendering: converts messages to the format of an API. By default, the format is that of OpenAI chat.
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
        note(f"{shown.session.name}: the view is empty ({shown.moment}).")
        return
    size = shown.size
    window = shown.window
    fill = f"{size_words(size)} of {window}"
    share = percent(size.tokens, window.tokens)
    say_heading(
        f"{shown.session.name} · LLM view, {shown.moment} · {len(items)} items · {fill} {share}"
    )
    if shown.report:
        sent = (
            f"{tokens(shown.report)} of {window} {percent(shown.report, window.tokens)}"
        )
        say(REPORTED.format(size=sent))
        say(ITEMS_WITHOUT.format(without=MESSAGES_ONLY))
    rows = []
    for item in items:
        message = item.message
        description = describe(projection, message, shown.session.header.cwd)
        fate: FateKind = "summarised" if item.written else item.fate
        if item.written:
            words = summary_words(projection, item)
            description = Description("summary", words)
        mark = _mark(fate, pinned=item.pinned, is_summary=item.written)
        cells = _entry_cells(
            projection, message, description, item_weight(projection, item)
        )
        rows.append([mark, str(item.index), *cells])
    say_table(
        (
            _STATE,
            _INDEX,
            Column("kind", most=16),
            Column("item", grows=True),
            *_END_COLUMNS,
        ),
        rows,
    )
    say_legend(LEGEND)


# --- a history ----------------------------------------------------------------------------------------


def history_weight(projection: Projection, entry: Entry) -> Size:
    """Return the weight of a message, or of the text written by a compaction."""
    match entry:
        case BaseMessage():
            return entry_weight(projection, entry)
        case Compaction():
            new = sum(message_tokens(piece.message) for piece in entry.written)
            return Size(round(new * projection.meter.scale), estimated=True)
        case _:
            return Size(0, estimated=False)


def _say_history(session: SourceSession, projection: Projection) -> None:
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
        f"{tokens(report)} tokens in the agent's last request" if report else "",
        f"{len(projection.view)} items in the view, {size_words(size)} tokens",
    ]
    say_heading(" · ".join(filter(None, parts)))
    rows = []
    for entry in entries:
        fate = projection.fate(entry.index)
        by = Cell("" if fate.by is None else str(fate.by), "muted")
        description = describe(projection, entry, session.header.cwd)
        weight = history_weight(projection, entry)
        cells = _entry_cells(projection, entry, description, weight)
        rows.append([_mark(fate.kind), by, str(entry.index), *cells])
    by_column = Column("by", right=True)
    columns = (
        _STATE,
        by_column,
        _INDEX,
        Column("type", most=16),
        Column("entry", grows=True),
    )
    say_table((*columns, *_END_COLUMNS), rows)
    say_legend(LEGEND)


# --- rows of a table ----------------------------------------------------------------------------------

_STATE = Column("state")
_INDEX = Column("no.", right=True)
_END_COLUMNS: Final = (Column("outcome", most=24), Column("tokens", right=True))
_STYLES: Final[Mapping[str, Style]] = {"╏": "altered", "┊": "compacted", " ": "muted"}
"""Styles of the signs in the gutter."""
LEGEND = (
    "┃ verbatim  ╏ changed  ┊ in a summary  * pinned  ~ estimated\n"
    "L live  C clipped  H hidden  S summarised  T truncated  R reverted  X cleared  D dropped"
)


def _mark(fate: FateKind, *, pinned: bool = False, is_summary: bool = False) -> Cell:
    """Return the cell for an item's state and gutter, for example `L┃`.

    A summary has no letter.
    """
    letter, sign, _ = STATE_SIGNS[fate]
    text = f" {' ' if is_summary else letter}{sign}{'*' if pinned else ''}"
    return Cell(text, _STYLES.get(sign))


def _entry_cells(
    projection: Projection, entry: Entry, description: Description, weight: Size
) -> list[Cell | str]:
    """Return the cells for an entry's kind, title, outcome and size."""
    kind = description.kind
    if isinstance(entry, ToolResultMessage):
        is_last = projection.group(entry.index)[-1] == entry.index
        kind = f"{'└' if is_last else '├'} {kind}"
    has_size = weight.tokens or isinstance(entry, BaseMessage)
    return [
        Cell(kind, _kind_style(entry)),
        description.title,
        Cell(description.outcome, "alert" if description.failed else "muted"),
        Cell(size_words(weight) if has_size else "", "muted"),
    ]


def _kind_style(entry: Entry) -> Style | None:
    if isinstance(entry, BaseMessage):
        return "bold" if entry.type == "user" else None
    return "compacted" if isinstance(entry, Compaction) else "muted"
