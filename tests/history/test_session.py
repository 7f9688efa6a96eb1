"""A session: memory and disk say the same, one process writes, everybody reads; forks; unsent prompts."""

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

from foldline.context.calls import paired, pairing_faults
from foldline.history import (
    EVENTS,
    Contents,
    Log,
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
from foldline.history.session import UNSENT
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
    UserMessage,
    Written,
    text_parts,
)
from support.history import call, history
from support.limits import examples


class Clock:
    """A clock that ticks once a look."""

    def __init__(self) -> None:
        self.time = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def user(text: str) -> UserMessage:
    return UserMessage(parts=text_parts(text))


def view(session: Session) -> list[tuple[tuple[int, int], str]]:
    return [(item.key, item.message.model_dump_json()) for item in session.projection.view]


async def test_an_append_gives_index_and_time_and_returns_what_is_stored(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path, now=Clock())
    stored = await session.append(user("one"), user("two"))
    assert [entry.index for entry in stored] == [0, 1]
    assert stored[0].at == stored[1].at == datetime(2025, 3, 4, 5, 6, 9, tzinfo=UTC)
    assert session.entries == stored
    assert [item.index for item in session.projection.view] == [0, 1]
    assert session.next_index == 2


async def test_listeners_hear_of_an_entry_after_it_is_on_disk_and_in_the_view_state(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    heard: list[tuple[int, bool, int]] = []

    def listen(entry: Entry) -> None:
        assert session.path is not None
        on_disk = any(found.index == entry.index for found in read_log(session.path).entries)
        heard.append((entry.index, on_disk, len(session.projection.view)))

    session.on_append.append(listen)
    await session.append(user("one"))
    await session.append(user("two"))
    assert heard == [(0, True, 1), (1, True, 2)]


def fold(first_kept: int) -> Compaction:
    text = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far")), covers=((0, first_kept),)
    )
    return Compaction(first_kept_index=first_kept, head=(text,), summary="so far", tokens_after=3)


@given(steps=st.lists(st.sampled_from(["user", "assistant", "fold", "title"]), min_size=1, max_size=12))
@settings(max_examples=examples(40))
def test_the_reloaded_session_is_the_live_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    async def live() -> Session:
        session = Session.create("/tmp", home=tmp_path_factory.mktemp("home"))
        for step in steps:
            match step:
                case "user":
                    await session.append(user("do it"))
                case "assistant":
                    await session.append(AssistantMessage(parts=text_parts("done"), model="m"))
                case "fold":
                    await session.append(fold(max(0, session.next_index - 2)))
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


async def test_a_new_entry_never_takes_the_index_of_a_lost_one(tmp_path: Path) -> None:
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


async def test_a_cancelled_append_is_finished_on_disk_and_in_memory(tmp_path: Path) -> None:
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
    assert [entry.index for entry in session.entries] == list(range(len(session.entries)))


async def test_appends_at_the_same_time_stay_in_order(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    await asyncio.gather(*(session.append(user(str(n)), user(str(n))) for n in range(20)))
    assert session.path is not None
    loaded = read_log(session.path)
    assert [entry.index for entry in loaded.entries] == list(range(40))
    assert loaded.entries == session.entries


def test_a_session_lives_through_several_event_loops(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    for n in range(3):
        asyncio.run(session.append(user(str(n)), durable=True))
    assert len(session.entries) == 3


async def test_a_read_only_session_refuses_in_one_sentence(tmp_path: Path) -> None:
    original = Session.create("/tmp", home=tmp_path)
    await original.append(user("one"))
    session = Session.from_entries(original.header, original.entries)
    assert view(session) == view(original)
    with pytest.raises(FoldlineError, match="open for reading only"):
        await session.append(user("two"))


async def test_a_copy_keeps_entries_and_indices_and_goes_on_by_itself(tmp_path: Path) -> None:
    original = Session.create("/tmp", home=tmp_path)
    await original.append(user("one"), user("two"), fold(1))
    copy = await Session.from_entries(original.header, original.entries).copy(home=tmp_path)
    await copy.append(user("three"))
    assert copy.id != original.id
    assert copy.path is not None
    assert Session.open(copy.path).entries[:3] == original.entries
    assert len(original.entries) == 3


async def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    session = Session.create("/tmp", home=tmp_path)
    with pytest.raises(WriteFailed, match="cannot be written"):
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


async def test_a_second_writer_is_told_who_holds_the_session_and_may_read(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    await session.append(user("one"))
    session.close()
    assert session.path is not None
    with subprocess.Popen(  # noqa: ASYNC220 - starting it is all that is waited for
        [sys.executable, "-c", textwrap.dedent(HOLDER), session.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        second = Session.open(session.path)
        assert [entry.index for entry in second.entries] == [0, 1]
        with pytest.raises(SessionHeld, match=rf"process {child.pid} \(since \d.*read here, or forked"):
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
    with pytest.raises(FoldlineError, match="open it again"):
        await first.append(user("three"))
    assert [entry.index for entry in read_log(first.path).entries] == [0, 1]


async def test_the_snapshot_is_replaced_in_one_step_and_says_what_the_history_says(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path, now=Clock())
    session.save_meta()
    await session.append(
        user("\x1b[31mfix\tthe  parser\nplease"),
        AssistantMessage(parts=text_parts("ok"), model="m-1", usage=Usage(input=90, output=10)),
        user("thanks"),
    )
    session.save_meta()
    assert session.path is not None
    snapshot = json.loads(session.path.with_name("meta.json").read_bytes())
    assert snapshot["title"] == snapshot["first_prompt"] == "[31mfix the parser"
    assert snapshot["last_prompt"] == "thanks"
    assert (snapshot["model"], snapshot["tokens"], snapshot["entries"]) == ("m-1", 100, 3)
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


def test_it_is_given_back_once_and_read_by_nobody_else(tmp_path: Path) -> None:
    unsent = Unsent(("first 你好", "second"), "half a sen")
    keep_unsent(tmp_path, unsent)
    assert stat.S_IMODE((tmp_path / UNSENT).stat().st_mode) == 0o600
    assert take_unsent(tmp_path) == unsent
    assert take_unsent(tmp_path) == Unsent() and not list(tmp_path.iterdir())


def test_nothing_leaves_no_file(tmp_path: Path) -> None:
    keep_unsent(tmp_path, Unsent((), "  \n"))
    keep_unsent(tmp_path / "never came to disk", Unsent(("one",)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"queued": 3, "draft": ""}', '{"draft": "x"}', "\x00"])
def test_a_file_that_is_none_of_ours_gives_nothing_and_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / UNSENT).write_text(text)
    assert take_unsent(tmp_path) == Unsent()
    assert (tmp_path / UNSENT).read_text() == text
