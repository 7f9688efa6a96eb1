"""The extractive digest: a summary without a model. Each line is quoted from the history, none invented.

`A → B` reads "A, and what came of it"; `tool · a, b` lists what a tool was called about; `…` marks what was
left out of a quotation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from foldline.protocol import BaseMessage
from foldline.sequences import grouped

from .clip import longest
from .conversation import Call, Statement, statements_in_text, statements_of, summaries_in
from .facts import (
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
from .language import SECTIONS, Section, parse_summary, render_summary
from .tokens import estimate_tokens

_REQUEST, _QUOTE, _OUTCOME, _COMMAND, _TITLE = 600, 320, 260, 160, 100
"""Longest quotations, in characters: of a request, of a sentence, of an answer's opening or an error, of a
command or an output's last line, of a request that is quoted as the goal already."""


def one_line(text: str) -> str:
    return " ".join(text.split())


def clip(text: str, length: int) -> str:
    """The beginning of a line, up to a blank where there is one near, and `…`."""
    if len(text) <= length:
        return text
    cut = text.rfind(" ", length - 30, length)
    return text[: cut if cut > 0 else length - 1].rstrip() + "…"


def within(text: str, tokens: int) -> str:
    """The beginning of a line within so many tokens; at least one character."""
    if estimate_tokens(text) <= tokens:
        return text
    length = longest(len(text), tokens, lambda end: text[:end] + "…")
    return text[:length].rstrip() + "…"


_ASSENTS = re.compile(
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|sure|go(?: on| ahead| for it)?|continue|proceed|do (?:it|that)|all|please|"
    r"thanks?(?: you)?|great|good|perfect|fine|nice|cool|done|lgtm|looks good|sounds good|approved?|next|"
    r"retry|try again|y|"
    r"好的?|可以|行|对|是的?|继续|嗯|没问题|同意|谢谢|请|はい|了解|続けて|ありがとう|네|응|계속)"
    r"(?![a-z])[\W_]*+)++",
    re.IGNORECASE,
)
_TAKES_NOTE = re.compile(
    r"(?:noted|acknowledged|ok(?:ay)?|got it|understood|will do|remembered|recorded|"
    r"记住|明白|收到|好的|了解|知道)(?![a-z])",
    re.IGNORECASE,
)
_NOTE = 120
"""Characters of an answer that may be no more than "noted"."""


def is_request(text: str) -> bool:
    """Whether a user's words ask for something by themselves; not "ok", "go on", or `/command`."""
    command = re.match(r"\s*/[^\s/]+(?:\s|\Z)", text)
    words = re.sub(r"\A[\W_]+", "", text[:_REQUEST])
    return bool(words) and not command and not (len(words) <= 60 and _ASSENTS.fullmatch(words))


_NOTHING_SAID = re.compile(r"---|<|\W*\d{0,3}\W*\Z|.{0,60}[:：]\W*\Z", re.DOTALL)
"""Rules, tags, numbers, and what only introduces the next line."""
_TRAILER = re.compile(
    r"\W*(?:wall time|took|duration|output|process exited|exit(?:ed)?|chunk id|script (?:completed|running))"
    r"\b",
    re.IGNORECASE,
)
"""Lines in which tools, not commands, say how a command ended."""


def opening(text: str) -> str:
    """How an answer begins: the first sentences of its first paragraph that says something."""
    found: list[str] = []
    for paragraph in prose(text).split("\n\n"):
        lines = (line for line in paragraph.splitlines() if not line.lstrip().startswith(("#", "|")))
        for sentence in (sentence for line in lines for sentence in sentences(line)):
            telling = not _NOTHING_SAID.match(sentence) and not _ASSENTS.fullmatch(sentence[:_OUTCOME])
            if telling and sum(map(len, found)) <= 80:
                found.append(one_line(sentence))
        if found:
            break
    return clip(" … ".join(found) or one_line(next(sentences(text), text)), _OUTCOME)


