"""The edit keys under Pilot: what they ask for, what the row says before, and that only a live session has
them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rich.cells import cell_len
from textual import on
from textual.pilot import Pilot

from foldline.frontend.keymap import key_of
from foldline.protocol import (
    Edit,
    Entry,
    ToolResultMessage,
    Undo,
    UserMessage,
    text_parts,
)
from foldline.protocol.operations import EditView, UndoCompaction
from foldline.tui.browser.inspector.panels import (
    NO_ENTRIES_HERE,
    READ_ONLY,
    InspectorPanels,
)
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.browser.keys import KEYS
from foldline.tui.browser.panels import edit_hints as hints_module
from foldline.tui.browser.panels.edit_hints import (
    NOTHING_TO_UNDO,
    PREAMBLE,
    SizeBasis,
    edit_hints,
)
from foldline.tui.browser.panels.states import row_key
from foldline.tui.messages import OperationWanted
from foldline.view.projection import Projection
from foldline.view.weight import item_weight
from support.agents import PATIENCE
from support.stories import PanelsApp, Story, chinese, long_story, screen_rows, shop

pytestmark = pytest.mark.slow

WIDE = (160, 44)


class LiveApp(PanelsApp):
    """A program that writes down at once what the panels ask for, as an idle agent does."""

    def __init__(
        self, projection: Projection, *, live: bool = True, acts: bool = True
    ) -> None:
        super().__init__(projection, live=live)
        self.asked: list[tuple[int, str]] = []
        self._acts = acts

    @on(OperationWanted)
    def carry_out(self, message: OperationWanted) -> None:
        match message.operation:
            case EditView(target=target, action=action):
                self.asked.append((target, action))
                self._write(Edit(target=target, action=action))
            case UndoCompaction(target=int(target)):
                self.asked.append((target, "undo"))
                self._write(Undo(target=target))

    def _write(self, entry: Entry) -> None:
        if self._acts:
            self.grow(entry)

    def grow(self, entry: Entry) -> None:
        projection = self.panels.projection
        projection.append(entry.model_copy(update={"index": projection.last_index + 1}))
        self.panels.refresh_from(projection)

    @property
    def row(self) -> str:
        return screen_rows(self)[-2]


@asynccontextmanager
async def live(
    story: Story, size: tuple[int, int] = WIDE, **options: bool
) -> AsyncIterator[tuple[LiveApp, Pilot[None]]]:
    app = LiveApp(story.projection(), **options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        yield app, pilot


async def priced(app: LiveApp, pilot: Pilot[None], index: int) -> str:
    """The row once it says what the keys would do to an entry."""
    app.panels.history.view.cursor_to(row_key(index))
    return await settled(app, pilot)


async def settled(app: LiveApp, pilot: Pilot[None]) -> str:
    await said(app.panels, pilot)
    return app.row


async def said(panels: InspectorPanels, pilot: Pilot[None]) -> None:
    """Wait until the row says what the keys would do."""
    async with asyncio.timeout(PATIENCE):
        await pilot.pause()
        while not panels.has_edit_hints:
            await asyncio.sleep(0.01)
        await pilot.pause()


def fated(projection: Projection, fate: str) -> int:
    return next(
        e.index
        for e in projection.entries
        if e.type == "tool_result" and projection.fate(e.index).kind == fate
    )


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("fate", "key", "action", "after"),
    [
        ("summarised", "r", "restore", "live"),
        ("summarised", "p", "pin", "live"),
        ("live", "z", "hide", "hidden"),
        ("hidden", "z", "show", "live"),
        ("live", "x", "drop", "dropped"),
        ("dropped", "r", "restore", "live"),
    ],
)
async def test_a_key_asks_for_its_edit_and_the_gutter_follows(
    fate: str, key: str, action: str, after: str
) -> None:
    async with live(shop()) as (app, pilot):
        index = fated(app.panels.projection, fate)
        await priced(app, pilot, index)
        await pilot.press(key)
        await settled(app, pilot)
        assert app.asked == [(index, action)]
        assert app.panels.projection.fate(index).kind == after
        assert app.panels.history.view.cursor == row_key(index), (
            "the cursor stays on its entry"
        )


async def test_the_same_key_pins_and_unpins() -> None:
    async with live(shop()) as (app, pilot):
        await priced(app, pilot, 4)
        await pilot.press("p")
        assert "p unpin ±0" in await settled(app, pilot)
        await pilot.press("p")
        await settled(app, pilot)
        assert app.asked == [(4, "pin"), (4, "unpin")]


@pytest.mark.quick
async def test_u_takes_back_change_by_change_until_there_is_none() -> None:
    async with live(shop()) as (app, pilot):
        marks = [marker.index for marker in app.panels.projection.markers]
        await priced(app, pilot, 4)
        for _ in marks:
            await pilot.press("u")
            await settled(app, pilot)
        assert len(app.asked) >= len(marks) and {action for _, action in app.asked} == {
            "undo"
        }
        while (
            app.panels.projection.markers
        ):  # what a rewind had taken away came back with its undo
            await pilot.press("u")
            await settled(app, pilot)
        await pilot.press("u")
        await pilot.pause()
        assert NOTHING_TO_UNDO in app.row


@pytest.mark.quick
async def test_the_llm_view_takes_the_same_keys() -> None:
    async with live(shop()) as (app, pilot):
        index = fated(app.panels.projection, "live")
        await priced(app, pilot, index)
        await pilot.press("2")
        assert "x drop" in await settled(app, pilot)
        await pilot.press("x")
        await pilot.pause()
        assert app.asked == [(index, "drop")]


async def test_the_row_offers_nothing_but_the_undo_where_no_edit_applies() -> None:
    async with live(shop()) as (app, pilot):
        row = await priced(app, pilot, 0)
        assert "u undo" in row and not any(
            word in row for word in (" pin", " drop", " hide", " restore")
        )
        for key in "pzxr":
            await pilot.press(key)
            await pilot.pause()
            assert PREAMBLE.format(index=0) in app.row
        assert not app.asked


async def test_in_files_the_keys_say_where_they_work() -> None:
    async with live(shop()) as (app, pilot):
        await pilot.press("3", "x")
        await pilot.pause()
        assert NO_ENTRIES_HERE.format(key="2") in app.row
        assert not app.asked


async def test_letters_are_text_in_the_search_field() -> None:
    async with live(shop()) as (app, pilot):
        await pilot.press("/", "p", "x", "u")
        assert app.finder.value == "pxu" and not app.asked


async def test_while_the_agent_works_an_edit_says_when_it_comes() -> None:
    async with live(shop(), acts=False) as (app, pilot):
        app.panels.set_activity("request in flight", None)
        index = fated(app.panels.projection, "live")
        assert "after this turn:" in await priced(app, pilot, index)
        await pilot.press("x")
        await pilot.pause()
        assert "drop" in app.row and app.row.rstrip().endswith("after this turn")
        app.panels.set_activity("", None)
        await pilot.press("down", "up")
        assert "after this turn" not in await settled(app, pilot)


async def test_growth_prices_the_place_anew_and_keeps_the_row_until_then() -> None:
    async with live(shop()) as (app, pilot):
        index = fated(app.panels.projection, "summarised")
        before = await priced(app, pilot, index)
        app.grow(UserMessage(parts=text_parts("more " * 2_000)))
        assert not app.panels.has_edit_hints
        await pilot.pause()
        assert "r restore" in app.row
        after = await settled(app, pilot)
        assert "r restore" in after and after != before, (
            "the next request is larger now"
        )


async def test_a_moving_cursor_works_nothing_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hints_module, "REST", 3600.0)
    worked_out: list[int | None] = []
    monkeypatch.setattr(
        hints_module, "edit_hints", lambda _, index, __: worked_out.append(index)
    )
    async with live(shop()) as (app, pilot):
        await pilot.press(*["up"] * 8)
        assert not worked_out and not app.panels.has_edit_hints
        assert " undo" not in app.row


async def test_working_it_out_does_not_touch_the_history_that_is_shown() -> None:
    async with live(long_story(400)) as (app, pilot):
        assert "p pin ±0" in await priced(app, pilot, 201)
        assert not app.panels.projection.pins


@pytest.mark.quick
async def test_a_read_only_inspector_has_none_of_these_keys() -> None:
    async with live(shop(), live=False) as (app, pilot):
        app.panels.history.view.cursor_to(
            row_key(fated(app.panels.projection, "summarised"))
        )
        await pilot.press(*"pzxru")
        await pilot.pause()
        assert not app.asked
        shown = "\n".join(screen_rows(app)[-2:])
        assert not any(
            word in shown for word in ("pin", "hide", "drop", "restore", "undo")
        )


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 44)])
async def test_the_rows_stay_straight_in_chinese(size: tuple[int, int]) -> None:
    async with live(chinese(), size) as (app, pilot):
        for entry in app.panels.projection.entries:
            if app.panels.history.view.index_of(row_key(entry.index)) is not None:
                await priced(app, pilot, entry.index)
                assert {cell_len(row) for row in screen_rows(app)} == {size[0]}


async def test_the_screen_passes_on_what_runs_and_the_threshold() -> None:
    projection = chinese().projection()
    panels = InspectorPanels(
        projection, live=True, threshold=10**9, activity="request in flight"
    )
    screen = InspectorScreen(panels, "订单")
    app = LiveApp(projection)
    async with app.run_test(size=WIDE) as pilot:
        await app.push_screen(screen)
        await said(screen.panels, pilot)
        assert "after this turn" in screen_rows(app)[-2]
        assert "over the threshold" not in screen_rows(app)[-2]
        panels.set_activity("", 500)
        panels.refresh_from(projection)
        await said(screen.panels, pilot)
        assert "after this turn" not in screen_rows(app)[-2]
        assert "over the threshold" in screen_rows(app)[-2]
        await pilot.press("?")
        await pilot.pause()
        assert key_of(KEYS, "hide").help in "\n".join(screen_rows(app))


@pytest.mark.quick
async def test_keys_act_on_all_that_is_marked_and_u_takes_back_one_after_the_other() -> (
    None
):
    async with live(shop()) as (app, pilot):
        projection = app.panels.projection
        users = [e.index for e in projection.entries if e.type == "user"]
        marked = [index for index in users if projection.fate(index).kind == "live"][
            -2:
        ]
        for index in marked:
            await priced(app, pilot, index)
            await pilot.press("space")
        assert "2 entries marked" in await settled(app, pilot)
        await pilot.press("x")
        await pilot.pause()
        assert (
            app.asked == [(index, "drop") for index in marked]
            and "drop: 2 edits" in app.row
        )
        assert [projection.fate(index).kind for index in marked] == ["dropped"] * 2
        await pilot.press("u", "u")
        await pilot.pause()
        assert [projection.fate(index).kind for index in marked] == ["live"] * 2


async def test_escape_unmarks_before_it_closes_and_marks_wait_for_a_live_view() -> None:
    async with live(shop()) as (app, pilot):
        index = fated(app.panels.projection, "live")
        await priced(app, pilot, index)
        await pilot.press("space")
        assert "1 entry marked" in await settled(app, pilot)
        await pilot.press("escape")
        assert f"{index} " in await settled(app, pilot) and app.panels.is_attached
    async with live(shop(), live=False) as (app, pilot):
        await pilot.press("space")
        await pilot.pause()
        assert READ_ONLY in app.row


async def test_a_drop_takes_away_what_the_rows_of_its_group_weigh() -> None:
    async with live(shop()) as (app, _):
        projection = app.panels.projection
        index = fated(projection, "live")
        group = set(projection.group(index))
        weight = sum(
            item_weight(projection, item).tokens
            for item in projection.view
            if item.index in group
        )
        drop = next(
            each
            for each in edit_hints(projection, index, SizeBasis()).keys
            if each.action == "drop"
        )
        assert drop.change == -weight


async def test_where_the_price_is_known_a_change_says_what_it_costs() -> None:
    async with live(shop()) as (app, pilot):
        app.panels.set_price(0.00001)
        row = await priced(app, pilot, fated(app.panels.projection, "summarised"))
        assert re.search(r"r restore \+\S+ ~\$0\.0", row), row


@pytest.mark.quick
async def test_y_copies_the_whole_text_of_the_entry() -> None:
    async with live(shop()) as (app, pilot):
        index = fated(app.panels.projection, "live")
        await priced(app, pilot, index)
        await pilot.press("y")
        entry = app.panels.projection.entry(index)
        assert isinstance(entry, ToolResultMessage)
        assert entry.text in app.clipboard and "Copied" in app.row


async def test_g_goes_back_from_a_compaction_to_the_entry_one_came_from() -> None:
    async with live(shop()) as (app, pilot):
        index = fated(app.panels.projection, "summarised")
        await priced(app, pilot, index)
        assert "g { } compaction" in screen_rows(app)[-1]
        await pilot.press("g")
        assert (
            app.panels.lists.link is not None
            and app.panels.lists.link.index == app.panels.projection.fate(index).by
        )
        await pilot.press("g")
        assert app.panels.lists.link.index == index
        await priced(app, pilot, fated(app.panels.projection, "live"))
        assert "g { } compaction" not in screen_rows(app)[-1]
