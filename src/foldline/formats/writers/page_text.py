"""Foreign text for pages: what would act, reorder or hide becomes visible; colours of terminals go."""

import re
from typing import Final

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]{0,64}[mK]")
_ACTS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # controls but tab and line end
    r"|[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u180e\ufeff\ufff9-\ufffb]"  # bidi, zero width
    r"|[\u2028\u2029\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"  # separators, halves, tags
)


def readable(text: str) -> str:
    """The text with LF line ends, without colours, and with a sign for every character that is none."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return _ACTS.sub(_visible, text)


def one_line(text: str, most: int = 200) -> str:
    """The text on one line, in full up to `most` characters."""
    line = " ".join(readable(text[: most * 8]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def first_line(text: str, most: int = 200) -> str:
    """The first line that says something."""
    return next((shown for line in text.splitlines() if (shown := one_line(line, most))), "")


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"
