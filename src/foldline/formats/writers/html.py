"""Writer for HTML: the session as one page that needs nothing else, and loads nothing from the web."""

import base64
import hashlib
import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from foldline.context.view import FateKind
from foldline.protocol import ImagePart, TextPart, ThinkingPart

from ..export import Exported, Original
from .page import (
    ChildItem,
    CompactionItem,
    Item,
    MarkerItem,
    MessageItem,
    Page,
    Place,
    ToolItem,
    first_line,
    image_source,
    image_words,
    page_of,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MOST_CHARACTERS: Final = 60_000
"""Larger pieces of code stay plain: nobody reads colours there."""
_BUDGET: Final = 4_000_000
"""Characters of a page that are coloured; colours take about a second for each million."""
_LARGEST_MARKDOWN: Final = 400_000
_WEB: Final = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"^( *\d+(?:→|\t|\| ?|│ ?|: ))")
"""How agents number the lines of a file they read."""

_ROLES: Final = {
    "Comment": "c", "Keyword": "k", "Operator.Word": "k", "Name.Tag": "k", "Literal.String": "s",
    "Literal.Number": "m", "Keyword.Constant": "m", "Name.Decorator": "n", "Name.Builtin": "n",
    "Name.Attribute": "n", "Name.Function": "n", "Name.Class": "n",
}  # fmt: skip


def plain(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def lines_of_diff(diff: str) -> str:
    return "\n".join(map(_diff_line, diff.rstrip("\n").split("\n")))


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "")
    if line.startswith(("+++ ", "--- ")):
        kind = "no"
    return f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line)


class Painter:
    """Renders the texts of one page, and counts what it colours."""

    def __init__(self) -> None:
        self._left = _BUDGET
        self._named: set[str] = set()

    def is_first(self, name: str) -> bool:
        first = name not in self._named
        self._named.add(name)
        return first

    def markdown(self, text: str) -> str:
        """Markdown as HTML. HTML in it is text; links lead to the web or nowhere; pictures are named."""
        if len(text) > _LARGEST_MARKDOWN:
            return plain(text)
        rendered: str = _parser().render(text, {"painter": self})
        return rendered

    def output(self, text: str, path: str) -> str:
        """What a tool gave, in the colours of the file it is about; numbers of lines stand apart."""
        text = text.rstrip("\n")
        lines = text.split("\n")
        numbers = [match[0] if (match := _NUMBERED.match(line)) else "" for line in lines]
        if not path or sum(map(bool, numbers)) < 0.8 * len(lines):
            return escape(text)
        language = _language_of(path.rsplit("/", 1)[-1].rsplit("\\", 1)[-1])
        bare = "\n".join(line.removeprefix(number) for line, number in zip(lines, numbers, strict=True))
        painted = self.code(bare, language).split("\n")
        if len(painted) != len(lines):
            return escape(text)
        return "\n".join(
            f'<span class="no">{escape(number)}</span>{line}' if number else line
            for line, number in zip(painted, numbers, strict=True)
        )

    def code(self, text: str, language: str) -> str:
        """Code in colours, line by line; plain where the language is unknown or there is too much of it."""
        if not language or len(text) > min(_MOST_CHARACTERS, self._left):
            return escape(text)
        self._left -= len(text)
        return _painted(text, language) or escape(text)


def _painted(text: str, language: str) -> str:
    """The text in spans that never go over the end of a line; empty where no lexer reads it as it is."""
    lexer = _lexer(language)
    if lexer is None:
        return ""
    pieces: list[str] = []
    seen: list[str] = []
    for token, value in lexer.get_tokens(text):
        seen.append(value)
        role = _role(str(token))
        lines = [f'<span class="{role}">{escape(line)}</span>' if role and line else escape(line)
                 for line in value.split("\n")]  # fmt: skip
        pieces.append("\n".join(lines))
    # Lexers end every text with a line end, and some drop characters they do not like.
    whole = "".join(seen)
    if whole == text:
        return "".join(pieces)
    return "".join(pieces).removesuffix("\n") if whole == text + "\n" else ""


