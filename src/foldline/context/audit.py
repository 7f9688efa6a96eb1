"""The audit of a fold: which facts of what it takes away can no longer be found in the view.

What counts as a fact is the rule of `mentions`. A fact is held where the view says it, in whatever form a
person would accept as the same: a path absolute or relative, a command in other white space, a sentence in
other punctuation, a number with another sign before its value. What is only paraphrased is lost: whether the
paraphrase says it is for the reader to judge.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import assert_never

from foldline.protocol import BaseMessage

from . import facts
from .mentions import FactKind, Mention, Voice, error_message, mentions, path_parts
from .shell import joined

__all__ = ["Audit", "FactKind", "Lost", "ViewText", "audit", "namesakes", "taken"]

DEEPEST = 12
"""Names of a path that are compared: deeper ones would cost the square of their depth."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A fact that only the folded part held."""

    kind: FactKind
    text: str
    indices: tuple[int, ...]
    """The folded entries that hold it, oldest first."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What a fold loses. Deterministic: the same messages give the same audit."""

    lost: tuple[Lost, ...] = ()
    """Worth most first."""
    facts: int = 0
    """Facts found in the folded part, lost or not."""


def audit(folded: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> Audit:
    """Compare the folded messages with the view after the fold. Linear in the text of both."""
    found = mentions(folded)
    view = ViewText(after, namesakes(found))
    lost = sorted((mention for mention in found if not view.holds(mention)), key=_worth)
    return Audit(
        lost=tuple(Lost(mention.kind, mention.text, tuple(mention.indices)) for mention in lost),
        facts=len(found),
    )


def taken(before: Iterable[BaseMessage], after: Iterable[BaseMessage]) -> list[BaseMessage]:
    """The messages of the view before a fold that the view after does not hold as they were."""
    kept = {message.key: message.parts for message in after}
    return [message for message in before if kept.get(message.key) != message.parts]


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
    """What was taken up before what only stood in an output; then by kind, by who said it, by how often, and
    the newest first."""
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
                return self._pairs.issuperset(_pairs(fact.text)) or self._quotes_number(fact.text)
            case "command":
                return self._quotes(fact.text)
            case "error":
                return self._quotes(fact.text) or self._quotes(error_message(fact.text))
            case "constraint" | "todo":
                return self._has_runs_of(fact.text) and _letters(fact.text) in self._letters
            case _:
                assert_never(fact.kind)

    def _quotes_number(self, number: str) -> bool:
        """As it stands, where its end is taken for more of it: `cost: 0` of `cost: 0.0000000000000000001`."""
        return self._all_runs.issuperset(_runs(number)) and _spaced(number) in self._spaced

    def _quotes(self, line: str) -> bool:
        return self._has_runs_of(line) and _spaced(line) in self._spaced

    def _has_runs_of(self, line: str) -> bool:
        """Whether the view has all words of a line, the outermost apart, which may be parts of longer ones.

        Nearly all that is lost is told by this; to search the view for each line would take their product.
        """
        return self._all_runs.issuperset(_runs(line)[1:-1])

    def _names(self, path: tuple[str, ...]) -> bool:
        """Whether a path of the view is this one, goes on from it, or is the end of it; a bare name will do
        where no other folded file has it."""
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
        """All that follows each other within a path: `a/b/c` holds `a/b`, `b/c` and `b`, too."""
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
    """Only letters and digits: neither quotes, list marks nor line breaks tell two sentences apart."""
    return _NO_LETTERS.sub("", text.casefold())


_NO_LETTERS = re.compile(r"[\W_]+")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Words and numbers that stand next to each other: `port: 8080` and `port 8080` are one pair."""
    return pairwise(
        token.replace(",", "").replace("_", "") if token[0].isdigit() else token
        for token in _TOKEN.findall(text.casefold())
    )
