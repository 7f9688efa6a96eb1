"""The head of the preview: where we are, and the window now and after."""

from foldline.tui import numbers
from foldline.tui.blocks import Span, Spans, clean_line
from foldline.tui.meter import bar
from foldline.tui.preview.outlook import Outlook
from foldline.tui.preview.state import PreviewState
from foldline.tui.rungs import rung_words
from foldline.tui.state import Room, Weights
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.meter import PART_STYLES
from foldline.tui.widgets.rows import Piece, piece, row


def header_row(title: str, state: PreviewState, width: int) -> list[Span]:
    """` shop-api ▸ Orders ▸ Compact preview    threshold · waits for you   SummaryCompaction   kimi-k2 `."""
    entry = state.proposal.entry if state.proposal else None
    strategy = (entry.strategy if entry else "") or state.strategy
    model = entry.model or "" if entry else state.model
    rung = rung_words(entry.rung) if entry else ""
    where = Piece(
        ((clean_line(title), "bold"), (" ▸ ", "muted"), ("Compact preview", "text bold")),
        cut="left",
        least=width // 3,
    )
    why: list[Span] = [(state.reason, "text")]
    if state.waits:
        why += [(" · ", "muted"), ("waits for you", "accent")]
    right = [Piece(tuple(why), rank=1)]
    for words, style, rank in ((strategy, "muted", 3), (rung, "altered", 2), (model, "text", 4)):
        if words:
            right.append(piece(clean_line(words), style, rank=rank))
    return row([where], right, width)


def bar_rows(state: PreviewState, outlook: Outlook | None, width: int) -> list[list[Span]]:
    """The window now, what of it would be folded; and after. What the draft took; what each request saves."""
    if outlook is None:
        return [row([piece("Nothing is drafted.", "muted")], [], width), []]
    cells = min(max(width - 56, 12), 64)
    window = state.window or outlook.before
    about = state.proposal is None or state.proposal.state == "stale"
    after = numbers.about_tokens(outlook.after) if about else numbers.tokens(outlook.after)
    saved = outlook.before - outlook.after
    saves = f"−{numbers.tokens(saved)} in every request" if saved > 0 else ""
    return [
        _bar(
            "now",
            outlook.weights_now(),
            outlook.before,
            window,
            cells,
            numbers.tokens(outlook.before),
            _cost(state),
            width,
        ),
        _bar("after", outlook.weights_after(), outlook.after, window, cells, after, saves, width),
    ]


def _bar(
    name: str, weights: Weights, size: int, window: int, cells: int, words: str, remark: str, width: int
) -> list[Span]:
    room = Room(size=size, window=window, weights=weights)
    left = [
        piece(f"{name:<6}", "muted"),
        Piece(_cells(room, cells), gap=1),
        piece(f"{words:>7}", "text bold", gap=1),
    ]
    return row(left, [piece(remark, "muted", rank=1)] if remark else [], width)


def _cells(room: Room, cells: int) -> Spans:
    spans: list[Span] = []
    for glyph, part in bar(room, cells):
        style = PART_STYLES[part]
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + glyph, style)
        else:
            spans.append((glyph, style))
    return tuple(spans)


def _cost(state: PreviewState) -> str:
    """`draft took 97.1k, 97 % from cache`; prices are not known here."""
    usage = state.proposal.entry.usage if state.proposal else None
    if usage is None or not usage.input:
        return ""
    took = f"draft took {numbers.tokens(usage.total)}"
    if not usage.cached:
        return took
    return f"{took}, {numbers.percent(usage.cached, usage.input).replace('%', ' %')} from cache"


class PreviewHeader(Lines):
    """One row at the top."""

    def __init__(self, title: str) -> None:
        super().__init__(id="preview-header")
        self._title = title
        self._state = PreviewState()

    def show(self, state: PreviewState) -> None:
        self._state = state
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [header_row(self._title, self._state, width)]


class Bars(Lines):
    """Two rows: now and after."""

    DEFAULT_CSS = "Bars { height: 2; }"

    def __init__(self) -> None:
        super().__init__(id="bars")
        self._state = PreviewState()
        self._outlook: Outlook | None = None

    def show(self, state: PreviewState, outlook: Outlook | None) -> None:
        self._state, self._outlook = state, outlook
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return bar_rows(self._state, self._outlook, width)
