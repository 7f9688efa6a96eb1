"""Which panels a width has room for, and how wide and high their parts are. Pure."""

from typing import Final

HISTORY, VIEW, FILES, TIMELINE = 0, 1, 2, 3
"""The panels by the order of their keys."""

HEADER_ROWS: Final = 1
"""Above the panels, wherever they stand."""
WIDE: Final = 120
"""Columns from which three panels stand side by side; SCREENS, picture (b)."""
MEDIUM: Final = 90
"""Columns from which two do."""


def panels_at(width: int, active: int, *, alone: bool) -> frozenset[int]:
    """The panels that show; `alone`: one at a time, however wide it is."""
    if alone or width < MEDIUM:
        return frozenset({active})
    if width >= WIDE:
        return frozenset({HISTORY, VIEW, FILES})
    return frozenset({HISTORY, FILES} if active == FILES else {HISTORY, VIEW})


def files_width(width: int) -> int:
    """Cells of the Files panel beside others."""
    return 36 if width >= 150 else 28 if width >= WIDE else 32


def touches_height(height: int) -> int:
    """Rows, below the files, for the touches of one of them."""
    return max(min((height - 6) * 2 // 5, 15), 4)
