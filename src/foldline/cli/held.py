"""A session that is there to be read and not ours to write: what to do instead, asked on a plain terminal."""

import sys
from pathlib import Path
from typing import Final, Literal

from foldline.context.harmless import with_signs
from foldline.history import Session, short_id
from foldline.history.lock import SessionHeld, holder_of
from foldline.history.log import ChangedOnDisk, WriteFailed
from foldline.protocol import FoldlineError

from .loop import run_async
from .output import entries_of, note

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


class Refused(FoldlineError):
    """A session that another process writes, or that lies where nothing can be written."""

    def __init__(self, path: Path, folder: Path, refusal: FoldlineError) -> None:
        super().__init__(str(refusal))
        self.path = path
        """Its event file."""
        self.folder = folder
        """Where it works, and a fork of it will."""
        self.held = isinstance(refusal, SessionHeld)


def claimed(path: Path, folder: Path) -> Session:
    """The session in this event file, to be written by nobody else; it works in `folder`.

    Raises:
        Refused: another process writes to it, or it cannot be written.
        FoldlineError: it cannot be read.
    """
    while True:
        session = Session.open(path, cwd=folder)
        try:
            session.claim()
        except ChangedOnDisk:  # somebody wrote between our reading and our claim, and is done
            continue
        except (SessionHeld, WriteFailed) as refusal:
            raise Refused(path, folder, refusal) from None
        return session


def instead(refused: Refused, *, theme: str | None = None, back: bool = False) -> Path | int:
    """What the user wants instead: the event file of a fork to go on with, or how the program ends, having
    read along or not. `back` leads to another chat, and the question says so.

    Raises:
        Refused: nobody is there to be asked.
        FoldlineError: the session cannot be read any more.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refused
    while True:
        match _answer(refused, back):
            case "quit":
                return 1
            case "read":
                from .open import read_along

                return read_along(refused.path, theme)
            case "fork":
                try:
                    return _forked(refused)
                except FoldlineError as failure:
                    note(str(failure))


def _answer(refused: Refused, back: bool) -> Choice:
    question = f"{_situation(refused)}\n[r]ead along, [f]ork, [q]uit{' to the chat before' if back else ''}: "
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
        note(f"session {short_id(copy.id)} goes on in its place, with {entries_of(len(copy.entries))}.")
        return copy.path
    finally:
        copy.close()
