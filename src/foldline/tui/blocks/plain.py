"""The plain kinds of blocks: text, rows of columns, rules and differences."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from textual.strip import Strip

from foldline.tui.blocks.block import MIN_WIDTH, Block
from foldline.tui.blocks.cells import (
    Span,
    Spans,
    cut_left,
    cut_right,
    estimated_lines,
    slice_spans,
    to_strip,
    width_of,
    wrap_spans,
)
from foldline.tui.blocks.styles import Styles


@dataclass(frozen=True, slots=True, eq=False)
class TextBlock(Block):
    """Plain wrapped text. `lead` stands before the first line and indents the others; `right` is a
    right-aligned remark on the first line, such as a time."""

    body: str
    style: str = "text"
    lead: Spans = ()
    right: Spans = ()

    def render(self, width: int, styles: Styles) -> list[Strip]:
        lead = width_of(self.lead)
        remark = width_of(self.right)
        inner = max(width - lead - (remark + 2 if remark else 0), MIN_WIDTH)
        strips: list[Strip] = []
        for number, line in enumerate(wrap_spans([(self.body, self.style)], inner)):
            if number == 0:
                line = [*self.lead, *line]
                if remark:
                    line += [(" " * max(width - remark - width_of(line), 2), ""), *self.right]
            elif lead:
                line = [(" " * lead, "deco"), *line]
            strips.append(to_strip(line, styles))
        return strips

    def estimate(self, width: int) -> int:
        return estimated_lines(self.body, width - len(self.lead) - len(self.right))

    def text(self) -> str:
        return self.body


@dataclass(frozen=True, slots=True)
class Column:
    """A cell at the right end of a row."""

    content: str
    width: int = 0
    """Least width, so that rows line up."""
    style: str = "text"
    align: Literal["left", "right"] = "right"
    drop: Literal["never", "first", "last"] = "never"
    """What a narrow row gives up: `first` before its main text is shortened much, `last` after it."""
    space: int = 2
    """Cells before it."""

    @property
    def cells(self) -> int:
        return max(self.width, cell_len(self.content)) + self.space

    def spans(self, narrow: bool = False) -> Iterator[Span]:
        """The cell as styled text. In a `narrow` row nothing stands left: what is short leaves its room to
        the main text."""
        padding = max(self.width - cell_len(self.content), 0)
        left = self.align == "left" and not narrow
        yield " " * (self.space + (0 if left else padding)), ""
        yield self.content, self.style
        if left:
            yield " " * padding, ""


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock(Block):
    """One line: a fixed `lead`, a `main` part that shrinks, columns at the right end; and, where it is
    open, a `body` below it, indented by `indent`."""

    lead: Spans
    main: Spans
    columns: tuple[Column, ...] = ()
    cut: Literal["left", "right"] = "right"
    """Where `main` is shortened: paths on the left, prose on the right."""
    body: Block | None = None
    indent: int = 4
    roomy: int = 36
    least: int = 12
    """Columns that drop `first` (`last`) go where they leave `main` less than `roomy` (`least`) cells: by
    width alone, so that the columns of neighbouring rows stay below each other."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        columns = list(self.columns)

        def room() -> int:
            return width - width_of(self.lead) - sum(column.cells for column in columns)

        for when, enough in (("first", self.roomy), ("last", self.least)):
            for column in [column for column in columns if column.drop == when]:
                if room() < enough:
                    columns.remove(column)
        main = _shortened(self.main, room(), self.cut)
        line: list[Span] = [*self.lead, *main]
        if columns:
            line.append((" " * max(room() - width_of(main), 0), ""))
            for column in columns:
                line += column.spans(narrow=len(columns) < len(self.columns))
        return [_cropped(to_strip(line, styles), width), *_below(self.body, self.indent, width, styles)]

    def estimate(self, width: int) -> int:
        return 1 if self.body is None else 1 + self.body.gap + self.body.estimate(width - self.indent)

    def text(self) -> str:
        row = "".join(text for text, _ in (*self.lead, *self.main))
        row = "  ".join((row, *(column.content for column in self.columns)))
        return row if self.body is None else f"{row}\n{self.body.text()}"


