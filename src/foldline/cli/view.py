"""`foldline view`: what the model sees, now or at any earlier moment."""

from collections.abc import Sequence
from typing import TypeVar

from foldline.context.calls import paired
from foldline.context.numbers import percent, tokens
from foldline.context.projection import Projection, project
from foldline.context.proof import Proof, RecordedRequest, proof_of, recorded_requests
from foldline.context.view import ViewItem
from foldline.context.weight import item_weight, view_size
from foldline.llm.offline import OFFLINE
from foldline.llm.responses import Rendering, as_openai, rendering_named
from foldline.protocol import AssistantMessage, Entry, FoldlineError

from .output import Cell, Column, note, say_heading, say_json, say_legend, say_table
from .rows import LEGEND, Naming, is_failure, is_last_of_group, kind_label, outcome, rail, summary_label
from .sources import Source, read_source
from .windows import Window, window_of, window_words

T = TypeVar("T")


def run(source: str, at: int | None, request: int | None, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    if request is not None and (recorded := recorded_requests(found.entries)):
        return _show_sent(found, _numbered(found, recorded, request), as_json)
    entries = _until(found, at, request)
    moment = f"request {request}" if request is not None else f"entry {at}" if at is not None else "now"
    if request is not None:
        note(f"{found.name} has no record of its requests: this is what the history gives for one.")
    _show(found, project(entries), moment, as_json)
    return 0


def _show(found: Source, projection: Projection, moment: str, as_json: bool) -> None:
    window = window_of(projection, found.header.cwd)
    if as_json:
        say_json(view_json(projection, window))
    else:
        _say_view(found, projection, window, moment)


def _show_sent(found: Source, sent: RecordedRequest, as_json: bool) -> int:
    """What request N sent, as its record says it was rendered; 1 where the history does not prove it."""
    proof, projection = proof_of(sent, found.entries)
    record = sent.record
    if as_json:
        rendering = rendering_named(record.dialect, record.model)
        if rendering is None and record.dialect not in ("", OFFLINE):
            note(f"The dialect {record.dialect!r} is not known here: these are OpenAI messages.")
        view = view_json(projection, window_of(projection, found.header.cwd), rendering or as_openai)
        say_json({**view, "request": _request_json(proof)})
    else:
        moment = f"request {sent.number} to {record.model}, {'proved' if proof.holds else 'not proved'}"
        _show(found, projection, moment, as_json=False)
    if not proof.holds:
        note(f"Request {sent.number} (entry {record.index}) is not proved: {proof}.")
        return 1
    return 0


def _request_json(proof: Proof) -> dict[str, object]:
    record = proof.sent.record
    return {
        "number": proof.sent.number,
        "entry": record.index,
        "model": record.model,
        "dialect": record.dialect,
        "digest": record.digest,
        "proved": proof.holds,
    }


def view_json(projection: Projection, window: Window, rendering: Rendering = as_openai) -> dict[str, object]:
    """The view as programs get it: OpenAI messages, and where each item of the view comes from.

    A request over the Responses API sent input items: `messages` then holds these.
    """
    messages = paired(item.message for item in projection.view)
    items = []
    for item in projection.view:
        weight = item_weight(projection, item)
        items.append(
            {
                "index": item.index,
                "kind": item.kind,
                "fate": item.fate,
                "tokens": weight.tokens,
                "estimated": weight.estimated,
                "pinned": item.pinned,
            }
        )
    size = view_size(projection)
    return {
        "messages": rendering(messages),
        "items": items,
        "tokens": size.tokens,
        "estimated": size.estimated,
        "window": window.tokens,
        "window_assumed": window.assumed,
    }


def _numbered(source: Source, found: Sequence[T], number: int) -> T:
    """The request of this number, the first being 1."""
    if not 1 <= number <= len(found):
        many = f"its requests are 1 to {len(found)}" if found else "no request was ever sent from it"
        raise FoldlineError(f"{source.name} has no request {number}: {many}.")
    return found[number - 1]


def _until(source: Source, at: int | None, request: int | None) -> list[Entry]:
    """The entries of the shorter history that was asked for."""
    if at is not None:
        last = source.entries[-1].index if source.entries else -1
        if not 0 <= at <= last:
            raise FoldlineError(f"{source.name} has no entry {at}: its entries are 0 to {last}.")
        return [entry for entry in source.entries if entry.index <= at]
    if request is not None:
        # Other agents record answers only: the view of each ended before it.
        answers = [entry.index for entry in source.entries if isinstance(entry, AssistantMessage)]
        end = _numbered(source, answers, request)
        return [entry for entry in source.entries if entry.index < end]
    return source.entries


def _say_view(source: Source, projection: Projection, window: Window, moment: str) -> None:
    items = projection.view
    if not items:
        note(f"{source.name}: nothing is in the view, {moment}.")
        return
    size = view_size(projection)
    fill = f"{tokens(size.tokens, estimated=size.estimated)} of {window_words(window)}"
    share = percent(size.tokens, window.tokens)
    say_heading(f"{source.name} · LLM view, {moment} · {len(items)} items · {fill} {share}")
    columns = (
        Column("fate"),
        Column("no.", right=True),
        Column("kind", most=16),
        Column("item", grows=True),
        Column("outcome"),
        Column("tokens", right=True),
    )
    say_table(columns, _rows(projection, items, source.header.cwd))
    say_legend(LEGEND)


def _rows(projection: Projection, items: Sequence[ViewItem], cwd: str) -> list[list[Cell | str]]:
    naming = Naming(cwd)
    messages = [item.message for item in items]
    rows: list[list[Cell | str]] = []
    for place, item in enumerate(items):
        naming.note(item.message)
        weight = item_weight(projection, item)
        mark = rail("summarised" if item.written else item.fate, pinned=item.pinned)
        label = kind_label(item.message, last_of_group=is_last_of_group(messages, place))
        rows.append(
            [
                mark._replace(text=mark.text.replace("S", " ")) if item.written else mark,
                str(item.index),
                Cell(label, "bold" if item.message.type == "user" else None),
                summary_label(item) + naming.about(item.message),
                Cell(outcome(item.message), "alert" if is_failure(item.message) else "muted"),
                Cell(tokens(weight.tokens, estimated=weight.estimated), "muted"),
            ]
        )
    return rows
