"""Writer for HTML: the session as one page that loads nothing from the web."""

import base64
import hashlib
import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final, assert_never

from foldline.context.view import FateKind
from foldline.protocol import ImagePart, TextPart, ThinkingPart

from ..export import Exported, Original
from .page import (
    ChildItem,
    EntryState,
    Item,
    MarkerItem,
    MessageItem,
    Page,
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
"""Longer code stays without colours."""
_BUDGET: Final = 4_000_000
"""Characters of a page with colours, which take about a second per million."""
_LARGEST_MARKDOWN: Final = 400_000
_WEB: Final = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"^( *\d+(?:→|\t|\| ?|│ ?|: ))")
"""The line number before a line that an agent read from a file."""

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
    """Renders the texts of one page. Keeps the colours within a budget and the anchors unique."""

    def __init__(self) -> None:
        self._left = _BUDGET
        self._anchors: set[str] = set()

    def anchor(self, name: str) -> str:
        """Return the attribute for an anchor, once per page."""
        if name in self._anchors:
            return ""
        self._anchors.add(name)
        return f' id="{name}"'

    def markdown(self, text: str) -> str:
        """Return Markdown as HTML, without inner HTML, images and local links."""
        if len(text) > _LARGEST_MARKDOWN:
            return plain(text)
        rendered: str = _parser().render(text, {"painter": self})
        return rendered

    def output(self, text: str, path: str) -> str:
        """Return a tool's output in the colours of its file."""
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
        """Return code in colours, unless it is too long."""
        if not language or len(text) > min(_MOST_CHARACTERS, self._left):
            return escape(text)
        self._left -= len(text)
        return _painted(text, language) or escape(text)


def _painted(text: str, language: str) -> str:
    """Return text in spans within lines, if a lexer reproduces it."""
    lexer = _lexer(language)
    if lexer is None:
        return ""
    pieces: list[str] = []
    values: list[str] = []
    for token, value in lexer.get_tokens(text):
        values.append(value)
        role = _role(str(token))
        lines = map(escape, value.split("\n"))
        pieces.append(
            "\n".join(f'<span class="{role}">{line}</span>' if role and line else line for line in lines)
        )
    # Lexers end every text with a line end, and some drop characters they do not like.
    reproduced = "".join(values)
    if reproduced == text:
        return "".join(pieces)
    return "".join(pieces).removesuffix("\n") if reproduced == text + "\n" else ""


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
    """Return a file's language by its name, if known."""
    from pygments.lexers import find_lexer_class_for_filename

    try:
        lexer = find_lexer_class_for_filename(file)
    except (ValueError, OSError):
        return ""
    return str(lexer.aliases[0]) if lexer is not None and lexer.aliases else ""


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
"""Lines of a diff that is shown open."""
_SHORT_ERROR = 3
"""Lines of a failed call's output that is shown open."""


