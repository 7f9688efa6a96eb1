"""The rows of the Cut panel (the items of the view) and of the Audit panel (the lost facts)."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.memory.audit import Audit, Lost
from foldline.past.describe import first_words
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.plain import RowBlock, RowColumn, RuleBlock, TextBlock
from foldline.tui.browser.draft.forecast import ViewForecast
from foldline.tui.browser.keys import key_name
from foldline.tui.browser.panels.entry_list import row_key
from foldline.tui.browser.panels.entry_rows import (
    ItemRow,
    RowSource,
    view_rows,
    weighed_row,
)
from foldline.tui.browser.panels.gutters import row_gutter
from foldline.tui.look.cells import Spans, cut_right
from foldline.tui.look.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.view.budget import Size
from foldline.view.projection import Projection
from foldline.view.weight import prompt_weight

CUT_KEY: Final = (-3, 0)
HELD_KEY: Final = (-4, 0)
CUT_LABEL: Final = "cut {index} · {compacted} compacted above, {kept} kept below"
ALL_KEPT: Final = "All {count} tracked facts of the compacted part are in the new view."
AUDIT_LATER: Final = "Lost facts are listed once there is a draft."
NO_FACTS: Final = "The compacted part contains no tracked facts."
IN_FOCUS_STALE: Final = "in focus, {key} to draft"
IN_FOCUS_LOST: Final = "in focus, still lost"
NOT_PINNABLE: Final = "only in an earlier summary"


# --- The view ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProposedView:
    """The current view, and what a proposed compaction does to each of its items."""

    forecast: ViewForecast
    projection: Projection
    held: str | None
    """The prompt to be sent after the compaction, if any."""
    cwd: str = ""

    def rows(self, opened: Container[Key] = ()) -> list[Block]:
        """Return the rows of the tool schemas, the items with the cut between them, and the held prompt."""
        source = RowSource(self.projection, self.cwd)
        rows = view_rows(self.projection, self.forecast.overhead, items=())
        for position, item in enumerate(self.forecast.items):
            if position == self.forecast.cut:
                rows.append(self._cut_row(item.index))
            rows.append(ItemRow(row_key(*item.key), source, item))
        if self.held is not None:
            weight = Size(prompt_weight(self.projection, self.held), estimated=True)
            words = ((first_words(self.held), "text"),)
            rows.append(weighed_row(HELD_KEY, (("held    ", "muted"),), words, weight))
        return rows

    def _cut_row(self, index: int) -> Block:
        """Return the row of the cut: `─◆ cut 352 · 82.9k compacted above, 16.2k kept below ───`."""
        label = CUT_LABEL.format(
            index=index,
            compacted=numbers.tokens(self.forecast.compacted),
            kept=numbers.tokens(self.forecast.weights(after=True).verbatim),
        )
        return RuleBlock(CUT_KEY, label, "accent", lead="─◆", stop=False)

    def is_gone(self, block: Block | None) -> bool:
        """Whether a row is that of an item that the new view no longer contains."""
        return isinstance(block, ItemRow) and self.forecast.is_gone(block.item)

    def gutter(self, block: Block | None, key: Key, line: int, width: int) -> Spans:
        """Return the gutter of a row: new state, pin, `├` at a cut point, and entry number."""
        if block is None or key == CUT_KEY:
            return ()
        if not isinstance(block, ItemRow):
            return (("  ", ""), GUTTER_SIGNS["whole"])
        forecast = self.forecast
        item = block.item
        fate = forecast.fates[item.key]
        signs = (letter(fate), gutter_sign(fate))
        if item.written and not forecast.is_gone(item):
            signs = ((" ", ""), GUTTER_SIGNS["name"])
        pin = ("*", "accent") if item.index in forecast.pins else (" ", "")
        *others, (number, style) = row_gutter(signs, pin, item.index, width)
        mark = "├" if item.key in forecast.cut_keys else number[0]
        return (*others, (mark, "accent"), (number[1:], style))


# --- The lost facts ---------------------------------------------------------------------------------------

_KIND: Final = 11
"""Width of the kind column, in cells."""
_ENTRIES: Final = 12
"""Width of the entry column, in cells."""
_SHOWN: Final = 400
"""Maximum number of characters shown per fact."""


@dataclass(frozen=True, slots=True)
class LostFact:
    """A lost fact, and the cost of keeping it."""

    key: Key
    lost: Lost
    in_focus: bool
    """Whether the next draft will be asked to keep this fact."""
    group: tuple[int, ...]
    """The entries to pin: the smallest tool group that contains the fact; empty if there is none."""
    cost: int
    """Number of tokens that pinning `group` would add to the view."""

    @property
    def entry(self) -> int:
        """Index of the entry that is shown for this fact."""
        in_group = [index for index in self.lost.indices if index in self.group]
        return in_group[-1] if in_group else self.lost.indices[-1]

    def effect(self, *, is_stale: bool) -> str:
        """Return the cost of pinning the fact, or the reason why Enter does not pin it."""
        if self.in_focus and is_stale:
            return IN_FOCUS_STALE.format(key=key_name("redraft"))
        if self.in_focus:
            return IN_FOCUS_LOST
        if not self.group:
            return NOT_PINNABLE
        return f"pin +{numbers.tokens(self.cost)}"


def facts_of(
    audit: Audit,
    forecast: ViewForecast,
    projection: Projection,
    focus: str | None,
) -> list[LostFact]:
    """Return the lost facts in the order in which the audit lists them."""
    entries = {
        item.index
        for item in forecast.items
        if forecast.is_gone(item) and not item.written
    }
    facts = []
    for number, lost in enumerate(audit.lost):
        groups = [projection.group(index) for index in lost.indices if index in entries]
        costs = {group: forecast.cost_of_pinning(group) for group in groups}
        group = min(groups, key=lambda group: (costs[group], -group[0]), default=())
        in_focus = lost.text in (focus or "")
        facts.append(LostFact((number, 0), lost, in_focus, group, costs.get(group, 0)))
    return facts


def fact_blocks(facts: Sequence[LostFact], *, is_stale: bool) -> list[Block]:
    """Return a row for each fact: state, kind, text, entries and the effect of pressing Enter."""
    entries = [_entries(fact) for fact in facts]
    effects = [fact.effect(is_stale=is_stale) for fact in facts]
    entries_width = max(map(len, entries), default=0)
    effects_width = max(map(len, effects), default=0)
    return [
        RowBlock(
            fact.key,
            _lead(fact),
            ((clean_line(fact.lost.text[:_SHOWN]), "text"),),
            (
                RowColumn(indices, entries_width, "muted", align="left", drop="first"),
                RowColumn(effect, effects_width, "muted", align="left", drop="last"),
            ),
            cut="left" if fact.lost.kind == "path" else "right",
            roomy=24,
            least=20,
        )
        for fact, indices, effect in zip(facts, entries, effects, strict=True)
    ]


def _entries(fact: LostFact) -> str:
    return cut_right(", ".join(map(str, fact.lost.indices)), _ENTRIES)


def _lead(fact: LostFact) -> Spans:
    kind = "open todo" if fact.lost.kind == "todo" else fact.lost.kind
    state = ("focus ", "accent") if fact.in_focus else ("lost  ", "alert")
    return (state, (f"{kind:<{_KIND}}", "muted"))


def empty_block(audit: Audit | None) -> Block:
    """Return the message shown if no facts are listed."""
    if audit is None:
        words = AUDIT_LATER
    elif audit.facts:
        words = ALL_KEPT.format(count=audit.facts)
    else:
        words = NO_FACTS
    return TextBlock((-1, 0), words, "muted", stop=False)
