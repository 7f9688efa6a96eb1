"""The log: undamaged records are read, appends damage no record, and failures lose no complete one."""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.history import (
    EVENTS,
    EventLog,
    Session,
    WriteFailed,
    parse_log,
    read_log,
    session_dir,
)
from foldline.history.loader import open_file
from foldline.history.log import (
    CHANGED_ON_DISK,
    NO_FILE,
    NOT_A_SESSION,
    NOTHING_AFTER,
    NOTHING_ON_DISK,
)
from foldline.protocol import (
    Compaction,
    Entry,
    FoldlineError,
    SessionHeader,
    SystemMessage,
    Title,
    Unknown,
    UserMessage,
    Written,
    dump_entry,
    text_parts,
)
from support.damage import everything_in, story, view_of, write_session
from support.history import history
from support.limits import examples

HEADER = SessionHeader(
    id="s-1", created_at=datetime(2025, 1, 2, tzinfo=UTC), cwd="/work/里"
)


def user(index: int, text: str = "") -> UserMessage:
    return UserMessage(
        index=index,
        at=HEADER.created_at,
        parts=text_parts(text or f"prompt {index} 你好"),
    )


def write_log(path: Path, entries: list[Entry]) -> bytes:
    lines = [HEADER.model_dump_json().encode(), *map(dump_entry, entries)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path.read_bytes()


def indices(path: Path) -> list[int]:
    return [entry.index for entry in read_log(path).entries]


def append(path: Path, *entries: Entry, durable: bool = False) -> None:
    """Open a session, append once, and close it."""
    log = open_file(path).log
    asyncio.run(log.append(entries, durable))
    log.close()


async def test_appended_entries_are_read_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "a" / "events.jsonl"
    compaction = Compaction(
        index=2,
        first_kept_index=1,
        head=(
            Written(
                message=SystemMessage(origin="summary", parts=text_parts("s")),
                covers=((0, 0),),
            ),
        ),
    )
    entries = [user(0), user(1), compaction]
    log = EventLog(path, HEADER)
    await log.append(entries[:1])
    await log.append(entries[1:], durable=True)
    loaded = read_log(path)
    assert loaded.header == HEADER
    assert loaded.entries == entries
    assert not loaded.damage
    assert log.size == loaded.size == path.stat().st_size


async def test_nothing_is_created_before_the_first_append(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "a" / "events.jsonl", HEADER)
    assert not (tmp_path / "a").exists()
    await log.append([user(0)])
    assert (tmp_path / "a" / "events.jsonl").stat().st_mode & 0o077 == 0


def test_reading_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = write_log(path, [user(0), user(1)])
    path.write_bytes(whole[:-5])
    read_log(path)
    assert path.read_bytes() == whole[:-5]
    assert [item.name for item in tmp_path.iterdir()] == ["events.jsonl"]


@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=6), data=st.data())
@settings(max_examples=examples(150))
def test_a_cut_at_any_byte_loses_only_the_torn_record_and_an_append_keeps_the_rest(
    texts: list[str], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        entries: list[Entry] = [user(i, text) for i, text in enumerate(texts)]
        whole = write_log(path, entries)
        header_end = whole.index(b"\n") + 1
        cut = data.draw(st.integers(header_end, len(whole)))
        nuls = data.draw(st.integers(0, 5))
        path.write_bytes(whole[:cut] + b"\0" * nuls)
        ends = [header_end]
        for entry in entries:
            ends.append(ends[-1] + len(dump_entry(entry)) + 1)
        complete = sum(
            end - 1 <= cut for end in ends[1:]
        )  # a missing line end costs nothing
        before = read_log(path)
        assert before.entries == entries[:complete]
        assert before.damage.count == (
            bool(nuls) or (cut not in ends and cut + 1 not in ends)
        )

        new = user(before.last_index + 1, "after")
        append(path, new)
        after = read_log(path)
        assert after.entries == [*entries[:complete], new]
        assert after.damage.count == before.damage.count
        assert path.read_bytes().startswith(whole[:cut])


@given(data=st.data())
@settings(max_examples=examples(100))
def test_damage_in_the_middle_costs_that_record_and_moves_no_index(
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        lines = write_log(path, [user(i) for i in range(6)]).split(b"\n")
        hit = data.draw(st.integers(0, 5))
        junk = data.draw(
            st.sampled_from(
                [
                    b"\xff\xfe\x00",
                    b"{",
                    b"null",
                    b"[" * 5000,
                    b'{"type":"user"}',
                    b"\0" * 9,
                ]
            )
        )
        lines[hit + 1] = junk
        path.write_bytes(b"\n".join(lines))
        loaded = read_log(path)
        assert [entry.index for entry in loaded.entries] == [
            i for i in range(6) if i != hit
        ]
        assert loaded.damage.lines == (hit + 2,)
        append(path, user(loaded.last_index + 1))
        assert indices(path) == [
            *(i for i in range(6) if i != hit),
            loaded.last_index + 1,
        ]


def test_cut_utf8_is_damage_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = write_log(path, [user(0), user(1)])
    path.write_bytes(whole[: whole.rindex("好".encode()) + 1] + b'"}]}\n')
    loaded = read_log(path)
    assert [entry.index for entry in loaded.entries] == [0]
    assert str(loaded.damage) == "1 damaged record (line 3) was left out"


def test_a_record_after_a_run_of_nul_bytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = write_log(path, [user(0)])
    path.write_bytes(whole + b"\0" * 40 + dump_entry(user(1)) + b"\n")
    assert indices(path) == [0, 1]
    assert read_log(path).damage.count == 1


def test_a_non_increasing_index_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write_log(path, [user(0), user(4), user(4, "again"), user(2), user(5)])
    loaded = read_log(path)
    assert [entry.index for entry in loaded.entries] == [0, 4, 5]
    assert loaded.damage.lines == (4, 5)


def test_the_index_of_a_torn_record_is_never_reused(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = write_log(path, [user(0), user(7)])
    path.write_bytes(whole[:-9])
    assert read_log(path).last_index == 7
    assert indices(path) == [0]


def test_unknown_types_and_fields_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write_log(path, [user(0)])
    with path.open("ab") as file:
        file.write(b'{"type":"hologram","index":1,"depth":{"z":null}}\n')
        file.write(b'{"type":"user","index":2,"parts":[],"mood":"calm"}\n')
    loaded = read_log(path)
    hologram, later = loaded.entries[1:]
    assert isinstance(hologram, Unknown)
    assert json.loads(dump_entry(hologram)) == {
        "type": "hologram",
        "index": 1,
        "depth": {"z": None},
    }
    assert isinstance(later, UserMessage)
    assert json.loads(dump_entry(later))["mood"] == "calm"
    assert not loaded.damage
    before = path.read_bytes()
    append(path, user(3))
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"notes to myself\n" * 50,
        b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n',
        b'{"type":"session","version":2,"id":"x","created_at":"2026-01-01T00:00:00Z","cwd":"/"}\n',
        b"\x7fELF" + bytes(300),
        HEADER.model_dump_json().encode()[:30],
    ],
)
def test_a_foreign_file_is_refused_and_not_changed(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)
    with pytest.raises(FoldlineError, match=NOT_A_SESSION.rpartition(", ")[2]):
        read_log(path)
    with pytest.raises(FoldlineError):
        asyncio.run(EventLog(path, HEADER).append([user(0)]))
    assert path.read_bytes() == content


def test_a_missing_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FoldlineError, match=NO_FILE.partition("{")[0]):
        read_log(tmp_path / "events.jsonl")


