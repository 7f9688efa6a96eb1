"""Sessions: memory and disk are equal, one process writes, all may read; forks and unsent prompts."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.history import (
    EVENTS,
    Contents,
    EventLog,
    Parent,
    Session,
    SessionHeld,
    Unsent,
    WriteFailed,
    keep_unsent,
    parent_of,
    read_header,
    read_log,
    take_unsent,
    utc_now,
)
from foldline.history.log import CANNOT_BE_WRITTEN, CHANGED_ON_DISK
from foldline.history.session import IN_MEMORY, UNSENT
from foldline.protocol import (
    NEW,
    AssistantMessage,
    Compaction,
    Entry,
    FoldlineError,
    SessionHeader,
    SystemMessage,
    Title,
    Usage,
    Written,
    text_parts,
)
from foldline.view.calls import paired, pairing_faults
from support.history import call, history
from support.limits import examples
from support.messages import user


class Clock:
    """A clock that advances with each call."""

    def __init__(self) -> None:
        self.time = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def view(session: Session) -> list[tuple[tuple[int, int], str]]:
    return [
        (item.key, item.message.model_dump_json()) for item in session.projection.view
    ]


async def test_an_append_adds_index_and_time_and_returns_the_stored_entry(
    tmp_path: Path,
) -> None:
    session = Session.create("/tmp", home=tmp_path, now=Clock())
    stored = await session.append(user("one"), user("two"))
    assert [entry.index for entry in stored] == [0, 1]
    assert stored[0].at == stored[1].at == datetime(2025, 3, 4, 5, 6, 9, tzinfo=UTC)
    assert session.entries == stored
    assert [item.index for item in session.projection.view] == [0, 1]
    assert session.next_index == 2


async def test_listeners_are_called_after_an_entry_is_on_disk_and_in_the_view(
    tmp_path: Path,
) -> None:
    session = Session.create("/tmp", home=tmp_path)
    heard: list[tuple[int, bool, int]] = []

    def listen(entry: Entry) -> None:
        assert session.path is not None
        on_disk = any(
            found.index == entry.index for found in read_log(session.path).entries
        )
        heard.append((entry.index, on_disk, len(session.projection.view)))

    session.on_append.append(listen)
    await session.append(user("one"))
    await session.append(user("two"))
    assert heard == [(0, True, 1), (1, True, 2)]


def compaction(first_kept: int) -> Compaction:
    text = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far")),
        covers=((0, first_kept),),
    )
    return Compaction(
        first_kept_index=first_kept, head=(text,), summary="so far", tokens_after=3
    )


@given(
    steps=st.lists(
        st.sampled_from(["user", "assistant", "compaction", "title"]),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=examples(40))
def test_a_reloaded_session_equals_the_live_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    async def live() -> Session:
        session = Session.create("/tmp", home=tmp_path_factory.mktemp("home"))
        for step in steps:
            match step:
                case "user":
                    await session.append(user("do it"))
                case "assistant":
                    await session.append(
                        AssistantMessage(parts=text_parts("done"), model="m")
                    )
                case "compaction":
                    await session.append(compaction(max(0, session.next_index - 2)))
                case _:
                    await session.append(Title(title="t"))
        session.close()
        return session

    session = asyncio.run(live())
    assert session.path is not None
    again = Session.open(session.path.parent)
    assert again.entries == session.entries
    assert view(again) == view(session)
    assert again.meta() == session.meta()
    assert again.next_index == session.next_index


async def test_a_new_entry_never_gets_the_index_of_a_lost_one(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    await session.append(user("one"), user("two"))
    session.close()
    assert session.path is not None
    session.path.write_bytes(session.path.read_bytes()[:-6])
    again = Session.open(session.path)
    assert again.damage.count == 1
    assert [entry.index for entry in again.entries] == [0]
    [stored] = await again.append(user("three"))
    assert stored.index == 2
    assert [entry.index for entry in Session.open(session.path).entries] == [0, 2]


async def test_a_cancelled_append_is_completed_on_disk_and_in_memory(
    tmp_path: Path,
) -> None:
    session = Session.create("/tmp", home=tmp_path)
    await session.append(user("zero"))
    cancelled = 0
    for spins in range(12):
        task = asyncio.create_task(session.append(user(f"cancel after {spins} spins")))
        for _ in range(spins):
            await asyncio.sleep(0)
        if task.cancel():  # a fast disk may have been done before
            cancelled += 1
            with pytest.raises(asyncio.CancelledError):
                await task
    assert cancelled >= 2
    await session.append(user("last"))
    assert session.path is not None
    assert read_log(session.path).entries == session.entries
    assert [entry.index for entry in session.entries] == list(
        range(len(session.entries))
    )


async def test_concurrent_appends_stay_in_order(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    await asyncio.gather(
        *(session.append(user(str(n)), user(str(n))) for n in range(20))
    )
    assert session.path is not None
    loaded = read_log(session.path)
    assert [entry.index for entry in loaded.entries] == list(range(40))
    assert loaded.entries == session.entries


def test_a_session_works_across_several_event_loops(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    for n in range(3):
        asyncio.run(session.append(user(str(n)), durable=True))
    assert len(session.entries) == 3


async def test_a_read_only_session_refuses_an_append_in_one_sentence(
    tmp_path: Path,
) -> None:
    original = Session.create("/tmp", home=tmp_path)
    await original.append(user("one"))
    session = Session.from_entries(original.header, original.entries)
    assert view(session) == view(original)
    with pytest.raises(FoldlineError, match=IN_MEMORY.partition("}")[2]):
        await session.append(user("two"))


async def test_a_copy_keeps_entries_and_indices_and_is_independent(
    tmp_path: Path,
) -> None:
    original = Session.create("/tmp", home=tmp_path)
    await original.append(user("one"), user("two"), compaction(1))
    copy = await Session.from_entries(original.header, original.entries).copy(
        home=tmp_path
    )
    await copy.append(user("three"))
    assert copy.id != original.id
    assert copy.path is not None
    assert Session.open(copy.path).entries[:3] == original.entries
    assert len(original.entries) == 3


async def test_a_failure_to_create_the_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    session = Session.create("/tmp", home=tmp_path)
    with pytest.raises(WriteFailed, match=CANNOT_BE_WRITTEN.partition(" (")[0]):
        await session.append(user("one"))
    assert session.entries == []


HOLDER = """
    import asyncio, sys
    from foldline.history import Session
    from foldline.protocol import Title

    async def main():
        session = Session.open(sys.argv[1])
        await session.append(Title(title="mine"))
        print("held", flush=True)
        sys.stdin.read()

    asyncio.run(main())
