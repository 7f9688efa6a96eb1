"""The rows of entries and of items of the view, formatted when they are drawn, and their gutter."""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.language import within_frame
from foldline.context.numbers import many
from foldline.context.outline import CompactionOutline, MessageOutline, Outline, has_failed
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW, ViewItem
from foldline.context.weight import Weight, entry_weight, item_weight, together
from foldline.protocol import (
    BaseMessage,
    Clear,
    Compaction,
    Entry,
    Revert,
    Subagent,
    ToolResultMessage,
    Undo,
)
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Piece, Span, Spans, cut_left, cut_right, cut_words, piece, row, to_strip
from foldline.tui.blocks.plain import Column, RowBlock, RuleBlock
from foldline.tui.blocks.styles import Styles
from foldline.tui.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.tui.panels.bodies import body_blocks
from foldline.tui.panels.entry_list import DIVIDER_KEY, TOOLS_KEY, preview_key, row_key, row_of
from foldline.tui.panels.states import row_index, sharer, signs, state_words
from foldline.tui.panels.words import (
    Marker,
    call_of,
    call_title,
    first_words,
    full_text,
    kind_of,
    marker_label,
    message_words,
    note_kind,
    note_text,
    note_words,
    short_path,
)

_KIND: Final = 8
"""Cells of the kind column."""
_TOKENS: Final = 6
_LEAST_TITLE: Final = 5
"""Cells a call keeps for its title: the name and the outcome go first."""
PREVIEW_LINES: Final = 6
"""Lines of a summary that show while it is closed."""


@dataclass(frozen=True, slots=True)
class Source:
    """What rows are drawn from; paths below `cwd` are shown relative to it."""

    projection: Projection
    cwd: str = ""


class _OneLine(Block):
    """A block of one line."""

    __slots__ = ()

    def estimate(self, width: int) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class EntryRow(_OneLine):
    """A message of the history, with its own weight. It is fetched when it is drawn."""

    source: Source
    outline: MessageOutline
    caller: MessageOutline | None = field(default=None, kw_only=True)
    """The answer of nothing but calls that this row stands for, too."""

    @property
    def message(self) -> BaseMessage:
        return self.source.projection.entries.message(self.outline)

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        message, projection = self.message, self.source.projection
        both = [message] if self.caller is None else [message, projection.entries.message(self.caller)]
        weight, shares = together(entry_weight(projection, each) for each in both), len(both) > 1
        return message_row(self.key, self.source, message, weight, shares=shares).render(width, styles)

    def text(self) -> str:
        return full_text(self.source.projection, self.message)


@dataclass(frozen=True, slots=True, eq=False)
class ItemRow(_OneLine):
    """A message of the view, with the weight of what is sent of it."""

    source: Source
    item: ViewItem
    caller: ViewItem | None = field(default=None, kw_only=True)
    """As of an `EntryRow`."""

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        projection, item, shares = self.source.projection, self.item, self.caller is not None
        weight = together(item_weight(projection, each) for each in (item, self.caller) if each is not None)
        if item.written:
            words = ((summary_words(projection, item), "text"),)
            return weighed_row(self.key, (("summary ", "folded"),), words, weight).render(width, styles)
        made = message_row(self.key, self.source, item.message, weight, item.fate, shares=shares)
        return made.render(width, styles)

    def text(self) -> str:
        return full_text(self.source.projection, self.item.message)


@dataclass(frozen=True, slots=True, eq=False)
class NoteRow(_OneLine):
    """A system note: an entry that was never meant for the model. It is fetched when it is drawn."""

    source: Source

    @property
    def entry(self) -> Entry:
        entry = self.source.projection.entry(self.key[0])
        assert entry is not None, "a row is of an entry"
        return entry

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        entry = self.entry
        lead = ((f"{note_kind(entry):<{_KIND}}", "muted"),)
        return RowBlock(self.key, lead, (note_words(entry),)).render(width, styles)

    def text(self) -> str:
        return f"{note_kind(self.entry)} {note_text(self.entry)}"


@dataclass(frozen=True, slots=True, eq=False)
class MarkerRow(_OneLine):
    """A compaction, rewind, clear or undo: a rule across the panel."""

    projection: Projection
    marker: Marker
    label: str
    wide: bool = field(default=True, kw_only=True)

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        name, *more = self.label.split(" · ")
        # Where there is no room for all of it, the reason of a compaction goes, and its sizes stay.
        briefs = (" · ".join([name, *more[1:]]),) if isinstance(self.marker, CompactionOutline) else ()
        return RuleBlock(self.key, self.label, align="centre", briefs=briefs).render(width, styles)

    def text(self) -> str:
        entry = (
            self.projection.entry(self.marker.index) if isinstance(self.marker, CompactionOutline) else None
        )
        return f"{self.label}\n{entry.summary if isinstance(entry, Compaction) else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class SummaryPreview(Block):
    """The first lines of a closed summary. Where it names the file of the other panel's cursor, those lines
    come in the place of the last ones; the height stays the same."""

    lines: tuple[str, ...]
    marked: frozenset[int]
    """Lines that name the file: the gutter gives them `▷`."""
    more: int
    stop: bool = field(default=False, kw_only=True)

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        shown = [(cut_right(line, width - 2), "text") for line in self.lines]
        if self.more:
            shown.append((cut_right(f"… {many(self.more, 'more line')}, Enter opens", width - 2), "muted"))
        return [to_strip([("┊ ", "folded deco"), line], styles) for line in shown]

    def estimate(self, width: int) -> int:
        return len(self.lines) + bool(self.more)

    def text(self) -> str:
        return ""


