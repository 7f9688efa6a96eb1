"""Cuts Markdown into pieces small enough to draw one by one, line by line, without parsing it.

The same machine cuts a whole answer and one that is still coming, so both give the same pieces. It knows
where a paragraph, list, table, quote or fence begins and ends; what is inside is parsed when it is drawn.
"""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Final, Literal

from foldline.context.harmless import clean
from foldline.tui.blocks.code import Fence


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown drawn as one piece; `number` is that of its first list item, where a list continues."""

    source: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Lines `start` to `stop` of a fence."""

    fence: Fence
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table. `sample` (head and first rows) decides the columns' widths for all its pieces."""

    sample: tuple[str, ...]
    aligns: tuple[str, ...]
    rows: tuple[str, ...]
    head: bool
    """Whether `rows` starts with the head."""


Content = Prose | Code | Table


@dataclass(frozen=True, slots=True)
class Piece:
    """What one block shows."""

    content: Content
    indent: int
    """Cells it stands to the right: the inside of a list item."""
    gap: bool
    """Whether a blank line sets it off from the piece before."""


def split_row(row: str) -> list[str]:
    """The cells of a table row; `\\|` is a bar, not a border."""
    cells = re.split(r"(?<!\\)\|", row.strip())
    if cells and not cells[0].strip():
        cells = cells[1:]
    if cells and not cells[-1].strip() and row.rstrip().endswith("|"):
        cells = cells[:-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]


LINE_LENGTH: Final = 2_000
"""Longer lines are cut at a space: one line of megabytes must not be one piece."""

FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*|(?<=~)[^\n]*)$")
HEADING: Final = re.compile(r" {0,3}#{1,6}(?:\s|$)")
RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)\s*$")
ITEM: Final = re.compile(r"( {0,3})([-*+]|(\d{1,9})([.)]))(?:( {1,4})(?=\S)| |$)")
QUOTE: Final = re.compile(r" {0,3}>")
DELIMITER: Final = re.compile(r" {0,3}\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*$")
UNDECIDED: Final = re.compile(r"[\s\-=*_`~#>|+:]*$|\s*\d{1,9}[.)]?\s*$")
"""The start of a line that may still become anything: not shown before there is more of it."""


def parts_of(line: str) -> Iterator[str]:
    """A line, where it is too long in parts: each cut at its last space that fits, else hard."""
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
    """A line without up to `cells` spaces at its start."""
    return line[min(indent_of(line), cells) :]


def align_of(cell: str) -> str:
    match cell.startswith(":"), cell.endswith(":"):
        case True, True:
            return "center"
        case False, True:
            return "right"
        case _:
            return "left"


CODE_LINES: Final = 40
LIST_ITEMS: Final = 12
LIST_LINES: Final = 60
TABLE_ROWS: Final = 24
TEXT_LINES: Final = 40
"""Where a fence, list, table, and a paragraph or quote is cut: a piece should be about a screen."""
CHARACTERS: Final = 8_000
"""Where a piece of long lines is cut: a screen or two of them."""


@dataclass(slots=True)
class _List:
    """A list that is open: where its markers and its items' text stand, and how far it has counted."""

    sign: str
    base: int
    content: int
    number: int | None
    items: int = 0


_Kind = Literal["", "text", "list", "quote", "table", "fence", "indented"]


