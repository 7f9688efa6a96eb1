"""The rows of both panels: the view by turns with the states that would be; what it would no longer hold."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from textual.strip import Strip

from foldline.context import numbers
from foldline.context.audit import Audit, Lost
from foldline.context.harmless import clean_line
from foldline.context.view import FateKind
from foldline.context.weight import Weight
from foldline.protocol import UserMessage
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Spans, ruled, to_strip
from foldline.tui.blocks.plain import Column, RowBlock, TextBlock
from foldline.tui.blocks.styles import Styles
from foldline.tui.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.tui.panels.entry_list import row_key
from foldline.tui.panels.entry_rows import Source, message_row, row_gutter, weighed_row
from foldline.tui.panels.words import first_words
from foldline.tui.preview.keys import named
from foldline.tui.preview.outlook import Outlook, Part, held_tokens

PREAMBLE_KEY: Final = (-2, 0)
CUT_KEY: Final = (-3, 0)
HELD_KEY: Final = (-4, 0)
NOTE_KEY: Final = (-5, 0)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the panel, and the items of the view it stands for: one, or all of a turn that goes."""

    block: Block
    position: int = 0
    """Where its first item stands in the view."""
    parts: tuple[Part, ...] = ()
    is_cut_point: bool = False
    """Whether the cut may be before it."""

    @property
    def key(self) -> Key:
        return self.block.key

    @property
    def indices(self) -> tuple[int, ...]:
        """The entries it stands for, in the view's order."""
        return tuple(part.index for part in self.parts)

    @property
    def index(self) -> int | None:
        return self.parts[0].index if self.parts and self.key != PREAMBLE_KEY else None

    @property
    def fate(self) -> FateKind:
        """Its fate after the compaction. A summary that stays counts as summarised."""
        fate = self.parts[0].fate if self.parts else "live"
        return "summarised" if self.written and fate != "truncated" else fate

    @property
    def gone(self) -> bool:
        return self.fate in ("summarised", "truncated")

    @property
    def written(self) -> bool:
        """Whether it is the summary of an earlier compaction."""
        return bool(self.parts) and self.parts[0].item.written

    @property
    def pinned(self) -> bool:
        return bool(self.parts) and self.parts[0].pinned

    @property
    def prompt(self) -> bool:
        """Whether it begins with something the user asked."""
        asked = bool(self.parts) and isinstance(self.parts[0].item.message, UserMessage)
        return asked or self.key == HELD_KEY

    @property
    def stands_for_items(self) -> bool:
        """Whether a cut can be sought from it."""
        return self.key not in (PREAMBLE_KEY, NOTE_KEY)


def cut_rows(outlook: Outlook, source: Source, held: str | None = None, strategy: str = "") -> list[Row]:
    """The whole panel: preamble, turns with the cut between them, the held prompt."""
    preamble = tuple(part for part in outlook.parts if part.preamble)
    size = outlook.calibrated(sum(part.tokens for part in preamble) + outlook.overhead)
    words = f"system, instructions{', tools' if outlook.overhead else ''}: never compacted"
    rows = [Row(_line(PREAMBLE_KEY, "", words, size), parts=preamble)]
    if outlook.cut is None:
        decides = f"{strategy or 'This strategy'} decides itself what stays: there is no cut to move"
        rows.append(Row(RowBlock(NOTE_KEY, (), ((clean_line(decides), "text"),), stop=False)))
    for turn in _turns(outlook):
        rows += _turn_rows(outlook, turn, source)
    if outlook.cut is not None:
        place = outlook.cut
        behind = (at for at, row in enumerate(rows) if row.stands_for_items and row.position >= place)
        compacted, kept = numbers.tokens(outlook.compacted), numbers.tokens(outlook.kept_below)
        label = f"cut {outlook.index_at(place)} ━ {compacted} compacted above, {kept} kept below"
        rows.insert(next(behind, len(rows)), Row(CutBlock(CUT_KEY, label), place))
    if held is not None:
        line = _line(HELD_KEY, "held    ", first_words(held), held_tokens(outlook, held))
        rows.append(Row(line, len(outlook.parts)))
    return rows


def _line(key: Key, kind: str, words: str, tokens: int) -> RowBlock:
    return weighed_row(key, ((kind, "muted"),), ((words, "text"),), Weight(tokens, estimated=False))


def _turns(outlook: Outlook) -> Iterator[list[Part]]:
    """The parts behind the preamble, by turns; a summary is alone."""
    turn: list[Part] = []
    for part in outlook.parts:
        if part.preamble:
            continue
        starts = part.item.written or isinstance(part.item.message, UserMessage)
        if turn and (starts or turn[-1].item.written):
            yield turn
            turn = []
        turn.append(part)
    if turn:
        yield turn


def _turn_rows(outlook: Outlook, turn: Sequence[Part], source: Source) -> Iterator[Row]:
    """One row for a turn that goes as a whole; a row for each item where any of it stays, and for pins."""
    own = tuple(part for part in turn if not part.pinned)
    # What the cut divides is open on both sides of it.
    closed = bool(own) and all(part.gone for part in own)
    for part in turn:
        if part.pinned or not closed:
            yield _row(outlook, (part,), source)
        elif part is own[0]:
            yield _row(outlook, own, source)


