"""`foldline sessions`: the sessions of this folder, or all of them."""

from collections.abc import Sequence
from pathlib import Path

from foldline.history import SessionInfo, data_home, list_sessions, utc_now

from .output import note, say_json, say_table, width
from .session_rows import session_table


def run(everywhere: bool, archived: bool, limit: int | None, agent: str | None, as_json: bool) -> int:
    if agent is not None:
        from . import foreign_sessions

        return foreign_sessions.run(agent, everywhere, archived, limit, as_json)
    infos = list_sessions(data_home(), None if everywhere else Path.cwd(), archived=archived)
    shown = infos[:limit]
    if as_json:
        say_json([_json(info) for info in shown])
        return 0
    if not infos:
        what = "archived sessions" if archived else "sessions"
        option = " --archived" if archived else ""
        there = f" in this folder; `foldline sessions{option} --all` lists those of all folders"
        note(f"There are no {what}{'' if everywhere else there}.")
        return 0
    say_table(*session_table(shown, width(), utc_now().astimezone(), folders=everywhere))
    for sentence in _about_moved(shown):
        note(sentence)
    if older := len(infos) - len(shown):
        note(f"{older} older {'one was' if older == 1 else 'ones were'} left out (--limit).")
    return 0


def _about_moved(infos: Sequence[SessionInfo]) -> list[str]:
    """Why sessions are listed that were not held at this path, folder by folder."""
    places = dict.fromkeys((info.moved_from, info.tie) for info in infos if info.moved_from)
    return [
        f"This folder was {place} before: its sessions are listed, too."
        if tie == "identity"
        else f"{place} is gone, and this folder has its name: its sessions are listed, but it may be another."
        for place, tie in places
    ]


def _json(info: SessionInfo) -> dict[str, object]:
    meta = info.meta
    return {
        "id": info.id,
        "title": meta.title,
        "cwd": meta.cwd,
        "entries": meta.entries,
        "tokens": meta.tokens,
        "updated_at": meta.updated_at.isoformat(),
        "model": meta.model,
        "path": str(info.path),
        "note": meta.note,
        "first_prompt": meta.first_prompt,
        "last_prompt": meta.last_prompt,
        "size": meta.size,
        "created_at": meta.created_at.isoformat(),
        "archived": info.archived,
        "tie": info.tie,
        "moved_from": info.moved_from,
    }
