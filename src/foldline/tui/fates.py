"""The states an entry can be in, for every screen: letter, sign in the gutter, colour role."""

from typing import TYPE_CHECKING, Final

from foldline.tui.blocks.cells import Span
from foldline.tui.state import Presence

if TYPE_CHECKING:
    from foldline.context.view import FateKind

GUTTER_SIGNS: Final[dict[Presence, Span]] = {
    "whole": ("┃", "live"),
    "part": ("╏", "altered"),
    "name": ("┊", "folded"),
    "none": (" ", ""),
}
"""How much of something the model still has."""

_STATES: "Final[dict[FateKind, tuple[str, Presence]]]" = {
    "live": ("L", "whole"),
    "clipped": ("C", "part"),
    "hidden": ("H", "part"),
    "summarised": ("S", "name"),
    "truncated": ("T", "none"),
    "reverted": ("R", "none"),
    "cleared": ("X", "none"),
    "dropped": ("D", "none"),
    "aside": (" ", "none"),
}
LETTERS: "Final[dict[FateKind, str]]" = {kind: letter for kind, (letter, _) in _STATES.items()}
GONE: "Final[frozenset[FateKind]]" = frozenset({"summarised", "truncated", "reverted", "cleared", "dropped"})
"""What the model no longer has as it was said."""


def gutter_sign(kind: "FateKind") -> Span:
    """The sign of a state in the gutter, in its colour."""
    return GUTTER_SIGNS[_STATES[kind][1]]


def letter(kind: "FateKind") -> Span:
    """The letter of a state, in the colour of its gutter sign."""
    return LETTERS[kind], gutter_sign(kind)[1] or "muted"
