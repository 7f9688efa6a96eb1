"""Probes and their right answers: when two texts say the same, and what marks an answer gets. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from unicodedata import normalize

from foldline.context.facts import is_path, path_parts, paths
from foldline.protocol import NEW

Kind = Literal["recall", "superseded", "absent", "decision", "continuation"]
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


Truth = Text | Place | Absent | Ground


@dataclass(frozen=True, slots=True)
class Probe:
    kind: Kind
    question: str
    truth: Truth
    source: int = NEW  # index of the entry the answer stands in; `NEW` where it stands in none

    @property
    def is_judged(self) -> bool:
        return isinstance(self.truth, Ground)


def leaks(question: str, truth: Text | Place) -> bool:
    """Whether a question contains its own answer."""
    answer = truth.text if isinstance(truth, Text) else truth.path
    named = paths(question) if isinstance(truth, Place) else ()
    return holds(normal(question), normal(answer)) or any(same_file(answer, path) for path in named)


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


def gives(answer: str, wanted: str, wrong: Iterable[str] = ()) -> bool:
    """Whether an answer is the wanted text, or a short sentence that holds it and no wrong one."""
    text, right = said(answer), said(wanted)
    if text == right:
        return True
    around = text.replace(right, " ")  # `238` is no wrong value within `dimGray: 238px` where that is right
    if is_refusal(answer) or any(holds(around, said(each)) for each in wrong):
        return False
    return holds(text, right) and len(text) <= max(_MOST, 3 * len(right))


# --- paths --------------------------------------------------------------------------------------------


def same_file(one: str, other: str) -> bool:
    """Whether two paths can name one file: the shorter one is the end of the longer one."""
    a, b = (path_parts(normalize("NFC", path.strip())) for path in (one, other))
    short = min(len(a), len(b))
    return short > 0 and a[-short:] == b[-short:]


def named_paths(answer: str) -> list[str]:
    """The paths an answer names, in its order, none twice."""
    found: list[str] = []
    for line in _THOUGHT.sub("", answer).splitlines():
        bare = line.strip("\"'`*,; ")
        quoted = re.findall(r"`([^`]+)`", line) if " " in bare else [bare]
        found += [piece for piece in quoted if is_path(piece) or "/" in piece] or paths(line)
    return list(dict.fromkeys(found))


# --- marks --------------------------------------------------------------------------------------------

EXACT: Final = ("recall", "superseded", "abstain")
FALSE_REFUSALS, STALE = "false refusals", "stale answers"
"""Shares of what should not be: lower is better."""


def marks(probe: Probe, answer: str) -> dict[str, float]:
    """The marks an answer gets without a judge, by dimension; none for what only a judge can grade."""
    refused = float(is_refusal(answer))
    match probe.truth:
        case Text(text, stale):
            right = gives(answer, text, stale)
            dated = {STALE: float(not right and any(gives(answer, old) for old in stale))} if stale else {}
            return {probe.kind: float(right), FALSE_REFUSALS: refused, **dated}
        case Place():
            right = not refused and _names(answer, probe.truth)
            return {probe.kind: float(right), FALSE_REFUSALS: refused}
        case Absent():
            return {"abstain": refused}
        case Ground():
            return {}


def _names(answer: str, truth: Place) -> bool:
    """Whether an answer gives this path, and no other one beside it."""
    named = [path.rstrip("/").replace("\\", "/") for path in named_paths(answer) or [said(answer)]]
    return all(
        same_file(path, truth.path)
        and sum(name not in ("", ".", "~") for name in path.split("/")) >= truth.least
        for path in named
    )
