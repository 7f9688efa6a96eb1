"""Forks and reverted threads of Codex, whose beginning lies in another file."""

import json
from pathlib import Path

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.readers.codex.rows import REVERTED
from support.codex_rows import META, Row, answer, call, event, message_row, output
from support.foreign import faults, view_texts

PARENT, FORK, SECOND = "aaaa-1111", "bbbb-2222", "cccc-3333"


def item_completed(kind: str, **fields: object) -> Row:
    return event(
        "item_completed",
        thread_id="t",
        turn_id="t1",
        item={"type": kind, "id": "i", **fields},
    )


def typed(text: str) -> list[Row]:
    """A prompt as paginated sessions hold it."""
    return [
        message_row("user", text),
        item_completed(
            "UserMessage", content=[{"type": "text", "text": text, "text_elements": []}]
        ),
    ]


def write(
    folder: Path, name: str, *rows: Row, base: object = None, first: int = 0
) -> bytes:
    """A file of these rows, with ordinals from `first` on."""
    payload = {
        **META["payload"],
        "id": name,
        "history_mode": "paginated",
        "history_base": base,
    }
    numbered = [
        {**row, "ordinal": ordinal}
        for ordinal, row in enumerate([{**META, "payload": payload}, *rows], first)
    ]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in numbered)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"rollout-2026-01-02T03-04-05-{name}.jsonl").write_bytes(data)
    return data


def read(folder: Path, name: str) -> ForeignSession:
    session = read_foreign(folder / f"rollout-2026-01-02T03-04-05-{name}.jsonl")
    assert faults(session) == []
    indices = [entry.index for entry in session.entries]
    assert indices == sorted(set(indices))
    return session


def up_to(data: bytes, lines: int, name: str) -> dict[str, object]:
    """The base that a fork names after so many lines."""
    end = len(b"".join(data.splitlines(keepends=True)[:lines]))
    return {"thread_id": name, "end_byte_offset": end, "end_ordinal_exclusive": lines}


@pytest.mark.parametrize("name", [PARENT, "../../etc/passwd", "*", "", FORK])
def test_a_base_that_is_not_here_is_said(tmp_path: Path, name: str) -> None:
    base = {"thread_id": name, "end_byte_offset": 10, "end_ordinal_exclusive": 5}
    write(tmp_path, FORK, *typed("three"), *answer("3"), base=base, first=5)
    session = read(tmp_path, FORK)
    assert view_texts(session) == ["three", "3"]
    [note] = [
        note
        for note in session.notes
        if note.startswith("The beginning of the session is missing")
    ]
    assert f"{name}.jsonl" in note


def test_a_file_that_a_revert_left_names_the_one_where_the_thread_goes_on(
    tmp_path: Path,
) -> None:
    data = write(
        tmp_path, PARENT, *typed("one"), *answer("1"), *typed("two"), *answer("2")
    )
    newer = write(
        tmp_path, PARENT, *typed("three"), base=up_to(data, 5, PARENT), first=5
    )
    (tmp_path / f"rollout-2026-01-02T03-04-05-{PARENT}.jsonl").write_bytes(data)
    moved = tmp_path / f"rollout-2026-01-02T03-09-05-{PARENT}_{SECOND}.jsonl"
    moved.write_bytes(newer)
    assert REVERTED.format(file=moved.name) in read(tmp_path, PARENT).notes
    session = read_foreign(moved)
    assert view_texts(session) == ["one", "1", "three"]
    assert REVERTED.format(file=moved.name) not in session.notes


def test_a_system_prompt_that_codex_may_have_shortened_is_approximate(
    tmp_path: Path,
) -> None:
    data = write(tmp_path, PARENT, *typed("one"))
    for text, is_said in (("Be brief. Use `update_plan`.", True), ("Be brief.", False)):
        told = data.replace(
            b'"history_mode"',
            f'"base_instructions": {json.dumps({"text": text})}, "history_mode"'.encode(),
        )
        (tmp_path / f"rollout-2026-01-02T03-04-05-{PARENT}.jsonl").write_bytes(told)
        assert (
            any("approximate" in note for note in read(tmp_path, PARENT).notes)
            is is_said
        )


# --- what paginated sessions have in place of events of their own ---------------------------------------


@pytest.mark.parametrize(
    ("status", "changed"), [("completed", 1), (None, 1), ("failed", 0), ("declined", 0)]
)
def test_file_changes_are_known_by_the_completed_items(
    tmp_path: Path, status: str | None, changed: int
) -> None:
    diff = "@@ -1,1 +1,2 @@\n-a\n+b\n+c\n"
    changes = {"/x/a.py": {"type": "update", "unified_diff": diff, "move_path": None}}
    done = item_completed("FileChange", changes=changes, status=status)
    done["payload"]["item"]["id"] = "c"
    again = event("patch_apply_end", call_id="c", changes=changes, success=True)
    rows = (
        *typed("one"),
        call("c", "exec"),
        done,
        *([again] if changed else []),
        output("c"),
    )
    write(tmp_path, PARENT, *rows)
    [result] = [
        entry for entry in read(tmp_path, PARENT).entries if entry.type == "tool_result"
    ]
    assert [
        (touch.path, touch.added, touch.removed) for touch in result.details.files
    ] == [("/x/a.py", 2, 1)] * changed


# --- subagents --------------------------------------------------------------------------------------------


def started(folder: Path, name: str, parent: str, text: str) -> None:
    spawn = {
        "thread_spawn": {
            "parent_thread_id": parent,
            "depth": 1,
            "agent_role": "explorer",
        }
    }
    payload = {**META["payload"], "id": name, "source": {"subagent": spawn}}
    lines = [{**META, "payload": payload}, *typed("look"), *answer(text)]
    path = folder / f"rollout-2026-01-02T03-04-06-{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def activity(call_id: str, kind: str) -> Row:
    made = event("sub_agent_activity", event_id=call_id, agent_thread_id=SECOND)
    return {**made, "payload": {**made["payload"], "kind": kind}}


SPAWNED = {
    "type": "SubAgentActivity",
    "id": "c1",
    "kind": "started",
    "agent_thread_id": SECOND,
}
SAID = {
    "its result": [output("c1", json.dumps({"agent_id": SECOND}))],
    "an event": [
        activity("c1", "started"),
        output("c1", json.dumps({"task_name": "/root/look"})),
        activity("c9", "interacted"),
    ],
    "an item": [
        event("item_completed", item=SPAWNED),
        output("c1", json.dumps({"task_name": "/root/look", "nickname": "Nash"})),
        event("item_completed", item={**SPAWNED, "id": "c9", "kind": "completed"}),
    ],
    "an older event": [
        event("collab_agent_spawn_end", call_id="c1", new_thread_id=SECOND),
        output("c1"),
    ],
}


@pytest.mark.parametrize("how", SAID)
def test_a_subagents_file_is_found_by_what_the_session_says_of_it(
    tmp_path: Path, how: str
) -> None:
    spawn = call("c1", "spawn_agent", message="look", agent_type="explorer")
    write(tmp_path, PARENT, *typed("go"), spawn, *SAID[how], *answer("done"))
    started(tmp_path, SECOND, PARENT, "I looked")
    session = read(tmp_path, PARENT)
    [child] = session.children
    assert (child.id, child.agent, child.call_id) == (SECOND, "explorer", "c1")
    assert view_texts(child.session) == ["look", "I looked"]
    known = [entry.type for entry in session.entries if "." not in entry.type]
    assert known[known.index("subagent") - 1] == "assistant"
    assert known[known.index("subagent") + 1] == "tool_result"
