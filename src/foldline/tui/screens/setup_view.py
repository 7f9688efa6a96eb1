"""The words and rows of Setup: the steps, what a field is for, providers, models, what is under way. Pure."""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.llm.listing import ListedModel
from foldline.tui.blocks.cells import Piece, Side, Spans, crop, piece, row, wrap_spans
from foldline.tui.screens.setup_state import OFFLINE, OTHER, Row, SetupState, Source, Trouble
from foldline.tui.widgets.lines import Line
from foldline.tui.widgets.status import SPINNER, TICKS

COUNT_CELLS: Final = 16
"""Right of the field of a key: how long it is."""
_COLUMNS: Final = {"window": 8, "answer": 8, "$/M in": 9, "cached": 9, "$/M out": 9, "pictures": 10}
"""Cells of each: the window and the longest answer in tokens, prices, whether it looks at pictures."""
_ALL_FROM: Final = 92
"""Columns from which all of them are shown."""
_PRICES_FROM: Final = 64
"""Columns from which prices are shown."""


def steps(state: SetupState, width: int) -> Line:
    """`1 Provider OpenAI ▸ 2 Key ▸ 3 Model`: what is done in its words, where one is in bold."""
    source = state.source if state.number > 1 else None
    key = ""
    if source is not None and source.key_in:
        key = f"in {source.key_in}"
    elif source is not None and source.key == "none":
        key = "none needed"
    elif source is not None and state.step == "model":
        key = "as typed" if state.key is not None else "none"
    spans: Line = [(" ", "")]
    names = (("Provider", source.title if source is not None else ""), ("Key", key), ("Model", ""))
    for number, (name, done) in enumerate(names, start=1):
        spans += [("  ▸  ", "muted")] if number > 1 else []
        spans.append((f"{number} {name}", "text bold" if number == state.number else "muted"))
        spans.append((f" {clean_line(done)}" if done else "", "text" if number < state.number else "muted"))
    return crop(spans, width)


def heading(state: SetupState) -> str:
    """What is asked for."""
    name = clean_line(state.source.title) if state.source is not None else ""
    match state.step:
        case "provider":
            return "Provider"
        case "address":
            return "Where is the server?"
        case "model":
            return "Model" if state.listed or state.is_checking else "Name the model"
        case _ if not state.has_key_field:
            return f"Asking {name}"
        case _:
            needed = state.source is not None and state.source.key == "needed"
            return f"Your key for {name}" if needed else f"A key for {name}, if it wants one"


# --- address and key ------------------------------------------------------------------------------------


def field_lines(state: SetupState, width: int, *, roomy: bool) -> list[Line]:
    """The field, and what becomes of what is typed there."""
    has_field = state.step == "address" or state.has_key_field
    prompt: Line = [(" ❯ ", "accent")] if has_field else []
    count = many(state.key_length, "character") if state.has_key_field and state.key_length else ""
    line = [*crop(prompt, max(width - COUNT_CELLS, 0)), (f"{count:>{COUNT_CELLS - 2}}", "muted")]
    if not roomy:
        return [line]
    below = [[("  ", ""), *spans] for each in _explained(state) for spans in wrap_spans(each, width - 4)]
    return [[], line, [], *below] if has_field else [[], *below]


def _explained(state: SetupState) -> list[Line]:
    """What becomes of what is typed."""
    source = state.source
    if state.step == "address":
        return [
            [("The address its API begins with, such as http://localhost:8000/v1.", "muted")],
            [("Any server that speaks OpenAI's chat completions will do.", "muted")],
        ]
    if source is None:
        return []
    host = clean_line(source.host)
    if not state.has_key_field:
        used = f"The key in {source.key_in} is sent to {host} alone."
        return [[(used if source.key_in else f"{clean_line(source.url)} wants no key.", "muted")]]
    kept = f"It is kept in {state.kept_in[0]}, which only you can read, and sent to {host} alone."
    lines: list[Line] = [[(kept, "muted")]]
    if source.key_env:
        lines.append([(source.key_env, "text"), (" in the environment goes before it, when set.", "muted")])
    if source.key_page:
        lines.append([(f"You get one at {clean_line(source.key_page)}.", "muted")])
    return lines


