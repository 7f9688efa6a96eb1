"""Making room in the window: by a fold where that may happen by itself, else by what the user chooses.

Off is off: with automatic folding off, stopped, or taken back by the user, nothing changes the view unasked
(invariants 8 and 11). Then the remedies are offered, one key each.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from foldline.compaction import (
    ToolResultHidingCompaction,
    TruncateTurns,
    fold_taken_back,
    kind_of,
    largest_items,
    pause_reason,
    plan,
)
from foldline.context.budget import budget_for
from foldline.context.overflow import silent_overflow
from foldline.context.tokens import message_tokens
from foldline.context.view import ViewItem
from foldline.context.weight import view_size
from foldline.llm import LLM
from foldline.protocol import NEW, AssistantMessage, Edit, FoldlineError, Reason, Undo, UserMessage, events
from foldline.protocol.events import Option

from .desk import Desk
from .fold import WORTH_WHILE, Wanted, draft_ahead, fold


def why_not_by_itself(desk: Desk) -> str | None:
    """Why a full window is not folded without a word of the user; None where it is."""
    if desk.mode == "off":
        return "Automatic folding is off."
    if paused := pause_reason(desk.projection):
        return paused
    if fold_taken_back(desk.projection):
        return "You took the last fold back."
    return None


def phase_is_due(desk: Desk) -> bool:
    """Whether a natural boundary, such as the end of a turn, is a good moment to fold: the window is nearly
    full, and the fold would free enough to be worth a model call.
    """
    if not desk.past_soft_mark or was_declined(desk):
        return False
    planned = plan(desk.projection, desk.budget, "phase", overhead=desk.overhead)
    return planned is not None and planned.tokens_expected <= WORTH_WHILE * planned.tokens_before


def draft_early(desk: Desk) -> None:
    """Have the next fold drafted in the background, where it is near and no draft for it is under way."""
    ahead, budget = desk.ahead, desk.budget
    if not ahead.on or not budget.draft_mark <= desk.size() < budget.threshold or ahead.serves(desk.basis):
        return
    if why_not_by_itself(desk) is None and phase_is_due(desk):
        _begin_draft(desk)


def _begin_draft(desk: Desk) -> None:
    """Unless the user stopped one, and the view has not changed since."""
    if desk.ahead.declined is not desk.projection.newest_change:
        draft_ahead(desk)


async def fold_at_rest(desk: Desk) -> None:
    """Between two turns, nothing depends on a fold yet, and nothing waits for it: have it drafted, and fold
    once the draft is there. Where the reader wants to be asked, it waits for them. Where there is no reader,
    nobody may be there by then: it is folded now.

    Raises:
        FoldlineError: the fold failed.
    """
    if why_not_by_itself(desk) is not None:
        return
    ahead, basis = desk.ahead, desk.basis
    if not (ahead.on and desk.choices.interactive) or (ahead.ready and ahead.serves(basis)):
        await fold(desk, Wanted("phase", preview=desk.mode == "ask"))
        return
    if not ahead.serves(basis):
        _begin_draft(desk)
    ahead.overdue = ahead.drafting


def was_declined(desk: Desk) -> bool:
    """Whether the reader threw a draft away, and nothing has changed the view since: while it fits, no other
    one is made in that turn, or at its end.
    """
    return desk.review.declined is desk.projection.newest_change and desk.fits()


async def make_room(desk: Desk, reason: Reason, *, pending: int = 0) -> bool:
    """Fold, or let the user choose; whether the view became smaller.

    `pending` is the estimate of the prompt that waits for it, before calibration, in tokens.

    Raises:
        FoldlineError: the fold failed.
    """
    before = desk.projection.tokens
    why = why_not_by_itself(desk)
    if why is None:
        await fold(desk, Wanted(reason, will_retry=reason == "overflow", pending=pending))
    else:
        await offer_remedies(desk, why, reason, pending)
    return desk.projection.tokens < before


def must_choose(desk: Desk, pending: int = 0) -> bool:
    """Whether only the user can make room now, and is there to be asked."""
    if not desk.choices.interactive or why_not_by_itself(desk) is None:
        return False
    size = desk.size() + round(pending * _scale(desk))
    stopped = desk.mode != "off" and pause_reason(desk.projection)
    if stopped and desk.left_alone is not desk.projection.newest_change:
        return size >= desk.budget.threshold
    return size >= desk.budget.window


@dataclass(frozen=True, slots=True)
class _Remedy:
    key: str
    label: str
    carry_out: Callable[[], Awaitable[object]]


async def offer_remedies(desk: Desk, why: str, reason: Reason, pending: int = 0) -> None:
    """Name the largest items and ask what is to be done. Nobody there to be asked: nothing is done."""
    if not desk.choices.interactive:
        return
    remedies = _remedies(desk, reason, pending)
    options = [Option(key=remedy.key, label=remedy.label) for remedy in remedies]
    size, window = desk.size() + round(pending * _scale(desk)), desk.budget.window
    key = await desk.choices.ask(
        f"{why} The next request takes about {size:,} of {window:,} tokens.",
        options,
        f"Largest: {largest_items(desk.projection)}.",
    )
    chosen = next((remedy for remedy in remedies if remedy.key == key), None)
    if chosen is None:
        desk.left_alone = desk.projection.newest_change
    else:
        await chosen.carry_out()


def _remedies(desk: Desk, reason: Reason, pending: int) -> list[_Remedy]:
    """What would free something now."""
    projection, budget = desk.projection, desk.budget
    found = []

    def folds(wanted: Wanted) -> Callable[[], Awaitable[object]]:
        return lambda: fold(desk, wanted)

    if plan(projection, budget, "manual", overhead=desk.overhead) is not None:
        found.append(_Remedy("c", "fold now", folds(Wanted("manual", pending=pending))))
    if _hidable(desk):
        hiding = Wanted("manual", pending=pending, strategy=ToolResultHidingCompaction())
        found.append(_Remedy("h", "hide old tool results", folds(hiding)))
    largest = _largest_to_drop(desk)
    if largest is not None:
        edit = Edit(target=largest.index, action="drop")
        found.append(
            _Remedy("x", f"drop {_named(desk, largest)}", lambda: desk.session.append(edit, durable=True))
        )
    target = int(budget.threshold / _scale(desk)) - desk.overhead - pending
    truncating = Wanted("manual", pending=pending, strategy=TruncateTurns(max(target, 1)))
    found.append(_Remedy("t", "leave out the oldest turns", folds(truncating)))
    return found


def _scale(desk: Desk) -> float:
    return desk.projection.calibration.scale(desk.projection.model)


def _hidable(desk: Desk) -> bool:
    view = [item.message for item in desk.projection.view]
    return ToolResultHidingCompaction().hidden(view, desk.projection.pins) is not None


def _largest_to_drop(desk: Desk) -> ViewItem | None:
    """The largest item that a person may leave out without losing the request or what is not seen yet."""
    view = desk.projection.view
    newest = {
        next((item.index for item in reversed(view) if isinstance(item.message, kind)), NEW)
        for kind in (UserMessage, AssistantMessage)
    }
    old = [
        item
        for item in view
        if item.foldable and not item.written and newest.isdisjoint(desk.projection.group(item.index))
    ]
    return max(old, key=lambda item: item.tokens, default=None)


def _named(desk: Desk, item: ViewItem) -> str:
    group = desk.projection.group(item.index)
    tokens = sum(
        message_tokens(other.message) for other in desk.projection.view if other.index in group
    ) * _scale(desk)
    name = f"{group[0]}–{group[-1]}" if len(group) > 1 else str(item.index)
    return f"{name} ({kind_of(item)}), {round(tokens):,} tokens"


async def confirmed_undo(desk: Desk, target: int) -> bool:
    """Whether to take back this change: where that takes the view past a limit, the user is asked."""
    after = await asyncio.to_thread(desk.projection.foreseen, Undo(target=target))
    size, budget = view_size(after, overhead=desk.overhead).tokens, desk.budget
    crosses = any(desk.size() < limit <= size for limit in (budget.threshold, budget.window))
    if not crosses or not desk.choices.interactive:
        return True
    over = "more than the window" if size >= budget.window else "past the threshold"
    key = await desk.choices.ask(
        f"Undoing {_change_named(desk, target)} brings the next request from {desk.size():,} to {size:,} of "
        f"{budget.window:,} tokens, {over}.",
        [Option(key="u", label="undo it all the same")],
        "It is not folded again by itself. What does not fit is asked about before it is sent.",
    )
    return key == "u"


def _change_named(desk: Desk, target: int) -> str:
    kind = {"compaction": "fold", "revert": "rewind"}
    marker = desk.projection.entry(target)
    return f"{kind.get(marker.type, marker.type) if marker else 'entry'} {target}"


def folds_before(desk: Desk, window: int, max_output: int | None, model: str) -> bool:
    """Whether the view would be folded before a model of this window takes over: what `make_fit` does, asked
    before anything is connected."""
    with suppress(FoldlineError):  # Too small to work in: the switch says so.
        budget = budget_for(window, max_output, desk.budget_settings(window, model))
        scale = desk.projection.calibration.scale(model)
        size = round((desk.projection.sent + desk.overhead) * scale)
        return desk.mode != "off" and size >= budget.threshold
    return False


async def make_fit(desk: Desk, llm: LLM) -> None:
    """Before another model takes over: fold what its window cannot hold, with the model that still can.

    Raises:
        FoldlineError: it cannot be made to fit; nothing has changed, and the old model stays.
    """
    budget = desk.budget_of(llm)
    scale = desk.projection.calibration.scale(llm.info.id)
    size = round((desk.projection.sent + desk.overhead) * scale)
    if size < budget.threshold:
        return
    if desk.mode == "off":
        if size >= budget.window:
            raise FoldlineError(
                f"The next request takes about {size:,} tokens, more than the {budget.window:,} of "
                f"{llm.info.id}, and automatic folding is off. Fold first with /compact."
            )
        return
    # The new model may need more tokens for the same text: to the old one, its threshold is so much lower.
    pending = max(0, round(budget.threshold * (1 / _scale(desk) - 1 / scale)))
    folded = await fold(desk, Wanted("threshold", budget=budget, pending=pending))
    size = round((desk.projection.sent + desk.overhead) * scale)
    if size >= budget.window:
        raise FoldlineError(
            f"{'Even folded, the' if folded else 'The'} next request takes about {size:,} tokens, more than "
            f"the {budget.window:,} of {llm.info.id}. Largest: {largest_items(desk.projection)}."
        )


ALLOWED = "a number of tokens (32768, 32k, 1M) or a share of the window (20%)"
ALLOWED_TOKENS = "a number of tokens (32768, 32k, 1M)"

_NUMBER = re.compile(r"(\d{1,3}(?:[_,]\d{3})+|\d+)(\.\d+)?\s*([kKmM%]?)")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_LARGEST = 1_000_000_000


class Amount(NamedTuple):
    """Tokens, or a share of a window that is not known yet."""

    tokens: int | None = None
    percent: float | None = None

    def of(self, window: int) -> int:
        """The amount in tokens, at least 1; `window` in tokens."""
        return max(1, self.tokens if self.tokens is not None else int(window * (self.percent or 0) / 100))

    def __str__(self) -> str:
        return str(self.tokens) if self.tokens is not None else f"{self.percent or 0:g}%"


def parse_amount(text: str) -> Amount:
    """The amount this says. `k` is a thousand, as on the screens.

    Raises:
        ValueError: it says none; the text is what is allowed.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ValueError(ALLOWED)
    value = float(re.sub("[_,]", "", found[1]) + (found[2] or ""))
    unit = found[3].lower()
    if unit == "%":
        if not 0 < value <= 100:
            raise ValueError(ALLOWED)
        return Amount(percent=value)
    tokens = value * _FACTORS[unit]
    if not 1 <= tokens <= _LARGEST or tokens != int(tokens):
        raise ValueError(ALLOWED)
    return Amount(tokens=int(tokens))


