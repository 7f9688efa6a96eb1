"""A comparison: recorded sessions replayed under each arm at each window, and measured the same way."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from foldline.compaction import BUILT_IN, Dependencies, TruncateTurns, dependencies, load_strategy
from foldline.context.budget import BudgetSettings
from foldline.llm import LLM, Embedder
from foldline.llm.models import Price
from foldline.llm.offline import OfflineLLM
from foldline.protocol import BaseMessage, FoldlineError

from .figures import Figures, figures, instrument_for
from .headroom import HeadroomCompaction
from .record import Meter, Run
from .replay import UNLIMITED, Arm, Sizes, WindowTooSmall, replay

DIGEST = "digest"
"""The extract of the offline model: quoted, not told. What it leaves out a model might have kept."""


def digest_summariser(window: int) -> LLM:
    """Writes the same digest for the same request, at once."""
    return OfflineLLM(window, pace=0)


# --- arms ---------------------------------------------------------------------------------------------

RAW = "raw"
"""The whole history with each request: what would be remembered and paid if windows had no end."""
TRUNCATE = "truncate"
HEADROOM = "headroom"
REFERENCES = {
    RAW: "nothing is ever compacted; marked where it exceeds the window",
    TRUNCATE: "leaves out the oldest turns, down to half of the window",
    HEADROOM: "headroom-ai's compress(), which is installed by itself",
}
"""Arms beside the strategies, and what each is."""


def default_arms() -> list[str]:
    """What is compared where nobody says: all that comes along, and the references that need nothing else."""
    return [RAW, *BUILT_IN, TRUNCATE]


def arm_named(name: str, window: int, dependencies: Dependencies) -> Arm:
    """The arm of this name, made anew: strategies may remember what they did.

    Raises:
        FoldlineError: there is no such strategy, or it cannot be made.
    """
    match name:
        case "raw":
            return Arm(name, None)
        case "truncate":
            return Arm(name, TruncateTurns(window // 2))
        case "headroom":
            return Arm(name, HeadroomCompaction())
        case _:
            if name not in BUILT_IN and ":" not in name:
                known = ", ".join([*REFERENCES, *BUILT_IN])
                raise FoldlineError(
                    f"There is no strategy {name}; there are {known}, and your own as module:ClassName."
                )
            return Arm(name, load_strategy(name, dependencies))


@dataclass(frozen=True, slots=True)
class Subject:
    """A recorded session, as `recorded_messages` gives it."""

    name: str
    history: tuple[BaseMessage, ...]
    cwd: Path
    """The folder it was held in, for strategies that ask for it."""
    pins: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Setup:
    """What is compared, and how it is measured."""

    arms: Sequence[str]
    windows: Sequence[int]
    meter: Meter
    price: Price | None = None
    prices_dated: date | None = None
    summariser: Callable[[int], LLM] = digest_summariser
    """Given a window: what writes the summaries in it."""
    summarised_by: str = DIGEST
    embedder: Embedder | None = None
    """For strategies that ask for one; by words without it."""
    sizes: Sizes = lambda *_: BudgetSettings()
    """What the user set for a window in tokens and a model."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One session under one arm at one window."""

    run: Run
    figures: Figures


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A session and a window that show no difference between strategies."""

    session: str
    window: int
    why: str
    """The rest of a sentence about the session."""


Progress = Callable[[str, int], None]
"""Told what is replayed now, and how many messages more have been played."""


def messages_to_play(subjects: Sequence[Subject], setup: Setup) -> int:
    """How far progress will count at most."""
    runs = 1 + len(setup.windows) * len([arm for arm in setup.arms if arm != RAW])
    return sum(len(subject.history) for subject in subjects) * runs


async def compare(
    subjects: Sequence[Subject], setup: Setup, progress: Progress = lambda _what, _count: None
) -> AsyncGenerator[Cell | NotCompared, None]:
    """Cell after cell, a session at a time; the raw run of each session comes first, asked for or not.

    Raises:
        FoldlineError: an arm cannot be made; told before anything is played.
    """
    _check_arms(subjects, setup)
    for subject in subjects:
        raw = await _played(subject, RAW, UNLIMITED, setup, progress)
        instrument = instrument_for(subject.history, raw, setup.meter, setup.price)
        for window in setup.windows:
            cells: list[Cell] = []
            why = f"never full (its longest request has {instrument.raw.peak:,} tokens)"
            for arm in (arm for arm in setup.arms if arm != RAW):
                try:
                    run = await _played(subject, arm, window, setup, progress)
                except WindowTooSmall as small:
                    why = str(small)
                    break
                if not run.due and not cells:  # until a compaction is due all arms do the same
                    break
                cells.append(Cell(run, figures(run, instrument)))
            if not cells:
                yield NotCompared(subject.name, window, why)
                continue
            if RAW in setup.arms:
                seen = replace(raw, window=window)
                yield Cell(seen, figures(seen, instrument))
            for cell in cells:
                yield cell


def _check_arms(subjects: Sequence[Subject], setup: Setup) -> None:
    for subject in subjects[:1]:
        for arm in setup.arms:
            _made(arm, UNLIMITED, subject, setup, setup.summariser(UNLIMITED))


async def _played(subject: Subject, arm: str, window: int, setup: Setup, progress: Progress) -> Run:
    told = 0

    def tell(played: int) -> None:
        nonlocal told
        if played - told >= _EVERY or played == len(subject.history):
            progress(f"{subject.name} · {arm}", played - told)
            told = played

    llm = setup.summariser(window)
    return await replay(
        subject.history,
        _made(arm, window, subject, setup, llm),
        session=subject.name,
        window=window,
        summariser=llm,
        summarised_by=setup.summarised_by,
        meter=setup.meter,
        sizes=setup.sizes,
        pins=subject.pins,
        progress=tell,
    )


def _made(arm: str, window: int, subject: Subject, setup: Setup, llm: LLM) -> Arm:
    return arm_named(arm, window, dependencies(llm, subject.cwd, embedder=setup.embedder))


_EVERY = 25
"""Messages between two words about progress."""
