"""Sessions as tables show them: what matters first, more where there is room."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from foldline.context.numbers import tokens
from foldline.history import SessionInfo, age, short_id
from foldline.history.meta import clip_cells

from .folders import shown_folder
from .output import Cell, Column

_WIDE, _VERY_WIDE = 100, 140
"""Columns of the terminal from which a table shows longer names, and from which it shows more of them."""

_DAMAGED_TITLE = 24
"""Cells of the title of a damaged session, so that what is wrong with it has room."""


class _Field(NamedTuple):
    column: Column
    cell: Callable[[SessionInfo], Cell | str]


def session_table(
    infos: Sequence[SessionInfo], width: int, now: datetime, *, folders: bool
) -> tuple[list[Column], list[list[Cell | str]]]:
    """Columns and rows of a list in so many terminal cells; `folders`: whether it is of several."""
    moved = any(info.moved_from for info in infos)
    fields = _fields(width, now, folders=folders, moved=moved)
    rows = [[field.cell(info) for field in fields] for info in infos]
    return [field.column for field in fields], rows


def _fields(width: int, now: datetime, *, folders: bool, moved: bool) -> list[_Field]:
    wide, very_wide = width >= _WIDE, width >= _VERY_WIDE
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
        fields.append(_Field(Column("size", right=True), _size))
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
    fields.append(_Field(Column("title", grows=True), title_cell))
    if very_wide:
        fields.append(_Field(Column("last prompt", most=min(60, width - 110)), _last_prompt))
    return fields


def _size(info: SessionInfo) -> Cell:
    from foldline.agent.tools.text import sized  # costs time only where there is room for it

    return Cell(sized(info.meta.size) if info.meta.size else "", "muted")


def _last_prompt(info: SessionInfo) -> Cell:
    meta = info.meta
    return Cell("" if meta.last_prompt in (meta.title, meta.first_prompt) else meta.last_prompt, "muted")


def title_cell(info: SessionInfo) -> Cell:
    """What a session is called; of a damaged one, what is wrong with it, too."""
    note = info.meta.note.replace(str(info.path), "its file").replace(str(info.path.parent), "its folder")
    if not note:
        return Cell(info.meta.title or "(nothing said yet)")
    called = clip_cells(info.meta.title, _DAMAGED_TITLE)
    return Cell(f"{called}: {note}" if called else note, "alert")
