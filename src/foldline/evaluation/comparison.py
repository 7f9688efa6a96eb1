"""A comparison: recorded sessions replayed under each arm at each window, and measured the same way."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from foldline.compaction import dependencies
from foldline.context.budget import BudgetSettings
from foldline.context.ledger import Score, likelihood
from foldline.llm import LLM, Embedder
from foldline.llm.models import Price
from foldline.llm.offline import OfflineLLM

from .arms import ORACLE, RAW, RECORDED, Recording, arm_named, foresight
from .figures import Figures, Instrument
from .record import Meter, Run, View
from .replay import UNLIMITED, Arm, Sizes, WindowTooSmall, replay

DIGEST = "digest"
"""The extract of the offline model: quoted, not reworded. What it leaves out a model might have kept."""


def digest_summariser(window: int) -> LLM:
    """Writes the same digest for the same request, at once."""
    return OfflineLLM(window, pace=0)


@dataclass(frozen=True, slots=True)
class Subject:
    """A recorded session, as `recorded_messages` gives it."""

    name: str
    history: View
    cwd: Path
    """The folder it was held in, for strategies that ask for it."""
    pins: frozenset[int] = frozenset()
    recording: Recording | None = None
    """As its own agent held it, where that compacted; for the arm `recorded`."""


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
"""Called with what is replayed now, and how many more messages have been played."""


def messages_to_play(subjects: Sequence[Subject], setup: Setup) -> int:
    """How far progress will count at most."""
    runs = 1 + (len(setup.windows) + (RECORDED in setup.arms)) * len(_played_arms(setup))
    return sum(len(subject.history) for subject in subjects) * runs


async def compare(
    subjects: Sequence[Subject], setup: Setup, progress: Progress = lambda _what, _count: None
) -> AsyncGenerator[Cell | NotCompared, None]:
    """Cell after cell, a session at a time; the raw run of each session comes first, asked for or not.

    Raises:
        FoldlineError: an arm cannot be made; raised before anything is played.
    """
    for subject in subjects[:1]:
        check_arms(setup, subject.cwd)
    for subject in subjects:
        player = _Comparison(subject, setup, progress)
        await player.begin()
        for window in setup.windows:
            for cell in await player.at_window(window):
                yield cell
        if RECORDED in setup.arms:
            for cell in await player.as_recorded():
                yield cell


@dataclass
class _Comparison:
    """One session under all arms."""

    subject: Subject
    setup: Setup
    progress: Progress
    raw: Run = field(init=False)
    instrument: Instrument = field(init=False)

    async def begin(self) -> None:
        """The raw run, which the others are held against."""
        self.raw = await self._play(RAW, UNLIMITED)
        self.instrument = Instrument(self.subject.history, self.raw, self.setup.meter, self.setup.price)

    async def at_window(self, window: int) -> Sequence[Cell | NotCompared]:
        runs: list[Run] = []
        why = f"never full (its longest request has {self.instrument.raw.peak:,} tokens)"
        for arm in _played_arms(self.setup):
            try:
                run = await self._play(arm, window)
            except WindowTooSmall as small:
                why = str(small)
                break
            if not run.due and not runs:  # until a compaction is due all arms do the same
                break
            runs.append(run)
        return self._cells(replace(self.raw, window=window), runs, why)

    async def as_recorded(self) -> Sequence[Cell | NotCompared]:
        """At the moments of the session's own compactions, and at equal size."""
        base, own = replace(self.raw, window=0), self.subject.recording
        if own is None:
            return self._cells(base, [], "no compaction of its own can be read")
        runs = [own.run, *[await self._play(arm, UNLIMITED, own.sizes) for arm in _played_arms(self.setup)]]
        base = replace(base, counted_from=own.run.counted_from)
        return self._cells(base, [replace(run, window=0) for run in runs], "")

    async def _play(self, arm: str, window: int, moments: Mapping[int, int] | None = None) -> Run:
        subject, setup, reported = self.subject, self.setup, 0
        score = foresight(subject.history, self.instrument.needs.all) if arm == ORACLE else likelihood

        def tell(played: int) -> None:
            nonlocal reported
            if played - reported >= _EVERY or played == len(subject.history):
                self.progress(f"{subject.name} · {arm}", played - reported)
                reported = played

        return await replay(
            subject.history,
            _made(arm, window, setup, subject.cwd, score),
            session=subject.name,
            window=window,
            summariser=setup.summariser(window),
            summarised_by=setup.summarised_by,
            meter=setup.meter,
            sizes=setup.sizes,
            pins=subject.pins,
            moments=moments,
            progress=tell,
        )

    def _cells(self, raw: Run, runs: Sequence[Run], why: str) -> Sequence[Cell | NotCompared]:
        if not runs:
            return [NotCompared(self.subject.name, raw.window, why)]
        shown = [raw, *runs] if RAW in self.setup.arms else runs
        return [Cell(run, Figures(run, self.instrument)) for run in shown]


def _played_arms(setup: Setup) -> Sequence[str]:
    return [arm for arm in setup.arms if arm not in (RAW, RECORDED)]


def check_arms(setup: Setup, folder: Path) -> None:
    """Raises FoldlineError where an arm cannot be made."""
    for arm in setup.arms:
        if arm != RECORDED:
            _made(arm, UNLIMITED, setup, folder)


def _made(arm: str, window: int, setup: Setup, folder: Path, score: Score = likelihood) -> Arm:
    llm = setup.summariser(window)
    return arm_named(arm, window, dependencies(llm, folder, embedder=setup.embedder), score)


_EVERY = 25  # messages between two words about progress
