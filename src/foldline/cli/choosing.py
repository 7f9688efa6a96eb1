"""`foldline -r`: which of this folder's sessions to resume, asked on a plain terminal."""

from pathlib import Path

from foldline.history import data_home, list_sessions, utc_now
from foldline.protocol import FoldlineError

from .output import Column, note, say, say_table, width
from .session_rows import session_table

_CHOICES = 20
"""Sessions that are offered."""
_NUMBER_CELLS = 4
"""What their numbers take of a line."""


def choose() -> Path:
    """The event file of the session that is chosen, by its number or its id; the newest one by default.

    Raises:
        FoldlineError: there is none, or none was chosen.
    """
    infos = [info for info in list_sessions(data_home(), Path.cwd()) if info.readable]
    if not infos:
        raise FoldlineError("There is no session in this folder to resume: start one without -r.")
    offered = infos[:_CHOICES]
    columns, rows = session_table(offered, width() - _NUMBER_CELLS, utc_now().astimezone(), folders=False)
    numbered = [[str(number), *row] for number, row in enumerate(rows, start=1)]
    say_table([Column("", right=True), *columns], numbered)
    if len(infos) > len(offered):
        note(f"{len(infos) - len(offered)} older ones are listed by `foldline sessions`.")
    while True:
        try:
            answer = input("Resume which one? [1] ").strip() or "1"
        except EOFError:
            raise FoldlineError("No session was chosen.") from None
        if answer.isdecimal() and 1 <= int(answer) <= len(offered):
            return offered[int(answer) - 1].path
        if answer.lower() in ("q", "quit"):
            raise FoldlineError("No session was chosen.")
        named = [info.path for info in infos if len(answer) > 2 and info.id.endswith(answer)]
        if len(named) == 1:
            return named[0]
        say(f"Type a number from 1 to {len(offered)}, an id, or q to leave.")
