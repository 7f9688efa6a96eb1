"""Blocks, and lists of blocks with their order, keys and heights."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import sub
from typing import Any, Final

from textual.strip import Strip

from foldline.tui.look.styles import Styles

Key = tuple[int, int]
"""(entry index, piece number): identifies a block independently of its line number."""

PROSE: Final = 110
"""Maximum width of a line of prose, in cells. Output, code and tables use the full width."""
MIN_WIDTH: Final = 8
"""Minimum width of drawn lines, in cells. On a narrower screen, the lines are cropped."""
_LINES: Final = 600
"""Maximum number of lines in a `StripCache`, about ten screens.

A line consists of about 20 objects. With many more lines, garbage collection would delay frames while a
response is being streamed. When the cache is full, the least recently used blocks are dropped.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """An immutable piece of sanitised text.

    A changed block is a new object with the same key.

    Blocks are equal only if they are identical, so they can be keys of the strip cache.
    """

    key: Key
    gap: int = field(default=0, kw_only=True)
    """Number of blank lines above the body. They count toward the block's height."""
    stop: bool = field(default=True, kw_only=True)
    """Whether the cursor can be placed on this block."""
    wide: bool = field(default=False, kw_only=True)
    """Whether the block also covers the gutter, except for the cursor's column."""

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        """Return the lines of the body, each at most `width` cells wide.

        Gap and gutter are not included.
        """
        raise NotImplementedError

    def estimate(self, width: int) -> int:
        """Estimate the number of lines that `render` returns."""
        raise NotImplementedError

    def text(self) -> str:
        """Return the text used for searching and copying the block."""
        raise NotImplementedError


class LaterStrips(Sequence[Strip]):
    """A sequence of lines, each of which is drawn on first access."""

    def __init__(self, count: int, make: Callable[[int], Strip]) -> None:
        self._strips: list[Strip | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._strips)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        strip = self._strips[at]
        if strip is None:
            strip = self._strips[at] = self._make(at)
        return strip


class Heights:
    """The heights of blocks, in a Fenwick tree that maps line numbers to blocks and back.

    `offset`, `locate`, `set` and `append` are O(log n). `splice` is O(n) and takes 5 ms for 100,000 blocks.
    """

    __slots__ = ("_tree", "_values", "total")

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._values = array("q", values)
        self._build()

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> int:
        return self._values[index]

    def set(self, index: int, height: int) -> None:
        change = height - self._values[index]
        if change:
            self._values[index] = height
            self.total += change
            tree = self._tree
            size = len(tree)
            node = index + 1
            while node < size:
                tree[node] += change
                node += node & -node

    def append(self, height: int) -> None:
        self._values.append(height)
        node = len(self._values)
        # A node holds the sum of `lowbit` values: its own value and those of the nodes before it.
        total = height
        child = node - 1
        end = node - (node & -node)
        while child > end:
            total += self._tree[child]
            child -= child & -child
        self._tree.append(total)
        self.total += height

    def truncate(self, size: int) -> None:
        """Remove the heights at index `size` and above."""
        self.total = self.offset(size)
        del self._values[size:]
        del self._tree[size + 1 :]

    def splice(self, start: int, stop: int, heights: Iterable[int]) -> None:
        """Replace the heights from index `start` up to, but not including, `stop`."""
        self._values[start:stop] = array("q", heights)
        self._build()

    def offset(self, index: int) -> int:
        """Return the line number at which block `index` starts."""
        total = 0
        node = index
        while node:
            total += self._tree[node]
            node &= node - 1
        return total

    def locate(self, line: int) -> tuple[int, int]:
        """Return the index of the block at `line`, and the number of the line within this block.

        `line` is clamped to the existing lines. Blocks of height 0 are skipped.

        Raises:
            IndexError: There are no lines.
        """
        if not self.total:
            raise IndexError("no lines")
        line = min(max(line, 0), self.total - 1)
        tree, size = self._tree, len(self._values)
        index, step = 0, 1 << size.bit_length() >> 1
        while step:
            if index + step <= size and tree[index + step] <= line:
                index += step
                line -= tree[index]
            step >>= 1
        return index, line

    def _build(self) -> None:
        sums = array("q", accumulate(self._values, initial=0))
        tree = array("q", bytes(8 * len(sums)))
        step = 1
        while step < len(
            sums
        ):  # a node with the lowest bit `step` holds the sum of the last `step` values
            tree[step :: 2 * step] = array(
                "q", map(sub, sums[step :: 2 * step], sums[:: 2 * step])
            )
            step *= 2
        self._tree = tree
        self.total = sums[-1]


