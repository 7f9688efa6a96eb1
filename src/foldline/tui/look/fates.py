"""The letter, gutter symbol and colour role of each state of an entry."""

from typing import TYPE_CHECKING, Final

from foldline.frontend.state import Presence
from foldline.tui.look.cells import Span
from foldline.view.state_signs import STATE_SIGNS

if TYPE_CHECKING:
    from foldline.view.items import FateKind

GUTTER_SIGNS: Final[dict[Presence, Span]] = {
    "whole": ("┃", "live"),
    "part": ("╏", "altered"),
    "name": ("┊", "compacted"),
    "none": (" ", ""),
}
"""Gutter symbol and colour role of each `Presence`.

A `Presence` is how much of an entry the model still sees.
"""

_STYLES: Final = dict(GUTTER_SIGNS.values())
GONE: "Final[frozenset[FateKind]]" = frozenset(
    {"summarised", "truncated", "reverted", "cleared", "dropped"}
)
"""States in which the model no longer sees the original text."""


def gutter_sign(kind: "FateKind") -> Span:
    """Return the gutter symbol and the colour role of a state."""
    sign = STATE_SIGNS[kind].sign
    return sign, _STYLES[sign]


def letter(kind: "FateKind") -> Span:
    """Return the letter of a state, in the colour of the gutter symbol."""
    return STATE_SIGNS[kind].letter, gutter_sign(kind)[1] or "muted"
