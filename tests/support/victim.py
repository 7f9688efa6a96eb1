"""A process that forks writers and kills them, controlled by `kill_campaign.py`.

Run as a script. It imports everything once and forks, so that a round takes milliseconds; it starts no
threads. A writer uses the session as the agent does, and notes in a journal what each append will result in
before it begins, and that it has ended.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiofiles  # noqa: F401 - imported here once instead of by each writer
import filelock  # noqa: F401

from foldline.agent import Agent
from foldline.compaction import CompactionFailed
from foldline.compaction.proposal import REJECTED
from foldline.compaction.rewrite import NOT_SMALLER
from foldline.history import Session
from foldline.llm.offline import OfflineLLM
from foldline.protocol import (
    AssistantMessage,
    Entry,
    UserMessage,
    operations,
    text_parts,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.kill_campaign import JOURNAL, fingerprint, states_of

REFUSED = REJECTED.format(NOT_SMALLER)[:-1]
"""Allowed failure of a compaction that would save nothing."""
PATIENCE = 5.0
"""Seconds to wait for an append to begin."""


class JournalledSession(Session):
    """A session that notes in its journal each append before and after it."""

    async def _commit(self, numbered: Sequence[Entry], durable: bool) -> None:
        self._note(
            {
                "types": [entry.type for entry in numbered],
                "entries": [fingerprint(entry) for entry in numbered],
                "states": states_of(self, numbered),
            }
        )
        await super()._commit(numbered, durable)
        self._note({"done": True, "size": self.meta().size if durable else None})

    def _note(self, record: dict[str, Any]) -> None:
        assert self.path is not None
        with (self.path.parent / JOURNAL).open("ab", buffering=0) as journal:
            journal.write(json.dumps(record).encode() + b"\n")


async def work(folder: Path, chance: random.Random) -> None:
    """Use a session as a user and an agent do, until killed."""
    session = JournalledSession.open(folder, cache_from=0)
    assert isinstance(session, JournalledSession)
    agent = Agent(session, llm=OfflineLLM(pace=0), approvals="all")
    while True:
        doing = chance.choice(
            [
                prompt,
                use_tools,
                use_tools,
                compaction,
                compaction,
                apply_a_proposal,
                undo,
                pin,
                interrupt,
            ]
        )
        finished = await doing(agent, chance)
        if (
            finished is not None
            and finished.outcome == "failed"
            and REFUSED not in finished.error
        ):
            session._note({"failed": finished.error})


async def done(agent: Agent, operation: operations.Operation) -> Any:
    return await agent.executor.wait_for(agent.executor.submit(operation))


async def prompt(agent: Agent, chance: random.Random) -> Any:
    """Send a prompt.

    After undone compactions the window is full, and the user compacts first.
    """
    if agent.state.budget.past_soft_mark:
        return await compaction(agent, chance)
    text = " ".join(
        f"Point {chance.randrange(10**6)} of what is to be kept in mind."
        for _ in range(150)
    )
    return await done(agent, operations.RunAgent(parts=text_parts(text)))


async def use_tools(agent: Agent, chance: random.Random) -> Any:
    """Run calls; one result is long and goes to a file next to the session."""
    if agent.state.budget.past_soft_mark:
        return await compaction(agent, chance)
    name = f"note-{chance.randrange(20)}.txt"
    orders = [
        f'create the file {name} with "{chance.random()}", then read {name}',
        "run `seq 1 9000`",
    ]
    return await done(
        agent, operations.RunAgent(parts=text_parts(chance.choice(orders)))
    )


async def interrupt(agent: Agent, chance: random.Random) -> Any:
    """Start a turn and interrupt it at some point."""
    if agent.state.budget.past_soft_mark:
        return await compaction(agent, chance)
    task = agent.executor.submit(
        operations.RunAgent(parts=text_parts("run `sleep 0.01`, then list files"))
    )
    for _ in range(chance.randrange(40)):
        await asyncio.sleep(0)
    agent.executor.submit(operations.Interrupt())
    return await agent.executor.wait_for(task)


async def compaction(agent: Agent, chance: random.Random) -> Any:
    return await done(agent, operations.CompactSession(reason="manual"))


async def apply_a_proposal(agent: Agent, chance: random.Random) -> Any:
    finished = await done(
        agent, operations.CompactSession(reason="manual", preview=True)
    )
    proposal = agent.state.compaction.review.proposal
    if proposal is None:
        return finished
    pins = (chance.choice(proposal.view).index,)
    with suppress(
        CompactionFailed
    ):  # with a large pin, a compaction would save nothing
        await agent.state.compaction.review.revise(
            operations.ReviseProposal(proposal=proposal.id, pins=pins)
        )
    assert agent.state.compaction.review.proposal is not None
    return await done(
        agent,
        operations.ApplyProposal(proposal=agent.state.compaction.review.proposal.id),
    )


async def undo(agent: Agent, chance: random.Random) -> Any:
    compactions = agent.session.projection.compactions()
    if (
        not compactions
        or agent.session.projection.undo_refusal(compactions[-1].index) is not None
    ):
        return None
    return await done(agent, operations.UndoCompaction())


async def pin(agent: Agent, chance: random.Random) -> Any:
    items = [
        item
        for item in agent.session.projection.view
        if isinstance(item.message, UserMessage | AssistantMessage) and not item.written
    ]
    if not items:
        return None
    item = chance.choice(items)
    action = "unpin" if item.pinned else "pin"
    return await done(agent, operations.EditView(target=item.index, action=action))


def killed_after(
    folder: Path, seed: str, seconds: float, into_append: float | None
) -> int:
    """Let a writer work for `seconds`, then kill it; return its wait status.

    `into_append` waits for the next append, and that many seconds more.
    """
    writer = os.fork()
    if not writer:
        try:
            asyncio.run(work(folder, random.Random(seed)))
        except BaseException:  # noqa: BLE001 - printed here: the fork must not continue as a server
            traceback.print_exc()
        finally:
            os._exit(70)
    time.sleep(seconds)
    if into_append is not None:
        _wait_for_append(folder / JOURNAL)
        time.sleep(into_append)
    os.kill(writer, signal.SIGKILL)
    return os.waitpid(writer, 0)[1]


def _wait_for_append(journal: Path) -> None:
    """Wait until the journal shows a running append, or a short timeout."""
    latest = time.monotonic() + PATIENCE
    while time.monotonic() < latest:  # busy wait: the exact moment matters
        lines = journal.read_bytes().split(b"\n") if journal.exists() else []
        if len(lines) > 1 and lines[-2].startswith(b'{"types"'):
            return


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        folder = Path(order.pop("folder"))
        print(killed_after(folder, **order), flush=True)


if __name__ == "__main__":
    main()
