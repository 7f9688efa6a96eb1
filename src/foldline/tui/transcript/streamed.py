"""Shows a response while it is being streamed.

Its blocks already have the index of its future entry, so that no block moves when the entry is appended.
"""

from collections.abc import Callable, Sequence

from foldline.tui.blocks.block import Block
from foldline.tui.blocks.markdown import StreamingMarkdown
from foldline.tui.blocks.view import BlockView
from foldline.tui.transcript.calls import INDENT
from foldline.tui.transcript.rows import TEXT_PIECE, thought_row
from foldline.view.tokens import estimate_tokens

_THOUGHT_TAIL = 4_000
"""Number of characters of an expanded thought that stay visible while it is being streamed."""


class StreamedAnswer:
    """A response that is being streamed."""

    def __init__(
        self,
        index: int,
        gap: int,
        clock: Callable[[], float],
        scale: float,
    ) -> None:
        """Create a response without text.

        Args:
            index: The index of the response's future entry.
            gap: The number of blank lines above the response.
            clock: Returns the time in seconds.
            scale: The calibration factor for estimated tokens.
        """
        self.index = index
        self.shown = False
        """Whether any part of the response has been drawn."""
        self._gap = gap
        self._clock = clock
        self._scale = scale
        self._thought_tail = ""
        self._thought_tokens = 0
        self._thought_opened = False
        self._thought_changed = False
        self._began: float | None = None
        self._ended: float | None = None
        self._text: list[str] = []
        self._drawn = 0
        """Number of items of `_text` that have been drawn."""
        self._markdown: StreamingMarkdown | None = None

    def think(self, text: str) -> None:
        if self._began is None:
            self._began = self._clock()
        self._thought_tokens += estimate_tokens(text)
        self._thought_changed = True
        self._thought_tail += text
        if len(self._thought_tail) > 2 * _THOUGHT_TAIL:
            # Cut at a space, and rarely, because each cut moves the line breaks.
            self._thought_tail = self._thought_tail[-_THOUGHT_TAIL:].partition(" ")[2]

    def write(self, text: str) -> None:
        if self._ended is None:
            self._ended = self._clock()
        self._text.append(text)

    @property
    def thought_for(self) -> float | None:
        """Thinking time of the response so far, in seconds.

        None if the model has not been thinking.
        """
        if self._began is None:
            return None
        end = self._clock() if self._ended is None else self._ended
        return end - self._began

    def move(self, index: int, gap: int) -> None:
        """Change the response's index and gap.

        The next `show` draws the whole response again.
        """
        self.index = index
        self._gap = gap
        self.shown = False
        self._markdown = None
        self._thought_changed = True
        self._drawn = 0

    def show(self, view: BlockView) -> None:
        """Draw the text added since this was last called."""
        if self._thought_changed and self._thought_tail.strip():
            self._show_thought(view)
        if self._drawn < len(self._text):
            self._show_text(view)

    def open_thought(self, view: BlockView, opened: bool) -> None:
        """Expand or collapse the thought."""
        self._thought_opened = opened
        self._show_thought(view)

    def _show_thought(self, view: BlockView) -> None:
        self._thought_changed = False
        row = thought_row(
            self.index,
            round(self._thought_tokens * self._scale),
            self.thought_for,
            self._thought_tail if self._thought_opened else None,
            gap=self._gap,
        )
        if view.holds(row.key):
            view.replace(row.key, row, follow=True)
        else:
            view.append(row)
        self.shown = True

    def finish(self, view: BlockView, text: str) -> Sequence[Block] | None:
        """Draw the final text, and return its blocks.

        Returns None if the final text differs from the streamed text.
        """
        self.show(view)
        if self._markdown is None or "".join(self._text) != text:
            return None
        self._replace_last(view, self._markdown.finish())
        first = view.index_of((self.index, TEXT_PIECE))
        if first is None:
            return []
        return list(map(view.block_at, range(first, view.count)))

    def _show_text(self, view: BlockView) -> None:
        if self._markdown is None:
            gap = 1 if self._thought_tokens else self._gap
            self._markdown = StreamingMarkdown(
                self.index,
                TEXT_PIECE,
                indent=INDENT,
                gap=gap,
            )
        blocks = self._markdown.feed("".join(self._text[self._drawn :]))
        self._drawn = len(self._text)
        self._replace_last(view, blocks)

    def _replace_last(self, view: BlockView, blocks: Sequence[Block]) -> None:
        """Draw the changed blocks at the end of the view."""
        if blocks:
            self.shown = True
            view.replace_from(blocks[0].key, blocks)
