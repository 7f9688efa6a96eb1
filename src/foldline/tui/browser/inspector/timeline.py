"""The Timeline panel: a chart of tokens per request, and details of the displayed request."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from textual import events

from foldline.past.compactions import describe_compaction
from foldline.past.describe import describe, size_words
from foldline.past.moments import (
    Moment,
    SinceRequest,
    at_request,
    requests_before,
    since_request,
)
from foldline.past.subagents import SubagentAnswers
from foldline.protocol import Compaction, Entry
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.tui.browser.inspector import chart
from foldline.tui.browser.inspector.chart import ColumnLayout
from foldline.tui.browser.inspector.past import RequestFacts
from foldline.tui.browser.keys import scrubbing_words
from foldline.tui.look.cells import Span, Spans, crop, width_of
from foldline.tui.look.lines import LIGHT, LinesWidget, edge, hints_in, sides
from foldline.view.budget import RequestSize, Size
from foldline.view.projection import Projection
from foldline.view.weight import MESSAGES_ONLY, agent_report

TALL: Final = 29
"""Minimum Inspector height, in rows, at which the timeline is always shown (30 minus the header)."""
ROWS: Final = 4
"""Height of the chart with its axis, in rows."""
_LEAST: Final = 20
"""Minimum Inspector height, in rows, at which the timeline shows its full chart."""
_NARROW: Final = 88
"""Minimum width inside the frame, in cells, at which details are shown beside the chart."""
_WORDS: Final = 60
"""Width of the details beside the chart, in cells."""
_GAP: Final = "   "
_LOADING: Final = "loading …"
TITLE: Final = "4 Timeline: tokens per request"
REPORTED_LATER: Final = "; the reported size follows"
MEASURED_AND_ESTIMATE: Final = "{tokens} = last measured + estimate since"
NOT_IN_FILE: Final = "{reported:,} reported, ~{estimated:,} of it in this file"


@dataclass(frozen=True, slots=True)
class TimelineData:
    """The data shown in the timeline.

    A slot is the position of a request; the last slot is the next request.
    """

    sizes: Sequence[int]
    latest: int
    """Size of the next request, in tokens."""
    window: int
    """Size of the context window, in tokens; 0 if unknown."""
    shown: int
    compactions: tuple[tuple[int, int], ...] = ()
    """(index, slot) of each compaction."""
    marked: int | None = None
    words: tuple[Spans, ...] = ()
    """Details of the displayed request, line by line."""
    brief: str = ""
    """The same details, shortened to a few words."""
    subagents: tuple[tuple[int, int], ...] = ()
    """First and last slot of each subagent's run."""


def slot_of(projection: Projection, moment: Moment | None) -> int:
    """Return the slot of a point in history.

    A compaction has the slot of the last request before it. The current state (None) has the last slot.
    """
    if moment is None:
        return len(projection.meter.requests)
    if moment.kind == "request":
        return moment.number - 1
    return _slot_before(projection, moment.length)


def _slot_before(projection: Projection, position: int) -> int:
    """Return the slot of the last request before a position in the history."""
    return max(requests_before(projection.meter.requests, position) - 1, 0)


def compaction_slots(projection: Projection) -> tuple[tuple[int, int], ...]:
    """Return (index, slot) of each compaction, including undone ones."""
    indices = [compaction.index for compaction in projection.all_compactions]
    return tuple(
        (index, _slot_before(projection, projection.count_up_to(index)))
        for index in indices
    )


def subagent_slots(
    projection: Projection, answers: SubagentAnswers
) -> tuple[tuple[int, int], ...]:
    """Return the first and last slot of each subagent's run."""
    spans = answers.spans(projection)
    return tuple(
        (_slot_before(projection, start), _slot_before(projection, end))
        for _, start, end in spans
    )


def subagent_words(subagents: Iterable[tuple[int, int]], slot: int) -> str:
    """Return the number of subagents running during this slot, `3 subagents`; empty for 0."""
    count = sum(first <= slot <= last for first, last in subagents)
    return many(count, "subagent") if count else ""


def rows_for(height: int) -> int:
    """Return the chart height, in rows, for this Inspector height."""
    return ROWS if height >= _LEAST else 2


class _ChartLayout(NamedTuple):
    top: int
    """The top of the scale, in tokens."""
    labels: list[str]
    words_width: int
    """Width of the details beside the chart, in cells; 0 if they are not shown."""
    columns: ColumnLayout

    @property
    def first_cell(self) -> int:
        """The cell at which the first column starts.

        It follows the label and the axis, each preceded by a space.
        """
        return len(self.labels[0]) + 3


