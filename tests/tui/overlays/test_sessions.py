"""The Sessions screen under Pilot: what its keys do to real sessions on disk, and what they never do."""

import asyncio
from pathlib import Path

import pytest

from foldline.history import Session, find_session, utc_now
from foldline.history.children import child_events
from foldline.protocol import Title
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.overlays.sessions import (
    CHANGING,
    FORK_AT,
    FORK_INSTEAD,
    IMPORT,
    READ_ALONG,
    RESTORE,
)
from foldline.tui.overlays.sessions_list import (
    SessionRow,
    export_session,
    import_session,
)
from foldline.tui.overlays.sessions_view import NO_MATCH
from support.agent_homes import AgentHomes
from support.claude_code_rows import user
from support.holders import holder
from support.sessions_screen import BLOG, Shelf, sessions_on

pytestmark = pytest.mark.slow


@pytest.fixture
async def shelf(tmp_path: Path) -> Shelf:
    """Two sessions of the shop, one of the blog."""
    made = Shelf(tmp_path / "data")
    await made.keep(
        "Why does the proxy drop the key?",
        answer="The header is too long.",
        minutes=300,
    )
    await made.keep("Make orders idempotent", title="Idempotent orders", minutes=20)
    await made.keep("Write about proxies", cwd=BLOG, minutes=60)
    return made


# --- lists ------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_this_folders_sessions_are_listed_the_newest_first(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        first, second = seen.listed
        assert first.startswith("▶20 min ago   Idempotent orders")
        assert second.startswith(" 5 h ago      Why does the proxy drop the key?")


