"""Records the session of `foldline demo`: the offline model works on this repository.

Run from the top of a checkout: `python tests/support/record_demo.py`. Play it afterwards.
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from foldline.agent import Agent
from foldline.history import Session
from foldline.llm.offline import OfflineLLM
from foldline.tui.demo.replay import RECORDING, WINDOW

PROMPTS = (
    "List src/foldline/view. Never change a file in this session.",
    "Read src/foldline/view/cut.py",
    "Search for keep_recent_tokens in src/foldline/view",
    "Read src/foldline/view/weight.py and tell me what it does",
    "Read src/foldline/past/compactions.py, then run ls prompts",
    "Read src/foldline/text/search.py",
    "Read src/foldline/past/stats.py",
    "What did we do?",
)


async def record(checkout: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "foldline"
        shutil.copytree(
            checkout / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copytree(checkout / "prompts", root / "prompts")
        session = Session.create(root, home=Path(folder) / "home")
        agent = Agent(
            session,
            llm=OfflineLLM(WINDOW, pace=0),
            compaction="summary",
            approvals="all",
        )
        for prompt in PROMPTS:
            await agent.prompt(prompt)
        await agent.aclose()
        assert session.path is not None
        RECORDING.write_bytes(
            session.path.read_bytes().replace(str(root).encode(), b"/home/you/foldline")
        )
        compactions = len(session.projection.compactions())
        sys.stderr.write(
            f"{len(session.entries)} entries, {compactions} compactions -> {RECORDING}\n"
        )


if __name__ == "__main__":
    asyncio.run(record(Path.cwd()))