# --- the lists ------------------------------------------------------------------------------------------


def row_line(each: Source | Row, marked: bool, state: SetupState, width: int) -> Line:
    """A provider, or a model of one."""
    return (
        _provider(each, marked, state, width)
        if isinstance(each, Source)
        else _model(each, marked, state, width)
    )


def _named(name: str, marked: bool, column: int = 0, cut: Side | None = None) -> tuple[Piece, Piece]:
    """The mark, and the name behind it, filled up to a column."""
    blanks = " " * max(column - cell_len(name), 0)
    spans: Spans = ((name, "text reverse" if marked else "text"), (blanks, ""))
    return piece("▶" if marked else " ", "accent", gap=0), Piece(spans, gap=0, cut=cut, least=8)


def _provider(source: Source, marked: bool, state: SetupState, width: int) -> Line:
    column = max(cell_len(clean_line(each.title)) for each in state.sources if each is not OTHER)
    place = "built in: no key, no network" if source is OFFLINE else clean_line(source.host)
    known = (
        (source.name and source.name == state.current[0], "in use"),
        (source.local and source.name in state.running, "running"),
        (source.key_in, f"key in {source.key_in}"),
    )
    left = [
        *_named(clean_line(source.title), marked, column),
        piece("" if source is OTHER else place, "muted", gap=2, rank=1),
    ]
    return row(left, [piece(words, "live") for holds, words in known if holds], width + 1, margin=1)[1:]


def _model(each: Row, marked: bool, state: SetupState, width: int) -> Line:
    figures = "".join(f"{_figure(each.offer, head):>{_COLUMNS[head]}}" for head in _heads(state, width))
    name = clean_line(each.model)
    shown = f"use “{name}” as it stands" if each.typed else name
    left = [
        *_named(shown, marked, cut="left" if "/" in name and not each.typed else "right"),
        Piece(tuple(_note(each, state)), gap=2),
    ]
    return row(left, [piece(figures, "text" if marked else "muted")], width + 1, margin=1)[1:]


def _heads(state: SetupState, width: int) -> Sequence[str]:
    """The columns that a width has room for."""
    if width >= _ALL_FROM:
        return [*_COLUMNS]
    priced = any(each.offer is not None and each.offer.price for each in state.rows)
    return ["window", "$/M in", "$/M out"] if width >= _PRICES_FROM and priced else ["window"]


def columns_line(state: SetupState, width: int, room: int) -> Line:
    """Where in a list that is longer than `room` the mark is, and the names of the columns."""
    count, heads = len(state.rows), _heads(state, width)
    names = "".join(f"{head:>{_COLUMNS[head]}}" for head in heads)
    place = f"{state.marked + 1:,} of {count:,}" if count > room else ""
    return row([piece(place, "muted")], [piece(names, "muted")], width)


def no_models(state: SetupState) -> str:
    """Why the list of models is empty."""
    if state.is_checking:
        return ""
    if state.query.strip():
        return "No model's name holds all of these words."
    if not state.listed:
        return "It could not be asked which models it has: type a name."
    return "It says of no model that it has it: type a name."


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
            return _price(price.input) if price is not None else ""
        case "cached":
            return _price(price.cached) if price is not None else ""
        case "$/M out":
            return _price(price.output) if price is not None else ""
        case _:
            return "" if offer.pictures is None else "yes" if offer.pictures else "no"


def _price(dollars: float) -> str:
    """USD per million tokens, in a column that says so."""
    return "free" if dollars == 0 else numbers.price(dollars)


def _note(row: Row, state: SetupState) -> Line:
    """What is said of a model beside its name."""
    source = state.source
    notes: Line = []
    if source is not None and (source.name, row.model) == state.current:
        notes.append(("in use", "live"))
    elif source is not None and row.model == source.default_model:
        notes.append(("default", "muted"))
    if state.writes_summaries(row):
        notes.append(("writes summaries", "live"))
    if row.model in state.compacting:
        notes.append(("compacts first", "altered"))
    spans: Line = []
    for note in notes:
        spans += [(" · ", "muted"), note] if spans else [note]
    return spans


# --- below the list -------------------------------------------------------------------------------------


