"""Selects the older work that `importance` and `semantic` keep verbatim.

They keep it in addition to the newest work.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from foldline.compaction.strategy import CompactionContext, load_prompt
from foldline.compaction.summary_text import KEPT, unframed
from foldline.compaction.summary_view import SummarisedPart, can_shrink, with_summary
from foldline.compaction.summary_writer import SummaryWriter
from foldline.compaction.truncation import LEAST_CLIP
from foldline.memory.clip import clip_messages
from foldline.memory.conversation import needs_context
from foldline.memory.importance import WORTH, answered_by
from foldline.memory.language import language_of
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    UserMessage,
)
from foldline.view.cut import can_pay, giant_results
from foldline.view.items import Key, Messages, is_preamble, is_summary
from foldline.view.units import Unit, units_of

from .summary import SummaryCompaction

_NEWEST_SHARE = 2
"""1/_NEWEST_SHARE (half) of the tokens to keep is reserved for valuable older work, if there is enough."""
_LEAST_SHARE = 4
"""Older work gets at least 1/_LEAST_SHARE (a quarter) of the tokens to keep.

This is also true if required units take up more than half of them.
"""
_CLIP_SHARE = 4
"""A result larger than 1/_CLIP_SHARE (a quarter) of the tokens to keep is clipped to that size."""
_SIZE_WEIGHT = 4
"""Weight of a unit's size, which lowers the unit's value.

