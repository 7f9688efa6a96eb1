"""The head of the preview: where we are, and the window now and after."""

from foldline.context import numbers
from foldline.tui.blocks import Span, clean_line
from foldline.tui.blocks.cells import Piece, piece, row
from foldline.tui.preview.outlook import Outlook, draft_words, saving_words
from foldline.tui.preview.state import PreviewState
from foldline.tui.state import Room, Weights, rung_words
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.meter import bar_spans


def header_row(title: str, state: PreviewState, width: int) -> list[Span]:
    """` shop-api ▸ Orders ▸ Compact preview    threshold · waits for you   SummaryCompaction   kimi-k2 `."""
    entry = state.proposal.entry if state.proposal else None
    strategy = (entry.strategy if entry else "") or state.strategy
    model = entry.model or "" if entry else state.model
    rung = rung_words(entry.rung) if entry else ""
    where = [
        Piece(((clean_line(title), "bold"),), cut="right", least=max(width // 3 - 18, 8)),
        Piece(((" ▸ ", "muted"), ("Compact preview", "text bold")), gap=0),
    ]
    why: list[Span] = [(state.reason, "text")]
    if state.waits:
        why += [(" · ", "muted"), ("waits for you", "accent")]
    right = [Piece(tuple(why), rank=1)]
    for words, style, rank in ((strategy, "muted", 3), (rung, "altered", 2), (model, "text", 4)):
        if words:
            right.append(piece(clean_line(words), style, rank=rank))
    return row(where, right, width)


def bar_rows(state: PreviewState, outlook: Outlook | None, width: int) -> list[list[Span]]:
    """The window now, what of it would be folded; and after. What the draft cost, and requests after it."""
    if outlook is None:
        return [row([piece("Nothing is drafted.", "muted")], [], width), []]
    cells = min(max(width - 63, 12), 64)
    window = state.window or outlook.before
    about = state.proposal is None or state.proposal.state == "stale"
    after = numbers.about_tokens(outlook.after) if about else numbers.tokens(outlook.after)
    saves = saving_words(state, outlook)
    return [
        _bar(
            "now",
            outlook.weights_now(),
            outlook.before,
            window,
            cells,
            numbers.tokens(outlook.before),
            draft_words(state, outlook),
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
        Piece(bar_spans(room, cells), gap=1),
        piece(f"{words:>7}", "text bold", gap=1),
    ]
    return row(left, [piece(remark, "muted", rank=1)] if remark else [], width)


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
