"""Another agent's session that grows while it is read: what a fresh reading gives is what is shown."""

import json
from pathlib import Path

import pytest

from foldline.formats import read_foreign, reader
from foldline.formats.reader import STILL_SHOWN, TOO_LARGE, Rereader
from foldline.history import Session
from foldline.history.follower import NoLongerFollowed
from foldline.protocol import AssistantMessage
from support.claude_code_rows import Record, piece, text, user
from support.recordings import SHARED, needs_recorded
from support.sentences import pattern


class Written:
    """A file of Claude Code's, as far as it was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: str | None = None

    def add(self, *records: Record) -> None:
        with self.path.open("a") as file:
            for record in records:
                name = f"u{self.path.stat().st_size}-{id(record)}"
                row = {
                    "uuid": name,
                    "parentUuid": self._last,
                    "sessionId": "s-1",
                    "cwd": "/x",
                    **record,
                }
                file.write(
                    json.dumps({"timestamp": "2026-01-02T03:04:05.678Z", **row}) + "\n"
                )
                self._last = name


@pytest.fixture
def file(tmp_path: Path) -> Written:
    written = Written(tmp_path / "session.jsonl")
    written.add(user("hi"), piece("a1", text("hello")))
    return written


def reading(file: Written) -> Rereader:
    found = read_foreign(file.path)
    return Rereader(
        file.path, found.format, Session.from_entries(found.header, found.entries)
    )


def test_new_entries_are_taken_in_and_the_projection_stays(file: Written) -> None:
    rereader = reading(file)
    projection = rereader.session.projection
    assert rereader.take(rereader.look()) == []
    file.add(user("and now?"), piece("a2", text("well")))
    fresh = rereader.take(rereader.look())
    assert len(fresh) == 2
    assert rereader.session.projection is projection
    assert list(rereader.session.entries) == list(read_foreign(file.path).entries)


def test_an_answer_that_grew_is_read_anew(file: Written) -> None:
    rereader = reading(file)
    before = rereader.session
    file.add(piece("a1", text("world")))
    [answer] = rereader.take(rereader.look())
    assert isinstance(answer, AssistantMessage) and "world" in answer.text
    assert rereader.session is not before
    assert list(rereader.session.entries) == list(read_foreign(file.path).entries)


def test_an_unchanged_file_is_not_read(
    file: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    rereader = reading(file)
    monkeypatch.setattr(reader, "read_foreign", lambda *_: pytest.fail("it was read"))
    assert rereader.look().session is None


def test_a_file_too_large_to_be_read_again_and_again_is_said(
    file: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    rereader = reading(file)
    monkeypatch.setattr(reader, "LIMIT", 10)
    assert rereader.look().session is None, "it is as it was"
    file.add(user("more"))
    with pytest.raises(NoLongerFollowed, match=pattern(TOO_LARGE)):
        rereader.look()


def test_a_file_that_is_no_session_any_more_is_said(file: Written) -> None:
    rereader = reading(file)
    file.path.write_text("something else\n")
    with pytest.raises(
        NoLongerFollowed, match=f"has no Claude Code records: .* {STILL_SHOWN}"
    ):
        rereader.look()
    file.path.unlink()
    with pytest.raises(NoLongerFollowed, match="moved or deleted"):
        rereader.look()


@needs_recorded
def test_a_recorded_session_that_grows_line_by_line_comes_to_itself(
    tmp_path: Path,
) -> None:
    found = sorted(
        (SHARED / "claude-code").rglob("*.jsonl"), key=lambda path: path.stat().st_size
    )
    lines = (
        next(path for path in found if path.stat().st_size > 100_000)
        .read_bytes()
        .splitlines(True)
    )
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(lines[:-12]))
    rereader = reading(Written(path))
    for line in lines[-12:]:
        with path.open("ab") as file:
            file.write(line)
        rereader.take(rereader.look())
    assert list(rereader.session.entries) == list(read_foreign(path).entries)
