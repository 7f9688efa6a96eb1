"""A recorded session in a small window, with invariants checked at each compaction."""

from collections.abc import Sequence
from pathlib import Path

from foldline.compaction import CompactionFailed, load_strategy, propose
from foldline.compaction.rewrite import NOT_SMALLER
from foldline.formats import read_foreign
from foldline.memory.clip import clip_to_tokens
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Entry,
    Reason,
    ToolResultMessage,
    Undo,
    UserMessage,
)
from foldline.view.budget import Budget, budget_for
from foldline.view.items import is_preamble, with_text
from foldline.view.projection import Projection, project
from foldline.view.rules import broken
from foldline.view.weight import view_size
from foldline_eval.replay import recorded_messages
from support.llm import ScriptedLLM

NOTES = (
    "## Goal\nNotes on the work so far.\n## Constraints & Preferences\n(none)\n"
    "## Progress\n### Done\nSo much, "
    + "with detail, "
    * 100
    + "\n### In Progress\n(none)\n"
    "### Blocked\n(none)\n## Key Decisions\n(none)\n## Next Steps\n(none)\n## Critical Context\n(none)"
)
MODEL_FREE = ("hide", "digest")
_UNCOMPACTABLE_SHARE = 4
"""Share of the window that uncompactable items may take before a compaction may fail."""


class CompactingReplay:
    """Plays a session's messages, and compacts when the window is full."""

    def __init__(self, strategy: str, window: int) -> None:
        self.name = strategy
        self.strategy = load_strategy(strategy)
        self.budget: Budget = budget_for(window)
        self.entries: list[Entry] = []
        self.live = Projection()
        self.compactions = 0
        self.refused = 0

    async def play(self, messages: Sequence[BaseMessage]) -> None:
        for message in messages:
            full = view_size(self.live).tokens >= self.budget.threshold
            if isinstance(message, UserMessage | AssistantMessage) and full:
                await self.compaction("threshold")
            self.append(self._narrowed(message))
        await self.compaction("manual")
        assert broken(self.live) == []

    def append(self, entry: Entry) -> None:
        numbered = entry.model_copy(update={"index": len(self.entries)})
        self.entries.append(numbered)
        self.live.append(numbered)

    async def compaction(self, reason: Reason) -> None:
        before = [item.message for item in self.live.view]
        llm = ScriptedLLM(always=NOTES, window=self.budget.window)
        try:
            proposal = await propose(
                self.live,
                strategy=self.strategy,
                llm=llm,
                budget=self.budget,
                reason=reason,
            )
        except CompactionFailed as failure:
            # Below the threshold, a summary that saves nothing ends the compaction.
            too_little = reason == "manual" and NOT_SMALLER in str(failure)
            assert (
                too_little
                or self._must_stay() > self.budget.window // _UNCOMPACTABLE_SHARE
            ), str(failure)
            self.refused += 1
            return
        if proposal is None:
            return
        assert self.name not in MODEL_FREE or llm.requests == []
        self.append(proposal.entry)
        self.compactions += 1
        self._check(before, [message.text for message in proposal.after])
        if reason == "threshold":
            fits = view_size(self.live).tokens < self.budget.threshold
            assert (
                fits or self._must_stay() > self.budget.window // _UNCOMPACTABLE_SHARE
            )

    def _check(self, before: list[BaseMessage], previewed: list[str]) -> None:
        """Check size, invariants, preview, reload and undo of a compaction."""
        compaction = self.live.all_compactions[-1]
        assert broken(self.live) == []
        assert [item.message.text for item in self.live.view] == previewed
        assert project(self.entries).view == self.live.view
        undone = self.live.with_entries(Undo(target=compaction.index))
        assert [item.message for item in undone.view] == before

    def _must_stay(self) -> int:
        """Tokens of the preamble, the newest request, and the newest answer with its results."""
        view = self.live.view
        newest = max(
            (at for at, item in enumerate(view) if item.kind == "user"), default=0
        )
        answer = max(
            (at for at, item in enumerate(view) if item.kind == "assistant"),
            default=newest,
        )
        scale = self.live.meter.calibration.scale(self.live.meter.model)
        fixed_items = [item for item in view if is_preamble(item.message)]
        fixed_items += [view[newest], *view[max(newest + 1, answer) :]] if view else []
        return round(scale * sum(item.tokens for item in fixed_items))

    def _narrowed(self, message: BaseMessage) -> BaseMessage:
        """Clip a result to half of the remaining room."""
        if not isinstance(message, ToolResultMessage):
            return message
        room = int((self.budget.threshold - view_size(self.live).tokens) / 1.4)
        limit = min(self.budget.window // 10, max(room // 2, 64))
        return with_text(message, clip_to_tokens(message.text, limit, message.index))


async def play_recording(path: Path, strategy: str, window: int) -> CompactingReplay:
    playing = CompactingReplay(strategy, window)
    await playing.play(recorded_messages(read_foreign(path).entries))
    return playing
