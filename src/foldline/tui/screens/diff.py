"""What changed in files, one below the other: since a session began, or since a place to go back to."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from foldline.agent.rewind import FileDiff
from foldline.context.harmless import clean_line, with_signs
from foldline.context.numbers import many
from foldline.tui.blocks.block import Block
from foldline.tui.blocks.diff import SHORT, DiffBlock, lines_of_diff
from foldline.tui.blocks.plain import Column, LaterBlock, RowBlock, TextBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import HELP, ScreenKey, bindings, cursor_keys, hint_words, table, works
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel, Text, hints_row
from foldline.tui.terminal import clipboard

KEYS: Final = table(
    "diff",
    "Move",
    *cursor_keys(),
    ScreenKey["DiffScreen"](
        "toggle", ("enter",), "Opens or closes the file under the cursor.", hint="open or close", own=True
    ),
    "Copy",
    ScreenKey(
        "copy", ("y",), "Copies the diff of the file.", hint="copy", works=lambda now: now.file is not None
    ),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Back to where you were.", hint="close"),
    title="Changed files",
)
_BESIDE: Final = 134
"""Cells from which old and new lines stand side by side: what frame, cursor and indent leave of 140."""


class DiffScreen(Screen[None]):
    """Short diffs are open at first, and the only one there is."""

    DEFAULT_CSS: ClassVar[str] = "DiffScreen { layout: vertical; }"
    AUTO_FOCUS: ClassVar[str | None] = None
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "diff")

    def __init__(self, title: str, files: Sequence[FileDiff]) -> None:
        super().__init__()
        self._files = files
        sizes = [file.diff.count("\n") - 3 for file in files]
        self._opened = {at for at, size in enumerate(sizes) if size <= SHORT or len(files) == 1}
        self.list = EntryList(id="diff")
        self._panel = Panel(self.list, title=clean_line(title))
        self._hints = Text(id="hints")

    def compose(self) -> ComposeResult:
        yield self._panel
        yield self._hints

    def on_mount(self) -> None:
        none = TextBlock((0, 0), "No file was changed by write or edit.", "muted")
        self.list.set_blocks([self._block(at) for at in range(len(self._files))] or [none])
        self.list.focus()
        self._panel.show_focus(True)
        self._panel.head(many(len(self._files), "file"))
        self.call_after_refresh(self.list.action_home)

    def on_resize(self) -> None:
        self.call_after_refresh(lambda: self._hints.show(hints_row(hint_words(KEYS, self), self.size.width)))

    def _block(self, at: int) -> Block:
        file, key, is_open = self._files[at], (at, 0), at in self._opened
        counts = ((f"+{file.added}", "live"), (f"−{file.removed}", "alert")) if file.diff else ()
        body: Block = TextBlock(key, clean_line(file.why), "muted")
        if file.diff:
            make = lambda: DiffBlock(key, tuple(lines_of_diff(file.diff)), file.path, _BESIDE)  # noqa: E731
            body = LaterBlock(key, make, file.diff.count("\n"))
        return RowBlock(
            key,
            (("▾ " if is_open else "▸ ", "muted"),),
            ((clean_line(file.path), "text bold"),),
            tuple(Column(text, 4, style) for text, style in counts),
            cut="left",
            gap=int(bool(at)),
            body=body if is_open else None,
            indent=2,
        )

    @property
    def file(self) -> FileDiff | None:
        """The file under the cursor."""
        return self._files[self.list.cursor[0]] if self.list.cursor is not None and self._files else None

    def works_now(self, command: str) -> bool:
        return works(KEYS, command, self)

    def action_diff(self, command: str) -> None:
        """One of the keys of the table."""
        match command:
            case "copy" if (file := self.file) is not None:
                doubt = clipboard.copy(self.app, with_signs(file.diff or file.why))
                self._panel.foot(
                    " · ".join(filter(None, (f"Copied the diff of {clean_line(file.path)}", doubt)))
                )
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)

    @on(BlockView.Opened)
    def _toggle(self, event: BlockView.Opened) -> None:
        event.stop()
        if self._files:
            self._opened ^= {event.key[0]}
            self.list.replace(event.key, self._block(event.key[0]))
