"""Subagents of Claude Code: records among the session's, records repeated as progress, files of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import FoldlineError, Subagent
from foldline.view.projection import project
from support.claude_code_rows import call, piece, read, result, text, texts, user
from support.recordings import SHARED, needs_recorded

TASK = {"prompt": "look", "subagent_type": "Explore", "description": "Look around"}


def markers(session: ForeignSession) -> list[Subagent]:
    return [entry for entry in session.entries if isinstance(entry, Subagent)]


def put(path: Path, *records: dict[str, Any]) -> Path:
    """A file of these records, each behind the one before."""
    before, lines = None, []
    for nth, record in enumerate(records):
        named = {
            "uuid": f"{path.stem}-{nth}",
            "parentUuid": before,
            "sessionId": "s1",
            "cwd": "/x",
            **record,
        }
        before = named["uuid"]
        lines.append(json.dumps(named))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def test_records_among_the_sessions_are_a_session_beside_it() -> None:
    session = read(
        user("go", uuid="a"),
        piece("m1", call("c1", "Task", **TASK), uuid="b"),
        user("look", uuid="s1", parentUuid=None, isSidechain=True),
        piece("m2", text("I looked"), uuid="s2", isSidechain=True),
        user("also", uuid="t1", parentUuid=None, isSidechain=True),
        piece("m3", text("me, too"), uuid="t2", isSidechain=True),
        result("c1", "found", uuid="c", parentUuid="b"),
    )
    assert texts(session) == ["go", "", "found"]
    looked, also = session.children
    assert (texts(looked.session), texts(also.session)) == (
        ["look", "I looked"],
        ["also", "me, too"],
    )
    assert (looked.call_id, looked.agent, looked.title) == (
        "c1",
        "Explore",
        "Look around",
    )
    assert also.call_id == ""
    assert [marker.child for marker in markers(session)] == [looked.id, also.id]
    types = [entry.type for entry in session.entries]
    assert types.index("subagent") == types.index("assistant") + 1


def test_files_of_their_own_say_who_worked_and_for_which_call(tmp_path: Path) -> None:
    path = put(
        tmp_path / "s1.jsonl",
        user("go"),
        piece("m1", call("c1", "Agent", prompt="other words")),
        result("c1", "found"),
    )
    folder = tmp_path / "s1" / "subagents"
    put(
        folder / "agent-a1.jsonl",
        user("look", isSidechain=True),
        piece("m2", text("yes"), isSidechain=True),
    )
    about = {"agentType": "Plan", "description": "A plan", "toolUseId": "c1"}
    (folder / "agent-a1.meta.json").write_text(json.dumps(about))
    put(folder / "agent-acompact-9.jsonl", user("summarise", isSidechain=True))
    session = read_foreign(path)
    assert [
        (each.child, each.call_id, each.agent, each.title) for each in markers(session)
    ] == [("a1", "c1", "Plan", "A plan")]
    assert texts(read_foreign(path / "a1")) == ["look", "yes"]
    assert read_foreign(path / "a1").header.id == "a1"
    with pytest.raises(FoldlineError, match=r"'b' .*: it has a1"):
        read_foreign(path / "b")


def test_an_id_that_leads_elsewhere_names_no_folder() -> None:
    session = read(
        user("go", uuid="a"),
        user("look", isSidechain=True, agentId="../../evil", parentUuid=None),
    )
    [child] = session.children
    assert child.id.isalnum()
    assert markers(session)[0].child == child.id


@needs_recorded
@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("entire-manual-compact", [35, 13]),
        ("entire-opus46-small", [38]),
        ("kimicli-zh-images", [9, 3, 7]),
    ],
)
def test_recorded_subagents_stand_behind_the_calls_that_started_them(
    name: str, entries: list[int]
) -> None:
    session = read_foreign(SHARED / f"claude-code/{name}.jsonl")
    assert [len(child.session.entries) for child in session.children] == entries
    assert all(child.agent == "Explore" and child.title for child in session.children)
    places = {entry.index: place for place, entry in enumerate(session.entries)}
    for marker in markers(session):
        before = session.entries[places[marker.index] - 1]
        assert marker.call_id in [each.call_id for each in getattr(before, "calls", ())]
    for child in session.children:
        assert len(project(child.session.entries).view) == len(child.session.entries)
        assert (
            read_foreign(SHARED / f"claude-code/{name}.jsonl" / child.id).entries
            == child.session.entries
        )
