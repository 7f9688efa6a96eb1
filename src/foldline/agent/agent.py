"""The agent as a library offers it: a session, a model, prompts in, answers out."""

from collections.abc import Callable, Sequence
from typing import Literal

from foldline.compaction import CompactionStrategy, SummaryCompaction, automation_paused
from foldline.context.budget import BudgetSettings
from foldline.history import Session
from foldline.llm import LLM
from foldline.protocol import AssistantMessage, FoldlineError, Part, UserMessage, operations, text_parts

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
        budget: BudgetSettings | None = None,
        approvals: Mode = "ask",
        tools: Sequence[Tool] | None = None,
        connect: Callable[[str], LLM] | None = None,
    ) -> None:
        self.session = session
        self.desk = Desk(
            session=session,
            llm=llm,
            tools=(*default_tools(), *recall_tools(session)) if tools is None else tools,
            emit=lambda _: None,
            strategy=compaction or SummaryCompaction(),
            mode=mode,
            budget_settings=budget or BudgetSettings(),
            policy=Policy(mode=approvals),
        )
        self.executor = Executor(self.desk, connect or _no_other_model)

    def must_fold(self, parts: Sequence[Part]) -> bool:
        """Whether this prompt, sent now, would cross the threshold: then a fold comes first."""
        desk = self.desk
        if desk.mode == "off" or automation_paused(desk.projection):
            return False
        return desk.is_full([UserMessage(parts=tuple(parts))])

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
            await self._done(operations.CompactSession(reason="threshold"))
        await self._done(operations.RunAgent(parts=parts))
        for entry in reversed(self.session.entries):
            if isinstance(entry, AssistantMessage):
                return entry
        raise FoldlineError("The model gave no answer.")

    async def compact(self, focus: str | None = None) -> None:
        """Fold now, as `/compact` does.

        Raises:
            FoldlineError: it failed; nothing has changed.
        """
        await self._done(operations.CompactSession(reason="manual", focus=focus))

    async def _done(self, operation: operations.Operation) -> None:
        finished = await self.executor.wait_for(self.executor.submit(operation))
        if finished.outcome == "failed":
            raise FoldlineError(finished.error or "The operation failed.")
        if finished.outcome == "cancelled":
            raise FoldlineError("Cancelled.")

    async def aclose(self) -> None:
        await self.executor.aclose()


def _no_other_model(model: str) -> LLM:
    raise FoldlineError(f"No way to reach the model {model} was given to this agent.")
