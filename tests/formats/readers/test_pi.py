"""Reading pi's sessions, on small files made here."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foldline.context.branches import branches
from foldline.context.invariants import broken, dangling
from foldline.context.projection import project
from foldline.context.stats import stats_of
from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    DeveloperMessage,
    FileTouch,
    ImagePart,
    Kept,
    ModelChange,
    NoticeRecord,
    Revert,
    TextPart,
    ThinkingPart,
    Title,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
    Written,
    dump_entry,
    parse_entry,
)
from support.foreign import faults

Record = dict[str, Any]
HEADER: Record = {"type": "session", "id": "pi-1", "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/x"}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a file of these records, v1 unless they carry ids, and check that the file stays as it is."""

    def read_records(*records: Record | bytes, header: Record = HEADER) -> ForeignSession:
        path = tmp_path / "session.jsonl"
        lines = [
            line if isinstance(line, bytes) else json.dumps(line).encode() for line in (header, *records)
        ]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        before = (path.stat().st_mtime_ns, path.read_bytes())
        session = read_foreign(path)
        assert (path.stat().st_mtime_ns, path.read_bytes()) == before
        for entry in session.entries:
            assert parse_entry(dump_entry(entry)) == entry
        return session

    return read_records


def message(role: str, content: Any = "", **fields: Any) -> Record:
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


def call(call_id: str, name: str, **arguments: Any) -> Record:
    piece = {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}
    return message("assistant", [piece], stopReason="toolUse")


def result(call_id: str, name: str, text: str = "ok", **fields: Any) -> Record:
    content = [{"type": "text", "text": text}]
    return message("toolResult", content, toolCallId=call_id, toolName=name, **fields)


def compaction(first_kept: int, **fields: Any) -> Record:
    return {"type": "compaction", "summary": "so far", "firstKeptEntryIndex": first_kept, **fields}


def node(node_id: str, parent: str | None, record: Record) -> Record:
    return {"id": node_id, "parentId": parent, **record}


def texts(session: ForeignSession) -> list[str]:
    """The texts of the view; of summaries, without their frames."""
    framed = (item.message.text for item in project(session.entries).view)
    bare = (re.sub(r"^The (?:conversation|following)[^<]*<summary>\n", "", text) for text in framed)
    return [re.sub(r"\n?</summary>$", "", text) for text in bare]


def test_the_header_names_the_session(read: Any) -> None:
    session = read(message("user", "hi"))
    assert session.format == "pi"
    assert session.header.id == "pi-1"
    assert session.header.cwd == "/x"
    assert session.header.created_at == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def test_an_index_is_the_place_in_the_file(read: Any) -> None:
    session = read(message("user", "a"), b"", message("user", "b"), b'{"torn', message("user", "c"))
    assert [entry.index for entry in session.entries] == [1, 2, 4]
    assert session.damage.lines == (5,)
    assert session.notes == ("1 damaged record (line 5) was left out.",)


def test_an_answer_keeps_parts_usage_and_reason(read: Any) -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "text", "text": "I look."},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "echo 你好", "n": 1}},
        {"type": "hologram"},
    ]
    usage = {"input": 5, "output": 7, "cacheRead": 100, "cacheWrite": 20, "reasoningTokens": 3}
    session = read(message("assistant", content, model="m-1", usage=usage, stopReason="toolUse"))
    [answer] = session.entries
    assert isinstance(answer, AssistantMessage)
    assert answer.parts[:2] == (ThinkingPart(text="hm", signature="sig"), TextPart(text="I look."))
    assert answer.calls[0].arguments == '{"command":"echo 你好","n":1}'
    assert answer.usage == Usage(input=125, cached=100, output=7, reasoning=3)
    assert (answer.model, answer.stop_reason) == ("m-1", "tool_calls")
    assert session.notes == (
        "Left out, pieces of messages of a kind that cannot be shown here: hologram (1).",
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("toolUse", "tool_calls"),
        ("aborted", "cancelled"),
        ("error", "error"),
        ("novel", None),
    ],
)
def test_stop_reasons(read: Any, theirs: str, ours: str | None) -> None:
    [answer] = read(message("assistant", [], stopReason=theirs, errorMessage="why")).entries
    assert (answer.stop_reason, answer.error) == (ours, "why")


def test_a_usage_of_zeros_reports_nothing(read: Any) -> None:
    usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    [answer] = read(message("assistant", [], usage=usage, stopReason="aborted")).entries
    assert answer.usage is None


