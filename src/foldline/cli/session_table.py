"""Sessions as the command line shows them: columns and rows of a list, for programs, and in a question."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from foldline.context.numbers import tokens
from foldline.history import SessionInfo, age, short_id, utc_now
from foldline.history.meta import clip_cells

from .output import WIDE, Cell, Column, entries_of, shown_folder, sized_cell

_VERY_WIDE: Final = 140
"""Columns of the terminal from which a table shows more."""
_DAMAGED_TITLE: Final = 24
"""Cells of the title of a damaged session, so that what is wrong with it has room."""


def session_json(info: SessionInfo) -> dict[str, object]:
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


class _Field(NamedTuple):
    column: Column
    cell: Callable[[SessionInfo], Cell | str]


def session_table(
    infos: Sequence[SessionInfo], width: int, now: datetime, *, folders: bool
) -> tuple[list[Column], list[list[Cell | str]]]:
    """Columns and rows of a list in so many terminal cells: what matters first, more where there is room.

    `folders`: whether it is of several folders.
    """
    moved = any(info.moved_from for info in infos)
    fields = _fields(width, now, folders=folders, moved=moved)
    rows = [[field.cell(info) for field in fields] for info in infos]
    return [field.column for field in fields], rows


def _fields(width: int, now: datetime, *, folders: bool, moved: bool) -> list[_Field]:
    wide, very_wide = width >= WIDE, width >= _VERY_WIDE
    path_cells = 36 if wide else 20
    fields = [
        _Field(Column("id"), lambda info: short_id(info.id)),
        _Field(Column("written"), lambda info: Cell(age(info.meta.updated_at, now), "muted")),
        _Field(Column("entries", right=True), lambda info: str(info.meta.entries)),
        _Field(
            Column("tokens", right=True), lambda info: tokens(info.meta.tokens) if info.meta.tokens else ""
        ),
    ]
    if very_wide:
        fields.append(
            _Field(Column("size", right=True), lambda info: Cell(sized_cell(info.meta.size), "muted"))
        )
    if wide:
        fields.append(_Field(Column("model", most=24), lambda info: info.meta.model))
    elif not (folders or moved):
        fields.append(_Field(Column("model", most=16), lambda info: info.meta.model.rsplit("/", 1)[-1]))
    if folders:
        fields.append(
            _Field(Column("folder", most=path_cells), lambda info: shown_folder(info.meta.cwd, path_cells))
        )
    elif moved:
        place = Column("moved from", most=path_cells)
        fields.append(_Field(place, lambda info: Cell(shown_folder(info.moved_from, path_cells), "altered")))
    fields.append(_Field(Column("title", grows=True), _title_cell))
    if very_wide:
        fields.append(_Field(Column("last prompt", most=min(60, width - 110)), _last_prompt))
    return fields


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
