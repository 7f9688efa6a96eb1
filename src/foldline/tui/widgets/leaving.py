"""A screen that is left once."""

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import Screen

Result = TypeVar("Result")


class LeftOnce(Screen[Result]):
    """For screens that are told to close by a message, or when something is done: until that comes, the key
    may have been pressed again, or another screen been opened on top.

    Textual's own `dismiss` takes away whatever screen is in front, and fails where there is none above the
    first."""

    @property
    def is_open(self) -> bool:
        """From when it is pushed to when it is left, also while others lie over it."""
        return self in self.app.screen_stack

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Leave it, with all that lies over it. Nothing, where it has been left."""
        if not self.is_open:
            return AwaitComplete()
        self.uncover()
        return super().dismiss(result)

    def uncover(self) -> None:
        """Close what lies over it; it must be open."""
        while self.app.screen is not self:
            self.app.screen.dismiss()
