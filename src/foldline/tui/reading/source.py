"""What the reading side asks of whoever fills the transcript. It costs nothing before the first paint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from foldline.context.numbers import many
from foldline.tui.blocks import Key


@dataclass(frozen=True, slots=True)
class Taken:
    """Text for the clipboard, and what it is, in words."""

    text: str
    what: str
    instead: str = ""
    """What the same key takes when it is pressed again; empty: the same."""

    @property
    def words(self) -> str:
        """`the code block: 14 lines`."""
        lines = self.text.count("\n") + 1
        size = many(lines, "line") if lines > 1 else many(len(self.text), "character")
        return f"{self.what}: {size}"


class Source(Protocol):
    """The transcript as its reader's keys see it."""

    @property
    def prompts(self) -> Sequence[Key]:
        """Places of the user's prompts, in order."""

    @property
    def folds(self) -> Sequence[Key]:
        """Places of the lines that compactions left, in order."""

    @property
    def earlier(self) -> int:
        """Entries before those that are shown."""

    def read_earlier(self) -> Iterator[None]:
        """Show some of them, in slices."""

    def toggle(self, key: Key) -> None:
        """Open or close what stands there."""

    def opens(self, key: Key) -> bool:
        """Whether there is anything to open or close."""

    def entry_of(self, key: Key) -> int:
        """The entry that stands there."""

    def take(self, key: Key, *, again: bool) -> Taken | None:
        """What copying takes there; `again`: what it takes the second time."""

    def words_at(self, key: Key) -> str:
        """All that stands there, opened or not: what search looks through."""

    def reveal(self, key: Key, needle: str) -> bool:
        """Open it as far as `needle` needs to be seen; whether it can be. What was opened for an earlier one
        closes again."""

    def conceal(self) -> None:
        """Close what was opened for a search."""
