"""Cached prefixes of every pair of requests of the reading jobs, from the server's log."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from bench.tables import Table, table
from bench.test_reading_job import JOBS
from support.job import Job, Report, broken_prefixes, extends, uncached
from support.job_reader import is_summary_request
from support.server_process import Seen

LARGE = 20_000
"""View size in tokens above which a lost cache matters."""
LEAST_CACHED = 0.95
"""Smallest cached share of a view in its summary request."""


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_request_loses_its_prefix_only_right_after_a_change_of_the_view(
    benchmark: Callable[..., object], report_of: Callable[[Job], Report], job: Job
) -> None:
    report = report_of(job)
    lost: list[str] = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: list(broken_prefixes(report.ordinary, report.session)), rounds=1
    )
    pairs = list(pairwise(report.ordinary))
    changes = sum(not extends(*pair) for pair in pairs)
    _table().row(job.name, "steps", len(pairs), changes, len(lost), "")
    assert lost == []
    assert changes <= len(report.session.projection.all_compactions)
    assert len(pairs) - changes >= job.prompts, (
        "hardly a request went on from the one before"
    )


@pytest.mark.parametrize(
    "job", [job for job in JOBS if job.strategy == "summary"], ids=lambda job: job.name
)
def test_a_summary_of_a_large_view_is_asked_for_with_the_prefix_the_cache_holds(
    benchmark: Callable[..., object], report_of: Callable[[Job], Report], job: Job
) -> None:
    report = report_of(job)
    pairs: list[tuple[Seen, Seen]] = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: list(_large_summaries(report)), rounds=1
    )
    shares = [1 - uncached(summary) / view.prompt_tokens for view, summary in pairs]
    lost = [round(share, 3) for share in shares if share < LEAST_CACHED]
    as_text = len(report.summaries) - sum(
        "tools" in seen.body for seen in report.summaries
    )
    worst = f"{min(shares):.1%}" if shares else "none this large"
    _table().row(
        job.name, f"summaries of ≥ {LARGE // 1000}k", len(shares), "", len(lost), worst
    )
    _table().row(job.name, "summaries in text form", as_text, "", "", "")
    assert shares, "no summary was asked for by going on from a large view"
    assert lost == [], "cached shares of large views that a summary was asked for"


def _large_summaries(report: Report) -> Iterator[tuple[Seen, Seen]]:
    """Yield the last request of each large view, with the summary request that extends it."""
    view: Seen | None = None
    for seen in report.requests:
        if not is_summary_request(seen.body):
            view = seen
        elif view is not None and view.prompt_tokens >= LARGE and "tools" in seen.body:
            yield view, seen


def _table() -> Table:
    return table(
        "The prefix cache (every pair of requests of the reading jobs)",
        *("job", "requests", "pairs", "view changes", "prefix lost", "worst cached"),
    )