def ending(text: str) -> str:
    """The last line of an output that says something."""
    lines = [line for line in text[-4000:].splitlines() if any(char.isalnum() for char in line)]
    telling = next((line for line in reversed(lines) if not _TRAILER.match(line)), lines[-1] if lines else "")
    return clip(one_line(telling), _COMMAND)


def arrow(*parts: str) -> str:
    return " → ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class DigestPoint:
    """A candidate line."""

    section: Section
    text: str
    """On one line, without a list mark."""
    score: float
    order: int
    """Where it stands in the conversation; lines of an earlier summary come before 0."""


# -- requests and what came of them --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Turn:
    """A request and what followed it; assent to it, and to what was proposed, included."""

    request: str
    said: Sequence[Statement]
    at: int

    @property
    def answer(self) -> str:
        """The assistant's last words where nothing was called after them; empty while it is at work. What it
        says to an assent that brought no work is none, unless it had asked."""
        spoken = [said for said in self.said if said.kind in ("assistant", "calls", "result")]
        if not spoken or spoken[-1].kind != "assistant":
            return ""
        answer = ""
        for is_assent, run in groupby(self.said, key=lambda said: said.kind == "user"):
            part = [] if is_assent else list(run)
            words = [said.text for said in part if said.kind == "assistant"]
            if words and (not answer or answer.rstrip().endswith("?") or any(said.calls for said in part)):
                answer = words[-1]
        return answer

    @property
    def noted(self) -> bool:
        """Whether the user only stated something: the answer is an acknowledgement."""
        heard = len(self.answer) <= _NOTE and _TAKES_NOTE.match(self.answer) is not None
        return heard and not any(said.calls for said in self.said) and "?" not in self.request


def _turns(said: Sequence[Statement], going_on: str) -> list[_Turn]:
    """The turns; `going_on` is the request that an earlier summary has in progress."""
    starts = [at for at, item in enumerate(said) if item.kind == "user" and is_request(item.text)]
    ends = [*starts, len(said)]
    first = [_Turn(going_on, said[: ends[0]], 0)] if ends[0] > 0 else []
    return first + [
        _Turn(one_line(said[start].text), said[start + 1 : end], start)
        for start, end in zip(starts, ends[1:], strict=True)
    ]


def _asked(turns: Sequence[_Turn], going_on: str, is_first: bool) -> Iterator[DigestPoint]:
    """The first request of all and the newest, where they are not carried on; what was answered is done, what
    was not is in progress."""
    last = max((turn.at + len(turn.said) for turn in turns), default=1)
    requests = [turn for turn in turns if turn.request and not turn.noted]
    if requests and is_first:
        yield DigestPoint(SECTIONS.goal, clip(requests[0].request, _REQUEST), 10, requests[0].at)
    if requests and requests[-1].request != going_on:
        yield DigestPoint(SECTIONS.goal, clip(requests[-1].request, _REQUEST), 9, requests[-1].at)
    for turn in turns[:-1]:
        yield from _done(turn, last)
    for turn in turns[-1:]:
        yield from _done(turn, last) if turn.answer else _in_progress(turn)


def _done(turn: _Turn, last: int) -> Iterator[DigestPoint]:
    text = arrow(clip(turn.request, _TITLE), opening(turn.answer) if turn.answer else "")
    # An answer without a request says less, and so does a request whose answer nobody waited for.
    score = 5 if turn.request and turn.answer else 2.5
    if text and not turn.noted:
        yield DigestPoint(SECTIONS.done, text, score + 2 * turn.at / last, turn.at)


def _in_progress(turn: _Turn) -> Iterator[DigestPoint]:
    if turn.request:
        yield DigestPoint(SECTIONS.progress, clip(turn.request, _OUTCOME), 8.5, turn.at)
    words = [(at, said.text) for at, said in enumerate(turn.said) if said.kind == "assistant"]
    for at, text in words[-1:]:
        yield DigestPoint(SECTIONS.progress, opening(text), 8, turn.at + at)
    calls = [call for said in turn.said for call in said.calls]
    for number, call in enumerate(calls[-3:]):
        yield DigestPoint(SECTIONS.progress, _named(call), 6 + number / 10, turn.at + len(turn.said))


