"""The plain kinds of blocks: text, rows of columns, rules and differences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final, Literal

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


DiffKind = Literal["old", "new", "same", "skip"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: its number in the old file (`old`) or the new one, 0 where nobody knows, and its
    text."""

    kind: DiffKind
    number: int
    content: str


SIGNS: Final[dict[DiffKind, tuple[str, str]]] = {
    "old": ("−", "alert"),
    "new": ("+", "live"),
    "same": (" ", "muted"),
    "skip": ("⋮", "muted"),
}


@dataclass(frozen=True, slots=True, eq=False)
class DiffBlock(Block):
    """A unified diff: `118 − old`, `118 + new`. Long lines go on below their own text."""

    lines: tuple[DiffLine, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        digits = max((len(str(line.number)) for line in self.lines if line.number), default=0)
        strips: list[Strip] = []
        for line in self.lines:
            sign, role = SIGNS[line.kind]
            number = str(line.number or "")
            head = [(f"{number:>{digits}} ", "muted deco"), (f"{sign} ", f"{role} deco")]
            for part in wrap_spans([(line.content, role)], max(width - digits - 3, MIN_WIDTH)):
                strips.append(to_strip([*head, *part], styles))
                head = [(" " * (digits + 3), "deco")]
        return strips

    def estimate(self, width: int) -> int:
        return len(self.lines)

    def text(self) -> str:
        return "\n".join(f"{SIGNS[line.kind][0]} {line.content}" for line in self.lines)


def diff_lines(
    before: Sequence[str], after: Sequence[str], first: int = 1, context: int = 2
) -> tuple[DiffLine, ...]:
    """The lines of a unified diff. `first` is the number of the first line of both; `context` lines around
    each change are shown, what lies between is one `skip` line. Lines must be clean and hold no line end."""
    found: list[DiffLine] = []
    for number, group in enumerate(
        SequenceMatcher(a=before, b=after, autojunk=False).get_grouped_opcodes(context)
    ):
        if number:
            found.append(DiffLine("skip", 0, ""))
        for tag, old, old_end, new, new_end in group:
            if tag == "equal":
                found += [DiffLine("same", first + at, after[at]) for at in range(new, new_end)]
            else:
                found += [DiffLine("old", first + at, before[at]) for at in range(old, old_end)]
                found += [DiffLine("new", first + at, after[at]) for at in range(new, new_end)]
    return tuple(found)


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
