"""Making very many objects at once without Python's collector looking at all of them over and over."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 20_000
"""Objects kept from which on looking at them again would be felt."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Within it, cycles are not collected: none are made, and looking for them took more than half the time.

    What is made by the hundred thousand is not looked at later either, which would stop the screen each time;
    it goes with the last reference to it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        made, _, _ = gc.get_count()
        if made > _MANY:
            gc.freeze()
        if was_enabled:
            gc.enable()