@dataclass(slots=True)
class Cutter:
    """Takes text, gives finished pieces; the open one can be looked at at any time."""

    _partial: str = ""
    _kind: _Kind = ""
    _lines: list[str] = field(default_factory=list)
    _base: int = 0  # cells all lines of the open piece are indented by
    _gap: bool = False  # of the open piece
    _blank: bool = False  # a blank line came last
    _number: int | None = None  # of the first item of the open list piece
    _items: int = 0  # of the open list piece
    _lists: list[_List] = field(default_factory=list)  # from the outermost to the one the last line was in
    _fence_sign: str = ""
    _fence: Fence = field(default_factory=lambda: Fence(""))  # all lines of the open code so far
    _fence_gaps: list[bool] = field(default_factory=list)  # of the pieces it is cut into
    _code_blanks: int = 0  # blank lines that are code if more of it follows
    _aligns: tuple[str, ...] = ()
    _sample: tuple[str, ...] = ()  # of a table that is cut
    _count: int = 0  # pieces finished so far
    _done: dict[int, Piece] = field(default_factory=dict)  # those not given yet
    _first: bool = True

    def feed(self, text: str) -> dict[int, Piece]:
        """More text. Gives the pieces finished by it with their numbers, counted from 0. When code that was
        cut in pieces ends, and is short enough to be coloured as a whole, they are given once more."""
        *whole, partial = (self._partial + text).split("\n")
        for line in whole:
            self._physical(line)
        *parts, self._partial = parts_of(partial)
        for part in parts:
            self._take_clean(part)
        return self._given()

    def close(self) -> dict[int, Piece]:
        """The end of the text: the pieces that were still open."""
        if self._partial:
            self._physical(self._partial)
            self._partial = ""
        self._finish()
        return self._given()

    def open(self) -> dict[int, Piece]:
        """The pieces still open, as they would be if the text ended here: mostly one."""
        partial = clean(self._partial.removesuffix("\r"))
        if self._kind == "fence":
            lines = list(self._lines)
            if partial and not partial.lstrip().startswith(self._fence_sign[0]):
                lines.append(dedented(partial, self._base))
            return {self._count: Piece(_plain(lines or [""]), self._base, self._gap)}
        ahead = copy(self)
        ahead._lines, ahead._done, ahead._lists = list(self._lines), {}, [copy(each) for each in self._lists]
        ahead._fence, ahead._fence_gaps = _plain(self._lines).fence, []  # of indented code only the tail
        if not UNDECIDED.match(partial):
            for line in partial.split("\n"):
                ahead._take(line)
        ahead._finish()
        return ahead._done

    def _given(self) -> dict[int, Piece]:
        done, self._done = self._done, {}
        return dict(sorted(done.items()))

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

    def _at_blank(self) -> None:
        if self._kind == "list":
            if not self._blank:  # several are one: a list that ends in them is looked at again with each
                self._lines.append("")
        elif self._kind == "indented":
            self._code_blanks += 1
        else:
            self._finish()
        self._blank = True

    def _at_text(self, line: str) -> None:
        indent = indent_of(line)
        if self._kind == "list":
            self._in_list(line, indent)
        elif self._kind and indent < self._base:
            self._finish()
            self._begin(line)
        elif self._kind == "":
            self._begin(line)
        else:
            inner = line[self._base :]
            match self._kind:
                case "text":
                    self._in_text(line, inner)
                case "quote" if QUOTE.match(inner) and not self._is_full(TEXT_LINES):
                    self._lines.append(inner)
                case "table" if "|" in inner and not QUOTE.match(inner):
                    self._in_table(inner)
                case "indented" if indent - self._base >= 4:
                    self._in_indented(inner)
                case _:
                    again = self._kind == "quote" and QUOTE.match(inner) is not None
                    self._finish()
                    self._begin(line, joined=again)
        self._blank = False

    def _begin(self, line: str, *, joined: bool = False) -> None:
        """The first line of a piece. An interrupted list continues where the line stands inside an item."""
        indent = indent_of(line)
        lists = self._lists
        while lists and indent < lists[-1].content and not self._is_item_of(line, lists[-1]):
            lists.pop()
        base = 0
        if lists:
            base = lists[-1].content if indent >= lists[-1].content else lists[-1].base
            if indent - base >= 4 and ITEM.match(line.lstrip(" ")):
                base = indent  # a nested list whose outer one was cut off
        inner = line[base:]
        self._base = base
        self._gap = not self._first and not joined and (self._blank or HEADING.match(inner) is not None)
        self._first = False
        if match := FENCE.match(inner):
            self._kind = "fence"
            self._base += indent_of(inner)
            self._fence_sign = match[1]
            self._fence = Fence(match[2].strip().split(" ")[0].strip("{}.").lower())
            self._fence_gaps = []
        elif HEADING.match(inner) or RULE.match(inner):
            self._kind = "text"
            self._lines = [inner]
            self._finish()
        elif match := ITEM.match(inner):
            self._begin_list(inner, match)
        elif QUOTE.match(inner):
            self._kind, self._lines = "quote", [inner]
        elif inner.startswith("    "):
            self._kind, self._fence, self._fence_gaps, self._code_blanks = "indented", Fence(""), [], 0
            self._in_indented(inner)
        else:
            self._kind, self._lines = "text", [inner]

    def _in_text(self, line: str, inner: str) -> None:
        if UNDERLINE.match(inner):
            self._lines.append(inner)
            self._finish()
        elif (
            DELIMITER.match(inner)
            and len(split_row(inner)) == len(split_row(self._lines[-1]))
            and "|" in self._lines[-1]
        ):
            head = self._lines.pop()
            if self._lines:
                self._finish()
                self._gap = False
            self._kind, self._lines, self._sample = "table", [head], ()
            self._aligns = tuple(map(align_of, split_row(inner)))
        elif self._interrupts(inner):
            self._finish()
            self._begin(line)
        elif self._is_full(TEXT_LINES):
            self._finish()
            self._begin(line, joined=True)
        else:
            self._lines.append(inner)

    def _is_full(self, lines: int) -> bool:
        """Whether the open piece holds so many lines, or about as much in fewer."""
        return len(self._lines) >= lines or sum(map(len, self._lines)) >= CHARACTERS

    def _interrupts(self, inner: str) -> bool:
        """Whether a line ends a paragraph without a blank line between."""
        if FENCE.match(inner) or HEADING.match(inner) or RULE.match(inner) or QUOTE.match(inner):
            return True
        match = ITEM.match(inner)
        return (
            match is not None
            and match.end() < len(inner.rstrip())
            and (match[3] is None or int(match[3]) == 1)
        )

    def _in_table(self, inner: str) -> None:
        self._lines.append(inner)
        if len(self._lines) > TABLE_ROWS:
            base = self._base
            self._finish(keep_table=True)
            self._kind, self._base, self._gap = "table", base, False

    # --- Lists ----------------------------------------------------------------------------------------

    def _begin_list(self, inner: str, match: re.Match[str]) -> None:
        if not self._lists or not self._is_item_of(" " * self._base + inner, self._lists[-1]):
            content = match.end() if match[5] else len(match[1]) + len(match[2]) + 1
            number = int(match[3]) if match[3] else None
            self._lists.append(_List(match[4] or match[2], self._base, self._base + content, number))
        self._next_piece(self._lists[-1])
        self._next_item(inner)

    def _next_piece(self, of: _List) -> None:
        self._kind, self._base = "list", of.base
        self._number = None if of.number is None else of.number + of.items
        self._items = 0

    def _next_item(self, inner: str) -> None:
        self._lists[-1].items += 1
        self._items += 1
        self._lines.append(inner)

    def _is_item_of(self, line: str, of: _List) -> bool:
        """Whether a line starts an item of this list: same kind of marker, not inside an item."""
        if not of.base <= indent_of(line) < of.content:
            return False
        match = ITEM.match(line[of.base :])
        return match is not None and (match[4] or match[2]) == of.sign and not RULE.match(line)

    def _in_list(self, line: str, indent: int) -> None:
        now = self._lists[-1]
        inner = line[self._base :] if indent >= self._base else line.lstrip(" ")
        if self._is_item_of(line, now):
            if self._items >= LIST_ITEMS or self._is_full(LIST_LINES):
                blank = self._blank
                self._finish()
                self._next_piece(now)
                self._gap = blank
            self._next_item(inner)
        elif indent >= now.content:
            nested = ITEM.match(line.lstrip(" ")) is not None
            if FENCE.match(line[now.content :]) or self._is_full(LIST_LINES if nested else 2 * LIST_LINES):
                self._finish()
                self._begin(line)
            else:
                self._lines.append(inner)
        elif self._blank or ITEM.match(inner) or self._interrupts(inner) or self._is_full(2 * LIST_LINES):
            self._finish()
            self._begin(line)
        else:
            self._lines.append(inner)  # a paragraph may go on without its indent

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
        self._take_code(dedented(line, self._base))

    def _in_indented(self, inner: str) -> None:
        for blank in [""] * self._code_blanks:
            self._take_code(blank)
        self._code_blanks = 0
        self._take_code(inner[4:])

    def _take_code(self, line: str) -> None:
        """One more line of code. A full piece is coloured by what has come so far."""
        if len(self._lines) >= CODE_LINES:
            self._add(self._newest_code())
            self._fence_gaps.append(self._gap)
            self._lines, self._gap = [], False
        self._lines.append(line)
        self._fence.source.append(line)

    def _newest_code(self) -> Code:
        stop = len(self._fence.source)
        return Code(self._fence, stop - len(self._lines), stop)

    def _end_code(self) -> None:
        """The last piece; and all, where they are coloured as a whole now."""
        if not self._lines:
            self._lines = [""]
            self._fence.source.append("")
        self._fence_gaps.append(self._gap)
        self._add(self._newest_code())
        if not self._fence.close():
            return
        first = self._count - len(self._fence_gaps)
        for number, gap in enumerate(self._fence_gaps):
            start = number * CODE_LINES
            content = Code(self._fence, start, min(start + CODE_LINES, len(self._fence.source)))
            self._done[first + number] = Piece(content, self._base, gap)

    # --- Ends -----------------------------------------------------------------------------------------

    def _finish(self, keep_table: bool = False) -> None:
        """The open piece is complete."""
        kind, self._kind = self._kind, ""
        lines = self._lines
        match kind:
            case "":
                return
            case "fence" | "indented":
                self._end_code()
            case "table":
                if not self._sample:
                    self._sample = tuple(lines)
                    self._add(Table(self._sample, self._aligns, self._sample, head=True))
                elif lines:
                    self._add(Table(self._sample, self._aligns, tuple(lines), head=False))
                if not keep_table:
                    self._sample = ()
            case _:
                while lines and not lines[-1]:
                    lines.pop()
                self._add(Prose("\n".join(lines), self._number if kind == "list" else None))
        self._lines, self._base, self._gap = [], 0, False

    def _add(self, content: Content) -> None:
        self._done[self._count] = Piece(content, self._base, self._gap)
        self._count += 1


def _plain(lines: list[str]) -> Code:
    """Code that is not coloured yet."""
    fence = Fence("")
    fence.source += lines
    return Code(fence, 0, len(lines))


def pieces(text: str) -> list[Piece]:
    """The pieces of a whole answer."""
    cutter = Cutter()
    done = cutter.feed(text)
    done.update(cutter.close())
    return [done[number] for number in sorted(done)]
