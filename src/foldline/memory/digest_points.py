"""The candidate lines for a digest, each with its section and score.

Every line is quoted from the history. `A → B` stands for A and its outcome, `tool · a, b` means that a tool
was called with a and b, and `…` marks an omission.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from foldline.text.patterns import lazy_pattern
from foldline.text.shorten import clip, one_line

from .conversation import CallSummary, Statement
from .cues import (
    ACKNOWLEDGEMENT,
    ASSENT,
    CHANGES_FILES,
    COMMITS,
    DIGEST_DECISION,
    EXIT_STATUS,
    EXPLANATION,
    FACT_LABELS,
    GOAL_LABELS,
    KEEPS_LISTS,
    NARRATION,
    NEXT_STEP,
    OUTPUT_TRAILER,
    RUNS,
)
from .facts import (
    QUESTION_MARKS,
    constraints,
    effective_commands,
    errors,
    hashes,
    label_of,
    numbers,
    prose,
    same_words,
    sentences,
    todos,
    urls,
)
from .focus import Focus
from .language import SECTIONS, Section, parse_summary
from .todos import Todo

# Maximum lengths of quotations, in characters:
_REQUEST = 600  # a request
QUOTE = 320  # a sentence
_OUTCOME = 260  # the start of an answer, or an error
_COMMAND = 160  # a command, or the last line of an output
_TITLE = 100  # a request that is already quoted as the goal


@dataclass(frozen=True, slots=True)
class DigestPoint:
    """A candidate line for a digest."""

    section: Section
    text: str
    """The line's text, without line ends and without its list mark."""
    score: float
    order: int
    """Position in the conversation; negative for lines from an earlier summary."""


def points_of(
    statements: Sequence[Statement],
    previous: str,
    focus: Focus,
) -> Iterator[DigestPoint]:
    """Yield the candidates from a conversation and from its earlier summary."""
    outcomes = list(_outcomes_of(statements))
    has_new_work = any(
        statement.kind in ("assistant", "calls") for statement in statements
    )
    earlier_lines = list(parse_summary(previous))
    request_before = _request_in_progress(earlier_lines)
    exchanges = _exchanges(statements, request_before)
    yield from _carried_over(earlier_lines, outcomes, has_new_work)
    yield from _requests(exchanges, request_before, is_first=not previous)
    yield from _user_statements(exchanges, statements)
    yield from _work(outcomes, len(statements))
    yield from _decisions(statements)
    yield from _next_steps(exchanges, statements)
    yield from _focused(statements, focus)


# -- short forms -------------------------------------------------------------------------------------

_COMMAND_OF_INTERFACE = lazy_pattern(r"\s*/[^\s/]+(?:\s|\Z)")
_LEADING_SIGNS = lazy_pattern(r"\A[\W_]+")
_LONGEST_ASSENT = 60


def is_request(text: str) -> bool:
    """Return whether a user's text requests something.

    "ok", "go on" and `/command` are not requests.
    """
    if _COMMAND_OF_INTERFACE.match(text):
        return False
    words = _LEADING_SIGNS.sub("", text[:_REQUEST])
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
            if _EMPTY_SENTENCE.match(sentence) or ASSENT.fullmatch(sentence[:_OUTCOME]):
                continue
            if sum(map(len, quoted)) <= _LONG_OPENING:
                quoted.append(one_line(sentence))
        if quoted:
            break
    beginning = " … ".join(quoted) or one_line(next(sentences(text), text))
    return clip(beginning, _OUTCOME)


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


def _title(call: CallSummary) -> str:
    about = _about(call)
    return f"{call.name} · {about}" if about else call.name


def _about(call: CallSummary) -> str:
    return clip(one_line(call.about), _COMMAND)


# -- requests and their outcomes ---------------------------------------------------------------------

_NOTE = 120
"""Maximum length, in characters, of an answer that may be a mere acknowledgement."""


@dataclass(frozen=True)
class Exchange:
    """A request, with all statements up to the next request.

    A message that only agrees does not count as a request.
    """

    request: str
    statements: Sequence[Statement]
    at: int

    @cached_property
    def answer(self) -> str:
        """The assistant's last words; empty if calls follow them.

        If the user only agreed and no calls followed, this is the previous answer, unless that answer ended
        with a question.
        """
        spoken = [
            s.kind
            for s in self.statements
            if s.kind in ("assistant", "calls", "result")
        ]
        if not spoken or spoken[-1] != "assistant":
            return ""
        answer = ""
        for is_assent, group in groupby(
            self.statements, key=lambda statement: statement.kind == "user"
        ):
            if is_assent:
                continue
            statements = list(group)
            words = [
                statement.text
                for statement in statements
                if statement.kind == "assistant"
            ]
            has_calls = any(statement.calls for statement in statements)
            if words and (not answer or has_calls or answer.rstrip().endswith("?")):
                answer = words[-1]
        return answer

    @cached_property
    def is_note(self) -> bool:
        """Whether the user only stated something and the assistant only acknowledged it."""
        if len(self.answer) > _NOTE or not ACKNOWLEDGEMENT.match(self.answer):
            return False
        return "?" not in self.request and not any(
            statement.calls for statement in self.statements
        )


