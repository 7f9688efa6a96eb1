"""Markdown drawn as lines of styled text: paragraphs, headings, lists, quotes, tables. No HTML."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, chop_spans, width_of, wrap_spans
from foldline.tui.blocks.code import highlighted

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Line = list[Span]

_LEAST: Final = 8
"""Deeper nesting than fits is drawn at this width and cropped."""
_BULLETS: Final = "•◦▪"
_BETWEEN: Final = 2
"""Cells between the columns of a table."""


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Reference definitions would vanish from the screen; raw HTML stays text.
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["reference"])


def prose_lines(source: str, width: int, *, start: int | None = None, ticks: bool = False) -> list[Line]:
    """Markdown as lines. `start` overrides the number of the first item where the source is an ordered list;
    with `ticks`, inline code keeps its backticks (no colour to tell it by)."""
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(_parser().parse(source))
    return _Drawer(ticks, start).blocks(root.children, max(width, _LEAST), tight=False)


def inline_spans(source: str, style: str = "text", *, ticks: bool = False) -> list[Span]:
    """One line of inline Markdown, such as a table's cell, as styled text."""
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(_parser().parseInline(source))
    drawer = _Drawer(ticks, None)
    return [span for node in root.children for span in drawer.inline(node, style)]


def code_lines(lines: Sequence[Sequence[Span]], width: int) -> list[Line]:
    """Code lines behind a bar; what is too long goes on below."""
    bar: Span = ("▏ ", "muted deco")
    return [[bar, *part] for line in lines for part in chop_spans(line, max(width - 2, _LEAST))]


def table_widths(rows: Sequence[Sequence[Sequence[Span]]]) -> list[int]:
    """The width each column would like to have."""
    columns = max((len(row) for row in rows), default=0)
    return [max((width_of(row[at]) for row in rows if at < len(row)), default=0) for at in range(columns)]


def table_lines(
    rows: Sequence[Sequence[Sequence[Span]]],
    wanted: Sequence[int],
    aligns: Sequence[str],
    width: int,
    head: bool,
) -> list[Line]:
    """Rows of a table; with `head` the first is set off by rules. Columns too wide are wrapped."""
    widths = _fitted(wanted, width - _BETWEEN * (len(wanted) - 1))
    lines: list[Line] = []
    for number, row in enumerate(rows):
        cells = [wrap_spans(list(row[at]) if at < len(row) else [], wide) for at, wide in enumerate(widths)]
        for at in range(max((len(cell) for cell in cells), default=0)):
            line: Line = []
            for column, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
                part = cell[at] if at < len(cell) else []
                free = max(wide - width_of(part), 0)
                align = aligns[column] if column < len(aligns) else "left"
                left = free if align == "right" else free // 2 if align == "center" else 0
                between = _BETWEEN if column else 0
                line += [(" " * (between + left), ""), *part, (" " * (free - left), "")]
            lines.append(line)
        if head and number == 0:
            rule = (" " * _BETWEEN).join("─" * wide for wide in widths)
            lines.append([(rule, "muted deco")])
    return lines


def _fitted(wanted: Sequence[int], width: int) -> list[int]:
    """Column widths in at most `width` cells: the widest give way first, none below 3."""
    wanted = [max(wide, 1) for wide in wanted]
    if sum(wanted) <= width:
        return wanted
    low, high = 3, max(wanted)
    while low < high:  # the largest cap with which all fit
        middle = (low + high + 1) // 2
        if sum(min(wide, middle) for wide in wanted) <= width:
            low = middle
        else:
            high = middle - 1
    widths = [min(wide, low) for wide in wanted]
    spare = width - sum(widths)
    for at, wide in enumerate(wanted):
        if spare > 0 and wide > widths[at]:
            widths[at] += 1
            spare -= 1
    return widths