class StripCache:
    """An LRU cache of drawn blocks.

    Clear it when the width or theme changes.
    """

    def __init__(self) -> None:
        self._strips: dict[Block, Sequence[Strip]] = {}
        self._lines = 0

    def get(self, block: Block) -> Sequence[Strip] | None:
        strips = self._strips.pop(block, None)
        if strips is not None:
            self._strips[block] = strips
        return strips

    def put(self, block: Block, strips: Sequence[Strip]) -> None:
        self._strips[block] = strips
        self._lines += len(strips)
        while self._lines > _LINES and len(self._strips) > 1:
            self._lines -= len(self._strips.pop(next(iter(self._strips))))

    def clear(self) -> None:
        self._strips.clear()
        self._lines = 0


class BlockBatch:
    """Blocks that are collected step by step and then shown all at once.

    The index and the estimated heights are updated as blocks are added.
    """

    def __init__(self, width: int) -> None:
        """Create an empty batch. Heights are estimated for a body of `width` cells."""
        self._width = width
        self.blocks: list[Block] = []
        self.index: dict[Key, int] = {}
        self.heights = Heights()

    def add(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self.index[block.key] = len(self.blocks)
            self.blocks.append(block)
            self.heights.append(block.gap + block.estimate(self._width))


class BlockList:
    """Blocks in order, with lookup by index or key.

    A block's height is an estimate until `measure` is called for the block. `height_of` draws a block and
    returns the number of its lines, including the gap.
    """

    def __init__(self, height_of: Callable[[Block], int]) -> None:
        self._height_of = height_of
        self._blocks: list[Block] = []
        self._index: dict[Key, int] = {}
        self._indexed = 0  # `_index` is valid for the blocks before this one
        self._measured = array(
            "q"
        )  # the value of `_layout` when each height was measured
        self._layout = 1
        self.heights = Heights()
        self.width = 80
        """Width of a block's body, in cells, used for estimating the heights of blocks."""

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: int) -> Block:
        return self._blocks[index]

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def find(self, key: Key | None) -> int | None:
        """Return the index of the block with this key.

        Returns None if there is no such block.
        """
        return None if key is None else self._all_indexed().get(key)

    def _all_indexed(self) -> dict[Key, int]:
        if self._indexed < len(self._blocks):
            fresh = enumerate(self._blocks[self._indexed :], self._indexed)
            self._index.update((block.key, index) for index, block in fresh)
            self._indexed = len(self._blocks)
        return self._index

    def nearest(self, key: Key, *, stops: bool = False) -> int | None:
        """Return the index of the block with this key, or of a block of the closest entry.

        Of two entries at the same distance, the later one counts. With `stops`, only blocks on which the
        cursor can be placed count. Returns None if there are no such blocks.
        """
        index = self.find(key)
        if index is not None and (self._blocks[index].stop or not stops):
            return index
        distances = (
            (abs(block.key[0] - key[0]), block.key < key, at)
            for at, block in enumerate(self._blocks)
            if block.stop or not stops
        )
        return min(distances, default=(0, False, None))[2]

    def measure(self, index: int) -> int:
        """Return the exact height of a block, drawing the block if necessary."""
        if self._measured[index] != self._layout:
            self.heights.set(index, self._height_of(self._blocks[index]))
            self._measured[index] = self._layout
        return self.heights[index]

    def relayout(self, width: int) -> None:
        """Treat all heights as estimates again, after the width or style has changed."""
        self.width = width
        self._layout += 1

    def replace_all(self, blocks: Iterable[Block] | BlockBatch) -> None:
        """Replace all blocks."""
        if isinstance(blocks, BlockBatch):
            self._blocks = blocks.blocks
            self._index = blocks.index
            self.heights = blocks.heights
            self._indexed = len(self._blocks)
        else:
            self._blocks = list(blocks)
            self._index = {}
            self._indexed = 0
            self.heights = Heights(map(self._estimate, self._blocks))
        self._measured = array("q", bytes(8 * len(self._blocks)))

    def splice(self, start: int, stop: int, blocks: Sequence[Block]) -> None:
        """Replace the blocks from index `start` up to, but not including, `stop`."""
        old = self._blocks[start:stop]
        self._blocks[start:stop] = blocks
        self._measured[start:stop] = array("q", bytes(8 * len(blocks)))
        if [block.key for block in old] == [block.key for block in blocks]:
            for index, block in enumerate(blocks, start):
                self.heights.set(index, self._estimate(block))
            return
        if start < self._indexed:
            for block in old:
                self._index.pop(block.key, None)
            self._indexed = start
        if stop == len(self._blocks) - len(blocks) + len(old):
            self.heights.truncate(start)
            for block in blocks:
                self.heights.append(self._estimate(block))
            return
        self.heights.splice(start, stop, map(self._estimate, blocks))

    def _estimate(self, block: Block) -> int:
        return block.gap + block.estimate(self.width)
