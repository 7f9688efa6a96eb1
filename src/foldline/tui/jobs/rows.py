"""The lines of the Jobs screen: the list, and the end of what the marked job wrote. Pure."""

from typing import Final

from rich.cells import cell_len

from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.tui.blocks.cells import Span, chop_spans, cut_left, cut_right, wrap_spans
from foldline.tui.jobs.keys import KEYS
from foldline.tui.jobs.state import JobRow, JobsState
from foldline.tui.keys.table import hint_words, name_of
from foldline.tui.numbers import elapsed
from foldline.tui.widgets.completion import window_start
from foldline.tui.widgets.frames import HEAVY, edge, sides
from foldline.tui.widgets.rows import crop

Line = list[Span]

_MOST_ROWS: Final = 8
"""Jobs shown at a time: their output needs the room."""
_NONE: Final = (
    "No job runs, and none was started since Foldline was.",
    "The agent starts one with its tool bash and background: a server, a watcher, long tests. It runs on "
    "after the turn, and ends with Foldline.",
)


def screen_lines(state: JobsState, width: int, height: int) -> list[Line]:
    """Exactly `height` lines of `width` cells."""
    rows = max(min(len(state.rows), _MOST_ROWS, height // 3), 1)
    room = max(height - rows - 3, 1)
    running = sum(row.runs for row in state.rows)
    count = ((f"{running} of {many(len(state.rows), 'job')} running", "muted"),) if state.rows else ()
    return [
        edge(HEAVY, True, (("Jobs in the background", "text bold"),), count, width),
        *(sides(HEAVY, line, width) for line in _list(state, width - 2, rows)),
        _rule(state, width),
        *(sides(HEAVY, line, width) for line in _output(state, width - 2, room)),
        _foot(state, width),
    ]


def _list(state: JobsState, width: int, rows: int) -> list[Line]:
    if not state.rows:
        return [[]]
    first = window_start(state.at, len(state.rows), rows)
    shown = state.rows[first : first + rows]
    return [_row(row, row.number == state.marked, width) for row in shown]


def _row(row: JobRow, marked: bool, width: int) -> Line:
    """` ▶  3 exit 1 ✗      14:02  3:12  pytest -q`, exactly as wide."""
    state = "runs" if row.runs else f"{row.ending} ✗" if row.failed else row.ending
    style = "accent" if row.runs else "alert" if row.failed else "muted"
    name = cut_right(state, 19)
    before = f"{row.since}{elapsed(row.seconds):>8}  " if width >= 68 else ""
    room = max(width - 26 - cell_len(before), 4)
    command = cut_right(clean_line(row.command), room)
    return crop(
        [
            (" ", ""),
            ("▶" if marked else " ", "accent"),
            (f"{row.number:>3} ", "muted"),
            (name + " " * (20 - cell_len(name)), style),
            (before, "muted"),
            (command, "text reverse" if marked else "text"),
        ],
        width,
    )


def _rule(state: JobsState, width: int) -> Line:
    row = state.row
    title = f"output of {row.number}" if row is not None else ""
    path = clean_line(row.path) if row is not None else ""
    named: Line = [("─ ", "accent"), (title, "text bold"), (" ", "")] if title else []
    used = 2 + sum(cell_len(text) for text, _ in named)
    path = cut_left(path, max(width - used - 8, 0)) if path and width - used > 20 else ""
    tail: Line = [(" ", ""), (path, "muted"), (" ", ""), ("─", "accent")] if path else []
    fill = width - used - sum(cell_len(text) for text, _ in tail)
    return [("┠", "accent"), *named, ("─" * max(fill, 0), "accent"), *tail, ("┨", "accent")]


def _output(state: JobsState, width: int, room: int) -> list[Line]:
    """The newest lines, the last of them at the bottom once there are enough."""
    row = state.row
    if row is None:
        said = [line for each in _NONE for line in (*wrap_spans([(each, "muted")], width - 4), [])]
        lines: list[Line] = [[("  ", ""), *line] for line in said]
        return (lines + [[]] * room)[:room]
    if state.tail_of != row.number:
        lines = [[]]  # Read in a moment: nothing is said that would be gone again at once.
    elif not any(line.strip() for line in state.tail):
        lines = [[(" it has written nothing" + (" yet" if row.runs else ""), "muted")]]
    else:
        lines = [line for text in state.tail[-room:] for line in output_lines(text, width)][-room:]
    return (lines + [[]] * room)[:room]


def output_lines(text: str, width: int) -> list[Line]:
    """A line of output as rows: nothing of it is left out."""
    return [[(" ", ""), *line] for line in chop_spans([(clean_line(text), "text")], max(width - 2, 4))]


def _foot(state: JobsState, width: int) -> Line:
    row = state.row
    if state.confirming and row is not None:
        sure = f"! {name_of(KEYS, 'end')} again ends job {row.number} and all it started; any other key: no"
        return edge(HEAVY, False, ((sure, "alert"),), (), width)
    spans: Line = []
    for key, word in hint_words(KEYS, state):
        spans += [(" · ", "muted")] if spans else []
        spans += [(key, "accent"), (f" {word}", "text")]
    return edge(HEAVY, False, tuple(spans), (), width)
