"""What the raw history of a session offers to ask about, each piece with the entry it stands in.

Read once a session; a point asks for what stands before it. Whoever writes probes sees nothing else.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Final, NamedTuple

from foldline.context import facts
from foldline.context.audit import ENDING
from foldline.context.digest import one_line
from foldline.context.facts import effective_commands
from foldline.context.tokens import message_tokens
from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart, ToolResultMessage, UserMessage

SHORTEST, LONGEST = 40, 300
"""Characters of a sentence that can be told from others and still is one."""
_COUNTED: Final = re.compile(r"(?<![\w.,:-])(\d{1,7}) (passed|failed|errors?|warnings?|tests|files)\b")
_CHOICE: Final = re.compile(
    r"\b(?:instead of|rather than|because|decid(?:e|ed|ing)|let['’]s (?:go with|use|keep)|better to|"
    r"the (?:reason|root cause|real (?:issue|problem)) (?:is|was)|makes (?:more )?sense|so that|trade-?off|"
    r"simpler|cleaner|no need (?:for|to)|not worth)\b|"
    r"因为|决定|改用|而不是|原因是|不如|なぜなら|代わりに|왜냐하면|대신",
    re.IGNORECASE,
)


class Saying(NamedTuple):
    entry: int
    speaker: str  # `The user`, `The assistant` or `A command`
    text: str  # one sentence, or one line of an output, on one line


class Touched(NamedTuple):
    entry: int
    tool: str
    path: str
    modified: bool


class Edited(NamedTuple):
    """Lines of a file that other lines took the place of."""

    entry: int
    path: str  # empty where the call does not say
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    whole: bool = False  # whether `added` is all that the file holds now


class Ran(NamedTuple):
    """One run of a command, and how many of what the end of its output reports."""

    entry: int
    command: str
    numbers: Mapping[str, str]


class Turn(NamedTuple):
    """A user's request, and what the assistant said about how to meet it."""

    entry: int
    request: str
    choices: list[tuple[int, str]]


class Material:
    """Everything a session's recorded messages offer, oldest first."""

    def __init__(self, history: Sequence[BaseMessage]) -> None:
        self.history = tuple(history)
        self._indices = [message.index for message in history]
        self.sayings: list[Saying] = []
        self.rules: list[Saying] = []
        """Sentences of the user that command or forbid."""
        self.touches: list[Touched] = []
        self.edits: list[Edited] = []
        self.runs: list[Ran] = []
        self.turns: list[Turn] = []
        self._calls: dict[str, ToolCallPart] = {}
        for message in history:
            match message:
                case UserMessage(origin="typed"):
                    self._take_request(message)
                case AssistantMessage():
                    self._take_answer(message)
                case ToolResultMessage():
                    self._take_result(message)
                case _:
                    pass
        self.turns = [turn for turn in self.turns if turn.choices]
        self._texts = [everything(message) for message in history]
        self._squeezed = [squeezed(text) for text in self._texts]
        self._tokens = (0, *accumulate(map(message_tokens, history)))

    def count(self, position: int) -> int:
        """How many messages stand at or before an entry."""
        return bisect_right(self._indices, position)

    def age(self, text: str, position: int) -> int:
        """Tokens between the last mention of a text and an entry; all there are where it has none."""
        now = self.count(position)
        last = next((at for at in reversed(range(now)) if text in self._texts[at]), 0)
        return self._tokens[now] - self._tokens[last]

    def is_needed_after(self, text: str, position: int) -> bool:
        """Whether the session comes back to a text later on."""
        return any(text in later for later in self._texts[self.count(position) :])

    def mentions(self, name: str, position: int) -> bool:
        """Whether a name stands anywhere up to an entry, however it is spelt: `a-b`, `a_b`, `aB`."""
        return any(squeezed(name) in text for text in self._squeezed[: self.count(position)])

    def newest_request(self, position: int) -> BaseMessage | None:
        past = self.history[: self.count(position)]
        requests = (m for m in reversed(past) if isinstance(m, UserMessage) and m.origin == "typed")
        return next(requests, None)

    def _take_request(self, message: UserMessage) -> None:
        self.sayings += _said(message.index, "The user", facts.sentences(message.typed))
        self.rules += _said(message.index, "The user", facts.constraints(message.typed))
        self.turns.append(Turn(message.index, one_line(message.text), []))

    def _take_answer(self, message: AssistantMessage) -> None:
        self._calls |= {call.call_id: call for call in message.calls}
        sentences = list(facts.sentences(message.text))
        spoken = [line for line in sentences if not line.endswith((":", "："))]
        self.sayings += _said(message.index, "The assistant", spoken)
        if self.turns:
            said = _said(message.index, "The assistant", sentences)
            self.turns[-1].choices.extend((one.entry, one.text) for one in said if _CHOICE.search(one.text))

    def _take_result(self, message: ToolResultMessage) -> None:
        index, call = message.index, self._calls.get(message.call_id)
        touched = [
            Touched(index, message.name, touch.path, touch.action == "modified")
            for touch in message.details.files
        ]
        modified = [touch.path for touch in touched if touch.modified]
        self.touches += [touch for touch in touched if not touch.path.endswith("/")]
        if call is None:
            return
        if modified and not message.is_error:
            self.edits += [edit._replace(path=edit.path or modified[0]) for edit in _edits(index, call)]
        lines = facts.command_arguments(call.parsed())
        commands = [command for line in lines for command in effective_commands(line)]
        if len(commands) == 1:  # of several, nobody knows whose output it is
            self.sayings += _said(index, "A command", list(facts.errors(message.text))[:3])
            self.runs.append(Ran(index, commands[0], _reported(message.text[-ENDING:])))


