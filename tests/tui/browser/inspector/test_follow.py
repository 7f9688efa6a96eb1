"""The Inspector on a session that others write: it shows what comes, says who writes, and moves nothing."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot

from foldline.history import Session
from foldline.history.follower import MOVED, Follower
from foldline.history.lock import Holder
from foldline.protocol import NoticeRecord
from foldline.tui.app.inspector_app import InspectorApp
from foldline.tui.browser.inspector.follow import (
    DONE_WRITING,
    NOW_WRITING,
    FollowingInspector,
    turn_words,
    writer_words,
)
from foldline.tui.browser.panels.states import row_key
from support.holders import holder
from support.messages import user
from support.stories import long_story, screen_rows

SINCE = datetime(2026, 1, 2, 14, 5, tzinfo=UTC)
TITLE = "20260102-140500-ab12cd"
NEVER = 3600.0


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Session]:
    built = Session.create("/tmp", home=tmp_path)
    await built.append(*long_story(60).entries)
    yield built
    built.close()


@asynccontextmanager
async def following(
    session: Session, size: tuple[int, int] = (160, 30)
) -> AsyncIterator[tuple[InspectorApp, Pilot[None]]]:
    assert session.path is not None
    follower = Follower(session.path)
    app = InspectorApp(
        FollowingInspector(follower.session, TITLE, follower, every=NEVER)
    )
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def test_what_another_process_writes_is_shown_and_so_is_its_end(
    tmp_path: Path,
) -> None:
    session = Session.create("/tmp", home=tmp_path)
    await session.append(user("first"))
    session.close()
    assert session.path is not None
    with holder(session.path.parent) as other:
        async with following(session) as (app, pilot):
            assert (
                f"live · written by process {other.pid} since " in screen_rows(app)[0]
            )
            assert "read-only" not in screen_rows(app)[0]
            other.append("a word from afar")
            await app.inspector.look()
            await pilot.pause()
            assert "a word from afar" in "\n".join(screen_rows(app))
            other.kill()
            await app.inspector.look()
            await pilot.pause()
            assert (
                "read-only" in screen_rows(app)[0] and "live" not in screen_rows(app)[0]
            )
            shown = "\n".join(screen_rows(app))
            done = DONE_WRITING.format(
                program=f"Process {other.pid}", entries="1 entry"
            )
            assert done in shown


async def test_it_looks_by_itself(writer: Session) -> None:
    assert writer.path is not None
    follower = Follower(writer.path)
    app = InspectorApp(
        FollowingInspector(follower.session, TITLE, follower, every=0.001)
    )
    async with app.run_test(size=(160, 30)):
        came = asyncio.Event()
        follower.session.on_append.append(lambda _: came.set())
        await writer.append(user())
        async with asyncio.timeout(60):
            await came.wait()


async def test_a_reader_at_the_end_follows_and_one_above_it_stays(
    writer: Session,
) -> None:
    async with following(writer) as (app, pilot):
        history = app.inspector.panels.history.view
        assert history.follow
        await writer.append(user(), user("the newest"))
        await app.inspector.look()
        await pilot.pause()
        assert history.follow and "the newest" in "\n".join(screen_rows(app))
        await pilot.press("pageup", "pageup")
        await pilot.pause()
        top, cursor = history.top, history.cursor
        await writer.append(user("unseen"), user("unseen"))
        await app.inspector.look()
        await pilot.pause()
        assert (history.top, history.cursor) == (top, cursor)
        shown = "\n".join(screen_rows(app))
        assert "▼ 2 new below · End follows" in shown and "unseen" not in shown
        await pilot.press("end")
        await pilot.pause()
        assert history.follow and "unseen" in "\n".join(screen_rows(app))


async def test_an_entry_that_is_open_stays_open(writer: Session) -> None:
    async with following(writer) as (app, pilot):
        sheet = app.inspector.panels.history
        sheet.view.cursor_to(row_key(10))
        await pilot.press("enter")
        opened, top = set(sheet.opened), sheet.view.top
        assert opened == {row_key(10)}
        await writer.append(NoticeRecord(text="more"))
        await app.inspector.look()
        await pilot.pause()
        assert (sheet.opened, sheet.view.top) == (opened, top)


async def test_a_file_that_was_replaced_is_said_once_and_looked_at_no_more(
    writer: Session,
) -> None:
    async with following(writer) as (app, pilot):
        assert writer.path is not None
        writer.path.rename(writer.path.with_name("elsewhere"))
        await app.inspector.look()
        await pilot.pause()
        assert MOVED.partition("}")[2] in "\n".join(screen_rows(app))
        assert app.inspector.followed is None and "read-only" in screen_rows(app)[0]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("width", [60, 80, 200])
async def test_the_header_says_who_writes_at_any_width(
    writer: Session, width: int
) -> None:
    async with following(writer, (width, 24)) as (app, _):
        row = screen_rows(app)[0]
        assert "live · written by this process since " in row
        assert "▸ Inspector" in row
        assert ("F1 help" in row) == (width > 60)


async def test_a_narrow_header_says_that_it_is_live_and_of_what(
    writer: Session,
) -> None:
    async with following(writer, (40, 10)) as (app, _):
        assert re.search(r"\w ▸ Inspector +live $", screen_rows(app)[0]), screen_rows(
            app
        )[0]


def test_what_is_said_of_a_writer_is_what_is_known_of_it() -> None:
    assert writer_words(None) == ""
    assert writer_words(Holder()) == "written by another process"
    written = "written by process 4711 on box2 since 2026-01-02 14:05, suspended"
    assert writer_words(Holder(4711, "box2", SINCE, suspended=True)) == written
    assert turn_words(None, Holder(5), 0) == NOW_WRITING.format(program="Process 5")
    assert turn_words(Holder(5), None, 1_200) == DONE_WRITING.format(
        program="Process 5", entries="1,200 entries"
    )
    assert turn_words(Holder(), None, 0) == DONE_WRITING.format(
        program="Another process", entries="nothing"
    )