def parse_tokens(text: str) -> int:
    """Like `parse_amount`, without shares.

    Raises:
        ValueError: it says no number of tokens; the text is what is allowed.
    """
    try:
        amount = parse_amount(text)
    except ValueError:
        amount = Amount(percent=0)
    if amount.tokens is None:
        raise ValueError(ALLOWED_TOKENS)
    return amount.tokens


def doubt(desk: Desk, reported: int, estimated: int) -> None:
    """Look at the input tokens reported for a request of `estimated` tokens, before calibration."""
    model, window = desk.llm.info.id, desk.window
    if not reported or model in desk.doubted:
        return
    if silent_overflow(reported, window):
        text = (
            f"The server counted {reported:,} tokens in a request, more than the window of {window:,} holds: "
        )
        text += "it may have cut it without a word, and answered a part of it. "
        text += "The next request is folded first. " if desk.mode == "auto" else ""
        text += "If the window is larger than that, set FOLDLINE_CONTEXT_WINDOW."
    elif not desk.projection.calibration.plausible(model, reported, estimated):
        text = f"The server counted only {reported:,} tokens in a request of about {estimated:,}: it may "
        text += "have cut it without a word. Set FOLDLINE_CONTEXT_WINDOW to the window it runs with."
    else:
        return
    desk.doubted.add(model)
    desk.emit(events.Notice(level="warning", text=text))
