"""Reading pi's sessions, on small files made here."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.parts import LOST_CUTS
from foldline.past.branches import branches
from foldline.past.stats import stats_of
from foldline.protocol import (
    DeveloperMessage,
    ModelChange,
    NoticeRecord,
    Revert,
    Title,
    Unknown,
    UserMessage,
    dump_entry,
    parse_entry,
)
from foldline.view.projection import project
from foldline.view.rules import broken, dangling

Record = dict[str, Any]
HEADER: Record = {
    "type": "session",
    "id": "pi-1",
    "timestamp": "2026-01-02T03:04:05.678Z",
    "cwd": "/x",
}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a file of these records, v1 unless they carry ids, and check that the file stays as it is."""

    def read_records(
        *records: Record | bytes, header: Record = HEADER
    ) -> ForeignSession:
        path = tmp_path / "session.jsonl"
        lines = [
            line if isinstance(line, bytes) else json.dumps(line).encode()
            for line in (header, *records)
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


def compaction(first_kept: int, **fields: Any) -> Record:
    return {
        "type": "compaction",
        "summary": "so far",
        "firstKeptEntryIndex": first_kept,
        **fields,
    }


def node(node_id: str, parent: str | None, record: Record) -> Record:
    return {"id": node_id, "parentId": parent, **record}


def texts(session: ForeignSession) -> list[str]:
    """The texts of the view; of summaries, without their frames."""
    framed = (item.message.text for item in project(session.entries).view)
    bare = (
        re.sub(r"^The (?:conversation|following)[^<]*<summary>\n", "", text)
        for text in framed
    )
    return [re.sub(r"\n?</summary>$", "", text) for text in bare]


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
    [answer] = read(
        message("assistant", [], stopReason=theirs, errorMessage="why")
    ).entries
    assert (answer.stop_reason, answer.error) == (ours, "why")


def test_shell_commands_of_the_user_are_said_to_be_such(read: Any) -> None:
    shell: Record = {
        "command": "make",
        "output": "no rule\n",
        "exitCode": 2,
        "truncated": True,
    }
    seen, unseen = read(
        message("bashExecution", None, **shell, fullOutputPath="/tmp/o"),
        message(
            "bashExecution",
            None,
            command="ls",
            output="a",
            exitCode=0,
            excludeFromContext=True,
        ),
    ).entries
    assert isinstance(seen, UserMessage)
    assert seen.origin == "shell"
    assert (
        seen.text == "$ make\nno rule\n(exit 2)\n(output shortened; all of it: /tmp/o)"
    )
    assert isinstance(unseen, NoticeRecord)
    assert unseen.text == "$ ls\na"


def test_text_of_extensions_is_machine_text(read: Any) -> None:
    entries = read(
        {"type": "custom_message", "customType": "x", "content": "one"},
        message("hookMessage", [{"type": "text", "text": "two"}]),
        message("custom", "three"),
    ).entries
    assert all(
        isinstance(entry, DeveloperMessage) and entry.origin == "notice"
        for entry in entries
    )
    assert [entry.text for entry in entries] == ["one", "two", "three"]
    [user] = read(message("user", "four", attribution="agent")).entries
    assert user.origin == "machine"


def test_markers_and_what_is_unknown(read: Any) -> None:
    custom = {
        "type": "custom",
        "customType": "x",
        "data": {"index": 3, "deep": [None, {"a": "\ud83d"}]},
    }
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
    assert json.loads(dump_entry(unknown))["record"]["data"]["deep"] == [
        None,
        {"a": "�"},
    ]
    assert texts(session) == []


@pytest.mark.parametrize("first_kept", [77, -1, "x", None])
def test_a_cut_that_is_not_in_the_file_keeps_nothing_and_says_so(
    read: Any, first_kept: Any
) -> None:
    session = read(
        message("user", "one"), compaction(first_kept), message("user", "two")
    )
    assert texts(session) == ["so far", "two"]
    assert session.notes[0] == LOST_CUTS.format(compactions="1 compaction refers")


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
        gone = projection.with_entries(Revert(checkpoint=-1, moment=moment))
        ways.append([item.message.text for item in gone.view])
    assert ways == [
        ["root", "one way", "on with the one"],
        ["root", "other way", "on with the other"],
        ["all anew"],
    ]


def test_a_torn_tail_is_damage(read: Any, tmp_path: Path) -> None:
    read(message("user", "one"), message("user", "two"))
    path = tmp_path / "session.jsonl"
    path.write_bytes(path.read_bytes()[:-8] + b"\0\0\0")
    session = read_foreign(path)
    assert [entry.index for entry in session.entries] == [1]
    assert session.damage.count == 1


@pytest.mark.parametrize("junk", [None, 3, "x", [], [None, 3, "x"], {"a": 1}, True])
def test_values_of_the_wrong_shape_are_never_an_error(read: Any, junk: Any) -> None:
    fields = (
        "toolCallId",
        "toolName",
        "usage",
        "details",
        "stopReason",
        "model",
        "command",
        "exitCode",
    )
    for role in (
        "user",
        "assistant",
        "toolResult",
        "bashExecution",
        "hookMessage",
        junk,
    ):
        read(message(role, junk, **dict.fromkeys(fields, junk)))
    read({"type": "message", "message": junk}, {"type": junk, "timestamp": junk})
    read(
        {
            "type": "compaction",
            "summary": junk,
            "details": {"readFiles": junk},
            "tokensBefore": junk,
        }
    )
    piece = {"type": "toolCall", "id": junk, "name": junk, "arguments": junk}
    read(
        message(
            "assistant",
            [piece, {"type": "image", "data": junk}, {"type": "text", "text": junk}],
        )
    )


# --- Oh My Pi, and damaged headers --------------------------------------------------------------------


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
def test_a_damaged_header_costs_only_itself(
    tmp_path: Path, damaged: bytes, cwd: str, ids: bool
) -> None:
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
    path.write_bytes(
        b"\n".join([damaged, *(json.dumps(record).encode() for record in records)])
    )
    session = read_foreign(path)
    assert session.format == "pi"
    assert session.header.cwd == cwd
    assert [item.message.text for item in project(session.entries).view] == [
        "hi",
        "yes",
    ]
    assert any("header is damaged or missing" in note for note in session.notes)


# --- pi 1.6 -----------------------------------------------------------------------------------------


def test_summaries_stand_in_the_frames_they_are_sent_in(read: Any) -> None:
    records = (
        node("a", None, message("user", "hi")),
        node(
            "b",
            "a",
            {"type": "compaction", "summary": "so far", "firstKeptEntryId": "a"},
        ),
        node(
            "c",
            "b",
            {"type": "branch_summary", "fromId": "b", "summary": "tried one way"},
        ),
    )
    compaction, _, left = (
        item.message.text for item in project(read(*records).entries).view
    )
    assert compaction.endswith("summary:\n\n<summary>\nso far\n</summary>")
    assert left.endswith("came back from:\n\n<summary>\ntried one way</summary>")
    of_oh_my_pi = {"type": "model_change", "model": "local/m-1"}
    other = read(node("m", None, of_oh_my_pi), *records[1:])
    assert [item.message.text for item in project(other.entries).view] == [
        "so far",
        "tried one way",
    ]


def test_the_tokens_of_summaries_count(read: Any) -> None:
    spent = {"input": 5, "output": 7, "cacheRead": 100, "cacheWrite": 20}
    summary = {
        "type": "branch_summary",
        "fromId": "b",
        "summary": "tried one way",
        "usage": spent,
    }
    session = read(
        node(
            "a", None, {"type": "model_change", "provider": "local", "modelId": "m-1"}
        ),
        node("b", "a", message("user", "hi")),
        node(
            "c",
            "b",
            {
                "type": "compaction",
                "summary": "so far",
                "firstKeptEntryId": "b",
                "usage": spent,
            },
        ),
        node("d", "c", summary),
    )
    use = stats_of(session.entries).models["m-1"]
    assert (use.requests, use.input, use.output) == (2, 250, 14)
