"""Tool calls, and the user's own commands, on one line each.

Kept here is what a row says; what a call was given and gave back stays in the history until it is opened.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.context import numbers
from foldline.context.calls import command_of, subject_of
from foldline.context.harmless import clean, clean_line
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.context.view import item_from
from foldline.context.weight import entry_weight, item_weight
from foldline.protocol import AssistantMessage, Subagent, ToolCallPart, ToolResultMessage, UserMessage
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import cut_right
from foldline.tui.blocks.links import to_file
from foldline.tui.blocks.plain import Column, RowBlock, TextBlock
from foldline.tui.transcript.output import OutputBlock, opens_by_itself
from foldline.tui.transcript.panel import key_name

INDENT: Final = 2
"""Cells before an answer, where the marks of prompts and tool rows stand."""
CALL_PIECE: Final = 1_000_000
"""Number of an answer's first tool call: after all its text."""
_BRIEF, _TOKENS, _SECONDS = 12, 6, 6
"""Cells of the columns of a tool row."""
_TITLE: Final = 400
"""Characters of a row's main text: more than any terminal has columns."""
_ON_PATHS: Final = ("read", "write", "edit", "ls")
"""Tools whose rows lose the start of their text first: it is a path."""

Opening = Literal["closed", "part", "whole"]
"""How far something is open: its first lines, or as much of it as the chat shows."""


@dataclass(slots=True)
class Call:
    """One call, as its row shows it."""

    key: Key
    number: int
    """Among the calls of its answer."""
    call_id: str
    name: str
    title: str
    result: int | None = None
    """Index of the entry that answers it."""
    brief: str = ""
    failed: bool = False
    opens: bool = False
    """Whether its body is seen without asking."""
    seconds: float | None = None
    output: str = ""
    """The newest of what it has put out while it runs."""
    child: Subagent | None = None
    """The subagent that it has started."""

    def answered(self, result: ToolResultMessage) -> None:
        """Take what its row says of the result."""
        details = result.details
        self.result, self.failed, self.seconds = result.index, result.is_error, details.seconds
        self.opens = opens_by_itself(result)
        self.brief = cut_right(clean_line(details.brief), 40) or ("failed ✗" if result.is_error else "")
        self.output = ""


def call_of(key: Key, number: int, call: ToolCallPart) -> Call:
    """A call whose result is not there yet."""
    return Call(key, number, call.call_id, tool_name(call.name), call_title(call))


def tool_name(name: str) -> str:
    """What a tool is called in rows: one of a server's with the server before it."""
    server, parted, tool = name.removeprefix("mcp__").partition("__")
    return clean_line(f"{server} · {tool}" if parted and name.startswith("mcp__") else name)


def call_title(call: ToolCallPart) -> str:
    """A call in one line: what it acts on."""
    subject = subject_of(call)
    words = clean_line(subject.text[:_TITLE])
    arguments = call.parsed()
    if not words:
        named = ", ".join(f"{name} {json.dumps(value)}" for name, value in arguments.items())
        return clean_line(named[:_TITLE])
    if subject.kind != "search":
        return words
    where = arguments.get("path")
    return f'"{words}" {clean_line(where[:_TITLE])}' if isinstance(where, str) else f'"{words}"'


def call_row(
    call: Call, projection: Projection, *, opening: Opening, gap: int, body: Block | None
) -> RowBlock:
    """A call on one line, its result at the right; `body` stands below it."""
    on_path = call.name in _ON_PATHS
    return RowBlock(
        call.key,
        (("▸ " if opening == "closed" else "▾ ", "muted"), (f"{call.name:<5} ", "text")),
        ((call.title, to_file(call.title, "text") if on_path else "text"),),
        _columns(call, projection),
        cut="left" if on_path else "right",
        gap=gap,
        body=body,
        indent=INDENT + 2,
        roomy=40,
        least=16,
    )


