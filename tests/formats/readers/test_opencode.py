"""Reading opencode's exported sessions, on documents made here."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foldline.context.projection import project
from foldline.formats import ForeignSession
from foldline.formats.base import JsonObject
from foldline.formats.readers.opencode import reader
from foldline.formats.readers.opencode.reader import ASKED_TO_COMPACT
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    FileTouch,
    FoldlineError,
    ImagePart,
    ModelChange,
    NoticeRecord,
    TextPart,
    ThinkingPart,
    Title,
    ToolResultMessage,
    Usage,
    UserMessage,
    dump_entry,
    parse_entry,
)
from support.foreign import faults, said, view

Json = dict[str, Any]
IMAGE = "data:image/png;base64,aGk="
HIDDEN = "[Old tool result content cleared]"


def read(*messages: Any, **info: Any) -> ForeignSession:
    """The session of these messages; every entry of it reads back as it was written."""
    about = {"id": "ses_1", "directory": "/x", "time": {"created": 1_700_000_000_000}, **info}
    data = json.dumps({"info": about, "messages": messages}).encode()
    session = reader.read(data, Path("/x/session.json"))
    for entry in session.entries:
        assert parse_entry(dump_entry(entry)) == entry
    return session


def text(said: str, **fields: Any) -> Json:
    return {"type": "text", "text": said, **fields}


def user(*parts: Json | str, id: str = "", at: int = 0, **info: Any) -> Json:
    pieces = [text(part) if isinstance(part, str) else part for part in parts]
    return {"info": {"role": "user", "id": id, "time": {"created": at}, **info}, "parts": pieces}


def assistant(*parts: Json | str, id: str = "", at: int = 0, **info: Any) -> Json:
    pieces = [text(part) if isinstance(part, str) else part for part in parts]
    about = {"role": "assistant", "id": id, "modelID": "m", "time": {"created": at}, **info}
    return {"info": about, "parts": pieces}


def tool(call_id: str, name: str = "bash", output: str = "ok", **state: Any) -> Json:
    shape = {"status": "completed", "input": {}, "output": output, **state}
    return {"type": "tool", "id": f"prt_{call_id}", "tool": name, "callID": call_id, "state": shape}


def start() -> Json:
    return {"type": "step-start"}


def finish(reason: str = "tool-calls", **tokens: Any) -> Json:
    return {"type": "step-finish", "reason": reason, "tokens": tokens}


def asked_to_compact(id: str, **fields: Any) -> Json:
    return user({"type": "compaction", "auto": True, **fields}, id=id)


def summary(said: str, parent: str, **info: Any) -> Json:
    return assistant(said, parentID=parent, summary=True, mode="compaction", **{"finish": "stop", **info})


# --- the session ------------------------------------------------------------------------------------


def test_the_header_names_the_session() -> None:
    session = read(user("hi"), title="The name", parentID="ses_0")
    assert session.format == "opencode"
    assert (session.header.id, session.header.cwd) == ("ses_1", "/x")
    assert session.header.created_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert isinstance(session.entries[0], Title)
    assert session.notes == ("It is a sub-session of ses_0.",)


def test_a_title_nobody_chose_is_none() -> None:
    assert [entry.type for entry in read(user("hi"), title="New session - 2026-07-24T11:49Z").entries] == [
        "user"
    ]


@pytest.mark.parametrize("data", [b"", b'{"info":{},"messages":[', b"[]", b"nonsense"])
def test_what_is_no_whole_document_is_refused(data: bytes) -> None:
    with pytest.raises(FoldlineError, match="is not JSON from end to end"):
        reader.read(data, Path("f"))


def test_another_document_is_refused() -> None:
    with pytest.raises(FoldlineError, match="is no session of opencode"):
        reader.read(b'{"info":{},"messages":[{"role":"user"}]}', Path("f"))
    assert not reader.recognises(JsonObject(info={}, messages=[]))
    assert reader.recognises(JsonObject(info={"id": "s", "directory": "/x"}, messages=[]))


def test_bytes_that_are_no_text_cost_only_themselves() -> None:
    document = {"info": {"id": "s"}, "messages": [user("na?ve")]}
    session = reader.read(json.dumps(document).encode().replace(b"?", b"\xef"), Path("f"))
    assert said(session) == ["na�ve"]
    assert session.notes == (
        "Some bytes of the file are no UTF-8 text: each became a replacement character.",
    )


def test_a_message_of_no_shape_is_left_out_and_noted() -> None:
    session = read(user("a"), None, {"info": {"role": "user"}}, user("b"))
    assert said(session) == ["a", "b"]
    assert session.notes == ("Messages without info and parts, left out: 2.",)


# --- who speaks -------------------------------------------------------------------------------------


def test_only_what_was_typed_is_the_users() -> None:
    file = {"type": "file", "mime": "text/plain", "url": "file:///x/a", "filename": "a"}
    agent = {"type": "agent", "name": "explore"}
    session = read(
        user(
            file,
            "look at @a",
            agent,
            text("Called the Read tool", synthetic=True),
            text("1: x", synthetic=True),
        )
    )
    typed, machine = session.entries
    assert isinstance(typed, UserMessage)
    assert (typed.origin, typed.text) == ("typed", "look at @a")
    assert isinstance(machine, UserMessage)
    assert (machine.origin, machine.text) == ("machine", "Called the Read tool\n1: x")


def test_images_come_along_and_other_media_are_noted() -> None:
    image, pdf = (
        {"type": "file", "mime": mime, "url": url}
        for mime, url in (("image/png", IMAGE), ("application/pdf", "data:application/pdf;base64,aGk="))
    )
    session = read(user("see", image, pdf))
    [typed] = session.entries
    assert isinstance(typed, UserMessage)
    assert typed.parts == (TextPart(text="see"), ImagePart(media_type="image/png", data="aGk="))
    assert session.notes == ("Left out, pieces of messages of a kind that cannot be shown here: file (1).",)


def test_what_was_not_meant_for_the_model_is_a_notice() -> None:
    session = read(user(text("for people", ignored=True), "for the model"))
    assert isinstance(session.entries[0], NoticeRecord)
    assert said(session) == ["for the model"]


def test_a_model_change_is_told_once() -> None:
    first, other = ({"modelID": model, "providerID": "p"} for model in ("a", "b"))
    session = read(user("1", model=first), user("2", model=first), user("3", model=other))
    changes = [entry for entry in session.entries if isinstance(entry, ModelChange)]
    assert [(change.model, change.provider) for change in changes] == [("a", "p"), ("b", "p")]


# --- answers ----------------------------------------------------------------------------------------


def test_each_step_is_an_answer_with_its_results_and_usage() -> None:
    session = read(
        user("go"),
        assistant(
            start(),
            {"type": "reasoning", "text": "hm"},
            "I look.",
            tool("c1", input={"command": "ls"}),
            tool("c2"),
            finish(input=5, output=7, reasoning=3, cache={"read": 100, "write": 20}),
            start(),
            "Done.",
            finish("stop", input=1, output=1),
        ),
    )
    _, first, one, two, last = session.entries
    assert isinstance(first, AssistantMessage)
    assert first.parts[:2] == (ThinkingPart(text="hm"), TextPart(text="I look."))
    assert [(call.call_id, call.arguments) for call in first.calls] == [
        ("c1", '{"command":"ls"}'),
        ("c2", "{}"),
    ]
    assert first.usage == Usage(input=125, cached=100, output=10, reasoning=3)
    assert (first.model, first.stop_reason) == ("m", "tool_calls")
    assert isinstance(one, ToolResultMessage)
    assert isinstance(two, ToolResultMessage)
    assert isinstance(last, AssistantMessage)
    assert (last.text, last.stop_reason) == ("Done.", "stop")
    assert faults(session) == []


def test_a_message_without_marks_of_steps_is_one_answer() -> None:
    session = read(user("go"), assistant("Done.", finish="length", tokens={"input": 3, "output": 4}))
    answer = session.entries[1]
    assert isinstance(answer, AssistantMessage)
    assert answer.usage == Usage(input=3, output=4)
    assert answer.stop_reason == "length"


@pytest.mark.parametrize(
    ("state", "shown", "failed"),
    [
        ({"status": "error", "error": "no such file"}, "no such file", True),
        (
            {"status": "error", "error": "stop", "metadata": {"interrupted": True, "output": "half"}},
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
    session = read(assistant(tool("c", status=status, input={}, raw='{"a":')), user("next"))
    assert [entry.type for entry in session.entries] == ["assistant", "user"]
    assert session.entries[0].calls[0].arguments == '{"a":'  # type: ignore[attr-defined]
    assert faults(session) == []


def test_an_image_a_tool_attached_is_in_its_result() -> None:
    attached = [{"type": "file", "mime": "image/png", "url": IMAGE}]
    result = read(assistant(tool("c", attachments=attached))).entries[1]
    assert isinstance(result, ToolResultMessage)
    assert result.parts == (TextPart(text="ok"), ImagePart(media_type="image/png", data="aGk="))


def test_an_answer_that_failed_is_in_the_history_but_was_never_sent() -> None:
    session = read(
        user("go"),
        assistant("Half an", tool("c"), error={"name": "APIError", "data": {"message": "It broke."}}),
        assistant("All of it."),
    )
    assert said(session) == ["go", "All of it."]
    failed = session.entries[1]
    assert isinstance(failed, AssistantMessage)
    assert (failed.error, failed.stop_reason, failed.text) == ("It broke.", "error", "Half an")
    assert session.notes == ("Failed answers that opencode never sent again, dropped from the view: 1.",)
    assert faults(session) == []


def test_an_aborted_answer_that_said_something_was_sent() -> None:
    session = read(user("go"), assistant("Half an", error={"name": "MessageAbortedError"}))
    assert said(session) == ["go", "Half an"]
    assert session.entries[1].stop_reason == "cancelled"  # type: ignore[attr-defined]


# --- files ------------------------------------------------------------------------------------------

DIFF = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-one\n+two\n same"


@pytest.mark.parametrize(
    ("part", "files"),
    [
        (tool("c", "read", input={"filePath": "/x/a"}), [("/x/a", "read", 0, 0)]),
        (tool("c", "read", "<type>directory</type>", input={"filePath": "/x"}), []),
        (tool("c", "write", input={"filePath": "/x/a", "content": "1\n2\n"}), [("/x/a", "modified", 2, 0)]),
        (
            tool("c", "edit", input={"filePath": "/x/a"}, metadata={"diff": DIFF}),
            [("/x/a", "modified", 1, 1)],
        ),
        (tool("c", "edit", status="error", error="no", input={"filePath": "/x/a"}), []),
        (
            tool(
                "c",
                "apply_patch",
                metadata={"files": [{"filePath": "/x/a", "diff": DIFF, "movePath": "/x/b"}]},
            ),
            [("/x/a", "modified", 1, 1), ("/x/b", "modified", 0, 0)],
        ),
        (
            tool("c", "patch", input={"patchText": "*** Begin Patch\n*** Add File: a\n+1\n*** End Patch"}),
            [("a", "modified", 1, 0)],
        ),
        (tool("c", "glob", input={"path": "/x"}), []),
    ],
)
def test_the_files_a_tool_touched_are_on_its_result(part: Json, files: list[Any]) -> None:
    result = read(assistant(part)).entries[1]
    assert isinstance(result, ToolResultMessage)
    assert [(file.path, file.action, file.added, file.removed) for file in result.details.files] == files


def test_files_that_changed_without_a_name_go_to_the_shell() -> None:
    patch = {"type": "patch", "files": ["/x/a", "/x/b"]}
    edit = tool("c1", "edit", input={"filePath": "/x/a"}, metadata={"diff": DIFF})
    _, edited, ran = read(assistant(start(), edit, tool("c2"), finish(), patch)).entries
    assert isinstance(edited, ToolResultMessage)
    assert isinstance(ran, ToolResultMessage)
    assert [file.path for file in edited.details.files] == ["/x/a"]
    assert ran.details.files == (FileTouch(path="/x/b", action="modified"),)


# --- compactions ------------------------------------------------------------------------------------


def test_after_a_compaction_the_model_sees_the_summary_and_what_follows() -> None:
    session = read(
        user("one"),
        assistant("1", finish(input=90, output=9)),
        asked_to_compact("c"),
        summary("So far.", "c", modelID="small", tokens={"input": 50, "output": 5}),
        user(text("Continue", synthetic=True)),
    )
    assert said(session) == [ASKED_TO_COMPACT + "So far.", "Continue"]
    fold = session.entries[2]
    assert isinstance(fold, Compaction)
    assert (fold.strategy, fold.reason, fold.model, fold.tokens_before) == (
        "opencode",
        "threshold",
        "small",
        99,
    )
    assert fold.usage == Usage(input=50, output=5)
    assert {project(session.entries).fate(index).kind for index in (0, 1)} == {"summarised"}
    assert faults(session) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"auto": False}, "manual"), ({"auto": True}, "threshold"), ({"overflow": True}, "overflow")],
)
def test_the_reason_of_a_compaction(fields: Any, reason: str) -> None:
    session = read(user("one"), asked_to_compact("c", **fields), summary("So far.", "c"))
    assert session.entries[1].reason == reason  # type: ignore[attr-defined]


def test_the_tail_a_compaction_names_stays_behind_the_summary() -> None:
    session = read(
        user("one", id="u1"),
        assistant("1", id="a1"),
        user("two", id="u2"),
        assistant("2", tool("c"), id="a2"),
        asked_to_compact("c", tail_start_id="u2"),
        summary("So far.", "c"),
        user("three", id="u3"),
        asked_to_compact("d", tail_start_id="a1"),
        summary("So far, again.", "d"),
    )
    assert said(session) == [ASKED_TO_COMPACT + "So far, again.", "1", "two", "2", "ok", "three"]
    assert faults(session) == []
    earlier = project(session.entries[:7])
    assert [item.message.text for item in earlier.view] == [
        ASKED_TO_COMPACT + "So far.",
        "two",
        "2",
        "ok",
        "three",
    ]


@pytest.mark.parametrize("trouble", [{"finish": ""}, {"error": {"name": "APIError"}}])
def test_a_compaction_that_failed_folds_nothing(trouble: Any) -> None:
    session = read(user("one"), asked_to_compact("c"), summary("Half", "c", **trouble))
    assert said(session)[:2] == ["one", "What did we do so far?"]
    asked = view(session)[1]
    assert isinstance(asked, UserMessage)
    assert asked.origin == "machine"


def test_a_summary_nobody_asked_for_is_one_of_an_older_version() -> None:
    session = read(user("one"), summary("So far.", "elsewhere"), user("two"))
    assert said(session) == ["So far.", "two"]


def test_an_output_that_was_hidden_is_in_sight_until_then() -> None:
    hidden = tool("c", time={"start": 1, "end": 2, "compacted": 500})
    session = read(user("one", at=100), assistant(hidden, at=200), user("two", at=400), user("three", at=600))
    assert said(session) == ["one", "", HIDDEN, "two", "three"]
    assert project(session.entries).fate(2).kind == "hidden"
    before = [item.message.text for item in project(session.entries[:4]).view]
    assert before == ["one", "", "ok", "two"]
    assert faults(session) == []


def test_hiding_leaves_an_earlier_summary_in_its_place() -> None:
    hidden = tool("c", time={"compacted": 500})
    session = read(
        user("one"),
        asked_to_compact("c"),
        summary("So far.", "c"),
        assistant(hidden, at=200),
        user("two", at=600),
    )
    assert said(session) == [ASKED_TO_COMPACT + "So far.", "", HIDDEN, "two"]
    assert faults(session) == []


def test_an_output_hidden_after_the_last_message_is_hidden_at_the_end() -> None:
    assert said(read(assistant(tool("c", time={"compacted": 500}), at=1)))[1] == HIDDEN


# --- turns taken back -------------------------------------------------------------------------------


def test_what_was_taken_back_leaves_the_view() -> None:
    session = read(
        user("one", id="u1"), assistant("1"), user("two", id="u2"), assistant("2"), revert={"messageID": "u2"}
    )
    assert said(session) == ["one", "1"]
    assert {project(session.entries).fate(index).kind for index in (3, 4)} == {"reverted"}
    assert faults(session) == []


def test_an_answer_may_be_taken_back_from_one_step_on() -> None:
    answer = assistant(start(), "a", tool("c1"), start(), "b", tool("c2"), start(), "c", id="a1")
    session = read(user("one"), answer, revert={"messageID": "a1", "partID": "prt_c2"})
    assert said(session) == ["one", "a", "ok"]
    assert faults(session) == []


@pytest.mark.parametrize("junk", [None, 3, -1, 1e308, "x", "", [], [None, 3, "x"], {"a": 1}, [[]], True])
def test_values_of_the_wrong_shape_are_never_an_error(junk: Any) -> None:
    names = ("text", "mime", "url", "tool", "callID", "state", "files", "tokens", "reason", "id", "synthetic")
    for kind in ("text", "file", "tool", "reasoning", "patch", "step-finish", "compaction", "subtask", junk):
        part = {"type": kind, **dict.fromkeys(names, junk)}
        read(user(part), assistant(part), summary("s", "c"))
    for name in ("input", "output", "error", "metadata", "time", "attachments", "status"):
        for used in ("read", "edit", "apply_patch", "bash"):
            read(assistant(tool("c", used, **{name: junk})))
    read(user("a", model=junk, time=junk, id=junk), revert=junk, title=junk, time=junk, directory=junk)
    read(assistant("a", error=junk, tokens=junk, finish=junk, summary=junk, parentID=junk, modelID=junk))
    read({"info": {"role": junk}, "parts": [junk]}, junk, revert={"messageID": junk, "partID": junk})


def test_a_summary_that_answers_no_request_to_compact_is_an_answer() -> None:
    session = read(user("sum it up", id="u1"), summary("In short.", "u1"), user("two"))
    assert said(session) == ["sum it up", "In short.", "two"]
    assert faults(session) == []
