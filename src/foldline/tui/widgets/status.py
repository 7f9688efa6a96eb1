"""The lowest rows of the screen: what runs, asks or went wrong, what Esc does; and the keys that work now."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, assert_never, runtime_checkable

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.tui.blocks.cells import Piece, Side, Span, piece, row
from foldline.tui.keys.commands import BY_ID, COMMANDS, QUIT_WITHIN, key_of
from foldline.tui.keys.table import hint_words
from foldline.tui.state import (
    CacheEnds,
    ChatState,
    Compacting,
    DraftedAhead,
    Idle,
    News,
    Question,
    Retry,
    RunningTool,
    Stepping,
    Working,
    rung_words,
)
from foldline.tui.widgets.lines import HEAVY, Lines, edge, hint, hints_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foldline.protocol.events import ProposalReady, SubagentProgress

_NARROW = 100
"""Cells below which words are shorter, and the transcript is the only panel beside the prompt."""
_SHORTER = {BY_ID["preview"].hint: "preview", BY_ID["complete"].hint: "transcript"}
_LAST_TO_GO = (BY_ID["complete"].hint, BY_ID["prompt-older"].hint)
"""What stays longest where there is no room: how to get anywhere else."""


def hints_row(
    state: ChatState, width: int, reading: Iterable[tuple[str, str]] | None = None, *, covered: bool = False
) -> list[Span]:
    """` F2 inspector  Alt+↑↓ prompts  PgUp scroll        Ctrl+P everything `; while the transcript has the
    focus, its own (`reading`); while another screen is in front, what works there, too."""
    words = list(hint_words(COMMANDS, state))
    if not words:
        return row((), (), width)
    last = words.pop()
    if covered:
        words = []
    elif reading is not None:
        words = [*reading, (key_of("help-panel"), "all keys")]
    left: list[Piece] = []
    for at, (keys, word) in enumerate(words):
        rank = 1 + (_LAST_TO_GO.index(word) if word in _LAST_TO_GO else len(_LAST_TO_GO) + at)
        shown = _SHORTER.get(word, word) if width < _NARROW else word
        left.append(Piece(hint(keys, shown), rank, gap=2))
    return row(left, [Piece(hint(*last), gap=2)], width)


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICKS = 10
"""Spinner steps a second."""
NEWS_SECONDS = 10.0
"""How long news stand in the row when something else could."""


@dataclass(frozen=True, slots=True)
class StatusContext:
    """What the screen adds to the state: the reader's side of things."""

    new_below: int = 0
    escape: str = ""
    """What Esc would do, in words."""
    remark: str = ""
    """An answer to the key just pressed."""
    writes: bool = False
    """Whether the prompt holds text."""
    question_focused: bool = False


def status_row(state: ChatState, beside: StatusContext, now: float, width: int) -> list[Span]:
    """One thing at the left (remark, error, question, running, notice), the reader's side at the right."""
    right: list[Piece] = []
    if beside.new_below > 0:
        end = f"key:{BY_ID['end'].pressed[0]}"
        below = f"▼ {beside.new_below} new below"
        right.append(Piece(((below, f"accent {end}"), (", End", f"muted {end}")), rank=3))
    if beside.escape:
        right.append(Piece(hints_in(beside.escape, "muted"), rank=1))
    return row(_left(state, beside, now), right, width)


def next_change(state: ChatState, now: float) -> float | None:
    """Seconds until the row looks different by time alone; None where time changes nothing."""
    if state.busy or state.drafting_ahead:
        return 1 / TICKS
    marks = [state.cache.offered_at, state.cache.at] if state.cache is not None else []
    if state.news is not None and state.news.level != "error":
        marks.append(state.news.since + NEWS_SECONDS)
    return min((mark - now for mark in marks if mark > now), default=None)


def _left(state: ChatState, beside: StatusContext, now: float) -> list[Piece]:
    """What runs, and beside it what is to be said; where nothing runs, that alone."""
    said, running = _said(state, beside, now), _runs(state, beside, now)
    if said is not None:
        others = (replace(each, rank=each.rank or 2, cut=None) for each in running[1:])
        return [*running[:1], *others, said]
    if running:
        return running
    if state.proposal is not None:
        return _proposal(state.proposal)
    if state.subagents:
        return [piece(f"In the background: {subagents_words(state.subagents)}", "muted", cut="right")]
    if state.cache is not None and now >= state.cache.offered_at:
        return _cache(state.cache, now)
    return [] if state.ahead is None else _ahead(state.ahead, state.room.size, now)


def _cache(cache: CacheEnds, now: float) -> list[Piece]:
    """`cache cold: next request 180k new ≈ $0.54; compact first: $0.12 · Alt+C`."""
    size = numbers.short_tokens(cache.tokens)
    costs = "" if cache.dollars is None else f" ≈ {numbers.price(cache.dollars)}"
    cold = now >= cache.at
    state = f"cache cold: next request {size} new" if cold else f"cache ends soon: {size} new then"
    parts = [Piece(((f"{state}{costs}", "text"),))]
    if cache.compacted:
        dollars = cache.compacted_dollars
        after = numbers.short_tokens(cache.compacted) if dollars is None else numbers.price(dollars)
        parts.append(piece(f"; {'compact first' if cold else 'compacted'}: {after}", "text", gap=0))
        parts.append(Piece(((" · ", "muted"), *hint(key_of("compact-first"), "")), 2, gap=0))
    return parts


