"""`foldline sessions`, `rename`, `fork`, `archive` and `delete`: list and manage sessions."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from foldline.frontend.session_files import fork_session, rename_session
from foldline.history import (
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
from foldline.termination import run_async
from foldline.text.numbers import many, tokens

from .arguments import UsageError
from .output import (
    COPIED,
    WIDE,
    Cell,
    Column,
    Json,
    Row,
    Table,
    confirmed,
    entries_of,
    note,
    say,
    say_json,
    say_table,
    shown_folder,
    title_cell,
    width,
    without_empty_columns,
)

# --- foldline sessions -------------------------------------------------------------------------------


def sessions(
    everywhere: bool,
    archived: bool,
    limit: int | None,
    agent: str | None,
    as_json: bool,
) -> int:
    if agent is not None:
        from .foreign_sessions import foreign_sessions  # imports all readers

        return foreign_sessions(agent, everywhere, archived, limit, as_json)
    infos = list_sessions(
        data_home(), None if everywhere else Path.cwd(), archived=archived
    )
    shown = infos[:limit]
    if as_json:
        say_json([session_json(info) for info in shown])
        return 0
    if not infos:
        archived_word, option = ("archived ", " --archived") if archived else ("", "")
        hint = (
            ""
            if everywhere
            else f" in this folder; `foldline sessions{option} --all` lists all folders"
        )
        note(f"There are no {archived_word}sessions{hint}.")
        return 0
    say_table(
        *session_table(shown, width(), utc_now().astimezone(), folders=everywhere)
    )
    # Explain, folder by folder, why sessions recorded at other paths are listed.
    for old_path, tie in dict.fromkeys(
        (info.moved_from, info.tie) for info in shown if info.moved_from
    ):
        if tie == "identity":
            note(RENAMED.format(folder=old_path))
        else:
            note(SAME_NAME.format(folder=old_path))
    if older := len(infos) - len(shown):
        note(NOT_LISTED.format(sessions=many(older, "older session")))
    return 0


RENAMED = (
    "This folder used to be {folder}. The sessions recorded there are listed, too."
)
SAME_NAME = "{folder} no longer exists. Its sessions are listed, because this folder has the same name."
NOT_LISTED = "{sessions} not listed (--limit)."


# --- foldline rename, fork ---------------------------------------------------------------------------


def rename(source: str, title: list[str], as_json: bool) -> int:
    """Append a title entry to a session."""
    entry = title_entry(" ".join(title))
    if entry is None:
        raise UsageError("The title is empty, so nothing was renamed.")
    path = find_session(data_home(), source)
    before = info_of(data_home(), path).meta.title
    session = run_async(rename_session(path, entry))
    if as_json:
        say_json(
            {
                "id": session.id,
                "title": entry.title,
                "before": before,
                "path": str(session.path),
            }
        )
        return 0
    old_title = f" (before: “{before}”)" if before and before != entry.title else ""
    say(f"{short_id(session.id)} is now called “{entry.title}”{old_title}.")
    return 0


def fork(source: str, at: int | None, as_json: bool) -> int:
    """Copy a session's entries, up to the index `at`, to a new session."""
    session = Session.open(find_session(data_home(), source))
    copy = run_async(fork_session(session, Path.cwd(), until=at))
    index = copy.entries[-1].index if copy.entries else None
    if as_json:
        say_json(
            {"id": copy.id, "parent": session.id, "index": index, "entries": len(copy.entries),
             "cwd": copy.cwd, "path": str(copy.path)}
        )  # fmt: skip
        return 0
    if session.damage:
        note(f"{session.damage} of the session {session.id}.")
    end = "which is empty" if index is None else f"up to entry {index}"
    say(f"{copy.id}: {entries_of(len(copy.entries))} of {session.id}, {end}.")
    ref = short_id(copy.id)
    note(COPIED.format(ref=ref, folder=copy.cwd, original="The original"))
    return 0


# --- foldline archive, delete ------------------------------------------------------------------------

ARCHIVED = "{ref} is archived. Run `foldline archive --back {ref}` to restore it."
LISTED_AGAIN = "{ref} is no longer archived."
DELETE_QUESTION = "Delete {ref} ({details}) permanently?"


