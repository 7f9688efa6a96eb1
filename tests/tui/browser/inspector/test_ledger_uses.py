"""Which lines of a compaction's ledger were used since: found when somebody looks, and kept up to date."""

import asyncio
from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from foldline.compaction.summary_text import ledger_of
from foldline.protocol import AssistantMessage, text_parts
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.panels.states import row_key
from support.history import call
from support.previews import orders, proposal_for
from support.stories import PanelsApp, Story, screen_rows


async def compacted() -> tuple[Story, int]:
    """A session with a ledger of which one line is used since, and the compaction."""
    story = orders()
    made = await proposal_for(story, reason="manual", ledger=True)
    assert len(ledger_of(made.entry.summary)[0]) == 4
    story.add(made.entry)
    index = story.entries[-1].index
    story.user("Now for cancel: OrderReplayed and lock_timeout, too.")
    story.assistant("I look.", calls=[call("read", path="load.js")])
    story.answer("lock_timeout")
    return story, index


def marks(panels: InspectorPanels, index: int) -> list[str]:
    """The texts of the ledger's lines that have a tick."""
    view, found = panels.history.view, []
    for block in view.blocks():
        gutter = panels.lists._history_gutter(block.key, 0)
        if block.key[0] == index and gutter[-1][0] == "✓":
            found.append(block.text())
    return found


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(200, 60), (80, 24)])
async def test_what_the_model_said_since_is_counted_and_ticked(
    size: tuple[int, int],
) -> None:
    story, index = await compacted()
    app = PanelsApp(story.projection())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        app.panels.enter()
        app.panels.reveal(index)
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "ledger 4 lines · 1 used since" in screen_rows(app)[-2]
        await pilot.press("enter")
        assert marks(app.panels, index) == ["load.js"]
        projection = app.panels.projection
        said = AssistantMessage(
            index=projection.last_index + 1, parts=text_parts("`OrderReplayed` it is.")
        )
        projection.append(said)
        app.panels.refresh_from(projection)
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "2 used since" in screen_rows(app)[-2]
        assert marks(app.panels, index) == ["load.js", "OrderReplayed"]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["small", "large"])
def test_a_ledger_and_what_of_it_was_used(
    snap_compare: Callable[..., bool], size: tuple[int, int]
) -> None:
    story, index = asyncio.run(compacted())
    app = PanelsApp(story.projection())

    async def play(pilot: Pilot[None]) -> None:
        await pilot.pause()
        app.panels.enter()
        app.panels.reveal(index)
        await pilot.press("enter", *(["pagedown"] if size == (80, 24) else []))
        await app.workers.wait_for_complete()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=play)


async def test_a_compaction_without_a_ledger_and_an_entry_say_nothing_of_one() -> None:
    story = orders()
    made = await proposal_for(story)
    story.add(made.entry)
    app = PanelsApp(story.projection())
    async with app.run_test(size=(80, 24)) as pilot:
        for index in (story.entries[-1].index, 5):
            app.panels.reveal(index)
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert "ledger" not in screen_rows(app)[-2]


async def test_what_was_looked_through_is_not_looked_through_again() -> None:
    story, index = await compacted()
    app = PanelsApp(story.projection())
    async with app.run_test(size=(80, 24)) as pilot:
        app.panels.enter()
        app.panels.reveal(index)
        await app.workers.wait_for_complete()
        await pilot.pause()
        known = app.panels.lists.uses.known(index)
        assert known.position == len(app.panels.projection.entries)
        app.panels.describe()
        assert app.panels.lists.uses.known(index) is known
        assert app.panels.history.view.index_of(row_key(index)) is not None
