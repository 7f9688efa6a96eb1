"""The extractive digest: a summary without a model. Each line is quoted from the history, none invented.

`A → B` reads "A, and what came of it"; `tool · a, b` lists what a tool was called about; `…` marks what was
left out of a quotation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from foldline.protocol import BaseMessage

from .conversation import Call, Statement, statements_in_text, statements_of, summaries_in
from .facts import constraints, errors, hashes, numbers, sentences, todos, urls
from .language import SECTIONS, Section, parse_summary, render_summary
from .tokens import estimate_tokens

_REQUEST, _QUOTE, _OUTCOME, _COMMAND = 600, 320, 260, 160
"""Longest quotations, in characters: of a request, of a sentence, of an answer's opening or an error, of a
command or an output's last line."""


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
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle] + "…") <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


def opening(text: str) -> str:
    """The first lines of an answer that say something, headings and fences left out."""
    found: list[str] = []
    for sentence in sentences(text):
        if not sentence.startswith(("#", "```", "|", "---")) and not sentence.endswith((":", "：")):
            found.append(one_line(sentence))
            if sum(map(len, found)) > 80:
                break
    return clip(" … ".join(found) or one_line(next(sentences(text), text)), _OUTCOME)


def ending(text: str) -> str:
    """The last line of an output that says something."""
    for line in reversed(text[-4000:].splitlines()):
        if any(char.isalnum() for char in line):
            return clip(one_line(line), _COMMAND)
    return ""


def arrow(*parts: str) -> str:
    return " → ".join(part for part in parts if part)


_RECENT_SENTENCES = 400
"""Sentences of the assistant looked at for decisions, the newest ones."""

_DECIDED = re.compile(
    r"\b(?:decided?|decision|instead of|rather than|root cause|the cause|caused by|turns? out|because|chose|"
    r"choose|we(?:'ll| will) use|i(?:'ll| will) use|go(?:ing)? with|let['’]s (?:use|go|keep|make)|approach|"
    r"trade-?off|"
    r"proposal|conclusion|found that|the (?:fix|problem|issue|bug) (?:is|was))\b|"
    r"决定|因为|原因|改为|采用|选择|方案|结论|结果是|発見|原因は|決め|ので|결정|때문|원인",
    re.IGNORECASE,
)
_AHEAD = re.compile(
    r"\b(?:next(?: steps?)?|remaining|remains|still (?:need|have|to)|left to|follow-?up|later|"
    r"afterwards|not yet|pending|i(?:'ll| will) now)\b|"
    r"下一步|接下来|然后再|还需要|剩下|尚未|待办|次に|残り|まだ|다음|남은|아직",
    re.IGNORECASE,
)
_CHANGES = re.compile(r"write|edit|create|replace|patch|insert|delete|rename|move", re.IGNORECASE)
_RUNS = re.compile(r"bash|shell|exec|run|command|terminal", re.IGNORECASE)
_LOOKS = re.compile(
    r"(?:^|&& |; )(?:ls|find|cat|grep|rg|head|tail|sed -n|wc|pwd|echo|tree|which|stat|"
    r"git (?:status|log|diff|show))\b"
)
"""Commands that only look."""
_STATUS = re.compile(r"\bexit(?:ed)?\b")
_FRESH = 12
"""How near to the end, in things said, a failed command must stand to count as blocking still."""


@dataclass(frozen=True, slots=True)
class DigestPoint:
    """A candidate line."""

    section: Section
    text: str
    """On one line, without a list mark."""
    score: float
    order: int
    """Where it stands in the conversation; lines of an earlier summary come before 0."""


@dataclass(frozen=True, slots=True)
class _Turn:
    request: str
    said: Sequence[Statement]
    at: int

    @property
    def last_words(self) -> str:
        """The newest text of the assistant; may be empty."""
        return next((said.text for said in reversed(self.said) if said.kind == "assistant"), "")

    @property
    def answered(self) -> bool:
        """Whether nothing was called after the assistant's last words."""
        kinds = [said.kind for said in self.said if said.kind in ("assistant", "calls", "result")]
        return bool(kinds) and kinds[-1] == "assistant"


_CARRIED_SCORES = {
    "Goal": 9.5,
    "Constraints & Preferences": 9.0,
    "Done": 4.0,
    "In Progress": 2.5,
    "Blocked": 2.5,
    "Key Decisions": 7.0,
    "Next Steps": 2.5,
    "Critical Context": 4.5,
}
"""What an earlier summary holds keeps its place; what was in progress, blocked or next may be over by now."""


