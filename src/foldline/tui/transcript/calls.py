"""The rows of tool calls and of the user's own commands.

Only the text of a row is kept in memory. Arguments and results are read from the history when a row is
expanded.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.memory.subjects import subject_of
from foldline.protocol import (
    AssistantMessage,
    Subagent,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.text import numbers
from foldline.text.harmless import clean, clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.plain import LaterBlock, RowBlock, RowColumn, TextBlock
from foldline.tui.look.cells import cut_right
from foldline.tui.look.links import to_file
from foldline.tui.transcript.keys import key_name
from foldline.tui.transcript.output import WHOLE, is_short_diff, output_block
from foldline.view.calls import command_of
from foldline.view.items import item_from
from foldline.view.outline import MessageOutline
from foldline.view.projection import Projection
from foldline.view.weight import entry_weight, item_weight

INDENT: Final = 2
"""Indent of a response in cells. The marks before prompts and tool rows have the same width."""
CALL_PIECE: Final = 1_000_000
"""Piece number of a response's first tool call, higher than that of any piece of its text."""
_BRIEF: Final = 12
_TOKENS: Final = 6
_SECONDS: Final = 6
"""Width of the duration column of a tool row, in cells."""
_TITLE: Final = 400
"""Maximum number of characters in a row's main text. No terminal has as many columns."""
_ON_PATHS: Final = ("read", "write", "edit", "ls")
"""Tools whose title is a path. Paths are shortened at the start."""

Opening = Literal["closed", "part", "whole"]
"""How much of a body is shown.

`closed`: nothing; `part`: the first lines; `whole`: as much as the chat can show.
"""


@dataclass(slots=True)
class CallRow:
    """The content of a tool call's row."""

    key: Key
    number: int
    """Index of the call among all calls in the same response."""
    call_id: str
    name: str
    title: str
    result: int | None = None
    """Index of the entry with the call's result; None until there is a result."""
    brief: str = ""
    failed: bool = False
    opens: bool = False
    """Whether the row is expanded initially."""
    seconds: float | None = None
    output: str = ""
    """The last part of the call's output while the call is running."""
    child: Subagent | None = None
    """The subagent started by the call."""

    def set_result(self, result: ToolResultMessage) -> None:
        """Store the parts of the result that the row shows."""
        details = result.details
        self.result = result.index
        self.failed = result.is_error
        self.seconds = details.seconds
        self.opens = is_short_diff(result)
        self.brief = cut_right(clean_line(details.brief), 40)
        if result.is_error and not self.brief:
            self.brief = "failed ✗"
        self.output = ""


def tool_name(name: str) -> str:
    """Return a tool's name as shown in rows.

    For a tool of an MCP server, this is `server · tool`.
    """
    server, separator, tool = name.removeprefix("mcp__").partition("__")
    if separator and name.startswith("mcp__"):
        name = f"{server} · {tool}"
    return clean_line(name)


def call_title(call: ToolCallPart) -> str:
    """Return one line describing the subject of a call, for example its path."""
    subject = subject_of(call)
    words = clean_line(subject.text[:_TITLE])
    arguments = call.parsed()
    if not words:
        parts = (f"{name} {json.dumps(value)}" for name, value in arguments.items())
        return clean_line(", ".join(parts)[:_TITLE])
    if subject.kind != "search":
        return words
    path = arguments.get("path")
    if isinstance(path, str):
        return f'"{words}" {clean_line(path[:_TITLE])}'
    return f'"{words}"'


def call_row(
    call: CallRow,
    projection: Projection,
    *,
    opening: Opening,
    gap: int,
    body: Block | None,
) -> RowBlock:
    """Return the row of a call, with its result on the right and `body` below."""
    on_path = call.name in _ON_PATHS
    return RowBlock(
        call.key,
        (
            ("▸ " if opening == "closed" else "▾ ", "muted"),
            (f"{call.name:<5} ", "text"),
        ),
        ((call.title, to_file(call.title, "text") if on_path else "text"),),
        _columns(call, projection),
        cut="left" if on_path else "right",
        gap=gap,
        body=body,
        indent=INDENT + 2,
        roomy=40,
        least=16,
    )


def _columns(call: CallRow, projection: Projection) -> tuple[RowColumn, ...]:
    if call.result is None and call.child is not None:
        return ()
    if call.result is None:
        return (RowColumn(call.brief or "…", _BRIEF, "accent", align="left"),)
    letter = altered_letter(projection, call.result)
    weight = f"{letter} {numbers.tokens(_tokens(projection, call.result))}".strip()
    columns = [
        RowColumn(weight, _TOKENS, "altered" if letter else "muted", drop="last")
    ]
    if (
        call.child is None or call.failed
    ):  # otherwise the subagent's line shows the result
        columns.insert(
            0,
            RowColumn(
                call.brief, _BRIEF, "alert" if call.failed else "text", align="left"
            ),
        )
    if call.seconds is not None:
        columns.append(
            RowColumn(numbers.seconds(call.seconds), _SECONDS, "muted", drop="first")
        )
    return tuple(columns)


def _tokens(projection: Projection, index: int) -> int:
    """Estimate the tokens of an entire entry without reading its text."""
    outline = projection.outline(index)
    assert isinstance(outline, MessageOutline), "the result of a call is a message"
    return item_weight(projection, item_from(outline, projection.entries)).tokens


