"""How lists and pages show the state of an entry in the view.

A module of its own, because the chat needs it before its first paint.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .items import FateKind


class StateSign(NamedTuple):
    """Letter, gutter symbol and meaning of a state."""

    letter: str
    sign: str
    """The line in the gutter."""
    meaning: str


STATE_SIGNS: "dict[FateKind, StateSign]" = {
    "live": StateSign("L", "┃", "the next request contains it verbatim"),
    "clipped": StateSign("C", "╏", "the next request contains a part of it"),
    "hidden": StateSign("H", "╏", "the next request contains a placeholder for it"),
    "summarised": StateSign("S", "┊", "the next request contains only a summary of it"),
    "truncated": StateSign("T", " ", "left out of the next request"),
    "reverted": StateSign("R", " ", "undone by a rewind"),
    "cleared": StateSign("X", " ", "removed by a clear"),
    "dropped": StateSign("D", " ", "removed by the user"),
    "aside": StateSign(" ", " ", "never sent to the model"),
}
