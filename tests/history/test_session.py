"""A session: memory and disk say the same, one process writes, everybody reads."""

import asyncio
import json
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.history import EVENTS, Session, SessionHeld, WriteFailed, read_log
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    FoldlineError,
    SystemMessage,
    Title,
    Usage,
    UserMessage,
    Written,
    text_parts,
)


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


async def test_listeners_hear_of_an_entry_after_it_is_on_disk_and_folded_in(tmp_path: Path) -> None:
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
@settings(max_examples=40)
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
