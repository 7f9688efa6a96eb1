"""Finds files for the prompt while somebody types: the list is kept fresh, and no key waits for it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from foldline.tui.prompting.files import Listing, listing_of, matching

_FRESH: Final = 2.0
"""Seconds a list of files is not made anew, however often completion is opened."""

Work = Callable[[], Coroutine[Any, Any, object]]
"""What is to be done in the background: not begun yet, for it may be overtaken at once."""
Start = Callable[[Work], object]
"""Runs it, in place of what it ran before."""


class FileFinder:
    """The files below `root` for what is typed. `changed` is called when there is more to be found than
    before: the list was made, or matching a long one has ended.
    """

    def __init__(
        self,
        root: Path | None,
        changed: Callable[[], None],
        start: Start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._changed = changed
        self._start = start
        self._clock = clock
        self._listing = Listing()
        self._listed_at: float | None = None
        self._lists = False
        self._typed: str | None = None
        """What the paths found belong to."""
        self._found: Sequence[str] = ()
        self._search: Iterator[tuple[str, ...] | None] = iter(())
        self._searched = ""

    def find(self, typed: str, *, now: bool = False) -> Sequence[str]:
        """The best paths for this. Of a long list, those found for what was typed before, until the new ones
        are there; `now` waits for them."""
        if not self._lists and self._is_stale(typed):
            self._lists = True
            self._start(self._list)
        if typed != self._typed:
            self._search, self._searched = matching(typed, self._listing), typed
            self._go_on()
            while now and self._typed != typed:
                self._go_on()
            if self._typed != typed and not self._lists:
                self._start(partial(self._finish, typed))
        return self._found

    def _is_stale(self, typed: str) -> bool:
        """A list is made when completion begins: files come and go."""
        if self._listed_at is None:
            return True
        begins = self._typed is None or not typed.startswith(self._typed or "\0")
        return begins and not typed and self._clock() - self._listed_at > _FRESH

    def _go_on(self) -> None:
        found = next(self._search, None)
        if found is not None:
            self._found, self._typed = found, self._searched

    async def _finish(self, typed: str) -> None:
        while self._typed != typed and self._searched == typed:
            await asyncio.sleep(0)
            self._go_on()
        self._changed()

    async def _list(self) -> None:
        try:
            if self._root is not None:
                self._listing = await asyncio.to_thread(listing_of, self._root)
            self._listed_at = self._clock()
        finally:
            self._lists = False
        self._typed = None
        self._changed()
