"""The report of `foldline eval` over many sessions: one table a window, all sessions together."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any, NamedTuple

from foldline.evaluation.comparison import RAW
from foldline.evaluation.oracle import ORACLE, of_possible
from foldline.evaluation.recall import LEAST_SESSIONS, difference
from foldline.evaluation.record import Share

from .eval_corpus import Line
from .eval_report import REFERENCE
from .output import Column, say, say_heading, say_table

_FOOT = f"""\
left      mean tokens after a compaction
cost      relative to raw, cached input at .1, mean over sessions
recall    with far and args in %, of all needs and arguments of all sessions
possible  far as a share of the oracle's, which is impossible: it knows what comes
against   recall less {REFERENCE}'s, in points, mean by session, with a 95 % interval,
          from {LEAST_SESSIONS} sessions on"""
_TITLES = ("sessions", "compacted", "left", "cost", "recall", "far", "args", "possible")


class _Row(NamedTuple):
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
    def of(cls, source: str, row: Mapping[str, Any]) -> "_Row":
        far, arguments = row["long_range_needs"], row["writable_arguments"]
        return cls(
            source, row["strategy"], row["window"], row["compactions"], row["mean_view_after_compaction"],
            row["cost_relative_to_raw"]["0.1"], Share(row["states"]["retained"], row["needs"]),
            Share(round((row["long_range_recall"] or 0) * far), far), Share(**arguments),
        )  # fmt: skip


class _Pool:
    """All sessions of one strategy at one window."""

    def __init__(self, arm: str, rows: Sequence[_Row]) -> None:
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
            _percent(self.recall), _percent(self.far), _percent(_pooled(row.arguments for row in self.rows)),
            _percent(of_possible(self.far, ceiling)),
            f"{100 * made.mean:+.1f} [{100 * made.low:+.1f}, {100 * made.high:+.1f}]" if made else "–",
        ]  # fmt: skip


def say_pooled(lines: Iterable[Line]) -> None:
    """Best recall first: who loses stands last, and who costs no less than a better one is named."""
    rows: list[_Row] = []
    unmeasured: dict[str, str] = {}
    sessions = 0
    for line in lines:
        sessions += 1
        rows += [_Row.of(line["source"], row) for row in line["rows"] if row["strategy"] != RAW]
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
        [Column("strategy"), *(Column(title, right=True) for title in _TITLES), Column("against")],
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


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
