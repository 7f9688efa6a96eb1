"""The status row and the row of key hints.

The status row shows activity, questions and errors.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, assert_never, runtime_checkable

from foldline.frontend.commands import BY_ID, COMMANDS, QUIT_WITHIN, key_of
from foldline.frontend.keymap import hint_words
from foldline.frontend.state import (
    CacheEnds,
    ChatState,
    Compacting,
    DraftedAhead,
    Idle,
    News,
    Question,
    RetryWait,
    RunningTool,
    Stepping,
    Working,
    rung_words,
)
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.tui.look.cells import RowPiece, Side, Span, piece, row
from foldline.tui.look.lines import HEAVY, LinesWidget, edge, hint, hints_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foldline.protocol.events import ProposalReady, SubagentProgress

_NARROW = 100
"""Width in cells below which the hints are shorter."""
_SHORTER = {BY_ID["preview"].hint: "preview", BY_ID["complete"].hint: "transcript"}
_LAST_TO_GO = (BY_ID["complete"].hint, BY_ID["prompt-older"].hint)
"""The hints that are dropped last.

Their keys lead to the other parts of the screen.
"""


def hints_row(
    state: ChatState,
    width: int,
    reading: Iterable[tuple[str, str]] | None = None,
    *,
    covered: bool = False,
) -> list[Span]:
    """Return the row of key hints.

    ` F2 inspector  Alt+↑↓ prompts  PgUp scroll        Ctrl+P everything `

    Args:
        reading: The transcript's own hints, if the transcript has the focus.
        covered: Whether another screen is in front. If so, only the last hint is shown.
    """
    words = list(hint_words(COMMANDS, state))
    if not words:
        return row((), (), width)
    last = words.pop()
    if covered:
        words = []
    elif reading is not None:
        words = [*reading, (key_of("help-panel"), "all keys")]
    pieces: list[RowPiece] = []
    for at, (keys, word) in enumerate(words):
        rank = len(_LAST_TO_GO) + at + 1
        if word in _LAST_TO_GO:
            rank = _LAST_TO_GO.index(word) + 1
        if width < _NARROW:
            word = _SHORTER.get(word, word)
        pieces.append(RowPiece(hint(keys, word), rank, gap=2))
    return row(pieces, [RowPiece(hint(*last), gap=2)], width)


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICKS = 10
"""Number of spinner steps per second."""
RETRYING = "Trying again in "
DRAFTED_AHEAD = "Next compaction drafted"
DRAFTING_AHEAD = "Drafting the next compaction"
STARTING_SERVERS = "Starting tool servers"
AFTER_COMPACTING = "again, after compacting"
CACHE_EXPIRED = "cache expired: {size} to read again"
WAITS_FOR_USER = "waits for you"
WAITING_FOR_DRAFT = "waiting for the draft"
NEWS_SECONDS = 10.0
"""How long, in seconds, news takes precedence in the status row."""


@dataclass(frozen=True, slots=True)
class StatusContext:
    """Data of the status row in addition to the chat state."""

    new_below: int = 0
    escape: str = ""
    """Description of what Esc does now."""
    remark: str = ""
    """Feedback on the last key press."""
    writes: bool = False
    """Whether the prompt contains text."""
    question_focused: bool = False


def status_row(
    state: ChatState, context: StatusContext, now: float, width: int
) -> list[Span]:
    """Return the status row.

    At the left is a remark, error, question or activity. At the right are the number of unseen lines and the
    action of Esc.
    """
    right: list[RowPiece] = []
    if context.new_below > 0:
        end = f"key:{BY_ID['end'].pressed[0]}"
        spans = (
            (f"▼ {context.new_below} new below", f"accent {end}"),
            (", End", f"muted {end}"),
        )
        right.append(RowPiece(spans, rank=3))
    if context.escape:
        right.append(RowPiece(hints_in(context.escape, "muted"), rank=1))
    return row(_left(state, context, now), right, width)


def next_change(state: ChatState, now: float) -> float | None:
    """Return the time until the row must be redrawn.

    The time is in seconds. Returns None if only events change the row.
    """
    if state.busy or state.drafting_ahead:
        return 1 / TICKS
    marks = [state.cache.at] if state.cache is not None else []
    if state.news is not None and state.news.level != "error":
        marks.append(state.news.since + NEWS_SECONDS)
    return min((mark - now for mark in marks if mark > now), default=None)


def _left(state: ChatState, context: StatusContext, now: float) -> list[RowPiece]:
    """Return the left side of the row.

    It is the activity and a message, or an upcoming or proposed compaction.
    """
    message = _message(state, context, now)
    activity = _activity(state, context, now)
    if message is not None:
        others = (replace(part, rank=part.rank or 2, cut=None) for part in activity[1:])
        return [*activity[:1], *others, message]
    if activity:
        return activity
    if state.proposal is not None:
        return _proposal(state.proposal)
    if state.subagents:
        return [
            piece(
                f"In the background: {subagents_words(state.subagents)}",
                "muted",
                cut="right",
            )
        ]
    if state.cache is not None and now >= state.cache.at:
        return [_cache(state.cache)]
    if state.ahead is not None:
        return _ahead(state.ahead, state.room.size, now)
    return []


def _cache(cache: CacheEnds) -> RowPiece:
    """Return the remark about the expired cache: `cache expired: 180k to read again ≈ $0.54`."""
    words = CACHE_EXPIRED.format(size=numbers.short_tokens(cache.tokens))
    if cache.dollars is not None:
        words += f" ≈ {numbers.price(cache.dollars)}"
    return piece(words)


def _activity(state: ChatState, context: StatusContext, now: float) -> list[RowPiece]:
    """Return the pieces that describe the activity.

    They describe the first of these that applies: question, retry, proposal that a turn waits for, running
    work.
    """
    if state.question is not None:
        return _question(state.question, context, now)
    if state.cancelling:
        return _running(state, now) if state.busy else []
    retry = state.retry_at(now)
    if retry is not None:
        return retry_pieces(retry, now)
    if state.proposal is not None and state.proposal.waits:
        return _proposal(state.proposal)
    if state.busy:
        return [*_running(state, now), *_ahead_beside(state)]
    return []


def _message(state: ChatState, context: StatusContext, now: float) -> RowPiece | None:
    """Return the message to the user, or None if there is none.

    The message is feedback on a key, the reason why a prompt was not sent, or news.
    """
    waiting = state.waiting
    news = state.news
    if context.remark:
        return piece(context.remark, "text", cut="right")
    if waiting.unsent and (context.writes or waiting.paused):
        return _news(News(waiting.unsent, "warning", now))
    if waiting.awaits:
        return _news(News(waiting.awaits, "info", now))
    if news is None or (news.level == "info" and state.busy):
        return None
    is_recent = now - news.since < NEWS_SECONDS
    if is_recent or (news.level == "error" and not state.busy):
        return _news(news)
    return None


def _news(news: News) -> RowPiece:
    text = clean_line(news.text)
    match news.level:
        case "error":
            return RowPiece((("✗ ", "alert"), (text, "alert")), cut="right")
        case "warning":
            return RowPiece((("! ", "altered"), (text, "text")), cut="right")
        case "info":
            return piece(text, cut="right")


def _question(question: Question, context: StatusContext, now: float) -> list[RowPiece]:
    cut: Side | None = "right" if question.kind == "choice" else None
    asks = RowPiece(
        ((f"? {clean_line(question.sentence)}", "altered"),), cut=cut, least=20
    )
    parts = [
        asks,
        piece(
            f" · {numbers.elapsed(now - question.since)}",
            "altered",
            gap=0,
            rank=3,
        ),
    ]
    if not context.question_focused:
        parts.append(
            RowPiece(hint(key_of("complete"), "to answer", "text", "text"), rank=2)
        )
    return parts


def _proposal(proposal: "ProposalReady") -> list[RowPiece]:
    """Return the pieces for a compaction proposal that waits for the user."""
    before = numbers.tokens(proposal.tokens_before)
    after = numbers.tokens(proposal.tokens_after)
    words = f"proposal {before} → {after}"
    if proposal.state != "current":
        words += f" · {proposal.state}"
    parts = [
        RowPiece((("◆ ", "accent"), (words, "text"))),
        _then(WAITS_FOR_USER, 2),
    ]
    if proposal.facts:
        lost = f"{proposal.lost} of {proposal.facts} facts lost"
        parts.append(_then(lost, 4, "alert" if proposal.lost else "muted"))
    return [*parts, _review("text")]


def _ahead_beside(state: ChatState) -> list[RowPiece]:
    """Return the state of the background draft, for display next to the running work.

    These pieces are dropped first if there is no room.
    """
    ahead = state.ahead
    if ahead is None or state.compacting is not None or state.cancelling:
        return []
    words = "drafting"
    if ahead.ready:
        words = "drafted"
    elif ahead.drafted:
        words = f"draft {numbers.tokens(ahead.drafted)}"
    return [piece(f"compaction: {words}", "muted", rank=6)]


def _ahead(ahead: DraftedAhead, size: int, now: float) -> list[RowPiece]:
    """Return the state of the background draft, if the row contains nothing else.

    Tokens added after drafting come after the cut, so they count in both sizes.
    """
    if ahead.ready:
        added = max(0, size - ahead.tokens_before)
        before = numbers.tokens(ahead.tokens_before + added)
        after = numbers.tokens(ahead.tokens_after + added)
        return [
            piece(f"{DRAFTED_AHEAD} · {before} → {after}", "muted"),
            _review("muted"),
        ]
    parts = [RowPiece(((f"{_spin(now)} ", "accent"), (DRAFTING_AHEAD, "text")))]
    if ahead.drafted:
        parts.append(
            piece(
                f" · {numbers.tokens(ahead.drafted)} tokens",
                "muted",
                rank=3,
                gap=0,
            )
        )
    return [*parts, _since(ahead.since, now)]


def _then(text: str, rank: int, style: str = "text") -> RowPiece:
    """Return a piece that continues the sentence before it."""
    return RowPiece(((" · ", "muted"), (text, style)), rank, gap=0)


def _review(style: str) -> RowPiece:
    return RowPiece(
        ((" · ", "muted"), *hint(key_of("preview"), "review", style, style)), 3, gap=0
    )


def _spin(now: float) -> str:
    return SPINNER[int(now * TICKS) % len(SPINNER)]


_SERVER = re.compile(r"https?://([^/\s]+)\S*?(?=[:.]?(?:\s|$))")


def retry_pieces(retry: RetryWait, now: float) -> list[RowPiece]:
    """Return the pieces for a retry.

    They show the seconds to wait, and the error with its server and status code.
    """
    seconds = max(1, math.ceil(retry.until - now))
    sentence = _SERVER.sub(r"\1", clean_line(retry.sentence))
    reason = sentence.partition(": ")[0].partition(". ")[0].rstrip(".")
    before_status, bracket, status = reason.rpartition(" (")
    if bracket and status.removesuffix(")").isdigit():
        reason = before_status
    else:
        status = ""
    spin: Span = (f"{_spin(now)} ", "accent")
    parts = [RowPiece((spin, (RETRYING, "text"), (f"{seconds} s", "altered")))]
    if retry.attempts:
        parts.append(
            piece(
                f" · {retry.attempt} of {retry.attempts}",
                "muted",
                rank=3,
                gap=0,
            )
        )
    parts.append(RowPiece(((reason, "text"),), rank=4, cut="right", least=16))
    if status:
        parts.append(piece(f"({status}", "text", rank=5, gap=1))
    return parts


def _running(state: ChatState, now: float) -> list[RowPiece]:
    spin: Span = (f"{_spin(now)} ", "accent")
    if state.cancelling:
        return [RowPiece((spin, ("Cancelling", "text")))]
    if state.compacting is not None:
        return _compacting(state.compacting, spin, now)
    match state.activity:
        case Idle():
            return []
        case Working(since=since, awaits=awaits):
            verb = STARTING_SERVERS if awaits else "Working"
            subject = ", ".join(map(clean_line, awaits))
        case Stepping(since=since) as step:
            is_reading = step.phase == "waiting" and step.read is not None
            verb = f"Reading {step.read} %" if is_reading else step.phase.capitalize()
            subject = AFTER_COMPACTING if step.retry else clean_line(step.model)
        case RunningTool(since=since) if state.awaited:
            verb = "Working"
            subject = subagents_words(state.awaited)
        case RunningTool(since=since) as tool:
            verb = "Running"
            subject = f"{clean_line(tool.name)} {clean_line(tool.title)}".strip()
            if len(state.tools) > 1:
                subject += f" (+{len(state.tools) - 1})"
        case _:
            assert_never(state.activity)
    elapsed = _since(since, now)
    if not subject:
        return [RowPiece((spin, (verb, "text"), *elapsed.spans))]
    subject_piece = RowPiece(
        ((" · ", "muted"), (subject, "text")),
        gap=0,
        cut="right",
        least=20,
    )
    return [RowPiece((spin, (verb, "text"))), subject_piece, elapsed]


def subagents_words(running: "Sequence[SubagentProgress]") -> str:
    """Describe the running subagents: `3 subagents, explore: read src/a.py`.

    The action is that of the last subagent in the list that has one.
    """
    parts = [many(len(running), "subagent")] if len(running) > 1 else []
    active = [subagent for subagent in running if subagent.doing]
    if active:
        last = active[-1]
        parts.append(f"{clean_line(last.agent)}: {clean_line(last.doing)}")
    return ", ".join(parts) or clean_line(running[0].agent)


def _since(since: float, now: float) -> RowPiece:
    return piece(f" · {numbers.elapsed(now - since)}", "muted", gap=0)


def _compacting(layer: Compacting, spin: Span, now: float) -> list[RowPiece]:
    """Return the pieces for a running compaction.

    They name its stage, or the fallback and the reason for it.
    """
    words = clean_line(rung_words(layer.rung))
    parts = [
        RowPiece((spin, ("Compacting", "text"))),
        piece(f" · {layer.reason}", "muted", rank=2, gap=0),
        _since(layer.since, now),
    ]
    if words:
        parts.append(RowPiece(((" · ", "muted"), (words, "altered")), gap=0))
    if stage := _stage(layer):
        parts.append(piece(stage, "text", rank=3))
    if layer.entries and layer.rung in _SUMMARISE:
        entries = many(layer.entries, "entry", "entries")
        parts.append(piece(f" · {entries} → 1 summary", "muted", rank=4, gap=0))
    if words and layer.detail:
        parts.append(
            RowPiece(
                ((clean_line(layer.detail), "muted"),),
                rank=5,
                cut="right",
                least=24,
            )
        )
    return parts


_BY_MODEL = ("strategy", "chunks")
_SUMMARISE = (*_BY_MODEL, "digest")
"""The rungs of the failure ladder that write a summary. Those in `_BY_MODEL` call a model."""


def _stage(layer: Compacting) -> str:
    match layer.stage:
        case "plan":
            return "planning"
        case "draft" if layer.drafted:
            return f"draft {numbers.tokens(layer.drafted)} tokens"
        case "draft":
            return WAITING_FOR_DRAFT if layer.rung in _BY_MODEL else ""
        case "verify":
            return "checking the draft"
        case "commit":
            return "saving it"


@runtime_checkable
class HasStatusLine(Protocol):
    """A screen above the chat with a status line."""

    def tell(self, words: str) -> None:
        """Show a message in the screen's status line."""


class StatusLine(LinesWidget):
    """A framed widget that can show a message in its bottom border.

    The message stays for `QUIT_WITHIN` seconds.
    """

    message = ""

    def tell(self, words: str) -> None:
        """Show a message in place of the key hints."""
        self.message = clean_line(words)
        self.update()
        self.set_timer(QUIT_WITHIN, self._show_keys)

    def _show_keys(self) -> None:
        self.message = ""
        self.update()

    def with_message(self, lines: list[list[Span]], width: int) -> list[list[Span]]:
        """Return the lines with the message in the last one.

        Without a message, the lines are returned unchanged.
        """
        if not self.message:
            return lines
        message = ((self.message, "text"),)
        return [*lines[:-1], edge(HEAVY, False, message, (), width)]