# -- what the user said ------------------------------------------------------------------------------

_GOAL_LABELS = frozenset({"goal", "task", "objective", "目标", "任务"})
_FACT_LABELS = frozenset(
    {"fact", "note", "fyi", "reminder", "remember", "context", "事实", "备注", "背景", "记住"}
)
_PASTED = 1_500
"""Characters from which on a user's text is more likely pasted than typed."""


def _told(turns: Sequence[_Turn], said: Sequence[Statement]) -> Iterator[DigestPoint]:
    """What the user labelled a goal or a fact; constraints; what was only stated; sentences with values. Each
    sentence once, as the first of these that it is."""
    heard = {turn.at for turn in turns if turn.noted}
    for at, item in enumerate(said):
        if item.kind != "user":
            continue
        late = at / len(said)
        typed = len(item.text) <= _PASTED
        once: list[str] = []
        for line in prose(item.text).splitlines() if typed else ():
            labels = label_of(line.strip()) if len(line) <= _QUOTE else frozenset()
            if labels & (_GOAL_LABELS | _FACT_LABELS):
                once.append(line)
                section = SECTIONS.goal if labels & _GOAL_LABELS else SECTIONS.critical
                yield DigestPoint(section, one_line(line), 8 + late, at)
        for rule in constraints(item.text):
            if not any(rule in line for line in once):
                once.append(rule)
                score = 6 if rule.endswith(("?", "？")) else 8.5 if label_of(rule) else 8
                yield DigestPoint(SECTIONS.constraints, one_line(rule), score + late, at)
        for sentence in sentences(item.text[:40_000]):
            if any(sentence in line for line in once) or not (at in heard or _is_prose(sentence)):
                continue
            valued = urls(sentence) or hashes(sentence) or numbers(sentence)
            if valued or (at in heard and _tells(sentence)):
                score = 2.5 if not typed else 5 if valued else 3
                yield DigestPoint(SECTIONS.critical, one_line(sentence), score + late, at)


def _tells(sentence: str) -> bool:
    return (24 if sentence.isascii() else 8) <= len(sentence) <= _QUOTE and not sentence.endswith(
        (":", "：", "?", "？")
    )


def _is_prose(sentence: str) -> bool:
    wordy = sentence.count(" ") > 2 or not sentence.isascii()
    return wordy and len(sentence) <= _QUOTE and not sentence.startswith(("at ", "{", "[", "&&", "|", "<"))


# -- work --------------------------------------------------------------------------------------------

_CHANGES = re.compile(r"write|edit|create|replace|patch|insert|delete|rename|move", re.IGNORECASE)
_KEEPS_LISTS = re.compile(r"todo|task|plan", re.IGNORECASE)
_RUNS = re.compile(r"bash|shell|exec|run|command|terminal", re.IGNORECASE)
_COMMITS = re.compile(r"\bgit (?:-C \S+ )?commit\b")
_STATUS = re.compile(r"\bexit(?:ed)?\b")
_FRESH = 12
"""How near to the end, in things said, a failed command must stand to count as blocking still."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A call and its result."""

    call: Call
    result: Statement
    at: int
    then: str
    """What was said or called next."""
    wrong: str
    """The line that says how the call failed; empty where it did not."""


def _runs(said: Sequence[Statement]) -> Iterator[_Run]:
    for at, item in enumerate(said):
        if item.kind != "calls":
            continue
        results = []
        for follower in said[at + 1 : at + 1 + len(item.calls)]:
            if follower.kind != "result":
                break
            results.append(follower)
        after = at + 1 + len(results)
        others = (other for other in said[after : after + 3] if other.kind != "thinking")
        then = next((_named(x.calls[0]) if x.calls else opening(x.text) for x in others), "")
        for call, result in zip(item.calls, results, strict=False):
            yield _Run(call, result, at, then, _what_failed(call, result))


