"""Sessions of a moved project are found, and those of other projects are not."""

import asyncio
from pathlib import Path

import pytest

from foldline.history import Folder, Session, latest, list_sessions, read_header
from foldline.history.catalog import SEVERAL_FOLDERS
from foldline.history.origin import FolderMark, mark_of, recorded_mark, tie
from foldline.protocol import FoldlineError, Title

KNOWN, OTHER, UNKNOWN = FolderMark(id="1-1"), FolderMark(id="2-2"), FolderMark()
OURS, THEIRS = FolderMark(remote="ours"), FolderMark(remote="theirs")


@pytest.mark.parametrize(
    ("held_in", "mark", "path", "now", "there", "found"),
    [
        ("/a/app", UNKNOWN, "/a/app", UNKNOWN, True, "path"),
        ("/a/app", KNOWN, "/a/app", OTHER, True, "path"),
        ("/a/app", KNOWN, "/b/shop", KNOWN, False, "identity"),
        ("/a/app", KNOWN, "/b/shop", KNOWN, True, "identity"),
        ("/a/app", UNKNOWN, "/b/app", KNOWN, False, "name"),
        ("/a/app", KNOWN, "/b/app", OTHER, False, "name"),
        ("/a/app", OURS, "/b/app", OURS, False, "name"),
        ("/a/app", OURS, "/b/app", THEIRS, False, None),
        ("/a/app", KNOWN, "/b/app", OTHER, True, None),
        ("/a/app", UNKNOWN, "/b/shop", UNKNOWN, False, None),
        ("", UNKNOWN, "/", UNKNOWN, False, None),
    ],
)
def test_each_tie_of_a_session_to_a_folder_is_recognised(
    held_in: str,
    mark: FolderMark,
    path: str,
    now: FolderMark,
    there: bool,
    found: str | None,
) -> None:
    assert tie(held_in, mark, path, now, still_exists=there) == found


def make(home: Path, folder: Path, title: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    session = Session.create(folder, home=home)
    asyncio.run(session.append(Title(title=title)))
    session.close()
    assert session.path is not None
    return session.path


def ties_of(home: Path, folder: Path) -> dict[str, tuple[str, str]]:
    return {
        info.meta.title: (info.tie, info.moved_from)
        for info in list_sessions(home, folder)
    }


needs_identity = pytest.mark.skipif(
    not mark_of(str(Path(__file__).parent)).id,
    reason="this system does not tell when a folder was made",
)


@needs_identity
def test_sessions_of_a_renamed_folder_are_found_under_its_new_name(
    tmp_path: Path,
) -> None:
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    make(home, old, "before")
    old.rename(new)
    make(home, new, "after")
    assert ties_of(home, new) == {
        "before": ("identity", str(old)),
        "after": ("path", ""),
    }
    last = latest(home, new)
    assert last is not None
    assert last.meta.title == "after"


@needs_identity
def test_sessions_of_a_renamed_folder_are_found_after_its_old_name_was_reused(
    tmp_path: Path,
) -> None:
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    make(home, old, "before")
    old.rename(new)
    old.mkdir()
    assert ties_of(home, new) == {"before": ("identity", str(old))}


@needs_identity
def test_a_new_folder_does_not_get_the_sessions_of_a_deleted_one(
    tmp_path: Path,
) -> None:
    """The file system reuses the inode at once."""
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    make(home, old, "before")
    old.rmdir()
    new.mkdir()
    assert ties_of(home, new) == {}


def test_a_folder_of_the_same_name_is_marked_as_a_guess(tmp_path: Path) -> None:
    home, old, new = tmp_path / "home", tmp_path / "a" / "shop", tmp_path / "b" / "shop"
    make(home, old, "before")
    new.mkdir(parents=True)
    assert ties_of(home, new) == {}
    old.rmdir()
    assert ties_of(home, new) == {"before": ("name", str(old))}
    last = latest(home, new)
    assert last is not None
    assert last.moved_from == str(old)


def test_a_guess_never_replaces_a_certain_session(tmp_path: Path) -> None:
    home, old, new = tmp_path / "home", tmp_path / "a" / "shop", tmp_path / "b" / "shop"
    make(home, new, "sure")
    make(home, old, "a guess, and newer")
    old.rmdir()
    last = latest(home, new)
    assert last is not None
    assert last.meta.title == "sure"


def test_nothing_is_guessed_between_two_possible_folders(tmp_path: Path) -> None:
    home, new = tmp_path / "home", tmp_path / "c" / "shop"
    for name in ("a", "b"):
        make(home, tmp_path / name / "shop", name)
        (tmp_path / name / "shop").rmdir()
    new.mkdir(parents=True)
    assert set(ties_of(home, new)) == {"a", "b"}
    with pytest.raises(
        FoldlineError, match=SEVERAL_FOLDERS.partition(":")[0].format(count=2)
    ):
        latest(home, new)


def git(folder: Path, address: str) -> None:
    (folder / ".git").mkdir(parents=True)
    config = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {address}\n\tfetch = +refs\n'
    (folder / ".git" / "config").write_text(config)


def test_a_clone_of_another_repository_is_another_project(tmp_path: Path) -> None:
    home, old, new, other = (
        tmp_path / "home",
        *(tmp_path / name / "shop" for name in "abc"),
    )
    git(old, "https://me:secret@git.example/shop.git")
    git(new, "https://git.example/shop")
    git(other, "https://git.example/another")
    path = make(home, old, "before")
    assert b"secret" not in path.read_bytes()
    (old / ".git" / "config").unlink()
    (old / ".git").rmdir()
    old.rmdir()
    assert ties_of(home, new) == {"before": ("name", str(old))}
    assert ties_of(home, other) == {}


@needs_identity
def test_a_session_continues_in_its_own_folder_after_a_move(tmp_path: Path) -> None:
    home, old, new, away = (
        tmp_path / name for name in ("home", "shop", "store", "away")
    )
    away.mkdir()
    path = make(home, old, "x")
    assert Folder(away).place(read_header(path)) == (old, "path")
    old.rename(new)
    assert Folder(new).place(read_header(path)) == (new, "identity")
    assert Folder(away).place(read_header(path)) == (away, None)
    before = path.read_bytes()
    session = Session.open(path, cwd=new)
    assert (session.cwd, session.moved_from, session.header.cwd) == (
        str(new),
        str(old),
        str(old),
    )
    asyncio.run(session.append(Title(title="y")))
    session.close()
    assert path.read_bytes().startswith(before)


@needs_identity
def test_a_fork_made_elsewhere_is_found_under_the_folders_new_path(
    tmp_path: Path,
) -> None:
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    path = make(home, old, "before")
    old.rename(new)
    fork = asyncio.run(Session.open(path).copy(home=home, session_id="s-fork"))
    fork.close()
    assert {info.id: info.tie for info in list_sessions(home, new)}[
        "s-fork"
    ] == "identity"


@pytest.mark.parametrize("folder", ["no mark", 7, {"id": ["x"]}, None])
def test_an_unrecognised_folder_mark_counts_as_missing(
    tmp_path: Path, folder: object
) -> None:
    header = read_header(make(tmp_path / "home", tmp_path / "shop", "x"))
    assert recorded_mark(header.model_copy(update={"folder": folder})) in (
        UNKNOWN,
        recorded_mark(header),
    )
