"""Archiving, restoring and deleting sessions."""

import asyncio
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.history import (
    Session,
    archive,
    archive_dir,
    delete,
    find_session,
    list_sessions,
    sessions_dir,
    unarchive,
)
from foldline.history.archive import (
    ALREADY_ARCHIVED,
    IS_LINK,
    NOT_ARCHIVED,
    NOT_IN_HOME,
    PLACE_TAKEN,
)
from foldline.history.catalog import NO_SESSION
from foldline.protocol import FoldlineError, Title


def make(home: Path, session_id: str = "s-1") -> Path:
    """Make a session with an output file, and return its event file."""
    session = Session.create("/tmp/a", home=home, session_id=session_id)
    asyncio.run(session.append(Title(title="one")))
    session.save_meta()
    session.close()
    assert session.path is not None
    outputs = session.path.parent / "outputs"
    outputs.mkdir()
    (outputs / "bash-1.txt").write_text("all of it")
    return session.path


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_archiving_moves_the_whole_session_and_restoring_brings_it_back_unchanged(
    tmp_path: Path,
) -> None:
    events = make(tmp_path)
    before = files_below(events.parent)
    away = archive(tmp_path, events)
    assert away == archive_dir(tmp_path) / events.relative_to(sessions_dir(tmp_path))
    assert files_below(away.parent) == before
    assert not events.parent.exists()
    assert unarchive(tmp_path, away) == events
    assert files_below(events.parent) == before


def test_archiving_or_restoring_twice_is_refused_with_a_reason(tmp_path: Path) -> None:
    events = make(tmp_path)
    with pytest.raises(FoldlineError, match=NOT_ARCHIVED.format(name="s-1")):
        unarchive(tmp_path, events)
    with pytest.raises(FoldlineError, match=ALREADY_ARCHIVED.format(name="s-1")):
        archive(tmp_path, archive(tmp_path, events))


def test_archiving_never_replaces_an_archived_session(tmp_path: Path) -> None:
    away = archive(tmp_path, make(tmp_path))
    kept = away.read_bytes()
    second = make(tmp_path)
    with pytest.raises(
        FoldlineError, match=PLACE_TAKEN.partition(":")[0].format(name="s-1")
    ):
        archive(tmp_path, second)
    assert away.read_bytes() == kept
    assert second.is_file()


def test_deleting_removes_all_of_one_session_and_nothing_of_the_others(
    tmp_path: Path,
) -> None:
    gone, stays = make(tmp_path, "s-gone"), make(tmp_path, "s-stays")
    files = [path for path in gone.parent.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    assert delete(tmp_path, gone) == (gone.parent, len(files), size)
    assert list(gone.parent.parent.iterdir()) == [stays.parent]
    assert [info.path for info in list_sessions(tmp_path)] == [stays]
    with pytest.raises(FoldlineError, match=NO_SESSION.partition("{")[0]):
        find_session(tmp_path, "s-gone")


def test_an_archived_session_can_be_deleted(tmp_path: Path) -> None:
    delete(tmp_path, archive(tmp_path, make(tmp_path)))
    assert list_sessions(tmp_path, archived=True) == []


def test_deleting_never_follows_a_link_out_of_the_session(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years")
    events = make(tmp_path / "home")
    (events.parent / "link").symlink_to(precious)
    shutil.rmtree(events.parent / "outputs")
    (events.parent / "outputs").symlink_to(precious)
    delete(tmp_path / "home", events)
    assert not events.parent.exists()
    assert (precious / "thesis.txt").read_text() == "years"


@pytest.mark.parametrize("deed", [delete, archive])
def test_a_link_to_a_session_stays_untouched(tmp_path: Path, deed: object) -> None:
    events, elsewhere = make(tmp_path / "home"), tmp_path / "elsewhere"
    events.parent.rename(elsewhere)
    events.parent.symlink_to(elsewhere)
    with pytest.raises(
        FoldlineError,
        match=IS_LINK.partition("}")[2].partition(".")[0].format(target=elsewhere),
    ):
        deed(tmp_path / "home", events)  # type: ignore[operator]
    assert events.is_file()


@pytest.mark.parametrize("deed", [delete, archive])
def test_a_session_outside_the_home_is_neither_moved_nor_deleted(
    tmp_path: Path, deed: object
) -> None:
    events = make(tmp_path / "other home")
    sneaky = (
        sessions_dir(tmp_path / "home")
        / "key"
        / ".."
        / ".."
        / ".."
        / events.relative_to(tmp_path)
    )
    sessions_dir(tmp_path / "home").joinpath("key").mkdir(parents=True)
    for path in (events, sneaky, events.parent / "meta.json"):
        with pytest.raises(
            FoldlineError, match=NOT_IN_HOME.partition("}")[2].partition("{")[0]
        ):
            deed(tmp_path / "home", path)  # type: ignore[operator]
    assert events.is_file()


HOLDER = """
    import sys
    from foldline.history import Session
    session = Session.open(sys.argv[1])
    session.claim()
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_session_another_process_writes_to_is_neither_moved_nor_deleted(
    tmp_path: Path,
) -> None:
    events = make(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), events],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(
            FoldlineError,
            match=rf"process {child.pid} .*moved",
        ):
            archive(tmp_path, events)
        with pytest.raises(
            FoldlineError,
            match=rf"process {child.pid} .*deleted",
        ):
            delete(tmp_path, events)
        child.kill()
    assert list_sessions(tmp_path)[0].meta.title == "one"
    delete(tmp_path, events)


def test_the_remains_of_an_interrupted_deletion_are_not_a_session(
    tmp_path: Path,
) -> None:
    events = make(tmp_path)
    left = events.parent.with_name(f".{events.parent.name}.deleted")
    events.parent.rename(left)
    assert list_sessions(tmp_path) == []
    delete(tmp_path, make(tmp_path))
    assert not left.exists()


def test_a_session_with_an_unreadable_file_can_be_deleted(tmp_path: Path) -> None:
    events = make(tmp_path)
    events.write_bytes(b"\0" * 100)
    delete(tmp_path, events)
    assert list_sessions(tmp_path) == []


@pytest.mark.parametrize("leave", [archive, delete])
def test_a_process_with_the_session_open_writes_nothing_to_the_old_folder(
    tmp_path: Path, leave: Callable[[Path, Path], object]
) -> None:
    events = make(tmp_path)
    reader = Session.open(events)
    leave(tmp_path, events)
    with pytest.raises(FoldlineError, match="cannot be written"):
        asyncio.run(reader.append(Title(title="two")))
    reader.save_meta()
    reader.close()
    assert not events.parent.exists()
