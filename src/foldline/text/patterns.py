"""Regular expressions that are compiled when they are first used.

Compiling all of them when their modules are imported took a tenth of a start.
"""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as lazy_pattern
else:

    class lazy_pattern:
        """Has all methods of a compiled pattern."""

        def __init__(self, pattern: str, flags: int = 0) -> None:
            self.pattern = pattern
            self._flags = flags

        def __getattr__(self, name: str) -> Any:
            """Compile the pattern, and keep the requested method."""
            # `re.compile` caches its results, so that the next method does not compile it again.
            method = getattr(re.compile(self.pattern, self._flags), name)
            setattr(self, name, method)
            return method


__all__ = ["lazy_pattern"]
