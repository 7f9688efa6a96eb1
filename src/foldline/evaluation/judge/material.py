"""What the raw history of a session offers to ask about, each piece with the entry it stands in.

Read once a session; a point asks for what stands before it. The writer of probes sees nothing else, and no
view. Pure.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from foldline.context import facts
from foldline.context.audit import ENDING
from foldline.context.digest import one_line
from foldline.context.facts import effective_commands
from foldline.context.tokens import message_tokens
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from .changes import Block, blocks


@dataclass(frozen=True, slots=True)
class Saying:
    index: int
    speaker: str
    """`The user`, `The assistant` or `A command`."""
    text: str
    """One sentence, or one line of an output, on one line."""


@dataclass(frozen=True, slots=True)
class Touched:
    index: int
    tool: str
    path: str
    modified: bool


@dataclass(frozen=True, slots=True)
class Edited:
    index: int
    tool: str
    block: Block


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a command, and how many of what the end of its output reports."""

    index: int
    command: str
    numbers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's request, and what the assistant said about how to meet it."""

    index: int
    request: str
    choices: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Material:
    """All of it, oldest first. The properties of a text are those up to an entry."""

    history: tuple[BaseMessage, ...]
    sayings: tuple[Saying, ...]
    rules: tuple[Saying, ...]
    """Sentences of the user that command or forbid."""
    touches: tuple[Touched, ...]
    edits: tuple[Edited, ...]
    runs: tuple[Ran, ...]
    turns: tuple[Turn, ...]
    _text: str = field(repr=False)
    _squeezed: str = field(repr=False)
    _ends: tuple[int, ...] = field(repr=False)
    _squeezed_ends: tuple[int, ...] = field(repr=False)
    _tokens: tuple[int, ...] = field(repr=False)
    _indices: tuple[int, ...] = field(repr=False)

    def count(self, position: int) -> int:
        """How many messages stand at or before an entry."""
        return bisect_right(self._indices, position)

    def age(self, text: str, position: int) -> int:
        """Tokens between the last mention of a text and an entry; all there are where it has none."""
        now = self.count(position)
        at = self._text.rfind(text, 0, self._end(now))
        message = bisect_right(self._ends, at) if at >= 0 else 0
        return self._tokens[now] - self._tokens[message]

    def is_needed_after(self, text: str, position: int) -> bool:
        """Whether the session comes back to a text later on."""
        return self._text.find(text, self._end(self.count(position))) >= 0

    def mentions(self, name: str, position: int) -> bool:
        """Whether a name stands anywhere up to an entry, however it is spelt: `a-b`, `a_b`, `aB`."""
        now = self.count(position)
        return self._squeezed.find(squeezed(name), 0, self._squeezed_ends[now - 1] if now else 0) >= 0

    def _end(self, messages: int) -> int:
        return self._ends[messages - 1] if messages else 0


def squeezed(text: str) -> str:
    """Its letters and digits, small."""
    return "".join(char for char in text.casefold() if char.isalnum())


def material(history: Sequence[BaseMessage]) -> Material:
    """Everything a session's recorded messages offer."""
    calls = {call.call_id: call for message in history for call in _calls(message)}
    texts = [everything(message) for message in history]
    narrow = [squeezed(text) for text in texts]
    return Material(
        history=tuple(history),
        sayings=tuple(saying for message in history for saying in _sayings(message, calls)),
        rules=tuple(rule for message in history for rule in _rules(message)),
        touches=tuple(touch for message in history for touch in _touches(message)),
        edits=tuple(edit for message in history for edit in _edits(message, calls)),
        runs=tuple(run for message in history for run in _runs(message, calls)),
        turns=tuple(_turns(history)),
        _text="\n".join([*texts, ""]),
        _squeezed="".join(narrow),
        _ends=tuple(accumulate(len(text) + 1 for text in texts)),
        _squeezed_ends=tuple(accumulate(map(len, narrow))),
        _tokens=(0, *accumulate(map(message_tokens, history))),
        _indices=tuple(message.index for message in history),
    )


def everything(message: BaseMessage) -> str:
    """All that a message holds for its reader: text, thinking, and the calls' names and arguments."""
    parts = [message.text, message.thinking]
    for call in _calls(message):
        parts += [call.name, *facts.strings(call.parsed())]
    return "\n".join(part for part in parts if part)


def _calls(message: BaseMessage) -> tuple[ToolCallPart, ...]:
    return message.calls if isinstance(message, AssistantMessage) else ()


