"""The lines of a digest: their short forms, and the lines about work.

The latter are changed files, commands with their outcomes, and errors.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from foldline.text.patterns import lazy_pattern
from foldline.text.shorten import clip, one_line

from .conversation import CallSummary, Statement
from .cues import (
    ASSENT,
    CHANGES_FILES,
    COMMITS,
    EXIT_STATUS,
    KEEPS_LISTS,
    OUTPUT_TRAILER,
    RUNS,
)
from .facts import errors, prose, sentences
from .language import SECTIONS, Section
from .shell_lines import effective_commands

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


_COMMAND_OF_INTERFACE = lazy_pattern(r"\s*/[^\s/]+(?:\s|\Z)")
_LEADING_SIGNS = lazy_pattern(r"\A[\W_]+")
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


_EMPTY_SENTENCE = lazy_pattern(r"---|<|\W*\d{0,3}\W*\Z|.{0,60}[:：]\W*\Z", re.DOTALL)
"""Matches horizontal rules, tags, numbers, and sentences that merely introduce the next line."""
_LONG_OPENING = 80
_LETTER_OR_DIGIT = lazy_pattern(r"[^\W_]")


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


# -- work --------------------------------------------------------------------------------------------

_RECENT = 12
"""A failed command counts as a blocker if it is among this many newest statements."""
_BARE_STATUS = 40
"""Maximum length, in characters, of a line that contains only an exit status."""
_SHORT_OUTPUT = 400
_FILES_A_LINE = 6


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call with its result."""

    call: CallSummary
    result: Statement
    at: int
    next_step: str
    """The statement or call that comes next."""
    failure: str
    """The line that reports the call's failure; empty if the call succeeded."""

    @property
    def is_command(self) -> bool:
        return RUNS.search(self.call.name) is not None

    @property
    def is_edit(self) -> bool:
        name = self.call.name
        return (
            CHANGES_FILES.search(name) is not None and KEEPS_LISTS.search(name) is None
        )


def outcomes_of(statements: Sequence[Statement]) -> Iterator[CallOutcome]:
    for at, statement in enumerate(statements):
        if statement.kind != "calls":
            continue
        results = _results_after(statements, at)
        following = statements[at + 1 + len(results) :][:3]
        next_step = next(
            (_step(other) for other in following if other.kind != "thinking"), ""
        )
        for call, result in zip(statement.calls, results, strict=False):
            yield CallOutcome(call, result, at, next_step, _failure(call, result))


def _results_after(statements: Sequence[Statement], at: int) -> list[Statement]:
    results = []
    for statement in statements[at + 1 : at + 1 + len(statements[at].calls)]:
        if statement.kind != "result":
            break
        results.append(statement)
    return results


def _step(statement: Statement) -> str:
    return (
        call_title(statement.calls[0]) if statement.calls else opening(statement.text)
    )


def _failure(call: CallSummary, result: Statement) -> str:
    text = result.text
    # Output of a tool that only reads may contain errors without having failed.
    if not (result.failed or RUNS.search(call.name) or len(text) < _SHORT_OUTPUT):
        return ""
    reports = errors(text[-SEARCHED:])
    if reports:
        # A traceback names its cause in the last line, which an exit status may follow.
        causes = [line for line in reports if not _is_frame_of_failure(line)]
        return clip(one_line((causes or reports)[-1]), OUTCOME)
    return clip(ending(text), OUTCOME) if result.failed else ""


def _is_frame_of_failure(line: str) -> bool:
    return line.startswith("Traceback") or EXIT_STATUS.search(line) is not None


class _WorkLog:
    """The state of the work so far: files changed, and commands that passed or failed."""

    def __init__(self) -> None:
        self.changed: dict[str, dict[str, int]] = {}
        """The files changed by each tool, with the position of each file's last change."""
        self.passed: dict[str, CallOutcome] = {}
        self.failed: dict[str, CallOutcome] = {}
        self._last_change: CallOutcome | None = None

    def add(self, outcome: CallOutcome) -> str:
        """Add the next outcome, and return the error that this outcome resolved."""
        title = call_title(outcome.call)
        self.passed.pop(title, None)
        if outcome.failure:
            self.failed[title] = outcome
            return ""
        resolved = ""
        error = self.failed.pop(title, None)
        if error is not None and outcome.is_command:
            resolved = arrow(
                title,
                error.failure,
                self._fix_of(error),
                ending(outcome.result.text),
            )
        if outcome.is_command:
            self.passed[title] = outcome
        elif outcome.is_edit:
            self._add_change(outcome)
        return resolved

    def _fix_of(self, error: CallOutcome) -> str:
        change = self._last_change
        if change is not None and change.at > error.at:
            return call_title(change.call)
        return error.next_step

    def _add_change(self, outcome: CallOutcome) -> None:
        file = call_about(outcome.call)
        if file:
            files = self.changed.setdefault(outcome.call.name, {})
            files.pop(file, None)
            files[file] = outcome.at
            self._last_change = outcome


def work_points(outcomes: Sequence[CallOutcome], count: int) -> Iterator[DigestPoint]:
    """Yield changed files, commands with their outcomes, and errors.

    Args:
        count: number of statements in the conversation.
    """
    last = max(count - 1, 1)
    work = _WorkLog()
    for outcome in outcomes:
        resolved = work.add(outcome)
        if resolved:
            yield DigestPoint(
                SECTIONS.critical,
                resolved,
                4 + 2 * outcome.at / last,
                outcome.at,
            )
    for tool, files in work.changed.items():
        for at, text in _changed_files(tool, files):
            yield DigestPoint(SECTIONS.done, text, 6.5 + at / last, at)
    for title, outcome in work.passed.items():
        if _has_effect(outcome.call):
            text = arrow(title, ending(outcome.result.text))
            yield DigestPoint(
                SECTIONS.done,
                text,
                3 + 2 * outcome.at / last,
                outcome.at,
            )
    yield from _open_failures(work.failed, count)


def _open_failures(
    failed: Mapping[str, CallOutcome], count: int
) -> Iterator[DigestPoint]:
    """Yield calls that failed and did not succeed later.

    Recent commands count as blockers.
    """
    last = max(count - 1, 1)
    for title, outcome in failed.items():
        # A search without a match also ends with status 1, so a bare status is not informative.
        is_bare = (
            len(outcome.failure) < _BARE_STATUS
            and EXIT_STATUS.search(outcome.failure) is not None
        )
        is_blocking = (
            outcome.is_command and not is_bare and outcome.at >= count - _RECENT
        )
        section = SECTIONS.blocked if is_blocking else SECTIONS.critical
        if is_bare:
            score = 1.5
        elif is_blocking:
            score = 6
        else:
            score = 4 if outcome.is_command else 2
        text = arrow(title, outcome.failure, outcome.next_step)
        yield DigestPoint(section, text, score + 2 * outcome.at / last, outcome.at)


def _changed_files(tool: str, files: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    """Yield lines of the form `tool · a, b, c`, with a few files per line.

    With short lines, even a small budget has room for some of the files.
    """
    names = list(files)
    for start in range(0, len(names), _FILES_A_LINE):
        few = names[start : start + _FILES_A_LINE]
        yield max(files[name] for name in few), f"{tool} · {', '.join(few)}"


def _has_effect(call: CallSummary) -> bool:
    line = call.about[:4000]
    return (
        any(True for _ in effective_commands(line)) or COMMITS.search(line) is not None
    )