def _carried_points(previous: str) -> Iterator[DigestPoint]:
    lines = [(section, line) for section, line in parse_summary(previous)]
    for number, (section, line) in enumerate(lines):
        # Of lines of equal worth the earlier ones win: the first goal line is the goal.
        score = _CARRIED_SCORES[section.name] - number / (1000 + len(lines))
        yield DigestPoint(section, clip(one_line(line), _REQUEST), score, number - len(lines))


def _points_of(said: Sequence[Statement], focus: "Focus") -> Iterator[DigestPoint]:
    turns = _turns(said)
    last = max(len(said) - 1, 1)
    yield from _goals(turns)
    yield from _constraints(said)
    for turn in turns[:-1]:
        yield from _done_turn(turn, last)
    if turns:
        yield from _last_turn(turns[-1], last)
    yield from _work(said)
    yield from _decisions(said)
    yield from _ahead(said)
    yield from _details(said)
    if focus:
        yield from _focused(said, focus)


def _turns(said: Sequence[Statement]) -> list[_Turn]:
    starts = [at for at, item in enumerate(said) if item.kind == "user"]
    if not starts or starts[0] > 0:
        starts.insert(0, -1)
    ends = [*starts[1:], len(said)]
    return [
        _Turn(one_line(said[start].text) if start >= 0 else "", said[start + 1 : end], max(start, 0))
        for start, end in zip(starts, ends, strict=True)
        if end > start + 1 or start >= 0
    ]


def _goals(turns: Sequence[_Turn]) -> Iterator[DigestPoint]:
    requests = [turn for turn in turns if turn.request]
    telling = [turn for turn in requests if len(turn.request) > 12 and not turn.request.startswith("/")]
    chosen = telling or requests
    if chosen:
        yield DigestPoint(SECTIONS.goal, clip(chosen[0].request, _REQUEST), 10, chosen[0].at)
        yield DigestPoint(SECTIONS.goal, clip(chosen[-1].request, _REQUEST), 9, chosen[-1].at)


def _constraints(said: Sequence[Statement]) -> Iterator[DigestPoint]:
    for at, item in enumerate(said):
        if item.kind == "user":
            for sentence in constraints(item.text):
                asks = 2 if sentence.endswith(("?", "？")) else 0
                yield DigestPoint(SECTIONS.constraints, one_line(sentence), 8 - asks + at / len(said), at)


def _done_turn(turn: _Turn, last: int) -> Iterator[DigestPoint]:
    text = arrow(clip(turn.request, _COMMAND), opening(turn.last_words))
    # "ok", "continue" and a command of the interface say little by themselves.
    telling = len(text) > 40 and not turn.request.startswith("/")
    if text:
        yield DigestPoint(SECTIONS.done, text, (5 if telling else 1) + 2 * turn.at / last, turn.at)


def _last_turn(turn: _Turn, last: int) -> Iterator[DigestPoint]:
    """A turn that was answered is done; else it is in progress, with the newest words and calls."""
    if turn.answered:
        yield from _done_turn(turn, last)
        return
    if turn.request:
        yield DigestPoint(SECTIONS.progress, clip(turn.request, _OUTCOME), 8.5, turn.at)
    words = [(at, said.text) for at, said in enumerate(turn.said) if said.kind == "assistant"]
    if words:
        at, text = words[-1]
        yield DigestPoint(SECTIONS.progress, opening(text), 8, turn.at + at)
    calls = [call for said in turn.said for call in said.calls]
    for number, call in enumerate(calls[-3:]):
        yield DigestPoint(SECTIONS.progress, _named(call), 6 + number / 10, turn.at + len(turn.said))


@dataclass(frozen=True, slots=True)
class _Run:
    """A call and its result."""

    call: Call
    result: Statement
    at: int
    then: str
    """What was said or called next."""
    wrong: str
    """The line that tells how the call failed; empty where it did not."""


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


