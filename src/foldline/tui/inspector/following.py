"""An Inspector that follows a file: what others append is shown as it comes, and who they are."""

import asyncio
from typing import Final, Generic, Protocol, TypeVar

from foldline.history import Session
from foldline.history.follower import NoLongerFollowed
from foldline.history.lock import Holder
from foldline.protocol import Entry
from foldline.tui.inspector.screen import InspectorScreen

EVERY: Final = 0.5
"""Seconds between two looks."""

LookT = TypeVar("LookT")


class Followed(Protocol[LookT]):
    """A session and the file it grows with: `history.follow.Follower`, or a foreign one."""

    session: Session
    holder: Holder | None

    def look(self) -> LookT:
        """What is new; in a thread."""
        ...

    def take(self, look: LookT) -> list[Entry]: ...


class Following(Generic[LookT]):
    """Keeps a screen in step with what it follows. Nothing the reader looks at moves."""

    def __init__(self, followed: Followed[LookT], screen: InspectorScreen) -> None:
        self._followed = followed
        self._screen = screen
        self._came = 0
        """Entries since the screen was opened."""
        self.ended = False

    def begin(self) -> None:
        """Say how things stand, before anything has come."""
        self._screen.show_standing(standing(self._followed.holder))

    async def run(self, every: float) -> None:
        """Look again and again, until the file is not the one that was read."""
        while not self.ended:
            await asyncio.sleep(every)
            await self.look()

    async def look(self) -> None:
        """Look once, and show what came."""
        before, damage = self._followed.holder, self._followed.session.damage
        try:
            seen = await asyncio.to_thread(self._followed.look)
        except NoLongerFollowed as end:
            self.ended = True
            self._screen.show_standing("")
            self._screen.tell(str(end))
            return
        fresh = self._followed.take(seen)
        session, holder = self._followed.session, self._followed.holder
        self._came += len(fresh)
        if fresh:
            self._screen.refresh_from(session.projection)
            below = self._screen.panels.active_view.new_below
            if below:
                self._screen.tell(f"▼ {below:,} new below · End follows")
        self._screen.show_standing(standing(holder))
        if _another(before, holder):
            self._screen.tell(turn_words(before, holder, self._came))
        elif session.damage != damage and session.damage:
            self._screen.tell(f"{session.damage}.")


def standing(holder: Holder | None) -> str:
    """How a session stands, for the header; nothing where nobody writes to it."""
    if holder is None:
        return ""
    since = f" since {holder.since_words}" if holder.since else ""
    return f"written by {holder.name}{since}{', suspended' if holder.suspended else ''}"


def turn_words(before: Holder | None, now: Holder | None, came: int) -> str:
    """What is said when a writer comes or goes."""
    if now is not None:
        return f"{_capital(now.name)} writes to this session now."
    assert before is not None, "somebody came or went"
    entries = "nothing" if not came else "1 entry" if came == 1 else f"{came:,} entries"
    return f"{_capital(before.name)} is done: {entries} came since this was opened."


def _another(before: Holder | None, now: Holder | None) -> bool:
    """Whether a writer came or went; a note that could not be read for a moment is nobody else."""
    if before is None or now is None:
        return before is not now
    return bool(before.pid and now.pid) and (before.pid, before.host) != (now.pid, now.host)


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
