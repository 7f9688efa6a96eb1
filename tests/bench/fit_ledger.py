"""Fits the weights of `foldline.context.ledger` on recorded sessions. Run by hand:

    python tests/bench/fit_ledger.py WINDOW[,WINDOW] FILE… > weights.txt

Every session is replayed with the digest at the first window. At each compaction all that the ledger knows
and the view without its ledger does not say is a case; whether an answer before the next compaction needed it
is its outcome. Sessions of one project are a family. Weights are fitted without each family in turn, and the
replays of its sessions with these, at each window, are the figures held out; the table at the end is fitted
on all, with the same figures, in-sample.
"""

import asyncio
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from foldline.cli.eval_corpus import subjects_of
from foldline.compaction import DigestCompaction
from foldline.compaction.summary_text import with_ledger
from foldline.context.ledger import (
    LINES,
    NAMES,
    Ledger,
    Score,
    likelihood,
    lines_logit,
    names_logit,
    said_in,
    scored,
)
from foldline.context.view import is_summary, with_text
from foldline.evaluation.comparison import Subject, digest_summariser
from foldline.evaluation.cost import Rates, cost
from foldline.evaluation.figures import meter_named
from foldline.evaluation.recall import Atom, Needs, needs, recall, said
from foldline.evaluation.record import Run
from foldline.evaluation.replay import UNLIMITED, Arm, WindowTooSmall, replay
from foldline.protocol import BaseMessage


def units(width: int) -> list[list[float]]:
    return [[float(row == column) for column in range(width)] for row in range(width)]


METER = meter_named("weights")
KEPT_OF = {False: 6, True: 15}
"""Of names and of lines, one in so many cases that were not needed is kept, with that weight."""
RIDGE = 100.0
"""Chosen among 3, 30, 100 and 300: a session has a few hundred needs, mostly of few edits."""
ROUNDS = 20
"""At most. What is rare takes Newton's method one for each power of e."""
FEATURES = {
    False: [names_logit(unit) for unit in units(len(NAMES))],
    True: [lines_logit(unit) for unit in units(len(LINES))],
}
"""The logit is linear in its weights: where one is 1 and all others 0, it is that one's feature."""
Case = tuple[tuple[float, ...], bool, float]
"""Features, whether it was needed, and its weight."""


@dataclass
class Played:
    """One session at one window: its cases and its figures."""

    subject: Subject
    family: str
    needs: Needs
    raw: float
    """What sending everything costs, at a cached price of .1."""
    names: list[Case] = field(default_factory=list)
    lines: list[Case] = field(default_factory=list)


def replayed(subject: Subject, window: int, score: Score = likelihood) -> Run | None:
    """Under the digest, with the ledger chosen by this score; None where the window is never full."""
    strategy = None if window == UNLIMITED else DigestCompaction()
    try:
        run = asyncio.run(
            replay(
                subject.history,
                Arm("digest", strategy, score),
                session=subject.name,
                window=window,
                summariser=digest_summariser(window),
                summarised_by="digest",
                meter=METER,
            )
        )
    except WindowTooSmall:
        return None
    return run if run.due or strategy is None else None


def collect(played: Played, run: Run) -> None:
    """The cases of all compactions of a run."""
    ledger, position, rng = Ledger(), 0, random.Random(1)
    history, folds = played.subject.history, run.compactions
    for fold, after in zip(folds, [*folds[1:], None], strict=True):
        newest = max(message.index for message in fold.before)
        while position < len(history) and history[position].index <= newest:
            ledger.add(history[position])
            position += 1
        view = [_without_ledger(message) for message in fold.after]
        until = max(message.index for message in after.before) if after else history[-1].index + 1
        wanted = _missed(played.needs, view, [m for m in history[position:] if m.index <= until])
        shown = said_in(view)
        for key, seen in ledger.seen.items():
            if key in shown or seen.entry < 0:
                continue
            needed = not wanted.isdisjoint(said([Atom(seen.kind, seen.text)]))
            is_line = seen.kind == "line"
            if needed or rng.randrange(KEPT_OF[is_line]) == 0:
                place = ledger.places.get(seen.place)
                case = tuple(one(seen, place, ledger.now) for one in FEATURES[is_line])
                cases = played.lines if is_line else played.names
                cases.append((case, needed, 1.0 if needed else float(KEPT_OF[is_line])))


def _without_ledger(message: BaseMessage) -> BaseMessage:
    return with_text(message, with_ledger(message.text, [], [])) if is_summary(message) else message


def _missed(known: Needs, view: Sequence[BaseMessage], later: Sequence[BaseMessage]) -> set[tuple[str, str]]:
    """The forms of what answers needed that neither the view nor a later message said before them."""
    forms: set[tuple[str, str]] = set()
    for message in view:
        forms |= known.held_by(message)
    missed: set[tuple[str, str]] = set()
    for message in later:
        for need in known.by_step.get(message.index, ()):
            if forms.isdisjoint(need.forms):
                missed.update(need.forms)
        forms |= known.held_by(message)
    return missed


