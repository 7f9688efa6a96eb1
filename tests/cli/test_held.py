"""A session that is held, or cannot be written: what is asked on a terminal, and said without one."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.cli.agents import SessionRefused, open_for_writing
from foldline.cli.resume import ask_about_refused
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


class Asked:
    """A terminal that gives these answers, and then ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
        self._answers = list(answers)
        for stream in ("stdin", "stderr"):
            monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
        monkeypatch.setattr(
            "sys.stdin.readline", lambda: self._answers.pop(0) if self._answers else ""
        )


def refusal(folder: Path) -> SessionRefused:
    with pytest.raises(SessionRefused) as refused:
        open_for_writing(folder / "events.jsonl", folder)
    return refused.value


def test_without_a_terminal_it_is_one_sentence_with_both_ways_out(
    cli: CommandLine, folder: Path
) -> None:
    with holder(folder) as other:
        said = cli("run", "-c", "go on")
    assert (said.code, said.out) == (1, "")
    ref = short_id(folder.name)
    assert f"is being written by process {other.pid} (since " in said.err
    assert f"`foldline open {ref}`" in said.err and f"`foldline fork {ref}`" in said.err


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("answers", [("q\n",), ("\n", "what?\n", " QUIT \n"), ()])
def test_the_question_names_session_and_holder_and_q_ends(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: tuple[str, ...],
) -> None:
    Asked(monkeypatch, *answers)
    with holder(folder) as other:
        assert ask_about_refused(refusal(folder)) == 1
    asked = capsys.readouterr().err
    named = f'Session {short_id(folder.name)} ("Idempotent orders") is being written by process {other.pid} ('
    assert asked.startswith(named)
    assert asked.count("\n[r]ead along, [f]ork, [q]uit: ") == max(len(answers), 1)


def test_a_fork_goes_on_where_the_other_one_was_when_it_was_asked_for(
    cli: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holder(folder) as other:
        refused = refusal(folder)
        Asked(monkeypatch, "f\n")
        other.append("written while the question stood there")
        fork = ask_about_refused(refused)
        assert isinstance(fork, Path)
        session = open_for_writing(fork, cli.cwd)
        original = Session.open(folder)
        assert list(session.entries) == list(original.entries)
        assert session.id != original.id
        session.close()


def test_for_a_program_nobody_is_asked(
    cli: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Asked(monkeypatch, "f\n")
    with holder(folder):
        assert cli("run", "-c", "--json", "go on").code == 1
        said = cli("run", "-c", "go on")
    assert said.code == 0, said.err
    assert len(list_sessions(cli.home)) == 2


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


def test_a_session_that_cannot_be_written_is_said_at_once_and_forked(
    immutable: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = refusal(immutable)
    assert "cannot be written (" in str(refused)
    Asked(monkeypatch, "f\n")
    fork = ask_about_refused(refused)
    assert isinstance(fork, Path)
    assert (
        f'Session {short_id(immutable.name)} ("Idempotent orders") can only be read. The session cannot'
        in capsys.readouterr().err
    )
    assert not (immutable / "holder.json").exists(), (
        "nobody holds what nobody can write"
    )


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
    with terminal(shop, "-c") as term:
        term.until("[r]ead along, [f]ork, [q]uit:")
        term.send("r\r")
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
