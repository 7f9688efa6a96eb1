"""Diffs: ours, and those of agents that number the lines. One component draws them, wherever they stand.

Laid out at once, coloured when they are looked at: no frame may wait for thousands of lines.
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

from foldline.context.harmless import BLANKS, FLOOD, clean_code, nothing_hidden
from foldline.tui.blocks.block import MIN_WIDTH, Block, LaterStrips
from foldline.tui.blocks.cells import Span, chop, slice_spans, to_strip, width_of
from foldline.tui.blocks.code import highlighted
from foldline.tui.blocks.styles import Styles

BESIDE: Final = 136
"""Cells from which the old lines stand beside the new ones: what a frame leaves of 140 columns."""
SHORT: Final = 12
"""Lines up to which a diff stands open by itself."""
_CHUNK: Final = 20
"""Lines that are coloured together, after as many before them: so far back may begin what they are inside
of. That takes some 4 ms."""
_BETWEEN: Final = " │ "
_WORD: Final = re.compile(r"\w+|\s+|.")
_MOST_WORDS: Final = 200
"""Words of two lines up to which they are compared: a millisecond."""

DiffKind = Literal["old", "new", "same", "skip"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: its number in the old file (`old`) or the new one, 0 where nobody knows, and its
    text."""

    kind: DiffKind
    number: int
    content: str
    before: int = 0
    """Its number in the old file, where it is the `same` in both."""
    is_remark: bool = False
    """Whether the text is said about lines, and is none."""


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
"""Ends of names that are no name of their language."""


def language_of(path: str) -> str:
    """What a file is highlighted as, by its name alone: `Dockerfile` and `a.rs` say it themselves."""
    name = PurePath(path)
    ending = (name.suffix[1:] or name.name).lower()
    return _SPELLED.get(ending, ending)


class _Part(NamedTuple):
    """Some characters of a line, which fit into a row; the first of them has the line's number and sign."""

    line: int
    start: int
    stop: int


_Row = tuple[_Part | None, ...]
"""One part, or an old one and a new one side by side."""