def _exchanges(statements: Sequence[Statement], request_before: str) -> list[Exchange]:
    """Divide the conversation into exchanges.

    Args:
        request_before: the request that is already in progress when the conversation begins.
    """
    starts = [
        at for at, statement in enumerate(statements) if _is_request_of_user(statement)
    ]
    ends = [*starts[1:], len(statements)]
    first = starts[0] if starts else len(statements)
    exchanges = []
    if first > 0:
        exchanges.append(Exchange(request_before, statements[:first], 0))
    for start, end in zip(starts, ends, strict=False):
        request = one_line(statements[start].text)
        exchanges.append(Exchange(request, statements[start + 1 : end], start))
    return exchanges


def _is_request_of_user(statement: Statement) -> bool:
    return statement.kind == "user" and is_request(statement.text)


def _requests(
    exchanges: Sequence[Exchange],
    request_before: str,
    is_first: bool,
) -> Iterator[DigestPoint]:
    """Yield goals, answered requests, and the request in progress.

    Goals are the first and the newest request.
    """
    last = max(
        (exchange.at + len(exchange.statements) for exchange in exchanges), default=1
    )
    asking = [
        exchange for exchange in exchanges if exchange.request and not exchange.is_note
    ]
    if asking and is_first:
        yield DigestPoint(
            SECTIONS.goal,
            clip(asking[0].request, _REQUEST),
            10,
            asking[0].at,
        )
    if asking and asking[-1].request != request_before:
        yield DigestPoint(
            SECTIONS.goal,
            clip(asking[-1].request, _REQUEST),
            9,
            asking[-1].at,
        )
    for exchange in exchanges[:-1]:
        yield from _done(exchange, last)
    for exchange in exchanges[-1:]:
        yield from _done(exchange, last) if exchange.answer else _in_progress(exchange)


def _done(exchange: Exchange, last: int) -> Iterator[DigestPoint]:
    answer = opening(exchange.answer) if exchange.answer else ""
    text = arrow(clip(exchange.request, _TITLE), answer)
    if not text or exchange.is_note:
        return
    # An answer without a request is less useful, and so is a request whose answer the user did not wait for.
    score = 5 if exchange.request and exchange.answer else 2.5
    yield DigestPoint(
        SECTIONS.done,
        text,
        score + 2 * exchange.at / last,
        exchange.at,
    )


def _in_progress(exchange: Exchange) -> Iterator[DigestPoint]:
    at = exchange.at
    if exchange.request:
        yield DigestPoint(
            SECTIONS.progress,
            clip(exchange.request, _OUTCOME),
            8.5,
            at,
        )
    words = [
        (n, s.text) for n, s in enumerate(exchange.statements) if s.kind == "assistant"
    ]
    for number, text in words[-1:]:
        yield DigestPoint(SECTIONS.progress, opening(text), 8, at + number)
    calls = [call for statement in exchange.statements for call in statement.calls]
    for number, call in enumerate(calls[-3:]):
        score = 6 + number / 10
        yield DigestPoint(
            SECTIONS.progress,
            _title(call),
            score,
            at + len(exchange.statements),
        )


# -- statements of the user --------------------------------------------------------------------------

_PASTED = 1_500
"""Minimum length, in characters, of text from the user that was probably pasted, not typed."""
_SEARCHED = 40_000


def _user_statements(
    exchanges: Sequence[Exchange],
    statements: Sequence[Statement],
) -> Iterator[DigestPoint]:
    """Yield labelled goals and facts, constraints, notes and values.

    Each sentence is yielded only once, as the first of these kinds that applies.
    """
    notes_at = {exchange.at for exchange in exchanges if exchange.is_note}
    for at, statement in enumerate(statements):
        if statement.kind == "user":
            yield from _UserText(
                statement.text,
                at,
                at / len(statements),
                at in notes_at,
            ).points()


