"""The Compact preview in the running program: what is looked at is what is applied, and nothing else."""

import asyncio
from pathlib import Path

import pytest

from foldline.agent.session.compaction_state import AUTO_OFF
from foldline.compaction import Proposal, SessionLedger
from foldline.frontend.reduce import NOTHING_TO_COMPACT
from foldline.memory.ledger import Ledger
from foldline.protocol import Compaction, UserMessage, events
from foldline.text import numbers
from foldline.tui.browser.draft.words import WAITING, WRITING
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.chat.escape_actions import ESC_CANCELS_DRAFT
from foldline.view.budget import BudgetSettings
from support.agents import Gate, Hang
from support.chat_app import Clock
from support.live import FULL, Live, StreamedAnswer, live
from support.llm import overflow
from support.projections import compactions_of

pytestmark = pytest.mark.slow


async def fill(running: Live, prompts: int = 6) -> None:
    for _ in range(prompts - 1):
        await running.agent.prompt(FULL)
    await running.ask(FULL)  # typed: the transcript follows its end


def shows_preview(running: Live) -> bool:
    screen = running.app.screen
    return isinstance(screen, InspectorScreen) and screen.panels.in_draft


def proposal(running: Live) -> Proposal:
    made = running.agent.state.compaction.review.proposal
    assert made is not None
    return made


async def ready(running: Live) -> Proposal:
    """The preview with a finished draft on it."""
    await running.until(
        lambda: running.agent.state.compaction.review.proposal is not None
    )
    await running.drawn()
    return proposal(running)


def compactions(running: Live) -> list[Compaction]:
    return compactions_of(running.agent.session.projection)


@pytest.mark.quick
async def test_f3_drafts_a_compaction_and_ctrl_s_applies_exactly_that(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, summaries=("## Goal\n- what we looked at",)) as running:
        await fill(running)
        view = list(running.agent.session.projection.view)
        await running.press("f3")
        made = await ready(running)
        assert shows_preview(running)
        assert "what we looked at" in running.text
        assert running.agent.session.projection.view == view
        await running.press("ctrl+s")
        await running.until(lambda: compactions(running))
        await running.at_rest()
        [compaction] = compactions(running)
        assert compaction.model_copy(update={"index": -1, "at": None}) == made.entry
        assert not shows_preview(running)
        assert "you asked · Enter expand · u undo" in running.text


async def test_esc_closes_and_f3_shows_the_same_proposal_without_another_draft(
    tmp_path: Path,
) -> None:
    async with live(
        tmp_path, summaries=("## Goal\n- once", "## Goal\n- twice")
    ) as running:
        await fill(running)
        await running.press("f3")
        made = await ready(running)
        await running.press("escape")
        await running.until(lambda: not shows_preview(running))
        assert "F3 review" in running.text
        await running.press("f3")
        await running.until(lambda: shows_preview(running))
        assert (proposal(running).id, len(running.llm.summary_requests)) == (made.id, 1)


async def test_the_program_goes_on_while_a_proposal_is_kept(tmp_path: Path) -> None:
    async with live(tmp_path, summaries=("## Goal\n- kept",)) as running:
        await fill(running)
        await running.press("f3")
        await ready(running)
        await running.press("escape")
        await running.ask("and meanwhile?")
        assert compactions(running) == []
        await running.press("f3")
        await running.until(lambda: shows_preview(running))
        await running.press("ctrl+s")
        await running.until(lambda: compactions(running))
        newest = [
            item.message.text for item in running.agent.session.projection.view[-2:]
        ]
        assert newest == ["and meanwhile?", "done"]


async def test_a_draft_begun_ahead_goes_on_counting_from_its_beginning(
    tmp_path: Path,
) -> None:
    clock, early = Clock(), BudgetSettings(soft_ratio=0.6)
    options = {
        "budget": early,
        "clock": clock,
        "window": 16_384,
        "summaries": (Hang("## Goal"),),
    }
    async with live(tmp_path, **options) as running:
        while not running.app.state.drafting_ahead:
            await running.ask(FULL)
        clock.now += 60
        await running.press("f3")
        await running.until(lambda: "drafting 1:00" in running.text)
        compacting = running.app.state.compacting
        assert compacting is not None and clock.now - compacting.since == 60
        assert len(running.llm.summary_requests) == 1


