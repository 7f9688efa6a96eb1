"""What was typed, as one of a few things; what could complete it; earlier prompts behind ↑ and ↓. Pure."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from foldline.tui.keys.commands import BY_SLASH, Command


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

    def __str__(self) -> str:
        close = get_close_matches(self.name.lower(), BY_SLASH, n=1)
        return f"There is no command /{self.name}{f': did you mean /{close[0]}?' if close else '.'}"


@dataclass(frozen=True, slots=True)
class ShellCall:
    """A command for the reader's own shell. `aside`: the model is not shown what comes of it."""

    command: str
    aside: bool


@dataclass(frozen=True, slots=True)
class NoCommand:
    """A `!` with nothing behind it."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Only blanks."""


Input = PromptText | SlashCall | UnknownSlash | ShellCall | NoCommand | Nothing

_SLASH = re.compile(r"/([a-z][a-z-]*)(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


def parse_input(text: str, own: Collection[str] = ()) -> Input:
    """What Enter would do with this text. A path such as `/etc/hosts` is text for the model; so is what
    begins with a blank before its `!`, and what calls a command of the user's `own`: it is filled in where
    it is sent."""
    stripped = text.strip()
    if not stripped:
        return Nothing()
    if text.startswith("!"):
        aside = text.startswith("!!")
        ran = stripped.removeprefix("!!" if aside else "!").strip()
        return ShellCall(ran, aside) if ran else NoCommand()
    match = _SLASH.fullmatch(stripped)
    if match is None:
        return PromptText(text.rstrip())
    command = BY_SLASH.get(match[1].lower())
    if command is None:
        return PromptText(text.rstrip()) if match[1] in own else UnknownSlash(match[1])
    return SlashCall(command, (match[2] or "").strip())


@dataclass(frozen=True, slots=True)
class Completing:
    """The word that could be completed: what is typed of it, and where it starts in its line."""

    kind: Literal["command", "argument", "file", "path"]
    """`path`: a word behind `!`, which a shell takes for a path."""
    typed: str
    """Without the `/` or `@`."""
    start: int
    """Column of the word, its `/` or `@` included."""
    command: str = ""
    """Of an argument: the slash command it is for."""

    @property
    def sign(self) -> str:
        """What stands before the word."""
        return {"command": "/", "file": "@"}.get(self.kind, "")


_FILE = re.compile(r"(?:^|(?<=[\s(\[{\"'，。：（]))@(\S*)$")
_COMMAND = re.compile(r"/([\w.:-]*)$")
_ARGUMENT = re.compile(r"/([a-z-]+) +(\S*)$", re.IGNORECASE)
_PATH = re.compile(r"(?:^!!?|(?<=[\s=<>|&;(]))((?:[^\s\\|&;<>()!='\"]|\\.)*)$")


def completing(line: str, column: int, first_line: bool, *, asked: bool = False) -> Completing | None:
    """What is being completed at `column` of `line`; commands only at the very start of the text. Behind a
    `!` paths, and only where somebody `asked`: Enter is to run what is typed."""
    before = line[:column]
    if first_line and (match := _COMMAND.fullmatch(before)):
        return Completing("command", match[1], 0)
    if first_line and (match := _ARGUMENT.fullmatch(before)):
        command = BY_SLASH.get(match[1].lower())
        if command is not None and command.argument:
            return Completing("argument", match[2], match.start(2), command.id)
    if first_line and before.startswith("!"):
        match = _PATH.search(before) if asked else None
        return None if match is None else Completing("path", match[1], match.start(1))
    if match := _FILE.search(before):
        return Completing("file", match[1], match.start())
    return None


@dataclass(frozen=True, slots=True)
class Recall:
    """Earlier prompts, oldest first, and where the reader is among them."""

    items: tuple[str, ...] = ()
    at: int | None = None
    """The item shown; None while the reader's own text is."""
    draft: str = ""
    """The reader's own text while an item is shown."""

    def with_item(self, text: str) -> "Recall":
        """After a prompt was sent or put aside: it is the newest, and the reader is back at his own text."""
        items = self.items if self.items and self.items[-1] == text else (*self.items, text)
        return Recall(items)

    def older(self, text: str) -> "Recall | None":
        """One step back from `text`; None where there is nothing older."""
        if self.at is None:
            return replace(self, at=len(self.items) - 1, draft=text) if self.items else None
        return replace(self, at=self.at - 1) if self.at > 0 else None

    def newer(self) -> "Recall | None":
        """One step forward; None while the reader's own text is shown."""
        if self.at is None:
            return None
        return replace(self, at=self.at + 1 if self.at + 1 < len(self.items) else None)

    @property
    def shown(self) -> str:
        return self.draft if self.at is None else self.items[self.at]
