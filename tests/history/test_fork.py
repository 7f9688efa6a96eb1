"""A fork begins with the entries up to any index, has its own file, and says where it comes from."""

import os
from pathlib import Path
from typing import Any

import pytest

from foldline.context.calls import paired, pairing_faults
from foldline.history import (
    Contents,
    Log,
    Parent,
    Session,
    WriteFailed,
    parent_of,
    read_header,
    read_log,
    utc_now,
)
from foldline.protocol import NEW, FoldlineError, SessionHeader
from support.history import call, history

WORK = (
    history()
    .user("fix it")
    .assistant(calls=[call("read", path="a"), call("read", path="b")])
    .result("one")
    .result("two")
    .assistant("done")
    .gap(2)
    .user("thanks")
    .entries
)


async def kept(home: Path) -> Session:
    header = SessionHeader(id="built", created_at=utc_now(), cwd="/tmp")
    session = await Session.from_entries(header, WORK).copy(home=home)
    session.close()
    assert session.path is not None
    return Session.open(session.path)


@pytest.mark.parametrize("until", [entry.index for entry in WORK])
async def test_a_fork_at_any_entry_is_a_session_the_model_can_go_on_with(tmp_path: Path, until: int) -> None:
    session = await kept(tmp_path)
    fork = await session.copy(home=tmp_path, until=until)
    fork.close()
    assert fork.path is not None
    again = Session.open(fork.path)
    assert list(again.entries) == [entry for entry in WORK if entry.index <= until]
    assert parent_of(again.header) == Parent(id=session.id, index=until, foreign=until)
    assert pairing_faults(paired(item.message for item in again.projection.view)) == []
    assert again.next_index == until + 1


async def test_a_fork_at_a_lost_record_ends_before_it(tmp_path: Path) -> None:
    session = await kept(tmp_path)
    fork = await session.copy(home=tmp_path, until=6)
    assert fork.entries[-1].index == 4
    assert parent_of(fork.header) == Parent(id=session.id, index=4, foreign=4)


async def test_a_copy_that_the_disk_refuses_leaves_nothing_that_would_pass_for_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await kept(tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    append, calls = Log.append, iter([True, False])

    async def refuse_the_second(log: Log, *given: Any) -> object:
        if not next(calls):
            raise WriteFailed("Nothing after entry 1 is on disk", 0)
        return await append(log, *given)

    monkeypatch.setattr("foldline.history.session._COPIED_AT_A_TIME", 2)
    monkeypatch.setattr(Log, "append", refuse_the_second)
    with pytest.raises(WriteFailed):
        await session.copy(home=tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("until", [-1, 8, 10**9])
async def test_a_fork_at_no_entry_is_refused_and_leaves_nothing(tmp_path: Path, until: int) -> None:
    session = await kept(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FoldlineError, match=f"has entries 0 to 7: it cannot be forked at {until}"):
        await session.copy(home=tmp_path, until=until)
    assert sorted(tmp_path.rglob("*")) == before


async def test_the_session_that_is_forked_is_not_touched_also_while_it_is_written(tmp_path: Path) -> None:
    session = await kept(tmp_path)
    session.claim()
    assert session.path is not None
    before = session.path.read_bytes()
    fork = await Session.open(session.path).copy(home=tmp_path)
    await fork.append(*history().user("another way").entries)
    assert session.path.read_bytes() == before


async def test_a_fork_keeps_its_contents_and_outputs_when_the_other_session_goes(tmp_path: Path) -> None:
    session = await kept(tmp_path)
    assert session.path is not None
    folder = session.path.parent
    name = Contents(folder).keep(b"as it was")
    (folder / "outputs").mkdir()
    (folder / "outputs" / "bash-1.txt").write_text("all of it")
    (folder / "outputs" / "trap").symlink_to("/etc/passwd")
    fork = await session.copy(home=tmp_path, until=4)
    assert fork.path is not None
    mine = fork.path.parent
    assert (mine / "outputs" / "bash-1.txt").stat().st_nlink == 2
    for file in (folder / "contents" / name, folder / "outputs" / "bash-1.txt"):
        file.unlink()
    assert Contents(mine).read(name) == b"as it was"
    assert (mine / "outputs" / "bash-1.txt").read_text() == "all of it"
    assert not os.path.lexists(mine / "outputs" / "trap")


async def test_where_there_are_no_hard_links_a_fork_has_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    session = await kept(tmp_path)
    assert session.path is not None
    name = Contents(session.path.parent).keep(b"as it was")
    monkeypatch.setattr(os, "link", refused)
    fork = await session.copy(home=tmp_path)
    assert fork.path is not None
    assert Contents(fork.path.parent).read(name) == b"as it was"


async def test_a_fork_of_a_moved_session_belongs_to_the_new_place(tmp_path: Path) -> None:
    session = await kept(tmp_path)
    assert session.path is not None
    fork = await Session.open(session.path, cwd=tmp_path).copy(home=tmp_path)
    assert fork.path is not None
    assert read_header(fork.path).cwd == str(tmp_path)
    assert read_log(fork.path).entries == list(session.entries)


@pytest.mark.parametrize("parent", ["me", {"id": 7}, None])
def test_a_parent_that_is_not_understood_is_none(parent: object) -> None:
    header = SessionHeader(id="s", created_at=utc_now(), cwd="/").model_copy()
    assert header.model_extra is not None
    header.model_extra["parent"] = parent
    assert parent_of(header) is None


async def test_a_fork_knows_which_of_its_entries_were_not_written_here(tmp_path: Path) -> None:
    imported = await kept(tmp_path)
    await imported.append(*history().user("and now").entries)
    own = Session.create("/tmp", home=tmp_path)
    await own.append(*WORK)
    forks = [await session.copy(home=tmp_path) for session in (imported, own)]
    parents = [parent_of(fork.header) for fork in forks]
    assert [parent.foreign for parent in parents if parent is not None] == [WORK[-1].index, NEW]
