"""The row of the context meter: the bar, the numbers, cache, cost and branch."""

from foldline.context.harmless import clean_line
from foldline.tui import numbers
from foldline.tui.blocks.cells import Span, Spans
from foldline.tui.meter import Part, bar
from foldline.tui.state import ChatState, Room
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import Piece, piece, row

PART_STYLES: dict[Part, str] = {
    "system": "muted",
    "summaries": "folded",
    "folding": "folded",
    "verbatim": "live",
    "free": "muted",
    "soft": "altered",
    "threshold": "alert",
    "cut": "accent",
}


def bar_cells(width: int) -> int:
    """How long the bar is in a row of this width."""
    if width < 60:
        return 8
    if width < 100:
        return 16
    return 32 if width < 160 else 48


def meter_row(state: ChatState, width: int) -> list[Span]:
    """` ▐▓▓▒████◆█┆███┃···▌ 116.2k of 131k  89% → ~27k        cached 113k   $1.84   git main ±3 `."""
    room = state.room
    right: list[Piece] = []
    if state.cached is not None:
        right.append(piece(f"cached {_cached(state.cached)}", "muted", rank=3))
    if state.cost is not None:
        right.append(piece(numbers.price(state.cost), "muted", rank=2))
    if state.git:
        git = clean_line(state.git)
        right.append(piece(f"git {git}" if width >= 100 else git.split(" ")[-1], "muted", rank=4))
    left = [Piece(_bar(room, bar_cells(width)), rank=1), Piece(_numbers(state), gap=1)]
    return row(left, right, width)


def _bar(room: Room, cells: int) -> Spans:
    return (("▐", "muted"), *bar_spans(room, cells), ("▌", "muted"))


def bar_spans(room: Room, cells: int) -> Spans:
    """The bar between its ends, in its colours; what lies past the threshold is alarming."""
    spans: list[Span] = []
    past = False
    for glyph, part in bar(room, cells):
        past = past or part == "threshold"
        style = "alert" if past and part == "verbatim" else PART_STYLES[part]
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + glyph, style)
        else:
            spans.append((glyph, style))
    return tuple(spans)


def _numbers(state: ChatState) -> Spans:
    room = state.room
    if room.window <= 0:
        return ((f"{numbers.tokens(room.size)} tokens", "text"),)
    size = "alert" if room.past_threshold else "text"
    spans: list[Span] = [
        (numbers.tokens(room.size), size),
        (f" of {numbers.short_tokens(room.window, estimated=room.assumed)}  ", "muted"),
        (numbers.percent(room.size, room.window), size),
    ]
    if after := _after(state):
        spans.append((f" → {after}", "folded"))
    return tuple(spans)


def _cached(tokens: int) -> str:
    """As the size beside it, while there is room: `26.6k`, `113k`."""
    return numbers.tokens(tokens) if tokens < 99_950 else numbers.short_tokens(tokens)


def _after(state: ChatState) -> str:
    """What the fold that is made would leave: as the plan expects, or as the proposal is."""
    if state.compacting is None:
        return ""
    if state.proposal is not None and state.proposal.waits:
        return numbers.tokens(state.proposal.tokens_after)
    expected = state.compacting.expected_after
    return "" if expected is None else numbers.about_tokens(expected)


class Meter(Lines):
    """One row below the prompt."""

    def __init__(self) -> None:
        super().__init__(id="meter")
        self._state = ChatState()

    def show(self, state: ChatState) -> None:
        self._state = state
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [meter_row(self._state, width)]


def header(state: ChatState, width: int, help_key: str) -> list[Span]:
    """` shop-api ▸ Idempotent orders        kimi-k2   edits: ask   fold: auto   F1 help `."""
    place = clean_line(state.workdir) or "foldline"
    where: list[Span] = [(place, "bold")]
    if state.title:
        where += [(" ▸ ", "muted"), (clean_line(state.title), "text bold")]
    right = [piece(clean_line(state.model) or "no model", "text", rank=1)]
    for name, value, usual in (("edits", state.edits, "ask"), ("fold", state.fold, "auto")):
        if value == usual and width < 100:
            continue
        if value == "all":
            right.append(Piece((("asks: ", "muted"), ("never", "alert"))))
            continue
        style = "muted" if value == usual else "altered"
        right.append(Piece(((f"{name}: ", "muted"), (value, style)), rank=3))
    right.append(Piece(((help_key, "accent"), (" help", "muted")), rank=2))
    return row([Piece(tuple(where), cut="right", least=width // 3)], right, width)


class Header(Lines):
    """One row at the top."""

    def __init__(self, help_key: str) -> None:
        super().__init__(id="header")
        self._help_key = help_key
        self._state = ChatState()

    def show(self, state: ChatState) -> None:
        self._state = state
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [header(self._state, width, self._help_key)]
