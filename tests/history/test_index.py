"""The index beside a large session file: it saves time, and changes nothing else, whatever becomes of it."""

import asyncio
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from foldline.context.outline import Outline
from foldline.context.projection import project
from foldline.history import EVENTS, Session, index, log, read_log
from foldline.history.meta import describe
from foldline.history.paths import INDEX
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    Clear,
    Compaction,
    Edit,
    Entry,
    NoticeRecord,
    RequestRecord,
    Revert,
    SystemMessage,
    Title,
    ToolResultMessage,
    Undo,
    Unknown,
    Usage,
    UserMessage,
    Written,
    dump_entry,
    text_parts,
)
from support.history import History, call, history, read
from support.limits import examples
from support.projections import State
from support.reopening import write_events


def opened(path: Path) -> Session:
    return Session.open(path, index_from=1)


def is_as_read(session: Session, path: Path) -> None:
    """What a session says is what its file says, read from one end to the other."""
    plain = read_log(path)
    assert State.of(session.projection) == State.of(project(plain.entries))
    assert session.entries == plain.entries
    assert session.damage == plain.damage
    assert session.next_index == plain.last_index + 1
    assert session.meta() == describe(plain.header, plain.entries, plain.size, str(plain.damage))


def long() -> History:
    made = history().system("s")
    for turn in range(20):
        made.user(f"prompt {turn}").step("read", "text " * turn, files=[read("a.py")], path="a.py")
        made.assistant("说完了", usage=Usage(input=900, output=20), model="m")
    return made.edit("hide", 3).checkpoint(0).add(NoticeRecord(text="x" * 3_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session file with an index."""
    path = tmp_path / EVENTS
    write_events(path, long().entries)
    opened(path)
    assert path.with_name(INDEX).exists()
    return path


def parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many records are parsed to open this."""
    count = 0
    parse = log.parse_entry

    def counting(record: bytes) -> Entry:
        nonlocal count
        count += 1
        return parse(record)

    monkeypatch.setattr(log, "parse_entry", counting)
    opened(path)
    return count


# --- what it saves -----------------------------------------------------------------------------------


def test_with_an_index_no_record_is_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(path, monkeypatch) == 0


def test_of_a_file_that_grew_only_what_is_new_is_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with path.open("ab") as file:
        file.write(dump_entry(UserMessage(index=500, parts=text_parts("more"))) + b"\n")
    assert parsed(path, monkeypatch) == 1
    is_as_read(opened(path), path)


async def test_what_is_appended_is_in_the_index_from_the_next_snapshot_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(path)
    await session.append(UserMessage(parts=text_parts("one")), UserMessage(parts=text_parts("two")))
    session.save_meta()
    session.close()
    assert parsed(path, monkeypatch) == 0
    assert path.with_name(INDEX).read_bytes().count(b"\n") == 4
    is_as_read(opened(path), path)


async def test_an_index_that_grew_turn_by_turn_is_nearly_as_short_as_one_that_was_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_ENTRIES", 100)
    monkeypatch.setattr(index, "_PARTS", 10)
    listed = 0
    table_of = index.table_of

    def counting(outlines: Sequence[Outline], places: Sequence[log.ByteRange]) -> object:
        nonlocal listed
        listed += len(outlines)
        return table_of(outlines, places)

    monkeypatch.setattr(index, "table_of", counting)
    path = tmp_path / EVENTS
    write_events(path, [])
    session = opened(path)
    for number in range(300):
        await session.append(UserMessage(parts=text_parts(f"{number}")), Checkpoint(id=number))
        session.save_meta()
    session.close()
    parts = path.with_name(INDEX).read_bytes().count(b"\n") // 2
    assert parts <= 6 + 10
    assert listed < 600 * 6, "each entry is written a few times, however long the session is"
    assert parsed(path, monkeypatch) == 0
    is_as_read(opened(path), path)


def test_a_small_session_gets_none(path: Path) -> None:
    path.with_name(INDEX).unlink()
    Session.open(path).save_meta()
    assert not path.with_name(INDEX).exists()


def test_a_file_that_is_not_in_a_session_folder_gets_none(path: Path, tmp_path: Path) -> None:
    passed_on = tmp_path / "passed on" / "session.jsonl"
    passed_on.parent.mkdir()
    shutil.copy(path, passed_on)
    is_as_read(opened(passed_on), passed_on)
    assert [file.name for file in passed_on.parent.iterdir()] == ["session.jsonl"]


def test_only_its_owner_reads_it(path: Path) -> None:
    assert stat.S_IMODE(path.with_name(INDEX).stat().st_mode) == 0o600


# --- when it counts for nothing -----------------------------------------------------------------------


def test_a_file_that_was_written_anew_in_the_same_length_is_read_anew(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"prompt 7", b"pr.mpt 7"))
    os.utime(path, ns=(1, 1))
    is_as_read(opened(path), path)


def test_a_file_whose_end_changed_before_it_grew_is_read_anew(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-40] + b'"damaged' + content[-32:] + content[-32:])
    is_as_read(opened(path), path)


