"""Whatever happens to a session with subagents, in any order: each history is whole, none is orphaned, and
the model hears of each."""

import asyncio
import itertools
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foldline.agent import Agent
from foldline.history import Session
from foldline.protocol import operations, text_parts
from support.agents import agent_in
from support.limits import examples
from support.trees import Busy, check_reports, check_tree

STEPS = (
    "spawn", "two", "cancel", "background", "crash", "rewind", "go", "undo", "undo any", "fork", "compact",
    "talk", "esc",
)  # fmt: skip
"""What may happen."""
ALL = [
    ("two", 0),
    ("cancel", 40),
    ("rewind", 3),
    ("fork", 30),
    ("spawn", 0),
    ("undo", 0),
    ("go", 25),
]


class Life:
    """A session with its agent, which is begun again after each crash."""

    def __init__(self, folder: Path) -> None:
        self.agent, _ = agent_in(folder, Busy(), interactive=True)
        self.left: list[Agent] = []
        """Those of which a crash has taken the session away, and those that were forked."""

    async def step(self, what: str, ticks: int) -> None:
        agent, run = self.agent, operations.RunAgent
        match what:
            case "spawn" | "two" | "talk":
                await self.ended(
                    agent.executor.submit(run(parts=text_parts(f"{what} now")))
                )
            case "cancel" | "background" | "crash":
                task = agent.executor.submit(run(parts=text_parts("two now")))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                if what == "crash":
                    self.crash()
                else:
                    is_cancel = what == "cancel"
                    word = (
                        operations.Interrupt()
                        if is_cancel
                        else operations.SendToBackground()
                    )
                    agent.executor.submit(word)
                await self.ended(task, agent)
            case "rewind" if places := agent.session.projection.checkpoints:
                place = places[ticks % len(places)].id
                await self.ended(
                    agent.executor.submit(
                        operations.Rewind(checkpoint=place, files=True)
                    )
                )
            case "go" if (last := agent.session.projection.last_index) > 0:
                files = ticks % 2 == 0
                await self.ended(
                    agent.executor.submit(
                        operations.Rewind(moment=ticks % last, files=files)
                    )
                )
            case "undo any" if (last := agent.session.projection.last_index) > 0:
                target = ticks % last
                await self.ended(
                    agent.executor.submit(operations.UndoCompaction(target=target))
                )
            case "fork" if len(agent.session.entries):
                await self.fork(ticks)
            case "undo":
                await self.ended(agent.executor.submit(operations.UndoCompaction()))
            case "compact":
                await self.ended(
                    agent.executor.submit(operations.CompactSession(reason="manual"))
                )
            case "esc":
                agent.executor.submit(operations.Interrupt())
            case _:
                pass

    async def ended(self, task: str, agent: Agent | None = None) -> None:
        await (agent or self.agent).executor.wait_for(task)

    def crash(self) -> None:
        """What a kill leaves: the files as they are now, found by another process."""
        assert self.agent.session.path is not None
        here = self.agent.session.path.parent
        if not here.exists():
            return
        there = here.with_name(f"{here.name}-{next(_COPIES)}")
        shutil.copytree(
            here, there, ignore=shutil.ignore_patterns("lock", "*.json", "index.jsonl")
        )
        self.go_on_in(there)

    async def fork(self, ticks: int) -> None:
        """Goes on in a copy, which ends with any entry; those in the background work on in the other."""
        session = self.agent.session
        assert session.path is not None
        until = session.entries[ticks % len(session.entries)].index
        copy = await session.copy(home=session.path.parents[3], until=until)
        copy.close()
        assert copy.path is not None
        self.go_on_in(copy.path)

    def go_on_in(self, path: Path) -> None:
        self.left.append(self.agent)
        self.agent = Agent(
            Session.open(path), llm=Busy(), approvals="all", interactive=True
        )


_COPIES = itertools.count()


@settings(deadline=None, max_examples=examples(25))
@example(
    [
        *ALL,
        ("crash", 50),
        ("two", 0),
        ("undo any", 30),
        ("go", 12),
        ("background", 60),
        ("fork", 9),
    ]
)
@example([*reversed(ALL), ("background", 30), ("crash", 20), *ALL])
@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 60)), min_size=1, max_size=8
    )
)
def test_every_history_of_the_tree_is_whole_after_anything(
    steps: list[tuple[str, int]],
) -> None:
    async def live(folder: Path) -> None:
        life = Life(folder)
        try:
            for what, ticks in steps:
                await life.step(what, ticks)
                assert life.agent.session.path is not None
                if life.agent.session.path.exists() and not life.agent.executor.busy:
                    check_tree(life.agent.session.path)
        finally:
            for agent in (life.agent, *life.left):
                await agent.aclose()
        assert life.agent.session.path is not None
        if life.agent.session.path.exists():
            await check_reports(life.agent.session.path)
        for agent in (life.agent, *life.left):
            assert agent.session.path is not None
            if agent.session.path.exists():
                check_tree(agent.session.path)

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOLDLINE_HOME", str(Path(folder) / "project-home"))
        (Path(folder) / "project").mkdir()
        asyncio.run(live(Path(folder) / "project"))
