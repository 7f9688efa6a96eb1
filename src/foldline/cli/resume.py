"""Asks the user questions in the terminal before resuming a session."""

import sys
from pathlib import Path

from foldline.history import Session, data_home, list_sessions, short_id, utc_now
from foldline.history.lock import holder_of
from foldline.protocol import FoldlineError
from foldline.text.harmless import with_signs
from foldline.text.numbers import many

from .agents import NO_SESSION_HERE, SessionRefused
from .output import Column, entries_of, note, say, say_table, width
from .screens import read_along
from .sessions import session_table, stored_copy

NONE_CHOSEN = "No session was chosen."
NOT_OFFERED = "Run `foldline sessions` to list {sessions}."
TYPE_A_NUMBER = "Type a number from 1 to {last}, an id, or q to quit."
FORKED = "session {ref} continues instead, with {entries}."
_CHOICES = 20
"""Maximum number of sessions offered.

Older sessions can be chosen by their ids.
"""
_NUMBER_CELLS = 4
"""Width of the column with the sessions' numbers, in cells."""


def choose() -> Path:
    """Let the user choose a session by number or id, and return its event file.

    Raises:
        FoldlineError: there is no session, or the user chose none.
    """
    infos = [info for info in list_sessions(data_home(), Path.cwd()) if info.readable]
    if not infos:
        raise FoldlineError(NO_SESSION_HERE, verb="resume", option="-r")
    offered = infos[:_CHOICES]
    columns, rows = session_table(
        offered, width() - _NUMBER_CELLS, utc_now().astimezone(), folders=False
    )
    numbered = [[str(number), *row] for number, row in enumerate(rows, start=1)]
    say_table([Column("", right=True), *columns], numbered)
    if len(infos) > len(offered):
        older = many(len(infos) - len(offered), "older session")
        note(NOT_OFFERED.format(sessions=older))
    while True:
        try:
            answer = input("Resume which session? [1] ").strip() or "1"
        except EOFError:
            answer = "q"
        if answer.lower() in ("q", "quit"):
            raise FoldlineError(NONE_CHOSEN)
        matches = [
            info.path for info in infos if len(answer) > 2 and info.id.endswith(answer)
        ]
        if answer.isdecimal():
            matches = [info.path for info in offered[int(answer) - 1 : int(answer)]]
        if len(matches) == 1:
            return matches[0]
        say(TYPE_A_NUMBER.format(last=len(offered)))


# --- a session that cannot be written -----------------------------------------------------------------


def ask_about_refused(
    refused: SessionRefused, *, theme: str | None = None
) -> Path | int:
    """Ask whether to read along, fork the session, or quit.

    Returns the fork's event file or, after the other choices, the exit code.

    Raises:
        SessionRefused: there is no terminal to ask in.
        FoldlineError: the session can no longer be read.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refused
    while True:
        sys.stdout.flush()
        question = f"{_situation(refused)}\n[r]ead along, [f]ork, [q]uit: "
        sys.stderr.write(with_signs(question))
        sys.stderr.flush()
        line = sys.stdin.readline()
        match line.strip().lower()[:1]:
            case "q":
                return 1
            case "r":
                return read_along(refused.path, theme)
            case "f":
                try:
                    return _forked(refused)
                except FoldlineError as failure:
                    note(str(failure))
            case _ if not line:
                sys.stderr.write("\n")
                return 1


def _situation(refused: SessionRefused) -> str:
    """Explain why the session cannot be written.

    Example: `Session ab12cd ("Idempotent orders") is being written by process 4711 (since 14:05).`
    """
    session = Session.open(refused.path)
    title = session.meta().title
    name = (
        f'Session {short_id(session.id)} ("{title}")'
        if title
        else f"Session {short_id(session.id)}"
    )
    if not refused.held:
        return f"{name} can only be read. {refused}"
    holder = holder_of(refused.path.parent)
    if holder is None:
        return f"{name} was being written by another process, which has finished."
    return f"{name} is being written by {holder}."


def _forked(refused: SessionRefused) -> Path:
    session = Session.open(refused.path, cwd=refused.folder)
    copy = stored_copy(session, refused.folder, None)
    entries = entries_of(len(copy.entries))
    note(FORKED.format(ref=short_id(copy.id), entries=entries))
    assert copy.path is not None
    return copy.path
