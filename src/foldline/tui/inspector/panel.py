"""A panel: a frame drawn as text, a head row, a list; heavy where the focus is."""

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from foldline.tui.blocks.cells import Span, Spans, crop, width_of
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.widgets.lines import Lines, edge, frame

_BESIDE: Final = 10
"""Cells of an edge that are not for words."""
_WORTH: Final = 16
"""Cells in which a remark that is cut still says something."""


class Edge(Lines):
    """The upper or lower edge of a frame."""

    def __init__(self, *, top: bool) -> None:
        super().__init__()
        self._top = top
        self._heavy = False
        self._left: Spans = ()
        self._right: Spans = ()

    def show(self, left: Spans, right: Spans) -> None:
        self._left, self._right = left, right
        self.update()

    def focus_is_inside(self, heavy: bool) -> None:
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
        self._text: list[list[Span]] = []

    def show(self, text: list[list[Span]]) -> None:
        self._text = text
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return self._text


class Columns(Lines):
    """The names of the columns of a list of entries."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._gutter = 10

    def show(self, gutter: int) -> None:
        self._gutter = gutter
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        left = f"fate{'no.':>{self._gutter - 5}} {self._what}"
        right = "tokens "
        if len(left) + len(right) + 1 > width:
            right = ""
        return [[(left + " " * max(width - len(left) - len(right), 0) + right, "muted")]]


class Panel(Widget):
    """One of the Inspector's panels. `above` stands over the list, `below` under it, inside the frame."""

    DEFAULT_CSS: ClassVar[str] = """
    Panel { width: 1fr; height: 1fr; layout: vertical; }
    Panel > .inside { height: 1fr; border-left: solid $role-muted; border-right: solid $role-muted; }
    Panel.-active > .inside { border-left: heavy $role-accent; border-right: heavy $role-accent; }
    Panel EntryView { height: 1fr; }
    """
    BLANK: ClassVar[bool] = True

    def __init__(
        self, view: EntryView, *, title: str, above: Lines | None = None, below: Lines | None = None
    ) -> None:
        super().__init__(id=f"panel-{view.id}")
        self.view = view
        self._title = title
        self._above = above
        self._below = below
        self._upper = Edge(top=True)
        self._lower = Edge(top=False)

    def compose(self) -> ComposeResult:
        yield self._upper
        with Vertical(classes="inside"):
            if self._above is not None:
                yield self._above
            yield self.view
            if self._below is not None:
                yield self._below
        yield self._lower

    def head(self, count: str, title: str = "") -> None:
        """What stands in the upper edge; a `title` replaces the one before."""
        self._title = title or self._title
        self._upper.show(((self._title, "bold"),), ((count, "muted"),) if count else ())

    def foot(self, left: str, right: str = "") -> None:
        """What stands in the lower edge."""
        self._lower.show(((left, "muted"),) if left else (), ((right, "text"),) if right else ())

    def focus_is_inside(self, inside: bool) -> None:
        """Heavy frame or light."""
        self.set_class(inside, "-active")
        self._upper.focus_is_inside(inside)
        self._lower.focus_is_inside(inside)
