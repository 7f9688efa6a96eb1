"""The lines of the setup screen: where one is, the list or field of the step, what is known. Pure."""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.llm.listing import ListedModel
from foldline.tui.blocks.cells import Piece, Span, crop, cut_left, cut_right, piece, row, wrap_spans
from foldline.tui.prompting.completion import window_start
from foldline.tui.setup import words
from foldline.tui.setup.keys import hints
from foldline.tui.setup.state import OTHER, Row, SetupState, Source
from foldline.tui.widgets.lines import HEAVY, LEAST, edge, sides

Lines = list[list[Span]]

HEAD: Final = 3
"""Lines above the step's own: edge, steps, rule."""
FIELD_AT: Final = {"address": HEAD + 3, "key": HEAD + 3, "model": HEAD}
"""The line on which a step's field stands, where there is room for what explains it."""
FIELD_LEFT: Final = 4
COUNT_CELLS: Final = 16
"""Right of the field of a key: how long it is."""
_COLUMNS: Final = {"window": 8, "answer": 8, "$/M in": 9, "cached": 9, "$/M out": 9, "pictures": 10}
"""Cells of each: the window and the longest answer in tokens, prices, whether it looks at pictures."""
_ALL_FROM: Final = 92
"""Columns from which all of them are shown."""
_PRICES_FROM: Final = 64
"""Columns from which prices are shown."""


def too_small_for(width: int, height: int) -> bool:
    """Whether one line is all that is shown."""
    return width < LEAST[0] or height < LEAST[1]


def field_line(state: SetupState, height: int) -> int:
    """The line of the step's field, in a box of so many lines."""
    return min(FIELD_AT[state.step], HEAD if height < 16 else height)


def screen_lines(state: SetupState, width: int, height: int, now: float = 0.0) -> Lines:
    """Exactly `height` lines of `width` cells."""
    if too_small_for(width, height):
        too_small = crop([(f"Too small: needs {LEAST[0]}x{LEAST[1]}", "text")], width)
        return [too_small, *([[]] * (height - 1))]
    below = 3 if height >= 20 else 2
    room = height - HEAD - below - 2
    inside = _body(state, width - 2, room, height)[:room]
    details = _within(words.details(state, now), width - 4, below)
    return [
        edge(
            HEAVY,
            True,
            ((words.title(state), "text bold"),),
            ((f"step {state.number} of 3", "muted"),),
            width,
        ),
        sides(HEAVY, _steps(state, width - 2), width),
        _rule(words.heading(state), width),
        *(sides(HEAVY, line, width) for line in inside),
        *([sides(HEAVY, [], width)] * (room - len(inside))),
        _rule("", width),
        *(sides(HEAVY, [(" ", ""), *line], width) for line in details),
        *([sides(HEAVY, [], width)] * (below - len(details))),
        _foot(state, width),
    ]


def _within(sentences: Lines, width: int, most: int) -> Lines:
    """Sentences wrapped into at most so many lines; the first gives way, and shows where it is cut."""
    first, *rest = [wrap_spans(spans, width) for spans in sentences] or [[]]
    room = max(most - sum(map(len, rest)), 1)
    if len(first) > room:
        first = [*first[: room - 1], [*crop(first[room - 1], width - 1), ("…", "muted")]]
    return [line for lines in (first, *rest) for line in lines][:most]


def _steps(state: SetupState, width: int) -> list[Span]:
    """`1 Provider OpenAI ▸ 2 Key ▸ 3 Model`: what is done in its words, where one is in bold."""
    spans: list[Span] = [(" ", "")]
    for number, (name, done) in enumerate(words.steps(state), start=1):
        if number > 1:
            spans.append(("  ▸  ", "muted"))
        style = "text bold" if number == state.number else "muted"
        spans.append((f"{number} {name}", style))
        if done:
            spans.append((f" {clean_line(done)}", "text" if number < state.number else "muted"))
    return crop(spans, width)


def _rule(title: str, width: int) -> list[Span]:
    named: list[Span] = [("─ ", "accent"), (title, "muted"), (" ", "")] if title else []
    used = 2 + sum(cell_len(text) for text, _ in named)
    return [("┠", "accent"), *named, ("─" * max(width - used, 0), "accent"), ("┨", "accent")]


def _foot(state: SetupState, width: int) -> list[Span]:
    """The keys that work; help at the right end, where there is room."""
    *shown, (help_key, help_word) = hints(state)
    spans: list[Span] = []
    for key, word in shown:
        spans += [(" · ", "muted")] if spans else []
        spans += [(key, "accent"), (f" {word}", "text")]
    return edge(HEAVY, False, tuple(spans), ((help_key, "accent"), (f" {help_word}", "muted")), width)


def _body(state: SetupState, width: int, room: int, height: int) -> Lines:
    match state.step:
        case "provider":
            return _providers(state, width, room)
        case "model":
            return [_filter(state), *_models(state, width, room - 1)]
        case _:
            return _field(state, width, roomy=height >= 16)