def test_images_and_plain_strings_are_content(read: Any) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/jpeg"}
    first, second = read(message("user", "plain"), message("user", [image])).entries
    assert first.parts == (TextPart(text="plain"),)
    assert second.parts == (ImagePart(media_type="image/jpeg", data="aGk="),)


def test_file_tools_touch_files_only_where_they_succeed(read: Any) -> None:
    diff = "--- a/e.py\n+++ b/e.py\n@@ -1 +1,2 @@\n-old\n+new\n+more\n"
    session = read(
        call("c1", "read", path="r.py"),
        result("c1", "read", "one\ntwo"),
        call("c2", "write", path="w.py", content="1\n2\n3\n"),
        result("c2", "write"),
        call("c3", "edit", path="e.py"),
        result("c3", "edit", details={"diff": "+1 short", "patch": diff}),
        call("c4", "edit", path="missing.py"),
        result("c4", "edit", "not found", isError=True),
        call("c5", "bash", command="ls"),
        result("c5", "bash", "x\n\nCommand exited with code 2", isError=True),
        call("c6", "read", path="pr://7"),
        result("c6", "read"),
    )
    results = [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]
    assert [touch for each in results for touch in each.details.files] == [
        FileTouch(path="r.py", action="read"),
        FileTouch(path="w.py", action="modified", added=3),
        FileTouch(path="e.py", action="modified", added=2, removed=1),
    ]
    assert [each.details.brief for each in results] == [
        "2 lines",
        "3 lines",
        "+2 −1",
        "failed",
        "exit 2",
        "1 line",
    ]
    assert results[2].details.diff == diff


def test_a_path_that_the_result_resolved_is_the_one_that_counts(read: Any) -> None:
    details = {"meta": {"source": {"type": "path", "value": "/x/a.rs"}}}
    session = read(
        call("c1", "read", path="/x/a.rs:10-20"),
        result("c1", "read", details=details),
        call("c2", "write", path="conflict://1", content="x"),
        result("c2", "write", details={"resolvedPath": "/x/b.rs"}),
    )
    touched = [touch.path for entry in session.entries[1::2] for touch in entry.details.files]
    assert touched == ["/x/a.rs", "/x/b.rs"]


def test_a_call_without_a_result_stays_without_one(read: Any) -> None:
    session = read(call("c1", "bash", command="sleep 9"), message("user", "stop"))
    assert [entry.type for entry in session.entries] == ["assistant", "user"]


def test_shell_commands_of_the_user_are_said_to_be_such(read: Any) -> None:
    shell: Record = {"command": "make", "output": "no rule\n", "exitCode": 2, "truncated": True}
    seen, unseen = read(
        message("bashExecution", None, **shell, fullOutputPath="/tmp/o"),
        message("bashExecution", None, command="ls", output="a", exitCode=0, excludeFromContext=True),
    ).entries
    assert isinstance(seen, UserMessage)
    assert seen.origin == "shell"
    assert seen.text == "$ make\nno rule\n(exit 2)\n(output shortened; all of it: /tmp/o)"
    assert isinstance(unseen, NoticeRecord)
    assert unseen.text == "$ ls\na"


def test_text_of_extensions_is_machine_text(read: Any) -> None:
    entries = read(
        {"type": "custom_message", "customType": "x", "content": "one"},
        message("hookMessage", [{"type": "text", "text": "two"}]),
        message("custom", "three"),
    ).entries
    assert all(isinstance(entry, DeveloperMessage) and entry.origin == "notice" for entry in entries)
    assert [entry.text for entry in entries] == ["one", "two", "three"]
    [user] = read(message("user", "four", attribution="agent")).entries
    assert user.origin == "machine"


def test_markers_and_what_is_unknown(read: Any) -> None:
    custom = {"type": "custom", "customType": "x", "data": {"index": 3, "deep": [None, {"a": "\ud83d"}]}}
    session = read(
        {"type": "model_change", "provider": "p", "modelId": "m"},
        {"type": "model_change", "model": "openrouter/vendor/m2"},
        {"type": "session_info", "name": "The name"},
        {"type": "title", "title": " "},
        custom,
        message("alien", "x"),
    )
    model, other, title, empty, unknown, alien = session.entries
    assert isinstance(model, ModelChange)
    assert (model.provider, model.model) == ("p", "m")
    assert isinstance(other, ModelChange)
    assert (other.provider, other.model) == ("openrouter/vendor", "m2")
    assert isinstance(title, Title)
    assert title.title == "The name"
    assert [type(entry) for entry in (empty, unknown, alien)] == [Unknown] * 3
    assert json.loads(dump_entry(unknown))["record"]["data"]["deep"] == [None, {"a": "�"}]
    assert texts(session) == []


