"""Where a reader stands in the Inspector, to be handed from one board to another: docked, and full."""

from dataclasses import dataclass

from foldline.context.moments import Moment
from foldline.tui.blocks import Key
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filters import EVERYTHING, Filter


@dataclass(frozen=True, slots=True)
class Scroll:
    """A list: its top line, its cursor and counterpart, and whether it followed."""

    top: tuple[Key, int] | None = None
    cursor: Key | None = None
    counterpart: Key | None = None
    follow: bool = True

    @property
    def keys(self) -> tuple[Key, ...]:
        """Rows that must be there before it can be taken up."""
        top = self.top[0] if self.top is not None else None
        return tuple(key for key in (top, self.cursor, self.counterpart) if key is not None)


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of entries: what it shows of them, and what is open."""

    scroll: Scroll = Scroll()
    filter: Filter = EVERYTHING
    opened: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Standing:
    """All that a reader has chosen."""

    active: int = 0
    timeline: bool = False
    """Whether the timeline has the focus."""
    history: Listed = Listed()
    view: Listed = Listed()
    files: Scroll = Scroll()
    needle: str = ""
    picked: frozenset[int] = frozenset()
    moment: Moment | None = None


def scroll_of(view: EntryView) -> Scroll:
    """Where a list stands."""
    return Scroll(view.top, view.cursor, view.counterpart, view.follow)


def take_up(view: EntryView, scroll: Scroll) -> None:
    """Put a list where another one stood; as far as it has the same rows."""
    view.counterpart = scroll.counterpart
    if scroll.cursor is not None:
        view.cursor_to(scroll.cursor, quiet=True, scroll=False)
    if scroll.follow:
        view.follow_end()
    elif scroll.top is not None:
        view.scroll_to_line(*scroll.top)
    key = view.cursor or view.counterpart
    if key is not None:
        view.scroll_to_key(key)
