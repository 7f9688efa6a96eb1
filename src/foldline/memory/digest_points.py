"""The candidate lines for a digest, each with its section and score.

Every line is quoted from the history. `A → B` stands for A and its outcome, `tool · a, b` means that a tool
was called with a and b, and `…` marks an omission.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from foldline.text.shorten import clip, one_line

from .conversation import Statement
from .cues import (
    ACKNOWLEDGEMENT,
    DIGEST_DECISION,
    EXPLANATION,
    FACT_LABELS,
    GOAL_LABELS,
    NARRATION,
    NEXT_STEP,
)
from .digest_lines import (
    OUTCOME,
    QUOTE,
    REQUEST,
    SEARCHED,
    TITLE,
    CallOutcome,
    DigestPoint,
    arrow,
    call_title,
    is_request,
    opening,
    outcomes_of,
    work_points,
)
from .facts import (
    QUESTION_MARKS,
    constraints,
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


def points_of(
    statements: Sequence[Statement],
    previous: str,
    focus: Focus,
) -> Iterator[DigestPoint]:
    """Yield the candidates from a conversation and from its earlier summary."""
    outcomes = list(outcomes_of(statements))
    has_new_work = any(
        statement.kind in ("assistant", "calls") for statement in statements
    )
    earlier_lines = list(parse_summary(previous))
    request_before = _request_in_progress(earlier_lines)
    exchanges = _exchanges(statements, request_before)
    yield from _carried_over(earlier_lines, outcomes, has_new_work)
    yield from _requests(exchanges, request_before, is_first=not previous)
    yield from _user_statements(exchanges, statements)
    yield from work_points(outcomes, len(statements))
    yield from _decisions(statements)
    yield from _next_steps(exchanges, statements)
    yield from _focused(statements, focus)


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
            clip(asking[0].request, REQUEST),
            10,
            asking[0].at,
        )
    if asking and asking[-1].request != request_before:
        yield DigestPoint(
            SECTIONS.goal,
            clip(asking[-1].request, REQUEST),
            9,
            asking[-1].at,
        )
    for exchange in exchanges[:-1]:
        yield from _done(exchange, last)
    for exchange in exchanges[-1:]:
        yield from _done(exchange, last) if exchange.answer else _in_progress(exchange)


def _done(exchange: Exchange, last: int) -> Iterator[DigestPoint]:
    answer = opening(exchange.answer) if exchange.answer else ""
    text = arrow(clip(exchange.request, TITLE), answer)
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
            clip(exchange.request, OUTCOME),
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
            call_title(call),
            score,
            at + len(exchange.statements),
        )


# -- statements of the user --------------------------------------------------------------------------

_PASTED = 1_500
"""Minimum length, in characters, of text from the user that was probably pasted, not typed."""


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
            lateness = at / len(statements)
            for section, line, score in _quotes(statement.text, at in notes_at):
                yield DigestPoint(section, one_line(line), score + lateness, at)


def _quotes(text: str, is_note: bool) -> Iterator[tuple[Section, str, float]]:
    """Yield lines and sentences of a user's text, each with its section and score."""
    quoted = []
    is_typed = len(text) <= _PASTED
    for line in prose(text).splitlines() if is_typed else ():
        labels = label_of(line.strip())
        if len(line) <= QUOTE and labels & (GOAL_LABELS | FACT_LABELS):
            quoted.append(line)
            section = SECTIONS.goal if labels & GOAL_LABELS else SECTIONS.critical
            yield section, line, 8
    for rule in constraints(text):
        if not any(rule in line for line in quoted):
            quoted.append(rule)
            yield SECTIONS.constraints, rule, _rule_score(rule)
    for sentence in sentences(text[:SEARCHED]):
        if any(sentence in line for line in quoted):
            continue
        if not (is_note or _is_prose(sentence)):
            continue
        has_value = urls(sentence) or hashes(sentence) or numbers(sentence)
        if has_value:
            yield SECTIONS.critical, sentence, 5.0 if is_typed else 2.5
        elif is_note and _is_telling(sentence):
            yield SECTIONS.critical, sentence, 3.0 if is_typed else 2.5


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
    passed = {call_title(outcome.call) for outcome in outcomes if not outcome.failure}
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
            clip(one_line(line), REQUEST),
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
