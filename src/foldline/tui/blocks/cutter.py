"""Splits Markdown into pieces of about one screen, line by line, without parsing it.

Complete and streamed responses go through the same state machine, so both are split into the same pieces. The
state machine detects the beginning and end of paragraphs, lists, tables, quotes and fences. Their content is
parsed only when it is drawn.
"""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Final, Literal

from foldline.text.harmless import clean


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown without code blocks and tables.

    If the piece starts inside an ordered list, `number` is the number of the piece's first item.
    """

    source: str
    number: int | None = None


@dataclass(slots=True, eq=False)
class Fence:
    """The language and the lines of a code block, which may still be streaming."""

    language: str
    """The language named after the opening fence; empty for plain text."""
    source: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Code:
    """The lines of a fence from `start` up to, but not including, `stop`."""

    fence: Fence
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table.

    `sample` contains the header row, the delimiter row and the first rows. It determines the column widths in
    all pieces of the table. The first piece shows the sample itself, and has no `rows`.
    """

    sample: tuple[str, ...]
    rows: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """The rows that this piece shows."""
        return self.rows or self.sample


Content = Prose | Code | TableRows


@dataclass(frozen=True, slots=True)
class MarkdownPiece:
    """The content of one block, with its indent and gap."""

    content: Content
    indent: int
    """Indent in cells, if the piece is inside a list item."""
    gap: bool
    """Whether there is a blank line above the piece."""


LINE_LENGTH: Final = 2_000
"""Maximum length of a line, in characters.

Longer lines are split, so that no piece becomes megabytes long.
"""

FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*|(?<=~)[^\n]*)$")
HEADING: Final = re.compile(r" {0,3}#{1,6}(?:\s|$)")
RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)\s*$")
ITEM: Final = re.compile(r"( {0,3})([-*+]|(\d{1,9})([.)]))(?:( {1,4})(?=\S)| |$)")
QUOTE: Final = re.compile(r" {0,3}>")
DELIMITER: Final = re.compile(r" {0,3}\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*$")
UNDECIDED: Final = re.compile(r"[\s\-=*_`~#>|+:]*$|\s*\d{1,9}[.)]?\s*$")
"""Matches an incomplete line whose Markdown type is not yet known, so that the line is not shown yet."""


def parts_of(line: str) -> Iterator[str]:
    """Split a line that is longer than `LINE_LENGTH`, at spaces if possible."""
    start = 0
    while len(line) - start > LINE_LENGTH:
        space = line.rfind(" ", start + 1, start + LINE_LENGTH)
        stop = space if space > 0 else start + LINE_LENGTH
        yield line[start:stop]
        start = stop + (space > 0)
    yield line[start:]


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def dedented(line: str, cells: int) -> str:
    """Remove up to `cells` leading spaces from a line."""
    return line[min(indent_of(line), cells) :]


def _columns(row: str) -> int:
    """Return the number of cells in a table row. `\\|` stands for a literal bar."""
    inner = row.strip().removeprefix("|").removesuffix("|")
    return len(re.findall(r"(?<!\\)\|", inner)) + 1


CODE_LINES: Final = 40
LIST_ITEMS: Final = 12
LIST_LINES: Final = 60
TABLE_ROWS: Final = 24
TEXT_LINES: Final = 40
"""Maximum number of lines, items or rows in a piece, about one screen."""
CHARACTERS: Final = 8_000
"""Maximum number of characters in a piece with long lines, about one or two screens."""


@dataclass(slots=True)
class _OpenList:
    """A list that has not ended yet.

    `base` is the column of the list's markers, `content` the column of its text.
    """

    base: int
    content: int
    number: int | None
    """Number of the next item; None if the list has no numbers."""

    def has_item(self, line: str) -> bool:
        """Whether a line starts an item of this list, and not of a list nested inside an item."""
        if not self.base <= indent_of(line) < self.content:
            return False
        return ITEM.match(line[self.base :]) is not None and not RULE.match(line)


_Kind = Literal["", "text", "list", "quote", "table", "fence"]


