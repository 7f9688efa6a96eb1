"""Compacting at rest, shortly before the provider's cache ends: `compaction.idle = "auto"`."""

from collections.abc import Callable
from typing import Protocol

from foldline.agent.compact import begin_draft
from foldline.protocol import events, operations
from foldline.protocol.events import Event
from foldline.tui.runner import Runner
from foldline.tui.state import IDLE_BEFORE, CacheEnds


class Stoppable(Protocol):
    """A timer."""

    def stop(self) -> None: ...


class IdleCompaction:
    """Has the compaction drafted when its time has come, while reading what it is drafted from is cheap, and
    commits it where nothing was typed or begun since. Esc stops it, like every draft."""

    def __init__(
        self,
        runner: Runner,
        is_untouched: Callable[[], bool],
        set_timer: Callable[[float, Callable[[], None]], Stoppable],
    ) -> None:
        """`is_untouched`: nothing runs, waits or stands in the editor."""
        self._runner = runner
        self._is_untouched = is_untouched
        self._set_timer = set_timer
        self._timer: Stoppable | None = None
        self._awaited = False
        """Whether a draft is to be committed once it is ready."""

    def follow(self, cache: CacheEnds | None, now: float) -> None:
        """Wait for the right moment before this end; None where there is none."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if cache is not None and cache.idle == "auto" and cache.at > now:
            self._timer = self._set_timer(max(0.0, cache.at - IDLE_BEFORE - now), self._begin)

    def _begin(self) -> None:
        state = self._runner.agent.state
        if not self._is_untouched():
            return
        if not state.draft.serves(state.basis):
            begin_draft(state)
        self._awaited = state.draft.drafting
        if state.draft.ready:
            self._commit()

    def hear(self, event: Event) -> None:
        """What became of the draft."""
        if self._awaited and isinstance(event, events.DraftAhead) and event.state != "drafting":
            self._awaited = False
            if event.state == "ready" and self._is_untouched():
                self._commit()

    def _commit(self) -> None:
        self._runner.submit(operations.CompactSession(reason="phase", cause="cache"))