def _row(outlook: Outlook, parts: tuple[Part, ...], source: Source) -> Row:
    first, tokens = parts[0], outlook.size(parts)
    key = row_key(*first.item.key)
    if first.item.written:
        becomes = {"summarised": "goes into the draft", "truncated": "left out"}.get(first.fate, "stays")
        block: Block = _line(key, "", f"earlier summary, {becomes}", tokens)
    else:
        block = message_row(key, source, first.item.message, Weight(tokens, estimated=False), first.fate)
    return Row(block, first.position, parts, outlook.is_cut_point(first.position))


@dataclass(frozen=True, slots=True, eq=False)
class CutBlock(Block):
    """`━━◆ cut 352 ━ 82.9k compacted above, 16.2k kept below ━━━`."""

    label: str
    wide: bool = field(default=True, kw_only=True)
    stop: bool = field(default=False, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return [to_strip(ruled(f"━━◆ {self.label}", width, "accent", "━"), styles)]

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return self.label


def cut_gutter(row: Row | None, width: int) -> Spans:
    """The gutter of a row: its future letter and sign, pin, `├` at a cut point, number."""
    if row is None or row.key in (CUT_KEY, NOTE_KEY):
        return ()
    if row.index is None:
        return (("  ", ""), GUTTER_SIGNS["whole"])
    pin = ("*", "accent") if row.pinned else (" ", "")
    *signs, (number, style) = row_gutter((letter(row.fate), gutter_sign(row.fate)), pin, row.index, width)
    return (*signs, ("├" if row.is_cut_point else number[0], "accent"), (number[1:], style))


_KIND: Final = 11
_ENTRIES: Final = 12
_SHOWN: Final = 400
"""Characters of a fact that a row may need."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A lost fact, and what the reader can do about it."""

    key: Key
    lost: Lost
    in_focus: bool
    """Whether the next draft is asked to keep it."""
    group: tuple[int, ...]
    """The entries that pinning it keeps: the tool group that costs least; none where no entry of the view
    holds it."""
    cost: int
    """Tokens that pinning adds to the view."""

    @property
    def entry(self) -> int:
        """The entry to look at."""
        held = [index for index in self.lost.indices if index in self.group]
        return held[-1] if held else self.lost.indices[-1]


class FactKeys:
    """Gives every fact a key that stays its own, however the list changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def key(self, lost: Lost) -> Key:
        return (self._known.setdefault((lost.kind, lost.text), len(self._known)), 0)


def facts_of(audit: Audit, outlook: Outlook, focus: str | None, keys: FactKeys) -> list[Fact]:
    """The lost facts in the audit's order."""
    costs: dict[tuple[int, ...], int] = {}
    for part in outlook.parts:
        if part.gone:
            group = outlook.group_of(part.index)
            costs[group] = costs.get(group, 0) + part.tokens
    gone = {part.index for part in outlook.parts if part.gone and not part.item.written}
    facts = []
    for lost in audit.lost:
        groups = [outlook.group_of(index) for index in lost.indices if index in gone]
        group = min(groups, key=lambda group: (costs[group], -group[0]), default=())
        cost = outlook.calibrated(costs[group]) if group else 0
        facts.append(Fact(keys.key(lost), lost, lost.text in (focus or ""), group, cost))
    return facts


def fact_blocks(facts: Sequence[Fact], marked: Collection[Key], stale: bool) -> list[Block]:
    """A row for each fact: state, kind, text, its entries, the effect of Enter."""
    rows = [(fact, entries_words(fact.lost.indices), effect_words(fact, stale)) for fact in facts]
    entries = max((len(words) for _, words, _ in rows), default=0)
    effects = max((len(words) for _, _, words in rows), default=0)
    return [
        RowBlock(
            fact.key,
            _lead(fact, fact.key in marked),
            ((clean_line(fact.lost.text[:_SHOWN]), "text"),),
            (
                Column(held_by, entries, "muted", align="left", drop="first"),
                Column(effect, effects, "muted", align="left", drop="last"),
            ),
            cut="left" if fact.lost.kind == "path" else "right",
            roomy=24,
            least=20,
        )
        for fact, held_by, effect in rows
    ]


def empty_block(audit: Audit | None) -> Block:
    """The sentence shown when there are no lost facts."""
    if audit is None:
        words = "What the draft loses is looked for when it is written."
    elif audit.facts:
        words = f"Nothing is lost: all {audit.facts} facts of the compacted part are in the new view."
    else:
        words = "The compacted part holds no facts that could be lost."
    return TextBlock((-1, 0), words, "muted", stop=False)


def _lead(fact: Fact, marked: bool) -> Spans:
    kind = "open todo" if fact.lost.kind == "todo" else fact.lost.kind
    return (
        ("focus", "accent") if fact.in_focus else ("lost ", "alert"),
        ("✓" if marked else " ", "accent bold"),
        (f"{kind:<{_KIND}}", "muted"),
    )


def entries_words(indices: Sequence[int]) -> str:
    """`262, 289`; `12, 40, +3` where there are more than a column holds."""
    for count in range(len(indices), 0, -1):
        more = len(indices) - count
        words = ", ".join([*map(str, indices[:count]), *([f"+{more}"] if more else [])])
        if len(words) <= _ENTRIES:
            return words
    return words


def effect_words(fact: Fact, stale: bool) -> str:
    """The cost of pinning a fact, or why Enter does nothing."""
    if fact.in_focus:
        return f"in the focus, {named('redraft')} drafts it" if stale else "in the focus, still lost"
    if not fact.group:
        return "only in an earlier summary"
    return f"pin +{numbers.tokens(fact.cost)}"
