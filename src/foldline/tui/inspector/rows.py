"""The rows of History and LLM view: one block an entry or item, formatted when it is drawn and not before."""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.context import numbers
from foldline.context.outline import CompactionOutline, MessageOutline, Outline, has_failed
from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.context.weight import Weight, entry_weight, item_weight
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    Entry,
    Revert,
    ToolResultMessage,
    Undo,
)
from foldline.tui.blocks import (
    Block,
    Column,
    Key,
    RowBlock,
    RuleBlock,
    Span,
    Styles,
    clean_line,
    cut_left,
    cut_right,
)
from foldline.tui.inspector.asides import aside_kind, aside_text, aside_words
from foldline.tui.inspector.bodies import body_blocks
from foldline.tui.inspector.markers import MarkerRow, marker_label
from foldline.tui.inspector.places import DIVIDER_KEY, TOOLS_KEY, row_key
from foldline.tui.inspector.summaries import summary_preview, summary_words
from foldline.tui.inspector.text import (
    call_of,
    call_title,
    first_words,
    full_text,
    kind_of,
    message_words,
    short_path,
)

_KIND: Final = 8
"""Cells of the kind column."""
_TOKENS: Final = 6
_LEAST_TITLE: Final = 5
"""Cells a call keeps for its title: the name and the outcome go first."""


@dataclass(frozen=True, slots=True)
class Source:
    """What rows are drawn from."""

    projection: Projection
    cwd: str = ""
    """Paths below it are shown relative to it."""


@dataclass(frozen=True, slots=True, eq=False)
class EntryRow(Block):
    """A message of the history, with its own weight. It is fetched when it is drawn."""

    source: Source
    outline: MessageOutline

    @property
    def message(self) -> BaseMessage:
        return self.source.projection.entries.message(self.outline)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        weight = entry_weight(self.source.projection, self.message)
        return _row(self.key, self.source, self.message, weight, width, styles)

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return full_text(self.source.projection, self.message)


@dataclass(frozen=True, slots=True, eq=False)
class ItemRow(Block):
    """A message of the view, with the weight of what is sent of it."""

    source: Source
    item: ViewItem

    def render(self, width: int, styles: Styles) -> list[Strip]:
        weight = item_weight(self.source.projection, self.item)
        if self.item.written:
            words = [(summary_words(self.source.projection, self.item), "text")]
            return _line(self.key, [("summary ", "folded")], words, weight, width, styles)
        return _row(self.key, self.source, self.item.message, weight, width, styles, self.item.fate)

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return full_text(self.source.projection, self.item.message)


@dataclass(frozen=True, slots=True, eq=False)
class AsideRow(Block):
    """An entry that was never meant for the model. It is fetched when it is drawn."""

    source: Source

    @property
    def entry(self) -> Entry:
        entry = self.source.projection.entry(self.key[0])
        assert entry is not None, "a row is of an entry"
        return entry

    def render(self, width: int, styles: Styles) -> list[Strip]:
        entry = self.entry
        lead = ((f"{aside_kind(entry):<{_KIND}}", "muted"),)
        return RowBlock(self.key, lead, (aside_words(entry),)).render(width, styles)

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return f"{aside_kind(self.entry)} {aside_text(self.entry)}"


def history_rows(
    projection: Projection,
    *,
    start: int = 0,
    stop: int | None = None,
    cwd: str = "",
    wanted: Callable[[Outline], bool] = lambda outline: not is_aside(outline),
) -> list[Block]:
    """A row for each wanted entry between two positions: messages, view-changing markers as rules, and
    asides (requests, notices, checkpoints, titles, edits), which are not wanted unless that is said."""
    source = Source(projection, cwd)
    outlines = projection.entries.outlines[start:stop]
    return [history_row(source, outline) for outline in outlines if wanted(outline)]


def history_row(source: Source, entry: Outline) -> Block:
    """The row of the entry of this outline."""
    match entry:
        case MessageOutline():
            return EntryRow(row_key(entry.index), source, entry)
        case CompactionOutline() | Revert() | Clear() | Undo():
            label = marker_label(source.projection, entry)
            return MarkerRow(row_key(entry.index), source.projection, entry, label)
        case _:
            return AsideRow(row_key(entry.index), source)


def is_aside(entry: Outline) -> bool:
    """Whether an entry was never meant for the model, and changes the view by no more than an entry."""
    return not isinstance(entry, MessageOutline | CompactionOutline | Revert | Clear | Undo)


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
    wanted: Callable[[ViewItem], bool] = lambda _: True,
) -> list[Block]:
    """The rows of the view's wanted items between two positions, a summary opened to a few lines.

    `items` is the view, where that is not the one of now.
    `overhead` is the weight of the tool schemas: they have the first row. `opened` rows show all they hold.
    `names` are the names of a file whose lines in a summary are marked. `divider` is the position of the
    first new item and the rule above it.
    """
    source = Source(projection, cwd)
    rows: list[Block] = []
    if start == 0 and overhead:
        rows.append(tools_row(projection, overhead))
    for position, item in enumerate((projection.view if items is None else items)[start:stop], start):
        if divider is not None and divider[0] == position:
            brief = divider[1].rpartition(" · ")[2]
            rows.append(RuleBlock(DIVIDER_KEY, divider[1], "muted", brief=brief, stop=False))
        if wanted(item):
            rows += item_rows(source, item, opened, names)
    return rows


