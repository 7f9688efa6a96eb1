"""Probes: questions about a session whose right answers its raw history gives."""

from dataclasses import dataclass
from typing import Literal, assert_never

from foldline.context.facts import paths
from foldline.protocol import NEW

from .normal import holds, normal, same_file

Kind = Literal[
    "recall", "artifact", "constraint", "superseded", "absent", "decision", "continuation", "action"
]


@dataclass(frozen=True, slots=True)
class Text:
    """The answer is this text, letter by letter once both are normalised."""

    text: str
    stale: tuple[str, ...] = ()
    """What was true before: an answer that gives it is wrong, and out of date."""


@dataclass(frozen=True, slots=True)
class Place:
    """The answer is this path; a shorter one that ends alike will do."""

    path: str
    least: int = 1
    """Names of the path that must be given, counted from its end."""


@dataclass(frozen=True, slots=True)
class Files:
    """The answer is this set of files."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """The right answer is that the session does not say: this name was made up."""

    name: str


@dataclass(frozen=True, slots=True)
class Ground:
    """What the session says, quoted, for a judge to hold the answer against."""

    quotes: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.quotes)


@dataclass(frozen=True, slots=True)
class Action:
    """The tool call the recorded agent made next."""

    tool: str
    path: str = ""
    """Empty where the call acts on no file."""


Truth = Text | Place | Files | Absent | Ground | Action


@dataclass(frozen=True, slots=True)
class Probe:
    kind: Kind
    question: str
    truth: Truth
    source: int = NEW
    """Index of the entry the answer stands in; `NEW` where it stands in none, or in many."""

    @property
    def is_judged(self) -> bool:
        return isinstance(self.truth, Ground)


_TELLING = 20
"""Characters of a quotation from which on it gives an answer away."""


def leaks(question: str, truth: Truth) -> bool:
    """Whether a question contains its own answer."""
    text = normal(question)
    match truth:
        case Text(answer):
            return holds(text, normal(answer))
        case Place(path):
            return any(same_file(path, named) for named in paths(question)) or holds(text, normal(path))
        case Files(files):
            return any(holds(text, normal(file.rsplit("/", 1)[-1])) for file in files)
        case Ground(quotes):
            return any(normal(quote) in text for quote in quotes if len(quote) >= _TELLING)
        case Action(_, path):
            return bool(path) and holds(text, normal(path))
        case Absent():
            return False
        case _:
            assert_never(truth)