A unit that takes up all the room for older work must be worth five times as much as a tiny one.
"""


def units_in(ctx: CompactionContext) -> list[Unit]:
    """Return the units of a view, after clipping giant results."""
    limit = max(LEAST_CLIP, ctx.keep_recent_tokens // _CLIP_SHARE)
    indices = [
        result.index for result in giant_results(ctx.history, limit, pins=ctx.pins)
    ]
    clipped = clip_messages(ctx.history, dict.fromkeys(indices, limit))
    return units_of(clipped, ctx.pins)


async def compact_units(
    ctx: CompactionContext, units: Sequence[Unit], worth: Sequence[float]
) -> Messages | None:
    """Return the most valuable units and a summary of the others.

    Returns None if there is nothing to compact.

    Args:
        worth: the value of each unit, as a score.
    """
    if ctx.first_kept_index is not None:  # the user chose what stays
        return await SummaryCompaction().compact(ctx)
    selection = await asyncio.to_thread(select, ctx, units, worth)
    part = _part_beside(ctx, selection)
    if not can_pay(part.compacted) or not await can_shrink(ctx, part):
        return _only_clipped(ctx, units)
    messages = _with_requests(ctx.history, part.compacted)
    notes = await SummaryWriter(ctx).write(messages, part.earlier_notes)
    return await with_summary(ctx, part, notes)


def _part_beside(ctx: CompactionContext, selection: "Selection") -> SummarisedPart:
    """Return the part of the view that is not selected."""
    kept = _by_key(selection.kept_units)
    compacted: list[BaseMessage] = []
    summaries: list[str] = []
    for message in ctx.history:
        if is_summary(message):
            if message.index in ctx.pins:
                kept[message.key] = message
            else:
                summaries.append(unframed(message))
        elif message.key not in kept and not is_preamble(message):
            compacted.append(message)
    remark = ""
    if selection.has_gaps:
        text = load_prompt("summary-kept", language_of(ctx.history))
        remark = f"\n\n<{KEPT}>\n{text}\n</{KEPT}>"
    return SummarisedPart(compacted, summaries, _in_order(ctx, kept), remark)


def _by_key(units: Sequence[Unit]) -> dict[Key, BaseMessage]:
    return {message.key: message for unit in units for message in unit.messages}


def _with_requests(history: Messages, compacted: Messages) -> list[BaseMessage]:
    """Return the compacted messages, together with the requests to which they belong."""
    last_key = compacted[-1].key
    keys = {message.key for message in compacted}
    messages: list[BaseMessage] = []
    for message in history:
        if message.key in keys or isinstance(message, UserMessage):
            messages.append(message)
        if message.key == last_key:
            break
    return messages


def _only_clipped(
    ctx: CompactionContext, units: Sequence[Unit]
) -> list[BaseMessage] | None:
    """Return the view with giant results clipped.

    Returns None if there are no giant results.
    """
    clipped = _by_key(units)
    if all(clipped.get(message.key, message) is message for message in ctx.history):
        return None
    movable = {
        message.key: message for message in ctx.history if not is_preamble(message)
    }
    return [*ctx.preamble, *_in_order(ctx, movable | clipped)]


def _in_order(
    ctx: CompactionContext, kept: Mapping[Key, BaseMessage]
) -> list[BaseMessage]:
    return [kept[message.key] for message in ctx.history if message.key in kept]


@dataclass
class Selection:
    """Keeps track of the selected units and the remaining room."""

    units: list[Unit]
    room: int
    """Estimated number of tokens still free for further units."""
    start_of_newest: int
    """Position of the first unit of the newest work. This unit and all later ones are kept."""
    kept: set[int] = field(default_factory=set)
    """Positions of the units to keep."""

    @property
    def kept_units(self) -> list[Unit]:
        return [self.units[position] for position in sorted(self.kept)]

    @property
    def has_gaps(self) -> bool:
        """Whether any older units are kept, so that units between kept ones may be missing."""
        return min(self.kept, default=self.start_of_newest) < self.start_of_newest

    def keep(self, position: int) -> None:
        if position not in self.kept:
            self.kept.add(position)
            self.room -= self.units[position].tokens

    def keep_newest(self, *, spare: int) -> None:
        """Keep as much of the newest work as possible, leaving `spare` tokens of room."""
        while self.start_of_newest > 0:
            position = self.start_of_newest - 1
            fits = self.units[position].tokens <= self.room - spare
            if position not in self.kept and not fits:
                return
            self.keep(position)
            self.start_of_newest = position

    def keep_valuable(self, worth: Sequence[float]) -> None:
        """Keep the older units with the highest value for their size, until there is no room left."""
        room = max(1, self.room)

        def value(position: int) -> float:
            share = self.units[position].tokens / room
            return worth[position] / (1 + _SIZE_WEIGHT * share)

        older = [
            position
            for position in range(self.start_of_newest)
            if worth[position] >= WORTH
        ]
        for position in sorted(older, key=value, reverse=True):
            if self.units[position].tokens <= self.room:
                self.keep(position)


def select(
    ctx: CompactionContext, units: Sequence[Unit], worth: Sequence[float]
) -> Selection:
    """Choose the units to keep."""
    keep = ctx.keep_recent_tokens
    selection = Selection(list(units), keep, start_of_newest=len(units))
    for position, unit in enumerate(units):
        if _is_pinned(ctx, unit):
            selection.kept.add(position)
    for position in _required(units):
        selection.keep(position)
    selection.keep_newest(spare=keep // _NEWEST_SHARE)
    _keep_answered(selection, keep // _NEWEST_SHARE)
    selection.room = max(selection.room, keep // _LEAST_SHARE)
    selection.keep_valuable(worth)
    selection.keep_newest(spare=0)
    _drop_leading_notices(ctx, selection)
    return selection


def _is_pinned(ctx: CompactionContext, unit: Unit) -> bool:
    return any(message.index in ctx.pins for message in unit.messages)


def _required(units: Sequence[Unit]) -> set[int]:
    """Return the positions of units that must be kept.

    These are the newest unit, results that the model has not seen, and the requests of the open turn.
    """
    newest_first = range(len(units) - 1, -1, -1)
    open_turn = [
        *takewhile(lambda position: not _ends_turn(units[position]), newest_first)
    ]
    spoken = [
        at for at in newest_first if not isinstance(units[at].first, DeveloperMessage)
    ]
    answers = [
        at for at in newest_first if isinstance(units[at].first, AssistantMessage)
    ]
    unseen = [at for at in answers[:1] if units[at].results]
    requests = [at for at in open_turn if isinstance(units[at].first, UserMessage)]
    typed = [at for at in open_turn if units[at].prompt]
    return {*spoken[:1], *unseen, *requests[:1], *typed[:1]}


def _ends_turn(unit: Unit) -> bool:
    return isinstance(unit.first, AssistantMessage) and not unit.calls


def _keep_answered(selection: Selection, limit: int) -> None:
    """Keep the message to which the user's newest consent refers.

    Without that message, "ok, do as you said" would make no sense. The message is clipped to `limit` tokens.
    """
    units = selection.units
    consents = [
        position for position in selection.kept if needs_context(units[position].prompt)
    ]
    if not consents:
        return
    answered = answered_by(units, max(consents))
    if answered is None or answered in selection.kept:
        return
    message, *others = units[answered].messages
    clipped = clip_messages([message], {message.index: max(LEAST_CLIP, limit)})
    units[answered] = Unit((*clipped, *others))
    selection.keep(answered)


def _drop_leading_notices(ctx: CompactionContext, selection: Selection) -> None:
    """Drop notices at the beginning of the kept units.

    Pinned notices are kept (docs/design/invariants.md).
    """
    for position in sorted(selection.kept):
        unit = selection.units[position]
        if _is_pinned(ctx, unit):
            continue
        if not isinstance(unit.first, DeveloperMessage):
            return
        selection.kept.remove(position)