def _layout(data: TimelineData, width: int, rows: int) -> _ChartLayout:
    largest = max([*data.sizes, data.latest])
    top = chart.top_of(largest, data.window)
    labels = chart.labels(top, rows - 1)
    words_width = min(_WORDS, width // 2) if width >= _NARROW else 0
    margin = words_width + 2 if words_width else 1
    room = width - len(labels[0]) - 3 - margin
    columns = ColumnLayout(len(data.sizes) + 1, max(room, 1))
    return _ChartLayout(top, labels, words_width, columns)


def slot_at(data: TimelineData, width: int, rows: int, cell: int) -> int | None:
    """Return the last slot shown at a cell of the chart.

    Returns None if no request is shown there.
    """
    layout = _layout(data, width, rows)
    column = cell - layout.first_cell
    if not 0 <= column < layout.columns.columns:
        return None
    return layout.columns.requests_at(column)[1] - 1


def chart_lines(data: TimelineData, width: int, rows: int) -> list[list[Span]]:
    """Return the chart, its axis and the details on the right.

    The result has `rows` lines of `width` cells.
    """
    layout = _layout(data, width, rows)
    columns = layout.columns
    sizes = chart.heights(data.sizes, data.latest, columns)
    shown = columns.column(data.shown)
    bars = rows - 1
    bodies = [
        chart.bar_row(
            sizes,
            layout.top,
            row,
            bars,
            shown,
            columns.columns_per_request,
        )
        for row in reversed(range(bars))
    ]
    bodies.append(_axis(data, columns))
    lines: list[list[Span]] = []
    for number, (label, body) in enumerate(zip(layout.labels, bodies, strict=True)):
        sign = "┤" if number < bars else "└"
        line: list[Span] = [(f" {label} {sign}", "muted"), *body]
        if layout.words_width and number < len(data.words):
            words = crop(data.words[number], layout.words_width)
            line = [*crop(line, width - layout.words_width), *words]
        lines.append(crop(line, width))
    return lines


def _axis(data: TimelineData, columns: ColumnLayout) -> list[Span]:
    first_of_request = 1 - columns.columns_per_request
    subagents = [
        range(columns.column(first) + first_of_request, columns.column(last) + 1)
        for first, last in data.subagents
    ]
    return chart.axis(
        columns.columns,
        ((index, columns.column(slot)) for index, slot in data.compactions),
        columns.column(data.shown),
        None if data.marked is None else columns.column(data.marked),
        subagents,
    )


def panel_lines(data: TimelineData, width: int, height: int) -> list[list[Span]]:
    """Return the lines of the panel, including its frame."""
    right: Spans = (
        ("▼", "compacted"),
        (" compaction  ", "muted"),
        ("▲", "accent"),
        (" shown", "muted"),
    )
    if data.subagents:
        right = ((chart.SUBAGENT, "live"), (" subagent  ", "muted"), *right)
    if width - 2 < _NARROW:
        right = ((chart.SHOWN, "accent"), (f" {data.brief}", "text"))
    title = TITLE
    if width_of(right) + len(title) + 10 > width:
        title = TITLE.partition(":")[0]
    return [
        edge(
            LIGHT,
            True,
            ((title, "bold"),),
            right,
            width,
        ),
        *(
            sides(LIGHT, line, width)
            for line in chart_lines(data, width - 2, max(height - 2, 2))
        ),
        edge(
            LIGHT,
            False,
            hints_in(scrubbing_words(), "muted"),
            (),
            width,
        ),
    ]


class TimelinePanel(LinesWidget):
    """The widget that shows the timeline."""

    DEFAULT_CSS: ClassVar[str] = "TimelinePanel { height: 6; }"

    def __init__(self, pick: Callable[[int], None]) -> None:
        """Create an empty timeline.

        `pick` is called with the slot that was clicked.
        """
        super().__init__(id="timeline")
        self._pick = pick
        self.data = TimelineData((), 0, 0, 0)

    def show(self, data: TimelineData) -> None:
        self.data = data
        self.update()

    @property
    def shows_words(self) -> bool:
        """Whether details are shown beside the chart."""
        return self.size.width - 2 >= _NARROW and self.size.height >= ROWS + 2

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        return panel_lines(self.data, width, self.size.height)

    def on_click(self, event: events.Click) -> None:
        width, height = self.size
        slot = slot_at(
            self.data,
            width - 2,
            max(height - 2, 2),
            event.x - 1,
        )
        if slot is not None and 0 < event.y < height - 1:
            self._pick(slot)


# --- Words ------------------------------------------------------------------------------------------------


def now_words(now: Projection, size: Size, activity: str) -> tuple[Spans, ...]:
    """Return details of the next request, line by line."""
    number = len(now.meter.requests) + 1
    in_flight = "in flight" in activity
    state = "in flight" if in_flight else "not sent yet"
    newest = now.entries[-1] if in_flight else None
    tokens = size_words(size)
    if not size.estimated:
        weight = MEASURED_AND_ESTIMATE.format(tokens=tokens)
    elif agent_report(now):
        weight = f"{tokens}, {MESSAGES_ONLY}"
    else:
        weight = f"{tokens} estimated"
        if in_flight:
            weight += REPORTED_LATER
    lines: list[Spans] = [
        _head(f"request {number}", newest, now.meter.model, state),
        ((weight, "text"),),
    ]
    if number > 1:
        reported = size_report(
            now.meter.requests[-1], on_record=now.meter.records_requests
        )
        lines.append(((f"request {number - 1}: {reported}", "text"),))
        lines.append(_against_line(now, now, number - 1))
    return tuple(lines)


def request_words(
    now: Projection,
    moment: Moment,
    then: Projection | None,
    facts: RequestFacts,
) -> tuple[Spans, ...]:
    """Return details of a request that was sent, line by line.

    Args:
        then: the history at that point; None while it is being replayed.
        facts: if the cache use is known, it replaces the comparison with the previous request.
    """
    request = moment.request
    assert request is not None, "a request moment has its request"
    entry = now.entries[request.position]
    description = describe(now, entry)
    failed = description.tone == "alert"
    failure = description.title if failed else ""
    model = getattr(entry, "model", None)
    lines = [
        _head(
            moment.name,
            entry,
            model,
            failure,
            failed=failed,
        )
    ]
    lines.append(
        ((size_report(request, on_record=moment.recorded is not None), "text"),)
    )
    lines.append((_proof_words(moment, then, facts),))
    cache = facts.cache
    if cache is not None:
        lines.append(((str(cache), "altered" if cache.miss else "text"),))
    elif moment.number > 1 and then is not None:
        lines.append(_against_line(now, then, moment.number - 1))
    return tuple(lines)


def compaction_words(
    now: Projection, moment: Moment, compare_key: str
) -> tuple[Spans, ...]:
    """Return details of a compaction, line by line, with the sizes before and after it."""
    entry = now.entry(moment.number)
    head = _head(moment.name, entry, getattr(entry, "model", None), "")
    if not isinstance(entry, Compaction):
        return (head,)
    return (
        head,
        ((describe(now, entry).title, "text"),),
        ((describe_compaction(now, entry), "text"),),
        ((f"{compare_key} shows what it changed", "muted"),),
    )


def size_report(request: RequestSize, *, on_record: bool) -> str:
    """Return the known sizes of a request: `26,871 reported, 26,604 estimated (−1.0 %)`.

    Without a record, the estimate covers only the contents of the session file. Other agents do not store
    their system prompt and tools there.
    """
    if request.error is None:
        return f"~{request.estimated:,} estimated, nothing reported"
    if not on_record:
        return NOT_IN_FILE.format(
            reported=request.reported, estimated=request.estimated
        )
    error = round(request.error * 100, 1)
    sign = "±"
    if error:
        sign = "−" if error < 0 else "+"
    return f"{request.reported:,} reported, {request.estimated:,} estimated ({sign}{abs(error):.1f} %)"


def against_words(against: SinceRequest) -> str:
    """Describe the changes since a request.

    For example, `since request 84: 2 items added, nothing above them changed`.
    """
    name = f"since request {against.number}"
    if not against.added and not against.changed_by:
        return f"{name}: unchanged"
    added = f"{name}: {many(against.added, 'item')} added"
    if not against.changed_by:
        return (
            f"{added}, nothing above {'it' if against.added == 1 else 'them'} changed"
        )
    by = ", ".join(map(str, against.changed_by[:3]))
    if len(against.changed_by) > 3:
        by += " …"
    return f"{added}, earlier items changed by {by}"


def _against_line(now: Projection, then: Projection, number: int) -> Spans:
    length = at_request(now, number).length
    return ((against_words(since_request(then, number, length)), "muted"),)


def brief_words(
    moment: Moment | None, now: Projection, size: Size, facts: RequestFacts
) -> str:
    """Return a short description of a point in history, for a narrow timeline.

    If there was a cache miss, the description mentions it.
    """
    if moment is None:
        return f"request {len(now.meter.requests) + 1} {size_words(size)}"
    request = moment.request
    if request is None:
        return moment.name
    tokens = numbers.tokens(request.tokens, estimated=request.is_estimated)
    cache = facts.cache
    words = f"{moment.name} {tokens}"
    if cache is None or cache.miss is None:
        return words
    cached = numbers.tokens(cache.cached)
    expected = numbers.tokens(cache.expected)
    return f"{words} · {cached} of {expected} cached · {cache.miss}"


def _head(
    name: str,
    entry: Entry | None,
    model: str | None,
    state: str,
    *,
    failed: bool = False,
) -> Spans:
    parts: list[Span] = [(f"{chart.SHOWN} ", "accent"), (name, "bold")]
    if entry is not None and entry.at is not None:
        parts.append((f"{_GAP}{entry.at.astimezone():%H:%M:%S}", "text"))
    if model:
        parts.append((f"{_GAP}{clean_line(model)}", "text"))
    if state:
        parts.append((f"{_GAP}{state}", "alert" if failed else "text"))
    return tuple(parts)


def _proof_words(moment: Moment, then: Projection | None, facts: RequestFacts) -> Span:
    if then is None:
        return _LOADING, "muted"
    if moment.recorded is None:
        return NOT_RECORDED, "muted"
    if facts.holds is None:
        return CHECKING_RECORD, "muted"
    if facts.holds:
        return PROVED, "live"
    return NOT_PROVED.format(reason=facts.proof), "alert"


NOT_RECORDED: Final = "no record, reconstructed from the history"
CHECKING_RECORD: Final = "comparing with its record …"
PROVED: Final = "exactly as sent, proved by its record"
NOT_PROVED: Final = "not proved: {reason}"
