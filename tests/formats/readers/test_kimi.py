"""Reading the files of kimi-cli and Kimi Code, on small ones made here and on recorded ones."""

import json
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from foldline.formats import ForeignSession, read_foreign
from foldline.past.stats import stats_of
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    ModelChange,
    Subagent,
    Unknown,
    UserMessage,
)
from support.foreign import faults, view, view_texts
from support.limits import examples
from support.recordings import needs_recorded, recordings

Record = dict[str, Any]
FILES = recordings("kimi")
COMPACTED = "<system>Previous context has been compacted. Here is the compaction output:</system>"
DMAIL = (
    "<system>You just got a D-Mail from your future self. Do not look there.</system>"
)
PROMPT = {"role": "_system_prompt", "content": "Be kind."}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read the last of these states, with the earlier ones beside it as kimi-cli leaves them."""

    def read_states(
        *states: list[Record], name: str = "context.jsonl"
    ) -> ForeignSession:
        path = tmp_path / name
        for number, state in enumerate(states[:-1], start=1):
            write(path.with_name(f"{path.stem}_{number}.jsonl"), state)
        write(path, states[-1])
        session = read_foreign(path)
        assert session.format == "kimi-cli"
        assert faults(session) == []
        return session

    return read_states


def write(path: Path, records: list[Record]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def text(text: str) -> Record:
    return {"type": "text", "text": text}


def message(role: str, *pieces: str | Record, **fields: Any) -> Record:
    content = [text(piece) if isinstance(piece, str) else piece for piece in pieces]
    return {"role": role, "content": content, **fields}


def checkpoint(number: int) -> Record:
    return {"role": "_checkpoint", "id": number}


def usage(tokens: int) -> Record:
    return {"role": "_usage", "token_count": tokens}


def calling(call_id: str, name: str, **arguments: Any) -> Record:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return message(
        "assistant",
        tool_calls=[{"type": "function", "id": call_id, "function": function}],
    )


def result(call_id: str, *pieces: str | Record) -> Record:
    return message("tool", *pieces, tool_call_id=call_id)


# --- a context ---------------------------------------------------------------------------------------


# --- its earlier states ------------------------------------------------------------------------------

FIRST = [
    PROMPT,
    checkpoint(0),
    message("user", "one"),
    message("assistant", "two"),
    usage(50),
]
GROWN = [
    *FIRST,
    checkpoint(1),
    message("user", "three"),
    calling("a:0", "Shell", command="ls"),
    result("a:0", "a file"),
    usage(90),
]
COMPACTED = [
    PROMPT,
    checkpoint(0),
    message("user", COMPACTED, "One and two."),
    *GROWN[6:9],
    usage(20),
]


def test_an_earlier_state_is_also_a_session_of_its_own(
    read: Any, tmp_path: Path
) -> None:
    read(GROWN, COMPACTED)
    assert view_texts(read_foreign(tmp_path / "context_1.jsonl")) == [
        "Be kind.",
        "one",
        "two",
        "three",
        "",
        "a file",
    ]


PIECES: list[list[Record]] = [
    *([record] for record in GROWN[:7]),
    [usage(90)],
    GROWN[7:9],
    [message("user", COMPACTED, "Summary.")],
    [message("user", DMAIL)],
    [message("user", "<system>CHECKPOINT 1</system>")],
    [calling("a:1", "ReadFile", path="x")],
    [calling("a:1", "ReadFile", path="x"), result("a:1", "x")],
    [{"role": "odd"}],
]
"""What states are made of. kimi-cli adds a result right after its call, or never."""


@given(
    states=st.lists(
        st.lists(st.sampled_from(PIECES), min_size=1, max_size=8),
        min_size=1,
        max_size=4,
    ),
    repeats=st.integers(0, 6),
)
@settings(
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_states_give_the_view_of_the_last(
    tmp_path: Path, states: list[Any], repeats: int
) -> None:
    states = [[PROMPT, *chain.from_iterable(state)] for state in states]
    for number, state in enumerate(states[:-1], start=1):
        write(tmp_path / f"context_{number}.jsonl", state)
    for stale in range(len(states), 5):
        (tmp_path / f"context_{stale}.jsonl").unlink(missing_ok=True)
    if len(states) > 1:
        states[-1] = [*states[-2][:repeats], *states[-1]]
    # Without a message in it, a file of ten records is refused.
    assume(
        any(
            record["role"] in ("user", "assistant")
            for state in states
            for record in state
        )
    )
    write(tmp_path / "context.jsonl", states[-1])
    session = read_foreign(tmp_path / "context.jsonl", "kimi-cli")
    assert faults(session) == []
    alone = tmp_path / "alone.jsonl"
    write(alone, states[-1])
    assert view_texts(session) == view_texts(read_foreign(alone, "kimi-cli"))


# --- a wire ------------------------------------------------------------------------------------------


def event(kind: str, seconds: float = 1.5, **payload: Any) -> Record:
    return {"timestamp": seconds, "message": {"type": kind, "payload": payload}}


WIRE_HEAD = {"type": "metadata", "protocol_version": "1.3"}


# --- Kimi Code ---------------------------------------------------------------------------------------


class Code:
    """Records of Kimi Code, numbered as they come."""

    def __init__(self) -> None:
        self.records: list[Record] = [
            {"type": "metadata", "protocol_version": "1.5", "created_at": 1},
            {
                "type": "config.update",
                "systemPrompt": "Be.",
                "modelAlias": "kimi/k2",
                "time": 1000,
            },
        ]

    def add(self, kind: str, **fields: Any) -> "Code":
        self.records.append({"type": kind, "time": 1000 + len(self.records), **fields})
        return self

    def user(self, words: str, kind: str = "user", **origin: Any) -> "Code":
        entry = message("user", words, toolCalls=[], origin={"kind": kind, **origin})
        return self.add("context.append_message", message=entry)

    def event(self, kind: str, **fields: Any) -> "Code":
        return self.add("context.append_loop_event", event={"type": kind, **fields})

    def answer(self, words: str, *calls: str) -> "Code":
        self.event("step.begin", uuid="s").event(
            "content.part", stepUuid="s", part=text(words)
        )
        for each in calls:
            self.event(
                "tool.call",
                stepUuid="s",
                toolCallId=each,
                name="Read",
                args={"path": each},
            )
        for each in calls:
            self.event("tool.result", toolCallId=each, result={"output": f"of {each}"})
        return self.event(
            "step.end",
            uuid="s",
            usage={"inputOther": 7, "inputCacheRead": 1, "output": 2},
        )

    def compaction(self, **fields: Any) -> "Code":
        return self.add(
            "context.apply_compaction",
            summary="So far.",
            tokensBefore=9,
            tokensAfter=4,
            **fields,
        )


def branch(code: Code, count: int = 1) -> Code:
    """An undo of Kimi Code 2."""
    code.add(
        "agent.switched",
        branch="b1",
        base={"branch": "main", "line": 1},
        reason="undo",
        turns=count,
    )
    return code.add("context.undo", count=count).add(
        "context.undone", turns=count, fromTurnId=1
    )


def test_results_of_kimi_code_say_how_long_they_took_and_how_they_ended(
    read: Any,
) -> None:
    code = Code().user("hi").event("step.begin", uuid="s")
    results = {
        "Bash": {"output": "five\n", "durationMs": 33},
        "Read": {"output": "one", "durationMs": 6, "note": "<system>1 line</system>"},
        "Agent": {"output": "no", "isError": True, "durationMs": 1500},
        "Edit": {"output": ""},
    }
    for name in results:
        code.event("tool.call", stepUuid="s", toolCallId=name, name=name, args={})
    for name, each in results.items():
        code.event("tool.result", toolCallId=name, result=each)
    session = read(code.event("step.end", uuid="s").records, name="wire.jsonl")
    assert view_texts(session)[3:] == [
        "Wall time: 0.033 seconds\nfive\n",
        "one\n<system>1 line</system>",
        "Wall time: 1.500 seconds\n<system>ERROR: Tool execution failed.</system>\nno",
        "<system>Tool output is empty.</system>",
    ]
    assert [each.details.brief for each in view(session)[3:]] == [
        "1 line",
        "1 line",
        "failed",
        "done",
    ]


def test_requests_beside_the_conversation_count(read: Any) -> None:
    spent = {"inputOther": 40, "inputCacheRead": 60, "output": 3}
    code = (
        Code()
        .user("hi")
        .answer("Hello.")
        .add("usage.record", usage=spent, usageScope="session")
    )
    session = read(
        code.add("usage.record", usage=spent, usageScope="turn").records,
        name="wire.jsonl",
    )
    use = stats_of(session.entries).models["k2"]
    assert (use.requests, use.input, use.output) == (2, 108, 5)


STEPS = st.sampled_from(
    [
        branch,
        lambda code: branch(code, 2),
        lambda code: code.compaction(
            compactedCount=2, keptUserMessageCount=1, wireLines={}
        ),
        lambda code: code.user("prompt").answer("answer"),
        lambda code: code.answer("answer", "a"),
        lambda code: code.user("note", "injection"),
        lambda code: code.event("step.begin", uuid="s").event(
            "content.part", stepUuid="s", part=text("x")
        ),
        lambda code: code.event(
            "tool.call", stepUuid="s", toolCallId="z", name="Read", args={}
        ),
        lambda code: code.event("tool.result", toolCallId="z", result={"output": "z"}),
        lambda code: code.event("step.end", uuid="s"),
        lambda code: code.compaction(compactedCount=2),
        lambda code: code.compaction(compactedCount=3, keptUserMessageCount=2),
        lambda code: code.compaction(
            compactedCount=9, keptUserMessageCount=3, keptHeadUserMessageCount=1
        ),
        lambda code: code.add("context.undo", count=1),
        lambda code: code.add("context.undo", count=2),
        lambda code: code.add("context.clear"),
        lambda code: code.add("turn.cancel"),
    ]
)


@given(st.lists(STEPS, max_size=14))
@settings(
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_events_of_kimi_code_give_a_sound_session(
    tmp_path: Path, steps: list[Any]
) -> None:
    code = Code().user("one")
    for step in steps:
        step(code)
    write(tmp_path / "wire.jsonl", code.records)
    assert faults(read_foreign(tmp_path / "wire.jsonl")) == []


# --- recorded files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", recordings("kimi/ctx-a"), ids=lambda path: path.name)
@needs_recorded
def test_a_recorded_context_comes_whole(path: Path) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    session = read_foreign(path)
    messages = [record for record in records if not record["role"].startswith("_")]
    started = [entry for entry in session.entries if isinstance(entry, Subagent)]
    assert len(session.entries) == len(records) + len(started) and len(started) == len(
        session.children
    )
    assert [each.type for each in view(session)] == [
        record["role"].replace("tool", "tool_result") for record in messages
    ]
    assert [entry.id for entry in session.entries if isinstance(entry, Checkpoint)] == [
        record["id"] for record in records if record["role"] == "_checkpoint"
    ]
    after = [
        following["token_count"]
        for record, following in pairwise(records)
        if record["role"] == "assistant"
    ]
    answers = [
        entry for entry in session.entries if isinstance(entry, AssistantMessage)
    ]
    assert [answer.usage.total for answer in answers] == after
    typed = [entry for entry in session.entries if isinstance(entry, UserMessage)]
    assert [user.origin for user in typed] == [
        "machine" if "_sub_" in path.name else "typed"
    ]


@needs_recorded
def test_a_recorded_wire_holds_its_prompts_once_and_no_answer(tmp_path: Path) -> None:
    session = read_foreign(
        next(path for path in FILES if path.name == "wire14-small.jsonl")
    )
    assert view_texts(session)[1:] == ["hi", "hi", "stop"]
    assert session.header.cwd == "/private/tmp/as-agent-lab/kimi/project"
    [model] = [entry for entry in session.entries if isinstance(entry, ModelChange)]
    assert model.model == "kimi-k2.7-code"
    assert sum(isinstance(entry, Unknown) for entry in session.entries) > 20


@pytest.mark.parametrize(
    "junk", [None, 3, "x", [], [None, 3, "x"], {"a": 1}, True, -1, 1e400]
)
def test_values_of_the_wrong_shape_are_never_an_error(read: Any, junk: Any) -> None:
    odd = [
        {
            "role": role,
            "content": junk,
            "tool_calls": junk,
            "tool_call_id": junk,
            "id": junk,
            "token_count": junk,
        }
        for role in (
            "_system_prompt",
            "_checkpoint",
            "_usage",
            "user",
            "assistant",
            "tool",
            "system",
            junk,
        )
    ]
    read([checkpoint(0), *odd], [checkpoint(0), *odd[3:]])
    kinds = (
        "TurnBegin",
        "ContentPart",
        "ToolCall",
        "ToolCallPart",
        "ToolResult",
        "StatusUpdate",
        "x",
        junk,
    )
    payload = {
        "user_input": junk,
        "id": junk,
        "function": junk,
        "return_value": junk,
        "token_usage": junk,
    }
    wire = [event(kind, **payload) for kind in kinds]
    read([WIRE_HEAD, *wire, {"timestamp": junk, "message": junk}], name="wire.jsonl")
    code = Code()
    for kind in (
        "context.append_message",
        "context.append_loop_event",
        "context.undo",
        "config.update",
    ):
        code.add(
            kind,
            message=junk,
            event=junk,
            count=junk,
            systemPrompt=junk,
            modelAlias=junk,
        )
    for kind in (
        "step.begin",
        "content.part",
        "tool.call",
        "tool.result",
        "step.end",
        junk,
    ):
        code.event(
            kind,
            uuid=junk,
            part=junk,
            toolCallId=junk,
            name=junk,
            args=junk,
            result=junk,
            usage=junk,
        )
    code.add(
        "context.apply_compaction",
        summary=junk,
        compactedCount=junk,
        keptUserMessageCount=junk,
    )
    read(code.records, name="wire2.jsonl")


def test_subagents_of_kimi_code_lie_beside_the_main_agent(tmp_path: Path) -> None:
    main, helper = Code().user("go"), Code().user("look").answer("I looked")
    task = {"prompt": "look", "description": "Look around", "subagent_type": "coder"}
    said_by_it = "agent_id: agent-0\nactual_subagent_type: coder\nstatus: completed\n\n[summary]\nI looked"
    main.event("step.begin", uuid="s").event(
        "tool.call", stepUuid="s", toolCallId="c1", name="Agent", args=task
    ).event("tool.result", toolCallId="c1", result={"output": said_by_it}).event(
        "step.end", uuid="s"
    )
    for name, code in {"main": main, "agent-0": helper}.items():
        (tmp_path / "agents" / name).mkdir(parents=True)
        write(tmp_path / "agents" / name / "wire.jsonl", code.records)
    (tmp_path / "agents" / "loop").symlink_to(tmp_path)
    session = read_foreign(tmp_path / "agents" / "main" / "wire.jsonl")
    [child] = session.children
    assert (child.id, view_texts(child.session)[-2:]) == (
        "agent-0",
        ["look", "I looked"],
    )
    assert (child.call_id, child.agent, child.title) == ("c1", "coder", "Look around")
    assert session.entries[-1].type == "subagent"
    assert read_foreign(tmp_path / "agents" / "agent-0" / "wire.jsonl").children == ()