@cache
def _role(token: str) -> str:
    name = token.removeprefix("Token.")
    while name and name not in _ROLES:
        name = name.rpartition(".")[0]
    return _ROLES.get(name, "")


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@cache
def _language_of(file: str) -> str:
    """The name of the lexer for files of this name; empty where there is none."""
    from pygments.lexers import find_lexer_class_for_filename

    try:
        found = find_lexer_class_for_filename(file)
    except (ValueError, OSError):
        return ""
    return str(found.aliases[0]) if found is not None and found.aliases else ""


# --- Markdown ---------------------------------------------------------------------------------------

_Env = MutableMapping[str, Any]


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("image", _named_image)
    parser.add_render_rule("link_open", _link_open)
    return parser


def _fence(renderer: object, tokens: "Sequence[Token]", at: int, options: object, env: _Env) -> str:
    token = tokens[at]
    language = token.info.split()[0] if token.info.split() else ""
    text = token.content.rstrip("\n")
    painter: Painter = env["painter"]
    return f"<pre>{lines_of_diff(text) if language == 'diff' else painter.code(text, language)}</pre>\n"


def _named_image(renderer: object, tokens: "Sequence[Token]", at: int, *_: object) -> str:
    return f"<i>[picture: {escape(tokens[at].content)}]</i>"


def _link_open(renderer: object, tokens: "Sequence[Token]", at: int, *_: object) -> str:
    target = str(tokens[at].attrs.get("href", ""))
    if _WEB.match(target):
        return f'<a href="{escape(target)}" rel="noopener noreferrer nofollow">'
    return f'<a title="{escape(target)}">'


_FATES: dict[FateKind, tuple[str, str]] = {
    "live": ("L", "live: the next request holds it verbatim"),
    "clipped": ("C", "clipped: the next request holds a part of it"),
    "hidden": ("H", "hidden: the next request holds a placeholder for it"),
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
    return Exported(text.encode())


def _document(page: Page) -> Iterator[str]:
    script, style = (
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("page.js", "page.css")
    )
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


def _legend(page: Page) -> Iterator[str]:
    found = {item.place.fate for item in page.items}
    for fate, (letter, meaning) in _FATES.items():
        if letter and fate in found:
            yield f'<span title="{meaning}"><b>{letter}</b> {fate}</span> '


def _entry(item: Item, painter: Painter, session: str = "") -> Iterator[str]:
    """`session` is the id of a subagent's, whose entries are numbered by themselves."""
    kind, body = _body(item, painter)
    if not body:
        return
    place = item.place
    letter, meaning = _FATES[place.fate]
    pin = '<span title="pinned">*</span>' if place.pinned else ""
    anchor = escape(f"e{place.index}" + (f"-{session}" if session else ""))
    number = f'<a href="#{anchor}">{place.index}</a>'
    rail = f'<div class="rail" title="{meaning}">{number}<b>{letter or "&nbsp;"}</b>{pin}</div>'
    # A call without a result has the index of its answer, and an id stands once in a page.
    name = f' id="{anchor}"' if painter.is_first(anchor) else ""
    yield f'<div class="entry {kind} {place.fate}"{name}>{rail}<div class="body">{body}</div></div>'


def _body(item: Item, painter: Painter) -> tuple[str, str]:
    """The style class of an item, and its HTML."""
    match item:
        case MessageItem():
            return item.voice, "".join(_said(item, painter))
        case ToolItem():
            return "used", _used(item, painter)
        case CompactionItem():
            words = f"{_time(item.place)}{escape(item.words)}"
            text = f'<div class="text">{painter.markdown(item.summary)}</div>' if item.summary else ""
            return "compaction", f"<details><summary>{words}</summary>{text}</details>" if text else words
        case MarkerItem():
            words = f"{_time(item.place)}{'✗ ' if item.level == 'alert' else ''}{escape(item.words)}"
            return item.level, words + (plain(item.text) if item.text else "")
        case ChildItem():
            shown = (piece for each in item.page.items for piece in _entry(each, painter, item.page.id))
            words = f"<summary>{escape(item.words)}</summary>"
            return "used", f'<details class="call">{words}{"".join(shown)}</details>'
        case _:
            assert_never(item)


def _said(item: MessageItem, painter: Painter) -> Iterator[str]:
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


def _used(item: ToolItem, painter: Painter) -> str:
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


def _inside(item: ToolItem, painter: Painter) -> Iterator[str]:
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
