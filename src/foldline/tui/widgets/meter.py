"""The context meter: which cell of its bar shows what, its row; and the row at the top. Pure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Piece, Span, Spans, cut_right, piece, row
from foldline.tui.keys.commands import key_of
from foldline.tui.state import ChatState, Room, Tab, Weights
from foldline.tui.widgets.lines import button, hint, window_start

Part = Literal["system", "summaries", "compacting", "verbatim", "free", "soft", "threshold", "cut"]

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
"""The last cell of the verbatim part where it is about half full."""


class Cell(NamedTuple):
    glyph: str
    part: Part


def bar(room: Room, cells: int) -> tuple[Cell, ...]:
    """The bar between its ends `▐` and `▌`: exactly `cells` cells, oldest left.

    A category that weighs anything has a cell as long as there are cells. Marks stand over what is below
    them, in the order of their values; where there are fewer cells than marks, the cut goes first, then the
    soft mark.
    """
    cells = max(cells, 0)
    drawn = _filled(room, cells)
    for place, part in _marks(room, cells):
        drawn[place] = Cell(GLYPHS[part], part)
    return tuple(drawn)


def _filled(room: Room, cells: int) -> list[Cell]:
    free = Cell(GLYPHS["free"], "free")
    drawn: list[Cell] = []
    if room.window <= 0 or cells == 0:
        return [free] * cells
    share = cells / room.window
    reach = 0.0
    parts = [(part, weight) for part, weight in _scaled(room) if weight > 0]
    for number, (part, weight) in enumerate(parts):
        reach += weight * share
        behind = len(parts) - number - 1
        last = behind == 0
        end = int(reach) if last else round(reach)
        end = max(end, len(drawn) + 1)
        end = min(end, max(cells - behind, len(drawn)), cells)
        drawn += [Cell(GLYPHS[part], part)] * (end - len(drawn))
        if last and part == "verbatim" and len(drawn) < cells:
            rest = reach - end
            if rest >= 0.75:
                drawn.append(Cell(GLYPHS[part], part))
            elif rest >= 0.25:
                drawn.append(Cell(HALF, part))
    return drawn + [free] * (cells - len(drawn))


def _scaled(room: Room) -> list[tuple[Part, float]]:
    """The categories, scaled so that they add up to the size that the number beside the bar says."""
    weights: Weights = room.weights
    if weights.total <= 0:
        return [("verbatim", room.size)]
    factor = room.size / weights.total if room.size > 0 else 1.0
    return [
        ("system", weights.system * factor),
        ("summaries", weights.summaries * factor),
        ("compacting", weights.compacting * factor),
        ("verbatim", weights.verbatim * factor),
    ]


def _marks(room: Room, cells: int) -> list[tuple[int, Part]]:
    wanted: list[tuple[int, int, Part]] = []
    if room.window > 0:
        if room.threshold is not None:
            wanted.append((room.threshold, 2, "threshold"))
        if room.soft is not None:
            wanted.append((room.soft, 1, "soft"))
        if room.cut is not None and room.past_soft:
            wanted.append((room.cut, 0, "cut"))
    kept = sorted(wanted[:cells])
    places = [min(max(tokens * cells // room.window, 0), cells - 1) for tokens, _, _ in kept]
    # Marks that fall together move apart: leftwards first, then what was pushed over the start goes back.
    for at in range(len(places) - 2, -1, -1):
        places[at] = min(places[at], places[at + 1] - 1)
    for at in range(len(places)):
        places[at] = max(places[at], at)
    return [(place, part) for place, (_, _, part) in zip(places, kept, strict=True)]


PART_STYLES: dict[Part, str] = {
    "system": "muted",
    "summaries": "folded",
    "compacting": "folded",
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
        # As the size beside it, while there is room: `26.6k`, `113k`.
        shown = numbers.tokens if state.cached < 99_950 else numbers.short_tokens
        right.append(piece(f"cached {shown(state.cached)}", "muted", rank=3))
    if state.git:
        git = clean_line(state.git)
        right.append(piece(f"git {git}" if width >= 100 else git.split(" ")[-1], "muted", rank=4))
    opens = key_of("context")
    bar = (("▐", "muted"), *bar_spans(room, bar_cells(width)), ("▌", "muted"))
    left = [Piece(button(bar, opens), rank=1), Piece(button(_numbers(state), opens), gap=1)]
    return row(left, right, width)


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
        return ((f"{numbers.tokens(room.size, estimated=room.estimated)} tokens", "text"),)
    size = "alert" if room.past_threshold else "text"
    spans: list[Span] = [
        (numbers.tokens(room.size, estimated=room.estimated), size),
        (f" of {numbers.short_tokens(room.window, estimated=room.assumed)}  ", "muted"),
        (numbers.percent(room.size, room.window), size),
    ]
    if after := _after(state):
        spans.append((f" → {after}", "folded"))
    return tuple(spans)


def _after(state: ChatState) -> str:
    """What the compaction that is made would leave: as the plan expects, or as the proposal is."""
    if state.compacting is None:
        return ""
    if state.proposal is not None and state.proposal.waits:
        return numbers.tokens(state.proposal.tokens_after)
    expected = state.compacting.expected_after
    return "" if expected is None else numbers.about_tokens(expected)


_SAID: dict[str, Spans] = {
    "all": (("asks: ", "muted"), ("never", "alert")),
    "plan": (("mode: ", "muted"), ("plan", "altered")),
}


def header_row(state: ChatState, width: int) -> list[Span]:
    """` shop-api ▸ Idempotent orders        kimi-k2   edits: ask   compact: auto   F1 help `."""
    place = clean_line(state.workdir) or "foldline"
    where: list[Span] = tabs_spans(state.tabs, width * 3 // 5) or [(place, "bold")]
    if state.title and not state.tabs:
        where += [(" ▸ ", "muted"), (clean_line(state.title), "text bold")]
    right = [piece(clean_line(state.model) or "no model", "text", rank=1)]
    edits = "auto" if state.edits == "edits" else state.edits
    for name, value, usual in (("edits", edits, "ask"), ("compact", state.compaction_mode, "auto")):
        if value == usual and width < 100:
            continue
        if value in _SAID:
            right.append(Piece(_SAID[value]))
            continue
        if value in ("sandboxed", "read-only"):
            right.append(_sandboxed(value, state.sandbox_holds, width))
            continue
        style = "muted" if value == usual else "altered"
        right.append(Piece(((f"{name}: ", "muted"), (value, style)), rank=3))
    right.append(Piece(hint(key_of("help"), "help"), rank=2))
    return row([Piece(tuple(where), cut="right", least=width // 3)], right, width)


_TAB_MARKS: dict[str, Span] = {
    "": ("", ""),
    "waits for you": ("? ", "altered bold"),
    "compacting": ("▒ ", "folded"),
    "working": ("… ", "muted"),
    "failed": ("✗ ", "alert"),
    "finished": ("● ", "live"),
}
_LEAST_OF_TAB = 12
"""Cells of a title with its mark and what parts it from the next."""


def tabs_spans(tabs: Sequence[Tab], width: int) -> list[Span]:
    """`Idempotent orders │ ? Cancel orders │ … Docs`: the one that is shown in bold, and as many beside it as
    there is room for."""
    shown = next((at for at, tab in enumerate(tabs) if tab.shown), 0)
    most = max(width // _LEAST_OF_TAB, 1)
    first = window_start(shown, len(tabs), most)
    seen = tabs[first : first + most]
    fits = sum(len(tab.title) + 5 for tab in tabs) <= width
    cells = width if fits else width // max(len(seen), 1) - 3
    spans: list[Span] = [(f"+{first} ", "muted")] if first > 0 else []
    for tab in seen:
        mark = _TAB_MARKS[tab.state]
        title = cut_right(clean_line(tab.title), cells - len(mark[0]))
        between: list[Span] = [(" │ ", "muted")] if tab is not seen[0] else []
        spans += [*between, mark, (title, "text bold" if tab.shown else "muted")]
    after = len(tabs) - first - len(seen)
    return [*spans, (f" +{after}", "muted")] if after > 0 else spans


def _sandboxed(mode: str, holds: bool | None, width: int) -> Piece:
    """A mode with a sandbox, and whether that is there: what the user relies on stays when the rest goes."""
    label = (("edits: ", "muted"),) if width >= 60 else ()
    word = {True: ", enforced", False: ", not enforced", None: ""}[holds]
    return Piece((*label, (f"{mode}{word}", "alert" if holds is False else "altered")))
