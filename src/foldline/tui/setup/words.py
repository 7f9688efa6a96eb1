"""The words of the setup screen. Pure."""

from typing import Final

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.llm.listing import ListedModel
from foldline.tui.blocks.cells import Piece, Span, piece
from foldline.tui.setup.state import OFFLINE, OTHER, Row, SetupState, Source, Trouble
from foldline.tui.widgets.status import SPINNER, TICKS

Line = list[Span]

_BUILT_IN: Final = "built in: no key, no network"


def title(state: SetupState) -> str:
    return "Switch the model" if state.current[0] else "Which model shall work here?"


def heading(state: SetupState) -> str:
    """What the step is about."""
    match state.step:
        case "provider":
            return "Who runs the model"
        case "address":
            return "Another server"
        case "key":
            return "A key for it" if state.has_key_field else "Asking it"
        case "model":
            return "Which model" if state.listed or state.is_checking else "Name the model"


def steps(state: SetupState) -> tuple[tuple[str, str], ...]:
    """The three steps: (name, what was settled there)."""
    source = state.source if state.number > 1 else None
    if source is None:
        return (("Provider", ""), ("Key", ""), ("Model", ""))
    key = ""
    if source.key_in:
        key = f"in {source.key_in}"
    elif source.key == "none":
        key = "none needed"
    elif state.step == "model":
        key = "as typed" if state.key is not None else "none"
    return (("Provider", source.title), ("Key", key), ("Model", ""))


# --- the first step -----------------------------------------------------------------------------------


def place(source: Source) -> str:
    """Where a source is, in its row."""
    if source is OFFLINE:
        return _BUILT_IN
    return "" if source is OTHER else clean_line(source.host)


def known(source: Source, state: SetupState) -> list[Piece]:
    """What is known of a source, at the right end of its row."""
    pieces = []
    if source.name and source.name == state.current[0]:
        pieces.append(piece("in use", "live"))
    if source.name in state.running and source.local:
        pieces.append(piece("running", "live"))
    if source.key_in:
        pieces.append(piece(f"key in {source.key_in}", "live"))
    return pieces


def length(characters: int) -> str:
    return many(characters, "character") if characters else ""


# --- address and key ----------------------------------------------------------------------------------


def asks(state: SetupState) -> str:
    """The question of the step."""
    if state.step == "address":
        return "Where is the server?"
    if state.source is None:
        return ""
    name = clean_line(state.source.title)
    if not state.has_key_field:
        return name
    return f"Your key for {name}" if state.source.key == "needed" else f"A key for {name}, if it wants one"


def explains(state: SetupState) -> list[Line]:
    """What becomes of what is typed."""
    source, keys_file = state.source, state.kept_in[0]
    if state.step == "address":
        return [
            [("The address its API begins with, such as http://localhost:8000/v1.", "muted")],
            [("Any server that speaks OpenAI's chat completions will do.", "muted")],
        ]
    if source is None:
        return []
    host = clean_line(source.host)
    if not state.has_key_field:
        return [[(_uses(source), "muted")]]
    kept = f"It is kept in {keys_file}, which only you can read, and sent to {host} alone."
    lines: list[Line] = [[(kept, "muted")]]
    if source.key_env:
        lines.append([(source.key_env, "text"), (" in the environment goes before it, when set.", "muted")])
    if source.key_page:
        lines.append([(f"You get one at {clean_line(source.key_page)}.", "muted")])
    return lines


def _uses(source: Source) -> str:
    if source.key_in:
        return f"The key in {source.key_in} is sent to {clean_line(source.host)} alone."
    return f"{clean_line(source.url)} wants no key."


# --- the last step ------------------------------------------------------------------------------------


def no_models(state: SetupState) -> str:
    if state.is_checking:
        return ""
    if state.query.strip():
        return "No model's name holds all of these words."
    if not state.listed:
        return "It could not be asked which models it has: type a name."
    return "It says of no model that it has it: type a name."


def note(row: Row, state: SetupState) -> Line:
    """What is said of a model beside its name."""
    source = state.source
    spans: Line = []
    if source is not None and (source.name, row.model) == state.current:
        spans.append(("in use", "live"))
    elif source is not None and row.model == source.default_model:
        spans.append(("the usual one", "muted"))
    if state.writes_summaries(row):
        spans += [(" · ", "muted")] if spans else []
        spans.append(("writes summaries", "live"))
    if row.model in state.folding:
        spans += [(" · ", "muted")] if spans else []
        spans.append(("folds first", "altered"))
    return spans


