"""Pages: what a model can read of an answer. HTML becomes Markdown, other text stays as it is."""

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from ..failure import ToolFailure
from ..text import decoded, is_binary, is_wide, one_line, sized
from .transfer import Answer

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_MOST_HTML = 2_000_000
"""Bytes of HTML that are converted: a second or two for text, several for one large table."""
_TEXT_TYPES = re.compile(
    r"text/.*|.*\+(json|xml|yaml)"
    r"|application/(json|xml|javascript|ecmascript|x-javascript|yaml|x-yaml|toml|x-ndjson|jsonl|sql|x-sh|graphql)"
)
_UNKNOWN_TYPES = ("", "application/octet-stream", "binary/octet-stream")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_ENCODINGS = re.compile(
    r"ascii|utf-(8|16|32).*|iso8859-.*|cp\d+|gb.*|big5.*|euc_.*|shift_jis.*|iso2022_.*|koi8-.*|mac-.*|tis-620|hz"
)
"""Python's names of the encodings that pages are written in. It has others, which are no character sets."""
_NOISE = (
    "script, style, template, noscript, svg, canvas, iframe, object, embed, nav, footer, aside, dialog, "
    "button, input, select, textarea, body > header, [hidden], [aria-hidden=true], [role=navigation], "
    "[role=banner], [role=search], [role=contentinfo], [role=complementary]"
)
_MAIN = "main, [role=main], article"
_LEAST = 200
"""Characters of what calls itself the main part, for it to be taken for all there is to read."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer as text."""

    text: str
    note: str
    """What was done to it; empty where nothing was."""


def page_of(answer: Answer) -> Page:
    """What can be read of an answer. Takes seconds for a large one: call it off the event loop.

    Raises:
        ToolFailure: it is no text.
    """
    media_type = answer.content_type.partition(";")[0].strip().lower()
    content = answer.content
    size = sized(len(content))
    if content.startswith(b"%PDF-") or media_type == "application/pdf":
        raise ToolFailure(
            f"{answer.location.url} is a PDF ({size}) and was not shown: get it with `bash` and curl, "
            "then use a tool such as pdftotext.",
            brief="PDF ✗",
        )
    named_text = _TEXT_TYPES.fullmatch(media_type) is not None
    if is_binary(content) or not (named_text or media_type in _UNKNOWN_TYPES):
        raise ToolFailure(
            f"{answer.location.url} is no text ({media_type or 'binary'}, {size}) and was not shown: "
            "get it with `bash` and curl, and use a tool for its format.",
            brief="binary ✗",
        )
    if _is_html(media_type, content):
        html = _text(content[:_MOST_HTML], answer.content_type, inner=content[:2048])
        text = _markdown(html, str(answer.location.url))
        cut = f"; only the first {sized(_MOST_HTML)} of {size} were read" if len(content) > _MOST_HTML else ""
        return Page(text, f"HTML as Markdown{cut}")
    cut = f"only the first {size} were fetched" if answer.is_cut else ""
    return Page(_text(content, answer.content_type), cut)


def _is_html(media_type: str, content: bytes) -> bool:
    if media_type in ("text/html", "application/xhtml+xml"):
        return True
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return media_type in _UNKNOWN_TYPES and start.startswith((b"<!doctype html", b"<html"))


def _text(content: bytes, content_type: str, inner: bytes = b"") -> str:
    """By its mark, else as the server says, else as the page itself says in `inner`; else UTF-8, where it is
    that, and Windows' Latin, as browsers do it."""
    if is_wide(content):
        return decoded(content)
    said = _CHARSET.search(content_type) or _CHARSET.search(inner.decode("ascii", "replace"))
    encoding = _known(said[1]) if said else None
    if encoding is not None:
        return content.decode(encoding, "replace").removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A character cut in two at the end does not make it another encoding.
        is_cut = error.reason == "unexpected end of data" and len(content) - error.start < 4
        return decoded(content) if is_cut else content.decode("cp1252", "replace")


def _known(encoding: str) -> str | None:
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return None
    return name if _ENCODINGS.fullmatch(name) else None


def _markdown(html: str, base: str) -> str:
    from bs4 import BeautifulSoup
    from markdownify import ATX, MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    part = _readable(soup)
    _absolute(part, base)
    try:
        text = MarkdownConverter(
            heading_style=ATX,
            bullets="-",
            # Code and names as they are: a model reads the text, nothing renders it.
            escape_misc=False,
            escape_asterisks=False,
            escape_underscores=False,
        ).convert_soup(part)
    except RecursionError:  # nested deeper than any page that was written for people
        text = part.get_text("\n", strip=True)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    if title and not re.search(r"^# ", text, re.MULTILINE):
        text = f"# {one_line(title)}\n\n{text}"
    return text + "\n" if text else ""


def _readable(soup: "BeautifulSoup") -> "Tag":
    """The part that is there to be read."""
    for title in soup.find_all("title"):
        title.decompose()
    for noise in soup.select(_NOISE):
        if not noise.decomposed:
            noise.decompose()
    mains = [part for part in soup.select(_MAIN) if len(part.get_text(strip=True)) >= _LEAST]
    mains = [part for part in mains if not any(other in part.parents for other in mains)]
    # Several articles are a list of them, and what stands between belongs to it.
    return mains[0] if len(mains) == 1 else soup


def _absolute(part: "Tag", base: str) -> None:
    """Links that can be fetched; no scripts, and no pictures that are written out in the page."""
    for name, attribute in (("a", "href"), ("img", "src")):
        for tag in part.find_all(name):
            target = str(tag.get(attribute, ""))
            try:
                whole = urljoin(base, target)
            except ValueError:
                whole = ""
            if whole.startswith(("http://", "https://", "mailto:")):
                tag[attribute] = whole
            elif name == "img":
                tag.replace_with(str(tag.get("alt", "")))
            else:
                del tag[attribute]
