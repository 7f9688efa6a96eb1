"""The Inspector on a session that others write to, for reading: another program, or a subagent of ours."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from foldline.context.numbers import many
from foldline.history import Session
from foldline.history.follower import NoLongerFollowed
from foldline.history.lock import Holder
from foldline.protocol import Entry, FoldlineError, Subagent
from foldline.tui.base_app import BaseApp
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.inspector.screen import InspectorScreen
from foldline.tui.textual_private import in_mode_of

EVERY: Final = 0.5
"""Seconds between two looks."""

LookT = TypeVar("LookT")


class Followed(Protocol[LookT]):
    """A session and the file it grows with: `history.follower.Follower`, or a foreign one."""

    session: Session
    holder: Holder | None

    def look(self) -> LookT:
        """What is new; in a thread."""
        ...

    def take(self, look: LookT) -> list[Entry]: ...

    def child(self, id: str) -> "Followed[Any]":
        """The session of one of its subagents; in a thread. Raises FoldlineError."""
        ...


class Following(Generic[LookT]):
    """Keeps a screen in step with what it follows. Nothing the reader looks at moves."""

    def __init__(self, followed: Followed[LookT], screen: InspectorScreen, every: float) -> None:
        self._followed, self._screen, self._every = followed, screen, every
        self._came = 0
        """Entries since the screen was opened."""
        self.ended = False

    def begin(self) -> None:
        """Say who writes, before anything has come; then look again and again."""
        self._screen.show_writer(writer_words(self._followed.holder))
        self._screen.run_worker(self._run(), group="follow")

    async def _run(self) -> None:
        """Until the file is not the one that was read."""
        while not self.ended:
            await asyncio.sleep(self._every)
            await self.look()

    async def look(self) -> None:
        """Look once, and show what came."""
        before, damage = self._followed.holder, self._followed.session.damage
        try:
            seen = await asyncio.to_thread(self._followed.look)
        except NoLongerFollowed as end:
            self.ended = True
            self._screen.show_writer("")
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
        self._screen.show_writer(writer_words(holder))
        if _another(before, holder):
            self._screen.tell(turn_words(before, holder, self._came))
        elif session.damage != damage and session.damage:
            self._screen.tell(f"{session.damage}.")


def writer_words(holder: Holder | None) -> str:
    """Who writes to a session, for the header; nothing where nobody does."""
    if holder is None:
        return ""
    since = f" since {holder.since_words}" if holder.since else ""
    return f"written by {holder.name}{since}{', suspended' if holder.suspended else ''}"


def turn_words(before: Holder | None, now: Holder | None, came: int) -> str:
    """What is said when a writer comes or goes."""
    if now is not None:
        return f"{_capital(now.name)} writes to this session now."
    assert before is not None, "somebody came or went"
    entries = many(came, "entry", "entries") if came else "nothing"
    return f"{_capital(before.name)} is done: {entries} came since this was opened."


def _another(before: Holder | None, now: Holder | None) -> bool:
    """Whether a writer came or went; a note that could not be read for a moment is nobody else."""
    if before is None or now is None:
        return before is not now
    return bool(before.pid and now.pid) and (before.pid, before.host) != (now.pid, now.host)


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


class FollowingInspector(InspectorScreen):
    """The Inspector on one session; what follows it where it grows begins with the screen."""

    def __init__(
        self,
        session: Session,
        title: str,
        followed: Followed[Any] | None = None,
        *,
        window: int = 0,
        every: float = EVERY,
    ) -> None:
        """
        Args:
            followed: shown as it grows; `session` is its session.
            window: the model's, in tokens; 0 where nobody has said it.
            every: seconds between two looks at what is followed.
        """
        read = None if followed is None else partial(open_child, self, followed.child, title, self.tell)
        panels = InspectorPanels(session.projection, cwd=session.header.cwd, window=window, open_child=read)
        super().__init__(panels, title)
        self.following = None if followed is None else Following(followed, self, every)

    def on_mount(self) -> None:
        if self.following is not None:
            self.following.begin()


def open_child(
    over: Screen[Any],
    read: Callable[[str], Followed[Any]],
    where: str,
    say: Callable[[str], None],
    started: Subagent,
) -> None:
    """Show the session of a subagent over this screen, as soon as `read` has read it; else `say` why not.
    `where` is the way to it from the outermost session."""

    async def opened() -> None:
        try:
            followed = await asyncio.to_thread(read, started.child)
        except FoldlineError as failure:
            say(str(failure))
            return
        title = f"{where} ▸ {started.agent or 'subagent'}"
        with in_mode_of(over):
            await over.app.push_screen(FollowingInspector(followed.session, title, followed))

    over.run_worker(opened(), group="child", exclusive=True)


class InspectorApp(BaseApp[None]):
    """`foldline open FILE`: the Inspector as a program of its own. `q` or Esc quits."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", show=False),
        Binding("f2", "stay", show=False, priority=True),  # who presses it wants what is there already
    ]

    def __init__(self, inspector: FollowingInspector) -> None:
        super().__init__()
        self.inspector = inspector

    def action_stay(self) -> None:
        """The key that opens, and elsewhere closes, the Inspector: here it would end the program."""
        self.inspector.tell("This is the Inspector. Esc ends the program.")

    async def on_mount(self) -> None:
        await self.push_screen(self.inspector, lambda _: self.exit())
