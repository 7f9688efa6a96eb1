"""Reading opencode's exported sessions, on documents made here."""

import json
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession
from foldline.formats.base import JsonObject
from foldline.formats.readers.opencode import reader
from foldline.protocol import (
    FoldlineError,
    ToolResultMessage,
    UserMessage,
    dump_entry,
    parse_entry,
)
from support.foreign import faults, view, view_texts
from support.sentences import pattern

Json = dict[str, Any]


def read(*messages: Any, **info: Any) -> ForeignSession:
    """The session of these messages; every entry of it reads back as it was written."""
    about = {
        "id": "ses_1",
        "directory": "/x",
        "time": {"created": 1_700_000_000_000},
        **info,
    }
    data = json.dumps({"info": about, "messages": messages}).encode()
    session = reader.read(data, Path("/x/session.json"))
    for entry in session.entries:
        assert parse_entry(dump_entry(entry)) == entry
    return session


def text(said: str, **fields: Any) -> Json:
    return {"type": "text", "text": said, **fields}


def user(*parts: Json | str, id: str = "", at: int = 0, **info: Any) -> Json:
    pieces = [text(part) if isinstance(part, str) else part for part in parts]
    return {
        "info": {"role": "user", "id": id, "time": {"created": at}, **info},
        "parts": pieces,
    }


def assistant(*parts: Json | str, id: str = "", at: int = 0, **info: Any) -> Json:
    pieces = [text(part) if isinstance(part, str) else part for part in parts]
    about = {
        "role": "assistant",
        "id": id,
        "modelID": "m",
        "time": {"created": at},
        **info,
    }
    return {"info": about, "parts": pieces}


def tool(call_id: str, name: str = "bash", output: str = "ok", **state: Any) -> Json:
    shape = {"status": "completed", "input": {}, "output": output, **state}
    return {
        "type": "tool",
        "id": f"prt_{call_id}",
        "tool": name,
        "callID": call_id,
        "state": shape,
    }


def finish(reason: str = "tool-calls", **tokens: Any) -> Json:
    return {"type": "step-finish", "reason": reason, "tokens": tokens}


def asked_to_compact(id: str, **fields: Any) -> Json:
    return user({"type": "compaction", "auto": True, **fields}, id=id)


def summary(said: str, parent: str, **info: Any) -> Json:
    return assistant(
        said,
        parentID=parent,
        summary=True,
        mode="compaction",
        **{"finish": "stop", **info},
    )


# --- the session ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b'{"info":{},"messages":[', b"[]", b"nonsense"])
def test_what_is_no_whole_document_is_refused(data: bytes) -> None:
    with pytest.raises(FoldlineError, match=pattern(reader.NOT_COMPLETE)):
        reader.read(data, Path("f"))


def test_another_document_is_refused() -> None:
    with pytest.raises(FoldlineError, match=pattern(reader.NOT_OPENCODE)):
        reader.read(b'{"info":{},"messages":[{"role":"user"}]}', Path("f"))
    assert not reader.recognises(JsonObject(info={}, messages=[]))
    assert reader.recognises(
        JsonObject(info={"id": "s", "directory": "/x"}, messages=[])
    )


def test_bytes_that_are_no_text_cost_only_themselves() -> None:
    document = {"info": {"id": "s"}, "messages": [user("na?ve")]}
    session = reader.read(
        json.dumps(document).encode().replace(b"?", b"\xef"), Path("f")
    )
    assert view_texts(session) == ["na�ve"]
    assert session.notes == (reader.BYTES_REPLACED,)


# --- who speaks -------------------------------------------------------------------------------------


# --- answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "shown", "failed"),
    [
        ({"status": "error", "error": "no such file"}, "no such file", True),
        (
            {
                "status": "error",
                "error": "stop",
                "metadata": {"interrupted": True, "output": "half"},
            },
            "half",
            True,
        ),
        ({"metadata": {"exit": 2}}, "ok", True),
        ({"metadata": {"exit": 0}}, "ok", False),
    ],
)
def test_a_result_says_how_it_went(state: Any, shown: str, failed: bool) -> None:
    result = read(assistant(tool("c", **state))).entries[1]
    assert isinstance(result, ToolResultMessage)
    assert (result.text, result.is_error) == (shown, failed)


