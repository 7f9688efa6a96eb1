"""The preview on a screen: what keys ask for, what is never lost, what fits where."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from foldline.compaction import Proposal, plan
from foldline.compaction.proposal import REJECTED
from foldline.compaction.rewrite import NOT_SMALLER
from foldline.compaction.summary_text import ledger_of
from foldline.protocol.operations import (
    ApplyProposal,
    DiscardProposal,
    RedraftProposal,
    ReviseProposal,
)
from foldline.tui.browser.draft.mode import (
    CANNOT_PIN,
    DISCARD,
    DRAFT_ENDED,
    DRAFT_WAITS,
    KEEP_TEXT,
    NO_CUT,
    ONLY_DRAFT,
    STALE,
    TEXT_AND_DRAFT,
    TEXT_NOT_USED,
    UPDATING,
)
from foldline.tui.browser.draft.panel import NO_SUMMARY
from foldline.tui.browser.draft.rows import IN_FOCUS_STALE
from foldline.tui.browser.draft.state import Drafting, DraftState
from foldline.tui.browser.draft.words import CANNOT_EDIT, ENTER_CUTS_AT, PINS, WRITING
from foldline.tui.browser.keys import KEYS, KeyState, hints
from foldline.tui.browser.panels.entry_list import row_key
from foldline.tui.keys.typed_ahead import TOO_SOON
from foldline.tui.messages import CancelRequested
from foldline.tui.overlays.help import HelpScreen
from support.chat_app import screen_text
from support.hiding import HidingAllBut
from support.previews import BUDGET, NOTES, PreviewApp, orders, proposal_for

pytestmark = pytest.mark.slow

WIDE, TALL, SMALL = (120, 36), (120, 40), (80, 24)
HELD = "Now the same for POST /orders/{id}/cancel"


async def state(**changes: object) -> DraftState:
    story = orders()
    shown = DraftState(
        reason="threshold",
        proposal=await proposal_for(story),
        projection=story.projection(),
        waits=True,
        held=HELD,
        window=16_384,
    )
    return replace(shown, **changes)


@asynccontextmanager
async def running(
    shown: DraftState | None = None,
    size: tuple[int, int] = WIDE,
    *,
    revises: bool = True,
) -> AsyncIterator[tuple[PreviewApp, Pilot[None]]]:
    app = PreviewApp(shown or await state(), revises=revises)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


def text(app: PreviewApp) -> str:
    return "\n".join(screen_text(app))


def status(app: PreviewApp) -> str:
    return screen_text(app)[-2].strip()


def shown(app: PreviewApp) -> Proposal:
    made = app.state.proposal
    assert made is not None
    return made


# --- the cut ------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_plus_and_minus_move_the_cut_by_a_cut_point() -> None:
    async with running() as (app, pilot):
        await pilot.press("+")
        assert (
            isinstance(app.posted[-1], ReviseProposal)
            and app.posted[-1].first_kept_index == 12
        )
        await pilot.pause()
        assert "─◆ cut 12 ·" in text(app) and "stale: made for cut 13" in text(app)
        await pilot.press("-")
        assert (
            isinstance(app.posted[-1], ReviseProposal)
            and app.posted[-1].first_kept_index == 13
        )


async def test_keys_pressed_while_a_change_is_worked_out_are_not_lost() -> None:
    async with running(revises=False) as (app, pilot):
        before = shown(app)
        await pilot.press("+", "+", "+")
        assert [type(event) for event in app.posted] == [ReviseProposal]
        assert UPDATING in text(app)
        app.show(proposal=before.moved(12))
        await pilot.pause()
        assert (
            isinstance(app.posted[-1], ReviseProposal)
            and app.posted[-1].first_kept_index == 8
        )
        assert app.posted[-1].proposal == shown(app).id


async def test_a_cut_that_moves_stays_in_sight() -> None:
    async with running(size=(80, 14)) as (app, pilot):
        await pilot.press("end")
        for _ in range(4):
            await pilot.press("+")
            await pilot.pause()
        assert "─◆ cut 5 ·" in text(app)


@pytest.mark.quick
async def test_enter_cuts_at_the_nearest_cut_point_at_or_before_the_cursor() -> None:
    async with running() as (app, pilot):
        await pilot.press("down", "enter")  # 14 is no cut point, its request is
        assert app.posted == []
        await pilot.press(*["up"] * 4, "enter")  # 10, and 9 is the prompt before it
        assert (
            isinstance(app.posted[-1], ReviseProposal)
            and app.posted[-1].first_kept_index == 9
        )


async def test_the_status_row_says_what_enter_would_compact_before_it_is_pressed() -> (
    None
):
    async with running() as (app, pilot):
        await pilot.press("[")
        cut = ENTER_CUTS_AT.format(index=9, before="2.1k", after="1.0k", key="R")
        pin = PINS.format(key="p", what="9", change="+14", size="1.5k")
        assert f"{cut} {pin}" in status(app)


async def test_where_no_more_can_be_kept_the_status_row_says_so() -> None:
    async with running() as (app, pilot):
        for _ in range(5):
            await pilot.press("+")
            await pilot.pause()
        assert "first cut point" in status(app)


@pytest.mark.quick
async def test_p_pins_a_tool_group_and_takes_that_back() -> None:
    async with running() as (app, pilot):
        await pilot.press("up", "up", "p")  # the result 11
        await pilot.pause()
        assert shown(app).pins == {10, 11} and shown(app).state == "current"
        await pilot.press("p")
        await pilot.pause()
        assert shown(app).pins == frozenset()


async def test_what_was_pinned_before_is_not_unpinned_here() -> None:
    async with running() as (app, pilot):
        await pilot.press("home", "down", "down", "p")
        assert app.posted == [] and status(app).startswith(CANNOT_PIN)


async def test_a_compaction_without_a_cut_has_none_to_move() -> None:
    story = orders()
    made = await proposal_for(story, strategy=HidingAllBut(keep=1), reason="manual")
    async with running(DraftState(proposal=made, projection=story.projection())) as (
        app,
        pilot,
    ):
        await pilot.press("+", "-", "home", "enter", "e")
        assert app.posted == []
        assert NO_CUT in text(app) and CANNOT_EDIT in text(app)
        assert "Ctrl+S apply" in text(app) and "+ - cut" not in text(app)


async def test_a_compaction_that_writes_no_text_says_so_also_where_nothing_was_shown_before() -> (
    None
):
    story = orders()
    made = await proposal_for(story, strategy=HidingAllBut(keep=1), reason="manual")
    async with running(DraftState(projection=story.projection())) as (app, pilot):
        await pilot.pause()
        app.show(proposal=made)
        await pilot.pause()
        assert NO_SUMMARY[:40] in text(app) and "R new draft" not in text(app)


async def test_f2_shows_the_entries_and_f3_the_same_draft_again() -> None:
    async with running() as (app, pilot):
        before = text(app)
        await pilot.press("f2")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "1 History" in text(app) and "1 Cut" not in text(app)
        await pilot.press("f3")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert text(app) == before


async def test_f4_lists_the_view_by_size_and_f3_goes_back_to_the_draft() -> None:
    async with running() as (app, pilot):
        await pilot.press("f4")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "1 Use" in text(app) and "1 Cut" not in text(app)
        await pilot.press("f3")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "─◆ cut 13 ·" in text(app)


# --- the audit ----------------------------------------------------------------------------------------


async def test_enter_pins_the_whole_tool_group_after_the_status_row_has_said_so() -> (
    None
):
    async with running() as (app, pilot):
        await pilot.press("3")
        effect = PINS.format(key="p", what="10–11", change="+1.0k", size="2.5k")
        assert effect in status(app)
        await pilot.press("enter")
        assert isinstance(app.posted[-1], ReviseProposal) and app.posted[-1].pins == (
            10,
            11,
        )
        await pilot.pause()
        assert "4 of 5 facts lost" in text(app) and "0.3k · current" in text(app)


async def test_pins_that_leave_nothing_smaller_are_refused() -> None:
    async with running() as (app, pilot):
        await pilot.press("3", "enter")
        await pilot.pause()
        before = shown(app)
        await pilot.press("enter")
        await pilot.pause()
        assert shown(app) is before and NOT_SMALLER in status(app)


@pytest.mark.quick
async def test_f_adds_to_the_focus_and_the_row_says_that_r_drafts_it() -> None:
    async with running(await state(focus="money")) as (app, pilot):
        await pilot.press("3", "end", "F")
        event = app.posted[-1]
        assert isinstance(event, ReviseProposal)
        assert event.focus == "money; OrderReplayed"
        await pilot.pause()
        assert IN_FOCUS_STALE.format(key="R") in text(app) and "stale" in text(app)


@pytest.mark.quick
async def test_o_shows_the_entry_in_history_and_esc_returns_to_the_draft() -> None:
    async with running() as (app, pilot):
        for keys, index in (("o", 13), ("3o", 11)):
            await pilot.press(*keys)
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert not app.panels.in_draft
            assert app.panels.history.view.cursor == row_key(index)
            assert "Esc back to the draft" in text(app)
            await pilot.press("escape")
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert "─◆ cut 13 ·" in text(app)


async def test_a_fact_shows_its_turn_in_the_cut_and_a_turn_its_fact() -> None:
    async with running() as (app, pilot):
        await pilot.press("3")
        await pilot.pause()
        assert (
            next(line for line in screen_text(app) if "▷" in line)
            .lstrip("│")
            .lstrip()
            .startswith("▷S┊    11")
        )
        await pilot.press("1", "up", "up", "up")  # from 11 to 8
        await pilot.pause()
        assert "▷lost  number     412 ms" in text(app)


# --- the text -----------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_what_the_reader_writes_replaces_the_draft_byte_for_byte() -> None:
    async with running() as (app, pilot):
        await pilot.press("e", "M", "i", "n", "e", "x", "R", "escape")
        assert isinstance(app.posted[-1], ReviseProposal) and app.posted[
            -1
        ].notes.startswith("MinexR## Goal")
        await pilot.pause()
        assert shown(app).notes == app.posted[-1].notes.strip()
        assert "· edited" in text(app) and "MinexR## Goal" in text(app)
        await pilot.press("ctrl+s")
        assert (
            isinstance(app.posted[-1], ApplyProposal)
            and app.posted[-1].proposal == shown(app).id
        )


async def test_enter_in_the_draft_edits_at_the_line_of_the_cursor() -> None:
    async with running() as (app, pilot):
        await pilot.press("2", "home", "down", "enter", "#")
        await pilot.press("escape")
        assert isinstance(app.posted[-1], ReviseProposal)
        assert (
            app.posted[-1].notes.split("\n")[1]
            == "#POST /orders idempotent per customer"
        )


@pytest.mark.parametrize(
    "keys", [("ctrl+g",), ("e", "h", "i", "ctrl+g")], ids=["draft", "field"]
)
async def test_the_draft_goes_to_the_readers_own_editor_and_comes_back(
    keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lent: list[str] = []

    def edited(app: object, given: str, remark: object) -> str:
        lent.append(given)
        return f"{given}\n\x1b[2Jone more line"

    monkeypatch.setattr("foldline.tui.browser.panels.app_actions.edited", edited)
    async with running() as (app, pilot):
        await pilot.press(*keys)
        await pilot.pause()
        assert lent[0] == ("hi" if len(keys) > 1 else "") + NOTES
        taken = app.posted[-1]
        assert isinstance(taken, ReviseProposal) and taken.notes.endswith(
            "one more line"
        )
        assert "\x1b" not in taken.notes and not app.panels.draft.panel.editor.display
        assert "edited" in text(app)


async def test_leaving_the_text_as_it_was_asks_for_nothing() -> None:
    async with running() as (app, pilot):
        await pilot.press("e", "escape", "e", "ctrl+s", "e", "tab")
        assert app.posted == [] and not app.panels.draft.panel.editor.display


async def test_a_text_that_is_not_taken_is_kept_for_the_next_try() -> None:
    async with running(revises=False) as (app, pilot):
        await pilot.press("e", "h", "i", "escape")
        app.show(error=REJECTED.format(NOT_SMALLER))
        await pilot.pause()
        assert "not smaller" in status(app)
        await pilot.press("ctrl+s")
        not_used = TEXT_NOT_USED.format(edit="e", redraft="R", discard="X")
        assert status(app).startswith(not_used)
        assert not isinstance(app.posted[-1], ApplyProposal)
        await pilot.press("e")
        assert app.panels.draft.panel.editor.text.startswith("hi## Goal")


async def test_the_same_failure_twice_is_said_twice_and_blocks_nothing() -> None:
    async with running(revises=False) as (app, pilot):
        for _ in range(2):
            await pilot.press("e", "h", "i", "escape")
            app.show(error="No.")
            await pilot.pause()
            assert status(app) == "No."
            await pilot.press("down")
        assert [type(event) for event in app.posted] == [ReviseProposal, ReviseProposal]


async def test_d_shows_what_the_draft_changes_in_the_earlier_summary() -> None:
    from support.scenes import shop_api

    story = shop_api()
    made = await proposal_for(story)
    async with running(DraftState(proposal=made, projection=story.projection())) as (
        app,
        pilot,
    ):
        assert "d compare" in text(app)
        await pilot.press("d")
        await pilot.pause()
        assert "− POST /orders and cancel idempotent per customer" in text(app)
        await pilot.press("d")
        await pilot.pause()
        assert "− POST" not in text(app)


# --- drafting -----------------------------------------------------------------------------------------


# --- the ledger ---------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [WIDE, SMALL], ids=["wide", "small"])
async def test_a_line_of_the_ledger_is_pinned_unpinned_dropped_and_opened_under_the_cursor(
    size: tuple[int, int],
) -> None:
    made = await proposal_for(orders(), reason="manual", ledger=True)
    async with running(await state(proposal=made), size) as (app, pilot):
        assert f"{made.audit.in_ledger} in the ledger" in text(app) or size == SMALL
        await pilot.press("2", "end", "up")
        await pilot.pause()
        draft = app.panels.draft.panel
        line = draft.ledger_line
        assert line is not None and "keeps it in later compactions" in status(app)
        for pinned in (True, False):
            await pilot.press("p")
            await pilot.pause()
            assert draft.ledger_line == line, "the cursor stays on its line"
            assert draft.is_pinned(line) is pinned
        await pilot.press("delete")
        await pilot.pause()
        lines, _ = ledger_of(shown(app).entry.summary)
        assert line not in lines and line in ledger_of(made.entry.summary)[0]
        assert shown(app).state == "edited" and shown(app).notes == NOTES


async def test_a_draft_without_a_ledger_has_no_keys_for_one() -> None:
    async with running() as (app, pilot):
        await pilot.press("2", "end", "p", "delete")
        assert app.posted == [] and "ledger" not in text(app)


async def drafting(words: str = "") -> DraftState:
    story = orders()
    projection = story.projection()
    planned = plan(projection, BUDGET, "threshold")
    return DraftState(
        plan=planned, projection=projection, drafting=Drafting(88.0, words), held=HELD
    )


@pytest.mark.quick
async def test_a_draft_streams_in_below_its_plan() -> None:
    async with running(await drafting()) as (app, pilot):
        for count in range(1, 60):
            app.show(
                drafting=Drafting(88.0, "\n".join(f"- line {n}" for n in range(count)))
            )
        await pilot.pause()
        assert "drafting 0:12" in text(app) and "─◆ cut 13 ·" in text(app)
        assert "- line 58" in text(app) and "- line 2 " not in text(app)


async def test_a_draft_that_grows_draws_only_its_last_line_again() -> None:
    async with running(await drafting()) as (app, pilot):
        view = app.panels.draft.panel.view
        app.show(drafting=Drafting(88.0, "\n".join(f"- line {n}" for n in range(15))))
        await pilot.pause()
        before = view.rendered
        for count in range(10):
            app.show(
                drafting=Drafting(
                    88.0, "\n".join(f"- line {n}" for n in range(15)) + "!" * count
                )
            )
            await pilot.pause()
        assert view.rendered - before <= 20


async def test_the_finished_draft_takes_the_place_of_the_streamed_one() -> None:
    made = (await state()).proposal
    assert made is not None
    async with running(await drafting(made.notes), (120, 44)) as (app, pilot):
        app.show(drafting=None, proposal=made)
        await pilot.pause()
        assert text(app).count("## Goal") == 1 and "· current" in text(app)
        assert "modified-files 2" in text(app) and "6 of 7 facts lost" in text(app)


@pytest.mark.parametrize("size", [SMALL, TALL])
async def test_a_finished_draft_is_read_from_its_start(size: tuple[int, int]) -> None:
    made = (await state()).proposal
    assert made is not None
    long = made.revised(notes=f"first line\n{NOTES}")
    async with running(await state(proposal=long), size) as (app, pilot):
        await pilot.press("2")
        await pilot.pause()
        assert "first line" in text(app)


@pytest.mark.quick
async def test_esc_cancels_a_draft_and_nothing_else_is_decided_meanwhile() -> None:
    async with running(await drafting()) as (app, pilot):
        await pilot.press("ctrl+s", "X", "X", "R", "+", "enter", "e", "p")
        assert app.posted == []
        await pilot.press("escape")
        assert [type(event) for event in app.posted] == [CancelRequested]
        assert app.screen is app.preview


async def test_before_the_draft_is_begun_the_status_row_says_what_it_waits_for() -> (
    None
):
    begun = await drafting()
    async with running(replace(begun, drafting=None)) as (app, pilot):
        assert status(app) == DRAFT_WAITS
        app.show(drafting=begun.drafting)
        await pilot.pause()
        assert status(app).startswith(WRITING.format(elapsed="0:12"))
        app.show(drafting=None, error="No.")
        await pilot.press("down")
        assert status(app).startswith(DRAFT_ENDED)


async def test_the_earlier_proposal_is_there_again_after_a_cancelled_draft() -> None:
    async with running() as (app, pilot):
        app.show(drafting=Drafting(99.0, "another"))
        await pilot.pause()
        assert "another" in text(app)
        app.show(drafting=None)
        await pilot.pause()
        assert "POST /orders idempotent per customer" in text(
            app
        ) and "current" in text(app)


# --- deciding -----------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_a_stale_draft_is_not_applied() -> None:
    async with running() as (app, pilot):
        await pilot.press("+")
        await pilot.pause()
        await pilot.press("ctrl+s")
        assert status(app).startswith(STALE.format(key="R"))
        assert [type(event) for event in app.posted] == [ReviseProposal]


@pytest.mark.quick
async def test_r_asks_for_guidance_and_drafts() -> None:
    async with running() as (app, pilot):
        await pilot.press("R", "k", "e", "e", "p", "enter")
        event = app.posted[-1]
        assert isinstance(event, RedraftProposal) and event.guidance == "keep"
        await pilot.press("R", "enter")
        assert (
            isinstance(app.posted[-1], RedraftProposal)
            and app.posted[-1].guidance is None
        )


async def test_the_guidance_for_an_edited_draft_suggests_to_keep_its_text() -> None:
    async with running() as (app, pilot):
        await pilot.press("e", "h", "i", "escape")
        await pilot.pause()
        await pilot.press("R", "enter")
        event = app.posted[-1]
        assert isinstance(event, RedraftProposal) and event.guidance == KEEP_TEXT


async def test_a_text_that_became_stale_is_suggested_too() -> None:
    made = (await proposal_for(orders())).revised(notes="mine").moved(12)
    async with running(await state(proposal=made)) as (app, pilot):
        await pilot.press("R")
        assert KEEP_TEXT in status(app)
        await pilot.press("escape")
        assert app.posted == [] and "R new draft" in text(app)


@pytest.mark.parametrize("panel", ["1", "2", "3"])
async def test_only_enter_throws_away_and_not_one_that_was_typed_ahead(
    panel: str,
) -> None:
    async with running() as (app, pilot):
        question = DISCARD.format(what=ONLY_DRAFT)
        await pilot.press(panel, "X")
        assert question in status(app)
        await pilot.press("enter")
        assert TOO_SOON in status(app)
        await pilot.press("X", *"tra line")
        app.clock.now += 1.1
        await pilot.press("enter")
        assert question not in status(app)
        await pilot.press("X", "escape")
        assert not [event for event in app.posted if isinstance(event, DiscardProposal)]
        await pilot.press("X")
        app.clock.now += 1.1
        await pilot.press("enter")
        assert isinstance(app.posted[-1], DiscardProposal)


async def test_throwing_away_names_a_text_of_the_readers_own() -> None:
    made = (await proposal_for(orders())).revised(notes="mine")
    async with running(await state(proposal=made)) as (app, pilot):
        await pilot.press("X")
        assert DISCARD.format(what=TEXT_AND_DRAFT) in status(app)


@pytest.mark.quick
async def test_esc_closes_the_screen_and_keeps_the_proposal() -> None:
    async with running() as (app, pilot):
        await pilot.press("escape")
        await pilot.pause()
        assert app.posted == [] and app.screen is not app.preview


async def test_esc_steps_out_of_one_thing_at_a_time() -> None:
    async with running() as (app, pilot):
        await pilot.press("/", "F", "i", "x", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "“Fix”" in status(app) and "Esc end search" in text(app)
        await pilot.press("R", "escape", "escape", "e", "escape")
        assert app.posted == [] and app.screen is app.preview
        await pilot.press("f3")
        await pilot.pause()
        assert app.screen is not app.preview


async def test_search_goes_to_the_next_row_that_holds_it() -> None:
    async with running() as (app, pilot):
        await pilot.press("3", "/", "k", "6", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "▶lost  command    k6 run" in text(app)


# --- looks --------------------------------------------------------------------------------------------


async def test_exactly_one_panel_has_the_heavy_frame_and_the_cursor() -> None:
    async with running() as (app, pilot):
        for key in ("tab", "tab", "tab", "shift+tab", "2", "1"):
            await pilot.press(key)
            await pilot.pause()
            assert text(app).count("┏") == 1 and text(app).count("▶") == 1


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "size",
    [
        (200, 60),
        (120, 36),
        (119, 36),
        (120, 30),
        (100, 50),
        (80, 24),
        (60, 16),
        (40, 10),
    ],
)
async def test_at_any_size_the_panel_with_the_focus_is_there_and_status_and_hints_stay(
    size: tuple[int, int],
) -> None:
    async with running(size=size) as (app, pilot):
        for key, title in (("1", "1 Cut"), ("2", "2 Draft"), ("3", "3 Audit")):
            await pilot.press(key)
            await pilot.pause()
            assert f"┏━ {title}" in text(app), text(app)
            assert "Esc close" in screen_text(app)[-1]


async def test_a_terminal_that_grows_again_shows_all_rows_again() -> None:
    async with running(size=TALL) as (app, pilot):
        await pilot.press("end")
        await pilot.resize_terminal(50, 12)
        await pilot.pause()
        assert "You are careful." not in text(app)
        await pilot.resize_terminal(*TALL)
        await pilot.pause()
        assert "You are careful." in text(app)


async def test_a_fact_that_comes_to_be_lost_is_seen_where_it_stands_first() -> None:
    async with running() as (app, pilot):
        made = shown(app)
        first, *others = made.audit.lost
        for lost in (others, [first, *others]):
            app.show(
                proposal=replace(made, audit=replace(made.audit, lost=tuple(lost)))
            )
            await pilot.pause()
        assert first.text in text(app)


async def test_a_terminal_that_is_too_small_says_so() -> None:
    async with running(size=(30, 8)) as (app, pilot):
        assert "Too small" in text(app)
        await pilot.resize_terminal(120, 36)
        await pilot.pause()
        assert "┏━ 1 Cut" in text(app)
        await pilot.press("+")
        assert [type(event) for event in app.posted] == [ReviseProposal]


async def test_a_prompt_that_comes_to_be_held_moves_nothing_above_it() -> None:
    async with running(await state(held=None), TALL) as (app, pilot):
        before = screen_text(app)
        app.show(held=HELD)
        await pilot.pause()
        changed = [
            row
            for row, (old, new) in enumerate(zip(before, screen_text(app), strict=True))
            if old != new
        ]
        assert (
            len(changed) == 1 and "held    Now the same" in screen_text(app)[changed[0]]
        )


@pytest.mark.quick
async def test_foreign_text_is_no_markup_and_no_control() -> None:
    async with running(await state(held="[/nope] \x1b[31m")) as (app, pilot):
        app.show(error="It failed: [/b] \x1b[0m")
        await pilot.pause()
        assert "[/nope] ␛" in text(app) and "It failed: [/b] ␛" in text(app)


# --- keys ---------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_no_key_means_two_things() -> None:
    keys = [name for key in KEYS for name in key.keys]
    assert len(keys) == len(set(keys))


@pytest.mark.quick
def test_every_key_of_a_draft_has_an_action() -> None:
    panels = PreviewApp(DraftState()).panels
    own = {key.id for key in KEYS if key.group == "Draft"}
    assert own < {*panels.draft.actions}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("panel", [0, 1, 2])
def test_hints_offer_only_what_works(panel: int) -> None:
    facts = KeyState(
        in_draft=True,
        panel=panel,
        decides=True,
        is_stale=True,
        has_cut=True,
        on_row=True,
        is_editable=True,
    )
    words = [word for _, word in hints(facts)]
    assert "apply" not in words and ("add to focus" in words) == (panel == 2)
    drafting = [word for _, word in hints(replace(facts, decides=False))]
    assert drafting == ["panel", "search", "keys", "close"]


async def test_help_lists_every_key() -> None:
    async with running() as (app, pilot):
        await pilot.press("?")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen) and "Help · Inspector" in text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.preview
