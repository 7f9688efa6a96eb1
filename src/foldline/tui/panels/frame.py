"""A panel: a frame drawn as text around a list, heavy where the focus is; and the rows around panels."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from foldline.tui.blocks.cells import Piece, Span, Spans, crop, row, width_of
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.widgets.lines import Lines, edge, frame, hint, hints_in

_BESIDE: Final = 10
"""Cells of an edge that are not for words."""
_WORTH: Final = 16
"""Cells in which a remark that is cut still says something."""


class Edge(Lines):
    """The upper or lower edge of a frame."""

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
        right = self._right if width_of(self._right) <= room or room < _WORTH else crop(self._right, room)
        return [edge(frame(self._heavy), self._top, self._left, tuple(right), width)]


class Text(Lines):
    """Lines that are given to it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text: Sequence[Sequence[Span]] = []

    def show(self, *text: Sequence[Span]) -> None:
        self._text = text
        self.update()

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        return self._text


class Inside(Vertical):
    """What is within a frame; the sides of that are no text."""

    ALLOW_SELECT = False


class Panel(Widget):
    """A framed list. `above` stands over the list, `below` under it, inside the frame."""

    DEFAULT_CSS = """
    Panel { width: 1fr; height: 1fr; layout: vertical; }
    Panel > .inside { height: 1fr; border-left: solid $role-muted; border-right: solid $role-muted; }
    Panel.-active > .inside { border-left: heavy $role-accent; border-right: heavy $role-accent; }
    Panel EntryList { height: 1fr; }
    """
    BLANK = True

    def __init__(
        self, view: EntryList, *, title: str, above: Widget | None = None, below: Widget | None = None
    ) -> None:
        super().__init__(id=f"panel-{view.id}")
        self.view = view
        self._title = title
        self._inside = [each for each in (above, view, below) if each is not None]
        self._upper = Edge(top=True)
        self._lower = Edge(top=False)

    def compose(self) -> ComposeResult:
        yield self._upper
        with Inside(classes="inside"):
            yield from self._inside
        yield self._lower

    def on_click(self) -> None:
        """A click on the frame goes to its panel."""
        if not self.has_focus_within:
            self.view.focus()

    def head(self, count: str | Spans, title: str = "") -> None:
        """Set the remark in the upper edge; a `title` replaces the one before."""
        self._title = title or self._title
        remark = ((count, "muted"),) if isinstance(count, str) and count else count
        self._upper.show(((self._title, "bold"),), remark or ())

    def foot(self, left: str, right: str = "") -> None:
        """Set the words in the lower edge."""
        self._lower.show(hints_in(left, "muted") if left else (), hints_in(right, "text") if right else ())

    def show_focus(self, inside: bool) -> None:
        """Heavy frame or light."""
        self.set_class(inside, "-active")
        self._upper.show_focus(inside)
        self._lower.show_focus(inside)


def hints_row(pairs: Iterable[tuple[str, str]], width: int, kept: str = "") -> list[Span]:
    """The row of (keys, word) hints. How to leave, the last, stands at the right end and stays longest; then
    the help before it, which names what had no room, and the hint with the word `kept`."""
    parts = [
        (word, Piece(hint(name, word), rank=1 if word == kept else rank, gap=2))
        for rank, (name, word) in enumerate(pairs, 2)
    ]
    right = [replace(parts.pop()[1], rank=0)]
    if parts and parts[-1][0] == "keys":
        right.insert(0, replace(parts.pop()[1], rank=1))
    return row([part for _, part in parts], right, width)
