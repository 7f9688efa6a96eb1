"""`foldline sessions`, `rename`, `fork`, `archive` and `delete`: the sessions that are kept."""

from argparse import ArgumentParser
from pathlib import Path

from .arguments import Handler, UsageError, add_json, add_yes, count_of, number_of, text_of

# --- foldline sessions -------------------------------------------------------------------------------


def sessions_command(parser: ArgumentParser) -> Handler:
    parser.add_argument(
        "-a", "--all", dest="everywhere", action="store_true", help="of all folders, not only this one"
    )
    parser.add_argument("--archived", action="store_true", help="those that were archived instead")
    parser.add_argument("--limit", type=count_of, metavar="N", help="only the N last written ones")
    parser.add_argument(
        "--from",
        dest="agent",
        metavar="AGENT",
        help="those of another agent, in its own folders: claude-code, codex, pi, kimi-cli, klaude-code, "
        "qwen-code, gemini-cli, opencode, or all",
    )
    add_json(parser)
    return sessions


def sessions(everywhere: bool, archived: bool, limit: int | None, agent: str | None, as_json: bool) -> int:
    if agent is not None:
        from .foreign_sessions import foreign_sessions  # the readers come along: of no use to our own

        return foreign_sessions(agent, everywhere, archived, limit, as_json)
    from foldline.history import data_home, list_sessions, utc_now

    from .output import note, say_json, say_table, width
    from .session_table import session_json, session_table

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


def rename_command(parser: ArgumentParser) -> Handler:
    parser.add_argument("source", metavar="ID", help="the session: its id, or an end of it")
    parser.add_argument(
        "title", type=text_of, nargs="+", metavar="TITLE", help="what it is called from now on"
    )
    add_json(parser)
    return rename


def rename(source: str, title: list[str], as_json: bool) -> int:
    """Gives a session another title, as one more entry of its history."""
    from foldline.history import Session, data_home, find_session, short_id, title_entry
    from foldline.termination import run_async

    from .output import say, say_json

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


def fork_command(parser: ArgumentParser) -> Handler:
    parser.add_argument("source", metavar="ID", help="the session: its id, or an end of it")
    what = "the last entry that comes along; all by default"
    parser.add_argument("--at", type=number_of, metavar="INDEX", help=what)
    add_json(parser)
    return fork


def fork(source: str, at: int | None, as_json: bool) -> int:
    """Makes a new session that begins with the entries of another one, up to any of them."""
    from foldline.history import Folder, Session, data_home, find_session, short_id
    from foldline.termination import run_async

    from .output import entries_of, note, say, say_json

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


def _add_ids(parser: ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="ID", help="the sessions: their ids, or ends of them")


def archive_command(parser: ArgumentParser) -> Handler:
    _add_ids(parser)
    parser.add_argument("--back", action="store_true", help="list them again")
    add_json(parser)
    return archive_sessions


def archive_sessions(sources: list[str], back: bool, as_json: bool) -> int:
    """Leaves sessions out of the lists from now on, or lists them again."""
    from foldline.history import archive, data_home, find_session, short_id, unarchive

    from .output import say, say_json

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


def delete_command(parser: ArgumentParser) -> Handler:
    _add_ids(parser)
    add_yes(parser, "delete them without asking")
    add_json(parser)
    return delete_sessions


def delete_sessions(sources: list[str], yes: bool, as_json: bool) -> int:
    """Deletes sessions for good, after a question."""
    from foldline.context.numbers import many
    from foldline.history import data_home, delete, find_session, info_of, short_id

    from .output import confirmed, note, say, say_json
    from .session_table import delete_question

    home = data_home()
    paths = dict.fromkeys(find_session(home, source) for source in sources)
    gone: list[dict[str, object]] = []
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
