"""The runner as the chat drives it, with an editor that takes prompts back, and no screen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.context.budget import BudgetSettings
from foldline.protocol import UserMessage, events
from foldline.protocol.events import Event
from foldline.tui.runner import Runner
from support.agents import PlayedLLM, Watch, agent_in, others_done

NO_PHASE = BudgetSettings(soft_ratio=1.0)
FULL = "All there is to know about it, again and again. " * 145


class Editor:
    """What of the prompt editor the runner sees: it takes a text back where it is empty."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def give_back(self, text: str) -> bool:
        if self.text:
            return False
        self.text = text
        return True

    def take(self) -> str:
        text, self.text = self.text, ""
        return text


class DrivenAgent:
    """A runner, its agent, and everything it announced."""

    def __init__(self, agent: Agent, watch: Watch, llm: PlayedLLM) -> None:
        self.agent = agent
        self.watch = watch
        self.llm = llm
        self.editor = Editor()
        self.runner = Runner(agent, self._hear, self.editor.give_back)

    def _hear(self, event: Event) -> None:
        self.watch(event)

    @property
    def queue(self) -> events.QueueChanged:
        announced: list[events.QueueChanged] = self.watch.of(events.QueueChanged)
        return announced[-1]

    @property
    def prompts(self) -> list[str]:
        return [entry.text for entry in self.agent.session.entries if isinstance(entry, UserMessage)]

    async def finished(self, count: int) -> None:
        await self.watch.first(events.TaskFinished, count)

    async def at_rest(self) -> None:
        """Until nothing runs and no delivery is under way."""
        await self.watch.until(lambda: not self.agent.executor.busy)
        while self.runner._delivery is not None and not self.runner._delivery.done():
            await asyncio.wait([self.runner._delivery])


@asynccontextmanager
async def driven(tmp_path: Path, *script: Any, **options: Any) -> AsyncIterator[DrivenAgent]:
    """A runner with a model that plays this script. Where no `budget` says so, no turn ends in a fold."""
    summaries = options.pop("summaries", ())
    options.setdefault("budget", NO_PHASE)
    options.setdefault("compaction", "summary")  # its drafts take time, and can be looked at
    played = options.pop("played", PlayedLLM)
    llm = played(*script, window=options.pop("window", 16_384), summaries=summaries)
    agent, watch = agent_in(tmp_path, llm, **options)
    made = DrivenAgent(agent, watch, llm)
    try:
        yield made
    finally:
        await made.runner.aclose()
        await others_done()


async def fill(made: DrivenAgent) -> None:
    """Prompts until the next one would cross the threshold."""
    count = len(made.watch.of(events.TaskFinished))
    for _ in range(6):
        made.runner.send(FULL)
        count += 1
        await made.finished(count)
        await made.at_rest()
    assert made.agent.session.projection.all_compactions == []
    assert made.agent.must_make_room(made.agent.session.projection.view[-2].message.parts)
