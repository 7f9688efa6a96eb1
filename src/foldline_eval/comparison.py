"""Replays a recorded session with each arm at each window.

All runs are measured in the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from foldline.compaction import dependencies
from foldline.llm.offline import OfflineLLM
from foldline.view.budget import BudgetSettings

from .arms import RAW, arm_named
from .figures import Instrument, RunFigures
from .record import RecordedSession, ReplayRun
from .replay import UNLIMITED, Arm, Sizes, WindowTooSmall, replay

NEVER_FULL = (
    "the session never filled the window (its longest request has {tokens:,} tokens)"
)


def digest_summariser(window: int) -> OfflineLLM:
    """Return the offline model, which writes digests in place of a model's summaries.

    A digest only copies text verbatim, so a real model's summary might preserve more information.
    """
    return OfflineLLM(window, pace=0)


@dataclass(frozen=True, slots=True)
class EvalSetup:
    """The arms and windows to compare, and how to measure them."""

    arms: Sequence[str]
    """The arms that are compared with `raw`."""
    windows: Sequence[int]
    sizes: Sizes = lambda *_: BudgetSettings()
    """Returns the user's budget settings for a given window, in tokens, and a model name."""

    @property
    def runs(self) -> int:
        """Maximum number of runs per session, for a progress bar."""
        return 1 + len(self.windows) * len(self.arms)


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A session and a window for which no strategies could be compared."""

    session: str
    window: int
    why: str
    """The reason, worded so that it can follow "not compared:"."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of all runs of a session."""

    rows: list[RunFigures] = field(default_factory=list)
    not_compared: list[NotCompared] = field(default_factory=list)


async def compare(
    session: RecordedSession,
    setup: EvalSetup,
    on_run: Callable[[str], object] = lambda _run: None,
) -> Comparison:
    """Measure all arms on one session.

    The `raw` arm is played first, because the other figures are relative to it. Its run is the same at all
    windows.

    Args:
        on_run: called with a description of each run that has been played.
    """
    raw = await _play(RAW, UNLIMITED, session, setup)
    on_run(f"{session.name} · {RAW}")
    instrument = Instrument(session.history, raw)
    comparison = Comparison()
    for window in setup.windows:
        runs = [replace(raw, window=window)]
        why = NEVER_FULL.format(tokens=instrument.raw.peak)
        for arm in setup.arms:
            try:
                run = await _play(arm, window, session, setup)
            except WindowTooSmall as too_small:
                why = str(too_small)
                break
            on_run(f"{session.name} · {arm}")
            # All arms are equal until a compaction is due.
            if not run.due and len(runs) == 1:
                break
            runs.append(run)
        if len(runs) == 1:
            comparison.not_compared.append(NotCompared(session.name, window, why))
        else:
            comparison.rows.extend(RunFigures(run, instrument) for run in runs)
    return comparison


async def _play(
    arm: str, window: int, session: RecordedSession, setup: EvalSetup
) -> ReplayRun:
    return await replay(
        session,
        _make_arm(arm, window, session.cwd),
        digest_summariser(window),
        setup.sizes,
    )


def check_arms(setup: EvalSetup, folder: Path) -> None:
    """Create each arm once, so that errors are found early.

    Raises:
        FoldlineError: an arm cannot be created.
    """
    for arm in setup.arms:
        _make_arm(arm, UNLIMITED, folder)


def _make_arm(arm: str, window: int, folder: Path) -> Arm:
    return arm_named(arm, window, dependencies(digest_summariser(window), folder))
