"""Reading the sessions of Qwen Code, on records made here and on its recorded ones."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.past.branches import branches
from foldline.past.stats import stats_of
from foldline.protocol import (
    Compaction,
    FileTouch,
    FoldlineError,
    Revert,
    ToolResultMessage,
)
from foldline.text.shorten import first_line
from foldline.view.projection import project
from support.foreign import (
    DAMAGERS,
    Damager,
    faults,
    view,
    view_after_a_round_trip,
    view_texts,
)
from support.recordings import SHARED, needs_recorded, recordings

Record = dict[str, Any]
SNAPSHOT = "<state_snapshot><goal>mend the clock</goal></state_snapshot>"


class Rows:
    """Records of a session, each after the one before, at the place its file would have them."""

    def __init__(self) -> None:
        self.rows: list[Record] = []

    def add(
        self,
        kind: str,
        *parts: Any,
        role: str = "user",
        after: int | None = -1,
        **fields: Any,
    ) -> int:
        place = len(self.rows)
        parent = {None: None, -1: f"u{place - 1}" if place else None}.get(
            after, f"u{after}"
        )
        pieces = [{"text": part} if isinstance(part, str) else part for part in parts]
        message = {"message": {"role": role, "parts": pieces}} if pieces else {}
        head = {
            "uuid": f"u{place}",
            "parentUuid": parent,
            "sessionId": "s1",
            "cwd": "/x",
            "version": "0.21",
        }
        at = {"timestamp": f"2026-08-17T12:00:{place:02}.000Z"}
        self.rows.append({**head, **at, "type": kind, **message, **fields})
        return place

    def user(self, *parts: Any, **fields: Any) -> int:
        return self.add("user", *parts, **fields)

    def model(self, *parts: Any, **fields: Any) -> int:
        return self.add("assistant", *parts, role="model", **fields)

    def system(self, subtype: str, after: int | None = -1, **payload: Any) -> int:
        return self.add("system", after=after, subtype=subtype, systemPayload=payload)

    def ran(
        self,
        name: str,
        output: str,
        call_id: str = "c1",
        args: Any = None,
        **result: Any,
    ) -> None:
        self.model({"functionCall": {"id": call_id, "name": name, "args": args or {}}})
        response = {"id": call_id, "name": name, "response": {"output": output}}
        self.add(
            "tool_result",
            {"functionResponse": response},
            toolCallResult={"callId": call_id, **result},
        )

    def bytes(self) -> bytes:
        return b"".join(json.dumps(row).encode() + b"\n" for row in self.rows)


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_rows(content: Rows | bytes) -> ForeignSession:
        path = tmp_path / "chat.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.bytes())
        session = read_foreign(path)
        assert session.format == "qwen-code"
        assert faults(session) == []
        return session

    return read_rows


def test_a_change_of_a_file_is_read_with_its_diff(rows: Rows, read: Any) -> None:
    rows.user("mend")
    diff = "--- a\n+++ a\n@@ -1 +1,2 @@\n-x\n+y\n+z"
    rows.ran(
        "edit",
        "done",
        args={"file_path": "a"},
        resultDisplay={"fileDiff": diff, "fileName": "a"},
    )
    (result,) = (one for one in view(read(rows)) if isinstance(one, ToolResultMessage))
    assert result.details.files == (
        FileTouch(path="a", action="modified", added=2, removed=1),
    )
    assert (result.details.diff, result.details.brief) == (diff, "+2 −1")


def test_every_branch_is_a_branch_of_the_tree_and_can_be_gone_to(
    rows: Rows, read: Any
) -> None:
    rows.user("one")
    first = rows.model("first answer")
    rows.user("two")
    rows.model("second answer")
    rows.system("rewind", after=first, truncatedCount=2)
    rows.user("three")
    rows.user("anew", after=None)
    made = project(read(rows).entries)
    found = branches(made)
    words = {
        turn: first_line(made.entry(turn.start).text) if turn.start >= 0 else ""
        for turn in found.turns
    }
    parents = {words[turn]: words[turn.parent] for turn in found.turns if turn.parent}
    assert parents == {"one": "", "two": "one", "three": "one", "anew": ""}
    two = next(
        turn
        for turn in found.turns[1:]
        if first_line(made.entry(turn.start).text) == "two"
    )
    then = made.with_entries(Revert(checkpoint=0, moment=two.moment))
    assert [item.message.text for item in then.view] == [
        "one",
        "first answer",
        "two",
        "second answer",
    ]


def content(role: str, *parts: Any) -> Record:
    return {
        "role": role,
        "parts": [{"text": part} if isinstance(part, str) else part for part in parts],
    }


def test_a_compression_leaves_its_summary_and_what_it_kept(
    rows: Rows, read: Any
) -> None:
    rows.user("one")
    rows.model("done one")
    rows.user("two")
    rows.ran("read_file", "a long text")
    kept = [content("user", "two"), *(row["message"] for row in rows.rows[3:5])]
    listed = [content("user", SNAPSHOT), content("model", "Got it."), *kept]
    rows.system(
        "chat_compression", compressedHistory=listed, info={"originalTokenCount": 900}
    )
    rows.user("three")
    session = read(rows)
    assert view_texts(session) == [
        SNAPSHOT,
        "Got it.",
        "two",
        "",
        "a long text",
        "three",
    ]
    (compaction,) = (
        entry for entry in session.entries if isinstance(entry, Compaction)
    )
    assert (compaction.summary, compaction.tokens_before, compaction.strategy) == (
        SNAPSHOT,
        900,
        "qwen-code",
    )
    covered = project(session.entries).view[0].covers
    assert {index for first, last in covered for index in range(first, last + 1)} >= {
        0,
        1,
    }


def test_a_compression_counts_its_own_tokens_and_no_request_for_the_acknowledgement(
    rows: Rows, read: Any
) -> None:
    rows.user("one")
    spent = {"promptTokenCount": 100, "candidatesTokenCount": 5}
    rows.model("done one", usageMetadata=spent, model="m-1")
    for prompt in ("s-1########0", "compress-1"):
        event = {
            "event.name": "qwen-code.api_response",
            "model": "m-1",
            "prompt_id": prompt,
        }
        rows.system(
            "ui_telemetry",
            uiEvent={**event, "input_token_count": 40, "output_token_count": 2},
        )
    listed = [content("user", SNAPSHOT), content("model", "Got it.")]
    rows.system("chat_compression", compressedHistory=listed)
    models = stats_of(read(rows).entries).models
    assert {
        name: (use.requests, use.input, use.output) for name, use in models.items()
    } == {"m-1": (2, 140, 7)}


def test_a_result_that_a_compression_shortened_is_shown_as_it_is_now(
    rows: Rows, read: Any
) -> None:
    rows.user("one")
    rows.ran("read_file", "a long text")
    call, result = (row["message"] for row in rows.rows[1:3])
    short = json.loads(json.dumps(result).replace("a long text", "short"))
    rows.system(
        "chat_compression", compressedHistory=[content("user", "one"), call, short]
    )
    session = read(rows)
    assert view_texts(session) == ["one", "", "short"]
    assert [
        entry.text for entry in session.entries if isinstance(entry, ToolResultMessage)
    ] == ["a long text"]


def test_nothing_but_notes_of_the_program_is_refused_when_asked_for_by_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"type":"user","uuid":"1","parentUuid":null,"message":{"role":"user","content":"hi"}}\n'
    )
    assert read_foreign(path).format == "claude-code"
    with pytest.raises(FoldlineError, match="has no Qwen Code records"):
        read_foreign(path, "qwen-code")


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_read_as_far_as_it_goes(
    rows: Rows, tmp_path: Path, damage: Damager
) -> None:
    rows.user("one")
    rows.ran("read_file", "text")
    rows.system(
        "chat_compression",
        compressedHistory=[content("user", SNAPSHOT), content("model", "Got it.")],
    )
    rows.system("rewind", after=0)
    rows.user("two")
    for seed in range(40):
        path = tmp_path / "a.jsonl"
        path.write_bytes(damage(rows.bytes(), random.Random(seed)))
        try:
            session = read_foreign(path, "qwen-code")
        except FoldlineError:
            continue
        assert faults(session) == []


def test_values_of_wrong_types_end_nothing(rows: Rows, tmp_path: Path) -> None:
    rows.user("one")
    rows.ran("read_file", "text")
    rows.system("chat_compression", compressedHistory=[content("user", SNAPSHOT)])
    chance = random.Random(1)
    odd: list[Any] = [None, 7, "x", [], {}, [1], {"a": []}, 1e308, True]
    for _ in range(300):
        record = json.loads(json.dumps(chance.choice(rows.rows)))
        target = chance.choice(
            [record, record.get("message", record), record.get("systemPayload", record)]
        )
        target[chance.choice(list(target))] = chance.choice(odd)
        path = tmp_path / "a.jsonl"
        path.write_bytes(rows.bytes() + json.dumps(record).encode())
        try:
            assert faults(read_foreign(path, "qwen-code")) == []
        except FoldlineError:
            continue


# --- recorded ---------------------------------------------------------------------------------------


@needs_recorded
@pytest.mark.parametrize("path", recordings("qwen-code"), ids=lambda path: path.name)
def test_every_recorded_session_is_read_with_a_view(path: Path, tmp_path: Path) -> None:
    session = read_foreign(path)
    assert (session.format, faults(session)) == ("qwen-code", [])
    assert view(session) == view_after_a_round_trip(session, tmp_path)
    assert view(session)


@needs_recorded
def test_a_recorded_session_with_a_rewind_has_the_active_branch_only() -> None:
    session = read_foreign(
        SHARED / "qwen-code/019f0000-0000-7000-8000-000000000004.jsonl"
    )
    texts = [message.text for message in view(session)]
    assert texts[:3] == ["Begin the active-chain fixture.", "Continue from the rewound branch.",
                         "Active branch answer."]  # fmt: skip
    assert project(session.entries).title == "Active branch title"
    assert session.header.cwd == "/tmp/as-qwen-fixture/new-project"
