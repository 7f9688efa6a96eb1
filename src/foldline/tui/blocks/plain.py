"""Plain kinds of blocks: wrapped text, rows of columns, rules, styled lines, stacks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from textual.strip import Strip

from foldline.tui.blocks.block import MIN_WIDTH, PROSE, Block, LaterStrips
from foldline.tui.blocks.cells import (
    Side,
    Span,
    Spans,
    cut_right,
    estimated_lines,
    shorten,
    text_of,
    to_strip,
    width_of,
    wrap_spans,
)
from foldline.tui.blocks.links import linked
from foldline.tui.blocks.styles import Styles


@dataclass(frozen=True, slots=True, eq=False)
class TextBlock(Block):
    """Wrapped text of one style."""

    body: str
    style: str = "text"
    lead: Spans = ()
    """Stands before the first line and indents the others."""
    right: Spans = ()
    """A remark at the right end of the first line, such as a time."""
    prose: bool = field(default=True, kw_only=True)
    """Whether it is no wider than `PROSE`."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        lead, remark = width_of(self.lead), width_of(self.right)
        inner = self._room(width - lead - (remark + 2 if remark else 0))
        first, *others = wrap_spans(linked(self.text(), self.style), inner)
        first = [*self.lead, *first]
        if remark:
            first += [(" " * max(width - remark - width_of(first), 2), ""), *self.right]
        margin = [(" " * lead, "deco")] if lead else []
        return [to_strip(line, styles) for line in (first, *([*margin, *line] for line in others))]

    def estimate(self, width: int) -> int:
        return estimated_lines(self.body, self._room(width - len(self.lead) - len(self.right)))

    def _room(self, width: int) -> int:
        return max(min(width, PROSE) if self.prose else width, MIN_WIDTH)

    def text(self) -> str:
        return self.body


@dataclass(frozen=True, slots=True)
class Column:
    """A cell at the right end of a row."""

    content: str
    width: int = 0
    """Least width, so that rows line up."""
    style: str = "text"
    align: Side = "right"
    drop: Literal["never", "first", "last"] = "never"
    """What a narrow row gives up: `first` before its main text is shortened much, `last` after it."""
    space: int = 2
    """Cells before it."""

    @property
    def cells(self) -> int:
        return max(self.width, cell_len(self.content)) + self.space

    def spans(self, narrow: bool) -> Iterator[Span]:
        """The cell as styled text. In a `narrow` row nothing stands left: what is short leaves its room to
        the main text."""
        padding = max(self.width - cell_len(self.content), 0)
        left = self.align == "left" and not narrow
        yield " " * (self.space + (0 if left else padding)), ""
        yield self.content, self.style
        if left:
            yield " " * padding, ""


@dataclass(frozen=True, slots=True, eq=False)
class _OpenableBlock(Block):
    """One line, and below it, where it is open, a body."""

    body: Block | None = field(default=None, kw_only=True)
    indent: int = field(default=4, kw_only=True)
    """Cells by which the body is indented."""

    def line(self, width: int) -> list[Span]:
        raise NotImplementedError

    def words(self) -> str:
        """The text of the line."""
        raise NotImplementedError

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        strip = to_strip(self.line(width), styles)
        above = [strip if strip.cell_length <= width else strip.crop(0, width)]
        if self.body is None:
            return above
        margin = to_strip([(" " * self.indent, "deco")], styles)
        above += [Strip.blank(0)] * self.body.gap
        first, below = len(above), self.body.render(max(width - self.indent, MIN_WIDTH), styles)
        return LaterStrips(
            first + len(below),
            lambda at: above[at] if at < first else Strip.join([margin, below[at - first]]),
        )

    def estimate(self, width: int) -> int:
        return 1 if self.body is None else 1 + self.body.gap + self.body.estimate(width - self.indent)

    def text(self) -> str:
        return self.words() if self.body is None else f"{self.words()}\n{self.body.text()}"


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock(_OpenableBlock):
    """A fixed `lead`, a `main` part that shrinks, and columns at the right end."""

    lead: Spans
    main: Spans
    columns: tuple[Column, ...] = ()
    cut: Side = "right"
    """Where `main` is shortened: paths on the left, prose on the right."""
    roomy: int = 36
    least: int = 12
    """Columns that drop `first` (`last`) go where they leave `main` less than `roomy` (`least`) cells: by
    width alone, so that the columns of neighbouring rows stay below each other."""

    def line(self, width: int) -> list[Span]:
        columns = list(self.columns)
        room = width - width_of(self.lead) - sum(column.cells for column in columns)
        for when, enough in (("first", self.roomy), ("last", self.least)):
            for column in [column for column in columns if column.drop == when]:
                if room < enough:
                    columns.remove(column)
                    room += column.cells
        main = shorten(self.main, room, self.cut)
        line = [*self.lead, *main]
        if columns:
            line.append((" " * max(room - width_of(main), 0), ""))
            for column in columns:
                line += column.spans(narrow=len(columns) < len(self.columns))
        return line

    def words(self) -> str:
        row = text_of((*self.lead, *self.main))
        return "  ".join((row, *(column.content for column in self.columns)))


