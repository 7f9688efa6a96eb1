"""Pure functions for the prompt's text.

They parse the prompt, find the word at the cursor, and move through earlier prompts.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from foldline.frontend.commands import BY_SLASH, ChatCommand

NO_COMMAND = "No command named /{name}."
DID_YOU_MEAN = "Did you mean /{name}?"


@dataclass(frozen=True, slots=True)
class PromptText:
    """Text to send to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class SlashCall:
    """A slash command with its argument."""

    command: ChatCommand
    argument: str


@dataclass(frozen=True, slots=True)
class UnknownSlash:
    """A slash command that does not exist."""

    name: str

    def __str__(self) -> str:
        close = get_close_matches(self.name.lower(), BY_SLASH, n=1)
        hint = f" {DID_YOU_MEAN.format(name=close[0])}" if close else ""
        return f"{NO_COMMAND.format(name=self.name)}{hint}"


@dataclass(frozen=True, slots=True)
class ShellCall:
    """A command to run in the user's shell."""

    command: str
    aside: bool
    """Whether the command's output is hidden from the model."""


@dataclass(frozen=True, slots=True)
class EmptyShellCall:
    """A `!` without a command."""


@dataclass(frozen=True, slots=True)
class BlankInput:
    """Input that consists of whitespace only."""


ParsedInput = (
    PromptText | SlashCall | UnknownSlash | ShellCall | EmptyShellCall | BlankInput
)

_SLASH = re.compile(r"/([a-z][a-z-]*)(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


def parse_input(text: str, own: Collection[str] = ()) -> ParsedInput:
    """Parse the text of the editor.

    A path such as `/etc/hosts` is text for the model, and so is a line whose `!` comes after a space.

    Args:
        own: Names of the user's own commands. Their calls count as text, which is expanded on sending.
    """
    stripped = text.strip()
    if not stripped:
        return BlankInput()
    if text.startswith("!"):
        aside = text.startswith("!!")
        shell_command = stripped.removeprefix("!!" if aside else "!").strip()
        return ShellCall(shell_command, aside) if shell_command else EmptyShellCall()
    match = _SLASH.fullmatch(stripped)
    if match is None:
        return PromptText(text.rstrip())
    command = BY_SLASH.get(match[1].lower())
    if command is None:
        return PromptText(text.rstrip()) if match[1] in own else UnknownSlash(match[1])
    return SlashCall(command, (match[2] or "").strip())


@dataclass(frozen=True, slots=True)
class TypedWord:
    """The part of the word at the cursor that precedes the cursor."""

    kind: Literal["command", "argument", "file", "path"]
    """The kind of word.

    `path` is a word in a line that starts with `!`. It contains shell escapes.
    """
    typed: str
    """The word without `/` or `@`."""
    start: int
    """Column where the word starts, including the `/` or `@`."""
    command: str = ""
    """For an argument, the slash command that it belongs to."""

    @property
    def sign(self) -> str:
        """The `/` or `@` before the word, or an empty string."""
        return {"command": "/", "file": "@"}.get(self.kind, "")


_FILE = re.compile(r"(?:^|(?<=[\s(\[{\"'，。：（]))@(\S*)$")
_COMMAND = re.compile(r"/([\w.:-]*)$")
_ARGUMENT = re.compile(r"/([a-z-]+) +(\S*)$", re.IGNORECASE)
_PATH = re.compile(r"(?:^!!?|(?<=[\s=<>|&;(]))((?:[^\s\\|&;<>()!='\"]|\\.)*)$")


def typed_word(
    line: str, column: int, first_line: bool, *, asked: bool = False
) -> TypedWord | None:
    """Return the word to complete at `column` of `line`, or None.

    Slash commands are completed only at the start of the text.

    Args:
        asked: Whether Tab was pressed. In a line that starts with `!`, paths are completed only then, so that
            Enter otherwise runs the command.
    """
    before = line[:column]
    if first_line and (match := _COMMAND.fullmatch(before)):
        return TypedWord("command", match[1], 0)
    if first_line and (match := _ARGUMENT.fullmatch(before)):
        command = BY_SLASH.get(match[1].lower())
        if command is not None and command.argument:
            return TypedWord("argument", match[2], match.start(2), command.id)
    if first_line and before.startswith("!"):
        match = _PATH.search(before) if asked else None
        return None if match is None else TypedWord("path", match[1], match.start(1))
    if match := _FILE.search(before):
        return TypedWord("file", match[1], match.start())
    return None


@dataclass(frozen=True, slots=True)
class PromptHistory:
    """Earlier prompts, oldest first, and a position among them."""

    items: tuple[str, ...] = ()
    at: int | None = None
    """Index of the shown item. None while the draft is shown."""
    draft: str = ""
    """The text that was in the editor before an item was shown."""

    def with_item(self, text: str) -> "PromptHistory":
        """Add a sent or stashed prompt, and return to the draft."""
        if self.items[-1:] == (text,):
            return PromptHistory(self.items)
        return PromptHistory((*self.items, text))

    def older(self, text: str) -> "PromptHistory | None":
        """Show the next older item.

        Returns None at the oldest item.

        `text` is the current text of the editor.
        """
        if self.at is None:
            return (
                replace(self, at=len(self.items) - 1, draft=text)
                if self.items
                else None
            )
        return replace(self, at=self.at - 1) if self.at > 0 else None

    def newer(self) -> "PromptHistory | None":
        """Show the next newer item, or the draft.

        Returns None if the draft is already shown.
        """
        if self.at is None:
            return None
        return replace(self, at=self.at + 1 if self.at + 1 < len(self.items) else None)

    @property
    def shown(self) -> str:
        return self.draft if self.at is None else self.items[self.at]