def _what_failed(call: Call, result: Statement) -> str:
    # The output of a tool that only reads may speak of errors without having failed.
    text = result.text
    informative = result.failed or _RUNS.search(call.name) or len(text) < 400
    if not informative:
        return ""
    found = errors(text[-40_000:])
    if found:
        # A traceback names its cause last; an exit status may come after it.
        telling = [
            line for line in found if not (line.startswith("Traceback") or _STATUS.search(line))
        ] or found
        return clip(one_line(telling[-1]), _OUTCOME)
    return clip(one_line(ending(text)), _OUTCOME) if result.failed else ""


def _work(runs: Sequence[_Run], count: int) -> Iterator[DigestPoint]:
    """Files changed, commands with their outcome, and errors: with what resolved them, or open; of `count`
    things said."""
    last = max(count - 1, 1)
    changed: dict[str, dict[str, int]] = {}
    passed: dict[str, _Run] = {}
    failed: dict[str, _Run] = {}
    change: _Run | None = None
    for run in runs:
        name, about = run.call.name, _about(run.call)
        key = _named(run.call)
        passed.pop(key, None)
        if run.wrong:
            failed[key] = run
            continue
        if (error := failed.pop(key, None)) is not None and _RUNS.search(name):
            mended = _named(change.call) if change is not None and change.at > error.at else error.then
            text = arrow(key, error.wrong, mended, ending(run.result.text))
            yield DigestPoint(SECTIONS.critical, text, 4 + 2 * run.at / last, run.at)
        if _RUNS.search(name):
            passed[key] = run
        elif _CHANGES.search(name) and not _KEEPS_LISTS.search(name) and about:
            changed.setdefault(name, {}).pop(about, None)
            changed[name][about] = run.at
            change = run
    for name, files in changed.items():
        for at, text in _listed(name, files):
            yield DigestPoint(SECTIONS.done, text, 6.5 + at / last, at)
    for key, run in passed.items():
        if _does_something(run.call):
            yield DigestPoint(
                SECTIONS.done, arrow(key, ending(run.result.text)), 3 + 2 * run.at / last, run.at
            )
    yield from _open(failed, count)


def _open(failed: Mapping[str, _Run], count: int) -> Iterator[DigestPoint]:
    """What failed and never passed: it blocks where that was just now."""
    for key, run in failed.items():
        # A search that finds nothing ends in status 1 too: a bare status says little.
        bare = len(run.wrong) < 40 and _STATUS.search(run.wrong) is not None
        ran = _RUNS.search(run.call.name) is not None
        blocks = ran and run.at >= count - _FRESH and not bare
        score = 1.5 if bare else 6 if blocks else 4 if ran else 2
        section = SECTIONS.blocked if blocks else SECTIONS.critical
        text = arrow(key, run.wrong, run.then)
        yield DigestPoint(section, text, score + 2 * run.at / max(count - 1, 1), run.at)


def _listed(name: str, abouts: dict[str, int]) -> Iterator[tuple[int, str]]:
    """`tool · a, b, c`, a few to a line, so that a budget can take some of them."""
    names = list(abouts)
    for start in range(0, len(names), 6):
        few = names[start : start + 6]
        yield max(abouts[name] for name in few), f"{name} · {', '.join(few)}"


def _does_something(call: Call) -> bool:
    line = call.about[:4000]
    return any(True for _ in effective_commands(line)) or _COMMITS.search(line) is not None


def _named(call: Call) -> str:
    about = _about(call)
    return f"{call.name} · {about}" if about else call.name


def _about(call: Call) -> str:
    return clip(one_line(call.about), _COMMAND)


# -- what the assistant said ---------------------------------------------------------------------------

