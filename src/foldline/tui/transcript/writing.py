"""An answer while it is written: thinking on one line, text in blocks, both only as far as they changed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from foldline.tui.blocks import Block, StreamingMarkdown

from . import rows

_THOUGHT_SHOWN = 400
"""Characters of the newest thinking that its one line is taken from."""


class Writing:
    """One answer on its way in. `index` is the one its entry will have, `gap` the blank lines above it."""

    def __init__(self, index: int, gap: int) -> None:
        self.index = index
        self.shown = False
        """Whether anything of it has been drawn."""
        self._gap = gap
        self._thought = ""
        self._thought_is_new = False
        self._text: list[str] = []
        self._drawn_text: list[str] = []
        self._markdown: StreamingMarkdown | None = None

    def think(self, text: str) -> None:
        self._thought = (self._thought + text)[-_THOUGHT_SHOWN:]
        self._thought_is_new = True

    def write(self, text: str) -> None:
        self._text.append(text)

    def again(self, index: int) -> "Writing":
        """The same for another index, with nothing drawn yet."""
        other = Writing(index, self._gap)
        other.think(self._thought)
        other._text = [*self._drawn_text, *self._text]
        return other

    def drawn(self) -> Iterator[Sequence[Block]]:
        """The blocks that changed since the last call, in runs that reach to the end of the transcript."""
        if self._thought_is_new and self._markdown is None and self._thought.strip():
            self._thought_is_new = False
            self.shown = True
            block = rows.thinking_block(self.index, _newest_line(self._thought), opened=False)
            yield [replace(block, gap=self._gap)]
        if self._text:
            if self._markdown is None:
                gap = 1 if self._thought.strip() else self._gap
                self._markdown = StreamingMarkdown(self.index, rows.TEXT_PIECE, indent=rows.INDENT, gap=gap)
            delta, self._text = "".join(self._text), []
            self._drawn_text.append(delta)
            blocks = self._markdown.feed(delta).blocks
            if blocks:
                self.shown = True
                yield blocks


def _newest_line(text: str) -> str:
    """The last line with something on it: what the model thinks now."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
