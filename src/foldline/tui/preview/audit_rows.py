"""The rows of the Audit panel: what the view would no longer hold, and what keeping it costs. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.context import numbers
from foldline.context.audit import Audit, Lost
from foldline.tui.blocks import Block, Column, Key, RowBlock, Spans, TextBlock, clean_line
from foldline.tui.preview.keys import named
from foldline.tui.preview.outlook import Outlook

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
    """A row for each fact: state, kind, text, the entries that hold it, what Enter would do."""
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
    """What stands where no fact is lost, or nothing has been looked at yet."""
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
    """What Enter would cost, or why it would do nothing."""
    if fact.in_focus:
        return f"in the focus, {named('redraft')} drafts it" if stale else "in the focus, still lost"
    if not fact.group:
        return "only in an earlier summary"
    return f"pin +{numbers.tokens(fact.cost)}"
