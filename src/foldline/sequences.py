"""What several modules do with sequences: compare their starts, group their values."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, both in the order in which they first come."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def overlap(before: Sequence[object], after: Sequence[object]) -> int:
    """Return how many items at the end of one sequence begin the other."""
    sizes = range(min(len(before), len(after)), 0, -1)
    return next((size for size in sizes if before[-size:] == after[:size]), 0)


def same_start(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items at their start two sequences share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (first, second) in pairs if first != second), min(len(one), len(other)))