def test_a_fold_names_what_it_covers_and_the_view_is_what_pi_sent(read: Any) -> None:
    session = read(
        message("user", "one"),
        call("c1", "read", path="a"),
        result("c1", "read"),
        message("user", "two"),
        compaction(4, tokensBefore=99),
        message("user", "three"),
    )
    fold = session.entries[4]
    assert isinstance(fold, Compaction)
    assert (fold.index, fold.first_kept_index, fold.tokens_before, fold.strategy) == (5, 4, 99, "pi")
    [written] = fold.head
    assert isinstance(written, Written)
    assert (written.covers, written.inputs) == (((1, 3),), ())
    assert fold.details.read_files == ("a",)
    assert texts(session) == ["so far", "two", "three"]
    fates = {entry.index: project(session.entries).fate(entry.index).kind for entry in session.entries}
    assert fates == {1: "summarised", 2: "summarised", 3: "summarised", 4: "live", 5: "live", 6: "live"}


def test_a_second_fold_absorbs_the_first_and_what_it_kept(read: Any) -> None:
    session = read(
        message("user", "one"),
        message("user", "two"),
        compaction(2),
        message("user", "three"),
        message("user", "four"),
        compaction(5, details={"readFiles": ["r"], "modifiedFiles": ["m"]}),
    )
    second = session.entries[-1]
    assert second.head[0].covers == ((2, 4),)
    assert second.head[0].inputs == (3,)
    assert (second.details.read_files, second.details.modified_files) == (("r",), ("m",))
    assert texts(session) == ["so far", "four"]
    projection = project(session.entries)
    assert [projection.fate(index) for index in (1, 2, 3, 4)] == [("summarised", 6, 0)] * 4


def test_a_second_fold_that_keeps_more_than_the_first_brings_messages_back(read: Any) -> None:
    session = read(
        message("user", "one"),
        message("user", "two"),
        message("user", "three"),
        compaction(3),
        message("user", "four"),
        compaction(2),
    )
    second = session.entries[-1]
    assert second.head[1:] == (Kept(ref=2),)
    assert texts(session) == ["so far", "two", "three", "four"]


@pytest.mark.parametrize("first_kept", [77, -1, "x", None])
def test_a_cut_that_is_not_in_the_file_keeps_nothing_and_says_so(read: Any, first_kept: Any) -> None:
    session = read(message("user", "one"), compaction(first_kept), message("user", "two"))
    assert texts(session) == ["so far", "two"]
    assert "first kept record that is not in the file" in session.notes[0]


def test_a_tree_is_read_along_the_branch_of_its_last_record(read: Any) -> None:
    session = read(
        node("a", None, message("user", "root")),
        node("b", "a", message("assistant", "wrong way")),
        node("c", "b", message("user", "further wrong")),
        node("d", "a", {"type": "branch_summary", "summary": "tried one way"}),
        node("e", "d", message("user", "right way")),
        header={**HEADER, "version": 3},
    )
    assert texts(session) == ["root", "tried one way", "right way"]
    assert [entry.index for entry in session.entries] == [1, 2, 3, 4, 5, 6, 7]
    assert session.notes == ("2 messages are on other branches than the one last used: /tree shows them.",)


def test_all_branches_of_a_tree_can_be_gone_to(read: Any) -> None:
    session = read(
        node("a", None, message("user", "root")),
        node("b", "a", message("user", "one way")),
        node("c", "a", message("user", "other way")),
        node("d", "b", message("assistant", "on with the one")),
        node("e", "c", message("assistant", "on with the other")),
        node("f", None, message("user", "all anew")),
        header={**HEADER, "version": 3},
    )
    projection = project(session.entries)
    assert broken(projection) == [] and dangling(projection) == []
    assert texts(session) == ["all anew"]
    tips = [turn.moment for turn in branches(projection).turns if not turn.children]
    ways = []
    for moment in tips:
        gone = projection.foreseen(Revert(checkpoint=-1, moment=moment))
        ways.append([item.message.text for item in gone.view])
    assert ways == [
        ["root", "one way", "on with the one"],
        ["root", "other way", "on with the other"],
        ["all anew"],
    ]


def test_a_fold_on_a_branch_leaves_the_others_as_they_were(read: Any) -> None:
    session = read(
        node("a", None, message("user", "one")),
        node("x", "a", message("user", "aside")),
        node("y", "x", {"type": "compaction", "summary": "of aside", "firstKeptEntryId": "x"}),
        node("b", "a", message("user", "two")),
        header={**HEADER, "version": 3},
    )
    assert texts(session) == ["one", "two"]


