"""The outline cache saves time and changes no result, even if it is damaged."""

import asyncio
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from foldline.history import EVENTS, Session, log, outline_cache, read_log
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
from foldline.view.projection import project
from support.history import History, call, history, read
from support.limits import examples
from support.projections import State
from support.reopened_sessions import write_events


def open_session(path: Path) -> Session:
    return Session.open(path, cache_from=1)


def assert_equals_log(session: Session, path: Path) -> None:
    """Assert that a session equals its log, read from beginning to end."""
    plain = read_log(path)
    assert State.of(session.projection) == State.of(project(plain.entries))
    assert session.entries == plain.entries
    assert session.damage == plain.damage
    assert session.next_index == plain.last_index + 1
    meta = describe(plain.header, plain.entries, plain.size)
    assert session.meta() == meta.model_copy(update={"note": str(plain.damage)})


def long_session() -> History:
    made = history().system("s")
    for turn in range(20):
        made.user(f"prompt {turn}").step(
            "read", "text " * turn, files=[read("a.py")], path="a.py"
        )
        made.assistant("说完了", usage=Usage(input=900, output=20), model="m")
    return made.edit("hide", 3).checkpoint(0).add(NoticeRecord(text="x" * 3_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a session file with a cache."""
    path = tmp_path / EVENTS
    write_events(path, long_session().entries)
    open_session(path)
    assert path.with_name(INDEX).exists()
    return path


def count_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of records that an opening parses."""
    count = 0
    parse = log.entry_in

    def counting(record: bytes) -> Entry | None:
        nonlocal count
        count += 1
        return parse(record)

    monkeypatch.setattr(log, "entry_in", counting)
    open_session(path)
    return count


# --- saving time ---------------------------------------------------------------------------------------


def test_with_a_cache_no_record_is_parsed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_parsed(path, monkeypatch) == 0


def test_after_the_log_grew_only_new_records_are_parsed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with path.open("ab") as file:
        file.write(dump_entry(UserMessage(index=500, parts=text_parts("more"))) + b"\n")
    assert count_parsed(path, monkeypatch) == 1
    assert_equals_log(open_session(path), path)


async def test_the_next_snapshot_caches_appended_entries(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(path)
    await session.append(
        UserMessage(parts=text_parts("one")), UserMessage(parts=text_parts("two"))
    )
    session.save_meta()
    session.close()
    assert count_parsed(path, monkeypatch) == 0
    assert_equals_log(open_session(path), path)


async def test_the_cache_is_written_once_per_hundredth_of_the_log(
    tmp_path: Path,
) -> None:
    path = tmp_path / EVENTS
    write_events(path, long_session().entries)
    session = open_session(path)
    writes = 0
    for number in range(300):
        before = path.with_name(INDEX).stat().st_ino
        await session.append(UserMessage(parts=text_parts(f"{number}")))
        session.save_meta()
        writes += path.with_name(INDEX).stat().st_ino != before
    session.close()
    assert 50 < writes < 200
    assert_equals_log(open_session(path), path)


def test_a_long_history_is_cached_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline_cache, "_PART_ENTRIES", 10)
    path = tmp_path / EVENTS
    write_events(path, long_session().entries)
    open_session(path)
    assert path.with_name(INDEX).read_bytes().count(b"\n") == 1 + -(
        -len(long_session().entries) // 10
    )
    assert count_parsed(path, monkeypatch) == 0
    assert_equals_log(open_session(path), path)


def test_a_log_with_a_torn_last_line_is_cached_up_to_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process leaves such a line. Only the next opening may parse the whole log."""
    path.with_name(INDEX).unlink()
    with path.open("ab") as file:
        file.write(b'{"type":"user","index":700')
    assert_equals_log(open_session(path), path)
    assert count_parsed(path, monkeypatch) == 1
    assert_equals_log(open_session(path), path)


def test_an_opening_that_had_to_parse_much_writes_the_cache_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that appended was killed before it saved."""
    with path.open("ab") as file:
        for number in range(500, 600):
            file.write(
                dump_entry(UserMessage(index=number, parts=text_parts("more"))) + b"\n"
            )
    assert count_parsed(path, monkeypatch) == 100
    assert count_parsed(path, monkeypatch) == 0
    assert_equals_log(open_session(path), path)


def test_a_small_session_gets_no_cache(path: Path) -> None:
    path.with_name(INDEX).unlink()
    Session.open(path).save_meta()
    assert not path.with_name(INDEX).exists()


def test_a_file_outside_a_session_folder_gets_no_cache(
    path: Path, tmp_path: Path
) -> None:
    passed_on = tmp_path / "passed on" / "session.jsonl"
    passed_on.parent.mkdir()
    shutil.copy(path, passed_on)
    assert_equals_log(open_session(passed_on), passed_on)
    assert [file.name for file in passed_on.parent.iterdir()] == ["session.jsonl"]


def test_only_the_owner_may_read_the_cache(path: Path) -> None:
    assert stat.S_IMODE(path.with_name(INDEX).stat().st_mode) == 0o600


# --- invalid caches ------------------------------------------------------------------------------------


def test_a_log_rewritten_in_the_same_length_is_parsed_again(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"prompt 7", b"pr.mpt 7"))
    os.utime(path, ns=(1, 1))
    assert_equals_log(open_session(path), path)


def test_a_log_whose_beginning_changed_before_it_grew_is_parsed_again(
    path: Path,
) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"prompt 0", b"pr.mpt 0") + content[-32:])
    assert_equals_log(open_session(path), path)


