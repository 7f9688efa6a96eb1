"""Borders between parts of a screen: moved by the reader, kept for terminals of the same size."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import events
from textual.containers import Horizontal
from textual.widget import Widget

from foldline.data import data_home

STEP: Final = 2
"""Cells that a key moves a border."""
_LEAST: Final = 20
"""Cells that a part keeps."""
_CLASS: Final = 40
"""Terminals whose columns are the same multiple of this share their borders."""


def _file() -> Path:
    return data_home() / "borders.json"


def _kept() -> dict[str, Any]:
    try:
        kept = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _name(parts: Sequence[str], columns: int) -> str:
    return f"{' '.join(parts)} {columns // _CLASS * _CLASS}"


def kept_widths(parts: Sequence[str], columns: int) -> list[int]:
    """The widths that parts were given in a terminal like this one, for their ratio; empty: none were."""
    widths = _kept().get(_name(parts, columns))
    if not isinstance(widths, list) or len(widths) != len(parts):
        return []
    return widths if all(type(each) is int and each > 0 for each in widths) else []


def keep_widths(parts: Sequence[str], columns: int, widths: Sequence[int]) -> None:
    """For the next time; where nothing can be written, there is none."""
    fresh = _file().with_suffix(".new")
    try:
        fresh.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({**_kept(), _name(parts, columns): widths}), "utf-8")
        fresh.replace(_file())
    except OSError:
        pass


class Movable(Widget):
    """Has borders that can be dragged. Numbers of borders count from 0, columns are those of the screen."""

    _dragged: int | None = None

    def border_at(self, column: int) -> int | None:
        """The border that stands in this column."""
        raise NotImplementedError

    def place(self, border: int, column: int) -> None:
        """Put a border there, or as far as there is room."""
        raise NotImplementedError

    def shift(self, part: Widget, cells: int) -> bool:
        """Move the border behind a part, or before the last one; False where there is none."""
        raise NotImplementedError

    def keep(self) -> None:
        """Note where the borders are."""
        raise NotImplementedError

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragged = self.border_at(event.screen_x)
        if self._dragged is not None:
            event.stop()
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged is not None:
            self.place(self._dragged, event.screen_x)

    def on_mouse_up(self) -> None:
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()
            self.keep()


class PanelRow(Horizontal, Movable):
    """Panels side by side. Nothing is seen of it: it draws no lines (`BLANK`), as whatever they cover."""

    BLANK: ClassVar[bool] = True

    @property
    def _shown(self) -> list[Widget]:
        return [each for each in self.children if each.display]

    @property
    def _parts(self) -> list[str]:
        return [each.id or "" for each in self._shown]

    def restore(self) -> None:
        """Put the borders where they were in a terminal like this one; what shares the room shares it evenly
        where that was never said."""
        kept = kept_widths(self._parts, self.app.size.width)
        even = [panel for panel in self._shown if (width := panel.styles.width) and width.is_fraction]
        self._widen(self._shown if kept else even, kept or [1] * len(even))

    def _widen(self, panels: Sequence[Widget], widths: Sequence[int]) -> None:
        for panel, width in zip(panels, widths, strict=True):
            panel.styles.width = f"{width}fr"

    def border_at(self, column: int) -> int | None:
        ends = [panel.region.right for panel in self._shown[:-1]]
        return next((at for at, end in enumerate(ends) if column in (end - 1, end)), None)

    def place(self, border: int, column: int) -> None:
        widths = [panel.outer_size.width for panel in self._shown]
        wanted = column + 1 - self._shown[border].region.right
        moved = max(min(wanted, widths[border + 1] - _LEAST), _LEAST - widths[border])
        widths[border] += moved
        widths[border + 1] -= moved
        self._widen(self._shown, widths)

    def shift(self, part: Widget, cells: int) -> bool:
        shown = self._shown
        if part not in shown or len(shown) < 2:
            return False
        border = min(shown.index(part), len(shown) - 2)
        self.place(border, shown[border].region.right - 1 + cells)
        self.keep()
        return True

    def keep(self) -> None:
        widths = [panel.styles.width for panel in self._shown]
        keep_widths(self._parts, self.app.size.width, [int(each.value) if each else 1 for each in widths])
