"""What `make test` is content with. `make test-all` and the benches set FOLDLINE_TESTS=all: all there is."""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
ALL = os.environ.get("FOLDLINE_TESTS") == "all"


def examples(most: int) -> int:
    """How many random examples there are of so many: a third. They are others in each run."""
    return most if ALL else max(most // 3, 5)


def moments(end: int) -> list[int]:
    """The moments of a run at which something is tried: the first, then each fifth, others in each run."""
    return [*range(1, end)] if ALL else [1, *range(random.randint(2, 6), end, 5)]


def few(of: Sequence[T], *indices: int) -> list[T]:
    """Those of a table that differ most: its first and its last one, where it does not say which."""
    return [*of] if ALL else [of[at] for at in indices or (0, -1)]
