"""Pure functions for the row with the context meter and for the header row."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from foldline.frontend.commands import key_of
from foldline.frontend.state import ChatState, ContextUse, Tab, ViewWeights
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.tui.look.cells import RowPiece, Span, Spans, cut_right, piece, row
from foldline.tui.look.lines import button, hint, window_start

Part = Literal[
    "system", "summaries", "compacting", "verbatim", "free", "soft", "threshold", "cut"
]

GLYPHS: dict[Part, str] = {
    "system": "▓",
    "summaries": "▒",
    "compacting": "░",
    "verbatim": "█",
    "free": "·",
    "soft": "┆",
    "threshold": "┃",
    "cut": "◆",
}
HALF = "▌"
"""Glyph of the last cell if it is about half full."""


class BarCell(NamedTuple):
    glyph: str
    part: Part


def bar(room: ContextUse, cells: int) -> tuple[BarCell, ...]:
    """Return the meter's bar, without its ends.

    The bar is exactly `cells` cells long. The oldest content is at the left. If possible, each category with
    tokens has at least one cell. Marks replace cells of the bar, in the order of their values. If there are
    fewer cells than marks, the mark of the cut is dropped first, then the soft mark.
    """
    cells = max(cells, 0)
    result = _filled(room, cells)
    for place, part in _marks(room, cells):
        result[place] = BarCell(GLYPHS[part], part)
    return tuple(result)


def _filled(room: ContextUse, cells: int) -> list[BarCell]:
    free = BarCell(GLYPHS["free"], "free")
    bar_row: list[BarCell] = []
    if room.window <= 0 or cells == 0:
        return [free] * cells
    share = cells / room.window
    reach = 0.0
    parts = [(part, weight) for part, weight in _scaled(room) if weight > 0]
    for number, (part, weight) in enumerate(parts):
        reach += weight * share
        parts_after = len(parts) - number - 1
        is_last = parts_after == 0
        end = int(reach) if is_last else round(reach)
        end = max(end, len(bar_row) + 1)
        end = min(end, max(cells - parts_after, len(bar_row)), cells)
        bar_row += [BarCell(GLYPHS[part], part)] * (end - len(bar_row))
        if is_last and part == "verbatim" and len(bar_row) < cells:
            fraction = reach - end
            if fraction >= 0.75:
                bar_row.append(BarCell(GLYPHS[part], part))
            elif fraction >= 0.25:
                bar_row.append(BarCell(HALF, part))
    return bar_row + [free] * (cells - len(bar_row))


def _scaled(room: ContextUse) -> list[tuple[Part, float]]:
    """Scale the categories to the size shown next to the bar.

    The sum of the scaled categories is that size.
    """
    weights: ViewWeights = room.weights
    if weights.total <= 0:
        return [("verbatim", room.size)]
    factor = room.size / weights.total if room.size > 0 else 1.0
    return [
        ("system", weights.system * factor),
        ("summaries", weights.summaries * factor),
        ("compacting", weights.compacting * factor),
        ("verbatim", weights.verbatim * factor),
    ]


def _marks(room: ContextUse, cells: int) -> list[tuple[int, Part]]:
    """Return the position and kind of each mark in the bar."""
    if room.window <= 0:
        return []
    marks: list[tuple[int, int, Part]] = []
    if room.threshold is not None:
        marks.append((room.threshold, 2, "threshold"))
    if room.soft is not None:
        marks.append((room.soft, 1, "soft"))
    if room.cut is not None and room.past_soft:
        marks.append((room.cut, 0, "cut"))
    marks = sorted(marks[:cells])
    last = cells - 1
    places = [
        min(max(tokens * cells // room.window, 0), last) for tokens, _, _ in marks
    ]
    # Give each mark a cell of its own: move marks left, then move those left of the bar to the right.
    for at in range(len(places) - 2, -1, -1):
        places[at] = min(places[at], places[at + 1] - 1)
    for at in range(len(places)):
        places[at] = max(places[at], at)
    return [(place, part) for place, (_, _, part) in zip(places, marks, strict=True)]


PART_STYLES: dict[Part, str] = {
    "system": "muted",
    "summaries": "compacted",
    "compacting": "compacted",
    "verbatim": "live",
    "free": "muted",
    "soft": "altered",
    "threshold": "alert",
    "cut": "accent",
}


def bar_cells(width: int) -> int:
    """Return the length of the bar in a row of this width, in cells."""
    if width < 60:
        return 8
    if width < 100:
        return 16
    return 32 if width < 160 else 48


def meter_row(state: ChatState, width: int) -> list[Span]:
    """Return the row with the context meter.

    ` ▐▓▓▒████◆█┆███┃···▌ 116.2k of 131k  89% → ~27k        cached 113k   $1.84   git main ±3 `
    """
    room = state.room
    right: list[RowPiece] = []
    if state.cached is not None:
        # Use the same format as for the size: `26.6k`, `113k`.
        format_tokens = (
            numbers.tokens if state.cached < 99_950 else numbers.short_tokens
        )
        right.append(piece(f"cached {format_tokens(state.cached)}", "muted", rank=3))
    if state.git:
        git = clean_line(state.git)
        words = f"git {git}" if width >= 100 else git.split(" ")[-1]
        right.append(piece(words, "muted", rank=4))
    key = key_of("context")
    bar = (("▐", "muted"), *bar_spans(room, bar_cells(width)), ("▌", "muted"))
    pieces = [
        RowPiece(button(bar, key), rank=1),
        RowPiece(button(_numbers(state), key), gap=1),
    ]
    return row(pieces, right, width)


def bar_spans(room: ContextUse, cells: int) -> Spans:
    """Return the coloured bar without its ends.

    Content above the threshold has the role `alert`.
    """
    spans: list[Span] = []
    is_past = False
    for glyph, part in bar(room, cells):
        is_past = is_past or part == "threshold"
        style = "alert" if is_past and part == "verbatim" else PART_STYLES[part]
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + glyph, style)
        else:
            spans.append((glyph, style))
    return tuple(spans)


def _numbers(state: ChatState) -> Spans:
    room = state.room
    if room.window <= 0:
        return (
            (f"{numbers.tokens(room.size, estimated=room.estimated)} tokens", "text"),
        )
    size = "alert" if room.past_threshold else "text"
    spans: list[Span] = [
        (numbers.tokens(room.size, estimated=room.estimated), size),
        (f" of {numbers.short_tokens(room.window, estimated=room.assumed)}  ", "muted"),
        (numbers.percent(room.size, room.window), size),
    ]
    if after := _after(state):
        spans.append((f" → {after}", "compacted"))
    return tuple(spans)


def _after(state: ChatState) -> str:
    """Format the size that the running compaction should reach.

    The size comes from its plan or proposal.
    """
    if state.compacting is None:
        return ""
    if state.proposal is not None and state.proposal.waits:
        return numbers.tokens(state.proposal.tokens_after)
    if state.compacting.expected_after is None:
        return ""
    return numbers.about_tokens(state.compacting.expected_after)


_MODES: dict[str, Spans] = {
    "all": (("asks: ", "muted"), ("never", "alert")),
    "plan": (("mode: ", "muted"), ("plan", "altered")),
}


def header_row(state: ChatState, width: int) -> list[Span]:
    """Return the header row.

    ` shop-api ▸ Idempotent orders        kimi-k2   edits: ask   compact: auto   F1 help `
    """
    place = clean_line(state.workdir) or "foldline"
    title: list[Span] = tabs_spans(state.tabs, width * 3 // 5) or [(place, "bold")]
    if state.title and not state.tabs:
        title += [(" ▸ ", "muted"), (clean_line(state.title), "text bold")]
    right = [piece(clean_line(state.model) or "no model", "text", rank=1)]
    edits = "auto" if state.edits == "edits" else state.edits
    for name, value, default in (
        ("edits", edits, "ask"),
        ("compact", state.compaction_mode, "auto"),
    ):
        if value in _MODES:
            right.append(RowPiece(_MODES[value]))
        elif value in ("sandboxed", "read-only"):
            right.append(_sandboxed(value, state.sandbox_holds, width))
        elif value != default:
            right.append(RowPiece(((f"{name}: ", "muted"), (value, "altered")), rank=3))
        elif width >= 100:
            right.append(RowPiece(((f"{name}: ", "muted"), (value, "muted")), rank=3))
    right.append(RowPiece(hint(key_of("help"), "help"), rank=2))
    return row([RowPiece(tuple(title), cut="right", least=width // 3)], right, width)


_TAB_MARKS: dict[str, Span] = {
    "": ("", ""),
    "waits for you": ("? ", "altered bold"),
    "compacting": ("▒ ", "compacted"),
    "working": ("… ", "muted"),
    "failed": ("✗ ", "alert"),
    "finished": ("● ", "live"),
}
_LEAST_OF_TAB = 12
"""Minimum width, in cells, of a tab with its mark and separator.

