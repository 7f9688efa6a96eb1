"""Writer for HTML.

A session becomes a single page without external resources.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from foldline.formats.export import Exported, Original
from foldline.protocol import ImagePart
from foldline.view.state_signs import STATE_SIGNS

from .page import (
    Block,
    CodePiece,
    Fold,
    Label,
    PageEntry,
    ProsePiece,
    SessionPage,
    image_source,
    image_words,
    label_html,
    page_of,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MOST_CHARACTERS = 60_000
"""Maximum length of highlighted code, in characters. Longer code is only escaped."""
_LARGEST_MARKDOWN = 400_000
"""Maximum length of rendered Markdown, in characters.

Longer Markdown is shown as plain text.
"""
_WEB = re.compile(r"(?:https?|mailto):", re.IGNORECASE)


def write_html(original: Original) -> Exported:
    """Write one page, with all bitmaps embedded."""
    page = page_of(original)
    script = _beside("page.js")
    text = Template(_beside("page.html")).substitute(
        title=escape(page.title),
        folder=f"<code>{escape(page.folder)}</code> · " if page.folder else "",
        facts=escape(" · ".join(page.facts)),
        legend="".join(_legend(page)),
        entries="\n".join(map(_entry, page.entries)),
        style=_beside("page.css"),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return Exported(text.encode())


def _beside(name: str) -> str:
    """Return the text of a file that is next to this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _legend(page: SessionPage) -> Iterator[str]:
    fates = {entry.fate for entry in page.entries}
    for fate, (letter, _, meaning) in STATE_SIGNS.items():
        if letter.strip() and fate in fates:
            yield f'<span title="{fate}: {meaning}"><b>{letter}</b> {fate}</span> '


def _entry(entry: PageEntry) -> str:
    """Return the HTML for an entry, including its gutter."""
    letter, _, meaning = STATE_SIGNS[entry.fate]
    pin = '<span title="pinned">*</span>' if entry.pinned else ""
    anchor = escape(entry.anchor)
    number = f'<a href="#{anchor}">{entry.index}</a>'
    gutter = f'<div class="gutter" title="{entry.fate}: {meaning}">{number}<b>{letter}</b>{pin}</div>'
    body = "".join(map(_block, entry.blocks))
    classes = f"entry {entry.kind} {entry.fate}"
    return f'<div class="{classes}" id="{anchor}">{gutter}<div class="body">{body}</div></div>'


def _block(block: Block) -> str:
    match block:
        case PageEntry():
            return _entry(block)
        case Label():
            return f'<div class="{_classes(block)} bare">{_label(block)}</div>'
        case ProsePiece(is_prompt=True):
            return f'<div class="words">{escape(block.text)}</div>'
        case ProsePiece():
            return f'<div class="text">{markdown(block.text)}</div>'
        case CodePiece():
            return f"<pre>{code(block.text.rstrip(), block.language)}</pre>"
        case ImagePart():
            return _image(block)
        case Fold():
            is_open = " open" if block.is_open else ""
            body = "".join(map(_block, block.blocks))
            summary = f"<summary>{_label(block.label)}</summary>"
            return f'<details class="{_classes(block.label)}"{is_open}>{summary}{body}</details>'


def _classes(label: Label) -> str:
    return f"{label.kind} failed" if label.failed else label.kind


def _label(label: Label) -> str:
    time = f'<span class="time">{label.time}</span>' if label.time else ""
    return time if label.kind == "prompt" else f"{time}{label_html(label)}"


def _image(image: ImagePart) -> str:
    words = escape(image_words(image))
    source = image_source(image)
    shown = f'<img src="{source}" alt="{words}" loading="lazy">' if source else ""
    return f"<figure>{shown}<figcaption>{words}</figcaption></figure>"


# --- code and Markdown ------------------------------------------------------------------------------


def code(text: str, language: str) -> str:
    """Return code as highlighted HTML.

    Code that is too long, or in an unknown language, is only escaped.
    """
    lexer = _lexer(language) if len(text) <= _MOST_CHARACTERS else None
    if lexer is None:
        return escape(text)
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]

    painted: str = highlight(text, lexer, HtmlFormatter(nowrap=True))
    return painted.removesuffix("\n")


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


def markdown(text: str) -> str:
    """Return Markdown as HTML.

    HTML inside the Markdown is escaped. Images and local links are left out.
    """
    if len(text) > _LARGEST_MARKDOWN:
        return f"<pre>{escape(text)}</pre>"
    rendered: str = _parser().render(text)
    return rendered


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    options = {"html": False, "highlight": _highlighted}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.add_render_rule("link_open", _link_open)
    return parser.disable("image")


def _highlighted(text: str, language: str, _: str) -> str:
    return f"<pre>{code(text.rstrip(), language)}</pre>"


def _link_open(renderer: object, tokens: "Sequence[Token]", at: int, *_: object) -> str:
    target = str(tokens[at].attrs.get("href", ""))
    if _WEB.match(target):
        return f'<a href="{escape(target)}" rel="noopener noreferrer nofollow">'
    return f'<a title="{escape(target)}">'
