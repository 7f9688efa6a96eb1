"""The preview's words: frames, the status row, the hints. Pure."""

from collections.abc import Sequence
from typing import Final

from foldline.context import numbers
from foldline.tui.blocks import Span, clean_line
from foldline.tui.blocks.cells import Piece, piece, row
from foldline.tui.preview.audit_rows import Fact
from foldline.tui.preview.cut_rows import Row
from foldline.tui.preview.keys import Facts, hints, named
from foldline.tui.preview.outlook import Outlook
from foldline.tui.preview.state import PreviewState

_RANKS: Final = {"keys": 0, "panel": 1, "apply": 2}
"""Hints that a narrow row keeps longest: the first two lead to all others."""
NOT_YET: Final = "not applied yet, nothing has changed"


def drafted_for(state: PreviewState, outlook: Outlook | None) -> int | None:
    """The entry before which the draft was meant to cut, where that is not the cut as it is now."""
    made = state.proposal
    if made is None or outlook is None or outlook.cut is None:
        return None
    # Pins right before the tail belong to it for the history, but no cut can be there.
    first = made.entry.first_kept_index
    places = (outlook.index_at(place) for place in outlook.legal)
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
    return (
        f"stale: made for cut {meant}" if meant is not None else f"stale: {named('redraft')} drafts it again"
    ), "alert"


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
    edits = f"{named('edit')} edits" if facts.editable else "not one text: no editing"
    parts = [edits] if facts.textless else [edits, f"{named('redraft')} new draft{cost}"]
    if earlier is not None:
        parts.append(f"{named('difference')} {'the draft' if facts.differing else f'against {earlier}'}")
    return " · ".join(parts)


def audit_head(state: PreviewState, outlook: Outlook | None) -> tuple[str, str]:
    """(title, `6 of 214 facts lost`)."""
    title = "3 Audit: in the folded part, no longer in the view"
    if state.proposal is None:
        return title, "follows the draft"
    audit = state.proposal.audit
    return title, f"{len(audit.lost)} of {audit.facts} facts lost"


def status_row(left: str | Sequence[Piece], right: str, width: int) -> list[Span]:
    """What the key under the finger would do, and that nothing has been done."""
    pieces = [piece(clean_line(left), cut="right")] if isinstance(left, str) else left
    return row(pieces, [piece(right, "muted", rank=1)] if right else [], width)


def hints_row(facts: Facts, closes: str, width: int) -> list[Span]:
    """The keys that work now."""
    parts = [
        Piece(((name, "accent"), (f" {word}", "muted")), rank=_RANKS.get(word, rank), gap=2)
        for rank, (name, word) in enumerate(hints(facts, closes if width >= 60 else "close"), 2)
    ]
    last = parts.pop()
    return row(parts, [Piece(last.spans, gap=2)], width)


# --- what Enter and p would do ------------------------------------------------------------------------


def about_cut(outlook: Outlook, target: Row | None) -> str:
    """Of a row in Cut: what Enter and p would do."""
    if target is None:
        return ""
    return " ".join(filter(None, (_about_enter(outlook, target), _about_pin(outlook, target))))


def _about_enter(outlook: Outlook, target: Row) -> str:
    if outlook.cut is None or target.kind in ("preamble", "note"):
        return ""
    place = outlook.legal_before(target.position)
    if place is None:
        return "Nothing can be cut at or before this row."
    if place == outlook.cut:
        return f"The cut is here. {named('keep-more')} move it."
    folded = f"{numbers.tokens(outlook.folded)} → {numbers.tokens(outlook.size_folded_at(place))} folded"
    return f"Enter cuts at {outlook.index_at(place)}: {folded}, then {named('redraft')} drafts it."


def _about_pin(outlook: Outlook, target: Row) -> str:
    if target.pinned:
        return f"{target.index} is pinned and stays verbatim."
    cost = outlook.cost_of_pinning(target.indices)
    if not target.gone or target.kind == "summary" or not cost:
        return ""
    return f"{named('pin')} pins {'all of it' if target.kind == 'turn' else 'it'}: +{numbers.tokens(cost)}."


def about_draft(facts: Facts) -> str:
    """What Enter would do in the draft."""
    return "Enter edits the text. No model is asked for that." if facts.editable else ""


def about_facts(outlook: Outlook, chosen: Sequence[Fact], marked: bool, stale: bool) -> str:
    """`Enter: tool group 287–288 stays verbatim, 27.4k → 27.8k. The draft stays current.`"""
    groups = list(dict.fromkeys(fact.group for fact in chosen if fact.group))
    if not chosen:
        return ""
    if not groups:
        return f"Only an earlier summary holds it: {named('focus')} asks the next draft for it."
    cost = outlook.cost_of_pinning(index for group in groups for index in group)
    after = f"{numbers.tokens(outlook.after)} → {numbers.tokens(outlook.after + cost)}"
    what = group_words(groups[0]) if len(groups) == 1 else f"{len(groups)} entries and tool groups"
    verb = "stays" if len(groups) == 1 else "stay"
    many = f"{len(chosen)} marked: " if marked else ""
    if outlook.after + cost >= outlook.before:
        return f"Enter: {many}{what}, {after}: the fold would not be smaller than what it replaces."
    draft = "" if stale else " The draft stays current."
    return f"Enter: {many}{what} {verb} verbatim, {after}.{draft}"


def group_words(group: Sequence[int]) -> str:
    """`tool group 287–288`, `entry 131`."""
    return f"entry {group[0]}" if len(group) == 1 else f"tool group {group[0]}–{group[-1]}"