# -- the fit ---------------------------------------------------------------------------------------


def fitted(cases: Sequence[Case], start: Sequence[float]) -> list[float]:
    """Logistic regression by Newton's method, with a ridge on all but the first weight."""
    width = len(cases[0][0])
    weights = list(start)
    for _ in range(ROUNDS):
        gradient = [RIDGE * weight if at else 0.0 for at, weight in enumerate(weights)]
        curvature = [[RIDGE * (row == column and row > 0) for column in range(width)] for row in range(width)]
        for features, needed, weight in cases:
            power = sum(map(float.__mul__, weights, features))
            likely = 1 / (1 + math.exp(-max(-30.0, min(30.0, power))))
            error, bend = weight * (likely - needed), weight * likely * (1 - likely)
            set_ = [(at, value) for at, value in enumerate(features) if value]
            for at, value in set_:
                gradient[at] += error * value
                row, bent = curvature[at], bend * value
                for other, more in set_:
                    row[other] += bent * more
        steps = _solved(curvature, gradient)
        short = min(1.0, 4 / max(1e-9, *map(abs, steps)))  # a step too long never comes back
        weights = [w - short * step for w, step in zip(weights, steps, strict=True)]
        if max(map(abs, steps)) < 0.02:
            break
    return weights


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss, with the largest pivot; a column of nothing gives 0."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        head = rows[at][at]
        if abs(head) < 1e-12:
            continue
        for row in range(len(rows)):
            if row != at and (factor := rows[row][at] / head):
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
    return [row[-1] / row[at] if abs(row[at]) >= 1e-12 else 0.0 for at, row in enumerate(rows)]


Weights = tuple[tuple[float, ...], tuple[float, ...]]
"""Of names, and of lines."""


def weights_of(learnt: Iterable[Played], start: Weights) -> Weights:
    chosen = list(learnt)
    names = fitted([case for played in chosen for case in played.names], start[0])
    lines = fitted([case for played in chosen for case in played.lines], start[1])
    return tuple(names), tuple(lines)


# -- the report ------------------------------------------------------------------------------------


def price(run: Run) -> float:
    return cost(run, METER).equivalent(Rates(0.1))


def figures(played: Played, window: int, weights: Weights) -> tuple[float, ...] | None:
    """Needs, of them retained, far ones, of them retained, the price, and that of the raw session; None where
    the window is never full."""
    run = replayed(played.subject, window, scored(*weights))
    if run is None:
        return None
    found = recall(run, played.needs)
    kept = (found.all["retained"], found.long_range.needs, found.long_range["retained"])
    return (found.all.needs, *kept, price(run), played.raw)


def line(name: str, rows: Sequence[Sequence[float]]) -> str:
    needed, kept, far, far_kept, spent, raw = map(sum, zip(*rows, strict=True))
    return f"{name:24} recall {kept / needed:6.1%}  far {far_kept / max(1, far):6.1%}  cost {spent / raw:.3f}"


def families(subjects: Iterable[Subject]) -> Iterator[tuple[str, Subject]]:
    """Sessions whose names begin alike are of one project."""
    for subject in subjects:
        yield subject.name.split("-")[0], subject


def report(known: Sequence[Played], window: int, name: str, weights: Mapping[str, Weights]) -> None:
    """Session by session, and all of them pooled. `weights` are by family."""
    rows = []
    for played in known:
        if row := figures(played, window, weights[played.family]):
            rows.append(row)
            print(line(played.subject.name, [row]), flush=True)
    print(line(f"{window:,}, {len(rows)} {name}", rows), flush=True)


def main(windows: Sequence[int], files: Sequence[str]) -> None:
    known: list[Played] = []
    for family, subject in families(subjects_of(files, None, METER)):
        if run := replayed(subject, windows[0]):
            raw = replayed(subject, UNLIMITED)
            assert raw is not None
            played = Played(subject, family, needs(subject.history, METER), price(raw))
            collect(played, run)
            known.append(played)
            print(f"{subject.name}: {len(run.compactions)} compactions", file=sys.stderr)
    everything = weights_of(known, (NAMES, LINES))
    names = {played.family for played in known}
    held_out = {
        name: weights_of([played for played in known if played.family != name], everything)
        for name in sorted(names)
    }
    for window in windows:
        report(known, window, "held out", held_out)
        report(known, window, "in-sample", dict.fromkeys(names, everything))
    for name, weights in zip(("NAMES", "LINES"), everything, strict=True):
        print(f"{name} = ({', '.join(f'{weight:.3f}' for weight in weights)})")
    print(f"# {date.today()}, {len(known)} sessions at {windows[0]:,}")


if __name__ == "__main__":
    main([int(window) for window in sys.argv[1].split(",")], sys.argv[2:])