class _Drawer:
    """Draws parsed Markdown; `number` is taken by the first ordered list."""

    def __init__(self, ticks: bool, number: int | None) -> None:
        self._ticks = ticks
        self._number = number

    def blocks(
        self, nodes: Sequence["SyntaxTreeNode"], width: int, tight: bool, depth: int = 0
    ) -> list[Line]:
        lines: list[Line] = []
        for node in nodes:
            if lines and not tight:
                lines.append([])
            lines += self._block(node, max(width, _LEAST), depth)
        return lines

    def _block(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Line]:
        match node.type:
            case "paragraph":
                return self._wrapped(node, "text", width)
            case "heading":
                return self._wrapped(node, "bold underline" if node.tag == "h1" else "bold", width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width, depth)
            case "blockquote":
                inner = self.blocks(node.children, width - 2, tight=False, depth=depth)
                return [
                    [("▎ ", "muted deco"), *((text, f"{style} muted") for text, style in line)]
                    for line in inner
                ]
            case "fence" | "code_block":
                source = [clean_line(line) for line in node.content.removesuffix("\n").split("\n")]
                return code_lines(highlighted(source, node.info.split(" ")[0]), width)
            case "hr":
                return [[("─" * width, "muted deco")]]
            case "table":
                return self._table(node, width)
            case _:
                return [[(clean_line(line), "text")] for line in node.content.split("\n")]

    def _wrapped(self, node: "SyntaxTreeNode", style: str, width: int) -> list[Line]:
        return wrap_spans([span for child in node.children for span in self.inline(child, style)], width)

    def _list(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Line]:
        tight = all(
            child.hidden for item in node.children for child in item.children if child.type == "paragraph"
        )
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        if number is not None and self._number is not None:
            number, self._number = self._number, None
        signs = [
            f"{_BULLETS[min(depth, 2)]} " if number is None else f"{number + at}. "
            for at in range(len(node.children))
        ]
        wide = max(map(len, signs), default=0)
        lines: list[Line] = []
        for sign, item in zip(signs, node.children, strict=True):
            if lines and not tight:
                lines.append([])
            inner = self._item(item.children, width - wide, tight, depth + 1) or [[]]
            lines += [
                [(f"{sign:>{wide}}", "muted") if at == 0 else (" " * wide, "deco"), *line]
                if line or at == 0
                else []
                for at, line in enumerate(inner)
            ]
        return lines

    def _item(self, nodes: Sequence["SyntaxTreeNode"], width: int, tight: bool, depth: int) -> list[Line]:
        """The inside of a list item; a nested list follows its text without a gap, even in a loose list."""
        lines: list[Line] = []
        for node in nodes:
            if lines and not tight and not node.type.endswith("_list"):
                lines.append([])
            lines += self._block(node, max(width, _LEAST), depth)
        return lines

    def _table(self, node: "SyntaxTreeNode", width: int) -> list[Line]:
        rows: list[list[list[Span]]] = []
        aligns: list[str] = []
        for part in node.children:
            for row in part.children:
                style = "bold" if part.type == "thead" else "text"
                rows.append(
                    [
                        [span for child in cell.children for span in self.inline(child, style)]
                        for cell in row.children
                    ]
                )
                aligns = aligns or [
                    str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in row.children
                ]
        return table_lines(rows, table_widths(rows), aligns, width, head=True)

    def inline(self, node: "SyntaxTreeNode", style: str) -> list[Span]:
        """Inline Markdown as styled text; `\\n` is a hard break."""

        def inside(added: str) -> list[Span]:
            inner = f"{style} {added}".strip()
            return [span for child in node.children for span in self.inline(child, inner)]

        match node.type:
            case "inline":
                return inside("")
            case "strong":
                return inside("bold")
            case "em":
                return inside("italic")
            case "s":
                return inside("strike")
            case "link":
                spans = inside("underline")
                target = clean_line(str(node.attrs.get("href", "")))
                shown = "".join(text for text, _ in spans)
                return spans if target in (shown, f"mailto:{shown}") else [*spans, (f" ({target})", "muted")]
            case "image":
                return [
                    (
                        f"[image: {clean_line(node.content) or clean_line(str(node.attrs.get('src', '')))}]",
                        "muted",
                    )
                ]
            case "code_inline":
                code = clean_line(node.content)
                return [(f"`{code}`" if self._ticks else code, f"{style} accent")]
            case "softbreak":
                return [(" ", style)]
            case "hardbreak":
                return [("\n", style)]
            case _:
                # Entities such as &#x202e; make characters that were not in the source.
                return [(clean_line(node.content), style)] if node.content else []
