"""Going through earlier prompts with ↑ and ↓, without losing the text being written. Pure."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Recall:
    """Earlier prompts, oldest first, and where the reader is among them."""

    items: tuple[str, ...] = ()
    at: int | None = None
    """The item shown; None while the reader's own text is."""
    draft: str = ""
    """The reader's own text while an item is shown."""

    def with_item(self, text: str) -> "Recall":
        """After a prompt was sent or put aside: it is the newest, and the reader is back at his own text."""
        items = self.items if self.items and self.items[-1] == text else (*self.items, text)
        return Recall(items)

    def older(self, text: str) -> "Recall | None":
        """One step back from `text`; None where there is nothing older."""
        if self.at is None:
            return replace(self, at=len(self.items) - 1, draft=text) if self.items else None
        return replace(self, at=self.at - 1) if self.at > 0 else None

    def newer(self) -> "Recall | None":
        """One step forward; None while the reader's own text is shown."""
        if self.at is None:
            return None
        return replace(self, at=self.at + 1 if self.at + 1 < len(self.items) else None)

    @property
    def shown(self) -> str:
        return self.draft if self.at is None else self.items[self.at]
