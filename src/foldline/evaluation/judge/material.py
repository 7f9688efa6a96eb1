"""What the raw history of a session offers to ask about, each piece with the entry it stands in.

Read once a session; a point asks for what stands before it. Whoever writes probes sees nothing else.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from foldline.context import facts
from foldline.context.digest import one_line
from foldline.context.tokens import message_tokens
from foldline.evaluation.record import Messages
from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart, ToolResultMessage, UserMessage
from foldline.sequences import same_start

SHORTEST, LONGEST = 40, 300
"""Characters of a sentence that can be told from others and still is one."""
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
    path: str


class Edited(NamedTuple):
    """Lines of a file that other lines took the place of."""

    entry: int
    path: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    whole: bool = False  # whether `added` is all that the file holds now

    def takes_away(self, line: str) -> bool:
        return line not in self.added and (self.whole or line in self.removed)


class Turn(NamedTuple):
    """A user's request, and what the assistant said about how to meet it."""

    entry: int
    request: str
    choices: list[tuple[int, str]]


class Material:
    """Everything a session's recorded messages offer, oldest first."""

    def __init__(self, history: Messages) -> None:
        self.history = tuple(history)
        self._indices = [message.index for message in history]
        self.sayings: list[Saying] = []
        self.touches: list[Touched] = []
        self.edits: list[Edited] = []
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
        self._squeezed = [facts.same_words(text) for text in self._texts]
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
        return any(facts.same_words(name) in text for text in self._squeezed[: self.count(position)])

    def newest_request(self, position: int) -> BaseMessage | None:
        past = self.history[: self.count(position)]
        requests = (m for m in reversed(past) if isinstance(m, UserMessage) and m.origin == "typed")
        return next(requests, None)

    def _take_request(self, message: UserMessage) -> None:
        self.sayings += _said(message.index, "The user", facts.sentences(message.typed))
        self.turns.append(Turn(message.index, one_line(message.text), []))

    def _take_answer(self, message: AssistantMessage) -> None:
        self._calls |= {call.call_id: call for call in message.calls}
        said = _said(message.index, "The assistant", facts.sentences(message.text))
        self.sayings += [one for one in said if not one.text.endswith((":", "："))]
        if self.turns:
            self.turns[-1].choices.extend((one.entry, one.text) for one in said if _CHOICE.search(one.text))

    def _take_result(self, message: ToolResultMessage) -> None:
        index, call = message.index, self._calls.get(message.call_id)
        touched = message.details.files
        self.touches += [Touched(index, file.path) for file in touched if not file.path.endswith("/")]
        modified = [file.path for file in touched if file.action == "modified"]
        if call is None:
            return
        if len(modified) == 1 and not message.is_error:  # of several, nobody knows which line is whose
            self.edits += _edits(index, modified[0], call.parsed())
        if any(facts.command_arguments(call.parsed())):
            self.sayings += _said(index, "A command", facts.errors(message.text)[:3])


def _said(index: int, speaker: str, lines: Iterable[str]) -> list[Saying]:
    return [Saying(index, speaker, line) for line in map(one_line, lines) if SHORTEST <= len(line) <= LONGEST]


def everything(message: BaseMessage) -> str:
    """All that a message holds for its reader: text, thinking, and the calls' names and arguments."""
    parts = [message.text, message.thinking]
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        parts += [call.name, *facts.strings(call.parsed())]
    return "\n".join(part for part in parts if part)


# --- what calls did to the lines of files -------------------------------------------------------------

_WHOLE: Final = ("content", "contents", "file_text")
"""What tools call the text of a file that they write anew."""
_RUN: Final = re.compile(r"(?:^[-+].*\n?)+", re.MULTILINE)
"""Removed and added lines of a patch that follow each other."""


def _edits(index: int, path: str, arguments: dict[str, object]) -> Iterator[Edited]:
    """The changes a call asks for; none where it edits nothing."""
    for text in facts.named(arguments, _WHOLE):
        yield Edited(index, path, (), _lines(text.splitlines()), whole=True)
    before, after = facts.named(arguments, facts.OLD_ARGUMENTS), facts.named(arguments, facts.NEW_ARGUMENTS)
    for old, new in zip(before, after, strict=False):
        yield Edited(index, path, _lines(old.splitlines()), _lines(new.splitlines()))
    for patch in facts.patches(arguments):
        for run in map(str.splitlines, _RUN.findall(patch)):
            removed, added = ([line[1:] for line in run if line[0] == sign] for sign in "-+")
            yield Edited(index, path, _lines(removed), _lines(added))


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(str.strip, lines))


# --- a line with a gap --------------------------------------------------------------------------------

GAP: Final = "____"
_TOKEN: Final = re.compile(r"\"[^\"]{0,60}\"|'[^']{0,60}'|[#@]?[\w$]+(?:[./%-][\w$]+)*%?|\s+|.")
_VALUE: Final = re.compile(r"(?=.*(?:\d|[^\W\d_].*[^\W\d_]))[\w#$@%&+.:/\-\"' ]{1,60}")
"""A short text with a digit or two letters in it."""
_VALUE_WORDS: Final = 4
_AROUND: Final = 6
"""Letters and digits that must stand around a gap, so that the line can be told from others."""


class Change(NamedTuple):
    """One value in a line of a file that became another."""

    before: str
    after: str
    around: str  # the line with a gap where the value stands
    line: str  # the line as it was left


def changes(edit: Edited) -> Iterator[Change]:
    """The lines in which one short value became another."""
    if len(edit.removed) == len(edit.added):
        found = map(_change, edit.removed, edit.added)
        yield from (change for change in found if change is not None)


def _change(old: str, new: str) -> Change | None:
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    head = same_start(a, b)
    tail = same_start(a[head:][::-1], b[head:][::-1])
    before, after = "".join(a[head : len(a) - tail]), "".join(b[head : len(b) - tail])
    around = f"{''.join(b[:head])}{GAP}{''.join(b[len(b) - tail :])}"
    if not (_is_value(before) and _is_value(after)) or len(facts.same_words(around)) < _AROUND:
        return None
    return Change(before.strip().strip("\"'"), after.strip().strip("\"'"), around, new)


def _is_value(text: str) -> bool:
    return _VALUE.fullmatch(text) is not None and len(text.split()) <= _VALUE_WORDS
