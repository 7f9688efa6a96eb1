"""`foldline eval`: recorded sessions replayed under each strategy; what it costs, and what survives."""

import asyncio
import os
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from foldline.agent.settings import Settings, connect_embedder, connect_llm, connect_summariser, known_window
from foldline.evaluation.comparison import (
    RAW,
    Cell,
    NotCompared,
    Setup,
    Subject,
    compare,
    default_arms,
    messages_to_play,
)
from foldline.evaluation.figures import Figures, meter_named, plotted
from foldline.evaluation.judge import (
    ENOUGH,
    Judgement,
    Progress,
    Sitting,
    estimate,
    exam_of,
    judgement,
    points_of,
)
from foldline.evaluation.record import Meter, Run
from foldline.evaluation.replay import recorded_messages, recorded_pins, session_name
from foldline.evaluation.selftest import self_test
from foldline.llm import LLM
from foldline.llm.models import Price, PriceTable, price_of
from foldline.llm.models import price_table as prices_in
from foldline.llm.offline import OFFLINE
from foldline.protocol import AssistantMessage, FoldlineError, UserMessage, system_words

from .agents import settings_here
from .arguments import Handler, UsageError, add_format, add_json, add_model, add_yes, tokens_of
from .eval_report import Report, report_json, say_report
from .loop import run_async
from .output import Bar, Column, confirmed, note, say, say_heading, say_json, say_table
from .sources import check_new, read_source

USUAL_WINDOW = 32_768
"""Tokens, where nobody says: small enough that most sessions fill it several times."""


def eval_command(parser: ArgumentParser) -> Handler:
    parser.add_argument("sources", nargs="+", metavar="FILE|ID", help="recorded sessions of any format")
    add_format(parser)
    parser.add_argument(
        "--strategies", type=_names, metavar="A,B", help="what is compared; all that comes along by default"
    )
    parser.add_argument(
        "--window", dest="windows", type=_windows, metavar="N,M", help="context windows in tokens: 32k,128k"
    )
    add_model(parser)
    parser.add_argument(
        "--tokenizer", choices=("weights", "o200k"), default="weights", help="how tokens are counted"
    )
    parser.add_argument("--prices", metavar="MODEL", help="also in dollars, at this model's prices")
    parser.add_argument("--price-table", metavar="FILE.toml", help="another table of prices than ours")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw it to this new file")
    parser.add_argument(
        "--judge", action="store_true", help="ask the model questions about what was compacted"
    )
    add_yes(parser, "send what costs money without asking")
    add_json(parser)
    return evaluate


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _windows(text: str) -> list[int]:
    return [tokens_of(name) for name in _names(text)]


def evaluate(
    sources: Sequence[str],
    strategies: Sequence[str] | None,
    windows: Sequence[int] | None,
    model: str | None,
    tokenizer: str,
    prices: str | None,
    price_table: str | None,
    plot: str | None,
    judge: bool,
    yes: bool,
    as_json: bool,
    format_name: str | None,
) -> int:
    settings = settings_here(model=model, offline__pace=0)
    table = prices_in(Path(price_table).expanduser()) if price_table else prices_in()
    setup = Setup(
        arms=list(dict.fromkeys([RAW, *(strategies or default_arms())])),
        windows=list(windows or [USUAL_WINDOW]),
        meter=meter_named(tokenizer),
        price=None if prices is None else _price(prices, table),
        prices_dated=table.date,
        sizes=settings.budget_settings,
    )
    target = Path(plot).expanduser() if plot else None
    if target is not None:
        if target.suffix.lower() != ".svg":
            raise UsageError(f"--plot draws SVG: call it {target.with_suffix('.svg').name}.")
        check_new(target)
    if faults := self_test():
        raise FoldlineError(f"The instrument failed its own test, so nothing was measured: {faults[0]}")
    subjects = _subjects(sources, format_name)
    found = run_async(_measure(subjects, setup, settings, judge=judge, yes=yes))
    report, answers = found.report, found.judgement
    if as_json:
        say_json({**report_json(report), "judgement": answers.as_json() if answers else None})
    else:
        say_report(report)
        if answers is not None:
            say_judgement(answers)
    if target is not None:
        _draw(target, found.runs, report.rows)
    if report.violations:
        raise FoldlineError(
            f"A rule that holds for every strategy was broken {len(report.violations)} times, first: "
            f"{report.violations[0]}"
        )
    return 0


