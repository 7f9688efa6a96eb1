"""The Sessions screen under Pilot: what its keys do to real sessions on disk, and what they never do."""

import asyncio
from pathlib import Path

import pytest
from textual import events

from foldline.history import Session, find_session, utc_now
from foldline.history.children import child_events
from foldline.tui.inspector import InspectorScreen
from foldline.tui.screens import sessions_view
from foldline.tui.screens.help import HelpScreen
from foldline.tui.screens.sessions_list import Listed, export_session, import_session
from foldline.tui.widgets.question import TOO_SOON
from support.agent_homes import AgentHomes
from support.claude_code_rows import user
from support.holders import holder
from support.sessions_screen import BLOG, Shelf, sessions_on


@pytest.fixture
async def shelf(tmp_path: Path) -> Shelf:
    """Two sessions of the shop, one of the blog."""
    made = Shelf(tmp_path / "data")
    await made.keep("Why does the proxy drop the key?", answer="The header is too long.", minutes=300)
    await made.keep("Make orders idempotent", title="Idempotent orders", minutes=20)
    await made.keep("Write about proxies", cwd=BLOG, minutes=60)
    return made


# --- lists ------------------------------------------------------------------------------------------


async def test_this_folders_sessions_are_listed_the_newest_first(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        first, second = seen.listed
        assert first.startswith("▶ 20 min ago   Idempotent orders")
        assert second.startswith("  5 h ago      Why does the proxy drop the key?")


async def test_2_lists_all_folders_and_says_which(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("2")
        await seen.says("3 sessions", "/w/blog")
        assert len(seen.listed) == 3


async def test_s_goes_round_the_scopes(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        for scope in ("all", "archived", "others", "here"):
            await seen.press("s")
            assert seen.app.sessions.state.scope == scope


async def test_what_is_known_of_the_marked_session_stands_below_the_list(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.says("first   Make orders idempotent", "kimi-k2 · 3 entries · 28.6k tokens")
        await seen.press("down")
        await seen.says("first   Why does the proxy drop the key?", "/w/shop-api", "events.jsonl")


async def test_of_many_sessions_only_those_in_sight_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path)
    for number in range(300):
        await shelf.keep(f"Prompt {number}", minutes=number)
    async with sessions_on(tmp_path) as seen:
        await seen.says("300 sessions")
        drawn: list[object] = []
        row = sessions_view.session_row
        monkeypatch.setattr(sessions_view, "session_row", lambda *given: drawn.append(given) or row(*given))
        await seen.press("end")
        assert len(drawn) < 60
        assert "Prompt 299" in seen.listed[-1]


async def test_where_there_are_no_sessions_yet_it_says_what_makes_one(tmp_path: Path) -> None:
    async with sessions_on(tmp_path) as seen:
        await seen.says("The first prompt makes one", "4 Other agents")
        await seen.press("enter", "D", "x", "r", "f", "o", "i")
        assert seen.app.left == []


async def test_a_data_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("not a folder")
    async with sessions_on(tmp_path) as seen:
        await seen.says("cannot be", "Nothing was changed")  # the words between may be wrapped
        assert "sessions ━┓" not in seen.text


async def test_a_session_that_cannot_be_read_says_why_and_is_not_resumed(shelf: Shelf) -> None:
    path = await shelf.keep("x")
    path.write_bytes(b"\x00\xff garbage\n")
    path.with_name("meta.json").unlink()
    async with sessions_on(shelf.home) as seen:
        await seen.says("! its file")
        await seen.press("home", "enter", "f", "o")
        assert seen.app.left == []
        assert "damage  its file" in seen.text


# --- going on with one ------------------------------------------------------------------------------


async def test_enter_gives_back_the_marked_session(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("down", "enter")
        path = await seen.left_with()
        assert path is not None and Session.open(path).meta().first_prompt.startswith("Why does")


async def test_esc_gives_back_none(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("escape")
        assert await seen.left_with() is None


async def test_the_session_of_this_chat_is_only_gone_back_to(shelf: Shelf) -> None:
    here = find_session(shelf.home, "0001")
    async with sessions_on(shelf.home, here=here) as seen:
        await seen.says("this chat · Idempotent orders")
        await seen.press("x", "D")
        assert "for good" not in seen.text and len(shelf.titles()) == 3
        await seen.press("enter")
        assert await seen.left_with() is None


async def test_a_session_that_another_process_writes_is_read_or_forked_instead(shelf: Shelf) -> None:
    path = find_session(shelf.home, "0001")
    with holder(path.parent) as other:
        async with sessions_on(shelf.home) as seen:
            await seen.press("home", "enter")
            await seen.says("is being written by process", "r read along", "f fork")
            await seen.press("escape")
            assert "read along" not in seen.text
            await seen.press("enter")
            await seen.says("read along")
            await seen.press("r")
            await seen.until(lambda: isinstance(seen.app.screen, InspectorScreen))
            await seen.says(f"written by process {other.pid}")
            await seen.press("escape", "enter")
            await seen.says("read along")
            await seen.press("f")
            copy = await seen.left_with()
    assert copy is not None and copy != path
    assert len(Session.open(copy).entries) == 4


async def test_f_goes_on_in_a_copy(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("f")
        copy = await seen.left_with()
    assert copy is not None and shelf.titles().count("Idempotent orders") == 2


# --- search -----------------------------------------------------------------------------------------


async def test_titles_match_at_once_and_what_was_said_comes_with_its_excerpt(shelf: Shelf) -> None:
    await shelf.keep("Look at the logs", "Now restart the proxy", "Thanks", minutes=5)
    async with sessions_on(shelf.home) as seen:
        await seen.press("2")
        await seen.says("Write about proxies")
        await seen.press("slash")
        await seen.type("prox")
        assert any("Write about proxies" in row for row in seen.listed)
        await seen.searched()
        await seen.says("3 of 4")
        first, second, third, match = seen.listed
        assert "Write about proxies" in first and "the proxy drop" in second
        assert "Look at the logs" in third and "2  user    Now restart the proxy" in match


async def test_what_only_an_answer_says_is_found(shelf: Shelf) -> None:
    async with sessions_on(shelf.home, query="header too") as seen:
        await seen.searched()
        session, match = seen.listed
        assert "Why does the proxy" in session and "1  assist  The header is too long." in match


async def test_in_the_search_line_letters_are_text_and_enter_leads_to_the_list(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("slash", *"rD2?")
        assert seen.app.sessions.state.query == "rD2?"
        assert shelf.titles() and not isinstance(seen.app.screen, HelpScreen)
        await seen.press("enter", "question_mark")
        assert isinstance(seen.app.screen, HelpScreen)


async def test_esc_leaves_the_search_line_then_the_search_then_the_screen(shelf: Shelf) -> None:
    async with sessions_on(shelf.home, query="orders") as seen:
        assert "Esc to the list" in seen.rows[-1]
        await seen.press("escape")
        assert "Esc end search" in seen.rows[-1] and "1 of 2" in seen.text
        await seen.press("escape")
        assert "Esc to the chat" in seen.rows[-1] and "2 sessions" in seen.text
        await seen.press("escape")
        assert await seen.left_with() is None


async def test_where_nothing_was_found_it_says_so(shelf: Shelf) -> None:
    async with sessions_on(shelf.home, query="nowhere to be found") as seen:
        await seen.searched()
        await seen.says("No session of this folder holds “nowhere to be found” in one entry")


async def test_o_on_a_match_opens_the_inspector_at_that_entry(shelf: Shelf) -> None:
    await shelf.keep(*(f"Question {number}" for number in range(30)), "Where is the needle?")
    async with sessions_on(shelf.home, query="needle") as seen:
        await seen.searched()
        await seen.press("enter", "down", "o")
        await seen.until(lambda: isinstance(seen.app.screen, InspectorScreen))
        await seen.until(lambda: seen.app.screen.panels.lists.link is not None)  # type: ignore[attr-defined]
        assert seen.app.screen.panels.lists.link.index == 60  # type: ignore[attr-defined]
        await seen.press("escape")
        assert seen.app.sessions.hit is not None and seen.app.sessions.hit.index == 60


async def test_f_on_a_match_forks_up_to_it(shelf: Shelf) -> None:
    await shelf.keep("one", "two needles", "three")
    async with sessions_on(shelf.home, query="needles") as seen:
        await seen.searched()
        await seen.press("enter", "down")
        await seen.says("f fork at 2")
        await seen.press("f")
        copy = await seen.left_with()
    assert copy is not None and [entry.index for entry in Session.open(copy).entries] == [0, 1, 2]


async def test_archived_sessions_are_searched_among_the_archived(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("down", "x")
        await seen.says("is archived")
        await seen.press("slash")
        await seen.type("too long")
        await seen.searched()
        await seen.says("0 of 1")
        await seen.press("tab", "3")
        await seen.says("1 of 1", "1  assist")


# --- tidying ----------------------------------------------------------------------------------------


async def test_r_renames_in_place_and_esc_leaves_the_title(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("r", "x", "escape")
        assert shelf.titles()[0] == "Idempotent orders"
        await seen.press("r", "ctrl+u")
        await seen.type("Orders twice")
        await seen.press("enter")
        await seen.says("is called “Orders twice” now", "20 min ago   Orders twice")
        assert shelf.titles()[0] == "Orders twice"


async def test_this_chats_session_is_renamed_by_the_chat(shelf: Shelf) -> None:
    titles: list[str] = []

    async def retitle(title: str) -> str:
        titles.append(title)
        return f"This chat is called “{title}” now."

    here = find_session(shelf.home, "0001")
    async with sessions_on(shelf.home, here=here, retitle=retitle) as seen:
        await seen.press("r")
        await seen.type(" 2")
        await seen.press("enter")
        await seen.says("This chat is called “Idempotent orders 2” now")
    assert titles == ["Idempotent orders 2"]


async def test_x_archives_and_brings_back(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("x")
        await seen.says("is archived: 3 shows it", "1 session")
        assert shelf.titles(archived=True) == ["Idempotent orders"]
        await seen.press("3")
        await seen.says("Idempotent orders", "x bring back")
        await seen.press("x")
        await seen.says("among the sessions again", "Nothing is archived")
        assert "Idempotent orders" in shelf.titles()


async def test_only_enter_deletes_and_not_one_that_was_typed_ahead(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        for key in ("escape", "n", "ctrl+s", "y", "D"):
            await seen.press("D")
            await seen.says("Delete “Idempotent orders” (last written 20 min ago, 3 entries", "Enter delete")
            await seen.press(key)
            assert "for good" not in seen.text and "Idempotent orders" in shelf.titles()
        for key in ("D", "enter"):  # before the question is on the screen
            seen.app.post_message(events.Key(key, key if key == "D" else None))
        await seen.says(TOO_SOON)
        assert "Idempotent orders" in shelf.titles()
        await seen.press("escape")
        await seen.later("D")
        await seen.press("enter")
        await seen.says("is deleted", "1 session")
        assert "Idempotent orders" not in shelf.titles()


async def test_a_session_that_is_held_is_not_deleted_and_says_why(shelf: Shelf) -> None:
    path = find_session(shelf.home, "0001")
    with holder(path.parent):
        async with sessions_on(shelf.home) as seen:
            await seen.press("home", "D")
            await seen.later("enter")
            await seen.says("it cannot be deleted now")
    assert path.exists()


async def test_keys_for_the_list_wait_while_something_is_done(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*_: object) -> str:
        asyncio.run_coroutine_threadsafe(opened.wait(), loop).result(20)
        return "moved"

    monkeypatch.setattr("foldline.tui.screens.sessions.archive_session", slow)
    async with sessions_on(shelf.home) as seen:
        await seen.press("x")
        await seen.says("Moving it …")
        await seen.press("D", "enter")
        assert "for good" not in seen.text and seen.app.left == []
        opened.set()
        await seen.says("moved")


# --- other agents -----------------------------------------------------------------------------------


async def test_other_agents_sessions_are_read_or_imported(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = AgentHomes(tmp_path / "people", monkeypatch).claude_code(user("Mend the [bold]parser"))
    before = foreign.read_bytes()
    async with sessions_on(shelf.home) as seen:
        await seen.press("4")
        await seen.says("claude-code", "Mend the [bold]parser", "i import")
        await seen.press("f", "r", "x", "D")
        assert "for good" not in seen.text
        await seen.press("enter")
        await seen.until(lambda: isinstance(seen.app.screen, InspectorScreen))
        await seen.press("escape", "i")
        copy = await seen.left_with()
    assert copy is not None and Session.open(copy).meta().title == "Mend the [bold]parser"
    assert foreign.read_bytes() == before


def test_an_import_brings_its_subagents_and_an_export_shows_them(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = AgentHomes(tmp_path / "people", monkeypatch).claude_code(
        user("Mend the parser", uuid="a", parentUuid=None),
        user("look for the needle", uuid="s", parentUuid=None, isSidechain=True, agentId="a1"),
    )
    row = Listed(foreign, "s", utc_now(), agent="claude-code")
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
        await seen.press("4")
        await seen.says("2 sessions")
        await seen.press("slash")
        await seen.type("cat")
        await seen.says("1 of 2", "Draw a cat")
        await seen.type("fish")
        await seen.says("No title or first prompt of another agent's session holds “catfish”")


# --- looks ------------------------------------------------------------------------------------------


async def test_foreign_text_is_shown_as_text(shelf: Shelf) -> None:
    await shelf.keep("x", title="[/nope] \x1b[31mred 移动端重试 👩‍💻 [@click=app.quit]")
    async with sessions_on(shelf.home, (80, 24)) as seen:
        assert "[/nope]" in seen.listed[0] and "\x1b" not in seen.text
        await seen.press("D")
        await seen.says("Delete “[/nope]")


@pytest.mark.parametrize("size", [(40, 10), (300, 90)])
async def test_it_fits_every_terminal(shelf: Shelf, size: tuple[int, int]) -> None:
    async with sessions_on(shelf.home, size) as seen:
        assert any("Idempotent" in row for row in seen.listed)
        await seen.press("D")
        assert "Enter delete" in seen.text
        await seen.press("escape", "r")
        assert "Idempotent orders" in seen.text


async def test_a_terminal_that_is_too_small_says_so(shelf: Shelf) -> None:
    async with sessions_on(shelf.home, (39, 9)) as seen:
        assert "Too small" in seen.text


async def test_the_cursor_stays_at_its_session_when_the_list_is_read_again(shelf: Shelf) -> None:
    async with sessions_on(shelf.home) as seen:
        await seen.press("down")
        await shelf.keep("A newer one", minutes=1)
        seen.app.sessions.list_again()
        await seen.says("3 sessions")
        marked = seen.app.sessions.marked
        assert marked is not None and marked.title.startswith("Why does")
