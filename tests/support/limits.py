"""How many random examples and sizes the tests take.

`make test-exhaustive` and the benchmarks set FOLDLINE_TESTS=all to run everything.
Which tests `make test` leaves to `make test-all` is said by the markers `slow` and `quick_cases`.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
ALL = os.environ.get("FOLDLINE_TESTS") == "all"


def examples(most: int) -> int:
    """Return the number of random examples: a third of `most`, new ones in each run."""
    return most if ALL else max(most // 3, 5)


def moments(end: int) -> list[int]:
    """Return the steps of a run to test: the first, and every fifth from a random start."""
    return [*range(1, end)] if ALL else [1, *range(random.randint(2, 6), end, 5)]


def few(of: Sequence[T], *indices: int) -> list[T]:
    """Return the given items of a table, by default the first and the last."""
    return [*of] if ALL else [of[at] for at in indices or (0, -1)]