def item_rows(
    source: Source, item: ViewItem, opened: Container[Key], names: tuple[str, ...]
) -> Iterator[Block]:
    """The row of an item and what is open below it."""
    key = row_key(*item.key)
    yield ItemRow(key, source, item)
    if key in opened:
        yield from body_blocks(source.projection, item.message, key)
    elif item.written:
        yield summary_preview(key, item.message.text, names)


def tools_row(projection: Projection, overhead: int) -> Block:
    """What the tool schemas weigh. `overhead` is an estimate before calibration."""
    weight = round(overhead * projection.calibration.scale(projection.model))
    tokens = Column(numbers.tokens(weight, estimated=True), _TOKENS, "muted", space=1)
    return RowBlock(TOOLS_KEY, (("tools   ", "muted"),), (("tool schemas", "text"),), (tokens,))


def opened_body(projection: Projection, row: Block) -> list[Block]:
    """The pieces below an opened row; none for a row that holds no more than it shows."""
    match row:
        case EntryRow(message=message):
            return body_blocks(projection, message, row.key)
        case ItemRow(item=item):
            return body_blocks(projection, item.message, row.key)
        case MarkerRow(marker=CompactionOutline(index=index)):
            fold = projection.entry(index)
            has_text = isinstance(fold, Compaction) and fold.summary
            return body_blocks(projection, fold, row.key) if fold is not None and has_text else []
        case MarkerRow(marker=Revert(message=str()) as marker):
            return body_blocks(projection, marker, row.key)
        case AsideRow(entry=entry):
            return body_blocks(projection, entry, row.key)
        case _:
            return []


def is_prompt(block: Block) -> bool:
    """Whether a row is something the user asked."""
    match block:
        case EntryRow(outline=outline):
            return _is_asked(outline)
        case ItemRow(item=item):
            return _is_asked(item.outline)
        case _:
            return False


def _is_asked(outline: MessageOutline) -> bool:
    return outline.type == "user" and outline.origin != "machine"


def is_fold(block: Block) -> bool:
    """Whether a row is a compaction, or a summary in the view."""
    match block:
        case MarkerRow(marker=CompactionOutline()):
            return True
        case ItemRow(item=item):
            return item.written
        case _:
            return False


def _row(
    key: Key,
    source: Source,
    message: BaseMessage,
    weight: Weight,
    width: int,
    styles: Styles,
    fate: str = "live",
) -> list[Strip]:
    if isinstance(message, ToolResultMessage):
        return _result_row(key, source, message, weight, width, styles, fate)
    words, style = message_words(message)
    if not words and isinstance(message, AssistantMessage):
        words, style = "empty", "muted"
    kind = kind_of(message)
    bold = "bold" if message.type == "user" else "muted"
    return _line(key, [(f"{kind:<{_KIND}}", bold)], [(words, style)], weight, width, styles)


def _result_row(
    key: Key, source: Source, result: ToolResultMessage, weight: Weight, width: int, styles: Styles, fate: str
) -> list[Strip]:
    """`├ bash  pytest -q   31 passed`: the name and the outcome stay, the title is shortened."""
    group = source.projection.group(result.index)
    branch = "·" if len(group) == 1 else "└" if group[-1] == result.index else "├"
    name = clean_line(result.name)[:24]
    lead: list[Span] = [(f"{branch} ", "muted"), (f"{name:<5} ", "text")]
    title, is_path = call_title(call_of(source.projection, result), source.cwd)
    if not title and result.details.files:
        title, is_path = clean_line(short_path(result.details.files[0].path, source.cwd)), True
    brief = clean_line(result.details.brief)
    if fate == "hidden":
        brief, title = "", f"[hidden: {', '.join(part for part in (title, brief) if part)}]"
    elif fate == "clipped":
        brief = f"{brief}, clipped" if brief else "clipped"
    failed = has_failed(result)
    if failed and fate != "hidden":
        brief = brief if brief.endswith("✗") else f"{brief or 'failed'} ✗"
    room = width - cell_len(lead[0][0]) - cell_len(lead[1][0]) - _TOKENS - 1
    gap = 3 if room - cell_len(brief) - 3 >= _LEAST_TITLE else 1
    room -= cell_len(brief) + gap if brief else 0
    if not title:
        title = first_words(result.text) if not brief else ""
    shown = (cut_left if is_path else cut_right)(title, max(room, _LEAST_TITLE))
    main: list[Span] = [(shown, "text")] if shown else []
    if brief:
        main += [(" " * gap if shown else "", ""), *_brief_spans(brief, failed)]
    return _line(key, lead, main, weight, width, styles)


def _brief_spans(brief: str, failed: bool) -> list[Span]:
    """An outcome in its colours: lines added and removed, a failure, anything else."""
    if failed:
        return [(brief, "alert")]
    added, minus, removed = brief.partition(" −")
    if added.startswith("+") and added[1:].isdigit():
        return [(added, "live"), *([(minus + removed, "alert")] if minus else [])]
    return [(brief, "muted")]


def _line(
    key: Key, lead: list[Span], main: list[Span], weight: Weight, width: int, styles: Styles
) -> list[Strip]:
    """Kind, words, and the tokens at the right end."""
    tokens = numbers.tokens(weight.tokens, estimated=weight.estimated)
    column = Column(tokens, _TOKENS, "muted", space=1)
    return RowBlock(key, tuple(lead), tuple(main), (column,)).render(width, styles)
