"""Simple blocks: wrapped text, rows with columns, rules and stacks of blocks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from textual.strip import Strip

from foldline.tui.blocks.block import MIN_WIDTH, PROSE, Block, LaterStrips
from foldline.tui.look.cells import (
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
from foldline.tui.look.links import linked
from foldline.tui.look.styles import Styles


@dataclass(frozen=True, slots=True, eq=False)
class TextBlock(Block):
    """Wrapped text in a single style."""

    body: str
    style: str = "text"
    lead: Spans = ()
    """Prefix of the first line. Further lines are indented by the width of the prefix."""
    right: Spans = ()
    """Text on the right of the first line, such as the time."""
    prose: bool = field(default=True, kw_only=True)
    """Whether lines are limited to a width of `PROSE` cells."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        lead = width_of(self.lead)
        remark = width_of(self.right)
        inner = self._room(width - lead - (remark + 2 if remark else 0))
        first, *others = wrap_spans(linked(self.text(), self.style), inner)
        first = [*self.lead, *first]
        if remark:
            first += [(" " * max(width - remark - width_of(first), 2), ""), *self.right]
        margin = [(" " * lead, "deco")] if lead else []
        return [
            to_strip(line, styles)
            for line in (first, *([*margin, *line] for line in others))
        ]

    def estimate(self, width: int) -> int:
        return estimated_lines(
            self.body, self._room(width - len(self.lead) - len(self.right))
        )

    def _room(self, width: int) -> int:
        return max(min(width, PROSE) if self.prose else width, MIN_WIDTH)

    def text(self) -> str:
        return self.body


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A cell on the right of a row."""

    content: str
    width: int = 0
    """Minimum width in cells, so that the cells of several rows line up."""
    style: str = "text"
    align: Side = "right"
    drop: Literal["never", "first", "last"] = "never"
    """When the cell is dropped from a narrow row.

    `first`: before the main text becomes short; `last`: only once the main text is already short.
    """
    space: int = 2
    """Number of blank cells before the cell."""

    @property
    def cells(self) -> int:
        return max(self.width, cell_len(self.content)) + self.space

    def spans(self, narrow: bool) -> Iterator[Span]:
        """Yield the cell as styled text.

        In a `narrow` row, the text is right-aligned, to leave more room for the main text.
        """
        space = " " * self.space
        padding = " " * max(self.width - cell_len(self.content), 0)
        if self.align == "left" and not narrow:
            yield from ((space, ""), (self.content, self.style), (padding, ""))
        else:
            yield from ((space + padding, ""), (self.content, self.style))


@dataclass(frozen=True, slots=True, eq=False)
class _OpenableBlock(Block):
    """A line that, if the block is expanded, has a body below it."""

    body: Block | None = field(default=None, kw_only=True)
    indent: int = field(default=4, kw_only=True)
    """Indent of the body, in cells."""

    def line(self, width: int) -> list[Span]:
        raise NotImplementedError

    def words(self) -> str:
        """Return the text of the line."""
        raise NotImplementedError

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        strip = to_strip(self.line(width), styles)
        above = [strip if strip.cell_length <= width else strip.crop(0, width)]
        if self.body is None:
            return above
        margin = to_strip([(" " * self.indent, "deco")], styles)
        above += [Strip.blank(0)] * self.body.gap
        first = len(above)
        below = self.body.render(max(width - self.indent, MIN_WIDTH), styles)
        return LaterStrips(
            first + len(below),
            lambda at: (
                above[at] if at < first else Strip.join([margin, below[at - first]])
            ),
        )

    def estimate(self, width: int) -> int:
        return (
            1
            if self.body is None
            else 1 + self.body.gap + self.body.estimate(width - self.indent)
        )

    def text(self) -> str:
        return (
            self.words() if self.body is None else f"{self.words()}\n{self.body.text()}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock(_OpenableBlock):
    """A row with a fixed `lead`, a `main` part that can shrink, and columns on the right."""

    lead: Spans
    main: Spans
    columns: tuple[RowColumn, ...] = ()
    cut: Side = "right"
    """The end at which `main` is shortened: left for paths, right for prose."""
    roomy: int = 36
    least: int = 12
    """Width of `main`, in cells, below which columns are dropped.

    Columns with drop=`first` are dropped below `roomy`, those with drop=`last` below `least`. The available
    width decides, not the length of `main`, so that the columns of all rows line up.
    """

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
    """A horizontal rule with a label.

    The rule spans the full width, including the gutter unless `wide=False`.
    """

    label: str
    style: str = "compacted"
    right: Spans = ()
    align: Literal["left", "centre"] = "left"
    lead: str = "─"
    """Prefix of a left-aligned label, such as `▸─` if the rule can be expanded."""
    briefs: tuple[str, ...] = ()
    """Shorter labels for narrow screens. If necessary, the last label is shortened further."""
    hint: Spans = ()
    """Key hints shown after a left-aligned label if there is room."""
    wide: bool = field(default=True, kw_only=True)

    def line(self, width: int) -> list[Span]:
        remark = width_of(self.right)
        inner = width - (remark + 3 if remark else 0)
        lead = f"{self.lead} " if self.align == "left" else "── "
        room = max(inner - cell_len(lead) - 2, 1)
        labels = (self.label, *self.briefs)
        hint = self.hint if cell_len(labels[-1]) + width_of(self.hint) <= room else ()
        room -= width_of(hint)
        label = next((label for label in labels if cell_len(label) <= room), labels[-1])
        label = cut_right(label, room) if label else ""
        free = max(inner - cell_len(label) - 2, 0)
        if not label:
            line = "─" * inner
        elif self.align == "centre":
            line = f"{'─' * (free // 2)} {label} {'─' * (free - free // 2)}"
        else:
            line = f"{lead}{label}"
        stroke = ""
        if cell_len(line) < inner:
            stroke = f" {'─' * (inner - cell_len(line) - width_of(hint) - 1)}"
        spans: list[Span] = [(line + stroke, self.style)]
        if hint:
            spans = [(line, self.style), *hint, (stroke, self.style)]
        if remark:
            spans += [("   ", ""), *self.right]
        return spans

    def words(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, eq=False)
class LinesBlock(Block):
    """Wrapped lines of sanitised, styled text."""

    lines: tuple[Spans, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        inner = max(width, MIN_WIDTH)
        strips: list[Strip] = []
        for line in self.lines:
            with_links = [part for span in line for part in linked(*span)]
            strips += [to_strip(part, styles) for part in wrap_spans(with_links, inner)]
        return strips

    def estimate(self, width: int) -> int:
        return sum(estimated_lines(text_of(line), width) for line in self.lines)

    def text(self) -> str:
        return "\n".join(map(text_of, self.lines))


@dataclass(frozen=True, slots=True, eq=False)
class LaterBlock(Block):
    """A block whose content is created when it is drawn."""

    make: Callable[[], Block]
    lines: int
    """Estimated number of lines."""

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        return self.make().render(width, styles)

    def estimate(self, width: int) -> int:
        return self.lines

    def text(self) -> str:
        return self.make().text()


@dataclass(frozen=True, slots=True, eq=False)
class StackBlock(Block):
    """Several blocks, one below the other, with their gaps.

    The gap of the first block is ignored.
    """

    parts: tuple[Block, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        strips: list[Strip] = []
        for at, part in enumerate(self.parts):
            strips += [Strip.blank(0)] * (part.gap if at else 0)
            strips += part.render(width, styles)
        return strips

    def estimate(self, width: int) -> int:
        return sum(
            part.estimate(width) + (part.gap if at else 0)
            for at, part in enumerate(self.parts)
        )

    def text(self) -> str:
        return "\n".join(filter(None, (part.text() for part in self.parts)))