def altered_letter(projection: Projection, index: int) -> str:
    """Return `C` for a clipped entry, `H` for a hidden entry, or an empty string."""
    return {"clipped": "C", "hidden": "H"}.get(projection.fate(index).kind, "")


class CallBook:
    """The calls in the transcript, with lookup by key, id and result."""

    def __init__(self) -> None:
        self._calls: dict[Key, CallRow] = {}
        self._by_id: dict[str, Key] = {}
        """The key of the newest call with each id."""
        self._by_result: dict[int, Key] = {}

    def get(self, key: Key) -> CallRow | None:
        return self._calls.get(key)

    @property
    def keys(self) -> Iterable[Key]:
        return self._calls.keys()

    @property
    def answered_keys(self) -> Iterable[Key]:
        """The keys of the calls that already have a result."""
        return self._by_result.values()

    def note(self, message: AssistantMessage) -> None:
        """Add the calls made by a response."""
        for number, part in enumerate(message.calls):
            key = (message.index, CALL_PIECE + number)
            name = tool_name(part.name)
            title = call_title(part)
            self._calls[key] = CallRow(key, number, part.call_id, name, title)
            self._by_id[part.call_id] = key

    def answer(self, result: ToolResultMessage) -> Key | None:
        """Add a result, and return the key of its call.

        Returns None if the call is unknown.
        """
        call = self.running(result.call_id)
        if call is None:
            return None
        call.set_result(result)
        self._by_result[result.index] = call.key
        return call.key

    def start(self, child: Subagent) -> Key | None:
        """Add a subagent, and return the key of the call that started it.

        Returns None if the call is unknown.
        """
        key = self._by_id.get(child.call_id)
        if key is not None:
            call = self._calls[key]
            call.child = child
            call.title = clean_line(child.title) or call.title
        return key

    def of_child(self, child: Subagent) -> Key | None:
        """Return the key of the call that started this subagent.

        Returns None if the call is unknown.
        """
        key = self._by_id.get(child.call_id)
        return key if key is not None and self._calls[key].child == child else None

    def running(self, call_id: str) -> CallRow | None:
        """Return the running call with this id.

        Returns None if the call is unknown or already has a result.
        """
        key = self._by_id.get(call_id)
        if key is None or self._calls[key].result is not None:
            return None
        return self._calls[key]

    def of_result(self, index: int) -> Key | None:
        """Return the key of the call that has this result.

        Returns None if the call is unknown.
        """
        return self._by_result.get(index)


SHELL_CALL: Final = "!"
"""Call id that events use for the user's running command (`agent/turn/shell.py`)."""
MORE_ABOVE: Final = "… {count:,} more lines above ({key} to expand)"
_SHOWN: Final = 12
"""Number of output lines below a collapsed command. As in a terminal, the newest lines are shown."""
_SHELL_BRIEF = 14
"""Width of a command's result column, in cells."""


@dataclass(slots=True)
class Running:
    """The command that the user is running."""

    command: str
    key: Key | None = None
    """Key of the command's block; None until the block is drawn.

    The command's future entry usually has the same key.
    """
    output: str = ""
    """The last part of the command's output."""


def shell_block(
    message: UserMessage, projection: Projection, *, opened: bool
) -> Block | None:
    """Return the row of a completed command.

    Returns None if the entry does not contain a command.
    """
    command = command_of(message)
    if command is None:
        return None
    output = message.text.removeprefix(f"$ {command}").removeprefix("\n")
    ending = output.rpartition("\n")[2]
    brief = ending[1:-1] if ending[:1] in ("[", "(") else ""
    result, style = "exit 0", "text"
    if brief.startswith(("exit ", "ended by ", "cancelled")):
        result, style = _short(brief), "alert"
    tokens = numbers.tokens(entry_weight(projection, message).tokens)
    columns = (
        RowColumn(result, _SHELL_BRIEF, style, align="left"),
        RowColumn(tokens, _TOKENS, "muted", drop="last"),
    )
    key = (message.index, 0)
    if opened:
        lines = min(output.count("\n") + 1, WHOLE)
        body = LaterBlock(key, lambda: output_block(key, output), lines)
        return _row(key, command, columns, body, "▾ ")
    if brief.startswith("exit "):  # the column already shows the exit code
        output, _, _ = output.rpartition("\n")
    return _row(key, command, columns, _newest(key, output), "")


def running_block(key: Key, command: str, output: str, gap: int) -> Block:
    """Return the row of a running command, with the last part of its output below."""
    columns = (RowColumn("…", _SHELL_BRIEF, "accent", align="left"),)
    return replace(_row(key, command, columns, _newest(key, output), ""), gap=gap)


def _row(
    key: Key,
    command: str,
    columns: tuple[RowColumn, ...],
    body: Block | None,
    lead: str,
) -> RowBlock:
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
    if brief.startswith("cancelled"):
        return "cancelled ✗"
    return f"{brief.removeprefix('ended by ')} ✗"


def _newest(key: Key, output: str) -> Block | None:
    lines = output[-_SHOWN * 2_000 :].rstrip().split("\n")
    if lines == [""]:
        return None
    left_out = output.rstrip().count("\n") + 1 - _SHOWN
    shown = clean("\n".join(lines[-_SHOWN:]))
    if left_out > 0:
        note = MORE_ABOVE.format(count=left_out, key=key_name("open"))
        shown = f"{note}\n{shown}"
    return TextBlock(key, shown, "muted", prose=False)