async def test_esc_stops_a_draft_that_is_made_ahead_beside_no_work(
    tmp_path: Path,
) -> None:
    early = BudgetSettings(soft_ratio=0.6)
    async with live(
        tmp_path, budget=early, window=16_384, summaries=(Hang("## Goal"),)
    ) as running:
        while not running.app.state.drafting_ahead:
            await running.ask(FULL)
        await running.until(lambda: ESC_CANCELS_DRAFT in running.text)
        await running.press("escape")
        await running.until(lambda: not running.app.state.drafting_ahead)
        assert not running.agent.state.compaction.draft.drafting
        assert (running.app.state.cancelling, compactions(running)) == (False, [])


@pytest.mark.quick
async def test_esc_while_the_draft_is_written_cancels_it(tmp_path: Path) -> None:
    async with live(tmp_path, summaries=(Hang("## Goal"),)) as running:
        await fill(running)
        await running.press("f3")
        await running.until(lambda: running.llm.silent.is_set())
        await running.drawn()
        assert "drafting" in running.text
        await running.press("escape")
        await running.at_rest()
        assert running.agent.state.compaction.review.proposal is None
        assert compactions(running) == []


async def test_a_draft_that_waits_for_a_retry_says_so_and_begins_anew_when_text_comes(
    tmp_path: Path,
) -> None:
    draft, clock = StreamedAnswer(), Clock()
    async with live(tmp_path, summaries=(draft,), clock=clock) as running:
        await fill(running)
        await running.press("f3")
        await running.until(lambda: running.llm.silent.is_set())
        draft.say("## Goal that breaks off")
        await running.until(lambda: "breaks off" in running.text)
        draft.retry("https://api.example.com/v1 broke off (503).", seconds=9.0)
        await running.until(lambda: "Trying again in 9 s · 1 of 3" in running.text)
        assert (
            "api.example.com broke off" in running.text
            and "waiting 0:00" in running.text
        )
        clock.now += 9
        draft.say("## Goal at last")
        await running.until(lambda: "at last" in running.text)
        await running.drawn()
        assert "breaks off" not in running.text and "Trying again" not in running.text
        assert WRITING.partition("{")[0] in running.text
        draft.end()
        await ready(running)


async def test_why_a_draft_failed_is_said_until_the_next_one_is_written(
    tmp_path: Path,
) -> None:
    # Refused as too long, the same model is asked again, in chunks.
    draft = StreamedAnswer()
    refused = overflow()
    async with live(tmp_path, summaries=(refused, draft)) as running:
        await fill(running)
        await running.press("f3")
        await running.until(lambda: running.llm.silent.is_set())
        await running.until(lambda: "in chunks" in running.text)
        await running.press("up")  # nor does the cursor take it away
        assert "in chunks" in running.text
        draft.say("## Goal")
        await running.until(lambda: WRITING.partition("{")[0] in running.text)
        assert "in chunks" not in running.text


