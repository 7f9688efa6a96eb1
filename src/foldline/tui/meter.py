"""The context meter as text: which cell of the bar shows what. Pure."""

from typing import Literal, NamedTuple

from foldline.tui.state import Room, Weights

Part = Literal["system", "summaries", "folding", "verbatim", "free", "soft", "threshold", "cut"]

GLYPHS: dict[Part, str] = {
    "system": "▓",
    "summaries": "▒",
    "folding": "░",
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


def bar_text(room: Room, cells: int) -> str:
    """The whole bar with its ends: `▐▓▒█▌········┆·┃·▌`, `cells` + 2 cells wide."""
    return f"▐{''.join(cell.glyph for cell in bar(room, cells))}▌"


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
        ("folding", weights.folding * factor),
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