# --- Making rows ------------------------------------------------------------------------------------------


def is_note(entry: Outline) -> bool:
    """Whether an entry was never meant for the model, and changes the view by no more than an entry."""
    return not isinstance(entry, MessageOutline | CompactionOutline | Revert | Clear | Undo | Subagent)


def history_rows(
    projection: Projection,
    *,
    start: int = 0,
    stop: int | None = None,
    cwd: str = "",
    wanted: Callable[[Outline], bool] = lambda outline: not is_note(outline),
) -> list[Block]:
    """A row for each wanted entry between two positions: messages, markers as rules, and system notes, which
    are not wanted unless that is said. An answer of nothing but calls shares the row of its first result."""
    source = Source(projection, cwd)
    rows: list[Block] = []
    for outline in projection.entries.outlines[start:stop]:
        index = outline.index
        there = row_index(projection, index)
        result = projection.outline(there) if there != index else None
        if not wanted(outline) or (result is not None and wanted(result)):
            continue
        shares = sharer(projection, index)
        caller = None if shares is None else projection.outline(shares)
        said = caller if isinstance(caller, MessageOutline) and wanted(caller) else None
        rows.append(_history_row(source, outline, said))
    return rows


def _history_row(source: Source, entry: Outline, caller: MessageOutline | None) -> Block:
    key = row_key(entry.index)
    match entry:
        case MessageOutline():
            return EntryRow(key, source, entry, caller=caller)
        case CompactionOutline() | Revert() | Clear() | Undo():
            return MarkerRow(key, source.projection, entry, marker_label(source.projection, entry))
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
    wanted: Callable[[ViewItem], bool] = lambda _: True,
) -> list[Block]:
    """The rows of the view's wanted items between two positions, a summary opened to a few lines.

    Args:
        overhead: estimate of the tool schemas in tokens, before calibration: they have the first row.
        items: the view, where that is not the one of now.
        opened: rows that show all they hold.
        names: names of a file whose lines in a summary are marked.
        divider: position of the first new item, and the words of the rule above it.
    """
    source = Source(projection, cwd)
    rows: list[Block] = []
    if start == 0 and overhead:
        weight = round(overhead * projection.scale)
        rows.append(
            weighed_row(
                TOOLS_KEY, (("tools   ", "muted"),), (("tool schemas", "text"),), Weight(weight, True)
            )
        )
    view = projection.view if items is None else items

    def shared(at: int) -> bool:
        """Whether the item at this place shares its row with the one above it."""
        two = view[at - 1 : at + 1] if at else ()
        return len(two) > 1 and sharer(projection, two[1].index) == two[0].index and all(map(wanted, two))

    for position, item in enumerate(view[start:stop], start):
        if divider is not None and divider[0] == position:
            briefs = (divider[1].rpartition(" · ")[2],)
            rows.append(RuleBlock(DIVIDER_KEY, divider[1], "muted", briefs=briefs, stop=False))
        if wanted(item) and not shared(position + 1):
            caller = view[position - 1] if shared(position) else None
            rows += item_rows(source, item, opened, names, caller)
    return rows


def item_rows(
    source: Source,
    item: ViewItem,
    opened: Container[Key],
    names: tuple[str, ...],
    caller: ViewItem | None = None,
) -> Iterator[Block]:
    """The row of an item and what is open below it."""
    key = row_key(*item.key)
    yield ItemRow(key, source, item, caller=caller)
    if key in opened:
        yield from body_blocks(source.projection, item.message, key)
    elif item.written:
        yield summary_preview(key, item.message.text, names)


def opened_body(projection: Projection, row: Block) -> list[Block]:
    """The pieces below an opened row; none for a row that holds no more than it shows."""
    match row:
        case EntryRow(message=entry) | NoteRow(entry=entry):
            return body_blocks(projection, entry, row.key)
        case ItemRow(item=item):
            return body_blocks(projection, item.message, row.key)
        case MarkerRow(marker=CompactionOutline(index=index)):
            done = projection.entry(index)
            has_text = isinstance(done, Compaction) and done.summary
            return body_blocks(projection, done, row.key) if done is not None and has_text else []
        case MarkerRow(marker=Revert() as marker) if marker.text:
            return body_blocks(projection, marker, row.key)
        case _:
            return []


