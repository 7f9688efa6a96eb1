"""What completes a word: slash commands that work now, or files. Pure."""

from collections.abc import Sequence

from foldline.context.harmless import clean_line
from foldline.tui import numbers
from foldline.tui.commands import Command, slash_matches, slash_usage
from foldline.tui.files import match_files
from foldline.tui.inputs import Completing
from foldline.tui.state import ChatState
from foldline.tui.widgets.completion import Candidate


def _said(command: Command, state: ChatState) -> str:
    """What a command does; of an undo its price, before it is asked for (SCREENS, rule 11)."""
    if command.id != "undo" or state.undo_adds is None:
        return command.title
    now, then = state.room.size, state.room.size + state.undo_adds
    return f"{command.title}: {numbers.tokens(now)} → {numbers.tokens(then, estimated=True)}"


def candidates(word: Completing, state: ChatState, files: Sequence[str]) -> tuple[Candidate, ...]:
    """The completions of a word, best first. A command that takes something leaves a blank behind it."""
    match word.kind:
        case "command":
            return tuple(
                Candidate(
                    f"/{command.slash} " if command.argument else f"/{command.slash}",
                    slash_usage(command),
                    _said(command, state),
                )
                for command in slash_matches(word.typed, state)
            )
        case "file":
            return tuple(Candidate(f"@{path} ", clean_line(path)) for path in match_files(word.typed, files))
