"""What the mouse does beside hints: a click opens, dragging selects, the wheel scrolls."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.browser.panels.workbench import Workbench
from support.chat_app import screen_text
from support.scenes import Scene, scene, shop_api

Place = tuple[int, int]
WIDE = (160, 44)
pytestmark = [pytest.mark.usefixtures("data_folder"), pytest.mark.slow]


def place(made: Scene, words: str) -> Place:
    """Where these words stand."""
    rows = screen_text(made.app)
    row = next(at for at, text in enumerate(rows) if words in text)
    return rows[row].index(words), row


async def drag(pilot: Pilot[None], start: Place, end: Place) -> None:
    await pilot.mouse_down(offset=start)
    await pilot.hover(offset=end)
    await pilot.mouse_up(offset=end)
    await pilot.pause()


async def opened(made: Scene, pilot: Pilot[None], command: str) -> None:
    made.app.chat.run_command(command)
    await made.until(
        pilot,
        lambda: made.app.screen is not made.app.chat or made.app.chat.docked.is_used,
    )
    await made.until(pilot, lambda: made.app.chat.presenter.settled)


async def full_inspector(made: Scene, pilot: Pilot[None]) -> Any:
    await opened(made, pilot, "inspector")
    await made.until(pilot, lambda: made.app.chat.docked.has_focus_within)
    await pilot.press("m")
    await made.until(pilot, lambda: isinstance(made.app.screen, InspectorScreen))
    panels = made.app.screen.panels  # type: ignore[attr-defined]
    await made.until(pilot, lambda: panels.has_focus_within)
    return panels


def widths(panels: Workbench) -> Sequence[int]:
    return [panel.region.width for panel in panels.panels if panel.display]


@pytest.mark.quick
async def test_a_click_on_a_tool_call_opens_it_and_one_on_what_it_shows_leaves_it_open(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        await pilot.click(offset=place(made, "bash  alembic"))
        x, y = place(made, "▾ bash  alembic")
        await pilot.click(offset=(x + 6, y + 2))
        assert place(made, "▾ bash  alembic") == (x, y)


@pytest.mark.quick
async def test_a_click_on_the_meter_opens_the_context_screen(tmp_path: Path) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=(80, 24)) as pilot:
        await made.ready(pilot)
        await pilot.click(offset=place(made, "of 131k"))
        await made.until(pilot, lambda: "1 Use" in "\n".join(screen_text(made.app)))


async def test_a_click_on_a_column_of_the_timeline_goes_to_its_request(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        await made.ready(pilot)
        panels = await full_inspector(made, pilot)
        x, y = place(made, "0 └")
        first = x + len("0 └")
        for column, shown in (
            (first, "request 1"),
            (first + 11, "request 2"),
            (first + 17, ""),
        ):
            await pilot.click(offset=(column, y - 1))  # six columns each
            await made.until(
                pilot,
                lambda shown=shown: (
                    panels.travel.settled and panels.travel.shown.as_of == shown
                ),
            )


async def test_a_click_on_a_file_goes_to_its_newest_touch(tmp_path: Path) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        await made.ready(pilot)
        panels = await full_inspector(made, pilot)
        await pilot.click(offset=place(made, "logs/staging-0611.log  "))
        file = panels._files.file
        assert (
            file.words() == "logs/staging-0611.log"
            and panels.lists.link.index == file.touches[-1]
        )


async def test_a_second_click_on_an_entry_opens_it(tmp_path: Path) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        await made.ready(pilot)
        panels = await full_inspector(made, pilot)
        at = place(made, "user    Why does the proxy")
        await pilot.click(offset=at)
        assert not panels.history.opened
        await pilot.click(offset=at)
        assert len(panels.history.opened) == 1


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "command", ["inspector", "preview", "context", "settings", "help", "diff"]
)
async def test_dragging_selects_on_every_screen_and_ctrl_c_copies_it(
    tmp_path: Path, command: str
) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    copied: list[str] = []
    made.app.copy_to_clipboard = copied.append  # type: ignore[method-assign]
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        await opened(made, pilot, command)
        rows = screen_text(made.app)
        row = next(
            at
            for at in range(1 if command == "diff" else 8, 30)
            if rows[at][16:28].strip(" ─━")
        )
        await drag(pilot, (16, row), (28, row))
        await pilot.press("ctrl+c")
        assert copied and copied[0].strip() in rows[row]
        assert made.app.screen.get_selected_text() is None


async def test_text_of_the_side_list_and_of_rows_is_copied_as_it_stands_there(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        x, y = place(made, "src/shop/api/deps.py")
        await drag(pilot, (x, y), (x + 19, y))
        assert made.app.screen.get_selected_text() == "src/shop/api/deps.py"
        await drag(pilot, place(made, "Done."), place(made, "of 131k"))
        assert "#" not in (
            made.app.screen.get_selected_text() or "#"
        )  # no name of a widget


def _is_at(panels: Any, index: int) -> bool:
    return bool(panels.lists.link.index == index)


async def test_a_click_on_a_pin_or_a_compaction_of_the_side_list_shows_its_entry(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        side = made.app.chat.sidebar._data
        for index in (side.pinned[0].index, side.compactions[0].index):
            rows = screen_text(made.app)
            row = next(
                at
                for at, line in enumerate(rows)
                if f"┃ {index} " in line or f"┊ {index} " in line
            )
            await pilot.click(offset=(100, row))
            await made.until(
                pilot, lambda: isinstance(made.app.screen, InspectorScreen)
            )
            panels: Any = made.app.screen.panels  # type: ignore[attr-defined]
            await made.until(pilot, partial(_is_at, panels, index))
            await pilot.press("escape")
            await made.until(pilot, lambda: made.app.screen is made.app.chat)


async def test_the_wheel_scrolls_what_is_below_it(tmp_path: Path) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=WIDE) as pilot:
        await made.ready(pilot)
        panels = await full_inspector(made, pilot)
        history, view = (panel.view for panel in panels.panels[:2])
        before = history.top
        turned = [events.MouseScrollUp]
        await made.until(pilot, lambda: view.top is not None and view.max_scroll_y)
        view.action_end()
        there = view.top
        await pilot._post_mouse_events(
            turned, offset=(view.region.x + 5, view.region.y + 5)
        )
        await made.until(pilot, lambda: view.top != there)
        assert history.top == before and history.has_focus