def test_a_fold_in_a_tree_names_its_cut_by_id(read: Any) -> None:
    session = read(
        node("a", None, message("user", "one")),
        node("x", "a", message("user", "aside")),
        node("b", "a", message("user", "two")),
        node("c", "b", {"type": "compaction", "summary": "so far", "firstKeptEntryId": "b"}),
        header={**HEADER, "version": 3},
    )
    assert session.entries[-1].first_kept_index == 5
    assert texts(session) == ["so far", "two"]


def test_a_lost_record_does_not_cut_off_all_before_it(read: Any) -> None:
    session = read(
        node("a", None, message("user", "one")),
        b'{"type":"message","id":"b","parentId":"a","mess',
        node("c", "b", message("user", "three")),
        header={**HEADER, "version": 3},
    )
    assert texts(session) == ["one", "three"]
    assert "broken in 1 places" in session.notes[1]


def test_records_that_point_in_a_circle_end(read: Any) -> None:
    session = read(
        node("a", "b", message("user", "one")),
        node("b", "a", message("user", "two")),
        header={**HEADER, "version": 3},
    )
    assert texts(session) == ["one", "two"]


def test_a_torn_tail_is_damage(read: Any, tmp_path: Path) -> None:
    read(message("user", "one"), message("user", "two"))
    path = tmp_path / "session.jsonl"
    path.write_bytes(path.read_bytes()[:-8] + b"\0\0\0")
    session = read_foreign(path)
    assert [entry.index for entry in session.entries] == [1]
    assert session.damage.count == 1


@pytest.mark.parametrize("junk", [None, 3, "x", [], [None, 3, "x"], {"a": 1}, True])
def test_values_of_the_wrong_shape_are_never_an_error(read: Any, junk: Any) -> None:
    fields = ("toolCallId", "toolName", "usage", "details", "stopReason", "model", "command", "exitCode")
    for role in ("user", "assistant", "toolResult", "bashExecution", "hookMessage", junk):
        read(message(role, junk, **dict.fromkeys(fields, junk)))
    read({"type": "message", "message": junk}, {"type": junk, "timestamp": junk})
    read({"type": "compaction", "summary": junk, "details": {"readFiles": junk}, "tokensBefore": junk})
    piece = {"type": "toolCall", "id": junk, "name": junk, "arguments": junk}
    read(message("assistant", [piece, {"type": "image", "data": junk}, {"type": "text", "text": junk}]))


# --- Oh My Pi, and damaged headers --------------------------------------------------------------------


def test_what_the_developer_says_and_the_system_prompt_are_in_the_view(read: Any) -> None:
    init = {"type": "session_init", "systemPrompt": "You are Oh My Pi.", "task": "dig", "tools": ["read"]}
    session = read(init, message("developer", "Mind the gap."), message("user", "hi"), init)
    view = [item.message for item in project(session.entries).view]
    assert [item.text for item in view] == ["You are Oh My Pi.", "Mind the gap.", "hi"]
    assert isinstance(view[1], DeveloperMessage)
    assert session.notes == ()


def test_a_fold_does_not_cover_the_system_prompt(read: Any) -> None:
    init = {"type": "session_init", "systemPrompt": "You are Oh My Pi."}
    fold = {"type": "compaction", "summary": "So far.", "firstKeptEntryIndex": 4}
    session = read(init, message("user", "one"), message("user", "two"), fold, message("user", "three"))
    assert [item.message.text for item in project(session.entries).view] == [
        "You are Oh My Pi.",
        "So far.",
        "three",
    ]
    assert faults(session) == []


def test_a_fold_that_would_keep_a_result_without_its_call_keeps_neither(read: Any) -> None:
    asked = message("assistant", [{"type": "toolCall", "id": "c", "name": "read", "arguments": {}}])
    result = message("toolResult", "ok", toolCallId="c", toolName="read")
    fold = {"type": "compaction", "summary": "So far.", "firstKeptEntryIndex": 3}
    session = read(message("user", "one"), asked, result, {"type": "label"}, message("user", "two"), fold)
    assert texts(session) == ["So far.", "two"]
    assert faults(session) == []


def test_a_context_that_was_reset_begins_anew(read: Any) -> None:
    reset = {"type": "reset_boundary"}
    session = read(message("user", "one"), reset, message("user", "two"))
    assert [item.message.text for item in project(session.entries).view] == ["two"]


