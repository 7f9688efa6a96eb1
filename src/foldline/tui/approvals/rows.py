"""The lines of the Approvals screen: the mode, the rules, the keys. Pure."""

from collections.abc import Iterator

from foldline.context.harmless import clean_line
from foldline.context.permissions import mode_words
from foldline.protocol import ApprovalMode
from foldline.tui.approvals.keys import KEYS, hints
from foldline.tui.approvals.state import ApprovalsState, RuleRow
from foldline.tui.blocks.cells import Span, wrap_spans
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import name_of, names_of
from foldline.tui.widgets.completion import window_start
from foldline.tui.widgets.frames import HEAVY, edge, framed_row, sides
from foldline.tui.widgets.rows import Piece, piece

AROUND = 7
"""Lines beside the rules, as long as none of them is wrapped."""

_MODES: tuple[ApprovalMode, ...] = ("ask", "edits", "all")
_SURE = "Everything will run unasked, outside this folder too. {}: yes, else no"


def screen_lines(state: ApprovalsState, width: int, height: int) -> list[list[Span]]:
    """Exactly `height` lines of `width` cells."""
    head, foot = list(_mode_lines(state, width - 2)), list(_foot_lines(state, width - 2))
    room = max(height - len(head) - len(foot) - 2, 1)
    first = window_start(state.at, len(state.rows), room)
    shown = state.rows[first : first + room]
    rules = [_rule_row(row, first + at == state.at, width) for at, row in enumerate(shown)]
    if not rules:
        rules = [sides(HEAVY, line, width) for line in wrap_spans([(f"  {_none()}", "muted")], width - 2)][
            :room
        ]
    rules += [sides(HEAVY, [], width)] * (room - len(rules))
    count = ((f"{state.at + 1} of {len(state.rows)}", "muted"),) if state.rows else ()
    return [
        edge(HEAVY, True, (("What runs unasked", "text bold"),), count, width),
        *(sides(HEAVY, line, width) for line in head),
        *rules,
        *(sides(HEAVY, line, width) for line in foot),
        edge(HEAVY, False, ((_moves(), "muted"),), (), width),
    ]


def _moves() -> str:
    return f"{names_of(KEYS, 'up', 'down')} choose · {name_of(KEYS, 'close')} closes"


def _none() -> str:
    session, project = key_of("allow-always"), key_of("allow-project")
    return f"Nothing is always allowed: {session} or {project} at a question allows its like."


def _mode_lines(state: ApprovalsState, width: int) -> Iterator[list[Span]]:
    line: list[Span] = [(" mode   ", "muted")]
    for mode in _MODES:
        chosen = mode == state.mode
        style = ("alert" if mode == "all" else "accent") if chosen else "text"
        line += [
            (name_of(KEYS, mode), "accent"),
            (f" {'▶' if chosen else ''}{mode}   ", f"{style} bold" if chosen else style),
        ]
    yield line
    if state.confirming:
        yield from wrap_spans([(f" ! {_SURE.format(name_of(KEYS, 'confirm'))}", "alert")], width)
    else:
        yield [(f"        {mode_words(state.mode)}", "alert" if state.mode == "all" else "muted")]
    yield []


def _rule_row(row: RuleRow, marked: bool, width: int) -> list[Span]:
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        piece(f"{row.scope:<8}", "muted", gap=1),
        Piece(((clean_line(row.words), "text reverse" if marked else "text"),), gap=1, cut="right", least=20),
    ]
    return framed_row(HEAVY, left, [piece(clean_line(row.origin), "muted", rank=1)], width)


def _foot_lines(state: ApprovalsState, width: int) -> Iterator[list[Span]]:
    yield []
    if state.fault:
        yield from wrap_spans([(f" ! {clean_line(state.fault)}", "alert")], width)
    spans: list[Span] = [(" ", "")]
    for key, word in hints(state):
        spans += [(key, "accent"), (f" {word}   ", "text")]
    yield spans
