"""Reading the stores of mistral-vibe 3, on small ones made here."""

from pathlib import Path
from typing import Any

import pytest

from foldline.cli.checks import verdict_on
from foldline.cli.sources import read_source
from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Subagent,
    SystemMessage,
    Title,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from support.foreign import faults, said, view, view_after_a_round_trip
from support.vibe_store import (
    VibeStore,
    answered,
    call,
    checkpoint,
    compacted,
    effect,
    message,
    prompt,
    ran,
    request,
    result,
    shown,
    text,
)

TURN = [
    prompt("hi"),
    message("assistant", text("I look."), call("c1", "a.py")),
    result("c1", '{"content":"x"}'),
    message("assistant", text("Done.")),
]
SHOWN = [
    shown("user", "hi"),
    shown("assistant", "I look.", 1),
    effect("a.py", {"content": [], "structured_content": {"content": "x"}}),
    shown("assistant", "Done.", 2),
]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    return lambda *made: VibeStore(tmp_path / "v1", *made)


def read(store: VibeStore) -> ForeignSession:
    session = read_foreign(store.write())
    assert session.format == "mistral-vibe"
    assert faults(session) == []
    return session


def test_the_context_is_the_view(store: Any) -> None:
    session = read(store(TURN, SHOWN))
    assert said(session) == ["hi", "I look.", '{"content":"x"}', "Done."]
    assert (session.header.id, session.header.cwd) == ("v1", "/w")
    assert [entry.title for entry in session.entries if isinstance(entry, Title)] == ["Look"]


def test_messages_have_the_times_at_which_they_were_shown(store: Any) -> None:
    session = read(store(TURN, SHOWN))
    answers = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert [entry.at.second for entry in answers if entry.at] == [6, 7]


def test_a_failed_call_and_a_file_that_was_attached_are_not_the_user_s(store: Any) -> None:
    attached = {"type": "resource", "resource": {"uri": "file:///a", "text": "line"}}
    session = read(
        store([message("user", text("see @a"), attached), *TURN[1:2], result("c1", "no", "failure")], [])
    )
    users = [entry for entry in session.entries if isinstance(entry, UserMessage)]
    assert [(entry.origin, entry.text.splitlines()[0]) for entry in users] == [
        ("typed", "see @a"),
        ("machine", "Resource: file:///a"),
    ]
    [failed] = [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]
    assert failed.is_error


def test_the_last_request_has_what_was_counted_of_it(store: Any) -> None:
    made = store(TURN, SHOWN)
    made.usage = {"inputTokens": 9, "cachedInputTokens": 4, "outputTokens": 3}
    answers = [entry for entry in read(made).entries if isinstance(entry, AssistantMessage)]
    assert [entry.usage for entry in answers] == [None, Usage(input=9, cached=4, output=3)]
    assert {entry.model for entry in answers} == {"devstral"}


def test_what_a_compaction_took_out_is_read_from_what_was_shown(store: Any) -> None:
    context = [*compacted("so far", prompt("hi")), prompt("two"), message("assistant", text("2"))]
    after = [checkpoint("compaction"), shown("user", "two"), shown("assistant", "2")]
    session = read(store(context, [*SHOWN, *after]))
    opening, first, summary, *rest = said(session)
    assert (opening, first) == ("Before: <previous_user_messages>", "hi")
    assert "<compaction_summary>so far" in summary
    assert rest == ["two", "2"]
    results = [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]
    assert [(entry.name, entry.text) for entry in results] == [("read_file", '{"content":"x"}')]
    assert session.notes == (
        "The store has no system prompt.",
        "1 call before the last compaction: made of what was shown of it, "
        "without the id that the model gave it.",
    )


def test_of_earlier_compactions_the_prompts_are_known(store: Any) -> None:
    context = [*compacted("both", prompt("hi"), prompt("two")), prompt("three")]
    after = [
        checkpoint("compaction"),
        shown("user", "two"),
        checkpoint("compaction", "2"),
        shown("user", "three"),
    ]
    session = read(store(context, [*SHOWN, *after]))
    assert said(session)[1:3] == ["hi", "two"]
    first, second = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert (first.summary, "both" in second.summary) == ("", True)
    assert "1 earlier compaction: the store has no summary of it." in session.notes


def test_a_rewind_is_in_the_context_already(store: Any) -> None:
    session = read(store(TURN[:1], [*SHOWN[:1], checkpoint("rewind")]))
    assert said(session) == ["hi"]