def _said(index: int, speaker: str, lines: Iterable[str]) -> list[Saying]:
    return [Saying(index, speaker, line) for line in map(one_line, lines) if SHORTEST <= len(line) <= LONGEST]


def _reported(text: str) -> dict[str, str]:
    """How many of what a command reports, where it reports one number only."""
    numbers: dict[str, set[str]] = {}
    for found in _COUNTED.finditer(text):
        unit = found[2] if found[2].endswith("d") else found[2].rstrip("s") + "s"
        numbers.setdefault(unit, set()).add(found[1])
    return {unit: next(iter(found)) for unit, found in numbers.items() if len(found) == 1}


def squeezed(text: str) -> str:
    """The letters and digits of a text, small."""
    return "".join(char for char in text.casefold() if char.isalnum())


def everything(message: BaseMessage) -> str:
    """All that a message holds for its reader: text, thinking, and the calls' names and arguments."""
    parts = [message.text, message.thinking]
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        parts += [call.name, *facts.strings(call.parsed())]
    return "\n".join(part for part in parts if part)


# --- what calls did to the lines of files -------------------------------------------------------------

_PAIRS: Final = {name: name.replace("old", "new") for name in sorted(facts.OLD_ARGUMENTS)}
"""What edit tools call the text before, and the text after."""
_WHOLE: Final = ("content", "contents", "file_text")
_PATHS: Final = ("path", "file_path", "filePath")
_MOST_LINES: Final = 2_000
"""Lines of one replaced text that are compared."""


def _edits(index: int, call: ToolCallPart) -> Iterator[Edited]:
    """The changes a call asks for; none where it edits nothing."""
    arguments = call.parsed()
    path = next((path for name in _PATHS if isinstance(path := arguments.get(name), str)), "")
    edit = Edited(index, path)
    whole = next((text for name in _WHOLE if isinstance(text := arguments.get(name), str)), None)
    if whole is not None:
        yield edit._replace(added=_lines(whole), whole=True)
    else:
        yield from _edits_within(edit, arguments)


def _edits_within(edit: Edited, arguments: Mapping[str, object]) -> Iterator[Edited]:
    for old, new in _PAIRS.items():
        before, after = arguments.get(old), arguments.get(new)
        if isinstance(before, str) and isinstance(after, str):
            yield edit._replace(removed=_lines(before), added=_lines(after))
    for value in arguments.values():
        if isinstance(value, str) and value.lstrip().startswith((facts.PATCH, "--- ", "diff --git")):
            yield from _patched(edit, value.splitlines())
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict):
                yield from _edits_within(edit, item)


_NAMED: Final = re.compile(r"\*\*\* (?:Update|Add) File: (.+)|\+\+\+ (?:b/)?(\S+)")
_HEADER: Final = re.compile(r"--- |\*\*\* |diff --git|index |\+\+\+ ")


def _patched(edit: Edited, lines: Sequence[str]) -> Iterator[Edited]:
    """The runs of removed and added lines of a patch."""
    removed: list[str] = []
    added: list[str] = []
    for line in [*lines, " "]:
        sign = "" if _HEADER.match(line) else line[:1]
        if sign == "+":
            added.append(line[1:].strip())
            continue
        if (removed or added) and (sign != "-" or added):
            yield edit._replace(removed=tuple(removed), added=tuple(added))
            removed, added = [], []
        if sign == "-":
            removed.append(line[1:].strip())
        elif named := _NAMED.match(line):
            edit = edit._replace(path=(named[1] or named[2]).strip())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines())


def replaced_lines(edit: Edited) -> Iterator[tuple[str, str]]:
    """The lines that became another line, each with what it became."""
    removed, added = edit.removed[:_MOST_LINES], edit.added[:_MOST_LINES]
    matcher = SequenceMatcher(None, removed, added, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "replace" and i_end - i == j_end - j:
            yield from zip(removed[i:i_end], added[j:j_end], strict=True)


# --- a line with a gap --------------------------------------------------------------------------------

GAP: Final = "____"
_TOKEN: Final = re.compile(r"\"[^\"]{0,60}\"|'[^']{0,60}'|[#@]?[\w$]+(?:[./%-][\w$]+)*%?|\s+|.")
_VALUE: Final = re.compile(r"[\w#$@%&+.:/\-\"' ]{1,60}")
_VALUE_WORDS: Final = 4
_AROUND: Final = 6
"""Letters and digits that must stand around a gap, so that the line can be told from others."""


class Change(NamedTuple):
    """One value in a line of a file that became another."""

    before: str
    after: str
    head: str
    tail: str


def change(old: str, new: str) -> Change | None:
    """What differs between two lines, if it is one short value; None otherwise."""
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    before, after = "".join(a[head : len(a) - tail]), "".join(b[head : len(b) - tail])
    around = "".join(b[:head]), "".join(b[len(b) - tail :])
    # An ideograph says about as much as three letters.
    weight = sum(3 if ord(char) > 0x2E80 else 1 for char in "".join(around) if char.isalnum())
    if not (_is_value(before) and _is_value(after)) or weight < _AROUND:
        return None
    return Change(before.strip().strip("\"'"), after.strip().strip("\"'"), *around)


def _is_value(text: str) -> bool:
    telling = any(map(str.isdigit, text)) or sum(map(str.isalpha, text)) > 1
    return telling and _VALUE.fullmatch(text) is not None and len(text.split()) <= _VALUE_WORDS
