"""Files: those that were modified and read, what the model still has of them, and their touches."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.context import numbers
from foldline.context.files import FileLedger, FileState
from foldline.context.harmless import clean_line
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.context.view import FateKind
from foldline.context.weight import entry_weight
from foldline.protocol import BaseMessage, FileTouch, ToolResultMessage
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import (
    Span,
    Spans,
    change_spans,
    cut_left,
    ruled,
    to_strip,
    width_of,
    wrap_spans,
)
from foldline.tui.blocks.plain import Column, RowBlock, TextBlock
from foldline.tui.blocks.styles import Styles
from foldline.tui.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel, Text
from foldline.tui.panels.states import signs
from foldline.tui.panels.words import short_path
from foldline.tui.state import Presence

_SECTION: Final = -1  # index of the keys of headings; files have the position of their first touch
_MANY: Final = 5_000
"""Touches of files from which on all of them are counted beside the drawing."""
_LEGEND_FROM: Final = 11
"""Rows below the files from which on there is room for what the letters mean."""


@dataclass(frozen=True, slots=True, eq=False)
class FileBlock(Block):
    """A file: its path, and what changed in it."""

    path: str
    shown: str
    presence: Presence
    change: Spans
    touches: tuple[int, ...]
    """Indices of the tool results that touched it, oldest first."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        change = self.change
        room = width - width_of(change) - (2 if change else 0)
        if room < min(cell_len(self.shown), cell_len(_short(self.shown))):  # the path says more
            room, change = width, ()
        path = cut_left(self.shown, room)
        line = [(path, "muted" if self.presence == "none" else "text")]
        if change:
            line += [(" " * (room - cell_len(path) + 2), ""), *change]
        return [to_strip(line, styles)]

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return self.shown


@dataclass(frozen=True, slots=True)
class FileTable:
    """All files of a history, by section."""

    blocks: tuple[Block, ...] = ()
    by_path: dict[str, FileBlock] = field(default_factory=dict)


def file_table(projection: Projection, cwd: str = "") -> FileTable:
    """The files that were modified, modified and restored since, read; newest touch first. Linear in the
    number of touches."""
    return FileList(cwd).table(projection)


class FileList:
    """The files of one history that grows. What comes costs what it touches; a change of the view, all."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self.of: Projection | None = None
        """The history that is followed; another one is read from its start."""
        self._ledger = FileLedger()
        self._rows: dict[str, tuple[FileState, int, FileBlock]] = {}
        """Each with the state it shows, and how many touches there were."""

    def table(self, projection: Projection) -> FileTable:
        """All files as they are now."""
        if projection is not self.of:
            self._ledger, self._rows, self.of = FileLedger(), {}, projection
        files = self._ledger.files(projection)
        sections = (
            ("Modified", [self._row(file) for file in files if file.modified]),
            (
                "Modified, then restored",
                [self._restored_row(projection, path) for path in self._ledger.restored(projection)],
            ),
            ("Read", [self._row(file) for file in files if not file.modified]),
        )
        blocks: list[Block] = []
        for number, (title, rows) in enumerate(sections):
            if rows:
                blocks += [_heading(number, title, len(rows), gap=int(bool(blocks))), *rows]
        if not blocks:
            words = "No tool has read or changed a file yet."
            blocks.append(TextBlock((_SECTION, 9), words, "muted", stop=False))
        return FileTable(tuple(blocks), {row.path: row for _, rows in sections for row in rows})

    def _row(self, file: FileState) -> FileBlock:
        touches = self._ledger.touches(file.path)
        known = self._rows.get(file.path)
        if known is not None and known[:2] == (file, len(touches)):
            return known[2]
        change = change_spans(file.added, file.removed) if file.modified else ()
        counted = tuple(index for index, touch in touches if file.modified or touch.action == "read")
        row = self._block(file.path, file.presence, change, counted)
        self._rows[file.path] = file, len(touches), row
        return row

    def _restored_row(self, projection: Projection, path: str) -> FileBlock:
        touches = tuple(index for index, _ in self._ledger.touches(path))
        by = projection.fate(touches[-1]).by
        return self._block(path, "none", (("" if by is None else f"rewind {by}", "muted"),), touches)

    def _block(self, path: str, presence: Presence, change: Spans, touches: tuple[int, ...]) -> FileBlock:
        shown = clean_line(short_path(path, self._cwd))
        return FileBlock((self._ledger.first(path), 0), path, shown, presence, change, touches)


def _short(path: str) -> str:
    """A path's last two names: `…/orders/service.py`."""
    return f"…/{'/'.join(path.rsplit('/', 2)[-2:])}"


