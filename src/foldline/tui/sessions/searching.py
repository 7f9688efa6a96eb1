"""The search across all sessions, off the event loop: one query at a time, while the index is brought up."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from foldline.history.library.session_search import Progress, SessionSearch, SessionsFound
from foldline.protocol import FoldlineError

DEBOUNCE: Final = 0.12
"""Seconds without another key before the index is asked."""
_SESSIONS: Final = 50
"""Found sessions that are asked for."""


class Searching:
    """One per screen. A cancelled `look` or `take_in` ends its thread soon, and is not heard of again."""

    def __init__(self, home: Path) -> None:
        self._search = SessionSearch(home)

    @property
    def trouble(self) -> str:
        """Why the index is not kept on disk, as a sentence; empty where it is."""
        return self._search.trouble

    async def look(self, query: str, cwd: Path | None) -> SessionsFound:
        """What was said, as far as the index knows. `cwd`: only in sessions of this folder.

        Raises:
            FoldlineError: another process keeps the index to itself, or the sessions cannot be listed.
        """
        given_up = threading.Event()
        try:
            return await asyncio.to_thread(
                self._search.find, query, limit=_SESSIONS, cwd=cwd, stopped=given_up.is_set
            )
        finally:
            given_up.set()

    async def take_in(self, told: Callable[[float], None]) -> str:
        """Bring the index up to date; `told` hears the share that is in. Why not all is in, or nothing."""
        given_up, loop = threading.Event(), asyncio.get_running_loop()

        def progress(step: Progress) -> None:
            if not given_up.is_set():
                loop.call_soon_threadsafe(told, step.done / max(step.total, 1))

        try:
            whole = await asyncio.to_thread(self._search.refresh, progress, given_up.is_set)
        except FoldlineError as failure:
            return str(failure)
        finally:
            given_up.set()
        return "" if whole else "another process is at the search index: the newest is not searched"
