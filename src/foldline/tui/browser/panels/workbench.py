"""Panels with a status row and a row of hints.

This is the base of the Inspector and the preview.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Size
from textual.widget import Widget

from foldline.frontend.keymap import ScreenKey, hint_words, name_of, works
from foldline.history.stored import without_gc
from foldline.text.harmless import clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.view import BlockView
from foldline.tui.browser.panels.app_actions import open_help
from foldline.tui.browser.panels.edit_hints import EditRequest
from foldline.tui.browser.panels.entry_list import EntryList
from foldline.tui.browser.panels.frame import Panel, TextLines, hints_row
from foldline.tui.look.cells import RowPiece, Span, Spans, row
from foldline.tui.look.fields import LineInput
from foldline.tui.look.lines import hints_in

NO_MATCH_BEYOND: Final = "No {what} {direction}."
NOT_FOUND: Final = "{needle} does not occur in this panel."
NO_SEARCH: Final = "There is no search yet. Press {key} to start one."
WRAPPED: Final = " (wrapped)"


class _Panels(Horizontal):
    """A container for panels side by side.

    It draws nothing, because the panels cover it.
    """

    BLANK = True


class Workbench(Widget):
    """Manages panels, focus and search, and handles their keys.

    Subclasses handle their own commands in `act`, and pass all other commands on to this class.
    """

    KEYS: ClassVar[Sequence[ScreenKey[Any]]] = ()
    SEARCH_PROMPT: ClassVar[str] = "find in this panel"
    BLANK = True
    DEFAULT_CSS = """
    Workbench { layout: vertical; width: 1fr; height: 1fr; }
    Workbench > #panels { height: 1fr; width: 1fr; }
    """

    def __init__(self, *panels: Panel) -> None:
        super().__init__()
        self.panels = panels
        self.side_by_side = _Panels(id="panels")
        self.active = 0
        """Number of the panel that has the focus, or had it last."""
        self.status_note: str | Spans = ""
        """Message shown in the status row until the cursor moves."""
        self.needle = ""
        self.kept_hint = ""
        """The word of the key hint that is dropped last if space runs out, except for help and close."""
        self.status = TextLines(id="status")
        self.hints = TextLines(id="hints")
        self.line = LineInput()

    def compose(self) -> ComposeResult:
        with self.side_by_side:
            yield from self.panels
        yield from self.foot()

    def foot(self) -> Iterator[Widget]:
        """Yield the rows below the panels."""
        yield self.line
        yield self.status
        yield self.hints

    @property
    def active_view(self) -> EntryList:
        """The list in the active panel."""
        return self.panels[self.active].view

    # --- Words ----------------------------------------------------------------------------------------

    @classmethod
    def key(cls, command: str) -> str:
        """Return the name of a command's key, for use in sentences."""
        return name_of(cls.KEYS, command)

    def tell(self, words: str) -> None:
        """Show a message in the status row until the cursor moves."""
        self.status_note = words
        self.describe()

    def ask_for(self, request: EditRequest) -> None:
        """Post an edit request's messages, and show its text in the status row."""
        self.status_note = request.words
        for message in request.messages:
            self.post_message(message)

    @property
    def room(self) -> Size:
        """Available columns and rows."""
        return self.size

    @property
    def focused(self) -> int | None:
        """Number of the panel drawn with a heavy frame, if any."""
        return self.active if self.has_focus_within else None

    def describe(self) -> None:
        """Update the text in the frames, the status row and the hints."""
        width = self.room.width
        if not self.is_attached or not width:
            return
        for number, panel in enumerate(self.panels):
            panel.show_focus(number == self.focused)
        self.describe_panels()
        self.status.show(self._note_row(width) or self.status_row(width))
        self.hints.show(hints_row(self.hint_pairs(), width, kept=self.kept_hint))

    def _note_row(self, width: int) -> list[Span]:
        note = self.status_note
        if not note:
            return []
        if isinstance(note, str):
            note = ((clean_line(note), "text"),)
        return row([RowPiece(note, cut="right")], [], width)

    def describe_panels(self) -> None:
        """Update the text in the frames."""
        raise NotImplementedError

    def status_row(self, width: int) -> list[Span]:
        """Return the status row for the cursor position. It is shown if there is no note."""
        raise NotImplementedError

    def hint_pairs(self) -> Sequence[tuple[str, str]]:
        """Return hints for the keys that work now, as (keys, word) pairs.

        Help and close come last.
        """
        pairs = hint_words(self.KEYS, self.key_state)
        return [
            (keys, self.esc_words() if word == "close" else word)
            for keys, word in pairs
        ]

    def esc_words(self) -> str:
        """Return the effect of Esc, in words."""
        return "end search" if self.searching else "close"

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def key_state(self) -> Any:
        """State that determines which keys in the table work."""
        return self

    def works_now(self, command: str) -> bool:
        """Whether a command's key currently has an effect."""
        return works(self.KEYS, command, self.key_state)

    def act(self, command: str) -> None:
        """Run a command that all workbenches share."""
        step = -1 if command.startswith(("older", "previous")) else 1
        match command:
            case "next-panel" | "previous-panel":
                self.go((self.active + step) % len(self.panels))
            case "panel-1" | "panel-2" | "panel-3":
                self.go(int(command[-1]) - 1)
            case "older-prompt" | "newer-prompt":
                self.to_next(step, self.is_prompt, "prompt")
            case "search":
                self.ask_search()
            case "next-match" | "previous-match":
                self.search(step)
            case "help":
                open_help(self.app)
            case "close" if self.line.display:
                self.close_line()
            case "close" if not self.end_search():
                self.leave()

    def is_prompt(self, block: Block) -> bool:
        """Whether a row is a user prompt."""
        return False

    def leave(self) -> None:
        """Close the screen.

        Called only if there is no search to end first.
        """
        self.screen.dismiss()

    # --- Layout ---------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        """Show as many panels as fit."""
        raise NotImplementedError

    def show_panels(self, *shown: int) -> None:
        """Show these panels.

        Once the panels have been laid out, scroll each to its cursor.
        """
        for number, panel in enumerate(self.panels):
            panel.display = number in shown
        self.call_after_refresh(self._show_places)

    def _show_places(self) -> None:
        for number, panel in enumerate(self.panels):
            if panel.display and self.has_cursor(number):
                self.show_place(panel.view)
        self.describe()

    def show_place(self, view: EntryList) -> None:
        """Scroll a list to its cursor or its `▷` mark."""
        view.show_place()

    def relink(self) -> None:
        """Mark the rows in other panels that correspond to the row at the cursor."""

    def clear_status_note(self) -> None:
        """Clear the note in the status row."""
        self.status_note = ""

    # --- Focus ----------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self.lay_out()

    def enter(self) -> None:
        """Focus the active panel before the next frame is drawn."""
        if self.is_attached:  # it may have been closed before it was mounted
            self.screen.set_focus(self.active_view)
            self.describe()

    def go(self, number: int) -> None:
        """Focus the panel with this number."""
        self.clear_status_note()
        if number != self.active:
            self.take_over(number)
        self.active_view.focus()
        self.describe()

    def take_over(self, number: int) -> None:
        """Move the cursor to another panel."""
        if self.has_cursor(self.active):
            self.active_view.give_cursor()
        self.active_view.set_search("")
        self.active = number
        self.active_view.set_search(self.search_words)
        if self.has_cursor(number) and self.active_view.cursor is None:
            self.active_view.take_cursor()
        self.lay_out()

    def to_next(self, step: int, matches: Callable[[Block], bool], what: str) -> None:
        """Move the cursor to the next matching block.

        Args:
            step: 1 searches downwards, -1 upwards.
            what: the noun for a match, used in the message that there is none.
        """
        view = self.active_view
        key = view.next_where(view.cursor, step, matches)
        if key is None:
            direction = "above" if step < 0 else "below"
            self.status_note = NO_MATCH_BEYOND.format(what=what, direction=direction)
        else:
            view.cursor_to(key)

    def has_cursor(self, number: int) -> bool:
        """Whether the shared cursor can be in this panel."""
        return True

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Move the cursor to the panel that has received the focus."""
        for number, panel in enumerate(self.panels):
            if event.widget is panel.view and number != self.active:
                self.take_over(number)
        self.describe()

    def on_descendant_blur(self) -> None:
        self.call_after_refresh(self.describe)

    @on(BlockView.CursorMoved)
    def _cursor_moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        if event.view is self.active_view:
            self.clear_status_note()
            self.relink()
            self.describe()

    # --- Search ---------------------------------------------------------------------------------------

    @property
    def searching(self) -> bool:
        """Whether the search field is open or a search is active."""
        return self.line.display or bool(self.needle)

    def ask_search(self) -> None:
        """Show the search field instead of the status row."""
        self.ask_line(self.SEARCH_PROMPT, self.needle, self._search_for)

    def ask_line(self, prompt: str, text: str, done: Callable[[str], None]) -> None:
        """Show a field instead of the status row."""
        self.status.display = False
        self.line.ask(prompt, text, done)

    def _search_for(self, text: str) -> None:
        self.close_line()
        self.needle = text
        self.active_view.set_search(self.search_words)
        if text:
            self.search(1)

    def close_line(self) -> None:
        """Close the search field, and show the status row again."""
        if not self.status.display:
            self.line.close()
            self.status.display = True
            self.screen.set_focus(
                self.active_view
            )  # not `focus()`, because the next key may already be in the queue

    def end_search(self) -> bool:
        """End the search, and return whether one was active."""
        was_searching = self.searching
        self.needle = ""
        self.clear_status_note()
        self.active_view.set_search("")
        self.close_line()
        return was_searching

    def search(self, step: int) -> None:
        """Go to the next (1) or previous (-1) match."""
        if self.needle:
            self.run_worker(
                self._look(self.active, step), group="search", exclusive=True
            )
        else:
            self.status_note = NO_SEARCH.format(key=self.key("search"))

    @property
    def search_words(self) -> str:
        """The text being searched for, which is also highlighted."""
        return self.needle

    def search_text(self, block: Block) -> str | None:
        """Return the searchable text of a block.

        Returns None if the block cannot be a match.
        """
        return block.text()

    def match_words(self, key: Key) -> str:
        """Return a match's position in words, with a leading space."""
        return ""

    async def _look(self, number: int, step: int) -> None:
        view = self.panels[number].view
        needle = f"“{clean_line(self.needle)}”"
        key, wrapped = await find(
            view, self.search_words, view.cursor, step, self.search_text
        )
        if key is None:
            self.status_note = NOT_FOUND.format(needle=needle)
        elif self.active == number:
            view.cursor_to(key, quiet=True)
            self.relink()
            self.status_note = self._match_note(needle, key, wrapped)
        self.describe()

    def _match_note(self, needle: str, key: Key, wrapped: bool) -> Spans:
        place = self.match_words(key)
        if wrapped:
            place += WRAPPED
        keys = f"{self.key('next-match')} {self.key('previous-match')} next, previous"
        hints = hints_in(f"{keys} · {self.key('close')} end search", "text")
        return ((f"{needle}{place} · ", "text"), *hints)


_SLICE: Final = 1_000_000
"""Number of characters searched before other tasks can run. This takes a few milliseconds."""
_ROW: Final = 1_000
"""Cost of reading an entry, given as the number of characters that could be searched instead."""


async def find(
    view: EntryList,
    text: str,
    start: Key | None,
    step: int,
    text_of: Callable[[Block], str | None],
) -> tuple[Key | None, bool]:
    """Find the next block with `text`, ignoring case.

    Args:
        start: the block at which the search ends.
        step: 1 searches downwards, -1 upwards.

    Returns:
        The key of the block, and whether the search wrapped around.
    """
    matches = re.compile(re.escape(text), re.IGNORECASE).search
    index = view.index_of(start)
    if index is None:
        index = view.count if step < 0 else -1
    searched = 0
    wrapped = False
    with without_gc():  # the search creates many thousands of objects
        for _ in range(view.count):
            index += step
            if not 0 <= index < view.count:
                index %= view.count
                wrapped = True
            block = view.block_at(index)
            if not block.stop:
                continue
            body = text_of(block)
            if body is not None and matches(body):
                return block.key, wrapped
            searched += len(body or "") + _ROW
            if searched > _SLICE:
                searched = 0
                await asyncio.sleep(0)
    return None, wrapped
