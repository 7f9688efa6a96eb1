"""Reading the files of kimi-cli and Kimi Code, on small ones made here and on recorded ones."""

import json
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from foldline.context.projection import project
from foldline.context.stats import stats_of
from foldline.formats import ForeignSession, read_foreign
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    Clear,
    Compaction,
    DeveloperMessage,
    FileTouch,
    ImagePart,
    Kept,
    ModelChange,
    Revert,
    Subagent,
    SystemMessage,
    ThinkingPart,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
    Written,
)
from support.foreign import faults, said, view
from support.limits import examples
from support.recorded import needs_recorded, recorded

Record = dict[str, Any]
FILES = recorded("kimi")
COMPACTED = "<system>Previous context has been compacted. Here is the compaction output:</system>"
DMAIL = "<system>You just got a D-Mail from your future self. Do not look there.</system>"
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
PROMPT = {"role": "_system_prompt", "content": "Be kind."}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read the last of these states, with the earlier ones beside it as kimi-cli leaves them."""

    def read_states(*states: list[Record], name: str = "context.jsonl") -> ForeignSession:
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
    return message("assistant", tool_calls=[{"type": "function", "id": call_id, "function": function}])


def result(call_id: str, *pieces: str | Record) -> Record:
    return message("tool", *pieces, tool_call_id=call_id)


# --- a context ---------------------------------------------------------------------------------------


def test_a_context_is_read_as_the_model_saw_it(read: Any) -> None:
    session = read(
        [
            PROMPT,
            checkpoint(0),
            {"role": "user", "content": "hi"},
            message("assistant", {"type": "think", "think": "hm", "encrypted": "sig"}, "I look."),
            calling("ReadFile:0", "ReadFile", path="a.py"),
            result("ReadFile:0", "<system>2 lines read.</system>", "one\ntwo"),
        ]
    )
    assert said(session)[:3] == ["Be kind.", "hi", "I look."]
    prompt, _, _, answer, _, looked = session.entries
    assert isinstance(prompt, SystemMessage)
    assert answer.parts[0] == ThinkingPart(text="hm", signature="sig")
    assert (looked.name, looked.details.brief) == ("ReadFile", "2 lines")
    assert looked.details.files == (FileTouch(path="a.py", action="read"),)


def test_what_the_program_said_is_no_prompt(read: Any) -> None:
    session = read(
        [
            checkpoint(0),
            message("user", "typed"),
            message("user", "<system>CHECKPOINT 1</system>"),
            message("user", "<system-reminder>be brief</system-reminder>"),
            message("user", "<system>An image of a tool:</system>", PNG),
            message("user", DMAIL),
        ]
    )
    users = [entry for entry in session.entries if isinstance(entry, UserMessage)]
    assert [(user.origin, user.text) for user in users] == [
        ("typed", "typed"),
        ("machine", "<system>An image of a tool:</system>"),
    ]
    notices = [entry for entry in session.entries if isinstance(entry, DeveloperMessage)]
    assert [notice.origin for notice in notices] == ["notice", "notice", "dmail"]


def test_the_image_of_a_tool_was_not_sent_by_the_user(read: Any) -> None:
    announced = "Tool output contains non-text parts. Non-text parts are sent as a user message below."
    session = read(
        [
            checkpoint(0),
            calling("a:0", "ReadMediaFile", path="a.png"),
            result("a:0", f"<system>{announced}</system>"),
            message("user", PNG),
        ]
    )
    assert session.entries[-1].origin == "machine"
    assert session.entries[-1].parts == (ImagePart(media_type="image/png", data="aGk="),)


def test_a_count_before_an_answer_is_its_input_and_what_it_grew_by_its_output(read: Any) -> None:
    session = read(
        [
            message("user", "hi"),
            usage(100),
            message("assistant", "old"),
            usage(107),
            message("user", "more"),
            message("assistant", "new"),
            usage(130),
            usage(131),
        ]
    )
    answers = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert [answer.usage for answer in answers] == [Usage(input=100, output=7), Usage(input=130)]


def test_failed_calls_are_failures_and_touch_nothing(read: Any) -> None:
    failed = "<system>ERROR: Command failed with exit code: 2.</system>"
    session = read(
        [
            checkpoint(0),
            calling("a:0", "Shell", command="x"),
            result("a:0", failed),
            calling("a:1", "WriteFile", path="w", content="x"),
            result("a:1", "<system>ERROR</system>", "<system>No such folder</system>"),
        ]
    )
    results = [entry for entry in session.entries if isinstance(entry, ToolResultMessage)]
    assert [(each.is_error, each.details.brief) for each in results] == [(True, "exit 2"), (True, "failed")]
    assert results[1].details.files == ()


def test_prompts_of_sub_agents_were_written_by_an_agent(read: Any) -> None:
    session = read([checkpoint(0), message("user", "Find it.")], name="context_sub_1.jsonl")
    [_, prompt] = session.entries
    assert prompt.origin == "machine"
    assert "sub-agent" in session.notes[0]


def test_a_subagents_folder_is_a_session_behind_its_call(read: Any, tmp_path: Path) -> None:
    folder = tmp_path / "subagents" / "a1b2"
    folder.mkdir(parents=True)
    write(folder / "context.jsonl", [message("user", "With context. look"), message("assistant", "yes")])
    (folder / "meta.json").write_text(json.dumps({"subagent_type": "coder", "description": "Look around"}))
    (tmp_path / "subagents" / "empty").mkdir()
    task = {"id": "c1", "type": "function", "function": {"name": "Agent", "arguments": '{"prompt": "look"}'}}
    session = read([
        checkpoint(0),
            message("user", "go"),
        {"role": "assistant", "content": "", "tool_calls": [task]},
        {"role": "tool", "tool_call_id": "c1", "content": "agent_id: a1b2\nstatus: completed"},
    ])  # fmt: skip
    [child] = session.children
    assert (child.id, child.agent, child.title, child.call_id) == ("a1b2", "coder", "Look around", "c1")
    assert [entry.type for entry in session.entries] == [
        "checkpoint",
        "user",
        "assistant",
        "tool_result",
        "subagent",
    ]
    assert [entry.type for entry in child.session.entries] == ["user", "assistant"]


def test_other_sub_agents_are_not_the_past_of_one(read: Any, tmp_path: Path) -> None:
    write(tmp_path / "context_sub_1.jsonl", [message("user", "another")])
    session = read([checkpoint(0), message("user", "Find it.")], name="context_sub.jsonl")
    assert said(session) == ["Find it."]


# --- its earlier states ------------------------------------------------------------------------------

FIRST = [PROMPT, checkpoint(0), message("user", "one"), message("assistant", "two"), usage(50)]
GROWN = [
    *FIRST,
    checkpoint(1),
    message("user", "three"),
    calling("a:0", "Shell", command="ls"),
    result("a:0", "a file"),
    usage(90),
]
FOLDED = [
    PROMPT,
    checkpoint(0),
    message("user", COMPACTED, "One and two."),
    *GROWN[6:9],
    usage(20),
]


def test_a_state_that_opens_with_a_summary_is_a_fold_of_the_one_before(read: Any) -> None:
    session = read(GROWN, [*FOLDED, message("assistant", "four")])
    [fold] = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert said(session) == ["Be kind.", f"{COMPACTED}\nOne and two.", "three", "", "a file", "four"]
    assert fold.strategy == "kimi-cli"
    assert fold.tokens_before == 90
    assert fold.first_kept_index == 6
    assert [piece.covers for piece in fold.head if isinstance(piece, Written)] == [((2, 3),)]
    projection = project(session.entries)
    assert [projection.fate(index).kind for index in (2, 3, 6, 7)] == ["summarised"] * 2 + ["live"] * 2
    assert session.notes == ("The session begins in its earlier states: context_1.jsonl.",)


def test_each_fold_absorbs_the_one_before(read: Any) -> None:
    again = [PROMPT, checkpoint(0), message("user", COMPACTED, "All."), message("assistant", "four")]
    session = read(GROWN, [*FOLDED, message("assistant", "four")], again)
    first, second = [entry for entry in session.entries if isinstance(entry, Compaction)]
    [written] = [piece for piece in second.head if isinstance(piece, Written)]
    assert written.inputs == (first.index,)
    assert said(session) == ["Be kind.", f"{COMPACTED}\nAll.", "four"]


def test_an_estimate_after_a_fold_is_no_usage(read: Any) -> None:
    session = read(
        [PROMPT, checkpoint(0), message("user", COMPACTED, "S"), message("assistant", "x"), usage(9)]
    )
    [answer] = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert answer.usage is None


def test_a_summary_without_the_state_before_is_a_summary(read: Any) -> None:
    session = read(FOLDED)
    kinds = [item.kind for item in project(session.entries).view]
    assert kinds == ["system", "summary", "user", "assistant", "tool_result"]


def test_a_checkpoint_mark_before_the_summary_stays_before_it(read: Any) -> None:
    mark = message("user", "<system>CHECKPOINT 0</system>")
    session = read(GROWN, [*FOLDED[:2], mark, *FOLDED[2:]])
    assert said(session)[1:4] == ["<system>CHECKPOINT 0</system>", f"{COMPACTED}\nOne and two.", "three"]


def test_a_dmail_takes_everything_since_its_checkpoint_back(read: Any) -> None:
    marks = [message("user", f"<system>CHECKPOINT {number}</system>") for number in (0, 1)]
    past = [PROMPT, checkpoint(0), marks[0], message("user", "one"), checkpoint(1), marks[1]]
    session = read([*past, message("assistant", "wrong")], [*past, message("user", DMAIL), usage(5)])
    [revert] = [entry for entry in session.entries if isinstance(entry, Revert)]
    assert said(session)[2:] == ["one", "<system>CHECKPOINT 1</system>", DMAIL]
    projection = project(session.entries)
    assert projection.fate(6).kind == "reverted"
    assert projection.checkpoint(revert.checkpoint) == 4


def test_a_dmail_to_the_beginning_is_one_too(read: Any) -> None:
    past = [PROMPT, checkpoint(0), message("user", "<system>CHECKPOINT 0</system>")]
    session = read([*past, message("user", "one")], [*past, message("user", DMAIL)])
    assert said(session) == ["Be kind.", "<system>CHECKPOINT 0</system>", DMAIL]
    assert any(isinstance(entry, Revert) for entry in session.entries)


def test_a_state_that_shares_no_message_is_a_fresh_start(read: Any) -> None:
    session = read(GROWN, [PROMPT, checkpoint(0), message("user", "other")])
    assert said(session) == ["Be kind.", "other"]
    assert any(isinstance(entry, Clear) for entry in session.entries)
    assert project(session.entries).fate(2).kind == "cleared"


def test_a_system_prompt_that_changed_is_the_last_one(read: Any) -> None:
    session = read(GROWN, [{"role": "_system_prompt", "content": "Be brief."}, message("user", "other")])
    assert said(session) == ["Be brief.", "other"]
    assert "The system prompt changed" in session.notes[0]


def test_an_earlier_state_is_also_a_session_of_its_own(read: Any, tmp_path: Path) -> None:
    read(GROWN, FOLDED)
    assert said(read_foreign(tmp_path / "context_1.jsonl")) == [
        "Be kind.",
        "one",
        "two",
        "three",
        "",
        "a file",
    ]


def test_checkpoints_are_never_the_same_twice(read: Any) -> None:
    session = read(GROWN, FOLDED, [PROMPT, checkpoint(0), message("user", "other")])
    ids = [entry.id for entry in session.entries if isinstance(entry, Checkpoint)]
    assert ids == sorted(set(ids))


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
    states=st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8), min_size=1, max_size=4),
    repeats=st.integers(0, 6),
)
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_states_give_the_view_of_the_last(tmp_path: Path, states: list[Any], repeats: int) -> None:
    states = [[PROMPT, *chain.from_iterable(state)] for state in states]
    for number, state in enumerate(states[:-1], start=1):
        write(tmp_path / f"context_{number}.jsonl", state)
    for stale in range(len(states), 5):
        (tmp_path / f"context_{stale}.jsonl").unlink(missing_ok=True)
    if len(states) > 1:
        states[-1] = [*states[-2][:repeats], *states[-1]]
    # Without a message in it, a file of ten records is refused.
    assume(any(record["role"] in ("user", "assistant") for state in states for record in state))
    write(tmp_path / "context.jsonl", states[-1])
    session = read_foreign(tmp_path / "context.jsonl", "kimi-cli")
    assert faults(session) == []
    alone = tmp_path / "alone.jsonl"
    write(alone, states[-1])
    assert said(session) == said(read_foreign(alone, "kimi-cli"))


# --- a wire ------------------------------------------------------------------------------------------


def event(kind: str, seconds: float = 1.5, **payload: Any) -> Record:
    return {"timestamp": seconds, "message": {"type": kind, "payload": payload}}


WIRE_HEAD = {"type": "metadata", "protocol_version": "1.3"}
TURN = [
    event("TurnBegin", user_input="hi"),
    event("StepBegin", n=1),
    event("ContentPart", type="think", think="h"),
    event("ContentPart", type="think", think="m"),
    event("ContentPart", type="text", text="I "),
    event("ContentPart", type="text", text="look."),
    event("ToolCall", type="function", id="c1", function={"name": "Shell", "arguments": '{"comm'}),
    event("ToolCallPart", arguments_part='and":"ls"}'),
    event("ToolResult", tool_call_id="c1", return_value={"is_error": False, "output": "a", "message": "ok"}),
    event("StatusUpdate", token_usage={"input_other": 5, "input_cache_read": 10, "output": 3}),
    event("StepBegin", n=2),
    event("ContentPart", type="text", text="Done."),
    event("TurnEnd"),
]


def test_a_wire_is_put_together_again(read: Any) -> None:
    session = read([WIRE_HEAD, *TURN], name="wire.jsonl")
    prompt, answer, looked, done = view(session)
    assert (prompt.text, prompt.origin) == ("hi", "typed")
    assert (answer.thinking, answer.text, answer.calls[0].parsed()) == ("hm", "I look.", {"command": "ls"})
    assert answer.usage == Usage(input=15, cached=10, output=3)
    assert (looked.text, looked.details.brief) == ("<system>ok</system>\na", "1 line")
    assert done.text == "Done."
    assert session.entries[0].index == 0
    assert answer.at is not None


def test_a_fold_in_a_wire_keeps_what_kimi_keeps_and_says_that_the_summary_is_missing(read: Any) -> None:
    fold = [event("CompactionBegin"), event("CompactionEnd")]
    more = [event("StepBegin", n=3), event("ContentPart", type="text", text="On.")]
    session = read([WIRE_HEAD, *TURN, *fold, *more], name="wire.jsonl")
    assert said(session) == ["I look.", "<system>ok</system>\na", "Done.", "On."]
    assert "no summaries" in session.notes[0]


# --- Kimi Code ---------------------------------------------------------------------------------------


class Code:
    """Records of Kimi Code, numbered as they come."""

    def __init__(self) -> None:
        self.records: list[Record] = [
            {"type": "metadata", "protocol_version": "1.5", "created_at": 1},
            {"type": "config.update", "systemPrompt": "Be.", "modelAlias": "kimi/k2", "time": 1000},
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
        self.event("step.begin", uuid="s").event("content.part", stepUuid="s", part=text(words))
        for each in calls:
            self.event("tool.call", stepUuid="s", toolCallId=each, name="Read", args={"path": each})
        for each in calls:
            self.event("tool.result", toolCallId=each, result={"output": f"of {each}"})
        return self.event("step.end", uuid="s", usage={"inputOther": 7, "inputCacheRead": 1, "output": 2})

    def fold(self, **fields: Any) -> "Code":
        return self.add(
            "context.apply_compaction", summary="So far.", tokensBefore=9, tokensAfter=4, **fields
        )


def test_the_answers_of_kimi_code_are_built_from_their_events(read: Any) -> None:
    session = read(Code().user("hi").answer("I look.", "a", "b").records, name="wire.jsonl")
    assert said(session) == ["Be.", "hi", "I look.", "of a", "of b"]
    answer = view(session)[2]
    assert answer.usage == Usage(input=8, cached=1, output=2)
    assert answer.model == "k2"
    assert [result.details.files[0].path for result in view(session)[3:]] == ["a", "b"]


def test_an_answer_without_a_word_is_none(read: Any) -> None:
    session = read(Code().user("hi").event("step.begin", uuid="s").user("hi?").records, name="wire.jsonl")
    assert said(session) == ["Be.", "hi", "hi?"]


def test_only_what_was_typed_is_typed(read: Any) -> None:
    code = Code().user("typed").user("a skill", "skill_activation", trigger="user-slash")
    code.user("reminder", "injection").user("$ ls", "shell_command")
    session = read(code.records, name="wire.jsonl")
    origins = [getattr(entry, "origin", None) for entry in view(session)]
    assert origins == ["prompt", "typed", "machine", "notice", "shell"]


def test_a_prompt_sent_while_tools_run_waits_for_their_results(read: Any) -> None:
    code = Code().user("hi").event("step.begin", uuid="s")
    code.event("tool.call", stepUuid="s", toolCallId="a", name="Read", args={}).user("wait")
    code.event("tool.result", toolCallId="a", result={"output": "of a"}).event("step.end", uuid="s")
    assert said(read(code.records, name="wire.jsonl")) == ["Be.", "hi", "", "of a", "wait"]


def test_a_fold_of_kimi_code_keeps_prompts_before_its_summary(read: Any) -> None:
    code = Code().user("one").answer("two", "a").user("note", "injection").user("three").answer("four")
    session = read(
        code.fold(compactedCount=6, keptUserMessageCount=2).answer("on").records, name="wire.jsonl"
    )
    assert said(session) == ["Be.", "one", "three", "So far.", "on"]
    [fold] = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert (fold.tokens_before, fold.tokens_after) == (9, 4)


def test_an_old_fold_of_kimi_code_keeps_the_newest_messages(read: Any) -> None:
    code = Code().user("one").answer("two").user("three").fold(compactedCount=2)
    code.answer("four").fold(compactedCount=2)
    session = read(code.records, name="wire.jsonl")
    assert said(session) == ["Be.", "So far.", "four"]


def test_an_undo_goes_back_to_before_the_prompt(read: Any) -> None:
    code = Code().user("one").answer("two").user("three").answer("four", "a").add("context.undo", count=1)
    session = read(code.user("five").records, name="wire.jsonl")
    assert said(session) == ["Be.", "one", "two", "five"]
    [undone] = [entry for entry in session.entries if getattr(entry, "text", "") == "four"]
    assert project(session.entries).fate(undone.index).kind == "reverted"


def test_no_undo_goes_over_a_fold(read: Any) -> None:
    code = Code().user("one").answer("two").fold(compactedCount=2, keptUserMessageCount=1)
    session = read(code.add("context.undo", count=1).records, name="wire.jsonl")
    assert said(session) == ["Be.", "one", "So far."]


def test_a_clear_of_kimi_code_leaves_the_system_prompt(read: Any) -> None:
    code = Code().user("one").answer("two").add("context.clear").user("three")
    assert said(read(code.records, name="wire.jsonl")) == ["Be.", "three"]


def branch(code: Code, count: int = 1) -> Code:
    """An undo of Kimi Code 2."""
    code.add("agent.switched", branch="b1", base={"branch": "main", "line": 1}, reason="undo", turns=count)
    return code.add("context.undo", count=count).add("context.undone", turns=count, fromTurnId=1)


def test_an_undo_of_kimi_code_2_leaves_reminders(read: Any) -> None:
    code = Code().user("one").answer("two").user("three").user("today", "injection")
    code.user("of three", "injection", ownerPromptId="p3").answer("four", "a")
    session = read(branch(code).user("five").records, name="wire.jsonl")
    assert (said(session), session.notes) == (["Be.", "one", "two", "today", "five"], ())


def test_a_fold_of_kimi_code_2_is_followed_by_a_reminder(read: Any) -> None:
    fold = {"compactedCount": 2, "keptUserMessageCount": 1, "wireLines": {"start": 1, "end": 2}}
    session = read(Code().user("one").answer("two").fold(**fold).records, name="wire.jsonl")
    assert said(session)[:3] == ["Be.", "one", "So far."]
    assert "compaction is complete" in said(session)[3]


def test_results_of_kimi_code_say_how_long_they_took_and_how_they_ended(read: Any) -> None:
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
    assert said(session)[3:] == [
        "Wall time: 0.033 seconds\nfive\n",
        "one\n<system>1 line</system>",
        "Wall time: 1.500 seconds\n<system>ERROR: Tool execution failed.</system>\nno",
        "<system>Tool output is empty.</system>",
    ]
    assert [each.details.brief for each in view(session)[3:]] == ["1 line", "1 line", "failed", "done"]


def test_requests_beside_the_conversation_count(read: Any) -> None:
    spent = {"inputOther": 40, "inputCacheRead": 60, "output": 3}
    code = Code().user("hi").answer("Hello.").add("usage.record", usage=spent, usageScope="session")
    session = read(code.add("usage.record", usage=spent, usageScope="turn").records, name="wire.jsonl")
    use = stats_of(session.entries).models["k2"]
    assert (use.requests, use.input, use.output) == (2, 108, 5)


STEPS = st.sampled_from(
    [
        branch,
        lambda code: branch(code, 2),
        lambda code: code.fold(compactedCount=2, keptUserMessageCount=1, wireLines={}),
        lambda code: code.user("prompt").answer("answer"),
        lambda code: code.answer("answer", "a"),
        lambda code: code.user("note", "injection"),
        lambda code: code.event("step.begin", uuid="s").event("content.part", stepUuid="s", part=text("x")),
        lambda code: code.event("tool.call", stepUuid="s", toolCallId="z", name="Read", args={}),
        lambda code: code.event("tool.result", toolCallId="z", result={"output": "z"}),
        lambda code: code.event("step.end", uuid="s"),
        lambda code: code.fold(compactedCount=2),
        lambda code: code.fold(compactedCount=3, keptUserMessageCount=2),
        lambda code: code.fold(compactedCount=9, keptUserMessageCount=3, keptHeadUserMessageCount=1),
        lambda code: code.add("context.undo", count=1),
        lambda code: code.add("context.undo", count=2),
        lambda code: code.add("context.clear"),
        lambda code: code.add("turn.cancel"),
    ]
)


@given(st.lists(STEPS, max_size=14))
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_events_of_kimi_code_give_a_sound_session(tmp_path: Path, steps: list[Any]) -> None:
    code = Code().user("one")
    for step in steps:
        step(code)
    write(tmp_path / "wire.jsonl", code.records)
    assert faults(read_foreign(tmp_path / "wire.jsonl")) == []


# --- recorded files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", recorded("kimi/ctx-a"), ids=lambda path: path.name)
@needs_recorded
def test_a_recorded_context_comes_whole(path: Path) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    session = read_foreign(path)
    messages = [record for record in records if not record["role"].startswith("_")]
    started = [entry for entry in session.entries if isinstance(entry, Subagent)]
    assert len(session.entries) == len(records) + len(started) and len(started) == len(session.children)
    assert [each.type for each in view(session)] == [
        record["role"].replace("tool", "tool_result") for record in messages
    ]
    assert [entry.id for entry in session.entries if isinstance(entry, Checkpoint)] == [
        record["id"] for record in records if record["role"] == "_checkpoint"
    ]
    after = [
        following["token_count"] for record, following in pairwise(records) if record["role"] == "assistant"
    ]
    answers = [entry for entry in session.entries if isinstance(entry, AssistantMessage)]
    assert [answer.usage.total for answer in answers] == after
    typed = [entry for entry in session.entries if isinstance(entry, UserMessage)]
    assert [user.origin for user in typed] == ["machine" if "_sub_" in path.name else "typed"]


@needs_recorded
def test_a_recorded_wire_holds_its_prompts_once_and_no_answer(tmp_path: Path) -> None:
    session = read_foreign(next(path for path in FILES if path.name == "wire14-small.jsonl"))
    assert said(session)[1:] == ["hi", "hi", "stop"]
    assert session.header.cwd == "/private/tmp/as-agent-lab/kimi/project"
    [model] = [entry for entry in session.entries if isinstance(entry, ModelChange)]
    assert model.model == "kimi-k2.7-code"
    assert sum(isinstance(entry, Unknown) for entry in session.entries) > 20


@pytest.mark.parametrize("junk", [None, 3, "x", [], [None, 3, "x"], {"a": 1}, True, -1, 1e400])
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
        for role in ("_system_prompt", "_checkpoint", "_usage", "user", "assistant", "tool", "system", junk)
    ]
    read([checkpoint(0), *odd], [checkpoint(0), *odd[3:]])
    kinds = ("TurnBegin", "ContentPart", "ToolCall", "ToolCallPart", "ToolResult", "StatusUpdate", "x", junk)
    payload = {"user_input": junk, "id": junk, "function": junk, "return_value": junk, "token_usage": junk}
    wire = [event(kind, **payload) for kind in kinds]
    read([WIRE_HEAD, *wire, {"timestamp": junk, "message": junk}], name="wire.jsonl")
    code = Code()
    for kind in ("context.append_message", "context.append_loop_event", "context.undo", "config.update"):
        code.add(kind, message=junk, event=junk, count=junk, systemPrompt=junk, modelAlias=junk)
    for kind in ("step.begin", "content.part", "tool.call", "tool.result", "step.end", junk):
        code.event(kind, uuid=junk, part=junk, toolCallId=junk, name=junk, args=junk, result=junk, usage=junk)
    code.add("context.apply_compaction", summary=junk, compactedCount=junk, keptUserMessageCount=junk)
    read(code.records, name="wire2.jsonl")


def test_a_kept_reference_is_not_written_anew(read: Any) -> None:
    session = read(GROWN, [*FOLDED[:3], *GROWN[8:9]])
    [fold] = [entry for entry in session.entries if isinstance(entry, Compaction)]
    assert not any(isinstance(piece, Kept) for piece in fold.head)


def test_subagents_of_kimi_code_lie_beside_the_main_agent(tmp_path: Path) -> None:
    main, helper = Code().user("go"), Code().user("look").answer("I looked")
    task = {"prompt": "look", "description": "Look around", "subagent_type": "coder"}
    said_by_it = "agent_id: agent-0\nactual_subagent_type: coder\nstatus: completed\n\n[summary]\nI looked"
    main.event("step.begin", uuid="s").event(
        "tool.call", stepUuid="s", toolCallId="c1", name="Agent", args=task
    ).event("tool.result", toolCallId="c1", result={"output": said_by_it}).event("step.end", uuid="s")
    for name, code in {"main": main, "agent-0": helper}.items():
        (tmp_path / "agents" / name).mkdir(parents=True)
        write(tmp_path / "agents" / name / "wire.jsonl", code.records)
    (tmp_path / "agents" / "loop").symlink_to(tmp_path)
    session = read_foreign(tmp_path / "agents" / "main" / "wire.jsonl")
    [child] = session.children
    assert (child.id, said(child.session)[-2:]) == ("agent-0", ["look", "I looked"])
    assert (child.call_id, child.agent, child.title) == ("c1", "coder", "Look around")
    assert session.entries[-1].type == "subagent"
    assert read_foreign(tmp_path / "agents" / "agent-0" / "wire.jsonl").children == ()


def test_a_subagent_that_kimi_code_was_killed_with_stands_below_its_call(tmp_path: Path) -> None:
    main, helper = Code().user("go"), Code().user("look").answer("I look")
    main.event("step.begin", uuid="s").event(
        "tool.call", stepUuid="s", toolCallId="c1", name="Agent", args={}
    )
    begun = {"subagentName": "coder", "parentToolCallId": "c1", "description": "Look around"}
    main.add("subagent.spawned", subagentId="agent-0", **begun).add("subagent.started", subagentId="agent-0")
    main.add("agent.turn.started").add("prompt.completed")
    for name, code in {"main": main, "agent-0": helper}.items():
        (tmp_path / "agents" / name).mkdir(parents=True)
        write(tmp_path / "agents" / name / "wire.jsonl", code.records)
    session = read_foreign(tmp_path / "agents" / "main" / "wire.jsonl")
    [child] = session.children
    assert (child.call_id, child.agent, child.title) == ("c1", "coder", "Look around")
    assert not any("unknown" in note for note in session.notes)
