"""The audit of a compaction: which facts of what it takes away the view no longer holds.

What counts as a fact depends on who said it. The rule, by kind:

- **constraint**: sentences of users and developer messages that command or forbid, and those an earlier
  summary quotes;
- **todo**: what is still open at the end: task lists and notes of what was said, and the newest todo list;
- **error**: failures a command or a failed call reported, `ERRORS` of one output at most, and those a user
  or the assistant quoted. Files and searches that hold the word "error" report none. An output counts for
  less once the same command has run again;
- **command**: commands run or spoken of that do something; `ls`, `grep`, `cd` and the like are left out;
- **path**: files that calls touched or commands named, and files spoken of. What a listing lists is none;
- **number**, **identifier**: where the user or the assistant says them, or the end of the newest output of
  a command does. A file that was read holds hundreds of both, and nobody has mentioned them.

Fenced code is left out, except where a user pastes an error: it is work, not talk.

A fact is held where the view says it in a form a person would accept as the same: a path absolute or
relative, a command in other white space, a sentence in other punctuation, a number with another sign.
What is only paraphrased is lost. Pure and linear in the text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Literal, assert_never

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    Entry,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from foldline.sequences import grouped

from . import facts
from .facts import commands_of, effective_commands, joined, path_parts, script
from .view import is_summary, with_text

FactKind = Literal["path", "command", "error", "number", "identifier", "constraint", "todo"]

ERRORS = 3
"""Failures of one output at most: a compiler names the cause first, a traceback last."""
ENDING, OUTCOMES = 1_500, 3
"""Characters at the end of a command's output that are looked at for numbers and names, about twenty lines;
and how many of either, the last ones, count. That is where a run says how it went: `31 passed`. What stands
above it is progress and data; how long it took is forgotten with it."""
LOOKED_AT = 40_000
"""Characters at either end of an output that are searched for failures; as long as any terminal shows."""


class Voice(IntEnum):
    """Who brought a fact up; what is smaller weighs more."""

    USER = 0
    ASSISTANT = 1
    CHANGED = 2
    """A call changed the file."""
    DONE = 3
    """A call named it, or an error came of one."""
    SEEN = 4
    """It stands in an output, and nobody took it up; or in one that a newer run replaced."""


@dataclass(slots=True)
class Mention:
    """A fact, and everything that is known of where it comes from."""

    kind: FactKind
    text: str
    voice: Voice
    indices: list[int]
    """The entries that hold it, oldest first."""
    changed: bool = False
    """For a path: whether a call changed the file."""


def mentions(messages: Sequence[BaseMessage]) -> list[Mention]:
    """The facts of these messages, in order of first mention, none twice."""
    collected = _Mentions(messages)
    for message in messages:
        for kind, text, voice in collected.found_in(message):
            collected.add(kind, text, voice, message.index)
    return [*collected.all(), *_todos(messages)]


class _Mentions:
    """The facts found so far, and the commands that calls ran."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self._found: dict[tuple[FactKind, str], Mention] = {}
        self._ran: dict[str, tuple[str, ...]] = {}
        """By the id of a call: the command lines it ran."""
        self._newest: dict[tuple[str, ...], str] = {}
        """By what a command line does: the call that did it last."""
        for message in messages:
            for call in message.calls if isinstance(message, AssistantMessage) else ():
                lines = tuple(facts.command_arguments(call.parsed()))
                self._ran[call.call_id] = lines
                self._newest[commands_of(lines)] = call.call_id

    def all(self) -> list[Mention]:
        """What was found, by first mention; the paths of one file as one."""
        return _one_a_file(list(self._found.values()))

    def add(self, kind: FactKind, text: str, voice: Voice, index: int) -> None:
        fact = self._found.setdefault((kind, _key(kind, text)), Mention(kind, text, voice, [index]))
        fact.voice = min(fact.voice, voice)
        fact.changed |= voice is Voice.CHANGED
        if fact.indices[-1] != index:
            fact.indices.append(index)

    def found_in(self, message: BaseMessage) -> Iterator["_Found"]:
        match message:
            case UserMessage(origin="typed"):
                yield from _ruled(message.typed)
                yield from _failed(message.typed, Voice.USER)
                yield from _spoken(message.typed, Voice.USER)
                yield from _failed(message.piped, Voice.DONE)
            case UserMessage(origin="shell"):
                yield from _failed(message.text, Voice.DONE)
                yield from _ended(message.text)
            case DeveloperMessage() | UserMessage():
                yield from _ruled(message.text)
                yield from _spoken(message.text, Voice.ASSISTANT)
            case SystemMessage():
                yield from _ruled("\n".join(_standing(message.text)))
                yield from _spoken(LEDGER.sub("", message.text), Voice.ASSISTANT)
            case AssistantMessage():
                yield from _spoken(message.text, Voice.ASSISTANT)
                for call in message.calls:
                    yield from _called(self._ran[call.call_id])
            case ToolResultMessage():
                yield from self._resulted(message)
            case _:
                pass

    def _resulted(self, result: ToolResultMessage) -> Iterator["_Found"]:
        for touch in result.details.files:
            if not touch.path.endswith("/"):  # a folder that was listed
                yield "path", touch.path, Voice.CHANGED if touch.action == "modified" else Voice.DONE
        lines = self._ran.get(result.call_id)
        did = commands_of(lines or ())
        if did and self._newest[did] != result.call_id:
            yield from _failed(result.text, Voice.SEEN)
        elif did or (lines is None and _RUNS.search(result.name)):
            yield from _failed(result.text, Voice.DONE)
            yield from _ended(result.text)
        elif result.is_error:
            yield from _failed(result.text, Voice.DONE)


