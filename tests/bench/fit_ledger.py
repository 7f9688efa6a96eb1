"""Fits the weights of `foldline.memory.ledger_score` on recorded sessions. Run by hand:

    python tests/bench/fit_ledger.py WINDOW[,WINDOW] FILE… > weights.txt

Every session is replayed with the digest at the first window. At each compaction, every ledger item that the
view without its ledger does not contain is a case; its outcome is whether an answer before the next
compaction needed it. Sessions of one project are a family. Weights are fitted without each family in turn;
the replays of its sessions with these, at each window, are the held-out figures. The table at the end is
fitted on all sessions, with the same figures in-sample.
"""

import asyncio
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from foldline.compaction import DigestCompaction
from foldline.compaction.summary_text import with_ledger
from foldline.memory.ledger import Ledger, keys_in
from foldline.memory.ledger_score import (
    LINES,
    NAMES,
    Score,
    Weights,
    features,
    likelihood,
    score_with,
)
from foldline.protocol import BaseMessage
from foldline.view.items import is_summary, with_text
from foldline_eval.comparison import digest_summariser
from foldline_eval.corpus import find_sessions, read_session
from foldline_eval.cost import cost
from foldline_eval.recall import Atom, Needs, forms_of, recall
from foldline_eval.record import RecordedSession, ReplayRun
from foldline_eval.replay import UNLIMITED, Arm, WindowTooSmall, replay

SAMPLED = {False: 6, True: 15}
"""Sampling rates for names and for lines: of the cases that were not needed, one in this many is kept, with
that weight.
"""
RIDGE = 100.0
"""Chosen among 3, 30, 100 and 300: a session has a few hundred needs, mostly of few edits."""
ROUNDS = 20
"""Most rounds. Rare features take Newton's method one round for each power of e."""
FIELDS = {
    False: list(NAMES),
    True: list(LINES),
}
"""The weights of names, and of lines."""
CACHED_PRICE = 0.1


class Case(NamedTuple):
    """An item at a compaction."""

    features: tuple[float, ...]
    needed: bool
    weight: float


@dataclass
class Played:
    """One session at one window: its cases and its figures."""

    subject: RecordedSession
    family: str
    needs: Needs
    raw: float
    """Cost of sending everything."""
    names: list[Case] = field(default_factory=list)
    lines: list[Case] = field(default_factory=list)


def replayed(
    subject: RecordedSession, window: int, score: Score = likelihood
) -> ReplayRun | None:
    """Replay with the digest and this score; None if the window is never full."""
    strategy = None if window == UNLIMITED else DigestCompaction()
    try:
        run = asyncio.run(
            replay(
                subject,
                Arm("digest", strategy, score),
                digest_summariser(window),
            )
        )
    except WindowTooSmall:
        return None
    return run if run.due or strategy is None else None


def collect(session: Played, run: ReplayRun) -> None:
    """Add the cases of all compactions of a run."""
    ledger = Ledger()
    rng = random.Random(1)
    position = 0
    history = session.subject.history
    compactions = run.compactions
    for compaction, following in zip(
        compactions, [*compactions[1:], None], strict=True
    ):
        newest = max(message.index for message in compaction.before)
        while position < len(history) and history[position].index <= newest:
            ledger.add(history[position])
            position += 1
        until = history[-1].index + 1
        if following:
            until = max(message.index for message in following.before)
        view = [_without_ledger(message) for message in compaction.after]
        later = [message for message in history[position:] if message.index <= until]
        _add_cases(
            session, ledger, keys_in(view), _missed(session.needs, view, later), rng
        )


def _add_cases(
    session: Played,
    ledger: Ledger,
    visible: set[tuple[str, str]],
    missed: set[tuple[str, str]],
    rng: random.Random,
) -> None:
    for key, item in ledger.items.items():
        if key in visible or item.entry < 0:
            continue
        is_line = item.kind == "line"
        needed = not missed.isdisjoint(forms_of([Atom(item.kind, item.text)]))
        if not needed and rng.randrange(SAMPLED[is_line]) != 0:
            continue
        file = ledger.files.get(item.place)
        values = dict(features(item, file, ledger.now))
        sample = tuple(values.get(name, 0.0) for name in FIELDS[is_line])
        cases = session.lines if is_line else session.names
        cases.append(Case(sample, needed, 1.0 if needed else float(SAMPLED[is_line])))


def _without_ledger(message: BaseMessage) -> BaseMessage:
    return (
        with_text(message, with_ledger(message.text, [], []))
        if is_summary(message)
        else message
    )


def _missed(
    session_needs: Needs, view: Sequence[BaseMessage], later: Sequence[BaseMessage]
) -> set[tuple[str, str]]:
    """Return the needs of answers that neither the view nor a later message before them contained."""
    forms: set[tuple[str, str]] = set()
    for message in view:
        forms |= session_needs.held_by(message)
    missed: set[tuple[str, str]] = set()
    for message in later:
        for need in session_needs.by_step.get(message.index, ()):
            if forms.isdisjoint(need.forms):
                missed.update(need.forms)
        forms |= session_needs.held_by(message)
    return missed


# -- the fit ---------------------------------------------------------------------------------------