async def test_tab_lists_all_folders_and_says_which(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("tab")
        await seen.shows("of 3", "/w/blog")
        assert len(seen.listed) == 3


@pytest.mark.quick
async def test_tab_goes_round_the_scopes(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        for scope in ("all", "archived", "others", "here"):
            await seen.press("tab")
            assert seen.app.sessions.state.scope == scope


async def test_what_is_known_of_the_marked_session_stands_below_the_list(
    shelf: Shelf,
) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.shows(
            "first   Make orders idempotent", "kimi-k2 · 3 entries · 28.6k tokens"
        )
        await seen.press("down")
        await seen.shows(
            "first   Why does the proxy drop the key?", "/w/shop-api", "events.jsonl"
        )


async def test_of_many_sessions_the_last_one_is_reached(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for number in range(60):
        await shelf.keep(f"Prompt {number}", minutes=number)
    async with sessions_on(tmp_path) as seen:
        await seen.shows("of 60")
        await seen.press("up")
        assert "Prompt 59" in seen.listed[-1]


async def test_where_there_are_no_sessions_yet_it_says_what_makes_one(
    tmp_path: Path,
) -> None:
    async with sessions_on(tmp_path) as seen:
        await seen.shows("The first prompt creates one")
        await seen.press("enter", "delete", "ctrl+o")
        assert seen.app.results == []


async def test_a_data_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("not a folder")
    async with sessions_on(tmp_path) as seen:
        await seen.shows(
            "cannot be", "Nothing was changed"
        )  # the words between may be wrapped


async def test_a_session_that_cannot_be_read_says_why_and_is_not_resumed(
    shelf: Shelf,
) -> None:
    path = await shelf.keep("x")
    path.write_bytes(b"\x00\xff garbage\n")
    path.with_name("meta.json").unlink()
    async with sessions_on(shelf.home) as seen:
        await seen.shows("! the file")
        await seen.press("enter")
        assert seen.app.results == []
        assert "damage  the file" in seen.text


# --- going on with one ------------------------------------------------------------------------------


@pytest.mark.quick
async def test_enter_gives_back_the_marked_session(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("down", "enter")
        path = await seen.result()
        assert path is not None and Session.open(path).meta().first_prompt.startswith(
            "Why does"
        )


@pytest.mark.quick
async def test_esc_gives_back_none(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("escape")
        assert await seen.result() is None


async def test_the_session_of_this_chat_is_only_gone_back_to(shelf: Shelf) -> None:
    here = find_session(shelf.home, "0001")
    async with sessions_on(shelf.home, here=here) as seen:
        await seen.shows("this chat · Idempotent orders")
        await seen.press("delete")
        assert "cannot be undone" not in seen.text and len(shelf.titles()) == 3
        await seen.press("enter")
        assert await seen.result() is None


@pytest.mark.quick
async def test_a_session_that_another_process_writes_is_read_or_forked_instead(
    shelf: Shelf,
) -> None:
    path = find_session(shelf.home, "0001")
    with holder(path.parent) as other:
        async with sessions_on(shelf.home) as seen:
            await seen.press("enter")
            await seen.shows("is in use by process", READ_ALONG, FORK_INSTEAD)
            await seen.press("escape")
            assert READ_ALONG not in seen.text
            await seen.press("enter")
            await seen.shows(READ_ALONG)
            await seen.press("enter")
            await seen.until(lambda: isinstance(seen.app.screen, InspectorScreen))
            await seen.shows(f"written by process {other.pid}")
            await seen.press("escape", "enter")
            await seen.shows(READ_ALONG)
            await seen.press("down", "enter")
            copy = await seen.result()
    assert copy is not None and copy != path
    assert len(Session.open(copy).entries) == 4


async def test_fork_goes_on_in_a_copy(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.act("fork")
        copy = await seen.result()
    assert copy is not None and shelf.titles().count("Idempotent orders") == 2


# --- search -----------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_titles_match_at_once_and_what_was_said_comes_with_its_excerpt(
    shelf: Shelf,
) -> None:
    await shelf.keep("Look at the logs", "Now restart the proxy", "Thanks", minutes=5)
    async with sessions_on(shelf.home) as seen:
        await seen.press("tab")
        await seen.shows("Write about proxies")
        await seen.type("prox")
        assert any("Write about proxies" in row for row in seen.listed)
        await seen.searched()
        await seen.shows("of 4")
        first, second, third, match = seen.listed
        assert "Write about proxies" in first and "the proxy drop" in second
        assert (
            "Look at the logs" in third and "2  user    Now restart the proxy" in match
        )


async def test_what_only_an_answer_says_is_found(shelf: Shelf) -> None:
    async with sessions_on(shelf.home, query="header too") as seen:
        await seen.searched()
        session, match = seen.listed
        assert (
            "Why does the proxy" in session
            and "1  assist  The header is too long." in match
        )


async def test_letters_are_always_text(
    shelf: Shelf,
) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press(*"rD2?")
        assert seen.app.sessions.state.query == "rD2?"
        assert shelf.titles() and seen.app.screen is seen.app.sessions


async def test_esc_ends_the_search_and_then_closes_the_screen(
    shelf: Shelf,
) -> None:
    async with sessions_on(shelf.home, query="orders") as seen:
        await seen.searched()
        await seen.press("escape")
        assert seen.app.sessions.state.query == "" and not seen.app.results
        await seen.press("escape")
        assert await seen.result() is None


async def test_where_nothing_was_found_it_says_so(shelf: Shelf) -> None:
    async with sessions_on(shelf.home, query="nowhere to be found") as seen:
        await seen.searched()
        await seen.shows(NO_MATCH["here"].format(query="nowhere to be found"))


@pytest.mark.quick
async def test_read_on_a_match_opens_the_inspector_at_that_entry(shelf: Shelf) -> None:
    await shelf.keep(
        *(f"Question {number}" for number in range(30)), "Where is the needle?"
    )
    async with sessions_on(shelf.home, query="needle") as seen:
        await seen.searched()
        await seen.press("down")
        await seen.act("read")
        await seen.until(lambda: isinstance(seen.app.screen, InspectorScreen))
        await seen.until(lambda: seen.app.screen.panels.lists.link is not None)  # type: ignore[attr-defined]
        assert seen.app.screen.panels.lists.link.index == 60  # type: ignore[attr-defined]
        await seen.press("escape")
        row = seen.app.sessions.list_row
        assert row is not None and row.hit is not None and row.hit.index == 60


async def test_fork_on_a_match_forks_up_to_it(shelf: Shelf) -> None:
    await shelf.keep("one", "two needles", "three")
    async with sessions_on(shelf.home, query="needles") as seen:
        await seen.searched()
        await seen.press("down", "ctrl+o")
        await seen.shows(FORK_AT.format(index=2))
        await seen.press("down", "enter")
        copy = await seen.result()
    assert copy is not None and [
        entry.index for entry in Session.open(copy).entries
    ] == [0, 1, 2]


async def test_archived_sessions_are_searched_among_the_archived(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("down")
        await seen.act("archive")
        await seen.shows("Archived ")
        await seen.type("too long")
        await seen.searched()
        assert not seen.listed
        await seen.scope("archived")
        await seen.shows("1  assist")


# --- tidying ----------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_rename_asks_for_a_title_and_esc_leaves_it(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.act("rename")
        await seen.shows("New title for")
        await seen.press("x", "escape")
        assert shelf.titles()[0] == "Idempotent orders"
        await seen.until(lambda: not seen.app.sessions.busy)
        await seen.act("rename")
        await seen.shows("New title for")
        await seen.press("ctrl+u")
        await seen.type("Orders twice")
        await seen.press("enter")
        await seen.shows("to “Orders twice”", "20 min ago   Orders twice")
        assert shelf.titles()[0] == "Orders twice"


async def test_this_chats_session_is_renamed_by_the_chat(shelf: Shelf) -> None:
    titles: list[str] = []

    async def retitle(entry: Title) -> str:
        titles.append(entry.title)
        return f"This chat is called “{entry.title}” now."

    here = find_session(shelf.home, "0001")
    async with sessions_on(shelf.home, here=here, retitle=retitle) as seen:
        await seen.act("rename")
        await seen.shows("New title for")
        await seen.type(" 2")
        await seen.press("enter")
        await seen.shows("This chat is called “Idempotent orders 2” now")
    assert titles == ["Idempotent orders 2"]


@pytest.mark.quick
async def test_archive_archives_and_restores(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.act("archive")
        await seen.shows("Archived ", "1 of 1")
        assert shelf.titles(archived=True) == ["Idempotent orders"]
        await seen.scope("archived")
        await seen.shows("Idempotent orders")
        await seen.press("ctrl+o")
        await seen.shows(RESTORE)
        await seen.press("escape")
        await seen.until(lambda: not seen.app.sessions.busy)
        await seen.act("archive")
        await seen.shows("Restored ", "No archived sessions")
        assert "Idempotent orders" in shelf.titles()


@pytest.mark.quick
async def test_a_session_is_deleted_after_a_confirmation(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        for answer in ("escape", "enter"):
            await seen.press("delete")
            await seen.shows("Delete “Idempotent orders”?", "last written 20 min ago")
            await seen.press(answer)
            await seen.until(lambda: not seen.app.sessions.busy)
            assert "Idempotent orders" in shelf.titles()
        await seen.press("delete")
        await seen.confirm()
        await seen.shows("Deleted ", "1 of 1")
        assert "Idempotent orders" not in shelf.titles()


async def test_a_session_that_is_held_is_not_deleted_and_says_why(shelf: Shelf) -> None:
    path = find_session(shelf.home, "0001")
    with holder(path.parent):
        async with sessions_on(shelf.home) as seen:
            await seen.press("delete")
            await seen.confirm()
            await seen.shows("cannot be deleted now")
    assert path.exists()


async def test_keys_for_the_list_wait_while_something_is_done(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*_: object) -> str:
        asyncio.run_coroutine_threadsafe(opened.wait(), loop).result(20)
        return "moved"

    monkeypatch.setattr("foldline.tui.overlays.sessions.archive_session", slow)
    async with sessions_on(shelf.home) as seen:
        await seen.act("archive")
        await seen.shows(CHANGING.format(session="“Idempotent orders”"))
        await seen.press("delete", "enter")
        assert "cannot be undone" not in seen.text and seen.app.results == []
        opened.set()
        await seen.shows("moved")


# --- other agents -----------------------------------------------------------------------------------


@pytest.mark.quick
async def test_other_agents_sessions_are_read_or_imported(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = AgentHomes(tmp_path / "people", monkeypatch).claude_code(
        user("Mend the [bold]parser")
    )
    before = foreign.read_bytes()
    async with sessions_on(shelf.home) as seen:
        await seen.scope("others")
        await seen.shows("claude-code", "Mend the [bold]parser")
        await seen.press("delete")
        assert "cannot be undone" not in seen.text
        await seen.press("enter")
        await seen.until(lambda: isinstance(seen.app.screen, InspectorScreen))
        await seen.press("escape", "ctrl+o")
        await seen.shows(IMPORT)
        await seen.press("escape")
        await seen.until(lambda: not seen.app.sessions.busy)
        await seen.act("import")
        copy = await seen.result()
    assert (
        copy is not None and Session.open(copy).meta().title == "Mend the [bold]parser"
    )
    assert foreign.read_bytes() == before


def test_an_import_brings_its_subagents_and_an_export_shows_them(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = AgentHomes(tmp_path / "people", monkeypatch).claude_code(
        user("Mend the parser", uuid="a", parentUuid=None),
        user(
            "look for the needle",
            uuid="s",
            parentUuid=None,
            isSidechain=True,
            agentId="a1",
        ),
    )
    row = SessionRow(foreign, "s", utc_now(), agent="claude-code")
    copy = import_session(row, shelf.home, tmp_path)
    assert "look for the needle" in child_events(copy, "a1").read_text()
    written, _ = export_session(copy, "html", tmp_path)
    assert "look for the needle" in written.read_text()


async def test_in_other_agents_lists_titles_and_prompts_are_searched(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = AgentHomes(tmp_path / "people", monkeypatch)
    homes.claude_code(user("Mend the parser"))
    homes.claude_code(user("Draw a cat"))
    async with sessions_on(shelf.home) as seen:
        await seen.scope("others")
        await seen.shows("of 2")
        await seen.type("cat")
        await seen.shows("1 of 1", "Draw a cat")
        await seen.type("fish")
        await seen.shows(
            "No title or first prompt of another agent's session contains “catfish”"
        )


# --- looks ------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_foreign_text_is_shown_as_text(shelf: Shelf) -> None:
    await shelf.keep("x", title="[/nope] \x1b[31mred 移动端重试 👩‍💻 [@click=app.quit]")
    async with sessions_on(shelf.home, (80, 24)) as seen:
        assert "[/nope]" in seen.listed[0] and "\x1b" not in seen.text
        await seen.press("delete")
        await seen.shows("Delete “[/nope]")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(40, 10), (300, 90)])
async def test_it_fits_every_terminal(shelf: Shelf, size: tuple[int, int]) -> None:
    async with sessions_on(shelf.home, size) as seen:
        assert any("Idempotent" in row for row in seen.listed)
        await seen.press("delete")
        await seen.shows("▶No")


async def test_a_terminal_that_is_too_small_says_so(shelf: Shelf) -> None:
    async with sessions_on(shelf.home, (39, 9)) as seen:
        assert "Too small" in seen.text


async def test_the_cursor_stays_at_its_session_when_the_list_is_read_again(
    shelf: Shelf,
) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("down")
        await shelf.keep("A newer one", minutes=1)
        seen.app.sessions.list_again()
        await seen.shows("of 3")
        row = seen.app.sessions.list_row
        assert row is not None and row.session.title.startswith("Why does")
