"""`foldline eval`: recorded sessions replayed under each strategy; what it costs, and what survives."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple

from foldline.agent.settings import Settings, connect_embedder, connect_llm, connect_summariser, known_window
from foldline.evaluation.arms import RAW, default_arms
from foldline.evaluation.comparison import NotCompared, Setup, Subject, compare, messages_to_play
from foldline.evaluation.figures import Figures, meter_named
from foldline.evaluation.judge.exam import estimate, exam_of, points_of
from foldline.evaluation.judge.sitting import Judgement, Sitting
from foldline.evaluation.record import Meter, Run
from foldline.evaluation.selftest import self_test
from foldline.llm import LLM
from foldline.llm.base import OFFLINE
from foldline.llm.models import Price, price_of, price_table
from foldline.protocol import FoldlineError
from foldline.termination import run_async

from .arguments import UsageError
from .eval_corpus import measure_all, sessions_in, subjects_of, tasks_of
from .eval_report import Report, report_json, say_judgement, say_pooled, say_report
from .output import Bar, confirmed, note, say_json
from .settings import settings_here

USUAL_WINDOW = 32_768
"""Tokens, where nobody says: small enough that most sessions fill it several times."""


def evaluate(
    sources: Sequence[str],
    strategies: Sequence[str] | None,
    windows: Sequence[int] | None,
    model: str | None,
    tokenizer: str,
    prices: str | None,
    judge: bool,
    jobs: int | None,
    results: str | None,
    yes: bool,
    as_json: bool,
    format_name: str | None,
) -> int:
    settings = settings_here(model=model, offline__pace=0)
    setup = Setup(
        arms=list(dict.fromkeys([RAW, *(strategies or default_arms())])),
        windows=list(windows or [USUAL_WINDOW]),
        meter=meter_named(tokenizer),
        price=None if prices is None else known_price(prices),
        prices_dated=price_table().date,
        sizes=settings.budget_settings,
    )
    files = sessions_in(sources)
    is_corpus = bool(jobs or results) or files != list(dict.fromkeys(sources))
    if is_corpus and (judge or prices or model not in (None, "offline")):
        raise UsageError("Many sessions are measured without a model, --judge and --prices.")
    if faults := self_test():
        raise FoldlineError(f"The instrument failed its own test, so nothing was measured: {faults[0]}")
    if is_corpus:
        lines = measure_all(tasks_of(files, setup, tokenizer, settings, format_name), jobs or 1, results)
        if as_json:
            say_json({"sessions": sorted(lines, key=lambda line: line["source"])})
        else:
            say_pooled(lines)
        return 0
    subjects = subjects_of(sources, format_name, setup.meter)
    found = run_async(measure(subjects, setup, settings, judge=judge, yes=yes))
    report, answers = found.report, found.judgement
    if as_json:
        say_json({**report_json(report), "judgement": answers.as_json() if answers else None})
    else:
        say_report(report)
        if answers is not None:
            say_judgement(answers)
    if report.violations:
        raise FoldlineError(
            f"A rule that holds for every strategy was broken {len(report.violations)} times, first: "
            f"{report.violations[0]}"
        )
    return 0


def known_price(model: str) -> Price:
    found = price_of(model)
    if found is None:
        known = ", ".join(price_table().by_model)
        raise UsageError(f"There is no price for {model}; there is one for {known}.")
    return found


class _Found(NamedTuple):
    report: Report
    runs: Sequence[Run]  # where they are judged
    judgement: Judgement | None = None


async def measure(
    subjects: Sequence[Subject], setup: Setup, settings: Settings, *, judge: bool, yes: bool
) -> _Found:
    """What was asked for. A model is asked only where one is configured, and its price agreed to."""
    llm = connect_llm(settings, os.environ)
    writer = connect_summariser(settings, os.environ) or llm
    try:
        if judge and llm.info.id == OFFLINE:
            raise FoldlineError("--judge asks a model, and none is configured: name one with -m MODEL.")
        if writer.info.id != OFFLINE:
            await known_window(writer)
            await _confirm_price(subjects, setup, writer, yes=yes)
            setup = replace(
                setup,
                summariser=lambda _window: writer,
                summarised_by=writer.info.id,
                embedder=connect_embedder(settings, os.environ),
            )
        found = await _compared(subjects, setup, keep_runs=judge)
        if not judge:
            return found
        await known_window(llm)
        other = writer if writer is not llm else None
        compacted = [run for run in found.runs if run.strategy != RAW]
        return found._replace(judgement=await judged(compacted, setup.meter, llm, other, yes=yes))
    finally:
        await llm.aclose()
        if writer is not llm:
            await writer.aclose()


async def _compared(subjects: Sequence[Subject], setup: Setup, *, keep_runs: bool = False) -> _Found:
    rows: list[Figures] = []
    not_compared: list[NotCompared] = []
    runs: list[Run] = []
    with Bar(messages_to_play(subjects, setup)) as bar:
        async with aclosing(compare(subjects, setup, bar.step)) as cells:
            async for cell in cells:
                if isinstance(cell, NotCompared):
                    not_compared.append(cell)
                    continue
                rows.append(cell.figures)
                if keep_runs:
                    runs.append(cell.run)
    return _Found(Report(setup, len(subjects), tuple(rows), tuple(not_compared)), runs)


async def _confirm_price(subjects: Sequence[Subject], setup: Setup, llm: LLM, *, yes: bool) -> None:
    """Shows what real summaries will take, as the same comparison with digests took, and asks.

    Raises:
        FoldlineError: the answer is no, or nobody is there to give one.
    """
    if yes:
        return
    report = (await _compared(subjects, setup)).report
    calls = sum(row.cost.aux for row in report.rows)
    if not calls:
        return
    tokens = sum(row.summary_input for row in report.rows)
    price = price_of(llm.info.id)
    dollars = f", about ${tokens * price.input / 1e6:.2f} and the answers" if price else ""
    question = (
        f"Real summaries by {llm.info.id} take about {calls} calls and {tokens:,} input tokens{dollars}."
    )
    if not confirmed(f"{question} Send them?", yes=yes, how="--yes"):
        raise FoldlineError("Nothing was sent. With -m offline, digests stand in for summaries.")


# --- foldline eval --judge ---------------------------------------------------------------------------


async def judged(
    runs: Sequence[Run], meter: Meter, answerer: LLM, judge: LLM | None, *, yes: bool
) -> Judgement | None:
    """What the model knew from each view; None where nothing was compacted, or the price was declined.

    Raises:
        FoldlineError: nobody is there to agree to the price.
    """
    points = points_of(runs)
    if not points:
        return None
    paper = await asyncio.to_thread(exam_of, points, window=answerer.info.window, meter=meter)
    bill = estimate(paper)
    price = price_of(answerer.info.id)
    cost = ""
    if price:
        own = price_of(judge.info.id) if judge else price
        least, most = bill.dollars(price, own), bill.dollars(price, own, cache=False)
        cost = f", about ${least:.2f} with a prompt cache and ${most:.2f} without"
    question = (
        f"{len(points)} points, {bill.requests + bill.judge_requests:,} requests to {answerer.info.id}, "
        f"{bill.tokens:,} tokens{cost}. Ask?"
    )
    if yes:
        note(question.removesuffix(" Ask?"))
    if not confirmed(question, yes=yes, how="--yes"):
        return None
    with Bar(bill.requests + bill.judge_requests, unwatched=note) as bar:
        sitting = Sitting(paper, answerer=answerer, judge=judge, progress=bar.step)
        await sitting.run()
    return Judgement(sitting.record)