_RECENT_SENTENCES = 400
"""Sentences looked at for decisions, the newest ones."""
_DECIDED = re.compile(
    r"\b(?:decided?|decision|opted|instead of|rather than|root cause|the cause|caused by|turns? out|chose|"
    r"(?:we|i)(?:'ll| will) (?:use|keep)|go(?:ing)? with|let['’]s (?:use|go with|keep)|"
    r"(?:best|cleanest|simplest|right|chosen) approach|trade-?off|conclusion|found that|"
    r"the (?:fix|problem|issue|bug) (?:is|was))\b|"
    r"决定|改为|改用|采用|选用|选定|根本原因|原因是|结论|(?:最终|推荐|选择).{0,4}方案|結果是|発見|原因は|決め|결정|원인",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(r"\bbecause\b|因为|由于|ので|때문", re.IGNORECASE)
_NARRATES = re.compile(
    r"(?:now|first|next|actually|ok(?:ay)?|so|wait)?[,\s]*"
    r"(?:let me|let['’]s see|i['’](?:m|ll)\b|i (?:am|will|call)\b)|让我|我来|我调用|\||\*\*?[^*]*\*\*?\W*\Z",
    re.IGNORECASE,
)
"""What the assistant is about to do, table rows and headings: none is a decision."""
_AHEAD = re.compile(
    r"\b(?:next steps?|next,|remaining|remains to|still (?:need|have) to|left to do|follow-?ups?|not yet)\b|"
    r"下一步|接下来|还需要|剩下|尚未|待办|次に|残り|まだ|다음|남은|아직",
    re.IGNORECASE,
)


def _decisions(said: Sequence[Statement]) -> Iterator[DigestPoint]:
    found = [
        (at, sentence, item.kind)
        for at, item in enumerate(said)
        if item.kind == "assistant" or (item.kind == "user" and len(item.text) <= _PASTED)
        for sentence in sentences(item.text)
        if _tells(sentence) and not _NARRATES.match(sentence)
        if item.kind == "assistant" or not constraints(sentence)
    ]
    for at, sentence, kind in found[-_RECENT_SENTENCES:]:
        if decided := _DECIDED.search(sentence) or _EXPLAINED.search(sentence):
            weak = decided.re is _EXPLAINED
            score = (3 if weak else 4.5) + 2 * at / len(said) + (0.5 if kind == "user" else 0)
            yield DigestPoint(SECTIONS.decisions, one_line(sentence), score, at)


def _ahead(turns: Sequence[_Turn], said: Sequence[Statement]) -> Iterator[DigestPoint]:
    """What the newest list of the todo tool has open and done; else task lists, and what the last turn says
    is left to do."""
    lists = [call.todos for item in said for call in item.calls if call.todos is not None]
    for todo in lists[-1] if lists else ():
        section = SECTIONS.done if todo.is_done else SECTIONS.progress if todo.is_begun else SECTIONS.ahead
        if todo.is_done or todo.is_open:
            yield DigestPoint(section, clip(one_line(todo.text), _QUOTE), 7, len(said))
    spoken = [item for item in said if item.kind in ("user", "assistant")]
    for text in todos("\n".join(item.text for item in spoken)):
        yield DigestPoint(SECTIONS.ahead, one_line(text), 6, len(said))
    for item in turns[-1].said if turns else ():
        if item.kind == "assistant":
            for sentence in sentences(item.text):
                if _tells(sentence) and not _NARRATES.match(sentence) and _AHEAD.search(sentence):
                    yield DigestPoint(SECTIONS.ahead, one_line(sentence), 4.5, len(said))


# -- an earlier summary --------------------------------------------------------------------------------

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
"""What an earlier summary holds; of a section the newest lines are worth up to 1 more. The first goal stays
before all; what blocked, or was next, may be over by now."""


def _carried(previous: str, runs: Sequence[_Run], moved_on: bool) -> Iterator[DigestPoint]:
    """The lines of an earlier summary; where the work has `moved_on`, nothing of it is in progress still."""
    lines = list(parse_summary(previous))
    goals = [line for section, line in lines if section is SECTIONS.goal and is_request(line)]
    passed = {_named(run.call) for run in runs if not run.wrong}
    seen: set[str] = set()
    for number, (section, line) in enumerate(lines):
        score = _CARRIED_SCORES[section.name] + number / len(lines)
        if section is SECTIONS.goal and line in goals:
            score = 9.5 if line == goals[0] else 9 if not moved_on else score
        repeated = same_words(line) in seen
        over = section is SECTIONS.progress and moved_on
        resolved = section is SECTIONS.blocked and line.split(" → ")[0] in passed
        if not (repeated or over or resolved or (section is SECTIONS.goal and line not in goals)):
            where = SECTIONS.critical if section is SECTIONS.blocked and moved_on else section
            yield DigestPoint(where, clip(one_line(line), _REQUEST), score, number - len(lines))
        seen.add(same_words(line))


def _in_progress_in(previous: str) -> str:
    return next(
        (one_line(line) for section, line in parse_summary(previous) if section is SECTIONS.progress), ""
    )


# -- focus -------------------------------------------------------------------------------------------

_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TERM = re.compile(rf"[{_WIDE}]{{2}}|[^\W{_WIDE}]{{2,40}}")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for with about what that this from into keep focus all any are was please on of to in is it",
    )
)
_FOCUSED, _OF_ONE = 6, 2
"""Lines that a focus brings in at most, and of one thing said: it chooses, and does not pour."""


