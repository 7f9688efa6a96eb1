"""Panels of which one has the cursor, with a status row and a row of hints below them: what the Inspector,
the preview and the Context screen have in common."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region, Size
from textual.widget import Widget

from foldline.context.harmless import clean_line
from foldline.history.stored import without_gc
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Piece, Span, Spans, row
from foldline.tui.blocks.view import BlockView
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import ScreenKey, hint_words, name_of, works
from foldline.tui.panels.edit_hints import Answer
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel, Text, hints_row
from foldline.tui.widgets.borders import STEP, Borders, Movable
from foldline.tui.widgets.fields import OneLine
from foldline.tui.widgets.lines import hints_in


class _Panels(Horizontal):
    """Side by side. Nothing is seen of it: it draws no lines, as whatever they cover."""

    BLANK = True


class Workbench(Movable):
    """Owns panels, focus, search, and the keys that go with them. A subclass fills in the methods that raise
    or do nothing here, and carries out its own keys before it hands the others to `act`."""

    KEYS: ClassVar[Sequence[ScreenKey[Any]]] = ()
    KEPT_HINT: ClassVar[str] = ""
    """The hint that stays longest, but for help and the way out."""
    BLANK = True
    DEFAULT_CSS = """
    Workbench { layout: vertical; width: 1fr; height: 1fr; }
    Workbench > #panels { height: 1fr; width: 1fr; }
    """

    def __init__(self, *panels: Panel) -> None:
        super().__init__()
        self.panels = panels
        self.side_by_side = _Panels(id="panels")
        self._column_borders = Borders(self._beside, self._give_columns)
        self._row_border = Borders(self._stacked, self._give_rows, stacked=True)
        self.borders = (self._column_borders, self._row_border)
        self.active = 0
        """The panel that has, or last had, the focus."""
        self.news: str | Spans = ""
        """What the status row says until the cursor moves."""
        self.needle = ""
        self.status = Text(id="status")
        self.hints = Text(id="hints")
        self.line = OneLine()

    def compose(self) -> ComposeResult:
        with self.side_by_side:
            yield from self.panels
        yield from self.foot()

    def foot(self) -> Iterator[Widget]:
        """The rows below the panels."""
        yield self.line
        yield self.status
        yield self.hints

    @property
    def active_view(self) -> EntryList:
        """The list of the active panel."""
        return self.panels[self.active].view

    # --- Words ----------------------------------------------------------------------------------------

    @classmethod
    def key(cls, command: str) -> str:
        """How sentences call the key of a command."""
        return name_of(cls.KEYS, command)

    def tell(self, words: str) -> None:
        """Say something in the status row, until the cursor moves."""
        self.news = words
        self.describe()

    def ask_for(self, answer: Answer) -> None:
        """Ask for the edits of a pressed key, and name them."""
        self.news = answer.words
        for wanted in answer.wanted:
            self.post_message(wanted)

    @property
    def room(self) -> Size:
        """Columns and rows there are."""
        return self.size

    @property
    def focused(self) -> int | None:
        """The panel whose frame is heavy."""
        return self.active if self.has_focus_within else None

    def describe(self) -> None:
        """Bring frames, status and hints up to date."""
        width = self.room.width
        if not self.is_attached or not width:
            return
        for number, panel in enumerate(self.panels):
            panel.show_focus(number == self.focused)
        self.describe_panels()
        news = ((clean_line(self.news), "text"),) if isinstance(self.news, str) else self.news
        said = row([Piece(news, cut="right")], [], width)
        self.status.show(said if self.news else self.status_row(width))
        self.hints.show(hints_row(self.hint_pairs(), width, kept=self.KEPT_HINT))

    def describe_panels(self) -> None:
        """The words in the frames."""
        raise NotImplementedError

    def status_row(self, width: int) -> list[Span]:
        """The status row without news."""
        raise NotImplementedError

    def hint_pairs(self) -> Sequence[tuple[str, str]]:
        """(keys, word) of the keys that work now; the last two for the right end."""
        pairs = hint_words(self.KEYS, self.facts)
        return [(keys, self.esc_words() if word == "close" else word) for keys, word in pairs]

    def esc_words(self) -> str:
        """The word for the effect of Esc now."""
        return "ends the search" if self.searching else "close"

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def facts(self) -> Any:
        """The facts by which keys of the table work or not."""
        return self

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(self.KEYS, command, self.facts)

    def act(self, command: str) -> None:
        """The keys that all have: other panels, prompts, search, help, one step outwards."""
        back = ("older", "previous", "border-left", "border-up")
        step = -1 if command.startswith(back) else 1
        match command:
            case "next-panel" | "previous-panel":
                self.go((self.active + step) % len(self.panels))
            case "panel-1" | "panel-2" | "panel-3":
                self.go(int(command[-1]) - 1)
            case "older-prompt" | "newer-prompt":
                self.to_next(step, self.is_prompt, "prompt")
            case "border-left" | "border-right":
                self.move_border(step * STEP)
            case "border-up" | "border-down":
                self.move_border(step, stacked=True)
            case "search":
                self.ask_search()
            case "next-match" | "previous-match":
                self.search(step)
            case "help":
                open_help(self.app)
            case "close" if not self.end_search():
                self.leave()

    def is_prompt(self, block: Block) -> bool:
        """Whether a row is something the user asked."""
        return False

    def leave(self) -> None:
        """One step outwards, where nothing is looked for."""
        self.screen.dismiss()

    def move_border(self, cells: int, *, stacked: bool = False) -> None:
        """The one beside the active panel; where that stands alone, the one beside all of them."""
        around = (node for node in self.ancestors_with_self if isinstance(node, Movable))
        nth = sum(panel.display for panel in self.panels[: self.active])
        if not any(node.shift_beside(nth, cells, stacked=stacked) for node in around):
            self.news = "There is no border to move here."

    # --- Layout ---------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        """Show the panels there is room for."""
        raise NotImplementedError

    def show_panels(self, *shown: int) -> None:
        """Show these panels; their place comes into sight once they have their size."""
        for number, panel in enumerate(self.panels):
            panel.display = number in shown
        if kept := self._column_borders.kept(self.app.size):
            self._give_columns(kept)
        else:  # evenly, but for those whose width is their own
            for each in self._shown_panels:
                if (width := each.styles.width) is not None and width.is_fraction:
                    each.styles.width = "1fr"
        self.call_after_refresh(self._show_places)

    @property
    def below(self) -> Widget | None:
        """The widget below the panels, whose height can be changed."""
        return None

    @property
    def _shown_panels(self) -> list[Widget]:
        return [each for each in self.side_by_side.children if each.display]

    def _beside(self) -> dict[str, Region]:
        return {each.id or "": each.region for each in self._shown_panels}

    def _give_columns(self, columns: Sequence[int]) -> None:
        for panel, width in zip(self._shown_panels, columns, strict=True):
            panel.styles.width = f"{width}fr"

    def _stacked(self) -> dict[str, Region]:
        parts = (each for each in (self.side_by_side, self.below) if each is not None and each.display)
        return {each.id or "": each.region for each in parts}

    def _give_rows(self, rows: Sequence[int]) -> None:
        if self.below is not None:
            self.side_by_side.styles.height, self.below.styles.height = (f"{each}fr" for each in rows)

    def share_rows(self, below: str) -> None:
        """Give the widget below the panels this height, unless the reader chose another."""
        if kept := self._row_border.kept(self.app.size):
            self._give_rows(kept)
        elif self.below is not None:
            self.side_by_side.styles.height, self.below.styles.height = "1fr", below

    def _show_places(self) -> None:
        for number, panel in enumerate(self.panels):
            if panel.display and self.has_cursor(number):
                self.show_place(panel.view)
        self.describe()

    def show_place(self, view: EntryList) -> None:
        """Bring cursor or `▷` of a list into sight."""
        view.show_place()

    def relink(self) -> None:
        """Show the counterparts of the cursor in the other panels."""

    def forget_news(self) -> None:
        """The reader has read it."""
        self.news = ""

    # --- Focus ----------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self.lay_out()

    def enter(self) -> None:
        """Focus the panel that had it last: at once, so that no picture shows it without."""
        if self.is_attached:  # it may be closed before it was there
            self.screen.set_focus(self.active_view)
            self.describe()

    def go(self, number: int) -> None:
        """Focus a panel."""
        self.forget_news()
        if number != self.active:
            self.take_over(number)
        self.active_view.focus()
        self.describe()

    def take_over(self, number: int) -> None:
        """The cursor goes to another panel."""
        if self.has_cursor(self.active):
            self.active_view.give_cursor()
        self.active_view.set_search("")
        self.active = number
        self.active_view.set_search(self.needle)
        if self.has_cursor(number) and self.active_view.cursor is None:
            self.active_view.take_cursor()
        self.lay_out()

    def to_next(self, step: int, wanted: Callable[[Block], bool], what: str) -> None:
        """The cursor to the next wanted row in a direction, or say that there is none."""
        view = self.active_view
        key = view.next_where(view.cursor, step, wanted)
        if key is None:
            self.news = f"No {what} {'above' if step < 0 else 'below'}."
        else:
            view.cursor_to(key)

    def has_cursor(self, number: int) -> bool:
        """Whether a panel shares the one cursor with the others."""
        return True

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Tab, a number or the mouse: the cursor goes along."""
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
            self.forget_news()
            self.relink()
            self.describe()

    # --- Search ---------------------------------------------------------------------------------------

    @property
    def searching(self) -> bool:
        """Whether a search is open or under way."""
        return self.line.display or bool(self.needle)

    def ask_search(self) -> None:
        """Open the search field in place of the status row."""
        self.status.display = False
        self.line.ask("find in this panel", self.needle, self._search_for)

    def _search_for(self, text: str) -> None:
        self.close_line()
        self.needle = text
        self.active_view.set_search(text)
        if text:
            self.search(1)

    def close_line(self) -> None:
        """The status row takes its place again."""
        if not self.status.display:
            self.line.close()
            self.status.display = True
            self.screen.set_focus(self.active_view)  # at once: a key may be right behind

    def end_search(self) -> bool:
        """Look for nothing any more; False where nothing was looked for."""
        was = self.searching
        self.needle = ""
        self.active_view.set_search("")
        self.close_line()
        return was

    def search(self, step: int) -> None:
        """Go to the next (1) or previous (-1) match."""
        if self.needle:
            self.run_worker(self._look(self.active, step), group="search", exclusive=True)
        else:
            self.news = f"Nothing to look for yet: {self.key('search')} asks."

    def search_text(self, block: Block) -> str:
        """The text of a block that is searched."""
        return block.text()

    def match_words(self, key: Key) -> str:
        """Where a match is, with a blank before it."""
        return ""

    async def _look(self, number: int, step: int) -> None:
        view, shown = self.panels[number].view, f"“{clean_line(self.needle)}”"
        key, wrapped = await find(view, self.needle, view.cursor, step, self.search_text)
        here = self.active == number
        if key is None:
            self.news = f"{shown} is nowhere in this panel."
        elif here:
            view.cursor_to(key, quiet=True)
            self.relink()
            where = f"{self.match_words(key)}{', round the end' if wrapped else ''}"
            keys = f"{self.key('next-match')} {self.key('previous-match')} next, previous"
            hints = hints_in(f"{keys} · {self.key('close')} ends the search", "text")
            self.news = ((f"{shown}{where} · ", "text"), *hints)
        self.describe()


_SLICE: Final = 1_000_000
"""Characters looked through between two breaths: a few milliseconds."""
_ROW: Final = 1_000
"""Characters that could be looked through while the text of an entry is fetched."""


async def find(
    view: EntryList, text: str, start: Key | None, step: int, text_of: Callable[[Block], str]
) -> tuple[Key | None, bool]:
    """The next block after (`step` 1) or before (-1) `start` that holds `text`, whatever its case, and
    whether the search went round the end. The block at `start` itself comes last."""
    holds = re.compile(re.escape(text), re.IGNORECASE).search
    at = view.index_of(start)
    index = at if at is not None else view.count if step < 0 else -1
    looked, wrapped = 0, False
    with without_gc():  # entries are made by the thousand to be looked through
        for _ in range(view.count):
            index += step
            if not 0 <= index < view.count:
                index, wrapped = (0 if step > 0 else view.count - 1), True
            block = view.block_at(index)
            if not block.stop:
                continue
            body = text_of(block)
            if holds(body):
                return block.key, wrapped
            looked += len(body) + _ROW
            if looked > _SLICE:
                looked = 0
                await asyncio.sleep(0)
    return None, wrapped