async def test_a_file_another_process_extended_is_not_written_to(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.jsonl"
    write_log(path, [user(0)])
    stale = open_file(path).log
    with path.open("ab") as file:
        file.write(dump_entry(user(1)) + b"\n")
    with pytest.raises(FoldlineError, match=CHANGED_ON_DISK.partition("{")[0]):
        await stale.append([user(1, "mine")])
    assert indices(path) == [0, 1]
    assert not stale.lock.held


async def test_a_deleted_file_is_not_silently_created_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, HEADER)
    await log.append([user(0)])
    path.unlink()
    with pytest.raises(WriteFailed, match="no such file"):
        await log.append([user(1)])
    assert not path.exists()


FORKED = """
    import asyncio, json, os, resource, sys
    from pathlib import Path
    from foldline.history import Session, WriteFailed
    from foldline.protocol import UserMessage, text_parts

    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            asyncio.run(main(Path(order["home"]), **order["about"]))
            sys.stdout.flush()
            os._exit(0)
        if order["tells_its_id"]:
            print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)
"""
"""Source of a process that imports everything once and forks for each order on its stdin."""


@contextmanager
def run_forked(main: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the source of an `async def main(home, ...)` in a forked process."""
    imports, loop = FORKED.split("\n\n")
    code = textwrap.dedent(f"{imports}\n{main}\n{loop}")
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def order(
    process: "subprocess.Popen[str]",
    home: Path,
    *,
    tells_its_id: bool = False,
    **about: int,
) -> None:
    assert process.stdin is not None
    said = {"home": str(home), "about": about, "tells_its_id": tells_its_id}
    process.stdin.write(json.dumps(said) + "\n")
    process.stdin.flush()


DISK_FULL = """
    async def main(home, limit):
        session = Session.create(str(home), home=home, session_id="s")
        def cap(size):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        def prompt(n):
            return UserMessage(parts=text_parts(f"prompt {n} " + "x" * 200))
        session.claim()
        cap(limit)
        failed = None
        n = 0
        while failed is None:
            try:
                await session.append(prompt(n), prompt(n + 1), prompt(n + 2))
            except WriteFailed as error:
                failed = str(error)
            n += 3
        live = [e.index for e in session.entries]
        cap(resource.RLIM_INFINITY)
        await session.append(prompt("after"))
        print(json.dumps({"failed": failed, "live": live, "path": str(session.path),
                          "after": [e.index for e in session.entries]}))
"""


@pytest.fixture(scope="module")
def disk_full() -> Iterator["subprocess.Popen[str]"]:
    with run_forked(DISK_FULL) as process:
        yield process


@pytest.mark.parametrize("limit", [0, 20, 90, 100, 700, 1333, 1900, 2000, 2050, 2777])
def test_a_full_disk_is_reported_and_memory_equals_the_disk(
    tmp_path: Path, limit: int, disk_full: "subprocess.Popen[str]"
) -> None:
    order(disk_full, tmp_path, limit=limit)
    assert disk_full.stdout is not None
    said = json.loads(disk_full.stdout.readline())
    assert disk_full.stdout.readline() == "ended\n"
    loaded = read_log(Path(said["path"]))
    on_disk = [entry.index for entry in loaded.entries]
    assert on_disk == said["after"]
    assert said["live"] == on_disk[:-1]
    assert loaded.damage.count <= 1
    expected = (
        NOTHING_AFTER.format(index=said["live"][-1])
        if said["live"]
        else NOTHING_ON_DISK
    )
    assert said["failed"].startswith(expected)
    assert "file too large" in said["failed"]


KILLED = """
    async def main(home):
        folder = home / "s"
        session = Session.open(folder) if folder.exists() else None
        if session is None:
            session = Session.create("/", home=home, session_id="s")
        while True:
            stored = await session.append(*(UserMessage(parts=text_parts("你" * 3000)) for _ in range(2)))
            print(stored[-1].index, flush=True)
"""


@pytest.mark.slow
def test_kill_9_at_any_time_keeps_every_acknowledged_record_and_frees_the_lock(
    tmp_path: Path,
) -> None:
    chance = random.Random(9)
    folder = session_dir(tmp_path, "/", "s")
    acknowledged = -1
    with run_forked(KILLED.replace('home / "s"', f"Path({str(folder)!r})")) as process:
        assert process.stdout is not None
        for _ in range(24):
            order(process, tmp_path, tells_its_id=True)
            writer = int(process.stdout.readline())
            for _ in range(chance.randrange(1, 30)):
                acknowledged = int(process.stdout.readline())
            os.kill(writer, signal.SIGKILL)
            for line in iter(process.stdout.readline, "ended\n"):
                acknowledged = max(acknowledged, int(line))
            loaded = read_log(folder / "events.jsonl")
            found = [entry.index for entry in loaded.entries]
            assert found == sorted(set(found))
            assert loaded.entries[-1].index >= acknowledged
            if not loaded.damage:
                assert found == list(range(len(found)))
    assert len(loaded.entries) > 24


WIDE = "aé你🙂\u2028e\u0301"
"""Characters of one to four bytes, a Unicode line separator, and one of two code points."""


def test_records_before_a_cut_survive_at_every_byte_even_within_a_character(
    tmp_path: Path,
) -> None:
    built = history().user(WIDE).assistant(WIDE * 3).user(WIDE)
    data = write_session(tmp_path, built).read_bytes()
    ends = [len(data) - len(data.split(b"\n", n)[-1]) for n in range(1, 5)]
    for size in range(ends[0], len(data) + 1):
        for tail in (b"", b"\0" * 3, b"\0" * 4096):
            loaded = parse_log(data[:size] + tail, tmp_path)
            whole = sum(end - 1 <= size for end in ends[1:])
            assert list(loaded.entries) == built.entries[:whole], size


def test_an_append_after_any_tail_keeps_all_earlier_records(tmp_path: Path) -> None:
    for number, tail in enumerate(
        [
            b"{",
            b"\0",
            b"\0" * 5000,
            "好".encode()[:2],
            b'{"type":"user","index":90',
            b"\r",
        ]
    ):
        events = write_session(tmp_path / str(number))
        with events.open("ab") as file:
            file.write(tail)
        session = Session.open(events)
        [stored] = asyncio.run(session.append(UserMessage(parts=text_parts("after"))))
        session.close()
        again = Session.open(events)
        assert list(again.entries) == [*story().entries, stored], tail
        assert view_of(again) == view_of(session)


async def test_forks_and_copies_keep_types_and_fields_of_a_later_version(
    tmp_path: Path,
) -> None:
    events = write_session(tmp_path)
    hologram = b'{"type":"hologram","index":20,"depth":{"z":null,"x":[1,2]},"at":"2026-01-02T00:00:00Z"}\n'
    calm = b'{"type":"user","index":21,"parts":[{"type":"text","text":"hi","tone":"calm"}],"mood":[1]}\n'
    with events.open("ab") as file:
        file.write(hologram + calm)
    copy = await Session.open(events).copy(home=tmp_path / "other")
    await copy.append(Title(title="a copy"))
    copy.close()
    assert copy.path is not None
    lines = copy.path.read_bytes().splitlines()
    assert json.loads(lines[11]) == json.loads(hologram)
    assert json.loads(lines[12])["mood"] == [1]
    assert json.loads(lines[12])["parts"][0]["tone"] == "calm"


@pytest.mark.parametrize(
    "junk", [b"", b"\xff\xfe\x00", b"null", b"[" * 9000, b'{"index":1e400}', b"\0" * 70]
)
def test_a_damaged_record_loses_only_itself_also_at_the_next_opening(
    tmp_path: Path, junk: bytes
) -> None:
    events = write_session(tmp_path)
    lines = events.read_bytes().split(b"\n")
    lines[3] = junk
    events.write_bytes(b"\n".join(lines))
    session = Session.open(events)
    assert [entry.index for entry in session.entries] == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    asyncio.run(session.append(UserMessage(parts=text_parts("on we go"))))
    session.close()
    again = Session.open(events)
    assert view_of(again) == view_of(session)
    assert again.damage == session.damage
    assert again.damage.count == bool(junk)


# --- files of others -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"notes to myself\n" * 100,
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        b'[{"role":"user","content":"hi"}]',
        b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n',
        b'{"type":"session"}\n' + dump_entry(story().entries[1]) + b"\n",
    ],
)
def test_a_file_without_a_foldline_header_is_refused_and_unchanged(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / EVENTS
    file.write_bytes(content)
    with pytest.raises(FoldlineError, match=NOT_A_SESSION.rpartition(", ")[2]):
        Session.open(file)
    with pytest.raises(FoldlineError, match=NOT_A_SESSION.rpartition(", ")[2]):
        Session.open(tmp_path)
    assert everything_in(tmp_path) == {EVENTS: content}


def test_a_new_session_does_not_overwrite_an_existing_file(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    content = b"notes to myself\n" * 100
    events.write_bytes(content)
    session = Session.create("/work/shop", home=tmp_path, session_id=events.parent.name)
    with pytest.raises(FoldlineError):
        asyncio.run(session.append(UserMessage(parts=text_parts("mine"))))
    session.close()
    assert events.read_bytes() == content
    assert list(session.entries) == []


# --- read-only media -----------------------------------------------------------------------------------


def test_reading_works_on_a_read_only_medium(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    data = events.read_bytes()
    shutil.copy(events, tmp_path / "loose.jsonl")
    for path in (events, events.parent, tmp_path / "loose.jsonl"):
        assert list(Session.open(path).entries) == list(read_log(events).entries)
    assert events.read_bytes() == data
    assert [path.name for path in events.parent.iterdir()] == [EVENTS]
