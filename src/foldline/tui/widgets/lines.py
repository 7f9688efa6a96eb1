"""The base of the widgets that draw whole lines of styled text themselves."""

from collections.abc import Sequence
from typing import ClassVar

from textual.geometry import Size
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from foldline.tui.blocks.cells import Span, to_strip
from foldline.tui.blocks.styles import Styles, styles_from


class Lines(Widget):
    """Draws what `lines(width)` says; repaints only when that changed. Text in spans must be clean."""

    DEFAULT_CSS: ClassVar[str] = """
    Lines { height: 1; width: 1fr; background: transparent; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._styles_now = Styles()
        self._drawn: Sequence[Sequence[Span]] = ()
        self._drawn_size = Size(-1, -1)

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        """The lines at this width."""
        raise NotImplementedError

    def update(self) -> None:
        """Draw again, where something to see has changed. While hidden it has no lines: the old ones must
        not stand there when it is shown again at the same size."""
        size = self.size
        fresh = self.lines(size.width) if size.width > 0 else ()
        if size == self._drawn_size and fresh == self._drawn:
            return
        self._drawn, self._drawn_size = fresh, size
        self.refresh()

    def on_mount(self) -> None:
        self._restyle()
        self.app.theme_changed_signal.subscribe(self, self._on_theme)

    def on_unmount(self) -> None:
        self.app.theme_changed_signal.unsubscribe(self)  # it would keep us

    def _on_theme(self, _: Theme) -> None:
        self._restyle()

    def _restyle(self) -> None:
        self._styles_now = styles_from(self.app.theme_variables, self.app.no_color)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.size != self._drawn_size:
            # A frame may be painted between a new layout and `update`: never with the lines of the old one.
            self._drawn, self._drawn_size = self.lines(width), self.size
        if y >= len(self._drawn):
            return Strip.blank(width)
        return to_strip(self._drawn[y], self._styles_now).adjust_cell_length(width)
