"""The report of `foldline eval`: tables a session and a window each, never a pooled headline."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, pairwise
from math import log2

from foldline.context.audit import FactKind
from foldline.evaluation.comparison import RAW, NotCompared, Setup
from foldline.evaluation.cost import OPENAI_CACHE, RHO_SWEEP
from foldline.evaluation.figures import USUAL, Figures
from foldline.evaluation.judge import ENOUGH, Judgement
from foldline.evaluation.oracle import ORACLE, of_possible
from foldline.evaluation.recall import ATOMS_VERSION, LEAST_SESSIONS, Difference, difference
from foldline.evaluation.record import Share
from foldline.evaluation.recorded import RECORDED
from foldline.evaluation.survival import KINDS
from foldline.version import __version__

from .output import Cell, Column, say, say_heading, say_legend, say_table

REFERENCE = "summary"
"""The strategy that others are held against where several sessions are compared."""
_SHORT = {"constraint": "rules", "identifier": "names", "command": "cmds"}


@dataclass(frozen=True, slots=True)
class Report:
    """All that was measured."""

    setup: Setup
    sessions: int
    rows: tuple[Figures, ...]
    not_compared: tuple[NotCompared, ...]

    def differences(self) -> Iterator[Difference]:
        """Against the reference, at each window with sessions enough."""
        for window in self.setup.windows:
            rows = [row for row in self.rows if row.window == window]
            for name in dict.fromkeys(row.strategy for row in rows if row.strategy not in (REFERENCE, RAW)):
                for figure, value in _COMPARED.items():
                    ours, base = (
                        {row.session: value(row) for row in rows if row.strategy == one}
                        for one in (name, REFERENCE)
                    )
                    if made := difference(name, f"{figure} at {_k(window)}", ours, base):
                        yield made

    @property
    def violations(self) -> list[str]:
        """Of rules that hold for every strategy; not of the run that never compacts."""
        return [
            f"{row.session}, {row.strategy}, {_k(row.window)}: {violation}"
            for row in self.rows
            if row.strategy not in (RAW, RECORDED)
            for violation in row.violations
        ]


_COMPARED: dict[str, Callable[[Figures], float | None]] = {
    "cost": lambda row: row.relative[USUAL],
    "recall": lambda row: row.recall.grounded,
    "long-range recall": lambda row: row.recall.long_range_grounded,
}


def report_json(report: Report) -> dict[str, object]:
    setup = report.setup
    return {
        "version": __version__,
        "tokenizer": setup.meter.name,
        "atoms_version": ATOMS_VERSION,
        "summariser": setup.summarised_by,
        "prices_dated": str(setup.prices_dated),
        "cache": {
            "granularity": OPENAI_CACHE.granularity,
            "minimum": OPENAI_CACHE.minimum,
            "life_seconds": OPENAI_CACHE.life,
        },
        "sessions": report.sessions,
        "rows": [row.as_json() for row in report.rows],
        "not_compared": [asdict(one) for one in report.not_compared],
        "differences": [
            {
                "strategy": one.strategy, "figure": one.figure, "reference": REFERENCE, "mean": one.mean,
                "low": one.low, "high": one.high, "sessions": one.sessions,
            }
            for one in report.differences()
        ],
    }  # fmt: skip


# --- for people -------------------------------------------------------------------------------------


def say_report(report: Report) -> None:
    for (session, window), group in groupby(report.rows, key=lambda row: (row.session, row.window)):
        _say_session(session, window, list(group))
    for one in report.not_compared:
        say(f"{one.session} · {_when(one.window)} · {one.why}: nothing to compare")
    if len(report.setup.windows) > 1:
        _say_recall_at_budget(report)
    _say_differences(report)
    _say_foot(report)


def _say_session(session: str, window: int, rows: Sequence[Figures]) -> None:
    say()
    say_heading(f"{session} · {rows[0].messages} messages · {_when(window)}")
    _say_rows(rows, _SIZES)
    say()
    say("cost against raw, by the price of cached input (cold: none after a prompt, .1)")
    _say_rows(rows, _COSTS)
    say()
    say("what the recorded answers used next, and what of it their request still held")
    best = _best(rows)
    marked: _Table = {
        title: partial(_marked, figure=figure, best=best[figure])
        for title, figure in (("recall", "recall"), ("far", "long-range recall"))
    }
    _say_rows(rows, {**marked, **_HELD})
    say()
    say("of the facts of the compacted part, the share still in the last view")
    kinds = [kind for kind in KINDS if any(kind in row.survival.end.by_kind for row in rows)]
    by_kind: _Table = {_SHORT.get(kind, f"{kind}s"): partial(_survived, kind=kind) for kind in kinds}
    _say_rows(rows, {"all": lambda row: _percent(row.survival.end.facts.value), **by_kind, **_DENSITY})
    _say_possible(rows)
    _say_losses(rows)


def _cost_at(rho: float, row: Figures) -> Cell:
    return _relative(row.relative[rho])


_Table = Mapping[str, Callable[[Figures], str | Cell]]
"""The columns of a table behind the strategy: the title, and what stands there."""
_SIZES: _Table = {
    "compacted": lambda row: str(row.compactions),
    "calls": lambda row: str(row.cost.calls),
    "input": lambda row: _k(row.cost.input),
    "fresh": lambda row: _k(row.cost.uncached),
    "hit": lambda row: _percent(row.cost.hit_rate),
    "peak": lambda row: _k(row.peak),
    "mean": lambda row: _k(row.mean),
    "price": lambda row: _shown(row.dollars, ".2f", "$"),
}
_COSTS: _Table = {
    **{f"{rho:g}": partial(_cost_at, rho) for rho in RHO_SWEEP},
    "cold": lambda row: _relative(row.relative_cold),
    "e*": lambda row: _shown(row.tolerance, "+.0f"),
    "churn": lambda row: _shown(row.churn, ".1f", end="×"),
}
_HELD: _Table = {
    "args": lambda row: _percent(row.recall.writable.value),
    "lost": lambda row: _percent(row.recall.all.share("lost")),
    "refetch": lambda row: _k(row.recall.refetch_tokens),
    "rules": lambda row: _count(row.survival.constraints),
    "always": lambda row: _count(row.survival.constraints_throughout),
    "files": lambda row: _count(row.survival.edited_files),
}
_DENSITY: _Table = {"per 1k": lambda row: f"{row.survival.end.density or 0:.1f}"}


def _say_rows(rows: Iterable[Figures], table: _Table) -> None:
    cells = ([_name(row), *(cell(row) for cell in table.values())] for row in rows)
    say_table([Column("strategy"), *_right(*table)], cells)


def _survived(row: Figures, kind: FactKind) -> str:
    share = row.survival.end.by_kind.get(kind)
    return _percent(share.value if share else None)


def _say_possible(rows: Sequence[Figures]) -> None:
    """What the oracle holds is the most that could be: it knows what comes."""
    ceiling = next((row for row in rows if row.strategy == ORACLE), None)
    if ceiling is None:
        return
    say()
    say("of the possible: as a share of the oracle's, which is impossible, for it knows what comes")
    say_table(
        [Column("strategy"), *_right(*_POSSIBLE)],
        (
            [
                _name(row),
                *(_percent(of_possible(value(row), value(ceiling))) for value in _POSSIBLE.values()),
            ]
            for row in rows
            if row.strategy != RAW
        ),
    )


_POSSIBLE: dict[str, Callable[[Figures], float | None]] = {
    "recall": lambda row: row.recall.grounded,
    "far": lambda row: row.recall.long_range_grounded,
    "args": lambda row: row.recall.writable.value,
}


def _best(rows: Sequence[Figures]) -> dict[str, float | None]:
    compacted = [row for row in rows if row.strategy not in (RAW, ORACLE) and row.feasible]
    return {
        name: max((made for row in compacted if (made := value(row)) is not None), default=None)
        for name, value in _COMPARED.items()
    }


def _say_losses(rows: Iterable[Figures]) -> None:
    """What went against a strategy is said in words, so that no table can hide it."""
    for row in rows:
        if row.strategy == RAW:
            if row.over:
                say(f"raw is infeasible: {row.over} of {row.cost.calls} requests exceed the window.")
            continue
        dear = [f"{rho:g}" for rho in RHO_SWEEP if row.relative[rho] >= 1]
        if dear:
            say(f"{row.strategy} costs more than sending everything, at cached prices of {', '.join(dear)}.")
        if row.over:
            say(f"{row.strategy}: {row.over} requests exceed the window.")
        other = sum(count for rung, count in row.rungs.items() if rung != "strategy")
        if other:
            made = "were made by a later rung of the ladder"
            say(f"{row.strategy}: {other} of {row.compactions} compactions {made}.")
        if row.failures:
            say(f"{row.strategy}: {len(row.failures)} compactions failed, the first: {row.failures[0]}")


def _say_recall_at_budget(report: Report) -> None:
    """Recall is compared at equal windows; the mean over doublings is the area under that curve."""
    windows = sorted(set(report.setup.windows))
    rows_in_windows = sorted((row for row in report.rows if row.window), key=lambda row: row.session)
    for session, group in groupby(rows_in_windows, key=lambda row: row.session):
        by_name: dict[str, dict[int, Figures]] = {}
        for row in group:
            by_name.setdefault(row.strategy, {})[row.window] = row
        if max(map(len, by_name.values())) < 2:
            continue
        say()
        say_heading(f"{session} · recall at budget (far recall behind it)")
        by_name.pop(RAW, None)
        say_table(
            [Column("strategy"), *_right(*map(_k, windows), "area")],
            (
                [name, *(_at_budget(at.get(window)) for window in windows), _percent(_area(at))]
                for name, at in by_name.items()
            ),
        )


def _at_budget(row: Figures | None) -> str:
    if row is None:
        return "–"
    return f"{_percent(row.recall.grounded)} ({_percent(row.recall.long_range_grounded)})"


def _area(at: dict[int, Figures]) -> float | None:
    """Under the curve of recall over the logarithm of the window, as a share of the most it could be."""
    known = {window: row.recall.grounded for window, row in sorted(at.items())}
    points = [(log2(window), recall) for window, recall in known.items() if recall is not None]
    if len(points) < 2:
        return None
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
    return area / (points[-1][0] - points[0][0])


def _say_differences(report: Report) -> None:
    found = list(report.differences())
    if found:
        say()
        say_heading(f"against {REFERENCE}, mean of the differences by session, 95 % interval")
        say_table(
            [Column("strategy"), Column("figure"), *_right("mean", "from", "to", "sessions")],
            (
                [
                    one.strategy, one.figure, Cell(f"{one.mean:+.3f}", "bold" if one.is_clear else None),
                    f"{one.low:+.3f}", f"{one.high:+.3f}", str(one.sessions),
                ]
                for one in found
            ),
        )  # fmt: skip


def _say_foot(report: Report) -> None:
    setup = report.setup
    say()
    if any(row.is_floor for row in report.rows):
        say("* summaries by the offline digest: a floor, not what a model's would have kept.")
    cache, few = OPENAI_CACHE, report.sessions < LEAST_SESSIONS
    facts = [
        f"tokens by {setup.meter.name}",
        f"summaries by {setup.summarised_by}",
        f"atoms v{ATOMS_VERSION}",
        f"foldline {__version__}",
        f"prompt cache: blocks of {cache.granularity} from {cache.minimum:,}, {cache.life:.0f} s",
        f"prices of {setup.prices_dated}",
        f"sessions: {report.sessions}" + (f" (below {LEAST_SESSIONS}: no intervals)" if few else ""),
    ]
    for line in (facts[:4], facts[4:6], facts[6:]):
        say(" · ".join(line))
    say_legend(_LEGEND)


_LEGEND = """\
fresh    input tokens that the prompt cache did not have; hit: the share it had
churn    fresh tokens as a multiple of raw's
recall   of what answers used of earlier text, the share still in their request
far      the same where it was last said more than 20k tokens ago
args     of the arguments of recorded calls, those that could be written from it
lost     said in the request neither, nor behind a stub or a clip that opens it
refetch  tokens to read again, at the least
rules    the user's constraints in the last view; always: in every request
files    files the session changed, and the last view still names
e*       more steps that would cancel the saving (JetBrains measured 4 % more
         under masking, 20 % under summaries)
