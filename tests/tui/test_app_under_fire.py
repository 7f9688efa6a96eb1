"""The program when requests fail: what is seen of it, what a key does then, and what is read again later."""

from pathlib import Path

import pytest

from foldline.history import Session
from foldline.llm import LLMError
from foldline.protocol import operations
from foldline.tui.chat.escape_actions import ESC_STOPS_RETRYING
from foldline.tui.messages import NOT_NOW
from foldline.tui.transcript.rows import CUT_OFF, EMPTY
from support.agents import Hang, reply
from support.live import Live, StreamedAnswer, live

pytestmark = pytest.mark.slow

DOWN = LLMError(
    "https://api.example.com/v1 is down, and has been for longer than a row can say: ask again."
)
BROKEN_OFF = LLMError(
    "The server broke off.", partial=reply("Half of it", stop_reason="error")
)
HINT = "Alt+R try again"


async def reloaded(tmp_path: Path, running: Live) -> list[object]:
    """What the transcript shows of the same session in another run of the program."""
    path = running.agent.session.path
    assert path is not None
    running.agent.session.close()
    async with live(tmp_path, session=Session.open(path)) as again:
        return list(again.shown)


@pytest.mark.quick
async def test_what_failed_is_shown_alike_live_and_when_it_is_read_again(
    tmp_path: Path,
) -> None:
    script = (
        DOWN,
        BROKEN_OFF,
        "All of it.",
        reply(""),
        reply("cut", stop_reason="length"),
        Hang("Stopped in"),
    )
    async with live(tmp_path, *script, size=(80, 40)) as running:
        await running.ask("one")
        for _ in range(2):
            await running.press("alt+r")
            await running.at_rest()
        await running.ask("two")
        await running.ask("three")
        await running.enter("four")
        await running.until(lambda: "Stopped in" in running.text)
        await running.press("escape")
        await running.at_rest()
        texts = [text for _, _, text in running.shown]
        assert texts == [
            "one",
            DOWN.sentence,
            "Half of it",
            BROKEN_OFF.sentence,
            "All of it.",
            "two",
            EMPTY,
            "three",
            "cut",
            CUT_OFF,
            "  notice: Your last answer was cut off at the output limit of 5 tokens.",
            "four",
            "Stopped in",
            "cancelled here",
        ]
        assert "has been for longer than a row can say: ask again." in " ".join(
            running.text.split()
        )
        assert running.shown == await reloaded(tmp_path, running)


async def test_trying_again_is_offered_where_there_is_something_to_try(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, DOWN, "Here I am.") as running:
        assert HINT not in running.text
        await running.press("alt+r")
        await running.until(lambda: NOT_NOW.format(command="Try again") in running.text)
        await running.ask("hello?")
        assert HINT in running.text
        await running.enter("/retry")
        await running.until(lambda: "Here I am." in running.text)
        await running.at_rest()
        assert HINT not in running.text and "✗" in running.text
        assert [request.messages[-1].text for request in running.llm.requests] == [
            "hello?",
            "hello?",
        ]


async def test_a_turn_that_broke_off_can_be_gone_on_with_in_another_run(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, BROKEN_OFF) as running:
        await running.ask("hello?")
        path = running.agent.session.path
    assert path is not None
    async with live(tmp_path, "Here I am.", session=Session.open(path)) as again:
        assert HINT in again.text
        await again.press("alt+r")
        await again.until(lambda: "Here I am." in again.text)
        await again.at_rest()
        assert [item.message.text for item in again.agent.session.projection.view][
            1:
        ] == [
            "hello?",
            "Here I am.",
        ]


async def test_a_countdown_is_given_up_with_escape_and_keeps_the_keyboard(
    tmp_path: Path,
) -> None:
    spoken = StreamedAnswer()
    async with live(tmp_path, spoken, "All of it.", "Both.") as running:
        await running.enter("one")
        await running.llm.silent.wait()
        spoken.retry("https://api.example.com/v1 is busy (503): wait.", 3_000, 1)
        await running.until(
            lambda: (
                "Trying again in 3000 s · 1 of 3   api.example.com is busy (503)"
                in running.text
            )
        )
        await running.enter("two")
        await running.until(
            lambda: "1 queued" in running.text and ESC_STOPS_RETRYING in running.text
        )
        await running.press("escape")
        await running.at_rest()
        assert "Trying again in" not in running.text and HINT in running.text
        assert "Esc" not in running.screen[-2] and running.app.state.waiting.paused
        await running.press("alt+r")
        await running.until(lambda: "Both." in running.text)
        assert [request.messages[-1].text for request in running.llm.requests] == [
            "one",
            "one",
            "two",
        ]


async def test_a_draft_that_waits_for_a_retry_is_given_up_with_escape(
    tmp_path: Path,
) -> None:
    draft = StreamedAnswer()
    async with live(tmp_path, "ok", "ok", "ok", summaries=(draft,)) as running:
        for _ in range(3):
            await running.ask("All there is to know about it, again and again. " * 160)
        running.agent.executor.submit(operations.CompactSession(reason="manual"))
        await running.until(lambda: running.llm.summary_requests)
        draft.retry("https://api.example.com/v1 is busy (503): wait.", 3_000, 2)
        await running.until(lambda: "Trying again in 3000 s · 2 of 3" in running.text)
        await running.press("escape")
        await running.at_rest()
        assert running.agent.session.projection.all_compactions == []
