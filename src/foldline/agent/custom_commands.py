"""Commands that people keep as Markdown files, and the prompt that calls one: `/review src`."""

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from foldline.context.harmless import clean_line

from .discovery import Custom, front_matter

NAME: Final = re.compile(r"\w[\w.-]*(:\w[\w.-]*)*")
CALL: Final = re.compile(r"/(\w[\w.:-]*)(?:\s+(.*))?", re.DOTALL)
"""A prompt that may be a call: its name, and what stands behind it."""
SHELL_LINE: Final = re.compile(r"!`[^`\n]+`")
"""What Claude Code runs before it sends a command; here the model sees it."""
_PLACE: Final = re.compile(r"\$(ARGUMENTS|[1-9])(?!\w)")


@lru_cache(maxsize=512)
def parsed_command(data: bytes, parts: Sequence[str]) -> Custom:
    """The command in a file that lies there below its folder: `a:b` for `b.md` in the folder `a`.

    Raises:
        ValueError: it is no command; why, as the end of a sentence.
    """
    fields, body = front_matter(data.decode("utf-8", "replace"))
    if not body.strip():
        raise ValueError("it is empty")
    said = {"description": body.strip().partition("\n")[0].strip("# "), **(fields or {})}
    hint = said.get("argument-hint") or ("[arguments]" if _PLACE.search(body) else "")
    return Custom(
        "commands", ":".join(parts), clean_line(str(said["description"])), body.strip(), clean_line(str(hint))
    )


def words_of(arguments: str) -> list[str]:
    """What was typed behind a name, word by word; quotes hold words together."""
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that is not closed, as in "don't"
        return arguments.split()


def filled(body: str, arguments: str) -> str:
    """The body with what stands for arguments replaced, once: what they say themselves is text."""
    words = words_of(arguments)

    def value(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return arguments
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    return _PLACE.sub(value, body)
