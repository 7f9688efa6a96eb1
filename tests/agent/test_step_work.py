"""The work of a step is that of what is new in it, however long the session is."""

from pathlib import Path

import pytest

from foldline.past import proof
from foldline.protocol import Entry
from support.agents import PlayedLLM, agent_in, tool_reply, write_lines


async def test_what_earlier_requests_carried_is_not_hashed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "a.txt", 3)
    steps = [
        tool_reply(("read", {"path": "a.txt"}), stem=f"c{number}-")
        for number in range(15)
    ]
    llm = PlayedLLM(*steps, "read", "again")
    agent, _ = agent_in(tmp_path, llm)
    hashed: list[Entry] = []
    dump = proof.dump_entry
    monkeypatch.setattr(
        proof, "dump_entry", lambda entry: (hashed.append(entry), dump(entry))[1]
    )
    await agent.prompt("read a.txt")
    await agent.prompt("more")
    assert len(hashed) == len(llm.requests[-1].messages) >= 30
    await agent.aclose()
