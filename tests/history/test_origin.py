"""Sessions of a project are found after its folder was moved; those of another one are not."""

import asyncio
from pathlib import Path

import pytest

from foldline.history import Folder, Session, latest, list_sessions, read_header
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
def test_what_ties_a_session_to_a_folder(
    held_in: str, mark: FolderMark, path: str, now: FolderMark, there: bool, found: str | None
) -> None:
    assert tie(held_in, mark, path, now, there=there) == found


def make(home: Path, folder: Path, title: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    session = Session.create(folder, home=home)
    asyncio.run(session.append(Title(title=title)))
    session.close()
    assert session.path is not None
    return session.path


def told(home: Path, folder: Path) -> dict[str, tuple[str, str]]:
    return {info.meta.title: (info.tie, info.moved_from) for info in list_sessions(home, folder)}


needs_identity = pytest.mark.skipif(
    not mark_of(str(Path(__file__).parent)).id, reason="this system does not tell when a folder was made"
)


@needs_identity
def test_sessions_of_a_renamed_folder_are_found_under_its_new_name(tmp_path: Path) -> None:
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    make(home, old, "before")
    old.rename(new)
    make(home, new, "after")
    assert told(home, new) == {"before": ("identity", str(old)), "after": ("path", "")}
    last = latest(home, new)
    assert last is not None
    assert last.meta.title == "after"


@needs_identity
def test_they_are_found_also_where_another_project_took_the_old_name(tmp_path: Path) -> None:
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    make(home, old, "before")
    old.rename(new)
    old.mkdir()
    assert told(home, new) == {"before": ("identity", str(old))}


@needs_identity
def test_a_folder_made_after_another_was_deleted_does_not_get_its_sessions(tmp_path: Path) -> None:
    """The file system gives it the same inode at once."""
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    make(home, old, "before")
    old.rmdir()
    new.mkdir()
    assert told(home, new) == {}


def test_a_folder_of_the_same_name_is_a_guess_and_says_so(tmp_path: Path) -> None:
    home, old, new = tmp_path / "home", tmp_path / "a" / "shop", tmp_path / "b" / "shop"
    make(home, old, "before")
    new.mkdir(parents=True)
    assert told(home, new) == {}
    old.rmdir()
    assert told(home, new) == {"before": ("name", str(old))}
    last = latest(home, new)
    assert last is not None
    assert last.moved_from == str(old)


def test_a_guess_never_stands_in_for_a_session_that_is_sure(tmp_path: Path) -> None:
    home, old, new = tmp_path / "home", tmp_path / "a" / "shop", tmp_path / "b" / "shop"
    make(home, new, "sure")
    make(home, old, "a guess, and newer")
    old.rmdir()
    last = latest(home, new)
    assert last is not None
    assert last.meta.title == "sure"


def test_between_two_folders_that_could_be_meant_nobody_guesses(tmp_path: Path) -> None:
    home, new = tmp_path / "home", tmp_path / "c" / "shop"
    for name in ("a", "b"):
        make(home, tmp_path / name / "shop", name)
        (tmp_path / name / "shop").rmdir()
    new.mkdir(parents=True)
    assert set(told(home, new)) == {"a", "b"}
    with pytest.raises(FoldlineError, match="2 folders of this name could be meant"):
        latest(home, new)


def git(folder: Path, address: str) -> None:
    (folder / ".git").mkdir(parents=True)
    config = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {address}\n\tfetch = +refs\n'
    (folder / ".git" / "config").write_text(config)


def test_a_clone_of_another_repository_is_another_project(tmp_path: Path) -> None:
    home, old, new, other = tmp_path / "home", *(tmp_path / name / "shop" for name in "abc")
    git(old, "https://me:secret@git.example/shop.git")
    git(new, "https://git.example/shop")
    git(other, "https://git.example/another")
    path = make(home, old, "before")
    assert b"secret" not in path.read_bytes()
    (old / ".git" / "config").unlink()
    (old / ".git").rmdir()
    old.rmdir()
    assert told(home, new) == {"before": ("name", str(old))}
    assert told(home, other) == {}


@needs_identity
def test_a_session_goes_on_in_its_own_folder_wherever_that_is(tmp_path: Path) -> None:
    home, old, new, away = (tmp_path / name for name in ("home", "shop", "store", "away"))
    away.mkdir()
    path = make(home, old, "x")
    assert Folder(away).place(read_header(path)) == (old, "path")
    old.rename(new)
    assert Folder(new).place(read_header(path)) == (new, "identity")
    assert Folder(away).place(read_header(path)) == (away, None)
    before = path.read_bytes()
    session = Session.open(path, cwd=new)
    assert (session.cwd, session.moved_from, session.header.cwd) == (str(new), str(old), str(old))
    asyncio.run(session.append(Title(title="y")))
    session.close()
    assert path.read_bytes().startswith(before)


@needs_identity
def test_a_fork_made_elsewhere_is_found_where_the_folder_is_now(tmp_path: Path) -> None:
    home, old, new = tmp_path / "home", tmp_path / "shop", tmp_path / "store"
    path = make(home, old, "before")
    old.rename(new)
    fork = asyncio.run(Session.open(path).copy(home=home, session_id="s-fork"))
    fork.close()
    assert {info.id: info.tie for info in list_sessions(home, new)}["s-fork"] == "identity"


@pytest.mark.parametrize("folder", ["no mark", 7, {"id": ["x"]}, None])
def test_a_mark_that_is_not_understood_is_none(tmp_path: Path, folder: object) -> None:
    header = read_header(make(tmp_path / "home", tmp_path / "shop", "x"))
    assert recorded_mark(header.model_copy(update={"folder": folder})) in (UNKNOWN, recorded_mark(header))
