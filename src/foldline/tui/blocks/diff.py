"""Parses and draws unified diffs, including those of agents that number the lines.

The layout is computed at once. Lines are highlighted only when they become visible, so that thousands of
lines do not delay a frame.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, groupby, islice, pairwise, zip_longest
from pathlib import PurePath
from typing import Final, Literal, NamedTuple

from textual.strip import Strip

from foldline.text.harmless import BLANKS, FLOOD, clean_code, nothing_hidden
from foldline.tui.blocks.block import MIN_WIDTH, Block, LaterStrips
from foldline.tui.blocks.code import highlighted
from foldline.tui.look.cells import Span, chop, slice_spans, to_strip, width_of
from foldline.tui.look.styles import Styles

BESIDE: Final = 136
"""Minimum width, in cells, at which a diff is shown side by side.

A terminal with 140 columns has this width inside the frame.
"""
SHORT: Final = 12
"""A diff of at most this many lines is initially expanded."""
_CHUNK: Final = 20
"""Number of lines highlighted together, which takes about 4 ms.

The same number of lines before them is parsed as context.
"""
_BETWEEN: Final = " │ "
_WORD: Final = re.compile(r"\w+|\s+|.")
_MOST_WORDS: Final = 200
"""Maximum total number of words in two lines that are compared word by word. The comparison takes about 1 ms.
"""

DiffKind = Literal["old", "new", "same", "skip"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff."""

    kind: DiffKind
    number: int
    """Line number in the old file if the kind is `old`, otherwise in the new file; 0 if unknown."""
    content: str
    before: int = 0
    """Line number in the old file if the kind is `same`."""
    is_remark: bool = False
    """Whether `content` is a note about lines, such as `120 blank lines`."""


SIGNS: Final = {
    "old": ("−", "alert"),
    "new": ("+", "live"),
    "same": (" ", "muted"),
    "skip": ("⋮", "muted"),
}

_SPELLED: Final = {
    "yml": "yaml", "h": "c", "hpp": "cpp", "cc": "cpp", "mjs": "js", "cjs": "js", "jsx": "js", "mts": "ts",
    "tsx": "ts", "kt": "kotlin", "htm": "html", "svg": "xml", "markdown": "md", "jsonl": "json",
}  # fmt: skip
"""Lexer names for those file extensions that are not lexer names themselves."""


def language_of(path: str) -> str:
    """Return the language of a file, based on its extension or name (`Dockerfile`)."""
    name = PurePath(path)
    ending = (name.suffix[1:] or name.name).lower()
    return _SPELLED.get(ending, ending)


class _LinePart(NamedTuple):
    """The part of a line that fits on one row.

    The first part of a line is drawn with the line's number and sign.
    """

    line: int
    start: int
    stop: int


_Row = tuple[_LinePart | None, ...]
"""The content of a row: one part, or an old and a new part side by side."""


