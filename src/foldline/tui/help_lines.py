"""The lines of the help: parts of groups of rows, in columns where there is the width. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from foldline.tui.blocks.cells import Span, Spans, crop, width_of, wrap_spans

Line = list[Span]

COLUMN = 70
"""Cells from which a column of help is good to read."""
_BETWEEN = 3
_WIDEST_KEYS = 26
"""Cells of the column of keys; longer ones stand on a line of their own."""


@dataclass(frozen=True, slots=True)
class HelpRow:
    """A key or slash command, and what it does."""

    keys: str
    text: str
    works: bool = True
    """Whether it does anything now."""


@dataclass(frozen=True, slots=True)
class HelpGroup:
    """Rows that belong together."""

    title: str
    rows: tuple[HelpRow, ...]


@dataclass(frozen=True, slots=True)
class HelpPart:
    """The keys of one screen, or what works everywhere."""

    title: str
    """Nothing where it is the first, whose title the box has."""
    groups: tuple[HelpGroup, ...]

    @property
    def count(self) -> int:
        return sum(len(group.rows) for group in self.groups)


def found(parts: Sequence[HelpPart], typed: str) -> tuple[HelpPart, ...]:
    """What holds every word typed, in keys, text or the title of its group."""
    words = typed.lower().split()
    if not words:
        return tuple(parts)

    def holds(group: HelpGroup, row: HelpRow) -> bool:
        said = f"{row.keys} {row.text} {group.title}".lower()
        return all(word in said for word in words)

    kept = (
        replace(
            part,
            groups=tuple(
                HelpGroup(group.title, rows)
                for group in part.groups
                if (rows := tuple(row for row in group.rows if holds(group, row)))
            ),
        )
        for part in parts
    )
    return tuple(part for part in kept if part.groups)


def help_lines(parts: Sequence[HelpPart], width: int) -> list[Line]:
    """All lines, each of exactly `width` cells."""
    columns = max(width // COLUMN, 1)
    inner = (width - _BETWEEN * (columns - 1)) // columns
    lines: list[Line] = []
    for part in parts:
        lines.append([])  # below the field, and between parts
        if part.title:
            lines.append([(part.title, "text bold")])
        keys = _keys_column(part)
        blocks = [block for group in part.groups for block in _blocks(group, keys, inner)]
        lines += _side_by_side(_in_columns(blocks, columns), inner)
    return [crop(line, width) for line in lines]


def _keys_column(part: HelpPart) -> int:
    widths = [width_of([(row.keys, "")]) for group in part.groups for row in group.rows]
    return min(max((width for width in widths if width <= _WIDEST_KEYS), default=0), _WIDEST_KEYS) + 2


def _blocks(group: HelpGroup, keys: int, width: int) -> Iterator[list[Line]]:
    """What stays together in a column: a group with its title, else each row."""
    rows = [list(_row_lines(row, keys, width)) for row in group.rows]
    if group.title:
        rule = [(f"── {group.title} ", "muted"), ("─" * max(width - len(group.title) - 4, 0), "muted")]
        yield [rule, *(line for row in rows for line in row)]
    else:
        yield from rows


def _row_lines(row: HelpRow, keys: int, width: int) -> Iterator[Line]:
    own = width_of([(row.keys, "")])
    text: Spans = ((row.text, "text" if row.works else "muted"),)
    if not row.works:
        text = (*text, (" Not now.", "muted"))
    lead: Span = (row.keys, "accent" if row.works else "muted")
    if own > keys - 2:
        yield [(" ", ""), lead]
        lead, own = ("", ""), 0
    for at, line in enumerate(wrap_spans(list(text), max(width - keys - 1, 8))):
        first: Line = [(" ", ""), lead, (" " * (keys - own), "")]
        yield [*(first if not at else [(" " * (keys + 1), "")]), *line]


def _in_columns(blocks: Sequence[list[Line]], columns: int) -> list[list[Line]]:
    """The blocks one below the other, in as many columns of about the same height; none is torn apart."""
    least = max((len(block) for block in blocks), default=0)
    total = sum(len(block) for block in blocks)
    height = max(least, -(-total // columns))
    while True:
        placed: list[list[Line]] = [[]]
        for block in blocks:
            if placed[-1] and len(placed[-1]) + len(block) > height:
                placed.append([])
            placed[-1] += block
        if len(placed) <= columns:
            return placed
        height += 1


def _side_by_side(columns: Sequence[list[Line]], width: int) -> Iterator[Line]:
    for number in range(max(map(len, columns), default=0)):
        line: Line = []
        for at, column in enumerate(columns):
            if at:
                line.append((" " * _BETWEEN, ""))
            line += crop(column[number] if number < len(column) else [], width)
        yield line
