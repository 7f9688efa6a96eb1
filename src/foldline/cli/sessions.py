"""`foldline sessions`: the sessions of this folder, or all of them."""

import os
from pathlib import Path

from foldline.history import SessionInfo, data_home, list_sessions, short_id
from foldline.tui.numbers import tokens

from .output import Cell, Column, note, say_json, say_table

_FOLDER_CELLS = 36


def run(everywhere: bool, as_json: bool) -> int:
    infos = list_sessions(data_home(), None if everywhere else Path.cwd())
    if as_json:
        say_json([_json(info) for info in infos])
        return 0
    if not infos:
        where = "" if everywhere else " in this folder; `foldline sessions --all` lists those of all folders"
        note(f"There are no sessions{where}.")
        return 0
    columns = [
        Column("id"),
        Column("last written"),
        Column("entries", right=True),
        Column("tokens", right=True),
        Column("model", most=24),
        *([Column("folder")] if everywhere else []),
        Column("title", grows=True),
    ]
    say_table(columns, [_row(info, everywhere) for info in infos])
    return 0


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
    }


def _row(info: SessionInfo, everywhere: bool) -> list[Cell | str]:
    meta = info.meta
    written = meta.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
    folder = [_tail(_home_apart(meta.cwd))] if everywhere else []
    note = meta.note.replace(str(info.path), "its file")
    title = Cell(note, "alert") if note else Cell(meta.title or "(nothing said yet)")
    size = tokens(meta.tokens) if meta.tokens else ""
    return [short_id(info.id), Cell(written, "muted"), str(meta.entries), size, meta.model, *folder, title]


def _home_apart(path: str) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - a prefix of text, not a path
    inside = path == home or path.startswith(home + os.sep)
    return "~" + path[len(home) :] if inside and len(home) > 1 else path


def _tail(path: str) -> str:
    """A path, cut on its left at a folder's name: its end says most."""
    while len(path) > _FOLDER_CELLS and os.sep in path.removeprefix("…" + os.sep):
        path = "…" + os.sep + path.removeprefix("…" + os.sep).split(os.sep, 1)[1]
    return path
