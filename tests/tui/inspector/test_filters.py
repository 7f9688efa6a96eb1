"""What a filter admits, and what a filtered panel shows, keeps and says."""

import pytest
from textual.pilot import Pilot

from foldline.context.outline import message_outline
from foldline.protocol import NoticeRecord, RequestRecord, ToolDetails, ToolResultMessage, text_parts
from foldline.tui.inspector.filters import EVERYTHING, Facet, Filter, FilterScreen, Option, Tally, facet_of
from foldline.tui.panels.states import row_key
from support.stories import PanelsApp, Story, chinese, long_story, screen_rows, shop

from .test_panels import grow, put_cursor, row_on_screen, running, user, views

BASH, READ, REQUEST = Option("kind", "tool bash"), Option("kind", "tool read"), Option("kind", "request")
LIVE, GONE, FAILED = Option("fate", "live"), Option("fate", "summarised"), Option("mark", "failed")
ASIDES = Option("notes", "")


@pytest.mark.parametrize(
    ("chosen", "admitted"),
    [
        ((), "bash-live bash-failed read-gone"),
        ((BASH,), "bash-live bash-failed"),
        ((BASH, READ), "bash-live bash-failed read-gone"),
        ((BASH, GONE), ""),
        ((LIVE, GONE), "bash-live bash-failed read-gone"),
        ((BASH, FAILED), "bash-failed"),
        ((ASIDES,), "bash-live bash-failed read-gone request"),
        ((REQUEST,), "request"),
    ],
)
def test_any_of_a_group_and_all_groups(chosen: tuple[Option, ...], admitted: str) -> None:
    facets = {
        "bash-live": Facet("tool bash", "live"),
        "bash-failed": Facet("tool bash", "live", frozenset({"failed"})),
        "read-gone": Facet("tool read", "summarised"),
        "request": Facet("request", "aside"),
    }
    wanted = Filter(frozenset(chosen))
    assert [name for name, facet in facets.items() if wanted.admits(facet)] == admitted.split()


def test_a_choice_is_counted_within_what_the_other_groups_leave() -> None:
    tally = Tally()
    tally.counts.update(
        [Facet("tool bash", "live")] * 3 + [Facet("tool bash", "summarised"), Facet("tool read", "live")]
    )
    wanted = Filter(frozenset({BASH}))
    counts = {option: tally.count(wanted, option) for option in (BASH, READ, LIVE, GONE)}
    assert counts == {BASH: 4, READ: 1, LIVE: 3, GONE: 1} and tally.shown(wanted) == 4


def test_what_failed_is_known_without_a_look_at_the_entry() -> None:
    def result(brief: str, is_error: bool = False) -> ToolResultMessage:
        return ToolResultMessage(
            call_id="1",
            name="bash",
            parts=text_parts("x"),
            is_error=is_error,
            details=ToolDetails(brief=brief),
        )

    outlines = [message_outline(result(*given)) for given in (("exit 1",), ("exit 0",), ("", True))]
    assert [outline.failed for outline in outlines] == [True, False, True]
    assert {outline.name for outline in outlines} == {"bash"}


