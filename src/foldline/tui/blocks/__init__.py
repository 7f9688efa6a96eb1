"""The list of blocks behind the transcript and every panel, drawn line by line, only what is in sight.

A place is a `Key` (entry index, piece), never a row. Blocks are immutable plain data; text given to them
goes through `clean` first. The kinds of blocks are imported with the first of them, after the first paint.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from foldline.context.harmless import clean, clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Span, Spans, cut_left, cut_right
from foldline.tui.blocks.styles import ROLES, Styles, styles_from
from foldline.tui.blocks.view import BlockView, Gutter

if TYPE_CHECKING:
    from foldline.tui.blocks.diff import DiffBlock, DiffLine, lines_of_diff, path_in
    from foldline.tui.blocks.markdown import MarkdownBlock, StreamingMarkdown, markdown_blocks
    from foldline.tui.blocks.plain import (
        Column,
        LaterBlock,
        LinesBlock,
        RowBlock,
        RuleBlock,
        StackBlock,
        TextBlock,
    )

__all__ = [
    "ROLES",
    "Block",
    "BlockView",
    "Column",
    "DiffBlock",
    "DiffLine",
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
    "lines_of_diff",
    "markdown_blocks",
    "path_in",
    "styles_from",
]

_MODULES: Final = {
    "diff": ("DiffBlock", "DiffLine", "lines_of_diff", "path_in"),
    "markdown": ("MarkdownBlock", "StreamingMarkdown", "markdown_blocks"),
    "plain": ("Column", "LaterBlock", "LinesBlock", "RowBlock", "RuleBlock", "StackBlock", "TextBlock"),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
