"""The turns of a Codex session, in case some are taken back: a checkpoint before each, and the view there."""

from dataclasses import dataclass, field

from foldline.protocol import Checkpoint, Revert

from .codex_book import Book, Row
from .foreign_view import Moment


@dataclass
class Turns:
    """Going back takes the machine text before a prompt along, but not what opens the session."""

    book: Book
    wanted: bool
    """Whether the session goes back anywhere: else checkpoints would only be in the way."""
    _in_force: list[tuple[int, Moment]] = field(default_factory=list)
    _opened: tuple[int, Moment] | None = None
    """Where machine text that may belong to the next prompt began."""
    _made: int = 0

    def machine_text(self, row: Row) -> None:
        """Machine text is about to be added."""
        if self.wanted and self._in_force and self._opened is None:
            self._opened = self._here(row)

    def answered(self) -> None:
        """The model or a tool has spoken: machine text before that belongs to no later prompt."""
        self._opened = None

    def begin(self, row: Row) -> None:
        """A prompt is about to be added."""
        if not self.wanted:
            return
        index, moment = self._opened or self._here(row)
        self._opened = None
        self.book.put(index, row.at, Checkpoint(id=self._made))
        self._in_force.append((self._made, moment))
        self._made += 1

    def take_back(self, row: Row, turns: int) -> bool:
        """Back to before the last so many turns, as far as there are any; whether there are."""
        turns = min(turns, len(self._in_force))
        if turns == 0:
            return False
        checkpoint, moment = self._in_force[-turns]
        del self._in_force[-turns:]
        self._opened = None
        self.book.view.go_back_to(moment)
        self.book.add(row, Revert(checkpoint=checkpoint))
        return True

    def _here(self, row: Row) -> tuple[int, Moment]:
        return self.book.next_index(row), self.book.view.moment()