def _work(said: Sequence[Statement]) -> Iterator[DigestPoint]:
    """Files changed and read, commands with their outcome, errors and what came after them."""
    last = max(len(said) - 1, 1)
    changed: dict[str, dict[str, int]] = {}
    looked: dict[str, dict[str, int]] = {}
    ran: dict[str, _Run] = {}
    runs = list(_runs(said))
    for run in runs:
        name, about = run.call.name, _about(run.call)
        if _RUNS.search(name):
            ran.pop(about, None)
            ran[about] = run
        elif not run.wrong and about:
            tools = changed if _CHANGES.search(name) else looked
            tools.setdefault(name, {}).pop(about, None)
            tools[name][about] = run.at
    for tools, section, worth in ((changed, SECTIONS.done, 6.5), (looked, SECTIONS.critical, 3)):
        for name, files in tools.items():
            for at, text in _listed(name, files):
                yield DigestPoint(section, text, worth + at / last, at)
    for about, run in ran.items():
        if not run.wrong:
            text = arrow(f"{run.call.name} · {about}", ending(run.result.text))
            score = 1 if _LOOKS.search(about) else 3 + 2 * run.at / last
            yield DigestPoint(SECTIONS.done, text, score, run.at)
    yield from _failures([run for run in runs if run.wrong], ran, len(said))


def _failures(failed: Sequence[_Run], ran: Mapping[str, _Run], count: int) -> Iterator[DigestPoint]:
    """What failed, and what came after it; of `count` things said. The newest run of a command may block."""
    for run in failed:
        about, wrong = _about(run.call), run.wrong
        # A search that finds nothing ends in status 1 too: a bare status tells little.
        bare = len(wrong) < 40 and _STATUS.search(wrong) is not None
        blocks = ran.get(about) is run and run.at >= count - _FRESH and not bare
        text = arrow(f"{run.call.name} · {about}", wrong, run.then)
        section = SECTIONS.blocked if blocks else SECTIONS.critical
        score = (1.5 if bare else 6 if blocks else 3.5) + 2 * run.at / max(count - 1, 1)
        yield DigestPoint(section, text, score, run.at)


def _what_failed(call: Call, result: Statement) -> str:
    # The output of a tool that only reads may speak of errors without having failed.
    text = result.text
    tells = result.failed or _RUNS.search(call.name) or len(text) < 400
    if not tells:
        return ""
    found = errors(text[-40_000:])
    if found:
        # A traceback names its cause last; an exit status may come after it.
        telling = [
            line for line in found if not (line.startswith("Traceback") or _STATUS.search(line))
        ] or found
        return clip(one_line(telling[-1]), _OUTCOME)
    return clip(one_line(ending(text)), _OUTCOME) if result.failed else ""


def _listed(name: str, abouts: dict[str, int]) -> Iterator[tuple[int, str]]:
    """`tool · a, b, c`, a few to a line, so that a budget can take some of them."""
    names = list(abouts)
    for start in range(0, len(names), 6):
        few = names[start : start + 6]
        yield max(abouts[name] for name in few), f"{name} · {', '.join(few)}"


def _decisions(said: Sequence[Statement]) -> Iterator[DigestPoint]:
    found = [
        (at, sentence, item.kind)
        for at, item in enumerate(said)
        if item.kind in ("assistant", "user")
        for sentence in sentences(item.text)
        if _tells(sentence) and _DECIDED.search(sentence)
    ]
    for at, sentence, kind in found[-_RECENT_SENTENCES:]:
        score = 4 + 2 * at / len(said) + (0.5 if kind == "user" else 0)
        yield DigestPoint(SECTIONS.decisions, one_line(sentence), score, at)


def _tells(sentence: str) -> bool:
    return 8 <= len(sentence) <= _QUOTE and not sentence.endswith((":", "："))


def _is_prose(sentence: str) -> bool:
    wordy = sentence.count(" ") > 2 or not sentence.isascii()
    return wordy and len(sentence) <= _QUOTE and not sentence.startswith(("at ", "{", "[", "&&", "|", "<"))


def _ahead(said: Sequence[Statement]) -> Iterator[DigestPoint]:
    spoken = [item for item in said if item.kind in ("user", "assistant")]
    for todo in todos("\n".join(item.text for item in spoken)):
        yield DigestPoint(SECTIONS.ahead, one_line(todo), 6, len(said))
    for at, item in list(enumerate(said))[-30:]:
        if item.kind == "assistant":
            for sentence in sentences(item.text):
                if _tells(sentence) and _AHEAD.search(sentence):
                    yield DigestPoint(SECTIONS.ahead, one_line(sentence), 4 + at / len(said), at)


def _details(said: Sequence[Statement]) -> Iterator[DigestPoint]:
    for at, item in enumerate(said):
        if item.kind == "user":
            for sentence in sentences(item.text[:40_000]):
                if _is_prose(sentence) and (urls(sentence) or hashes(sentence) or numbers(sentence)):
                    yield DigestPoint(SECTIONS.critical, one_line(sentence), 5 + at / len(said), at)