async def test_what_is_heard_before_the_preview_is_mounted_is_shown_once_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Esc would close a preview that looks idle, and leave the draft running."""
    async with live(tmp_path, summaries=(Hang(),)) as running:
        await fill(running)
        assert running.app.chat.presenter.shown is not None
        previewing = running.app.chat.presenter.shown.previewing
        monkeypatch.setattr(running.app.chat.presenter, "_request_frame", lambda: None)
        previewing.open()
        previewing.on_event(events.CompactionStart(reason="manual", tokens_before=1))
        previewing.draw()
        shown = running.app.screen
        assert isinstance(shown, InspectorScreen)
        await running.until(lambda: shown.panels.draft.state.drafting is not None)
        await running.press("escape")
        await running.until(lambda: not running.agent.executor.busy)


@pytest.mark.quick
async def test_f3_during_a_compaction_for_a_prompt_holds_its_commit_until_it_is_applied(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    summary = Gate(opened, "## Goal\n- all of it")
    async with live(tmp_path, window=16_384, summaries=(summary,)) as running:
        await fill(running)
        await running.enter(f"And now. {FULL}")
        await running.until(lambda: running.llm.silent.is_set())
        await running.press("f3")
        await running.until(lambda: shows_preview(running))
        opened.set()
        await ready(running)
        assert compactions(running) == []
        assert WAITING in running.text
        assert "And now." in running.text  # the held prompt is the last row of the cut
        await running.press("ctrl+s")
        await running.until(lambda: len(running.llm.requests) == 7)
        await running.at_rest()
        assert len(compactions(running)) == 1
        asked = [
            entry.text for entry in running.entries if isinstance(entry, UserMessage)
        ]
        assert asked[-1].startswith("And now.")


async def test_in_the_mode_ask_a_prompt_waits_for_the_reader(tmp_path: Path) -> None:
    async with live(
        tmp_path, window=16_384, summaries=("## Goal\n- asked",), mode="ask"
    ) as running:
        await fill(running)
        await running.enter(f"And now. {FULL}")
        await ready(running)
        assert compactions(running) == []
        assert "1 held" in running.text
        assert "waits for you" in running.text
        await running.press("f3")
        await running.until(lambda: shows_preview(running))
        await running.press("ctrl+s")
        await running.until(lambda: len(running.llm.requests) == 7)
        assert len(compactions(running)) == 1


async def test_guidance_leads_to_another_draft_and_edits_to_another_text(
    tmp_path: Path,
) -> None:
    async with live(
        tmp_path, summaries=("## Goal\n- first draft", "## Goal\n- second draft")
    ) as running:
        await fill(running)
        await running.press("f3")
        first = await ready(running)
        await running.press("R")
        await running.pilot.pause()
        await running.press(*"name it", "enter")
        await running.until(lambda: proposal(running).id != first.id)
        await running.at_rest()
        assert "second draft" in proposal(running).notes
        assert "name it" in running.llm.summary_requests[-1].messages[-1].text
        assert "first draft" in running.llm.summary_requests[-1].messages[-1].text
        assert compactions(running) == []


async def test_another_draft_of_a_proposal_that_something_waits_for_is_seen_being_written(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    half = Hang("## Goal\n- half written")
    summaries = (Gate(opened, "## Goal\n- all of it"), half)
    async with live(tmp_path, window=16_384, summaries=summaries) as running:
        await fill(running)
        await running.enter(f"And now. {FULL}")
        await running.until(lambda: running.llm.silent.is_set())
        await running.press("f3")
        await running.until(lambda: shows_preview(running))
        opened.set()
        first = await ready(running)
        running.llm.silent.clear()
        await running.press("R", "enter")
        await running.until(lambda: running.llm.silent.is_set())
        await running.drawn()
        assert "drafting" in running.text
        assert "half written" in running.text
        await running.press("escape")
        await running.at_rest()
        await running.drawn()
        assert proposal(running) is first
        assert "drafting" not in running.text
        assert "waits for you" not in running.text
        assert compactions(running) == []


async def test_compact_with_preview_is_f3_and_takes_the_focus(tmp_path: Path) -> None:
    async with live(tmp_path, summaries=("## Goal\n- focused",)) as running:
        await fill(running)
        await running.enter("/compact --preview the parser")
        await ready(running)
        assert shows_preview(running)
        assert (
            "Additional focus: the parser"
            in running.llm.summary_requests[0].messages[-1].text
        )


async def test_with_nothing_to_compact_the_chat_says_so(tmp_path: Path) -> None:
    async with live(tmp_path) as running:
        await running.press("f3")
        await running.drawn()
        assert not shows_preview(running)
        assert NOTHING_TO_COMPACT in running.text


async def test_f3_twice_during_a_turn_writes_one_draft(tmp_path: Path) -> None:
    answer = StreamedAnswer()
    async with live(tmp_path, summaries=("## Goal\n- once",)) as running:
        await fill(running)
        running.llm.script.append(answer)
        await running.enter("And now.")
        await running.until(lambda: running.agent.executor.busy)
        for _ in range(2):
            await running.press("f3")
            await running.until(lambda: shows_preview(running))
            await running.press("f3")
            await running.until(lambda: not shows_preview(running))
        answer.end()
        await ready(running)
        await running.at_rest()
        assert len(running.llm.summary_requests) == 1


async def test_f2_shows_the_entries_after_the_list_by_size(tmp_path: Path) -> None:
    async with live(tmp_path) as running:
        await running.ask("Hello.")
        await running.press("f4")
        await running.drawn()
        screen = running.app.screen
        assert isinstance(screen, InspectorScreen) and screen.panels.by_size
        await running.press("f2")
        await running.drawn()
        assert running.app.screen is screen and not screen.panels.by_size
        await running.press("f2")
        await running.drawn()
        assert running.app.screen is not screen


async def test_with_nothing_to_compact_the_inspector_says_so(tmp_path: Path) -> None:
    async with live(tmp_path) as running:
        await running.press("f2")
        await running.drawn()
        await running.press("f3")
        await running.drawn()
        assert isinstance(running.app.screen, InspectorScreen)
        assert NOTHING_TO_COMPACT in running.text


async def test_nothing_is_committed_under_the_eyes_of_who_looks_at_the_preview(
    tmp_path: Path,
) -> None:
    async with live(
        tmp_path, window=16_384, summaries=(Hang(), "## Goal\n- while I look")
    ) as running:
        await fill(running)
        await running.press("f3")
        await running.until(lambda: running.llm.silent.is_set())
        await running.press("escape")  # the draft; the screen stays
        await running.at_rest()
        assert shows_preview(running)
        assert running.app.runner is not None
        running.app.runner.send(FULL)
        await ready(running)
        assert compactions(running) == []
        await running.press("ctrl+s")
        await running.until(lambda: compactions(running))


async def test_a_preview_during_a_turn_waits_for_its_end_and_aborts_nothing(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    async with live(tmp_path, summaries=("## Goal\n- later",)) as running:
        await fill(running)
        running.llm.script.append(Gate(opened, "the answer"))
        await running.enter("slowly")
        await running.until(lambda: running.llm.silent.is_set())
        await running.press("f3")
        await running.until(lambda: shows_preview(running))
        assert running.agent.state.compaction.review.proposal is None
        opened.set()
        await ready(running)
        assert running.entries[-2].type == "assistant"
        assert compactions(running) == []


async def test_the_entry_of_a_lost_fact_opens_in_the_inspector(tmp_path: Path) -> None:
    async with live(tmp_path, summaries=("## Goal\n- go on",)) as running:
        running.agent.state.compaction.ledger = SessionLedger(
            Ledger(score=lambda *_: 0.0)
        )  # which would keep it
        await running.ask(
            f"{FULL[:3_000]} Look at deploy/nginx/upstream.conf first. {FULL[3_000:]}"
        )
        await fill(running, 5)
        await running.press("f3")
        made = await ready(running)
        assert made.audit.lost
        await running.press("3", "o")
        await running.until(lambda: "1 History" in running.text)
        await running.press("escape")
        await running.until(lambda: shows_preview(running))


# --- choices -----------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_a_choice_is_answered_from_the_dock(tmp_path: Path) -> None:
    from foldline.llm import ContextOverflow

    refusal = ContextOverflow("The server refused the request as too long.", status=400)
    async with live(
        tmp_path, summaries=("## Goal\n- compacted by choice",), mode="off"
    ) as running:
        await fill(running)
        running.llm.script.extend([refusal, "it went through"])
        await running.enter("and now?")
        await running.until(lambda: running.app.state.question is not None)
        await running.drawn()
        assert AUTO_OFF in running.text
        assert "Compact now" in running.text
        running.app._clock.now += 2  # type: ignore[attr-defined]
        await running.press("1")
        await running.at_rest()
        assert len(compactions(running)) == 1
        assert "it went through" in running.text


@pytest.mark.quick
async def test_an_edit_and_its_undo_from_the_inspector_reach_the_history(
    tmp_path: Path,
) -> None:
    async with live(tmp_path) as running:
        await running.ask("the first one")
        await running.ask("the second one")
        await running.press("f2")
        await running.pilot.pause()
        await running.press("p")
        await running.until(lambda: running.agent.session.projection.pins)
        await running.press("u")
        await running.until(lambda: not running.agent.session.projection.pins)


@pytest.mark.parametrize("command", ["clear", "undo"])
async def test_a_proposal_that_was_kept_is_advertised_no_more_once_the_view_is_another(
    tmp_path: Path, command: str
) -> None:
    async with live(tmp_path) as running:
        await fill(running)
        if command == "undo":
            await running.enter("/compact")
            await running.until(lambda: compactions(running))
            await running.at_rest()
            await fill(running, 3)
        await running.press("f3")
        made = await ready(running)
        await running.press("escape")
        await running.until(lambda: "waits for you" in running.text)
        await running.ask("and now?")
        assert proposal(running).id == made.id, "it has only grown"
        assert (
            f"→ {numbers.tokens(proposal(running).entry.tokens_after)} · waits for you"
            in running.text
        )
        await running.enter(f"/{command}")
        await running.until(
            lambda: running.agent.state.compaction.review.proposal is None
        )
        await running.at_rest()
        assert "waits for you" not in running.text