_Found = tuple[FactKind, str, Voice]

_RUNS = re.compile(r"bash|shell|exec|command|terminal", re.IGNORECASE)
"""Tools that run commands, where only their result is compacted and not the call."""


def _standing(summary: str) -> Iterator[str]:
    begin, end = "<standing-constraints>\n", "\n</standing-constraints>"
    at = 0
    while (at := summary.find(begin, at)) >= 0 and (ends := summary.find(end, at + len(begin))) >= 0:
        yield summary[at + len(begin) : ends]
        at = ends


def _ruled(text: str) -> Iterator[_Found]:
    for sentence in facts.constraints(text):
        yield "constraint", sentence, Voice.USER


def _spoken(text: str, voice: Voice) -> Iterator[_Found]:
    text = facts.prose(text)
    for line in facts.commands(text):
        for command in effective_commands(line):
            yield "command", command, voice
    for path in filter(_is_file, facts.paths(text)):
        yield "path", path, voice
    yield from (("number", number, voice) for number in _numbers(text))
    yield from (("identifier", name, voice) for name in _names(text))
    if voice is not Voice.USER:
        yield from _failed(text, voice)


def _called(lines: Sequence[str]) -> Iterator[_Found]:
    for command in commands_of(lines):
        yield "command", command, Voice.DONE
    for line in lines:
        for path in filter(_is_file, facts.paths(script(line))):
            yield "path", path, Voice.DONE


def _ended(output: str) -> Iterator[_Found]:
    ending = output if len(output) <= ENDING else output[-ENDING:].partition("\n")[2]
    failures = frozenset(facts.errors(ending))  # facts by themselves
    ending = "\n".join(line for line in ending.splitlines() if line.strip() not in failures)
    outcomes = [number for number in _numbers(ending) if not _TOOK.search(number)]
    yield from (("number", number, Voice.SEEN) for number in outcomes[-OUTCOMES:])
    yield from (("identifier", name, Voice.SEEN) for name in _names(ending)[-OUTCOMES:])


def _numbers(text: str) -> list[str]:
    return [
        number for number in facts.numbers(_FRAME.sub("", text)) if not facts.is_path(number.split(":")[0])
    ]


