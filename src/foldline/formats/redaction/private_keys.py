"""Private keys in a text: PEM and PuTTY blocks, whole, cut off, numbered or in a diff."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple


class Find(NamedTuple):
    """A credential in a text."""

    kind: str
    """`aws-access-key`, `private-key` …"""
    start: int
    end: int
    value: str
    """What must not be seen, wherever it stands."""
    pieces: tuple[str, ...] = ()
    """Of a value over several lines: what of it would still be one."""


_BEGIN: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY(?: BLOCK)?-----|Private-Lines: *\d+")
_LONGEST_KEY: Final = 20_000
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_KEY_LINE: Final = re.compile(
    r"(?:[^\n]{0,24}?[A-Za-z0-9+/=]{1,128}|[A-Za-z-]+: [^\n]{1,80})?[ \t]*\r?(?:\n|$)"
)


def private_keys(flat: str, lowered: str) -> Iterator[Find]:
    """All blocks, in order. `lowered` is `flat` in lower case. A mention without a key is none."""
    if "private key" not in lowered and "private-lines" not in lowered:
        return
    begins = list(_BEGIN.finditer(flat))
    for begin, following in zip_longest(begins, begins[1:]):
        limit = min(following.start() if following else len(flat), begin.end() + _LONGEST_KEY)
        ending = f"-----END {begin[1] or ''}PRIVATE KEY"
        end = flat.find(ending, begin.end(), limit) if begin[1] is not None else -1
        if end >= 0:
            dashes = flat.find("-----", end + len(ending), end + len(ending) + 20)
            stop = dashes + 5 if dashes >= 0 else end + len(ending)
        else:
            stop = end = _last_key_line(flat, begin.end(), limit)
        pieces = tuple(_BASE64.findall(flat, begin.end(), end))
        if any(len(piece) >= 32 for piece in pieces):
            yield Find("private-key", begin.start(), stop, "".join(pieces), pieces)


def _last_key_line(flat: str, start: int, limit: int) -> int:
    """Where a key ends that somebody cut off: after the last line that could be part of one."""
    place = flat.find("\n", start, limit) + 1 or limit
    end = place
    while place < limit and (line := _KEY_LINE.match(flat, place)) and place < line.end() <= limit:
        place = line.end()
        if _BASE64.search(line[0]):
            end = place
    return end - (flat[end - 1 : end] == "\n")
