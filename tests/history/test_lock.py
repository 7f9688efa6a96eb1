"""The writer's lock, and its verified note about the holder."""

import asyncio
import errno
import fcntl
import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from foldline.history import Session, SessionHeld, read_log
from foldline.history.lock import NO_LOCKS, Holder, holder_of
from foldline.history.log import CHANGED_ON_DISK
from foldline.protocol import FoldlineError, NoticeRecord, UserMessage
from support.holders import holder

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    session = Session.create("/tmp", home=tmp_path)
    asyncio.run(session.append(NoticeRecord(text="one")))
    session.close()
    assert session.path is not None
    return session.path.parent


def note(folder: Path, **fields: object) -> None:
    told = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": "2026-01-02T03:04:05+00:00",
    }
    (folder / "holder.json").write_text(json.dumps(told | fields))


def texts(folder: Path) -> list[str]:
    loaded = read_log(folder / "events.jsonl")
    assert not loaded.damage
    return [
        entry.text
        for entry in loaded.entries
        if isinstance(entry, NoticeRecord | UserMessage)
    ]


@pytest.mark.quick
def test_a_session_is_locked_while_its_writer_lives_and_free_once_it_is_killed(
    folder: Path,
) -> None:
    assert holder_of(folder) is None
    with holder(folder) as other:
        found = holder_of(folder)
        assert found is not None
        assert (found.pid, found.host, found.suspended) == (other.pid, "", False)
        assert str(found) == f"process {other.pid} (since {found.since_words})"
        other.kill()
        assert (folder / "holder.json").exists(), "it had no time to take it away"
        assert holder_of(folder) is None
        Session.open(folder).claim()