def _names(text: str) -> Sequence[str]:
    bare = _FRAME.sub("", text)
    return facts.identifiers(_PATH_RUN.sub(lambda run: " " if "/" in run[0] else run[0], bare))


_TOOK = re.compile(r"\d ?(?:[mµn]?s|sec|seconds?|min|minutes?)\Z|\btime\b|\"")
"""A duration, or a field of JSON."""
_FRAME = re.compile(r"^[ \t]{1,40}at [^\n]{1,2000}$", re.MULTILINE)
"""A frame of a stack trace, as JavaScript and Java write them: places, by the dozen."""
_PATH_RUN = re.compile(r"[A-Za-z0-9_./~@+\-]++")


def _failed(text: str, voice: Voice) -> Iterator[_Found]:
    if len(text) > 2 * LOOKED_AT:
        text = f"{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"
    telling = [line for line in facts.errors(text) if not _SAYS_LITTLE.match(line)]
    for line in [*telling[: ERRORS - 1], *telling[ERRORS - 1 :][-1:]]:
        yield "error", line, voice


_SAYS_LITTLE = re.compile(r"Traceback|\W*(?:[\w ]{0,30})?exit(?:ed)?\b[^:]*\Z", re.IGNORECASE)
"""A traceback's first line and a bare exit status: the line between them says what went wrong."""


_SIGN = re.compile(
    r"(?:Error|Exception|\berror(?:\[\w+\]|\s\w{1,12})?|\bfatal|\bpanic|ERR!|错误|失败|エラー|오류)[:：] *"
)
_TELLING = 12
"""Characters of an error's message from which on it is another without its class or place."""


def error_message(line: str) -> str:
    """What an error says, without its class and the place in front of it; all of it where that is little."""
    sign = _SIGN.search(line)
    said = line[sign.end() :] if sign else ""
    return said if len(said) >= _TELLING else line


def _is_file(path: str) -> bool:
    """Whether a path in prose names a file or folder: `/compact` is a command, `read/write` and `a.py/b.py`
    are prose."""
    *folders, name = path.rstrip("/").split("/")
    rooted = path.startswith(("/", "~/")) and len(folders) > 1
    several = any("." in folder and facts.is_path(folder) for folder in folders)
    return (
        not several
        and ".." not in name
        and path != "/dev/null"
        and (rooted or "." in name.strip(".") or facts.is_path(name))
    )


def _key(kind: FactKind, text: str) -> str:
    """A form of the text that is equal for two wordings of one fact."""
    match kind:
        case "path":
            return "/".join(path_parts(text))
        case "error":
            return " ".join(error_message(text).split())
        case "constraint" | "command" | "todo":
            return " ".join(text.split())
        case _:
            return text


# -- paths -----------------------------------------------------------------------------------------


def _one_a_file(found: Sequence[Mention]) -> list[Mention]:
    """Merges paths of one file: those that end alike into the shorter, a bare name into the only match."""
    files = {path_parts(fact.text): fact for fact in found if fact.kind == "path"}
    merged: set[int] = set()

    def merge(fact: Mention, into: Mention) -> None:
        merged.add(id(fact))
        into.voice = min(into.voice, fact.voice)
        into.changed |= fact.changed
        into.indices[:] = sorted({*into.indices, *fact.indices})

    for path in sorted(files, key=len, reverse=True):
        shorter = next((path[start:] for start in range(1, len(path) - 1) if path[start:] in files), None)
        if shorter:
            merge(files[path], files[shorter])
    ends = grouped(
        (path[-1], fact) for path, fact in files.items() if len(path) > 1 and id(fact) not in merged
    )
    for path, fact in files.items():
        if len(path) == 1 and len(candidates := ends.get(path[0], [])) == 1:
            merge(fact, candidates[0])
    return [fact for fact in found if id(fact) not in merged]


# -- todos -----------------------------------------------------------------------------------------


