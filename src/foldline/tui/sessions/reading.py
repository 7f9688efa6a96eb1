"""A session opened to be read: the Inspector over the Sessions screen, which follows what is written."""

import asyncio
from typing import Any

from textual.app import App

from foldline.history import Session, short_id
from foldline.history.follower import Follower
from foldline.tui.inspector import InspectorScreen
from foldline.tui.inspector.following import EVERY, Followed, Following
from foldline.tui.sessions.state import Listed


async def read_along(app: App[Any], row: Listed, index: int | None) -> None:
    """Open the Inspector on a session, at an entry where one is given.

    Raises:
        FoldlineError: it cannot be read.
    """
    followed = await asyncio.to_thread(_followed, row)
    session = followed.session
    screen = InspectorScreen(session.projection, row.title or short_id(row.id), cwd=session.header.cwd)
    await app.push_screen(screen)
    following = Following(followed, screen)
    following.begin()
    screen.run_worker(following.run(EVERY), group="follow")
    if index is not None:
        screen.call_after_refresh(screen.panels.reveal, index)


def _followed(row: Listed) -> "Followed[Any]":
    if row.ours:
        return Follower(row.path)
    # Here, in a thread: nobody waits for it before the screen is open.
    from foldline.formats import read_foreign
    from foldline.formats.reader import Rereader

    found = read_foreign(row.path, row.agent)
    session = Session.from_entries(found.header, found.entries, damage=found.damage)
    return Rereader(row.path, found.format, session)