class Focus:
    """The words of a focus; pairs of characters where a script has no blanks."""

    def __init__(self, text: str) -> None:
        self._terms = {term.casefold() for term in _TERM.findall(text)} - _COMMON

    def __bool__(self) -> bool:
        return bool(self._terms)

    def share(self, text: str) -> float:
        """How much of the focus a text is about: 0 to 1."""
        if not self._terms:
            return 0
        text = text.casefold()
        return sum(term in text for term in self._terms) / len(self._terms)


def _focused(said: Sequence[Statement], focus: Focus) -> Iterator[DigestPoint]:
    """The few lines anywhere, results included, that are most about the focus."""
    found: list[DigestPoint] = []
    for at, item in enumerate(said):
        if item.kind != "thinking":
            lines = sentences(item.text) if item.kind != "result" else item.text.splitlines()
            about = [(share, line) for line in lines if len(line) > 8 and (share := focus.share(line)) > 0]
            for share, line in sorted(about, key=lambda pair: -pair[0])[:_OF_ONE]:
                text = clip(one_line(line), _QUOTE)
                found.append(DigestPoint(SECTIONS.critical, text, 3 + share + at / len(said), at))
    yield from sorted(found, key=lambda point: -point.score - 6 * focus.share(point.text))[:_FOCUSED]


# -- the whole ---------------------------------------------------------------------------------------

SMALLEST = 96
"""Tokens below which there is no room for the sections: the digest is then the goal alone."""
_WORTH = 2.0
"""Points below this are left out, room or not."""
_USEFUL, _ALWAYS = 0.6, 240
"""Of the conversation's tokens, how many a digest may take; and how many it may always take."""


def digest(
    messages: Sequence[BaseMessage], *, previous: str | None, focus: str | None, max_tokens: int
) -> str:
    """A summary of messages in at most `max_tokens` (estimated), in the usual sections; empty only for
    nothing. `previous` and summaries among the messages are merged in; what matches `focus` comes first."""
    earlier = "\n\n".join(filter(None, (previous, summaries_in(messages))))
    return _digest(statements_of(messages), earlier, focus or "", max_tokens)


def digest_conversation(text: str, previous: str | None, focus: str | None, max_tokens: int) -> str:
    """The same from the text of a summary request, with its line labels."""
    return _digest(statements_in_text(text), previous or "", focus or "", max_tokens)


