"""The Context screen in the running program: linked panels, edits with one key, live while work goes on."""

from pathlib import Path

from textual.pilot import Pilot

from foldline.protocol import Edit
from foldline.tui.inspector import InspectorScreen
from foldline.tui.preview.screen import PreviewScreen
from foldline.tui.screens.context import LARGEST, ContextScreen
from support.live import Spoken
from support.scenes import Scene, scene, shop_api
from support.stories import screen_rows

WIDE, SMALL = (120, 36), (80, 24)


async def opened(made: Scene, pilot: Pilot[None], *keys: str) -> ContextScreen:
    await made.ready(pilot)
    await pilot.press("f4")
    await made.until(pilot, lambda: isinstance(made.app.screen, ContextScreen))
    shown = made.app.screen
    assert isinstance(shown, ContextScreen)
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    return shown


def status(shown: ContextScreen) -> str:
    return screen_rows(shown.app)[-2]


async def test_it_opens_on_the_largest_and_enter_on_a_category_goes_to_its_largest(tmp_path: Path) -> None:
    made = scene(tmp_path, shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        shown = await opened(made, pilot)
        assert shown.panels.item is not None and shown.panels.item is shown.panels.state.items[0]
        await pilot.press("1", "home", "down", "enter")  # instruction files
        assert shown.panels.item is not None and shown.panels.item.outline.type == "developer"
        await pilot.press("x")  # no edit applies, and it is said why
        assert "no edit applies" in status(shown) and made.agent.session.projection.fate(1).kind == "live"
        await pilot.press("1", "end", "enter")
        assert shown.panels.row is not None and "None of the" in status(shown)


async def test_one_key_hides_shows_and_undoes_and_its_price_was_said_before(tmp_path: Path) -> None:
    made = scene(tmp_path, shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        shown = await opened(made, pilot)
        target, before = shown.panels.state.items[0], shown.panels.state.usage.size.tokens
        await made.until(pilot, lambda: f"{target.index} L" in status(shown))
        assert "z hide −22.5k" in status(shown)
        await pilot.press("z")
        await made.until(pilot, lambda: shown.panels.state.usage.size.tokens < before - 20_000)
        assert made.agent.session.projection.fate(target.index).kind == "hidden"
        assert (
            shown.panels.item is not None and shown.panels.item.index == target.index
        )  # the cursor stays on its entry
        assert made.app.state.room.size == shown.panels.state.usage.size.tokens
        await pilot.press("u")
        await made.until(pilot, lambda: shown.panels.state.items[0].index == target.index)


async def test_what_comes_while_it_is_open_is_shown_and_its_edits_wait_for_the_turn(tmp_path: Path) -> None:
    spoken = Spoken()
    made = scene(tmp_path, shop_api(), spoken, window=262_144)
    async with made.app.run_test(size=WIDE) as pilot:
        await made.ready(pilot)
        before = made.app.state.room.size
        await made.enter(pilot, "Now the same for cancel. " * 200)
        await made.until(pilot, lambda: made.llm.silent.is_set())
        shown = await opened(made, pilot)
        await made.until(pilot, lambda: shown.panels.state.usage.size.tokens > before)
        assert shown.panels.state.doing == "request in flight"
        await pilot.press("z")
        assert "after this turn" in status(shown)
        spoken.say("Done.")
        spoken.end()
        await made.until(pilot, lambda: not shown.panels.state.doing)
        await made.until(
            pilot, lambda: any(isinstance(e, Edit) and e.action == "hide" for e in made.agent.session.entries)
        )
        await made.until(pilot, lambda: shown.panels.state.room.size == made.app.state.room.size)


async def test_the_screens_it_leads_to_and_the_way_back(tmp_path: Path) -> None:
    made = scene(tmp_path, shop_api())
    async with made.app.run_test(size=SMALL) as pilot:
        shown = await opened(made, pilot)
        assert [panel.display for panel in shown.panels.panels] == [True, False]  # one at a time, Use first
        await pilot.press("tab")
        assert [panel.display for panel in shown.panels.panels] == [
            False,
            True,
        ] and shown.panels.active == LARGEST
        await pilot.press("enter")
        await made.until(pilot, lambda: isinstance(made.app.screen, InspectorScreen))
        await pilot.press("escape")
        assert made.app.screen is shown
        await pilot.press("slash", *"alembic", "enter")
        await made.until(pilot, lambda: shown.panels.item is not None and "alembic" in status(shown))
        await pilot.press("escape", "f3")
        await made.until(pilot, lambda: isinstance(made.app.screen, PreviewScreen))
        await pilot.press("escape")
        await made.until(pilot, lambda: made.app.screen is shown)
        await pilot.press("f4")
        assert made.app.screen is made.app.chat and made.app.focused is made.app.chat.prompt.editor


async def test_an_empty_session_and_a_window_too_small_to_work_in(tmp_path: Path) -> None:
    made = scene(tmp_path, window=1_500)
    async with made.app.run_test(size=SMALL) as pilot:
        shown = await opened(made, pilot)
        rows = screen_rows(made.app)
        assert "too small to work in" in rows[2] and "FOLDLINE_CONTEXT_WINDOW" in rows[3]
        await pilot.press("p", "z", "x", "r", "u", "o", "2", "p", "o", "enter", "f2")
        await made.until(pilot, lambda: isinstance(made.app.screen, InspectorScreen))
        await pilot.resize_terminal(39, 9)
        await pilot.press("escape")
        await made.until(pilot, lambda: made.app.screen is shown)
        assert "Too small" in screen_rows(made.app)[0]
