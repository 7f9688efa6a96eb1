"""Code in the colour roles of the screens, and diffs: ours, and those of agents that number the lines.

A fence is highlighted once, as a whole, and then sliced.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

from textual.strip import Strip

from foldline.context.harmless import clean_code, nothing_hidden
from foldline.tui.blocks.block import MIN_WIDTH, Block
from foldline.tui.blocks.cells import Span, to_strip, wrap_spans
from foldline.tui.blocks.styles import Styles

_WHOLE: Final = 240
"""Lines of a fence that are highlighted together. Of a longer one each part is, after the lines before it:
highlighting takes up to 0.1 ms a line, and no frame may wait for thousands."""
BEFORE: Final = 60
"""Lines before a part that are looked at: so far back may begin what it is inside of."""
_MOST_CHARACTERS: Final = 60_000
"""More stays plain: these are no lines that somebody wrote."""

# Seven roles have to do: structure in the one accent, literals in `live`, what stands out in `altered`.
_ROLES: Final = {
    "Comment": "muted italic",
    "Keyword": "accent",
    "Keyword.Constant": "altered",
    "Literal.String": "live",
    "Literal.String.Doc": "muted",
    "Literal.Number": "altered",
    "Name.Decorator": "folded",
    "Name.Builtin": "folded",
    "Name.Tag": "accent",
    "Name.Attribute": "folded",
    "Name.Exception": "folded",
    "Operator.Word": "accent",
    "Generic.Deleted": "alert",
    "Generic.Inserted": "live",
    "Generic.Heading": "accent",
    "Generic.Subheading": "folded",
    "Generic.Prompt": "muted",
    "Generic.Output": "muted",
}


class Fence:
    """The lines of a code block and its language; highlighted when drawn. It may still be coming."""

    __slots__ = ("_closed", "_lines", "language", "source")

    def __init__(self, language: str) -> None:
        self.source: list[str] = []
        self.language = language
        """As written after the fence; empty: plain."""
        self._closed = False
        self._lines: list[list[Span]] | None = None

    def close(self) -> bool:
        """Nothing comes any more; whether its lines are highlighted together from now on."""
        self._closed = True
        return len(self.source) <= _WHOLE

    def lines(self, start: int, stop: int) -> list[list[Span]]:
        """Some of the lines, each as styled text."""
        if not self._closed or len(self.source) > _WHOLE:
            first = max(start - BEFORE, 0)
            return highlighted(self.source[first:stop], self.language)[start - first :]
        if self._lines is None:
            self._lines = highlighted(self.source, self.language)
        return self._lines[start:stop]


def highlighted(lines: Sequence[str], language: str) -> list[list[Span]]:
    """Code lines as styled text; plain where the language is unknown or the code too long."""
    plain: list[list[Span]] = [[(line, "text")] if line else [] for line in lines]
    source = "\n".join(lines)
    if not language or not lines or len(source) > _MOST_CHARACTERS:
        return plain
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return plain
    styles: dict[object, str] = {}
    result: list[list[Span]] = [[]]
    for token, text in lexer.get_tokens(source):
        style = styles.get(token)
        if style is None:
            style = styles[token] = _role(token)
        first, *rest = text.split("\n")
        if first:
            result[-1].append((first, style))
        result += [[(part, style)] if part else [] for part in rest]
    result.pop()  # after the line end the lexer ensures
    same = len(result) == len(lines) and all(
        "".join(text for text, _ in spans) == line for spans, line in zip(result, lines, strict=True)
    )
    return result if same else plain  # some lexers drop characters they do not like


def _role(token: object) -> str:
    """The style of a token: that of its nearest ancestor with one."""
    parts = str(token).split(".")[1:]
    while parts:
        if (role := _ROLES.get(".".join(parts))) is not None:
            return role
        parts.pop()
    return "text"


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
    """A unified diff: `118 − old`, `118 + new`. Long lines continue below their own text."""

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


_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NUMBERED: Final = re.compile(r"([ +-]) *(\d+)[| ](.*)$")
"""`- 87 old` or `-446|old`: sign, number, text."""


def lines_of_diff(text: str) -> Iterator[DiffLine]:
    """The lines of a diff with their numbers, clean; file heads are left out."""
    lines = [clean_code(line) for line in text.rstrip("\n").split("\n")]
    changes = [line for line in lines if line[:1] in "+-" and not line.startswith(("--- ", "+++ "))]
    if changes and all(_NUMBERED.match(line) for line in changes):
        return _numbered(lines)
    return _counted(lines)


def lines_of_our_diff(text: str) -> Iterator[DiffLine]:
    """The lines of a diff that a tool of ours made and somebody is to approve: nothing in them is hidden, or
    taken for a number."""
    return _counted([nothing_hidden(line) for line in text.rstrip("\n").split("\n")])


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
            yield _line(sign, new, line[1:])
            new += 1
            old += sign != "+"


def _line(sign: str, number: int, content: str) -> DiffLine:
    return DiffLine("old" if sign == "-" else "new" if sign == "+" else "same", number, content)
