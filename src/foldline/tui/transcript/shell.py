"""Commands of the user's own shell: the command on one line, the end of what it put out below it. Pure."""

from dataclasses import dataclass, replace
from typing import Final

from foldline.context.projection import Projection
from foldline.context.weight import entry_weight
from foldline.protocol import TextPart, UserMessage
from foldline.tui import numbers
from foldline.tui.blocks import Block, Column, Key, RowBlock, TextBlock, clean, clean_line
from foldline.tui.reading.keys import key_name

from .output import OutputBlock

SHELL_CALL: Final = "!"
"""Stands for the running command in events (`agent/shell.py`)."""
_SHOWN: Final = 12
"""Lines of output below a command that was not opened: the newest, as in a terminal."""
_BRIEF, _TOKENS = 14, 6
"""Cells of the columns, as in the rows of tool calls."""


@dataclass(slots=True)
class Running:
    """The user's command while it runs. `key` is the place its entry will most likely have."""

    command: str
    key: Key | None = None
    """None until it is drawn."""
    output: str = ""
    """The newest of what it has put out."""


def command_of(message: UserMessage) -> str | None:
    """The command of such an entry; None where that does not say which part of it is the command."""
    first = message.parts[0] if message.parts else None
    if not isinstance(first, TextPart) or not first.text.startswith("$ "):
        return None
    return first.text.removeprefix("$ ") if len(message.parts) > 1 else first.text[2:].partition("\n")[0]


def shell_block(message: UserMessage, projection: Projection, *, opened: bool) -> Block | None:
    """A command that has ended, and how. None for an entry that does not say what its command was."""
    command = command_of(message)
    if command is None:
        return None
    output = message.text.removeprefix(f"$ {command}").removeprefix("\n")
    ending = output.rpartition("\n")[2]
    brief = ending[1:-1] if ending[:1] in ("[", "(") else ""
    failed = brief.startswith(("exit ", "ended by ", "cancelled"))
    tokens = numbers.tokens(entry_weight(projection, message).tokens)
    columns = (
        Column(_short(brief) if failed else "exit 0", _BRIEF, "alert" if failed else "text", align="left"),
        Column(tokens, _TOKENS, "muted", drop="last"),
    )
    key = (message.index, 0)
    said = output.rpartition("\n")[0] if brief.startswith("exit ") else output  # the column says it
    body = OutputBlock(key, output) if opened else _newest(key, said)
    return _row(key, command, columns, body, "▾ " if opened else "")


def running_block(key: Key, command: str, output: str, gap: int) -> Block:
    """A command that runs, above the end of what it has put out so far, as a terminal shows it."""
    columns = (Column("…", _BRIEF, "accent", align="left"),)
    return replace(_row(key, command, columns, _newest(key, output), ""), gap=gap)


def _row(key: Key, command: str, columns: tuple[Column, ...], body: Block | None, lead: str) -> RowBlock:
    return RowBlock(
        key,
        (("! ", "accent"), (lead, "muted")),
        ((clean_line(command), "text bold"),),
        columns,
        gap=1,
        body=body,
        indent=2,
        least=16,
    )


def _short(brief: str) -> str:
    return "cancelled ✗" if brief.startswith("cancelled") else f"{brief.removeprefix('ended by ')} ✗"


def _newest(key: Key, output: str) -> Block | None:
    lines = output[-_SHOWN * 2_000 :].rstrip().split("\n")
    if lines == [""]:
        return None
    left_out = output.rstrip().count("\n") + 1 - _SHOWN
    shown = clean("\n".join(lines[-_SHOWN:]))
    if left_out > 0:
        shown = f"… {left_out:,} more lines above, {key_name('open')} shows them\n{shown}"
    return TextBlock(key, shown, "muted")
