"""Switches to the next model of the `fallback` setting when a model fails permanently during a turn."""

import asyncio
from collections import deque

from foldline.agent.session.commands import compacts_before_switch, take_over
from foldline.agent.session.state import AgentState
from foldline.history import spawned_of
from foldline.llm import LLM, LLMError, ModelInfo
from foldline.protocol import FoldlineError
from foldline.protocol.events import Option

CANNOT_TAKE_OVER = "{name} cannot take over: {error}"
CONTINUING = "{error} Continuing with {name}{remark}."
CONTINUE = "Continue with {name}{remark}"
COMPACTING = ", compacting first for its window of {window:,} tokens"
ESC_STOPS = "Press Esc to stop here. /retry tries again later."
ESC_ENDS = "Press Esc to stop this subagent."

_REQUEST_ERRORS = frozenset({400, 413, 422})
"""HTTP status codes that mean the request is at fault.

After one of these, no other model is tried.
"""


class Fallbacks:
    """The fallback models of one turn, each tried once.

    A switch lasts until the user runs /model.
    """

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._names = deque(state.models.fallback)

    async def take(self, failure: LLMError) -> bool:
        """Switch to the next model, if the user agrees.

        Returns:
            Whether the model was switched.
        """
        if failure.status in _REQUEST_ERRORS:
            return False
        while self._names:
            name = self._names.popleft()
            try:
                llm = await asyncio.to_thread(
                    self._state.models.connect, name
                )  # may run a command to get the key
                result = await self._switch_to(llm, name, failure)
            except FoldlineError as error:
                self._state.events.warn(CANNOT_TAKE_OVER, name=name, error=error)
                continue
            if result is not None:
                return result
        return False

    async def _switch_to(self, llm: LLM, name: str, failure: LLMError) -> bool | None:
        """Ask the user, and switch the model.

        Returns:
            False if the user declines, or None if the new model is the one that failed.

        Raises:
            FoldlineError: the model cannot take over.
        """
        is_handed_over = False
        failed = self._state.models.llm.info
        try:
            info = (
                await llm.prepare()
            )  # before the question, which mentions the model's window
            if (info.id, info.provider) == (failed.id, failed.provider):
                return None
            if not await self._is_agreed(info, name, failure):
                return False
            is_handed_over = True
            await take_over(self._state, llm, writer=llm)
        finally:
            if not is_handed_over:
                await llm.aclose()
        return True

    async def _is_agreed(self, info: ModelInfo, name: str, failure: LLMError) -> bool:
        """Ask whether to switch.

        Without a user, emits a warning and returns True.
        """
        state = self._state
        remark = ""
        if compacts_before_switch(
            state.compaction, info.window, info.max_output, info.id
        ):
            remark = COMPACTING.format(window=info.window)
        choices = (state.parent or state).permissions.choices
        if not choices.interactive:
            state.events.warn(CONTINUING, error=failure, name=name, remark=remark)
            return True
        title = str(failure)
        alternative = ESC_STOPS
        if spawned := spawned_of(state.session.header):
            title = f"{spawned.agent}: {failure}"
            alternative = ESC_ENDS
        label = CONTINUE.format(name=name, remark=remark)
        option = Option(key="f", label=label)
        answer = await choices.ask(title, [option], alternative)
        return answer.key == "f"
