"""The report of `foldline eval`: tables a session and a window each; of many sessions, pooled."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, pairwise
from math import log2
from statistics import fmean
from typing import Any, NamedTuple

from foldline.context.audit import FactKind
from foldline.evaluation.arms import ORACLE, RAW, RECORDED, of_possible
from foldline.evaluation.comparison import NotCompared, Setup
from foldline.evaluation.cost import OPENAI_CACHE, RHO_SWEEP
from foldline.evaluation.figures import USUAL, Figures
from foldline.evaluation.judge.exam import ENOUGH
from foldline.evaluation.judge.sitting import Judgement
from foldline.evaluation.recall import ATOMS_VERSION, LEAST_SESSIONS, Difference, difference
from foldline.evaluation.record import Share
from foldline.evaluation.survival import KINDS
from foldline.version import __version__

from .eval_corpus import Line
from .output import Cell, Column, Json, say, say_heading, say_legend, say_table

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


def report_json(report: Report) -> Json:
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
        "differences": [{**asdict(one), "reference": REFERENCE} for one in report.differences()],
    }


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
    most = _recalls(ceiling)
    say_table(
        [Column("strategy"), *_right("recall", "far", "args")],
        (
            [_name(row), *(_percent(of_possible(*pair)) for pair in zip(_recalls(row), most, strict=True))]
            for row in rows
            if row.strategy != RAW
        ),
    )


def _recalls(row: Figures) -> tuple[float | None, ...]:
    recall = row.recall
    return recall.grounded, recall.long_range_grounded, recall.writable.value


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


# --- many sessions -----------------------------------------------------------------------------------

_FOOT = f"""\
left      mean tokens after a compaction
cost      relative to raw, cached input at .1, mean over sessions
recall    with far and args in %, of all needs and arguments of all sessions
possible  far as a share of the oracle's, which is impossible: it knows what comes
against   recall less {REFERENCE}'s, in points, mean by session, with a 95 % interval,
          from {LEAST_SESSIONS} sessions on"""
_TITLES = ("sessions", "compacted", "left", "cost", "recall", "far", "args", "possible")


class _PooledRow(NamedTuple):
    """What is pooled of one session under one strategy: of thousands, nothing else is held in memory."""

    source: str
    arm: str
    window: int
    compacted: int
    left: float | None
    cost: float
    recall: Share
    far: Share
    arguments: Share

    @classmethod
    def of(cls, source: str, row: Mapping[str, Any]) -> "_PooledRow":
        far, arguments = row["long_range_needs"], row["writable_arguments"]
        return cls(
            source, row["strategy"], row["window"], row["compactions"], row["mean_view_after_compaction"],
            row["cost_relative_to_raw"]["0.1"], Share(row["states"]["retained"], row["needs"]),
            Share(round((row["long_range_recall"] or 0) * far), far), Share(**arguments),
        )  # fmt: skip


class _Pool:
    """All sessions of one strategy at one window."""

    def __init__(self, arm: str, rows: Sequence[_PooledRow]) -> None:
        self.arm, self.rows = arm, rows
        self.cost = fmean(row.cost for row in rows)
        self.recall = _pooled(row.recall for row in rows)
        self.far = _pooled(row.far for row in rows)
        self.by_source = {row.source: row.recall.value for row in rows}

    def cells(self, ceiling: float | None, reference: Mapping[str, float | None]) -> list[str]:
        left = fmean([row.left for row in self.rows if row.left] or [0])
        made = difference(self.arm, "recall", self.by_source, reference) if self.arm != REFERENCE else None
        return [
            self.arm + (" (impossible)" if self.arm == ORACLE else ""), str(len(self.rows)),
            str(sum(row.compacted for row in self.rows)), f"{left:,.0f}", f"{self.cost:.3f}",
            _points(self.recall), _points(self.far), _points(_pooled(row.arguments for row in self.rows)),
            _points(of_possible(self.far, ceiling)),
            f"{100 * made.mean:+.1f} [{100 * made.low:+.1f}, {100 * made.high:+.1f}]" if made else "–",
        ]  # fmt: skip


def say_pooled(lines: Iterable[Line]) -> None:
    """Best recall first: who loses stands last, and who costs no less than a better one is named."""
    rows: list[_PooledRow] = []
    unmeasured: dict[str, str] = {}
    sessions = 0
    for line in lines:
        sessions += 1
        rows += [_PooledRow.of(line["source"], row) for row in line["rows"] if row["strategy"] != RAW]
        if line["error"]:
            unmeasured[line["source"]] = line["error"]
    rows.sort(key=lambda row: (-row.window, row.arm, row.source))
    for window, group in groupby(rows, lambda row: row.window):
        say_heading(f"window of {window:,} tokens" if window else "at its own compactions, to equal size")
        _say_window([_Pool(arm, list(of_arm)) for arm, of_arm in groupby(group, lambda row: row.arm)])
        say()
    for source, why in sorted(unmeasured.items()):
        say(f"{source}: not measured: {why}")
    full = len({row.source for row in rows})
    say(f"{full} of {sessions} sessions filled a window or compacted; --results says why others did not.")
    say(_FOOT)


def _say_window(pools: list[_Pool]) -> None:
    pools.sort(key=lambda pool: -(pool.recall or 0))
    named = {pool.arm: pool for pool in pools}
    ceiling = named[ORACLE].far if ORACLE in named else None
    reference = named[REFERENCE].by_source if REFERENCE in named else {}
    say_table(
        [Column("strategy"), *_right(*_TITLES), Column("against")],
        (pool.cells(ceiling, reference) for pool in pools),
    )
    for at, pool in enumerate(pools):
        better = [
            other.arm
            for other in pools[:at]
            if ORACLE not in (other.arm, pool.arm)
            and other.by_source.keys() == pool.by_source.keys()
            and other.cost <= pool.cost
        ]
        if better:
            say(f"{pool.arm} recalls less and costs no less than {', '.join(better)}.")


def _pooled(shares: Iterable[Share]) -> float | None:
    known = list(shares)
    return Share(sum(share.kept for share in known), sum(share.of for share in known)).value


def _points(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


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
