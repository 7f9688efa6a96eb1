"""Where in a text credentials stand.

A detector looks only at lines that hold one of its literals, so that a session of 62 MB takes seconds.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

from .detector_table import Detector, by_hints


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


_LONGEST_LINE: Final = 4_000
"""Of longer lines (minified, or one JSON document) only the surroundings of a hint are looked at."""
_BEFORE, _AFTER = 400, 3_000
_ESCAPED: Final = re.compile(r"\\+([\"'nrt/])")
_SIGN_OF: Final = {"n": "\n", "r": "\r", "t": "\t"}
_REST: Final = re.compile(r"[\w-]*")
_REST_OF_JWT: Final = re.compile(r"[\w-]*(?:\.[\w-]+)*")
_NAME: Final = re.compile(r"[A-Za-z]+=(?=\S{20})")
_LEFT_EDGES: Final = " \t=:\"'`,;"
_RIGHT_EDGES: Final = " \t:\"'`,;"


def finds(text: str) -> list[Find]:
    """All credentials in a text, in order; none overlaps another."""
    flat = _Flat.of(text)
    lowered = flat.text.lower()
    if len(lowered) != len(flat.text):  # a few letters change their length: then only ASCII is lowered
        lowered = "".join(char.lower() if char.isascii() else char for char in flat.text)
    found = list(private_keys(flat.text, lowered))
    for hints, detectors in by_hints().items():
        if not any(hint in lowered for hint in hints):
            continue
        for start, end in _lines_with(hints, lowered):
            line = flat.text[start:end]
            crowd = sum(lowered.count(hint, start, end) for hint in hints)
            for detector in detectors:
                if crowd <= detector.most and (detector.gate is None or detector.gate.search(line)):
                    found += _in_line(detector, line, start)
    return [flat.located(find) for find in _apart(found)]


@dataclass(frozen=True, slots=True)
class _Flat:
    """A text in which escaped quotes and line ends are real ones: JSON within text, at any depth."""

    original: str
    text: str
    starts: list[int]
    """Positions in `text` from which on the original is `shifts` characters ahead."""
    shifts: list[int]

    @classmethod
    def of(cls, text: str) -> "_Flat":
        if "\\" not in text:
            return cls(text, text, [], [])
        pieces: list[str] = []
        starts: list[int] = []
        shifts: list[int] = []
        done = shift = 0
        for escape in _ESCAPED.finditer(text):
            pieces += (text[done : escape.start()], _SIGN_OF.get(escape[1], escape[1]))
            starts.append(escape.start() - shift + 1)
            shift += len(escape[0]) - 1
            shifts.append(shift)
            done = escape.end()
        return cls(text, "".join((*pieces, text[done:])), starts, shifts)

    def located(self, find: Find) -> Find:
        """What was found in `text`, as it stands in the original."""
        start, end = self._place(find.start), self._place(find.end - 1) + 1
        value = find.value if find.pieces else self.original[start:end]
        return find._replace(start=start, end=end, value=value)

    def _place(self, position: int) -> int:
        after = bisect_right(self.starts, position)
        return position + (self.shifts[after - 1] if after else 0)


def _lines_with(hints: tuple[str, ...], lowered: str) -> Iterator[tuple[int, int]]:
    """Start and end of each line that holds a hint; pieces of it where it is long."""
    places = sorted({place for hint in hints for place in _places(hint, lowered)})
    done = 0
    for place in places:
        if place < done:
            continue
        start = lowered.rfind("\n", 0, place) + 1
        end = lowered.find("\n", place)
        end = len(lowered) if end < 0 else end
        if end - start > _LONGEST_LINE:
            start, end = max(start, place - _BEFORE), min(end, place + _AFTER)
            done = end - _BEFORE if end < len(lowered) and lowered[end] != "\n" else end
        else:
            done = end
        yield start, end


def _places(hint: str, lowered: str) -> Iterator[int]:
    place = lowered.find(hint)
    while place >= 0:
        yield place
        place = lowered.find(hint, place + len(hint))


def _in_line(detector: Detector, line: str, offset: int) -> Iterator[Find]:
    for match in detector.pattern.finditer(line):
        group = detector.group if match[detector.group] is not None else 0
        start, end = match.span(group)
        if group == 0:
            if start and line[start - 1].isalnum() and line[start].isalnum():
                continue  # the middle of something longer, such as a file in base64
            rest = _REST_OF_JWT if detector.kind == "json-web-token" else _REST
            end = rest.match(line, end).end()  # type: ignore[union-attr]  # both match nothing, too
        if (name := _NAME.match(line, start, end)) is not None:
            start = name.end()
        while start < end and line[start] in _LEFT_EDGES:
            start += 1
        while end > start and line[end - 1] in _RIGHT_EDGES:
            end -= 1
        value = line[start:end]
        if value and (detector.accepts is None or detector.accepts(value, line)):
            yield Find(detector.kind, offset + start, offset + end, value)


def _apart(found: list[Find]) -> list[Find]:
    """The finds in order; of two that overlap, the longer one."""
    kept: list[Find] = []
    for find in sorted(found, key=lambda find: (find.start, -find.end)):
        if not kept or find.start >= kept[-1].end:
            kept.append(find)
        elif find.end - find.start > kept[-1].end - kept[-1].start:
            kept[-1] = find
    return kept
