"""The Inspector's words: frame titles and feet, the status row, the hints. Pure."""

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from foldline.context import numbers
from foldline.context.budget import Size
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.tui.blocks import Key, Span, clean_line
from foldline.tui.blocks.cells import Piece, piece, row
from foldline.tui.inspector.filelist import FileBlock
from foldline.tui.inspector.places import TOOLS_KEY, fate_words, in_view, marks, row_of

if TYPE_CHECKING:
    from foldline.tui.inspector.history_sheet import HistorySheet
    from foldline.tui.inspector.linked import Link
    from foldline.tui.inspector.view_sheet import ViewSheet

HISTORY, VIEW = 0, 1


def entries_head(projection: Projection, sheet: "HistorySheet", as_of: str) -> str:
    """`398 entries, asides hidden`, or `398 entries, 41 shown: bash, failed`. `as_of` names a moment that has
    passed."""
    count = len(projection.entries)
    shown = _shown_words(sheet) or (f"as of {as_of}" if as_of else "asides hidden" if count > 1 else "")
    return ", ".join(part for part in (many(count, "entry", "entries"), shown) if part)


def _shown_words(sheet: "HistorySheet | ViewSheet") -> str:
    """What a filter leaves, and which it is."""
    return f"{sheet.shown:,} shown: {sheet.filter.words}" if sheet.filter.active else ""


def view_head(projection: Projection, size: Size, sheet: "ViewSheet", as_of: str) -> tuple[str, str]:
    """(`24 items ~28.6k`, `2 LLM view: request 85`). `as_of` names a moment that has passed."""
    count = len(projection.view)
    tokens = numbers.tokens(size.tokens, estimated=size.estimated)
    shown = _shown_words(sheet)
    items = f"{many(count, 'item')}, {shown}" if shown else f"{many(count, 'item')} {tokens}"
    named = as_of if as_of.startswith("request") else sheet.request_words
    return items, f"2 LLM view: {named}"


def history_foot(
    projection: Projection, link: "Link | None", active: bool, opened: Container[Key]
) -> tuple[str, str]:
    """What Enter does, and where the LLM view has the entry under the cursor."""
    if not active:
        return "", ""
    if link is None:
        return "Enter opens", ""
    what = "Enter closes" if link.key in opened else "Enter opens in place"
    return what, in_view(projection, link.index).words


def view_foot(
    projection: Projection, size: Size, link: "Link | None", active: bool, sheet: "ViewSheet"
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
    if (
        link is not None
        and link.index >= 0
        and link.source == HISTORY
        and (reason := in_view(projection, link.index)).key is None
    ):
        return "", reason.words
    added = sheet.added_tokens()
    if added is None:
        return "tokens ~ estimated", ""
    same = max(size.tokens - round(added * projection.calibration.scale(projection.model)), 0)
    before = sheet.request_words
    words = f"request {int(before.split()[-1]) - 1}" if before[-1].isdigit() else "the last request"
    return "tokens ~ estimated", f"first {numbers.tokens(same, estimated=True)} as in {words}"


def status(
    projection: Projection,
    link: "Link | None",
    cursor: Key | None,
    file: FileBlock | None,
    in_files: bool,
    news: str,
    width: int,
) -> list[Span]:
    """What the cursor is on, or the news."""
    if news:
        return row([piece(clean_line(news), "text", cut="right")], [], width)
    if in_files and file is not None:
        count = len(file.touches)
        words = f"{file.shown} · {count} touch{'es' * (count != 1)}"
        return row([piece(words, "text", cut="left")], [], width)
    if link is None:
        return row([], [], width)
    if link.key == TOOLS_KEY:
        return row([piece("The tool schemas go with every request.", "text", cut="right")], [], width)
    signs = marks(projection, link.index)
    spans: list[Span] = [
        (f"{link.index} ", "bold"),
        *signs,
        (f" {fate_words(projection, link.index)}", "text"),
    ]
    group = projection.group(link.index)
    parts = [Piece(tuple(spans), cut="right")]
    if len(group) > 1:
        parts.append(piece(f"tool group {group[0]}–{group[-1]}", "muted", rank=1))
    entry = projection.entry(link.index)
    at = entry.at if entry is not None else None
    right = [piece(f"{at.astimezone():%Y-%m-%d %H:%M:%S}", "muted", rank=2)] if at is not None else []
    if cursor is not None and row_of(cursor) != cursor:
        parts.append(piece("inside it: Enter closes", "muted", rank=3))
    return row(parts, right, width)


def hints_row(width: int, pairs: Sequence[tuple[str, str]]) -> list[Span]:
    """The keys that work now; the last two stand at the right end."""
    parts = [
        Piece(((name, "accent"), (f" {word}", "muted")), rank=rank, gap=2)
        for rank, (name, word) in enumerate(pairs)
    ]
    *left, help_, close = parts
    return row(
        left, [replace(help_, rank=1), replace(close, rank=0)], width
    )  # help stays: it names what had no room
