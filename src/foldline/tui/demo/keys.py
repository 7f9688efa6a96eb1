"""The keys of the tour, beside those of the program it goes through."""

from typing import Final

from foldline.tui.keys.table import ScreenKey, table

KEYS: Final[tuple[ScreenKey[None], ...]] = table(
    "tour",
    ScreenKey("skip-step", ("f8",), "Skips this step of the tour.", "Tour", place="anywhere"),
    ScreenKey("end-tour", ("f9",), "Ends the tour; the session stays open.", "Tour", place="anywhere"),
)
