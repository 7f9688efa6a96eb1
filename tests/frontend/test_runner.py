"""The runner: every prompt once, in order; held while a compaction makes room; nothing goes on after an
Esc."""

import asyncio
from pathlib import Path

import pytest

from foldline.agent.session.auto_compact import TOO_LONG
from foldline.agent.session.compaction_state import Mode
from foldline.agent.turn.turn import CANCELLED
from foldline.frontend.runner import (
    ENTER_ASKS,
    ENTER_COMPACTS,
    ENTER_DRAFTS,
    ENTER_SENDS,
    ENTER_SENDS_AS_IS,
    edited,
)
from foldline.history.log import WriteFailed
from foldline.llm import LLMError
from foldline.protocol import Entry, events, operations, text_parts
from foldline.view.rules import broken
from support.agents import Gate, Hang, other_tasks_done, reply
from support.runners import FULL, DrivenAgent, driven_agent, fill

# --- in order, once -----------------------------------------------------------------------------------


async def test_prompts_typed_while_it_works_are_delivered_once_and_in_order(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    async with driven_agent(tmp_path, Gate(opened)) as made:
        for text in ("one", "two", "three"):
            made.runner.send(text)
        await made.llm.silent.wait()
        made.runner.send("four")
        assert made.queue.queued == ("two", "three", "four")
        assert len(made.runner.unsent) == 3
        opened.set()
        await made.finished(4)
        await made.at_rest()
        assert made.prompts == ["one", "two", "three", "four"]
        assert (made.queue.queued, made.queue.held, len(made.runner.unsent)) == (
            (),
            None,
            0,
        )


async def test_a_prompt_is_held_while_a_compaction_makes_room_and_then_sent(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    async with driven_agent(
        tmp_path, summaries=(Gate(opened, "## Goal\n- all of it"),)
    ) as made:
        await fill(made)
        made.runner.send(FULL)
        await made.llm.silent.wait()
        assert made.queue.held == FULL
        made.runner.send("typed during the compaction")
        assert (made.queue.held, made.queue.queued) == (
            FULL,
            ("typed during the compaction",),
        )
        assert len(made.prompts) == 6  # it is not in the history yet
        opened.set()
        await made.watch.until(lambda: made.watch.ends[-2:] == AFTER_A_COMPACTION)
        await made.at_rest()
        assert made.prompts[6:] == [FULL, "typed during the compaction"]
        assert (made.queue.held, made.queue.queued) == (None, ())
        assert len(made.agent.session.projection.all_compactions) == 1
        assert broken(made.agent.session.projection) == []


AFTER_A_COMPACTION = [("run_agent", "done"), ("run_agent", "done")]


async def test_a_prompt_waits_for_a_compaction_asked_for_by_hand(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    async with driven_agent(
        tmp_path, summaries=(Gate(opened, "## Goal\n- all of it"),)
    ) as made:
        await fill(made)
        made.runner.submit(operations.CompactSession(reason="manual"))
        await made.llm.silent.wait()
        made.runner.send("meanwhile")
        assert made.queue.queued == ("meanwhile",)
        opened.set()
        await made.watch.until(lambda: "meanwhile" in made.prompts)
        assert len(made.agent.session.projection.all_compactions) == 1
        await made.at_rest()


# --- Esc on a compaction ------------------------------------------------------------------------------------


async def cancelled_compaction(made: DrivenAgent, prompt: str = FULL) -> None:
    """A prompt whose compaction was cancelled."""
    await fill(made)
    made.runner.send(prompt)
    await made.llm.silent.wait()
    made.runner.cancel()
    await made.watch.until(lambda: made.watch.ends[-1] == ("run_agent", "cancelled"))
    await made.at_rest()


async def test_esc_on_a_compaction_gives_the_prompt_back_and_nothing_goes_on(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, summaries=(Hang("half"),)) as made:
        await cancelled_compaction(made)
        view_before = list(made.agent.session.projection.view)
        assert made.editor.text == FULL
        assert (made.queue.held, made.queue.queued) == (None, ())
        assert (len(made.llm.requests), len(made.llm.summary_requests)) == (6, 1)
        assert not made.agent.executor.busy
        # Sent again it fits, so it goes without a compaction.
        made.runner.send(made.editor.take())
        await made.watch.until(lambda: made.watch.ends[-1] == ("run_agent", "done"))
        assert made.prompts[6:] == [FULL]
        assert made.agent.session.projection.all_compactions == []
        assert made.agent.session.projection.view[: len(view_before)] == view_before
        assert len(made.llm.summary_requests) == 1


async def test_where_the_editor_holds_text_the_prompt_stays_first_in_the_queue(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, summaries=(Hang("half"),)) as made:
        await fill(made)
        made.runner.send("held " + FULL)
        await made.llm.silent.wait()
        made.runner.send("queued")
        made.editor.text = "being typed"
        made.runner.cancel()
        await made.watch.until(
            lambda: made.watch.ends[-1] == ("run_agent", "cancelled")
        )
        await made.at_rest()
        assert made.editor.text == "being typed"
        assert made.queue.queued == ("held " + FULL, "queued")
        assert made.queue.paused
        assert made.agent.session.projection.all_compactions == []
        made.runner.set_paused(False)
        await made.watch.until(lambda: made.prompts[-1:] == ["queued"])
        assert made.prompts[6:] == ["held " + FULL, "queued"]
        await made.at_rest()


async def test_a_prompt_that_came_back_goes_before_the_queue_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, summaries=(Hang("half"),)) as made:
        await fill(made)
        made.runner.send("first " + FULL)
        await made.llm.silent.wait()
        made.runner.send("second")
        made.runner.cancel()
        await made.watch.until(
            lambda: made.watch.ends[-1] == ("run_agent", "cancelled")
        )
        await made.at_rest()
        assert made.editor.text == "first " + FULL
        assert (made.queue.queued, made.queue.paused) == (("second",), True)
        made.runner.send(made.editor.take())
        await made.watch.until(lambda: made.prompts[-1:] == ["second"])
        assert made.prompts[6:] == ["first " + FULL, "second"]
        await made.at_rest()


async def test_a_prompt_too_long_to_go_uncompacted_is_compacted_for_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, summaries=(Hang("half"),)) as made:
        await cancelled_compaction(made, FULL * 5)
        assert not made.agent.fits(text_parts(FULL * 5))
        made.runner.send(made.editor.take())
        await made.watch.until(lambda: made.watch.ends[-1] == ("run_agent", "done"))
        assert len(made.agent.session.projection.all_compactions) == 1


async def test_where_only_the_last_answer_fills_the_window_the_prompt_goes_and_its_turn_compacts(
    tmp_path: Path,
) -> None:
    """Before the prompt stands in the history there is nothing old enough to compact; after it, there is."""
    async with driven_agent(tmp_path, "All there is to know. " * 3_000, "ok") as made:
        made.runner.send("tell me all")
        await made.finished(1)
        await made.at_rest()
        assert not made.agent.fits(text_parts("next"))
        made.runner.send("next")
        await made.watch.until(lambda: made.watch.ends == [("run_agent", "done")] * 2)
        assert made.prompts == ["tell me all", "next"]
        assert len(made.agent.session.projection.all_compactions) == 1
        assert made.agent.state.budget.fits()
        assert broken(made.agent.session.projection) == []


async def test_a_compaction_that_fails_does_not_keep_a_prompt_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_way(*_: object, **__: object) -> None:
        raise LLMError("The summariser is away.")

    monkeypatch.setattr("foldline.agent.session.compact.propose", no_way)
    async with driven_agent(tmp_path) as made:
        await fill(made)
        made.runner.send(FULL)
        await made.watch.until(lambda: made.watch.ends == [("run_agent", "done")] * 7)
        assert made.prompts[6:] == [FULL]
        assert any("The summariser is away." in text for text in made.watch.notices)


async def test_an_unforeseen_failure_of_a_compaction_does_not_lose_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def buggy(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("foldline.agent.session.compact.propose", buggy)
    async with driven_agent(tmp_path) as made:
        await fill(made)
        made.runner.send(FULL)
        await made.watch.until(lambda: made.watch.ends[-1] == ("run_agent", "failed"))
        await made.at_rest()
        assert made.editor.text == FULL
        assert made.queue.held is None
        delivery = made.runner._delivery
        assert delivery is not None
        assert isinstance(delivery.exception(), ZeroDivisionError)


# --- cancel, failure, pause ---------------------------------------------------------------------------


async def test_cancelling_a_turn_pauses_the_queue_until_the_next_word(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, Hang("half")) as made:
        for text in ("one", "two"):
            made.runner.send(text)
        await made.llm.silent.wait()
        made.runner.cancel()
        await made.watch.until(lambda: made.watch.ends == [("run_agent", "cancelled")])
        await made.at_rest()
        assert (made.queue.queued, made.queue.paused) == (("two",), True)
        assert made.prompts == ["one"]
        made.runner.send("three")
        await made.finished(3)
        await made.at_rest()
        assert made.prompts == ["one", "two", "three"]


async def test_a_prompt_sent_right_after_esc_is_not_paused_by_it(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, Hang("half")) as made:
        made.runner.send("one")
        await made.llm.silent.wait()
        made.runner.cancel()
        made.runner.send("two")
        await made.watch.until(
            lambda: (
                made.watch.ends == [("run_agent", "cancelled"), ("run_agent", "done")]
            )
        )
        assert made.prompts == ["one", "two"]
        await made.at_rest()


async def test_a_compaction_by_hand_aborts_the_turn_and_pauses_what_waits(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, *["done"] * 6, Hang("half")) as made:
        await fill(made)
        for text in ("seven", "eight"):
            made.runner.send(text)
        await made.watch.until(
            lambda: made.llm.silent.is_set() or len(made.llm.requests) > 6
        )
        made.runner.submit(operations.CompactSession(reason="manual"))
        await made.watch.until(
            lambda: made.watch.ends[-1] == ("compact_session", "done")
        )
        await made.at_rest()
        assert made.queue.paused
        assert "eight" not in made.prompts
        made.runner.set_paused(False)
        await made.watch.until(lambda: made.prompts[-1] == "eight")
        await made.at_rest()


async def test_a_failed_turn_pauses_the_queue(tmp_path: Path) -> None:
    async with driven_agent(
        tmp_path, LLMError("The server is down."), "two", "three"
    ) as made:
        for text in ("one", "two", "three"):
            made.runner.send(text)
        await made.finished(1)
        await made.at_rest()
        assert (made.queue.queued, made.queue.paused) == (("two", "three"), True)
        made.runner.set_paused(False)
        await made.finished(3)
        await made.at_rest()
        assert made.prompts == ["one", "two", "three"]


async def test_a_failed_turn_with_an_empty_queue_pauses_nothing(tmp_path: Path) -> None:
    async with driven_agent(tmp_path, LLMError("The server is down."), "two") as made:
        made.runner.send("one")
        await made.finished(1)
        await made.at_rest()
        made.runner.send("two")
        await made.finished(2)
        assert made.prompts == ["one", "two"]
        await made.at_rest()


async def test_pause_holds_the_queue_and_resume_sends_it(tmp_path: Path) -> None:
    opened = asyncio.Event()
    async with driven_agent(tmp_path, Gate(opened)) as made:
        for text in ("one", "two"):
            made.runner.send(text)
        await made.llm.silent.wait()
        made.runner.set_paused(True)
        opened.set()
        await made.finished(1)
        await made.at_rest()
        assert made.prompts == ["one"]
        assert made.queue.paused
        made.runner.set_paused(False)
        await made.finished(2)
        await made.at_rest()
        assert made.prompts == ["one", "two"]


async def test_a_prompt_that_could_not_be_written_goes_back_to_the_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with driven_agent(tmp_path) as made:

        async def full(*_: Entry, durable: bool = False) -> list[Entry]:
            raise WriteFailed("The disk is full.", 0)

        monkeypatch.setattr(made.agent.session, "append", full)
        for text in ("one", "two"):
            made.runner.send(text)
        await made.finished(1)
        await made.at_rest()
        assert made.editor.text == "one"
        assert (made.queue.queued, made.queue.paused) == (("two",), True)
        monkeypatch.undo()
        made.runner.send(made.editor.take())
        await made.finished(3)
        await made.at_rest()
        assert made.prompts == ["one", "two"]


async def test_a_window_too_small_gives_the_prompt_back_with_one_sentence(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, window=1_000) as made:
        made.runner.send("hello")
        await made.finished(1)
        await made.at_rest()
        assert made.editor.text == "hello"
        [end] = made.watch.of(events.TaskFinished)
        assert "too small" in end.error
        assert made.agent.session.entries == []


@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_a_prompt_no_compaction_can_make_room_for_is_given_back_before_anything_is_compacted(
    tmp_path: Path, mode: Mode
) -> None:
    async with driven_agent(tmp_path, mode=mode, interactive=True) as made:
        for number in range(1, 5):
            made.runner.send(FULL)
            await made.finished(number)
        await made.at_rest()
        entries = len(made.agent.session.entries)
        made.runner.send(FULL * 12)
        made.runner.send("another")
        await made.at_rest()
        assert made.editor.text == FULL * 12
        assert (made.queue.queued, made.queue.paused) == (("another",), True)
        reason = TOO_LONG.partition("{")[0]
        assert made.queue.unsent.startswith(f"Not sent: {reason}")
        assert len(made.agent.session.entries) == entries and not made.watch.of(
            events.CompactionStart
        )


async def test_a_prompt_that_still_does_not_fit_comes_back_with_a_word(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, mode="off", interactive=True) as made:
        for number in range(1, 7):
            made.runner.send(FULL)
            await made.finished(number)
        await made.at_rest()
        made.runner.send(FULL * 4)
        await made.watch.until(lambda: made.watch.of(events.ChoiceRequested))
        [asked] = made.watch.of(events.ChoiceRequested)
        made.runner.submit(operations.Choose(choice=asked.choice, key="x"))
        await made.watch.until(lambda: made.queue.unsent)
        await made.at_rest()
        assert made.queue.unsent.startswith("Not sent: the request would take ")
        assert made.queue.unsent.endswith(ENTER_ASKS)
        assert made.editor.text == FULL * 4


@pytest.mark.parametrize(
    ("size", "mode", "enter"),
    [
        (1, "auto", ENTER_SENDS_AS_IS),
        (5, "auto", ENTER_COMPACTS),
        (5, "ask", ENTER_DRAFTS),
    ],
)
async def test_why_a_prompt_came_back_and_what_enter_does_is_said_until_the_user_acts(
    tmp_path: Path, size: int, mode: Mode, enter: str
) -> None:
    async with driven_agent(
        tmp_path, mode=mode, interactive=True, summaries=(Hang("half"),)
    ) as made:
        await cancelled_compaction(made, FULL * size)
        assert made.queue.unsent == f"Not sent: {CANCELLED} {enter}"
        made.runner.send(made.editor.take())
        assert made.queue.unsent == ""


async def test_what_is_said_of_an_unsent_prompt_follows_what_is_done_and_goes_with_the_prompt(
    tmp_path: Path,
) -> None:
    async with driven_agent(
        tmp_path, interactive=True, summaries=(Hang("half"),)
    ) as made:
        await cancelled_compaction(made, FULL)
        assert made.queue.unsent.endswith(ENTER_SENDS_AS_IS)
        made.runner.submit(operations.ClearView())
        await made.watch.until(lambda: ENTER_SENDS in made.queue.unsent)
        made.editor.take()
        made.runner.forget_unsent()
        assert made.queue.unsent == ""


async def test_closing_while_it_works_leaves_nothing_behind_and_gives_nothing_back(
    tmp_path: Path,
) -> None:
    async with driven_agent(tmp_path, Hang("half")) as made:
        for text in ("one", "two"):
            made.runner.send(text)
        await made.llm.silent.wait()
        await made.runner.aclose()
        await other_tasks_done()
        assert made.editor.text == ""
        assert made.prompts == ["one"]


# --- editing the queue --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "before", "after", "wanted"),
    [
        (["a", "b"], ("a", "b"), ("b",), ["b"]),
        (["a", "b"], ("a", "b"), ("b", "a"), ["b", "a"]),
        # `a` has been sent since: it does not come back, and `b` is gone as the reader wanted.
        (["b"], ("a", "b"), ("a",), []),
        (["b", "c"], ("a", "b"), ("a", "x"), ["x", "c"]),
        # Added since: it stays.
        (["a", "b"], ("a",), ("changed",), ["changed", "b"]),
        # All have been sent since.
        ([], ("a", "b"), ("b",), []),
        (["a", "a"], ("a", "a", "a"), ("a", "a"), ["a"]),
        # Somebody else changed it: it is left alone.
        (["y"], ("a", "b"), (), ["y"]),
    ],
)
def test_an_edit_of_the_queue_holds_for_what_still_waits(
    queue: list[str], before: tuple[str, ...], after: tuple[str, ...], wanted: list[str]
) -> None:
    assert edited(queue, before, after) == wanted


async def test_a_queued_prompt_that_was_taken_out_is_not_sent(tmp_path: Path) -> None:
    opened = asyncio.Event()
    async with driven_agent(tmp_path, Gate(opened)) as made:
        for text in ("one", "two", "three"):
            made.runner.send(text)
        await made.llm.silent.wait()
        made.runner.edit_queue(("two", "three"), ("three",), paused=False)
        opened.set()
        await made.finished(2)
        await made.at_rest()
        assert made.prompts == ["one", "three"]


# --- going on with a turn that broke off ----------------------------------------------------------------


async def test_a_failed_turn_goes_on_at_one_word_and_what_waits_follows_it(
    tmp_path: Path,
) -> None:
    failed = LLMError(
        "The server is down.", partial=reply("half of", stop_reason="error")
    )
    async with driven_agent(tmp_path, failed, "all of it") as made:
        made.runner.send("one")
        made.runner.send("two")
        await made.finished(1)
        await made.at_rest()
        assert (made.prompts, made.queue.queued, made.queue.paused) == (
            ["one"],
            ("two",),
            True,
        )
        made.runner.retry()
        await made.finished(3)
        await made.at_rest()
        assert made.prompts == ["one", "two"]
        assert made.watch.ends == [
            ("run_agent", "failed"),
            ("retry", "done"),
            ("run_agent", "done"),
        ]
        first, again, _ = (list(request.messages) for request in made.llm.requests)
        assert first == again
        view = [item.message.text for item in made.agent.session.projection.view]
        assert view[1:] == ["one", "all of it", "two", "done"]
        assert broken(made.agent.session.projection) == []


async def test_a_turn_that_fails_again_leaves_what_waits_where_it_is(
    tmp_path: Path,
) -> None:
    down = LLMError("The server is down.")
    async with driven_agent(tmp_path, down, down) as made:
        made.runner.send("one")
        made.runner.send("two")
        await made.finished(1)
        made.runner.retry()
        await made.finished(2)
        await made.at_rest()
        assert (made.queue.queued, made.queue.paused) == (("two",), True)
        made.runner.set_paused(False)
        await made.finished(3)
        assert made.prompts == ["one", "two"]