def test_querying_the_holder_writes_nothing_and_blocks_no_writer(folder: Path) -> None:
    before = sorted((item.name, item.stat().st_mtime_ns) for item in folder.iterdir())
    holder_of(folder)
    assert (
        sorted((item.name, item.stat().st_mtime_ns) for item in folder.iterdir())
        == before
    )
    asking = os.open(folder / "lock", os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    session = Session.open(folder)
    pauses: list[float] = []

    def let_go(seconds: float) -> None:
        pauses.append(seconds)
        os.close(asking)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", let_go)
        session.claim()
    assert len(pauses) == 1


@pytest.mark.quick
def test_the_error_names_the_holder_and_both_solutions(folder: Path) -> None:
    with holder(folder) as other, pytest.raises(SessionHeld) as held:
        Session.open(folder).claim()
    ref = folder.name.rsplit("-", 1)[-1]
    assert f"process {other.pid} (since " in str(held.value)
    assert f"`foldline open {ref}`" in str(held.value)
    assert f"`foldline fork {ref}`" in str(held.value)


RUBBISH = [
    b"",
    b"\xff\xfe",
    b"[]",
    b"{}",
    b'{"pid": true, "host": "h", "since": "2026-01-02T03:04:05+00:00"}',
    b'{"pid": -1, "host": "h", "since": "2026-01-02T03:04:05+00:00"}',
    b'{"pid": 99999999999999999999, "host": "h", "since": "2026-01-02T03:04:05+00:00"}',
    b'{"pid": 1, "host": null, "since": "yesterday"}',
    b'{"pid": 1, "host": "h", "since": "2026-01-02T03:04:05"}',
    b'{"pid": 1, "host": "h", "since": "0001-01-01T00:00:00+14:00"}',
    b'{"pid": 1, "host": "' + b"h" * 5000 + b'", "since": "2026-01-02T03:04:05+00:00"}',
]


def test_a_holder_with_an_unreadable_note_is_called_another_process(
    folder: Path,
) -> None:
    with holder(folder):
        for rubbish in RUBBISH:
            (folder / "holder.json").write_bytes(rubbish)
            assert str(holder_of(folder)) == "another process", rubbish
        (folder / "holder.json").unlink()
        assert str(holder_of(folder)) == "another process"
        for make in (os.mkfifo, os.mkdir):  # a pipe would be waited for
            make(folder / "holder.json")
            assert str(holder_of(folder)) == "another process"
            (folder / "holder.json").rename(folder / f"not.{make.__name__}")
        with pytest.raises(SessionHeld, match="by another process"):
            Session.open(folder).claim()


@pytest.mark.quick
def test_the_note_of_a_dead_process_or_a_reused_process_id_is_ignored(
    folder: Path,
) -> None:
    with holder(folder):
        note(folder, pid=2**22 + 1)
        assert str(holder_of(folder)) == "another process"
        note(folder, pid=os.getppid(), ticks=1)
        assert str(holder_of(folder)) == "another process"
        note(folder, pid=os.getpid(), ticks=1)
        assert str(holder_of(folder)) == "another process"


def test_a_holder_on_another_machine_is_named_with_its_machine(folder: Path) -> None:
    with holder(folder):
        note(folder, pid=4711, host="box2", ticks=5)
        assert str(holder_of(folder)).startswith("process 4711 on box2 (since ")
    note(folder, pid=4711, host="box2")
    assert holder_of(folder) is None, "nobody has the lock"


def test_the_start_time_is_in_the_readers_time_zone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holder(folder):
        note(folder, pid=4711, host="box2", since="2026-01-02T23:04:05+00:00")
        monkeypatch.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        try:
            assert (
                str(holder_of(folder))
                == "process 4711 on box2 (since 2026-01-03 07:04)"
            )
        finally:
            monkeypatch.undo()
            time.tzset()


@pytest.mark.quick
def test_unknown_details_of_the_holder_are_omitted() -> None:
    assert (str(Holder()), Holder().since_words) == ("another process", "")
    assert str(Holder(os.getpid())) == "this process"


def test_a_stopped_holder_keeps_the_lock_and_is_called_suspended(folder: Path) -> None:
    with holder(folder) as other:
        os.kill(other.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, other.pid, os.WSTOPPED)
        with pytest.raises(
            SessionHeld, match=rf"process {other.pid} \(since .*, suspended\)"
        ):
            Session.open(folder).claim()
        other.kill()
        Session.open(folder).claim()


def test_a_child_process_of_the_holder_does_not_keep_the_lock(folder: Path) -> None:
    """For example a server left running by a `bash` call."""
    with holder(folder) as other:
        started = other.start()
        other.kill()
        try:
            os.kill(started, 0)
            Session.open(folder).claim()
        finally:
            os.kill(started, signal.SIGKILL)


def test_a_forked_process_of_the_holder_does_not_keep_the_lock(folder: Path) -> None:
    with holder(folder) as other:
        forked = other.fork()
        other.kill()
        try:
            os.kill(forked, 0)
            Session.open(folder).claim()
        finally:
            os.kill(forked, signal.SIGKILL)


@pytest.mark.quick
def test_two_writers_never_mix_their_records_after_the_lock_was_deleted(
    folder: Path,
) -> None:
    with holder(folder) as other:
        other.append("theirs")
        (folder / "lock").unlink()
        mine = Session.open(folder)
        asyncio.run(mine.append(NoticeRecord(text="mine")))
        assert f"process {os.getpid()}" in other.append("again")
        mine.close()
        assert CHANGED_ON_DISK.partition("{")[0] in other.append("and again")
    assert texts(folder) == ["one", "held", "theirs", "mine"]


def test_a_writer_acquires_its_deleted_lock_again(folder: Path) -> None:
    with holder(folder) as other:
        (folder / "lock").unlink()
        assert holder_of(folder) is None
        other.append("theirs")
        with pytest.raises(SessionHeld, match=str(other.pid)):
            Session.open(folder).claim()
    assert texts(folder) == ["one", "held", "theirs"]


@pytest.mark.quick
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_nothing_is_written_without_locks(
    folder: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(FoldlineError, match=NO_LOCKS.partition("}")[2]):
        asyncio.run(Session.open(folder).append(NoticeRecord(text="two")))
    assert holder_of(folder) is None
    assert texts(folder) == ["one"]


def test_claiming_the_lock_reports_entries_of_another_process_at_once(
    folder: Path,
) -> None:
    mine = Session.open(folder)
    with holder(folder) as other:
        other.close()
        with pytest.raises(FoldlineError, match=CHANGED_ON_DISK.partition("{")[0]):
            mine.claim()
        assert holder_of(folder) is None, (
            "what is here is of the past: nobody waits for it"
        )
        assert other.append("and on") == ""
    assert texts(folder) == ["one", "held", "and on"]
