"""Questions only the user can answer, each with one key an answer."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from foldline.protocol import events
from foldline.protocol.events import Event, Option


class Choices:
    """Asks, and waits for the answer. Where nobody can answer (`interactive` is False), nothing is asked."""

    def __init__(self, *, interactive: bool = False) -> None:
        self.interactive = interactive
        self.emit: Callable[[Event], None] = lambda _: None
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[str]] = {}

    async def ask(self, title: str, options: Sequence[Option], detail: str = "") -> str:
        """The key of the option taken; empty where the user left the question."""
        choice = f"c{next(self._ids)}"
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[choice] = waiting
        self.emit(events.ChoiceRequested(choice=choice, title=title, detail=detail, options=tuple(options)))
        key = ""
        try:
            key = await waiting
        finally:
            del self._waiting[choice]
            self.emit(events.ChoiceResolved(choice=choice, key=key))
        return key

    def answer(self, choice: str, key: str) -> None:
        """The user's word; ignored where nothing waits for it."""
        waiting = self._waiting.get(choice)
        if waiting is not None and not waiting.done():
            waiting.set_result(key)
