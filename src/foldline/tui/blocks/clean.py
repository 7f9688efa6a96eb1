"""Foreign text made harmless for a terminal.

Model output, tool output and file content may hold control sequences. What would move the cursor, change
colours, reorder or hide text becomes a visible sign; ordinary Unicode stays, ZWJ emoji sequences included.
"""

import re
from typing import Final

TAB: Final = 8
"""Cells between tab stops."""

_ESCAPE_SEQUENCE: Final = (
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with their payload
    r"|\x1b[ -/]{0,8}[0-~]"  # two- and three-character escapes
)
_UNSAFE: Final = re.compile(
    _ESCAPE_SEQUENCE + r"|\r\n?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # C0 without TAB and LF, DEL, C1
    r"|[\u200b\u200e\u200f\u2060-\u206f\u061c\u180e\ufeff\ufff9-\ufffb\u202a-\u202e]"  # bidi, zero width
    r"|[\u2028\u2029\u00ad]"  # line and paragraph separators, soft hyphen: width is the terminal's opinion
    r"|(?<![^\x00-\xff])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\xff])"  # joiners that join nothing
    r"|[\U000e0000-\U000e007f\ud800-\udfff]"  # tag characters, lone surrogates
)
_QUICK: Final = re.compile("[^ -~\n\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\ud7ff]")


def clean(text: str) -> str:
    """`text` without anything that acts on the terminal.

    Tabs are expanded to 8, CR and CR LF become LF, an escape sequence becomes one `␛`, other controls their
    control picture, bidi and zero-width controls `�`. Printing the result moves nothing but the cursor.
    """
    if _QUICK.search(text) is None:
        return text
    text = _UNSAFE.sub(_visible, text)
    return text.expandtabs(TAB) if "\t" in text else text


def clean_line(text: str) -> str:
    """`clean(text)` on one line: line ends become `⏎` signs."""
    return clean(text).replace("\n", "⏎")


def _visible(match: re.Match[str]) -> str:
    sign = match[0]
    if sign[0] == "\r":
        return "\n"
    if sign[0] == "\x1b":
        return "␛"
    code = ord(sign)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
