"""The Inspector through time: every panel as of a moment, which stays while the history grows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from foldline.cli.settings import Window
from foldline.cli.view import view_json
from foldline.frontend.keymap import name_of
from foldline.past.moments import at_request
from foldline.past.proof import NOT_AS_SENT, proof_of, recorded_requests
from foldline.protocol import (
    CacheTerms,
    Clear,
    Entry,
    RequestRecord,
    UserMessage,
    text_parts,
)
from foldline.tui.browser.inspector.entry_panels import NOT_LIVE
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.past import Past
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.browser.inspector.time_travel import NO_COMPACTION_BEFORE
from foldline.tui.browser.inspector.timeline import NOT_PROVED, NOT_RECORDED, PROVED
from foldline.tui.browser.keys import KEYS
from foldline.tui.browser.panels.entry_list import EntryList
from foldline.tui.browser.panels.states import row_key, state_words
from foldline.tui.messages import OperationWanted
from foldline.view.projection import Projection, project
from support.request_stories import RequestStory, compacted_story
from support.stories import PanelsApp, long_story, screen_rows, shop

pytestmark = pytest.mark.slow

WIDE = (160, 44)
WINDOW = Window(8000)


class TimeApp(PanelsApp):
    def __init__(self, projection: Projection, *, live: bool = True) -> None:
        super().__init__(projection, live=live)
        self.wanted: list[OperationWanted] = []

    def on_operation_wanted(self, event: OperationWanted) -> None:
        self.wanted.append(event)


class Seen:
    """Presses keys and waits until what they asked for is shown."""

    def __init__(self, app: TimeApp, pilot: Pilot[None]) -> None:
        self.app, self.panels, self._pilot = app, app.panels, pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self._pilot.press(key)
            await self.rest()

    async def go(self, *commands: str) -> None:
        """The same, without the time a key takes."""
        for command in commands:
            self.panels.action_inspect(command)
            await self.rest()

    async def rest(self) -> None:
        async with asyncio.timeout(60):
            while not self.panels.travel.settled:
                await asyncio.sleep(0.005)
            await self.app.workers.wait_for_complete()
        await self._pilot.pause()

    @property
    def rows(self) -> list[str]:
        return screen_rows(self.app)

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def history(self) -> EntryList:
        return self.panels.history.view

    def keys_of(self, view: EntryList) -> list[int]:
        """The entries a list shows, in order."""
        return [
            block.key[0]
            for block in view.blocks()
            if block.key[0] >= 0 and not block.key[1]
        ]


@asynccontextmanager
async def seen(
    projection: Projection, size: tuple[int, int] = WIDE, *, live: bool = True
) -> AsyncIterator[Seen]:
    app = TimeApp(projection, live=live)
    async with app.run_test(size=size) as pilot:
        found = Seen(app, pilot)
        await pilot.pause()
        await found.rest()
        yield found


def grow(found: Seen, *entries: Entry) -> None:
    projection = found.panels.travel.now
    for entry in entries:
        projection.append(entry.model_copy(update={"index": projection.last_index + 1}))
    found.panels.refresh_from(projection)


# --- The moment is the truth of then ------------------------------------------------------------------


async def test_all_panels_show_what_the_command_line_gives_for_the_request() -> None:
    story = compacted_story()
    async with seen(story.projection()) as found:
        found.panels.go_to(at_request(found.panels.travel.now, 1))
        await found.rest()
        for sent in recorded_requests(story.entries):
            _, then = proof_of(sent, story.entries)
            size = found.panels.travel.weight(then)
            assert (
                found.panels.travel.moment is not None
                and found.panels.travel.moment.number == sent.number
            )
            assert found.panels.projection.view == then.view
            assert (
                view_json(found.panels.projection, WINDOW, size)["messages"]
                == view_json(then, WINDOW, size)["messages"]
            )
            assert found.keys_of(found.panels.view.view) == [
                item.index for item in then.view
            ]
            said = [
                e.index
                for e in story.entries[: sent.length]
                if found.history.index_of(row_key(e.index)) is not None
            ]
            assert found.keys_of(found.history) == said and said[-1] <= then.last_index
            assert f"request {sent.number}" in found.text and PROVED in found.text
            await found.go("newer-request")
        assert (
            found.panels.travel.moment is None
            and found.panels.projection is found.panels.travel.now
        )


@pytest.mark.quick
async def test_fates_are_those_of_then() -> None:
    async with seen(compacted_story().projection()) as found:
        grep = next(
            e.index for e in found.panels.travel.now.entries if e.type == "tool_result"
        )
        assert found.panels.travel.now.fate(grep).kind == "summarised"
        found.panels.go_to(at_request(found.panels.travel.now, 1))
        await found.go("newer-request", "newer-request")
        await found.press("home", "down", "down", "down")
        assert found.history.cursor == row_key(grep)
        assert f"{grep} L┃ {state_words(found.panels.projection, grep)}" in found.text


async def test_a_session_without_records_is_gone_through_answer_by_answer() -> None:
    story = shop()
    entries = [entry for entry in story.entries if not isinstance(entry, RequestRecord)]
    async with seen(project(entries), live=False) as found:
        await found.go("older-request", "older-request")
        moment = found.panels.travel.moment
        answers = [entry.index for entry in entries if entry.type == "assistant"]
        assert moment is not None and moment.number == len(answers) - 1
        assert (
            found.panels.projection.view
            == project([e for e in entries if e.index < answers[-2]]).view
        )
        assert NOT_RECORDED in found.text


async def test_what_its_record_does_not_prove_is_said() -> None:
    story = compacted_story()
    entries = [
        e.model_copy(update={"digest": "0" * 64}) if isinstance(e, RequestRecord) else e
        for e in story.entries
    ]
    async with seen(project(entries)) as found:
        await found.press("comma")
        assert NOT_PROVED.format(reason=NOT_AS_SENT) in found.text


# --- The moment stays, and so does the reader ---------------------------------------------------------


@pytest.mark.quick
async def test_a_moment_stays_when_entries_come() -> None:
    async with seen(compacted_story().projection()) as found:
        await found.go("older-request", "older-request")
        before, count = found.rows[:-8], len(found.panels.travel.now.meter.requests)
        grow(
            found,
            UserMessage(parts=text_parts("more")),
            RequestRecord(digest="", model="m", estimated=5),
        )
        await found.rest()
        assert found.rows[:-8] == before
        assert len(found.panels.travel.now.meter.requests) == count + 1
        await found.go("now")
        assert (
            found.keys_of(found.history)[-1] == found.panels.travel.now.last_index - 1
        )


async def test_what_comes_on_the_way_back_is_shown_as_well() -> None:
    async with seen(long_story(6_000).projection()) as found:
        await found.go("older-request")
        found.panels.go_to(None)
        await asyncio.sleep(0)
        grow(found, UserMessage(parts=text_parts("meanwhile")))
        await found.rest()
        assert found.keys_of(found.history)[-1] == found.panels.travel.now.last_index
        assert len(found.keys_of(found.history)) == len(found.panels.travel.now.entries)


async def test_a_reader_inside_the_history_comes_back_to_where_he_was() -> None:
    async with seen(compacted_story().projection(), (160, 30)) as found:
        await found.press("pageup", "up")
        cursor, top = found.history.cursor, found.history.top
        assert cursor is not None and cursor[0] > 20 and not found.history.follow
        found.panels.go_to(at_request(found.panels.travel.now, 1))
        await found.rest()
        assert found.history.cursor != cursor, "there was no such entry then"
        await found.go("newer-request", "now")
        assert (found.history.cursor, found.history.top) == (cursor, top)


async def test_what_is_looked_at_stays_on_its_row_where_it_was_there_already() -> None:
    async with seen(long_story(120).projection(), (160, 30)) as found:
        await found.press(*["pageup"] * 3)
        before, cursor = found.history.top, found.history.cursor
        for command in ("older-request", "older-request", "newer-request"):
            await found.go(command)
            assert (found.history.top, found.history.cursor) == (before, cursor)


async def test_who_follows_the_end_follows_the_end_of_then() -> None:
    async with seen(compacted_story().projection(), (160, 30)) as found:
        for command in ("older-request", "older-request", "newer-request", "now"):
            await found.go(command)
            assert found.history.follow
            assert found.history.cursor == row_key(found.keys_of(found.history)[-1])


async def test_scrubbing_on_cancels_what_was_on_its_way() -> None:
    async with seen(long_story(9_000).projection()) as found:
        for _ in range(30):
            found.panels.go_by("older-request")
        assert not found.panels.travel.settled and "loading" in str(
            found.panels.timeline.data.words
        )
        await found.rest()
        assert found.panels.travel.moment is not None
        assert len(found.panels.projection.entries) == found.panels.travel.moment.length
        assert found.panels.travel.past.replayed <= found.panels.travel.moment.length, (
            "only the last of them was replayed"
        )


async def test_the_next_moment_is_compacted_from_the_one_before() -> None:
    now = long_story(9_000).projection()
    past = Past(now)
    last = len(now.meter.requests)
    await past.at(at_request(now, last))
    for number in (last - 1, last - 2, last - 1):
        before = past.replayed
        await past.at(at_request(now, number))
        assert past.replayed - before <= 4_000
    assert len(past._states) <= 2


async def test_what_was_closed_at_an_earlier_moment_lets_go_of_it() -> None:
    async with seen(compacted_story().projection()) as found:
        await found.go("older-request")
        panels = found.panels
        assert panels.projection is not panels.travel.now
        await panels.remove()
        assert panels.projection is panels.travel.now
        assert not panels.view.source.projection.entries and not len(panels.view)
        assert not panels.history.source.projection.entries


# --- Keys ---------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_nothing_is_edited_in_the_past() -> None:
    async with seen(compacted_story().projection()) as found:
        await found.press("comma")
        hints = found.rows[-1]
        assert " pin" not in hints and "undo" not in hints and "0 now" in hints
        for key in ("p", "z", "x", "r", "u"):
            await found.press(key)
            assert (
                NOT_LIVE.format(moment=found.panels.travel.shown.as_of, key="0")
                in found.rows[-2]
            )
        assert not found.app.wanted
        await found.press("0", "p")
        assert len(found.app.wanted) == 1


async def test_compactions_are_stops_of_their_own() -> None:
    async with seen(compacted_story().projection()) as found:
        first, second = (
            compaction.index for compaction in found.panels.travel.now.all_compactions
        )
        await found.go("before-compaction")
        assert (
            found.panels.travel.shown.as_of == f"compaction {second}"
            and found.panels.projection.last_index == second
        )
        await found.go("before-compaction", "before-compaction")
        assert (
            found.panels.travel.shown.as_of == f"compaction {first}"
            and NO_COMPACTION_BEFORE in found.rows[-2]
        )
        await found.go("older-request")
        assert found.panels.travel.shown.as_of == "request 11"
        await found.go("newer-request", "older-request", "after-compaction")
        assert found.panels.travel.shown.as_of == f"compaction {first}"
        await found.go("newer-request")
        assert found.panels.travel.shown.as_of == "request 12"
        await found.go("after-compaction", "after-compaction")
        assert found.panels.travel.moment is None


async def test_a_key_goes_to_what_the_request_sent_first() -> None:
    async with seen(compacted_story().projection()) as found:
        await found.press("comma", "f")
        moment = found.panels.travel.moment
        assert moment is not None and found.history.has_focus
        new = found.panels.view.new_from
        assert found.history.cursor is not None and found.history.cursor[0] == new


@pytest.mark.quick
async def test_the_timeline_is_shown_and_hidden_by_a_key() -> None:
    async with seen(compacted_story().projection()) as found:
        assert "4 Timeline" in found.text
        await found.press("4")
        assert "4 Timeline" not in found.text and found.history.has_focus
        await found.press("3", "tab")
        assert found.history.has_focus


async def test_on_a_short_screen_it_is_hidden_until_a_key_shows_it() -> None:
    async with seen(compacted_story().projection(), (80, 24)) as found:
        assert "4 Timeline" not in found.text
        await found.press("4")
        assert "4 Timeline" in found.text and "1 History" in found.text
        await found.press("comma")
        assert "reported" in found.rows[-2], (
            "what has no room beside the chart is said below"
        )
        await found.press("4")
        assert "4 Timeline" not in found.text and found.panels.travel.moment is not None


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("live", [True, False])
async def test_the_header_says_which_moment_it_is(live: bool) -> None:
    app = PanelsApp(compacted_story().projection())
    async with app.run_test(size=WIDE) as pilot:
        screen = InspectorScreen(
            InspectorPanels(compacted_story().projection(), live=live, window=10_000),
            "shop-api",
        )
        await app.push_screen(screen)
        await pilot.pause()
        assert ("now ·" if live else "read-only ·") in screen_rows(app)[0]
        await pilot.press("comma")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "as of request 15 · 2.1k of 10k 21%" in screen_rows(app)[0]
        assert "0 back to now" in "\n".join(screen_rows(app))


@pytest.mark.quick
def test_each_key_of_the_picture_is_in_the_table() -> None:
    commands = (
        "older-request",
        "newer-request",
        "before-compaction",
        "after-compaction",
        "now",
        "mark",
        "diff",
    )
    assert [name_of(KEYS, command) for command in commands] == [
        ",",
        ".",
        "<",
        ">",
        "0",
        "Space",
        "d",
    ]


# --- The cache ----------------------------------------------------------------------------------------


def cached_story() -> RequestStory:
    """Three requests: the first two grow, and a clear stands before the third."""
    story = RequestStory().system("Foldline system prompt").user("one")
    for reported, cached in ((40_000, 0), (50_000, 39_900), (30_000, 6_100)):
        if reported == 30_000:
            story.add(Clear()).user("and now")
        story.ask("done", reported=reported)
        record = story.entries[-1]
        assert isinstance(record, RequestRecord) and record.usage is not None
        usage = record.usage.model_copy(update={"cached": cached})
        story.entries[-1] = record.model_copy(
            update={"usage": usage, "cache": CacheTerms(life=300)}
        )
        story.user("next")
    return story


async def test_the_timeline_says_what_a_cache_should_have_had_and_why_it_had_less() -> (
    None
):
    async with seen(cached_story().projection()) as found:
        await found.go("older-request")
        assert "cached 6.1k of 30.0k expected · clear 8" in found.text
        await found.go("older-request")
        assert "cached 39.9k, as expected" in found.text


async def test_where_the_words_have_no_room_the_frame_says_what_a_cache_did_not_have() -> (
    None
):
    async with seen(cached_story().projection(), (80, 30)) as found:
        await found.go("older-request")
        assert "request 3 30.0k · 6.1k of 30.0k cached · clear 8" in found.text
        await found.go("older-request")
        frame = next(row for row in found.rows if "4 Timeline" in row)
        assert "cached" not in frame and "as expected" in found.rows[-2]
