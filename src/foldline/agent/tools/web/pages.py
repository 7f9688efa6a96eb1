"""Pages: what a model can read of an answer. HTML becomes Markdown, other text stays as it is."""

import codecs
import re
from dataclasses import dataclass

from ..failure import ToolFailure
from ..text import decoded, is_binary, is_wide, sized
from .markdown import markdown_of
from .transfer import Answer

_MOST_HTML = 2_000_000
"""Bytes of HTML that are converted."""
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


@dataclass(frozen=True, slots=True)
class Page:
    """An answer as text."""

    text: str
    note: str
    """What was done to it; empty where nothing was."""


async def page_of(answer: Answer) -> Page:
    """What can be read of an answer.

    Raises:
        ToolFailure: it is no text, or none that can be converted.
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
        text = await markdown_of(html, str(answer.location.url))
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
