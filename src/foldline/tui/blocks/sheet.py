"""Many blocks one below the other: order, keys and heights. Knows nothing of screens."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter

from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.heights import Heights


class Sheaf:
    """Blocks with their index and estimated heights, made ready piece by piece: many are then shown at once
    without a pause."""

    def __init__(self, width: int) -> None:
        """`width` is what heights are estimated for, in cells."""
        self._width = width
        self.blocks: list[Block] = []
        self.index: dict[Key, int] = {}
        self.heights = Heights()

    def add(self, blocks: Iterable[Block]) -> None:
        """Put blocks below those that are there."""
        for block in blocks:
            self.index[block.key] = len(self.blocks)
            self.blocks.append(block)
            self.heights.append(block.gap + block.estimate(self._width))


class Sheet:
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

    def find(self, key: Key) -> int | None:
        """The index of the block with this key."""
        return self._known().get(key)

    def those_here(self, keys: Iterable[Key]) -> Iterator[Key]:
        """Of these keys those that have a block."""
        return filter(self._known().__contains__, keys)

    def _known(self) -> dict[Key, int]:
        if self._indexed < len(self._blocks):
            fresh = enumerate(self._blocks[self._indexed :], self._indexed)
            self._index.update((block.key, index) for index, block in fresh)
            self._indexed = len(self._blocks)
        return self._index

    def nearest(self, key: Key) -> int | None:
        """The block whose key is next to `key`, where that itself is gone. Looks at every block."""
        if not self._blocks:
            return None
        return min(range(len(self._blocks)), key=lambda index: _distance(self._blocks[index].key, key))

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

    def replace_all(self, blocks: Iterable[Block] | Sheaf) -> Sequence[Block]:
        """Other blocks altogether; those that were there are handed back."""
        before = self._blocks
        if isinstance(blocks, Sheaf):
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
        if start < self._indexed:
            self._unindex(old, start)
        if stop == len(self._blocks) - len(blocks) + len(old):
            self.heights.truncate(start)
            for block in blocks:
                self.heights.append(self._estimate(block))
            return
        self.heights.splice(start, stop, [self._estimate(block) for block in blocks])

    def _unindex(self, old: Iterable[Block], start: int) -> None:
        """Numbers from `start` on are no longer right; keys that went must not be found."""
        for block in old:
            self._index.pop(block.key, None)
        self._indexed = start

    def _estimate(self, block: Block) -> int:
        return block.gap + block.estimate(self.width)


def keys_from(blocks: Sequence[Block], at: int) -> Iterator[Key]:
    """The keys from a place on, and then those before it, from the nearest. There may be 100,000."""
    return map(attrgetter("key"), chain(blocks[at:], reversed(blocks[:at])))


def _distance(one: Key, other: Key) -> tuple[int, int]:
    return abs(one[0] - other[0]), abs(one[1] - other[1])
