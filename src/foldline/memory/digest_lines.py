"""Lines of a digest, and the short forms in which they quote a conversation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from foldline.text.shorten import clip, one_line

from .conversation import CallSummary
from .cues import (
    ASSENT,
    OUTPUT_TRAILER,
)
from .facts import (
    prose,
    sentences,
)
from .language import Section

# Maximum lengths of quotations, in characters:
REQUEST = 600  # a request
QUOTE = 320  # a sentence
OUTCOME = 260  # the start of an answer, or an error
_COMMAND = 160  # a command, or the last line of an output
TITLE = 100  # a request that is already quoted as the goal

SEARCHED = 40_000
"""Maximum number of characters of a statement that are searched."""


@dataclass(frozen=True, slots=True)
class DigestPoint:
    """A candidate line for a digest."""

    section: Section
    text: str
    """The line's text, without line ends and without its list mark."""
    score: float
    order: int
    """Position in the conversation; negative for lines from an earlier summary."""


_COMMAND_OF_INTERFACE = re.compile(r"\s*/[^\s/]+(?:\s|\Z)")
_LEADING_SIGNS = re.compile(r"\A[\W_]+")
_LONGEST_ASSENT = 60


def is_request(text: str) -> bool:
    """Return whether a user's text requests something.

    "ok", "go on" and `/command` are not requests.
    """
    if _COMMAND_OF_INTERFACE.match(text):
        return False
    words = _LEADING_SIGNS.sub("", text[:REQUEST])
    if not words:
        return False
    return len(words) > _LONGEST_ASSENT or not ASSENT.fullmatch(words)


_EMPTY_SENTENCE = re.compile(r"---|<|\W*\d{0,3}\W*\Z|.{0,60}[:：]\W*\Z", re.DOTALL)
"""Matches horizontal rules, tags, numbers, and sentences that merely introduce the next line."""
_LONG_OPENING = 80
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def opening(text: str) -> str:
    """Return the first sentences of the first paragraph with content."""
    quoted: list[str] = []
    for paragraph in prose(text).split("\n\n"):
        for sentence in _sentences_of_paragraph(paragraph):
            if _EMPTY_SENTENCE.match(sentence) or ASSENT.fullmatch(sentence[:OUTCOME]):
                continue
            if sum(map(len, quoted)) <= _LONG_OPENING:
                quoted.append(one_line(sentence))
        if quoted:
            break
    beginning = " … ".join(quoted) or one_line(next(sentences(text), text))
    return clip(beginning, OUTCOME)


def _sentences_of_paragraph(paragraph: str) -> Iterator[str]:
    for line in paragraph.splitlines():
        if not line.lstrip().startswith(("#", "|")):
            yield from sentences(line)


def ending(text: str) -> str:
    """Return the last line with content in an output."""
    lines = list(filter(_LETTER_OR_DIGIT.search, text[-4000:].splitlines()))
    if not lines:
        return ""
    telling = (line for line in reversed(lines) if not OUTPUT_TRAILER.match(line))
    return clip(one_line(next(telling, lines[-1])), _COMMAND)


def arrow(*parts: str) -> str:
    """Join the non-empty parts as `A → B`."""
    return " → ".join(part for part in parts if part)


def call_title(call: CallSummary) -> str:
    about = call_about(call)
    return f"{call.name} · {about}" if about else call.name


def call_about(call: CallSummary) -> str:
    return clip(one_line(call.about), _COMMAND)
