"""Borders between parts of a screen: moved by the reader, kept for terminals of the same size."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from textual import events
from textual.geometry import Offset, Region
from textual.widget import Widget

from foldline.data import data_home
from foldline.files import make_private, put_private, read_regular

STEP: Final = 2
"""Cells that a key moves a border."""
_LEAST: Final = (20, 5)
"""Columns and rows that a part keeps."""
_CLASSES: Final = (40, 12)
"""Terminals whose columns, or rows, are the same multiple of this share their borders."""
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


class Borders:
    """Those between parts that stand side by side, or, `stacked`, below each other."""

    def __init__(
        self,
        parts: Callable[[], Mapping[str, Region]],
        give: Callable[[Sequence[int]], None],
        *,
        stacked: bool = False,
    ) -> None:
        """`parts` says which are shown, and where; `give` gives them so many columns or rows."""
        self._parts = parts
        self._give = give
        self.stacked = stacked

    def _sizes(self) -> list[int]:
        return [each.height if self.stacked else each.width for each in self._parts().values()]

    def _entry(self, terminal: Sequence[int]) -> str:
        size, step = terminal[self.stacked], _CLASSES[self.stacked]
        return f"{' '.join(self._parts())} {size // step * step}{' rows' * self.stacked}"

    def kept(self, terminal: Sequence[int]) -> list[int]:
        """The sizes in a terminal like this one, for their ratio; empty where the reader gave none."""
        kept = _kept().get(self._entry(terminal))
        sizes = [each for each in kept if type(each) is int and each > 0] if isinstance(kept, list) else []
        return sizes if len(sizes) == len(self._parts()) else []

    def keep(self, sizes: Sequence[int], terminal: Sequence[int]) -> None:
        """For the next time; where nothing can be written, there is none."""
        import json

        with suppress(OSError):
            make_private(_file().parent)
            put_private(_file(), json.dumps({**_kept(), self._entry(terminal): sizes}).encode())

    def shift(self, border: int, cells: int) -> list[int]:
        """Move the border behind a part, counted from 0, as far as there is room. The sizes that gives."""
        sizes, least = self._sizes(), _LEAST[self.stacked]
        moved = max(min(cells, sizes[border + 1] - least), least - sizes[border])
        sizes[border : border + 2] = sizes[border] + moved, sizes[border + 1] - moved
        self._give(sizes)
        return sizes

    def shift_beside(self, part: int, cells: int, terminal: Sequence[int]) -> bool:
        """Move the border behind a part, or before the last one, for good; False where there is none."""
        parts = len(self._parts())
        if parts > 1:
            self.keep(self.shift(min(part, parts - 2), cells), terminal)
        return parts > 1

    def past(self, border: int, at: Offset) -> int:
        """Cells that a place on the screen lies behind a border."""
        here = list(self._parts().values())[border]
        return at.y + 1 - here.bottom if self.stacked else at.x + 1 - here.right

    def at(self, at: Offset) -> int | None:
        """The border at a place on the screen."""
        for border, here in enumerate(list(self._parts().values())[:-1]):
            is_along = here.x <= at.x < here.right if self.stacked else here.y <= at.y < here.bottom
            if is_along and self.past(border, at) in (0, 1):
                return border
        return None


class Movable(Widget):
    """Has borders that can be dragged."""

    borders: Sequence[Borders] = ()
    _dragged: tuple[Borders, int] | None = None

    def shift_beside(self, part: int, cells: int, *, stacked: bool) -> bool:
        """Move the border beside a part; False where there is none."""
        size = self.app.size
        return any(each.shift_beside(part, cells, size) for each in self.borders if each.stacked == stacked)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        found = ((each, each.at(event.screen_offset)) for each in self.borders)
        self._dragged = next(((each, border) for each, border in found if border is not None), None)
        if "key" in event.style.meta:  # a hint in the frame, which is a button
            self._dragged = None
        if self._dragged is not None:
            event.stop()
            self.screen.clear_selection()  # what began just now would select text
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged is not None:
            borders, border = self._dragged
            borders.shift(border, borders.past(border, event.screen_offset))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragged is not None:
            borders, border = self._dragged
            sizes = borders.shift(border, borders.past(border, event.screen_offset))
            borders.keep(sizes, self.app.size)
            self._dragged = None
            self.release_mouse()
