"""The Inspector as a screen and as a program, on built and on recorded sessions."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.binding import Binding

from foldline.formats import read_foreign
from foldline.history import Session
from foldline.protocol import SessionHeader
from foldline.tui.app.inspector_app import INSPECTOR_IS_OPEN, InspectorApp
from foldline.tui.browser.inspector.follow import FollowingInspector
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.browser.keys import KEYS
from foldline.tui.keys.bindings import bindings
from foldline.tui.overlays.help import NOT_NOW, SLASH, HelpScreen
from foldline.view.budget import Size
from support.recordings import SHARED, needs_recorded, recordings
from support.stories import Story, chinese, screen_rows, shop

HEADER = SessionHeader(
    id="test", created_at=datetime(2026, 1, 1, tzinfo=UTC), cwd="/work/shop-api"
)
PI = SHARED / "pi"


def app_of(story: Story, title: str = "shop.jsonl") -> InspectorApp:
    return InspectorApp(
        FollowingInspector(Session.from_entries(HEADER, story.entries), title)
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("key", ["q", "escape"])
async def test_the_program_ends_by_its_keys(key: str) -> None:
    app = app_of(shop())
    async with app.run_test(size=(120, 30)) as pilot:
        assert "shop.jsonl ▸ Inspector" in screen_rows(app)[0]
        await pilot.press(key)
        await pilot.pause()
    assert app._exit


async def test_the_key_that_opens_an_inspector_does_not_end_one_that_is_the_program() -> (
    None
):
    app = app_of(shop())
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("f2")
        await pilot.pause()
        assert not app._exit and INSPECTOR_IS_OPEN in "".join(screen_rows(app))
        await pilot.press("f4")
        assert app.inspector.panels.by_size
        await pilot.press("f2")
        assert not app._exit and not app.inspector.panels.by_size


async def test_q_is_text_in_the_search_field() -> None:
    app = app_of(shop())
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("/", "q")
        assert not app._exit


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("key", ["?", "f1"])
async def test_help_lists_every_key_and_gives_the_focus_back(key: str) -> None:
    app = app_of(shop())
    async with app.run_test(size=(120, 110)) as pilot:
        focused = app.focused
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        items = [row.choice for row in app.screen.rows]
        assert SLASH not in {item.right for item in items}, "there is no chat here"
        for command in KEYS:
            right = NOT_NOW if command.group in ("Edit", "Draft") else command.group
            assert any(
                item.note == command.help_text and item.right == right for item in items
            ), "nothing is edited here"
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, InspectorScreen) and app.focused is focused


def test_no_two_keys_are_the_same() -> None:
    keys = [key for command in KEYS for key in command.keys]
    assert len(keys) == len(set(keys))
    actions = {
        binding.action
        for binding in bindings(KEYS, "inspect")
        if isinstance(binding, Binding)
    }
    assert actions == {
        f"inspect('{command.id}')" for command in KEYS if not command.own
    }


async def test_the_header_says_what_fills_the_window_and_what_runs() -> None:
    story = shop()
    screen = InspectorScreen(
        InspectorPanels(story.projection(), live=True, window=131_072),
        "[/shop] ▸ Orders",
    )
    app = app_of(story)
    async with app.run_test(size=(160, 30)) as pilot:
        await app.push_screen(screen)
        screen.panels.set_activity("⠼ request 85 in flight 0:02", None)
        screen.panels.refresh_from(screen.panels.projection)
        await pilot.pause()
        row = screen_rows(app)[0]
        assert (
            "[/shop] ▸ Orders ▸ Inspector" in row
            and "now · ⠼ request 85 in flight 0:02 ·" in row
        )
        assert "of 131k" in row


async def test_without_colour_marks_letters_and_the_cursor_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = app_of(chinese())
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("{", "up")
        rows = screen_rows(app)
        assert any("▶L┃" in row for row in rows) and any(" S┊" in row for row in rows)
        styles = {
            (segment.style.color, segment.style.bgcolor)
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None
        }
        assert all(
            color is None
            or color.is_default
            or color.triplet is None
            or len(set(color.triplet)) == 1
            for pair in styles
            for color in pair
        )


@pytest.mark.slow
@needs_recorded
@pytest.mark.parametrize("path", recordings("pi"), ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [(80, 24), (160, 44)], ids=str)
async def test_recorded_sessions_can_be_walked_through(
    path: Path, size: tuple[int, int]
) -> None:
    session = read_foreign(path)
    app = InspectorApp(
        FollowingInspector(
            Session.from_entries(session.header, session.entries), path.name
        )
    )
    async with app.run_test(size=size) as pilot:
        await app.workers.wait_for_complete()
        walk = "{ g up enter up up enter [ enter ] 2 home down enter tab down enter 1 end pageup enter"
        for key in walk.split(" "):
            await pilot.press(key)
            strips = app.screen._compositor.render_strips()
            assert {strip.cell_length for strip in strips} == {size[0]}
        assert app._exception is None


@pytest.mark.slow
@needs_recorded
async def test_every_entry_of_a_recorded_session_can_be_opened() -> None:
    session = read_foreign(PI / "prsui-v3-a.jsonl")
    app = InspectorApp(
        FollowingInspector(
            Session.from_entries(session.header, session.entries), "prsui"
        )
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("home")
        panels = app.inspector.panels
        rows = [block.key for block in panels.history.view.blocks()]
        for row in rows:
            panels.history.view.cursor_to(row)
            panels.history.view.action_open()
            await pilot.pause()
        assert panels.history.opened == set(rows)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("live", "starts", "says"),
    [(True, "shop-api", "as of request 18"), (False, "…", "read-only")],
)
@pytest.mark.parametrize("width", [44, 60, 80, 120])
def test_a_long_title_pushes_nothing_out_of_the_header_that_says_where_one_is(
    live: bool, starts: str, says: str, width: int
) -> None:
    title = "shop-api ▸ a title " + "that goes on " * 20
    travel = SimpleNamespace(
        moment=SimpleNamespace(name="request 18") if live else None,
        window=131_072,
        chosen_weight=lambda _: Size(28_600, False),
        report=0,
    )
    panels: Any = SimpleNamespace(
        in_draft=False, has_hints=live, activity="", travel=travel, projection=None
    )
    row = "".join(
        text for text, _ in InspectorScreen(panels, title)._head(panels, width)
    )
    assert cell_len(row) == width and row.startswith(f" {starts}")
    assert " ▸ Inspector" in row and says in row and not row.rstrip().endswith("·")
