"""The Inspector's words: frame titles and feet, the status row. Pure."""

from collections.abc import Container

from foldline.context import numbers
from foldline.context.budget import Size
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.tui.blocks import Key, Span, clean_line
from foldline.tui.blocks.cells import Piece, piece, row
from foldline.tui.inspector.files import FileBlock
from foldline.tui.inspector.link import HISTORY, Link
from foldline.tui.inspector.sheets import HistorySheet, Sheet, ViewSheet
from foldline.tui.panels.entry_list import TOOLS_KEY, row_of
from foldline.tui.panels.states import in_view, signs, state_words


def history_head(projection: Projection, sheet: HistorySheet, as_of: str) -> str:
    """`398 entries, system notes hidden`, or `398 entries, 41 shown: bash, failed`. `as_of` names a moment
    that has passed."""
    count = len(projection.entries)
    usual = f"as of {as_of}" if as_of else "system notes hidden" if count > 1 else ""
    return ", ".join(part for part in (many(count, "entry", "entries"), _shown_words(sheet) or usual) if part)


def _shown_words(sheet: Sheet) -> str:
    """What a filter leaves, and which it is."""
    return f"{sheet.shown:,} shown: {sheet.filter.words}" if sheet.filter.active else ""


def view_head(projection: Projection, size: Size, sheet: ViewSheet, as_of: str) -> tuple[str, str]:
    """(`24 items ~28.6k`, `2 LLM view: request 85`). `as_of` names a moment that has passed."""
    items, shown = many(len(projection.view), "item"), _shown_words(sheet)
    tokens = numbers.tokens(size.tokens, estimated=size.estimated)
    named = as_of if as_of.startswith("request") else sheet.request_words
    return f"{items}, {shown}" if shown else f"{items} {tokens}", f"2 LLM view: {named}"


def history_foot(
    projection: Projection, link: Link | None, active: bool, opened: Container[Key]
) -> tuple[str, str]:
    """What Enter does, and where the LLM view has the entry under the cursor."""
    if not active:
        return "", ""
    if link is None:
        return "Enter opens", ""
    what = "Enter closes" if link.key in opened else "Enter opens in place"
    return what, in_view(projection, link.index).words


def view_foot(
    projection: Projection, size: Size, link: Link | None, active: bool, sheet: ViewSheet
) -> tuple[str, str]:
    """As for History; without the focus, what the numbers mean, and how much of `size`, the whole request in
    the panel's head, has not changed."""
    if active:
        what = "Enter closes" if link is not None and link.key in sheet.opened else "Enter opens in place"
        if link is None:
            return what, ""
        if link.key == TOOLS_KEY:
            return "", "sent with every request, no entry"
        found = in_view(projection, link.index)
        if found.key is None:
            return what, found.words
        return what, f"{found.words.rpartition('→ ')[2]} → entry {link.index}"
    if link is not None and link.index >= 0 and link.source == HISTORY:
        reason = in_view(projection, link.index)
        if reason.key is None:
            return "", reason.words
    added = sheet.added_tokens()
    if added is None:
        return "tokens ~ estimated", ""
    same = max(size.tokens - round(added * projection.scale), 0)
    before = sheet.request_words
    words = f"request {int(before.split()[-1]) - 1}" if before[-1].isdigit() else "the last request"
    return "tokens ~ estimated", f"first {numbers.tokens(same, estimated=True)} as in {words}"


def news_row(news: str, width: int) -> list[Span]:
    """A sentence in the status row."""
    return row([piece(clean_line(news), "text", cut="right")] if news else [], [], width)


def file_row(file: FileBlock | None, width: int) -> list[Span]:
    """The file under the cursor."""
    words = "" if file is None else f"{file.shown} · {many(len(file.touches), 'touch', 'touches')}"
    return row([piece(words, "text", cut="left")] if words else [], [], width)


def entry_row(projection: Projection, link: Link | None, cursor: Key | None, width: int) -> list[Span]:
    """The entry under the cursor, and its state."""
    if link is None:
        return row([], [], width)
    if link.key == TOOLS_KEY:
        return news_row("The tool schemas go with every request.", width)
    index, group = link.index, projection.group(link.index)
    state = f" {state_words(projection, index)}"
    parts = [Piece(((f"{index} ", "bold"), *signs(projection, index), (state, "text")), cut="right")]
    if len(group) > 1:
        parts.append(piece(f"tool group {group[0]}–{group[-1]}", "muted", rank=1))
    if cursor is not None and row_of(cursor) != cursor:
        parts.append(piece("inside it: Enter closes", "muted", rank=3))
    entry = projection.entry(index)
    at = entry.at if entry is not None else None
    right = [piece(f"{at.astimezone():%Y-%m-%d %H:%M:%S}", "muted", rank=2)] if at is not None else []
    return row(parts, right, width)
