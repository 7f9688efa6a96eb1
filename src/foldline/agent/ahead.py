"""The draft of the next fold, begun before the window is full, so that only the commit is left when it is.

It reads the view as it was when it was begun, changes nothing, and commits nothing by itself (decision 35).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from foldline.compaction import CompactionStrategy, Progress, Proposal
from foldline.llm import LLM
from foldline.protocol import FoldlineError, events
from foldline.protocol.events import Event

Draft = Callable[[Progress], Awaitable[Proposal | None]]

_TELL_EACH = 50
"""Estimated tokens between two reports of how long the draft is."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a draft is made from, besides the work in the view.

    While this is the same, the view has only grown, and the cut of the draft stands: it is begun near enough
    to the threshold for that (`Budget.draft_mark`).
    """

    change: object
    """The newest change of the view."""
    strategy: CompactionStrategy
    writer: LLM

    def is_same(self, other: "Basis") -> bool:
        mine, others = (self.change, self.strategy, self.writer), (other.change, other.strategy, other.writer)
        return all(one is another for one, another in zip(mine, others, strict=True))


class Ahead:
    """At most one draft, being written or ready. `on` is whether any is begun."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self.emit: Callable[[Event], None] = lambda _: None
        self.declined: object = False
        """The newest change of the view when the user stopped a draft."""
        self.overdue = False
        """Whether the moment to commit it has come before it was written: a task is done, or a turn."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called once one that is overdue is there."""
        self._basis: Basis | None = None
        self._task: asyncio.Task[Proposal | None] | None = None
        self._listener: Progress | None = None
        """Who hears of the draft, once a fold waits for it."""
        self._written: list[str] = []
        self._drafted = self._told = 0

    @property
    def drafting(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def ready(self) -> bool:
        return self._task is not None and self._task.done() and _made_by(self._task) is not None

    def serves(self, now: Basis) -> bool:
        """Whether what was begun is still good.

        Also where nothing came of it: what failed, or was of no use, is not tried again before something has
        changed.
        """
        return self._basis is not None and self._basis.is_same(now)

    def heed(self, change: object) -> None:
        """The newest change of the view is this: what was made for another view is given up at once."""
        if self._basis is not None and self._basis.change is not change:
            self.drop()

    def begin(self, basis: Basis, draft: Draft) -> None:
        """Draft in the background, instead of what was begun before."""
        self.drop()
        self._basis = basis
        self._task = asyncio.create_task(self._run(draft))
        self._task.add_done_callback(self._ended)

    async def take(self, now: Basis, progress: Progress) -> Proposal | None:
        """The draft, where it is good for this view; waited for, where it is still being written.

        None where there is none, or it fails or is given up while it is waited for. Cancelled, or not good
        for this view, it is given up.
        """
        if self._task is None or not self.serves(now):
            self.drop()
            return None
        if self.drafting:
            self._listener = progress
            progress(self._so_far())
        try:
            return await self._task
        except asyncio.CancelledError:
            waits = asyncio.current_task()
            if waits is None or waits.cancelling():
                raise
            return None  # only the draft was cancelled
        finally:
            self.drop()

    def drop(self) -> None:
        """Give up what there is, if it is still being written by cancelling it."""
        task, self._task, self._basis, self._listener = self._task, None, None, None
        self._written, self._drafted, self._told = [], 0, 0
        self.overdue = False
        if task is not None:
            task.cancel()
            self._tell("gone")

    def refuse(self, change: object) -> None:
        """The user stops a draft, this one or one that a fold waits for. None is begun before something
        else changes the view."""
        self.declined = change
        if self.drafting and self._listener is None:
            self.drop()

    async def aclose(self) -> None:
        """Cancel it and wait for its end."""
        task = self._task
        self.drop()
        if task is not None:
            await asyncio.wait([task])

    async def _run(self, draft: Draft) -> Proposal | None:
        self._tell("drafting")
        try:
            made = await draft(self._hear)
        except FoldlineError as failure:
            self._tell("gone")
            if self._listener is None:
                late = "It is drafted when the window is full."
                self.emit(events.Notice(text=f"The next fold could not be drafted ahead. {failure} {late}"))
            return None
        if made is None:
            self._tell("gone")
        else:
            self._tell("ready", made)
        return made

    def _ended(self, task: asyncio.Task[Proposal | None]) -> None:
        if _made_by(task) and task is self._task and self.overdue and self._listener is None:
            self.on_ready()

    def _hear(self, event: events.CompactionProgress | events.Retrying) -> None:
        if self._listener is not None:
            self._listener(event)
        elif isinstance(event, events.Retrying):
            self._written.clear()
        else:
            self._written.append(event.delta)
            self._drafted = max(self._drafted, event.drafted_tokens)
            if self._drafted - self._told >= _TELL_EACH:
                self._tell("drafting")

    def _so_far(self) -> events.CompactionProgress:
        return events.CompactionProgress(
            stage="draft", delta="".join(self._written), drafted_tokens=self._drafted
        )

    def _tell(self, state: Literal["drafting", "ready", "gone"], made: Proposal | None = None) -> None:
        self._told = self._drafted
        before, after = (made.entry.tokens_before, made.entry.tokens_after) if made else (0, 0)
        self.emit(
            events.DraftAhead(
                state=state, drafted_tokens=self._drafted, tokens_before=before, tokens_after=after
            )
        )


def _made_by(ended: asyncio.Task[Proposal | None]) -> Proposal | None:
    return None if ended.cancelled() or ended.exception() else ended.result()
