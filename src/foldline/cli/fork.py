"""`foldline fork`: a new session that begins with the entries of another one, up to any of them."""

from pathlib import Path

from foldline.history import Folder, Session, data_home, find_session, short_id

from .loop import run_async
from .output import entries_of, note, say, say_json


def run(source: str, at: int | None, as_json: bool) -> int:
    path = find_session(data_home(), source)
    session = Session.open(path)
    place = Folder(Path.cwd()).place(session.header)
    folder = place.folder if place.tie is not None else session.cwd
    copy = run_async(session.copy(cwd=folder, until=at))
    try:
        copy.save_meta()
    finally:
        copy.close()
    index = copy.entries[-1].index if copy.entries else None
    if as_json:
        say_json(
            {"id": copy.id, "parent": session.id, "index": index, "entries": len(copy.entries),
             "cwd": copy.cwd, "path": str(copy.path)}
        )  # fmt: skip
        return 0
    if session.damage:
        note(f"{session.damage} of the session {session.id}.")
    upto = f"up to entry {index}" if index is not None else "which is empty"
    say(f"{copy.id}: {entries_of(len(copy.entries))} of {session.id}, {upto}.")
    note(f"`foldline -r {short_id(copy.id)}` goes on with it in {copy.cwd}. The other one stays as it is.")
    return 0
