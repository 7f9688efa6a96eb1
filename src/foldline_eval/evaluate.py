"""The handler of `foldline eval`.

It replays recorded sessions with each strategy and reports figures.
"""

from collections.abc import Sequence
from pathlib import Path

from foldline.cli.output import note, say_json
from foldline.cli.settings import settings_here
from foldline.compaction import BUILT_IN
from foldline.protocol import FoldlineError

from .arms import RAW, TRUNCATE
from .comparison import EvalSetup, check_arms
from .corpus import find_sessions, measure_all
from .report import NOT_MEASURED, report_json, say_report, violations_in

DEFAULT_WINDOW = 32_768
"""Default window in tokens, so small that most sessions fill it several times."""
NO_SESSIONS = "No sessions found."


def evaluate(
    sources: Sequence[str],
    strategies: Sequence[str] | None,
    windows: Sequence[int] | None,
    jobs: int,
    as_json: bool,
    format_name: str | None,
) -> int:
    """Run `foldline eval`, and return its exit code."""
    arms = dict.fromkeys(strategies or [*BUILT_IN, TRUNCATE])
    setup = EvalSetup(
        arms=[arm for arm in arms if arm != RAW],
        windows=list(windows or [DEFAULT_WINDOW]),
        sizes=settings_here().budget_settings,
    )
    check_arms(setup, Path.cwd())
    names = find_sessions(sources)
    if not names:
        raise FoldlineError(NO_SESSIONS)
    sessions = list(measure_all(names, setup, format_name, max(1, jobs)))
    if as_json:
        say_json(report_json(sessions))
    else:
        say_report(sessions)
    errors = [session for session in sessions if session.error]
    for session in errors:
        note(NOT_MEASURED.format(source=session.source, error=session.error))
    violations = violations_in(sessions)
    if violations:
        raise FoldlineError(
            f"Strategies violated invariants {len(violations)} times. First violation: {violations[0]}"
        )
    return 1 if len(errors) == len(sessions) else 0
