"""What a compaction strategy is: messages in, messages out, or None for "nothing to do"."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from foldline.llm import LLM
from foldline.protocol import BaseMessage, FoldDetails, FoldlineError


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """What a strategy works with. All sizes in tokens.

    The messages carry their index: one that comes back with it is kept or replaced, one without is new.
    """

    history: Sequence[BaseMessage]
    token_count: int
    max_context_size: int
    reserved_context_size: int
    llm: LLM
    focus: str | None = None
    keep_recent_tokens: int = 0
    """Of the newest work to keep verbatim, in estimated tokens before calibration."""
    max_summary_tokens: int = 4_096
    pins: frozenset[int] = frozenset()
    """Indices of messages that must come back as they are."""
    details: FoldDetails = field(default_factory=FoldDetails)
    """The files read and modified so far."""


class CompactionStrategy(Protocol):
    """Rewrites a view. When to run it is not its business."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None: ...


class CompactionFailed(FoldlineError):
    """A compaction that could not be done. Nothing has changed; the sentence says why."""


class DraftRejected(CompactionFailed):
    """A model's draft that must not replace anything: empty, cut off, a tool call, not smaller."""
