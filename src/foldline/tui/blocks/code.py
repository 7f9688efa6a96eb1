"""Syntax highlighting with the colour roles of the screens.

A long code block is highlighted in parts, because a line takes up to 0.1 ms.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from foldline.tui.look.cells import Span, text_of

BEFORE: Final = 60
"""Number of lines parsed before each part, because a string or comment may begin there."""
_MOST_CHARACTERS: Final = 60_000
"""Maximum number of characters of code to highlight.

Longer code is usually generated, and is not highlighted.
"""

# Structure is `accent`, literals are `live`, and notable tokens are `altered`.
_ROLES: Final = {
    "Comment": "muted italic",
    "Keyword": "accent",
    "Keyword.Constant": "altered",
    "Literal.String": "live",
    "Literal.String.Doc": "muted",
    "Literal.Number": "altered",
    "Name.Decorator": "compacted",
    "Name.Builtin": "compacted",
    "Name.Tag": "accent",
    "Name.Attribute": "compacted",
    "Name.Exception": "compacted",
    "Operator.Word": "accent",
    "Generic.Deleted": "alert",
    "Generic.Inserted": "live",
    "Generic.Heading": "accent",
    "Generic.Subheading": "compacted",
    "Generic.Prompt": "muted",
    "Generic.Output": "muted",
}


def highlighted_part(
    lines: Sequence[str], start: int, stop: int, language: str
) -> list[list[Span]]:
    """Highlight the lines from `start` up to `stop` of a code block."""
    first = max(start - BEFORE, 0)
    return highlighted(lines[first:stop], language)[start - first :]


def highlighted(lines: Sequence[str], language: str) -> list[list[Span]]:
    """Highlight lines of code.

    If the language is unknown or the code is too long, the lines are returned as plain text.
    """
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
        first, *others = text.split("\n")
        if first:
            result[-1].append((first, style))
        result += [[(part, style)] if part else [] for part in others]
    result.pop()  # the empty line after the final newline, which the lexer adds
    same = list(map(text_of, result)) == list(lines)
    return result if same else plain  # some lexers drop characters


@cache
def _lexer(language: str) -> Any:
    """Return the lexer for a language.

    Returns None if there is no lexer. Only built-in lexers are used, because a search for plugins would delay
    up to three frames.
    """
    from pygments.lexers import LEXERS, get_lexer_by_name  # type: ignore[import-untyped]

    if any(language in aliases for _, _, aliases, _, _ in LEXERS.values()):
        return get_lexer_by_name(language, stripnl=False, ensurenl=True)
    return None


@cache
def _role(token: object) -> str:
    """Return the style of a token type, or of its nearest ancestor that has one."""
    name = str(token).removeprefix("Token.")
    while name and name not in _ROLES:
        name = name.rpartition(".")[0]
    return _ROLES.get(name, "text")
