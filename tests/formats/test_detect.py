"""What can be read, and how the rest is refused."""

import asyncio
import os
from pathlib import Path

import pytest

from foldline.formats import read_foreign
from foldline.history import Session
from foldline.protocol import FoldlineError, UserMessage, text_parts
from support.recorded import SHARED, needs_recorded, recorded

NAMES = {
    "claude-code": "Claude Code session",
    "codex": "Codex session",
    "gemini-cli": "Gemini CLI session",
    "kimi": "kimi-cli (context|wire) file",
    "mini-swe-agent": "mini-swe-agent trajectory",
    "opencode": "opencode session",
    "openhands": "OpenHands (output|conversation)",
    "swe-agent": "SWE-agent trajectory",
    "tau-bench": "tau-bench output",
}
CASES = [(path, name) for folder, name in NAMES.items() for path in recorded(folder)]


@needs_recorded
@pytest.mark.parametrize(("path", "name"), CASES, ids=lambda value: getattr(value, "name", None))
def test_a_session_without_a_reader_is_named_and_refused(path: Path, name: str) -> None:
    with pytest.raises(FoldlineError, match=rf"seems to be an? {name}|seems to be {name}") as refusal:
        read_foreign(path)
    assert_one_sentence(refusal.value)


@needs_recorded
def test_every_folder_of_the_recorded_sessions_is_refused() -> None:
    for folder in [SHARED, *(path for path in SHARED.rglob("*") if path.is_dir())]:
        with pytest.raises(FoldlineError, match=r"is a folder without events\.jsonl"):
            read_foreign(folder)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (bytes(4096), "is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "is a binary file"),
        (b"\xff\xd8\xff\xe0 caf\xe9", "is a binary file"),
        (b"# Notes\n\nSome text.\n", "is text, not a session"),
        (b'{"messages": [', "cut off or damaged"),
        (b"[" * 100_000, "cut off or damaged"),
        (b'{"a": 1}', "no session format known here"),
        (b'{"a": 1}\n{"b": 2}\n', "no session format known here"),
        (b"[]", "no session format known here"),
        (b'[{"role": "user", "content": "hi"}]', "an OpenAI chat"),
        (b'{"role": "user", "content": "hi"}\n{"role": "assistant", "content": "yo"}\n', "an OpenAI chat"),
        (b'{"type":"UserMessage","data":{"role":"user"}}\n', "a klaude-code session"),
        (b'{"role":"user","content":"hi","message_id":"1"}\n', "a mistral-vibe session"),
        (b'{"type":"session","version":9,"id":"x"}\n', "no session format known here"),
    ],
)
def test_other_content_is_refused_in_one_sentence(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FoldlineError, match=what) as refusal:
        read_foreign(path)
    assert_one_sentence(refusal.value)
    assert path.read_bytes() == content


def test_things_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FoldlineError, match="There is no file"):
        read_foreign(tmp_path / "nothing.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FoldlineError, match="not a regular file"):
        read_foreign(tmp_path / "pipe")


def test_our_own_sessions_are_read_from_folder_and_file(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    asyncio.run(session.append(UserMessage(parts=text_parts("hi"))))
    assert session.path is not None
    for path in (session.path, session.path.parent):
        found = read_foreign(path)
        assert (found.format, found.header, found.entries) == ("foldline", session.header, session.entries)


def test_a_format_can_be_named_and_must_exist_and_fit(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    asyncio.run(session.append(UserMessage(parts=text_parts("hi"))))
    assert session.path is not None
    assert read_foreign(session.path, "foldline").format == "foldline"
    with pytest.raises(FoldlineError, match="There is no format 'word'"):
        read_foreign(session.path, "word")
    with pytest.raises(FoldlineError, match="no session header of pi"):
        read_foreign(session.path, "pi")


def assert_one_sentence(error: FoldlineError) -> None:
    sentence = str(error)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "Foldline reads" in sentence
