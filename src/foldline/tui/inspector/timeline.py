"""Panel 4: tokens per request, and what the shown one was. Pure but for the widget at the end."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType

from foldline.context import numbers
from foldline.context.budget import RequestSize, Size
from foldline.context.cache_use import CacheUse
from foldline.context.compactions import compacted_count, sizes_words
from foldline.context.harmless import clean_line
from foldline.context.moments import Moment, SinceRequest, at_request, requests_before, since_request
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.context.subagents import Answers
from foldline.context.weight import MESSAGES_ONLY, agent_report
from foldline.protocol import AssistantMessage, Compaction, Entry, RequestRecord
from foldline.tui.blocks.cells import Span, Spans, crop, width_of
from foldline.tui.inspector import chart
from foldline.tui.inspector.chart import Spread
from foldline.tui.inspector.keys import scrubbing_words
from foldline.tui.inspector.past import Verdict
from foldline.tui.state import reason_words
from foldline.tui.widgets.lines import Lines, edge, frame, hints_in, sides

TALL: Final = 29
"""Rows the Inspector has from which on the timeline stands there always: a screen of 30 less its header."""
ROWS: Final = 4
"""Of the chart, its axis included."""
_LEAST: Final = 20
"""Rows from which on all of it has room when it is asked for."""
_NARROW: Final = 88
"""Cells inside the frame from which on words stand beside the chart."""
_WORDS: Final = 60
"""Cells of these words."""
_GAP: Final = "   "
_LOADING: Final = "loading …"


class Series:
    """The sizes of all requests, kept up to date as the history grows."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._on_record = False

    def follow(self, projection: Projection) -> None:
        """Take in what has been asked since the last time."""
        if projection.records_requests != self._on_record:  # the first record: answers count no longer
            self.sizes, self._on_record = [], projection.records_requests
        requests = projection.requests
        self.sizes.extend([asked.tokens for asked in requests[len(self.sizes) :]])


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to draw. Slots count requests from 0; the last one is the next request."""

    sizes: Sequence[int]
    latest: int
    """Tokens of the next request."""
    window: int
    """Tokens; 0 where it is not known."""
    shown: int
    compactions: tuple[tuple[int, int], ...] = ()
    """Index and slot of each."""
    marked: int | None = None
    words: tuple[Spans, ...] = ()
    """What the shown request was, line by line."""
    brief: str = ""
    """The same, where there is room for a few words only."""
    subagents: tuple[tuple[int, int], ...] = ()
    """Of each the slots of the first and the last request that was out before its answer."""


def slot_of(projection: Projection, moment: Moment | None) -> int:
    """The slot of a moment; None is now, which comes last. A compaction stands at the last request before."""
    if moment is None:
        return len(projection.requests)
    if moment.kind == "request":
        return moment.number - 1
    return max(requests_before(projection.requests, moment.length) - 1, 0)


def compaction_slots(projection: Projection) -> tuple[tuple[int, int], ...]:
    """Index and slot of every compaction there ever was."""
    requests = projection.requests
    return tuple(
        (each.index, max(requests_before(requests, projection.count_up_to(each.index)) - 1, 0))
        for each in projection.all_compactions
    )


def subagent_slots(projection: Projection, answers: Answers) -> tuple[tuple[int, int], ...]:
    """The spans of all subagents."""
    requests = projection.requests

    def slot(position: int) -> int:
        return max(requests_before(requests, position) - 1, 0)

    return tuple((slot(start), slot(end)) for _, start, end in answers.spans(projection))


def subagent_words(subagents: Iterable[tuple[int, int]], slot: int) -> str:
    """`3 subagents`: how many ran after the request in this slot."""
    count = sum(first <= slot <= last for first, last in subagents)
    return many(count, "subagent") if count else ""


def rows_for(height: int, asked_for: bool) -> int:
    """Rows of chart and axis in an Inspector of so many rows; 0: no timeline. On a short screen it is there
    while it is `asked_for`."""
    if height >= TALL:
        return ROWS
    return 0 if not asked_for else ROWS if height >= _LEAST else 2


def _spread(scene: Scene, width: int, rows: int) -> tuple[int, list[str], int, Spread]:
    """Of the chart: its top in tokens, its labels, the cells of these and of words beside it, its columns."""
    largest = max([*scene.sizes, scene.latest])
    top = chart.top_of(largest, scene.window)
    labels = chart.labels(top, rows - 1)
    beside = min(_WORDS, width // 2) if width >= _NARROW else 0
    room = width - len(labels[0]) - 3 - (beside + 2 if beside else 1)
    return top, labels, beside, Spread(len(scene.sizes) + 1, max(room, 1))


def slot_at(scene: Scene, width: int, rows: int, cell: int) -> int | None:
    """The last slot that a cell of such a chart stands for; None beside its columns."""
    _, labels, _, spread = _spread(scene, width, rows)
    column = cell - len(labels[0]) - 3
    return spread.share(column)[1] - 1 if 0 <= column < spread.columns else None


def chart_lines(scene: Scene, width: int, rows: int) -> list[list[Span]]:
    """`rows` lines of `width` cells: the chart, its axis below it, words at the right."""
    bars = rows - 1
    top, labels, beside, spread = _spread(scene, width, rows)
    sizes = chart.heights(scene.sizes, scene.latest, spread)
    shown = spread.column(scene.shown)
    marked = None if scene.marked is None else spread.column(scene.marked)
    lines: list[list[Span]] = []
    for number, label in enumerate(labels):
        if number < bars:
            body, sign = chart.bar_row(sizes, top, bars - 1 - number, bars, shown, spread.each), "┤"
        else:
            columns = ((index, spread.column(slot)) for index, slot in scene.compactions)
            ran = (
                range(spread.column(first) + 1 - spread.each, spread.column(last) + 1)
                for first, last in scene.subagents
            )
            body, sign = chart.axis(spread.columns, columns, shown, marked, ran), "└"
        line: list[Span] = [(f" {label} {sign}", "muted"), *body]
        if beside and number < len(scene.words):
            line = [*crop(line, width - beside), *crop(scene.words[number], beside)]
        lines.append(crop(line, width))
    return lines


def panel_lines(scene: Scene, width: int, height: int, *, focused: bool) -> list[list[Span]]:
    """The panel with its frame."""
    look = frame(focused)
    right: Spans = (("▼", "folded"), (" compaction  ", "muted"), ("▲", "accent"), (" shown", "muted"))
    if scene.subagents:
        right = ((chart.SUBAGENT, "live"), (" subagent  ", "muted"), *right)
    if width - 2 < _NARROW:
        right = ((chart.SHOWN, "accent"), (f" {scene.brief}", "text"))
    title = "4 Timeline: tokens per request"
    if width_of(right) + len(title) + 10 > width:
        title = "4 Timeline"
    enter = hints_in("Enter to its first entry", "text") if focused else ()
    return [
        edge(look, True, ((title, "bold"),), right, width),
        *(sides(look, line, width) for line in chart_lines(scene, width - 2, max(height - 2, 2))),
        edge(look, False, hints_in(scrubbing_words(), "muted"), enter, width),
    ]


class TimelinePanel(Lines, can_focus=True):
    """The panel. `asked` hears of a key, by the name of its command, `picked` of a click, by the slot."""

    DEFAULT_CSS: ClassVar[str] = "TimelinePanel { height: 6; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step('older-request')", show=False),
        Binding("right", "step('newer-request')", show=False),
        Binding("home", "step('first-request')", show=False),
        Binding("end", "step('now')", show=False),
        Binding("enter", "step('first-entry')", show=False),
    ]

    def __init__(self, asked: Callable[[str], None], picked: Callable[[int], None]) -> None:
        super().__init__(id="timeline")
        self.action_step, self._picked = asked, picked
        self.scene = Scene((), 0, 0, 0)

    def show(self, scene: Scene) -> None:
        self.scene = scene
        self.update()

    @property
    def says_all(self) -> bool:
        """Whether the words stand beside the chart."""
        return self.size.width - 2 >= _NARROW and self.size.height >= ROWS + 2

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        return panel_lines(self.scene, width, self.size.height, focused=self.has_focus)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.update()

    def on_click(self, event: events.Click) -> None:
        width, height = self.size
        slot = slot_at(self.scene, width - 2, max(height - 2, 2), event.x - 1)
        if slot is not None and 0 < event.y < height - 1:
            self._picked(slot)


# --- Words ------------------------------------------------------------------------------------------------


def now_words(now: Projection, size: Size, activity: str) -> tuple[Spans, ...]:
    """Of the next request, which nobody has counted yet."""
    number = len(now.requests) + 1
    in_flight = "in flight" in activity
    state = "in flight" if in_flight else "not sent yet"
    newest = now.entries[-1] if in_flight else None
    tokens = numbers.tokens(size.tokens, estimated=size.estimated)
    if size.estimated and agent_report(now):
        weight = f"{tokens} from here, {MESSAGES_ONLY}"
    elif size.estimated:
        weight = f"{tokens} estimated" + ("; reported when it ends" if in_flight else "")
    else:
        weight = f"{tokens}: the last report, and an estimate of what came since"
    lines: list[Spans] = [_head(f"request {number}", newest, now.model, state), ((weight, "text"),)]
    if number > 1:
        was = asked_words(now.requests[number - 2], on_record=now.records_requests)
        lines.append(((f"request {number - 1}: {was}", "text"),))
        lines.append(_against_line(now, now, number - 1))
    return tuple(lines)


def request_words(
    now: Projection,
    moment: Moment,
    then: Projection | None,
    proof: Verdict | None,
    cache: CacheUse | None = None,
) -> tuple[Spans, ...]:
    """Of a request that left; without `then`, the history as it was, that is being put together. What the
    cache had of it says also whether anything above was changed."""
    asked = moment.asked
    assert asked is not None, "a request is asked"
    entry = now.entries[asked.position]
    model, state = None, ""
    match entry:
        case RequestRecord():
            model, state = entry.model, f"failed: {clean_line(entry.error)}" if entry.error else ""
        case AssistantMessage():
            model = entry.model
    lines: list[Spans] = [_head(moment.name, entry, model, state, failed=bool(state))]
    lines.append(((asked_words(asked, on_record=moment.sent is not None), "text"),))
    lines.append((_proof_words(moment, then, proof),))
    if cache is not None:
        lines.append(((str(cache), "altered" if cache.miss else "text"),))
    elif moment.number > 1 and then is not None:
        lines.append(_against_line(now, then, moment.number - 1))
    return tuple(lines)


def compaction_words(
    now: Projection, moment: Moment, then: Projection | None, compare_key: str
) -> tuple[Spans, ...]:
    """Of a compaction: what it made of how much."""
    entry = now.entry(moment.number)
    name = moment.name
    if not isinstance(entry, Compaction):
        return (_head(name, entry, None, ""),)
    lines: list[Spans] = [_head(name, entry, entry.model, reason_words(entry.reason))]
    if then is None:
        return (*lines, ((_LOADING, "muted"),))
    lines.append(((sizes_words(now, entry), "text"),))
    written, compacted = len(entry.written), compacted_count(then, entry)
    if written:
        words = f"{many(compacted, 'entry', 'entries')} → {many(written, 'summary', 'summaries')}"
        lines.append(((words, "text"),))
    return (*lines, ((f"{compare_key} shows what it changed", "muted"),))


def asked_words(asked: RequestSize, *, on_record: bool) -> str:
    """`26,871 reported, 26,604 estimated (−1.0 %)`, or what of it is known.

    An estimate that is not `on_record` is of what the history holds: other agents keep their system prompt
    and their tools to themselves.
    """
    if asked.error is None:
        return f"~{asked.estimated:,} estimated, nothing reported"
    if not on_record:
        return f"{asked.reported:,} reported, ~{asked.estimated:,} of it in this file"
    off = round(asked.error * 100, 1)
    sign = "−" if off < 0 else "+" if off > 0 else "±"
    return f"{asked.reported:,} reported, {asked.estimated:,} estimated ({sign}{abs(off):.1f} %)"


def against_words(against: SinceRequest) -> str:
    """`against 84: 2 items added, nothing above them changed`."""
    if not against.added and not against.changed_by:
        return f"against {against.number}: unchanged"
    added = f"against {against.number}: {many(against.added, 'item')} added"
    if not against.changed_by:
        return f"{added}, nothing above {'it' if against.added == 1 else 'them'} changed"
    by = ", ".join(map(str, against.changed_by[:3])) + (" …" if len(against.changed_by) > 3 else "")
    return f"{added}, above changed by {by}"


def _against_line(now: Projection, then: Projection, before: int) -> Spans:
    since = at_request(now, before).length
    return ((against_words(since_request(then, before, since)), "muted"),)


def brief_words(moment: Moment | None, now: Projection, size: Size, cache: CacheUse | None = None) -> str:
    """The moment in a few words, for a narrow frame: of a request also what a cache should have had of it."""
    if moment is None:
        return f"request {len(now.requests) + 1} {numbers.tokens(size.tokens, estimated=size.estimated)}"
    if moment.asked is None:
        return moment.name
    words = f"{moment.name} {numbers.tokens(moment.asked.tokens, estimated=moment.asked.is_estimated)}"
    if cache is None or cache.miss is None:
        return words
    had = f"{numbers.tokens(cache.cached)} of {numbers.tokens(cache.expected)} cached"
    return f"{words} · {had} · {cache.miss}"


def _head(name: str, entry: Entry | None, model: str | None, state: str, *, failed: bool = False) -> Spans:
    parts: list[Span] = [(f"{chart.SHOWN} ", "accent"), (name, "bold")]
    if entry is not None and entry.at is not None:
        parts.append((f"{_GAP}{entry.at.astimezone():%H:%M:%S}", "text"))
    if model:
        parts.append((f"{_GAP}{clean_line(model)}", "text"))
    if state:
        parts.append((f"{_GAP}{state}", "alert" if failed else "text"))
    return tuple(parts)


def _proof_words(moment: Moment, then: Projection | None, proof: Verdict | None) -> Span:
    if then is None:
        return _LOADING, "muted"
    if moment.sent is None:
        return "no record of it: this is what the history gives", "muted"
    if proof is None:
        return "its record is compared …", "muted"
    if proof.holds:
        return "as sent, proved by its record", "live"
    return f"not proved: {proof.words}", "alert"
