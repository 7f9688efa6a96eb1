"""What a compaction strategy is: messages in, messages out, or None for "nothing to do"."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from foldline.llm import LLM, ToolSpec
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
    first_kept_index: int | None = None
    """Where the reader put the cut; None leaves it to the strategy."""
    guidance: str | None = None
    """What the reader wants done better than in `earlier_draft`."""
    earlier_draft: str | None = None
    tools: Sequence[ToolSpec] = ()
    """Those of an ordinary request: what repeats it is served from the provider's cache."""
    prefix_cached: bool = False
    """Whether `llm` has just been sent this history, by a provider that caches what requests share."""
    draft_window: int | None = None
    """Most tokens one request of a draft may take with its answer; None: the model's window."""
    may_clip_unseen: bool = False
    """Whether results that no request has carried yet may be clipped: the request that was to carry them was
    refused as too long."""

    @property
    def summariser_window(self) -> int:
        """Most tokens one request of a draft may take with its answer."""
        return self.draft_window or min(self.max_context_size, self.llm.info.window)


class CompactionStrategy(Protocol):
    """Rewrites a view. When to run it is not its business."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None: ...


class CompactionFailed(FoldlineError):
    """A compaction that could not be done. Nothing has changed; the sentence says why."""


class DraftRejected(CompactionFailed):
    """A model's draft that must not replace anything: empty, cut off, a tool call, not smaller."""
