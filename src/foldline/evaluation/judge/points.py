"""Where strategies are compared: points of a session at which any of them folded, each with their views."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from foldline.context.view import is_summary
from foldline.protocol import NEW, BaseMessage, SystemMessage, UserMessage

from ..record import Folded, Run

FLOOR, CEILING = "floor", "ceiling"
"""The arms that give the scale: as good as no context, and all of it."""
ENOUGH = 30
"""Points below which no difference can be told (evaluation.md §6)."""


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a session, and what each strategy's model would have seen at it."""

    session: str
    position: int
    """Index of the newest recorded message."""
    history: tuple[BaseMessage, ...]
    """All recorded messages of the session, those after the point too."""
    views: Mapping[str, tuple[BaseMessage, ...]]
    """By arm; without floor and ceiling."""

    @property
    def past(self) -> tuple[BaseMessage, ...]:
        return tuple(message for message in self.history if message.index <= self.position)

    @property
    def future(self) -> tuple[BaseMessage, ...]:
        return tuple(message for message in self.history if message.index > self.position)


def fold_positions(runs: Iterable[Run]) -> dict[str, tuple[int, ...]]:
    """By session: the positions at which any of its runs folded, oldest first."""
    found: dict[str, set[int]] = {}
    for run in runs:
        recorded = {message.index for message in run.history}
        places = found.setdefault(run.session, set())
        for fold in run.folds:
            if (at := position_of(fold, recorded)) is not None:
                places.add(at)
    return {session: tuple(sorted(places)) for session, places in found.items()}


def position_of(fold: Folded, recorded: set[int]) -> int | None:
    """Index of the newest recorded message in the view a fold was made from; None where it held none."""
    return max(
        (message.index for message in fold.before if message.index in recorded and not is_summary(message)),
        default=None,
    )


def floor_view(point: Point) -> tuple[BaseMessage, ...]:
    """The system prompt and the last user message: what an answer is worth that guesses."""
    prompts = [m for m in point.past if isinstance(m, SystemMessage) and m.origin == "prompt"]
    asked = [m for m in point.past if isinstance(m, UserMessage) and m.origin == "typed"]
    return (*prompts, *asked[-1:])


def points_of(runs: Sequence[Run]) -> list[Point]:
    """Every moment at which any of these runs folded, with the view of each of them then."""
    sessions: dict[str, list[Run]] = {}
    for run in runs:
        sessions.setdefault(run.session, []).append(run)
    return [
        Point(
            session=session,
            position=position,
            history=sessions[session][0].history,
            views={run.strategy: view_at(run, position) for run in sessions[session]},
        )
        for session, positions in fold_positions(runs).items()
        for position in positions
    ]


def view_at(run: Run, position: int) -> tuple[BaseMessage, ...]:
    """What the run's next request would have held once the message at `position` had been said."""
    recorded = {message.index for message in run.history}
    folds = [(at, fold) for fold in run.folds if (at := position_of(fold, recorded)) is not None]
    since = NEW
    base: tuple[BaseMessage, ...] = ()
    for at, fold in folds:
        if at <= position:
            since, base = at, fold.after
    later = (message for message in run.history if since < message.index <= position)
    return (*base, *(run.clipped.get(message.index, message) for message in later))