@pytest.mark.parametrize(
    ("damaged", "cwd"),
    [
        (b'{"type":"session","id":"pi-', ""),
        (b'{"type":"session","id":"pi-1","cwd":"/x"}', "/x"),
        (b'{"type":"session","id":"pi-1","timestamp":{},"cwd":7}', ""),
        (b"", ""),
    ],
)
@pytest.mark.parametrize("ids", [True, False])
def test_a_damaged_header_costs_only_itself(tmp_path: Path, damaged: bytes, cwd: str, ids: bool) -> None:
    records = [
        message("user", "hi"),
        message("assistant", [{"type": "text", "text": "yes"}], stopReason="stop"),
    ]
    if ids:
        records = [
            {**record, "id": str(place), "parentId": str(place - 1) if place else None}
            for place, record in enumerate(records)
        ]
    path = tmp_path / "2026_pi-1.jsonl"
    path.write_bytes(b"\n".join([damaged, *(json.dumps(record).encode() for record in records)]))
    session = read_foreign(path)
    assert session.format == "pi"
    assert session.header.cwd == cwd
    assert [item.message.text for item in project(session.entries).view] == ["hi", "yes"]
    assert any("header is damaged or missing" in note for note in session.notes)


def test_a_record_of_an_unknown_kind_is_named(read: Any) -> None:
    session = read(message("user", "hi"), {"type": "hologram"}, message("prophet", "hear"))
    assert session.notes == ("Not in the view, records of kinds unknown here: hologram (1), message (1).",)


# --- pi 1.6 -----------------------------------------------------------------------------------------


def system(**sections: str | None) -> Record:
    return message("system", "", sections=sections, toolsAdded=[{"name": "read"}])


def test_the_system_prompt_is_what_its_sections_are_last(read: Any) -> None:
    session = read(
        system(opening="Be brief.", rules="<rules>\nold\n</rules>", folder="/x"),
        message("user", "hi"),
        system(rules="<rules>\nnew\n</rules>", folder=None),
        message("assistant", [{"type": "text", "text": "Hello."}]),
    )
    assert texts(session) == ["Be brief.\n\n<rules>\nnew\n</rules>", "hi", "Hello."]
    assert session.notes == ()


def test_an_answer_that_pi_omits_is_in_no_later_view(read: Any) -> None:
    omitted = {"type": "context_edit", "targetId": "b", "replacement": None}
    session = read(
        node("a", None, message("user", "one")),
        node("b", "a", call("c1", "read", path="x")),
        node("c", "b", result("c1", "read", "too much")),
        node("d", "c", omitted),
        node("e", "d", message("user", "two")),
        node("f", "e", {"type": "compaction", "summary": "so far", "firstKeptEntryId": "b"}),
    )
    assert (faults(session), texts(session), session.notes) == ([], ["so far", "two"], ())


def test_a_branch_from_before_the_system_prompt_has_its_own(read: Any) -> None:
    session = read(
        node("a", None, system(opening="one")),
        node("b", "a", message("user", "first")),
        node("c", None, system(opening="two")),
        node("d", "c", message("user", "second")),
    )
    assert (faults(session), texts(session)) == ([], ["two", "second"])


def test_summaries_stand_in_the_frames_they_are_sent_in(read: Any) -> None:
    records = (
        node("a", None, message("user", "hi")),
        node("b", "a", {"type": "compaction", "summary": "so far", "firstKeptEntryId": "a"}),
        node("c", "b", {"type": "branch_summary", "fromId": "b", "summary": "tried one way"}),
    )
    fold, _, left = (item.message.text for item in project(read(*records).entries).view)
    assert fold.endswith("summary:\n\n<summary>\nso far\n</summary>")
    assert left.endswith("came back from:\n\n<summary>\ntried one way</summary>")
    of_oh_my_pi = {"type": "model_change", "model": "local/m-1"}
    other = read(node("m", None, of_oh_my_pi), *records[1:])
    assert [item.message.text for item in project(other.entries).view] == ["so far", "tried one way"]


def test_the_tokens_of_summaries_count(read: Any) -> None:
    spent = {"input": 5, "output": 7, "cacheRead": 100, "cacheWrite": 20}
    summary = {"type": "branch_summary", "fromId": "b", "summary": "tried one way", "usage": spent}
    session = read(
        node("a", None, {"type": "model_change", "provider": "local", "modelId": "m-1"}),
        node("b", "a", message("user", "hi")),
        node("c", "b", {"type": "compaction", "summary": "so far", "firstKeptEntryId": "b", "usage": spent}),
        node("d", "c", summary),
    )
    use = stats_of(session.entries).models["m-1"]
    assert (use.requests, use.input, use.output) == (2, 250, 14)
