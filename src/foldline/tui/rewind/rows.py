"""The lines of the Rewind screen: the list of places, and below it what going back would do. Pure."""

from collections.abc import Sequence
from typing import Final

from foldline.context.file_states import FileChange
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.context.places import Place
from foldline.tui import numbers
from foldline.tui.blocks.cells import Span, cut_left, cut_right
from foldline.tui.keys.table import name_of, names_of
from foldline.tui.rewind.keys import KEYS, hints
from foldline.tui.rewind.state import Outcome, RewindState, What
from foldline.tui.widgets.completion import window_start
from foldline.tui.widgets.frames import HEAVY, edge, framed_row, sides
from foldline.tui.widgets.rows import Piece, piece

DETAILS = 8
"""Lines below the list, frame apart, where there is room for them."""
_LEAST_ROWS = 6
"""Lines that are not for details, however low the terminal: frame, rule, and three of the list."""
FILES = 4
"""Files named there."""


def screen_lines(state: RewindState, width: int, height: int) -> list[list[Span]]:
    """Exactly `height` lines of `width` cells."""
    if state.asked is not None and state.outcome is not None and state.place is not None:
        return _question(state, state.outcome, state.place, state.asked, width, height)
    shown = state.shown
    below = min(DETAILS, max(height - _LEAST_ROWS, 1))
    room = max(height - below - 3, 1)
    at = next((number for number, place in enumerate(shown) if place.id == state.marked), 0)
    first = window_start(at, len(shown), room)
    count = ((f"{at + 1} of {len(shown)}", "muted"),) if shown else ()
    rows = [
        _place_row(place, place.id == state.marked, state.steps, width)
        for place in shown[first : first + room]
    ]
    if not shown:
        rows = [sides(HEAVY, [("  There is nothing to go back over yet.", "muted")], width)]
    rows += [sides(HEAVY, [], width)] * (room - len(rows))
    details = [sides(HEAVY, line, width) for line in _details(state, width - 2, below)]
    return [
        edge(HEAVY, True, (("Rewind to right before …", "text bold"),), count, width),
        *rows,
        _rule("what going back does", width),
        *details,
        edge(HEAVY, False, ((_moves(), "muted"),), (), width),
    ]


def _question(
    state: RewindState, outcome: Outcome, place: Place, what: What, width: int, height: int
) -> list[list[Span]]:
    """What is to change, all of it as far as there is room, and the keys that answer."""
    label = cut_right(clean_line(place.label) or "(no words)", max(width // 2, 8))
    when = f"before “{label}”" if place.kind == "turn" else f"after {label}"
    context = [(" context  ", "muted"), ("stays as it is", "text")]
    files = [[(" files    ", "muted"), ("stay as they are", "text")]]
    if what != "files":
        context = _context_line(outcome)
    if what != "context":
        files = _file_lines(state, outcome, width - 2, max(height - 7, 1))
    lines = [[], context, *files][: height - 4]
    lines += [[]] * (height - 4 - len(lines))
    go, leave = name_of(KEYS, "go"), name_of(KEYS, "close")
    asks = f"Go back {_WITH[what]} to right {when}?"
    return [
        edge(HEAVY, True, (("? ", "altered"), (cut_right(asks, width - 8), "text bold")), (), width),
        *(sides(HEAVY, line, width) for line in lines),
        sides(HEAVY, [(" /undo takes it back. Letters do nothing here.", "muted")], width),
        sides(HEAVY, [(f" {go}", "accent"), (" goes back", "text")], width),
        edge(HEAVY, False, ((f"{leave} changes nothing", "muted"),), (), width),
    ]


_WITH: Final[dict[What, str]] = {
    "both": "with context and files",
    "context": "with the context",
    "files": "with the files",
}


def _moves() -> str:
    return f"{names_of(KEYS, 'up', 'down')} choose · {name_of(KEYS, 'close')} closes, nothing changes"


def _place_row(place: Place, marked: bool, steps: bool, width: int) -> list[Span]:
    style = "text reverse" if marked else "text"
    label = clean_line(place.label) or "(no words)"
    sign = "❯ " if place.kind == "turn" else ("  after " if steps else "after ")
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        piece(sign, "accent" if place.kind == "turn" else "muted", gap=1),
        Piece(((label, style),), gap=0, cut="right"),
    ]
    right = [piece(_files(place.changes), "muted", rank=1)] if place.changes else []
    if place.at is not None:
        right.append(piece(place.at.astimezone().strftime("%H:%M"), "muted"))
    return framed_row(HEAVY, left, right, width)


def _files(count: int) -> str:
    return f"{many(count, 'file')} since"


def _rule(words: str, width: int) -> list[Span]:
    fill = max(width - len(words) - 5, 0)
    return [("┠─ ", "accent"), (words, "muted"), (" " + "─" * fill, "accent"), ("┨", "accent")]


def _details(state: RewindState, width: int, height: int) -> list[list[Span]]:
    """Exactly `height` lines: context, files, keys."""
    lines: list[list[Span]] = []
    if state.place is not None:
        lines = [[(" looking at the files …", "muted")]]
        if state.outcome is not None:
            lines = [_context_line(state.outcome), *_file_lines(state, state.outcome, width, FILES)]
    lines = lines[: height - 1]
    lines += [[]] * (height - 1 - len(lines))
    return [*lines, _keys(state)]


def _context_line(outcome: Outcome) -> list[Span]:
    items = f"{many(outcome.items, 'item')} {'leaves' if outcome.items == 1 else 'leave'} the view"
    if outcome.items < 0:
        items = "what was compacted since is there again"
    if outcome.prompts:
        items += f", {many(outcome.prompts, 'prompt')} among them"
    sizes = f"{numbers.tokens(outcome.before)} → {numbers.tokens(outcome.after, estimated=True)} tokens"
    return [(" context  ", "muted"), (sizes, "text"), (f", {items}", "muted")]


def _file_lines(state: RewindState, outcome: Outcome, width: int, most: int) -> list[list[Span]]:
    if not outcome.files:
        return [[(" files    ", "muted"), ("as they were then, or changed by no tool of ours", "muted")]]
    shown: Sequence[FileChange] = sorted(outcome.files, key=lambda change: change.kind not in _LOUD)
    lines = [_file_line(change, state.overwrite, width) for change in shown[:most]]
    lines[0][0] = (" files    ", "muted")
    if len(shown) > most:
        lines.append([("          ", ""), (f"and {len(shown) - most} more", "muted")])
    return lines


_LOUD = ("conflict", "unreadable")


def _file_line(change: FileChange, overwrite: bool, width: int) -> list[Span]:
    words, style = _fate(change, overwrite)
    room = max(width - 13 - len(words), 8)
    return [("          ", ""), (cut_left(clean_line(change.path), room), "text"), (f"  {words}", style)]


def _fate(change: FileChange, overwrite: bool) -> tuple[str, str]:
    match change.kind:
        case "write":
            return "is put back", "muted"
        case "remove":
            return "is removed again", "muted"
        case "conflict" if overwrite:
            return f"is {'removed' if change.target is None else 'overwritten'}, /undo has it", "alert"
        case "conflict":
            return f"! {change.why or 'changed by somebody else'}: stays", "alert"
        case _:
            return cut_right(f"! stays: {clean_line(change.why)}", 40), "alert"


def _keys(state: RewindState) -> list[Span]:
    """What can be done at the mark, as the row of hints says it."""
    return [
        (" ", ""),
        *(span for key, word in hints(state) for span in ((key, "accent"), (f" {word}   ", "text"))),
    ]
