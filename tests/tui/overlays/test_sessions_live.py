"""The commands on sessions in the running program."""

from pathlib import Path

import pytest

from foldline.history import Session
from foldline.history.paths import FILE_EXISTS
from foldline.protocol import Title, UserMessage
from foldline.tui.app.session_commands import EXPORTED, NO_ANSWER, TITLE_NOW
from foldline.tui.overlays.sessions import SessionsScreen
from support.live import Live, live, session_in

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of the program, with the session that `live` opens."""
    data = tmp_path / "shop-api-home"
    monkeypatch.setenv("FOLDLINE_HOME", str(data))
    return data


def shown(running: Live) -> SessionsScreen:
    assert isinstance(running.app.screen, SessionsScreen)
    return running.app.screen


async def opened(running: Live, command: str) -> SessionsScreen:
    await running.enter(command)
    await running.until(lambda: isinstance(running.app.screen, SessionsScreen))
    await running.until(lambda: shown(running).state.listing is not None)
    return shown(running)


@pytest.mark.quick
async def test_sessions_lists_this_chats_and_esc_gives_the_chat_back(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "shop-api", "Hello") as running:
        await running.ask("hi there")
        await opened(running, "/sessions")
        assert "this chat · hi there" in running.text
        await running.press("escape")
        await running.until(lambda: running.app.screen is running.app.chat)
        await running.ask("and on")
        assert running.app.sessions == [running.app.chat]


@pytest.mark.quick
async def test_the_chosen_session_is_opened_beside_this_one(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "shop-api") as other:
        await other.ask("the other one")
        path = other.agent.session.path
    assert path is not None
    mine = session_in(tmp_path / "shop-api", "20260314-120001-mine")
    async with live(tmp_path / "shop-api", session=mine) as running:
        await running.ask("this one")
        screen = await opened(running, "/sessions other")
        await running.until(lambda: screen.marked is not None)
        await running.press("enter")
        await running.until(lambda: running.app.chat.file == str(path))
        assert [chat.file for chat in running.app.sessions] == [
            str(mine.path),
            str(path),
        ]


async def test_a_session_that_is_open_is_shown_and_not_taken_for_another_processs(
    tmp_path: Path, home: Path
) -> None:
    mine = session_in(tmp_path / "shop-api", "20260314-120001-mine")
    async with live(tmp_path / "shop-api", session=mine) as running:
        await running.ask("this one")
        first = running.app.chat
        await running.enter("/new")
        await running.until(
            lambda: running.app.chat is not first and running.app.runner
        )
        await running.enter("written here")
        await opened(running, "/sessions")
        await running.press("up", "enter")
        await running.until(lambda: running.app.chat is first)


@pytest.mark.quick
async def test_rename_writes_a_title_that_is_shown_at_once_and_kept(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "shop-api") as running:
        await running.ask("hi")
        await running.enter("/rename Orders  [bold]twice")
        await running.until(
            lambda: "shop-api ▸ Orders [bold]twice" in running.screen[0]
        )
        assert running.entries[-1].model_copy(update={"index": 0, "at": None}) == Title(
            index=0, title="Orders [bold]twice"
        )
        path = running.agent.session.path
        await running.enter("/rename")
        await running.until(
            lambda: (
                TITLE_NOW.partition(". ")[0].format(title="Orders [bold]twice")
                in running.text
            )
        )
    assert path is not None and Session.open(path).meta().title == "Orders [bold]twice"


@pytest.mark.quick
async def test_fork_opens_a_copy_and_leaves_the_session_as_it_is(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "shop-api") as running:
        await running.enter("/fork")
        await running.until(lambda: "nothing to fork" in running.text)
        await running.ask("hi")
        session, first = running.agent.session, running.app.chat
        assert session.path is not None
        before = session.path.read_bytes()
        await running.enter("/fork")
        await running.until(
            lambda: running.app.chat is not first and running.app.runner
        )
        copy = running.app.chat.file
    assert copy not in ("", str(session.path)) and session.path.read_bytes() == before
    assert list(Session.open(Path(copy)).entries) == list(session.entries)


async def test_copy_takes_the_last_answer_whatever_came_after_it(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "shop-api", "An answer.") as running:
        await running.enter("/copy")
        await running.until(lambda: NO_ANSWER in running.text)
        await running.ask("hi")
        await running.enter("/rename Orders")
        await running.enter("/copy")
        await running.until(lambda: "Copied the last answer" in running.text)
        assert running.app.clipboard == "An answer."


async def test_copy_finds_the_last_answer_behind_a_damaged_record(
    tmp_path: Path, home: Path
) -> None:
    session = session_in(tmp_path / "shop-api", "20260314-120001-mine")
    async with live(
        tmp_path / "shop-api", "One.", "An answer.", session=session
    ) as running:
        await running.ask("hi")
        await running.ask("and again")
    path = session.path
    assert path is not None
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((*lines[:2], b"{\n", *lines[3:])))
    async with live(tmp_path / "shop-api", session=Session.open(path)) as running:
        assert running.agent.session.damage
        await running.enter("/copy")
        await running.until(lambda: "Copied the last answer" in running.text)
        assert running.app.clipboard == "An answer."


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("typed", "written", "begins"),
    [
        ("/export talk.html", "talk.html", "<!DOCTYPE html>"),
        ("/export markdown talk.txt", "talk.txt", "#"),
        ("/export openai", "*.json", "{"),
    ],
)
async def test_export_writes_a_new_file_into_this_folder_and_none_over_another(
    tmp_path: Path, home: Path, typed: str, written: str, begins: str
) -> None:
    async with live(tmp_path / "shop-api") as running:
        await running.enter(typed)
        await running.until(lambda: "nothing to export" in running.text)
        await running.ask("hi")
        await running.enter(typed)
        await running.until(lambda: EXPORTED.partition("{")[0] in running.text)
        [file] = (tmp_path / "shop-api").glob(written)
        text = file.read_text()
        assert text.startswith(begins) and "hi" in text
        file_exists = FILE_EXISTS.partition("} ")[2].partition(":")[0]
        await running.enter(typed)
        await running.until(lambda: file_exists in running.text)
        assert file.read_text() == text


async def test_export_names_the_formats_there_are(tmp_path: Path, home: Path) -> None:
    async with live(tmp_path / "shop-api") as running:
        await running.ask("hi")
        await running.enter("/export word talk.doc")
        await running.until(lambda: "There is no export format 'word'" in running.text)
        await running.enter("/export pi")
        await running.until(lambda: "foldline handoff --to pi" in running.text)


async def test_init_asks_the_model_for_instructions(tmp_path: Path, home: Path) -> None:
    async with live(tmp_path / "shop-api") as running:
        await running.enter("/init")
        await running.at_rest()
        assert any(
            "AGENTS.md" in entry.text
            for entry in running.entries
            if isinstance(entry, UserMessage)
        )