@dataclass(slots=True)
class Cutter:
    """Takes text in parts, and returns the finished pieces.

    `open` returns the unfinished pieces.
    """

    _partial: str = ""
    _kind: _Kind = ""
    _lines: list[str] = field(default_factory=list)
    _base: int = 0  # common indent of the open piece, in cells
    _gap: bool = False  # of the open piece
    _blank: bool = False  # whether the last line was blank
    _number: int | None = None  # of the first item of the open list piece
    _items: int = 0  # of the open list piece
    _lists: list[_OpenList] = field(default_factory=list)  # outermost first
    _fence_sign: str = ""
    _fence: Fence = field(default_factory=lambda: Fence(""))
    _sample: tuple[str, ...] = ()  # of a table that is split into several pieces
    _done: list[MarkdownPiece] = field(default_factory=list)  # not returned yet
    _first: bool = True

    def feed(self, text: str) -> list[MarkdownPiece]:
        """Add text, and return the pieces that it completes."""
        *full_lines, partial = (self._partial + text).split("\n")
        for line in full_lines:
            self._physical(line)
        *parts, self._partial = parts_of(partial)
        for part in parts:
            self._take_clean(part)
        return self._take_done()

    def close(self) -> list[MarkdownPiece]:
        """End the text, and return the pieces that were still unfinished."""
        if self._partial:
            self._physical(self._partial)
            self._partial = ""
        self._finish()
        return self._take_done()

    def open(self) -> list[MarkdownPiece]:
        """Return the unfinished pieces, usually one, as if the text ended here.

        The code in them is not highlighted.
        """
        ahead = copy(self)
        ahead._lines = list(self._lines)
        ahead._lists = list(map(copy, self._lists))
        ahead._fence = Fence("", list(self._lines))
        ahead._done = []
        partial = clean(self._partial.removesuffix("\r"))
        if not UNDECIDED.match(partial):
            for line in partial.split("\n"):
                ahead._take(line)
        ahead._finish()
        return ahead._done

    def _take_done(self) -> list[MarkdownPiece]:
        done, self._done = self._done, []
        return done

    def _physical(self, line: str) -> None:
        *parts, last = parts_of(line)
        for part in parts:
            self._take_clean(part)
        self._take_clean(last.removesuffix("\r"))

    def _take_clean(self, line: str) -> None:
        for part in clean(line).split("\n"):
            self._take(part)

    # --- One line -------------------------------------------------------------------------------------

    def _take(self, line: str) -> None:
        if self._kind == "fence":
            self._in_fence(line)
        elif not line.strip():
            self._at_blank()
        else:
            self._at_text(line)
            self._blank = False

    def _at_blank(self) -> None:
        if self._kind != "list":
            self._finish()
        elif not self._blank:  # only the first of several blank lines is kept
            self._lines.append("")
        self._blank = True

    def _at_text(self, line: str) -> None:
        indent = indent_of(line)
        inner = line[self._base :]
        match self._kind:
            case "list":
                self._in_list(line, indent)
            case "text" if indent >= self._base:
                self._in_text(line, inner)
            case "table" if indent >= self._base and _continues_table(inner):
                self._in_table(inner)
            case "quote" if indent >= self._base and QUOTE.match(inner):
                if self._is_full(TEXT_LINES):
                    self._begin_next(line, joined=True)
                else:
                    self._lines.append(inner)
            case _:
                self._begin_next(line)

    def _begin_next(self, line: str, *, joined: bool = False) -> None:
        """Complete the open piece, and begin a piece with this line.

        The piece is inside the list item that matches the line's indent.
        """
        self._finish()
        self._base = self._base_of(line)
        inner = line[self._base :]
        is_separate = self._blank or HEADING.match(inner) is not None
        self._gap = is_separate and not self._first and not joined
        self._first = False
        if fence := FENCE.match(inner):
            self._kind = "fence"
            self._base += indent_of(inner)
            self._fence_sign = fence[1]
            self._fence = Fence(fence[2].strip().split(" ")[0].strip("{}.").lower())
            return
        self._kind = "text"
        self._lines = [inner]
        if HEADING.match(inner) or RULE.match(inner):
            self._finish()
        elif item := ITEM.match(inner):
            self._begin_list(line, item)
        elif QUOTE.match(inner):
            self._kind = "quote"

    def _base_of(self, line: str) -> int:
        """Return the column at which the content of a line begins, and forget the lists that it ends."""
        indent = indent_of(line)
        lists = self._lists
        while lists and indent < lists[-1].content and not lists[-1].has_item(line):
            lists.pop()
        if not lists:
            return 0
        base = lists[-1].content if indent >= lists[-1].content else lists[-1].base
        if indent - base >= 4 and ITEM.match(line.lstrip(" ")):
            return indent  # a nested list whose outer list was cut off
        return base

    def _in_text(self, line: str, inner: str) -> None:
        is_delimiter = (
            DELIMITER.match(inner)
            and "|" in self._lines[-1]
            and _columns(inner) == _columns(self._lines[-1])
        )
        if UNDERLINE.match(inner):
            self._lines.append(inner)
            self._finish()
        elif is_delimiter:
            self._begin_table(inner)
        elif self._interrupts(inner):
            self._begin_next(line)
        elif self._is_full(TEXT_LINES):
            self._begin_next(line, joined=True)
        else:
            self._lines.append(inner)

    def _is_full(self, lines: int) -> bool:
        """Whether the open piece has at least this many lines, or `CHARACTERS` characters."""
        return len(self._lines) >= lines or sum(map(len, self._lines)) >= CHARACTERS

    def _interrupts(self, inner: str) -> bool:
        """Whether this line ends a paragraph even without a blank line before it."""
        if any(pattern.match(inner) for pattern in _BEGINNINGS):
            return True
        item = ITEM.match(inner)
        return (
            item is not None
            and item.end() < len(inner.rstrip())
            and (item[3] is None or int(item[3]) == 1)
        )

    # --- Tables ---------------------------------------------------------------------------------------

    def _begin_table(self, delimiter: str) -> None:
        """Begin a table. The last line so far is its header row."""
        base, gap = self._base, self._gap
        head = self._lines.pop()
        if self._lines:
            self._finish()
            gap = False
        self._kind = "table"
        self._base, self._gap = base, gap
        self._lines = [head, delimiter]
        self._sample = ()

    def _in_table(self, inner: str) -> None:
        if self._is_full(TABLE_ROWS):
            self._add(self._newest_rows())
            self._lines = []
            self._gap = False
        self._lines.append(inner)

    def _newest_rows(self) -> TableRows:
        if self._sample:
            return TableRows(self._sample, tuple(self._lines))
        self._sample = tuple(self._lines)
        return TableRows(self._sample)

    # --- Lists ----------------------------------------------------------------------------------------

    def _begin_list(self, line: str, item: re.Match[str]) -> None:
        if not self._lists or not self._lists[-1].has_item(line):
            content = item.end() if item[5] else len(item[1]) + len(item[2]) + 1
            number = int(item[3]) if item[3] else None
            self._lists.append(_OpenList(self._base, self._base + content, number))
        self._kind = "list"
        self._number = self._lists[-1].number
        self._items = 0
        self._count_item()

    def _count_item(self) -> None:
        now = self._lists[-1]
        self._items += 1
        if now.number is not None:
            now.number += 1

    def _in_list(self, line: str, indent: int) -> None:
        now = self._lists[-1]
        inner = line[self._base :] if indent >= self._base else line.lstrip(" ")
        is_item = now.has_item(line)
        if is_item:
            ends = self._items >= LIST_ITEMS or self._is_full(LIST_LINES)
        elif indent >= now.content:
            is_nested = ITEM.match(line.lstrip(" ")) is not None
            is_full = self._is_full(LIST_LINES if is_nested else 2 * LIST_LINES)
            ends = is_full or FENCE.match(line[now.content :]) is not None
        else:  # a paragraph may continue without its indent
            begins = ITEM.match(inner) is not None or self._interrupts(inner)
            ends = self._blank or begins or self._is_full(2 * LIST_LINES)
        if ends:
            self._begin_next(line)
            return
        self._lines.append(inner)
        if is_item:
            self._count_item()

    # --- Fences ---------------------------------------------------------------------------------------

    def _in_fence(self, line: str) -> None:
        sign = line.strip()
        if (
            len(sign) >= len(self._fence_sign)
            and not sign.strip(self._fence_sign[0])
            and indent_of(line) < self._base + 4
        ):
            self._finish()
            self._blank = False
            return
        if len(self._lines) >= CODE_LINES:
            self._add(self._newest_code())
            self._lines = []
            self._gap = False
        self._take_code(dedented(line, self._base))

    def _take_code(self, line: str) -> None:
        self._lines.append(line)
        self._fence.source.append(line)

    def _newest_code(self) -> Code:
        stop = len(self._fence.source)
        return Code(self._fence, stop - len(self._lines), stop)

    # --- Ends -----------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Complete the open piece."""
        match self._kind:
            case "":
                return
            case "fence":
                if not self._lines:
                    self._take_code("")
                self._add(self._newest_code())
            case "table":
                self._add(self._newest_rows())
            case kind:
                source = "\n".join(self._lines).rstrip("\n")
                self._add(Prose(source, self._number if kind == "list" else None))
        self._kind = ""
        self._lines = []
        self._base = 0
        self._gap = False

    def _add(self, content: Content) -> None:
        self._done.append(MarkdownPiece(content, self._base, self._gap))


_BEGINNINGS: Final = (FENCE, HEADING, RULE, QUOTE)
"""Patterns of the lines that end a paragraph or a table, apart from list items."""


def _continues_table(inner: str) -> bool:
    """Whether a line is a row of the table above it."""
    begins = any(pattern.match(inner) for pattern in (*_BEGINNINGS, ITEM))
    return "|" in inner and not begins and indent_of(inner) < 4


def pieces(text: str) -> list[MarkdownPiece]:
    """Split a complete response into pieces."""
    cutter = Cutter()
    return cutter.feed(text) + cutter.close()
