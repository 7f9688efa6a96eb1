"""What was typed, as one of a few things; and what could complete it. Pure."""

import re
from dataclasses import dataclass
from typing import Literal

from foldline.tui.commands import BY_SLASH, Command


@dataclass(frozen=True, slots=True)
class PromptText:
    """Text for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class SlashCall:
    """A command, and what stands behind it."""

    command: Command
    argument: str


@dataclass(frozen=True, slots=True)
class UnknownSlash:
    """Looks like a command, is none."""

    name: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """Only blanks."""


Input = PromptText | SlashCall | UnknownSlash | Nothing

_SLASH = re.compile(r"/([a-z][a-z-]*)(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


def parse_input(text: str) -> Input:
    """What Enter would do with this text. A path such as `/etc/hosts` is text for the model."""
    stripped = text.strip()
    if not stripped:
        return Nothing()
    match = _SLASH.fullmatch(stripped)
    if match is None:
        return PromptText(text.rstrip())
    command = BY_SLASH.get(match[1].lower())
    if command is None:
        return UnknownSlash(match[1])
    return SlashCall(command, (match[2] or "").strip())


@dataclass(frozen=True, slots=True)
class Completing:
    """The word that could be completed: what is typed of it, and where it starts in its line."""

    kind: Literal["command", "file"]
    typed: str
    """Without the `/` or `@`."""
    start: int
    """Column of the `/` or `@`."""


_FILE = re.compile(r"(?:^|(?<=[\s(\[{\"'，。：（]))@(\S*)$")
_COMMAND = re.compile(r"/([a-z-]*)$", re.IGNORECASE)


def completing(line: str, column: int, first_line: bool) -> Completing | None:
    """What is being completed at `column` of `line`; commands only at the very start of the text."""
    before = line[:column]
    if first_line and (match := _COMMAND.fullmatch(before)):
        return Completing("command", match[1], 0)
    if match := _FILE.search(before):
        return Completing("file", match[1], match.start())
    return None