def price(dollars: float) -> str:
    """USD per million tokens, in a column that says so."""
    return "free" if dollars == 0 else numbers.price(dollars)


# --- below the list -----------------------------------------------------------------------------------


def details(state: SetupState, now: float) -> list[Line]:
    """What goes on, or went wrong; else what Enter would do at the mark."""
    if state.told:
        return [[(clean_line(state.told), "text")]]
    if state.asked is not None:
        return [_checking(state, state.asked, now)]
    if state.trouble is not None:
        sign, style = ("! ", "altered") if state.trouble.kind == "unreachable" else ("✗ ", "alert")
        return [[(sign, style), (clean_line(_sentence(state, state.trouble)), "text")], *_way_out(state)]
    match state.step:
        case "provider":
            return [[(sentence, "muted")] for sentence in _about(state.pointed, state)]
        case "key" if state.has_key_field:
            return [[("The check asks the server which models it has, and costs nothing.", "muted")]]
        case "model" if state.row is not None:
            return _about_model(state.row, state)
        case _:
            return []


def _checking(state: SetupState, since: float, now: float) -> Line:
    spin = SPINNER[int(now * TICKS) % len(SPINNER)]
    host = clean_line(state.source.host) if state.source is not None else ""
    return [
        (f"{spin} ", "accent"),
        (f"Asking {host} which models it has", "text"),
        (f" · {numbers.elapsed(now - since)}", "muted"),
    ]


def _sentence(state: SetupState, trouble: Trouble) -> str:
    """Of a key that was typed here, the client would say in which file to correct it."""
    if trouble.status == 401 and state.key is not None and state.source is not None:
        return f"{state.source.host} does not take this key (401)."
    return trouble.sentence


def _way_out(state: SetupState) -> list[Line]:
    trouble, source = state.trouble, state.source
    if trouble is None or source is None:
        return []
    if trouble.kind == "refused" and source.from_environment:
        return [[(f"Mend {source.key_in} where it is set: it goes before any key typed here.", "muted")]]
    if trouble.kind == "refused" and state.has_key_field:
        return [[("Correct the key; Enter checks it again.", "muted")]]
    return []


def _about(source: Source, state: SetupState) -> list[str]:
    if source is OFFLINE:
        return [
            "Answers at once, reads and edits files by simple rules, and cannot think: to try Foldline out.",
        ]
    if source is OTHER:
        return ["SGLang, LiteLLM, a company's gateway: you type its address, and a key if it wants one."]
    url = clean_line(source.url)
    if source.asks_key:
        return [f"At {url}. Enter asks for your key; {source.key_env or 'the key file'} holds none."]
    if source.key_in:
        return [f"At {url}. Enter checks the key in {source.key_in} and shows the models."]
    answers = "It answers." if source.name in state.running else "Nothing answers there yet: start it."
    return [f"At {url}, without a key. {answers}"]


def _about_model(row: Row, state: SetupState) -> list[Line]:
    lines: list[Line] = []
    offer = row.offer
    if row.model in state.folding and offer is not None and offer.window:
        window, held = numbers.short_tokens(offer.window), numbers.tokens(state.size)
        sentence = f"Its window of {window} is too small for the {held} of now: they are folded first."
        lines.append([("! ", "altered"), (sentence, "text")])
    elif offer is not None and (known := _known(offer)):
        lines.append([(known, "muted")])
    elif offer is None:
        lines.append([("What its server does not say of it is guessed from its name.", "muted")])
    return [*lines, [(_how_long(state), "muted")]]


def _known(offer: ListedModel) -> str:
    """What a row may have no room for."""
    parts = []
    if offer.max_output:
        parts.append(f"answers of up to {numbers.short_tokens(offer.max_output)} tokens")
    if offer.price is not None and offer.price.cached != offer.price.input:
        parts.append(f"input from the cache {price(offer.price.cached)} per million")
    if offer.pictures is not None:
        parts.append("takes pictures" if offer.pictures else "takes no pictures")
    sentence = ", ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _how_long(state: SetupState) -> str:
    """For which sessions the choice holds."""
    if state.source is not None and not state.source.named:
        return "In this session: who is asked in new ones is for the environment to say."
    if state.overruled_by:
        return f"Kept in {state.kept_in[1]}, before which {state.overruled_by} goes in new sessions."
    return f"In this session and in new ones; kept in {state.kept_in[1]}."
