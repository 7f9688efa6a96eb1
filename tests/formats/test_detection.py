"""What can be read, and how the rest is refused."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest

from foldline.cli.commands import parse
from foldline.formats import FORMATS, Format, read_foreign
from foldline.formats.detection import (
    DAMAGED,
    FOREIGN,
    NO_KNOWN_FORMAT,
    UnreadableFile,
    detect,
)
from foldline.formats.transcript import ORPHANS
from foldline.history import Session
from foldline.protocol import FoldlineError, UserMessage, text_parts
from support.foreign import view_texts
from support.recordings import SHARED, needs_recorded, recordings

READ = {
    "claude-code": "claude-code",
    "codex": "codex",
    "gemini-cli": "gemini-cli",
    "kimi": "kimi-cli",
    "mini-swe-agent": "openai",
    "opencode": "opencode",
    "other-agents/copilot": "copilot",
    "other-agents/gemini": "gemini-cli",
    "pi": "pi",
    "qwen-code": "qwen-code",
}
"""The folders of the recorded sessions that are read, and as what."""
REFUSED = {
    "openhands": "(OpenHands output|an OpenHands conversation)",
    "swe-agent": "a SWE-agent trajectory",
    "tau-bench": "tau-bench output",
    "other-agents/cursor": "a Cursor session, .*`cursor-agent` cannot export",
    "other-agents/droid": "a Droid session, .*Droid has no export command",
    "other-agents/grok": "a Grok session, .*`grok export ID FILE`",
    "other-agents/antigravity": "an Antigravity session, .*Antigravity has no export command",
}


def cases(folders: dict[str, str]) -> list[tuple[Path, str]]:
    return [
        (path, name) for folder, name in folders.items() for path in recordings(folder)
    ]


@needs_recorded
@pytest.mark.parametrize(
    ("path", "name"), cases(REFUSED), ids=lambda value: getattr(value, "name", None)
)
def test_a_session_without_a_reader_is_named_and_refused(path: Path, name: str) -> None:
    if path.suffix == ".md":
        pytest.skip("a note beside sessions")
    with pytest.raises(FoldlineError, match=f"seems to be {name}") as refusal:
        read_foreign(path)
    assert "which cannot be read yet. " in str(refusal.value)
    assert_one_sentence(refusal.value)


@needs_recorded
@pytest.mark.parametrize(
    ("path", "name"), cases(READ), ids=lambda value: getattr(value, "name", None)
)
def test_a_session_is_read_as_what_it_is(path: Path, name: str) -> None:
    assert detect(path.read_bytes()) == name


@needs_recorded
@pytest.mark.parametrize(
    ("path", "name"), cases(READ), ids=lambda value: getattr(value, "name", None)
)
def test_a_file_without_its_last_lines_is_still_what_it_is(
    path: Path, name: str
) -> None:
    data = path.read_bytes()
    cut = (
        data[: max(len(data) // 2, data.index(b"\n") + 1)]
        if data.count(b"\n") > 20
        else data
    )
    found = detect(cut)
    assert found == name or (
        path.suffix == ".json" and isinstance(found, UnreadableFile)
    )


def test_every_format_has_a_title_and_a_reader_that_refuses_what_it_cannot_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text('{"a": 1}\n{"b": 2}\n')
    for known in FOREIGN:
        assert known.title
        with pytest.raises(FoldlineError) as refusal:
            read_foreign(path, known.name)
        assert str(refusal.value).startswith(str(path))
        assert str(refusal.value).endswith(".")
    assert get_args(Format) == FORMATS


def test_the_help_lists_every_format(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        parse(["view", "--help"])
    assert (
        f"read FILE as this format: {', '.join(FORMATS)}\n" in capsys.readouterr().out
    )


def test_our_own_sessions_are_read_without_any_foreign_reader(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    asyncio.run(session.append(UserMessage(parts=text_parts("hi"))))
    readers = [f"foldline.formats.readers.{known.folder}.reader" for known in FOREIGN]
    check = (
        "import sys; from foldline.formats import read_foreign; read_foreign(sys.argv[1]);"
        f"print([name for name in {readers} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", check, str(session.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout == "[]\n"


@needs_recorded
def test_of_the_recorded_folders_only_those_that_are_a_session_are_read() -> None:
    for folder in [SHARED, *(path for path in SHARED.rglob("*") if path.is_dir())]:
        if (folder / "context.jsonl").exists():
            assert read_foreign(folder).format == "kimi-cli"
            continue
        with pytest.raises(
            FoldlineError,
            match=r"has no events\.jsonl, context\.jsonl, opencode\.db or CURRENT",
        ):
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
        (b'{"messages": [', DAMAGED),
        (b"[" * 100_000, DAMAGED),
        (b'{"a": 1}', NO_KNOWN_FORMAT),
        (b'{"a": 1}\n{"b": 2}\n', NO_KNOWN_FORMAT),
        (b"[]", NO_KNOWN_FORMAT),
        (
            b'[\n  {"role": "user", "content": "hi"},\n  {"role": "assistant", "con\n]',
            DAMAGED,
        ),
        (
            b'{"messages": [\n  {"role": "user",\n   "content": "hi"},\n  {"role": "user"',
            DAMAGED,
        ),
        (
            b'{"role":"user","content":"hi","message_id":"1"}\n',
            "a mistral-vibe 2 session",
        ),
        (b'{"type":"session","version":9,"id":"x"}\n', NO_KNOWN_FORMAT),
    ],
)
def test_other_content_is_refused_in_one_sentence(
    tmp_path: Path, content: bytes, what: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FoldlineError, match=what) as refusal:
        read_foreign(path)
    assert_one_sentence(refusal.value)
    assert "Foldline reads" in str(refusal.value)
    assert path.read_bytes() == content


def test_things_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FoldlineError, match="There is no file"):
        read_foreign(tmp_path / "nothing.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FoldlineError, match="not a regular file"):
        read_foreign(tmp_path / "pipe")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('[{"role": "user", "content": "Grüße 🎈"}]', "openai"),
        (
            '{"role": "user", "content": "Grüße 🎈"}\r\n{"role": "assistant", "content": "hi"}\r\n',
            "openai",
        ),
        (
            '{"info": {}, "messages": [{"info": {"role": "user"}, "parts": [{"type": "text", "text": '
            '"Grüße 🎈"}]}]}',
            "opencode",
        ),
    ],
)
def test_a_text_file_may_be_in_any_unicode_encoding(
    tmp_path: Path, encoding: str, content: str, name: str
) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(content.encode(encoding))
    session = read_foreign(path)
    assert (session.format, view_texts(session)[0]) == (name, "Grüße 🎈")
    path.write_bytes(path.read_bytes()[:-1])  # half a sign at the end
    if name == "openai":
        with suppress(FoldlineError):
            read_foreign(path)


def test_our_own_sessions_are_read_from_folder_and_file(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    asyncio.run(session.append(UserMessage(parts=text_parts("hi"))))
    assert session.path is not None
    for path in (session.path, session.path.parent):
        found = read_foreign(path)
        assert (found.format, found.header, found.entries) == (
            "foldline",
            session.header,
            session.entries,
        )


def test_a_format_can_be_named_and_must_exist_and_fit(tmp_path: Path) -> None:
    session = Session.create("/tmp", home=tmp_path)
    asyncio.run(session.append(UserMessage(parts=text_parts("hi"))))
    assert session.path is not None
    assert read_foreign(session.path, "foldline").format == "foldline"
    with pytest.raises(FoldlineError, match="Unknown format 'word'"):
        read_foreign(session.path, "word")
    with pytest.raises(FoldlineError, match="no pi records"):
        read_foreign(session.path, "pi")


def assert_one_sentence(error: FoldlineError) -> None:
    sentence = str(error)
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_result", "toolUseId": "c1", "output": {"text": "one"}},
        {"type": "tool_use", "callId": "c1", "tool": "Read"},
    ],
    ids=["result", "call"],
)
def test_records_almost_as_claude_codes_are_another_agents(
    tmp_path: Path, block: dict[str, object]
) -> None:
    rows = [
        {
            "type": "user",
            "uuid": "a",
            "parentUuid": None,
            "message": {"role": "user", "content": "look"},
        },
        {
            "type": "user",
            "uuid": "b",
            "parentUuid": "a",
            "message": {"role": "user", "content": [block]},
        },
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        FoldlineError, match="with records like Claude Code's"
    ) as refusal:
        read_foreign(path)
    assert_one_sentence(refusal.value)


def test_a_result_that_answers_no_call_is_counted_where_the_format_is_named(
    tmp_path: Path,
) -> None:
    block = {"type": "tool_result", "toolUseId": "c1", "content": "one"}
    row = {
        "type": "user",
        "uuid": "a",
        "parentUuid": None,
        "message": {"role": "user", "content": [block]},
    }
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(row) + "\n")
    session = read_foreign(path, "claude-code")
    assert ORPHANS.format(results="1 result") in session.notes