"""


async def test_a_second_writer_learns_who_holds_the_session_and_may_read(
    tmp_path: Path,
) -> None:
    session = Session.create("/tmp", home=tmp_path)
    await session.append(user("one"))
    session.close()
    assert session.path is not None
    with subprocess.Popen(  # noqa: ASYNC220 - only its start is awaited
        [sys.executable, "-c", textwrap.dedent(HOLDER), session.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        second = Session.open(session.path)
        assert [entry.index for entry in second.entries] == [0, 1]
        with pytest.raises(SessionHeld, match=rf"process {child.pid} \(since \d.*"):
            await second.append(user("two"))
        with pytest.raises(SessionHeld):
            second.claim()
        fork = await second.copy(home=tmp_path)
        await fork.append(user("two"))
        child.kill()
    assert [entry.index for entry in await second.append(user("two"))] == [2]
    assert [entry.index for entry in Session.open(session.path).entries] == [0, 1, 2]


async def test_two_sessions_of_one_process_do_not_mix(tmp_path: Path) -> None:
    first = Session.create("/tmp", home=tmp_path)
    await first.append(user("one"))
    assert first.path is not None
    second = Session.open(first.path)
    with pytest.raises(SessionHeld):
        await second.append(user("two"))
    first.close()
    await second.append(user("two"))
    second.close()
    with pytest.raises(FoldlineError, match=CHANGED_ON_DISK.partition("{")[0]):
        await first.append(user("three"))
    assert [entry.index for entry in read_log(first.path).entries] == [0, 1]


async def test_the_snapshot_is_replaced_atomically_and_matches_the_history(
    tmp_path: Path,
) -> None:
    session = Session.create("/tmp", home=tmp_path, now=Clock())
    session.save_meta()
    await session.append(
        user("\x1b[31mfix\tthe  parser\nplease"),
        AssistantMessage(
            parts=text_parts("ok"), model="m-1", usage=Usage(input=90, output=10)
        ),
        user("thanks"),
    )
    session.save_meta()
    assert session.path is not None
    snapshot = json.loads(session.path.with_name("meta.json").read_bytes())
    assert snapshot["title"] == snapshot["first_prompt"] == "[31mfix the parser"
    assert snapshot["last_prompt"] == "thanks"
    assert (snapshot["model"], snapshot["tokens"], snapshot["entries"]) == (
        "m-1",
        100,
        3,
    )
    assert snapshot["size"] == session.path.stat().st_size
    assert sorted(item.name for item in session.path.parent.iterdir()) == [
        EVENTS,
        "holder.json",
        "lock",
        "meta.json",
    ]


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


async def copied_session(home: Path) -> Session:
    header = SessionHeader(id="built", created_at=utc_now(), cwd="/tmp")
    session = await Session.from_entries(header, WORK).copy(home=home)
    session.close()
    assert session.path is not None
    return Session.open(session.path)


@pytest.mark.parametrize("until", [entry.index for entry in WORK])
async def test_a_fork_at_any_entry_is_a_session_the_model_can_continue(
    tmp_path: Path, until: int
) -> None:
    session = await copied_session(tmp_path)
    fork = await session.copy(home=tmp_path, until=until)
    fork.close()
    assert fork.path is not None
    again = Session.open(fork.path)
    assert list(again.entries) == [entry for entry in WORK if entry.index <= until]
    assert parent_of(again.header) == Parent(id=session.id, index=until, foreign=until)
    assert pairing_faults(paired(item.message for item in again.projection.view)) == []
    assert again.next_index == until + 1


async def test_a_fork_at_a_lost_record_ends_before_it(tmp_path: Path) -> None:
    session = await copied_session(tmp_path)
    fork = await session.copy(home=tmp_path, until=6)
    assert fork.entries[-1].index == 4
    assert parent_of(fork.header) == Parent(id=session.id, index=4, foreign=4)


async def test_a_copy_that_fails_on_disk_leaves_no_partial_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await copied_session(tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    append, calls = EventLog.append, iter([True, False])

    async def fail_on_the_second(log: EventLog, *given: Any) -> object:
        if not next(calls):
            raise WriteFailed("Nothing after entry 1 is on disk", 0)
        return await append(log, *given)

    monkeypatch.setattr("foldline.history.session._COPY_BATCH", 2)
    monkeypatch.setattr(EventLog, "append", fail_on_the_second)
    with pytest.raises(WriteFailed):
        await session.copy(home=tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("until", [-1, 8, 10**9])
async def test_a_fork_at_a_missing_entry_is_refused_and_leaves_no_files(
    tmp_path: Path, until: int
) -> None:
    session = await copied_session(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FoldlineError, match=f"no entry {until} .* 0 to 7"):
        await session.copy(home=tmp_path, until=until)
    assert sorted(tmp_path.rglob("*")) == before


async def test_forking_does_not_change_the_original_even_during_writes(
    tmp_path: Path,
) -> None:
    session = await copied_session(tmp_path)
    session.claim()
    assert session.path is not None
    before = session.path.read_bytes()
    fork = await Session.open(session.path).copy(home=tmp_path)
    await fork.append(*history().user("another way").entries)
    assert session.path.read_bytes() == before


async def test_a_fork_keeps_its_contents_and_outputs_when_the_original_is_deleted(
    tmp_path: Path,
) -> None:
    session = await copied_session(tmp_path)
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


async def test_a_fork_copies_files_if_hard_links_are_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    session = await copied_session(tmp_path)
    assert session.path is not None
    name = Contents(session.path.parent).keep(b"as it was")
    monkeypatch.setattr(os, "link", refused)
    fork = await session.copy(home=tmp_path)
    assert fork.path is not None
    assert Contents(fork.path.parent).read(name) == b"as it was"


async def test_a_fork_of_a_moved_session_belongs_to_the_new_folder(
    tmp_path: Path,
) -> None:
    session = await copied_session(tmp_path)
    assert session.path is not None
    fork = await Session.open(session.path, cwd=tmp_path).copy(home=tmp_path)
    assert fork.path is not None
    assert read_header(fork.path).cwd == str(tmp_path)
    assert read_log(fork.path).entries == list(session.entries)


@pytest.mark.parametrize("parent", ["me", {"id": 7}, None])
def test_an_unrecognised_parent_counts_as_missing(parent: object) -> None:
    header = SessionHeader(id="s", created_at=utc_now(), cwd="/").model_copy()
    assert header.model_extra is not None
    header.model_extra["parent"] = parent
    assert parent_of(header) is None


async def test_a_fork_knows_which_of_its_entries_were_copied(tmp_path: Path) -> None:
    imported = await copied_session(tmp_path)
    await imported.append(*history().user("and now").entries)
    own = Session.create("/tmp", home=tmp_path)
    await own.append(*WORK)
    forks = [await session.copy(home=tmp_path) for session in (imported, own)]
    parents = [parent_of(fork.header) for fork in forks]
    assert [parent.foreign for parent in parents if parent is not None] == [
        WORK[-1].index,
        NEW,
    ]


def test_an_unsent_prompt_is_restored_once_and_readable_only_by_its_owner(
    tmp_path: Path,
) -> None:
    unsent = Unsent(("first 你好", "second"), "half a sen")
    keep_unsent(tmp_path, unsent)
    assert stat.S_IMODE((tmp_path / UNSENT).stat().st_mode) == 0o600
    assert take_unsent(tmp_path) == unsent
    assert take_unsent(tmp_path) == Unsent() and not list(tmp_path.iterdir())


def test_an_empty_unsent_prompt_leaves_no_file(tmp_path: Path) -> None:
    keep_unsent(tmp_path, Unsent((), "  \n"))
    keep_unsent(tmp_path / "never came to disk", Unsent(("one",)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"queued": 3, "draft": ""}', '{"draft": "x"}', "\x00"]
)
def test_a_foreign_file_gives_no_prompt_and_is_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / UNSENT).write_text(text)
    assert take_unsent(tmp_path) == Unsent()
    assert (tmp_path / UNSENT).read_text() == text
