"""The desk: what everything that works on one session shares. No decisions beyond sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from foldline.compaction import CompactionStrategy, SummaryCompaction
from foldline.context.budget import Budget, BudgetSettings, budget_for
from foldline.context.projection import Projection
from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.context.view import is_preamble
from foldline.context.weight import view_size
from foldline.history import Session
from foldline.llm import LLM, ToolSpec
from foldline.protocol import BaseMessage, FoldlineError
from foldline.protocol.events import Event

from .approvals import Policy
from .tools import FileMemory, Tool


@dataclass
class Desk:
    """Session, model, tools and limits of one agent. The executor's task is the only one that changes it."""

    session: Session
    llm: LLM
    tools: Sequence[Tool]
    emit: Callable[[Event], None]
    strategy: CompactionStrategy = field(default_factory=SummaryCompaction)
    mode: Literal["auto", "off"] = "auto"
    """Whether a full window is folded without being asked."""
    budget_settings: BudgetSettings = field(default_factory=BudgetSettings)
    policy: Policy = field(default_factory=Policy)
    known_files: FileMemory = field(default_factory=FileMemory)

    @property
    def projection(self) -> Projection:
        return self.session.projection

    @property
    def cwd(self) -> Path:
        return Path(self.session.cwd)

    @property
    def specs(self) -> list[ToolSpec]:
        return [tool.spec for tool in self.tools]

    @property
    def budget(self) -> Budget:
        return budget_for(self.llm.info.window, self.llm.info.max_output, self.budget_settings)

    @property
    def overhead(self) -> int:
        """Estimate of the tool schemas that go with every request, before calibration, in tokens."""
        return sum(spec_tokens(spec) for spec in self.specs)

    def size(self, pending: Sequence[BaseMessage] = ()) -> int:
        """Tokens of the next request, these messages included, as decisions use it."""
        return view_size(self.projection, overhead=self.overhead, pending=pending).tokens

    def is_full(self, pending: Sequence[BaseMessage] = ()) -> bool:
        return self.size(pending) >= self.budget.threshold

    def room_for_results(self) -> int:
        """What the results of one tool group may take together, in estimated tokens.

        So much that after a fold they still fit beside preamble, summary and request (invariant 7).
        """
        scale = self.projection.calibration.scale(self.projection.model)
        fixed = sum(item.tokens for item in self.projection.view if is_preamble(item.message) or item.pinned)
        budget = self.budget
        free = budget.threshold - budget.max_summary_tokens - budget.keep_recent_tokens // 2
        return max(_LEAST_ROOM, int(free / scale) - fixed - self.overhead)

    def check_window(self, preamble: Sequence[BaseMessage]) -> None:
        """Raises FoldlineError where system prompt and tools alone fill the window."""
        scale = self.projection.calibration.scale(self.llm.info.id)
        fixed = round(scale * (sum(message_tokens(message) for message in preamble) + self.overhead))
        budget = self.budget
        if fixed + budget.max_summary_tokens >= budget.threshold:
            raise FoldlineError(
                f"The window of {budget.window:,} tokens is too small: system prompt, instruction files and "
                f"tools take about {fixed:,} and {budget.reserve_tokens:,} are reserved for the answer. "
                "Choose a model with a larger window, or set FOLDLINE_CONTEXT_WINDOW."
            )


_LEAST_ROOM = 512
"""Estimated tokens that a tool result gets in any case: enough for an error message."""


def spec_tokens(spec: ToolSpec) -> int:
    return estimate_tokens(f"{spec.name} {spec.description} {spec.parameters}")
