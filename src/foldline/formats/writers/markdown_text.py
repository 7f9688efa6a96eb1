"""Foreign text as part of a Markdown document: it can be anything, and stays where it is put."""

import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TICKS: Final = re.compile("`+")
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>~&#$])")
_FOLLOWS: Final = "whatfollows"
_ROUNDS: Final = 5
_LARGEST: Final = 200_000
"""Characters; a longer answer is shown in a fence, unparsed."""


def escaped(text: str) -> str:
    """Part of a line, as text that means nothing in Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def code_span(text: str) -> str:
    """One line of text as code."""
    ticks = "`" * (max([0, *map(len, _TICKS.findall(text))]) + 1)
    edge = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") else ""
    return f"{ticks}{edge}{text}{edge}{ticks}"


def fenced(text: str, language: str = "text") -> str:
    """A code block around any text: its fence is longer than any in it."""
    fence = "`" * max(3, max([0, *map(len, _TICKS.findall(text))]) + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def quoted(markdown: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in markdown.split("\n"))


def contained(text: str) -> str:
    """Markdown as somebody wrote it, but without HTML, and with every block closed at its end.

    HTML becomes text; an open fence is closed. What cannot be mended so is shown as code. The parser itself
    is asked, before and after.
    """
    text = text.strip("\n")
    if len(text) > _LARGEST:
        return fenced(text)
    for _ in range(_ROUNDS):
        lines = _html_lines(text)
        if lines:
            text = _without_tags(text, lines)
            continue
        if _is_closed(text):
            return text
        closing = _closing(text)
        if closing is None:
            break
        text = f"{text}\n{closing}"
    return fenced(text)


def _html_lines(text: str) -> set[int]:
    """The lines that a parser might find HTML in."""
    lines: set[int] = set()
    for token in _parser().parse(text):
        inline = any(child.type == "html_inline" for child in token.children or ())
        if token.map is not None and (token.type == "html_block" or inline):
            lines.update(range(*token.map))
    return lines


def _without_tags(text: str, numbers: set[int]) -> str:
    lines = text.split("\n")
    for number in numbers:
        if number < len(lines):
            lines[number] = re.sub(r"\\*<", r"\\<", lines[number])
    return "\n".join(lines)


def _is_closed(text: str) -> bool:
    """Whether a paragraph after this text is a paragraph of the document."""
    tokens = _parser().parse(f"{text}\n\n{_FOLLOWS}")
    last = [token for token in tokens if token.level == 0][-1:]
    return bool(last) and last[0].type == "paragraph_close" and tokens[-2].content == _FOLLOWS


def _closing(text: str) -> str | None:
    """What ends the fence that the text leaves open."""
    fences = [token for token in _parser().parse(text) if token.type == "fence"]
    return fences[-1].markup if fences else None


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table")
