"""Commands that people keep as Markdown files, and the prompt that calls one: `/review src`."""

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from foldline.context.conversation import with_called

from .discovery import front_matter

_NAME: Final = re.compile(r"\w[\w.-]*(:\w[\w.-]*)*")
CALL: Final = re.compile(r"/(\w[\w.:-]*)(?:\s+(.*))?", re.DOTALL)
"""A prompt that may be a call: its name, and what stands behind it."""
_PLACE: Final = re.compile(r"\$(ARGUMENTS|[1-9])(?!\w)")


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """One that can be called."""

    name: str
    """`frontend:component` for `frontend/component.md`."""
    description: str
    hint: str
    """What may stand behind it."""
    body: str
    shown: str
    """Its path for people."""

    def prompt(self, typed: str, arguments: str) -> str:
        """What was typed, and below it, marked as the command's, what it stands for."""
        return with_called(typed, self.shown, filled(self.body, arguments))


@lru_cache(maxsize=512)
def parsed_command(data: bytes, parts: tuple[str, ...]) -> tuple[str, str, str, str]:
    """Name, description, hint and body of the file of a command, which lies there below its folder.

    Raises:
        ValueError: it is no command; why, as the end of a sentence.
    """
    name = ":".join(parts)
    if not _NAME.fullmatch(name):
        raise ValueError("its name cannot be typed behind a /")
    fields, body = front_matter(data.decode("utf-8-sig", "replace"))
    if not body.strip():
        raise ValueError("it is empty")

    def said(field: str) -> str:
        given = (fields or {}).get(field)
        return " ".join((" ".join(given) if isinstance(given, list) else given or "").split())

    first = next(line.strip("# ").strip() for line in body.splitlines() if line.strip())
    hint = said("argument-hint") or ("[arguments]" if _PLACE.search(body) else "")
    return name, said("description") or first, hint, body.strip()


def filled(body: str, arguments: str) -> str:
    """The body with what stands for arguments replaced, once: what they say themselves is text."""
    try:
        words = shlex.split(arguments)
    except ValueError:  # a quote that is not closed, as in "don't"
        words = arguments.split()

    def value(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return arguments
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    return _PLACE.sub(value, body)
