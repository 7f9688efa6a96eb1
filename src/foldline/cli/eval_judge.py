"""`foldline eval --judge`: the model is asked about what was folded, from each strategy's view."""

import asyncio
from collections.abc import Sequence

from foldline.evaluation.judge import (
    ENOUGH,
    Judgement,
    Progress,
    Sitting,
    estimate,
    exam_of,
    judgement,
    points_of,
    self_test,
)
from foldline.evaluation.record import Meter, Run
from foldline.llm import LLM
from foldline.llm.models import price_of
from foldline.protocol import FoldlineError

from .asking import confirmed
from .output import Bar, Column, say, say_heading, say_table


async def judged(
    runs: Sequence[Run], meter: Meter, answerer: LLM, judge: LLM | None, *, yes: bool
) -> Judgement | None:
    """What the model knew from each view; None where nothing was folded, or the price was declined.

    Raises:
        FoldlineError: the instrument is wrong, or nobody is there to agree to the price.
    """
    if faults := self_test():
        raise FoldlineError(f"The probes failed their own test, so nothing was asked: {faults[0]}")
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
