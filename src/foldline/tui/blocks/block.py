"""Blocks, and many of them one below the other: order, keys and heights."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from operator import attrgetter, sub
from typing import Any, Final

from textual.strip import Strip

from foldline.tui.blocks.styles import Styles

Key = tuple[int, int]
"""(entry index, piece number): names a place; a row number never does."""

PROSE: Final = 110
"""Cells of prose at most: longer lines are hard to read. Output, code and tables take what there is."""
MIN_WIDTH: Final = 8
"""Narrower bodies are drawn at this width and cropped by the screen."""
_LINES: Final = 600
"""Lines that are kept: ten screens, and few enough that Python's garbage collector, which looks at all of
their 20 parts each again and again while text streams, does not hold up a frame."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One immutable piece of clean text; a changed block is a new object with the same key.

    Equality is identity, so that drawn strips can be cached by the block itself.
    """

    key: Key
    gap: int = field(default=0, kw_only=True)
    """Blank lines above the body; they belong to this block."""
    stop: bool = field(default=True, kw_only=True)
    """Whether the cursor stops here."""
    wide: bool = field(default=False, kw_only=True)
    """Drawn across the gutter, of which only the cursor's column stays."""

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        """The lines of the body, each at most `width` cells, without gap and gutter."""
        raise NotImplementedError

    def estimate(self, width: int) -> int:
        """About how many lines `render` gives; corrected when the block is first drawn."""
        raise NotImplementedError

    def text(self) -> str:
        """What search looks at and copying the whole block gives."""
        raise NotImplementedError


