"""The status row for an entry: its state, and the effects of the edit keys."""

from typing import Final

from foldline.text import numbers
from foldline.text.numbers import many
from foldline.tui.blocks.block import Key
from foldline.tui.browser.panels.edit_hints import (
    EditHint,
    EditHints,
    KeyName,
    change_words,
    entries_words,
    money_words,
)
from foldline.tui.browser.panels.entry_list import TOOLS_KEY, TOOLS_ROW, row_of
from foldline.tui.browser.panels.states import signs, state_words
from foldline.tui.look.cells import RowPiece, Span, cells_needed, piece, row
from foldline.tui.look.lines import button
from foldline.view.projection import Projection

KEPT_LATER: Final = ", kept in later compactions"
INSIDE: Final = "part of this entry, Enter closes"
ALL_MARKED: Final = ". Keys act on all of them:"

_COMMAND: Final = {"unpin": "pin", "show": "hide"}
"""The command whose key also performs each of these edits."""
_GAP: Final = 3


def edit_row(
    projection: Projection,
    hints: EditHints,
    name: KeyName,
    *,
    later: bool,
    width: int,
    more: str = "",
) -> list[Span]:
    """Return the status row with the state of an entry and the effects of the edit keys.

    Example: ` 348 S┊ summarised by 373. Keys act on tool group 347–348:   r restore +3.2k`. Text that does
    not fit is shortened first, then left out.

    Args:
        name: returns the name of a command's key.
        later: whether edits are postponed until the current turn ends.
        more: additional information about the entry.
    """
    for is_short in (False, True):
        words = _short_words if is_short else _long_words
        state = _target_pieces(projection, hints, later, is_short)
        effects = [
            _piece(hint, *words(hint, hints), name, rank)
            for rank, hint in enumerate(hints.keys, 1)
        ]
        if more:
            state.append(piece(more, "muted", rank=9))
        if hints.undo_refusal:
            effects.append(piece(hints.undo_refusal, "muted", rank=len(effects) + 1))
        if cells_needed(state) + cells_needed(effects) + _GAP <= width - 2:
            break
    return row(state, effects, width)


def entry_row(
    projection: Projection,
    entry_key: Key,
    cursor: Key | None,
    width: int,
    more: str = "",
) -> list[Span]:
    """Return the status row for an entry that cannot be edited.

    It shows the number, state, tool group, `more` and time.
    """
    index = entry_key[0]
    pieces = _target_pieces(projection, EditHints(index), later=False, is_short=False)
    right: list[RowPiece] = []
    if entry_key != TOOLS_KEY:
        group = projection.group(index)
        if len(group) > 1:
            pieces.append(piece(f"tool group {entries_words(group)}", "muted", rank=1))
        if more:
            pieces.append(piece(more, "muted", rank=1))
        if cursor is not None and row_of(cursor) != cursor:
            pieces.append(piece(INSIDE, "muted", rank=3))
        entry = projection.entry(index)
        if entry is not None and entry.at is not None:
            time = f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}"
            right.append(piece(time, "muted", rank=2))
    return row(pieces, right, width)


def _target_pieces(
    projection: Projection, hints: EditHints, later: bool, is_short: bool
) -> list[RowPiece]:
    """Return the entry, its state, and the entries on which the keys act."""
    index = hints.index
    scope = ", after this turn" if later and hints.keys else ""
    if hints.picked:
        count = many(len(hints.picked), "entry", "entries")
        spans = [(f"{count} marked", "bold"), (f"{scope}{ALL_MARKED}", "muted")]
    elif index == TOOLS_KEY[0]:
        spans = [(TOOLS_ROW, "text")]
    elif index is None or index < 0:
        return []
    else:
        spans = [(f"{index} ", "bold"), *signs(projection, index)]
        if not (
            is_short and scope
        ):  # in this case, only letter and symbol show the state
            spans.append((f" {state_words(projection, index)}", "text"))
        if hints.group and any(hint.action != "undo" for hint in hints.keys):
            act_on = " ·" if is_short else ". Keys act on tool group"
            scope = f"{act_on} {entries_words(hints.group)}{scope}:"
        spans.append((scope, "muted"))
    return [RowPiece(tuple(spans), cut="right", least=24)]


def _piece(
    hint: EditHint, action: str, change: str, name: KeyName, rank: int
) -> RowPiece:
    key = name(_COMMAND.get(hint.action, hint.action))
    spans = [(key, "accent"), (f" {action}", "text"), (f" {change}", "muted")]
    if hint.crosses_threshold:
        spans.append((", over the threshold", "alert"))
    return RowPiece(button(tuple(spans), key), rank=rank, gap=_GAP)


def _short_words(hint: EditHint, hints: EditHints) -> tuple[str, str]:
    """Return the name of an edit, and its effect in tokens."""
    return hint.action, change_words(hint.change)


def _long_words(hint: EditHint, hints: EditHints) -> tuple[str, str]:
    """Return the name of an edit, and its effect in tokens and money."""
    if hint.action == "undo":
        before = numbers.tokens(hint.size - hint.change)
        return f"undo {hint.undone}", f"{before} → {numbers.tokens(hint.size)}"
    # The hide key acts on one result of a group, unlike the other keys.
    is_one_of_many = hint.action == "hide" and len(hints.group) > 2
    only = f" only {hint.target}" if is_one_of_many else ""
    later = KEPT_LATER if hint.action == "pin" else ""
    money = money_words(hint.change, hints.price)
    return f"{hint.action}{only}", f"{change_words(hint.change)}{money}{later}"
