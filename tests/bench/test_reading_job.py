"""The cost of compactions in a job that reads ten times its window, from the server's log.

Every token read has to be sent uncached once, so the ratio is at least 1. The rest is the cost of compacting:
summaries, and messages sent again after a compaction.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.tables import table
from foldline.compaction import DEFAULT
from support.job import Job, Report

MOST_UNCACHED, MOST_SENT_AGAIN = 1.25, 2.0
"""Allowed uncached input per token of the files, summaries included. The second value is for strategies that
keep and resend more: everything after the first hidden result, or after the start of a draft.
"""

JOBS = [
    Job(window=32_768, prompts=6, reads=4, together=False),
    Job(window=32_768, prompts=6, reads=4, together=True),
    Job(window=131_072, prompts=10, reads=6, together=False),
    Job(window=131_072, prompts=10, reads=6, together=True),
    Job(window=131_072, prompts=10, reads=6, together=False, strategy=DEFAULT),
    Job(window=32_768, prompts=6, reads=4, together=False, ahead=True),
    Job(window=16_384, prompts=3, reads=2, together=False, strategy=DEFAULT),
]
SMALL = Job(
    window=32_768, prompts=6, reads=4, together=False, strategy=DEFAULT, plain=True
)
LARGE = Job(
    window=131_072, prompts=10, reads=6, together=False, strategy=DEFAULT, plain=True
)
MOST_AHEAD = 1.02
"""Allowed cost relative to the same job without drafts."""


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_job_many_times_the_window_is_read_whole_at_little_more_than_its_own_price(
    benchmark: Callable[..., object], report_of: Callable[[Job], Report], job: Job
) -> None:
    report: Report = benchmark.pedantic(report_of, args=(job,), rounds=1)  # type: ignore[attr-defined]
    _note(report)
    assert report.refused == []
    assert [seen.violations for seen in report.requests if seen.violations] == []
    assert report.coverage.missing() == []
    assert not any("give up" in answer for answer in report.answers)
    assert len(report.session.projection.all_compactions) >= job.prompts // 2
    assert {
        compaction.rung for compaction in report.session.projection.all_compactions
    } == {"strategy"}
    assert report.rule_survives, (
        "the rule of the first prompt is not in the last request"
    )
    most = (
        MOST_UNCACHED
        if job.strategy == "summary" and not job.ahead
        else MOST_SENT_AGAIN
    )
    assert report.ratio <= most, (
        f"{report.ratio:.3f} for each token read: {report.bill}"
    )


@pytest.mark.parametrize(
    ("job", "most"), [(SMALL, 225_000), (LARGE, 760_000)], ids=["small", "large"]
)
def test_the_default_costs_no_more_than_asked_and_drafts_ahead_cost_nothing_to_speak_of(
    benchmark: Callable[..., object],
    report_of: Callable[[Job], Report],
    job: Job,
    most: int,
) -> None:
    report: Report = benchmark.pedantic(report_of, args=(job,), rounds=1)  # type: ignore[attr-defined]
    ahead = report_of(replace(job, ahead=True))
    for job_report in (report, ahead):
        _note(job_report)
        assert (
            job_report.refused,
            job_report.coverage.missing(),
            job_report.rule_survives,
        ) == ([], [], True)
    assert report.cost(0.1) <= most
    assert ahead.cost(0.1) <= MOST_AHEAD * report.cost(0.1)


@pytest.mark.parametrize("job", [SMALL, LARGE], ids=["small", "large"])
def test_summaries_drafted_ahead_cost_nothing_to_speak_of(
    benchmark: Callable[..., object], report_of: Callable[[Job], Report], job: Job
) -> None:
    job = replace(job, strategy="summary")
    report: Report = benchmark.pedantic(report_of, args=(job,), rounds=1)  # type: ignore[attr-defined]
    ahead = report_of(replace(job, ahead=True))
    for job_report in (report, ahead):
        _note(job_report)
    assert ahead.coverage.missing() == []
    assert all(
        ahead.cost(cached) <= MOST_AHEAD * report.cost(cached) for cached in (0.1, 0.25)
    )


def _note(report: Report) -> None:
    output = table(
        "The reading job (tokens by the server's own counter and log)",
        *(
            "job",
            "requests",
            "compactions",
            "input",
            "uncached",
            "cost at .1",
            "at .25",
            "read",
            "ratio",
            "seen",
        ),
        *("overflows", "rule"),
    )
    overflows = report.refused.count("too long")
    output.row(
        report.job.name,
        len(report.requests),
        len(report.session.projection.all_compactions),
        f"{report.input:,}",
        f"{report.uncached:,}",
        *(f"{report.cost(cached):,.0f}" for cached in (0.1, 0.25)),
        f"{report.tokens_read:,}",
        f"{report.ratio:.3f}",
        f"{report.coverage.share:.2%}",
        overflows,
        "kept" if report.rule_survives else "LOST",
    )
    output.note("ratio: uncached input for each token read, summaries included")
    bill = report.bill
    paid = table(
        "Who pays for the uncached input of the reading job",
        *("job", "results", "system and tools", "talk", "sent again", "summaries"),
    )
    paid.row(
        report.job.name,
        *(
            f"{part / report.tokens_read:.3f}"
            for part in (bill.results, bill.heads, bill.talk)
        ),
        *(f"{part / report.tokens_read:.3f}" for part in (bill.again, bill.summaries)),
    )
    paid.note("for each token read; `sent again`: the kept tail after a compaction")
