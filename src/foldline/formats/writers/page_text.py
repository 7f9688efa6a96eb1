"""Foreign text for pages: what would act, reorder or hide becomes visible; colours of terminals go."""

import re
from typing import Final

from foldline.context.harmless import with_signs

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]{0,64}[mK]")


def readable(text: str) -> str:
    """The text with LF line ends, without colours, and with a sign for every character that is none."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return with_signs(text)


def one_line(text: str, most: int = 200) -> str:
    """The text on one line, in full up to `most` characters."""
    line = " ".join(readable(text[: most * 8]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def first_line(text: str, most: int = 200) -> str:
    """The first line that says something."""
    return next((shown for line in text.splitlines() if (shown := one_line(line, most))), "")
