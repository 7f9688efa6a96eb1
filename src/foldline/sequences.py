"""Functions that compare sequences and group their values."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Group values by key.

    Keys and values keep the order of their first appearance.
    """
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def merged_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge spans that touch or overlap.

    The result is sorted by start.
    """
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            previous_start, previous_end = merged[-1]
            merged[-1] = (previous_start, max(end, previous_end))
        else:
            merged.append((start, end))
    return merged


def overlap(before: Sequence[object], after: Sequence[object]) -> int:
    """Return the number of items at the end of `before` with which `after` begins."""
    for size in range(min(len(before), len(after)), 0, -1):
        if before[-size:] == after[:size]:
            return size
    return 0


def same_start(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of equal items with which two sequences begin."""
    for position, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return position
    return min(len(one), len(other))
