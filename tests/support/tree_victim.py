"""A process that works on a session with subagents until killed.

Run as a script with the session's folder, a seed, and the folder of the first session.
"""

import asyncio
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from foldline.agent import Agent
from foldline.history import Session
from foldline.protocol import operations, text_parts
from support.trees import Busy


async def work(events: Path, seed: str) -> None:
    chance = random.Random(seed)
    agent = Agent(Session.open(events), llm=Busy(), approvals="all", interactive=True)
    print("ready", flush=True)
    while True:
        word = chance.choice(["two", "two", "spawn", "talk"])
        task = agent.executor.submit(
            operations.RunAgent(parts=text_parts(f"{word} now"))
        )
        for _ in range(chance.randrange(200)):
            await asyncio.sleep(0)
        operation = chance.choice(
            [operations.SendToBackground(), operations.Interrupt(), None]
        )
        if operation is not None:
            agent.executor.submit(operation)
        await agent.executor.wait_for(task)
        places = agent.session.projection.checkpoints
        if places and chance.random() < 0.2:
            rewind = operations.Rewind(checkpoint=chance.choice(places).id, files=True)
            await agent.executor.wait_for(agent.executor.submit(rewind))


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