def test_a_file_that_became_shorter_is_read_anew(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]))
    is_as_read(opened(path), path)


def test_the_index_of_another_session_counts_for_nothing(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / EVENTS
    other.parent.mkdir()
    write_events(other, history().user("another").turn("a", "b").entries)
    shutil.copy(path.with_name(INDEX), other.with_name(INDEX))
    is_as_read(opened(other), other)


@pytest.mark.parametrize("name", ["VERSION", "_estimates"])
def test_the_index_of_another_version_is_made_anew(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, name, -1 if name == "VERSION" else lambda: -1)
    assert parsed(path, monkeypatch) == len(long().entries)
    assert parsed(path, monkeypatch) == 0


@pytest.mark.parametrize(
    "rubbish", [b"", b"\n", b"\0" * 400, b"{}\n", b"[]\n", b'["' + b"0" * 32 + b'",{}]\n', b"[" * 9_000]
)
def test_rubbish_in_its_place_is_replaced(path: Path, rubbish: bytes) -> None:
    path.with_name(INDEX).write_bytes(rubbish)
    is_as_read(opened(path), path)
    assert path.with_name(INDEX).read_bytes().startswith(b'["')
    is_as_read(opened(path), path)


@pytest.mark.parametrize("put", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_folder_or_a_device_in_its_place_does_no_harm(path: Path, put: Callable[[Path], None]) -> None:
    path.with_name(INDEX).unlink()
    put(path.with_name(INDEX))
    is_as_read(opened(path), path)


def forged(path: Path, change: Callable[[list[Any]], None]) -> None:
    """The index with other contents, and digests that are right for them: anybody can reckon these."""
    contents = [json.loads(line)[1] for line in path.with_name(INDEX).read_bytes().splitlines()]
    change(contents)
    lines, before = [], index._origin()
    for content in contents:
        body = json.dumps(content).encode()
        before = index._digest(body, before)
        lines.append(b'["%s",%s]\n' % (before, body))
    path.with_name(INDEX).write_bytes(b"".join(lines))


WRONG: list[Any] = [
    None, -2, 10**400, 2**62, 1.5, "x", [], {}, [None], [10**400], [-2], ["x", "y"], [[]], [["x", 1, 2, 3]],
    [1e999],
]  # fmt: skip


def spots(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in an index: keys, and the first value of each list."""
    inner = content.items() if isinstance(content, dict) else enumerate(content[:1])
    for key, value in inner:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from spots(value, (*at, key))


def put(contents: Any, spot: tuple[Any, ...], value: Any) -> None:
    for key in spot[:-1]:
        contents = contents[key]
    contents[spot[-1]] = value


def test_a_poisoned_one_is_no_error_and_holds_nobody_up(path: Path) -> None:
    whole = path.with_name(INDEX).read_bytes()
    contents = [json.loads(line)[1] for line in whole.splitlines()]
    every = [
        (spot, value) for number in (0, 1) for spot in spots(contents[number], (number,)) for value in WRONG
    ]
    for spot, value in Random(7).sample(every, 250):
        path.with_name(INDEX).write_bytes(whole)
        forged(path, partial(put, spot=spot, value=value))
        session = opened(path)
        assert [entry.index for entry in session.entries] == sorted(entry.index for entry in session.entries)
        assert session.projection.view
        assert session.meta().entries >= 0 and session.next_index < 2**63
        session.save_meta()


@pytest.mark.parametrize(
    ("spot", "value"),
    [
        ((0, "offsets", 3), 10**18), ((0, "offsets", 3), 0), ((0, "lengths", 3), 10**18),
        ((0, "lengths", 3), -1),
        ((0, "assistant", "index", 2), 10**6), ((0, "assistant", "tokens", 0), "x"),
        ((0, "user", "type"), ["assistant"]), ((0, "tool_result", "touches"), [[["a", "b", "c", "d"]]]),
        ((0, "assistant", "usage"), [["x", 0, 0, 0]]), ((0, "assistant", "calls"), [[1]]),
        ((0, "assistant", "usage"), [[10**400, 0, 0, 0]]), ((1, "taken"), 10**400), ((1, "damaged"), ["x"]),
        ((1, "lines"), "x"), ((1, "meta", "tokens"), "x"),
    ],
)  # fmt: skip
def test_what_no_session_file_can_say_makes_it_count_for_nothing(path: Path, spot: Any, value: Any) -> None:
    forged(path, partial(put, spot=spot, value=value))
    is_as_read(opened(path), path)


def test_one_that_has_no_end_is_not_read(path: Path) -> None:
    os.truncate(path.with_name(INDEX), 2**40)  # a file with a hole in it
    is_as_read(opened(path), path)


def test_any_flipped_byte_in_it_changes_nothing(path: Path) -> None:
    whole = path.with_name(INDEX).read_bytes()
    for at in range(0, len(whole), len(whole) // 60):
        flipped = bytes([*whole[:at], whole[at] ^ 0x11, *whole[at + 1 :]])
        path.with_name(INDEX).write_bytes(flipped)
        is_as_read(opened(path), path)


async def test_a_line_counts_only_where_it_was_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own digest right: swapped, taken away, there twice, or from an index of other days."""
    monkeypatch.setattr(index, "_ENTRIES", 10)
    path.with_name(INDEX).unlink()
    session = opened(path)
    older = path.with_name(INDEX).read_bytes().splitlines(keepends=True)
    for number in range(3):
        await session.append(UserMessage(parts=text_parts(f"{number}")))
        session.save_meta()
    session.close()
    whole = path.with_name(INDEX).read_bytes().splitlines(keepends=True)
    assert len(whole) > 12
    for at in range(1, len(whole)):
        before, this, behind = whole[:at], whole[at], whole[at + 1 :]
        for mixed in (
            [*before[:-1], this, before[-1], *behind],
            [*before, *behind],
            [*before, this, this, *behind],
            [*before, *older],
            [*before, older[0], *behind],
        ):
            path.with_name(INDEX).write_bytes(b"".join(mixed))
            is_as_read(opened(path), path)


def test_the_index_of_an_earlier_foldline_is_made_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As version 3 wrote it: a chunk a line, with its rows."""
    chunk = {
        "version": 3,
        "estimates": index._estimates(),
        "begin": 0,
        "end": path.stat().st_size,
        "rows": [],
    }
    body = json.dumps(chunk, separators=(",", ":")).encode()
    path.with_name(INDEX).write_bytes(b'["%s",%s]\n' % (index._digest(body), body))
    assert parsed(path, monkeypatch) == len(long().entries)
    assert parsed(path, monkeypatch) == 0


async def test_nothing_is_noted_of_a_file_that_somebody_else_wrote_to(path: Path) -> None:
    session = opened(path)
    await session.append(UserMessage(parts=text_parts("ours")))
    with path.open("ab") as file:
        file.write(dump_entry(UserMessage(index=500, parts=text_parts("theirs"))) + b"\n")
    session.save_meta()
    session.close()
    is_as_read(opened(path), path)


# --- all of it, at random ------------------------------------------------------------------------------


texts = st.sampled_from(["", "ok", "改一改 🚀", "E   assert 200 == 503\n" * 30, "\x00\u2028 odd"])


class Sessions(RuleBasedStateMachine):
    """Sessions that go on, are closed and opened again, while their index and their file are mistreated."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path, self.index = self.folder / EVENTS, self.folder / INDEX
        self.loop = asyncio.new_event_loop()
        write_events(self.path, [])
        self.session = opened(self.path)
        self.older = b""
        # So small that parts are made into one all the time.
        self.sizes = index._ENTRIES, index._PARTS
        index._ENTRIES, index._PARTS = 7, 3

    def teardown(self) -> None:
        self.open_again()
        self.session.close()
        self.loop.close()
        index._ENTRIES, index._PARTS = self.sizes
        shutil.rmtree(self.folder)

    def append(self, *entries: Entry) -> None:
        self.loop.run_until_complete(self.session.append(*entries))

    @property
    def last(self) -> int:
        return self.session.projection.last_index

    @rule(text=texts)
    def turn(self, text: str) -> None:
        calls = tuple(call("read", f"c{self.last}-{nth}", path=text) for nth in range(len(text) % 3))
        usage = Usage(input=50, cached=20, output=9)
        answer = AssistantMessage(parts=(*text_parts(text), *calls), model="m", usage=usage)
        results = (ToolResultMessage(call_id=each.call_id, parts=text_parts(text)) for each in calls)
        request = RequestRecord(digest="", model="m", estimated=40, usage=usage)
        self.append(UserMessage(parts=text_parts(text)), answer, request, *results)

    @rule(kind=st.sampled_from(["checkpoint", "title", "notice", "unknown", "clear", "system"]), text=texts)
    def mark(self, kind: str, text: str) -> None:
        made: dict[str, Entry] = {
            "checkpoint": Checkpoint(id=self.session.projection.next_checkpoint_id, shown=bool(text)),
            "title": Title(title=text),
            "notice": NoticeRecord(text=text),
            "unknown": Unknown.model_validate({"type": "hologram", "text": text}),
            "clear": Clear(),
            "system": SystemMessage(parts=text_parts(text)),
        }
        self.append(made[kind])

    @rule(back=st.integers(1, 9), action=st.sampled_from(["pin", "hide", "drop", "restore"]))
    def edit(self, back: int, action: str) -> None:
        self.append(Edit.model_validate({"target": max(0, self.last - back), "action": action}))

    @rule(back=st.integers(0, 30), undone=st.booleans())
    def go_back(self, back: int, undone: bool) -> None:
        self.append(Undo(target=max(0, self.last - back)) if undone else Revert(checkpoint=back % 4))

    @rule(keep=st.integers(0, 8), text=texts)
    def fold(self, keep: int, text: str) -> None:
        message = SystemMessage(origin="summary", parts=text_parts(text * 20))
        cut = max(0, self.last - keep)
        head = (Written(message=message, covers=((0, cut - 1),)),)
        self.append(Compaction(summary=text, first_kept_index=cut, head=head))

    @rule()
    def save(self) -> None:
        self.session.save_meta()

    @rule(share=st.floats(0, 1))
    def save_on_a_full_disk(self, share: float) -> None:
        write = index.Index._write

        def half(of: index.Index, lines: Sequence[bytes], after: int) -> int:
            whole = b"".join(lines)
            write(of, [whole[: int(share * len(whole))]], after)
            raise OSError(errno.ENOSPC, "no space left")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index.Index, "_write", half)
            self.session.save_meta()

    @rule()
    def open_again(self) -> None:
        self.session.save_meta()
        self.session.close()
        self.session = opened(self.path)
        is_as_read(self.session, self.path)

    @rule(
        rubbish=st.sampled_from([b"\0\0", b'{"type":"user","index":7', b"\n\n", b"not JSON\n", b"{}\n\0\0\n"])
    )
    def somebody_damages_the_file(self, rubbish: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(rubbish)
        self.open_again()

    @rule(
        share=st.floats(0, 1),
        how=st.sampled_from(["cut", "flip", "delete", "older", "twice", "mixed", "rubbish"]),
    )
    def somebody_damages_the_index(self, share: float, how: str) -> None:
        now = self.index.read_bytes() if self.index.exists() else b""
        at = int(share * max(0, len(now) - 1))
        match how:
            case "cut":
                self.index.write_bytes(now[:at])
            case "flip":
                self.index.write_bytes(now[:at] + b"?" + now[at + 1 :])
            case "delete":
                self.index.unlink(missing_ok=True)
            case "older":
                self.index.write_bytes(self.older)
            case "twice":
                self.index.write_bytes(now + now)
            case "mixed":
                mixed = [*now.splitlines(keepends=True), *self.older.splitlines(keepends=True)]
                Random(share).shuffle(mixed)
                self.index.write_bytes(b"".join(mixed))
            case _:
                self.index.write_bytes(now + b'["rubbish"]\n')
        self.older = now


Sessions.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
TestEverySession = Sessions.TestCase
