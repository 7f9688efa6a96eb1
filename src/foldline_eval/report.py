"""Prints the report of `foldline eval`: for each window, the figures of each strategy over all sessions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

from foldline.cli.output import (
    Cell,
    Column,
    Json,
    say,
    say_heading,
    say_legend,
    say_table,
)
from foldline.sequences import grouped
from foldline.text.numbers import many, short_tokens
from foldline.version import __version__

from .arms import RAW
from .corpus import MeasuredSession
from .cost import OPENAI_CACHE, RHO_SWEEP
from .figures import USUAL, RunFigures
from .recall import ATOMS_VERSION
from .record import Ratio

COSTS_TITLE = "Cost relative to raw, by the price of cached input (cold: no cache after a prompt, at .1)"
KEPT_TITLE = "Share of what later answers used, and of compacted facts, that requests still contained"
REQUESTS_OVER = "{strategy}: {over} requests exceed the window."
LATER_RUNGS = "{strategy}: {later} of {compactions} compactions needed a later rung of the failure ladder."
COMPACTIONS_FAILED = "{strategy}: {count} compactions failed. The first error: {error}"
FLOOR_NOTE = "* Summaries are offline digests, so recall is a lower bound for a model's summaries."
NOT_COMPARED = "{session} · window {window} · not compared: {why}"
NOT_MEASURED = "{source} was not measured: {error}"
_LEGEND = """\
fresh    input tokens that were not in the prompt cache
recall   share of the used earlier items that the request still holds
far      the same, for items last shown more than 20k tokens before
args     share of the recorded calls' arguments that the request is enough to write
lost     neither in the request nor behind a placeholder or clip that opens it
facts    share of compacted facts in the last view
rules    the user's constraints in the last view; always: in every request
files    changed files that the last view still names"""

Rows = Sequence[RunFigures]
"""The runs of one strategy at one window, one for each session."""


def violations_in(sessions: Iterable[MeasuredSession]) -> list[str]:
    """Return the rule violations by strategies.

    Violations by `raw` are left out, because it exceeds the window on purpose.
    """
    return [
        f"{row.session}, {row.strategy}, {short_tokens(row.window)}: {violation}"
        for session in sessions
        for row in session.figures.rows
        if row.strategy != RAW
        for violation in row.violations
    ]


def report_json(sessions: Sequence[MeasuredSession]) -> Json:
    """Return the report as a single JSON object."""
    return {
        "version": __version__,
        "tokenizer": "script weights",
        "atoms_version": ATOMS_VERSION,
        "cache": {
            "granularity": OPENAI_CACHE.granularity,
            "minimum": OPENAI_CACHE.minimum,
            "life_seconds": OPENAI_CACHE.life,
        },
        "sessions": len(sessions),
        "rows": [row.as_json() for session in sessions for row in session.figures.rows],
        "not_compared": [
            asdict(skipped)
            for session in sessions
            for skipped in session.figures.not_compared
        ],
        "errors": {
            session.source: session.error for session in sessions if session.error
        },
    }


def say_report(sessions: Sequence[MeasuredSession]) -> None:
    """Print the tables of each window."""
    rows = [row for session in sessions for row in session.figures.rows]
    for window, at_window in grouped((row.window, row) for row in rows).items():
        count = len({row.session for row in at_window})
        say_heading(f"window {short_tokens(window)} · {many(count, 'session')}")
        by_strategy = grouped((row.strategy, row) for row in at_window)
        _say_table(_SIZES, by_strategy)
        for title, table in ((COSTS_TITLE, _COSTS), (KEPT_TITLE, _KEPT)):
            say()
            say(title)
            _say_table(table, by_strategy)
        for name, of_strategy in by_strategy.items():
            _say_problems(name, of_strategy)
        say()
    for session in sessions:
        for skipped in session.figures.not_compared:
            window_size = short_tokens(skipped.window)
            say(
                NOT_COMPARED.format(
                    session=skipped.session, window=window_size, why=skipped.why
                )
            )
    if any(row.is_floor for row in rows):
        say(FLOOR_NOTE)
    cache = OPENAI_CACHE
    say(
        f"atoms v{ATOMS_VERSION} · foldline {__version__} · prompt cache: "
        f"blocks of {cache.granularity} from {cache.minimum:,}, {cache.life:.0f} s"
    )
    say_legend(_LEGEND)


def _say_problems(name: str, rows: Rows) -> None:
    """Print sentences about requests that are too long, and about failed compactions."""
    over = sum(row.over for row in rows)
    if over:
        say(REQUESTS_OVER.format(strategy=name, over=over))
    compactions = sum(row.compactions for row in rows)
    later = compactions - sum(row.rungs["strategy"] for row in rows)
    if later:
        say(LATER_RUNGS.format(strategy=name, later=later, compactions=compactions))
    failures = [failure for row in rows for failure in row.failures]
    if failures:
        say(
            COMPACTIONS_FAILED.format(
                strategy=name, count=len(failures), error=failures[0]
            )
        )


# --- tables -----------------------------------------------------------------------------------------

_Table = Mapping[str, Callable[[Rows], str]]
"""The columns after the strategy, each with a title and a function that returns a cell's text."""
_SIZES: _Table = {
    "compacted": lambda rows: str(sum(row.compactions for row in rows)),
    "calls": lambda rows: str(sum(row.cost.calls for row in rows)),
    "input": lambda rows: short_tokens(sum(row.cost.input for row in rows)),
    "fresh": lambda rows: short_tokens(sum(row.cost.uncached for row in rows)),
    "peak": lambda rows: short_tokens(max(row.peak for row in rows)),
    "mean": lambda rows: short_tokens(round(fmean(row.mean for row in rows))),
}
_COSTS: _Table = {
    "1": lambda rows: _mean_cost(rows, 1.0),
    "0.5": lambda rows: _mean_cost(rows, 0.5),
    "0.1": lambda rows: _mean_cost(rows, USUAL),
    "0.02": lambda rows: _mean_cost(rows, RHO_SWEEP[-1]),
    "cold": lambda rows: f"{fmean(row.relative_cold for row in rows):.2f}",
}
_KEPT: _Table = {
    "recall": lambda rows: _recall(rows),
    "far": lambda rows: _share(row.recall.long_range.ratio("retained") for row in rows),
    "args": lambda rows: _share(row.recall.writable for row in rows),
    "lost": lambda rows: _share(row.recall.all.ratio("lost") for row in rows),
    "facts": lambda rows: _share(row.survival.end.facts for row in rows),
    "rules": lambda rows: _count(row.survival.constraints for row in rows),
    "always": lambda rows: _count(row.survival.constraints_throughout for row in rows),
    "files": lambda rows: _count(row.survival.edited_files for row in rows),
}


def _say_table(table: _Table, by_strategy: Mapping[str, Rows]) -> None:
    titles = (Column(title, right=True) for title in table)
    lines: list[list[Cell | str]] = []
    for name, rows in by_strategy.items():
        is_feasible = all(row.feasible for row in rows)
        texts = [text_of(rows) for text_of in table.values()]
        lines.append([Cell(name, None if is_feasible else "alert"), *texts])
    say_table([Column("strategy"), *titles], lines)


def _recall(rows: Rows) -> str:
    """Return the share of needed items, with a mark if it is a lower bound."""
    mark = "*" if any(row.is_floor for row in rows) else ""
    return _share(row.recall.all.ratio("retained") for row in rows) + mark


def _mean_cost(rows: Rows, rho: float) -> str:
    return f"{fmean(row.relative[rho] for row in rows):.2f}"


def _share(ratios: Iterable[Ratio]) -> str:
    value = Ratio.total(ratios).value
    return "–" if value is None else f"{100 * value:.1f}%"


def _count(ratios: Iterable[Ratio]) -> str:
    total = Ratio.total(ratios)
    return f"{total.kept}/{total.of}" if total.of else "–"
