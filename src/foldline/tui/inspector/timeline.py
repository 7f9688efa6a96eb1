"""Panel 4: tokens per request, and what the shown one was. Pure but for the widget at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.message import Message

from foldline.context.moments import Moment, requests_before
from foldline.context.projection import Projection
from foldline.tui.blocks import Span
from foldline.tui.blocks.cells import Spans, width_of
from foldline.tui.inspector import chart
from foldline.tui.inspector.chart import Spread
from foldline.tui.inspector.peaks import Peaks
from foldline.tui.widgets.frames import edge, frame, sides
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import crop

TALL: Final = 29
"""Rows the Inspector has from which on the timeline stands there always: a screen of 30 less its header."""
ROWS: Final = 4
"""Of the chart, its axis included."""
_LEAST: Final = 20
"""Rows from which on all of it has room when it is asked for."""
_NARROW: Final = 88
"""Cells inside the frame from which on words stand beside the chart."""
_WORDS: Final = 60
"""Cells of these words; SCREENS, picture (b)."""


class Series:
    """The sizes of all requests, kept up to date as the history grows: O(log n) for each."""

    def __init__(self) -> None:
        self.sizes = Peaks()
        self._on_record = False

    def follow(self, projection: Projection) -> None:
        """Take in what has been asked since the last time."""
        if projection.records_requests != self._on_record:  # the first record: answers count no longer
            self.sizes, self._on_record = Peaks(), projection.records_requests
        requests = projection.requests
        self.sizes.extend([asked.tokens for asked in requests[len(self.sizes) :]])


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to draw. Slots count requests from 0; the last one is the next request."""

    sizes: Peaks
    latest: int
    """Tokens of the next request."""
    window: int
    """Tokens; 0 where it is not known."""
    shown: int
    folds: tuple[tuple[int, int], ...] = ()
    """Index and slot of each fold."""
    marked: int | None = None
    words: tuple[Spans, ...] = ()
    """What the shown request was, line by line."""
    brief: str = ""
    """The same, where there is room for a few words only."""


def slot_of(projection: Projection, moment: Moment | None) -> int:
    """Where a moment stands; None is now, which comes last. A fold stands at the last request before it."""
    if moment is None:
        return len(projection.requests)
    if moment.kind == "request":
        return moment.number - 1
    return max(requests_before(projection.requests, moment.length) - 1, 0)


def fold_slots(projection: Projection) -> tuple[tuple[int, int], ...]:
    """Index and slot of every fold there ever was."""
    requests = projection.requests
    return tuple(
        (fold.index, max(requests_before(requests, projection.count_up_to(fold.index)) - 1, 0))
        for fold in projection.folds
    )


def rows_for(height: int, asked_for: bool) -> int:
    """Rows of chart and axis in an Inspector of so many rows; 0: no timeline. On a short screen it is there
    while it is `asked_for`."""
    if height >= TALL:
        return ROWS
    if not asked_for:
        return 0
    return ROWS if height >= _LEAST else 2


def chart_lines(scene: Scene, width: int, rows: int) -> list[list[Span]]:
    """`rows` lines of `width` cells: the chart, its axis below it, words at the right."""
    bars = rows - 1
    beside = min(_WORDS, width // 2) if width >= _NARROW else 0
    largest = max(scene.sizes.most(0, len(scene.sizes)), scene.latest)
    top = chart.top_of(largest, scene.window)
    labels = chart.labels(top, bars)
    left = len(labels[0]) + 3
    spread = Spread(len(scene.sizes) + 1, max(width - left - (beside + 2 if beside else 1), 1))
    sizes = chart.heights(scene.sizes, scene.latest, spread)
    shown = spread.column(scene.shown)
    marked = None if scene.marked is None else spread.column(scene.marked)
    lines: list[list[Span]] = []
    for number, label in enumerate(labels):
        if number < bars:
            body = chart.bar_row(sizes, top, bars - 1 - number, bars, shown)
            sign = "┤"
        else:
            folds = ((index, spread.column(slot)) for index, slot in scene.folds)
            body, sign = chart.axis(spread.columns, folds, shown, marked), "└"
        line: list[Span] = [(f" {label} {sign}", "muted"), *body]
        if beside and number < len(scene.words):
            line = [*crop(line, width - beside), *crop(scene.words[number], beside)]
        lines.append(crop(line, width))
    return lines


def panel_lines(scene: Scene, width: int, height: int, *, focused: bool, keys: str) -> list[list[Span]]:
    """The panel with its frame. `keys` says what scrubs, for the lower edge."""
    look = frame(focused)
    right: Spans = (("▼", "folded"), (" fold  ", "muted"), ("▲", "accent"), (" shown", "muted"))
    if width - 2 < _NARROW:
        right = ((chart.SHOWN, "accent"), (f" {scene.brief}", "text"))
    title = "4 Timeline: tokens per request"
    if width_of(right) + len(title) + 10 > width:
        title = "4 Timeline"
    return [
        edge(look, True, ((title, "bold"),), right, width),
        *(sides(look, line, width) for line in chart_lines(scene, width - 2, max(height - 2, 2))),
        edge(
            look, False, ((keys, "muted"),), (("Enter to its first entry", "text"),) if focused else (), width
        ),
    ]


class TimelinePanel(Lines, can_focus=True):
    """The panel. What it is asked for it posts; the board goes there."""

    DEFAULT_CSS: ClassVar[str] = "TimelinePanel { height: 6; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step('older-request')", show=False),
        Binding("right", "step('newer-request')", show=False),
        Binding("home", "step('first-request')", show=False),
        Binding("end", "step('now')", show=False),
        Binding("enter", "step('first-entry')", show=False),
    ]

    class Asked(Message):
        """A key of the timeline, by the name of its command."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    def __init__(self, keys: str) -> None:
        """`keys` says what scrubs."""
        super().__init__(id="timeline")
        self._keys = keys
        self.scene = Scene(Peaks(), 0, 0, 0)

    def show(self, scene: Scene) -> None:
        self.scene = scene
        self.update()

    @property
    def says_all(self) -> bool:
        """Whether the words stand beside the chart."""
        return self.size.width - 2 >= _NARROW and self.size.height >= ROWS + 2

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        return panel_lines(self.scene, width, self.size.height, focused=self.has_focus, keys=self._keys)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.update()

    def action_step(self, command: str) -> None:
        self.post_message(self.Asked(command))