@dataclass(frozen=True, slots=True, eq=False)
class RuleBlock(_OpenableBlock):
    """A rule across the width, and across the gutter unless `wide=False`, with a label."""

    label: str
    style: str = "folded"
    right: Spans = ()
    align: Literal["left", "centre"] = "left"
    lead: str = "─"
    """What stands left of a left-aligned label, such as `▸─` where the rule can be opened."""
    briefs: tuple[str, ...] = ()
    """Shorter labels, each for where the one before has no room; the last one is cut."""
    hint: Spans = ()
    """What keys do here: behind a left-aligned label, where there is room."""
    wide: bool = field(default=True, kw_only=True)

    def line(self, width: int) -> list[Span]:
        remark = width_of(self.right)
        inner = width - (remark + 3 if remark else 0)
        lead = f"{self.lead} " if self.align == "left" else "── "
        room = max(inner - cell_len(lead) - 2, 1)
        labels = (self.label, *self.briefs)
        hint = self.hint if cell_len(labels[-1]) + width_of(self.hint) <= room else ()
        room -= width_of(hint)
        label = next((each for each in labels if cell_len(each) <= room), labels[-1])
        label = cut_right(label, room) if label else ""
        free = max(inner - cell_len(label) - 2, 0)
        if not label:
            line = "─" * inner
        elif self.align == "centre":
            line = f"{'─' * (free // 2)} {label} {'─' * (free - free // 2)}"
        else:
            line = f"{lead}{label}"
        behind = f" {'─' * (inner - cell_len(line) - width_of(hint) - 1)}" if cell_len(line) < inner else ""
        spans = [(line, self.style), *hint, (behind, self.style)] if hint else [(line + behind, self.style)]
        return [*spans, *((("   ", ""), *self.right) if remark else ())]

    @property
    def opens(self) -> bool:
        """Whether it says of itself that it can be opened, or closed."""
        return self.lead != "─"

    def words(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, eq=False)
class LinesBlock(Block):
    """Lines of clean styled text, each wrapped."""

    lines: tuple[Spans, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        inner = max(width, MIN_WIDTH)
        lines = ([each for span in line for each in linked(*span)] for line in self.lines)
        return [to_strip(part, styles) for line in lines for part in wrap_spans(line, inner)]

    def estimate(self, width: int) -> int:
        return sum(estimated_lines(text_of(line), width) for line in self.lines)

    def text(self) -> str:
        return "\n".join(map(text_of, self.lines))


@dataclass(frozen=True, slots=True, eq=False)
class LaterBlock(Block):
    """A block made when it is drawn, and about how many lines it has."""

    make: Callable[[], Block]
    lines: int

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        return self.make().render(width, styles)

    def estimate(self, width: int) -> int:
        return self.lines

    def text(self) -> str:
        return self.make().text()


@dataclass(frozen=True, slots=True, eq=False)
class StackBlock(Block):
    """Its parts in order, each but the first with its gap above it."""

    parts: tuple[Block, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        strips: list[Strip] = []
        for at, part in enumerate(self.parts):
            strips += [Strip.blank(0)] * (part.gap if at else 0)
            strips += part.render(width, styles)
        return strips

    def estimate(self, width: int) -> int:
        return sum(part.estimate(width) + (part.gap if at else 0) for at, part in enumerate(self.parts))

    def text(self) -> str:
        return "\n".join(filter(None, (part.text() for part in self.parts)))