def _todos(messages: Sequence[BaseMessage]) -> list[Mention]:
    """What is open at the end of these messages; an item may be ticked off entries after it was noted."""
    spoken = [message for message in messages if _is_spoken(message)]
    opened: dict[str, Mention] = {}
    for message in spoken:
        voice = Voice.USER if isinstance(message, UserMessage) else Voice.ASSISTANT
        for item in facts.todos(_spoken_by(message)):
            opened.setdefault(item, Mention("todo", item, voice, [])).indices.append(message.index)
    still_open = set(facts.todos("\n".join(map(_spoken_by, spoken))))
    noted = {item: mention for item, mention in opened.items() if item in still_open}
    return list((_planned(messages) | noted).values())


def _spoken_by(message: BaseMessage) -> str:
    return message.typed if isinstance(message, UserMessage) else message.text


def _is_spoken(message: BaseMessage) -> bool:
    if isinstance(message, UserMessage):
        return message.origin == "typed"
    return not isinstance(message, ToolResultMessage)


def _planned(messages: Sequence[BaseMessage]) -> dict[str, Mention]:
    """The open items of the newest todo list of a tool, with the entries of all lists that hold them."""
    lists = [
        (message.index, items)
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
        if (items := facts.open_todos(call.parsed())) is not None
    ]
    newest = lists[-1][1] if lists else []
    planned = {item: Mention("todo", item, Voice.ASSISTANT, []) for item in newest}
    for index, items in lists:
        for item in items:
            if item in planned:
                planned[item].indices.append(index)
    return planned


DEEPEST = 12
"""Names of a path that are compared: deeper ones would cost the square of their depth."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A fact that only the compacted part held."""

    kind: FactKind
    text: str
    indices: tuple[int, ...]
    """The compacted entries that hold it, oldest first."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What a compaction loses. Deterministic: the same messages give the same audit."""

    lost: tuple[Lost, ...] = ()
    """Worth most first."""
    facts: int = 0
    """Facts found in the compacted part, lost or not."""
    in_ledger: int = 0
    """Of those that are not lost, how many the ledger of the new view holds."""


def audit(compacted: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> Audit:
    """Compare the compacted messages with the view after the compaction. Linear in the text of both."""
    found = mentions(compacted)
    view = ViewText(after, namesakes(found))
    lost = sorted((mention for mention in found if not view.holds(mention)), key=_worth)
    ledger = ViewText(list(_ledgers(after)), namesakes(found))
    return Audit(
        lost=tuple(Lost(mention.kind, mention.text, tuple(mention.indices)) for mention in lost),
        facts=len(found),
        in_ledger=sum(map(ledger.holds, found)),
    )


LEDGER = re.compile(r"<(ledger|pinned-lines)>\n.*?\n</\1>", re.DOTALL)
"""What is quoted there nobody has said: it is no fact of a summary, but holds those of others."""


def _ledgers(messages: Iterable[BaseMessage]) -> Iterator[BaseMessage]:
    for message in messages:
        if is_summary(message) and (found := [each[0] for each in LEDGER.finditer(message.text)]):
            yield with_text(message, "\n".join(found))


def taken(before: Iterable[BaseMessage], after: Iterable[BaseMessage]) -> list[BaseMessage]:
    """The messages of the view before a compaction that the view after does not hold as they were."""
    kept = {message.key: message.parts for message in after}
    return [message for message in before if kept.get(message.key) != message.parts]


def attached_again(later: Iterable[Entry]) -> list[BaseMessage]:
    """What a program added after a compaction, before the next answer: agents attach files again, and what
    tools and skills there are. The model has it as if the view had kept it."""
    before_answer = takewhile(lambda entry: not isinstance(entry, AssistantMessage), later)
    return [entry for entry in before_answer if isinstance(entry, DeveloperMessage)]


# -- what is worth most ----------------------------------------------------------------------------

_RANK: dict[FactKind, int] = {
    "constraint": 0,
    "todo": 1,
    "error": 2,
    "command": 3,
    "path": 5,
    "number": 6,
    "identifier": 7,
}
_CHANGED_FILE = 4
"""Between what must be known and what can be looked up."""


def _worth(mention: Mention) -> tuple[bool, int, int, int, int]:
    """First what was taken up, last what only stood in an output; then by kind, voice, frequency and age."""
    return (
        mention.voice is Voice.SEEN,
        _CHANGED_FILE if mention.changed else _RANK[mention.kind],
        mention.voice,
        -len(mention.indices),
        -mention.indices[-1],
    )


# -- what the view holds ---------------------------------------------------------------------------

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_RUN = re.compile(r"[a-z0-9]++")
_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"\d++(?:[.,_]\d++)*+|[{_WIDE}%°]|[^\W\d{_WIDE}][^\W{_WIDE}]*+")


