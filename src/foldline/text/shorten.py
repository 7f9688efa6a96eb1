"""Shortens text to one line, or to a number of characters or terminal cells.

Text that is left out is marked with `…`.
"""

import unicodedata

ELLIPSIS = "…"
_NEAR = 30
"""How far before the limit `clip` looks for a space, in characters."""


def one_line(text: str) -> str:
    """Return text on one line.

    Each run of white space is replaced with a space.
    """
    return " ".join(text.split())


def first_line(text: str) -> str:
    """Return the first non-blank line, without leading and trailing white space."""
    for line in text.splitlines():
        if line.strip():
            return line.strip()
    return ""


def cut(text: str, length: int) -> str:
    """Cut off text after `length` characters, including the `…`."""
    if len(text) <= length:
        return text
    return text[: length - 1] + ELLIPSIS


def clip(text: str, length: int) -> str:
    """Shorten a line to about `length` characters.

    The line is cut at a space if there is one near the limit.
    """
    if len(text) <= length:
        return text
    end = text.rfind(" ", length - _NEAR, length)
    if end <= 0:
        end = length - 1
    return text[:end].rstrip() + ELLIPSIS


def shorten(text: str, limit: int) -> str:
    """Cut out the middle of text that is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[… {len(text) - limit:,} characters left out …]\n{text[-tail:]}"


def clip_cells(text: str, most: int) -> str:
    """Shorten text to one line of at most `most` terminal cells.

    Control characters become spaces.
    """
    # Cut first, because a line of a pasted file may have megabytes.
    text = text.lstrip()[: most * 8]
    text = one_line("".join(" " if _is_control(char) else char for char in text))
    used = 0
    for position, char in enumerate(text):
        used += cells(char)
        if used > most:
            return _fitting(text[:position], most - 1) + ELLIPSIS
    return text


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs")


def _fitting(text: str, most: int) -> str:
    while cells(text) > most:
        text = text[:-1]
    return text.rstrip()


def cells(text: str) -> int:
    """Return the number of terminal cells that text occupies."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
