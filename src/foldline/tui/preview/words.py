"""The preview's words: header, the window now and after, frames, the status row. Pure."""

from collections.abc import Sequence
from typing import Final

from foldline.compaction import strategy_name
from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Piece, Span, piece, row
from foldline.tui.panels.edit_hints import entries_words
from foldline.tui.preview.draft import LedgerRow
from foldline.tui.preview.keys import Facts, named
from foldline.tui.preview.outlook import Outlook, draft_words, saving_words
from foldline.tui.preview.rows import Fact, Row
from foldline.tui.preview.state import PreviewState
from foldline.tui.state import Room, Weights, reason_words, rung_words
from foldline.tui.widgets.meter import bar_spans

NOT_YET: Final = "not applied yet, nothing has changed"


# --- the head of the screen ---------------------------------------------------------------------------


def header_row(title: str, state: PreviewState, width: int) -> list[Span]:
    """` shop-api ▸ Orders ▸ Compact preview    threshold · waits for you   SummaryCompaction   kimi-k2 `."""
    entry = state.proposal.entry if state.proposal else None
    where = [
        Piece(((clean_line(title), "bold"),), cut="right", least=max(width // 3 - 18, 8)),
        Piece(((" ▸ ", "muted"), ("Compact preview", "text bold")), gap=0),
    ]
    why = [(reason_words(state.reason), "text")]
    if state.waits:
        why += [(" · ", "muted"), ("waits for you", "accent")]
    right = [Piece(tuple(why), rank=1)]
    for words, style, rank in (
        (strategy_name((entry.strategy if entry else "") or state.strategy), "muted", 3),
        (rung_words(entry.rung) if entry else "", "altered", 2),
        (entry.model or "" if entry else state.model, "text", 4),
    ):
        if words:
            right.append(piece(clean_line(words), style, rank=rank))
    return row(where, right, width)


def bar_rows(state: PreviewState, outlook: Outlook | None, width: int) -> list[list[Span]]:
    """The window now and after, and what would be compacted; what the draft and later requests cost."""
    if outlook is None:
        return [row([piece("Nothing is drafted.", "muted")], [], width), []]
    cells = min(max(width - 63, 12), 64)
    window = state.window or outlook.before
    about = state.proposal is None or state.proposal.state == "stale"
    after = numbers.about_tokens(outlook.after) if about else numbers.tokens(outlook.after)

    def bar(name: str, weights: Weights, size: int, words: str, remark: str) -> list[Span]:
        left = [
            piece(f"{name:<6}", "muted"),
            Piece(bar_spans(Room(size=size, window=window, weights=weights), cells), gap=1),
            piece(f"{words:>7}", "text bold", gap=1),
        ]
        return row(left, [piece(remark, "muted", rank=1)] if remark else [], width)

    before = numbers.tokens(outlook.before)
    return [
        bar("now", outlook.weights_now(), outlook.before, before, draft_words(state, outlook)),
        bar("after", outlook.weights_after(), outlook.after, after, saving_words(state, outlook)),
    ]


# --- frames -------------------------------------------------------------------------------------------


def drafted_for(state: PreviewState, outlook: Outlook | None) -> int | None:
    """The entry before which the draft was meant to cut, where that is not the cut as it is now."""
    made = state.proposal
    if made is None or outlook is None or outlook.cut is None:
        return None
    # Pins right before the tail belong to it for the history, but no cut can be there.
    first = made.entry.first_kept_index
    places = (outlook.index_at(place) for place in outlook.cut_points)
    meant = next((index for index in places if index >= first), first)
    return meant if meant != outlook.index_at(outlook.cut) else None


def draft_state(state: PreviewState, outlook: Outlook | None, now: float) -> tuple[str, str]:
    """(`drafting 0:12` | `current` | `edited` | `stale: made for cut 338`, its style)."""
    if state.drafting is not None:
        waits = state.drafting.waits_at(now) is not None
        verb, style = ("waiting", "altered") if waits else ("drafting", "accent")
        return f"{verb} {numbers.elapsed(now - state.drafting.since)}", style
    if state.proposal is None:
        return "no draft", "muted"
    if state.proposal.state != "stale":
        return state.proposal.state, "live"
    meant = drafted_for(state, outlook)
    why = f"made for cut {meant}" if meant is not None else f"{named('redraft')} drafts it again"
    return f"stale: {why}", "alert"


def draft_head(
    state: PreviewState, outlook: Outlook | None, now: float, took: float | None
) -> tuple[Span, ...]:
    """`4.6k · 12 s · current`."""
    words, style = draft_state(state, outlook, now)
    figures: list[str] = []
    if state.drafting is None and state.proposal is not None and outlook is not None:
        figures.append(numbers.tokens(outlook.calibrated(outlook.written)))
        if took is not None:
            figures.append(numbers.seconds(took))
    return (*((f"{figure} · ", "muted") for figure in figures), (words, style))


def draft_foot(facts: Facts, earlier: int | None, cost: str = "") -> str:
    """What the keys of this panel do. `cost` is what a new draft costs, with a blank before it."""
    if facts.mode == "editing":
        return f"{named('close')} keeps the text · {named('editor')} editor"
    if not facts.proposal or facts.drafting:
        return ""
    parts = [f"{named('edit')} edits" if facts.editable else "not one text: no editing"]
    if not facts.textless:
        parts.append(f"{named('redraft')} new draft{cost}")
    if earlier is not None:
        parts.append(f"{named('difference')} {'the draft' if facts.differing else f'against {earlier}'}")
    return " · ".join(parts)


def audit_head(state: PreviewState) -> tuple[str, str]:
    """(`6 of 214 facts lost`, title)."""
    title = "3 Audit: compacted, no longer in the view"
    if state.proposal is None:
        return "follows the draft", title
    audit = state.proposal.audit
    held = f" · {audit.in_ledger} in the ledger" if audit.in_ledger else ""
    return f"{len(audit.lost)} of {audit.facts} facts lost{held}", title


# --- what Enter and p would do ------------------------------------------------------------------------


def about_cut(outlook: Outlook, target: Row | None) -> str:
    """Of a row in Cut: what Enter and p would do."""
    if target is None:
        return ""
    return " ".join(filter(None, (_about_enter(outlook, target), _about_pin(outlook, target))))


def _about_enter(outlook: Outlook, target: Row) -> str:
    if outlook.cut is None or not target.stands_for_items:
        return ""
    place = outlook.cut_point_before(target.position)
    if place is None:
        return "No cut point at or before this row."
    if place == outlook.cut:
        return f"The cut is here. {named('keep-more')} move it."
    after = numbers.tokens(outlook.size_compacted_at(place))
    sizes = f"{numbers.tokens(outlook.compacted)} → {after} compacted"
    return f"Enter cuts at {outlook.index_at(place)}: {sizes}, then {named('redraft')} drafts it."


def _about_pin(outlook: Outlook, target: Row) -> str:
    if target.pinned:
        return f"{target.index} is pinned and stays verbatim."
    cost = outlook.cost_of_pinning(target.indices)
    if not target.gone or target.written or not cost:
        return ""
    return f"{named('pin')} pins {'all of it' if len(target.parts) > 1 else 'it'}: +{numbers.tokens(cost)}."


def about_facts(outlook: Outlook, chosen: Sequence[Fact], marked: bool, stale: bool) -> str:
    """`Enter: tool group 287–288 stays verbatim, 27.4k → 27.8k. The draft stays current.`"""
    groups = list(dict.fromkeys(fact.group for fact in chosen if fact.group))
    if not chosen:
        return ""
    if not groups:
        return f"Only an earlier summary holds it: {named('focus')} asks the next draft for it."
    cost = outlook.cost_of_pinning(index for group in groups for index in group)
    after = f"{numbers.tokens(outlook.after)} → {numbers.tokens(outlook.after + cost)}"
    what, verb = f"{len(groups)} entries and tool groups", "stay"
    if len(groups) == 1:
        kind = "tool group" if len(groups[0]) > 1 else "entry"
        what, verb = f"{kind} {entries_words(groups[0])}", "stays"
    lead = f"Enter: {f'{len(chosen)} marked: ' if marked else ''}{what}"
    if outlook.after + cost >= outlook.before:
        return f"{lead}, {after}: nothing would be saved any more."
    return f"{lead} {verb} verbatim, {after}.{'' if stale else ' The draft stays current.'}"


def about_ledger(row: LedgerRow) -> str:
    """Of a line of the ledger: what the keys would do."""
    pin = "unpins it" if row.pinned else "keeps it in later compactions, too"
    return f"From entry {row.line.entry}. {named('pin')} {pin}; {named('drop')} drops it."