def _heading(number: int, title: str, count: int, gap: int) -> Block:
    columns = (Column(str(count), style="muted"),)
    return RowBlock((_SECTION, number), (), ((title, "bold"),), columns, gap=gap, stop=False, wide=True)


def names_of(path: str, cwd: str) -> tuple[str, ...]:
    """How a summary may name a file: by its path, relative or not, or by its name alone."""
    name = path[path.rfind("/") + 1 :]
    alone = (name,) if len(name) > 4 and "." in name else ()
    return tuple(dict.fromkeys((path, short_path(path, cwd), *alone)))


# --- Below the files --------------------------------------------------------------------------------------


def touch_lines(
    projection: Projection, file: FileBlock, linked: int | None, width: int, height: int
) -> list[list[Span]]:
    """A rule with the file's name, its touches oldest first, and what the model has of it, in `height` lines.
    With too many touches, those around the `linked` one, else the newest."""
    lines = [ruled(f"── {cut_left(file.shown, max(width - 6, 1))}", width, "muted", "─")]
    note = wrap_spans([(_has_words(projection, file), "muted")], width - 2)
    room = max(height - 1, 0)
    if len(note) + min(max(len(file.touches), 1), 3) + 1 > room:
        note = []
    room -= len(note) + 1 if note else 0
    touches = list(file.touches)
    hidden = 0
    if len(touches) > room > 0:
        at = touches.index(linked) if linked in touches else len(touches) - 1
        hidden = len(touches) - (room - 1)
        start = min(max(at - (room - 1) // 2, 0), hidden)
        touches = touches[start : start + room - 1]
    digits = max((len(str(index)) for index in touches), default=1)
    lines += [_touch_line(projection, index, file.path, index == linked, digits, width) for index in touches]
    if hidden:
        lines.append([(f"    … {hidden} more", "muted")])
    if note:
        lines += [[], *([(" ", ""), *line] for line in note)]
    return lines[:height]


def _touch_line(
    projection: Projection, index: int, path: str, linked: bool, digits: int, width: int
) -> list[Span]:
    touch = next((touch for touch in _touches(projection, index) if touch.path == path), None)
    entry = projection.entry(index)
    name = clean_line(entry.name)[:12] if isinstance(entry, ToolResultMessage) else ""
    right = (
        change_spans(touch.added, touch.removed) if touch is not None and touch.action == "modified" else ()
    )
    if not right and isinstance(entry, BaseMessage):
        weight = entry_weight(projection, entry)
        right = ((numbers.tokens(weight.tokens, estimated=weight.estimated), "muted"),)
    left = [
        ("▷" if linked else " ", "accent"),
        *signs(projection, index),
        (f" {index:>{digits}} {name}", "text"),
    ]
    return [*left, (" " * max(width - width_of([*left, *right]) - 1, 1), ""), *right]


def _touches(projection: Projection, index: int) -> Sequence[FileTouch]:
    outline = projection.outline(index)
    return outline.touches if isinstance(outline, MessageOutline) else ()


def _has_words(projection: Projection, file: FileBlock) -> str:
    """What the model still has of a file, in a sentence."""
    match file.presence:
        case "whole":
            return "The model has its whole text."
        case "part":
            parts = [index for index in file.touches if projection.fate(index).kind in ("live", "clipped")]
            *names, last = map(str, parts[-3:] or ("a placeholder",))
            listed = f"{', '.join(names)} and {last}" if names else last
            return f"The model has {listed}, but no whole copy of it."
        case "name":
            fates = [projection.fate(index) for index in file.touches]
            summaries = [fate.by for fate in fates if fate.kind == "summarised"]
            where = f" at most its name, in summary {summaries[-1]}." if summaries else " its name."
            return f"The model has{where}"
        case "none":
            return "The model has nothing of it."


def legend_lines(width: int) -> list[list[Span]]:
    """What the letters mean: a rule and two lines, three where it is narrow."""
    kinds: tuple[FateKind, ...] = ("live", "clipped", "hidden", "summarised")
    parts: list[list[Span]] = [[letter(kind), gutter_sign(kind), (f" {kind}", "muted")] for kind in kinds]
    parts.append([("T R X D", "muted"), (" gone", "muted")])
    lines: list[list[Span]] = [ruled("── states", width, "muted", "─"), []]
    for part in parts:
        line = lines[-1]
        if line and width_of(line) + 2 + width_of(part) > width:
            line = []
            lines.append(line)
        line += ([("  ", "")] if line else []) + part
    return lines


class FilesPanel(Panel):
    """Shows the files of a history that grows. `changed` is called when they were counted beside the
    drawing."""

    DEFAULT_CSS = "FilesPanel #touches { height: 4; }"

    def __init__(self, cwd: str, changed: Callable[[], None]) -> None:
        """Paths below `cwd` are shown relative to it."""
        self._touches = Text(id="touches")
        view = EntryList(id="files", gutter=self._gutter, gutter_width=3)
        view.opens_at_once = True
        super().__init__(view, title="3 Files", below=self._touches)
        self.table = FileTable()
        self.file: FileBlock | None = None
        """The one whose touches are shown."""
        self._cwd = cwd
        self._changed = changed
        self._list = FileList(cwd)
        self._seen = -1
        self._projection: Projection | None = None
        """The history that is shown now: what was counted of another one comes too late."""

    def on_unmount(self) -> None:
        """What was counted goes at once: see `BlockView.on_unmount`."""
        self._list, self.table, self._projection = FileList(self._cwd), FileTable(), None

    def refresh_from(self, projection: Projection, *, changed: bool) -> None:
        """Count what was touched since; after a change of the view everything."""
        count = len(projection.touches)
        if not changed and projection is self._projection and count == self._seen:
            return
        self._projection, self._seen = projection, count
        if changed and count > _MANY:
            # Once what is here is drawn: a thread that computes doubles what that takes.
            self.call_after_refresh(self._count_later, projection)
        else:
            self._show(self._list.table(projection))

    def _count_later(self, projection: Projection) -> None:
        if projection is self._projection and self.is_mounted:
            self.run_worker(self._count_again(projection), group="files", exclusive=True)

    async def _count_again(self, projection: Projection) -> None:
        files, last = FileList(self._cwd), projection.last_index
        await asyncio.to_thread(files.table, projection.foreseen())
        if projection is not self._projection:
            return
        if projection.last_index != last:
            self.refresh_from(projection, changed=True)
            return
        files.of = projection
        self._list = files
        self._show(files.table(projection))
        self._changed()

    def put(self, projection: Projection, table: FileTable) -> None:
        """Show the files of another moment."""
        self._projection, self._seen = projection, len(projection.touches)
        self._show(table)

    def _show(self, table: FileTable) -> None:
        self.table = table
        self.view.set_blocks(table.blocks)
        if self.file is not None:
            self.file = table.by_path.get(self.file.path)

    def path_of(self, index: int) -> str | None:
        """The file that this result touched."""
        touches = () if self._projection is None else _touches(self._projection, index)
        return touches[0].path if touches else None

    def row_of(self, index: int) -> Key | None:
        """The row of the file that this result touched."""
        path = self.path_of(index)
        return self.table.by_path[path].key if path in self.table.by_path else None

    def lay_out(self, width: int | None, height: int) -> None:
        """So wide, or as wide as there is room, in an Inspector of this height."""
        self.styles.width = "1fr" if width is None else width
        self._touches.styles.height = max(min((height - 6) * 2 // 5, 15), 4)

    def show_touches(self, linked: int | None) -> None:
        """Of the chosen file; `linked` is the entry all panels show."""
        width, height = self._touches.size
        if not width or not height or self._projection is None:
            return
        lines: list[list[Span]] = []
        legend = legend_lines(width) if height >= _LEGEND_FROM else []
        if self.file is not None:
            room = height - len(legend) - bool(legend)
            lines = touch_lines(self._projection, self.file, linked, width, room)
        lines += [[]] * max(height - len(lines) - len(legend), 0)
        self._touches.show(*lines, *legend)

    def _gutter(self, key: Key, line: int) -> Spans:
        """The sign of a file's row, right of the cursor's cell."""
        block = self.view.block(key)
        if not isinstance(block, FileBlock) or line != block.gap:
            return ()
        return (" ", ""), GUTTER_SIGNS[block.presence], (" ", "")