def _columns(call: Call, projection: Projection) -> tuple[Column, ...]:
    if call.result is None:
        return (Column(call.brief or "…", _BRIEF, "accent", align="left"),) if call.child is None else ()
    letter = altered_letter(projection, call.result)
    weight = f"{letter} {numbers.tokens(_tokens(projection, call.result))}".strip()
    columns = [Column(weight, _TOKENS, "altered" if letter else "muted", drop="last")]
    if call.child is None or call.failed:  # else the line below says it
        columns.insert(0, Column(call.brief, _BRIEF, "alert" if call.failed else "text", align="left"))
    if call.seconds is not None:
        columns.append(Column(numbers.seconds(call.seconds), _SECONDS, "muted", drop="first"))
    return tuple(columns)


def _tokens(projection: Projection, index: int) -> int:
    """What the entry weighs verbatim. Looks at no text."""
    outline = projection.outline(index)
    assert isinstance(outline, MessageOutline), "the result of a call is a message"
    return item_weight(projection, item_from(outline, projection.entries)).tokens


def altered_letter(projection: Projection, index: int) -> str:
    """`C` or `H` for an entry that is in the view, but not as it was."""
    return {"clipped": "C", "hidden": "H"}.get(projection.fate(index).kind, "")


class CallBook:
    """The calls of the transcript, by place, by id and by the entry that answers them."""

    def __init__(self) -> None:
        self._calls: dict[Key, Call] = {}
        self._by_id: dict[str, Key] = {}
        """The newest call of each id."""
        self._by_result: dict[int, Key] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def get(self, key: Key) -> Call | None:
        return self._calls.get(key)

    @property
    def keys(self) -> Iterable[Key]:
        return self._calls.keys()

    @property
    def answered_keys(self) -> Iterable[Key]:
        """Places of the calls whose result is there."""
        return self._by_result.values()

    def note(self, message: AssistantMessage) -> None:
        """Take the calls of an answer."""
        for number, part in enumerate(message.calls):
            key = (message.index, CALL_PIECE + number)
            self._calls[key] = call_of(key, number, part)
            self._by_id[part.call_id] = key

    def answer(self, result: ToolResultMessage) -> Key | None:
        """Take a result; the place of its call, if that is here."""
        call = self.running(result.call_id)
        if call is None:
            return None
        call.answered(result)
        self._by_result[result.index] = call.key
        return call.key

    def start(self, child: Subagent) -> Key | None:
        """Take the subagent that a call has started; the place of the call, if that is here."""
        key = self._by_id.get(child.call_id)
        if key is not None:
            self._calls[key].child = child
            self._calls[key].title = clean_line(child.title) or self._calls[key].title
        return key

    def of_child(self, child: Subagent) -> Key | None:
        """The place of the call that has started it."""
        key = self._by_id.get(child.call_id)
        return key if key is not None and self._calls[key].child == child else None

    def running(self, call_id: str) -> Call | None:
        """The call of this id, as long as it has no result."""
        key = self._by_id.get(call_id)
        return None if key is None or self._calls[key].result is not None else self._calls[key]

    def of_result(self, index: int) -> Key | None:
        """The place of the call that this entry answers."""
        return self._by_result.get(index)


SHELL_CALL: Final = "!"
"""Stands for the running command in events (`agent/shell.py`)."""
_SHOWN: Final = 12
"""Lines of output below a command that was not opened: the newest, as in a terminal."""
_SHELL_BRIEF = 14
"""Cells of the column beside the command: how it ended takes more than a call does."""


@dataclass(slots=True)
class Running:
    """The user's command while it runs. `key` is the place its entry will most likely have."""

    command: str
    key: Key | None = None
    """None until it is drawn."""
    output: str = ""
    """The newest of what it has put out."""


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
        Column(
            _short(brief) if failed else "exit 0", _SHELL_BRIEF, "alert" if failed else "text", align="left"
        ),
        Column(tokens, _TOKENS, "muted", drop="last"),
    )
    key = (message.index, 0)
    said = output.rpartition("\n")[0] if brief.startswith("exit ") else output  # the column says it
    body = OutputBlock(key, output) if opened else _newest(key, said)
    return _row(key, command, columns, body, "▾ " if opened else "")


def running_block(key: Key, command: str, output: str, gap: int) -> Block:
    """A command that runs, above the end of what it has put out so far, as a terminal shows it."""
    columns = (Column("…", _SHELL_BRIEF, "accent", align="left"),)
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
    return TextBlock(key, shown, "muted", prose=False)
