"""Makes untrusted text safe to display.

Model output, tool output, files, names and titles may contain control sequences. Characters that would move
the cursor, change colours, or reorder or hide text become visible symbols. Ordinary Unicode text remains
unchanged, including ZWJ emoji sequences.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Final

from .patterns import lazy_pattern

_CONTROLS: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control characters, direction marks, surrogates and separators."""
TAB: Final = 8
"""Number of cells between tab stops."""

_ACTING: Final = (
    r"\U0010eeee"  # Kitty replaces this character with a cell of an image
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # C0 without TAB and LF, DEL, C1
    r"|[\u200b\u200e\u200f\u2060-\u206f\u061c\u180e\ufeff\ufff9-\ufffb\u202a-\u202e]"  # bidi, zero width
    r"|[\u2028\u2029\u00ad]"  # separators, soft hyphen: the terminal decides on their width
    r"|(?<![^\x00-\xff])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\xff])"  # joiners that join nothing
    r"|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff\ud800-\udfff\ufffe\uffff]"  # tags, lone surrogates
    r"|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0]"  # invisible fillers and joiners
    r"|[\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"  # shorthand and musical controls
    r"|[\ufe00-\ufe0f](?=[\ufe00-\ufe0f])|(?<![^\x00-\xff]|[0-9#*©®])[\ufe00-\ufe0f]"  # bare selectors:
    r"|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"  # bytes hide in them
)
_SEQUENCE: Final = (
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with their content
    r"|\x1b[ -/]{0,8}[0-~]"  # two- and three-character escapes
)
_QUICK: Final = lazy_pattern(
    "[^ -~\n\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\u3163\u3165-\ud7ff]"
)
"""Matches a character that may have to be replaced. Most strings contain none."""


@cache  # compiled when first needed, because this takes 5 ms and the first screen does not need it
def _characters() -> re.Pattern[str]:
    return re.compile(_ACTING)


@cache
def _sequences() -> re.Pattern[str]:
    return re.compile(rf"{_SEQUENCE}|\r\n?|{_ACTING}")


def clean(text: str) -> str:
    """Make text safe to display.

    Printing the result only moves the cursor forward. Tabs are expanded to 8 cells, CR and CR LF become LF,
    and each escape sequence becomes a single `␛`. Other control characters become their control pictures;
    bidi and zero-width controls become `�`.
    """
    text = copied(text)
    return text.expandtabs(TAB) if "\t" in text else text


def copied(text: str) -> str:
    """Make text safe for the clipboard. Like `clean`, but keeps tabs."""
    return text if _QUICK.search(text) is None else _sequences().sub(_sign, text)


def clean_line(text: str) -> str:
    """Make text safe to display on one line.

    Like `clean`, but line ends become `⏎`.
    """
    return clean(text).replace("\n", "⏎")


def escaped_line(text: str) -> str:
    """Return text on one line, with control and direction characters escaped.

    Line ends become `⏎`, and a `⏎` in the text is escaped. Strings that differ in a line end
    therefore give different lines. This matters because approvals are compared by these lines.
    """
    return "".join(map(_escaped_char, text.strip().replace("\r\n", "\n")))


def _escaped_char(char: str) -> str:
    if char == "\n":
        return " ⏎ "
    if char == "\t":
        return " "
    if char == "⏎" or unicodedata.category(char) in _CONTROLS:
        return f"\\u{ord(char):04x}"
    return char


def with_signs(text: str) -> str:
    """Make text safe for streams and pages.

    Each control character becomes one visible symbol. CR LF becomes LF, and tabs are kept.
    """
    if _QUICK.search(text) is None:
        return text
    return _characters().sub(_sign, text.replace("\r\n", "\n"))


def clean_code(line: str) -> str:
    """Make a line of a file or diff safe to display.

    Text within escape sequences remains visible, as does text before a CR.
    """
    return with_signs(line.removesuffix("\r")).expandtabs(TAB)


BLANKS: Final = " ␣"
"""The space, and the symbol with which `nothing_hidden` shows other blank characters."""
FLOOD: Final = 4
"""Minimum number of consecutive blank lines that are replaced by their count.

This applies to text that the user must approve.
"""
_FAR: Final = 40
"""Minimum number of consecutive spaces that are replaced by their count.

No code is indented this far.
"""
_BLANK: Final = frozenset("\u2800\U0001d159\U00016fe4")
"""Blank characters that Unicode classifies as letters or symbols."""


def nothing_hidden(line: str) -> str:
    """Make hidden content visible in a line that the user must approve.

    Works like `clean_code`, but also replaces invisible characters with `�`, and space characters other than
    the ordinary space with `␣`. Long runs of spaces or line ends are replaced by their count.
    """
    line = clean_code(line)
    if not line.isascii():
        line = line.translate({ord(sign): _inked(sign) for sign in set(line)})
    if any(blank * _FAR in line for blank in f"{BLANKS}�"):
        line = re.sub(rf"([{BLANKS}�])\1{{{_FAR - 1},}}", _counted_blanks, line)
    if "⏎" in line:
        line = re.sub(rf"⏎(?: *⏎){{{FLOOD - 1},}}", _counted_line_ends, line)
    return line


def _counted_blanks(run: re.Match[str]) -> str:
    return f"␣×{len(run[0])} "


def _counted_line_ends(run: re.Match[str]) -> str:
    return f"⏎×{run[0].count('⏎')}"


def nothing_hidden_lines(text: str, signs: int = 0) -> Iterator[str]:
    """Yield the lines of text that the user must approve.

    Hidden content is made visible, and long runs of blank lines are replaced by their count.

    Args:
        signs: number of characters that precede the content of a line, for example 1 in a diff.
    """
    lines = map(nothing_hidden, text.rstrip("\n").split("\n"))
    for (is_blank, sign), group in groupby(
        lines, lambda line: (not line[signs:].strip(BLANKS), line[:signs])
    ):
        run = list(group)
        if is_blank and len(run) >= FLOOD:
            yield f"{sign}{len(run):,} blank lines"
        else:
            yield from run


def _inked(sign: str) -> str:
    if sign in _BLANK:
        return "␣"
    match unicodedata.category(sign):
        case "Zs" if sign != " ":
            return "␣"
        case "Cc" | "Cf" | "Cn" | "Co":
            return "�"
        case _:
            return sign


def json_with_escapes(text: str) -> str:
    """Escape control characters in JSON, without changing its value."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _characters().sub(_escaped, text)


def _escaped(char: re.Match[str]) -> str:
    import json

    return json.dumps(char[0])[1:-1]


def _sign(match: re.Match[str]) -> str:
    acting = match[0]
    if acting in ("\r\n", "\r") and match.re is _sequences():
        return "\n"
    if acting[0] == "\x1b":
        return "␛"
    code = ord(acting)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