@pytest.mark.parametrize("status", ["running", "pending", "odd"])
def test_a_call_that_never_ended_has_no_result(status: str) -> None:
    session = read(
        assistant(tool("c", status=status, input={}, raw='{"a":')), user("next")
    )
    assert [entry.type for entry in session.entries] == ["assistant", "user"]
    assert session.entries[0].calls[0].arguments == '{"a":'  # type: ignore[attr-defined]
    assert faults(session) == []


# --- files ------------------------------------------------------------------------------------------

DIFF = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-one\n+two\n same"


@pytest.mark.parametrize(
    ("part", "files"),
    [
        (tool("c", "read", input={"filePath": "/x/a"}), [("/x/a", "read", 0, 0)]),
        (tool("c", "read", "<type>directory</type>", input={"filePath": "/x"}), []),
        (
            tool("c", "write", input={"filePath": "/x/a", "content": "1\n2\n"}),
            [("/x/a", "modified", 2, 0)],
        ),
        (
            tool("c", "edit", input={"filePath": "/x/a"}, metadata={"diff": DIFF}),
            [("/x/a", "modified", 1, 1)],
        ),
        (tool("c", "edit", status="error", error="no", input={"filePath": "/x/a"}), []),
        (
            tool(
                "c",
                "apply_patch",
                metadata={
                    "files": [{"filePath": "/x/a", "diff": DIFF, "movePath": "/x/b"}]
                },
            ),
            [("/x/a", "modified", 1, 1), ("/x/b", "modified", 0, 0)],
        ),
        (
            tool(
                "c",
                "patch",
                input={
                    "patchText": "*** Begin Patch\n*** Add File: a\n+1\n*** End Patch"
                },
            ),
            [("a", "modified", 1, 0)],
        ),
        (tool("c", "glob", input={"path": "/x"}), []),
    ],
)
def test_the_files_a_tool_touched_are_on_its_result(
    part: Json, files: list[Any]
) -> None:
    result = read(assistant(part)).entries[1]
    assert isinstance(result, ToolResultMessage)
    assert [
        (file.path, file.action, file.added, file.removed)
        for file in result.details.files
    ] == files


# --- compactions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"auto": False}, "manual"),
        ({"auto": True}, "threshold"),
        ({"overflow": True}, "overflow"),
    ],
)
def test_the_reason_of_a_compaction(fields: Any, reason: str) -> None:
    session = read(
        user("one"), asked_to_compact("c", **fields), summary("So far.", "c")
    )
    assert session.entries[1].reason == reason  # type: ignore[attr-defined]


@pytest.mark.parametrize("trouble", [{"finish": ""}, {"error": {"name": "APIError"}}])
def test_a_compaction_that_failed_compacts_nothing(trouble: Any) -> None:
    session = read(user("one"), asked_to_compact("c"), summary("Half", "c", **trouble))
    assert view_texts(session)[:2] == ["one", "What did we do so far?"]
    asked = view(session)[1]
    assert isinstance(asked, UserMessage)
    assert asked.origin == "machine"


# --- turns taken back -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk", [None, 3, -1, 1e308, "x", "", [], [None, 3, "x"], {"a": 1}, [[]], True]
)
def test_values_of_the_wrong_shape_are_never_an_error(junk: Any) -> None:
    names = (
        "text",
        "mime",
        "url",
        "tool",
        "callID",
        "state",
        "files",
        "tokens",
        "reason",
        "id",
        "synthetic",
    )
    for kind in (
        "text",
        "file",
        "tool",
        "reasoning",
        "patch",
        "step-finish",
        "compaction",
        "subtask",
        junk,
    ):
        part = {"type": kind, **dict.fromkeys(names, junk)}
        read(user(part), assistant(part), summary("s", "c"))
    for name in (
        "input",
        "output",
        "error",
        "metadata",
        "time",
        "attachments",
        "status",
    ):
        for used in ("read", "edit", "apply_patch", "bash"):
            read(assistant(tool("c", used, **{name: junk})))
    read(
        user("a", model=junk, time=junk, id=junk),
        revert=junk,
        title=junk,
        time=junk,
        directory=junk,
    )
    read(
        assistant(
            "a",
            error=junk,
            tokens=junk,
            finish=junk,
            summary=junk,
            parentID=junk,
            modelID=junk,
        )
    )
    read(
        {"info": {"role": junk}, "parts": [junk]},
        junk,
        revert={"messageID": junk, "partID": junk},
    )
