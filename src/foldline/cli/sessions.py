"""`foldline sessions`, `rename`, `fork`, `archive` and `delete`: the sessions that are kept."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from foldline.context.numbers import many, tokens
from foldline.history import (
    Folder,
    Session,
    SessionInfo,
    age,
    archive,
    data_home,
    delete,
    find_session,
    info_of,
    list_sessions,
    short_id,
    title_entry,
    unarchive,
    utc_now,
)
from foldline.history.children import tree_of
from foldline.history.meta import clip_cells
from foldline.termination import run_async

from .arguments import UsageError
from .output import (
    WIDE,
    Cell,
    Column,
    Field,
    Json,
    Table,
    confirmed,
    entries_of,
    note,
    say,
    say_json,
    say_table,
    shown_folder,
    sized_cell,
    table_of,
    width,
)

# --- foldline sessions -------------------------------------------------------------------------------


def sessions(everywhere: bool, archived: bool, limit: int | None, agent: str | None, as_json: bool) -> int:
    if agent is not None:
        from .foreign_sessions import foreign_sessions  # the readers come along: of no use to our own

        return foreign_sessions(agent, everywhere, archived, limit, as_json)
    infos = list_sessions(data_home(), None if everywhere else Path.cwd(), archived=archived)
    shown = infos[:limit]
    if as_json:
        say_json([session_json(info) for info in shown])
        return 0
    if not infos:
        what = "archived sessions" if archived else "sessions"
        option = " --archived" if archived else ""
        there = f" in this folder; `foldline sessions{option} --all` lists those of all folders"
        note(f"There are no {what}{'' if everywhere else there}.")
        return 0
    say_table(*session_table(shown, width(), utc_now().astimezone(), folders=everywhere))
    # Why sessions are listed that were not held at this path, folder by folder.
    for place, tie in dict.fromkeys((info.moved_from, info.tie) for info in shown if info.moved_from):
        if tie == "identity":
            note(f"This folder was {place} before: its sessions are listed, too.")
        else:
            gone = f"{place} is gone, and this folder has its name"
            note(f"{gone}: its sessions are listed, but it may be another.")
    if older := len(infos) - len(shown):
        note(f"{older} older {'one was' if older == 1 else 'ones were'} left out (--limit).")
    return 0


# --- foldline rename, fork ---------------------------------------------------------------------------


def rename(source: str, title: list[str], as_json: bool) -> int:
    """Gives a session another title, as one more entry of its history."""
    entry = title_entry(" ".join(title))
    if entry is None:
        raise UsageError("The title is empty: nothing was renamed.")
    session = Session.open(find_session(data_home(), source))
    before = session.meta().title
    try:
        run_async(session.append(entry, durable=True))
        session.save_meta()
    finally:
        session.close()
    if as_json:
        say_json({"id": session.id, "title": entry.title, "before": before, "path": str(session.path)})
        return 0
    was = f" (before: {before})" if before and before != entry.title else ""
    say(f"{short_id(session.id)} is called “{entry.title}” now{was}.")
    return 0


def fork(source: str, at: int | None, as_json: bool) -> int:
    """Makes a new session that begins with the entries of another one, up to any of them."""
    session = Session.open(find_session(data_home(), source))
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
    note(f"`foldline -r {short_id(copy.id)}` continues it in {copy.cwd}. The other one stays as it is.")
    return 0


# --- foldline archive, delete ------------------------------------------------------------------------


def archive_sessions(sources: list[str], back: bool, as_json: bool) -> int:
    """Leaves sessions out of the lists from now on, or lists them again."""
    home = data_home()
    paths = dict.fromkeys(find_session(home, source) for source in sources)
    moved: list[Path] = []
    try:  # one that cannot be moved does not keep back what was done before it
        for path in paths:
            moved.append(unarchive(home, path) if back else archive(home, path))
            ref = short_id(path.parent.name)
            if back and not as_json:
                say(f"{ref} is among the sessions again.")
            elif not as_json:
                say(f"{ref} is archived: `foldline archive --back {ref}` lists it again.")
    finally:
        if as_json:
            say_json([{"id": path.parent.name, "archived": not back, "path": str(path)} for path in moved])
    return 0


def delete_sessions(sources: list[str], yes: bool, as_json: bool) -> int:
    """Deletes sessions for good, after a question."""
    home = data_home()
    paths = dict.fromkeys(find_session(home, source) for source in sources)
    gone: list[Json] = []
    try:  # one that cannot be deleted does not keep back what was done before it
        for info in [info_of(home, path) for path in paths]:
            if not confirmed(delete_question(info), yes=yes, how="--yes"):
                note(f"{short_id(info.id)} stays.")
                continue
            done = delete(home, info.path)
            gone.append({"id": info.id, "folder": str(done.folder), "files": done.files, "size": done.size})
            if not as_json:
                say(f"Deleted {info.id}: {done.folder}, {many(done.files, 'file')}.")
    finally:
        if as_json:
            say_json(gone)
    return 0


# --- a list of sessions -------------------------------------------------------------------------------

_VERY_WIDE: Final = 140
"""Columns of the terminal from which a table shows more."""
_DAMAGED_TITLE: Final = 24
"""Cells of the title of a damaged session, so that what is wrong with it has room."""


def session_json(info: SessionInfo) -> Json:
    return {
        **{name: getattr(info.meta, name) for name in _OF_META},
        "id": info.id,
        "path": info.path,
        "archived": info.archived,
        "tie": info.tie,
        "moved_from": info.moved_from,
        "subagents": subagents_of(info),
    }


_OF_META: Final = (
    "title", "cwd", "entries", "tokens", "updated_at", "model", "note", "first_prompt", "last_prompt", "size",
    "created_at",
)  # fmt: skip


def subagents_of(info: SessionInfo) -> int:
    return sum(1 for _ in tree_of(info.path)) - 1


def session_table(infos: Sequence[SessionInfo], width: int, now: datetime, *, folders: bool) -> Table:
    """Columns and rows of a list in so many terminal cells: what matters first, more where there is room.

    `folders`: whether it is of several folders.
    """
    moved = any(info.moved_from for info in infos)
    subagents = {info.path: subagents_of(info) for info in infos}
    wide, very_wide = width >= WIDE, width >= _VERY_WIDE
    path_cells = 36 if wide else 20
    fields: list[Field[SessionInfo]] = [
        (True, Column("id"), lambda info: short_id(info.id)),
        (True, Column("written"), lambda info: Cell(age(info.meta.updated_at, now), "muted")),
        (True, Column("entries", right=True), lambda info: str(info.meta.entries)),
        (
            any(subagents.values()),
            Column("subagents", right=True),
            lambda info: str(subagents[info.path] or ""),
        ),
        (
            True,
            Column("tokens", right=True),
            lambda info: tokens(info.meta.tokens) if info.meta.tokens else "",
        ),
        (very_wide, Column("size", right=True), lambda info: Cell(sized_cell(info.meta.size), "muted")),
        (wide, Column("model", most=24), lambda info: info.meta.model),
        (
            not (wide or folders or moved),
            Column("model", most=16),
            lambda info: info.meta.model.rsplit("/", 1)[-1],
        ),
        (folders, Column("folder", most=path_cells), lambda info: shown_folder(info.meta.cwd, path_cells)),
        (
            moved and not folders,
            Column("moved from", most=path_cells),
            lambda info: Cell(shown_folder(info.moved_from, path_cells), "altered"),
        ),
        (True, Column("title", grows=True), _title_cell),
        (very_wide, Column("last prompt", most=min(60, width - 110)), _last_prompt),
    ]
    return table_of(fields, infos)


def _last_prompt(info: SessionInfo) -> Cell:
    meta = info.meta
    return Cell("" if meta.last_prompt in (meta.title, meta.first_prompt) else meta.last_prompt, "muted")


def _title_cell(info: SessionInfo) -> Cell:
    """The title of a session; of a damaged one, what is wrong with it, too."""
    damage = info.meta.note.replace(str(info.path), "its file").replace(str(info.path.parent), "its folder")
    if not damage:
        return Cell(info.meta.title or "(nothing said yet)")
    title = clip_cells(info.meta.title, _DAMAGED_TITLE)
    return Cell(f"{title}: {damage}" if title else damage, "alert")


def delete_question(info: SessionInfo) -> str:
    meta = info.meta
    known = [
        entries_of(meta.entries) if info.readable else "unreadable",
        f"last written {age(meta.updated_at, utc_now().astimezone())}",
        *([f"“{meta.title}”"] if meta.title else []),
    ]
    return f"Delete {short_id(info.id)} ({', '.join(known)}) for good?"