class DiffRows:
    """The rows of a diff at a given width.

    Old and new lines are shown side by side if `width` is at least `beside` cells.
    """

    def __init__(
        self,
        lines: Sequence[DiffLine],
        width: int,
        language: str = "",
        beside: int = BESIDE,
    ) -> None:
        self._lines = lines
        self._language = language
        self._digits = max(
            (len(str(line.number)) for line in lines if line.number), default=0
        )
        self._pairs = list(_side_by_side(lines))
        self._partners: dict[int, tuple[int, int]] = {}
        for old, new in self._pairs:
            if old is not None and new is not None and old != new:
                self._partners[old] = self._partners[new] = (old, new)
        self.is_beside = width >= beside and {"old", "new"} <= {
            line.kind for line in lines
        }
        """Whether old and new lines are shown side by side."""
        self._half = (width - len(_BETWEEN)) // 2
        self._room = max(
            (self._half if self.is_beside else width) - self._digits - 3, MIN_WIDTH
        )
        below = ((part,) for at in range(len(lines)) for part in self._parts(at))
        self._rows: list[_Row] = list(self._beside() if self.is_beside else below)
        self._colored: dict[int, list[Span]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> list[Span]:
        row = self._rows[at]
        if len(row) == 1:
            return self._drawn(row[0], old=False)
        old = self._drawn(row[0], old=True)
        blanks = (" " * max(self._half - width_of(old), 0), "deco")
        return [*old, blanks, (_BETWEEN, "muted deco"), *self._drawn(row[1], old=False)]

    def text(self, at: int) -> str:
        """Return the text of a row without highlighting. The start of each line is marked `·`."""
        parts = [part for part in self._rows[at] if part is not None]
        lines = self._lines
        return "".join(
            f"{'' if p.start else '·'}{lines[p.line].content[p.start : p.stop]}"
            for p in parts
        )

    # --- layout -----------------------------------------------------------------------------------------

    def _beside(self) -> Iterator[_Row]:
        for old, new in self._pairs:
            if old is not None and self._lines[old].kind == "skip":
                yield from ((part,) for part in self._parts(old))
            else:
                yield from zip_longest(self._parts(old), self._parts(new))

    def _parts(self, at: int | None) -> list[_LinePart]:
        if at is None:
            return []
        content = self._lines[at].content
        if len(content) <= self._room and content.isascii():
            return [_LinePart(at, 0, len(content))]
        return [_LinePart(at, *piece) for piece in chop(content, self._room)]

    def _drawn(self, part: _LinePart | None, *, old: bool) -> list[Span]:
        """Draw a part, preceded by its sign and its line number in the old or new file."""
        if part is None:
            return []
        line = self._lines[part.line]
        sign, role = SIGNS[line.kind]
        number = str(
            (line.before if old and line.kind == "same" else line.number) or ""
        )
        if part.start:
            sign, role = "↳", "muted"
            number = ""
        head = [
            (f"{number:>{self._digits}} ", f"{role} deco"),
            (f"{sign} ", f"{role} deco"),
        ]
        return [*head, *slice_spans(self._spans(part.line), part.start, part.stop)]

    # --- highlighting -----------------------------------------------------------------------------------

    def _spans(self, at: int) -> list[Span]:
        """Return a line as styled text."""
        if at not in self._colored:
            self._color(at - at % _CHUNK)
        return self._colored[at]

    def _color(self, start: int) -> None:
        """Highlight a chunk of lines.

        The lines of the old file and of the new file are highlighted separately.
        """
        lines = self._lines
        chunk = range(max(start - _CHUNK, 0), min(start + _CHUNK, len(lines)))
        for other in ("new", "old"):
            code = [
                at
                for at in chunk
                if lines[at].kind not in ("skip", other) and not lines[at].is_remark
            ]
            if code and code[-1] >= start:
                spans = highlighted([lines[at].content for at in code], self._language)
                shown = (
                    pair for pair in zip(code, spans, strict=True) if pair[0] >= start
                )
                self._colored |= {at: self._marked(at, line) for at, line in shown}
        for at in range(start, chunk.stop):
            self._colored.setdefault(at, [(lines[at].content, "muted")])

    def _marked(self, at: int, spans: list[Span]) -> list[Span]:
        """Underline the words that differ from the other side.

        If the language is unknown, the entire line has the colour of its kind.
        """
        line = self._lines[at]
        _, role = SIGNS[line.kind]
        if not self._language:
            spans = [(line.content, role)]
        elif line.kind == "same":
            spans = [(text, f"{style} dim") for text, style in spans]
        if at not in self._partners:
            return spans
        old, new = self._partners[at]
        changed = changed_words(self._lines[old].content, self._lines[new].content)[
            at == new
        ]
        for start, stop in changed:
            after = slice_spans(spans, stop, len(line.content))
            word = (line.content[start:stop], f"{role} underline")
            spans = [*slice_spans(spans, 0, start), word, *after]
        return spans


def _side_by_side(lines: Sequence[DiffLine]) -> Iterator[tuple[int | None, int | None]]:
    """Yield the indexes of the old and new lines that are shown side by side."""
    at = 0
    while at < len(lines):
        if lines[at].kind in ("same", "skip"):
            yield at, at
            at += 1
            continue
        new = _end(lines, at, "old")
        end = _end(lines, new, "new")
        yield from _change_pairs(lines, range(at, new), range(new, end))
        at = end


def _change_pairs(
    lines: Sequence[DiffLine], old: range, new: range
) -> Iterator[tuple[int | None, int | None]]:
    """Pair the old and new lines of one change.

    The lines are aligned at the top or, if more words match that way, at the bottom.
    """
    least = min(len(old), len(new))
    from_start = zip(old, new, strict=False)
    from_end = zip(old[-least:], new[-least:], strict=False)
    if (
        len(old) == len(new)
        or not least
        or _common_words(lines, from_start) >= _common_words(lines, from_end)
    ):
        yield from zip_longest(old, new)
        return
    yield from ((at, None) for at in old[:-least])
    yield from ((None, at) for at in new[:-least])
    yield from zip(old[-least:], new[-least:], strict=True)


def _common_words(lines: Sequence[DiffLine], pairs: Iterable[tuple[int, int]]) -> int:
    """Count the words that the first few pairs of lines have in common."""
    words = (
        map(set, (_WORD.findall(lines[at].content) for at in pair))
        for pair in islice(pairs, _CHUNK)
    )
    return sum(len(set.intersection(*both)) for both in words)


def _end(lines: Sequence[DiffLine], at: int, kind: DiffKind) -> int:
    """Return the index at which the run of lines of this kind ends.

    The run begins at index `at`.
    """
    while at < len(lines) and lines[at].kind == kind:
        at += 1
    return at


_Places = tuple[tuple[int, int], ...]


@lru_cache(maxsize=1_024)
def changed_words(old: str, new: str) -> tuple[_Places, _Places]:
    """Return the character ranges of the words that differ, in `old` and in `new`.

    Both results are empty if the lines have little in common.
    """
    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) + len(after) > _MOST_WORDS:
        return (), ()
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    same = sum(len("".join(before[at : at + size]).strip()) for at, _, size in blocks)
    if 5 * same < 2 * max(len(old.strip()), len(new.strip())):
        return (), ()
    return _gaps(before, [(a, a + size) for a, _, size in blocks]), _gaps(
        after, [(b, b + size) for _, b, size in blocks]
    )


