"""Views written for other agents: our readers read the same messages."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given

from foldline.formats import ForeignSession
from foldline.formats.export import INVALID_ARGUMENTS, Exported, HandedView
from foldline.formats.writers.claude_code import write_claude_code
from foldline.formats.writers.codex import write_codex
from foldline.formats.writers.copilot import write_copilot
from foldline.formats.writers.kimi import write_kimi
from foldline.formats.writers.opencode import write_opencode
from foldline.formats.writers.pi import write_pi
from foldline.formats.writers.records import record_line
from foldline.protocol import (
    Compaction,
    Entry,
    SystemMessage,
    Title,
    ToolCallPart,
    Written,
    text_parts,
)
from foldline.protocol.messages import json_object
from foldline.view.items import with_recall
from support.exports import (
    ReceivedMessage,
    handoff,
    read_back,
    received_messages,
    without_markers,
)
from support.history import History, call, history
from support.random_histories import Step, build_history, steps

WRITERS = {
    "claude-code": write_claude_code,
    "codex": write_codex,
    "copilot": write_copilot,
    "opencode": write_opencode,
    "pi": write_pi,
    "kimi-cli": write_kimi,
}
Write = Callable[[HandedView], Exported]
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def spoken(entries: list[Entry], *, program: str = "program") -> list[ReceivedMessage]:
    """Without ids, failures, white space and what names our tools, of which not every format keeps each; what
    says nothing is gone.
    Neighbours of one voice may be one message."""
    joined: list[ReceivedMessage] = []
    for each in received_messages(entries):
        calls = tuple(
            ("", name, arguments if json_object(arguments) else "{}")
            for _, name, arguments in each.calls
        )
        voice = program if each.voice == "program" else each.voice
        each = each._replace(
            voice=voice,
            text=" ".join(
                with_recall(
                    without_markers(each._replace(voice="program")).text, None
                ).split()
            ),
            failed=False,
            answers="",
            calls=calls,
        )
        same = (
            joined
            and joined[-1].voice == each.voice
            and each.voice in ("user", "program", "model")
        )
        if same:
            last = joined.pop()
            each = ReceivedMessage(
                each.voice,
                " ".join(filter(None, (last.text, each.text))),
                last.calls + each.calls,
                images=last.images + each.images,
            )
        if each.text or each.calls or each.images or each.voice == "tool":
            joined.append(each)
    return joined


def compacted() -> History:
    summary = Written(
        message=SystemMessage(origin="summary", parts=text_parts("what went on so far"))
    )
    built = history().system("Be kind.").turn("one", "1")
    built.add(Compaction(summary="s", first_kept_index=built.last + 1, head=(summary,)))
    built.add(Title(title="Two of them"))
    built.user("look", images=1)
    built.assistant(
        "I look.",
        calls=[call("read", "c1", path="a.py"), call("bash", "c2", command="ls")],
    )
    built.result("one\ntwo", images=1).result("no such thing", error=True)
    return built.notice("the file changed").assistant("Done.", model="kimi-k2")


@writers
def test_our_reader_reads_back_the_same_messages(write: Write, tmp_path: Path) -> None:
    entries = compacted().entries
    again = read_back(handoff(entries, write), tmp_path)
    assert not again.damage
    assert spoken(again.entries) == spoken(entries)
    if write is not write_kimi:  # whose reader takes the title from elsewhere
        assert title_of(again) == "Two of them"


def title_of(session: ForeignSession) -> str:
    return next(entry.title for entry in session.entries if isinstance(entry, Title))


@writers
def test_the_summary_is_a_compaction_again(write: Write, tmp_path: Path) -> None:
    again = read_back(handoff(compacted().entries, write), tmp_path)
    [compaction] = [entry for entry in again.entries if isinstance(entry, Compaction)]
    assert (
        without_markers(ReceivedMessage("program", compaction.summary)).text
        == "what went on so far"
    )


@writers
def test_a_call_without_a_result_gets_one(write: Write, tmp_path: Path) -> None:
    entries = (
        history().user("go").assistant(calls=[call("bash", "c1", command="ls")]).entries
    )
    said = received_messages(read_back(handoff(entries, write), tmp_path).entries)
    assert [each.voice for each in said] == ["user", "model", "tool"]
    assert "interrupted" in said[-1].text


@writers
def test_neither_the_system_prompt_nor_instructions_are_written(write: Write) -> None:
    entries = (
        history().system("SECRET-PROMPT").instructions("SECRET-FILE").user("go").entries
    )
    exported = handoff(entries, write)
    assert b"SECRET" not in exported.data
    assert "system prompt" in exported.notes[0]


def _with_ids_apart(happened: list[Step]) -> list[Step]:
    """Every call has an id of its own, as servers give them: by these, other formats find its result."""
    return [
        (kind, 6 * nth + where % 2, how) if kind == "call" else (kind, where, how)
        for nth, (kind, where, how) in enumerate(happened)
    ]


@pytest.mark.quick_cases(2)
@writers
@given(steps)
def test_whatever_happened_the_messages_are_the_same(
    tmp_path_factory: Any, write: Write, happened: list[Step]
) -> None:
    entries = build_history(_with_ids_apart(happened))
    assume(spoken(entries))
    again = read_back(handoff(entries, write), tmp_path_factory.mktemp("again"))
    assert not again.damage
    # Neither Codex nor opencode records of every picture whether the user or the program showed it.
    assert spoken(again.entries, program="user") == spoken(entries, program="user")


@writers
def test_arguments_that_are_no_json_object_are_counted_and_written_as_an_empty_one(
    write: Write,
) -> None:
    deep = '{"a":' * 197 + "1" + "}" * 197
    odd = [deep, "no JSON", "[1]", '{"n": NaN}', '{"n": 1e999}', '{}, "b": {}']
    calls = [
        ToolCallPart(call_id=f"c{nth}", name="read", arguments=text)
        for nth, text in enumerate(odd)
    ]
    exported = handoff(history().user("go").assistant(calls=calls).entries, write)
    assert INVALID_ARGUMENTS.format(calls="6 calls") in exported.notes
    assert b"NaN" not in exported.data
    assert b"no JSON" not in exported.data


def test_half_characters_are_written_so_that_they_can_be_read() -> None:
    line = record_line({"text": "a\ud83d", "more": "文\x00"})
    assert json.loads(line.decode()) == {"text": "a\ud83d", "more": "文\x00"}
    assert line.count(b"\n") == 1


def test_opencode_s_ids_are_in_the_order_of_the_messages() -> None:
    document = json.loads(handoff(compacted().entries, write_opencode).data)
    names = [message["info"]["id"] for message in document["messages"]]
    parts = [
        part["id"] for message in document["messages"] for part in message["parts"]
    ]
    assert names == sorted(names)
    assert parts == sorted(parts)
