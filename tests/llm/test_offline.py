"""The offline model: real tool calls, plain facts, its own window, and summaries that only quote."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from foldline.llm import (
    LLM,
    Answer,
    Chunk,
    ContextOverflow,
    Request,
    TextChunk,
    ToolCallChunk,
    ToolSpec,
)
from foldline.llm.base import SummarySource
from foldline.llm.offline import OfflineLLM
from foldline.llm.offline.reply import NOTHING_BEFORE, STOPPED, UNCLEAR
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.text.tags import command_part
from foldline.view.tokens import estimate_tokens
from support.sentences import says

NAMES = ("read", "write", "edit", "bash", "grep", "glob", "ls")
TOOLS = tuple(
    ToolSpec(name, f"The tool {name}.", {"type": "object", "properties": {}})
    for name in NAMES
)
RECALL = (
    ToolSpec(
        "history_search",
        "Search.",
        {"type": "object", "properties": {"query": {"type": "string"}}},
    ),
    ToolSpec(
        "history_read",
        "Read.",
        {"type": "object", "properties": {"index": {"type": "integer"}}},
    ),
)
Arguments = dict[str, object]
Results = dict[str, str | Callable[[Arguments], str]]


def offline(window: int = 16_384) -> OfflineLLM:
    return OfflineLLM(window, pace=0)


async def chunks_of(llm: LLM, request: Request) -> list[Chunk]:
    return [chunk async for chunk in llm.stream(request)]


async def answer(llm: LLM, request: Request) -> AssistantMessage:
    *_, last = await chunks_of(llm, request)
    assert isinstance(last, Answer)
    return last.message


class Talk:
    """Minimal agent that answers tool calls from a dictionary until there are none."""

    def __init__(
        self, results: Results | None = None, tools: Sequence[ToolSpec] = TOOLS
    ) -> None:
        self.llm = offline()
        self.results = results or {}
        self.tools = tools
        self.messages: list[BaseMessage] = [
            SystemMessage(index=0, parts=text_parts("You are Foldline."))
        ]
        self.steps: list[list[tuple[str, Arguments]]] = []

    async def ask(self, text: str, *attached: TextPart) -> str:
        self._append(UserMessage(parts=(*text_parts(text), *attached)))
        self.steps = []
        for _ in range(20):
            said = await answer(self.llm, Request(tuple(self.messages), self.tools))
            self._append(said)
            if not said.calls:
                assert said.stop_reason == "stop"
                return said.text
            assert said.stop_reason == "tool_calls"
            self.steps.append([(call.name, call.parsed()) for call in said.calls])
            for call in said.calls:
                self._append(self._result(call))
        raise AssertionError("it never came to an end")

    def _result(self, call: ToolCallPart) -> ToolResultMessage:
        found = self.results.get(call.name, "ok")
        text = found(call.parsed()) if callable(found) else found
        failed = text.startswith(("error", "[foldline: not run")) or text.endswith(
            "[exit 1]"
        )
        return ToolResultMessage(
            call_id=call.call_id,
            name=call.name,
            is_error=failed,
            parts=text_parts(text),
        )

    def _append(self, message: BaseMessage) -> None:
        self.messages.append(message.model_copy(update={"index": len(self.messages)}))


async def steps_for(text: str) -> list[list[tuple[str, Arguments]]]:
    talk = Talk()
    await talk.ask(text)
    return talk.steps


ONE_CALL: list[tuple[str, str, Arguments]] = [
    ("read src/x.py", "read", {"path": "src/x.py"}),
    ("show me README.md", "read", {"path": "README.md"}),
    ("Please open the file docs/guide.md.", "read", {"path": "docs/guide.md"}),
    ("@src/x.py what is in it", "read", {"path": "src/x.py"}),
    ("how many lines does README.md have?", "read", {"path": "README.md"}),
    ("summarise README.md", "read", {"path": "README.md"}),
    ("read LICENSE", "read", {"path": "LICENSE"}),
    ("读取 src/x.py", "read", {"path": "src/x.py"}),
    ("请打开README.md", "read", {"path": "README.md"}),
    ("帮我看看 src/x.py", "read", {"path": "src/x.py"}),
    ("list src", "ls", {"path": "src"}),
    ("what is in this folder?", "ls", {}),
    ("列出 src 目录", "ls", {"path": "src"}),
    ("find *.py in src", "glob", {"pattern": "**/*.py", "path": "src"}),
    ("find all Python files", "glob", {"pattern": "**/*.py"}),
    ("查找所有 python 文件", "glob", {"pattern": "**/*.py"}),
    ('grep "foo bar" in src', "grep", {"pattern": "foo bar", "path": "src"}),
    (
        "search for handle_request in src/app",
        "grep",
        {"pattern": "handle_request", "path": "src/app"},
    ),
    ("在 src 中搜索 foo", "grep", {"pattern": "foo", "path": "src"}),
    ("run `pytest -q`", "bash", {"command": "pytest -q"}),
    ("run ls -la", "bash", {"command": "ls -la"}),
    ("运行 `pytest -q`", "bash", {"command": "pytest -q"}),
    ("write hello to notes.txt", "write", {"path": "notes.txt", "content": "hello\n"}),
    (
        "create notes.txt with: one two",
        "write",
        {"path": "notes.txt", "content": "one two\n"},
    ),
    (
        'create notes.txt with "hi, then run x"',
        "write",
        {"path": "notes.txt", "content": "hi, then run x\n"},
    ),
    ("把 你好 写入 notes.txt", "write", {"path": "notes.txt", "content": "你好\n"}),
    ("创建 notes.txt，内容：你好", "write", {"path": "notes.txt", "content": "你好\n"}),
    (
        "replace foo with bar in x.txt",
        "edit",
        {"path": "x.txt", "old": "foo", "new": "bar"},
    ),
    (
        "replace all `a b` with `c d` in x.txt",
        "edit",
        {"path": "x.txt", "old": "a b", "new": "c d", "replace_all": True},
    ),
    (
        "把 x.txt 中的 foo 替换成 bar",
        "edit",
        {"path": "x.txt", "old": "foo", "new": "bar"},
    ),
]


@pytest.mark.parametrize(
    ("text", "tool", "arguments"), ONE_CALL, ids=[case[0] for case in ONE_CALL]
)
async def test_a_simple_request_becomes_the_requested_tool_call(text, tool, arguments):
    assert await steps_for(text) == [[(tool, arguments)]]


async def test_several_files_are_read_in_one_step():
    assert await steps_for("read a.py, b.py and c.md") == [
        [
            ("read", {"path": "a.py"}),
            ("read", {"path": "b.py"}),
            ("read", {"path": "c.md"}),
        ]
    ]


@pytest.mark.parametrize(
    "text",
    ["read a.py and b.py, then run pytest -q", "读取 a.py 和 b.py，然后运行 pytest -q"],
)
async def test_the_word_then_starts_another_step(text):
    assert await steps_for(text) == [
        [("read", {"path": "a.py"}), ("read", {"path": "b.py"})],
        [("bash", {"command": "pytest -q"})],
    ]


async def test_the_same_call_can_be_requested_twice():
    assert await steps_for("run ls, then write x to a.txt, then run ls") == [
        [("bash", {"command": "ls"})],
        [("write", {"path": "a.txt", "content": "x\n"})],
        [("bash", {"command": "ls"})],
    ]


@pytest.mark.parametrize(
    "text",
    ["do not run pytest", "don't read a.py", "fix the bug in src/x.py", "2+2?", "…"],
)
async def test_a_forbidden_or_unsupported_request_calls_no_tool(text):
    talk = Talk()
    said = await talk.ask(text)
    assert talk.steps == []
    assert "not a language model" in said
    assert "OPENAI_API_KEY" in said
    assert "/model" in said


async def test_the_model_introduces_itself_once_and_when_it_does_not_understand():
    talk = Talk()
    await talk.ask("read a.py")
    first, later = talk.messages[2].text, talk.messages[4].text
    assert "not a language model" in first
    assert "not a language model" not in later
    assert "not a language model" not in await talk.ask("read b.py")
    assert "not a language model" in await talk.ask("please refactor everything")
    assert "“refactor everything”" in talk.messages[-1].text


async def test_the_model_can_follow_its_own_examples():
    for text in re.findall(r"`([^`]+)`", await Talk().ask("help")):
        talk = Talk()
        assert not says(await talk.ask(text), UNCLEAR), text
        assert talk.steps or text == "what did we do?"


async def test_a_result_is_reported_with_its_size_and_first_lines():
    said = await Talk({"read": "".join(f"line {n}\n" for n in range(20))}).ask(
        "what does src/x.py do?"
    )
    assert "20 lines" in said
    assert "line 7\n" in said and "line 8" not in said
    assert "… +12" in said


@pytest.mark.parametrize(
    "note",
    [
        "[lines 1–12 of 347]",
        "[Portion 1 of 9, lines 1–12 of 347. Continue with offset 13.]",
    ],
)
async def test_a_partial_read_is_reported_with_the_length_of_the_file(note: str):
    said = await Talk({"read": "".join(f"line {n}\n" for n in range(12)) + note}).ask(
        "read src/x.py"
    )
    assert "12 lines of 347" in said
    assert "… +4" in said


async def test_a_rule_next_to_a_request_is_not_a_failed_request():
    talk = Talk({"ls": "a.py"})
    said = await talk.ask("List src. Never change a file in this session.")
    assert talk.steps == [[("ls", {"path": "src"})]] and not says(said, UNCLEAR)
    said = await Talk({}).ask("Never change a file in this session.")
    assert says(said, UNCLEAR)


async def test_the_expansion_of_a_command_is_the_request():
    talk = Talk({"read": "x = 1\n"})
    expansion = command_part("~/.claude/commands/review.md", "read a.py")
    said = await talk.ask("/review a.py", expansion)
    assert talk.steps == [[("read", {"path": "a.py"})]] and not says(said, UNCLEAR)


async def test_a_fence_inside_a_file_cannot_close_the_quote():
    said = await Talk({"read": "# T\n```python\nx = 1\n```\n"}).ask("show me README.md")
    assert "````text\n# T\n```python\nx = 1\n```\n````" in said


async def test_a_command_is_reported_with_its_status_and_last_lines():
    failing = "\n".join(f"line {n}" for n in range(50)) + "\n1 failed\n[exit 1]"
    said = await Talk({"bash": failing}).ask("run pytest")
    assert "exit status 1" in said
    assert "1 failed" in said
    assert "line 3\n" not in said
    assert "exit status 0, no output" in await Talk(
        {"bash": "[no output, exit 0]"}
    ).ask("run true")


async def test_a_failed_change_ends_the_chain_and_reports_the_remaining_steps():
    talk = Talk({"edit": "error: `old` does not occur in x.txt."})
    said = await talk.ask("replace foo with bar in x.txt, then run pytest")
    assert [name for step in talk.steps for name, _ in step] == ["edit"]
    assert "does not occur in x.txt" in said
    assert STOPPED.format(calls="`bash pytest`") in said


async def test_a_failed_read_does_not_end_the_chain():
    talk = Talk({"read": "error: there is no file a.py"})
    await talk.ask("read a.py, then run pytest")
    assert len(talk.steps) == 2


async def test_a_call_that_was_not_run_is_repeated():
    answers = iter(["[foldline: not run: window full, call again]", "x = 1\n"])
    talk = Talk({"read": lambda _: next(answers)})
    said = await talk.ask("read a.py")
    assert talk.steps == [[("read", {"path": "a.py"})]] * 2
    assert "1 line" in said


async def test_calls_that_are_never_run_are_repeated_only_a_few_times():
    talk = Talk({"read": "[foldline: not run: window full, call again]"})
    await talk.ask("read a.py")
    assert len(talk.steps) == 4


async def test_no_step_is_repeated_after_a_compaction_within_a_turn():
    talk = Talk()
    await talk.ask("read a.py, then read b.py, then run pytest")
    request, second_group = talk.messages[1], talk.messages[4:6]
    summary = SystemMessage(origin="summary", parts=text_parts("## Goal\n- read files"))
    said = await answer(
        talk.llm, Request((talk.messages[0], summary, request, *second_group), TOOLS)
    )
    assert [(call.name, call.parsed()) for call in said.calls] == [
        ("bash", {"command": "pytest"})
    ]


async def test_the_model_calls_nothing_without_tools():
    talk = Talk(tools=())
    assert "You can ask me" in await talk.ask("run pytest")
    assert talk.steps == []


async def test_call_ids_are_unique_in_a_conversation():
    talk = Talk()
    await talk.ask("read a.py and b.py, then run ls")
    await talk.ask("read a.py and b.py, then run ls")
    ids = [
        call.call_id
        for m in talk.messages
        if isinstance(m, AssistantMessage)
        for call in m.calls
    ]
    assert len(ids) == len(set(ids)) == 6


# -- memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    ["what did we do?", "summarise", "what do you remember?", "我们做了什么？"],
)
async def test_the_model_recalls_facts_from_the_view(question):
    talk = Talk({"read": "x = 1\n"})
    await talk.ask("read src/shop/orders.py. Never touch the payments table.")
    said = await talk.ask(question)
    assert "src/shop/orders.py" in said
    assert "Never touch the payments table." in said


async def test_the_model_recalls_from_a_summary_but_not_from_compacted_messages():
    talk = Talk()
    notes = "Record:\n<summary>\n## Goal\n- ship the parser\n## Progress\n### Done\n- read · a.py\n</summary>"
    talk.messages.append(
        SystemMessage(index=1, origin="summary", parts=text_parts(notes))
    )
    said = await talk.ask("what did we do?")
    assert "ship the parser" in said


async def test_a_new_conversation_has_nothing_to_recall():
    assert NOTHING_BEFORE in await Talk().ask("what did we do?")


async def test_the_history_is_searched_if_that_tool_is_offered():
    talk = Talk(
        {"history_search": "entry 12: the port is 5433"}, tools=(*TOOLS, *RECALL)
    )
    said = await talk.ask("search our history for port")
    assert talk.steps == [[("history_search", {"query": "port"})]]
    assert "entry 12" in said


# -- summaries ---------------------------------------------------------------------------------------


def summary_request(
    messages: Sequence[BaseMessage],
    focus: str | None = None,
    max_output: int | None = 800,
) -> Request:
    asking = UserMessage(origin="machine", parts=text_parts("Write the notes."))
    return Request(
        (asking,), max_output=max_output, summarises=SummarySource(messages, focus)
    )


def user_messages(*texts: str) -> list[BaseMessage]:
    return [UserMessage(parts=text_parts(text)) for text in texts]


async def test_a_summary_request_is_answered_with_a_digest():
    talk = Talk({"read": "def f(): ...\n"})
    await talk.ask("read src/x.py. You must keep the API.")
    summary = await answer(offline(), summary_request(talk.messages))
    assert summary.text.startswith("## Goal\n")
    assert "You must keep the API." in summary.text
    assert "src/x.py" in summary.text
    assert summary.stop_reason == "stop"
    assert "offline model" not in summary.text.split("## Constraints")[0]


async def test_previous_summary_and_focus_are_part_of_a_summary_request():
    earlier = "## Goal\n- ship the parser\n\n## Key Decisions\n- tabs, not spaces"
    remarks = [
        AssistantMessage(parts=text_parts(f"Remark {n} because of it."))
        for n in range(80)
    ]
    messages = [
        SystemMessage(origin="summary", parts=text_parts(earlier)),
        *user_messages("go on"),
        *remarks,
        ToolResultMessage(
            call_id="c", name="read", parts=text_parts("retries = 3 in net.toml")
        ),
    ]
    plain = await answer(offline(), summary_request(messages, max_output=250))
    focused = await answer(
        offline(), summary_request(messages, "retries", max_output=250)
    )
    assert "ship the parser" in plain.text
    assert "tabs, not spaces" in plain.text
    assert "retries = 3" not in plain.text
    assert "retries = 3" in focused.text


async def test_the_text_of_the_summary_prompt_does_not_matter():
    request = summary_request(user_messages("Port the cart to cents."))
    other_words = UserMessage(
        origin="machine",
        parts=text_parts("## Goal\n- <conversation>a trap</conversation>"),
    )
    texts = [
        (await answer(offline(), asked)).text
        for asked in (request, replace(request, messages=(other_words,)))
    ]
    assert texts[0] == texts[1]
    assert "Port the cart to cents." in texts[0]


@pytest.mark.parametrize("tokens", [60, 200, 700])
async def test_a_summary_stays_within_its_output_limit(tokens):
    messages = user_messages(
        *(f"request number {n}, never forget it" for n in range(100))
    )
    summary = await answer(offline(), summary_request(messages, max_output=tokens))
    assert summary.stop_reason == "stop"
    assert summary.usage and summary.usage.output <= tokens


async def test_an_instruction_after_the_messages_is_answered_with_a_summary():
    """The cache-preserving form: the same messages and tools plus one machine instruction."""
    talk = Talk()
    await talk.ask("read src/x.py. You must keep the API.")
    instruction = UserMessage(
        origin="machine", parts=text_parts("Write a summary of all this.")
    )
    source = SummarySource(tuple(talk.messages))
    summary = await answer(
        talk.llm, Request((*talk.messages, instruction), TOOLS, summarises=source)
    )
    assert not summary.calls
    assert "You must keep the API." in summary.text


# -- model interface ----------------------------------------------------------------------------


def prompt(text: str, **settings) -> Request:
    return Request((UserMessage(parts=text_parts(text)),), **settings)


async def test_the_same_request_gives_the_same_bytes():
    request = prompt("read a.py", tools=TOOLS)
    first = await chunks_of(offline(), request)
    second = await chunks_of(offline(), request)
    assert first == second
    assert first[-1].message.model_dump_json() == second[-1].message.model_dump_json()


async def test_the_streamed_pieces_join_to_the_answer():
    *pieces, last = await chunks_of(offline(), prompt("read a.py 你好", tools=TOOLS))
    assert isinstance(last, Answer)
    texts = [piece.text for piece in pieces if isinstance(piece, TextChunk)]
    assert "".join(texts) == last.message.text
    assert len(texts) > 10
    assert max(map(len, texts)) <= 48
    calls = [piece for piece in pieces if isinstance(piece, ToolCallChunk)]
    assert "".join(piece.text for piece in calls) == last.message.calls[0].arguments


async def test_usage_counts_input_output_and_the_shared_prefix():
    talk = Talk({"read": "x = 1\n" * 200})
    await talk.ask("read a.py")
    first, second = (m.usage for m in talk.messages if isinstance(m, AssistantMessage))
    assert first and second
    assert first.cached == 0
    assert first.output > 20
    assert second.cached >= first.input - 5
    assert second.input > second.cached + 200


async def test_a_changed_prefix_is_not_cached():
    llm = offline()
    await answer(llm, prompt("read a.py " * 50))
    said = await answer(llm, prompt("Other words " * 50))
    assert said.usage
    assert said.usage.cached < 10 < said.usage.input


async def test_a_request_longer_than_the_window_is_refused():
    llm = offline(window=1_000)
    with pytest.raises(ContextOverflow, match="1,000"):
        await answer(llm, prompt("word " * 4_000))
    said = await answer(llm, prompt("word " * 200))
    assert said.usage and said.usage.total <= 1_000


async def test_output_ends_at_the_requested_limit():
    said = await answer(offline(), prompt("who are you?", max_output=12))
    assert said.stop_reason == "length"
    assert said.usage and said.usage.output == estimate_tokens(said.text) <= 12


async def test_a_stream_can_be_cancelled_at_every_piece():
    total = len(await chunks_of(offline(), prompt("read a.py", tools=TOOLS)))
    for stop_after in range(0, total, 7):
        seen: list[Chunk] = []
        reached = asyncio.Event()

        async def pause(
            _: float,
            seen: list[Chunk] = seen,
            at: int = stop_after,
            event: asyncio.Event = reached,
        ):
            if len(seen) >= at:
                event.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(_collect(OfflineLLM(sleep=pause), seen))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(seen) == stop_after


async def _collect(llm: LLM, seen: list[Chunk]) -> None:
    """Collect pieces one by one, to keep those before a cancellation."""
    async for chunk in llm.stream(prompt("read a.py", tools=TOOLS)):
        seen += [chunk]


async def test_an_empty_request_and_unusual_messages_raise_no_error():
    llm = offline()
    assert (await answer(llm, Request(()))).text
    assert (await answer(llm, Request((UserMessage(),), TOOLS))).text
    orphan = ToolResultMessage(call_id="x", parts=text_parts("lost"))
    assert (
        await answer(llm, Request((UserMessage(parts=text_parts("hi")), orphan), TOOLS))
    ).text
    for text in (
        "\ue0000\ue001",
        "`" * 500,
        "read " * 500,
        "a." * 2000,
        "replace " + "x " * 800,
        "，" * 900,
    ):
        assert (await answer(llm, prompt(text, tools=TOOLS))).parts


def test_the_model_is_named_offline():
    info = offline(window=9_000).info
    assert (info.id, info.provider, info.window) == ("offline", "offline", 9_000)
    assert json.dumps(offline().dialect) == '"offline"'
