"""Panel 3: the files that were modified and read, and below them the touches of one."""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.tui.blocks import Key, Spans
from foldline.tui.blocks.cells import Span
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filelist import (
    FileBlock,
    FileList,
    FileTable,
    file_gutter,
    legend_lines,
    touch_lines,
)
from foldline.tui.inspector.layout import touches_height
from foldline.tui.inspector.panel import Panel, Text

_MANY: Final = 5_000
"""Touches of files from which on all of them are counted beside the drawing."""
_LEGEND_FROM: Final = 11
"""Rows below the files from which on there is room for what the letters mean."""


class FilesPanel(Panel):
    """Shows the files of a history that grows. `changed` is called when they were counted beside the
    drawing."""

    DEFAULT_CSS: ClassVar[str] = "FilesPanel #touches { height: 4; }"

    def __init__(self, cwd: str, changed: Callable[[], None]) -> None:
        """Paths below `cwd` are shown relative to it."""
        self._touches = Text(id="touches")
        view = EntryView(gutter=self._gutter, gutter_width=3, faded=lambda _: False, follow=False, id="files")
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
        """What was counted goes at once: see `BlockCanvas.on_unmount`."""
        self._list, self.table, self._projection = FileList(self._cwd), FileTable(), None

    def refresh_from(self, projection: Projection, *, folded: bool) -> None:
        """Count what was touched since; after a change of the view everything."""
        count = len(projection.touches)
        if not folded and projection is self._projection and count == self._seen:
            return
        self._projection, self._seen = projection, count
        if folded and count > _MANY:
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
            self.refresh_from(projection, folded=True)
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
        outline = None if self._projection is None else self._projection.outline(index)
        touches = outline.touches if isinstance(outline, MessageOutline) else ()
        return touches[0].path if touches else None

    def row_of(self, index: int) -> Key | None:
        """Its row."""
        path = self.path_of(index)
        return self.table.by_path[path].key if path in self.table.by_path else None

    def lay_out(self, width: int | None, height: int) -> None:
        """So wide, or as wide as there is room, on a board of this height."""
        self.styles.width = "1fr" if width is None else width
        self._touches.styles.height = touches_height(height)

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
        self._touches.show([*lines, *legend])

    def _gutter(self, key: Key, line: int) -> Spans:
        return file_gutter(self.view.block(key), line)
