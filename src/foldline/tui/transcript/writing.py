"""An answer while it is written: thinking on one line, text in blocks, both only as far as they changed."""

from collections.abc import Callable, Sequence

from foldline.context.tokens import estimate_tokens
from foldline.tui.blocks import Block, BlockView, RowBlock, StreamingMarkdown

from . import rows
from .calls import INDENT
from .thoughts import Pieces, thought_row


class Writing:
    """One answer on its way in. `index` is the one its entry will have, `gap` the blank lines above it;
    `clock` counts seconds, and `scale` is what an estimated token is worth."""

    def __init__(self, index: int, gap: int, clock: Callable[[], float], scale: float) -> None:
        self.index = index
        self.shown = False
        """Whether anything of it has been drawn."""
        self._gap = gap
        self._clock = clock
        self._scale = scale
        self._thought: list[str] = []
        self._thought_tokens = 0
        self._undrawn_thought = ""
        self._began: float | None = None
        self._ended: float | None = None
        self._pieces: Pieces | None = None
        self._text: list[str] = []
        self._drawn_text: list[str] = []
        self._markdown: StreamingMarkdown | None = None

    def think(self, text: str) -> None:
        if self._began is None:
            self._began = self._clock()
        self._thought.append(text)
        self._thought_tokens += estimate_tokens(text)
        self._undrawn_thought += text

    def write(self, text: str) -> None:
        if self._ended is None:
            self._ended = self._clock()
        self._text.append(text)

    @property
    def thought_for(self) -> float | None:
        """Seconds it has thought; None where it has not."""
        if self._began is None:
            return None
        return (self._clock() if self._ended is None else self._ended) - self._began

    def again(self, index: int, gap: int) -> "Writing":
        """The same for another index and gap, with nothing drawn yet."""
        other = Writing(index, gap, self._clock, self._scale)
        other._began, other._ended = self._began, self._ended
        other._thought, other._thought_tokens = self._thought, self._thought_tokens
        other._undrawn_thought = "".join(self._thought)
        other._text = [*self._drawn_text, *self._text]
        return other

    def show(self, view: BlockView) -> None:
        """Draw what came since the last call."""
        if self._undrawn_thought.strip() and self._markdown is None:
            self._show_thought(view)
        if self._text:
            self._show_text(view)

    def open_thought(self, view: BlockView, opened: bool) -> None:
        """Show the words of the thought as far as there are any, or only how many there are."""
        self._pieces, self._undrawn_thought = Pieces(self.index) if opened else None, ""
        row = self._row(opened)
        if view.block(row.key) is None:
            return
        view.replace(row.key, row)
        if self._pieces is not None:
            view.insert_after(row.key, *self._pieces.feed("".join(self._thought).lstrip()))

    def _show_thought(self, view: BlockView) -> None:
        text, self._undrawn_thought = self._undrawn_thought, ""
        row = self._row(self._pieces is not None)
        if self.shown:
            view.replace(row.key, row, follow=True)
        else:
            view.append(row)
        self.shown = True
        if self._pieces is not None:
            _put(view, list(self._pieces.feed(text)))

    def _row(self, opened: bool) -> RowBlock:
        tokens = round(self._thought_tokens * self._scale)
        return thought_row(self.index, tokens, self.thought_for, opened=opened, gap=self._gap)

    def finish(self, view: BlockView, text: str) -> Sequence[Block] | None:
        """The blocks of the whole text, all of them drawn; None where another text was written than this."""
        self.show(view)
        if self._markdown is None or "".join(self._drawn_text) != text:
            return None
        _put(view, self._markdown.finish().blocks)
        first = view.index_of((self.index, rows.TEXT_PIECE))
        return [] if first is None else [view.block_at(at) for at in range(first, view.count)]

    def _show_text(self, view: BlockView) -> None:
        if self._markdown is None:
            gap = 1 if self._thought_tokens else self._gap
            self._markdown = StreamingMarkdown(self.index, rows.TEXT_PIECE, indent=INDENT, gap=gap)
        delta, self._text = "".join(self._text), []
        self._drawn_text.append(delta)
        blocks = self._markdown.feed(delta).blocks
        self.shown = self.shown or bool(blocks)
        _put(view, blocks)


def _put(view: BlockView, blocks: Sequence[Block]) -> None:
    """Draw what has changed."""
    if blocks:
        view.replace_from(blocks[0].key, blocks)
