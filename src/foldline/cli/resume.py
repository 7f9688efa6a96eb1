"""Asked on a plain terminal before a session is resumed: which one, and what to do where it is held."""

import sys
from pathlib import Path
from typing import Final, Literal

from foldline.context.harmless import with_signs
from foldline.history import Session, data_home, list_sessions, short_id, utc_now
from foldline.history.lock import holder_of
from foldline.protocol import FoldlineError
from foldline.termination import run_async

from .agents import Refused
from .output import Column, entries_of, note, say, say_table, width
from .screens import read_along
from .sessions import session_table

_CHOICES: Final = 20
"""Sessions that are offered."""
_NUMBER_CELLS: Final = 4
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


# --- a session that cannot be written -----------------------------------------------------------------

Choice = Literal["read", "fork", "quit"]
_WORDS: Final[dict[str, Choice]] = {
    "r": "read",
    "read": "read",
    "read along": "read",
    "f": "fork",
    "fork": "fork",
    "q": "quit",
    "quit": "quit",
}


def instead(refused: Refused, *, theme: str | None = None) -> Path | int:
    """Asks what to do instead. The event file of a fork to continue, or the exit code of the program, after
    reading along or not.

    Raises:
        Refused: nobody is there to be asked.
        FoldlineError: the session cannot be read any more.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refused
    while True:
        match _answer(refused):
            case "quit":
                return 1
            case "read":
                return read_along(refused.path, theme)
            case "fork":
                try:
                    return _forked(refused)
                except FoldlineError as failure:
                    note(str(failure))


def _answer(refused: Refused) -> Choice:
    question = f"{_situation(refused)}\n[r]ead along, [f]ork, [q]uit: "
    while True:
        sys.stdout.flush()
        sys.stderr.write(with_signs(question))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stderr.write("\n")
            return "quit"
        word = _WORDS.get(line.strip().lower())
        if word is not None:
            return word


def _situation(refused: Refused) -> str:
    """`Session ab12cd ("Idempotent orders") is being written by process 4711 (since 14:05).`"""
    session = Session.open(refused.path)
    title = session.meta().title
    name = f'Session {short_id(session.id)} ("{title}")' if title else f"Session {short_id(session.id)}"
    if not refused.held:
        return f"{name} can only be read. {refused}"
    holder = holder_of(refused.path.parent)
    if holder is None:
        return f"{name} was being written by another process, which is done by now."
    return f"{name} is being written by {holder}."


def _forked(refused: Refused) -> Path:
    copy = run_async(Session.open(refused.path, cwd=refused.folder).copy())
    try:
        copy.save_meta()
        assert copy.path is not None, "it was written"
        note(f"session {short_id(copy.id)} continues in its place, with {entries_of(len(copy.entries))}.")
        return copy.path
    finally:
        copy.close()
