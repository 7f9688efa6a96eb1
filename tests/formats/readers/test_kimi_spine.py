"""Scopes of work that Kimi Code's model closes: compacts inside the context, known by calls or by records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.readers.kimi_cli import reader
from formats.readers.test_kimi import Code, write
from support.foreign import faults, view_texts

RECEIPT = "accepted — commits after this step completes"


class Spine(Code):
    def moves(self, tool: str, receipt: str = RECEIPT, **arguments: str) -> "Spine":
        """An answer that calls a tool of the spine, and what came of it."""
        call_id = f"m{len(self.records)}"
        self.event("step.begin", uuid="s")
        self.event(
            "tool.call", stepUuid="s", toolCallId=call_id, name=tool, args=arguments
        )
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
    return [text for text in view_texts(session)[1:] if text and text != RECEIPT]


@pytest.mark.parametrize("receipt", ["Root-epoch nodes cannot be closed.", ""])
def test_a_transition_that_was_not_accepted_compacts_nothing(
    read: Any, receipt: str
) -> None:
    code = Spine()
    code.user("one").moves("spine_open", summary="a").answer("in a")
    code.moves("spine_close", receipt, memory="A.").answer("on")
    assert "in a" in spoken(read(code))


def test_records_without_a_time_are_those_of_kimi_code_all_the_same(read: Any) -> None:
    code = Code().user("hi").answer("I look.", "a")
    for record in code.records:
        record.pop("time", None)
    assert view_texts(read(code)) == ["Be.", "hi", "I look.", "of a"]


STEPS: dict[str, Callable[[Spine, int], object]] = {
    "user": lambda code, nth: code.user(f"u{nth}"),
    "answer": lambda code, nth: code.answer(f"a{nth}", f"c{nth}"),
    "open": lambda code, nth: code.moves("spine_open", summary="s"),
    "close": lambda code, nth: code.moves("spine_close", memory=f"M{nth}."),
    "next": lambda code, nth: code.moves("spine_next", summary="s", memory=f"M{nth}."),
    "undo": lambda code, nth: code.add("context.undo", count=1 + nth % 2),
    "compaction": lambda code, nth: code.compaction(
        compactedCount=9, keptUserMessageCount=nth % 3
    ),
    "old compaction": lambda code, nth: code.compaction(compactedCount=nth % 6),
    "summary of all": lambda code, nth: code.user("So far.", "compaction_summary"),
    "clear": lambda code, nth: code.add("context.clear"),
}


@given(st.lists(st.sampled_from(list(STEPS)), max_size=14))
def test_whatever_is_opened_closed_compacted_and_undone_the_session_is_sound(
    steps: list[str],
) -> None:
    code = Spine()
    code.user("one")
    for nth, step in enumerate(steps):
        STEPS[step](code, nth)
    data = "\n".join(map(json.dumps, code.records)).encode()
    assert faults(reader.read(data, Path("/x/wire.jsonl"))) == []
