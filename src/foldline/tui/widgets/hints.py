"""The row of hints: what can be done now, from the tables of keys."""

from textual import events
from textual.widget import Widget
from textual.widgets import Input

from foldline.tui.blocks.cells import Span
from foldline.tui.keys.commands import BY_ID, COMMANDS, key_of
from foldline.tui.keys.table import hint_words
from foldline.tui.reading.keys import KEYS, ReadingFacts
from foldline.tui.state import ChatState
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import Piece, row

_NARROW = 100
"""Cells below which words are shorter, and the transcript is the only panel beside the prompt."""
_SHORTER = {BY_ID["preview"].hint: "preview", BY_ID["complete"].hint: "transcript"}
_LAST_TO_GO = (BY_ID["complete"].hint, BY_ID["prompt-older"].hint)
"""What stays longest where there is no room: how to get anywhere else."""


def hints_row(
    state: ChatState, width: int, reading: ReadingFacts | None = None, *, covered: bool = False
) -> list[Span]:
    """` F2 inspector  Alt+↑↓ prompts  PgUp scroll        Ctrl+P everything `; while the transcript has the
    focus (`reading`), the keys that work there; while another screen is in front, what works there, too."""
    words = list(hint_words(COMMANDS, state))
    if not words:
        return row((), (), width)
    last = words.pop()
    if covered:
        words = []
    elif reading is not None:
        words = [*hint_words(KEYS, reading), (key_of("help-panel"), "all keys")]
    left = [_piece(keys, _word(word, width), _rank(word, at)) for at, (keys, word) in enumerate(words)]
    return row(left, [_piece(*last)], width)


def _word(word: str, width: int) -> str:
    return _SHORTER.get(word, word) if width < _NARROW else word


def _rank(word: str, at: int) -> int:
    """What goes first where there is no room: the last of them."""
    return 1 + (_LAST_TO_GO.index(word) if word in _LAST_TO_GO else len(_LAST_TO_GO) + at)


def _piece(keys: str, word: str, rank: int = 0) -> Piece:
    return Piece(((keys, "accent"), (f" {word}", "muted")), rank=rank, gap=2)


class Hints(Lines):
    """The last row of the screen."""

    def __init__(self) -> None:
        super().__init__(id="hints")
        self._state = ChatState()
        self._reading: ReadingFacts | None = None
        self._covered = False

    def show(self, state: ChatState, reading: ReadingFacts | None = None, *, covered: bool = False) -> None:
        """`covered`: another screen is in front, and has the keys."""
        self._state, self._reading, self._covered = state, reading, covered
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [hints_row(self._state, width, self._reading, covered=self._covered)]


async def act_now(field: Widget, key: str) -> bool:
    """Do what the field's own binding of this key does; False where it has none."""
    node, own = field.screen._modal_binding_chain[0]
    if node is not field:
        return False  # it has lost the focus meanwhile
    for binding in own.key_to_bindings.get(key, ()):
        if not binding.priority and await field.app.run_action(binding.action, field):
            return True
    return False


class OrderedInput(Input):
    """An `Input` whose keys keep their order."""

    async def _on_key(self, event: events.Key) -> None:
        if await act_now(self, event.key):
            event.stop()
            event.prevent_default()
