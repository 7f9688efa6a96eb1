"""Probes and their right answers: when two texts say the same, and what marks an answer gets. Pure."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from unicodedata import normalize

from foldline.context.audit import path_parts
from foldline.context.facts import is_path, paths
from foldline.protocol import NEW

Kind = Literal[
    "recall", "artifact", "constraint", "superseded", "absent", "decision", "continuation", "action"
]
REFUSAL: Final = "not in this session"
"""What a model is told to answer where the conversation does not say."""


@dataclass(frozen=True, slots=True)
class Text:
    """The answer is this text, letter by letter once both are normalised."""

    text: str
    stale: tuple[str, ...] = ()  # what was true before: an answer that gives it is wrong, and out of date


@dataclass(frozen=True, slots=True)
class Place:
    """The answer is this path; a shorter one that ends alike will do."""

    path: str
    least: int = 1  # names of the path that must be given, counted from its end


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
    path: str = ""  # empty where the call acts on no file


Truth = Text | Place | Files | Absent | Ground | Action


@dataclass(frozen=True, slots=True)
class Probe:
    kind: Kind
    question: str
    truth: Truth
    source: int = NEW  # index of the entry the answer stands in; `NEW` where it stands in none, or in many

    @property
    def is_judged(self) -> bool:
        return isinstance(self.truth, Ground)


_TELLING: Final = 20  # characters of a quotation from which on it gives an answer away


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
        case _:
            return False


# --- when texts are alike -----------------------------------------------------------------------------

_MOST: Final = 200
"""Characters of an answer that may surround what was asked for; longer ones try their luck."""
_REFUSES: Final = 60
"""Characters a refusal may have beside its words."""
_ALIKE: Final = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad`", None),
        "。": ".",
        "、": ",",
    }
)
_THOUGHT: Final = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
"""Reasoning that local servers leave in the answer."""
_LABEL: Final = re.compile(r"\A(?:the )?answer(?: is)?:? +", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"(?<![\d.,])(\d{1,3}(?:[,_]\d{3})+)(?!\d)")
_UNIT: Final = re.compile(r"(?<=\d) (?=[a-z%µ°])")
_WIDE: Final = "\u2e80-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_BESIDE_WIDE: Final = re.compile(rf"\s+(?=[{_WIDE}])|(?<=[{_WIDE}])\s+")


def normal(text: str) -> str:
    """The form in which texts are compared: case, width, quotation marks, emphasis, blanks and thousands
    separators are alike."""
    text = normalize("NFKC", text.translate(_ALIKE)).casefold()
    text = _THOUSANDS.sub(lambda number: re.sub(r"[,_]", "", number[1]), text.replace("**", ""))
    text = _BESIDE_WIDE.sub("", " ".join(text.split()))
    return _UNIT.sub("", text)


def said(answer: str) -> str:
    """An answer without reasoning, a label before it and the quotation marks around it."""
    text = _LABEL.sub("", _THOUGHT.sub("", answer).strip())
    return normal(text).strip("\"' ").rstrip(".!;, ").strip("\"' ")


def is_refusal(answer: str) -> bool:
    text = said(answer)
    return text.startswith(REFUSAL) or (REFUSAL in text and len(text) <= len(REFUSAL) + _REFUSES)


def holds(text: str, wanted: str) -> bool:
    """Whether a normalised text holds another as a whole: `246` is not in `1246`, nor `30` in `30.5`."""
    letter = re.compile(r"[A-Za-z_]")
    before = r"(?<![a-z0-9_])" if letter.match(wanted) else ""
    after = r"(?![a-z0-9_])" if letter.match(wanted[-1:]) else ""
    if wanted[:1].isdecimal():
        before = r"(?<![a-z0-9_])(?<!\d[.,:])(?<!\A-)(?<![\s=(:]-)"
    if wanted[-1:].isdecimal():
        after = r"(?!\d|[.,:]\d)"
    return bool(wanted) and re.search(before + re.escape(wanted) + after, text) is not None


def gives(answer: str, accepted: Iterable[str], wrong: Iterable[str] = ()) -> bool:
    """Whether an answer is one of the accepted texts, or a short sentence that holds it and no wrong one."""
    text = said(answer)
    right = [said(each) for each in accepted]
    if text in right:
        return True
    around = text  # `238` is no wrong value within `dimGray: 238px` where that is right
    for each in right:
        around = around.replace(each, " ")
    if is_refusal(answer) or any(holds(around, said(each)) for each in wrong):
        return False
    return any(holds(text, each) and len(text) <= max(_MOST, 3 * len(each)) for each in right)


# --- paths --------------------------------------------------------------------------------------------

_MARK: Final = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_SPACED: Final = re.compile(r"[^\s.]*/[^\s.]*(?: [^\s./]+)* [^\s/]+\.\w{1,8}")
"""A path with blanks in its last name, `docs/My Notes.md`, and not several paths or a sentence."""
_REMARK: Final = re.compile(r"\s+(?:[-–—:#]\s.*|\([^()]*\)\s*)$")


def same_file(one: str, other: str) -> bool:
    """Whether two paths can name one file: the shorter one is the end of the longer one."""
    a, b = _parts(one), _parts(other)
    short = min(len(a), len(b))
    return short > 0 and a[-short:] == b[-short:]


def _parts(path: str) -> tuple[str, ...]:
    return path_parts(normalize("NFC", path.strip()))


def named_paths(answer: str) -> list[str]:
    """The paths an answer lists, in its order, none twice; meant for one a line, forgiving about the rest."""
    lines = _THOUGHT.sub("", answer).splitlines()
    return list(dict.fromkeys(path for line in lines for path in _paths_in(_MARK.sub("", line).strip())))


def _paths_in(line: str) -> list[str]:
    quoted = [piece for piece in re.findall(r"`([^`]+)`", line) if is_path(piece) or "/" in piece]
    if quoted:
        return quoted
    bare = _REMARK.sub("", line).strip("\"'`*,; ")
    if " " not in bare:
        return [bare] if is_path(bare) or "/" in bare else []
    return [bare] if _SPACED.fullmatch(bare) else list(paths(line))


def f1(listed: Iterable[str], files: Iterable[str]) -> float:
    """How well a list of paths meets a set of files: 1 names all of them and nothing else.

    A name that could be several of the files stands for none of them.
    """
    listed, files = list(listed), list(files)
    if not listed or not files:
        return float(not listed and not files)
    found: set[str] = set()
    right = 0
    for path in listed:
        meant = [file for file in files if same_file(path, file)]
        meant = [file for file in meant if _parts(file) == _parts(path)] or meant
        if len(meant) == 1:
            right += 1
            found.add(meant[0])
    precision, recall = right / len(listed), len(found) / len(files)
    return 2 * precision * recall / (precision + recall) if right else 0.0


# --- marks --------------------------------------------------------------------------------------------

EXACT: Final = ("recall", "artifact", "constraint", "superseded", "abstain")
NEXT_TOOL, NEXT_PATH = "next tool", "next path"
FALSE_REFUSALS, STALE = "false refusals", "stale answers"
"""Shares of what should not be: lower is better."""


def marks(probe: Probe, answer: str) -> dict[str, float]:
    """The marks an answer gets without a judge, by dimension; none for what only a judge can grade."""
    refused = float(is_refusal(answer))
    match probe.truth:
        case Text(text, stale):
            right = gives(answer, [text], stale)
            dated = {STALE: float(not right and any(gives(answer, [old]) for old in stale))} if stale else {}
            return {probe.kind: float(right), FALSE_REFUSALS: refused, **dated}
        case Place():
            right = not refused and _names(answer, probe.truth)
            return {probe.kind: float(right), FALSE_REFUSALS: refused}
        case Files(files):
            return {probe.kind: f1(named_paths(answer), files), FALSE_REFUSALS: refused}
        case Absent():
            return {"abstain": refused}
        case Action(tool, path):
            given, file = next_call(answer) or ("", "")
            found = {NEXT_TOOL: float(given.casefold() == tool.casefold())}
            return found | ({NEXT_PATH: float(bool(file) and same_file(file, path))} if path else {})
        case _:
            return {}


def _names(answer: str, truth: Place) -> bool:
    """Whether an answer gives this path, and no other one beside it."""
    named = [path.rstrip("/").replace("\\", "/") for path in named_paths(answer) or [said(answer)]]
    return all(
        same_file(path, truth.path)
        and sum(name not in ("", ".", "~") for name in path.split("/")) >= truth.least
        for path in named
    )


_OBJECT: Final = re.compile(r"\{[^{}]*\}")


def next_call(answer: str) -> tuple[str, str] | None:
    """The tool and the path an answer names as the next call; None where it names none."""
    for found in _OBJECT.finditer(answer):
        try:
            value = json.loads(found[0])
        except ValueError:
            continue
        tool, path = value.get("tool"), value.get("path")
        if isinstance(tool, str) and tool.strip():
            return tool.strip(), path.strip() if isinstance(path, str) else ""
    return None
