"""The keys of the whole output of a job: one table that bindings, its frame and the help list come from."""

from typing import Final

from foldline.tui.keys.table import ScreenKey, table

KEYS: Final[tuple[ScreenKey[None], ...]] = table(
    "output",
    ScreenKey("up", ("up", "k"), "One line up.", "Output"),
    ScreenKey("down", ("down", "j"), "One line down.", "Output"),
    ScreenKey("page-up", ("pageup",), "A screen up.", "Output"),
    ScreenKey("page-down", ("pagedown",), "A screen down.", "Output"),
    ScreenKey("first", ("home",), "To the first line.", "Output"),
    ScreenKey("last", ("end",), "To the last line; what comes is followed.", "Output"),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program"),
    ScreenKey("close", ("escape", "q"), "Back to the jobs; this one runs on.", "Program"),
)
