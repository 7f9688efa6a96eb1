"""`foldline view`: what the model sees, now or at any earlier moment."""

from collections.abc import Sequence
from typing import cast

from foldline.context.pairing import paired
from foldline.context.projection import Projection, project
from foldline.context.view import ViewItem
from foldline.context.weight import item_weight, view_size
from foldline.llm.dialect import OPENAI, to_openai
from foldline.protocol import AssistantMessage, Entry, FoldlineError, Message, RequestRecord
from foldline.tui.numbers import percent, short_tokens, tokens

from .output import Cell, Column, note, say_heading, say_json, say_legend, say_table
from .rows import LEGEND, Naming, is_failure, is_last_of_group, kind_label, outcome, rail, summary_label
from .sources import Source, read_source
from .windows import window_of


def run(source: str, at: int | None, request: int | None, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    projection = project(_until(found, at, request))
    window = window_of(projection, found.header.cwd)
    if as_json:
        say_json(view_json(projection, window))
        return 0
    moment = f"request {request}" if request is not None else f"entry {at}" if at is not None else "now"
    _say_view(found, projection, window, moment)
    return 0


def view_json(projection: Projection, window: int) -> dict[str, object]:
    """The view as programs get it: OpenAI messages, and where each item of the view comes from."""
    messages = cast("list[Message]", paired(item.message for item in projection.view))
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
        "messages": to_openai(messages, OPENAI),
        "items": items,
        "tokens": size.tokens,
        "estimated": size.estimated,
        "window": window,
    }


def answers(entries: Sequence[Entry]) -> list[int]:
    """For each request ever sent, the index of the first entry that came of it: its view ends before that.

    A request's record follows its answer, and stands alone where there was none.
    """
    found = []
    before: Entry | None = None
    for entry in entries:
        if isinstance(entry, AssistantMessage) or (
            isinstance(entry, RequestRecord) and not isinstance(before, AssistantMessage)
        ):
            found.append(entry.index)
        before = entry
    return found


def _until(source: Source, at: int | None, request: int | None) -> list[Entry]:
    """The entries of the shorter history that was asked for."""
    if at is not None:
        last = source.entries[-1].index if source.entries else -1
        if not 0 <= at <= last:
            raise FoldlineError(f"{source.name} has no entry {at}: its entries are 0 to {last}.")
        return [entry for entry in source.entries if entry.index <= at]
    if request is not None:
        ends = answers(source.entries)
        if not 1 <= request <= len(ends):
            many = f"its requests are 1 to {len(ends)}" if ends else "no request was ever sent from it"
            raise FoldlineError(f"{source.name} has no request {request}: {many}.")
        return [entry for entry in source.entries if entry.index < ends[request - 1]]
    return source.entries


def _say_view(source: Source, projection: Projection, window: int, moment: str) -> None:
    items = projection.view
    if not items:
        note(f"{source.name}: nothing is in the view, {moment}.")
        return
    size = view_size(projection)
    fill = f"{tokens(size.tokens, estimated=size.estimated)} of {short_tokens(window)}"
    share = percent(size.tokens, window)
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
