"""Foreign text made harmless for whoever shows it: the one place that knows which characters act, reorder or
hide.

Model output, tool output, files, names and titles may hold control sequences. What would move the cursor,
change colours, reorder or hide text becomes a visible sign; ordinary Unicode stays, ZWJ emoji sequences
included.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Final

TAB: Final = 8
"""Cells between tab stops."""

PLACEHOLDER: Final = "\U0010eeee"
"""A cell of a picture in some terminals, whose number is its colour: ours alone, and never recoloured."""

_ACTING: Final = (
    rf"{PLACEHOLDER}"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # C0 without TAB and LF, DEL, C1
    r"|[\u200b\u200e\u200f\u2060-\u206f\u061c\u180e\ufeff\ufff9-\ufffb\u202a-\u202e]"  # bidi, zero width
    r"|[\u2028\u2029\u00ad]"  # line and paragraph separators, soft hyphen: width is the terminal's opinion
    r"|(?<![^\x00-\xff])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\xff])"  # joiners that join nothing
    r"|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff\ud800-\udfff\ufffe\uffff]"  # tags, lone halves, no sign
    r"|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0]"  # fillers and joiners without a form
    r"|[\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"  # shorthand and musical controls
    r"|[\ufe00-\ufe0f](?=[\ufe00-\ufe0f])|(?<![^\x00-\xff]|[0-9#*©®])[\ufe00-\ufe0f]"  # variants of nothing:
    r"|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"  # bytes hide in them
)
_SEQUENCE: Final = (
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with their payload
    r"|\x1b[ -/]{0,8}[0-~]"  # two- and three-character escapes
)
_QUICK: Final = re.compile(
    "[^ -~\n\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\u3163\u3165-\ud7ff]"
)
"""Finds nothing in texts that need no second look: most of them."""


@cache  # Made for the first text that needs it: that takes 5 ms, and no first screen has such a text.
def _characters() -> re.Pattern[str]:
    return re.compile(_ACTING)


@cache
def _sequences() -> re.Pattern[str]:
    return re.compile(rf"{_SEQUENCE}|\r\n?|{_ACTING}")


def clean(text: str) -> str:
    """`text` for screens: tabs are expanded to 8, CR and CR LF become LF, an escape sequence one `␛`, other
    controls their control picture, bidi and zero-width controls `�`. Printing the result moves nothing but
    the cursor."""
    text = copied(text)
    return text.expandtabs(TAB) if "\t" in text else text


def copied(text: str) -> str:
    """`clean(text)` for the clipboard: tabs stay tabs. What is pasted is what was seen, and nothing else."""
    return text if _QUICK.search(text) is None else _sequences().sub(_sign, text)


def clean_line(text: str) -> str:
    """`clean(text)` on one line: line ends become `⏎` signs."""
    return clean(text).replace("\n", "⏎")


def with_signs(text: str) -> str:
    """`text` for streams and pages: a sign for each character that acts; CR LF becomes LF, tabs stay."""
    if _QUICK.search(text) is None:
        return text
    return _characters().sub(_sign, text.replace("\r\n", "\n"))


def clean_code(line: str) -> str:
    """A line of a file or a diff for screens: nothing is hidden in a sequence or before a CR."""
    return with_signs(line.removesuffix("\r")).expandtabs(TAB)


BLANKS: Final = " ␣"
"""What stands for blanks in `nothing_hidden`."""
FLOOD: Final = 4
"""Blank lines in a row from which they are counted, for somebody who is to approve them."""
_FAR: Final = 40
"""Blanks in a row from which they are counted: no code is indented as far."""
_BLANK: Final = frozenset("\u2800\U0001d159\U00016fe4")
"""Signs without ink that Unicode calls letters or symbols."""


def nothing_hidden(line: str) -> str:
    """A line for somebody who is to approve it: `clean_code`, and what is not seen or looks like a blank is a
    sign too, `␣` where Unicode calls it a space; long runs of blanks, and of line ends, are counted."""
    line = clean_code(line)
    if not line.isascii():
        line = line.translate({ord(sign): _inked(sign) for sign in set(line)})
    if any(blank * _FAR in line for blank in f"{BLANKS}�"):
        line = re.sub(rf"([{BLANKS}�])\1{{{_FAR - 1},}}", lambda run: f"␣×{len(run[0])} ", line)
    if "⏎" not in line:
        return line
    return re.sub(rf"⏎(?: *⏎){{{FLOOD - 1},}}", lambda run: f"⏎×{run[0].count('⏎')}", line)


def nothing_hidden_lines(text: str, signs: int = 0) -> Iterator[str]:
    """The lines of a text for somebody who is to approve it, each by `nothing_hidden`; floods of blank lines
    are counted. `signs`: characters before the content of a line, 1 in a diff."""
    lines = map(nothing_hidden, text.rstrip("\n").split("\n"))
    for (is_blank, sign), run in groupby(lines, lambda line: (not line[signs:].strip(BLANKS), line[:signs])):
        shown = list(run)
        yield from [f"{sign}{len(shown):,} blank lines"] if is_blank and len(shown) >= FLOOD else shown


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
    """JSON text with escapes in place of the same characters: it says the same, and shows what it holds."""
    if text.isascii() and "\x7f" not in text:
        return text
    import json

    return _characters().sub(lambda found: json.dumps(found[0])[1:-1], text)


def _sign(found: re.Match[str]) -> str:
    acting = found[0]
    if acting in ("\r\n", "\r") and found.re is _sequences():
        return "\n"
    if acting[0] == "\x1b":
        return "␛"
    code = ord(acting)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
