"""A follower reads all entries in order, and counts damage as a new reader does."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.history import Session, read_log
from foldline.history.follower import (
    MOVED,
    REPLACED,
    SHORTER,
    Follower,
    NoLongerFollowed,
)
from foldline.history.log import dump_header
from foldline.history.session import utc_now
from foldline.protocol import Entry, SessionHeader, UserMessage, dump_entry, text_parts
from support.limits import examples

HEADER = SessionHeader(
    id="20260102-030405-abc123", created_at=utc_now(), cwd="/work/shop"
)


def user(index: int, text: str = "word") -> UserMessage:
    return UserMessage(index=index, parts=text_parts(text))


def line(index: int, text: str = "word") -> bytes:
    return dump_entry(user(index, text)) + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    events = tmp_path / "events.jsonl"
    events.write_bytes(dump_header(HEADER) + b"\n" + line(0) + line(1))
    return events


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def indices(entries: Sequence[Entry]) -> list[int]:
    return [entry.index for entry in entries]


def test_appended_entries_are_read_once_and_announced_to_listeners(path: Path) -> None:
    follower = Follower(path)
    heard: list[Entry] = []
    follower.session.on_append.append(heard.append)
    assert indices(follower.session.entries) == [0, 1]
    append(path, line(2) + line(3))
    fresh = follower.catch_up()
    assert indices(fresh) == [2, 3]
    assert heard == fresh
    assert [item.index for item in follower.session.projection.view] == [0, 1, 2, 3]
    assert follower.catch_up() == []


def test_a_real_writer_process_is_followed_and_named(tmp_path: Path) -> None:
    writer = Session.create("/tmp", home=tmp_path)
    asyncio.run(writer.append(user(-1)))
    assert writer.path is not None
    follower = Follower(writer.path.parent)
    assert follower.holder is not None and follower.holder.pid == os.getpid()
    asyncio.run(writer.append(user(-1), user(-1)))
    assert indices(follower.catch_up()) == [1, 2]
    assert follower.session.entries == writer.entries
    writer.close()
    assert follower.catch_up() == []
    assert follower.holder is None


def test_an_incomplete_line_is_not_read_until_it_is_complete(path: Path) -> None:
    follower = Follower(path)
    record = line(2, "词" * 50)
    for end in range(1, len(record) - 1):
        append(path, record[end - 1 : end])
        assert follower.catch_up() == []
    append(path, record[len(record) - 2 :])
    assert indices(follower.catch_up()) == [2]
    assert not follower.session.damage


def test_an_unchanged_file_is_not_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(path)
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("the file was opened"))
    assert follower.catch_up() == []


LINES = [
    line(7),
    line(8, "中文\u2028"),
    b'{"type":"from_the_future","index":9,"x":1}\n',
]
PIECES = [
    *LINES,
    line(3),
    b"\n",
    b"\0\0\0\n",
    b"no json\n",
    b"\0\0" + line(10),
    b'{"type":"user","index":11,"pa',
]


@settings(max_examples=examples(150))
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=8),
    cuts=st.lists(st.integers(0, 900), max_size=6),
)
def test_following_in_pieces_of_any_size_equals_a_fresh_read(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("followed") / "events.jsonl"
    path.write_bytes(dump_header(HEADER) + b"\n" + line(4))
    follower = Follower(path)
    data = b"".join(pieces)
    start = 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        append(path, data[start:cut])
        start = cut
        follower.catch_up()
    append(path, b"\n")  # a line without its end is still being written
    follower.catch_up()
    loaded = read_log(path)
    assert list(follower.session.entries) == list(loaded.entries)
    assert follower.session.damage == loaded.damage


def test_a_torn_line_followed_by_another_is_damage(path: Path) -> None:
    follower = Follower(path)
    append(path, line(2)[:20])
    follower.catch_up()
    append(path, b"\n" + line(3))
    assert indices(follower.catch_up()) == [3]
    assert follower.session.damage.lines == (4,)


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes() + line(2))
    other.replace(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (shrink, SHORTER),
        (replace, REPLACED),
        (Path.unlink, MOVED),
    ],
)
def test_a_file_that_changed_other_than_by_growing_is_no_longer_followed(
    path: Path, change: object, sentence: str
) -> None:
    follower = Follower(path)
    assert callable(change)
    change(path)
    for _ in range(2):
        with pytest.raises(NoLongerFollowed, match=sentence.partition("}")[2]):
            follower.catch_up()
    assert indices(follower.session.entries) == [0, 1]
