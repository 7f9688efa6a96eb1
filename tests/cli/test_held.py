"""A session that is held, or cannot be written: what is asked on a terminal, and said without one."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.cli.agents import open_for_writing
from foldline.history import Session, list_sessions, short_id
from foldline.protocol import NoticeRecord, UserMessage, text_parts
from foldline.tui.browser.inspector.follow import DONE_WRITING
from foldline.tui.overlays.sessions import IN_USE
from support.command_line import CommandLine
from support.history import history
from support.holders import Holder, holder
from support.terminal import Terminal, terminal


@pytest.fixture
def folder(cli: CommandLine) -> Path:
    return cli.keep(history().user("Idempotent orders").assistant("Done.").entries)


def test_it_is_one_sentence_with_both_ways_out(cli: CommandLine, folder: Path) -> None:
    with holder(folder) as other:
        said = cli("run", "-c", "go on")
    assert (said.code, said.out) == (1, "")
    ref = short_id(folder.name)
    assert f"is being written by process {other.pid} (since " in said.err
    assert f"`foldline open {ref}`" in said.err and f"`foldline fork {ref}`" in said.err


def test_what_was_written_between_reading_and_claiming_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Session.claim

    def late(session: Session) -> None:
        monkeypatch.setattr(Session, "claim", claim)
        other = Session.open(folder)
        asyncio.run(other.append(NoticeRecord(text="between")))
        other.close()
        session.claim()

    monkeypatch.setattr(Session, "claim", late)
    session = open_for_writing(folder / "events.jsonl", folder)
    assert isinstance(session.entries[-1], NoticeRecord)
    session.close()


# --- where nothing can be written -------------------------------------------------------------------


def unshared() -> str | None:
    """Why this system does not let us mount anything of our own; None where it does."""
    if shutil.which("unshare") is None:
        return "there is no `unshare`"
    tried = subprocess.run(
        ["unshare", "-rm", "true"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else f"`unshare -rm`: {tried.stderr.strip()}"


@pytest.fixture
def immutable(folder: Path) -> Iterator[Path]:
    """The session with a file that nobody may write, root neither."""
    events = folder / "events.jsonl"
    chattr = shutil.which("chattr")
    if os.geteuid() != 0:
        events.chmod(0o400)
    elif (
        chattr is None
        or subprocess.run(
            [chattr, "+i", events], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("we are root, and this file system has no immutable files")
    yield folder
    if os.geteuid() == 0:
        subprocess.run(["chattr", "-i", events], check=True)


def test_a_session_that_cannot_be_written_is_said_at_once_with_the_way_out(
    cli: CommandLine, immutable: Path
) -> None:
    said = cli("run", "-c", "go on")
    assert (said.code, said.out) == (1, "")
    events = immutable / "events.jsonl"
    assert "cannot be written (" in said.err
    assert f"`foldline fork {events}`" in said.err
    assert not (immutable / "holder.json").exists(), (
        "nobody holds what nobody can write"
    )
    assert cli("fork", events).code == 0


@pytest.mark.slow
@pytest.mark.skipif(
    unshared() is not None, reason=f"no mounts of our own: {unshared()}"
)
def test_on_read_only_media_everything_that_reads_works(
    cli: CommandLine, folder: Path
) -> None:
    script = f"""
        mount --bind {cli.home} {cli.home} && mount -o remount,bind,ro {cli.home} || exit 99
        foldline sessions && foldline view {folder.name} && foldline history {folder.name} || exit 98
        foldline run -c hello; echo "run ended with $?"
    """
    said = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=cli.cwd,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("Idempotent orders") >= 3
    assert "run ended with 1" in said.stdout
    assert "cannot be written (read-only file system)" in said.stderr
    assert "Traceback" not in said.stderr


# --- the chat ---------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[Path, Holder]]:
    """A session of the folder `shop` that another process holds."""
    shop = tmp_path / "shop"
    shop.mkdir()
    session = Session.create(shop, home=tmp_path / "shop-home")
    asyncio.run(session.append(UserMessage(parts=text_parts("Idempotent orders"))))
    session.close()
    assert session.path is not None
    with holder(session.path.parent) as other:
        yield shop, other


def leave(term: Terminal) -> None:
    term.until("Enter sends")
    assert term.quit_by_keys() == 0


@pytest.mark.slow
def test_reading_along_shows_what_comes_and_ends_the_program(
    kept: tuple[Path, Holder],
) -> None:
    shop, other = kept
    [info] = list_sessions(shop.with_name("shop-home"))
    with terminal(shop, "open", str(info.path)) as term:
        term.until(f"live · written by process {other.pid}")
        other.append("a word from afar")
        term.until("a word from afar")
        other.kill()
        program = f"Process {other.pid}"
        term.until(DONE_WRITING.format(program=program, entries="1 entry"))
        term.send("q")
        assert term.ended() == 0
        assert term.not_restored() == []


def chosen_in_the_list(term: Terminal) -> None:
    """Ask something in a new chat, then choose the other session of the folder."""
    term.until("Enter sends")
    term.ask("who are you?")
    term.send("/sessions")
    term.until("┃ ❯ /sessions")
    term.send("\r")
    term.until("this chat · who are you?")
    term.send("\x1b[B")
    term.until("2 of 2")
    term.send("\r")


@pytest.mark.slow
def test_a_held_session_of_the_list_is_asked_about_in_the_chat(
    kept: tuple[Path, Holder],
) -> None:
    shop, other = kept
    with terminal(shop) as term:
        chosen_in_the_list(term)
        term.until(
            IN_USE.partition("{holder}")[0].split("} ")[1] + f"process {other.pid}"
        )
        term.send("\x1b[B\r")
        term.until("who are you? │ Idempotent orders")
        term.ask("and now?")
        leave(term)
    titles = [info.meta.title for info in list_sessions(shop.with_name("shop-home"))]
    assert sorted(titles) == ["Idempotent orders", "Idempotent orders", "who are you?"]


@pytest.mark.slow
def test_a_session_of_the_list_that_cannot_be_written_leaves_the_chat_as_it_was(
    kept: tuple[Path, Holder],
) -> None:
    shop, other = kept
    other.kill()
    [info] = list_sessions(shop.with_name("shop-home"))
    info.path.with_name("lock").unlink()
    info.path.with_name("lock").mkdir()  # nobody holds it, and nobody can
    with terminal(shop) as term:
        chosen_in_the_list(term)
        term.until("cannot be written")
        term.until(" shop ▸ who are you?")
        term.ask("and now?")
        leave(term)
    counts = {
        info.meta.title: info.meta.entries
        for info in list_sessions(shop.with_name("shop-home"))
    }
    assert counts["who are you?"] > counts["Idempotent orders"]
