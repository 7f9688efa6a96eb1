"""Delimiters: the tags around data in what a model reads. Data can neither close them nor open their like."""

import re
from functools import cache

from foldline.protocol import PIPED_CLOSE, PIPED_OPEN

_BLANK = r"\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
"""What a reader passes over within a tag."""


def delimited(tag: str, text: str) -> str:
    """The text between its tags, as data."""
    return f"<{tag}>\n{defused(text, tag)}\n</{tag}>"


def with_piped(prompt: str, data: str) -> str:
    """A prompt and, below it, what was piped in. It can pass neither for the user's words nor for a note of
    ours, in which machine text stands where a server takes it as the user's."""
    return f"{prompt}{PIPED_OPEN}{defused(data.rstrip(), 'stdin', 'system-note')}{PIPED_CLOSE}"


def defused(text: str, *tags: str) -> str:
    """The text with these tags in square brackets, opening and closing ones, in any case, with attributes or
    blanks within. Linear in the text."""
    return _tags(tags).sub(lambda found: f"[{found[1]}{']' if found[2] else ''}", text)


@cache
def _tags(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, tags))
    return re.compile(rf"<([{_BLANK}/]*+(?:{names})(?![\w-])[^<>\n]{{0,200}}+)(>?)", re.IGNORECASE)
