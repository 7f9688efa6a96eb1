"""The keys of the Jobs screen: one table that bindings, hints and the help list come from."""

from typing import Final

from foldline.tui.jobs.state import JobsState
from foldline.tui.keys.table import ScreenKey, table


def _has_jobs(state: JobsState) -> bool:
    return state.row is not None


def _runs(state: JobsState) -> bool:
    return state.row is not None and state.row.runs


KEYS: Final[tuple[ScreenKey[JobsState], ...]] = table(
    "jobs",
    ScreenKey(
        "open",
        ("enter",),
        "All that it wrote, to be scrolled; what comes is followed.",
        "Job",
        "whole output",
        works=_has_jobs,
    ),
    ScreenKey(
        "end",
        ("K",),
        "Ends it and all it started. Asks once more; the model is told.",
        "Job",
        "ends it",
        works=_runs,
    ),
    ScreenKey("up", ("up", "k"), "One job up.", "List", works=_has_jobs),
    ScreenKey("down", ("down", "j"), "One job down.", "List", works=_has_jobs),
    ScreenKey("first", ("home",), "To the newest job.", "List", works=_has_jobs),
    ScreenKey("last", ("end",), "To the oldest job.", "List", works=_has_jobs),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "q"), "Closes; the jobs run on.", "Program", "closes"),
)
