"""The Inspector's keys at work: opening in place, jumps, search; the widget others use."""

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from foldline.tui.blocks import Block, BlockView, clean_line
from foldline.tui.inspector.board import FILES, HISTORY, Board, Link
from foldline.tui.inspector.edits import EditKey, action_of, entries_words, undo_target, undo_words
from foldline.tui.inspector.filelist import FileBlock
from foldline.tui.inspector.keys import bindings
from foldline.tui.inspector.offering import nothing_to
from foldline.tui.inspector.places import fold_of, row_key, row_of
from foldline.tui.inspector.rows import is_fold, is_prompt
from foldline.tui.inspector.search import find
from foldline.tui.messages import EditWanted, UndoWanted


class InspectorPanels(Board):
    """History, LLM view and Files, docked beside the chat or on a screen of their own. The owner calls
    `refresh_from` after events; nothing here changes the history: what the reader wants of it is posted as
    `EditWanted` and `UndoWanted`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings()

    class CloseRequested(Message):
        """Esc or F2: the reader is done here."""

    class HelpRequested(Message):
        """The reader asks for the keys."""

    def reveal(self, index: int) -> None:
        """Go to an entry in History, also where its row is still to be built."""
        self._go(HISTORY)
        key = row_key(index)
        if self.history.missing and self.history.view.index_of(key) is None:
            self.run_worker(self._reveal_when_filled(index), group="reveal", exclusive=True)
            return
        self.history.view.cursor_to(key, quiet=True)
        self._link_here()

    async def _reveal_when_filled(self, index: int) -> None:
        await self.history.fill()  # whichever of two fills comes first is the one that is shown
        self.reveal(index)

    def tell(self, words: str) -> None:
        """Say something in the status row, until the cursor moves."""
        self._news = words
        self._describe()

    # --- Enter ----------------------------------------------------------------------------------------

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        self._news = ""
        block = event.view.block(event.key)
        if isinstance(block, FileBlock):
            self._jump_to_touch(block)
        elif event.view is self.history.view:
            self.history.toggle(row_of(event.key))
        elif event.view is self.view.view:
            self.view.toggle(row_of(event.key))
        self._describe()

    def _jump_to_touch(self, file: FileBlock) -> None:
        """History to the newest touch of a file; from there to an older one; round to the newest."""
        touches = file.touches
        at = touches.index(self._link.index) if self._link and self._link.index in touches else 0
        again = self._link is not None and self._link.source == FILES
        target = touches[at - 1] if again or self._link is None else touches[-1]
        self._file = file
        self._link = Link(row_key(target), FILES)
        self._relink(scroll=True)

    # --- Keys -----------------------------------------------------------------------------------------

    def action_inspect(self, command: str) -> None:
        """One of the keys in `keys.KEYS`."""
        match command:
            case "next-panel":
                self._go((self._active + 1) % 3)
            case "previous-panel":
                self._go((self._active - 1) % 3)
            case "panel-1" | "panel-2" | "panel-3":
                self._go(int(command[-1]) - 1)
            case "fold":
                self._to_fold()
            case "older-prompt" | "newer-prompt":
                self._to_next(-1 if command.startswith("older") else 1, is_prompt, "prompt")
            case "older-fold" | "newer-fold":
                self._to_next(-1 if command.startswith("older") else 1, is_fold, "fold")
            case "search":
                self._open_search()
            case "next-match" | "previous-match":
                self._search(1 if command.startswith("next") else -1)
            case "pin" | "hide" | "drop" | "restore":
                self._edit(command)
            case "undo":
                self._undo()
            case "help":
                self.post_message(self.HelpRequested())
            case "close":
                self._close()
        self._describe()

    def _edit(self, key: EditKey) -> None:
        """Ask for an edit of the entry under the cursor, or say why there is none."""
        if not self.live:
            return
        if self._active == FILES:
            self._news = "Edits are of entries: 1 goes to History, 2 to the LLM view."
            return
        index = -1 if self._link is None else self._link.index
        action = action_of(self._projection, index, key) if index >= 0 else None
        if action is None:
            self._news = nothing_to(self._projection, index, key)
            return
        self._news = self._later(f"{action} {entries_words(self._projection.group(index))}")
        self.post_message(EditWanted(index, action))

    def _undo(self) -> None:
        """Ask for the newest change of the view to be taken back, or say why it cannot be."""
        if not self.live:
            return
        marker = undo_target(self._projection)
        if marker is None:
            self._news = "Nothing to undo: no fold, edit, clear or rewind is in force."
            return
        refusal = self._projection.undo_refusal(marker.index)
        if refusal is not None:
            self._news = refusal
            return
        self._news = self._later(f"undo {undo_words(self._projection, marker)}")
        self.post_message(UndoWanted(marker.index))

    def _later(self, what: str) -> str:
        """A key that acts at once needs no words: the panels show it."""
        return f"{what}: after this turn" if self._activity else ""

    def _to_next(self, step: int, wanted: Callable[[Block], bool], what: str) -> None:
        if self._active == FILES:
            self._news = f"No {what}s here: 1 goes to History."
            return
        view = self.active_view
        key = view.stop_where(view.cursor, step, wanted)
        if key is None:
            self._news = f"No {what} {'above' if step < 0 else 'below'}."
        else:
            view.cursor_to(key)

    def _to_fold(self) -> None:
        link = self._link
        if link is None or link.index < 0:
            return
        fold = fold_of(self._projection, link.index)
        if fold is None:
            self._news = f"No fold has touched {link.index}."
            return
        if self._active != HISTORY:
            self._go(HISTORY)
        self.history.view.cursor_to(row_key(fold))
        self._link_here()

    def _close(self) -> None:
        if self._find.display or self._needle:
            self._needle = ""
            self.active_view.set_search("")
            self._close_search()
        else:
            self.post_message(self.CloseRequested())

    # --- Search ---------------------------------------------------------------------------------------

    def _open_search(self) -> None:
        self._find.value = self._needle
        self._find.display = True
        self._status.display = False
        self._find.focus()

    def _close_search(self) -> None:
        self._status.display = True
        if self._find.display:
            self._find.display = False
            self.active_view.focus()

    @on(Input.Submitted, "#find")
    def _search_for(self, event: Input.Submitted) -> None:
        event.stop()
        self._needle = event.value
        self._close_search()
        self.active_view.set_search(self._needle)
        if self._needle:
            self._search(1)

    def _search(self, step: int) -> None:
        if not self._needle:
            self._news = "Nothing to look for yet: / asks."
            return
        self.run_worker(self._look(self._active, self._needle, step), group="search", exclusive=True)

    async def _look(self, panel: int, needle: str, step: int) -> None:
        view = self._panels[panel].view
        opened = self.history.opened if panel == HISTORY else self.view.opened

        def text_of(block: Block) -> str:
            return "" if block.key in opened else block.text()

        key, wrapped = await find(view, needle, view.cursor, step, text_of)
        shown = f"“{clean_line(needle)}”"
        if key is None:
            self._news = f"{shown} is nowhere in this panel."
        elif self._active == panel:
            view.cursor_to(key, quiet=True)
            self._link_here()
            self._news = f"{shown} in {key[0]}" if key[0] >= 0 and panel != FILES else shown
            self._news += (
                ", round the end" if wrapped else ""
            ) + " · n N next, previous · Esc ends the search"
        self._describe()
