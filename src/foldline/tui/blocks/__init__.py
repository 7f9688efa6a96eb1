"""The one component behind the transcript and every panel: a view over blocks, drawn by lines.

A place is a `Key` (entry index, piece), never a row. Blocks are immutable plain data; text given to them
goes through `clean` first. `BlockView` shows them, `markdown_blocks` and `StreamingMarkdown` cut answers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from foldline.context.harmless import clean, clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.canvas import Gutter
from foldline.tui.blocks.cells import Span, Spans, cut_left, cut_right
from foldline.tui.blocks.styles import ROLES, Styles, styles_from
from foldline.tui.blocks.view import BlockView

if TYPE_CHECKING:
    from foldline.tui.blocks.diffs import lines_of_diff
    from foldline.tui.blocks.markdown import MarkdownBlock, markdown_blocks
    from foldline.tui.blocks.plain import (
        Column,
        DiffBlock,
        DiffLine,
        RowBlock,
        RuleBlock,
        TextBlock,
        diff_lines,
    )
    from foldline.tui.blocks.streaming import Feed, LaterBlock, LinesBlock, StackBlock, StreamingMarkdown

__all__ = [
    "ROLES",
    "Block",
    "BlockView",
    "Column",
    "DiffBlock",
    "DiffLine",
    "Feed",
    "Gutter",
    "Key",
    "LaterBlock",
    "LinesBlock",
    "MarkdownBlock",
    "RowBlock",
    "RuleBlock",
    "Span",
    "Spans",
    "StackBlock",
    "StreamingMarkdown",
    "Styles",
    "TextBlock",
    "clean",
    "clean_line",
    "cut_left",
    "cut_right",
    "diff_lines",
    "lines_of_diff",
    "markdown_blocks",
    "styles_from",
]

_KINDS: Final = {
    **dict.fromkeys(("Column", "DiffBlock", "DiffLine", "RowBlock", "RuleBlock", "TextBlock"), "plain"),
    "diff_lines": "plain",
    "lines_of_diff": "diffs",
    **dict.fromkeys(("MarkdownBlock", "markdown_blocks"), "markdown"),
    **dict.fromkeys(("Feed", "LaterBlock", "LinesBlock", "StackBlock", "StreamingMarkdown"), "streaming"),
}
"""The kinds of blocks, and what makes them, by the module that has them."""


def __getattr__(name: str) -> object:
    """The kinds come with the first of them: a first screen is painted without any."""
    if name not in _KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_KINDS[name]}"), name)
