"""The rows of entries and view items, and their gutters.

Rows are rendered only when they are drawn.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.memory.language import within_frame
from foldline.past.describe import (
    Description,
    Tone,
    call_of,
    describe,
    entry_text,
    first_words,
    kind_name,
    size_words,
    summary_words,
)
from foldline.protocol import (
    BaseMessage,
    Clear,
    Compaction,
    Entry,
    Revert,
    Subagent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Undo,
)
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.plain import RowBlock, RowColumn, RuleBlock
from foldline.tui.browser.panels.bodies import body_blocks
from foldline.tui.browser.panels.entry_list import (
    DIVIDER_KEY,
    TOOLS_KEY,
    preview_key,
    row_key,
)
from foldline.tui.browser.panels.states import row_index, sharer
from foldline.tui.look.cells import (
    Span,
    Spans,
    cut_left,
    cut_right,
    cut_words,
    to_strip,
    width_of,
)
from foldline.tui.look.styles import Styles
from foldline.view.budget import Size
from foldline.view.items import ViewItem
from foldline.view.outline import CompactionOutline, MessageOutline, Outline
from foldline.view.projection import Projection
from foldline.view.weight import entry_weight, item_weight, together

Marker = CompactionOutline | Revert | Clear | Undo
"""An entry that changed earlier parts of the view."""
_STYLES: Final[dict[Tone, str]] = {
    "text": "text",
    "thought": "muted italic",
    "muted": "muted",
    "alert": "alert",
}
_KIND: Final = 8
"""Width of the kind column, in cells."""
_TOKENS: Final = 6
"""Width of the token column, in cells."""
_LEAST_TITLE: Final = 5
"""Minimum width of a shortened call title, in cells."""
PREVIEW_LINES: Final = 6
"""Maximum number of lines in the preview of a collapsed summary."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """The history from which rows are drawn.

    Paths below `cwd` are shown relative to it.
    """

    projection: Projection
    cwd: str = ""


class _SingleLineBlock(Block):
    """A block consisting of one line."""

    __slots__ = ()

    def estimate(self, width: int) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class EntryRow(_SingleLineBlock):
    """The row of a message in History.

    The message's text and size are read only when the row is drawn.
    """

    source: RowSource
    outline: MessageOutline
    caller: MessageOutline | None = field(default=None, kw_only=True)
    """A response that is also shown in this row, because it contains calls but no text."""

    @property
    def message(self) -> BaseMessage:
        return self.source.projection.entries.message(self.outline)

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        message = self.message
        projection = self.source.projection
        weighed = [message]
        shares = self.caller is not None
        if self.caller is not None:
            weighed.append(projection.entries.message(self.caller))
        weight = together(entry_weight(projection, part) for part in weighed)
        row = message_row(self.key, self.source, message, weight, width, shares=shares)
        return row.render(width, styles)

    def text(self) -> str:
        return full_text(self.source.projection, self.message)


@dataclass(frozen=True, slots=True, eq=False)
class ItemRow(_SingleLineBlock):
    """The row of a view item, with its size."""

    source: RowSource
    item: ViewItem
    caller: ViewItem | None = field(default=None, kw_only=True)
    """A response that is also shown in this row."""

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        projection = self.source.projection
        item = self.item
        weighed = [item] if self.caller is None else [item, self.caller]
        weight = together(item_weight(projection, part) for part in weighed)
        if item.written:
            lead = (("summary ", "compacted"),)
            words = ((summary_words(projection, item), "text"),)
            return weighed_row(self.key, lead, words, weight).render(width, styles)
        row = message_row(
            self.key,
            self.source,
            item.message,
            weight,
            width,
            item.fate,
            shares=self.caller is not None,
        )
        return row.render(width, styles)

    def text(self) -> str:
        return full_text(self.source.projection, self.item.message)


@dataclass(frozen=True, slots=True, eq=False)
class NoteRow(_SingleLineBlock):
    """The row of a system note: an entry that is never sent to the model."""

    source: RowSource

    @property
    def entry(self) -> Entry:
        entry = self.source.projection.entry(self.key[0])
        assert entry is not None, "every row has an entry"
        return entry

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        description = describe(self.source.projection, self.entry)
        lead = ((f"{description.kind:<{_KIND}}", "muted"),)
        main = ((description.title, _STYLES[description.tone]),)
        return RowBlock(self.key, lead, main).render(width, styles)

    def text(self) -> str:
        entry = self.entry
        return f"{kind_name(entry.type)} {entry_text(self.source.projection, entry)}"


@dataclass(frozen=True, slots=True, eq=False)
class MarkerRow(_SingleLineBlock):
    """The row of a compaction, rewind, clear or undo, drawn as a rule across the panel."""

    projection: Projection
    marker: Marker
    label: str
    wide: bool = field(default=True, kw_only=True)

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        briefs: tuple[str, ...] = ()
        if isinstance(self.marker, CompactionOutline):
            # A shorter label without the reason.
            name, _, *sizes = self.label.split(" · ")
            briefs = (" · ".join([name, *sizes]),)
        return RuleBlock(self.key, self.label, align="centre", briefs=briefs).render(
            width, styles
        )

    def text(self) -> str:
        summary = ""
        if isinstance(self.marker, CompactionOutline):
            entry = self.projection.entry(self.marker.index)
            summary = entry.summary if isinstance(entry, Compaction) else ""
        return f"{self.label}\n{summary}"


@dataclass(frozen=True, slots=True, eq=False)
class SummaryPreview(Block):
    """The first lines of a collapsed summary.

    Lines that name the selected file are shown in place of the last lines, so the height stays the same.
    """

    lines: tuple[str, ...]
    marked: frozenset[int]
    """Numbers of the lines that name the selected file and are marked `▷` in the gutter."""
    more: int
    stop: bool = field(default=False, kw_only=True)

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        lines = [(cut_right(line, width - 2), "text") for line in self.lines]
        if self.more:
            more = f"… {many(self.more, 'more line')}, Enter opens"
            lines.append((cut_right(more, width - 2), "muted"))
        return [to_strip([("┊ ", "compacted deco"), line], styles) for line in lines]

    def estimate(self, width: int) -> int:
        return len(self.lines) + bool(self.more)

    def text(self) -> str:
        return ""


# --- Making rows ------------------------------------------------------------------------------------------


def is_note(entry: Outline) -> bool:
    """Whether an entry is a system note."""
    return not isinstance(
        entry, MessageOutline | CompactionOutline | Revert | Clear | Undo | Subagent
    )


def history_rows(
    projection: Projection,
    *,
    start: int = 0,
    stop: int | None = None,
    cwd: str = "",
    wanted: Callable[[Outline], bool] = lambda outline: not is_note(outline),
) -> list[Block]:
    """Return the rows of the entries between two positions.

    By default, system notes are left out.
    """
    source = RowSource(projection, cwd)
    rows: list[Block] = []
    for outline in projection.entries.outlines[start:stop]:
        index = outline.index
        if not wanted(outline):
            continue
        shared_index = row_index(projection, index)
        if shared_index != index:
            result = projection.outline(shared_index)
            if result is not None and wanted(result):
                continue
        caller_index = sharer(projection, index)
        caller = None if caller_index is None else projection.outline(caller_index)
        if not isinstance(caller, MessageOutline) or not wanted(caller):
            caller = None
        rows.append(_history_row(source, outline, caller))
    return rows


def _history_row(
    source: RowSource, entry: Outline, caller: MessageOutline | None
) -> Block:
    key = row_key(entry.index)
    match entry:
        case MessageOutline():
            return EntryRow(key, source, entry, caller=caller)
        case CompactionOutline() | Revert() | Clear() | Undo():
            return MarkerRow(
                key, source.projection, entry, marker_label(source.projection, entry)
            )
        case _:
            return NoteRow(key, source)


def view_rows(
    projection: Projection,
    overhead: int = 0,
    *,
    items: Sequence[ViewItem] | None = None,
    start: int = 0,
    stop: int | None = None,
    cwd: str = "",
    opened: Container[Key] = (),
    names: tuple[str, ...] = (),
    divider: tuple[int, str] | None = None,
) -> list[Block]:
    """Return the rows of the view items between two positions.

    Args:
        overhead: estimated size of the tool schemas, in tokens before calibration; 0 omits the row for them.
        items: the view; the default is the current view.
        opened: the expanded rows.
        names: the names of a file; summary lines that contain any of them are marked.
        divider: the position of the first new item, and the label of the rule above it.
    """
    source = RowSource(projection, cwd)
    rows: list[Block] = []
    if start == 0 and overhead:
        weight = Size(round(overhead * projection.meter.scale), True)
        tools = weighed_row(
            TOOLS_KEY, (("tools   ", "muted"),), (("tool schemas", "text"),), weight
        )
        rows.append(tools)
    view = projection.view if items is None else items
    for position, item in enumerate(view[start:stop], start):
        if divider is not None and divider[0] == position:
            briefs = (divider[1].rpartition(" · ")[2],)
            rows.append(
                RuleBlock(DIVIDER_KEY, divider[1], "muted", briefs=briefs, stop=False)
            )
        if not shares_row(projection, view, position + 1):
            shares = shares_row(projection, view, position)
            caller = view[position - 1] if shares else None
            rows += item_rows(source, item, opened, names, caller)
    return rows


def shares_row(projection: Projection, view: Sequence[ViewItem], position: int) -> bool:
    """Whether the item at this position shares a row with the preceding item."""
    if not 0 < position < len(view):
        return False
    caller, item = view[position - 1 : position + 1]
    return sharer(projection, item.index) == caller.index


def item_rows(
    source: RowSource,
    item: ViewItem,
    opened: Container[Key],
    names: tuple[str, ...],
    caller: ViewItem | None = None,
) -> Iterator[Block]:
    """Yield the row of an item, and the blocks below it."""
    key = row_key(*item.key)
    yield ItemRow(key, source, item, caller=caller)
    if key in opened:
        yield from body_blocks(source.projection, item.message, key)
    elif item.written:
        yield summary_preview(key, item.message.text, names)


def opened_body(projection: Projection, row: Block) -> list[Block]:
    """Return the blocks below an expanded row.

    The result is empty if the row itself already shows everything.
    """
    entry: Entry | None = None
    match row:
        case EntryRow() as entry_row:
            entry = entry_row.message
        case NoteRow() as note_row:
            entry = note_row.entry
        case ItemRow(item=item):
            entry = item.message
        case MarkerRow(marker=CompactionOutline(index=index)):
            compaction = projection.entry(index)
            entry = (
                compaction
                if isinstance(compaction, Compaction) and compaction.summary
                else None
            )
        case MarkerRow(marker=Revert() as revert) if revert.text:
            entry = revert
    return [] if entry is None else body_blocks(projection, entry, row.key)


def is_prompt(block: Block) -> bool:
    """Whether a row is a user prompt."""
    match block:
        case EntryRow(outline=outline) | ItemRow(item=ViewItem(outline=outline)):
            return outline.type == "user" and outline.origin != "machine"
        case _:
            return False


def is_compaction(block: Block) -> bool:
    """Whether a row is a compaction, or a summary in the view."""
    match block:
        case MarkerRow(marker=CompactionOutline()):
            return True
        case ItemRow(item=item):
            return item.written
        case _:
            return False


# --- Summaries --------------------------------------------------------------------------------------------


def summary_preview(row: Key, text: str, names: tuple[str, ...]) -> SummaryPreview:
    """Return the preview of a summary.

    It consists of the first lines and some lines that contain any of `names`.
    """
    # Without the standard text around a summary, which is the same in all sessions.
    lines = list(filter(None, map(first_words, within_frame(text).split("\n"))))
    shown = list(range(min(len(lines), PREVIEW_LINES)))
    naming = [
        number
        for number, line in enumerate(lines)
        if any(name in line for name in names)
    ]
    if naming and naming[0] not in shown:
        last = naming[: PREVIEW_LINES - 3]
        shown = [*shown[: len(shown) - len(last)], *last]
    return SummaryPreview(
        preview_key(row),
        tuple(lines[number] for number in shown),
        frozenset(place for place, number in enumerate(shown) if number in naming),
        len(lines) - len(shown),
    )


# --- One line ---------------------------------------------------------------------------------------------


def weighed_row(key: Key, lead: Spans, main: Spans, weight: Size) -> RowBlock:
    """Return a row with a size on its right."""
    tokens = size_words(weight)
    return RowBlock(key, lead, main, (RowColumn(tokens, _TOKENS, "muted", space=1),))


def message_row(
    key: Key,
    source: RowSource,
    message: BaseMessage,
    weight: Size,
    width: int,
    fate: str = "live",
    *,
    shares: bool,
) -> RowBlock:
    """Return the row of a message: `user    read …/cut.py` or `├ bash  pytest -q   31 passed`.

    Only the title is shortened.

    Args:
        width: the width of the row, in cells.
        fate: state of the message in the displayed view.
        shares: whether a result's row also represents its call, so that no line leads up from the row.
    """
    description = describe(source.projection, message, source.cwd)
    kind_style = "bold" if message.type == "user" else "muted"
    lead: Spans = ((f"{description.kind:<{_KIND}}", kind_style),)
    cut = cut_words
    if isinstance(message, ToolResultMessage):
        branch = _branch(source.projection, message.index, shares)
        lead = ((f"{branch} ", "muted"), (f"{description.kind:<5} ", "text"))
        cut = cut_right
    if description.is_path:
        cut = cut_left
    room = width - width_of(lead) - _TOKENS - 1
    main = tuple(_title_and_outcome(description, fate, room, cut))
    return weighed_row(key, lead, main, weight)


def _title_and_outcome(
    description: Description, fate: str, room: int, cut: Callable[[str, int], str]
) -> Iterator[Span]:
    """Yield the title, cut to fit, and the outcome."""
    title = description.title
    outcome = description.outcome
    is_hidden = fate == "hidden"
    if is_hidden:
        title = ", ".join(filter(None, (title, outcome)))
        outcome = ""
        room -= cell_len("[hidden: ]")
    elif fate == "clipped":
        outcome = ", ".join(filter(None, (outcome, "clipped")))
    gap = 3 if room - cell_len(outcome) - 3 >= _LEAST_TITLE else 1
    if outcome:
        room -= cell_len(outcome) + gap
    title = cut(title, max(room, _LEAST_TITLE))
    if title:
        shown = f"[hidden: {title}]" if is_hidden else title
        yield shown, _STYLES[description.tone]
        if outcome:
            yield " " * gap, ""
    if outcome:
        yield from _outcome(outcome, description.failed)


def _branch(projection: Projection, index: int, shares: bool) -> str:
    """Return the line character that connects the results of a response."""
    group = projection.group(index)
    if len(group) == 1:
        return "·"
    is_last = group[-1] == index
    if shares:
        return "─" if is_last else "┌"
    return "└" if is_last else "├"


def full_text(projection: Projection, message: BaseMessage) -> str:
    """Return all searchable text of a message."""
    parts: list[str] = []
    if isinstance(message, ToolResultMessage):
        call = call_of(projection, message)
        parts += [message.name, call.arguments if call else "", message.details.brief]
    for part in message.parts:
        match part:
            case TextPart() | ThinkingPart():
                parts.append(part.text)
            case ToolCallPart():
                parts.append(f"{part.name} {part.arguments}")
            case _:
                pass
    return "\n".join(parts)


def marker_label(projection: Projection, marker: Marker) -> str:
    """Return the label of a marker: `373 compaction · threshold · 116.2k → 27.4k`."""
    description = describe(projection, marker)
    return f"{marker.index} {description.kind} · {description.title}"


def _outcome(brief: str, failed: bool) -> list[Span]:
    """Return the styled outcome of a call: a failure, numbers of lines, or other text."""
    if failed:
        return [(brief, "alert")]
    added, minus, removed = brief.partition(" −")
    if added.startswith("+") and added[1:].isdigit():
        return [(added, "live"), *([(minus + removed, "alert")] if minus else [])]
    return [(brief, "muted")]
