"""The Files panel.

Shows modified and read files, how much of each file the view contains, and all file accesses.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from foldline.frontend.key_names import listed
from foldline.frontend.state import Presence
from foldline.past.describe import short_path, size_words
from foldline.past.files import FileLedger, FileState
from foldline.protocol import BaseMessage, FileTouch, ToolResultMessage
from foldline.text.harmless import clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.plain import RowBlock, RowColumn, RuleBlock, TextBlock
from foldline.tui.browser.panels.entry_list import EntryList, row_key
from foldline.tui.browser.panels.frame import Panel
from foldline.tui.browser.panels.states import signs
from foldline.tui.look.cells import Spans, change_spans
from foldline.tui.look.fates import GUTTER_SIGNS
from foldline.view.outline import MessageOutline
from foldline.view.projection import Projection
from foldline.view.weight import entry_weight

NO_FILES: Final = "No tool has read or changed a file yet."
WHOLE_TEXT: Final = "The model has the whole text."
PARTS_ONLY: Final = "The model has {parts}, but no complete copy."
NAME_IN_SUMMARY: Final = "The model has only the name at most, from summary {summary}."
NAME_ONLY: Final = "The model has only the name."
NOTHING: Final = "The model has no part of this file."
_SECTION: Final = -1  # index in the keys of headings; the key of a file has the position of its first access
_MANY: Final = 5_000
"""If a history has more file accesses than this, they are counted in a thread."""
_LEAST_PATH: Final = 20
"""Minimum width of a path, in cells, at which the numbers of lines are shown beside it."""


@dataclass(frozen=True, slots=True, eq=False)
class FileBlock(RowBlock):
    """The row of a file, with its path and the number of added and removed lines."""

    path: str = field(kw_only=True)
    presence: Presence = field(kw_only=True)
    touches: tuple[int, ...] = field(kw_only=True)
    """Indices of the tool results that accessed the file, oldest first."""

    def words(self) -> str:
        return self.main[0][0]


@dataclass(frozen=True, slots=True)
class FileTable:
    """The rows for all files, with a heading for each section."""

    blocks: tuple[Block, ...] = ()
    by_path: dict[str, FileBlock] = field(default_factory=dict)


def file_table(
    projection: Projection, cwd: str = "", ledger: FileLedger | None = None
) -> FileTable:
    """Return the modified, restored and read files, most recently accessed first.

    Args:
        ledger: the accesses counted so far in this history; None counts all of them.
    """
    ledger = ledger or FileLedger()
    files = ledger.files(projection)
    sections = (
        ("Modified", [_row(ledger, file, cwd) for file in files if file.modified]),
        (
            "Modified, then restored",
            [
                _row(ledger, FileState(path), cwd, projection)
                for path in ledger.restored(projection)
            ],
        ),
        ("Read", [_row(ledger, file, cwd) for file in files if not file.modified]),
    )
    blocks: list[Block] = []
    for number, (title, rows) in enumerate(sections):
        if rows:
            gap = 1 if blocks else 0
            blocks += [_heading(number, title, len(rows), gap), *rows]
    if not blocks:
        blocks.append(TextBlock((_SECTION, 9), NO_FILES, "muted", stop=False))
    by_path = {row.path: row for _, rows in sections for row in rows}
    return FileTable(tuple(blocks), by_path)


def _row(
    ledger: FileLedger, file: FileState, cwd: str, restored: Projection | None = None
) -> FileBlock:
    """Return the row of a file.

    Args:
        restored: the history, if a rewind has restored the file.
    """
    all_touches = ledger.touches(file.path)
    only_reads = restored is None and not file.modified
    touches = tuple(
        index
        for index, touch in all_touches
        if not only_reads or touch.action == "read"
    )
    remarks: Spans = ()
    if file.modified:
        remarks = change_spans(file.added, file.removed)
    elif restored is not None:
        rewind = restored.fate(touches[-1]).by
        remarks = () if rewind is None else ((f"rewind {rewind}", "muted"),)
    shown = clean_line(short_path(file.path, cwd))
    style = "muted" if file.presence == "none" else "text"
    return FileBlock(
        (ledger.first(file.path), 0),
        (),
        ((shown, style),),
        _columns(remarks),
        cut="left",
        least=_LEAST_PATH,
        path=file.path,
        presence=file.presence,
        touches=touches,
    )


def _columns(remarks: Spans) -> tuple[RowColumn, ...]:
    """Return styled text as columns, which are dropped if the path needs their room."""
    return tuple(
        RowColumn(text.strip(), style=style, space=1, drop="last")
        for text, style in remarks
        if text.strip()
    )


def _heading(number: int, title: str, count: int, gap: int) -> Block:
    columns = (RowColumn(str(count), style="muted"),)
    return RowBlock(
        (_SECTION, number),
        (),
        ((title, "bold"),),
        columns,
        gap=gap,
        stop=False,
        wide=True,
    )


def names_of(path: str, cwd: str) -> tuple[str, ...]:
    """Return the names by which a summary may refer to a file.

    These are the absolute path, the relative path and the file name.
    """
    name = path[path.rfind("/") + 1 :]
    alone = (name,) if len(name) > 4 and "." in name else ()
    return tuple(dict.fromkeys((path, short_path(path, cwd), *alone)))


# --- Below the files --------------------------------------------------------------------------------------


def touch_rows(projection: Projection, file: FileBlock) -> list[Block]:
    """Return the rows below the files, which describe one file.

    They are a rule with the file name, the accesses (oldest first), and how much of the file is in the
    model's context.
    """
    digits = max((len(str(index)) for index in file.touches), default=1)
    rows: list[Block] = [
        RuleBlock(
            (_SECTION, 0),
            file.words(),
            "muted",
            stop=False,
            wide=True,
        )
    ]
    for index in file.touches:
        entry = projection.entry(index)
        name = ""
        if isinstance(entry, ToolResultMessage):
            name = clean_line(entry.name)[:12]
        remarks = _touch_change(projection, index, file.path)
        if not remarks and isinstance(entry, BaseMessage):
            remarks = ((size_words(entry_weight(projection, entry)), "muted"),)
        main = ((f"{index:>{digits}} {name}", "text"),)
        columns = _columns(remarks)
        rows.append(
            RowBlock(
                row_key(index),
                (),
                main,
                columns,
                stop=False,
            )
        )
    note = _presence_words(projection, file)
    rows.append(
        TextBlock(
            (_SECTION, 1),
            note,
            "muted",
            stop=False,
            gap=1,
        )
    )
    return rows


def _touch_change(projection: Projection, index: int, path: str) -> Spans:
    """Return the numbers of lines added and removed by this access."""
    for touch in _touches(projection, index):
        if touch.path == path and touch.action == "modified":
            return change_spans(touch.added, touch.removed)
    return ()


def _touches(projection: Projection, index: int) -> Sequence[FileTouch]:
    outline = projection.outline(index)
    return outline.touches if isinstance(outline, MessageOutline) else ()


def _presence_words(projection: Projection, file: FileBlock) -> str:
    """Return a sentence saying how much of a file the view contains."""
    match file.presence:
        case "whole":
            return WHOLE_TEXT
        case "part":
            parts = [
                index
                for index in file.touches
                if projection.fate(index).kind in ("live", "clipped")
            ]
            names = listed(map(str, parts[-3:])) if parts else "a placeholder"
            return PARTS_ONLY.format(parts=names)
        case "name":
            fates = [projection.fate(index) for index in file.touches]
            summaries = [fate.by for fate in fates if fate.kind == "summarised"]
            if summaries:
                return NAME_IN_SUMMARY.format(summary=summaries[-1])
            return NAME_ONLY
        case "none":
            return NOTHING


class FilesPanel(Panel):
    """The panel that lists the files of a growing history."""

    def __init__(self, cwd: str, changed: Callable[[], None]) -> None:
        """Create an empty panel.

        Args:
            cwd: paths below it are shown relative to it.
            changed: called after accesses have been counted in a thread.
        """
        view = EntryList(id="files", gutter=self._gutter, gutter_width=3)
        view.opens_at_once = True
        self._touches = EntryList(
            id="touches", gutter=self._touch_gutter, gutter_width=4, follow=True
        )
        self._touches.can_focus = False
        super().__init__(view, title="3 Files", below=self._touches)
        self.table = FileTable()
        self.file: FileBlock | None = None
        """The file whose accesses are shown."""
        self._listed: FileBlock | None = None
        """The file for which the rows of the accesses were built."""
        self._cwd = cwd
        self._changed = changed
        self._ledger = FileLedger()
        """The accesses in `_counted`."""
        self._counted: Projection | None = None
        self._seen = -1
        self._projection: Projection | None = None
        """The history that is displayed. Counts of any other history are discarded."""

    def on_unmount(self) -> None:
        """Free the counts immediately. `BlockView.on_unmount` explains why."""
        self._ledger = FileLedger()
        self.table = FileTable()
        self._projection = None
        self._counted = None

    def refresh_from(self, projection: Projection, *, changed: bool) -> None:
        """Count new file accesses.

        If earlier parts of the view have `changed`, count all accesses again.
        """
        count = len(projection.touches)
        if not changed and projection is self._projection and count == self._seen:
            return
        self._projection = projection
        self._seen = count
        if projection is not self._counted:
            self._ledger = FileLedger()
            self._counted = projection
        if changed and count > _MANY:
            # Start after the next frame, which would take twice as long beside a busy thread.
            self.call_after_refresh(self._count_later, projection)
        else:
            self._show(file_table(projection, self._cwd, self._ledger))

    def _count_later(self, projection: Projection) -> None:
        if projection is self._projection and self.is_mounted:
            self.run_worker(
                self._count_again(projection), group="files", exclusive=True
            )

    async def _count_again(self, projection: Projection) -> None:
        ledger = FileLedger()
        last_index = projection.last_index
        frozen = projection.with_entries()
        await asyncio.to_thread(file_table, frozen, self._cwd, ledger)
        if projection is not self._projection:
            return
        if projection.last_index != last_index:
            self.refresh_from(projection, changed=True)
            return
        self._ledger = ledger
        self._show(file_table(projection, self._cwd, ledger))
        self._changed()

    def put(self, projection: Projection, table: FileTable) -> None:
        """Show the files as they were at another point in history."""
        self._projection = projection
        self._seen = len(projection.touches)
        self._show(table)

    def _show(self, table: FileTable) -> None:
        self.table = table
        self.view.set_blocks(table.blocks)
        if self.file is not None:
            self.file = table.by_path.get(self.file.path)

    def path_of(self, index: int) -> str | None:
        """Return the path of the file accessed by a tool result, if any."""
        touches = () if self._projection is None else _touches(self._projection, index)
        return touches[0].path if touches else None

    def row_of(self, index: int) -> Key | None:
        """Return the row of the file accessed by a tool result, if any."""
        path = self.path_of(index)
        file = self.table.by_path.get(path) if path is not None else None
        return None if file is None else file.key

    def lay_out(self, width: int | None, height: int) -> None:
        """Set the panel's width, and the number of rows for file accesses.

        Args:
            width: in cells; None uses all available space.
            height: height of the Inspector, in rows.
        """
        self.styles.width = "1fr" if width is None else width
        self._touches.styles.height = max(min((height - 6) * 2 // 5, 15), 4)

    def show_touches(self, linked: int | None) -> None:
        """Show the accesses of the selected file.

        Args:
            linked: the entry that all panels show.
        """
        if self._projection is None:
            return
        if self.file is not self._listed:
            self._listed = self.file
            rows: list[Block] = []
            if self.file is not None:
                rows = touch_rows(self._projection, self.file)
            self._touches.set_blocks(rows)
        self._touches.show_counterpart(None if linked is None else row_key(linked))

    def _gutter(self, key: Key, line: int) -> Spans:
        """Return the gutter of a file: a cell for the cursor, then how much of the file is in the view."""
        block = self.view.block(key)
        if not isinstance(block, FileBlock) or line != block.gap:
            return ()
        return (" ", ""), GUTTER_SIGNS[block.presence], (" ", "")

    def _touch_gutter(self, key: Key, line: int) -> Spans:
        if key[0] < 0 or self._projection is None:
            return ()
        return (" ", ""), *signs(self._projection, key[0])