def is_prompt(block: Block) -> bool:
    """Whether a row is something the user asked."""
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
    """The closed summary at `row`. Always as high, whatever `names` it is asked for."""
    # The sentence around it says nothing of this session.
    lines = [words for line in within_frame(text).split("\n") if (words := first_words(line))]
    shown = list(range(min(len(lines), PREVIEW_LINES)))
    naming = [at for at, line in enumerate(lines) if any(name in line for name in names)]
    wanted = [at for at in naming if at not in shown][: PREVIEW_LINES - 3]
    if wanted and not any(at in shown for at in naming):
        shown = [*shown[: len(shown) - len(wanted)], *wanted]
    return SummaryPreview(
        preview_key(row),
        tuple(lines[at] for at in shown),
        frozenset(number for number, at in enumerate(shown) if at in naming),
        len(lines) - len(shown),
    )


def summary_words(projection: Projection, item: ViewItem) -> str:
    """`of 118 and 119–351, 123 entries`: what a summary stands for."""
    written, nth = projection.written_by(item.index), item.key[1]
    inputs = written[nth].inputs if nth < len(written) else ()
    spans = [f"{first}–{last}" if last > first else str(first) for first, last in item.covers]
    count = projection.compacted(item.index, item.covers)
    named = [*map(str, inputs), *(spans if len(spans) <= 3 else (spans[0], "…", spans[-1]))]
    of = " and ".join(filter(None, (", ".join(named[:-1]), named[-1]))) if named else ""
    entries = many(count, "entry", "entries") if count else ""
    return ("of " if of else "") + ", ".join(part for part in (of, entries) if part)


def entry_row(
    projection: Projection, row_key: Key, cursor: Key | None, width: int, more: str = ""
) -> list[Span]:
    """The status row of an entry: its number and state, its tool group, `more` that is known, its time."""
    if row_key == TOOLS_KEY:
        return row([piece("The tool schemas go with every request.")], [], width)
    index, group = row_key[0], projection.group(row_key[0])
    state = f" {state_words(projection, index)}"
    parts = [Piece(((f"{index} ", "bold"), *signs(projection, index), (state, "text")), cut="right")]
    if len(group) > 1:
        parts.append(piece(f"tool group {group[0]}–{group[-1]}", "muted", rank=1))
    if more:
        parts.append(piece(more, "muted", rank=1))
    if cursor is not None and row_of(cursor) != cursor:
        parts.append(piece("inside it: Enter closes", "muted", rank=3))
    entry = projection.entry(index)
    at = entry.at if entry is not None else None
    right = [piece(f"{at.astimezone():%Y-%m-%d %H:%M:%S}", "muted", rank=2)] if at is not None else []
    return row(parts, right, width)


# --- One line ---------------------------------------------------------------------------------------------


def weighed_row(key: Key, lead: Spans, main: Spans, weight: Weight) -> RowBlock:
    """A row with its tokens at the right end."""
    tokens = numbers.tokens(weight.tokens, estimated=weight.estimated)
    return RowBlock(key, lead, main, (Column(tokens, _TOKENS, "muted", space=1),))


def message_row(
    key: Key,
    source: Source,
    message: BaseMessage,
    weight: Weight,
    fate: str = "live",
    *,
    shares: bool = False,
) -> Block:
    """A message on a line; `fate` is what becomes of it in the view that is shown. Of a result that `shares`
    its row, nothing hangs above it."""
    if isinstance(message, ToolResultMessage):
        return _ResultRow(key, source, message, weight, fate, shares)
    return _WordsRow(key, message, weight)


@dataclass(frozen=True, slots=True, eq=False)
class _WordsRow(_OneLine):
    """`user    read …/cut.py`: the kind and the first words of a message."""

    message: BaseMessage
    weight: Weight

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        words, style = message_words(self.message)
        shown = cut_words(words, width - _KIND - _TOKENS - 1)
        kind_style = "bold" if self.message.type == "user" else "muted"
        lead = ((f"{kind_of(self.message):<{_KIND}}", kind_style),)
        return weighed_row(self.key, lead, ((shown, style),), self.weight).render(width, styles)

    def text(self) -> str:
        return self.message.text


