"""The drawn lines of blocks that were on screen lately."""

from typing import Final

from textual.strip import Strip

from foldline.tui.blocks.block import Block

_LINES: Final = 600
"""Lines that are kept: ten screens, and few enough that Python's garbage collector, which looks at all of
their 20 parts each again and again while text streams, does not hold up a frame."""


class StripCache:
    """Strips by block; of the oldest only as many lines as there is room for. Those of one width and theme:
    whoever changes these clears it."""

    def __init__(self) -> None:
        self._strips: dict[Block, list[Strip]] = {}
        self._lines = 0

    def get(self, block: Block) -> list[Strip] | None:
        """The strips of a block, which was of use now; None where they are not kept."""
        strips = self._strips.pop(block, None)
        if strips is not None:
            self._strips[block] = strips
        return strips

    def put(self, block: Block, strips: list[Strip]) -> None:
        """Keep these. The oldest go where there are too many lines."""
        self._strips[block] = strips
        self._lines += len(strips)
        while self._lines > _LINES and len(self._strips) > 1:
            self._lines -= len(self._strips.pop(next(iter(self._strips))))

    def clear(self) -> None:
        self._strips.clear()
        self._lines = 0
