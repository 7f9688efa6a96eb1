"""Where a reader stands in a list while the moment that it shows changes, and changes back."""

from dataclasses import dataclass

from foldline.tui.blocks import Key
from foldline.tui.inspector.entry_view import EntryView


@dataclass(frozen=True, slots=True)
class Stand:
    """A place in a list, by entries."""

    cursor: Key | None
    top: tuple[Key, int] | None
    follows: bool
    """Whether the last line is visible."""
    at_end: bool
    """Whether the cursor is on the last row."""


class Staying:
    """Takes a list through other moments: what the reader looks at stays where it is, or comes back to it as
    soon as it is there again; who follows the end goes on doing so."""

    def __init__(self, view: EntryView) -> None:
        self._view = view
        self._wanted = self._left = _stand(view)

    def before(self) -> None:
        """The rows are about to become others."""
        stand = _stand(self._view)
        if stand != self._left:  # the reader has moved since
            self._wanted = stand

    def after(self) -> None:
        """They have."""
        view, wanted = self._view, self._wanted
        if wanted.follows:
            view.follow_end()
        elif wanted.top is not None and view.index_of(wanted.top[0]) is not None:
            view.scroll_to_key(wanted.top[0], only_if_hidden=False)
            view.scroll_lines(wanted.top[1])
        place = wanted.cursor
        if place is not None and view.cursor is not None:
            last = _last(view) if wanted.at_end else None
            view.cursor_to(last or place, quiet=True, scroll=False)
        self._left = _stand(view)


def _stand(view: EntryView) -> Stand:
    return Stand(view.cursor, view.top, view.follow, view.cursor is not None and view.cursor == _last(view))


def _last(view: EntryView) -> Key | None:
    """The last row where the cursor may stand."""
    for index in range(view.count - 1, -1, -1):
        block = view.block_at(index)
        if block.stop:
            return block.key
    return None
