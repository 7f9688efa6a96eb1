"""The rows of both panels, and the bar. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.context import numbers
from foldline.context.weight import Category, Share
from foldline.tui.blocks import Block, Column, Key, RowBlock, RuleBlock, Span, Spans, TextBlock, clean_line
from foldline.tui.blocks.cells import Piece, row
from foldline.tui.context_screen.state import ContextState, Item, PromptKind
from foldline.tui.state import Room
from foldline.tui.widgets.meter import GLYPHS, PART_STYLES, Part, bar_spans

USE_GUTTER: Final = 1
ITEM_GUTTER: Final = 5
"""Cursor, letter, rail, whether a fold takes it, a blank."""

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
    "hidden": "hidden, as stubs",
    "notes": "notes of the program",
    "thinking": "thinking, sent back",
    "difference": "estimated too high",
}
PROMPT_NAMES: Final[dict[PromptKind, str]] = {
    "held": "held for the fold",
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
    """The gutter of an item: letter and rail of its fate, and `░` where a fold now would take it."""
    if item is None:
        return ()
    folds = _glyph("folding") if item.folds else (" ", "")
    return ((" ", ""), *item.signs, folds)


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
