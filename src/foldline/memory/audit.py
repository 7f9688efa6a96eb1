"""The audit of a compaction: facts from the compacted part that are not in the new view.

The `mentions` module defines which facts count.

A fact counts as present if the view contains it in any form that a person would accept as the same: an
absolute or relative path, a command with different white space, a sentence with different punctuation, a
number with a different sign. Facts that are merely paraphrased count as lost. Pure. Takes time linear in the
length of the text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import assert_never

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    Entry,
)
from foldline.sequences import grouped
from foldline.text.patterns import lazy_pattern
from foldline.text.shorten import one_line
from foldline.view.items import Messages, is_summary, with_text

from . import facts
from .cues import WIDE
from .facts import path_parts, same_words
from .mentions import LEDGER, FactKind, Mention, MentionFinder, Voice, error_message
from .shell_lines import joined

# -- facts -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class MentionedFact:
    """A fact and where it is mentioned."""

    kind: FactKind
    text: str
    voice: Voice
    """The most important source that mentions the fact."""
    indices: list[int]
    """Indices of the entries that contain the fact, oldest first."""
    changed: bool = False
    """For a path, whether a call changed the file."""


def facts_of(messages: Messages) -> list[MentionedFact]:
    """Return the facts in the order in which they are first mentioned."""
    finder = MentionFinder(messages)
    found: dict[tuple[FactKind, str], MentionedFact] = {}
    for message in messages:
        for mention in finder.mentions_in(message):
            _add(found, mention, message.index)
    return _merge_paths(list(found.values()))


def _add(
    found: dict[tuple[FactKind, str], MentionedFact],
    mention: Mention,
    index: int,
) -> None:
    kind, text, voice = mention
    key = (kind, _key(kind, text))
    fact = found.get(key)
    if fact is None:
        fact = MentionedFact(kind, text, voice, [index])
        found[key] = fact
    fact.voice = min(fact.voice, voice)
    fact.changed |= voice is Voice.CHANGED
    if fact.indices[-1] != index:
        fact.indices.append(index)


def _key(kind: FactKind, text: str) -> str:
    """Return a key that is the same for two wordings of the same fact."""
    match kind:
        case "path":
            return "/".join(path_parts(text))
        case "error":
            return one_line(error_message(text))
        case "constraint" | "command" | "todo":
            return one_line(text)
        case _:
            return text


def _merge_paths(all_facts: Sequence[MentionedFact]) -> list[MentionedFact]:
    """Merge paths that refer to the same file.

    A longer path is merged into a shorter one with the same end. A bare name is merged into a path that ends
    with this name, if there is only one such path.
    """
    files = {path_parts(fact.text): fact for fact in all_facts if fact.kind == "path"}
    merged = set()
    for path in sorted(files, key=len, reverse=True):
        shorter_paths = (path[start:] for start in range(1, len(path) - 1))
        shorter = next((end for end in shorter_paths if end in files), None)
        if shorter:
            _merge(files[path], files[shorter])
            merged.add(id(files[path]))
    long_paths = (
        (path[-1], fact)
        for path, fact in files.items()
        if len(path) > 1 and id(fact) not in merged
    )
    facts_by_name = grouped(long_paths)
    for path, fact in files.items():
        namesake_facts = facts_by_name.get(path[0], [])
        if len(path) == 1 and len(namesake_facts) == 1:
            _merge(fact, namesake_facts[0])
            merged.add(id(fact))
    return [fact for fact in all_facts if id(fact) not in merged]


def _merge(fact: MentionedFact, target: MentionedFact) -> None:
    target.voice = min(target.voice, fact.voice)
    target.changed |= fact.changed
    target.indices[:] = sorted({*target.indices, *fact.indices})


# -- the audit -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lost:
    """A fact from the compacted part that the new view does not contain."""

    kind: FactKind
    text: str
    indices: tuple[int, ...]
    """Indices of the compacted entries that contain the fact, oldest first."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The facts that a compaction lost. Deterministic."""

    lost: tuple[Lost, ...] = ()
    """The lost facts, most valuable first."""
    facts: int = 0
    """Number of facts in the compacted part, including those that were lost."""
    in_ledger: int = 0
    """Number of facts in the ledger of the new view."""


def audit(compacted: Messages, after: Messages) -> Audit:
    """Compare the compacted messages with the view after the compaction.

    Takes time linear in the length of both texts.
    """
    all_facts = facts_of(compacted)
    names = namesakes(all_facts)
    view = ViewText(after, names)
    ledger = ViewText(list(_ledgers(after)), names)
    lost = sorted((fact for fact in all_facts if not view.holds(fact)), key=_value)
    return Audit(
        lost=tuple(Lost(fact.kind, fact.text, tuple(fact.indices)) for fact in lost),
        facts=len(all_facts),
        in_ledger=sum(map(ledger.holds, all_facts)),
    )


def _ledgers(messages: Iterable[BaseMessage]) -> Iterator[BaseMessage]:
    for message in messages:
        if not is_summary(message):
            continue
        ledgers = [match[0] for match in LEDGER.finditer(message.text)]
        if ledgers:
            yield with_text(message, "\n".join(ledgers))