def fitted(cases: Sequence[Case], start: Sequence[float]) -> list[float]:
    """Logistic regression by Newton's method, with a ridge on all but the first weight."""
    width = len(cases[0].features)
    weights = list(start)
    for _ in range(ROUNDS):
        gradient = [RIDGE * weight if at else 0.0 for at, weight in enumerate(weights)]
        curvature = [
            [RIDGE * (row == column and row > 0) for column in range(width)]
            for row in range(width)
        ]
        for sample, needed, weight in cases:
            power = sum(map(float.__mul__, weights, sample))
            likely = 1 / (1 + math.exp(-max(-30.0, min(30.0, power))))
            error = weight * (likely - needed)
            bend = weight * likely * (1 - likely)
            nonzero = [(at, value) for at, value in enumerate(sample) if value]
            for at, value in nonzero:
                gradient[at] += error * value
                row = curvature[at]
                bent = bend * value
                for other, other_value in nonzero:
                    row[other] += bent * other_value
        steps = _solved(curvature, gradient)
        factor = min(1.0, 4 / max(1e-9, *map(abs, steps)))  # longer steps diverge
        weights = [
            weight - factor * step for weight, step in zip(weights, steps, strict=True)
        ]
        if max(map(abs, steps)) < 0.02:
            break
    return weights


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve by Gauss with the largest pivot; an empty column gives 0."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        head = rows[at][at]
        if abs(head) < 1e-12:
            continue
        for row in range(len(rows)):
            factor = rows[row][at] / head
            if row != at and factor:
                rows[row] = [
                    a - factor * b for a, b in zip(rows[row], rows[at], strict=True)
                ]
    return [
        row[-1] / row[at] if abs(row[at]) >= 1e-12 else 0.0
        for at, row in enumerate(rows)
    ]


class FittedWeights(NamedTuple):
    """The weights of names, and of lines."""

    names: Weights
    lines: Weights


def weights_of(sessions: Iterable[Played], start: FittedWeights) -> FittedWeights:
    chosen = list(sessions)
    names = [case for session in chosen for case in session.names]
    lines = [case for session in chosen for case in session.lines]
    return FittedWeights(
        fitted_weights(names, start.names, FIELDS[False]),
        fitted_weights(lines, start.lines, FIELDS[True]),
    )


def fitted_weights(
    cases: Sequence[Case], start: Weights, fields: Sequence[str]
) -> Weights:
    weights = fitted(cases, [start[name] for name in fields])
    return dict(zip(fields, weights, strict=True))


# -- the report ------------------------------------------------------------------------------------


def price(run: ReplayRun) -> float:
    return cost(run).equivalent(CACHED_PRICE)


def figures(
    session: Played, window: int, weights: FittedWeights
) -> tuple[float, ...] | None:
    """Return needs, retained ones, far ones, retained far ones, the price, and that of the raw session.

    None if the window is never full.
    """
    run = replayed(session.subject, window, score_with(*weights))
    if run is None:
        return None
    result = recall(run, session.needs)
    far = result.long_range
    return (
        result.all.needs,
        result.all["retained"],
        far.needs,
        far["retained"],
        price(run),
        session.raw,
    )


def line(name: str, rows: Sequence[Sequence[float]]) -> str:
    needed, retained, far, far_kept, spent, raw = map(sum, zip(*rows, strict=True))
    recall, far_recall = retained / needed, far_kept / max(1, far)
    return (
        f"{name:24} recall {recall:6.1%}  far {far_recall:6.1%}  cost {spent / raw:.3f}"
    )


def families(
    subjects: Iterable[RecordedSession],
) -> Iterator[tuple[str, RecordedSession]]:
    """Yield each session with its project: the first part of its name."""
    for subject in subjects:
        yield subject.name.split("-")[0], subject


def report(
    sessions: Sequence[Played],
    window: int,
    name: str,
    weights: Mapping[str, FittedWeights],
) -> None:
    """Print the figures of each session, and of all.

    Args:
        weights: by family.
    """
    rows = []
    for session in sessions:
        if row := figures(session, window, weights[session.family]):
            rows.append(row)
            print(line(session.subject.name, [row]), flush=True)
    print(line(f"{window:,}, {len(rows)} {name}", rows), flush=True)


def sessions_of(window: int, files: Sequence[str]) -> Iterator[Played]:
    """Replay the sessions in which the window gets full."""
    subjects = (
        read_session(file, name, None) for file, name in find_sessions(files).items()
    )
    for family, subject in families(subjects):
        run = replayed(subject, window)
        if run is None:
            continue
        raw = replayed(subject, UNLIMITED)
        assert raw is not None
        session = Played(subject, family, Needs(subject.history), price(raw))
        collect(session, run)
        print(f"{subject.name}: {len(run.compactions)} compactions", file=sys.stderr)
        yield session


def print_weights(title: str, fields: Sequence[str], weights: Weights) -> None:
    print(f"{title} = dict(")
    for name in fields:
        print(f"    {name}={weights[name]:.3f},")
    print(")")


def main(windows: Sequence[int], files: Sequence[str]) -> None:
    sessions = list(sessions_of(windows[0], files))
    on_all = weights_of(sessions, FittedWeights(NAMES, LINES))
    names = {session.family for session in sessions}
    held_out = {
        name: weights_of(
            [session for session in sessions if session.family != name], on_all
        )
        for name in sorted(names)
    }
    for window in windows:
        report(sessions, window, "held out", held_out)
        report(sessions, window, "in-sample", dict.fromkeys(names, on_all))
    print_weights("NAMES", FIELDS[False], on_all.names)
    print_weights("LINES", FIELDS[True], on_all.lines)
    print(f"# {date.today()}, {len(sessions)} sessions at {windows[0]:,}")


if __name__ == "__main__":
    main([int(window) for window in sys.argv[1].split(",")], sys.argv[2:])
