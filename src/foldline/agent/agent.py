"""The agent as a library offers it: a session, a model, prompts in, answers out."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from foldline.compaction import CompactionStrategy, SummaryCompaction, automation_paused, plan
from foldline.context.budget import BudgetSettings
from foldline.history import Session
from foldline.llm import LLM
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    Part,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import TaskFinished

from .approvals import Mode, Policy
from .desk import Desk
from .executor import Executor
from .tools import Tool, default_tools
from .tools.recall import recall_tools


class Agent:
    """Works on one session with one model. `executor` runs it; `prompt` is all that most callers need."""

    def __init__(
        self,
        session: Session,
        *,
        llm: LLM,
        compaction: CompactionStrategy | None = None,
        mode: Literal["auto", "off"] = "auto",
        budget: BudgetSettings | Callable[[int], BudgetSettings] | None = None,
        approvals: Mode = "ask",
        tools: Sequence[Tool] | None = None,
        connect: Callable[[str], LLM] | None = None,
    ) -> None:
        """`budget` in tokens, or as a function of the window; `connect` is the way to other models."""
        self.session = session
        self.desk = Desk(
            session=session,
            llm=llm,
            tools=(*default_tools(), *recall_tools(session)) if tools is None else tools,
            emit=lambda _: None,
            strategy=compaction or SummaryCompaction(),
            mode=mode,
            budget_settings=budget if callable(budget) else lambda _: budget or BudgetSettings(),
            policy=Policy(mode=approvals),
        )
        self.executor = Executor(self.desk, connect or _no_other_model)

    def must_fold(self, parts: Sequence[Part]) -> bool:
        """Whether this prompt, sent now, would cross the threshold, and a fold can come first."""
        desk = self.desk
        if desk.mode == "off" or automation_paused(desk.projection):
            return False
        with suppress(FoldlineError):  # A window too small to work in: the turn will say so.
            full = desk.is_full([UserMessage(parts=tuple(parts))])
            return (
                full and plan(desk.projection, desk.budget, "threshold", overhead=desk.overhead) is not None
            )
        return False

    def fits(self, parts: Sequence[Part]) -> bool:
        """Whether this prompt fits the window as it is, if only just."""
        return self.desk.size([UserMessage(parts=tuple(parts))]) < self.desk.budget.window

    async def prompt(self, text: str) -> AssistantMessage:
        """Send a prompt, folding first where the window is full; the final answer of the turn.

        Raises:
            FoldlineError: the turn failed or was cancelled. The history keeps what there was of it.
        """
        parts = text_parts(text)
        await self.desk.llm.prepare()
        if self.must_fold(parts):
            await self._fold_for(parts)
        first = self.session.next_index
        _demand_done(await self._run(operations.RunAgent(parts=parts)))
        said = (entry for entry in reversed(self.session.entries) if isinstance(entry, AssistantMessage))
        answer = next(said, None)
        if answer is None or answer.index < first or answer.calls:
            raise FoldlineError("The model gave an empty answer: send the prompt again.")
        return answer

    async def _fold_for(self, parts: Sequence[Part]) -> None:
        """Make room. A prompt that fits all the same does not fail because the fold did."""
        finished = await self._run(operations.CompactSession(reason="threshold"))
        if finished.outcome == "failed" and self.fits(parts):
            self.executor.emit(sent_unfolded(finished.error))
        else:
            _demand_done(finished)

    async def compact(self, focus: str | None = None) -> None:
        """Fold now, as `/compact` does.

        Raises:
            FoldlineError: it failed; nothing has changed.
        """
        _demand_done(await self._run(operations.CompactSession(reason="manual", focus=focus)))

    async def _run(self, operation: operations.Operation) -> TaskFinished:
        return await self.executor.wait_for(self.executor.submit(operation))

    async def aclose(self) -> None:
        await self.executor.aclose()


def sent_unfolded(failure: object) -> events.Notice:
    """What is said where a fold failed and the request goes out all the same."""
    return events.Notice(level="warning", text=f"{failure} Going on without a fold: it still fits.")


def _demand_done(finished: TaskFinished) -> None:
    if finished.outcome == "failed":
        raise FoldlineError(finished.error or "The operation failed.")
    if finished.outcome == "cancelled":
        raise FoldlineError("Cancelled.")


def _no_other_model(model: str) -> LLM:
    raise FoldlineError(f"No way to reach the model {model} was given to this agent.")
