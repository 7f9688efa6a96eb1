"""Borders between parts of a screen: moved by the reader, kept for terminals of the same size."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import events
from textual.containers import Horizontal
from textual.widget import Widget

from foldline.data import data_home
from foldline.files import make_private, put_private, read_regular

STEP: Final = 2
"""Cells that a key moves a border."""
_LEAST: Final = 20
"""Cells that a part keeps."""
_CLASS: Final = 40
"""Terminals whose columns are the same multiple of this share their borders."""
_MOST_BYTES: Final = 100_000


def _file() -> Path:
    return data_home() / "borders.json"


def _kept() -> dict[str, Any]:
    import json  # not before the first paint

    try:
        kept = json.loads(read_regular(_file(), _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


class Movable(Widget):
    """Parts side by side, the borders between which can be dragged."""

    _dragged: int | None = None

    @property
    def parts(self) -> Sequence[str]:
        """The names of those that are shown."""
        raise NotImplementedError

    @property
    def widths(self) -> list[int]:
        """Their cells; the last one ends where this widget does."""
        raise NotImplementedError

    def widen(self, widths: Sequence[int]) -> None:
        """Give them so many cells."""
        raise NotImplementedError

    def _entry(self) -> str:
        return f"{' '.join(self.parts)} {self.app.size.width // _CLASS * _CLASS}"

    @property
    def kept(self) -> list[int]:
        """The widths in a terminal like this one, for their ratio; empty where the reader gave none."""
        kept = _kept().get(self._entry())
        widths = [each for each in kept if type(each) is int and each > 0] if isinstance(kept, list) else []
        return widths if len(widths) == len(self.parts) else []

    def _keep(self, widths: Sequence[int]) -> None:
        """For the next time; where nothing can be written, there is none."""
        import json

        with suppress(OSError):
            make_private(_file().parent)
            put_private(_file(), json.dumps({**_kept(), self._entry(): widths}).encode())

    def shift(self, border: int, cells: int) -> list[int]:
        """Move the border behind a part, counted from 0, as far as there is room. The widths that gives."""
        widths = self.widths
        moved = max(min(cells, widths[border + 1] - _LEAST), _LEAST - widths[border])
        widths[border : border + 2] = widths[border] + moved, widths[border + 1] - moved
        self.widen(widths)
        return widths

    def shift_beside(self, part: int, cells: int) -> bool:
        """Move the border behind a part, or before the last one, for good; False where there is none."""
        if len(self.parts) < 2:
            return False
        self._keep(self.shift(min(part, len(self.parts) - 2), cells))
        return True

    def _past(self, border: int, column: int) -> int:
        """Cells that a column of the screen lies behind a border."""
        return column + 1 - (self.region.right - sum(self.widths) + sum(self.widths[: border + 1]))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        borders = range(len(self.parts) - 1)
        self._dragged = next((each for each in borders if self._past(each, event.screen_x) in (0, 1)), None)
        if self._dragged is not None:
            event.stop()
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged is not None:
            self.shift(self._dragged, self._past(self._dragged, event.screen_x))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragged is not None:
            self._keep(self.shift(self._dragged, self._past(self._dragged, event.screen_x)))
            self._dragged = None
            self.release_mouse()


class PanelRow(Horizontal, Movable):
    """Panels side by side. Nothing is seen of it: it draws no lines (`BLANK`), as whatever they cover."""

    BLANK: ClassVar[bool] = True

    @property
    def _shown(self) -> list[Widget]:
        return [each for each in self.children if each.display]

    @property
    def parts(self) -> list[str]:
        return [each.id or "" for each in self._shown]

    @property
    def widths(self) -> list[int]:
        return [each.outer_size.width for each in self._shown]

    def widen(self, widths: Sequence[int]) -> None:
        for panel, width in zip(self._shown, widths, strict=True):
            panel.styles.width = f"{width}fr"

    def restore(self) -> None:
        """Put the borders where they were; where they never were moved, the room is shared evenly."""
        if kept := self.kept:
            self.widen(kept)
            return
        for panel in self._shown:
            if (width := panel.styles.width) is not None and width.is_fraction:
                panel.styles.width = "1fr"
