"""What is said in sessions is nobody else's, whatever the umask."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.history import Contents, Session, archive, list_sessions, unarchive
from foldline.history.session_search import SessionSearch
from foldline.protocol import Title

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@pytest.fixture
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_to_all")
def test_everything_kept_of_sessions_is_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "data" / "foldline"
    session = Session.create(tmp_path, home=home)
    asyncio.run(session.append(Title(title="one")))
    assert session.path is not None
    Contents(session.path.parent).keep(b"said")
    session.save_meta()
    copy = asyncio.run(session.copy(home=home))
    found = {path.name for path in home.rglob("*")}
    assert {"holder.json", "lock", "meta.json", "contents", "events.jsonl"} <= found
    copy.close()
    session.close()
    SessionSearch(home).refresh()
    unarchive(home, archive(home, session.path))
    (session.path.with_name("meta.json")).unlink()
    list_sessions(home)
    modes = {path: path.stat().st_mode & 0o777 for path in (home.parent, home, *home.rglob("*"))}
    assert {path for path, mode in modes.items() if mode & 0o077} == set()
