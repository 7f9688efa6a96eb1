"""What is typed while a compaction is made arrives once, in order: whatever becomes of the compaction."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from foldline.protocol import events, operations
from foldline.protocol.events import Event
from foldline.view.budget import BudgetSettings
from foldline.view.rules import broken
from support.agents import PATIENCE, Gate, Hang, other_tasks_done
from support.cancellation import Moment, Stopper, TricklingLLM
from support.limits import moments
from support.reading_sessions import bytes_of
from support.runners import FULL, DrivenAgent, driven_agent, fill

pytestmark = pytest.mark.slow

TWENTY = [f"typed {number}" for number in range(20)]
HELD = f"held {FULL}"
DRAFT = "## Goal\n- " + " ".join(f"word{number}" for number in range(40))
COMPACTION = operations.CompactSession(reason="manual")


def type_while_drafting(made: DrivenAgent, texts: list[str]) -> None:
    """Each time the draft grows, one more prompt is typed."""
    left = list(texts)

    def hear(event: Event) -> None:
        if (
            isinstance(event, events.CompactionProgress)
            and event.drafted_tokens
            and left
        ):
            made.runner.send(left.pop(0))

    made.agent.executor.subscribe(hear)


async def sent(made: DrivenAgent, count: int) -> None:
    """Until this many prompts are in the history, and all is quiet."""
    await made.watch.until(lambda: len(made.prompts) >= count)
    await quiet(made)


async def quiet(made: DrivenAgent) -> None:
    async with asyncio.timeout(PATIENCE):
        await made.runner.drained()
        await made.agent.executor.settle()
        await made.runner.drained()


def holds(made: DrivenAgent) -> None:
    """The history is sound, and the same for who opens it now."""
    assert broken(made.agent.session.projection) == []
    path = made.agent.session.path
    assert path is not None
    reopened = type(made.agent.session).open(path)
    assert bytes_of(reopened.projection) == bytes_of(made.agent.session.projection)


def compactions(made: DrivenAgent) -> int:
    return len(made.agent.session.projection.all_compactions)


@pytest.mark.quick
async def test_twenty_prompts_typed_while_a_compaction_makes_room_arrive_once_in_order(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, played=TricklingLLM, summaries=(DRAFT,)) as made:
        await fill(made)
        type_while_drafting(made, TWENTY)
        made.runner.send(HELD)
        await sent(made, 6 + 21)
        assert made.prompts[6:] == [HELD, *TWENTY]
        assert (len(made.runner.unsent), made.editor.text) == (0, "")
        assert compactions(made) >= 1
        first = made.watch.of(events.CompactionEnd)[0]
        assert first.index is not None
        holds(made)


@pytest.mark.parametrize("in_the_editor", ["", "being typed"])
async def test_twenty_prompts_survive_a_cancel_of_the_compaction_they_were_typed_during(
    tmp_path: Path, in_the_editor: str
) -> None:
    async with driven_agent(tmp_path, summaries=(Hang(DRAFT),)) as made:
        await fill(made)
        made.editor.text = in_the_editor
        made.runner.send(HELD)
        await made.llm.silent.wait()
        for text in TWENTY[:12]:
            made.runner.send(text)
        made.runner.cancel()
        await quiet(made)
        assert compactions(made) == 0
        assert len(made.prompts) == 6, "something went on after the cancel"
        if in_the_editor:
            assert made.editor.text == in_the_editor
            assert made.queue.queued == (HELD, *TWENTY[:12])
            made.runner.set_paused(False)
        else:
            assert made.queue.queued == tuple(TWENTY[:12])
            assert made.editor.text == HELD
            made.runner.send(made.editor.take())
        for text in TWENTY[12:]:
            made.runner.send(text)
        await sent(made, 6 + 21)
        assert made.prompts[6:] == [HELD, *TWENTY]
        holds(made)


@pytest.mark.slow
@pytest.mark.parametrize("in_the_editor", ["", "being typed"])
@pytest.mark.parametrize("moment", ["as it waits", "once it is ready"])
async def test_cancelled_at_any_await_no_prompt_is_lost_or_sent_twice(
    tmp_path: Path, moment: Moment, in_the_editor: str
) -> None:
    """A compaction for a held prompt, then its turn, two more prompts behind it; Esc at each await there
    is."""
    came_back = 0
    for at in moments(500):
        folder = tmp_path / str(at)
        folder.mkdir()
        async with driven_agent(
            folder, played=TricklingLLM, summaries=("## Goal\n- all of it",)
        ) as made:
            await fill(made)
            made.editor.text = in_the_editor
            stopper = Stopper(made.agent, at, moment, interrupt=made.runner.cancel)
            for text in (HELD, "second", "third"):
                made.runner.send(text)
            await quiet(made)
            stopper.stop()
            await other_tasks_done()
            back = [
                text for text in [made.editor.text] if text not in ("", in_the_editor)
            ]
            waits = [*back, *made.runner._queue]
            assert made.prompts[6:] + waits == [HELD, "second", "third"]
            assert made.queue.held is None
            starts, ends = (
                made.watch.of(kind)
                for kind in (events.CompactionStart, events.CompactionEnd)
            )
            assert len(starts) == len(ends) <= 1, (
                "none where it was stopped before that"
            )
            assert [end.index is not None for end in ends] == [
                compactions(made) == 1
            ] * len(ends)
            holds(made)
            came_back += bool(waits)
            if back:
                made.runner.send(made.editor.take())
            made.runner.set_paused(False)
            await quiet(made)
            assert made.prompts[6:] == [HELD, "second", "third"]
            holds(made)
            if not stopper.struck:
                break
    assert not stopper.struck
    assert came_back > 1


@pytest.mark.quick
async def test_a_compaction_by_hand_stops_the_turn_and_what_was_queued_waits_in_order(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    script = [*["done"] * 6, Hang("half an answer")]
    async with driven_agent(
        tmp_path, *script, summaries=(Gate(opened, DRAFT),)
    ) as made:
        await fill(made)
        made.agent.state.budget.settings = lambda _: BudgetSettings(
            threshold=16_000, soft_ratio=1.0
        )
        for text in ["runs", *TWENTY[:10]]:
            made.runner.send(text)
        await made.llm.silent.wait()
        made.llm.silent.clear()
        made.runner.submit(COMPACTION)
        await made.llm.silent.wait()  # the draft has begun
        assert made.watch.ends[-1] == ("run_agent", "cancelled")
        assert made.prompts[6:] == ["runs"]
        opened.set()
        await quiet(made)
        assert compactions(made) == 1
        assert made.queue.paused
        assert made.prompts[6:] == ["runs"]
        for text in TWENTY[10:]:
            made.runner.send(text)  # a word of the user: all goes on
        await sent(made, 6 + 21)
        assert made.prompts[6:] == ["runs", *TWENTY]
        holds(made)


async def test_what_is_typed_during_a_compaction_by_hand_goes_on_behind_what_was_queued(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    script = [*["done"] * 6, Hang("half an answer")]
    async with driven_agent(
        tmp_path, *script, summaries=(Gate(opened, DRAFT),)
    ) as made:
        await fill(made)
        made.agent.state.budget.settings = lambda _: BudgetSettings(
            threshold=16_000, soft_ratio=1.0
        )
        for text in ["runs", *TWENTY[:10]]:
            made.runner.send(text)
        await made.llm.silent.wait()
        made.llm.silent.clear()
        made.runner.submit(COMPACTION)
        await made.llm.silent.wait()
        for text in TWENTY[10:]:
            made.runner.send(text)
        assert made.prompts[6:] == ["runs"]
        opened.set()
        await sent(made, 6 + 21)
        assert made.prompts[6:] == ["runs", *TWENTY]
        assert compactions(made) == 1
        holds(made)


# --- at the end of a turn -----------------------------------------------------------------------------


EARLY = BudgetSettings(soft_ratio=0.6)


WORTH_IT = BudgetSettings(
    soft_ratio=0.6, keep_recent_tokens=800, max_summary_tokens=400
)
"""With these a compaction frees enough to be made before it has to be."""


async def near_the_soft_mark(made: DrivenAgent) -> None:
    """Turns until the next one ends above the soft mark."""
    desk_of_agent = made.agent.state
    longest = len(FULL) // 3  # tokens that a turn takes, at most
    while desk_of_agent.budget.size() + longest < desk_of_agent.budget.limits.soft_mark:
        made.runner.send(FULL)
        await quiet(made)
    assert compactions(made) == 0


async def test_what_is_typed_during_a_compaction_at_the_end_of_a_turn_waits_for_it(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    summaries = (Gate(opened, DRAFT),)
    async with driven_agent(
        tmp_path, budget=EARLY, summaries=summaries, draft_ahead=False
    ) as made:
        await near_the_soft_mark(made)
        already = len(made.prompts)
        while not made.llm.silent.is_set():
            made.runner.send(FULL)
            await either(made.llm.silent.wait, lambda: quiet(made))
        known = len(made.prompts)
        assert known > already
        for text in TWENTY:
            made.runner.send(text)
        assert made.queue.queued == tuple(TWENTY)
        opened.set()
        await sent(made, known + 20)
        assert made.prompts[known:] == TWENTY
        assert [
            compaction.reason
            for compaction in made.agent.session.projection.all_compactions
        ] == ["phase"]
        holds(made)


async def test_a_prompt_typed_while_the_next_compaction_is_drafted_goes_at_once(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    async with driven_agent(
        tmp_path, budget=EARLY, summaries=(Gate(opened, DRAFT),), interactive=True
    ) as made:
        await near_the_soft_mark(made)
        while not made.llm.silent.is_set():
            made.runner.send(FULL)
            await either(made.llm.silent.wait, lambda: quiet(made))
        await quiet(made)
        known = len(made.prompts)
        made.runner.send("and now?")
        await sent(made, known + 1)
        await quiet(made)
        assert compactions(made) == 0
        opened.set()  # nothing runs: the compaction is made as soon as the draft is there
        await made.watch.until(lambda: compactions(made) == 1)
        assert [
            compaction.reason
            for compaction in made.agent.session.projection.all_compactions
        ] == ["phase"]
        assert len(made.llm.summary_requests) == 1
        await quiet(made)
        holds(made)


async def either(*waits: Callable[[], object]) -> None:
    """Until one of these has come."""
    tasks = [asyncio.ensure_future(wait()) for wait in waits]  # type: ignore[arg-type]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_cancelled_compaction_at_the_end_of_a_turn_loses_nothing_and_is_not_begun_again(
    tmp_path: Path,
) -> None:
    async with driven_agent(
        tmp_path, budget=EARLY, summaries=(Hang(DRAFT),), draft_ahead=False
    ) as made:
        await near_the_soft_mark(made)
        while not made.llm.silent.is_set():
            made.runner.send(FULL)
            await either(made.llm.silent.wait, lambda: quiet(made))
        known = len(made.prompts)
        for text in TWENTY[:8]:
            made.runner.send(text)
        made.runner.cancel()
        await quiet(made)
        assert (made.queue.queued, made.queue.paused) == (tuple(TWENTY[:8]), True)
        assert made.prompts[known:] == []
        for text in TWENTY[8:]:
            made.runner.send(text)
        await sent(made, known + 20)
        assert made.prompts[known:] == TWENTY
        assert compactions(made) == 0
        assert len(made.watch.of(events.CompactionStart)) == 1
        holds(made)


@pytest.mark.quick
async def test_after_an_esc_no_compaction_begins_by_itself(tmp_path: Path) -> None:
    async with driven_agent(
        tmp_path, budget=WORTH_IT, summaries=(Hang(DRAFT),)
    ) as made:
        await near_the_soft_mark(made)
        made.llm.script.append(Hang("half"))
        for text in (FULL + FULL, FULL * 4):
            made.llm.silent.clear()
            made.runner.send(text)
            await made.llm.silent.wait()
            made.runner.cancel()
            await quiet(made)
            assert made.agent.at_good_moment()  # and yet
        # A turn, then the compaction for a prompt: of these, only the compaction that was asked for had
        # begun.
        assert [begun.reason for begun in made.watch.of(events.CompactionStart)] == [
            "threshold"
        ]
        assert made.editor.text == FULL * 4
        holds(made)


# --- asked first --------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("in_the_editor", ["", "being typed"])
async def test_interrupted_while_it_asks_the_prompt_comes_back_and_the_proposal_stays(
    tmp_path: Path, in_the_editor: str
) -> None:
    async with driven_agent(tmp_path, mode="ask", interactive=True) as made:
        await fill(made)
        made.editor.text = in_the_editor
        made.runner.send(HELD)
        ready = await made.watch.first(events.ProposalReady)
        for text in TWENTY:
            made.runner.send(text)
        assert made.queue.held == HELD
        made.runner.cancel()
        await quiet(made)
        kept = made.agent.state.compaction.review.proposal
        assert kept is not None
        assert kept.id == ready.proposal
        assert len(made.prompts) == 6
        calls = len(made.llm.summary_requests)
        if in_the_editor:
            assert made.queue.queued == (HELD, *TWENTY)
        else:
            assert (made.editor.take(), made.queue.queued) == (HELD, tuple(TWENTY))
            made.runner.edit_queue(tuple(TWENTY), (HELD, *TWENTY), paused=True)
        # The reader takes it after all: the prompt then has room.
        made.runner.submit(operations.ApplyProposal(proposal=kept.id))
        made.runner.set_paused(False)
        await sent(made, 6 + 21)
        assert made.prompts[6:] == [HELD, *TWENTY]
        assert compactions(made) == 1
        assert len(made.llm.summary_requests) == calls
        holds(made)


@pytest.mark.parametrize("wanted", [True, False], ids=["applied", "thrown away"])
async def test_asked_before_a_prompt_the_word_lets_it_go(
    tmp_path: Path, wanted: bool
) -> None:
    async with driven_agent(tmp_path, mode="ask", interactive=True) as made:
        await fill(made)
        made.runner.send(HELD)
        for text in TWENTY[:3]:
            made.runner.send(text)
        ready = await made.watch.first(events.ProposalReady)
        decision = operations.ApplyProposal if wanted else operations.DiscardProposal
        settings = made.agent.state.budget.settings
        if not wanted:  # so that nothing else is asked before the prompts behind it
            made.agent.state.budget.settings = lambda _: BudgetSettings(
                threshold=16_200, soft_ratio=1.0
            )
        made.runner.submit(decision(proposal=ready.proposal))
        await sent(made, 6 + 4)
        assert made.prompts[6:] == [HELD, *TWENTY[:3]]
        assert compactions(made) == int(wanted)
        made.agent.state.budget.settings = settings
        holds(made)
