"""The runner as the chat drives it, without a screen.

Its editor accepts returned prompts.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.frontend.runner import Runner
from foldline.protocol import UserMessage, events
from foldline.protocol.events import Event
from foldline.view.budget import BudgetSettings
from support.agents import PlayedLLM, Watch, agent_in, other_tasks_done

NO_PHASE = BudgetSettings(soft_ratio=1.0)
FULL = "All there is to know about it, again and again. " * 145


class Editor:
    """Stand-in for the prompt editor: accepts a returned prompt if it is empty."""

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
    """A runner with its agent and all its events."""

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
        return [
            entry.text
            for entry in self.agent.session.entries
            if isinstance(entry, UserMessage)
        ]

    async def finished(self, count: int) -> None:
        await self.watch.first(events.TaskFinished, count)

    async def at_rest(self) -> None:
        """Wait until no task and no delivery is pending."""
        await self.watch.until(lambda: not self.agent.executor.busy)
        while self.runner._delivery is not None and not self.runner._delivery.done():
            await asyncio.wait([self.runner._delivery])


@asynccontextmanager
async def driven_agent(
    tmp_path: Path, *script: Any, **options: Any
) -> AsyncIterator[DrivenAgent]:
    """Start a runner with a model that plays this script.

    By default no turn ends in a compaction.
    """
    summaries = options.pop("summaries", ())
    options.setdefault("budget", NO_PHASE)
    options.setdefault(
        "compaction", "summary"
    )  # its drafts take time, so that tests can look at them
    llm_class = options.pop("played", PlayedLLM)
    llm = llm_class(*script, window=options.pop("window", 16_384), summaries=summaries)
    agent, watch = agent_in(tmp_path, llm, **options)
    runner = DrivenAgent(agent, watch, llm)
    try:
        yield runner
    finally:
        await runner.runner.aclose()
        await other_tasks_done()


async def fill(runner: DrivenAgent) -> None:
    """Send prompts until the next one would cross the threshold."""
    count = len(runner.watch.of(events.TaskFinished))
    for _ in range(6):
        runner.runner.send(FULL)
        count += 1
        await runner.finished(count)
        await runner.at_rest()
    assert runner.agent.session.projection.all_compactions == []
    assert runner.agent.must_make_room(
        runner.agent.session.projection.view[-2].message.parts
    )
