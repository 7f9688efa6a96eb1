"""A session as one HTML page that needs nothing else: no network, and no script to be read.

Its policy forbids everything but its own styles, pictures in the page, and the one script that it names by
digest. Everything foreign is text (`html_text`).
"""

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import assert_never

from foldline.context.view import FateKind
from foldline.protocol import ImagePart, TextPart, ThinkingPart

from ..writing import Exported, Original
from .html_text import Painter, lines_of_diff, plain
from .page import (
    Folded,
    Item,
    Marked,
    Page,
    Place,
    Said,
    Used,
    first_line,
    image_source,
    image_words,
    page_of,
)

_FATES: dict[FateKind, tuple[str, str]] = {
    "live": ("L", "live: the next request holds it verbatim"),
    "clipped": ("C", "clipped: the next request holds a part of it"),
    "hidden": ("H", "hidden: the next request holds a stub of it"),
    "summarised": ("S", "summarised: the next request holds it only through a summary"),
    "truncated": ("T", "truncated: left out of the next request"),
    "reverted": ("R", "reverted: taken back by a rewind"),
    "cleared": ("X", "cleared: taken out by a clear"),
    "dropped": ("D", "dropped: taken out by the user"),
    "aside": ("", "never meant for the model"),
}
_SHORT_DIFF = 60
_ALWAYS_OPEN = 3
"""Lines of an output that need not be opened."""


def write_html(original: Original) -> Exported:
    """One page. Pictures are in it; those that are no pictures of pixels are named instead."""
    page = page_of(original)
    text = "\n".join(_document(page))
    name = f"{original.header.id}.html"
    return Exported(files={name: text.encode()}, main=name)


def _document(page: Page) -> Iterator[str]:
    script, style = _asset("page.js"), _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = escape(page.title)
    yield "<!DOCTYPE html>"
    yield '<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="Foldline">'
    yield f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>"
    folder = f"<code>{escape(page.folder)}</code> · " if page.folder else ""
    yield f"<header>\n<h1>{title}</h1>\n<p>{folder}{escape(' · '.join(page.facts))}</p>"
    yield f'<p class="legend">{"".join(_legend(page))}</p>\n</header>'
    yield (
        '<div class="tools" hidden>'
        '<input type="search" aria-label="Search" placeholder="Only entries with …">'
        '<button type="button">Open all</button><button type="button">Close all</button></div>\n<main>'
    )
    painter = Painter()
    for item in page.items:
        yield from _entry(item, painter)
    yield f"</main>\n<script>{script}</script>\n</body>\n</html>\n"


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _legend(page: Page) -> Iterator[str]:
    """What the letters mean, of the fates that occur."""
    found = {item.place.fate for item in page.items}
    for fate, (letter, meaning) in _FATES.items():
        if letter and fate in found:
            yield f'<span title="{meaning}"><b>{letter}</b> {fate}</span> '


def _entry(item: Item, painter: Painter) -> Iterator[str]:
    body, kind = "".join(_body(item, painter)), _kind(item)
    if not body:
        return
    place = item.place
    letter, meaning = _FATES[place.fate]
    pin = '<span title="pinned">*</span>' if place.pinned else ""
    number = f'<a href="#e{place.index}">{place.index}</a>'
    rail = f'<div class="rail" title="{meaning}">{number}<b>{letter or "&nbsp;"}</b>{pin}</div>'
    # A call without a result has the index of its answer, and an id stands once in a page.
    name = f' id="e{place.index}"' if painter.is_first(place.index) else ""
    yield f'<div class="entry {kind} {place.fate}"{name}>{rail}<div class="body">{body}</div></div>'


def _kind(item: Item) -> str:
    match item:
        case Said():
            return item.voice
        case Used():
            return "used"
        case Folded():
            return "fold"
        case Marked():
            return item.level
        case _:
            assert_never(item)


def _body(item: Item, painter: Painter) -> Iterator[str]:
    match item:
        case Said():
            yield from _said(item, painter)
        case Used():
            yield _used(item, painter)
        case Folded():
            words = f"{_time(item.place)}{escape(item.words)}"
            text = f'<div class="text">{painter.markdown(item.summary)}</div>' if item.summary else ""
            yield f"<details><summary>{words}</summary>{text}</details>" if text else words
        case Marked():
            yield f"{_time(item.place)}{'✗ ' if item.level == 'alert' else ''}{escape(item.words)}"
            yield plain(item.text) if item.text else ""
        case _:
            assert_never(item)


def _said(item: Said, painter: Painter) -> Iterator[str]:
    if item.voice == "prompt":
        yield _time(item.place)
    elif item.voice != "answer":
        text = "\n\n".join(piece.text for piece in item.pieces if isinstance(piece, TextPart))
        first = first_line(text, 100)
        yield (
            f'<details class="quiet"><summary><b>{escape(item.title)}</b> {escape(first)}</summary>'
            f'<div class="plain">{escape(text)}</div></details>'
        )
    for piece in item.pieces:
        match piece:
            case TextPart() if item.voice == "prompt":
                yield f'<div class="words">{escape(piece.text.strip())}</div>'
            case TextPart() if item.voice == "answer":
                yield f'<div class="text">{painter.markdown(piece.text)}</div>'
            case ThinkingPart():
                first = escape(first_line(piece.text, 100))
                yield (
                    f'<details class="thinking"><summary>thinking <i>{first}</i></summary>'
                    f"<div>{escape(piece.text.strip())}</div></details>"
                )
            case ImagePart():
                yield _image(piece)
            case _:
                pass


def _used(item: Used, painter: Painter) -> str:
    words = f"{_time(item.place)}<b>{escape(item.name)}</b>"
    words += f" <code>{escape(item.subject)}</code>" if item.subject else ""
    if item.outcome:
        failed = " failed" if item.failed else ""
        words += f' <span class="outcome{failed}">· {escape(item.outcome)}</span>'
    inside = "".join(_inside(item, painter))
    if not inside:
        return f'<div class="call bare">{words}</div>'
    short = (item.diff and item.diff.count("\n") < _SHORT_DIFF) or item.images
    is_open = " open" if short or (item.failed and item.output.count("\n") < _ALWAYS_OPEN) else ""
    return f'<details class="call"{is_open}><summary>{words}</summary>{inside}</details>'


def _inside(item: Used, painter: Painter) -> Iterator[str]:
    if len(item.arguments) > len(item.subject) + 40 and not item.diff:
        yield f"<pre>{painter.code(item.arguments, 'json')}</pre>"
    if item.diff:
        yield f"<pre>{lines_of_diff(item.diff)}</pre>"
    elif item.output.strip():
        yield f"<pre>{painter.output(item.output, item.path)}</pre>"
    yield from map(_image, item.images)


def _image(image: ImagePart) -> str:
    words, source = escape(image_words(image)), image_source(image)
    shown = f'<img src="{source}" alt="{words}" loading="lazy">' if source else ""
    return f"<figure>{shown}<figcaption>{words}</figcaption></figure>"


def _time(place: Place) -> str:
    return f'<span class="time">{place.time}</span>' if place.time else ""
