"""The row that says what the edit keys would do, in as many words as there is room for. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from foldline.context import numbers
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.context.view import is_preamble
from foldline.protocol import BaseMessage, Compaction
from foldline.tui.blocks import Span
from foldline.tui.blocks.cells import Piece, piece, row, width_of
from foldline.tui.inspector.edits import EditKey, Offer, Offers, entries_words
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.places import TOOLS_KEY, fate_words, marks
from foldline.tui.keys.table import name_of

_COMMAND: Final = {"unpin": "pin", "show": "hide"}
"""The commands of the edits that take another one back."""
_GAP: Final = 3
_LEVELS: Final = 5
"""Lengths in which an offer can be put."""


def priced_row(projection: Projection, offers: Offers, *, later: bool, width: int) -> list[Span]:
    """` 348 S┊ summarised by 373. Keys act on its tool group 347–348:   r restore +3.2k → 31.8k   …`.

    `later`: something runs, and an edit waits for its end. What does not fit is said shorter, then left out.
    """
    for level in range(_LEVELS):
        left = _place(projection, offers, later, level)
        right = [_piece(offer, offers, level, rank) for rank, offer in enumerate(offers.keys, 1)]
        if offers.refused:
            right.append(piece(offers.refused, "muted", rank=len(right) + 1))
        if _width(left) + _width(right) + _GAP <= width - 2:
            break
    return row(left, right, width)


def _key(offer: Offer) -> str:
    return name_of(KEYS, _COMMAND.get(offer.action, offer.action))


def _width(parts: Sequence[Piece]) -> int:
    return sum(width_of(part.spans) for part in parts) + sum(part.gap for part in parts[1:])


def _place(projection: Projection, offers: Offers, later: bool, level: int) -> list[Piece]:
    """The entry, what became of it, and what the keys act on."""
    index = offers.index
    if offers.picked:
        words = f"{many(len(offers.picked), 'entry', 'entries')} marked"
        wait = ", after this turn" if later and offers.keys else ""
        return [
            Piece(((words, "bold"), (f"{wait}. Keys act on all:" if level < 2 else wait, "muted")), least=24)
        ]
    on_entry = [offer for offer in offers.keys if offer.action != "undo"]
    if index == TOOLS_KEY[0]:
        return [piece("The tool schemas go with every request.", "text", cut="right")]
    if index is None or index < 0:
        return []
    spans: list[Span] = [(f"{index} ", "bold"), *marks(projection, index)]
    if level < 4:  # letter and rail say it, too
        spans.append((f" {fate_words(projection, index)}", "text"))
    scope = _scope(offers.group, level) if on_entry else ""
    if later and offers.keys:
        scope = f"{scope}, after this turn" if scope else " · after this turn"
    if scope:
        spans.append((f"{scope}:" if on_entry else scope, "muted"))
    return [Piece(tuple(spans), cut="right", least=24)]


def _scope(group: tuple[int, ...], level: int) -> str:
    if not group:
        return ""
    words = entries_words(group)
    return f". Keys act on its tool group {words}" if level < 2 else f" · group {words}"


def _piece(offer: Offer, offers: Offers, level: int, rank: int) -> Piece:
    over = [(", over the threshold", "alert")] if offer.over else []
    spans = [(_key(offer), "accent"), *_words(offer, offers, level), *over]
    return Piece(tuple(spans), rank=rank, gap=_GAP if level < 3 else 2)


def _words(offer: Offer, offers: Offers, level: int) -> Iterator[Span]:
    """The shorter, the higher the level; the change in tokens is said at every one."""
    change = change_words(offer.change)
    if offer.action == "undo":
        size = numbers.tokens(offer.size)
        yield f" undo {offer.what}" if level < 3 else " undo", "text"
        yield (
            (f": {numbers.tokens(offer.size - offer.change)} → {size}" if level < 2 else f" {change}"),
            "muted",
        )
        return
    if level < 3:
        yield f" {offer.action}{_alone(offer, offers) if level == 0 else ''}", "text"
    yield f" {change}{money_words(offer.change, offers.price) if level < 2 else ''}", "muted"
    if level < 2 and offer.change and offer.action in ("restore", "show"):
        yield f" → {numbers.tokens(offer.size)}", "muted"
    if level == 0 and offer.action == "pin":
        yield ", kept in later folds too", "muted"


def _alone(offer: Offer, offers: Offers) -> str:
    """Hiding acts on one result of a group, where all other keys act on the whole."""
    one_of_many = offer.action == "hide" and len(offers.group) > 2 and offer.target != offers.group[0]
    return f" {offer.target} alone" if one_of_many else ""


def money_words(tokens: int, price: float | None) -> str:
    """` ~$0.010`: what a change of the next request comes to, where the model's price is known and it is
    more than nothing."""
    dollars = abs(tokens) * (price or 0.0)
    return f" {'' if tokens > 0 else '−'}~{numbers.price(dollars)}" if dollars >= 0.0005 else ""


def change_words(tokens: int) -> str:
    """`+3.2k`, `−4.7k`, `±0`."""
    if not tokens:
        return "±0"
    return f"{'+' if tokens > 0 else '−'}{numbers.tokens(abs(tokens))}"


def _name(command: str) -> str:
    return name_of(KEYS, command)


def nothing_to(projection: Projection, index: int, key: EditKey) -> str:
    """Why a key does nothing here."""
    if index < 0:
        return "This is no entry: nothing to edit."
    entry = projection.entry(index)
    if isinstance(entry, BaseMessage) and is_preamble(entry):
        return f"{index} opens every request: no edit applies to it."
    if isinstance(entry, Compaction):
        return f"{index} is a fold: edit what it stands for, or {_name('undo')} undoes the newest."
    if key == "hide" and not projection.group(index)[1:]:
        return f"{index} is no tool result: only those can be hidden. {_name('drop')} drops it."
    return f"Nothing to {key}: {index} is {fate_words(projection, index)}."