def _gaps(words: Sequence[str], same: Sequence[tuple[int, int]]) -> _Places:
    """Return the character ranges between the matching words."""
    place = list(accumulate(map(len, words), initial=0))
    ends = pairwise([(0, 0), *same])
    return tuple(
        (place[end], place[start]) for (_, end), (start, _) in ends if end < start
    )


@dataclass(frozen=True, slots=True, eq=False)
class DiffBlock(Block):
    """A unified diff with line numbers, highlighted in the language of `path`.

    A line looks like `118 − old` or `118 + new`.
    """

    lines: tuple[DiffLine, ...]
    path: str = ""
    side_by_side_from: int = BESIDE
    """Minimum width, in cells, at which the diff is shown side by side."""

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        rows = DiffRows(
            self.lines, width, language_of(self.path), self.side_by_side_from
        )
        return LaterStrips(len(rows), lambda at: to_strip(rows[at], styles))

    def estimate(self, width: int) -> int:
        return len(self.lines)

    def text(self) -> str:
        return "\n".join(f"{SIGNS[line.kind][0]} {line.content}" for line in self.lines)


_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NUMBERED: Final = re.compile(r"([ +-]) *(\d+)[| ](.*)$")
"""Matches a numbered line of a diff, as sign, line number and text: `- 87 old` or `-446|old`."""


def lines_of_diff(text: str) -> Iterator[DiffLine]:
    """Parse, sanitise and number the lines of a diff. File headers are left out."""
    lines = [clean_code(line) for line in text.rstrip("\n").split("\n")]
    changes = [
        line
        for line in lines
        if line[:1] in "+-" and not line.startswith(("--- ", "+++ "))
    ]
    if (
        changes
        and all(map(_NUMBERED.match, changes))
        and not any(map(_HUNK.match, lines))
    ):
        return _numbered(lines)
    return _counted(lines)


def lines_of_our_diff(text: str) -> Iterator[DiffLine]:
    """Parse a diff made by our own tools that the user has to approve.

    Invisible characters are made visible, and numbers at the start of the text are not taken for line
    numbers. A long run of blank lines is replaced with the number of lines.
    """
    lines = _counted([nothing_hidden(line) for line in text.rstrip("\n").split("\n")])
    for (_, is_blank), group in groupby(
        lines, lambda line: (line.kind, not line.content.strip(BLANKS))
    ):
        run = list(group)
        if is_blank and len(run) >= FLOOD:
            yield replace(run[0], content=f"{len(run):,} blank lines", is_remark=True)
        else:
            yield from run


def _numbered(lines: list[str]) -> Iterator[DiffLine]:
    for line in lines:
        match = _NUMBERED.match(line)
        if match is not None:
            yield _line(match[1], int(match[2]), match[3])
        elif line.strip() == "...":
            yield DiffLine("skip", 0, "")


def _counted(lines: list[str]) -> Iterator[DiffLine]:
    """Number the lines according to the hunk headers, or from 1 if there are no headers."""
    old = new = 1
    hunks = 0
    for line in lines:
        sign = line[:1]
        if (hunk := _HUNK.match(line)) is not None:
            old, new = int(hunk[1]), int(hunk[2])
            if hunks:
                yield DiffLine("skip", 0, "")
            hunks += 1
        elif sign == "\\" or (
            not hunks and line.startswith(("--- ", "+++ ", "diff ", "index "))
        ):
            continue
        elif sign == "-":
            yield _line(sign, old, line[1:])
            old += 1
        else:
            yield _line(sign, new, line[1:], 0 if sign == "+" else old)
            new += 1
            old += sign != "+"


def _line(sign: str, number: int, content: str, before: int = 0) -> DiffLine:
    kinds: dict[str, DiffKind] = {"-": "old", "+": "new"}
    return DiffLine(kinds.get(sign, "same"), number, content, before)


_NEW_FILE: Final = re.compile(r"(?:(?!@@|\+\+\+ ).*\n)*\+\+\+ (?:b/)?(.+)")


def path_in(text: str) -> str:
    """Return the path of the new file from a diff's header, or an empty string."""
    header = _NEW_FILE.match(text)
    return header[1] if header is not None else ""
