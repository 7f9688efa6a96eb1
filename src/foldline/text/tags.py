"""Encloses untrusted text in tags that mark it as data.

The text can neither close its own tag nor open another one.
"""

import re
from functools import cache

from foldline.protocol import TextPart

_BLANK = r"\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
"""Characters that a model ignores inside a tag."""


def defused(text: str, *tags: str) -> str:
    """Replace the angle brackets of these tags with square brackets.

    This applies to opening and closing tags in upper and lower case, including those with attributes or white
    space. It takes linear time.
    """
    return _tags(tags).sub(_in_brackets, text)


def _in_brackets(tag: re.Match[str]) -> str:
    content, end = tag.groups()
    return f"[{content}]" if end else f"[{content}"


@cache
def _tags(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, tags))
    return re.compile(
        rf"<([{_BLANK}/]*+(?:{names})(?![\w-])[^<>\n]{{0,200}}+)(>?)", re.IGNORECASE
    )


def delimited(tag: str, text: str) -> str:
    """Enclose text in a tag that marks it as data."""
    return f"<{tag}>\n{defused(text, tag)}\n</{tag}>"


def piped_part(data: str) -> TextPart:
    """Return the prompt part for data piped into the program.

    The data is enclosed in tags, so that the model cannot mistake it for the user's words or a system note.
    """
    text = defused(data.rstrip(), "stdin", "system-note")
    return TextPart(text=f"\n<stdin>\n{text}\n</stdin>", origin="piped")


def command_part(source: str, expansion: str) -> TextPart:
    """Return the prompt part for a command's expansion.

    Args:
        source: the file or server that defines the command.
    """
    text = _attached("slash-command", source, expansion)
    return TextPart(text=text, origin="command")


def resource_part(source: str, content: str) -> TextPart:
    """Return the prompt part for a tool server's resource."""
    return TextPart(text=_attached("resource", source, content), origin="resource")


def _attached(tag: str, source: str, content: str) -> str:
    """Enclose text in a tag that names its source.

    The result begins with an empty line, because parts are joined by newlines.
    """
    data = defused(content.strip(), "slash-command", "resource", "stdin", "system-note")
    name = source.replace('"', "'")
    return f'\n<{tag} source="{name}">\n{data}\n</{tag}>'