def _runs(state: ChatState, beside: StatusContext, now: float) -> list[Piece]:
    if state.question is not None:
        return _question(state.question, beside, now)
    if (again := state.retry_at(now)) is not None and not state.cancelling:
        return retry_pieces(again, now)
    if state.proposal is not None and state.proposal.waits and not state.cancelling:
        return _proposal(state.proposal)
    return [*_running(state, now), *_ahead_beside(state)] if state.busy else []


def _said(state: ChatState, beside: StatusContext, now: float) -> Piece | None:
    """The one sentence for the reader: the answer to a key, why a prompt came back, or news."""
    news, waiting = state.news, state.waiting
    if beside.remark:
        return piece(beside.remark, "text", cut="right")
    if waiting.unsent and (beside.writes or waiting.paused):
        return _news(News(waiting.unsent, "warning", now))
    if waiting.awaits:
        return _news(News(waiting.awaits, "info", now))
    fresh = news is not None and now - news.since < NEWS_SECONDS
    if news is None or not (fresh or (news.level == "error" and not state.busy)):
        return None
    return None if news.level == "info" and state.busy else _news(news)


def _news(news: News) -> Piece:
    text = clean_line(news.text)
    match news.level:
        case "error":
            return Piece((("✗ ", "alert"), (text, "alert")), cut="right")
        case "warning":
            return Piece((("! ", "altered"), (text, "text")), cut="right")
        case "info":
            return piece(text, cut="right")


def _question(question: Question, beside: StatusContext, now: float) -> list[Piece]:
    cut: Side | None = "right" if question.kind == "choice" else None
    asks = Piece(((f"? {clean_line(question.sentence)}", "altered"),), cut=cut, least=20)
    first = [asks, piece(f" · {numbers.elapsed(now - question.since)}", "altered", gap=0, rank=3)]
    tab = Piece(hint(key_of("complete"), "to answer", "text", "text"), rank=2)
    return first if beside.question_focused else [*first, tab]


def _proposal(proposal: "ProposalReady") -> list[Piece]:
    """A drafted compaction: what it would do, and that it is the reader's turn."""
    sizes = f"{numbers.tokens(proposal.tokens_before)} → {numbers.tokens(proposal.tokens_after)}"
    edited = "" if proposal.state == "current" else f" · {proposal.state}"
    parts = [Piece((("◆ ", "accent"), (f"proposal {sizes}{edited}", "text"))), _then("waits for you", 2)]
    if proposal.facts:
        lost = f"{proposal.lost} of {proposal.facts} facts lost"
        parts.append(_then(lost, 4, "alert" if proposal.lost else "muted"))
    return [*parts, _review("text")]


def _ahead_beside(state: ChatState) -> list[Piece]:
    """The next compaction, beside what runs: the first to go where there is no room."""
    ahead = state.ahead
    if ahead is None or state.compacting is not None or state.cancelling:
        return []
    drafted = f"draft {numbers.tokens(ahead.drafted)}" if ahead.drafted else "drafting"
    return [piece(f"compaction: {'drafted' if ahead.ready else drafted}", "muted", rank=6)]


def _ahead(ahead: DraftedAhead, size: int, now: float) -> list[Piece]:
    """The next compaction, where nothing else is said.

    What the view has grown by since the draft was made stays behind the cut: it counts on both sides.
    """
    if ahead.ready:
        grown = max(0, size - ahead.tokens_before)
        sizes = (
            f"{numbers.tokens(ahead.tokens_before + grown)} → {numbers.tokens(ahead.tokens_after + grown)}"
        )
        parts = [piece(f"Next compaction drafted · {sizes}", "muted")]
        return [*parts, _review("muted")]
    parts = [Piece(((f"{_spin(now)} ", "accent"), ("Drafting the next compaction", "text")))]
    if ahead.drafted:
        parts.append(piece(f" · {numbers.tokens(ahead.drafted)} tokens", "muted", rank=3, gap=0))
    return [*parts, _since(ahead.since, now)]


def _then(text: str, rank: int, style: str = "text") -> Piece:
    """One more thing in the same sentence."""
    return Piece(((" · ", "muted"), (text, style)), rank, gap=0)


def _review(style: str) -> Piece:
    return Piece(((" · ", "muted"), *hint(key_of("preview"), "review", style, style)), 3, gap=0)


def _spin(now: float) -> str:
    return SPINNER[int(now * TICKS) % len(SPINNER)]


_SERVER = re.compile(r"https?://([^/\s]+)\S*?(?=[:.]?(?:\s|$))")


