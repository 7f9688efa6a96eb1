"""The rows of History and LLM view: one block an entry or item, formatted when it is drawn and not before."""

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.context.outline import MessageOutline, Outline
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
    UserMessage,
    Written,
)
from foldline.tui import numbers
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
from foldline.tui.blocks.cells import to_strip
from foldline.tui.inspector.bodies import body_blocks
from foldline.tui.inspector.places import DIVIDER_KEY, TOOLS_KEY, is_undone, preview_key, row_key
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
PREVIEW_LINES: Final = 6
"""Lines of a summary that show while it is closed."""

Marker = Compaction | Revert | Clear | Undo


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
            words = [(_summary_words(self.source.projection, self.item), "text")]
            return _line(self.key, [("summary ", "folded")], words, weight, width, styles)
        return _row(self.key, self.source, self.item.message, weight, width, styles, self.item.fate)

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return full_text(self.source.projection, self.item.message)


@dataclass(frozen=True, slots=True, eq=False)
class MarkerRow(Block):
    """A compaction, rewind, clear or undo: a rule across the panel."""

    marker: Entry
    label: str
    wide: bool = field(default=True, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        name, *more = self.label.split(" · ")
        # Where there is no room for all of it, the reason of a fold goes, and its sizes stay.
        brief = " · ".join([name, *more[1:]]) if isinstance(self.marker, Compaction) else ""
        return RuleBlock(self.key, self.label, align="centre", brief=brief).render(width, styles)

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        more = self.marker.summary if isinstance(self.marker, Compaction) else ""
        return f"{self.label}\n{more}"


@dataclass(frozen=True, slots=True, eq=False)
class SummaryPreview(Block):
    """The first lines of a closed summary. Where it names the file of the other panel's cursor, those lines
    come in the place of the last ones; the height stays the same."""

    lines: tuple[str, ...]
    marked: frozenset[int]
    """Lines that name the file: the gutter gives them `▷`."""
    more: int
    stop: bool = field(default=False, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        shown: list[list[Span]] = [[(cut_right(line, width - 2), "text")] for line in self.lines]
        if self.more:
            more = f"… {self.more} more line{'s' * (self.more > 1)}, Enter opens"
            shown.append([(cut_right(more, width - 2), "muted")])
        return [to_strip([("┊ ", "folded deco"), *line], styles) for line in shown]

    def estimate(self, width: int) -> int:
        return len(self.lines) + bool(self.more)

    def text(self) -> str:
        return ""


def history_rows(
    projection: Projection, *, start: int = 0, stop: int | None = None, cwd: str = ""
) -> list[Block]:
    """A row for each entry between two positions: messages, and view-changing markers as rules. Asides
    (requests, notices, checkpoints, titles, edits) have none."""
    source = Source(projection, cwd)
    outlines = projection.entries.outlines[start:stop]
    return [row for outline in outlines if (row := history_row(source, outline)) is not None]


def history_row(source: Source, entry: Outline) -> Block | None:
    """The row of the entry of this outline; None for an aside."""
    match entry:
        case MessageOutline():
            return EntryRow(row_key(entry.index), source, entry)
        case Compaction() | Revert() | Clear() | Undo():
            return MarkerRow(row_key(entry.index), entry, marker_label(source.projection, entry))
        case _:
            return None


def marker_label(projection: Projection, marker: Marker) -> str:
    """What the rule of a marker says: `373 compaction · threshold · 116.2k → 27.4k`."""
    parts: list[str]
    match marker:
        case Compaction():
            parts = [f"{marker.index} compaction", marker.reason]
            if marker.tokens_before and marker.tokens_after:
                parts.append(
                    f"{numbers.tokens(marker.tokens_before)} → {numbers.tokens(marker.tokens_after)}"
                )
            elif marker.tokens_before:
                parts.append(f"from {numbers.tokens(marker.tokens_before)}")
            if is_undone(projection, marker.index):
                parts.append("undone")
        case Revert():
            what = "rewind" if marker.message is None else "D-Mail"
            parts = [f"{marker.index} {what}{_before(projection, marker)}"]
            if marker.files:
                parts.append("files restored")
        case Clear():
            parts = [f"{marker.index} clear"]
        case Undo():
            parts = [f"{marker.index} undo of {marker.target}"]
    return clean_line(" · ".join(parts))


def _before(projection: Projection, revert: Revert) -> str:
    """` to before 386`: the first entry that a rewind took away."""
    checkpoint = projection.checkpoint(revert.checkpoint)
    if checkpoint is None:
        return ""
    for entry in projection.after(checkpoint, 100):
        if isinstance(entry, BaseMessage) and entry.index != revert.kept:
            return f" to before {entry.index}"
    return ""


def view_rows(
    projection: Projection,
    overhead: int = 0,
    *,
    start: int = 0,
    stop: int | None = None,
    cwd: str = "",
    opened: Container[Key] = (),
    names: tuple[str, ...] = (),
    divider: tuple[int, str] | None = None,
) -> list[Block]:
    """The rows of the view's items between two positions, a summary opened to a few lines.

    `overhead` is the weight of the tool schemas: they have the first row. `opened` rows show all they hold.
    `names` are the names of a file whose lines in a summary are marked. `divider` is the position of the
    first new item and the rule above it.
    """
    source = Source(projection, cwd)
    rows: list[Block] = []
    if start == 0 and overhead:
        rows.append(tools_row(projection, overhead))
    for position, item in enumerate(projection.view[start:stop], start):
        if divider is not None and divider[0] == position:
            brief = divider[1].rpartition(" · ")[2]
            rows.append(RuleBlock(DIVIDER_KEY, divider[1], "muted", brief=brief, stop=False))
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


def summary_preview(row: Key, text: str, names: tuple[str, ...]) -> SummaryPreview:
    """The closed summary at `row`. Always as high, whatever `names` it is asked for."""
    lines = [words for line in text.split("\n") if (words := first_words(line))]
    shown = list(range(min(len(lines), PREVIEW_LINES)))
    naming = [at for at, line in enumerate(lines) if any(name in line for name in names)]
    wanted = [at for at in naming if at not in shown][: max(PREVIEW_LINES - 3, 0)]
    if wanted and not any(at in shown for at in naming):
        shown = [*shown[: len(shown) - len(wanted)], *wanted]
    return SummaryPreview(
        preview_key(row),
        tuple(lines[at] for at in shown),
        frozenset(number for number, at in enumerate(shown) if at in naming),
        len(lines) - len(shown),
    )


def opened_body(projection: Projection, row: Block) -> list[Block]:
    """The pieces below an opened row; none for a row that holds no more than it shows."""
    match row:
        case EntryRow(message=message):
            return body_blocks(projection, message, row.key)
        case ItemRow(item=item):
            return body_blocks(projection, item.message, row.key)
        case MarkerRow(marker=Compaction(summary=text) as marker) if text:
            return body_blocks(projection, marker, row.key)
        case MarkerRow(marker=Revert(message=str()) as marker):
            return body_blocks(projection, marker, row.key)
        case _:
            return []


def is_prompt(block: Block) -> bool:
    """Whether a row is something the user asked."""
    match block:
        case EntryRow(message=UserMessage() as message):
            return message.origin != "machine"
        case ItemRow(item=item):
            return isinstance(item.message, UserMessage) and item.message.origin != "machine"
        case _:
            return False


def is_fold(block: Block) -> bool:
    """Whether a row is a compaction, or a summary in the view."""
    match block:
        case MarkerRow(marker=Compaction()):
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
    key: Key,
    source: Source,
    result: ToolResultMessage,
    weight: Weight,
    width: int,
    styles: Styles,
    fate: str,
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
    failed = result.is_error or (brief.startswith("exit ") and not brief.startswith("exit 0"))
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


def _summary_words(projection: Projection, item: ViewItem) -> str:
    """`of 118 and 119–351, 123 entries`: what a summary stands for."""
    inputs = _inputs(projection, item)
    spans = [f"{first}–{last}" if last > first else str(first) for first, last in item.covers]
    count = sum(_covered(projection, item))
    named = [*map(str, inputs), *_abridged(spans)]
    of = " and ".join(filter(None, (", ".join(named[:-1]), named[-1]))) if named else ""
    entries = f"{count} entr{'y' if count == 1 else 'ies'}" if count else ""
    return ("of " if of else "") + ", ".join(part for part in (of, entries) if part)


def _abridged(spans: Sequence[str]) -> Sequence[str]:
    return spans if len(spans) <= 3 else (spans[0], "…", spans[-1])


def _inputs(projection: Projection, item: ViewItem) -> tuple[int, ...]:
    fold = projection.entry(item.index)
    if not isinstance(fold, Compaction):
        return ()
    written = [piece for piece in fold.head if isinstance(piece, Written)]
    nth = item.key[1]
    return written[nth].inputs if nth < len(written) else ()


def _covered(projection: Projection, item: ViewItem) -> Iterable[bool]:
    outlines = projection.entries.outlines
    for first, last in item.covers:
        at = bisect_left(outlines, first, key=lambda outline: outline.index)
        while at < len(outlines) and outlines[at].index <= last:
            if isinstance(outlines[at], MessageOutline):
                fate = projection.fate(outlines[at].index)
                yield fate.kind == "summarised" and fate.by == item.index
            at += 1
