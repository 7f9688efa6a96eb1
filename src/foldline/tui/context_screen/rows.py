"""The rows of both panels, the bar, and the words around them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from foldline.compaction.automation import INEFFECTIVE
from foldline.context import numbers
from foldline.context.numbers import many
from foldline.context.weight import Category, Share
from foldline.tui.blocks import Block, Column, Key, RowBlock, RuleBlock, Span, Spans, TextBlock, clean_line
from foldline.tui.blocks.cells import Piece, piece, row, width_of, wrap_spans
from foldline.tui.context_screen.state import KEYS, ContextState, Item, Planned, PromptKind, server_advice
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import name_of
from foldline.tui.state import Room
from foldline.tui.widgets.meter import GLYPHS, PART_STYLES, Part, bar_spans

ITEM_GUTTER: Final = 5
"""Cursor, letter, sign, whether a compaction takes it, a blank."""


class Words(NamedTuple):
    """How a category is called, how the bar draws it, and what can be done about it."""

    name: str
    part: Part
    about: str


_CATEGORIES: Final[dict[Category, Words]] = {
    "system": Words(
        "system prompt",
        "system",
        "Opens every request; prompts/system.md in your config folder replaces it.",
    ),
    "instructions": Words(
        "instruction files",
        "system",
        "AGENTS.md and CLAUDE.md go with every request: keep them short.",
    ),
    "summaries": Words(
        "summaries",
        "summaries",
        "What compactions wrote. The next one takes it in and writes it anew.",
    ),
    "pins": Words(
        "pins", "summaries", "Compactions keep them word for word. {pin} on one of them unpins it."
    ),
    "user": Words(
        "your prompts",
        "verbatim",
        "What you asked. Compactions take older prompts and quote standing constraints.",
    ),
    "assistant": Words(
        "answers and calls",
        "verbatim",
        "What the model said and asked for. {drop} on one takes its results along.",
    ),
    "results": Words(
        "tool results",
        "verbatim",
        "What tools gave back: first to be hidden, and what a compaction shortens.",
    ),
    "images": Words(
        "pictures", "verbatim", "A picture weighs by its size. A compaction puts words in its place."
    ),
    "clipped": Words("clipped results", "verbatim", "Long results of which head and tail are sent."),
    "hidden": Words(
        "hidden, placeholders", "verbatim", "What is left of hidden results: a line each that names them."
    ),
    "notes": Words(
        "notes of the program",
        "verbatim",
        "What the program tells the model: rewinds, moved folders, other tools.",
    ),
    "thinking": Words(
        "thinking, sent back",
        "verbatim",
        "This provider wants the reasoning back. A compaction takes the older part.",
    ),
    "difference": Words(
        "estimated too high",
        "verbatim",
        "Parts are estimates, the whole was reported: this lies between them.",
    ),
}
_PROMPTS: Final[dict[PromptKind, str]] = {
    "held": "+ held for the compaction",
    "queued": "+ in the queue",
    "written": "+ being written",
}
_WAITING: Final = "Not in the request yet: sent in this order, and weighed before."
_REQUEST: Final = "What the next request sends, as the meter says it. Looking here costs nothing."
_ASSUMED: Final = "Nobody says how large this model's window is: it is assumed. context.window sets it."
_OVER: Final = "It does not fit: compact, hide or drop something, or take a larger window."
_FREE: Final = "May be filled before a compaction is due."
_KEPT: Final = "Kept free for the answer: compaction.reserve_tokens sets it."
_SCROLLBAR: Final = 1
_COUNT, _TOKENS, _SHARE = 5, 8, 5


@dataclass(frozen=True, slots=True)
class Row:
    """One row of Use."""

    key: Key
    name: str
    items: str
    tokens: str
    share: str
    about: str
    """What it is, and what can be done about it, as a sentence."""
    sign: Span = (" ", "")
    style: str = "text"
    category: Category | None = None
    server: str = ""


def use_rows(state: ContextState) -> list[Row]:
    """The next request by category, what waits, what is free."""
    room, size = state.room, state.usage.size

    def made(key: Key, name: str, tokens: float, shown: str, about: str, items: int = 0, **more: Any) -> Row:
        whole = room.window or (room.size if key[0] == 0 else 0)
        share = numbers.percent(round(tokens), whole) if whole > 0 and tokens >= 0 else ""
        return Row(key, name, f"{items:,}" if items else "", shown, share, about, **more)

    rows = []
    for at, part in enumerate(state.usage.shares):
        words = _words_of(part)
        is_part = part.category != "difference"
        look: dict[str, Any] = {"sign": _glyph(words.part)} if is_part else {"style": "muted"}
        of = {"category": part.category, "server": part.server}
        shown = _signed(part.tokens, part.estimated)
        rows.append(made((0, at), words.name, part.tokens, shown, words.about, part.items, **look, **of))
    shown, about = numbers.tokens(size.tokens, estimated=size.estimated), _REQUEST
    if room.assumed:
        about = _ASSUMED
    rows.append(made((1, 0), "next request", size.tokens, shown, about, style=_size_style(room)))
    for at, waits in enumerate(state.prompts):
        shown = f"~{numbers.tokens(waits.tokens)}"
        rows.append(made((2, at), _PROMPTS[waits.kind], waits.tokens, shown, _WAITING, waits.items))
    if room.window <= 0:
        return rows
    free, kept = state.free, state.reserve or 0
    if free < 0:
        look = {"sign": ("!", "alert"), "style": "alert"}
        rows.append(made((3, 0), "over the window", free, numbers.tokens(-free), _OVER, **look))
    else:
        look = {"sign": _glyph("free"), "style": "muted"}
        rows.append(made((3, 0), "free", free, numbers.tokens(free), _FREE, **look))
    if kept:
        look = {"sign": _glyph("threshold"), "style": "muted"}
        rows.append(made((4, 0), "kept for the answer", kept, numbers.tokens(kept), _KEPT, **look))
    return rows


def _words_of(share: Share) -> Words:
    server = clean_line(share.server)
    if share.category == "tools":
        name = f"tools of {server or 'Foldline'}"
        return Words(name, "system", server_advice(share.server))
    words = _CATEGORIES[share.category]
    if share.category == "difference" and share.tokens > 0:
        words = words._replace(name="estimated too low")
    about = words.about.format(pin=name_of(KEYS, "pin"), drop=name_of(KEYS, "drop"))
    return words._replace(about=about)


def _glyph(part: Part) -> Span:
    return GLYPHS[part], PART_STYLES[part]


def _signed(tokens: float, estimated: bool) -> str:
    count = round(tokens)
    return f"−{numbers.tokens(-count)}" if count < 0 else numbers.tokens(count, estimated=estimated)


def use_blocks(rows: Sequence[Row]) -> list[Block]:
    """The rows as blocks, the total below a rule."""
    blocks: list[Block] = []
    for each in rows:
        if each.key == (1, 0):
            blocks.append(RuleBlock((-1, 0), "", "muted", stop=False, wide=False))
        columns = (
            Column(each.items, _COUNT, "muted", space=1, drop="first"),
            Column(each.tokens, _TOKENS, each.style, space=1),
            Column(each.share, _SHARE, "muted", space=1, drop="last"),
        )
        lead = (each.sign, (" ", ""))
        blocks.append(RowBlock(each.key, lead, ((each.name, each.style),), columns, roomy=16, least=12))
    return blocks


def use_heading(width: int) -> list[Span]:
    """The names of the columns."""
    head = f"{'items':>{_COUNT}} {'tokens':>{_TOKENS}} {'share':>{_SHARE}}"
    return [(f"{head:>{width - _SCROLLBAR}} "[-width:] if width > 0 else "", "muted")]


# --- the largest items --------------------------------------------------------------------------------


def item_blocks(items: Sequence[Item]) -> list[Block]:
    """A row for each, their numbers, kinds and figures below each other."""
    if not items:
        words = "Nothing is in the window yet: the first prompt brings system prompt and instruction files."
        return [TextBlock((-1, 1), words, "muted", stop=False)]
    figures = [numbers.tokens(item.tokens, estimated=item.estimated) for item in items]
    digits, kinds = max(len(item.number) for item in items), max(len(item.kind) for item in items)
    remedies = max(len(item.remedy) for item in items)
    wide = max(map(len, figures))
    return [
        RowBlock(
            item.key,
            ((f"{item.number:>{digits}} ", "muted"), (f"{item.kind:<{kinds}} ", "muted")),
            ((item.words, "text"),),
            (
                Column(figure, wide, "text"),
                Column(item.remedy, remedies, "muted", align="left", drop="first"),
            ),
            cut="left" if item.is_path else "right",
            roomy=18,
        )
        for item, figure in zip(items, figures, strict=True)
    ]


def item_marks(item: Item | None) -> Spans:
    """The gutter of an item: letter and sign of its state, and `░` where a compaction now would take it."""
    if item is None:
        return ()
    return ((" ", ""), *item.signs, _glyph("compacting") if item.taken else (" ", ""))


# --- above the panels ---------------------------------------------------------------------------------

_LABEL: Final = 13


def top_rows(title: str, state: ContextState, width: int) -> list[list[Span]]:
    """Header, bar, and two rows on compactions: what one now would give, and when one comes by itself; or why
    there are no limits."""
    if state.trouble:
        lines = wrap_spans([(f"! {clean_line(state.trouble)}", "alert")], max(width - 2, 1))
        below = [row([Piece(tuple(line), cut="right")], [], width) for line in (*lines, [])][:2]
    else:
        below = [_now_row(state, width), _automatic_row(state, width)]
    return [_header_row(title, state, width), _bar_row(state, width), *below]


def _header_row(title: str, state: ContextState, width: int) -> list[Span]:
    """` shop-api ▸ Idempotent orders ▸ Context          running bash · kimi-k2 · F1 help `."""
    name = ((clean_line(title), "bold"), (" ▸ ", "muted"), ("Context", "text bold"))
    right = [piece(f"{clean_line(state.doing)} ·", "text", rank=2)] if state.doing else []
    right.append(piece(clean_line(state.model), "muted", rank=1, gap=1))
    right.append(Piece(((" · ", "muted"), (key_of("help"), "accent"), (" help", "muted")), rank=3, gap=0))
    return row([Piece(name, cut="left", least=width // 3)], right, width)


def _bar_row(state: ContextState, width: int) -> list[Span]:
    """`▐▓▓▓▒▒░░░░░███████·····┆···┃···▌ 116.2k of 131k  89%`: the meter, as wide as the screen."""
    room, size = state.room, state.usage.size
    words: list[Span] = [(numbers.tokens(size.tokens, estimated=size.estimated), _size_style(room))]
    if room.window:
        words += [
            (f" of {numbers.short_tokens(room.window, estimated=room.assumed)}  ", "muted"),
            (numbers.percent(size.tokens, room.window), _size_style(room)),
        ]
    bar = bar_spans(room, max(width - 5 - width_of(words), 4))
    return row([Piece((("▐", "muted"), *bar, ("▌", "muted"))), Piece(tuple(words), gap=1)], [], width)


def _size_style(room: Room) -> str:
    return "alert bold" if room.past_threshold else "text bold"


def _labelled(part: Part, style: str, label: str, width: int, *parts: Piece) -> list[Span]:
    lead = Piece(((f"{GLYPHS[part]} ", style), (f"{label:<{_LABEL}}", "muted")))
    return row([lead, *parts], [], width)


def _now_row(state: ContextState, width: int) -> list[Span]:
    """` ░ compact now   116.2k → ~27k · 123 entries into one summary · F3 shows it first `."""
    planned, shows = state.compaction, f"{name_of(KEYS, 'preview')} shows"
    if planned is None:
        words = "nothing is old enough to be compacted" if state.planned else "one moment"
    elif planned.after <= INEFFECTIVE * planned.before:
        parts = [
            piece(_change(planned), "text", gap=0),
            piece(f"· {_what(planned)}", "text", gap=1, rank=1),
            piece(f"· {shows} it first", "muted", gap=1, rank=2),
        ]
        return _labelled("compacting", "folded", "compact now", width, *parts)
    elif planned.clipped:  # how much clipping frees is not planned, only made
        words = f"{_what(planned)} · {shows} how much that frees"
    else:
        words = f"{_change(planned)} · {_what(planned)}; by its plan that frees next to nothing"
    said = piece(words, "muted", gap=0, cut="right")
    return _labelled("compacting", "folded", "compact now", width, said)


def _change(planned: Planned) -> str:
    return f"{numbers.tokens(planned.before)} → {numbers.about_tokens(planned.after)}"


def _what(planned: Planned) -> str:
    """`123 entries into one summary, 2 results clipped`."""
    parts = []
    if planned.entries:
        parts.append(f"{many(planned.entries, 'entry', 'entries')} into one summary")
    if planned.clipped:
        parts.append(f"{many(len(planned.clipped), 'large result')} clipped")
    return ", ".join(parts) or "what is old"


def _automatic_row(state: ContextState, width: int) -> list[Span]:
    """` ┃ by itself    in about 12.3k, at 114.7k · from 86.0k on where a turn ends `."""
    room = state.room
    if room.threshold is None:
        return row([], [], width)
    until, at = room.threshold - room.size - state.waiting, numbers.tokens(room.threshold)
    asks = "you are asked " if state.mode == "ask" else ""
    if state.stopped:
        parts = [piece(f"not now: {clean_line(state.stopped)}", "altered", gap=0, cut="right")]
    elif until > 0:
        parts = [piece(f"{asks}in about {numbers.tokens(until)}, at {at}", gap=0)]
    else:
        parts = [piece(f"{asks}before the next request: {numbers.tokens(-until)} past {at}", gap=0)]
    if room.soft is not None and not state.stopped:
        mark = f"· {GLYPHS['soft']} from {numbers.tokens(room.soft)} on where a turn ends"
        parts.append(piece(mark, "muted", gap=1, rank=1))
    return _labelled("threshold", "alert", "by itself", width, *parts)