class DiffRows:
    """The rows of a diff at one width, old and new lines side by side from `beside` cells on."""

    def __init__(
        self, lines: Sequence[DiffLine], width: int, language: str = "", beside: int = BESIDE
    ) -> None:
        self._lines = lines
        self._language = language
        self._digits = max((len(str(line.number)) for line in lines if line.number), default=0)
        self._pairs = list(_paired(lines))
        self._partners: dict[int, tuple[int, int]] = {}
        for old, new in self._pairs:
            if old is not None and new is not None and old != new:
                self._partners[old] = self._partners[new] = (old, new)
        self.is_beside = width >= beside and {"old", "new"} <= {line.kind for line in lines}
        """Whether old and new lines stand side by side."""
        self._half = (width - len(_BETWEEN)) // 2
        self._room = max((self._half if self.is_beside else width) - self._digits - 3, MIN_WIDTH)
        below = ((part,) for at in range(len(lines)) for part in self._parts(at))
        self._rows: list[_Row] = list(self._beside() if self.is_beside else below)
        self._colored: dict[int, list[Span]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> list[Span]:
        row = self._rows[at]
        if len(row) == 1:
            return self._drawn(row[0], old=False)
        left = self._drawn(row[0], old=True)
        blanks = (" " * max(self._half - width_of(left), 0), "deco")
        return [*left, blanks, (_BETWEEN, "muted deco"), *self._drawn(row[1], old=False)]

    def text(self, at: int) -> str:
        """What a row shows of the lines, with a sign where one begins: blank ones count. Colours nothing."""
        parts = [part for part in self._rows[at] if part is not None]
        lines = self._lines
        return "".join(f"{'' if p.start else '·'}{lines[p.line].content[p.start : p.stop]}" for p in parts)

    # --- layout -----------------------------------------------------------------------------------------

    def _beside(self) -> Iterator[_Row]:
        for old, new in self._pairs:
            if old is not None and self._lines[old].kind == "skip":
                yield from ((part,) for part in self._parts(old))
            else:
                yield from zip_longest(self._parts(old), self._parts(new))

    def _parts(self, at: int | None) -> list[_Part]:
        if at is None:
            return []
        content = self._lines[at].content
        if len(content) <= self._room and content.isascii():
            return [_Part(at, 0, len(content))]
        return [_Part(at, *piece) for piece in chop(content, self._room)]

    def _drawn(self, part: _Part | None, *, old: bool) -> list[Span]:
        """A part behind its number, as the old file or the new one has it, and sign."""
        if part is None:
            return []
        line = self._lines[part.line]
        sign, role = SIGNS[line.kind]
        number = str((line.before if old and line.kind == "same" else line.number) or "")
        if part.start:
            sign, role, number = "↳", "muted", ""
        head = [(f"{number:>{self._digits}} ", f"{role} deco"), (f"{sign} ", f"{role} deco")]
        return [*head, *slice_spans(self._spans(part.line), part.start, part.stop)]

    # --- colours ----------------------------------------------------------------------------------------

    def _spans(self, at: int) -> list[Span]:
        """A line as styled text."""
        if at not in self._colored:
            self._color(at - at % _CHUNK)
        return self._colored[at]

    def _color(self, start: int) -> None:
        """Colour some lines: the old file is one text, the new one another."""
        lines, within = self._lines, range(max(start - _CHUNK, 0), min(start + _CHUNK, len(self._lines)))
        for other in ("new", "old"):
            code = [at for at in within if lines[at].kind not in ("skip", other) and not lines[at].is_remark]
            if code and code[-1] >= start:
                spans = highlighted([lines[at].content for at in code], self._language)
                shown = (pair for pair in zip(code, spans, strict=True) if pair[0] >= start)
                self._colored |= {at: self._marked(at, line) for at, line in shown}
        for at in range(start, within.stop):
            self._colored.setdefault(at, [(lines[at].content, "muted")])

    def _marked(self, at: int, spans: list[Span]) -> list[Span]:
        """A line with the words marked that its other side does not have. Without a language all of it is in
        the colour of its kind."""
        line = self._lines[at]
        _, role = SIGNS[line.kind]
        if not self._language:
            spans = [(line.content, role)]
        elif line.kind == "same":
            spans = [(text, f"{style} dim") for text, style in spans]
        if at not in self._partners:
            return spans
        old, new = self._partners[at]
        changed = changed_words(self._lines[old].content, self._lines[new].content)[at == new]
        for start, stop in changed:
            after = slice_spans(spans, stop, len(line.content))
            word = (line.content[start:stop], f"{role} underline")
            spans = [*slice_spans(spans, 0, start), word, *after]
        return spans


def _paired(lines: Sequence[DiffLine]) -> Iterator[tuple[int | None, int | None]]:
    """The lines as they stand side by side: within a change the first old one beside the first new one."""
    at = 0
    while at < len(lines):
        if lines[at].kind in ("same", "skip"):
            yield at, at
            at += 1
            continue
        new = _end(lines, at, "old")
        end = _end(lines, new, "new")
        yield from _beside_each_other(lines, range(at, new), range(new, end))
        at = end


def _beside_each_other(
    lines: Sequence[DiffLine], old: range, new: range
) -> Iterator[tuple[int | None, int | None]]:
    """The first old line beside the first new one; the last beside the last, where those are more alike."""
    least = min(len(old), len(new))
    first, last = zip(old, new, strict=False), zip(old[-least:], new[-least:], strict=False)
    if len(old) == len(new) or not least or _alike(lines, first) >= _alike(lines, last):
        yield from zip_longest(old, new)
        return
    yield from ((at, None) for at in old[:-least])
    yield from ((None, at) for at in new[:-least])
    yield from zip(old[-least:], new[-least:], strict=True)


def _alike(lines: Sequence[DiffLine], pairs: Iterable[tuple[int, int]]) -> int:
    """How many words the first few of these lines share."""
    words = (map(set, (_WORD.findall(lines[at].content) for at in pair)) for pair in islice(pairs, _CHUNK))
    return sum(len(set.intersection(*both)) for both in words)


def _end(lines: Sequence[DiffLine], at: int, kind: DiffKind) -> int:
    """Where the lines of this kind end that begin here."""
    while at < len(lines) and lines[at].kind == kind:
        at += 1
    return at


_Places = tuple[tuple[int, int], ...]


@lru_cache(maxsize=1_024)
def changed_words(old: str, new: str) -> tuple[_Places, _Places]:
    """Where two lines have words that the other has not; nowhere, where they hardly share any."""
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
    """The characters between the words that are the same."""
    place = list(accumulate(map(len, words), initial=0))
    ends = pairwise([(0, 0), *same])
    return tuple((place[end], place[start]) for (_, end), (start, _) in ends if end < start)


@dataclass(frozen=True, slots=True, eq=False)
class DiffBlock(Block):
    """A unified diff: `118 − old`, `118 + new`, in the colours of what `path` says it is."""

    lines: tuple[DiffLine, ...]
    path: str = ""
    beside: int = BESIDE

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        rows = DiffRows(self.lines, width, language_of(self.path), self.beside)
        return LaterStrips(len(rows), lambda at: to_strip(rows[at], styles))

    def estimate(self, width: int) -> int:
        return len(self.lines)

    def text(self) -> str:
        return "\n".join(f"{SIGNS[line.kind][0]} {line.content}" for line in self.lines)


_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NUMBERED: Final = re.compile(r"([ +-]) *(\d+)[| ](.*)$")
"""`- 87 old` or `-446|old`: sign, number, text."""


def lines_of_diff(text: str) -> Iterator[DiffLine]:
    """The lines of a diff with their numbers, clean; file heads are left out."""
    lines = [clean_code(line) for line in text.rstrip("\n").split("\n")]
    changes = [line for line in lines if line[:1] in "+-" and not line.startswith(("--- ", "+++ "))]
    if changes and all(map(_NUMBERED.match, changes)) and not any(map(_HUNK.match, lines)):
        return _numbered(lines)
    return _counted(lines)


def lines_of_our_diff(text: str) -> Iterator[DiffLine]:
    """The lines of a diff that a tool of ours made and somebody is to approve: nothing in them is hidden, or
    taken for a number; floods of blank lines are counted."""
    lines = _counted([nothing_hidden(line) for line in text.rstrip("\n").split("\n")])
    for (_, is_blank), found in groupby(lines, lambda line: (line.kind, not line.content.strip(BLANKS))):
        run = list(found)
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
    """Numbers from the hunk heads; without one they count from 1."""
    old = new = 1
    hunks = 0
    for line in lines:
        sign = line[:1]
        if (hunk := _HUNK.match(line)) is not None:
            old, new = int(hunk[1]), int(hunk[2])
            if hunks:
                yield DiffLine("skip", 0, "")
            hunks += 1
        elif sign == "\\" or (not hunks and line.startswith(("--- ", "+++ ", "diff ", "index "))):
            continue
        elif sign == "-":
            yield _line(sign, old, line[1:])
            old += 1
        else:
            yield _line(sign, new, line[1:], 0 if sign == "+" else old)
            new += 1
            old += sign != "+"


def _line(sign: str, number: int, content: str, before: int = 0) -> DiffLine:
    kind: DiffKind = "old" if sign == "-" else "new" if sign == "+" else "same"
    return DiffLine(kind, number, content, before)


_NEW_FILE: Final = re.compile(r"(?:(?!@@|\+\+\+ ).*\n)*\+\+\+ (?:b/)?(.+)")


def path_in(text: str) -> str:
    """The file that the head of a diff names; empty where it has none."""
    head = _NEW_FILE.match(text)
    return head[1] if head is not None else ""