# --- the first step -----------------------------------------------------------------------------------


def _providers(state: SetupState, width: int, room: int) -> Lines:
    first = window_start(state.at, len(state.sources), room)
    column = max(cell_len(source.title) for source in state.sources if source is not OTHER)
    return [
        _provider(source, at == state.at, state, column, width)
        for at, source in enumerate(state.sources[first : first + room], start=first)
    ]


def _provider(source: Source, marked: bool, state: SetupState, column: int, width: int) -> list[Span]:
    title = clean_line(source.title)
    blanks = " " * max(column - cell_len(title), 0)
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        Piece(((title, "text reverse" if marked else "text"), (blanks, "")), gap=0),
        piece(words.place(source), "muted", gap=2, rank=1),
    ]
    return row(left, words.known(source, state), width + 1, margin=1)[1:]


# --- address and key ----------------------------------------------------------------------------------


def _field(state: SetupState, width: int, *, roomy: bool) -> Lines:
    """The field with what is asked above it and what becomes of it below."""
    prompt = [(" ❯ ", "accent")] if state.step == "address" or state.has_key_field else []
    count = words.length(state.key_length) if prompt and state.step == "key" else ""
    line = [*crop(prompt, max(width - COUNT_CELLS, 0)), (f"{count:>{COUNT_CELLS - 2}}", "muted")]
    if not roomy:
        return [line]
    above: list[Span] = [("  ", ""), (words.asks(state), "text bold")]
    below = [[("  ", ""), *spans] for each in words.explains(state) for spans in wrap_spans(each, width - 4)]
    return [[], above, [], line, [], *below] if prompt else [[], above, [], *below]


# --- the last step ------------------------------------------------------------------------------------


def _filter(state: SetupState) -> list[Span]:
    return [(" ❯ ", "accent")]


def _models(state: SetupState, width: int, room: int) -> Lines:
    """The names of the columns, then as many models as have room, the marked one among them."""
    rows = state.rows
    if not rows:
        return [[], [("  " + words.no_models(state), "muted")]]
    columns = _columns_for(rows, width)
    first = window_start(state.marked, len(rows), max(room - 1, 1))
    shown = rows[first : first + max(room - 1, 1)]
    lines = [_model(row, first + at == state.marked, state, columns, width) for at, row in enumerate(shown)]
    count = f"{state.marked + 1:,} of {len(rows):,}" if len(rows) > len(shown) else ""
    return [_heads(count, columns, width), *lines]


def _columns_for(rows: Sequence[Row], width: int) -> tuple[str, ...]:
    """The figures there is room for, and something to say in."""
    if width >= _ALL_FROM:
        return tuple(_COLUMNS)
    priced = width >= _PRICES_FROM and any(row.offer is not None and row.offer.price for row in rows)
    return ("window", "$/M in", "$/M out") if priced else ("window",)


def _heads(count: str, columns: Sequence[str], width: int) -> list[Span]:
    right = "".join(f"{head:>{_COLUMNS[head]}}" for head in columns) + " "
    left = f"  {count}"
    return [(left + " " * max(width - len(left) - len(right), 0) + right, "muted")]


def _model(row: Row, marked: bool, state: SetupState, columns: Sequence[str], width: int) -> list[Span]:
    figures = "".join(f"{_figure(row.offer, head):>{_COLUMNS[head]}}" for head in columns)
    note = words.note(row, state)
    noted = sum(cell_len(text) for text, _ in note)
    room = max(width - cell_len(figures) - 2 - noted - (2 if note else 0), 8)
    name = (
        cut_left(clean_line(row.model), room) if "/" in row.model else cut_right(clean_line(row.model), room)
    )
    if row.typed:
        name = cut_right(f"use “{clean_line(row.model)}” as it stands", room)
    blanks = width - 1 - cell_len(name) - noted - cell_len(figures) - 1
    gap = min(2, blanks) if note else 0
    return [
        ("▶" if marked else " ", "accent"),
        (name, "text reverse" if marked else "text"),
        (" " * gap, ""),
        *note,
        (" " * max(blanks - gap, 0), ""),
        (figures + " ", "text" if marked else "muted"),
    ]


def _figure(offer: ListedModel | None, column: str) -> str:
    """What stands in a column; nothing where nobody knows."""
    if offer is None:
        return ""
    price = offer.price
    match column:
        case "window":
            return numbers.short_tokens(offer.window) if offer.window else "?"
        case "answer":
            return numbers.short_tokens(offer.max_output) if offer.max_output else ""
        case "$/M in":
            return words.price(price.input) if price is not None else ""
        case "cached":
            return words.price(price.cached) if price is not None else ""
        case "$/M out":
            return words.price(price.output) if price is not None else ""
        case _:
            return "" if offer.pictures is None else "yes" if offer.pictures else "no"
