"""Where every entry of a history is now, and what it takes to put that back as it was before a marker."""

from collections.abc import Iterator
from typing import Self

from .view import IN_VIEW, LIVE, Fate

Key = tuple[int, int]
_Short = int | Key
"""A key whose second number is 0 is the first alone: most need no tuple of their own."""
Before = tuple[tuple[Fate | None, tuple[_Short, ...]], ...]
"""Fates, each with all that had it; None: none was known."""


class Fates:
    """The fate of each entry, and of each text that a fold wrote."""

    def __init__(self) -> None:
        self._fates: dict[_Short, Fate] = {}
        self._stands: dict[Fate, Fate] = {}
        """What `standing` found, until a marker changes the fate of a summary."""
        self._recorded: dict[_Short, Fate | None] | None = None

    def get(self, index: int, nth: int = 0) -> Fate | None:
        """None where nothing is known of it."""
        return self._fates.get((index, nth) if nth else index)

    def put(self, key: Key, fate: Fate) -> None:
        short = _short(key)
        if self._recorded is not None:
            self._recorded.setdefault(short, self._fates.get(short))
            self._stands.clear()
        self._fates[short] = fate

    def record(self) -> None:
        """Note from now on what changes."""
        self._recorded = {}

    def recorded(self) -> Before:
        """What was changed since, as it was before; nothing is noted any longer."""
        had: dict[Fate | None, list[_Short]] = {}
        for short, fate in (self._recorded or {}).items():
            had.setdefault(fate, []).append(short)
        self._recorded = None
        return tuple((fate, tuple(shorts)) for fate, shorts in had.items())

    def put_back(self, before: Before) -> None:
        self._stands.clear()
        for fate, shorts in before:
            if fate is None:
                for short in shorts:
                    self._fates.pop(short, None)
            else:
                self._fates.update(dict.fromkeys(shorts, fate))

    def forget(self, index: int) -> None:
        """As if nothing had been known of this entry."""
        self._stands.clear()
        self._fates.pop(index, None)

    def standing(self, fate: Fate) -> Fate:
        """What became of all that has this fate: the fate of the summary that stands for it now."""
        passed: list[Fate] = []
        found = fate
        while found.kind == "summarised" and (by := found.by) is not None:
            known = self._stands.get(found)
            if known is not None:
                found = known
                break
            passed.append(found)
            carrier = self.get(by, found.nth) or LIVE
            if carrier.kind in IN_VIEW:
                break
            found = carrier
        for earlier in passed:
            self._stands[earlier] = found
        return found

    def __copy__(self) -> Self:
        other = type(self)()
        other._fates, other._stands = dict(self._fates), dict(self._stands)
        return other


def keys_in(before: Before) -> Iterator[tuple[Key, Fate | None]]:
    """Everything that had another fate, and that fate."""
    for fate, shorts in before:
        for short in shorts:
            yield ((short, 0) if isinstance(short, int) else short), fate


def _short(key: Key) -> _Short:
    return key if key[1] else key[0]
