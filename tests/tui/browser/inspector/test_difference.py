"""The difference of two views: what is compared with what, what is open, and the way back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from foldline.past.moments import Moment, at_compaction, at_request
from foldline.tui.browser.inspector.compare import text_changes
from foldline.tui.browser.inspector.panels import NOTHING_TO_COMPARE, InspectorPanels
from foldline.tui.browser.inspector.time_travel import comparisons
from foldline.tui.browser.panels.states import row_key
from foldline.view.projection import Projection
from support.request_stories import compacted_story
from support.stories import PanelsApp, long_story, screen_rows

WIDE = (120, 36)


async def at_rest(app: PanelsApp) -> None:
    """Until no worker works; one may have given way to a newer one."""
    while any(not worker.is_finished for worker in app.workers):
        await asyncio.sleep(0.005)


@asynccontextmanager
async def compared(
    projection: Projection, *commands: str, size: tuple[int, int] = WIDE
) -> AsyncIterator[tuple[PanelsApp, InspectorPanels, Pilot[None]]]:
    """The difference as it is after these keys, the last of them `diff`."""
    app = PanelsApp(projection)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for command in commands:
            app.panels.action_inspect(command)
            await at_rest(app)
            await pilot.pause()
        assert app.panels.comparing
        yield app, app.panels, pilot


def text(app: PanelsApp) -> str:
    return "\n".join(screen_rows(app))


# --- What is compared ---------------------------------------------------------------------------------


def pairs(
    moment: Moment | None, marked: Moment | None = None, compaction: int | None = None
) -> list[str]:
    return [each.title(NOW) for each in comparisons(NOW, moment, marked, compaction)]


NOW = compacted_story().projection()
COMPACTION = NOW.all_compactions[0].index


@pytest.mark.parametrize(
    ("asked_for", "titles"),
    [
        (pairs(None), ["request 15 → request 16, the next"]),
        (pairs(at_request(NOW, 12)), ["request 11 → request 12"]),
        (pairs(at_request(NOW, 1)), []),
        (
            pairs(at_compaction(NOW, COMPACTION)),
            [f"before and after compaction {COMPACTION}"],
        ),
        (
            pairs(None, compaction=COMPACTION),
            [
                f"before and after compaction {COMPACTION}",
                "request 15 → request 16, the next",
            ],
        ),
        (
            pairs(at_request(NOW, 3), at_request(NOW, 9)),
            ["request 3 → request 9", "request 2 → request 3"],
        ),
        (
            pairs(None, at_request(NOW, 9)),
            ["request 9 → request 16, the next", "request 15 → request 16, the next"],
        ),
        (pairs(at_request(NOW, 9), at_request(NOW, 9)), ["request 8 → request 9"]),
    ],
)
def test_the_pair_that_is_most_wanted_comes_first(
    asked_for: list[str], titles: list[str]
) -> None:
    assert asked_for == titles


async def test_the_cursor_on_a_compaction_compares_the_views_before_and_after_it() -> (
    None
):
    async with compared(NOW, "older-compaction", "older-compaction", "diff") as (
        app,
        screen,
        pilot,
    ):
        assert f"before and after compaction {COMPACTION}" in text(app)
        assert (
            "− 16 gone" in text(app)
            and "+ 1 summary new" in text(app)
            and "summarised by" in text(app)
        )
        await pilot.press("d")
        await at_rest(app)
        await pilot.pause()
        assert "request 15 → request 16, the next" in text(app)
        assert screen.view.difference is not None and {
            p.change for p in screen.view.difference.pairs
        } == {
            "same",
            "new",
        }


@pytest.mark.slow
async def test_a_marked_request_is_compared_with_the_shown_one() -> None:
    commands = (
        *["older-request"] * 2,
        "mark",
        *["older-request"] * 2,
        "diff",
    )
    async with compared(NOW, *commands) as (app, _, pilot):
        assert "request 12 → request 14" in text(app)
        await pilot.press("escape")
        await at_rest(app)
        await pilot.pause()
        assert app.panels.travel.shown.as_of == "request 12"
        assert app.panels.history.view.has_focus


# --- What is shown ------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_where_there_is_little_room_the_hints_still_name_the_way_out(
    size: tuple[int, int],
) -> None:
    async with compared(
        NOW, "older-compaction", "older-compaction", "diff", size=size
    ) as (app, _, _):
        assert screen_rows(app)[-1].rstrip().endswith("Esc end comparison")


async def test_what_is_the_same_is_one_line_until_it_is_opened() -> None:
    async with compared(NOW, "before-compaction", "diff") as (app, screen, pilot):
        assert "… 4 items unchanged" in text(
            app
        ) and "Foldline system prompt" not in text(app)
        await pilot.press("up", "enter")
        await pilot.pause()
        assert "… 4 items unchanged" in text(app) and "Foldline system prompt" in text(
            app
        )
        await pilot.press("enter")
        await pilot.pause()
        assert "Foldline system prompt" not in text(app)
        assert (
            "▶         … 4 items" in text(app) and screen.view.view.cursor is not None
        )


@pytest.mark.slow
async def test_what_changed_in_a_result_is_shown_and_opens() -> None:
    async with compared(NOW, "before-compaction", "diff", size=(120, 60)) as (
        app,
        _,
        pilot,
    ):
        assert "clipped, was ~1.9k" in text(app) and "21 − sql 20" in text(app)
        assert "1 + [hidden: pytest -q, 31 passed]" in text(app)
        assert "26 − sql 25" in text(app) and "27 − sql 26" not in text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "⋮ 20 lines unchanged" in text(app) and "27 − sql 26" in text(app)


@pytest.mark.slow
async def test_the_entry_is_gone_to_also_where_the_moment_does_not_have_it() -> None:
    commands = ("older-request", "mark", *["older-request"] * 3, "diff")
    async with compared(NOW, *commands) as (app, screen, pilot):
        assert "request 12 → request 15" in text(app)
        assert screen.view.difference is not None
        pairs = screen.view.difference.pairs
        new = [pair.item.index for pair in pairs if pair.change == "new"][-1]
        screen.view.view.cursor_to(row_key(new))
        await pilot.press("1")
        await pilot.pause()
        assert (
            app.panels.history.view.cursor == row_key(new)
            and app.panels.history.view.has_focus
        )


async def test_the_first_request_has_nothing_to_be_compared_with() -> None:
    app = PanelsApp(long_story(8).projection())
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        app.panels.go_to(at_request(app.panels.travel.now, 1))
        await at_rest(app)
        await pilot.pause()
        app.panels.action_inspect("diff")
        await pilot.pause()
        assert NOTHING_TO_COMPARE in text(app) and not app.panels.comparing


lines = st.lists(st.sampled_from("abc"), max_size=12)


@given(lines, lines)
def test_both_texts_can_be_read_from_what_changed(
    before: list[str], after: list[str]
) -> None:
    changed = text_changes("\n".join(before), "\n".join(after))
    before, after = "\n".join(before).split("\n"), "\n".join(after).split("\n")
    old = [line for line in changed if line.kind == "old"]
    new = [line for line in changed if line.kind == "new"]
    assert all(before[line.number - 1] == line.content for line in old)
    assert all(after[line.number - 1] == line.content for line in new)
    assert len(before) - len(old) == len(after) - len(new), (
        "the rest is the same in both"
    )
    kept = [
        each
        for number, each in enumerate(before, 1)
        if number not in {line.number for line in old}
    ]
    assert kept == [
        each
        for number, each in enumerate(after, 1)
        if number not in {line.number for line in new}
    ]