def test_a_turn_that_was_broken_off_is_read_from_the_journal(store: Any) -> None:
    asked = [request(*TURN[3:], prompt("two")), answered(text("I look again."), call("c2", "b.py"))]
    session = read(
        store(TURN, SHOWN, *asked, ran("c2", {"content": [], "structured_content": {"content": "y"}}))
    )
    assert said(session)[3:] == ["Done.", "two", "I look again.", '{"content":"y"}']


def test_a_request_with_all_messages_is_the_context(store: Any) -> None:
    whole = request(message("system", text("Be kind.")), prompt("only this"), kind="replace")
    session = read(store(TURN, SHOWN, whole))
    assert said(session) == ["Be kind.", "only this"]
    assert any(isinstance(entry, SystemMessage) for entry in session.entries)


def test_a_subagent_is_a_store_of_its_own(store: Any, tmp_path: Path) -> None:
    made = store(TURN, SHOWN)
    made.runtime["subagents"] = {"children": {"looker": {"child_session_id": "child-1"}}}
    below = VibeStore(tmp_path / "child-1", [prompt("Look around")], [])
    below.runtime["identity"] = {"kind": "subagent", "parent_session_id": "v1"}
    below.runtime["subagents"] = {"children": {"round": {"child_session_id": "v1"}}}
    below.write()
    session = read(made)
    [marker] = [entry for entry in session.entries if isinstance(entry, Subagent)]
    assert (marker.child, marker.agent) == ("child-1", "looker")
    [child] = session.children
    assert [message.origin for message in view(child.session) if isinstance(message, UserMessage)] == [
        "machine"
    ]
    assert (
        "These are the steps of a sub-agent: the agent that started it wrote its prompts."
        in child.session.notes
    )


def test_verify_says_that_the_digests_hold(store: Any) -> None:
    path = store(TURN, SHOWN, request(prompt("two")), answered(text("2"))).write()
    verdict = verdict_on(read_source(str(path)))
    assert verdict.ok
    assert "9 digests of its own checked: all is sound" in str(verdict)


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        ("CURRENT", b"0000000000000007", b"0000000000000009", "manifest.json is missing or empty"),
        ("generations/*/manifest.json", b"path", b"past", "manifest.json is not what its digest says"),
        ("generations/*/checkpoint.json", b"[]", b"[{}]", "checkpoint.json is not what its digest says"),
        ("chunks/*.json", b"hi", b"ho", ".json is not what its digest says"),
        (
            "journal/*.jsonl",
            b"two",
            b"2wo",
            "record 8 of journal/0000000000000008.jsonl is not what its digest says",
        ),
    ],
)
def test_verify_says_where_the_digests_do_not_hold(
    store: Any, name: str, old: bytes, new: bytes, fault: str
) -> None:
    path = store(TURN, SHOWN, request(prompt("two")), answered(text("2"))).write()
    for file in path.parent.glob(name):
        file.write_bytes(file.read_bytes().replace(old, new))
    found = read_source(str(path))
    verdict = verdict_on(found)
    assert not verdict.ok
    assert any(fault in each for each in verdict.unsound)


def test_a_record_that_is_gone_breaks_the_chain(store: Any) -> None:
    path = store(TURN, SHOWN, request(prompt("two")), answered(text("2")), answered(text("3"))).write()
    [journal] = path.parent.glob("journal/*")
    first, _, *rest = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(first + b"".join(rest))
    session = read_foreign(path)
    assert session.digests is not None
    [fault] = session.digests.faults
    assert fault == "record 9 of journal/0000000000000008.jsonl does not follow the one before it"
    assert session.notes[0] == f"{fault}."


def test_a_line_that_is_being_written_is_no_fault(store: Any) -> None:
    path = store(TURN, SHOWN, request(prompt("two"))).write()
    [journal] = path.parent.glob("journal/*")
    journal.write_bytes(journal.read_bytes() + b'{"payload":')
    assert read_foreign(path).digests == read_foreign(path.parent).digests
    digests = read_foreign(path).digests
    assert digests is not None
    assert digests.faults == ()


def test_a_copy_in_our_format_has_the_same_view(store: Any, tmp_path: Path) -> None:
    context = [*compacted("so far", prompt("hi")), prompt("two")]
    session = read(store(context, [*SHOWN, checkpoint("compaction"), shown("user", "two")]))
    assert view_after_a_round_trip(session, tmp_path / "home") == view(session)
