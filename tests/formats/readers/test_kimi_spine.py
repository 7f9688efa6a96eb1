"""Scopes of work that Kimi Code's model closes: folds inside the context, known by calls or by records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.projection import project
from foldline.formats import ForeignSession, read_foreign
from foldline.formats.readers.kimi_cli import reader
from foldline.protocol import Compaction
from formats.readers.test_kimi import Code, write
from support.foreign import faults, said

RECEIPT = "accepted — commits after this step completes"


class Spine(Code):
    def moves(self, tool: str, receipt: str = RECEIPT, **arguments: str) -> "Spine":
        """An answer that calls a tool of the spine, and what came of it."""
        call_id = f"m{len(self.records)}"
        self.event("step.begin", uuid="s")
        self.event("tool.call", stepUuid="s", toolCallId=call_id, name=tool, args=arguments)
        self.event("tool.result", toolCallId=call_id, result={"output": receipt})
        self.event("step.end", uuid="s")
        return self


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_records(code: Code) -> ForeignSession:
        write(tmp_path / "wire.jsonl", code.records)
        session = read_foreign(tmp_path / "wire.jsonl")
        assert faults(session) == []
        return session

    return read_records


def spoken(session: ForeignSession) -> list[str]:
    """The view without system prompt, transitions and their receipts."""
    return [text for text in said(session)[1:] if text and text != RECEIPT]


def test_a_closed_scope_is_its_memory_in_its_place_with_the_prompts_of_it(read: Any) -> None:
    code = Spine()
    code.user("one").answer("plan")
    code.moves("spine_open", summary="dig").answer("digging", "a").user("deeper").answer("deep")
    code.moves("spine_close", memory="Dug.").answer("on")
    session = read(code)
    assert spoken(session) == ["one", "plan", "deeper", "Dug.", "on"]
    [fold] = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert fold.summary == "Dug."


def test_a_scope_that_follows_another_leaves_both_memories(read: Any) -> None:
    code = Spine()
    code.user("one").moves("spine_open", summary="a").answer("in a")
    code.moves("spine_next", summary="b", memory="A.").answer("in b")
    code.moves("spine_close", memory="B.").answer("on").user("two")
    assert spoken(read(code)) == ["one", "A.", "B.", "on", "two"]


def test_a_scope_around_another_keeps_its_memory(read: Any) -> None:
    code = Spine()
    code.user("one").moves("spine_open", summary="a").answer("in a")
    code.moves("spine_open", summary="b").answer("in b").moves("spine_close", memory="B.").answer(
        "in a again"
    )
    code.moves("spine_close", memory="A.").answer("on")
    assert spoken(read(code)) == ["one", "B.", "A.", "on"]


@pytest.mark.parametrize("receipt", ["Root-epoch nodes cannot be closed.", ""])
def test_a_transition_that_was_not_accepted_folds_nothing(read: Any, receipt: str) -> None:
    code = Spine()
    code.user("one").moves("spine_open", summary="a").answer("in a")
    code.moves("spine_close", receipt, memory="A.").answer("on")
    assert "in a" in spoken(read(code))


def test_an_undo_over_a_closed_scope_opens_it_again(read: Any) -> None:
    code = Spine()
    code.user("one").moves("spine_open", summary="a").answer("in a").user("two")
    code.moves("spine_close", memory="A.").answer("on").add("context.undo", count=1)
    code.user("three").moves("spine_close", memory="All.").answer("end")
    assert spoken(read(code)) == ["one", "three", "All.", "end"]


def test_transitions_on_record_count_where_there_are_any(read: Any) -> None:
    code = Spine()
    code.user("one").answer("plan").answer("in a", "x").answer("more").answer("carrier")
    code.add("spine.open", id="1.1.1", summary="a", parentId="1.1", openedAt=2)
    code.add("spine.close", id="1.1.1", closedAt=4, memory="A.").answer("on")
    session = read(code)
    assert spoken(session) == ["one", "plan", "A.", "carrier", "on"]
    assert not any("unknown here" in note for note in session.notes)


def test_a_summary_of_all_begins_the_context_anew(read: Any) -> None:
    code = Spine()
    code.user("one").moves("spine_open", summary="a").answer("in a")
    code.user("So far.", "compaction_summary").user("two").answer("on")
    assert spoken(read(code)) == ["So far.", "two", "on"]


def test_a_fold_of_all_after_a_scope_stands_for_its_memory_too(read: Any) -> None:
    code = Spine()
    code.user("one").moves("spine_open", summary="a").answer("in a")
    code.moves("spine_close", memory="A.").answer("on").fold(compactedCount=99, keptUserMessageCount=1)
    code.answer("end")
    session = read(code)
    assert spoken(session) == ["one", "So far.", "end"]
    folds = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert folds[-1].head[-1].inputs == (folds[0].index,)
    assert project(session.entries).compactions()


def test_the_count_of_messages_of_a_request_is_held_against_the_view(read: Any) -> None:
    code = Code().user("one")
    for nth in range(20):
        code.answer(f"step {nth}")
    for kind, count in (("loop", 6), ("compaction", 1)):
        code.records.append({"type": "llm.request", "kind": kind, "messageCount": count})
    notes = read(code.answer("end")).notes
    assert notes == (
        "By the file's own count, the last request had 6 messages; the view there has 21: something that "
        "changed the context was not understood.",
    )


def test_records_without_a_time_are_those_of_kimi_code_all_the_same(read: Any) -> None:
    code = Code().user("hi").answer("I look.", "a")
    for record in code.records:
        record.pop("time", None)
    assert said(read(code)) == ["Be.", "hi", "I look.", "of a"]


def test_a_record_of_an_unknown_kind_is_named(read: Any) -> None:
    notes = read(Code().user("hi").add("context.rewrite", to=3)).notes
    assert notes == ("Not in the view, records of kinds unknown here: context.rewrite (1).",)


STEPS: dict[str, Callable[[Spine, int], object]] = {
    "user": lambda code, nth: code.user(f"u{nth}"),
    "answer": lambda code, nth: code.answer(f"a{nth}", f"c{nth}"),
    "open": lambda code, nth: code.moves("spine_open", summary="s"),
    "close": lambda code, nth: code.moves("spine_close", memory=f"M{nth}."),
    "next": lambda code, nth: code.moves("spine_next", summary="s", memory=f"M{nth}."),
    "open on record": lambda code, nth: code.add("spine.open", id="x", summary="s", openedAt=nth % 5),
    "close on record": lambda code, nth: code.add("spine.close", id="x", memory="R.", closedAt=nth),
    "undo": lambda code, nth: code.add("context.undo", count=1 + nth % 2),
    "fold": lambda code, nth: code.fold(compactedCount=9, keptUserMessageCount=nth % 3),
    "old fold": lambda code, nth: code.fold(compactedCount=nth % 6),
    "summary of all": lambda code, nth: code.user("So far.", "compaction_summary"),
    "clear": lambda code, nth: code.add("context.clear"),
}


@given(st.lists(st.sampled_from(list(STEPS)), max_size=14))
def test_whatever_is_opened_closed_folded_and_undone_the_session_is_sound(steps: list[str]) -> None:
    code = Spine()
    code.user("one")
    for nth, step in enumerate(steps):
        STEPS[step](code, nth)
    data = "\n".join(map(json.dumps, code.records)).encode()
    assert faults(reader.read(data, Path("/x/wire.jsonl"))) == []
