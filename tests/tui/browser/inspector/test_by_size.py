"""The Inspector by size in the running program: categories, edits with one key, live while work goes on."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from foldline.protocol import Edit
from foldline.tui.browser.inspector.link import HISTORY, VIEW
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.panels.edit_hints import PREAMBLE
from foldline.view.items import ViewItem
from foldline.view.weight import item_weight
from support.live import StreamedAnswer
from support.scenes import Scene, look_at_the_context, scene, shop_api
from support.stories import PanelsApp, screen_rows

pytestmark = pytest.mark.slow

WIDE, SMALL = (120, 36), (80, 24)


async def opened(made: Scene, pilot: Pilot[None], *keys: str) -> InspectorPanels:
    await made.ready(pilot)
    panels = await look_at_the_context(made, pilot)
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    return panels


def status(made: Scene) -> str:
    return screen_rows(made.app)[-2]


def item(panels: InspectorPanels) -> ViewItem:
    """The item at the cursor."""
    cursor = panels.view.view.cursor
    assert cursor is not None
    return next(each for each in panels.projection.view if each.index == cursor[0])


def weights(panels: InspectorPanels) -> list[int]:
    items = [panels.view._items[number] for number in range(len(panels.view))]
    return [item_weight(panels.projection, each).tokens for each in items]


@pytest.mark.quick
async def test_it_opens_on_the_largest_and_enter_on_a_category_goes_to_its_largest(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path, shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        panels = await opened(made, pilot)
        largest = item(panels)
        assert weights(panels) == sorted(weights(panels), reverse=True)
        assert item_weight(panels.projection, largest).tokens == weights(panels)[0]
        await pilot.press("1", "home", "down", "enter")  # instruction files
        assert item(panels).outline.type == "developer"
        await pilot.press("x")  # no edit applies, and it is said why
        assert (
            PREAMBLE.format(index=1) in status(made)
            and made.agent.session.projection.fate(1).kind == "live"
        )
        await pilot.press("1", "end", "enter")
        assert panels.active == HISTORY and "no items of the category" in status(made)


@pytest.mark.quick
async def test_one_key_hides_shows_and_undoes_and_its_price_was_said_before(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path, shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        panels = await opened(made, pilot)
        target, before = item(panels).index, panels.use.shown.room.size
        await made.until(pilot, lambda: f"{target} L" in status(made))
        assert "z hide −22.5k" in status(made)
        await pilot.press("z")
        await made.until(pilot, lambda: panels.use.shown.room.size < before - 20_000)
        assert made.agent.session.projection.fate(target).kind == "hidden"
        assert item(panels).index == target  # the cursor stays on its entry
        assert made.app.state.room.size == panels.use.shown.room.size
        await pilot.press("u")
        await made.until(pilot, lambda: panels.view._items[0].index == target)


async def test_what_comes_while_it_is_open_is_shown_and_its_edits_wait_for_the_turn(
    tmp_path: Path,
) -> None:
    spoken = StreamedAnswer()
    made = scene(tmp_path, shop_api(), spoken, window=262_144)
    async with made.app.run_test(size=WIDE) as pilot:
        await made.ready(pilot)
        before = made.app.state.room.size
        await made.enter(pilot, "Now the same for cancel. " * 200)
        await made.until(pilot, lambda: made.llm.silent.is_set())
        panels = await opened(made, pilot)
        await made.until(pilot, lambda: panels.use.shown.room.size > before)
        assert panels.activity == "request in flight"
        await pilot.press("z")
        assert "after this turn" in status(made)
        spoken.say("Done.")
        spoken.end()
        await made.until(pilot, lambda: not panels.activity)
        await made.until(
            pilot,
            lambda: any(
                isinstance(e, Edit) and e.action == "hide"
                for e in made.agent.session.entries
            ),
        )
        await made.until(
            pilot, lambda: panels.use.shown.room.size == made.app.state.room.size
        )


async def test_where_it_leads_to_and_the_way_back(tmp_path: Path) -> None:
    made = scene(tmp_path, shop_api())
    async with made.app.run_test(size=SMALL) as pilot:
        panels = await opened(made, pilot)
        assert panels.active == HISTORY and "system prompt" in screen_rows(made.app)[6]
        await pilot.press("tab")
        assert panels.active == VIEW
        target = item(panels).index
        await pilot.press("enter")  # opens the item in place
        assert panels.view.opened
        await pilot.press("enter", "slash", *"alembic", "enter")
        await made.until(pilot, lambda: "alembic" in status(made))
        found = item(panels).index
        assert found != target
        await pilot.press("escape", "s", "1")  # in order again, on the same entry
        await made.until(pilot, lambda: not panels.by_size)
        await pilot.pause()
        await made.until(pilot, lambda: panels.history.view.cursor == (found, 0))
        await pilot.press("f3")
        await made.until(pilot, lambda: panels.in_draft)
        await pilot.press("escape")
        await made.until(pilot, lambda: made.app.screen is made.app.chat)
        assert made.app.focused is made.app.chat.prompt.editor


async def test_an_empty_session_and_a_window_too_small_to_work_in(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path, window=1_500)
    async with made.app.run_test(size=SMALL) as pilot:
        await opened(made, pilot)
        rows = screen_rows(made.app)
        assert "is too small" in rows[2] and "FOLDLINE_CONTEXT_WINDOW" in rows[3]
        await pilot.press("p", "z", "x", "r", "u", "o", "2", "p", "o", "enter", "f4")


async def test_a_session_without_an_agent_shows_its_categories_also_for_a_request() -> (
    None
):
    app = PanelsApp(shop_api().projection())
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("s")
        await app.workers.wait_for_complete()
        assert any("tool results" in row for row in screen_rows(app))
        now = app.panels.use.shown.room.size
        await pilot.press("comma")
        await app.workers.wait_for_complete()
        assert app.panels.use.shown.room.size != now and app.panels.by_size
        await pilot.press("d")
        await app.workers.wait_for_complete()
        assert app.panels.comparing and not app.panels.by_size
