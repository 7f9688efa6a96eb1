"""Every preset, spoken by the real agent to a server in a process of its own: what is seen of it.

The table in docs/providers.md says what is asserted here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.llm.failures import REJECTED
from foldline.llm.providers import PROVIDERS
from foldline.protocol import Compaction, FoldlineError, ToolResultMessage, events
from support.agents import Watch, agent_in, write_lines
from support.clients import preset_at
from support.limits import few
from support.messages import tool_results
from support.sentences import pattern
from support.server import RunningServer, running_server

APIS = ("openai", "openai-responses", "anthropic", "openrouter")
"""What all others say of a failure is what one of these says: it is read by its API."""
each_preset = pytest.mark.parametrize("preset", PROVIDERS)
each_api = pytest.mark.parametrize(
    "preset", few([*PROVIDERS], *map([*PROVIDERS].index, APIS))
)

SENT_BACK = {
    "openai": "",
    "openai-responses": "encrypted_content",
    "anthropic": "signature",
    "gemini": "",
    "moonshot": "reasoning_content",
    "deepseek": "reasoning_content",
    "openrouter": "reasoning",
    "mistral": "",
    "groq": "",
    "xai": "",
    "ollama": "",
    "vllm": "",
    "llama-cpp": "",
    "lm-studio": "",
}
"""In what field of the next request a thought goes back to the model; nowhere, where that is empty."""
THOUGHT = "The file will tell."
ANSWER = "It says that all is well, in as many words as it takes to come in more than one piece."
SCRIPT: list[dict[str, Any]] = [
    {
        "when": {"role": "user", "content": "^Read it"},
        "answer": {
            "thinking": THOUGHT,
            "tool_calls": [{"name": "read", "arguments": {"path": "a.py"}}],
        },
    },
    {"when": {"role": "tool"}, "answer": {"text": ANSWER, "chunk": 9}},
    {
        "when": {"role": "user", "content": "^Fail"},
        "answer": {
            "fault": {
                "status": 400,
                "body": {"error": {"message": "The moon is in the way."}},
            }
        },
    },
]


def agent_at(
    server: RunningServer, folder: Path, preset: str, window: int
) -> tuple[Agent, Watch]:
    """An agent that speaks to the server as to this provider."""
    folder.mkdir(exist_ok=True)
    return agent_in(folder, preset_at(server, preset, window))


def results(agent: Agent) -> Sequence[ToolResultMessage]:
    return tool_results(agent.session.entries)


@pytest.mark.quick_cases(4)
@each_preset
async def test_it_streams_thinks_calls_tools_and_counts(
    tmp_path: Path, preset: str
) -> None:
    # Mistral refuses fields it does not know, and reports usage always.
    flags = (
        []
        if PROVIDERS[preset].asks_usage
        else ["--refuse-stream-options", "--usage-always"]
    )
    with running_server(script=SCRIPT, flags=flags) as server:
        agent, seen = agent_at(server, tmp_path / "shop", preset, server.window)
        write_lines(tmp_path / "shop" / "a.py", 20)
        try:
            await agent.prompt("Read it")
            asked, answered = server.requests()
            assert "".join(event.text for event in seen.of(events.TextDelta)) == ANSWER
            assert len(seen.of(events.TextDelta)) > 1
            assert (
                "".join(event.text for event in seen.of(events.ThinkingDelta))
                == THOUGHT
            )
            assert ["value_19" in result.text for result in results(agent)] == [True]
            usage = [event.usage for event in seen.of(events.UsageReported)]
            assert [each.input for each in usage] == [
                asked.prompt_tokens,
                answered.prompt_tokens,
            ]
            assert [each.cached for each in usage] == [
                asked.cached_tokens,
                answered.cached_tokens,
            ]
            field = f'"{SENT_BACK[preset]}"' if SENT_BACK[preset] else THOUGHT
            assert (field in answered.raw.decode()) == bool(SENT_BACK[preset])
            assert [each.rejected for each in server.requests()] == ["", ""]
        finally:
            await agent.aclose()


@pytest.mark.quick_cases(1)
@each_api
async def test_a_refusal_keeps_the_servers_words(tmp_path: Path, preset: str) -> None:
    with running_server(script=SCRIPT) as server:
        agent, _ = agent_at(server, tmp_path / "shop", preset, server.window)
        try:
            with pytest.raises(
                FoldlineError,
                match=pattern(
                    REJECTED,
                    status=" (400)",
                    because=': it says "The moon is in the way',
                ),
            ):
                await agent.prompt("Fail")
        finally:
            await agent.aclose()
        assert len(server.requests()) == 1


@pytest.mark.quick_cases(1)
@each_api
async def test_a_window_smaller_than_believed_is_compacted_for(
    tmp_path: Path, preset: str
) -> None:
    with running_server(window=12_000) as server:
        agent, _ = agent_at(server, tmp_path / "shop", preset, 200_000)
        for name in "abcdef":
            write_lines(tmp_path / "shop" / f"{name}.py", 200)
        try:
            for name in "abcdef":
                await agent.prompt(f"Read {name}.py and tell me the last line.")
        finally:
            await agent.aclose()
        requests = server.requests()
        assert {each.rejected for each in requests} == {"", "too long"}
        assert requests[-1].rejected == ""
        assert any(isinstance(entry, Compaction) for entry in agent.session.entries)
        assert len(results(agent)) == len("abcdef")
