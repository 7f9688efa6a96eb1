"""What completes a word: slash commands that work now, their arguments, or files. Pure."""

import re
from collections.abc import Sequence

from foldline.context.harmless import clean_line
from foldline.tui import numbers
from foldline.tui.keys.commands import BY_SLASH, Command
from foldline.tui.prompting.fuzzy import HOLDS, fit
from foldline.tui.prompting.inputs import Completing
from foldline.tui.state import ChatState
from foldline.tui.widgets.completion import Candidate

_FOR_THE_SHELL = re.compile(r"([^\w./~+:@%-])")


def _said(command: Command, state: ChatState) -> str:
    """What a command does; of an undo its price, before it is asked for (SCREENS, rule 11)."""
    if command.id != "undo" or state.undo_adds is None:
        return command.title
    now, then = state.room.size, state.room.size + state.undo_adds
    return f"{command.title}: {numbers.tokens(now)} → {numbers.tokens(then, estimated=True)}"


def slash_matches(typed: str, state: ChatState) -> tuple[Command, ...]:
    """The slash commands that work now and fit what was typed (without `/`): by the beginning of their name,
    by a part of it, by its letters in order, and last by a word of what they do."""
    typed = typed.lower()
    ranked = [
        (rank, name, command)
        for name, command in BY_SLASH.items()
        if command.works(state) and (rank := _rank(typed, command)) is not None
    ]
    return tuple(command for _, _, command in sorted(ranked, key=lambda found: found[:2]))


def _rank(typed: str, command: Command) -> int | None:
    by_name = fit(typed, command.slash)
    if by_name is not None and by_name <= HOLDS:
        return by_name
    by_title = any(word.startswith(typed) for word in command.title.lower().split())
    return HOLDS + 1 if by_title else None if by_name is None else by_name + 1


def commands(word: Completing, state: ChatState) -> tuple[Candidate, ...]:
    """The slash commands for a word. One that takes something leaves a blank behind it."""
    return tuple(
        Candidate(
            f"/{command.slash} " if command.argument else f"/{command.slash}",
            command.usage,
            _said(command, state),
        )
        for command in slash_matches(word.typed, state)
    )


def files(word: Completing, paths: Sequence[str]) -> tuple[Candidate, ...]:
    """Files and folders for a word; a folder leaves the cursor behind its `/`, to go on with."""
    return tuple(
        Candidate(_written(path, word) + ("" if path.endswith("/") else " "), clean_line(path))
        for path in paths
    )


def _written(path: str, word: Completing) -> str:
    """A path as it stands in the prompt: behind `!` as a shell reads it."""
    return f"@{path}" if word.kind == "file" else _FOR_THE_SHELL.sub(r"\\\1", path)