def retry_pieces(again: Retry, now: float) -> list[Piece]:
    """How long until the request leaves again, and why: of that the server, what it did, and the status."""
    left = f"{max(1, math.ceil(again.until - now))} s"
    why = _SERVER.sub(r"\1", clean_line(again.sentence)).partition(": ")[0].partition(". ")[0].rstrip(".")
    said, bracket, status = why.rpartition(" (")
    if not (bracket and status.removesuffix(")").isdigit()):
        said, status = why, ""
    parts = [
        Piece(((f"{_spin(now)} ", "accent"), ("Trying again in ", "text"), (left, "altered"))),
        *([piece(f" · {again.attempt} of {again.attempts}", "muted", rank=3, gap=0)] * bool(again.attempts)),
        Piece(((said, "text"),), rank=4, cut="right", least=16),
    ]
    return [*parts, piece(f"({status}", "text", rank=5, gap=1)] if status else parts


def _running(state: ChatState, now: float) -> list[Piece]:
    spin: Span = (f"{_spin(now)} ", "accent")
    if state.cancelling:
        return [Piece((spin, ("Cancelling", "text")))]
    if state.compacting is not None:
        return _compacting(state.compacting, spin, now)
    match state.activity:
        case Idle():
            return []
        case Working(since=since, awaits=awaits):
            verb = "Starting tool servers" if awaits else "Working"
            what = ", ".join(map(clean_line, awaits))
        case Stepping(since=since) as step:
            waits = step.phase == "waiting" and step.read is not None
            verb = f"Reading {step.read} %" if waits else step.phase.capitalize()
            what = "again, after compacting" if step.retry else clean_line(step.model)
        case RunningTool(since=since) if state.awaited:
            verb, what = "Working", subagents_words(state.awaited)
        case RunningTool(since=since) as tool:
            verb, what = "Running", f"{clean_line(tool.name)} {clean_line(tool.title)}".strip()
            if len(state.tools) > 1:
                what += f" (+{len(state.tools) - 1})"
        case _:
            assert_never(state.activity)
    elapsed = _since(since, now)
    if not what:
        return [Piece((spin, (verb, "text"), *elapsed.spans))]
    named = Piece(((" · ", "muted"), (what, "text")), gap=0, cut="right", least=20)
    return [Piece((spin, (verb, "text"))), named, elapsed]


def subagents_words(running: "Sequence[SubagentProgress]") -> str:
    """`3 subagents, explore: read src/a.py`: the last of those that do something is named."""
    named = [": ".join(map(clean_line, (each.agent, each.doing))) for each in running if each.doing][-1:]
    count = many(len(running), "subagent") if len(running) > 1 else ""
    return ", ".join(filter(None, (count, *named))) or clean_line(running[0].agent)


def _since(since: float, now: float) -> Piece:
    return piece(f" · {numbers.elapsed(now - since)}", "muted", gap=0)


def _compacting(layer: Compacting, spin: Span, now: float) -> list[Piece]:
    """What a compaction is doing; where its strategy failed, what is done instead and why."""
    words = clean_line(rung_words(layer.rung))
    parts = [
        Piece((spin, ("Compacting", "text"))),
        piece(f" · {layer.reason}", "muted", rank=2, gap=0),
        _since(layer.since, now),
    ]
    if words:
        parts.append(Piece(((" · ", "muted"), (words, "altered")), gap=0))
    if stage := _stage(layer):
        parts.append(piece(stage, "text", rank=3))
    if layer.entries and layer.rung in _SUMMARISE:
        entries = many(layer.entries, "entry", "entries")
        parts.append(piece(f" · {entries} → 1 summary", "muted", rank=4, gap=0))
    if words and layer.detail:
        parts.append(Piece(((clean_line(layer.detail), "muted"),), rank=5, cut="right", least=24))
    return parts


_BY_MODEL = ("strategy", "chunks")
_SUMMARISE = (*_BY_MODEL, "digest")
"""The rungs that write a summary, the first of them by asking the model."""


def _stage(layer: Compacting) -> str:
    match layer.stage:
        case "plan":
            return "planning"
        case "draft" if layer.drafted:
            return f"draft {numbers.tokens(layer.drafted)} tokens"
        case "draft":
            return "waiting for the draft" if layer.rung in _BY_MODEL else ""
        case "verify":
            return "checking the draft"
        case "commit":
            return "writing it down"


@runtime_checkable
class HasStatusLine(Protocol):
    """A screen above the chat that can answer a key."""

    def tell(self, words: str) -> None:
        """Say something in the status row."""


class StatusLine(Lines):
    """Lines whose last one, the lower edge of a heavy frame, can say something for two seconds."""

    message = ""

    def tell(self, words: str) -> None:
        """Say this in place of the keys."""
        self.message = clean_line(words)
        self.update()
        self.set_timer(QUIT_WITHIN, self._say_keys)

    def _say_keys(self) -> None:
        self.message = ""
        self.update()

    def with_message(self, lines: list[list[Span]], width: int) -> list[list[Span]]:
        """These lines, the last of them with the message, if there is one."""
        if not self.message:
            return lines
        return [*lines[:-1], edge(HEAVY, False, ((self.message, "text"),), (), width)]
