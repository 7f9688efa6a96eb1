"""The words of the Context screen: header, what a fold would give, the status row. Pure."""

from typing import Final

from foldline.compaction.automation import INEFFECTIVE
from foldline.context import numbers
from foldline.context.numbers import many
from foldline.context.weight import Category
from foldline.tui.blocks import Span, clean_line
from foldline.tui.blocks.cells import Piece, piece, row, wrap_spans
from foldline.tui.context_screen.largest import server_advice
from foldline.tui.context_screen.opening import KEYS
from foldline.tui.context_screen.rows import Row
from foldline.tui.context_screen.state import ContextState, FoldNow
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import name_of
from foldline.tui.widgets.meter import GLYPHS

_LABEL: Final = 11

_ABOUT: Final[dict[Category, str]] = {
    "system": "Opens every request; prompts/system.md in your config folder replaces it.",
    "instructions": "AGENTS.md and CLAUDE.md go with every request: keep them short.",
    "summaries": "What folds wrote. The next fold takes it in and writes it anew.",
    "user": "What you asked. Folds take older prompts and quote standing constraints.",
    "results": "What tools gave back: first to be hidden, and what a fold shortens.",
    "images": "A picture weighs by its size. A fold puts words in its place.",
    "clipped": "Long results of which head and tail are sent.",
    "hidden": "What is left of hidden results: a line each that names them.",
    "notes": "What the program tells the model: rewinds, moved folders, other tools.",
    "thinking": "This provider wants the reasoning back. A fold takes the older part.",
    "difference": "Parts are estimates, the whole was reported: this lies between them.",
}


def header_row(title: str, state: ContextState, width: int) -> list[Span]:
    """` shop-api ▸ Idempotent orders ▸ Context          running bash · kimi-k2 · F1 help `."""
    name = ((clean_line(title), "bold"), (" ▸ ", "muted"), ("Context", "text bold"))
    where = Piece(name, cut="left", least=width // 3)
    right = []
    if state.doing:
        right.append(piece(f"{clean_line(state.doing)} ·", "text", rank=2))
    right.append(piece(clean_line(state.model), "muted", rank=1, gap=1))
    right.append(Piece(((" · ", "muted"), (key_of("help"), "accent"), (" help", "muted")), rank=3, gap=0))
    return row([where], right, width)


def fold_rows(state: ContextState, width: int) -> list[list[Span]]:
    """Two rows: what a fold now would give, and when one comes by itself; or why there are no limits."""
    if not state.trouble:
        return [_now_row(state, width), _automatic_row(state, width)]
    lines = wrap_spans([(f"! {clean_line(state.trouble)}", "alert")], max(width - 2, 1))
    return [row([Piece(tuple(line), cut="right")], [], width) for line in (*lines, [])][:2]


def _now_row(state: ContextState, width: int) -> list[Span]:
    """` ░ fold now   116.2k → ~27k · 123 entries into one summary · F3 shows it first `."""
    lead = Piece(((f"{GLYPHS['folding']} ", "folded"), (f"{'fold now':<{_LABEL}}", "muted")))
    fold = state.fold
    if fold is None:
        words = "nothing is old enough to be folded" if state.planned else "one moment"
        return row([lead, piece(words, "muted", gap=0, cut="right")], [], width)
    change = f"{numbers.tokens(fold.before)} → {numbers.about_tokens(fold.after)}"
    little = fold.after > INEFFECTIVE * fold.before
    if little and fold.clips:  # how much clipping frees is not planned, only made
        shows = f"{name_of(KEYS, 'preview')} shows how much that frees"
        return row([lead, piece(f"{_what(fold)} · {shows}", "muted", gap=0, cut="right")], [], width)
    if little:
        what = f"{_what(fold)}; by its plan that frees next to nothing"
        return row([lead, piece(f"{change} · {what}", "muted", gap=0, cut="right")], [], width)
    shows = f"{name_of(KEYS, 'preview')} shows it first"
    parts = [
        lead,
        piece(change, "text", gap=0),
        piece(f"· {_what(fold)}", "text", gap=1, rank=1),
        piece(f"· {shows}", "muted", gap=1, rank=2),
    ]
    return row(parts, [], width)


def _what(fold: FoldNow) -> str:
    """`123 entries into one summary, 2 results clipped`."""
    parts = []
    if fold.entries:
        parts.append(f"{many(fold.entries, 'entry', 'entries')} into one summary")
    if fold.clips:
        parts.append(f"{many(fold.clips, 'large result')} clipped")
    return ", ".join(parts) or "what is old"


def _automatic_row(state: ContextState, width: int) -> list[Span]:
    """` ┃ by itself    in about 12.3k, at 114.7k · from 86.0k on where a turn ends `."""
    room = state.room
    lead = Piece(((f"{GLYPHS['threshold']} ", "alert"), (f"{'by itself':<{_LABEL}}", "muted")))
    if room.threshold is None:
        return row([], [], width)
    if state.stopped:
        left = [lead, piece(f"not now: {clean_line(state.stopped)}", "altered", gap=0, cut="right")]
        return row(left, [], width)
    at = numbers.tokens(room.threshold)
    asks = "you are asked " if state.mode == "ask" else ""
    until = room.threshold - room.size - state.waiting
    if until > 0:
        words = f"{asks}in about {numbers.tokens(until)}, at {at}"
    else:
        words = f"{asks}before the next request: {numbers.tokens(-until)} past {at}"
    parts = [lead, piece(words, "text", gap=0)]
    if room.soft is not None:
        mark = f"· {GLYPHS['soft']} from {numbers.tokens(room.soft)} on where a turn ends"
        parts.append(piece(mark, "muted", gap=1, rank=1))
    return row(parts, [], width)


def about_row(state: ContextState, chosen: Row | None) -> str:
    """What a row of Use is, and what can be done about it."""
    if chosen is None:
        return ""
    match chosen.key[0]:
        case 0 if chosen.category == "tools":
            return server_advice(chosen.server)
        case 0 if chosen.category == "pins":
            return f"What every fold keeps word for word. {name_of(KEYS, 'pin')} on one of them unpins it."
        case 0 if chosen.category == "assistant":
            drop = name_of(KEYS, "drop")
            return f"What the model said and asked for. {drop} on one takes its results along."
        case 0 if chosen.category is not None:
            return _ABOUT[chosen.category]
        case 1 if state.room.assumed:
            return "Nobody says how large this model's window is: it is assumed. context.window sets it."
        case 1:
            return "What the next request sends, as the meter says it. Looking here costs nothing."
        case 2:
            return "Not in the request yet: sent in this order, and weighed before."
        case 3 if state.free < 0:
            return "It does not fit: fold, hide or drop something, or take a larger window."
        case 3:
            return "May be filled before a fold is due."
        case _:
            return "Kept free for the answer: compaction.reserve_tokens sets it."
