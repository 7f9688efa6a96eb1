"""The rows of both panels, the bar, and the words around them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.compaction.automation import INEFFECTIVE
from foldline.context import numbers
from foldline.context.numbers import many
from foldline.context.weight import Category, Share
from foldline.tui.blocks import Block, Column, Key, RowBlock, RuleBlock, Span, Spans, TextBlock, clean_line
from foldline.tui.blocks.cells import Piece, piece, row, wrap_spans
from foldline.tui.context_screen.state import KEYS, ContextState, Item, Planned, PromptKind, server_advice
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import name_of
from foldline.tui.state import Room
from foldline.tui.widgets.meter import GLYPHS, PART_STYLES, Part, bar_spans

USE_GUTTER: Final = 1
ITEM_GUTTER: Final = 5
"""Cursor, letter, sign, whether a compaction takes it, a blank."""

NAMES: Final[dict[Category, str]] = {
    "system": "system prompt",
    "instructions": "instruction files",
    "tools": "tools",
    "summaries": "summaries",
    "pins": "pins",
    "user": "your prompts",
    "assistant": "answers and calls",
    "results": "tool results",
    "images": "pictures",
    "clipped": "clipped results",
    "hidden": "hidden, placeholders",
    "notes": "notes of the program",
    "thinking": "thinking, sent back",
    "difference": "estimated too high",
}
PROMPT_NAMES: Final[dict[PromptKind, str]] = {
    "held": "held for the compaction",
    "queued": "in the queue",
    "written": "being written",
}
_PARTS: Final[dict[Category, Part]] = {
    "system": "system",
    "instructions": "system",
    "tools": "system",
    "summaries": "summaries",
    "pins": "summaries",
}
SCROLLBAR: Final = 1
_COUNT, _TOKENS, _SHARE = 5, 8, 5


@dataclass(frozen=True, slots=True)
class Row:
    """One row of Use."""

    key: Key
    sign: Span
    name: str
    items: str
    tokens: str
    share: str
    category: Category | None = None
    server: str = ""
    style: str = "text"


def use_rows(state: ContextState) -> list[Row]:
    """The next request by category, what waits, what is free."""
    return [*_request_rows(state), _total_row(state), *_waiting_rows(state), *_free_rows(state)]


def _request_rows(state: ContextState) -> Iterator[Row]:
    whole = state.room.window or state.room.size
    for number, share in enumerate(state.usage.shares):
        yield Row(
            (0, number),
            _sign(share),
            _name(share),
            f"{share.items:,}" if share.items else "",
            _signed(share.tokens, share.estimated),
            numbers.percent(round(share.tokens), whole) if share.tokens >= 0 else "",
            share.category,
            share.server,
            "muted" if share.category == "difference" else "text",
        )


def _total_row(state: ContextState) -> Row:
    size, window = state.usage.size, state.room.window
    past = state.room.past_threshold
    return Row(
        (1, 0),
        (" ", ""),
        "next request",
        "",
        numbers.tokens(size.tokens, estimated=size.estimated),
        numbers.percent(size.tokens, window) if window else "",
        style="alert bold" if past else "text bold",
    )


def _waiting_rows(state: ContextState) -> Iterator[Row]:
    window = state.room.window
    for number, share in enumerate(state.prompts):
        name = f"+ {PROMPT_NAMES[share.kind]}"
        part = numbers.percent(share.tokens, window) if window else ""
        yield Row((2, number), (" ", ""), name, str(share.items), f"~{numbers.tokens(share.tokens)}", part)


def _free_rows(state: ContextState) -> Iterator[Row]:
    room = state.room
    if room.window <= 0:
        return
    if state.free < 0:
        over = numbers.tokens(-state.free)
        yield Row((3, 0), ("!", "alert"), "over the window", "", over, "", style="alert")
    else:
        share = numbers.percent(state.free, room.window)
        yield Row((3, 0), _glyph("free"), "free", "", numbers.tokens(state.free), share, style="muted")
    if state.reserve is not None and state.reserve > 0:
        share = numbers.percent(state.reserve, room.window)
        name = "kept for the answer"
        yield Row((4, 0), _glyph("threshold"), name, "", numbers.tokens(state.reserve), share, style="muted")


def _sign(share: Share) -> Span:
    return (" ", "") if share.category == "difference" else _glyph(_PARTS.get(share.category, "verbatim"))


def _glyph(part: Part) -> Span:
    return GLYPHS[part], PART_STYLES[part]


def _name(share: Share) -> str:
    if share.category == "tools":
        return f"tools of {clean_line(share.server)}" if share.server else "tools of Foldline"
    if share.category == "difference" and share.tokens > 0:
        return "estimated too low"
    return NAMES[share.category]


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
    return [(f"{head:>{width - SCROLLBAR}} "[-width:] if width > 0 else "", "muted")]


# --- the largest items --------------------------------------------------------------------------------


def item_blocks(items: Sequence[Item]) -> list[Block]:
    """A row for each, their numbers, kinds and figures below each other."""
    digits = max((len(item.number) for item in items), default=0)
    kinds = max((len(item.kind) for item in items), default=0)
    figures = [numbers.tokens(item.tokens, estimated=item.estimated) for item in items]
    wide = max(map(len, figures), default=0)
    remedies = max((len(item.remedy) for item in items), default=0)
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


def empty_block() -> Block:
    """What stands where nothing has been said yet."""
    words = "Nothing is in the window yet: the first prompt brings system prompt and instruction files."
    return TextBlock((-1, 1), words, "muted", stop=False)


def item_marks(item: Item | None) -> Spans:
    """The gutter of an item: letter and sign of its state, and `░` where a compaction now would take it."""
    if item is None:
        return ()
    taken = _glyph("compacting") if item.taken else (" ", "")
    return ((" ", ""), *item.signs, taken)


# --- the bar ------------------------------------------------------------------------------------------


def bar_row(state: ContextState, width: int) -> list[Span]:
    """`▐▓▓▓▒▒░░░░░███████·····┆···┃···▌ 116.2k of 131k  89%`: the meter, as wide as the screen."""
    room, size = state.room, state.usage.size
    words: list[Span] = [(numbers.tokens(size.tokens, estimated=size.estimated), _size_style(room))]
    if room.window:
        words += [
            (f" of {numbers.short_tokens(room.window, estimated=room.assumed)}  ", "muted"),
            (numbers.percent(size.tokens, room.window), _size_style(room)),
        ]
    numbered = Piece(tuple(words), gap=1)
    cells = max(width - 2 - 2 - 1 - sum(len(text) for text, _ in words), 4)
    return row([Piece((("▐", "muted"), *bar_spans(room, cells), ("▌", "muted"))), numbered], [], width)


def _size_style(room: Room) -> str:
    return "alert bold" if room.past_threshold else "text bold"


# --- words --------------------------------------------------------------------------------------------

_LABEL: Final = 13

_ABOUT: Final[dict[Category, str]] = {
    "system": "Opens every request; prompts/system.md in your config folder replaces it.",
    "instructions": "AGENTS.md and CLAUDE.md go with every request: keep them short.",
    "summaries": "What compactions wrote. The next one takes it in and writes it anew.",
    "user": "What you asked. Compactions take older prompts and quote standing constraints.",
    "results": "What tools gave back: first to be hidden, and what a compaction shortens.",
    "images": "A picture weighs by its size. A compaction puts words in its place.",
    "clipped": "Long results of which head and tail are sent.",
    "hidden": "What is left of hidden results: a line each that names them.",
    "notes": "What the program tells the model: rewinds, moved folders, other tools.",
    "thinking": "This provider wants the reasoning back. A compaction takes the older part.",
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


def compaction_rows(state: ContextState, width: int) -> list[list[Span]]:
    """What a compaction now would give, and when one comes by itself; or why there are no limits."""
    if not state.trouble:
        return [_now_row(state, width), _automatic_row(state, width)]
    lines = wrap_spans([(f"! {clean_line(state.trouble)}", "alert")], max(width - 2, 1))
    return [row([Piece(tuple(line), cut="right")], [], width) for line in (*lines, [])][:2]


def _now_row(state: ContextState, width: int) -> list[Span]:
    """` ░ compact now   116.2k → ~27k · 123 entries into one summary · F3 shows it first `."""
    lead = Piece(((f"{GLYPHS['compacting']} ", "folded"), (f"{'compact now':<{_LABEL}}", "muted")))
    planned = state.compaction
    if planned is None:
        words = "nothing is old enough to be compacted" if state.planned else "one moment"
        return row([lead, piece(words, "muted", gap=0, cut="right")], [], width)
    change = f"{numbers.tokens(planned.before)} → {numbers.about_tokens(planned.after)}"
    little = planned.after > INEFFECTIVE * planned.before
    if little and planned.clipped:  # how much clipping frees is not planned, only made
        shows = f"{name_of(KEYS, 'preview')} shows how much that frees"
        return row([lead, piece(f"{_what(planned)} · {shows}", "muted", gap=0, cut="right")], [], width)
    if little:
        what = f"{_what(planned)}; by its plan that frees next to nothing"
        return row([lead, piece(f"{change} · {what}", "muted", gap=0, cut="right")], [], width)
    shows = f"{name_of(KEYS, 'preview')} shows it first"
    parts = [
        lead,
        piece(change, "text", gap=0),
        piece(f"· {_what(planned)}", "text", gap=1, rank=1),
        piece(f"· {shows}", "muted", gap=1, rank=2),
    ]
    return row(parts, [], width)


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
        case 0:
            return _about_category(chosen)
        case 1 if state.room.assumed:
            return "Nobody says how large this model's window is: it is assumed. context.window sets it."
        case 1:
            return "What the next request sends, as the meter says it. Looking here costs nothing."
        case 2:
            return "Not in the request yet: sent in this order, and weighed before."
        case 3 if state.free < 0:
            return "It does not fit: compact, hide or drop something, or take a larger window."
        case 3:
            return "May be filled before a compaction is due."
        case _:
            return "Kept free for the answer: compaction.reserve_tokens sets it."


def _about_category(chosen: Row) -> str:
    match chosen.category:
        case "tools":
            return server_advice(chosen.server)
        case "pins":
            return f"Compactions keep them word for word. {name_of(KEYS, 'pin')} on one of them unpins it."
        case "assistant":
            return (
                f"What the model said and asked for. {name_of(KEYS, 'drop')} on one takes its results along."
            )
        case None:
            return ""
        case category:
            return _ABOUT[category]
