"""Switches to the next model of the setting `fallback` where one fails for good in a turn."""

import asyncio
from collections.abc import Callable

from foldline.history import spawned_of
from foldline.llm import LLM, LLMError, ModelInfo
from foldline.protocol import FoldlineError
from foldline.protocol.events import Notice, Option

from .commands import compacts_before_switch, take_over
from .state import AgentState

_OF_THE_REQUEST = frozenset({400, 413, 422})
"""What was sent is refused: another model is not asked behind the user's back to take it."""


class Fallbacks:
    """The models that may take over in one turn, each once. The one that does stays, until /model."""

    def __init__(self, state: AgentState, connect: Callable[[str], LLM]) -> None:
        self._state = state
        self._connect = connect
        self._left = list(state.fallback)

    async def take(self, failure: LLMError) -> bool:
        """Whether another model has taken over: where somebody is there, after they said so."""
        if failure.status in _OF_THE_REQUEST:
            return False
        while self._left:
            name = self._left.pop(0)
            try:
                llm = await asyncio.to_thread(self._connect, name)  # its key may come from a command
            except FoldlineError as why:
                self._state.warn(f"{name} cannot take over: {why}")
                continue
            took = await self._taken_over(llm, name, failure)
            if took is not None:
                return took
        return False

    async def _taken_over(self, llm: LLM, name: str, failure: LLMError) -> bool | None:
        """Whether it has; None where it cannot. Its window is known before anybody is asked."""
        state, used = self._state, False
        now = state.llm.info
        try:
            info = await llm.prepare()
            if (info.id, info.provider) == (now.id, now.provider):
                return None
            if not await self._agreed(info, name, failure):
                return False
            used = True
            await take_over(state, llm, writer=llm)
        except FoldlineError as why:
            state.warn(f"{name} cannot take over: {why}")
            return None
        finally:
            if not used:
                await llm.aclose()
        return True

    async def _agreed(self, info: ModelInfo, name: str, failure: LLMError) -> bool:
        """Whether the user wants it; nobody there, it is only said."""
        state = self._state
        first = compacts_before_switch(state, info.window, info.max_output, info.id)
        how = f", compacting first for its window of {info.window:,} tokens" if first else ""
        choices = (state.parent or state).choices
        if not choices.interactive:
            state.emit(Notice(level="warning", text=f"{failure} Continuing with {name}{how}."))
            return True
        option = Option(key="f", label=f"continue with {name}{how}")
        title, otherwise = str(failure), "Esc leaves it: /retry tries again."
        if spawned := spawned_of(state.session.header):
            title, otherwise = f"{spawned.agent}: {failure}", "Esc ends this subagent."
        return (await choices.ask(title, [option], otherwise)).key == "f"