def namesakes(found: Iterable[Mention]) -> Counter[str]:
    """How many of the files among these facts have a name."""
    return Counter(path_parts(fact.text)[-1] for fact in found if fact.kind == "path")


class ViewText:
    """The text of a view, asked for facts. Each form of it is made once, and only where it is asked for."""

    def __init__(self, messages: Sequence[BaseMessage], named: Mapping[str, int]) -> None:
        """`named` are the `namesakes` of all facts that may be asked for."""
        self._text = "\n".join(text for message in messages for text in facts.texts(message))
        self._named = named

    def holds(self, fact: Mention) -> bool:
        match fact.kind:
            case "identifier":
                return fact.text in self._words
            case "path":
                return self._names(path_parts(fact.text)) or self._quotes(fact.text)
            case "number":
                # As it stands, where its end is taken for more of it: `cost: 0` of `cost: 0.000000001`.
                runs, text = _runs(fact.text), _spaced(fact.text)
                as_it_stands = self._all_runs.issuperset(runs) and text in self._spaced
                return as_it_stands or self._pairs.issuperset(_pairs(fact.text))
            case "command":
                return self._quotes(fact.text)
            case "error":
                return self._quotes(fact.text) or self._quotes(error_message(fact.text))
            case "constraint" | "todo":
                return self._has_runs_of(fact.text) and _letters(fact.text) in self._letters
            case _:
                assert_never(fact.kind)

    def _quotes(self, line: str) -> bool:
        return self._has_runs_of(line) and _spaced(line) in self._spaced

    def _has_runs_of(self, line: str) -> bool:
        """Whether the view has all words of a line but the outermost, which may be parts of longer ones.
        Finds nearly all that is lost; to search the view for each line would take their product."""
        return self._all_runs.issuperset(_runs(line)[1:-1])

    def _names(self, path: tuple[str, ...]) -> bool:
        """Whether a path of the view holds this one, or ends it; a bare name where only one file has it."""
        ends = (path[start:] for start in range(len(path) - 1))
        return (
            path in self._runs
            or any(end in self._paths for end in ends)
            or (path[-1:] in self._paths and self._named[path[-1]] == 1)
        )

    @cached_property
    def _paths(self) -> frozenset[tuple[str, ...]]:
        return frozenset(map(path_parts, facts.paths(self._text)))

    @cached_property
    def _runs(self) -> frozenset[tuple[str, ...]]:
        return frozenset(
            path[start:end]
            for path in self._paths
            for start in range(len(path))
            for end in range(start + 1, min(len(path), start + DEEPEST) + 1)
        )

    @cached_property
    def _all_runs(self) -> frozenset[str]:
        return frozenset(_runs(self._text))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._text))

    @cached_property
    def _pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(_pairs(self._text))

    @cached_property
    def _spaced(self) -> str:
        return _spaced(joined(self._text))

    @cached_property
    def _letters(self) -> str:
        return _letters(self._text)


def _runs(text: str) -> list[str]:
    return _RUN.findall(text.casefold())


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text.casefold())


_NO_LETTERS = re.compile(r"[\W_]+")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    return pairwise(
        token.replace(",", "").replace("_", "") if token[0].isdigit() else token
        for token in _TOKEN.findall(text.casefold())
    )