class LaterStrips(Sequence[Strip]):
    """Lines whose number is known, each made once it is looked at."""

    def __init__(self, count: int, make: Callable[[int], Strip]) -> None:
        self._made: list[Strip | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        strip = self._made[at]
        if strip is None:
            strip = self._made[at] = self._make(at)
        return strip


class Heights:
    """Non-negative heights under a Fenwick tree: line to block and block to line.

    `offset`, `locate`, `set` and `append` are O(log n); `splice` is linear, 5 ms for 100,000.
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
            tree, size = self._tree, len(self._tree)
            node = index + 1
            while node < size:
                tree[node] += change
                node += node & -node

    def append(self, height: int) -> None:
        self._values.append(height)
        node = len(self._values)
        # A node holds the sum of its last `lowbit` values: this one and the nodes that end just before it.
        total, child, end = height, node - 1, node - (node & -node)
        while child > end:
            total += self._tree[child]
            child -= child & -child
        self._tree.append(total)
        self.total += height

    def truncate(self, size: int) -> None:
        """Forget every block from index `size` on."""
        self.total = self.offset(size)
        del self._values[size:]
        del self._tree[size + 1 :]

    def splice(self, start: int, stop: int, heights: Iterable[int]) -> None:
        """Put other blocks in the place of those from `start` up to, not including, `stop`."""
        self._values[start:stop] = array("q", heights)
        self._build()

    def offset(self, index: int) -> int:
        """The line at which block `index` starts: the sum of all heights before it."""
        total, node, tree = 0, index, self._tree
        while node:
            total += tree[node]
            node &= node - 1
        return total

    def locate(self, line: int) -> tuple[int, int]:
        """The block that holds `line` and the line inside it; blocks of height 0 hold none.

        A line before the first or behind the last is taken as that one. Raises `IndexError` without any.
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
        while step < len(sums):  # nodes whose lowest bit is `step` hold the sum of so many values before them
            tree[step :: 2 * step] = array("q", map(sub, sums[step :: 2 * step], sums[:: 2 * step]))
            step *= 2
        self._tree, self.total = tree, sums[-1]


class StripCache:
    """Strips by block, the least used dropped first. Those of one width and theme: another clears it."""

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
    """Blocks with their index and estimated heights, prepared piece by piece, to be shown at once."""

    def __init__(self, width: int) -> None:
        """`width` is what heights are estimated for, in cells."""
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
    """Blocks in order, found by index or key. A height is an estimate until `measure` asks for it.

    `height_of` draws a block and says how many lines it takes, gap included.
    """

    def __init__(self, height_of: Callable[[Block], int]) -> None:
        self._height_of = height_of
        self._blocks: list[Block] = []
        self._index: dict[Key, int] = {}
        self._indexed = 0  # blocks before this one are in `_index` with their right number
        self._measured = array("q")  # the layout each height was measured at
        self._layout = 1
        self.heights = Heights()
        self.width = 80
        """Cells a body has: what estimates are made for."""

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: int) -> Block:
        return self._blocks[index]

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    @property
    def blocks(self) -> Sequence[Block]:
        """Those that are here now; `replace_all` leaves this list as it is."""
        return self._blocks

    def find(self, key: Key | None) -> int | None:
        """The index of the block with this key."""
        return None if key is None else self._all_indexed().get(key)

    def those_here(self, keys: Iterable[Key]) -> Iterator[Key]:
        """Of these keys those that have a block."""
        return filter(self._all_indexed().__contains__, keys)

    def _all_indexed(self) -> dict[Key, int]:
        if self._indexed < len(self._blocks):
            fresh = enumerate(self._blocks[self._indexed :], self._indexed)
            self._index.update((block.key, index) for index, block in fresh)
            self._indexed = len(self._blocks)
        return self._index

    def nearest(self, key: Key) -> int | None:
        """The block whose key is next to `key`, where that itself is gone. Looks at every block."""

        def distance(index: int) -> tuple[int, int]:
            entry, number = self._blocks[index].key
            return abs(entry - key[0]), abs(number - key[1])

        return min(range(len(self._blocks)), key=distance, default=None)

    def measure(self, index: int) -> int:
        """The height of a block at the present width, drawing it if that is not known."""
        if self._measured[index] != self._layout:
            self.heights.set(index, self._height_of(self._blocks[index]))
            self._measured[index] = self._layout
        return self.heights[index]

    def relayout(self, width: int) -> None:
        """Another width or look: every height becomes an estimate (its old value) again."""
        self.width = width
        self._layout += 1

    def replace_all(self, blocks: Iterable[Block] | BlockBatch) -> Sequence[Block]:
        """Show other blocks altogether; those that were there are handed back."""
        before = self._blocks
        if isinstance(blocks, BlockBatch):
            self._blocks, self._index, self.heights = blocks.blocks, blocks.index, blocks.heights
            self._indexed = len(self._blocks)
        else:
            self._blocks, self._index, self._indexed = list(blocks), {}, 0
            self.heights = Heights(self._estimate(block) for block in self._blocks)
        self._measured = array("q", bytes(8 * len(self._blocks)))
        return before

    def splice(self, start: int, stop: int, blocks: Sequence[Block]) -> None:
        """Put `blocks` in the place of those from `start` up to, not including, `stop`."""
        old = self._blocks[start:stop]
        self._blocks[start:stop] = blocks
        self._measured[start:stop] = array("q", bytes(8 * len(blocks)))
        if [block.key for block in old] == [block.key for block in blocks]:
            for index, block in enumerate(blocks, start):
                self.heights.set(index, self._estimate(block))
            return
        if start < self._indexed:  # numbers from `start` on are no longer right; keys that went are not found
            for block in old:
                self._index.pop(block.key, None)
            self._indexed = start
        if stop == len(self._blocks) - len(blocks) + len(old):
            self.heights.truncate(start)
            for block in blocks:
                self.heights.append(self._estimate(block))
            return
        self.heights.splice(start, stop, [self._estimate(block) for block in blocks])

    def _estimate(self, block: Block) -> int:
        return block.gap + block.estimate(self.width)


def keys_from(blocks: Sequence[Block], at: int) -> Iterator[Key]:
    """The keys from a place on, and then those before it, from the nearest. There may be 100,000."""
    return map(attrgetter("key"), chain(blocks[at:], reversed(blocks[:at])))