# -- focus -------------------------------------------------------------------------------------------

_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TERM = re.compile(rf"[{_WIDE}]{{2}}|[^\W{_WIDE}]{{2,40}}")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for with about what that this from into keep focus all any are was please on of to in is it",
    )
)
_FOCUSED = 40


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
    """Lines anywhere, results included, that are about the focus; the best few."""
    found = [
        DigestPoint(SECTIONS.critical, clip(one_line(line), _QUOTE), 3 + share + at / len(said), at)
        for at, item in enumerate(said)
        if item.kind != "thinking"
        for line in (sentences(item.text) if item.kind != "result" else item.text.splitlines())
        if len(line) > 8 and (share := focus.share(line)) > 0
    ]
    yield from sorted(found, key=lambda point: -point.score - 6 * focus.share(point.text))[:_FOCUSED]


def _named(call: Call) -> str:
    about = _about(call)
    return f"{call.name} · {about}" if about else call.name


def _about(call: Call) -> str:
    return clip(one_line(call.about), _COMMAND)


SMALLEST = 96
"""Tokens below which there is no room for the sections: the digest is then the goal alone."""
_WORTH = 2.0
"""Points below this are left out, room or not: commands that only looked, "continue"."""
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
    points = [*_carried_points(previous), *_points_of(said, wanted)]
    points = [replace(point, score=point.score + 6 * wanted.share(point.text)) for point in points]
    if not points:
        points = [DigestPoint(SECTIONS.goal, clip(one_line(next((s.text for s in said), "")), _QUOTE), 1, 0)]
    points = [point for point in points if point.score >= _WORTH] or points
    if max_tokens < SMALLEST:
        goal = max(points, key=lambda point: (point.section is SECTIONS.goal, point.score))
        heading = f"{SECTIONS.goal.heading}\n- "
        room = max_tokens - estimate_tokens(heading)
        return heading + within(goal.text, room) if room > 3 else within(goal.text, max(1, max_tokens))
    # A summary about as long as what it stands for would free nothing.
    useful = estimate_tokens(previous) + max(_ALWAYS, int(_USEFUL * sum(map(_size, said))))
    room = min(max_tokens, useful) - estimate_tokens(render_summary({}))
    return render_summary(_lines(_chosen(points, room)))


def _size(said: Statement) -> int:
    return estimate_tokens(said.text) + sum(estimate_tokens(call.about) for call in said.calls)


# -- choosing ----------------------------------------------------------------------------------------


def _chosen(points: Sequence[DigestPoint], room: int) -> list[DigestPoint]:
    """The best points within a budget: first each section's share, then what is left to the best of all."""
    ranked = sorted(points, key=lambda point: (-point.score, point.order))
    taken = _Taken()
    for section in SECTIONS:
        share = int(room * section.share)
        for point in ranked:
            if point.section is section:
                share -= taken.add(point, share, clip=section is SECTIONS.goal)
    for point in ranked:
        taken.add(point, room - taken.tokens)
    return taken.points


class _Taken:
    """Points taken so far, none of which says what another of its section says."""

    def __init__(self) -> None:
        self.points: list[DigestPoint] = []
        self.tokens = 0
        self._seen: dict[Section, list[str]] = {}

    def add(self, point: DigestPoint, room: int, clip: bool = False) -> int:
        """Takes a point where it is new and there is room, a section's first one shortened with `clip`; its
        tokens."""
        key = _key(point.text)
        seen = self._seen.setdefault(point.section, [])
        if not key or any(key in other for other in seen):
            return 0
        cost = _cost(point.text)
        if cost > room:
            if not clip or seen or room < 12:
                return 0
            point = replace(point, text=within(point.text, room - 2))
            cost = _cost(point.text)
        seen.append(key)
        self.points.append(point)
        self.tokens += cost
        return cost


def _cost(text: str) -> int:
    # Estimates are rounded up, so that the sum of the lines is never less than the estimate of the whole.
    return estimate_tokens(f"- {text}\n")


def _key(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _lines(points: Iterable[DigestPoint]) -> dict[Section, list[str]]:
    lines: dict[Section, list[str]] = {}
    for point in sorted(points, key=lambda point: point.order):
        lines.setdefault(point.section, []).append(point.text)
    return lines
