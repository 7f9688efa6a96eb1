"""Writer for Markdown.

The document is meant to be read, or pasted into an issue. Prompts become quotes with a heading, answers stay
unchanged, and each tool call becomes one collapsible line.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from foldline.formats.export import Exported, Original
from foldline.protocol import ImagePart
from foldline.text.numbers import many

from .page import (
    Block,
    CodePiece,
    Fold,
    Label,
    PageEntry,
    ProsePiece,
    image_words,
    label_html,
    page_of,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_TICKS = re.compile("`+")
_SPECIAL = re.compile(r"([\\`*_\[\]<>~&#$])")
_FOLLOWS = "whatfollows"
_LARGEST = 200_000
"""Maximum length of an answer that is parsed, in characters.

Longer answers are put in a code fence.
"""
NOT_SHOWN = "{images} named in the text, but not included."


def escaped(text: str) -> str:
    """Escape text, so that Markdown shows it literally."""
    return _SPECIAL.sub(r"\\\1", text)


def code_span(text: str) -> str:
    ticks = _ticks_around(text, 1)
    if not text or text[0] in "` " or text[-1] in "` ":
        text = f" {text} "
    return f"{ticks}{text}{ticks}"


def fenced(text: str, language: str = "text") -> str:
    fence = _ticks_around(text, 3)
    content = text.rstrip("\n")
    return f"{fence}{language}\n{content}\n{fence}"


def _ticks_around(text: str, least: int) -> str:
    """Return a run of backticks that is longer than any run in the text."""
    runs = map(len, _TICKS.findall(text))
    return "`" * max([least, *(run + 1 for run in runs)])


def quoted(markdown: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in markdown.split("\n"))


def contained(text: str) -> str:
    """Remove HTML and unclosed blocks from Markdown.

    HTML becomes text, and an open fence is closed. If another block is unclosed, the text is put in a code
    fence.
    """
    text = text.strip("\n")
    if len(text) <= _LARGEST:
        without_html = _without_html(text)
        for end in ("", "\n```", "\n~~~"):
            if _is_contained(without_html + end):
                return without_html + end
    return fenced(text)


def _without_html(text: str) -> str:
    """Escape the lines that a parser recognises as HTML."""
    lines = text.split("\n")
    for token in _parser().parse(text):
        if token.map is not None and _is_html(token):
            for number in range(token.map[0], min(token.map[1], len(lines))):
                lines[number] = re.sub(r"\\*<", r"\\<", lines[number])
    return "\n".join(lines)


def _is_html(token: "Token") -> bool:
    children = token.children or ()
    return token.type == "html_block" or any(
        child.type == "html_inline" for child in children
    )


def _is_contained(text: str) -> bool:
    """Return whether a text has no HTML, and all its Markdown blocks are closed."""
    tokens = _parser().parse(f"{text}\n\n{_FOLLOWS}")
    last = tokens[-1]
    is_closed = last.type == "paragraph_close" and last.level == 0
    return (
        is_closed and tokens[-2].content == _FOLLOWS and not any(map(_is_html, tokens))
    )


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table")


def write_markdown(original: Original) -> Exported:
    """Write one document. Images are mentioned, but not included."""
    page = page_of(original)
    images = sum(map(_count_images, page.entries))
    named = many(images, "image is", "images are")
    notes = (NOT_SHOWN.format(images=named),) if images else ()
    folder = [code_span(page.folder)] if page.folder else []
    facts = " · ".join([*folder, *map(escaped, page.facts)])
    head = (f"# {escaped(page.title)}", facts)
    return Exported(f"{_document((*head, *_all(page.entries)))}\n".encode(), notes)


def _document(blocks: Iterable[str]) -> str:
    return "\n\n".join(block.strip("\n") for block in blocks)


def _count_images(block: Block) -> int:
    match block:
        case ImagePart():
            return 1
        case Fold(blocks=blocks) | PageEntry(blocks=blocks):
            return sum(map(_count_images, blocks))
        case _:
            return 0


def _all(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        yield from _markdown(block)


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case PageEntry():
            yield from _all(block.blocks)
        case Label():
            yield _line(block)
        case ProsePiece():
            text = contained(block.text)
            yield quoted(text) if block.is_prompt else text
        case CodePiece():
            yield fenced(block.text, block.language)
        case ImagePart():
            yield f"*{escaped(image_words(block))}*"
        case Fold(is_open=True):
            yield _line(block.label)
            yield from _all(block.blocks)
        case Fold():
            summary = f"{label_html(block.label)}{block.label.state}"
            body = _document(_all(block.blocks))
            yield f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _line(label: Label) -> str:
    words = escaped(label.words)
    time = f" · {label.time}" if label.time else ""
    match label.kind:
        case "prompt":
            return f"## {label.name}{time}{label.state}"
        case "call":
            subject = code_span(label.subject) if label.subject else ""
            line = f"**{escaped(label.name)}** {subject}".rstrip()
            return f"{line} · {words}".removesuffix(" · ") + label.state
        case "alert":
            return f"**✗ {words}**{time}"
        case "info":
            return f"*{words}*"
        case _:
            return f"**{words}**{time}"