# -- sayings ---------------------------------------------------------------------------------------

_SHORTEST, _LONGEST = 40, 300
"""Characters of a sentence that can be told from others and still is one."""


def _sayings(message: BaseMessage, calls: dict[str, ToolCallPart]) -> Iterator[Saying]:
    match message:
        case UserMessage(origin="typed"):
            yield from _said(message.index, "The user", facts.sentences(message.typed))
        case AssistantMessage():
            spoken = (line for line in facts.sentences(message.text) if not line.endswith((":", "：")))
            yield from _said(message.index, "The assistant", spoken)
        case ToolResultMessage() if _command(message, calls):
            yield from _said(message.index, "A command", facts.errors(message.text)[:3])
        case _:
            pass


def _said(index: int, speaker: str, lines: Iterable[str]) -> Iterator[Saying]:
    for line in map(one_line, lines):
        if _SHORTEST <= len(line) <= _LONGEST:
            yield Saying(index, speaker, line)


def _rules(message: BaseMessage) -> Iterator[Saying]:
    if isinstance(message, UserMessage) and message.origin == "typed":
        yield from _said(message.index, "The user", facts.constraints(message.typed))


# -- files -----------------------------------------------------------------------------------------


def _touches(message: BaseMessage) -> Iterator[Touched]:
    if isinstance(message, ToolResultMessage):
        for touch in message.details.files:
            if not touch.path.endswith("/"):
                yield Touched(message.index, message.name, touch.path, touch.action == "modified")


def _edits(message: BaseMessage, calls: dict[str, ToolCallPart]) -> Iterator[Edited]:
    """The changes that were made: those of calls whose result says so."""
    if not isinstance(message, ToolResultMessage) or message.is_error or message.call_id not in calls:
        return
    changed = [touch.path for touch in message.details.files if touch.action == "modified"]
    if changed:
        for block in blocks(calls[message.call_id]):
            path = block.path or changed[0]
            yield Edited(message.index, message.name, Block(path, block.removed, block.added, block.whole))


# -- commands --------------------------------------------------------------------------------------

_COUNTED = re.compile(r"(?<![\w.,:-])(\d{1,7}) (passed|failed|errors?|warnings?|tests|files)\b")


def _runs(message: BaseMessage, calls: dict[str, ToolCallPart]) -> Iterator[Ran]:
    if isinstance(message, ToolResultMessage) and (command := _command(message, calls)):
        numbers: dict[str, set[str]] = {}
        for found in _COUNTED.finditer(message.text[-ENDING:]):
            unit = found[2] if found[2].endswith("d") else found[2].rstrip("s") + "s"
            numbers.setdefault(unit, set()).add(found[1])
        certain = {unit: next(iter(found)) for unit, found in numbers.items() if len(found) == 1}
        yield Ran(message.index, command, certain)


def _command(result: ToolResultMessage, calls: dict[str, ToolCallPart]) -> str:
    """The one command a result is the output of; empty where there is none, or several."""
    call = calls.get(result.call_id)
    lines = tuple(facts.command_arguments(call.parsed())) if call else ()
    done = [command for line in lines for command in effective_commands(line)]
    return done[0] if len(done) == 1 else ""


# -- turns -----------------------------------------------------------------------------------------

_CHOICE = re.compile(
    r"\b(?:instead of|rather than|because|decid(?:e|ed|ing)|let['’]s (?:go with|use|keep)|better to|"
    r"the (?:reason|root cause|real (?:issue|problem)) (?:is|was)|makes (?:more )?sense|so that|trade-?off|"
    r"simpler|cleaner|no need (?:for|to)|not worth)\b|"
    r"因为|决定|改用|而不是|原因是|不如|なぜなら|代わりに|왜냐하면|대신",
    re.IGNORECASE,
)


def _turns(history: Sequence[BaseMessage]) -> Iterator[Turn]:
    request: UserMessage | None = None
    choices: list[tuple[int, str]] = []
    for message in [*history, UserMessage()]:
        match message:
            case UserMessage(origin="typed"):
                if request is not None and choices:
                    yield Turn(request.index, one_line(request.text), tuple(choices))
                request, choices = message, []
            case AssistantMessage():
                choices += [
                    (message.index, line)
                    for line in map(one_line, facts.sentences(message.text))
                    if _SHORTEST <= len(line) <= _LONGEST and _CHOICE.search(line)
                ]
            case _:
                pass
