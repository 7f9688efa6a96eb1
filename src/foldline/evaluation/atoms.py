"""Atoms: what of a message can be found again word for word, by published and versioned rules.

Paths, identifiers, error lines, addresses, hashes, numbers with a name or a unit, constraints and todos are
found by `context.facts`; to these come whole lines, which an edit has to repeat exactly. What an answer used
of all that is `needed`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

from foldline.context import facts
from foldline.context.audit import path_parts
from foldline.protocol import AssistantMessage, BaseMessage, DeveloperMessage, ToolResultMessage, UserMessage

VERSION = 1
"""Of these rules and of the regular expressions behind them. Figures of different versions do not compare."""

AtomKind = Literal["path", "identifier", "error", "url", "hash", "number", "line", "constraint", "todo"]
KINDS: tuple[AtomKind, ...] = get_args(AtomKind)
USABLE: tuple[AtomKind, ...] = ("path", "identifier", "url", "hash", "line")
"""Kinds that an answer can be seen to use."""

SHORTEST_LINE = 20
"""Characters of a line without its indentation; shorter ones, such as `return None`, are everywhere."""


class Atom(NamedTuple):
    kind: AtomKind
    text: str


def atoms(message: BaseMessage, kinds: Collection[AtomKind] = KINDS) -> tuple[Atom, ...]:
    """The atoms of a message as they stand there, none twice. Thinking is not looked at."""
    text = "\n".join(facts.texts(message))
    found = [Atom(kind, atom) for kind in kinds if kind in _READERS for atom in _READERS[kind](text)]
    if "constraint" in kinds:
        found += [Atom("constraint", sentence) for sentence in facts.constraints(_rules(message))]
    if "todo" in kinds:
        found += [Atom("todo", item) for item in _todos(message)]
    return tuple(dict.fromkeys(found))


def needed(message: AssistantMessage) -> tuple[Atom, ...]:
    """What an answer used: paths, identifiers, addresses and hashes of its text and of its calls'
    arguments, and the lines that an edit says are in the file."""
    text = "\n".join(facts.texts(message))
    named = [Atom(kind, atom) for kind in USABLE if kind != "line" for atom in _READERS[kind](text)]
    replaced = [Atom("line", line) for old in _old_texts(message) for line in lines(old)]
    return tuple(dict.fromkeys([*named, *replaced]))


def lines(text: str) -> Iterator[str]:
    """Lines long enough to be told from others, without what is blank around them."""
    return (stripped for line in text.splitlines() if len(stripped := line.strip()) >= SHORTEST_LINE)


_READERS: Mapping[AtomKind, Callable[[str], Iterable[str]]] = {
    "path": facts.paths,
    "identifier": facts.identifiers,
    "error": facts.errors,
    "url": facts.urls,
    "hash": facts.hashes,
    "number": facts.numbers,
    "line": lines,
}


def _rules(message: BaseMessage) -> str:
    """What of a message may command or forbid."""
    match message:
        case UserMessage():
            return message.typed
        case _:
            return message.text if isinstance(message, DeveloperMessage) else ""


def _todos(message: BaseMessage) -> Iterator[str]:
    if not isinstance(message, ToolResultMessage):
        yield from facts.todos(message.text)
    if isinstance(message, AssistantMessage):
        for call in message.calls:
            yield from facts.open_todos(call.parsed()) or ()


# -- what an edit replaces -------------------------------------------------------------------------

_OLD = frozenset({"old", "oldText", "old_text", "oldString", "old_string", "old_str"})
"""What edit tools call the text to replace: ours, pi, Claude Code, opencode, SWE-agent, kimi-cli."""
_PATCH = "*** Begin Patch"
"""Begins the one argument of apply_patch, as Codex and others have it."""


def _old_texts(message: AssistantMessage) -> Iterator[str]:
    for call in message.calls:
        arguments = call.parsed()
        yield from _named_old(arguments)
        for text in facts.strings(arguments):
            if text.lstrip().startswith(_PATCH):
                yield "\n".join(line[1:] for line in text.splitlines() if line[:1] in ("-", " "))


def _named_old(arguments: object) -> Iterator[str]:
    """At any depth: some tools take a list of replacements."""
    pending = [arguments]
    while pending:
        match pending.pop():
            case dict() as mapping:
                yield from (text for key, text in mapping.items() if key in _OLD and isinstance(text, str))
                pending += mapping.values()
            case list() as items:
                pending += items
            case _:
                pass


# -- forms -----------------------------------------------------------------------------------------

Form = tuple[str, str]
"""A kind and a text, ready to be compared: what a person would accept as the same has one form in common."""

_ABBREVIATED = range(7, 13)
"""Digits of a commit id that people and git write."""
_NUMBERED = re.compile(r"\s*(?:[^\s:]{1,200}:)?\d{1,6}[:|\t→-]\s?")
"""What `cat -n`, `grep -n` and the read tools of several agents put before a line."""


def said(found: Iterable[Atom]) -> frozenset[Form]:
    """Every form that a text with these atoms says."""
    return frozenset(form for atom in found for form in _forms(atom))


def sought(atom: Atom) -> tuple[Form, ...]:
    """The forms of which one is enough for a reader who needs this atom.

    A path is there where one of the view ends in it; an absolute one also where it is told from a folder
    further down, by two names or more.
    """
    if atom.kind != "path":
        return ((atom.kind, atom.text),)
    path = path_parts(atom.text)
    below = range(1, len(path) - 1) if atom.text.startswith(("/", "~")) else ()
    return (_tail(path), *(_whole(path[start:]) for start in below))


def _forms(atom: Atom) -> Iterator[Form]:
    match atom.kind:
        case "path":
            path = path_parts(atom.text)
            yield _whole(path)
            yield from (_tail(path[start:]) for start in range(len(path)))
        case "hash":
            yield atom.kind, atom.text
            yield from (("hash", atom.text[:digits]) for digits in _ABBREVIATED if digits < len(atom.text))
        case "line":
            yield atom.kind, atom.text
            if atom.text[0] in "+-":
                yield atom.kind, atom.text[1:].strip()
            if number := _NUMBERED.match(atom.text):
                yield atom.kind, atom.text[number.end() :].strip()
        case _:
            yield atom.kind, atom.text


def _whole(path: tuple[str, ...]) -> Form:
    return "path", "/".join(path)


def _tail(path: tuple[str, ...]) -> Form:
    return "end of a path", "/".join(path)
