"""Compacting at rest: offered or done shortly before the provider's cache ends, never over what is typed."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foldline.agent.settings import Settings
from foldline.agent.settings_schema import CompactionSettings
from foldline.context.budget import BudgetSettings
from foldline.tui.idle_compaction import IdleCompaction
from foldline.tui.state import IDLE_BEFORE
from support.caching import LIFE, LONG, CachingLLM, Hours, session_on
from support.chat_app import Clock
from support.live import Live, Spoken, live

PROMPTS = 4
SUMMARISED: dict[str, Any] = {
    "compaction": "summary",
    "budget": BudgetSettings(soft_ratio=1, max_summary_tokens=2_000),
}


@dataclass
class Timer:
    """One that the test lets run out."""

    seconds: float
    then: Callable[[], None]
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True


class Resting:
    """The program at rest after some long prompts, and its clocks."""

    def __init__(self, running: Live, hours: Hours, clock: Clock, timers: list[Timer]) -> None:
        self.running, self.hours, self.clock, self.timers = running, hours, clock, timers

    def pass_time(self, seconds: float) -> None:
        """What the status row would wake for is shown."""
        self.hours.pass_time(seconds)
        self.clock.now += seconds
        self.running.app.chat.show_status()

    @property
    def waiting(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.stopped]

    @property
    def compactions(self) -> int:
        return len(self.running.agent.session.projection.all_compactions)

    async def shows(self, words: str) -> None:
        await self.running.until(lambda: words in self.running.text)


@asynccontextmanager
async def resting(
    folder: Path, idle: Any, *script: Any, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[Resting]:
    hours, clock, timers = Hours(), Clock(), []
    made = IdleCompaction.__init__

    def init(self: IdleCompaction, runner: Any, is_untouched: Any, set_timer: Any) -> None:
        def held(seconds: float, then: Callable[[], None]) -> Timer:
            timers.append(Timer(seconds, then))
            return timers[-1]

        made(self, runner, is_untouched, held)

    monkeypatch.setattr(IdleCompaction, "__init__", init)
    llm = CachingLLM(*["An answer."] * 4, *script)
    given = {
        "session": session_on(hours, folder / "shop"),
        "clock": clock,
        "llm": llm,
        "compaction": "adaptive",
    }
    async with live(folder / "shop", **{**given, **options}) as running:
        running.agent.settings = Settings(compaction=CompactionSettings(idle=idle))
        for _ in range(PROMPTS):
            await running.ask(LONG)
        yield Resting(running, hours, clock, timers)


async def test_a_cache_that_has_ended_is_said_and_a_key_compacts_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resting(tmp_path, "off", monkeypatch=monkeypatch) as made:
        assert "cache" not in made.running.text.split("\n")[-2]
        made.pass_time(LIFE + 1)
        await made.shows("cache cold: next request ")
        assert "; compact first: $" in made.running.text
        await made.running.press("alt+c")
        await made.running.until(lambda: made.compactions == 1)
        await made.running.at_rest()
        assert "cache cold" not in made.running.text and not made.timers


async def test_it_is_offered_before_the_end_where_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resting(tmp_path, "ask", monkeypatch=monkeypatch) as made:
        made.pass_time(LIFE - IDLE_BEFORE - 1)
        assert "cache ends" not in made.running.text
        made.pass_time(2)
        await made.shows("cache ends soon")
        assert made.compactions == 0 and not made.timers
        await made.running.press("alt+c")
        await made.running.until(lambda: made.compactions == 1)


async def test_it_is_done_before_the_end_and_what_is_shown_of_the_cache_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resting(tmp_path, "auto", monkeypatch=monkeypatch) as made:
        [timer] = made.waiting
        assert timer.seconds == pytest.approx(LIFE - IDLE_BEFORE)
        timer.then()
        await made.running.until(lambda: made.compactions == 1)
        await made.running.at_rest()
        made.pass_time(LIFE)
        assert "cache cold" not in made.running.text and not made.waiting
        assert "full: before the cache ends · " in made.running.text


async def test_what_stands_in_the_editor_is_never_compacted_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resting(tmp_path, "auto", monkeypatch=monkeypatch) as made:
        await made.running.type("half a thought")
        made.waiting[-1].then()
        await made.running.at_rest()
        assert made.compactions == 0 and not made.running.agent.state.draft.ready


async def test_what_is_typed_while_it_is_drafted_keeps_the_draft_from_being_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = Spoken()
    async with resting(tmp_path, "auto", draft, monkeypatch=monkeypatch, **SUMMARISED) as made:
        made.waiting[-1].then()
        await made.running.until(lambda: made.running.app.state.drafting_ahead)
        await made.running.type("half a thought")
        draft.say("## Goal\n- get it done")
        draft.end()
        await made.running.until(lambda: made.running.agent.state.draft.ready)
        await made.running.at_rest()
        assert made.compactions == 0


async def test_esc_stops_the_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with resting(tmp_path, "auto", Spoken(), monkeypatch=monkeypatch, **SUMMARISED) as made:
        made.waiting[-1].then()
        await made.running.until(lambda: made.running.app.state.drafting_ahead)
        assert "Esc cancels the draft" in made.running.text
        await made.running.press("escape")
        await made.running.until(lambda: not made.running.app.state.drafting_ahead)
        made.waiting[-1].then()
        await made.running.at_rest()
        assert made.compactions == 0 and not made.running.agent.state.draft.drafting


async def test_a_prompt_moves_the_end_and_by_default_nothing_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resting(tmp_path / "a", "auto", "More.", monkeypatch=monkeypatch) as made:
        made.pass_time(100)
        await made.running.ask("And now?")
        assert [timer.seconds for timer in made.waiting] == [pytest.approx(LIFE - IDLE_BEFORE)]
    async with resting(tmp_path / "b", "off", monkeypatch=monkeypatch) as made:
        assert not made.timers
