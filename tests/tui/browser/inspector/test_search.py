"""Searching by properties, and showing system notes."""

import pytest

from foldline.protocol import (
    NoticeRecord,
    RequestRecord,
    ToolDetails,
    ToolResultMessage,
    text_parts,
)
from foldline.tui.browser.inspector.search import (
    SearchQuery,
    parse_search,
    properties_of,
)
from foldline.tui.browser.inspector.tables import NOTES_HIDDEN
from foldline.tui.browser.panels.states import row_key
from foldline.tui.browser.panels.workbench import NOT_FOUND
from foldline.view.outline import message_outline
from support.stories import PanelsApp, Story, screen_rows, shop

from .test_panels import running, views


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("two  words", SearchQuery("two  words")),
        ("tool:bash", SearchQuery("", ("tool:bash",))),
        (
            "State:hidden exit 1 mark:failed",
            SearchQuery("exit 1", ("state:hidden", "mark:failed")),
        ),
        ("kind: value", SearchQuery("kind: value")),
        ("skill:bash", SearchQuery("skill:bash")),
    ],
)
def test_terms_are_split_from_the_text(typed: str, query: SearchQuery) -> None:
    assert parse_search(typed) == query


def test_an_entry_has_to_match_all_terms_by_their_beginning() -> None:
    properties = frozenset({"kind:tool", "tool:bash", "state:summarised"})
    assert parse_search("tool:bash state:sum").admits(properties)
    assert not parse_search("tool:bash state:live").admits(properties)


def test_what_failed_is_known_without_a_look_at_the_entry() -> None:
    def result(brief: str, is_error: bool = False) -> ToolResultMessage:
        return ToolResultMessage(
            call_id="1",
            name="bash",
            parts=text_parts("x"),
            is_error=is_error,
            details=ToolDetails(brief=brief),
        )

    outlines = [
        message_outline(result(*given))
        for given in (("exit 1",), ("exit 0",), ("", True))
    ]
    assert [outline.failed for outline in outlines] == [True, False, True]
    assert {outline.name for outline in outlines} == {"bash"}


def rows_with(app: PanelsApp, panel: int, *names: str) -> list[int]:
    return [
        block.key[0]
        for block in views(app.panels)[panel].blocks()
        if properties_of(app.panels.projection, block.key[0], None).issuperset(names)
    ]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("panel", [0, 1])
async def test_a_search_goes_from_entry_to_entry_of_a_tool(panel: int) -> None:
    async with running(shop()) as (app, pilot):
        wanted = rows_with(app, panel, "tool:bash")
        assert len(wanted) > 1
        await pilot.press(str(panel + 1), "home", "slash", *"tool:bash", "enter")
        await app.workers.wait_for_complete()
        assert views(app.panels)[panel].cursor == row_key(wanted[0])
        await pilot.press("n")
        await app.workers.wait_for_complete()
        assert views(app.panels)[panel].cursor == row_key(wanted[1])


@pytest.mark.slow
async def test_a_search_by_state_and_text_needs_both() -> None:
    async with running(shop()) as (app, pilot):
        hidden = rows_with(app, 0, "state:summarised", "kind:user")
        await pilot.press("home", "slash", *"state:sum kind:user", "enter")
        await app.workers.wait_for_complete()
        assert views(app.panels)[0].cursor == row_key(hidden[0])
        await pilot.press("escape", "slash", *"state:sum xyzzy", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        nowhere = NOT_FOUND.format(needle="“state:sum xyzzy”")
        assert any(nowhere in row for row in screen_rows(app))


async def test_in_an_expanded_entry_the_text_is_found_in_what_is_below() -> None:
    story = Story().user("go").tool("read", path="a.py").assistant("done")
    async with running(story) as (app, pilot):
        app.panels.reveal(2)
        await pilot.press("enter", "home", "slash", *"tool:read a.py", "enter")
        await app.workers.wait_for_complete()
        cursor = views(app.panels)[0].cursor
        assert cursor is not None and cursor[0] == 2 and cursor != row_key(2)


async def test_system_notes_are_hidden_until_a_key_shows_them_and_can_be_read() -> None:
    story = (
        Story()
        .user("go")
        .add(RequestRecord(digest="0" * 64, model="m", error="429: too many"))
    )
    story.add(NoticeRecord(text="[b]imported[/b] with 2 gaps"))
    async with running(story) as (app, pilot):
        history = views(app.panels)[0]
        assert [block.key[0] for block in history.blocks()] == [0]
        assert NOTES_HIDDEN in screen_rows(app)[0]
        await pilot.press("a")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert [block.key[0] for block in history.blocks()] == [0, 1, 2]
        rows = "\n".join(screen_rows(app))
        assert "failed: 429: too many" in rows and "[b]imported[/b] with 2 gaps" in rows
        assert NOTES_HIDDEN not in rows
        await pilot.press("end", "enter")
        assert history.block((2, 1)) is not None
        await pilot.press("a")
        await app.workers.wait_for_complete()
        assert [block.key[0] for block in history.blocks()] == [0]
