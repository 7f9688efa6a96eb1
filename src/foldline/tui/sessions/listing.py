"""Reads the lists of the Sessions screen from disk. Blocks: for threads."""

from pathlib import Path
from typing import Final

from foldline.history import list_sessions
from foldline.history.reading.many_objects import uncollected
from foldline.protocol import FoldlineError
from foldline.tui.sessions.state import Listing, Scope, listed, listed_foreign

_FOREIGN: Final = 500
"""Sessions of other agents that are listed: a little of each file has to be read."""


def read_listing(scope: Scope, home: Path, root: Path) -> Listing:
    """The sessions of a scope; where that cannot be read, why. `root` is the folder of this chat."""
    try:
        if scope == "others":
            # Not before the screen is open: this is a thread, that would be the event loop.
            from foldline.formats.homes.found import found_sessions
            from foldline.formats.homes.places import AGENTS

            found = found_sessions(AGENTS, limit=_FOREIGN + 1)
            return Listing(tuple(map(listed_foreign, found[:_FOREIGN])), more=len(found) > _FOREIGN)
        with uncollected():  # the collector would stop the screen, too
            infos = list_sessions(home, root if scope == "here" else None, archived=scope == "archived")
            return Listing(tuple(map(listed, infos)))
    except FoldlineError as failure:
        return Listing(failure=str(failure))
