"""Code in the colour roles of the screens.

A fence is highlighted once, as a whole, and then sliced.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from foldline.tui.blocks.cells import Span, text_of

_WHOLE: Final = 240
"""Lines of a fence that are highlighted together. Of a longer one each part is, after the lines before it:
highlighting takes up to 0.1 ms a line, and no frame may wait for thousands."""
BEFORE: Final = 60
"""Lines before a part that are looked at: so far back may begin what it is inside of."""
_MOST_CHARACTERS: Final = 60_000
"""More stays plain: these are no lines that somebody wrote."""

# The roles have to do: structure in the one accent, literals in `live`, what stands out in `altered`.
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
    lexer = _lexer(language.lower())
    if lexer is None:
        return plain
    result: list[list[Span]] = [[]]
    for token, text in lexer.get_tokens(source):
        style = _role(token)
        first, *rest = text.split("\n")
        if first:
            result[-1].append((first, style))
        result += [[(part, style)] if part else [] for part in rest]
    result.pop()  # after the line end the lexer ensures
    same = list(map(text_of, result)) == list(lines)
    return result if same else plain  # some lexers drop characters they do not like


@cache
def _lexer(language: str) -> Any:
    """What highlights a language; None for an unknown one, for which no plugins are looked for: that would
    take a frame or three."""
    from pygments.lexers import LEXERS, get_lexer_by_name  # type: ignore[import-untyped]

    known = any(language in aliases for _, _, aliases, _, _ in LEXERS.values())
    return get_lexer_by_name(language, stripnl=False, ensurenl=True) if known else None


@cache
def _role(token: object) -> str:
    """The style of a token: that of its nearest ancestor with one."""
    name = str(token).removeprefix("Token.")
    while name and name not in _ROLES:
        name = name.rpartition(".")[0]
    return _ROLES.get(name, "text")
