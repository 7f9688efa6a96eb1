"""Reading the stores of mistral-vibe 3, on small ones made here."""

from pathlib import Path
from typing import Any

import pytest

from foldline.cli.checks import CONSISTENT, verify_session
from foldline.cli.sources import read_source
from foldline.formats import ForeignSession, read_foreign
from foldline.formats.parts import BY_SUBAGENT
from foldline.protocol import (
    Subagent,
    UserMessage,
)
from support.foreign import faults, view, view_after_a_round_trip, view_texts
from support.vibe_store import (
    VibeStore,
    answer_record,
    call,
    checkpoint,
    compacted_context,
    displayed,
    effect,
    message,
    prompt,
    request,
    result,
    text,
    tool_record,
)

TURN = [
    prompt("hi"),
    message("assistant", text("I look."), call("c1", "a.py")),
    result("c1", '{"content":"x"}'),
    message("assistant", text("Done.")),
]
SHOWN = [
    displayed("user", "hi"),
    displayed("assistant", "I look.", 1),
    effect("a.py", {"content": [], "structured_content": {"content": "x"}}),
    displayed("assistant", "Done.", 2),
]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    return lambda *made: VibeStore(tmp_path / "v1", *made)


def read(store: VibeStore) -> ForeignSession:
    session = read_foreign(store.write())
    assert session.format == "mistral-vibe"
    assert faults(session) == []
    return session


def test_a_turn_that_was_broken_off_is_read_from_the_journal(store: Any) -> None:
    asked = [
        request(*TURN[3:], prompt("two")),
        answer_record(text("I look again."), call("c2", "b.py")),
    ]
    session = read(
        store(
            TURN,
            SHOWN,
            *asked,
            tool_record("c2", {"content": [], "structured_content": {"content": "y"}}),
        )
    )
    assert view_texts(session)[3:] == [
        "Done.",
        "two",
        "I look again.",
        '{"content":"y"}',
    ]


def test_a_subagent_is_a_store_of_its_own(store: Any, tmp_path: Path) -> None:
    made = store(TURN, SHOWN)
    made.runtime["subagents"] = {
        "children": {"looker": {"child_session_id": "child-1"}}
    }
    below = VibeStore(tmp_path / "child-1", [prompt("Look around")], [])
    below.runtime["identity"] = {"kind": "subagent", "parent_session_id": "v1"}
    below.runtime["subagents"] = {"children": {"round": {"child_session_id": "v1"}}}
    below.write()
    session = read(made)
    [marker] = [entry for entry in session.entries if isinstance(entry, Subagent)]
    assert (marker.child, marker.agent) == ("child-1", "looker")
    [child] = session.children
    assert [
        message.origin
        for message in view(child.session)
        if isinstance(message, UserMessage)
    ] == ["machine"]
    assert BY_SUBAGENT in child.session.notes


def test_verify_says_that_the_digests_hold(store: Any) -> None:
    path = store(TURN, SHOWN, request(prompt("two")), answer_record(text("2"))).write()
    verdict = verify_session(read_source(str(path)))
    assert verdict.ok
    assert f"9 digests checked: {CONSISTENT}" in str(verdict)


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (
            "CURRENT",
            b"0000000000000007",
            b"0000000000000009",
            "manifest.json is missing or empty",
        ),
        (
            "generations/*/manifest.json",
            b"path",
            b"past",
            "manifest.json does not match its digest",
        ),
        (
            "generations/*/checkpoint.json",
            b"[]",
            b"[{}]",
            "checkpoint.json does not match its digest",
        ),
        ("chunks/*.json", b"hi", b"ho", ".json does not match its digest"),
        (
            "journal/*.jsonl",
            b"two",
            b"2wo",
            "record 8 of journal/0000000000000008.jsonl does not match its digest",
        ),
    ],
)
def test_verify_says_where_the_digests_do_not_hold(
    store: Any, name: str, old: bytes, new: bytes, fault: str
) -> None:
    path = store(TURN, SHOWN, request(prompt("two")), answer_record(text("2"))).write()
    for file in path.parent.glob(name):
        file.write_bytes(file.read_bytes().replace(old, new))
    found = read_source(str(path))
    verdict = verify_session(found)
    assert not verdict.ok
    assert any(fault in each for each in verdict.faults)


def test_a_line_that_is_being_written_is_no_fault(store: Any) -> None:
    path = store(TURN, SHOWN, request(prompt("two"))).write()
    [journal] = path.parent.glob("journal/*")
    journal.write_bytes(journal.read_bytes() + b'{"payload":')
    assert read_foreign(path).digests == read_foreign(path.parent).digests
    digests = read_foreign(path).digests
    assert digests is not None
    assert digests.faults == ()


def test_a_copy_in_our_format_has_the_same_view(store: Any, tmp_path: Path) -> None:
    context = [*compacted_context("so far", prompt("hi")), prompt("two")]
    session = read(
        store(context, [*SHOWN, checkpoint("compaction"), displayed("user", "two")])
    )
    assert view_after_a_round_trip(session, tmp_path / "home") == view(session)