def write_html(original: Original) -> Exported:
    """Write one page with all bitmaps in it."""
    page = page_of(original)
    painter = Painter()
    script = _beside("page.js")
    text = Template(_beside("page.html")).substitute(
        title=escape(page.title),
        folder=f"<code>{escape(page.folder)}</code> · " if page.folder else "",
        facts=escape(" · ".join(page.facts)),
        legend="".join(_legend(page)),
        entries="\n".join(entry for item in page.items for entry in _entry(item, painter)),
        style=_beside("page.css"),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return Exported(text.encode())


def _beside(name: str) -> str:
    """Return the text of a file in this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _legend(page: Page) -> Iterator[str]:
    fates = {item.entry.fate for item in page.items}
    for fate, (letter, meaning) in _FATES.items():
        if letter and fate in fates:
            yield f'<span title="{meaning}"><b>{letter}</b> {fate}</span> '


def _entry(item: Item, painter: Painter, session: str = "") -> Iterator[str]:
    """Yield an entry with its gutter. `session` is a subagent's id."""
    kind, body = _body(item, painter)
    if not body:
        return
    entry = item.entry
    letter, meaning = _FATES[entry.fate]
    pin = '<span title="pinned">*</span>' if entry.pinned else ""
    anchor = escape(f"e{entry.index}" + (f"-{session}" if session else ""))
    number = f'<a href="#{anchor}">{entry.index}</a>'
    rail = f'<div class="rail" title="{meaning}">{number}<b>{letter or "&nbsp;"}</b>{pin}</div>'
    # A call without a result has the index of its answer, so an anchor may come twice.
    name = painter.anchor(anchor)
    yield f'<div class="entry {kind} {entry.fate}"{name}>{rail}<div class="body">{body}</div></div>'


def _body(item: Item, painter: Painter) -> tuple[str, str]:
    """Return the style class of an item, and its HTML."""
    match item:
        case MessageItem():
            return item.voice, "".join(_message(item, painter))
        case ToolItem():
            return "used", _tool(item, painter)
        case MarkerItem():
            return item.level, _marker(item, painter)
        case ChildItem():
            entries = (piece for inner in item.page.items for piece in _entry(inner, painter, item.page.id))
            return "used", _details("call", escape(item.words), "".join(entries))
        case _:
            assert_never(item)


def _details(kind: str, summary: str, body: str) -> str:
    """Return a block that opens. `summary` and `body` are HTML."""
    return f'<details class="{kind}"><summary>{summary}</summary>{body}</details>'


def _marker(item: MarkerItem, painter: Painter) -> str:
    sign = "✗ " if item.level == "alert" else ""
    words = f"{_time(item.entry)}{sign}{escape(item.words)}"
    if not item.text:
        return words
    if item.level != "compaction":
        return words + plain(item.text)
    text = f'<div class="text">{painter.markdown(item.text)}</div>'
    return f"<details><summary>{words}</summary>{text}</details>"


def _message(item: MessageItem, painter: Painter) -> Iterator[str]:
    if item.voice == "prompt":
        yield _time(item.entry)
    elif item.voice != "answer":
        words = f"<b>{escape(item.title)}</b> {escape(first_line(item.text, 100))}"
        yield _details("quiet", words, f'<div class="plain">{escape(item.text)}</div>')
    for piece in item.pieces:
        match piece:
            case TextPart() if item.voice == "prompt":
                yield f'<div class="words">{escape(piece.text.strip())}</div>'
            case TextPart() if item.voice == "answer":
                yield f'<div class="text">{painter.markdown(piece.text)}</div>'
            case ThinkingPart():
                words = f"thinking <i>{escape(first_line(piece.text, 100))}</i>"
                yield _details("thinking", words, f"<div>{escape(piece.text.strip())}</div>")
            case ImagePart():
                yield _image(piece)
            case _:
                pass


def _tool(item: ToolItem, painter: Painter) -> str:
    words = f"{_time(item.entry)}<b>{escape(item.name)}</b>"
    if item.subject:
        words += f" <code>{escape(item.subject)}</code>"
    if item.outcome:
        failed = " failed" if item.failed else ""
        words += f' <span class="outcome{failed}">· {escape(item.outcome)}</span>'
    body = "".join(_tool_body(item, painter))
    if not body:
        return f'<div class="call bare">{words}</div>'
    is_open = bool(item.images)
    is_open |= bool(item.diff) and item.diff.count("\n") < _SHORT_DIFF
    is_open |= item.failed and item.output.count("\n") < _SHORT_ERROR
    return f'<details class="call"{" open" if is_open else ""}><summary>{words}</summary>{body}</details>'


def _tool_body(item: ToolItem, painter: Painter) -> Iterator[str]:
    if item.shows_arguments and not item.diff:
        yield f"<pre>{painter.code(item.arguments, 'json')}</pre>"
    if item.diff:
        yield f"<pre>{lines_of_diff(item.diff)}</pre>"
    elif item.output.strip():
        yield f"<pre>{painter.output(item.output, item.path)}</pre>"
    yield from map(_image, item.images)


def _image(image: ImagePart) -> str:
    words = escape(image_words(image))
    source = image_source(image)
    shown = f'<img src="{source}" alt="{words}" loading="lazy">' if source else ""
    return f"<figure>{shown}<figcaption>{words}</figcaption></figure>"


def _time(entry: EntryState) -> str:
    return f'<span class="time">{entry.time}</span>' if entry.time else ""
