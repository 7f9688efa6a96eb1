"""The board with its lists: read from disk and searched beside the event loop, one after the other."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from textual import on
from textual.widgets import Input

from foldline.history import list_sessions
from foldline.history.lock import holder_of
from foldline.history.session_search import IndexProgress, SessionSearch, SessionsFound
from foldline.history.stored import without_gc
from foldline.protocol import FoldlineError
from foldline.tui.sessions.board import SessionsBoard
from foldline.tui.sessions.state import Listing, Scope, SessionsState, listed, listed_foreign

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

        def progress(step: IndexProgress) -> None:
            if not given_up.is_set():
                loop.call_soon_threadsafe(told, step.done / max(step.total, 1))

        try:
            whole = await asyncio.to_thread(self._search.refresh, progress, given_up.is_set)
        except FoldlineError as failure:
            return str(failure)
        finally:
            given_up.set()
        return "" if whole else "another process is at the search index: the newest is not searched"


_FOREIGN: Final = 500
"""Sessions of other agents that are listed: a little of each file has to be read."""


def read_listing(scope: Scope, home: Path, root: Path) -> Listing:
    """The sessions of a scope; where that cannot be read, why. `root` is the folder of this chat."""
    try:
        if scope == "others":
            # Not before the screen is open: this is a thread, that would be the event loop.
            from foldline.formats.homes import AGENTS, found_sessions

            found = found_sessions(AGENTS, limit=_FOREIGN + 1)
            return Listing(tuple(map(listed_foreign, found[:_FOREIGN])), more=len(found) > _FOREIGN)
        with without_gc():  # the collector would stop the screen, too
            infos = list_sessions(home, root if scope == "here" else None, archived=scope == "archived")
            return Listing(tuple(map(listed, infos)))
    except FoldlineError as failure:
        return Listing(failure=str(failure))


_AGAIN: Final = 1.0
"""Seconds between two looks into an index that is being built."""
_STEADY: Final = 0.05
"""Seconds a cursor stands on a session before it is asked who writes to it."""


class SessionsLists(SessionsBoard):
    """Fills the board: the sessions of a scope, what was found in them, who writes to the marked one."""

    def __init__(
        self, title: str, state: SessionsState, now: Callable[[], datetime], *, home: Path, root: Path
    ) -> None:
        super().__init__(title, state, now)
        self._home, self._root = home, root
        self._listings: dict[Scope, Listing] = {}
        self._searching = Searching(home)
        self._taken_in = False
        self._looked_at = 0.0

    def _begin(self, group: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this beside the event loop, in the place of what the group was doing."""
        # Not as a coroutine: Python would complain of one that is put aside before it has begun.
        self.run_worker(work, group=group, exclusive=True)  # type: ignore[arg-type]  # the union confuses mypy

    # --- the lists ------------------------------------------------------------------------------------

    def _to_scope(self, scope: Scope) -> None:
        self._show(self.state.in_scope(scope, self._listings.get(scope)))
        if scope not in self._listings:
            self._list()
        self._ask_anew(at_once=True)

    def _list(self) -> None:
        self._begin("list", partial(self._read_list, self.state.scope))

    async def _read_list(self, scope: Scope) -> None:
        listing = self._listings[scope] = await asyncio.to_thread(read_listing, scope, self._home, self._root)
        if self.state.scope == scope:
            self._with(listing=listing)
            self._moved()
            if self.state.asked is not None:
                self._ask_anew(at_once=True)

    def _list_again(self) -> None:
        """Something has changed on disk. What is shown stays until the new list is there."""
        self._listings = {scope: was for scope, was in self._listings.items() if scope == "others"}
        self._taken_in = False
        self._list()

    # --- the search -----------------------------------------------------------------------------------

    @on(Input.Changed, "#query")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self.state.query:
            self._show(self.state.looking_for(event.value))
            self._ask_anew()

    def _ask_anew(self, *, at_once: bool = False) -> None:
        """Ask the index what was said; the answer to an earlier question is not waited for."""
        if self.state.asked is None or self.state.scope == "others":
            self.workers.cancel_group(self, "search")
            self._with(searching=False)
            return
        self._with(searching=True)
        wait = 0.0 if at_once else DEBOUNCE
        self._begin("search", partial(self._ask_index, wait))
        if not self._taken_in:
            self._taken_in = True
            self._begin("index", self._take_in)

    async def _ask_index(self, wait: float) -> None:
        await asyncio.sleep(wait)
        query, cwd = self.state.query, self._root if self.state.scope == "here" else None
        self._looked_at = asyncio.get_running_loop().time()
        try:
            found = await self._searching.look(query, cwd)
        except FoldlineError as failure:
            self._with(searching=False, trouble=str(failure))
            return
        self._with(searching=False, found=found, trouble=self._searching.trouble)

    async def _take_in(self) -> None:
        """With the first search, and with the next one after a change on disk."""
        self._with(indexed=0.0)
        trouble = await self._searching.take_in(self._took_in)
        self._with(indexed=None, trouble=trouble or self._searching.trouble)
        self._ask_anew(at_once=True)

    def _took_in(self, share: float) -> None:
        if not self.is_attached:
            return
        self._with(indexed=share)
        if asyncio.get_running_loop().time() - self._looked_at > _AGAIN and not self.state.searching:
            self._ask_anew(at_once=True)

    # --- who writes to it -----------------------------------------------------------------------------

    def _moved(self) -> None:
        marked = self.marked
        if marked is not None and marked.row.ours:
            self._begin("holder", partial(self._ask_holder, marked.row.path))

    async def _ask_holder(self, path: Path) -> None:
        await asyncio.sleep(_STEADY)
        self._holders[path] = await asyncio.to_thread(holder_of, path.parent)
        self._describe()
