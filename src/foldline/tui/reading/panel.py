"""The transcript as a panel: the block view with the reader's keys."""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from foldline.tui.blocks import BlockView, Key
from foldline.tui.keys.table import bindings, works
from foldline.tui.reading.keys import KEYS, ReadingFacts


class TranscriptPanel(BlockView):
    """Turns keys into messages; `ReadingPane` does what they ask for."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "read")

    class Asked(Message):
        """One of the keys of `KEYS` that are not the view's own."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    class TopReached(Message):
        """The first block is in sight."""

    first_asked: Key | None = None
    """The first block when that was last told."""

    def __init__(self, facts: Callable[[], ReadingFacts]) -> None:
        """`facts` are what its keys go by now."""
        super().__init__(id="transcript")
        self._facts = facts

    def works_now(self, command: str) -> bool:
        """Whether one of its keys does anything."""
        return works(KEYS, command, self._facts())

    def action_read(self, command: str) -> None:
        self.post_message(self.Asked(command))

    def _place(self) -> None:
        super()._place()
        if not self.is_mounted or not self.count or self.follow:
            return
        second = self.block_at(min(1, self.count - 1)).key
        if self._viewport.top[0] == 0 and second != self.first_asked:
            self.first_asked = second
            self.post_message(self.TopReached())
