"""A recorded session sent through a small window under one strategy, every promise checked at each fold."""

from collections.abc import Sequence
from pathlib import Path

from foldline.compaction import CompactionFailed, load_strategy, propose
from foldline.context.budget import Budget, budget_for
from foldline.context.clip import clip_to_tokens
from foldline.context.invariants import broken
from foldline.context.projection import Projection, project
from foldline.context.view import is_preamble, with_text
from foldline.context.weight import view_size
from foldline.evaluation.replay import recorded_messages
from foldline.formats import read_foreign
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Entry,
    Reason,
    ToolResultMessage,
    Undo,
    UserMessage,
)
from support.llm import ScriptedLLM

NOTES = (
    "## Goal\nNotes on the work so far.\n## Constraints & Preferences\n(none)\n"
    "## Progress\n### Done\nSo much, " + "with detail, " * 100 + "\n### In Progress\n(none)\n"
    "### Blocked\n(none)\n## Key Decisions\n(none)\n## Next Steps\n(none)\n## Critical Context\n(none)"
)
MODEL_FREE = ("hide", "digest")
_UNFOLDABLE_SHARE = 4
"""What must stay may make a fold fail where it alone is more than this part of the window."""


class Playing:
    """One session, strategy and window: messages go in, and it folds where the window is full."""

    def __init__(self, strategy: str, window: int) -> None:
        self.name = strategy
        self.strategy = load_strategy(strategy)
        self.budget: Budget = budget_for(window)
        self.entries: list[Entry] = []
        self.live = Projection()
        self.folds = 0
        self.refused = 0

    async def play(self, messages: Sequence[BaseMessage]) -> None:
        for message in messages:
            full = view_size(self.live).tokens >= self.budget.threshold
            if isinstance(message, UserMessage | AssistantMessage) and full:
                await self.fold("threshold")
            self.append(self._narrowed(message))
        await self.fold("manual")
        assert broken(self.live) == []

    def append(self, entry: Entry) -> None:
        numbered = entry.model_copy(update={"index": len(self.entries)})
        self.entries.append(numbered)
        self.live.append(numbered)

    async def fold(self, reason: Reason) -> None:
        before = [item.message for item in self.live.view]
        llm = ScriptedLLM(always=NOTES, window=self.budget.window)
        try:
            proposal = await propose(
                self.live, strategy=self.strategy, llm=llm, budget=self.budget, reason=reason
            )
        except CompactionFailed as failure:
            # In a window that is not full, a summary no smaller than what it replaces is the end of it.
            too_little = reason == "manual" and "it is not smaller" in str(failure)
            assert too_little or self._must_stay() > self.budget.window // _UNFOLDABLE_SHARE, str(failure)
            self.refused += 1
            return
        if proposal is None:
            return
        assert self.name not in MODEL_FREE or llm.requests == []
        self.append(proposal.entry)
        self.folds += 1
        self._check(before, [message.text for message in proposal.after])
        if reason == "threshold":
            fits = view_size(self.live).tokens < self.budget.threshold
            assert fits or self._must_stay() > self.budget.window // _UNFOLDABLE_SHARE

    def _check(self, before: list[BaseMessage], previewed: list[str]) -> None:
        """It shrinks, holds every invariant, is what was previewed, loads as it lives, and can be undone."""
        fold = self.live.all_compactions[-1]
        assert broken(self.live) == []
        assert [item.message.text for item in self.live.view] == previewed
        assert project(self.entries).view == self.live.view
        undone = self.live.foreseen(Undo(target=fold.index))
        assert [item.message for item in undone.view] == before

    def _must_stay(self) -> int:
        """Tokens of what opens every view, the newest request, and the newest answer with what came since."""
        view = self.live.view
        newest = max((at for at, item in enumerate(view) if item.kind == "user"), default=0)
        answer = max((at for at, item in enumerate(view) if item.kind == "assistant"), default=newest)
        scale = self.live.calibration.scale(self.live.model)
        stays = [item for item in view if is_preamble(item.message)]
        stays += [view[newest], *view[max(newest + 1, answer) :]] if view else []
        return round(scale * sum(item.tokens for item in stays))

    def _narrowed(self, message: BaseMessage) -> BaseMessage:
        """As it would be here: a result clipped to half of the room that is left."""
        if not isinstance(message, ToolResultMessage):
            return message
        room = int((self.budget.threshold - view_size(self.live).tokens) / 1.4)
        limit = min(self.budget.window // 10, max(room // 2, 64))
        return with_text(message, clip_to_tokens(message.text, limit, message.index))


async def played(path: Path, strategy: str, window: int) -> Playing:
    playing = Playing(strategy, window)
    await playing.play(recorded_messages(read_foreign(path).entries))
    return playing
