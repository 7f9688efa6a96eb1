"""A search at work: the field it is asked in, what is looked for, and what is said of it."""

from collections.abc import Container

from foldline.tui.blocks import Block, Key, clean_line
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.search import find
from foldline.tui.keys.table import name_of
from foldline.tui.widgets.key_order import OrderedInput


class Searching:
    """Belongs to a board, which shows `field` in the place of its status row while it asks."""

    def __init__(self) -> None:
        self.field = OrderedInput(id="find", placeholder="find in this panel", compact=True)
        self.needle = ""

    @property
    def going(self) -> bool:
        """Whether it asks, or something is looked for."""
        return self.field.display or bool(self.needle)

    def ask(self) -> None:
        """Show the field, with what was looked for last."""
        self.field.value = self.needle
        self.field.display = True
        self.field.screen.set_focus(self.field)  # at once: a letter may be right behind

    def close(self) -> bool:
        """Hide the field; False where it was not there."""
        was, self.field.display = self.field.display, False
        return was

    async def look(
        self, view: EntryView, step: int, opened: Container[Key], *, of_entries: bool
    ) -> tuple[Key | None, str]:
        """The next place in a list and what to say of it. An entry that is `opened` has its text below it."""

        def text_of(block: Block) -> str:
            return "" if block.key in opened else block.text()

        key, wrapped = await find(view, self.needle, view.cursor, step, text_of)
        words = f"“{clean_line(self.needle)}”"
        if key is None:
            return None, f"{words} is nowhere in this panel."
        where = f" in {key[0]}" if of_entries and key[0] >= 0 else ""
        round_it = ", round the end" if wrapped else ""
        older, newer = name_of(KEYS, "previous-match"), name_of(KEYS, "next-match")
        ends = name_of(KEYS, "close")
        return key, f"{words}{where}{round_it} · {newer} {older} next, previous · {ends} ends the search"
