"""Ten turns of reading with any preset, against the server that counts cache hits."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from foldline.protocol import Compaction
from support.agents import agent_in, write_lines
from support.clients import preset_at
from support.server import Seen, running_server

TURNS = 10


@dataclass(frozen=True)
class Run:
    requests: list[Seen]
    compactions: int

    @property
    def share(self) -> float:
        """Cached share of ordinary requests that follow another one.

        The first request after a compaction is left out: all of it is new.
        """
        ordinary = [seen for seen in self.requests if seen.body.get("tools")]
        follow = [
            after
            for before, after in pairwise(ordinary)
            if after.prompt_tokens > before.prompt_tokens
        ]
        assert len(follow) > TURNS
        return sum(seen.cached_tokens for seen in follow) / sum(
            seen.prompt_tokens for seen in follow
        )


async def read_files(
    folder: Path,
    preset: str,
    model: str = "scripted-1",
    window: int = 200_000,
    lines: int = 40,
) -> Run:
    """Run ten prompts that read two files each, one a step."""
    (folder / "project").mkdir()
    for number in range(2 * TURNS):
        write_lines(folder / "project" / f"part{number}.py", lines)
    flags = ["--marked"] if model != "scripted-1" else []
    with running_server(window=window, model=model, flags=flags) as server:
        agent, _ = agent_in(folder / "project", preset_at(server, preset, window))
        try:
            for turn in range(TURNS):
                first, second = f"part{2 * turn}.py", f"part{2 * turn + 1}.py"
                await agent.prompt(
                    f"Read {first} and {second} one by one and tell me the last line."
                )
            compactions = sum(
                isinstance(entry, Compaction) for entry in agent.session.entries
            )
        finally:
            await agent.aclose()
        requests = server.requests()
    assert not [seen.rejected for seen in requests if seen.rejected]
    return Run(requests, compactions)
