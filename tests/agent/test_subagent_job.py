"""The reason for subagents: three of them read 600 kB in a window of 32k, and their parent never compacts."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from foldline.history import Session, children_of, tree_of
from foldline.past.proof import prove
from foldline.protocol import Compaction, RequestRecord, Subagent, ToolResultMessage
from foldline.view.rules import broken
from support.agents import agent_in
from support.clients import chat_at
from support.job_files import sample
from support.messages import tool_results
from support.server import running_server

pytestmark = pytest.mark.usefixtures("data_folder")

WINDOW = 32_768
NAMES = ("alpha", "beta", "gamma")


def read(path: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "read", "arguments": {"path": path}}]}


SCRIPT: list[dict[str, Any]] = [
    {
        "when": {"content": "<conversation>|<summary-request>"},
        "answer": {"builtin": "summary"},
    },
    {
        "when": {"role": "user", "content": "^Share it out"},
        "answer": {
            "tool_calls": [
                {
                    "name": "task",
                    "arguments": {
                        "agent": "explore",
                        "prompt": f"Begin with {name}0.txt",
                    },
                }
                for name in NAMES
            ]
        },
    },
    {
        "when": {"role": "user", "content": r"Begin with (?P<path>\S+)"},
        "answer": read("${path}"),
    },
    {
        "when": {"role": "tool", "content": r"go on with (?P<path>\S+)"},
        "answer": read("${path}"),
    },
    {
        "when": {"role": "tool", "content": r"nothing behind (?P<name>\w+)"},
        "answer": {"text": "All of ${name} is read."},
    },
    {"answer": {"text": "All three are done."}},
]


def make_files(folder: Path) -> int:
    """Thirty-six files of code, each of which names the next of its row; how many bytes they have."""
    folder.mkdir()
    size = 0
    for name in NAMES:
        paths = [f"{name}{number}.txt" for number in range(12)]
        for path, following in (*pairwise(paths), (paths[-1], "")):
            text = sample("py", 17_000)
            end = f"go on with {following}" if following else f"nothing behind {name}"
            (folder / path).write_text(f"{text}\n{end}\n")
            size += (folder / path).stat().st_size
    return size


@pytest.mark.slow
async def test_children_read_600_kb_and_the_parent_never_compacts(
    tmp_path: Path,
) -> None:
    size = make_files(tmp_path / "project")
    assert size > 600_000
    with running_server(window=WINDOW, script=SCRIPT, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=WINDOW)
        agent, _ = agent_in(tmp_path / "project", llm)
        answer = await agent.prompt("Share it out among three agents.")
        await agent.aclose()
        seen = server.requests()
    assert answer.text == "All three are done."
    assert not [each for each in seen if each.violations]

    assert agent.session.path is not None
    parent, *children = [Session.open(path) for path in tree_of(agent.session.path)]
    assert not parent.projection.compactions()
    results = tool_results(parent.entries)
    assert [each.text.splitlines()[0] for each in results] == [
        f"All of {name} is read." for name in NAMES
    ]
    assert max(each.prompt_tokens for each in seen) < WINDOW

    begun = {entry.child for entry in parent.entries if isinstance(entry, Subagent)}
    assert begun == {path.parent.name for path in children_of(agent.session.path)}
    came = 0
    for session in (parent, *children):
        assert not broken(session.projection)
        proofs = list(prove(session.entries))
        assert len(proofs) == sum(
            isinstance(entry, RequestRecord) for entry in session.entries
        )
        assert all(proof.holds for proof in proofs)
    for child in children:
        assert [entry for entry in child.entries if isinstance(entry, Compaction)]
        came += sum(
            len(entry.text.encode())
            for entry in child.entries
            if isinstance(entry, ToolResultMessage)
        )
    assert came > 600_000
