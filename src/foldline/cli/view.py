"""`foldline view`: what the model sees, now or at any earlier moment."""

from argparse import ArgumentParser

from foldline.context.calls import paired
from foldline.context.numbers import percent, tokens
from foldline.context.projection import Projection, project
from foldline.context.proof import RecordedRequest, proof_of, recorded_requests
from foldline.context.view import ViewItem
from foldline.context.weight import Weight, item_weight, view_size
from foldline.llm.offline import OFFLINE
from foldline.llm.responses import Rendering, as_openai, rendering_named
from foldline.protocol import (
    AssistantMessage,
    Entry,
    FoldlineError,
)

from .agents import Window, window_of
from .arguments import Handler, add_json, add_source, number_of
from .history import END_COLUMNS, LEGEND, Naming, ending_cells, kind_label, mark_cell
from .output import Cell, Column, note, say_heading, say_json, say_legend, say_table
from .sources import Source, read_source


def view_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    moment = parser.add_mutually_exclusive_group()
    moment.add_argument("--at", type=number_of, metavar="INDEX", help="as of this entry")
    moment.add_argument("--request", type=number_of, metavar="N", help="as the N-th request sent it")
    add_json(parser, "OpenAI messages and their provenance as JSON")
    return view


def view(source: str, at: int | None, request: int | None, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    if request is None:
        moment = "now" if at is None else f"entry {at}"
        _show(found, project(_until(found, at)), moment, as_json)
        return 0
    if recorded := recorded_requests(found.entries):
        _check_number(found, len(recorded), request)
        return _show_sent(found, recorded[request - 1], as_json)
    # Other agents record answers only: the view of each ended before it.
    answers = [entry.index for entry in found.entries if isinstance(entry, AssistantMessage)]
    _check_number(found, len(answers), request)
    note(f"{found.name} has no record of its requests: this is what the history gives for one.")
    before = [entry for entry in found.entries if entry.index < answers[request - 1]]
    _show(found, project(before), f"request {request}", as_json)
    return 0


def _until(source: Source, at: int | None) -> list[Entry]:
    if at is None:
        return source.entries
    last = source.entries[-1].index if source.entries else -1
    if not 0 <= at <= last:
        raise FoldlineError(f"{source.name} has no entry {at}: its entries are 0 to {last}.")
    return [entry for entry in source.entries if entry.index <= at]


def _check_number(source: Source, count: int, number: int) -> None:
    if not 1 <= number <= count:
        known = f"its requests are 1 to {count}" if count else "no request was ever sent from it"
        raise FoldlineError(f"{source.name} has no request {number}: {known}.")


def _show(found: Source, projection: Projection, moment: str, as_json: bool) -> None:
    window = window_of(projection, found.header.cwd)
    if as_json:
        say_json(view_json(projection, window))
    else:
        _say_view(found, projection, window, moment)


def _show_sent(found: Source, sent: RecordedRequest, as_json: bool) -> int:
    """Shows a request as its record says it was rendered; 1 where the history does not prove it."""
    proof, projection = proof_of(sent, found.entries)
    record = sent.record
    if as_json:
        rendering = rendering_named(record.dialect, record.model)
        if rendering is None and record.dialect not in ("", OFFLINE):
            note(f"The dialect {record.dialect!r} is not known here: these are OpenAI messages.")
        about = {
            "number": sent.number,
            "entry": record.index,
            "model": record.model,
            "dialect": record.dialect,
            "digest": record.digest,
            "proved": proof.holds,
        }
        window = window_of(projection, found.header.cwd)
        say_json({**view_json(projection, window, rendering or as_openai), "request": about})
    else:
        proved = "proved" if proof.holds else "not proved"
        _show(found, projection, f"request {sent.number} to {record.model}, {proved}", as_json=False)
    if not proof.holds:
        note(f"Request {sent.number} (entry {record.index}) is not proved: {proof}.")
    return 0 if proof.holds else 1


def view_json(projection: Projection, window: Window, rendering: Rendering = as_openai) -> dict[str, object]:
    """The view for programs: OpenAI messages, and where each item of the view comes from.

    A request over the Responses API sent input items: `messages` then holds these.
    """
    size = view_size(projection)
    return {
        "messages": rendering(paired(item.message for item in projection.view)),
        "items": [_item_json(item, item_weight(projection, item)) for item in projection.view],
        "tokens": size.tokens,
        "estimated": size.estimated,
        "window": window.tokens,
        "window_assumed": window.assumed,
    }


def _item_json(item: ViewItem, weight: Weight) -> dict[str, object]:
    return {
        "index": item.index,
        "kind": item.kind,
        "fate": item.fate,
        "tokens": weight.tokens,
        "estimated": weight.estimated,
        "pinned": item.pinned,
    }


def _say_view(source: Source, projection: Projection, window: Window, moment: str) -> None:
    items = projection.view
    if not items:
        note(f"{source.name}: nothing is in the view, {moment}.")
        return
    size = view_size(projection)
    fill = f"{tokens(size.tokens, estimated=size.estimated)} of {window}"
    share = percent(size.tokens, window.tokens)
    say_heading(f"{source.name} · LLM view, {moment} · {len(items)} items · {fill} {share}")
    naming = Naming(source.header.cwd)
    messages = [item.message for item in items]
    rows: list[list[Cell | str]] = []
    for place, item in enumerate(items):
        naming.note(item.message)
        mark = mark_cell("summarised" if item.written else item.fate, pinned=item.pinned)
        mark = mark._replace(text=mark.text.replace("S", " ")) if item.written else mark
        label = Cell(kind_label(messages, place), "bold" if item.message.type == "user" else None)
        about: list[Cell | str] = [mark, str(item.index), label, _covered(item) + naming.about(item.message)]
        rows.append([*about, *ending_cells(item.message, item_weight(projection, item))])
    columns = (
        Column("state"),
        Column("no.", right=True),
        Column("kind", most=16),
        Column("item", grows=True),
    )
    say_table((*columns, *END_COLUMNS), rows)
    say_legend(LEGEND)


def _covered(item: ViewItem) -> str:
    """What a summary stands for: `of 118, 119–351`."""
    spans = [str(first) if first == last else f"{first}–{last}" for first, last in item.covers]
    shown = spans if len(spans) <= 4 else [*spans[:3], f"… {spans[-1]}"]
    return f"of {', '.join(shown)}: " if spans else ""