def below(state: SetupState, width: int, most: int, now: float) -> list[Line]:
    """Progress, or what went wrong; else what Enter would do at the mark: in at most so many lines. The first
    sentence gives way, and shows where it is cut."""
    first, *rest = [wrap_spans(spans, width) for spans in _details(state, now)] or [[]]
    room = max(most - sum(map(len, rest)), 1)
    if len(first) > room:
        first = [*first[: room - 1], [*crop(first[room - 1], width - 1), ("…", "muted")]]
    return [line for lines in (first, *rest) for line in lines][:most]


def _details(state: SetupState, now: float) -> list[Line]:
    if state.told:
        return [[(clean_line(state.told), "text")]]
    if state.asked is not None:
        spin = SPINNER[int(now * TICKS) % len(SPINNER)]
        host = clean_line(state.source.host) if state.source is not None else ""
        since = f" · {numbers.elapsed(now - state.asked)}"
        return [[(f"{spin} ", "accent"), (f"Asking {host} for its models", "text"), (since, "muted")]]
    if state.trouble is not None:
        return _trouble(state, state.trouble)
    match state.step:
        case "provider":
            return [[(_about(state.pointed, state), "muted")]]
        case "key" if state.has_key_field:
            return [[("The check asks the server which models it has, and costs nothing.", "muted")]]
        case "model" if state.row is not None:
            return _about_model(state.row, state)
        case _:
            return []


def _trouble(state: SetupState, trouble: Trouble) -> list[Line]:
    sign, style = ("! ", "altered") if trouble.kind == "unreachable" else ("✗ ", "alert")
    source, sentence = state.source, trouble.sentence
    if trouble.status == 401 and state.key is not None and source is not None:
        # Of a key that was typed here, the client would say in which file to correct it.
        sentence = f"{source.host} does not take this key (401)."
    lines: list[Line] = [[(sign, style), (clean_line(sentence), "text")]]
    if trouble.kind == "refused" and source is not None and source.from_environment:
        lines.append([(f"Correct {source.key_in} where it is set: it goes before any key here.", "muted")])
    elif trouble.kind == "refused" and state.has_key_field:
        lines.append([("Correct the key; Enter checks it again.", "muted")])
    return lines


def _about(source: Source, state: SetupState) -> str:
    if source is OFFLINE:
        return "Answers at once, reads and edits files by simple rules, cannot think: to try Foldline out."
    if source is OTHER:
        return "SGLang, LiteLLM, a company's gateway: you type its address, and a key if it wants one."
    url = clean_line(source.url)
    if source.asks_key:
        return f"At {url}. Enter asks for your key; {source.key_env or 'the key file'} holds none."
    if source.key_in:
        return f"At {url}. Enter checks the key in {source.key_in} and shows the models."
    answers = "It answers." if source.name in state.running else "Nothing answers there yet: start it."
    return f"At {url}, without a key. {answers}"


def _about_model(row: Row, state: SetupState) -> list[Line]:
    offer, source = row.offer, state.source
    if offer is None:
        first: Line = [("What its server does not say of it is guessed from its name.", "muted")]
    elif row.model in state.compacting and offer.window:
        window, held = numbers.short_tokens(offer.window), numbers.tokens(state.size)
        sentence = f"Its window of {window} is too small for the {held} in use: they are compacted first."
        first = [("! ", "altered"), (sentence, "text")]
    else:
        first = [(_known(offer), "muted")]
    kept = f"In this session and in new ones; kept in {state.kept_in[1]}."
    if source is not None and not source.named:
        kept = "In this session: the environment decides for new ones."
    elif state.overruled_by:
        kept = f"Kept in {state.kept_in[1]}, before which {state.overruled_by} goes in new sessions."
    return [line for line in (first, [(kept, "muted")]) if line[0][0]]


def _known(offer: ListedModel) -> str:
    """What a row may have no room for."""
    parts = []
    if offer.max_output:
        parts.append(f"answers of up to {numbers.short_tokens(offer.max_output)} tokens")
    if offer.price is not None and offer.price.cached != offer.price.input:
        parts.append(f"input from the cache {_price(offer.price.cached)} per million")
    if offer.pictures is not None:
        parts.append("takes pictures" if offer.pictures else "takes no pictures")
    sentence = ", ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""
