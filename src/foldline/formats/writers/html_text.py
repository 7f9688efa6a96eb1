"""Foreign text as HTML: Markdown without HTML in it, code in colours, diffs. What comes back is balanced."""

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import OptionsDict

_MOST_CHARACTERS: Final = 60_000
"""Larger pieces of code stay plain: nobody reads colours there."""
_BUDGET: Final = 4_000_000
"""Characters of a page that are coloured; colours take about a second for each million."""
_LARGEST_MARKDOWN: Final = 400_000
_WEB: Final = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"^( *\d+(?:→|\t|\| ?|│ ?|: ))", re.MULTILINE)
"""How agents number the lines of a file they read."""

_ROLES: Final = {
    "Comment": "c",
    "Keyword": "k",
    "Operator.Word": "k",
    "Name.Tag": "k",
    "Literal.String": "s",
    "Literal.Number": "m",
    "Keyword.Constant": "m",
    "Name.Decorator": "n",
    "Name.Builtin": "n",
    "Name.Attribute": "n",
    "Name.Function": "n",
    "Name.Class": "n",
}


def plain(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def lines_of_diff(diff: str) -> str:
    """A unified diff with a class for each line that was added or removed."""
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
        self._named: set[int] = set()

    def is_first(self, index: int) -> bool:
        """Whether this entry has not been asked for before."""
        first = index not in self._named
        self._named.add(index)
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
        numbers = _NUMBERED.findall(text)
        if not path or len(numbers) < 0.8 * (text.count("\n") + 1):
            return escape(text)
        language = _language_of(path.rsplit("/", 1)[-1].rsplit("\\", 1)[-1])
        lines = text.split("\n")
        found = [_NUMBERED.match(line) for line in lines]
        bare = "\n".join(
            line[match.end() :] if match else line for line, match in zip(lines, found, strict=True)
        )
        painted = self.code(bare, language).split("\n")
        if len(painted) != len(lines):
            return escape(text)
        return "\n".join(
            f'<span class="no">{escape(match[0])}</span>{line}' if match else line
            for line, match in zip(painted, found, strict=True)
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
    parts = token.split(".")[1:]
    while parts:
        if (role := _ROLES.get(".".join(parts))) is not None:
            return role
        parts.pop()
    return ""


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
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link_open)
    parser.add_render_rule("link_close", _link_close)
    return parser


def _fence(
    renderer: "RendererHTML", tokens: "Sequence[Token]", at: int, options: "OptionsDict", env: _Env
) -> str:
    token = tokens[at]
    language = token.info.split()[0] if token.info.split() else ""
    text = token.content.rstrip("\n")
    painter: Painter = env["painter"]
    return f"<pre>{lines_of_diff(text) if language == 'diff' else painter.code(text, language)}</pre>\n"


def _image(
    renderer: "RendererHTML", tokens: "Sequence[Token]", at: int, options: "OptionsDict", env: _Env
) -> str:
    return f"<i>[picture: {escape(tokens[at].content)}]</i>"


def _link_open(
    renderer: "RendererHTML", tokens: "Sequence[Token]", at: int, options: "OptionsDict", env: _Env
) -> str:
    target = str(tokens[at].attrs.get("href", ""))
    if _WEB.match(target):
        return f'<a href="{escape(target)}" rel="noopener noreferrer nofollow">'
    return f'<a title="{escape(target)}">'


def _link_close(
    renderer: "RendererHTML", tokens: "Sequence[Token]", at: int, options: "OptionsDict", env: _Env
) -> str:
    return "</a>"
