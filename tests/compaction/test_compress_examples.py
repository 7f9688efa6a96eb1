"""The examples of docs/front-ends.md, run verbatim against the real third-party packages."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.server import running_server

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "compress"
WINDOW = 8_192
ROUNDS = 12
FILE = "\n".join(f"value_{n} = compute(value_{n - 1}, factor={n})" for n in range(100))
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
SUMMARY = "## Goal\n- read the files\n\n## Done\n- the first of them are read"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"example_{name}", FOLDER / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_long_job_with_the_openai_sdk_stays_within_the_servers_window() -> None:
    openai = pytest.importorskip("openai")
    tool = {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA},
    }
    with running_server(window=WINDOW) as server:
        client = openai.AsyncOpenAI(base_url=server.base_url, api_key="none")
        chat = example("with_openai").Chat(client, server.model, WINDOW)
        for n in range(ROUNDS):
            answer = await chat.ask(
                {"role": "user", "content": f"Read part_{n}.py please."}, [tool]
            )
            for call in answer["tool_calls"]:
                result = {"role": "tool", "tool_call_id": call["id"], "content": FILE}
                answer = await chat.ask(result, [tool])
            assert answer["content"]
        requests = server.requests()
        assert all(not seen.rejected for seen in requests)
        summaries = [seen for seen in requests if not seen.body.get("tools")]
        assert summaries, "the model wrote summaries"
    assert len(chat.messages) == 4 * ROUNDS, "the program still has all of it"


async def test_a_long_job_with_the_anthropic_sdk_stays_within_the_servers_window() -> (
    None
):
    anthropic = pytest.importorskip("anthropic")
    tool = {"name": "read", "description": "Reads a file.", "input_schema": SCHEMA}
    with running_server(window=WINDOW) as server:
        host = server.base_url.removesuffix("/v1")
        client = anthropic.AsyncAnthropic(base_url=host, api_key="none")
        chat = example("with_anthropic").Chat(
            client, server.model, WINDOW, system="You read files."
        )
        for n in range(ROUNDS):
            answer = await chat.ask(f"Read part_{n}.py please.", [tool])
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": FILE}
                for block in answer["content"]
                if block["type"] == "tool_use"
            ]
            assert results
            await chat.ask(results, [tool])
        assert all(not seen.rejected for seen in server.requests())
    assert len(chat.messages) == 4 * ROUNDS


async def test_langgraph_sends_the_model_a_fitting_view_and_keeps_all_in_its_state() -> (
    None
):
    reason = "LangGraph is not installed: make .venv/bench"
    pytest.importorskip("langgraph", reason=reason)
    from langchain_core.messages import AIMessage, ToolCall
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    sent: list[list[Any]] = []
    fit = example("with_langgraph").fitting(window=WINDOW, summarise=lambda _: SUMMARY)

    def read(path: str) -> str:
        """Reads a file."""
        return FILE

    async def model(state: MessagesState) -> dict[str, Any]:
        sent.append(await fit(state["messages"]))
        if len(sent) > ROUNDS:
            return {"messages": [AIMessage("All are read.")]}
        call = ToolCall(
            name="read", args={"path": f"part_{len(sent)}.py"}, id=f"c{len(sent)}"
        )
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([read]))
    graph.add_edge(START, "model")
    graph.add_edge("tools", "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    asked: Any = {"messages": [("system", "Be kind."), ("user", "Read twelve files.")]}
    state = await graph.compile().ainvoke(asked, {"recursion_limit": 100})
    assert len(state["messages"]) == 3 + 2 * ROUNDS
    assert len(sent[-1]) < len(state["messages"]) / 2
    assert "the first of them are read" in "".join(
        str(each.content) for each in sent[-1]
    )
    assert [sent[-1][0].content, sent[-1][-1].content] == ["Be kind.", FILE]


async def test_a_pydantic_ai_run_continues_with_a_fitting_view() -> None:
    pytest.importorskip(
        "pydantic_ai", reason="pydantic-ai is not installed: make .venv/bench"
    )
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    sent: list[list[Any]] = []

    def answer(messages: Any, info: Any) -> ModelResponse:
        sent.append(list(messages))
        if len(sent) <= ROUNDS:
            return ModelResponse(
                [ToolCallPart("read", {"path": f"part_{len(sent)}.py"})]
            )
        return ModelResponse([TextPart("All are read.")])

    processor = example("with_pydantic_ai").fitting(
        window=WINDOW, summarise=lambda _: SUMMARY
    )
    agent = Agent(
        FunctionModel(answer),
        system_prompt="Be kind.",
        capabilities=[ProcessHistory(processor)],
    )
    agent.tool_plain(lambda path: FILE, name="read")
    ran = await agent.run("Read twelve files.")
    assert ran.output == "All are read."
    words = str(sent[-1])
    assert len(words) < len(FILE) * ROUNDS / 2
    assert "Be kind." in words
    assert "the first of them are read" in words
    assert [type(part).__name__ for part in sent[-1][0].parts][:1] == [
        "SystemPromptPart"
    ]
