"""The Changed files screen.

Shows diffs since the start of a session, or since a rewind point.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from foldline.agent.session.rewind import FileDiff
from foldline.frontend.keymap import (
    HELP,
    ScreenKey,
    cursor_keys,
    hint_words,
    table,
    works,
)
from foldline.text.harmless import clean_line, with_signs
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block
from foldline.tui.blocks.diff import SHORT, DiffBlock, lines_of_diff
from foldline.tui.blocks.plain import LaterBlock, RowBlock, RowColumn, TextBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.browser.panels.app_actions import open_help
from foldline.tui.browser.panels.entry_list import EntryList
from foldline.tui.browser.panels.frame import Panel, TextLines, hints_row
from foldline.tui.keys.bindings import bindings
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.terminal import clipboard

KEYS: Final = table(
    "diff",
    "Move",
    *cursor_keys(),
    ScreenKey["DiffScreen"](
        "toggle",
        ("enter",),
        "Expands or collapses the diff under the cursor.",
        hint="open or close",
        own=True,
    ),
    "Copy",
    ScreenKey(
        "copy",
        ("y",),
        "Copies the diff under the cursor.",
        hint="copy",
        works=lambda now: now.file is not None,
    ),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Closes the screen.", hint="close"),
    title="Changed files",
)
_BESIDE: Final = 134
"""Minimum width, in cells, for a side-by-side diff.

A terminal with 140 columns leaves this much room.
"""


NO_CHANGES: Final = "The write and edit tools have not changed any files."
COPIED: Final = "Copied the diff of {path}"


class DiffScreen(LeftOnce[None]):
    """A list of files with their diffs.

    Initially, short diffs are expanded. A single diff is expanded even if it is long.
    """

    DEFAULT_CSS: ClassVar[str] = "DiffScreen { layout: vertical; }"
    AUTO_FOCUS: ClassVar[str | None] = None
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "diff")

    def __init__(self, title: str, files: Sequence[FileDiff]) -> None:
        super().__init__()
        self._files = files
        sizes = [file.diff.count("\n") - 3 for file in files]
        self._opened = {
            at for at, size in enumerate(sizes) if size <= SHORT or len(files) == 1
        }
        self.list = EntryList(id="diff")
        self._panel = Panel(self.list, title=clean_line(title))
        self._hints = TextLines(id="hints")

    def compose(self) -> ComposeResult:
        yield self._panel
        yield self._hints

    def on_mount(self) -> None:
        no_changes = TextBlock((0, 0), NO_CHANGES, "muted")
        self.list.set_blocks(
            [self._block(at) for at in range(len(self._files))] or [no_changes]
        )
        self.list.focus()
        self._panel.show_focus(True)
        self._panel.head(many(len(self._files), "file"))
        self.call_after_refresh(self.list.action_home)

    def on_resize(self) -> None:
        self.call_after_refresh(
            lambda: self._hints.show(hints_row(hint_words(KEYS, self), self.size.width))
        )

    def _block(self, at: int) -> Block:
        file = self._files[at]
        key = (at, 0)
        is_open = at in self._opened
        counts = (
            ((f"+{file.added}", "live"), (f"−{file.removed}", "alert"))
            if file.diff
            else ()
        )
        body: Block = TextBlock(key, clean_line(file.why), "muted")
        if file.diff:

            def make() -> Block:
                return DiffBlock(
                    key, tuple(lines_of_diff(file.diff)), file.path, _BESIDE
                )

            body = LaterBlock(key, make, file.diff.count("\n"))
        return RowBlock(
            key,
            (("▾ " if is_open else "▸ ", "muted"),),
            ((clean_line(file.path), "text bold"),),
            tuple(RowColumn(text, 4, style) for text, style in counts),
            cut="left",
            gap=int(bool(at)),
            body=body if is_open else None,
            indent=2,
        )

    @property
    def file(self) -> FileDiff | None:
        """The file under the cursor, or None."""
        return (
            self._files[self.list.cursor[0]]
            if self.list.cursor is not None and self._files
            else None
        )

    def works_now(self, command: str) -> bool:
        return works(KEYS, command, self)

    def action_diff(self, command: str) -> None:
        """Run a command from the key table."""
        match command:
            case "copy" if (file := self.file) is not None:
                warning = clipboard.copy(self.app, with_signs(file.diff or file.why))
                copied = COPIED.format(path=clean_line(file.path))
                self._panel.foot(f"{copied} · {warning}" if warning else copied)
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)

    @on(BlockView.BlockOpened)
    def _toggle(self, event: BlockView.BlockOpened) -> None:
        event.stop()
        if self._files:
            self._opened ^= {event.key[0]}
            self.list.replace(event.key, self._block(event.key[0]))
