"""Text shown in the preview: header, bars, frames and status row."""

from typing import Final

from foldline.compaction import strategy_name
from foldline.frontend.state import ContextUse, reason_words, rung_words
from foldline.memory.ledger_lines import LedgerLine
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.tui.browser.draft.forecast import (
    ViewForecast,
    draft_cost,
    draft_words,
    saving_words,
)
from foldline.tui.browser.draft.rows import LostFact
from foldline.tui.browser.draft.state import Drafting, DraftState
from foldline.tui.browser.keys import key_name
from foldline.tui.browser.panels.edit_hints import change_words, entries_words
from foldline.tui.look.cells import RowPiece, Span, Spans, piece, row
from foldline.tui.look.meter import bar_spans
from foldline.tui.look.status import retry_pieces
from foldline.view.items import ViewItem

EDITING: Final = (
    "Your text replaces the draft. The lists from the history stay below it."
)
ENTER_EDITS: Final = "Enter edits the text, without asking a model."
CUT_FOOT: Final = "├ cut points"
NOT_YET: Final = "not applied yet"
WAITING: Final = "waiting for you"
NO_DRAFT: Final = "There is no draft."
NO_CUT_POINT: Final = "There is no cut point at or before this row."
CANNOT_EDIT: Final = "cannot be edited: not exactly one text"
NEW_DRAFT_COSTS: Final = "another draft: ~{price}"
FACTS_LOST: Final = "{lost} of {facts} facts lost"
IN_LEDGER: Final = "{count} in the ledger"
CUT_IS_HERE: Final = "The cut is here. Use {key} to move it."
ENTER_CUTS_AT: Final = "Enter cuts at {index}: {before} → {after} compacted. Then press {key} to draft again."
STAYS_PINNED: Final = "Entry {index} is pinned and stays verbatim."
PINS: Final = "{key} pins {what}: {change} → {size}."
ONLY_IN_SUMMARY: Final = (
    "Only an earlier summary contains this. Press {key} to have the next draft include "
    "it."
)
LEDGER_KEYS: Final = "From entry {entry}. {pin} {change}, {drop} drops it."


# --- the head of the screen ---------------------------------------------------------------------------