@dataclass(frozen=True, slots=True, eq=False)
class _ResultRow(_OneLine):
    """`├ bash  pytest -q   31 passed`: the name and the outcome stay, the title is shortened."""

    source: Source
    result: ToolResultMessage
    weight: Weight
    fate: str
    shares: bool

    def render(self, width: int, styles: Styles) -> Sequence[Strip]:
        result = self.result
        group = self.source.projection.group(result.index)
        last = group[-1] == result.index
        branch = "·" if len(group) == 1 else ("─└" if last else "┌├")[not self.shares]
        lead = [(f"{branch} ", "muted"), (f"{clean_line(result.name)[:24]:<5} ", "text")]
        title, brief, is_path = self._words()
        failed = has_failed(result)
        if failed and self.fate != "hidden":
            brief = brief if brief.endswith("✗") else f"{brief or 'failed'} ✗"
        room = width - cell_len(lead[0][0]) - cell_len(lead[1][0]) - _TOKENS - 1
        gap = 3 if room - cell_len(brief) - 3 >= _LEAST_TITLE else 1
        room -= cell_len(brief) + gap if brief else 0
        if not title:
            title = first_words(result.text) if not brief else ""
        before, behind = ("[hidden: ", "]") if self.fate == "hidden" else ("", "")
        room -= cell_len(before) + cell_len(behind)
        shown = (cut_left if is_path else cut_right)(title, max(room, _LEAST_TITLE))
        main = [(f"{before}{shown}{behind}", "text")] if shown else []
        if brief:
            main += [(" " * gap if shown else "", ""), *_outcome(brief, failed)]
        return weighed_row(self.key, tuple(lead), tuple(main), self.weight).render(width, styles)

    def text(self) -> str:
        return full_text(self.source.projection, self.result)

    def _words(self) -> tuple[str, str, bool]:
        """Title, outcome, and whether the title is a path."""
        result, cwd = self.result, self.source.cwd
        title, is_path = call_title(call_of(self.source.projection, result), cwd)
        if not title and result.details.files:
            title, is_path = clean_line(short_path(result.details.files[0].path, cwd)), True
        brief = clean_line(result.details.brief)
        if self.fate == "hidden":
            return ", ".join(filter(None, (title, brief))), "", is_path
        if self.fate == "clipped":
            brief = f"{brief}, clipped" if brief else "clipped"
        return title, brief, is_path


def _outcome(brief: str, failed: bool) -> list[Span]:
    """An outcome in its colours: lines added and removed, a failure, anything else."""
    if failed:
        return [(brief, "alert")]
    added, minus, removed = brief.partition(" −")
    if added.startswith("+") and added[1:].isdigit():
        return [(added, "live"), *([(minus + removed, "alert")] if minus else [])]
    return [(brief, "muted")]


# --- The gutter, read when drawn, so that a compaction changes it without rebuilding a block --------------


def gutter_width(last_index: int) -> int:
    """Cursor, letter, sign, flag, the largest number with a blank before it, a blank; at least 10 cells."""
    return 4 + max(5, len(str(max(last_index, 0))) + 1) + 1


def row_gutter(signs: Sequence[Span], flag: Span, index: int, width: int) -> Spans:
    """The gutter of a row: cursor, letter, sign, flag, number."""
    return ((" ", ""), *signs, flag, (f"{index:>{width - 5}} ", "muted"))


def history_gutter(projection: Projection, new_from: int | None, key: Key, line: int, width: int) -> Spans:
    """The gutter of a line in History; entries of the view from index `new_from` on are new."""
    index = key[0]
    if index < 0:
        return ()
    kind = projection.fate(index).kind
    in_view = kind in IN_VIEW
    if key != row_of(key) or line:
        return (("  ", ""), signs(projection, index)[1])
    flag = _flag(projection.is_pinned(index), in_view and new_from is not None and index >= new_from)
    return row_gutter((letter(kind), gutter_sign(kind)), flag, index, width)


def view_gutter(block: Block | None, new_from: int | None, key: Key, line: int, width: int) -> Spans:
    """The gutter of a line in the LLM view. `block` is that of the row the line belongs to."""
    if key == TOOLS_KEY:
        return (("  ", ""), GUTTER_SIGNS["whole"])
    if isinstance(block, SummaryPreview):
        return ((" " * (width - 2), ""), ("▷" if line in block.marked else " ", "accent"))
    if key == DIVIDER_KEY or not isinstance(block, ItemRow):
        return ()
    item = block.item
    sign = GUTTER_SIGNS["name"] if item.written else gutter_sign(item.fate)
    if key != block.key or line:
        return (("  ", ""), sign)
    flag = _flag(item.pinned, new_from is not None and item.index >= new_from)
    return row_gutter(((" ", "") if item.written else letter(item.fate), sign), flag, item.index, width)


def with_tick(spans: Spans) -> Spans:
    """The gutter of a marked row: `✓` where the cursor would stand."""
    first, *others = spans
    return (("✓", "accent bold"), (first[0][1:], first[1]), *others) if first[0][:1] == " " else spans


def _flag(pinned: bool, fresh: bool) -> Span:
    return ("*", "accent") if pinned else ("+", "live") if fresh else (" ", "")
