"""The panels on a screen: link, opening in place, growth, compacts, widths, search."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from foldline.protocol import Entry, text_parts
from foldline.tui.browser.inspector.entry_panels import NOT_COMPACTED
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.panels.entry_list import EntryList, row_of
from foldline.tui.browser.panels.states import row_key, state_words
from foldline.tui.browser.panels.workbench import NOT_FOUND
from foldline.view.projection import Projection
from foldline.view.weight import entry_weight
from support.history import call
from support.limits import ALL
from support.messages import user
from support.stories import (
    SERVICE,
    PanelsApp,
    Story,
    chinese,
    long_story,
    screen_rows,
    shop,
)

pytestmark = pytest.mark.slow

WIDE = (160, 44)


@asynccontextmanager
async def running(
    story: Story | Projection, size: tuple[int, int] = WIDE, overhead: int = 0
) -> AsyncIterator[tuple[PanelsApp, Pilot[None]]]:
    projection = story if isinstance(story, Projection) else story.projection()
    app = PanelsApp(projection, overhead=overhead)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        yield app, pilot


def views(panels: InspectorPanels) -> tuple[EntryList, EntryList, EntryList]:
    history, view, files = (panel.view for panel in panels.lists.panels)
    return history, view, files


def row_on_screen(view: EntryList, key: tuple[int, int]) -> int | None:
    index = view.index_of(key)
    return None if index is None else view._row_of(index)


def grow(app: PanelsApp, *entries: Entry) -> None:
    projection = app.panels.projection
    for entry in entries:
        projection.append(entry.model_copy(update={"index": projection.last_index + 1}))
    app.panels.refresh_from(projection)


async def put_cursor(app: PanelsApp, pilot: Pilot[None], index: int) -> None:
    views(app.panels)[0].cursor_to(row_key(index))
    await pilot.pause()


@pytest.mark.parametrize("entries", [40, 6_000])
async def test_an_entry_that_is_asked_for_from_outside_has_the_cursor(
    entries: int,
) -> None:
    app = PanelsApp(long_story(entries).projection())
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        app.panels.reveal(5)
        await app.workers.wait_for_complete()
        await pilot.pause()
        history, _, _ = views(app.panels)
        assert (
            history.cursor == row_key(5)
            and row_on_screen(history, row_key(5)) is not None
        )
        assert "5 → item 5" in "\n".join(screen_rows(app))


async def test_an_entry_that_is_asked_for_is_reached_also_where_another_build_overtakes_that_one() -> (
    None
):
    app = PanelsApp(long_story(6_000).projection())
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        app.panels.history.begin(
            app.panels.projection
        )  # as they are opened: the last rows, and the rest in a worker
        app.panels.reveal(5)
        app.panels.run_worker(app.panels.history.fill())
        await app.workers.wait_for_complete()
        assert app.panels.history.view.cursor == row_key(5)


# --- Linking ------------------------------------------------------------------------------------------


async def test_many_summarised_entries_show_one_counterpart() -> None:
    async with running(shop()) as (app, pilot):
        _, view, _ = views(app.panels)
        compaction = app.panels.projection.compactions()[0].index
        for index in (6, 9, 4):
            await put_cursor(app, pilot, index)
            assert view.counterpart == row_key(compaction) and view.cursor is None
        assert f"4 → summary {compaction}" in "\n".join(screen_rows(app))
        await pilot.press(
            "2"
        )  # the cursor lands on the summary, which is what the frame names
        assert view.cursor == row_key(compaction)
        assert f"summary {compaction} → entry 4" in "\n".join(screen_rows(app))


async def test_an_entry_the_model_lost_has_no_counterpart_and_the_frame_says_why() -> (
    None
):
    async with running(shop()) as (app, pilot):
        _, view, _ = views(app.panels)
        projection = app.panels.projection
        dropped = next(
            e.index
            for e in projection.entries
            if projection.fate(e.index).kind == "dropped"
        )
        before = view.top
        await put_cursor(app, pilot, dropped)
        assert view.counterpart is None and view.top == before
        assert state_words(projection, dropped) in "\n".join(screen_rows(app))


async def test_a_counterpart_posts_nothing() -> None:
    async with running(shop()) as (app, pilot):
        history, view, _ = views(app.panels)
        await put_cursor(app, pilot, 6)
        for _ in range(5):
            await pilot.press("down")
        assert history.cursor == row_key(11)
        assert app.panels.lists.link is not None and app.panels.lists.link.index == 11
        assert view.counterpart == row_key(app.panels.projection.compactions()[0].index)


@pytest.mark.quick
async def test_tab_lands_on_the_counterpart_and_back_again() -> None:
    async with running(shop()) as (app, pilot):
        history, view, _ = views(app.panels)
        compaction = app.panels.projection.compactions()[0].index
        await put_cursor(app, pilot, 6)
        await pilot.press("2")
        assert (
            view.cursor == row_key(compaction)
            and history.cursor is None
            and history.counterpart == row_key(6)
        )
        await pilot.press("1")
        assert history.cursor == row_key(6) and view.counterpart == row_key(compaction)


async def test_exactly_one_panel_has_the_cursor_and_the_heavy_frame() -> None:
    async with running(shop()) as (app, pilot):
        for key in ("tab", "tab", "tab", "shift+tab", "2"):
            await pilot.press(key)
            await pilot.pause()
            assert sum(view.cursor is not None for view in views(app.panels)) == 1
            assert sum(row.count("┏") for row in screen_rows(app)) == 1


@pytest.mark.quick
async def test_moving_in_the_view_shows_the_entry_in_history() -> None:
    async with running(shop()) as (app, pilot):
        history, view, _ = views(app.panels)
        await pilot.press("2", "home", "down", "down")
        assert view.cursor is not None and history.counterpart == row_key(
            view.cursor[0]
        )


async def test_a_counterpart_in_sight_does_not_scroll_its_panel() -> None:
    async with running(shop(), (160, 30)) as (app, pilot):
        _, view, _ = views(app.panels)
        await pilot.press("home")
        await put_cursor(app, pilot, 6)
        before = view.top
        for _ in range(4):
            await pilot.press("down")
        assert view.top == before


async def test_lines_of_the_summary_that_name_the_file_of_the_place_are_marked() -> (
    None
):
    async with running(shop()) as (app, pilot):
        reading = next(
            i for i, touch in app.panels.projection.touches if touch.path == SERVICE
        )
        await put_cursor(app, pilot, reading)
        marked = [row for row in screen_rows(app) if "▷ ┊" in row]
        assert len(marked) == 2 and any(SERVICE in row for row in marked)


async def test_a_click_in_another_panel_takes_the_cursor_there() -> None:
    async with running(shop()) as (app, pilot):
        history, view, _ = views(app.panels)
        await pilot.click(view, offset=(20, 1))
        await pilot.pause()
        assert (
            view.cursor == row_key(1)
            and history.cursor is None
            and history.counterpart == row_key(1)
        )
        assert app.panels.active_view is view


# --- Files --------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_enter_on_a_file_goes_to_its_newest_touch_then_to_older_ones() -> None:
    async with running(shop()) as (app, pilot):
        history, _, files = views(app.panels)
        await pilot.press("3", "home", "down")
        assert app.panels.active_view is files
        touches = [
            index
            for index, touch in app.panels.projection.touches
            if touch.path == SERVICE
        ]
        jumps = []
        for _ in range(3):
            await pilot.press("enter")
            jumps.append(history.counterpart)
        assert jumps == [
            row_key(touches[-1]),
            row_key(touches[0]),
            row_key(touches[-1]),
        ]
        await pilot.press("1")
        assert history.cursor == row_key(touches[-1])


async def test_the_touches_of_the_file_of_the_place_are_listed() -> None:
    async with running(shop()) as (app, pilot):
        reading = next(
            i for i, touch in app.panels.projection.touches if touch.path == SERVICE
        )
        await put_cursor(app, pilot, reading)
        assert any(f"▷S┊ {reading} read" in row for row in screen_rows(app))
        assert any("complete" in row for row in screen_rows(app))


# --- Opening ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("panel", ["1", "2"])
async def test_opening_and_closing_keep_the_row_where_it_is(panel: str) -> None:
    async with running(shop(), (160, 30)) as (app, pilot):
        await pilot.press(panel, "home", *["down"] * 4)
        view = app.panels.active_view
        key, count = view.cursor, view.count
        assert key is not None
        row = row_on_screen(view, key)
        await pilot.press("enter")
        assert (
            view.count > count
            and row_on_screen(view, key) == row
            and view.cursor == key
        )
        await pilot.press("enter")
        assert (
            view.count == count
            and row_on_screen(view, key) == row
            and view.cursor == key
        )


async def test_enter_inside_an_opened_entry_closes_it_and_goes_back_to_its_row() -> (
    None
):
    async with running(shop()) as (app, pilot):
        history, _, _ = views(app.panels)
        await put_cursor(app, pilot, 6)
        await pilot.press("enter", "down", "down")
        assert (
            history.cursor is not None
            and history.cursor != row_key(6)
            and history.cursor[0] == 6
        )
        await pilot.press("enter")
        assert history.cursor == row_key(6)


@pytest.mark.quick
async def test_a_summary_opens_to_its_whole_text_and_closes_to_its_first_lines() -> (
    None
):
    async with running(shop()) as (app, pilot):
        before = screen_rows(app)
        await pilot.press("2", "home", "down", "down")
        await pilot.press("enter")
        assert any("the same for cancel" in row for row in screen_rows(app))
        await pilot.press("enter", "1")
        after = screen_rows(app)
        assert any("more lines, Enter opens" in row for row in before) and any(
            "more lines, Enter opens" in row for row in after
        )


async def test_a_compaction_opens_its_summary_in_history() -> None:
    async with running(shop()) as (app, pilot):
        compaction = app.panels.projection.compactions()[0].index
        await put_cursor(app, pilot, compaction)
        await pilot.press("enter")
        assert views(app.panels)[0].block((compaction, 1)) is not None


# --- Live ---------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_growth_leaves_cursor_and_top_line_where_they_are() -> None:
    async with running(shop(), (160, 24)) as (app, pilot):
        history, view, _ = views(app.panels)
        await pilot.press("home", "down", "down")
        places = (history.cursor, history.top, view.top)
        grow(app, *[user(f"more {number}") for number in range(30)])
        await pilot.pause()
        assert (history.cursor, history.top, view.top) == places


@pytest.mark.quick
async def test_a_panel_at_its_end_follows() -> None:
    async with running(shop(), (160, 24)) as (app, pilot):
        history, view, _ = views(app.panels)
        grow(app, user("the newest"))
        await pilot.pause()
        last = row_key(app.panels.projection.last_index)
        assert (
            row_on_screen(history, last) is not None
            and row_on_screen(view, last) is not None
        )


async def test_growth_builds_rows_of_the_tail_only() -> None:
    async with running(long_story(400)) as (app, pilot):
        history, view = app.panels.history, app.panels.view
        built = history.built + view.built
        grow(app, user())
        await pilot.pause()
        assert history.built + view.built - built <= 8


async def test_a_second_result_of_a_group_mends_the_branch_of_the_first() -> None:
    story = Story().user("go")
    story.assistant(calls=[call("read", path="a"), call("read", path="b")]).answer("1")
    async with running(story) as (app, pilot):
        assert any("─ read  a" in row for row in screen_rows(app))
        second = story.answer("2").entries[-1]
        grow(app, second)
        await pilot.pause()
        rows = screen_rows(app)
        assert any("┌ read  a" in row for row in rows) and any(
            "└ read  b" in row for row in rows
        )


async def test_an_answer_of_nothing_but_calls_gives_its_row_to_its_first_result() -> (
    None
):
    story = Story().user("go").assistant(calls=[call("read", path="a.py")])
    async with running(story) as (app, pilot):
        history, view, _ = views(app.panels)
        await put_cursor(app, pilot, 1)
        await pilot.press("enter")
        row = row_on_screen(history, row_key(1))
        grow(app, story.answer("text").entries[-1])
        await pilot.pause()
        for shown in (history, view):
            assert [
                b.key for b in shown.blocks() if b.stop and b.key == row_of(b.key)
            ] == [
                row_key(0),
                row_key(2),
            ]
        assert (history.cursor, row_on_screen(history, row_key(2))) == (row_key(2), row)
        assert app.panels.history.opened == {row_key(2)}, "what was open stays open"
        weight = sum(
            entry_weight(app.panels.projection, each).tokens
            for each in story.entries[1:]
        )
        assert f"~{weight} " in next(
            row for row in screen_rows(app) if "─ read  a.py" in row
        )


@pytest.mark.quick
async def test_an_answer_that_shares_its_row_is_found_by_its_number() -> None:
    story = Story().user("go").tool("read", path="a.py").assistant("done")
    async with running(story) as (app, pilot):
        app.panels.reveal(1)
        await pilot.pause()
        assert app.panels.history.view.cursor == row_key(2)


@pytest.mark.quick
async def test_a_compaction_repaints_the_gutters_and_builds_no_history_row_but_its_own() -> (
    None
):
    story = Story().system("s")
    for number in range(10):
        story.turn(f"ask {number}", f"answer {number}")
    async with running(story) as (app, pilot):
        history, view, _ = views(app.panels)
        await put_cursor(app, pilot, 3)
        places, built, drawn = (
            (history.cursor, history.top),
            app.panels.history.built,
            history.rendered,
        )
        compaction = story.compaction(15, "the summary", first=1).entries[-1]
        grow(app, compaction)
        await pilot.pause()
        assert app.panels.history.built - built == 1 and history.rendered - drawn <= 1
        assert (history.cursor, history.top) == places
        rows = screen_rows(app)
        assert any(row.startswith("┃▶S┊     3") for row in rows)
        assert any(row.startswith("┃ L┃    15") for row in rows)
        assert view.index_of(row_key(3)) is None and view.counterpart == row_key(
            compaction.index
        )


async def test_a_cursor_on_an_item_that_is_compacted_goes_to_the_summary() -> None:
    story = Story().system("s")
    for number in range(10):
        story.turn(f"ask {number}", f"answer {number}")
    async with running(story) as (app, pilot):
        _, view, _ = views(app.panels)
        await put_cursor(app, pilot, 3)
        await pilot.press("2")
        assert view.cursor == row_key(3)
        compaction = story.compaction(15, "the summary", first=1).entries[-1]
        grow(app, compaction)
        await pilot.pause()
        assert view.cursor == row_key(compaction.index)


async def test_an_opened_entry_stays_open_through_growth_and_compactions() -> None:
    story = Story().system("s")
    for number in range(10):
        story.turn(f"ask {number}", f"answer {number}")
    async with running(story) as (app, pilot):
        _, view, _ = views(app.panels)
        await put_cursor(app, pilot, 17)
        await pilot.press("2", "enter")
        assert view.block((17, 1)) is not None
        grow(app, story.compaction(15, "the summary", first=1).entries[-1])
        await pilot.pause()
        assert view.block((17, 1)) is not None and view.cursor == row_key(17)


async def test_the_rule_above_what_is_new_moves_down_with_the_next_answer() -> None:
    from foldline.protocol import AssistantMessage

    async with running(Story().system("s").turn("one", "1").turn("two", "2")) as (
        app,
        pilot,
    ):
        view = views(app.panels)[1]
        keys = [block.key for block in view.blocks()]
        assert keys.index((-1, 0)) == keys.index(row_key(4)) - 1
        grow(app, user("three"), AssistantMessage(parts=text_parts("3")))
        await pilot.pause()
        keys = [block.key for block in view.blocks()]
        assert (
            keys.count((-1, 0)) == 1
            and keys.index((-1, 0)) == keys.index(row_key(6)) - 1
        )


# --- Keys ---------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_brackets_go_from_prompt_to_prompt_and_braces_from_compaction_to_compact() -> (
    None
):
    async with running(shop()) as (app, pilot):
        history, _, _ = views(app.panels)
        prompts = [e.index for e in app.panels.projection.entries if e.type == "user"]
        await pilot.press("[")
        assert history.cursor == row_key(prompts[-1])
        await pilot.press("[", "]")
        assert history.cursor == row_key(prompts[-1])
        await pilot.press("{")
        compaction = app.panels.projection.compactions()[0].index
        assert history.cursor == row_key(compaction)
        await pilot.press("home", "}")
        assert history.cursor == row_key(compaction)


async def test_g_goes_to_the_compaction_from_either_panel() -> None:
    async with running(shop()) as (app, pilot):
        history, _, _ = views(app.panels)
        compaction = app.panels.projection.compactions()[0].index
        await put_cursor(app, pilot, 6)
        await pilot.press("2", "g")
        assert app.panels.active_view is history and history.cursor == row_key(
            compaction
        )
        await put_cursor(app, pilot, 0)
        await pilot.press("g")
        assert history.cursor == row_key(0)
        assert any(NOT_COMPACTED.format(index=0) in row for row in screen_rows(app))


@pytest.mark.quick
async def test_search_finds_text_of_closed_entries_and_n_goes_on() -> None:
    async with running(shop()) as (app, pilot):
        history, _, _ = views(app.panels)
        await put_cursor(app, pilot, 4)
        await pilot.press("/", *"hits", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert history.cursor == row_key(6) and app.focused is history
        await pilot.press("n")
        await app.workers.wait_for_complete()
        assert history.cursor == row_key(8)
        await pilot.press("N", "N")
        await app.workers.wait_for_complete()
        assert history.cursor is not None and history.cursor != row_key(8)


async def test_letters_are_text_in_the_search_field_and_escape_steps_outwards() -> None:
    async with running(shop()) as (app, pilot):
        await pilot.press("/", *"12gn?")
        assert app.finder.value == "12gn?"
        await pilot.press("escape")
        assert not app.finder.display and app.closed == 0
        await pilot.press("escape")
        assert app.closed == 1


async def test_a_search_without_a_match_says_so_and_moves_nothing() -> None:
    async with running(shop()) as (app, pilot):
        history, _, _ = views(app.panels)
        before = history.cursor
        await pilot.press("/", *"[b]nowhere", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert history.cursor == before
        nowhere = NOT_FOUND.format(needle="“[b]nowhere”")
        assert any(nowhere in row for row in screen_rows(app))


# --- Sizes --------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("width", "shown"), [(160, 3), (150, 3), (149, 2), (90, 2), (89, 1), (60, 1)]
)
async def test_the_width_decides_how_many_panels_there_are(
    width: int, shown: int
) -> None:
    async with running(shop(), (width, 30)) as (app, _):
        assert sum(panel.display for panel in app.panels.query("Panel")) == shown


async def test_files_come_by_3_where_two_panels_fit() -> None:
    async with running(shop(), (100, 30)) as (app, pilot):
        await pilot.press("3")
        await pilot.pause()
        rows = screen_rows(app)
        assert (
            "1 History" in rows[0]
            and "3 Files" in rows[0]
            and "2 LLM view" not in rows[0]
        )


async def test_a_resize_keeps_the_cursor_and_the_top_line() -> None:
    async with running(shop(), (160, 24)) as (app, pilot):
        history, _, _ = views(app.panels)
        await pilot.press("home", *["down"] * 5)
        places = (history.cursor, history.top)
        await pilot.resize_terminal(100, 24)
        await pilot.resize_terminal(130, 24)
        await pilot.pause()
        assert (history.cursor, history.top) == places


@pytest.mark.parametrize("width", [60, 80, 95, 120, 161])
async def test_frames_stay_straight_with_wide_characters(width: int) -> None:
    async with running(chinese(), (width, 30)) as (app, pilot):
        for key in ("{", "enter", "2", "enter", "3"):
            await pilot.press(key)
            strips = app.screen._compositor.render_strips()
            assert {strip.cell_length for strip in strips} == {width}
            assert all(row.rstrip()[-1] in "┃│┓┐┛┘" for row in screen_rows(app)[:-3])


async def test_markup_like_text_is_harmless_on_the_screen() -> None:
    nasty = "[/nope] [bold]x list[str] \x1b[2J"
    story = (
        Story().system(nasty).user(nasty).tool(nasty, nasty, brief=nasty, path=nasty)
    )
    async with running(story) as (app, pilot):
        for key in ("up", "enter", "2", "enter", "3", "/", "[", "enter", "n"):
            await pilot.press(key)
        await app.workers.wait_for_complete()
        text = "\n".join(screen_rows(app))
        assert "[/nope] [bold]x" in text and "\x1b" not in text


# --- Size of the history ------------------------------------------------------------------------------


@pytest.mark.slow
async def test_tens_of_thousands_of_entries_cost_what_is_on_screen() -> None:
    entries = 100_000 if ALL else 20_000
    story = long_story(entries)
    async with running(story) as (app, pilot):
        history, view, _ = views(app.panels)
        assert app.panels.history.missing == 0 and history.count == entries + 1
        assert history.rendered <= 120 and view.rendered <= 120
        for key in ("up", "home", "down", "end"):
            before = history.rendered
            await pilot.press(key)
            assert history.rendered - before <= 45
        built = app.panels.history.built + app.panels.view.built
        drawn = history.rendered
        grow(app, user())
        await pilot.pause()
        assert app.panels.history.built + app.panels.view.built - built <= 8
        assert history.rendered - drawn <= 3


async def test_entries_that_come_while_the_oldest_are_still_read_in_are_not_lost() -> (
    None
):
    projection = long_story(10_000).projection()
    app = PanelsApp(projection)
    async with app.run_test(size=WIDE) as pilot:
        grow(app, user("in between"))
        while app.workers:
            with suppress(
                WorkerCancelled
            ):  # the files are counted anew for what has come
                await app.workers.wait_for_complete()
        await pilot.pause()
        history, view, _ = views(app.panels)
        assert [block.key for block in history.blocks()] == [
            row_key(e.index) for e in projection.entries
        ]
        assert [b.key for b in view.blocks() if b.stop] == [
            row_key(*i.key) for i in projection.view
        ]


async def test_the_newest_entries_are_there_before_the_oldest() -> None:
    projection = long_story(10_000).projection()
    app = PanelsApp(projection)
    async with app.run_test(size=WIDE) as pilot:
        history, _, _ = views(app.panels)
        assert history.index_of(row_key(projection.last_index)) is not None
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert history.count == len(projection.entries)
        assert row_on_screen(history, row_key(projection.last_index)) is not None