async def choose(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press("f", *keys)
    await pilot.app.workers.wait_for_complete()
    await pilot.press("escape")
    await pilot.pause()


def shown(app: PanelsApp) -> list[int]:
    return [block.key[0] for block in views(app.panels)[0].blocks() if block.stop]


async def test_a_filter_leaves_what_it_admits_says_so_and_escape_clears_it_first() -> None:
    async with running(shop()) as (app, pilot):
        _history, view, _ = views(app.panels)
        every, items = shown(app), view.count
        await choose(pilot, "S")
        projection = app.panels.projection
        assert shown(app) == [i for i in every if projection.fate(i).kind == "summarised"]
        assert "20 shown: summarised" in screen_rows(app)[0] and view.count == items
        await pilot.press("escape")
        await app.workers.wait_for_complete()
        assert app.closed == 0 and shown(app) == every
        await pilot.press("escape")
        assert app.closed == 1


async def test_cursor_and_its_row_stay_through_filter_and_back() -> None:
    async with running(shop(30), (160, 24)) as (app, pilot):
        history = views(app.panels)[0]
        await put_cursor(app, pilot, 20)
        before = row_on_screen(history, row_key(20))
        for keys in (("S",), ("S",)):
            await choose(pilot, *keys)
            assert history.cursor == row_key(20) and row_on_screen(history, row_key(20)) == before


async def test_a_row_that_no_longer_fits_stays_and_one_that_fits_now_comes() -> None:
    story = Story().system("s")
    for number in range(6):
        story.turn(f"ask {number}", f"answer {number}")
    async with running(story) as (app, pilot):
        await choose(pilot, "L")
        before = shown(app)
        grow(app, story.fold(9, "the summary", first=1).entries[-1], user("new"))
        await app.workers.wait_for_complete()
        fold, newest = app.panels.projection.last_index - 1, app.panels.projection.last_index
        assert shown(app) == [*before, fold, newest]


async def test_system_notes_are_hidden_until_they_are_asked_for_and_can_be_read() -> None:
    story = Story().user("go").add(RequestRecord(digest="0" * 64, model="m", error="429: too many"))
    story.add(NoticeRecord(text="[b]imported[/b] with 2 gaps"))
    async with running(story) as (app, pilot):
        assert shown(app) == [0]
        await choose(pilot, "a")
        assert shown(app) == [0, 1, 2]
        rows = "\n".join(screen_rows(app))
        assert "failed: 429: too many" in rows and "[b]imported[/b] with 2 gaps" in rows
        await pilot.press("end", "enter")
        assert views(app.panels)[0].block((2, 1)) is not None


@pytest.mark.parametrize("story", [Story(), Story().user("one"), chinese()], ids=["none", "one", "chinese"])
async def test_where_nothing_fits_that_is_said_and_growth_goes_on(story: Story) -> None:
    async with running(story, (100, 24)) as (app, pilot):
        await choose(pilot, "D")
        assert shown(app) == [] and any("Nothing fits the filter" in row for row in screen_rows(app))
        grow(app, user("more"))
        await pilot.press("escape")
        await app.workers.wait_for_complete()
        assert shown(app)[-1] == app.panels.projection.last_index


async def test_each_choice_says_what_it_would_leave_and_enter_goes_back_to_the_panel() -> None:
    async with running(shop()) as (app, pilot):
        await pilot.press("f")
        await app.workers.wait_for_complete()
        await pilot.press("S")
        await app.workers.wait_for_complete()
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, FilterScreen)
        rows = ["".join(text for text, _ in line) for line in screen.draw(54, 40)]
        assert "20 of 46 entries" in rows[0] and any("▶● state S┊ summarised" in row for row in rows)
        await pilot.press("enter")
        assert app.focused is views(app.panels)[0] and "20 shown: summarised" in screen_rows(app)[0]


async def test_an_entry_asked_for_from_outside_is_shown_in_spite_of_the_filter() -> None:
    async with running(shop()) as (app, pilot):
        await choose(pilot, "D")
        app.panels.reveal(6)
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.panels.history.filter == EVERYTHING
        assert views(app.panels)[0].cursor == row_key(6)


async def test_a_filter_of_many_is_built_in_slices_and_draws_what_is_on_screen() -> None:
    projection = long_story(12_000).projection()
    async with running(projection) as (app, pilot):
        history, drawn = views(app.panels)[0], views(app.panels)[0].rendered
        building = app.panels.history.show_only(Filter(frozenset({Option("kind", "user")})))
        breaths = 0
        try:
            while True:
                building.send(None)
                breaths += 1
        except StopIteration:
            pass
        await pilot.pause()
        assert breaths >= 3 and history.count == 3_000
        assert history.rendered - drawn <= 90
        facets = {facet_of(projection, outline) for outline in projection.entries.outlines}
        assert len(facets) < 10, "few facets, however many entries"
