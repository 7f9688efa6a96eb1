"""A comparison: recorded sessions replayed under each arm at each window, and measured the same way."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from foldline.compaction import Dependencies
from foldline.context.budget import BudgetSettings
from foldline.llm import LLM
from foldline.llm.prices import Price
from foldline.protocol import BaseMessage

from .arms import RAW, arm_named
from .figures import Figures, figures, instrument_for
from .record import Meter, Run
from .replay import UNLIMITED, Sizes, replay
from .summarisers import DIGEST, digest_summariser


@dataclass(frozen=True, slots=True)
class Subject:
    """A recorded session, as `recorded_messages` gives it."""

    name: str
    history: tuple[BaseMessage, ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """What is compared, and how it is measured."""

    arms: Sequence[str]
    windows: Sequence[int]
    meter: Meter
    price: Price | None = None
    summariser: Callable[[int], LLM] = digest_summariser
    """Given a window: what writes the summaries in it."""
    summarised_by: str = DIGEST
    sizes: Sizes = lambda *_: BudgetSettings()
    """What the user set for a window in tokens and a model."""
    dependencies: Mapping[type, object] = field(default_factory=dict)
    """What the constructor of a strategy may ask for, beside the summariser."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One session under one arm at one window."""

    run: Run
    figures: Figures


@dataclass(frozen=True, slots=True)
class NeverFull:
    """A session that no arm had to fold at this window: there is nothing to compare."""

    session: str
    window: int
    peak: int
    """Tokens of its longest request."""


Progress = Callable[[str, int], None]
"""Told what is replayed now, and how many messages more have been played."""


def messages_to_play(subjects: Sequence[Subject], setup: Setup) -> int:
    """How far progress will count at most."""
    runs = 1 + len(setup.windows) * len([arm for arm in setup.arms if arm != RAW])
    return sum(len(subject.history) for subject in subjects) * runs


async def compare(
    subjects: Sequence[Subject], setup: Setup, progress: Progress = lambda _what, _count: None
) -> AsyncGenerator[Cell | NeverFull, None]:
    """Cell after cell, a session at a time; the raw run of each session comes first, asked for or not.

    Raises:
        FoldlineError: an arm cannot be made, or the summariser cannot be asked.
    """
    for subject in subjects:
        raw = await _played(subject, RAW, UNLIMITED, setup, progress)
        instrument = instrument_for(subject.history, raw, setup.meter, setup.price)
        for window in setup.windows:
            cells: list[Cell] = []
            for arm in (arm for arm in setup.arms if arm != RAW):
                run = await _played(subject, arm, window, setup, progress)
                if not run.folds and not cells:  # until the first fold all arms do the same
                    break
                cells.append(Cell(run, figures(run, instrument)))
            if not cells:
                yield NeverFull(subject.name, window, instrument.raw.peak)
                continue
            if RAW in setup.arms:
                seen = replace(raw, window=window)
                yield Cell(seen, figures(seen, instrument))
            for cell in cells:
                yield cell


async def _played(subject: Subject, arm: str, window: int, setup: Setup, progress: Progress) -> Run:
    told = 0

    def tell(played: int) -> None:
        nonlocal told
        if played - told >= _EVERY or played == len(subject.history):
            progress(f"{subject.name} · {arm}", played - told)
            told = played

    llm = setup.summariser(window)
    dependencies: Dependencies = {**setup.dependencies, LLM: llm}
    return await replay(
        subject.history,
        arm_named(arm, window, dependencies),
        session=subject.name,
        window=window,
        summariser=llm,
        summarised_by=setup.summarised_by,
        meter=setup.meter,
        sizes=setup.sizes,
        progress=tell,
    )


_EVERY = 25
"""Messages between two words about progress."""
