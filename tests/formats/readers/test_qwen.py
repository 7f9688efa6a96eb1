"""Reading the sessions of Qwen Code, on records made here and on its recorded ones."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from foldline.context.branches import branches
from foldline.context.projection import project
from foldline.context.stats import stats_of
from foldline.context.view import first_words
from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    FileTouch,
    FoldlineError,
    ImagePart,
    NoticeRecord,
    Revert,
    ThinkingPart,
    Title,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from support.foreign import DAMAGERS, Damager, faults, said, view, view_after_a_round_trip
from support.recorded import SHARED, needs_recorded, recorded

Record = dict[str, Any]
SNAPSHOT = "<state_snapshot><goal>mend the clock</goal></state_snapshot>"


class Rows:
    """Records of a session, each after the one before, at the place its file would have them."""

    def __init__(self) -> None:
        self.rows: list[Record] = []

    def add(self, kind: str, *parts: Any, role: str = "user", after: int | None = -1, **fields: Any) -> int:
        place = len(self.rows)
        parent = {None: None, -1: f"u{place - 1}" if place else None}.get(after, f"u{after}")
        pieces = [{"text": part} if isinstance(part, str) else part for part in parts]
        message = {"message": {"role": role, "parts": pieces}} if pieces else {}
        head = {"uuid": f"u{place}", "parentUuid": parent, "sessionId": "s1", "cwd": "/x", "version": "0.21"}
        at = {"timestamp": f"2026-08-17T12:00:{place:02}.000Z"}
        self.rows.append({**head, **at, "type": kind, **message, **fields})
        return place

    def user(self, *parts: Any, **fields: Any) -> int:
        return self.add("user", *parts, **fields)

    def model(self, *parts: Any, **fields: Any) -> int:
        return self.add("assistant", *parts, role="model", **fields)

    def system(self, subtype: str, after: int | None = -1, **payload: Any) -> int:
        return self.add("system", after=after, subtype=subtype, systemPayload=payload)

    def ran(self, name: str, output: str, call_id: str = "c1", args: Any = None, **result: Any) -> None:
        self.model({"functionCall": {"id": call_id, "name": name, "args": args or {}}})
        response = {"id": call_id, "name": name, "response": {"output": output}}
        self.add("tool_result", {"functionResponse": response}, toolCallResult={"callId": call_id, **result})

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


def test_prompts_thoughts_calls_and_results_are_read(rows: Rows, read: Any) -> None:
    rows.user("look")
    used = {"promptTokenCount": 12, "cachedContentTokenCount": 5, "candidatesTokenCount": 4,
            "thoughtsTokenCount": 3}  # fmt: skip
    called = {"functionCall": {"id": "c1", "name": "read_file", "args": {"file_path": "/x/a"}}}
    rows.model({"text": "hm", "thought": True}, called, model="qwen3", usageMetadata=used)
    rows.add("tool_result", {"functionResponse": {"id": "c1", "name": "read_file",
             "response": {"output": "one\ntwo"}}}, toolCallResult={"status": "success"})  # fmt: skip
    session = read(rows)
    prompt, answer, result = view(session)
    assert isinstance(prompt, UserMessage)
    assert (prompt.text, prompt.origin) == ("look", "typed")
    assert isinstance(answer, AssistantMessage)
    assert answer.parts[0] == ThinkingPart(text="hm")
    assert (answer.model, answer.usage) == ("qwen3", Usage(input=12, cached=5, output=7, reasoning=3))
    assert isinstance(result, ToolResultMessage)
    assert (result.text, result.details.files) == ("one\ntwo", (FileTouch(path="/x/a", action="read"),))
    assert (session.header.id, session.header.cwd) == ("s1", "/x")


def test_a_result_of_which_only_the_display_was_kept_is_one(rows: Rows, read: Any) -> None:
    rows.user("look")
    rows.model({"functionCall": {"id": "c1", "name": "ls", "args": {}}})
    rows.add("tool_result", toolCallResult={"callId": "c1", "status": "success", "resultDisplay": "a b"})
    assert said(read(rows)) == ["look", "", "a b"]


def test_a_change_of_a_file_is_read_with_its_diff(rows: Rows, read: Any) -> None:
    rows.user("mend")
    diff = "--- a\n+++ a\n@@ -1 +1,2 @@\n-x\n+y\n+z"
    rows.ran("edit", "done", args={"file_path": "a"}, resultDisplay={"fileDiff": diff, "fileName": "a"})
    (result,) = (one for one in view(read(rows)) if isinstance(one, ToolResultMessage))
    assert result.details.files == (FileTouch(path="a", action="modified", added=2, removed=1),)
    assert (result.details.diff, result.details.brief) == (diff, "+2 −1")


def test_what_the_program_adds_to_a_prompt_was_not_typed(rows: Rows, read: Any) -> None:
    rows.user("look", "<qwen:user-prompt-submit-context>\nfrom a hook\n</qwen:user-prompt-submit-context>")
    rows.user("a job ended", subtype="notification")
    rows.user("wait", subtype="mid_turn_user_message")
    rows.user("see @a", "\n--- Content from referenced files ---", "\nContent from @a:\n", "You must obey")
    typed = [message.text for message in view(read(rows)) if getattr(message, "origin", "") == "typed"]
    assert typed == ["look", "wait", "see @a"]


def test_pieces_of_one_message_are_put_together(rows: Rows, read: Any) -> None:
    rows.user("look")
    rows.model({"text": "hm", "thought": True})
    rows.model("Done.", model="qwen3")
    rows.rows[2] |= {"uuid": "u1", "parentUuid": "u0"}
    _, answer = view(read(rows))
    assert (answer.text, answer.thinking, answer.model) == ("Done.", "hm", "qwen3")


def test_a_rewind_takes_back_what_came_after_its_target(rows: Rows, read: Any) -> None:
    first = rows.user("one")
    rows.model("first answer")
    rows.system("ui_telemetry")
    rows.user("two")
    rows.system("rewind", after=first, truncatedCount=2)
    rows.user("three")
    session = read(rows)
    assert said(session) == ["one", "three"]
    assert "first answer" in [entry.text for entry in session.entries if isinstance(entry, AssistantMessage)]


def test_records_that_hang_on_an_earlier_one_begin_a_branch(rows: Rows, read: Any) -> None:
    first = rows.user("one")
    rows.model("dead")
    rows.model("alive", after=first)
    assert said(read(rows)) == ["one", "alive"]


def test_a_record_without_a_parent_begins_anew(rows: Rows, read: Any) -> None:
    rows.user("one")
    rows.user("two", after=None)
    assert said(read(rows)) == ["two"]


def test_every_branch_is_a_branch_of_the_tree_and_can_be_gone_to(rows: Rows, read: Any) -> None:
    rows.user("one")
    first = rows.model("first answer")
    rows.user("two")
    rows.model("second answer")
    rows.system("rewind", after=first, truncatedCount=2)
    rows.user("three")
    rows.user("anew", after=None)
    made = project(read(rows).entries)
    found = branches(made)
    shown = [(row.stem, first_words(made.entry(row.turn.start))) for row in found.rows()[1:]]
    assert shown == [("├─", "one"), ("│ ├─", "two"), ("│ ", "three"), ("", "anew")]
    two = next(turn for turn in found.turns[1:] if first_words(made.entry(turn.start)) == "two")
    then = made.foreseen(Revert(checkpoint=0, moment=two.moment))
    assert [item.message.text for item in then.view] == ["one", "first answer", "two", "second answer"]


def test_a_record_whose_parent_is_lost_goes_on_where_the_file_stands(rows: Rows, read: Any) -> None:
    rows.user("one")
    rows.model("lost")
    rows.user("two")
    del rows.rows[1]
    assert said(read(rows)) == ["one", "two"]


def content(role: str, *parts: Any) -> Record:
    return {"role": role, "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def test_a_compression_leaves_its_summary_and_what_it_kept(rows: Rows, read: Any) -> None:
    rows.user("one")
    rows.model("done one")
    rows.user("two")
    rows.ran("read_file", "a long text")
    kept = [content("user", "two"), *(row["message"] for row in rows.rows[3:5])]
    listed = [content("user", SNAPSHOT), content("model", "Got it."), *kept]
    rows.system("chat_compression", compressedHistory=listed, info={"originalTokenCount": 900})
    rows.user("three")
    session = read(rows)
    assert said(session) == [SNAPSHOT, "Got it.", "two", "", "a long text", "three"]
    (fold,) = (entry for entry in session.entries if isinstance(entry, Compaction))
    assert (fold.summary, fold.tokens_before, fold.strategy) == (SNAPSHOT, 900, "qwen-code")
    covered = project(session.entries).view[0].covers
    assert {index for first, last in covered for index in range(first, last + 1)} >= {0, 1}


def test_a_compression_counts_its_own_tokens_and_no_request_for_the_acknowledgement(
    rows: Rows, read: Any
) -> None:
    rows.user("one")
    spent = {"promptTokenCount": 100, "candidatesTokenCount": 5}
    rows.model("done one", usageMetadata=spent, model="m-1")
    for prompt in ("s-1########0", "compress-1"):
        event = {"event.name": "qwen-code.api_response", "model": "m-1", "prompt_id": prompt}
        rows.system("ui_telemetry", uiEvent={**event, "input_token_count": 40, "output_token_count": 2})
    listed = [content("user", SNAPSHOT), content("model", "Got it.")]
    rows.system("chat_compression", compressedHistory=listed)
    models = stats_of(read(rows).entries).models
    assert {name: (use.requests, use.input, use.output) for name, use in models.items()} == {
        "m-1": (2, 140, 7)
    }


def test_a_second_compression_absorbs_the_first(rows: Rows, read: Any) -> None:
    rows.user("one")
    rows.model("done one")
    rows.system(
        "chat_compression", compressedHistory=[content("user", SNAPSHOT), content("model", "Got it.")]
    )
    rows.user("two")
    again = SNAPSHOT.replace("clock", "bell")
    rows.system("chat_compression", compressedHistory=[content("user", again), content("model", "Got it.")])
    session = read(rows)
    assert said(session) == [again, "Got it."]
    first, second = (entry for entry in session.entries if isinstance(entry, Compaction))
    assert second.written[0].inputs == (first.index,)


def test_a_result_that_a_compression_shortened_is_shown_as_it_is_now(rows: Rows, read: Any) -> None:
    rows.user("one")
    rows.ran("read_file", "a long text")
    call, result = (row["message"] for row in rows.rows[1:3])
    short = json.loads(json.dumps(result).replace("a long text", "short"))
    rows.system("chat_compression", compressedHistory=[content("user", "one"), call, short])
    session = read(rows)
    assert said(session) == ["one", "", "short"]
    assert [entry.text for entry in session.entries if isinstance(entry, ToolResultMessage)] == [
        "a long text"
    ]


def test_a_call_that_a_compression_put_into_a_new_answer_keeps_its_result(rows: Rows, read: Any) -> None:
    rows.user("one")
    rows.model({"functionCall": {"id": "c1", "name": "ls", "args": {}}})
    ack = content("model", "Got it.", {"functionCall": {"id": "c1", "name": "ls", "args": {}}})
    rows.system("chat_compression", compressedHistory=[content("user", SNAPSHOT), ack])
    response = {"id": "c1", "name": "ls", "response": {"output": "a b"}}
    rows.add("tool_result", {"functionResponse": response})
    assert said(read(rows)) == [SNAPSHOT, "Got it.", "a b"]


def test_a_command_that_was_recorded_as_a_prompt_is_not_in_the_view(rows: Rows, read: Any) -> None:
    rows.user("/about")
    shown = [{"type": "assistant", "text": "0.21"}]
    rows.system("slash_command", phase="result", rawCommand="/about", outputHistoryItems=shown)
    rows.user("hello")
    assert said(read(rows)) == ["hello"]


def test_titles_commands_and_pictures_are_read(rows: Rows, read: Any) -> None:
    rows.user("look", {"inlineData": {"mimeType": "image/png", "data": "aGk="}})
    rows.system("custom_title", customTitle="The clock")
    rows.system("slash_command", phase="invocation", rawCommand="/stats")
    session = read(rows)
    assert view(session)[0].parts[1] == ImagePart(media_type="image/png", data="aGk=")
    assert [entry.title for entry in session.entries if isinstance(entry, Title)] == ["The clock"]
    assert [entry.text for entry in session.entries if isinstance(entry, NoticeRecord)] == ["/stats"]


def test_a_file_of_a_sub_agent_is_said_to_be_one(rows: Rows, read: Any) -> None:
    rows.system("agent_bootstrap", kind="fork", history=[content("user", "your task")])
    rows.model("Done.", isSidechain=True, agentId="explore-1")
    session = read(rows)
    assert [(m.text, getattr(m, "origin", "")) for m in view(session)] == [
        ("your task", "machine"),
        ("Done.", ""),
    ]
    assert any("sub-agent" in note for note in session.notes)


def test_two_records_on_one_line_are_both_read(rows: Rows, read: Any) -> None:
    rows.user('say {"a": "}{"} and }{"b":')
    rows.model("Done.")
    session = read(rows.bytes().replace(b"\n", b""))
    assert said(session) == ['say {"a": "}{"} and }{"b":', "Done."]
    assert not session.damage


def test_nothing_but_notes_of_the_program_is_refused_when_asked_for_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type":"user","uuid":"1","parentUuid":null,"message":{"role":"user","content":"hi"}}\n')
    assert read_foreign(path).format == "claude-code"
    with pytest.raises(FoldlineError, match="has no record of Qwen Code"):
        read_foreign(path, "qwen-code")


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_read_as_far_as_it_goes(rows: Rows, tmp_path: Path, damage: Damager) -> None:
    rows.user("one")
    rows.ran("read_file", "text")
    rows.system(
        "chat_compression", compressedHistory=[content("user", SNAPSHOT), content("model", "Got it.")]
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
        target = chance.choice([record, record.get("message", record), record.get("systemPayload", record)])
        target[chance.choice(list(target))] = chance.choice(odd)
        path = tmp_path / "a.jsonl"
        path.write_bytes(rows.bytes() + json.dumps(record).encode())
        try:
            assert faults(read_foreign(path, "qwen-code")) == []
        except FoldlineError:
            continue


# --- recorded ---------------------------------------------------------------------------------------


@needs_recorded
@pytest.mark.parametrize("path", recorded("qwen-code"), ids=lambda path: path.name)
def test_every_recorded_session_is_read_with_a_view(path: Path, tmp_path: Path) -> None:
    session = read_foreign(path)
    assert (session.format, faults(session)) == ("qwen-code", [])
    assert view(session) == view_after_a_round_trip(session, tmp_path)
    assert view(session)


@needs_recorded
def test_a_recorded_session_with_a_rewind_has_the_active_branch_only() -> None:
    session = read_foreign(SHARED / "qwen-code/019f0000-0000-7000-8000-000000000004.jsonl")
    texts = [message.text for message in view(session)]
    assert texts[:3] == ["Begin the active-chain fixture.", "Continue from the rewound branch.",
                         "Active branch answer."]  # fmt: skip
    assert project(session.entries).title == "Active branch title"
    assert session.header.cwd == "/tmp/as-qwen-fixture/new-project"
