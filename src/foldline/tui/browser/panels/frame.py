"""Panels, which are lists in a frame drawn with text characters, and the row of key hints."""

from collections.abc import Iterable, Sequence
from typing import Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from foldline.tui.browser.panels.entry_list import EntryList
from foldline.tui.look.cells import RowPiece, Span, Spans, crop, row, width_of
from foldline.tui.look.lines import LinesWidget, edge, frame, hint, hints_in

_BESIDE: Final = 10
"""Number of cells in a frame's edge that are not available for text."""
_WORTH: Final = 16
"""Minimum width of a shortened remark, in cells."""


class Edge(LinesWidget):
    """The top or bottom edge of a frame."""

    ALLOW_SELECT = False

    def __init__(self, *, top: bool) -> None:
        super().__init__()
        self._top = top
        self._heavy = False
        self._left: Spans = ()
        self._right: Spans = ()

    def show(self, left: Spans, right: Spans) -> None:
        self._left, self._right = left, right
        self.update()

    def show_focus(self, heavy: bool) -> None:
        self._heavy = heavy
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        room = width - width_of(self._left) - _BESIDE
        right = self._right
        if _WORTH <= room < width_of(right):
            right = tuple(crop(right, room))
        return [edge(frame(self._heavy), self._top, self._left, right, width)]


class TextLines(LinesWidget):
    """Shows the lines of styled text most recently passed to `show`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text: Sequence[Sequence[Span]] = []

    def show(self, *text: Sequence[Span]) -> None:
        self._text = text
        self.update()

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        return self._text


class Inside(Vertical):
    """The content of a panel.

    The border cannot be selected as text.
    """

    ALLOW_SELECT = False


class Panel(Widget):
    """A list in a frame, with optional widgets above and below the list."""

    DEFAULT_CSS = """
    Panel { width: 1fr; height: 1fr; layout: vertical; }
    Panel > .inside { height: 1fr; border-left: solid $role-muted; border-right: solid $role-muted; }
    Panel.-active > .inside { border-left: heavy $role-accent; border-right: heavy $role-accent; }
    Panel EntryList { height: 1fr; }
    """
    BLANK = True

    def __init__(
        self,
        view: EntryList,
        *,
        title: str,
        above: Widget | None = None,
        below: Widget | None = None,
    ) -> None:
        super().__init__(id=f"panel-{view.id}")
        self.view = view
        self._title = title
        self._inside = [widget for widget in (above, view, below) if widget is not None]
        self._upper = Edge(top=True)
        self._lower = Edge(top=False)

    def compose(self) -> ComposeResult:
        yield self._upper
        with Inside(classes="inside"):
            yield from self._inside
        yield self._lower

    def on_click(self) -> None:
        """Focus the list when the user clicks anywhere in the frame."""
        if not self.has_focus_within:
            self.view.focus()

    def head(self, count: str | Spans, title: str = "") -> None:
        """Set the remark on the right of the top edge, and the title if one is given."""
        self._title = title or self._title
        remark = ((count, "muted"),) if isinstance(count, str) and count else count
        self._upper.show(((self._title, "bold"),), remark or ())

    def foot(self, left: str, right: str = "") -> None:
        """Set the text on the left and right of the bottom edge."""
        self._lower.show(
            hints_in(left, "muted") if left else (),
            hints_in(right, "text") if right else (),
        )

    def show_focus(self, inside: bool) -> None:
        """Draw a heavy frame if the focus is inside the panel, otherwise a light one."""
        self.set_class(inside, "-active")
        self._upper.show_focus(inside)
        self._lower.show_focus(inside)


def hints_row(
    pairs: Iterable[tuple[str, str]], width: int, kept: str = ""
) -> list[Span]:
    """Return the row of key hints.

    If space runs out, hints are dropped from the right.

    Args:
        pairs: (keys, word) of each hint. The last one, for leaving, is shown at the right end after the help
            hint, and is never dropped.
        kept: the word of the hint that is dropped last, together with the help hint.
    """
    *hints, leave = pairs
    right = [_hint_piece(*leave, rank=0)]
    if hints and hints[-1][1] == "keys":
        right.insert(0, _hint_piece(*hints.pop(), rank=1))
    left: list[RowPiece] = []
    for rank, (name, word) in enumerate(hints, 2):
        left.append(_hint_piece(name, word, rank=1 if word == kept else rank))
    return row(left, right, width)


def _hint_piece(name: str, word: str, rank: int) -> RowPiece:
    return RowPiece(hint(name, word), rank=rank, gap=2)
