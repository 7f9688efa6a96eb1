"""What disks, crashes and other programs do to the file of a session: nothing complete is lost."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from foldline.history import EVENTS, Session, parse_log, read_log
from foldline.protocol import FoldlineError, Title, UserMessage, dump_entry, text_parts
from support.damaged import everything_in, kept_session, story, view_of
from support.history import history

WIDE = "aé你🙂\u2028e\u0301"
"""Characters of one to four bytes, one that some programs take for a line end, and one of two code points."""


def test_cut_at_every_byte_also_within_a_character_every_record_before_is_there(tmp_path: Path) -> None:
    built = history().user(WIDE).assistant(WIDE * 3).user(WIDE)
    data = kept_session(tmp_path, built).read_bytes()
    ends = [len(data) - len(data.split(b"\n", n)[-1]) for n in range(1, 5)]
    for size in range(ends[0], len(data) + 1):
        for tail in (b"", b"\0" * 3, b"\0" * 4096):
            loaded = parse_log(data[:size] + tail, tmp_path)
            whole = sum(end - 1 <= size for end in ends[1:])
            assert list(loaded.entries) == built.entries[:whole], size


def test_an_append_after_any_tail_is_read_back_with_all_that_was_before(tmp_path: Path) -> None:
    for number, tail in enumerate(
        [b"{", b"\0", b"\0" * 5000, "好".encode()[:2], b'{"type":"user","index":90', b"\r"]
    ):
        events = kept_session(tmp_path / str(number))
        with events.open("ab") as file:
            file.write(tail)
        session = Session.open(events)
        [stored] = asyncio.run(session.append(UserMessage(parts=text_parts("after"))))
        session.close()
        again = Session.open(events)
        assert list(again.entries) == [*story().entries, stored], tail
        assert view_of(again) == view_of(session)


async def test_types_and_fields_of_a_later_version_go_along_with_forks_and_copies(tmp_path: Path) -> None:
    events = kept_session(tmp_path)
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


@pytest.mark.parametrize("junk", [b"", b"\xff\xfe\x00", b"null", b"[" * 9000, b'{"index":1e400}', b"\0" * 70])
def test_a_damaged_record_in_the_middle_costs_itself_and_the_next_open_says_the_same(
    tmp_path: Path, junk: bytes
) -> None:
    events = kept_session(tmp_path)
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


# --- files of others ----------------------------------------------------------------------------------


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
def test_a_file_without_our_header_is_refused_and_stays_byte_for_byte(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / EVENTS
    file.write_bytes(content)
    with pytest.raises(FoldlineError, match="left as it is"):
        Session.open(file)
    with pytest.raises(FoldlineError, match="left as it is"):
        Session.open(tmp_path)
    assert everything_in(tmp_path) == {EVENTS: content}


def test_a_session_begun_where_a_file_lies_already_does_not_overwrite_it(tmp_path: Path) -> None:
    events = kept_session(tmp_path)
    content = b"notes to myself\n" * 100
    events.write_bytes(content)
    session = Session.create("/work/shop", home=tmp_path, session_id=events.parent.name)
    with pytest.raises(FoldlineError):
        asyncio.run(session.append(UserMessage(parts=text_parts("mine"))))
    session.close()
    assert events.read_bytes() == content
    assert list(session.entries) == []


# --- media that take nothing ------------------------------------------------------------------------------


def test_reading_needs_nothing_that_can_be_written(tmp_path: Path) -> None:
    events = kept_session(tmp_path)
    data = events.read_bytes()
    shutil.copy(events, tmp_path / "loose.jsonl")
    for path in (events, events.parent, tmp_path / "loose.jsonl"):
        assert list(Session.open(path).entries) == list(read_log(events).entries)
    assert events.read_bytes() == data
    assert [path.name for path in events.parent.iterdir()] == [EVENTS]