@dataclass
class _UserText:
    text: str
    at: int
    lateness: float
    """Position in the conversation, from 0 for the oldest statement to almost 1 for the newest."""
    is_note: bool

    def points(self) -> Iterator[DigestPoint]:
        quoted = []
        for line in self._labelled_lines():
            quoted.append(line)
            section = (
                SECTIONS.goal
                if label_of(line.strip()) & GOAL_LABELS
                else SECTIONS.critical
            )
            yield self._point(section, line, 8)
        for rule in constraints(self.text):
            if not any(rule in line for line in quoted):
                quoted.append(rule)
                yield self._point(SECTIONS.constraints, rule, _rule_score(rule))
        for sentence in sentences(self.text[:_SEARCHED]):
            if not any(sentence in line for line in quoted):
                yield from self._value(sentence)

    def _labelled_lines(self) -> Iterator[str]:
        if not self._is_typed:
            return
        for line in prose(self.text).splitlines():
            if len(line) <= QUOTE and label_of(line.strip()) & (
                GOAL_LABELS | FACT_LABELS
            ):
                yield line

    def _value(self, sentence: str) -> Iterator[DigestPoint]:
        if not (self.is_note or _is_prose(sentence)):
            return
        has_value = urls(sentence) or hashes(sentence) or numbers(sentence)
        if not has_value and not (self.is_note and _is_telling(sentence)):
            return
        score = 5.0 if has_value else 3.0
        if not self._is_typed:
            score = 2.5
        yield self._point(SECTIONS.critical, sentence, score)

    @property
    def _is_typed(self) -> bool:
        return len(self.text) <= _PASTED

    def _point(
        self,
        section: Section,
        text: str,
        score: float,
    ) -> DigestPoint:
        return DigestPoint(section, one_line(text), score + self.lateness, self.at)


def _rule_score(rule: str) -> float:
    if rule.endswith(QUESTION_MARKS):
        return 6
    return 8.5 if label_of(rule) else 8


def _is_telling(sentence: str) -> bool:
    shortest = 24 if sentence.isascii() else 8
    return shortest <= len(sentence) <= QUOTE and not sentence.endswith(
        (":", "：", *QUESTION_MARKS)
    )


def _is_prose(sentence: str) -> bool:
    is_wordy = sentence.count(" ") > 2 or not sentence.isascii()
    is_code = sentence.startswith(("at ", "{", "[", "&&", "|", "<"))
    return is_wordy and not is_code and len(sentence) <= QUOTE


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


def _outcomes_of(statements: Sequence[Statement]) -> Iterator[CallOutcome]:
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
    return _title(statement.calls[0]) if statement.calls else opening(statement.text)


def _failure(call: CallSummary, result: Statement) -> str:
    text = result.text
    # Output of a tool that only reads may contain errors without having failed.
    if not (result.failed or RUNS.search(call.name) or len(text) < _SHORT_OUTPUT):
        return ""
    reports = errors(text[-_SEARCHED:])
    if reports:
        # A traceback names its cause in the last line, which an exit status may follow.
        causes = [line for line in reports if not _is_frame_of_failure(line)]
        return clip(one_line((causes or reports)[-1]), _OUTCOME)
    return clip(ending(text), _OUTCOME) if result.failed else ""


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
        title = _title(outcome.call)
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
            return _title(change.call)
        return error.next_step

    def _add_change(self, outcome: CallOutcome) -> None:
        file = _about(outcome.call)
        if file:
            files = self.changed.setdefault(outcome.call.name, {})
            files.pop(file, None)
            files[file] = outcome.at
            self._last_change = outcome


def _work(outcomes: Sequence[CallOutcome], count: int) -> Iterator[DigestPoint]:
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


# -- decisions and plans -----------------------------------------------------------------------------

_RECENT_SENTENCES = 400
"""Number of newest sentences in which decisions are searched for."""


def _decisions(statements: Sequence[Statement]) -> Iterator[DigestPoint]:
    for at, sentence, is_user in list(_possible_decisions(statements))[
        -_RECENT_SENTENCES:
    ]:
        if DIGEST_DECISION.search(sentence):
            score = 4.5
        elif EXPLANATION.search(sentence):
            score = 3
        else:
            continue
        score += 2 * at / len(statements)
        if is_user:
            score += 0.5
        yield DigestPoint(SECTIONS.decisions, one_line(sentence), score, at)


def _possible_decisions(
    statements: Sequence[Statement],
) -> Iterator[tuple[int, str, bool]]:
    for at, statement in enumerate(statements):
        is_user = statement.kind == "user"
        if not is_user and statement.kind != "assistant":
            continue
        if is_user and len(statement.text) > _PASTED:
            continue
        for sentence in _telling_sentences(statement.text):
            if not is_user or not constraints(sentence):
                yield at, sentence, is_user