per 1k   facts kept for each 1,000 tokens of the last view"""


# --- foldline eval --judge ---------------------------------------------------------------------------


def say_judgement(found: Judgement) -> None:
    say()
    say_heading(f"asked {found.answerer} from each view · {found.points} points of {found.sessions} sessions")
    if found.insufficient:
        say(f"insufficient: fewer than {ENOUGH} points tell no strategies apart.")
    if found.judges_itself:
        say("its own answers were judged by itself: set compaction.model for another judge.")
    say_table(
        [Column("arm"), Column("dimension"), *_right("points", "score", "±", "norm"), Column("")],
        (
            [
                row.arm, row.dimension, str(row.n), _shown(row.score, ".2f"), _shown(row.half_width, ".2f"),
                _shown(row.norm, ".2f"), row.remark,
            ]
            for row in found.rows
        ),
    )  # fmt: skip
    for sentence in (*found.notes, found.stopped):
        if sentence:
            say(sentence)


# --- cells ------------------------------------------------------------------------------------------


def _right(*titles: str) -> list[Column]:
    return [Column(title, right=True) for title in titles]


def _name(row: Figures) -> Cell:
    return Cell(row.strategy, None if row.feasible else "alert")


def _marked(row: Figures, figure: str, best: float | None) -> Cell:
    value = _COMPARED[figure](row)
    text = _percent(value) + ("*" if row.is_floor else "")
    return Cell(text, "bold" if value is not None and value == best and row.strategy != RAW else None)


def _relative(value: float) -> Cell:
    return Cell(f"{value:.2f}", "alert" if value > 1 else None)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%" if value < 0.9995 else "100%"


def _count(share: Share) -> str:
    return f"{share.kept}/{share.of}" if share.of else "–"


def _when(window: int) -> str:
    return f"window {_k(window)}" if window else "at its own compactions, to equal size"


def _k(tokens: float) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.2f}M"
    return f"{tokens / 1_000:.1f}k" if tokens >= 1_000 else f"{tokens:.0f}"


def _shown(value: float | None, form: str, start: str = "", end: str = "") -> str:
    return "–" if value is None else f"{start}{value:{form}}{end}"