def archive_sessions(sources: list[str], back: bool, as_json: bool) -> int:
    """Archive sessions. With `back`, restore them from the archive."""
    home = data_home()
    paths = dict.fromkeys(find_session(home, source) for source in sources)
    moved: list[Path] = []
    try:  # even after a failure, report the sessions that were already moved
        for path in paths:
            moved.append(unarchive(home, path) if back else archive(home, path))
            ref = short_id(path.parent.name)
            if back and not as_json:
                say(LISTED_AGAIN.format(ref=ref))
            elif not as_json:
                say(ARCHIVED.format(ref=ref))
    finally:
        if as_json:
            say_json(
                [
                    {"id": path.parent.name, "archived": not back, "path": str(path)}
                    for path in moved
                ]
            )
    return 0


def delete_sessions(sources: list[str], yes: bool, as_json: bool) -> int:
    """Delete sessions permanently.

    Unless `yes` is set, the user must confirm each deletion.
    """
    home = data_home()
    paths = dict.fromkeys(find_session(home, source) for source in sources)
    deletions: list[Json] = []
    try:  # even after a failure, report the sessions that were already deleted
        for info in [info_of(home, path) for path in paths]:
            if not confirmed(delete_question(info), yes=yes, option="--yes"):
                note(f"{short_id(info.id)} was not deleted.")
                continue
            deleted = delete(home, info.path)
            folder = str(deleted.folder)
            deletions.append(
                {
                    "id": info.id,
                    "folder": folder,
                    "files": deleted.files,
                    "size": deleted.size,
                }
            )
            if not as_json:
                say(f"Deleted {info.id}: {folder}, {many(deleted.files, 'file')}.")
    finally:
        if as_json:
            say_json(deletions)
    return 0


# --- a list of sessions -------------------------------------------------------------------------------


def session_json(info: SessionInfo) -> Json:
    return {
        **{name: getattr(info.meta, name) for name in _META_FIELDS},
        "id": info.id,
        "path": info.path,
        "archived": info.archived,
        "tie": info.tie,
        "moved_from": info.moved_from,
        "subagents": subagents_of(info),
    }


_META_FIELDS = (
    "title", "cwd", "entries", "tokens", "updated_at", "model", "note", "first_prompt", "last_prompt", "size",
    "created_at",
)  # fmt: skip


def subagents_of(info: SessionInfo) -> int:
    return sum(1 for _ in tree_of(info.path)) - 1


def session_table(
    infos: Sequence[SessionInfo], width: int, now: datetime, *, folders: bool
) -> Table:
    """Return a session list's columns and rows.

    Args:
        width: width of the table, in cells.
        folders: whether to show each session's folder.
    """
    wide = width >= WIDE
    path_cells = 36 if wide else 20
    columns = [
        Column("id"),
        Column("written"),
        Column("entries", right=True),
        Column("subagents", right=True),
        Column("tokens", right=True),
        Column("model", most=24),
        Column("folder", most=path_cells),
        Column("moved from", most=path_cells),
        Column("title", grows=True),
    ]
    rows: list[Row] = []
    for info in infos:
        meta = info.meta
        moved_from = "" if folders else info.moved_from
        rows.append(
            [
                short_id(info.id),
                Cell(age(meta.updated_at, now), "muted"),
                str(meta.entries),
                str(subagents_of(info) or ""),
                tokens(meta.tokens) if meta.tokens else "",
                meta.model if wide else "",
                shown_folder(meta.cwd, path_cells) if folders else "",
                Cell(shown_folder(moved_from, path_cells), "altered"),
                _title_cell(info),
            ]
        )
    return without_empty_columns(columns, rows)


def _title_cell(info: SessionInfo) -> Cell:
    """Return a cell with a session's title and damage."""
    damage = info.meta.note.replace(str(info.path), "its file").replace(
        str(info.path.parent), "its folder"
    )
    return title_cell(info.meta.title, damage, "(no prompt yet)")


def delete_question(info: SessionInfo) -> str:
    meta = info.meta
    entries = entries_of(meta.entries) if info.readable else "unreadable"
    details = [entries, f"last written {age(meta.updated_at, utc_now().astimezone())}"]
    if meta.title:
        details.append(f"“{meta.title}”")
    return DELETE_QUESTION.format(ref=short_id(info.id), details=", ".join(details))
