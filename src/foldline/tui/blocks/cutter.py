"""Cuts Markdown into pieces small enough to draw one by one, line by line, without parsing it.

The same machine cuts a whole answer and one that is still coming, so both give the same pieces. It knows
where a paragraph, list, table, quote or fence begins and ends; what is inside is parsed when it is drawn.
"""

import re
from copy import copy
from dataclasses import dataclass, field
from typing import Final, Literal

from foldline.context.harmless import clean
from foldline.tui.blocks.code import BEFORE, Fence
from foldline.tui.blocks.pieces import Code, Content, Piece, Prose, Table, split_row

CODE_LINES: Final = 40
LIST_ITEMS: Final = 12
LIST_LINES: Final = 60
TABLE_ROWS: Final = 24
TEXT_LINES: Final = 40
"""Where a fence, list, table, and a paragraph or quote is cut: a piece should be about a screen."""
LINE_LENGTH: Final = 2_000
"""Longer lines are cut at a space: one line of megabytes must not be one piece."""


_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*|(?<=~)[^\n]*)$")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)\s*$")
_ITEM: Final = re.compile(r"( {0,3})([-*+]|(\d{1,9})([.)]))(?:( {1,4})(?=\S)| |$)")
_QUOTE: Final = re.compile(r" {0,3}>")
_DELIMITER: Final = re.compile(r" {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_UNDECIDED: Final = re.compile(r"[\s\-=*_`~#>|+:]*$|\s*\d{1,9}[.)]?\s*$")
"""The start of a line that may still become anything: not shown before there is more of it."""


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
    _fence_language: str = ""
    _fence: list[str] = field(default_factory=list)  # all lines of the open fence
    _fence_gaps: list[bool] = field(default_factory=list)  # of the pieces it is cut into
    _aligns: tuple[str, ...] = ()
    _sample: tuple[str, ...] = ()  # of a table that is cut
    _count: int = 0  # pieces finished so far
    _done: dict[int, Piece] = field(default_factory=dict)  # those not given yet
    _first: bool = True

    def feed(self, text: str) -> dict[int, Piece]:
        """More text. Gives the pieces finished by it with their numbers, counted from 0. When a fence cut in
        pieces closes, its pieces are given once more under their old numbers, now as parts of the whole."""
        *whole, partial = (self._partial + text).split("\n")
        for line in whole:
            self._physical(line)
        while len(partial) > LINE_LENGTH:
            line, partial = _cut_line(partial)
            self._take_clean(line)
        self._partial = partial
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
                lines.append(_dedented(partial, self._base))
            plain = Code(Fence(lines or [""], ""), 0, max(len(lines), 1))
            return {self._count: Piece(plain, self._base, self._gap)}
        ahead = copy(self)
        ahead._lines, ahead._done, ahead._lists = list(self._lines), {}, [copy(each) for each in self._lists]
        if not _UNDECIDED.match(partial):
            for line in partial.split("\n"):
                ahead._take(line)
        ahead._finish()
        return ahead._done

    def _given(self) -> dict[int, Piece]:
        done, self._done = self._done, {}
        return dict(sorted(done.items()))

    def _physical(self, line: str) -> None:
        while len(line) > LINE_LENGTH:
            head, line = _cut_line(line)
            self._take_clean(head)
        self._take_clean(line.removesuffix("\r"))

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
        if self._kind in ("list", "indented"):
            self._lines.append("")
        else:
            self._finish()
        self._blank = True

    def _at_text(self, line: str) -> None:
        indent = _indent(line)
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
                case "quote" if _QUOTE.match(inner) and len(self._lines) < TEXT_LINES:
                    self._lines.append(inner)
                case "table" if "|" in inner and not _QUOTE.match(inner):
                    self._in_table(inner)
                case "indented" if indent - self._base >= 4:
                    self._lines.append(inner[4:])
                case _:
                    again = self._kind == "quote" and _QUOTE.match(inner) is not None
                    self._finish()
                    self._begin(line, joined=again)
        self._blank = False

    def _begin(self, line: str, *, joined: bool = False) -> None:
        """The first line of a piece. An interrupted list goes on where the line stands inside an item."""
        indent = _indent(line)
        lists = self._lists
        while lists and indent < lists[-1].content and not self._is_item_of(line, lists[-1]):
            lists.pop()
        base = 0
        if lists:
            base = lists[-1].content if indent >= lists[-1].content else lists[-1].base
            if indent - base >= 4 and _ITEM.match(line.lstrip(" ")):
                base = indent  # a nested list whose outer one was cut off
        inner = line[base:]
        self._base = base
        self._gap = not self._first and not joined and (self._blank or _HEADING.match(inner) is not None)
        self._first = False
        if match := _FENCE.match(inner):
            self._kind = "fence"
            self._base += _indent(inner)
            self._fence_sign = match[1]
            self._fence_language = match[2].strip().split(" ")[0].strip("{}.").lower()
            self._fence, self._fence_gaps = [], []
        elif _HEADING.match(inner) or _RULE.match(inner):
            self._kind = "text"
            self._lines = [inner]
            self._finish()
        elif match := _ITEM.match(inner):
            self._begin_list(inner, match)
        elif _QUOTE.match(inner):
            self._kind, self._lines = "quote", [inner]
        elif inner.startswith("    "):
            self._kind, self._lines = "indented", [inner[4:]]
        else:
            self._kind, self._lines = "text", [inner]

    def _in_text(self, line: str, inner: str) -> None:
        if _UNDERLINE.match(inner):
            self._lines.append(inner)
            self._finish()
        elif (
            _DELIMITER.match(inner)
            and _cells_of(inner) == _cells_of(self._lines[-1])
            and "|" in self._lines[-1]
        ):
            head = self._lines.pop()
            if self._lines:
                self._finish()
                self._gap = False
            self._kind, self._lines, self._sample = "table", [head], ()
            self._aligns = tuple(map(_align, split_row(inner)))
        elif self._interrupts(inner):
            self._finish()
            self._begin(line)
        elif len(self._lines) >= TEXT_LINES:
            self._finish()
            self._begin(line, joined=True)
        else:
            self._lines.append(inner)

    def _interrupts(self, inner: str) -> bool:
        """Whether a line ends a paragraph without a blank line between."""
        if _FENCE.match(inner) or _HEADING.match(inner) or _RULE.match(inner) or _QUOTE.match(inner):
            return True
        match = _ITEM.match(inner)
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
        if not of.base <= _indent(line) < of.content:
            return False
        match = _ITEM.match(line[of.base :])
        return match is not None and (match[4] or match[2]) == of.sign and not _RULE.match(line)

    def _in_list(self, line: str, indent: int) -> None:
        now = self._lists[-1]
        inner = line[self._base :] if indent >= self._base else line.lstrip(" ")
        if self._is_item_of(line, now):
            if self._items >= LIST_ITEMS or len(self._lines) >= LIST_LINES:
                blank = self._blank
                self._finish()
                self._next_piece(now)
                self._gap = blank
            self._next_item(inner)
        elif indent >= now.content:
            nested = _ITEM.match(line.lstrip(" ")) is not None
            if _FENCE.match(line[now.content :]) or (nested and len(self._lines) >= LIST_LINES):
                self._finish()
                self._begin(line)
            else:
                self._lines.append(inner)
        elif self._blank or _ITEM.match(inner) or self._interrupts(inner):
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
            and _indent(line) < self._base + 4
        ):
            self._finish()
            self._blank = False
            return
        inner = _dedented(line, self._base)
        self._lines.append(inner)
        self._fence.append(inner)
        if len(self._lines) >= CODE_LINES:
            self._cut_fence()

    def _cut_fence(self) -> None:
        """A full piece of a fence that is still open: coloured by what has come of it so far."""
        recent = self._fence[-CODE_LINES - BEFORE :]
        self._add(Code(Fence(recent, self._fence_language), len(recent) - len(self._lines), len(recent)))
        self._fence_gaps.append(self._gap)
        self._lines, self._gap = [], False

    def _end_fence(self) -> None:
        """All pieces of a fence as slices of the whole, those that were cut off before once more."""
        if self._lines or not self._fence_gaps:
            self._fence_gaps.append(self._gap)
            self._count += 1
        fence = Fence(self._fence or [""], self._fence_language)
        first = self._count - len(self._fence_gaps)
        for number, gap in enumerate(self._fence_gaps):
            start = number * CODE_LINES
            content = Code(fence, start, min(start + CODE_LINES, len(fence.source)))
            self._done[first + number] = Piece(content, self._base, gap)

    # --- Ends -----------------------------------------------------------------------------------------

    def _finish(self, keep_table: bool = False) -> None:
        """The open piece is complete."""
        kind, self._kind = self._kind, ""
        lines = self._lines
        match kind:
            case "":
                return
            case "fence":
                self._end_fence()
            case "table":
                if not self._sample:
                    self._sample = tuple(lines)
                    self._add(Table(self._sample, self._aligns, self._sample, head=True))
                elif lines:
                    self._add(Table(self._sample, self._aligns, tuple(lines), head=False))
                if not keep_table:
                    self._sample = ()
            case "indented":
                while lines and not lines[-1]:
                    lines.pop()
                fence = Fence(lines, "")
                for start in range(0, len(lines), CODE_LINES):
                    self._add(Code(fence, start, min(start + CODE_LINES, len(lines))))
                    self._gap = False
            case _:
                while lines and not lines[-1]:
                    lines.pop()
                self._add(Prose("\n".join(lines), self._number if kind == "list" else None))
        self._lines, self._base, self._gap = [], 0, False

    def _add(self, content: Content) -> None:
        self._done[self._count] = Piece(content, self._base, self._gap)
        self._count += 1


def _cut_line(line: str) -> tuple[str, str]:
    """A line too long, cut at its last space that fits, else hard."""
    at = line.rfind(" ", 1, LINE_LENGTH)
    return (line[:at], line[at + 1 :]) if at > 0 else (line[:LINE_LENGTH], line[LINE_LENGTH:])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _dedented(line: str, cells: int) -> str:
    """A line without up to `cells` spaces at its start."""
    return line[min(_indent(line), cells) :]


def _cells_of(row: str) -> int:
    return len(split_row(row))


def _align(cell: str) -> str:
    match cell.startswith(":"), cell.endswith(":"):
        case True, True:
            return "center"
        case False, True:
            return "right"
        case _:
            return "left"


def pieces(text: str) -> list[Piece]:
    """The pieces of a whole answer."""
    cutter = Cutter()
    done = cutter.feed(text)
    done.update(cutter.close())
    return [done[number] for number in sorted(done)]
