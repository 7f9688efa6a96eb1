"""Ten turns of reading with every preset: how much of the input a cache had, by the log of the server."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from foldline.llm import marks
from foldline.llm.providers import PROVIDERS
from foldline.protocol import Compaction
from support.agents import agent_in, write_lines
from support.clients import chat_at
from support.server import Seen, running_server

LEAST = 0.9
"""Of the input between compactions."""
TURNS = 10
ROUTED = "openrouter", "anthropic/claude-sonnet-5.5"


@dataclass(frozen=True)
class Run:
    requests: list[Seen]
    compactions: int

    @property
    def share(self) -> float:
        """What the cache had of ordinary requests that follow another one: after a compaction, all is new."""
        asked = [seen for seen in self.requests if seen.body.get("tools")]
        follow = [after for before, after in pairwise(asked) if after.prompt_tokens > before.prompt_tokens]
        assert len(follow) > TURNS
        return sum(seen.cached_tokens for seen in follow) / sum(seen.prompt_tokens for seen in follow)


async def read_files(
    folder: Path, preset: str, model: str = "scripted-1", window: int = 200_000, lines: int = 40
) -> Run:
    """Ten prompts, each of which has two files read, one a step."""
    provider = PROVIDERS[preset]
    (folder / "project").mkdir()
    for number in range(2 * TURNS):
        write_lines(folder / "project" / f"part{number}.py", lines)
    flags = ["--marked"] if model != "scripted-1" else []
    with running_server(window=window, model=model, flags=flags) as server:
        different = {
            name: getattr(provider, name)
            for name in ("api", "dialect", "session_field", "states_output", "takes_tools_off", "asks_usage")
        }
        llm = chat_at(server.base_url, model=model, window=window, **different)
        agent, _ = agent_in(folder / "project", llm)
        try:
            for turn in range(TURNS):
                first, second = f"part{2 * turn}.py", f"part{2 * turn + 1}.py"
                await agent.prompt(f"Read {first} and {second} one by one and tell me the last line.")
            compactions = sum(isinstance(entry, Compaction) for entry in agent.session.entries)
        finally:
            await agent.aclose()
        requests = server.requests()
    assert not [seen.rejected for seen in requests if seen.rejected]
    return Run(requests, compactions)


@pytest.mark.parametrize("preset", PROVIDERS)
async def test_nine_tenths_of_the_input_come_from_the_cache(tmp_path: Path, preset: str) -> None:
    run = await read_files(tmp_path, preset)
    assert run.share >= LEAST, f"{run.share:.1%}"


async def test_claude_at_openrouter_is_marked_and_cached(tmp_path: Path) -> None:
    run = await read_files(tmp_path, *ROUTED)
    assert run.share >= LEAST, f"{run.share:.1%}"
    assert {seen.body["session_id"] for seen in run.requests} == {run.requests[0].body["session_id"]}


async def test_four_marks_and_no_more_also_across_compactions(tmp_path: Path) -> None:
    run = await read_files(tmp_path, "anthropic", window=20_000)
    assert run.compactions > 0
    assert {seen.marks for seen in run.requests} <= {2, 3, 4}
    assert run.share >= LEAST, f"{run.share:.1%}"


@pytest.mark.parametrize(("preset", "model"), [("anthropic", "scripted-1"), ROUTED])
async def test_without_the_marks_at_the_ends_the_cache_has_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str, model: str
) -> None:
    """The instrument can fail: it is the marks that bring the share above."""

    def none(messages: Sequence[marks.Rendered]) -> list[marks.Place]:
        return []

    monkeypatch.setattr("foldline.llm.dialect.request_ends", none)
    monkeypatch.setattr("foldline.llm.messages.request_ends", none)
    assert (await read_files(tmp_path, preset, model)).share < LEAST / 2


@pytest.mark.parametrize("preset", ["openai", "openai-responses"])
async def test_the_requests_of_a_session_carry_its_name(tmp_path: Path, preset: str) -> None:
    run = await read_files(tmp_path, preset, window=20_000)
    assert run.compactions > 0
    assert len({seen.body["prompt_cache_key"] for seen in run.requests}) == 1
