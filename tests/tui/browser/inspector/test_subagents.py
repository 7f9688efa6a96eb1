"""A subagent's session in the Inspector: opened from its parent's, followed while it works, left with Esc."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from foldline.history import Session
from foldline.history.children import child_events
from foldline.history.follower import Follower
from foldline.past.moments import at_request
from foldline.protocol import UserMessage, text_parts
from foldline.tui.app.inspector_app import InspectorApp
from foldline.tui.browser.inspector.entry_panels import NO_SUBAGENT
from foldline.tui.browser.inspector.follow import FollowingInspector
from foldline.tui.browser.inspector.timeline import subagent_words
from support.children import CALLERS, finished_parent, write_session
from support.stories import screen_rows

Compare = Callable[..., bool]
NEVER = 3600.0


def inspector(tmp_path: Path) -> InspectorApp:
    follower = Follower(write_session(tmp_path, finished_parent()))
    return InspectorApp(
        FollowingInspector(follower.session, "Retries", follower, every=NEVER)
    )


@asynccontextmanager
async def opened(
    tmp_path: Path, size: tuple[int, int] = (160, 40)
) -> AsyncIterator[tuple[InspectorApp, Pilot[None]]]:
    app = inspector(tmp_path)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def idle(app: InspectorApp, pilot: Pilot[None]) -> None:
    """Until all is done but what follows the files, which never is."""
    await pilot.pause()
    if others := [
        each for each in app.workers if each.group != "follow"
    ]:  # none would mean all
        await app.workers.wait_for_complete(others)
    await pilot.pause()


async def to_child(
    app: InspectorApp, pilot: Pilot[None], key: str = "o", *, result: bool = False
) -> None:
    """The cursor on the first subagent, and the key that opens it."""
    projection = app.inspector.panels.projection
    started = projection.subagents[0]
    group = [index for index in projection.group(2) if index > started.index]
    app.inspector.panels.reveal(group[0] if result else started.index)
    await pilot.pause()
    await pilot.press(key)
    await idle(app, pilot)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("key", "result"), [("o", False), ("enter", False), ("o", True)]
)
async def test_the_row_of_a_subagent_and_that_of_its_answer_lead_to_its_session(
    tmp_path: Path, key: str, result: bool
) -> None:
    async with opened(tmp_path) as (app, pilot):
        await to_child(app, pilot, key, result=result)
        assert (
            isinstance(app.screen, FollowingInspector)
            and app.screen is not app.inspector
        )
        rows = "\n".join(screen_rows(app))
        assert "Retries ▸ explore ▸ Inspector" in rows and "You look things up." in rows
        await pilot.press("escape")
        assert app.screen is app.inspector


async def test_enter_on_an_answer_still_opens_it_in_place(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await to_child(app, pilot, "enter", result=True)
        assert app.screen is app.inspector
        assert "orders.py and cancel.py call it." in "\n".join(screen_rows(app))


async def test_what_the_subagent_does_meanwhile_is_shown(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await to_child(app, pilot)
        shown = app.screen
        assert isinstance(shown, FollowingInspector) and shown.followed is not None
        session = Session.open(
            child_events(tmp_path / "20260611-140200-parent" / "events.jsonl", CALLERS)
        )
        await session.append(UserMessage(parts=text_parts("a word from afar")))
        session.close()
        await shown.look()
        await pilot.pause()
        assert "a word from afar" in "\n".join(screen_rows(app))


async def test_a_subagent_whose_session_is_gone_is_said_to_be_gone(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (app, pilot):
        child_events(
            tmp_path / "20260611-140200-parent" / "events.jsonl", CALLERS
        ).unlink()
        await to_child(app, pilot)
        assert app.screen is app.inspector
        assert CALLERS in "\n".join(screen_rows(app))


async def test_any_other_row_says_that_no_subagent_worked_for_it(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (app, pilot):
        app.inspector.panels.reveal(0)
        await pilot.pause()
        await pilot.press("o")
        assert NO_SUBAGENT in "\n".join(screen_rows(app))


async def test_the_timeline_shows_their_spans(tmp_path: Path) -> None:
    async with opened(tmp_path, (160, 44)) as (app, pilot):
        app.inspector.panels.go_to(at_request(app.inspector.panels.travel.now, 1))
        await idle(app, pilot)
        rows = "\n".join(screen_rows(app))
        assert "═ subagent" in rows and "└══" in rows
        assert "kimi-k2   3 subagents" in rows


def test_a_request_after_which_nobody_ran_has_no_words() -> None:
    ran = ((0, 0), (0, 2))
    assert subagent_words(ran, 0) == "2 subagents"
    assert subagent_words(ran, 2) == "1 subagent"
    assert subagent_words(ran, 3) == ""


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "size", [(80, 24), (120, 36), (200, 60)], ids=["small", "large", "huge"]
)
@pytest.mark.parametrize("which", ["child", "parent"])
def test_pictures(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int], which: str
) -> None:
    app = inspector(tmp_path)

    async def play(pilot: Pilot[None]) -> None:
        await pilot.pause()
        if which == "child":
            await to_child(app, pilot)
        else:
            app.inspector.panels.reveal(
                app.inspector.panels.projection.subagents[1].index
            )
        await idle(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=play)
