"""A read-only Inspector for a session that another program or a subagent is writing."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from textual.screen import Screen

from foldline.history import Session
from foldline.history.follower import NoLongerFollowed
from foldline.history.lock import Holder
from foldline.protocol import Entry, FoldlineError, Subagent
from foldline.text.numbers import many
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.look.textual_private import in_mode_of

EVERY: Final = 0.5
"""Interval, in seconds, at which the followed session's file is read."""
NOW_WRITING: Final = "{program} is now writing to this session."
DONE_WRITING: Final = "{program} has finished. New since you opened this: {entries}."
NEW_BELOW: Final = "▼ {count:,} new below · End follows"


class FollowedSession(Protocol):
    """A session that can grow, such as `history.follower.Follower`."""

    session: Session
    holder: Holder | None

    def look(self) -> Any:
        """Read the lines added to the file. Called in a thread."""
        ...

    def take(self, look: Any) -> list[Entry]: ...

    def child(self, id: str) -> "FollowedSession":
        """Open a subagent's session. Called in a thread.

        Raises:
            FoldlineError: the subagent's session cannot be read.
        """
        ...


def writer_words(holder: Holder | None) -> str:
    """Return the header text naming the program that is writing.

    The text is empty if no program is writing.
    """
    if holder is None:
        return ""
    words = f"written by {holder.name}"
    if holder.since:
        words += f" since {holder.since_words}"
    if holder.suspended:
        words += ", suspended"
    return words


def turn_words(before: Holder | None, now: Holder | None, new_entries: int) -> str:
    """Return the message that a program has started or finished writing."""
    if now is not None:
        return NOW_WRITING.format(program=_capital(now.name))
    assert before is not None, "the writer changed"
    entries = many(new_entries, "entry", "entries") if new_entries else "nothing"
    return DONE_WRITING.format(program=_capital(before.name), entries=entries)


def _writer_changed(before: Holder | None, now: Holder | None) -> bool:
    """Whether a program has started or finished writing.

    A holder without a process id comes from a lock that could not be read. Such holders are not compared.
    """
    if before is None or now is None:
        return before is not now
    if not before.pid or not now.pid:
        return False
    return (before.pid, before.host) != (now.pid, now.host)


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


class FollowingInspector(InspectorScreen):
    """A read-only Inspector.

    If the session can still grow, the Inspector follows it.
    """

    def __init__(
        self,
        session: Session,
        title: str,
        followed: FollowedSession | None = None,
        *,
        window: int = 0,
        every: float = EVERY,
    ) -> None:
        """Create the screen.

        Args:
            followed: reads new entries of `session`; None if the session cannot grow.
            window: size of the model's context window, in tokens; 0 if unknown.
            every: interval, in seconds, at which the file is read.
        """
        read = None
        if followed is not None:
            read = partial(open_child, self, followed.child, title, self.tell)
        panels = InspectorPanels(
            session.projection, cwd=session.header.cwd, window=window, open_child=read
        )
        super().__init__(panels, title)
        self.followed = followed
        """The session to follow; None if it cannot grow, or no longer can be read."""
        self._every = every
        self._new_entries = 0
        """Number of entries added since the screen was opened."""

    def on_mount(self) -> None:
        if self.followed is not None:
            self.show_writer(writer_words(self.followed.holder))
            self.run_worker(self._follow(), group="follow")

    async def _follow(self) -> None:
        while self.followed is not None:
            await asyncio.sleep(self._every)
            await self.look()

    async def look(self) -> None:
        """Read the session's file once, and show new entries without moving the visible rows."""
        followed = self.followed
        if followed is None:
            return
        holder_before = followed.holder
        damage_before = followed.session.damage
        try:
            look = await asyncio.to_thread(followed.look)
        except NoLongerFollowed as end:
            self.followed = None
            self.show_writer("")
            self.tell(str(end))
            return
        fresh = followed.take(look)
        self._new_entries += len(fresh)
        if fresh:
            self.panels.refresh_from(followed.session.projection)
            below = self.panels.active_view.new_below
            if below:
                self.tell(NEW_BELOW.format(count=below))
        self.show_writer(writer_words(followed.holder))
        damage = followed.session.damage
        if _writer_changed(holder_before, followed.holder):
            self.tell(turn_words(holder_before, followed.holder, self._new_entries))
        elif damage and damage != damage_before:
            self.tell(f"{damage}.")


def open_child(
    over: Screen[Any],
    read: Callable[[str], FollowedSession],
    where: str,
    say: Callable[[str], None],
    started: Subagent,
) -> None:
    """Read a subagent's session in a thread, then show it on top of a screen.

    Args:
        read: reads the session with this id.
        where: the titles of the sessions that lead to the subagent, outermost first.
        say: shows the error if the session cannot be read.
        started: the entry that started the subagent.
    """

    async def opened() -> None:
        try:
            followed = await asyncio.to_thread(read, started.child)
        except FoldlineError as failure:
            say(str(failure))
            return
        title = f"{where} ▸ {started.agent or 'subagent'}"
        with in_mode_of(over):
            await over.app.push_screen(
                FollowingInspector(followed.session, title, followed)
            )

    over.run_worker(opened(), group="child", exclusive=True)
