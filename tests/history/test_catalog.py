"""Lists of sessions, and finding one by what people type."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from foldline.history import (
    Session,
    clip_cells,
    data_home,
    find_session,
    latest,
    list_sessions,
    new_session_id,
    sessions_dir,
    short_id,
    workdir_key,
)
from foldline.protocol import FoldlineError, Title, UserMessage, text_parts

START = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)


def make(home: Path, cwd: str, session_id: str, *texts: str, hour: int = 0, snapshot: bool = True) -> Session:
    session = Session.create(cwd, home=home, now=lambda: START + timedelta(hours=hour), session_id=session_id)
    for text in texts:
        asyncio.run(session.append(UserMessage(parts=text_parts(text))))
    if snapshot:
        session.save_meta()
    session.close()
    return session


def files(home: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in _all(home)}


def _all(home: Path) -> Iterator[Path]:
    return (path for path in home.rglob("*") if path.is_file())


def test_sessions_are_listed_newest_first_with_and_without_a_snapshot(tmp_path: Path) -> None:
    make(tmp_path, "/tmp/a", "s-old", "first", hour=1)
    make(tmp_path, "/tmp/b", "s-new", "second", "third", hour=3, snapshot=False)
    make(tmp_path, "/tmp/a", "s-mid", "other", hour=2)
    before = files(tmp_path)
    infos = list_sessions(tmp_path)
    assert [info.id for info in infos] == ["s-new", "s-mid", "s-old"]
    assert (infos[0].meta.title, infos[0].meta.last_prompt, infos[0].meta.entries) == ("second", "third", 2)
    assert [info.id for info in list_sessions(tmp_path, "/tmp/a")] == ["s-mid", "s-old"]
    assert files(tmp_path) == before


def test_a_stale_or_broken_snapshot_is_not_believed(tmp_path: Path) -> None:
    session = make(tmp_path, "/tmp/a", "s-1", "first")
    asyncio.run(session.append(Title(title="renamed")))
    session.close()
    assert list_sessions(tmp_path)[0].meta.title == "renamed"
    assert session.path is not None
    session.path.with_name("meta.json").write_bytes(b"{")
    assert list_sessions(tmp_path)[0].meta.title == "renamed"


def test_a_damaged_session_is_listed_with_a_note_and_fails_nothing(tmp_path: Path) -> None:
    torn = make(tmp_path, "/tmp/a", "s-torn", "one", "two")
    lost = make(tmp_path, "/tmp/a", "s-lost", "one")
    make(tmp_path, "/tmp/a", "s-good", "one")
    assert torn.path is not None
    assert lost.path is not None
    torn.path.write_bytes(torn.path.read_bytes()[:-5])
    lost.path.write_bytes(b"\0" * 100)
    notes = {info.id: info.meta.note for info in list_sessions(tmp_path)}
    assert notes["s-good"] == ""
    assert "1 damaged record (line 3)" in notes["s-torn"]
    assert "is empty" in notes["s-lost"]


def test_the_latest_session_of_a_folder_is_one_that_can_be_opened(tmp_path: Path) -> None:
    good = make(tmp_path, "/tmp/a", "s-good", "one")
    lost = make(tmp_path, "/tmp/a", "s-lost", "one", hour=5)
    assert lost.path is not None
    assert latest(tmp_path, "/tmp/a") == lost.path
    lost.path.write_bytes(b"junk")
    assert latest(tmp_path, "/tmp/a") == good.path
    assert latest(tmp_path, "/tmp/elsewhere") is None


def test_a_home_without_sessions_is_an_empty_list(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "nowhere") == []
    assert latest(tmp_path / "nowhere", "/tmp") is None


def test_a_session_is_found_by_its_id_an_end_of_it_or_its_path(tmp_path: Path) -> None:
    session = make(tmp_path, "/tmp/a", "20250304-050607-abc123", "one")
    make(tmp_path, "/tmp/b", "20250304-050607-abc", "one")
    make(tmp_path, "/tmp/b", "20250305-050607-xyz789", "one")
    path = session.path
    assert path is not None
    for ref in ("20250304-050607-abc123", "abc123", "c123", str(path), str(path.parent)):
        assert find_session(tmp_path, ref) == path
    assert find_session(tmp_path, "20250304-050607-abc").parent.name == "20250304-050607-abc"
    assert find_session(tmp_path, "20250305").parent.name == "20250305-050607-xyz789"
    with pytest.raises(FoldlineError, match=r"2 sessions answer to '20250304'.*say more"):
        find_session(tmp_path, "20250304")
    for ref in ("nothing", ""):
        with pytest.raises(FoldlineError, match="There is no session"):
            find_session(tmp_path, ref)


def test_ids_sort_by_time_and_end_in_something_short() -> None:
    ids = [new_session_id(START + timedelta(seconds=n)) for n in range(50)]
    assert ids == sorted(ids)
    assert len({short_id(session_id) for session_id in ids}) == 50


def test_a_folder_is_keyed_by_its_real_path(tmp_path: Path) -> None:
    real = tmp_path / "my project"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    assert workdir_key(link) == workdir_key(real)
    assert workdir_key(real).startswith("my-project-")
    assert workdir_key(tmp_path / "other" / "my project") != workdir_key(real)
    assert workdir_key("/").startswith("root-")


def test_the_home_can_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path))
    assert data_home() == tmp_path
    assert sessions_dir(data_home()) == tmp_path / "sessions"
    monkeypatch.delenv("FOLDLINE_HOME")
    assert data_home().name == "foldline"


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("short", 10, "short"),
        ("exactly 10", 10, "exactly 10"),
        ("one too many", 11, "one too ma…"),
        ("你好世界", 8, "你好世界"),
        ("你好世界", 7, "你好世…"),
        ("你好世界", 6, "你好…"),
        ("a\x1b]0;x\x07b\nc", 20, "a ]0;x b c"),
    ],
)
def test_titles_are_cut_by_cells_and_hold_no_control_characters(text: str, cells: int, shown: str) -> None:
    assert clip_cells(text, cells) == shown
