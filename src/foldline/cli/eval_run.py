"""The comparison and the questions of `foldline eval`, with progress and prices agreed to."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from foldline.agent.settings import Settings, connect_embedder, connect_llm, connect_summariser, known_window
from foldline.evaluation.comparison import (
    RAW,
    NotCompared,
    Setup,
    Subject,
    compare,
    messages_to_play,
)
from foldline.evaluation.figures import Figures, plotted
from foldline.evaluation.judge import (
    Judgement,
    Sitting,
    estimate,
    exam_of,
    points_of,
)
from foldline.evaluation.record import Meter, Run
from foldline.evaluation.recorded import recording
from foldline.evaluation.replay import recorded_messages, recorded_pins, session_name
from foldline.formats.codex_items import ABSENT, SEALED
from foldline.llm import LLM
from foldline.llm.models import Price, PriceTable, price_of
from foldline.llm.offline import OFFLINE
from foldline.protocol import AssistantMessage, Compaction, FoldlineError, UserMessage, system_words

from .arguments import UsageError
from .eval_report import Report
from .output import Bar, confirmed, note
from .sources import read_source


def known_price(model: str, table: PriceTable) -> Price:
    found = price_of(model, table)
    if found is None:
        known = ", ".join(table.by_model)
        raise UsageError(f"There is no price for {model}; there is one for {known}.")
    return found


def subjects_of(sources: Sequence[str], format_name: str | None, meter: Meter) -> list[Subject]:
    """The sessions, each once. Where two would be called the same, they are called as they were asked for."""
    by_source = {source: _subject(source, format_name, meter) for source in dict.fromkeys(sources)}
    named = Counter(subject.name for subject in by_source.values())
    return [
        replace(subject, name=source) if named[subject.name] > 1 else subject
        for source, subject in by_source.items()
    ]


def _subject(source: str, format_name: str | None, meter: Meter) -> Subject:
    found = read_source(source, format_name)
    history = recorded_messages(found.entries)
    if not any(isinstance(message, UserMessage) for message in history):
        raise FoldlineError(f"{source} holds no request of a user: there is nothing to replay.")
    if not any(isinstance(message, AssistantMessage) for message in history):
        raise FoldlineError(f"{source} holds no answer of a model: there is nothing to replay.")
    name = session_name(Path(found.name))
    whole = all(
        entry.summary not in (SEALED, ABSENT) for entry in found.entries if isinstance(entry, Compaction)
    )
    own = recording(found.entries, session=name, meter=meter) if whole else None
    return Subject(name, history, Path(found.header.cwd), recorded_pins(found.entries), own)


class _Found(NamedTuple):
    report: Report
    runs: Sequence[Run]  # of the first session, to be drawn; of all, where they are judged
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
        found = await _compared(subjects, setup, keep_all=judge)
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


async def _compared(subjects: Sequence[Subject], setup: Setup, *, keep_all: bool = False) -> _Found:
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
                if keep_all or not runs or runs[0].session == cell.run.session:
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


def draw(target: Path, runs: Sequence[Run], rows: Sequence[Figures]) -> None:
    if not runs:
        note(f"no window was ever full: there is nothing to draw, and {target} was not written.")
        return
    try:
        target.write_text(plotted(runs, rows, title="foldline eval"), encoding="utf-8")
    except OSError as error:
        raise FoldlineError(f"{target} cannot be written: {system_words(error)}.") from None
    note(f"drawn to {target}.")


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