def removed(
    before: Iterable[BaseMessage], after: Iterable[BaseMessage]
) -> list[BaseMessage]:
    """Return the messages that a compaction removed or changed."""
    kept_parts = {message.key: message.parts for message in after}
    return [
        message for message in before if kept_parts.get(message.key) != message.parts
    ]


def attached_again(later: Iterable[Entry]) -> list[BaseMessage]:
    """Return the developer messages between a compaction and the next answer.

    After a compaction, agents attach files and lists of tools again. The model still has their content, so
    their facts are not lost.
    """
    before_answer = takewhile(
        lambda entry: not isinstance(entry, AssistantMessage), later
    )
    return [entry for entry in before_answer if isinstance(entry, DeveloperMessage)]


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
"""Rank of a changed file, between facts that must be known and facts that can be looked up."""


def _value(fact: MentionedFact) -> tuple[bool, int, int, int, int]:
    """Return a sort key made from kind, source, frequency and age.

    Facts mentioned only in outputs come last.
    """
    return (
        fact.voice is Voice.SEEN,
        _CHANGED_FILE if fact.changed else _RANK[fact.kind],
        fact.voice,
        -len(fact.indices),
        -fact.indices[-1],
    )


# -- the text of a view ----------------------------------------------------------------------------

DEEPEST = 12
"""Maximum number of names in a path that are compared. The cost is quadratic in the depth."""

_WORD = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*+")
_RUN = lazy_pattern(r"[a-z0-9]++")
_TOKEN = lazy_pattern(rf"\d++(?:[.,_]\d++)*+|[{WIDE}%°]|[^\W\d{WIDE}][^\W{WIDE}]*+")


def namesakes(all_facts: Iterable[MentionedFact]) -> Counter[str]:
    """Count how many files share each file name."""
    return Counter(
        path_parts(fact.text)[-1] for fact in all_facts if fact.kind == "path"
    )


class ViewText:
    """The text of a view, in a form in which facts can be found.

    Each form of the text is computed on demand.

    Args:
        names: the `namesakes` of all facts that are searched for.
    """

    def __init__(self, messages: Messages, names: Mapping[str, int]) -> None:
        self._text = "\n".join(
            text for message in messages for text in facts.texts(message)
        )
        self._names = names

    def holds(self, fact: MentionedFact) -> bool:
        """Return whether the view contains a fact in any form."""
        text = fact.text
        match fact.kind:
            case "identifier":
                return text in self._words
            case "path":
                return self._has_path(path_parts(text)) or self._quotes(text)
            case "number":
                return self._has_number(text)
            case "command":
                return self._quotes(text)
            case "error":
                return self._quotes(text) or self._quotes(error_message(text))
            case "constraint" | "todo":
                return self._has_inner_words(text) and same_words(text) in self._letters
            case _:
                assert_never(fact.kind)

    def _has_number(self, text: str) -> bool:
        """Return whether the text contains the number, literally or without signs.

        The literal comparison also matches the beginning of a longer number: `cost: 0` in `cost:
        0.000000001`.
        """
        if (
            self._all_words.issuperset(_small_words(text))
            and one_line(text) in self._one_line
        ):
            return True
        return self._pairs.issuperset(_pairs(text))

    def _quotes(self, line: str) -> bool:
        return self._has_inner_words(line) and one_line(line) in self._one_line

    def _has_inner_words(self, line: str) -> bool:
        """Return whether the view contains all inner words of a line.

        The first and last words are ignored, because they may be parts of longer words. This quick check
        finds nearly all losses. Searching the view for every line would take quadratic time.
        """
        return self._all_words.issuperset(_small_words(line)[1:-1])

    def _has_path(self, path: tuple[str, ...]) -> bool:
        """Return whether a path in the view matches this path.

        The other path must contain this one or be the end of it. A bare name matches only if there is a
        single file with this name.
        """
        if path in self._path_runs:
            return True
        if any(path[start:] in self._paths for start in range(len(path) - 1)):
            return True
        return path[-1:] in self._paths and self._names[path[-1]] == 1

    @cached_property
    def _paths(self) -> frozenset[tuple[str, ...]]:
        return frozenset(map(path_parts, facts.paths(self._text)))

    @cached_property
    def _path_runs(self) -> frozenset[tuple[str, ...]]:
        return frozenset(run for path in self._paths for run in _runs_of(path))

    @cached_property
    def _all_words(self) -> frozenset[str]:
        return frozenset(_small_words(self._text))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._text))

    @cached_property
    def _pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(_pairs(self._text))

    @cached_property
    def _one_line(self) -> str:
        return one_line(joined(self._text))

    @cached_property
    def _letters(self) -> str:
        return same_words(self._text)


def _runs_of(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield all runs of neighbouring names in a path."""
    for start in range(len(path)):
        longest = min(len(path), start + DEEPEST)
        for end in range(start + 1, longest + 1):
            yield path[start:end]


def _small_words(text: str) -> list[str]:
    return _RUN.findall(text.casefold())


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of neighbouring tokens. Separators in numbers are ignored."""
    return pairwise(map(_without_separators, _TOKEN.findall(text.casefold())))


def _without_separators(token: str) -> str:
    return token.replace(",", "").replace("_", "") if token[0].isdigit() else token