def test_a_log_whose_end_changed_before_it_grew_is_parsed_again(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-40] + b'"damaged' + content[-32:] + content[-32:])
    assert_equals_log(open_session(path), path)


def test_a_truncated_log_is_parsed_again(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]))
    assert_equals_log(open_session(path), path)


def test_the_cache_of_another_session_is_ignored(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / EVENTS
    other.parent.mkdir()
    write_events(other, history().user("another").turn("a", "b").entries)
    shutil.copy(path.with_name(INDEX), other.with_name(INDEX))
    assert_equals_log(open_session(other), other)


@pytest.mark.parametrize(
    ("name", "value"), [("VERSION", -1), ("estimate_tokens", lambda text: -1)]
)
def test_the_cache_of_another_version_is_replaced(
    path: Path, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline_cache, name, value)
    assert count_parsed(path, monkeypatch) == len(long_session().entries)
    assert count_parsed(path, monkeypatch) == 0


@pytest.mark.parametrize(
    "rubbish",
    [
        b"",
        b"\n",
        b"\0" * 400,
        b"{}\n",
        b"[]\n",
        b'["' + b"0" * 32 + b'",{}]\n',
        b"[" * 9_000,
    ],
)
def test_rubbish_in_place_of_the_cache_is_replaced(path: Path, rubbish: bytes) -> None:
    path.with_name(INDEX).write_bytes(rubbish)
    assert_equals_log(open_session(path), path)
    assert path.with_name(INDEX).read_bytes().startswith(b'{"progress"')
    assert_equals_log(open_session(path), path)


@pytest.mark.parametrize(
    "put", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")]
)
def test_a_folder_or_device_in_place_of_the_cache_does_no_harm(
    path: Path, put: Callable[[Path], None]
) -> None:
    path.with_name(INDEX).unlink()
    put(path.with_name(INDEX))
    assert_equals_log(open_session(path), path)


def test_a_huge_cache_is_not_read(path: Path) -> None:
    os.truncate(path.with_name(INDEX), 2**40)  # a file with a hole in it
    assert_equals_log(open_session(path), path)


def test_a_flipped_byte_in_the_cache_changes_no_result(path: Path) -> None:
    whole = path.with_name(INDEX).read_bytes()
    for at in range(0, len(whole), len(whole) // 60):
        flipped = bytes([*whole[:at], whole[at] ^ 0x11, *whole[at + 1 :]])
        path.with_name(INDEX).write_bytes(flipped)
        assert_equals_log(open_session(path), path)


@pytest.mark.parametrize(
    "lines", [slice(1, None), slice(0, -1), slice(0, 2), slice(None, None, -1)]
)
def test_a_cache_that_lacks_a_line_is_ignored(
    path: Path, lines: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline_cache, "_PART_ENTRIES", 10)
    path.with_name(INDEX).unlink()
    open_session(path)
    whole = path.with_name(INDEX).read_bytes().splitlines(keepends=True)
    path.with_name(INDEX).write_bytes(b"".join(whole[lines]))
    assert count_parsed(path, monkeypatch) == len(long_session().entries)
    assert_equals_log(open_session(path), path)


def test_the_index_of_an_earlier_foldline_is_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As version 8 wrote it: columns and seals, each line with a digest of all lines before it."""
    path.with_name(INDEX).write_bytes(
        b'["b1331b00e6618b057cd03b7d95449d8e",{"kinds":["system","user"]}]\n'
    )
    assert count_parsed(path, monkeypatch) == len(long_session().entries)
    assert count_parsed(path, monkeypatch) == 0


def test_saves_at_the_same_time_never_tear_the_cache(path: Path) -> None:
    def save_often(session: Session) -> None:
        for _ in range(30):
            assert session._cache is not None
            session._cache._log_size = 0
            session.save_meta()

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(save_often, open_session(path)) for _ in range(3)]
        while not all(writer.done() for writer in writers):
            assert len(
                outline_cache._read_cache(path.with_name(INDEX), 2**20).outlines
            ) == len(long_session().entries)
    assert [writer.exception() for writer in writers] == [None] * 3
    assert_equals_log(open_session(path), path)


async def test_a_log_that_another_process_wrote_to_is_not_cached(path: Path) -> None:
    session = open_session(path)
    await session.append(UserMessage(parts=text_parts("ours")))
    with path.open("ab") as file:
        file.write(
            dump_entry(UserMessage(index=500, parts=text_parts("theirs"))) + b"\n"
        )
    session.save_meta()
    session.close()
    assert_equals_log(open_session(path), path)


# --- random sessions -----------------------------------------------------------------------------------


texts = st.sampled_from(
    ["", "ok", "改一改 🚀", "E   assert 200 == 503\n" * 30, "\x00\u2028 odd"]
)


class Sessions(RuleBasedStateMachine):
    """Sessions that are appended to, closed and opened again, while their cache and log are damaged."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path, self.cache = self.folder / EVENTS, self.folder / INDEX
        self.loop = asyncio.new_event_loop()
        write_events(self.path, [])
        self.session = open_session(self.path)
        self.older = b""
        self.part_entries = outline_cache._PART_ENTRIES
        outline_cache._PART_ENTRIES = 7

    def teardown(self) -> None:
        self.open_again()
        self.session.close()
        self.loop.close()
        outline_cache._PART_ENTRIES = self.part_entries
        shutil.rmtree(self.folder)

    def append(self, *entries: Entry) -> None:
        self.loop.run_until_complete(self.session.append(*entries))

    @property
    def last(self) -> int:
        return self.session.projection.last_index

    @rule(text=texts)
    def turn(self, text: str) -> None:
        calls = tuple(
            call("read", f"c{self.last}-{nth}", path=text)
            for nth in range(len(text) % 3)
        )
        usage = Usage(input=50, cached=20, output=9)
        answer = AssistantMessage(
            parts=(*text_parts(text), *calls), model="m", usage=usage
        )
        results = (
            ToolResultMessage(call_id=each.call_id, parts=text_parts(text))
            for each in calls
        )
        request = RequestRecord(digest="", model="m", estimated=40, usage=usage)
        self.append(UserMessage(parts=text_parts(text)), answer, request, *results)

    @rule(
        kind=st.sampled_from(
            ["checkpoint", "title", "notice", "unknown", "clear", "system"]
        ),
        text=texts,
    )
    def mark(self, kind: str, text: str) -> None:
        made: dict[str, Entry] = {
            "checkpoint": Checkpoint(
                id=self.session.projection.next_checkpoint_id, shown=bool(text)
            ),
            "title": Title(title=text),
            "notice": NoticeRecord(text=text),
            "unknown": Unknown.model_validate({"type": "hologram", "text": text}),
            "clear": Clear(),
            "system": SystemMessage(parts=text_parts(text)),
        }
        self.append(made[kind])

    @rule(
        back=st.integers(1, 9),
        action=st.sampled_from(["pin", "hide", "drop", "restore"]),
    )
    def edit(self, back: int, action: str) -> None:
        self.append(
            Edit.model_validate({"target": max(0, self.last - back), "action": action})
        )

    @rule(back=st.integers(0, 30), undone=st.booleans())
    def go_back(self, back: int, undone: bool) -> None:
        self.append(
            Undo(target=max(0, self.last - back))
            if undone
            else Revert(checkpoint=back % 4)
        )

    @rule(keep=st.integers(0, 8), text=texts)
    def compact(self, keep: int, text: str) -> None:
        message = SystemMessage(origin="summary", parts=text_parts(text * 20))
        cut = max(0, self.last - keep)
        head = (Written(message=message, covers=((0, cut - 1),)),)
        self.append(Compaction(summary=text, first_kept_index=cut, head=head))

    @rule()
    def save(self) -> None:
        self.session.save_meta()

    @rule()
    def save_on_a_full_disk(self) -> None:
        def refuse(path: Path, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "no space left")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(outline_cache, "put_private", refuse)
            self.session.save_meta()

    @rule()
    def open_again(self) -> None:
        self.session.save_meta()
        self.session.close()
        self.session = open_session(self.path)
        assert_equals_log(self.session, self.path)

    @rule(
        rubbish=st.sampled_from(
            [
                b"\0\0",
                b'{"type":"user","index":7',
                b"\n\n",
                b"not JSON\n",
                b"{}\n\0\0\n",
            ]
        )
    )
    def damage_the_file(self, rubbish: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(rubbish)
        self.open_again()

    @rule(
        share=st.floats(0, 1),
        how=st.sampled_from(
            ["cut", "flip", "delete", "older", "twice", "mixed", "rubbish"]
        ),
    )
    def damage_the_cache(self, share: float, how: str) -> None:
        now = self.cache.read_bytes() if self.cache.exists() else b""
        at = int(share * max(0, len(now) - 1))
        match how:
            case "cut":
                self.cache.write_bytes(now[:at])
            case "flip":
                self.cache.write_bytes(now[:at] + b"?" + now[at + 1 :])
            case "delete":
                self.cache.unlink(missing_ok=True)
            case "older":
                self.cache.write_bytes(self.older)
            case "twice":
                self.cache.write_bytes(now + now)
            case "mixed":
                mixed = [
                    *now.splitlines(keepends=True),
                    *self.older.splitlines(keepends=True),
                ]
                Random(share).shuffle(mixed)
                self.cache.write_bytes(b"".join(mixed))
            case _:
                self.cache.write_bytes(now + b'["rubbish"]\n')
        self.older = now


Sessions.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
TestEverySession = Sessions.TestCase