def _digest(said: Sequence[Statement], previous: str, focus: str, max_tokens: int) -> str:
    if not said and not previous.strip():
        return ""
    wanted = Focus(focus)
    points = [
        replace(point, score=point.score + 6 * wanted.share(point.text))
        for point in _points(said, previous, wanted)
    ]
    if not points:
        points = [DigestPoint(SECTIONS.goal, clip(one_line(next((s.text for s in said), "")), _QUOTE), 1, 0)]
    points = [point for point in points if point.score >= _WORTH] or points
    # A summary about as long as what it stands for would free nothing.
    useful = estimate_tokens(previous) + max(_ALWAYS, int(_USEFUL * sum(map(_size, said))))
    chosen = _chosen(points, min(max_tokens, useful)) if max_tokens >= SMALLEST else []
    return render_summary(_lines(chosen)) if chosen else _goal_alone(points, max_tokens)


def _goal_alone(points: Sequence[DigestPoint], room: int) -> str:
    goal = max(points, key=lambda point: (point.section is SECTIONS.goal, point.score))
    heading = f"{SECTIONS.goal.heading}\n- "
    left = room - estimate_tokens(heading)
    return heading + within(goal.text, left) if left > 3 else within(goal.text, max(1, room))


def _points(said: Sequence[Statement], previous: str, focus: Focus) -> Iterator[DigestPoint]:
    runs = list(_runs(said))
    moved_on = any(item.kind in ("assistant", "calls") for item in said)
    going_on = _in_progress_in(previous)
    turns = _turns(said, going_on)
    yield from _carried(previous, runs, moved_on)
    yield from _asked(turns, going_on, is_first=not previous)
    yield from _told(turns, said)
    yield from _work(runs, len(said))
    yield from _decisions(said)
    yield from _ahead(turns, said)
    yield from _focused(said, focus)


def _size(said: Statement) -> int:
    return estimate_tokens(said.text) + sum(estimate_tokens(call.about) for call in said.calls)


# -- choosing ----------------------------------------------------------------------------------------


def _chosen(points: Sequence[DigestPoint], room: int) -> list[DigestPoint]:
    """The best points within a budget: first each section's share, then what is left to the best of all."""
    ranked = sorted(points, key=lambda point: (-point.score, point.order))
    taken = _Taken()
    shared = room - sum(map(_heading_cost, SECTIONS))
    for section in SECTIONS:
        share = int(shared * section.share)
        for point in ranked:
            if point.section is section:
                share -= taken.add(point, share, clip=section is SECTIONS.goal)
    for point in ranked:
        taken.add(point, room - taken.tokens - taken.heading(point.section))
    return taken.points


class _Taken:
    """Points taken so far, none of which says what another of its section says."""

    def __init__(self) -> None:
        self.points: list[DigestPoint] = []
        self.tokens = 0
        self._seen: dict[Section, list[str]] = {section: [] for section in SECTIONS}

    def heading(self, section: Section) -> int:
        """The tokens that the first line of a section takes beyond its own."""
        return 0 if self._seen[section] else _heading_cost(section)

    def add(self, point: DigestPoint, room: int, clip: bool = False) -> int:
        """Takes a point where it is new and there is room, a section's first one shortened with `clip`; its
        tokens."""
        key = same_words(point.text)
        seen = self._seen[point.section]
        if not key or any(key in other for other in seen):
            return 0
        cost = _cost(point.text)
        if cost > room:
            if not clip or seen or room < 12:
                return 0
            point = replace(point, text=within(point.text, room - 2))
            cost = _cost(point.text)
        self.tokens += cost + self.heading(point.section)
        seen.append(key)
        self.points.append(point)
        return cost


def _cost(text: str) -> int:
    # Estimates are rounded up, so that the sum of the lines is never less than the estimate of the whole.
    return estimate_tokens(f"- {text}\n")


def _heading_cost(section: Section) -> int:
    return estimate_tokens(render_summary({section: ()}) + "\n")


def _lines(points: Iterable[DigestPoint]) -> dict[Section, list[str]]:
    return grouped((point.section, point.text) for point in sorted(points, key=lambda point: point.order))
