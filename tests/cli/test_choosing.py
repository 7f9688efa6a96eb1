"""Which session is resumed, and where it goes on: `-c` and `-r`."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.cli.agents import chosen_session
from foldline.cli.chat import NAME_SESSION
from foldline.cli.resume_folder import SESSION_MOVED, folder_of, quick_folder
from foldline.history import Session, utc_now
from foldline.history.log import dump_header
from foldline.protocol import FoldlineError, SessionHeader, dump_entry
from support.command_line import CommandLine
from support.history import history


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def opened() -> Iterator[list[Session]]:
    """Sessions to be let go of at the end."""
    sessions: list[Session] = []
    yield sessions
    for session in sessions:
        session.close()


def keep(
    cli: CommandLine, session_id: str, prompt: str = "one", cwd: Path | None = None
) -> Path:
    if cwd is not None:
        cwd.mkdir(parents=True, exist_ok=True)
    return (
        cli.keep(history().turn(prompt, "ok").entries, session_id, cwd) / "events.jsonl"
    )


def test_without_a_screen_the_session_to_resume_is_named(cli: CommandLine) -> None:
    keep(cli, "s-1")
    said = cli("--plain", "-r")
    assert said.code == 2 and NAME_SESSION in said.err


def test_a_session_of_another_folder_goes_on_in_that_one(
    cli: CommandLine, opened: list[Session]
) -> None:
    other = cli.cwd.with_name("other")
    keep(cli, "20260101-000000-abcdef", cwd=other)
    opened.append(chosen_session(continues=False, resume="abcdef"))
    assert (opened[0].cwd, opened[0].moved_from) == (str(other), "")


def test_where_a_session_goes_on_is_seen_at_a_glance_only_where_nothing_is_to_be_asked(
    cli: CommandLine,
) -> None:
    other, twin = cli.cwd.with_name("other"), cli.cwd.with_name("twin")
    events = keep(cli, "20260101-000000-abcdef", cwd=other)
    keep(cli, "s-here")
    keep(cli, "s-twin", cwd=other)
    keep(cli, "s-twin", cwd=twin)
    keep(cli, "s-gone", cwd=cli.cwd.with_name("gone"))
    cli.cwd.with_name("gone").rmdir()
    for ref in ("abcdef", "20260101", str(events), str(events.parent)):
        assert quick_folder(ref, cli.cwd) == folder_of(ref, cli.cwd) == other
    assert quick_folder("s-here", cli.cwd) == folder_of("s-here", cli.cwd) == cli.cwd
    for ref in (
        "s-gone",
        "s-twin",
        "s-",
        "ef",
        "nobody",
    ):  # gone, or not one session, or too little of one
        assert quick_folder(ref, cli.cwd) is None
    moved = other.rename(cli.cwd.with_name("moved"))
    other.mkdir()  # another one in its place
    assert quick_folder("abcdef", moved) in (None, folder_of("abcdef", moved))


def test_continuing_finds_the_session_of_a_folder_that_was_moved_here(
    cli: CommandLine, opened: list[Session]
) -> None:
    gone = cli.cwd.with_name("gone") / cli.cwd.name
    keep(cli, "s-moved", cwd=gone)
    gone.rmdir()
    opened.append(chosen_session(continues=True, resume=None))
    assert (opened[0].id, opened[0].cwd, opened[0].moved_from) == (
        "s-moved",
        str(cli.cwd),
        str(gone),
    )


@pytest.mark.parametrize(
    ("typed", "goes_on"), [("y\n", True), ("n\n", False), ("", False)]
)
def test_a_session_whose_folder_is_gone_goes_on_elsewhere_only_where_the_user_says_so(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, typed: str, goes_on: bool
) -> None:
    gone = cli.cwd.with_name("gone")
    keep(cli, "s-1", cwd=gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    if goes_on:
        assert folder_of("s-1", cli.cwd) == cli.cwd
    else:
        with pytest.raises(FoldlineError, match="was not resumed"):
            folder_of("s-1", cli.cwd)


@pytest.mark.parametrize(
    ("typed", "goes_there"), [("y\n", True), ("n\n", False), ("", False)]
)
@pytest.mark.parametrize("how", ["imported", "forked", "outside"])
def test_the_folder_that_somebody_elses_session_names_is_worked_in_only_where_the_user_says_so(
    cli: CommandLine,
    opened: list[Session],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    typed: str,
    goes_there: bool,
) -> None:
    other = cli.cwd.with_name("other")
    other.mkdir()
    ref = _theirs(
        cli, SessionHeader(id="theirs", created_at=utc_now(), cwd=str(other)), how
    )
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert quick_folder(ref, cli.cwd) is None
    assert folder_of(ref, cli.cwd) == (other if goes_there else cli.cwd)
    assert folder_of(ref, other) == other  # there already: nobody is asked
    opened.append(chosen_session(continues=False, resume=ref))
    assert opened[0].cwd == str(cli.cwd)


def _theirs(cli: CommandLine, header: SessionHeader, how: str) -> str:
    """A session that was written elsewhere, and how it is called here."""
    path = cli.cwd.with_name("theirs.jsonl")
    entries = history().turn("hello", "hi").entries
    path.write_bytes(
        b"".join(
            line + b"\n" for line in (dump_header(header), *map(dump_entry, entries))
        )
    )
    if how == "outside":
        return str(path)
    made = str(cli("import", path, "--json").json["id"])
    return str(cli("fork", made, "--json").json["id"]) if how == "forked" else made


def test_a_headless_run_says_that_the_session_was_moved(cli: CommandLine) -> None:
    gone = cli.cwd.with_name("gone") / cli.cwd.name
    keep(cli, "s-moved", cwd=gone)
    gone.rmdir()
    said = cli("run", "-c", "--model", "offline", "write hello to here.txt", "--yes")
    assert SESSION_MOVED.format(old=gone, new=cli.cwd) in said.err
    assert (cli.cwd / "here.txt").is_file()