def _telling_sentences(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        if _is_telling(sentence) and not NARRATION.match(sentence):
            yield sentence


def _next_steps(
    exchanges: Sequence[Exchange], statements: Sequence[Statement]
) -> Iterator[DigestPoint]:
    """Yield todo items, task lists, and next steps that were announced."""
    last = len(statements)
    lists = [
        call.todos
        for statement in statements
        for call in statement.calls
        if call.todos is not None
    ]
    for todo in lists[-1] if lists else ():
        if todo.is_done or todo.is_open:
            yield DigestPoint(
                _section_of(todo),
                clip(one_line(todo.text), QUOTE),
                7,
                last,
            )
    spoken = [
        statement.text
        for statement in statements
        if statement.kind in ("user", "assistant")
    ]
    for text in todos("\n".join(spoken)):
        yield DigestPoint(SECTIONS.ahead, one_line(text), 6, last)
    for statement in exchanges[-1].statements if exchanges else ():
        if statement.kind != "assistant":
            continue
        for sentence in _telling_sentences(statement.text):
            if NEXT_STEP.search(sentence):
                yield DigestPoint(SECTIONS.ahead, one_line(sentence), 4.5, last)


def _section_of(todo: Todo) -> Section:
    if todo.is_done:
        return SECTIONS.done
    return SECTIONS.progress if todo.is_begun else SECTIONS.ahead


# -- an earlier summary ------------------------------------------------------------------------------

_CARRIED_SCORES = {
    "Goal": 2.5,
    "Constraints & Preferences": 7,
    "Done": 3.5,
    "In Progress": 8,
    "Blocked": 2.5,
    "Key Decisions": 5,
    "Next Steps": 2.5,
    "Critical Context": 3.5,
}
"""Scores for lines from an earlier summary, by section.

The newest lines in a section get up to 1 more. Blockers and next steps have low scores, because they may be
outdated.
"""
_FIRST_GOAL = 9.5
_GOAL = 9

SummaryLine = tuple[Section, str]
"""A line from an earlier summary, with its section."""


def _carried_over(
    lines: Sequence[SummaryLine],
    outcomes: Sequence[CallOutcome],
    has_new_work: bool,
) -> Iterator[DigestPoint]:
    """Yield the lines of an earlier summary.

    If there is new work, nothing in the earlier summary counts as in progress or blocked any more.
    """
    goals = [
        line for section, line in lines if section is SECTIONS.goal and is_request(line)
    ]
    passed = {_title(outcome.call) for outcome in outcomes if not outcome.failure}
    seen = set()
    for number, (section, line) in enumerate(lines):
        is_repeated = same_words(line) in seen
        seen.add(same_words(line))
        is_outdated = section is SECTIONS.progress and has_new_work
        is_resolved = section is SECTIONS.blocked and line.split(" → ")[0] in passed
        if is_repeated or is_outdated or is_resolved:
            continue
        score = _CARRIED_SCORES[section.name] + number / len(lines)
        if section is SECTIONS.goal:
            if line not in goals:
                continue
            if line == goals[0]:
                score = _FIRST_GOAL
            elif not has_new_work:
                score = _GOAL
        if section is SECTIONS.blocked and has_new_work:
            section = SECTIONS.critical
        yield DigestPoint(
            section,
            clip(one_line(line), _REQUEST),
            score,
            number - len(lines),
        )


def _request_in_progress(lines: Sequence[SummaryLine]) -> str:
    in_progress = (line for section, line in lines if section is SECTIONS.progress)
    return one_line(next(in_progress, ""))


# -- focus -------------------------------------------------------------------------------------------

_MOST_FOCUSED = 6
"""Maximum number of lines that a focus may add."""
_MOST_OF_ONE = 2
"""Maximum number of lines that a focus may add from a single statement."""
_SHORTEST_FOCUSED = 8
FOCUS_WEIGHT = 6
"""Score added to a line that contains all words of the focus."""


def _focused(statements: Sequence[Statement], focus: Focus) -> Iterator[DigestPoint]:
    """Yield the few lines that are most closely related to the focus.

    Lines from tool results are included.
    """
    if not focus:
        return
    points = []
    for at, statement in enumerate(statements):
        if statement.kind == "thinking":
            continue
        lines = (
            statement.text.splitlines()
            if statement.kind == "result"
            else sentences(statement.text)
        )
        for share, line in _most_focused(lines, focus):
            text = clip(one_line(line), QUOTE)
            score = 3 + share + at / len(statements)
            points.append(DigestPoint(SECTIONS.critical, text, score, at))
    points.sort(key=lambda point: -point.score - FOCUS_WEIGHT * focus.share(point.text))
    yield from points[:_MOST_FOCUSED]


def _most_focused(lines: Iterable[str], focus: Focus) -> list[tuple[float, str]]:
    shares = [
        (focus.share(line), line) for line in lines if len(line) > _SHORTEST_FOCUSED
    ]
    focused = [pair for pair in shares if pair[0] > 0]
    focused.sort(key=lambda pair: -pair[0])
    return focused[:_MOST_OF_ONE]