@dataclass(frozen=True, slots=True, eq=False)
class RuleBlock(Block):
    """A rule across the width with a label: compactions, rewinds, section heads. Where it is open, `body`
    stands below it. A rule is drawn across the gutter unless `wide=False`."""

    label: str
    style: str = "folded"
    right: Spans = ()
    align: Literal["left", "centre"] = "left"
    lead: str = "─"
    """What stands left of a left-aligned label, such as `▸─` where the rule can be opened."""
    body: Block | None = None
    indent: int = 4
    brief: str = ""
    """A shorter label, for where the whole one has no room; empty: the whole one is cut."""
    wide: bool = field(default=True, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        remark = width_of(self.right)
        inner = width - (remark + 3 if remark else 0)
        lead = f"{self.lead} " if self.align == "left" else "── "
        room = max(inner - cell_len(lead) - 2, 1)
        label = self.label if cell_len(self.label) <= room or not self.brief else self.brief
        label = cut_right(label, room) if label else ""
        free = max(inner - cell_len(label) - 2, 0)
        if not label:
            line = "─" * inner
        elif self.align == "centre":
            line = f"{'─' * (free // 2)} {label} {'─' * (free - free // 2)}"
        else:
            line = f"{lead}{label} "
            line += "─" * max(inner - cell_len(line), 0)
        spans = [(line, self.style)]
        if remark:
            spans += [("   ", ""), *self.right]
        return [_cropped(to_strip(spans, styles), width), *_below(self.body, self.indent, width, styles)]

    def estimate(self, width: int) -> int:
        return 1 if self.body is None else 1 + self.body.gap + self.body.estimate(width - self.indent)

    def text(self) -> str:
        return self.label if self.body is None else f"{self.label}\n{self.body.text()}"


@dataclass(frozen=True, slots=True, eq=False)
class LinesBlock(Block):
    """Lines of styled text, one below the other; what is too long is wrapped. Their text must be clean."""

    lines: tuple[Spans, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        inner = max(width, MIN_WIDTH)
        return [to_strip(part, styles) for line in self.lines for part in wrap_spans(line, inner)]

    def estimate(self, width: int) -> int:
        return sum(1 + sum(len(text) for text, _ in line) // max(width, MIN_WIDTH) for line in self.lines)

    def text(self) -> str:
        return "\n".join("".join(text for text, _ in line) for line in self.lines)


@dataclass(frozen=True, slots=True, eq=False)
class LaterBlock(Block):
    """A block that holds nothing but the way to make another, and about how many lines that has."""

    make: Callable[[], Block]
    lines: int

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return self.make().render(width, styles)

    def estimate(self, width: int) -> int:
        return self.lines

    def text(self) -> str:
        return self.make().text()


@dataclass(frozen=True, slots=True, eq=False)
class StackBlock(Block):
    """Its parts in order, each with its gap above it; the gap of the first is the stack's own business."""

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
        return "\n".join(part.text() for part in self.parts)


def _shortened(spans: Spans, width: int, cut: Literal["left", "right"]) -> list[Span]:
    """Styled text on one line in at most `width` cells."""
    text = "".join(text for text, _ in spans)
    if cell_len(text) <= width:
        return list(spans)
    if not spans:
        return []
    if cut == "right":
        kept = cut_right(text, width)
        return [*slice_spans(spans, 0, len(kept) - 1), ("…", spans[-1][1])] if kept else []
    kept = cut_left(text, width)
    return [("…", spans[0][1]), *slice_spans(spans, len(text) - len(kept) + 1, len(text))] if kept else []


def _cropped(strip: Strip, width: int) -> Strip:
    return strip if strip.cell_length <= width else strip.crop(0, width)


def _below(body: Block | None, indent: int, width: int, styles: Styles) -> Iterator[Strip]:
    """The lines of an opened body, indented."""
    if body is None:
        return
    margin = to_strip([(" " * indent, "deco")], styles)
    for _ in range(body.gap):
        yield Strip.blank(0)
    for strip in body.render(max(width - indent, MIN_WIDTH), styles):
        yield Strip.join([margin, strip])