A tab with less room is left out.
"""


def tabs_spans(tabs: Sequence[Tab], width: int) -> list[Span]:
    """Return the tabs: `Idempotent orders │ ? Cancel orders │ … Docs`.

    The tab of the session on the screen is bold. If there is no room for all tabs, only those around the bold
    one are included.
    """
    shown = next((at for at, tab in enumerate(tabs) if tab.shown), 0)
    most = max(width // _LEAST_OF_TAB, 1)
    first = window_start(shown, len(tabs), most)
    visible = tabs[first : first + most]
    has_room = sum(len(tab.title) + 5 for tab in tabs) <= width
    cells = width if has_room else width // max(len(visible), 1) - 3
    spans: list[Span] = [(f"+{first} ", "muted")] if first > 0 else []
    for tab in visible:
        mark = _TAB_MARKS[tab.state]
        title = cut_right(clean_line(tab.title), cells - len(mark[0]))
        if tab is not visible[0]:
            spans.append((" │ ", "muted"))
        spans += [mark, (title, "text bold" if tab.shown else "muted")]
    after = len(tabs) - first - len(visible)
    if after > 0:
        spans.append((f" +{after}", "muted"))
    return spans


def _sandboxed(mode: str, holds: bool | None, width: int) -> RowPiece:
    """Return the name of a sandboxed mode, and whether the sandbox is enforced.

    This piece is never dropped for lack of room, because the user relies on it.
    """
    label = (("edits: ", "muted"),) if width >= 60 else ()
    word = {True: ", enforced", False: ", not enforced", None: ""}[holds]
    style = "alert" if holds is False else "altered"
    return RowPiece((*label, (f"{mode}{word}", style)))