def _price(model: str, table: PriceTable) -> Price:
    found = price_of(model, table)
    if found is None:
        known = ", ".join(table.by_model)
        raise UsageError(f"There is no price for {model}; there is one for {known}.")
    return found


def _subjects(sources: Sequence[str], format_name: str | None) -> list[Subject]:
    """The sessions, each once. Where two would be called the same, they are called as they were asked for."""
    by_source = {source: _subject(source, format_name) for source in dict.fromkeys(sources)}
    named = Counter(subject.name for subject in by_source.values())
    return [
        replace(subject, name=source) if named[subject.name] > 1 else subject
        for source, subject in by_source.items()
    ]


def _subject(source: str, format_name: str | None) -> Subject:
    found = read_source(source, format_name)
    history = recorded_messages(found.entries)
    if not any(isinstance(message, UserMessage) for message in history):
        raise FoldlineError(f"{source} holds no request of a user: there is nothing to replay.")
    if not any(isinstance(message, AssistantMessage) for message in history):
        raise FoldlineError(f"{source} holds no answer of a model: there is nothing to replay.")
    pins = recorded_pins(found.entries)
    return Subject(session_name(Path(found.name)), history, Path(found.header.cwd), pins)


@dataclass(frozen=True, slots=True)
class _Found:
    report: Report
    runs: Sequence[Run]
    """Of the first session, to be drawn; of all, where they are judged."""
    judgement: Judgement | None = None


async def _measure(
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
        return replace(found, judgement=await judged(compacted, setup.meter, llm, other, yes=yes))
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
                match cell:
                    case NotCompared():
                        not_compared.append(cell)
                    case Cell():
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


def _draw(target: Path, runs: Sequence[Run], rows: Sequence[Figures]) -> None:
    if not runs:
        note(f"no window was ever full: there is nothing to draw, and {target} was not written.")
        return
    try:
        target.write_text(plotted(runs, rows, title="foldline eval"), encoding="utf-8")
    except OSError as error:
        raise FoldlineError(f"{target} cannot be written: {system_words(error)}.") from None
    note(f"drawn to {target}.")


# --- foldline eval --judge ----------------------------------------------------------------------------


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
    if not confirmed(question, yes=yes, how="--yes"):
        return None
    with Bar(bill.requests + bill.judge_requests) as bar:
        done = {"asking": 0, "judging": 0}

        def tell(progress: Progress) -> None:
            bar.step(progress.phase, progress.done - done[progress.phase])
            done[progress.phase] = progress.done

        sitting = Sitting(paper, answerer=answerer, judge=judge, progress=tell)
        await sitting.run()
    return judgement(sitting.record)


def say_judgement(found: Judgement) -> None:
    say()
    say_heading(f"asked {found.answerer} from each view · {found.points} points of {found.sessions} sessions")
    if found.insufficient:
        say(f"insufficient: fewer than {ENOUGH} points tell no strategies apart.")
    if found.judges_itself:
        say("its own answers were judged by itself: set compaction.model for another judge.")
    say_table(
        [Column("arm"), Column("dimension"), *(Column(name, right=True) for name in _COLUMNS), Column("")],
        (
            [
                row.arm, row.dimension, str(row.n), _figure(row.score), _figure(row.half_width),
                _figure(row.norm), row.remark,
            ]
            for row in found.rows
        ),
    )  # fmt: skip
    noise = found.noise.agreement
    if noise is not None:
        say(f"next action, asked twice from the whole history: {noise:.0%} the same.")
    for check in found.hand_check:
        say()
        say(f"to grade by hand · {check.question}")
        say(f"  answer: {check.answer}")
        say(f"  record: {check.record}")
    for sentence in (*found.notes, found.stopped):
        if sentence:
            say(sentence)


_COLUMNS = ("points", "score", "±", "norm")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
