"""The status row: what runs, what asks, what went wrong; and what Esc would do. One row, always there."""

from dataclasses import dataclass
from typing import assert_never

from foldline.tui import numbers
from foldline.tui.blocks.cells import Span
from foldline.tui.blocks.clean import clean_line
from foldline.tui.state import (
    ChatState,
    Compacting,
    Idle,
    News,
    Question,
    RunningTool,
    Stepping,
    Working,
)
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import Piece, piece, row

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICKS = 10
"""Spinner steps a second."""
NEWS_SECONDS = 10.0
"""How long news stand in the row when something else could."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What the screen adds to the state: the reader's side of things."""

    new_below: int = 0
    escape: str = ""
    """What Esc would do, in words."""
    remark: str = ""
    """An answer to the key just pressed; goes before everything."""
    question_focused: bool = False


def status_row(state: ChatState, beside: Beside, now: float, width: int) -> list[Span]:
    """One thing at the left (remark, error, question, running, notice), the reader's side at the right."""
    right: list[Piece] = []
    if beside.new_below > 0:
        right.append(Piece(((f"▼ {beside.new_below} new below", "accent"), (", End", "muted")), rank=3))
    if beside.escape:
        right.append(piece(beside.escape, "muted", rank=1))
    return row(_left(state, beside, now), right, width)


def next_change(state: ChatState, now: float) -> float | None:
    """Seconds until the row looks different by time alone; None where time changes nothing."""
    if state.busy:
        return 1 / TICKS
    if state.news is not None and state.news.level != "error":
        left = state.news.since + NEWS_SECONDS - now
        return left if left > 0 else None
    return None


def _left(state: ChatState, beside: Beside, now: float) -> list[Piece]:
    news, question = state.news, state.question
    fresh = news is not None and now - news.since < NEWS_SECONDS
    if beside.remark:
        return [piece(beside.remark, "text", cut="right")]
    if news is not None and news.level == "error" and (fresh or not state.busy):
        return [_news(news)]
    if question is not None:
        return _question(question, beside, now)
    if news is not None and news.level == "warning" and fresh:
        return [_news(news)]  # such as a request that is tried again: what runs can wait to be shown
    if state.busy:
        return _running(state, now)
    return [_news(news)] if news is not None and fresh else []


def _news(news: News) -> Piece:
    text = clean_line(news.text)
    match news.level:
        case "error":
            return Piece((("✗ ", "alert"), (text, "alert")), cut="right")
        case "warning":
            return Piece((("! ", "altered"), (text, "text")), cut="right")
        case "info":
            return piece(text, "text", cut="right")


def _question(question: Question, beside: Beside, now: float) -> list[Piece]:
    keys = "y once · a always · n no" if beside.question_focused else "Tab to answer"
    asks = f"? {clean_line(question.name)} asks · {numbers.elapsed(now - question.since)}"
    return [piece(asks, "altered"), piece(keys, "text", rank=2)]


def _running(state: ChatState, now: float) -> list[Piece]:
    spin = SPINNER[int(now * TICKS) % len(SPINNER)]
    if state.cancelling:
        return [Piece(((f"{spin} ", "accent"), ("Cancelling", "text")))]
    if state.compacting is not None:
        return _compacting(state.compacting, spin, now)
    verb, what, since = "", "", now
    match state.activity:
        case Idle():
            return []
        case Working():
            verb, since = "Working", state.activity.since
        case Stepping():
            step = state.activity
            verb, since = (
                {"waiting": "Waiting", "thinking": "Thinking", "writing": "Writing"}[step.phase],
                step.since,
            )
            what = "again, after the fold" if step.retry else clean_line(step.model)
        case RunningTool():
            tool = state.activity
            verb, what, since = (
                "Running",
                f"{clean_line(tool.name)} {clean_line(tool.title)}".strip(),
                tool.since,
            )
            if len(state.tools) > 1:
                what += f" (+{len(state.tools) - 1})"
        case _:
            assert_never(state.activity)
    head: list[Span] = [(f"{spin} ", "accent"), (verb, "text")]
    if not what:
        return [Piece((*head, (f" · {numbers.elapsed(now - since)}", "muted")))]
    return [
        Piece(tuple(head)),
        Piece(((" · ", "muted"), (what, "text")), gap=0, cut="right", least=20),
        piece(f" · {numbers.elapsed(now - since)}", "muted", gap=0),
    ]


def _compacting(layer: Compacting, spin: str, now: float) -> list[Piece]:
    head = Piece(
        (
            (f"{spin} ", "accent"),
            ("Compacting", "text"),
            (f" · {layer.reason} · {numbers.elapsed(now - layer.since)}", "muted"),
        )
    )
    match layer.stage:
        case "plan":
            doing = "planning"
        case "draft":
            doing = (
                f"draft {numbers.tokens(layer.drafted)} tokens" if layer.drafted else "waiting for the draft"
            )
        case "verify":
            doing = "checking the draft"
        case "commit":
            doing = "writing it down"
    parts = [head, piece(doing, "text", rank=2)]
    if layer.entries:
        plural = "entry" if layer.entries == 1 else "entries"
        parts.append(piece(f" · {layer.entries} {plural} → 1 summary", "muted", rank=3, gap=0))
    return parts


class Status(Lines):
    """The row above the hints. It asks for the time only while something runs."""

    def __init__(self) -> None:
        super().__init__(id="status")
        self._state = ChatState()
        self._beside = Beside()
        self._now = 0.0

    def show(self, state: ChatState, beside: Beside, now: float) -> None:
        self._state, self._beside, self._now = state, beside, now
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [status_row(self._state, self._beside, self._now, width)]
