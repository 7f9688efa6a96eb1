"""A BlockView in a minimal app, with blocks whose height depends on the width."""

from dataclasses import dataclass

from textual.app import App, ComposeResult
from textual.strip import Strip

from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.plain import TextBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.look.styles import Styles


@dataclass(frozen=True, slots=True, eq=False)
class Tall(Block):
    """A block of numbered words with an estimate of one line, wrong on purpose."""

    words: int = 1

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return TextBlock(self.key, self.text()).render(width, styles)

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return " ".join(
            f"e{self.key[0]}.{self.key[1]}w{number}" for number in range(self.words)
        )


def tall(index: int, words: int = 1, piece: int = 0, gap: int = 0) -> Tall:
    return Tall((index, piece), words, gap=gap)


class ViewApp(App[None]):
    """One view that fills the screen."""

    CSS = "BlockView { height: 1fr; }"

    def __init__(self, view: BlockView) -> None:
        super().__init__()
        self.view = view
        self.moved: list[Key] = []
        self.opened: list[Key] = []
        self.below: list[int] = []

    def compose(self) -> ComposeResult:
        yield self.view

    def on_block_view_cursor_moved(self, message: BlockView.CursorMoved) -> None:
        self.moved.append(message.key)

    def on_block_view_block_opened(self, message: BlockView.BlockOpened) -> None:
        self.opened.append(message.key)

    def on_block_view_below_changed(self, message: BlockView.BelowChanged) -> None:
        self.below.append(message.view.new_below)


def rows(view: BlockView) -> list[str]:
    """Return the visible rows of the view."""
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]
