"""Blank lines between the blocks of the chat. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from foldline.tui.blocks import Block, RuleBlock

from .rows import is_call


def gap_below(above: Block | None, block: Block | None) -> int:
    """Blank lines before a block: none at the very top, below a rule, and between one call and the next."""
    if above is None or isinstance(above, RuleBlock):
        return 0
    return 0 if block is not None and is_call(block) and is_call(above) else 1


def spaced(blocks: Sequence[Block], above: Block | None) -> list[Block]:
    """An entry's blocks below what is above them, as far from it as they stand there."""
    if blocks and blocks[0].gap > gap_below(above, blocks[0]):
        return [replace(blocks[0], gap=0), *blocks[1:]]
    return list(blocks)