def header_row(title: str, state: DraftState, width: int) -> list[Span]:
    """Return the header: ` shop-api ▸ Orders ▸ Compact preview   threshold · waiting for you   Summary `."""
    place = clean_line(title)
    where = [
        RowPiece(((place, "bold"),), cut="right", least=max(width // 3 - 18, 8)),
        RowPiece(((" ▸ ", "muted"), ("Compact preview", "text bold")), gap=0),
    ]
    reason: Spans = ((reason_words(state.reason), "text"),)
    if state.waits:
        reason = (*reason, (" · ", "muted"), (WAITING, "accent"))
    entry = state.proposal.entry if state.proposal is not None else None
    strategy = (entry.strategy if entry is not None else "") or state.strategy
    model = state.model if entry is None else entry.model or ""
    right = [
        RowPiece(reason, rank=1),
        piece(clean_line(strategy_name(strategy)), "muted", rank=3),
    ]
    if entry is not None and rung_words(entry.rung):
        right.append(piece(clean_line(rung_words(entry.rung)), "altered", rank=2))
    if model:
        right.append(piece(clean_line(model), "text", rank=4))
    return row(where, right, width)


def bar_rows(
    state: DraftState, forecast: ViewForecast | None, width: int
) -> list[list[Span]]:
    """Return the bars for the window now and after the compaction.

    They include the cost of the draft and the requests.
    """
    if forecast is None:
        return [row([piece(NO_DRAFT, "muted")], [], width), []]
    window = state.window or forecast.before
    size = numbers.tokens(forecast.after)
    if state.is_estimate:
        size = numbers.about_tokens(forecast.after)
    rows: list[list[Span]] = []
    for name, tokens, words, remark in (
        ("now", forecast.before, "", draft_words(state, forecast)),
        ("after", forecast.after, size, saving_words(state, forecast)),
    ):
        weights = forecast.weights(after=name == "after")
        use = ContextUse(size=tokens, window=window, weights=weights)
        rows.append(_bar(name, use, words or numbers.tokens(tokens), remark, width))
    return rows


def _bar(name: str, use: ContextUse, size: str, remark: str, width: int) -> list[Span]:
    cells = min(max(width - 63, 12), 64)
    pieces = [
        piece(f"{name:<6}", "muted"),
        RowPiece(bar_spans(use, cells), gap=1),
        piece(f"{size:>7}", "text bold", gap=1),
    ]
    return row(pieces, [piece(remark, "muted", rank=1)], width)


# --- frames -------------------------------------------------------------------------------------------


def stale_cut(state: DraftState, forecast: ViewForecast | None) -> int | None:
    """Return the cut for which the draft was made, if the cut has been moved since then."""
    proposal = state.proposal
    if proposal is None or proposal.drafted_for is None or forecast is None:
        return None
    drafted_at = forecast.position_of(proposal.drafted_for)
    point = forecast.cut_point_before(drafted_at)
    if point is None or point == forecast.cut:
        return None
    return forecast.items[point].index


def draft_head(
    state: DraftState, forecast: ViewForecast | None, now: float
) -> tuple[Span, ...]:
    """Return the Draft panel's remark: `drafting 0:12`, or size and state: `4.6k · current`."""
    drafting = state.drafting
    if drafting is not None:
        elapsed = numbers.elapsed(now - drafting.since)
        if drafting.retry_at(now) is not None:
            return ((f"waiting {elapsed}", "altered"),)
        return ((f"drafting {elapsed}", "accent"),)
    if state.proposal is None or forecast is None:
        return (("no draft", "muted"),)
    size = (f"{numbers.tokens(forecast.size((), forecast.written))} · ", "muted")
    if state.proposal.state != "stale":
        return size, (state.proposal.state, "live")
    cut = stale_cut(state, forecast)
    why = (
        f"{key_name('redraft')} drafts again" if cut is None else f"made for cut {cut}"
    )
    return size, (f"stale: {why}", "alert")


def draft_foot(state: DraftState) -> str:
    """Return the Draft panel's remark about changes: their cost, or that the text cannot be edited."""
    if state.proposal is None or state.drafting is not None:
        return ""
    cost = draft_cost(state)
    if not state.proposal.editable:
        return CANNOT_EDIT
    return "" if cost is None else NEW_DRAFT_COSTS.format(price=numbers.price(cost))


def audit_head(state: DraftState) -> str:
    """Return the Audit panel's remark: `6 of 214 facts lost`."""
    if state.proposal is None:
        return "after the draft"
    audit = state.proposal.audit
    count = FACTS_LOST.format(lost=len(audit.lost), facts=audit.facts)
    if audit.in_ledger:
        count += f" · {IN_LEDGER.format(count=audit.in_ledger)}"
    return count


WRITING: Final = (
    "The model is writing, {elapsed}. Nothing changes until you apply the draft."
)


def writing_words(drafting: Drafting, now: float) -> str | list[RowPiece]:
    """Return the status of a draft that is being written, or that waits for a retry."""
    retry = drafting.retry_at(now)
    if retry is not None:
        return retry_pieces(retry, now)
    return WRITING.format(elapsed=numbers.elapsed(now - drafting.since))


# --- the effects of Enter and p ------------------------------------------------------------------------


def about_item(
    forecast: ViewForecast, item: ViewItem | None, group: tuple[int, ...]
) -> str:
    """Return the effects of Enter and p on an item in Cut.

    Args:
        group: the tool group of the item.
    """
    if item is None:
        return ""
    words = [_about_cut(forecast, forecast.items.index(item))]
    if item.index in forecast.pins:
        words.append(STAYS_PINNED.format(index=item.index))
    elif forecast.is_gone(item) and not item.written:
        words.append(about_pin(forecast, group))
    return " ".join(filter(None, words))


def _about_cut(forecast: ViewForecast, position: int) -> str:
    if forecast.cut is None:
        return ""
    point = forecast.cut_point_before(position)
    if point is None:
        return NO_CUT_POINT
    if point == forecast.cut:
        return CUT_IS_HERE.format(key=key_name("keep-more"))
    return ENTER_CUTS_AT.format(
        index=forecast.items[point].index,
        before=numbers.tokens(forecast.compacted),
        after=numbers.tokens(forecast.compacted_at(point)),
        key=key_name("redraft"),
    )


def about_pin(forecast: ViewForecast, group: tuple[int, ...]) -> str:
    """Return the effect of pinning a tool group or a single entry: `p pins 9: +1.0k → 13.3k.`"""
    cost = forecast.cost_of_pinning(group)
    return PINS.format(
        key=key_name("pin"),
        what=entries_words(group),
        change=change_words(cost),
        size=numbers.tokens(forecast.after + cost),
    )


def about_fact(forecast: ViewForecast, fact: LostFact | None) -> str:
    """Return the effect of pinning a fact."""
    if fact is None:
        return ""
    if not fact.group:
        return ONLY_IN_SUMMARY.format(key=key_name("focus"))
    return about_pin(forecast, fact.group)


def about_line(line: LedgerLine, *, pinned: bool) -> str:
    """Describe what each key does to a ledger line."""
    change = "unpins it" if pinned else "keeps it in later compactions"
    return LEDGER_KEYS.format(
        entry=line.entry, pin=key_name("pin"), change=change, drop=key_name("drop")
    )
