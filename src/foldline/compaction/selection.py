"""Keeping some of the old beside the newest: which units stay within the budget, and the view they make."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from foldline.context.budget import Unit, units_of
from foldline.context.cut import can_pay, seen_up_to
from foldline.context.importance import answered_by, importance, is_bare_consent
from foldline.context.language import language_of
from foldline.context.permissions import needs_context
from foldline.context.tokens import estimate_tokens
from foldline.context.view import clip_to_tokens, is_preamble, is_summary, with_text
from foldline.context.view_state import WORTH
from foldline.protocol import AssistantMessage, BaseMessage, DeveloperMessage, ToolResultMessage, UserMessage

from .strategy import CompactionContext, load_prompt
from .summary import Writer
from .summary_text import KEPT, framed, notes_of, unframed, with_appendix

_NEWEST_SHARE = 2
"""Half of what is kept verbatim is the newest work, the other half what matters of the old. What one half
does not need goes to the other ..."""
_LEAST_SHARE = 4
"""... but for a quarter of all, which the old gets in any case."""
_CLIP_SHARE = 4
"""A result of more than a quarter of what is kept is clipped to it ..."""
_LEAST_CLIP = 512
"""... but never below this, in estimated tokens: an error message and its surroundings."""
_MOST_LOOKED_AT = 12_000
"""Messages. In a window of a million tokens there are some four thousand."""
_SIZE_MATTERS = 4
"""A unit that takes all the room of the old must be worth five times one that takes next to nothing."""

Key = tuple[int, int]


def units_in(ctx: CompactionContext) -> list[Unit]:
    """The units of a view, as they would stay: giant results that were seen already are clipped.

    Of a view so long that choosing would be felt, only the newest messages are looked at, and pins.
    """
    seen, limit, start = seen_up_to(ctx.history), _clip_limit(ctx), _looked_at_from(ctx)
    clipped = (
        _clipped(message, limit)
        if place < seen and isinstance(message, ToolResultMessage) and message.index not in ctx.pins
        else message
        for place, message in enumerate(ctx.history)
        if place >= start or message.index in ctx.pins
    )
    return units_of(clipped, ctx.pins)


def _looked_at_from(ctx: CompactionContext) -> int:
    """The place where a tool group or a message of the user begins, or the beginning."""
    start = len(ctx.history) - _MOST_LOOKED_AT
    while start > 0:
        message = ctx.history[start]
        if isinstance(message, UserMessage | AssistantMessage) and message.index not in ctx.pins:
            break
        start -= 1
    kept_from = (at for at, m in enumerate(ctx.history[: max(0, start)]) if m.index == ctx.first_kept_index)
    return next(kept_from, start)


async def compact_units(
    ctx: CompactionContext, units: Sequence[Unit], worth: Sequence[float]
) -> list[BaseMessage] | None:
    """The view in which the worthiest units stay, and one summary stands for the others.

    None where there is nothing to compact.
    """
    choice = await asyncio.to_thread(choose, ctx, units, worth)
    stays = {message.key: message for unit in choice.stays for message in unit.messages}
    folded = [m for m in ctx.history if not (m.key in stays or is_preamble(m) or is_summary(m))]
    if not can_pay(folded):
        return _only_clipped(ctx, choice.units)
    language = language_of(ctx.history)
    absorbed = [unframed(m) for m in ctx.history if is_summary(m) and m.index not in ctx.pins]
    notes = await Writer(ctx, language).update(
        "\n\n".join(map(notes_of, absorbed)), _told(ctx.history, folded)
    )
    summary = await asyncio.to_thread(
        with_appendix, notes, folded, "\n\n".join(absorbed), ctx.details, ctx.max_summary_tokens
    )
    if min(choice.kept, default=0) < choice.newest:
        summary += f"\n\n<{KEPT}>\n{load_prompt('summary-kept', language)}\n</{KEPT}>"
    pinned = {m.key: m for m in ctx.history if is_summary(m) and m.index in ctx.pins}
    return [*_preamble(ctx), framed(summary), *_in_order(ctx, stays | pinned)]


def _told(history: Sequence[BaseMessage], folded: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What the model is told: what is compacted, under the requests it was done for, kept or not."""
    gone = {message.key for message in folded}
    last = max(place for place, message in enumerate(history) if message.key in gone)
    return [m for m in history[: last + 1] if m.key in gone or isinstance(m, UserMessage)]


def _only_clipped(ctx: CompactionContext, units: Sequence[Unit]) -> list[BaseMessage] | None:
    """Where nothing can be compacted, giants may still be clipped."""
    clipped = {message.key: message for unit in units for message in unit.messages}
    if all(clipped.get(message.key, message) is message for message in ctx.history):
        return None
    movable = {message.key: message for message in ctx.history if not is_preamble(message)}
    return [*_preamble(ctx), *_in_order(ctx, movable | clipped)]


def _preamble(ctx: CompactionContext) -> list[BaseMessage]:
    return [message for message in ctx.history if is_preamble(message)]


def _in_order(ctx: CompactionContext, stays: Mapping[Key, BaseMessage]) -> list[BaseMessage]:
    return [stays[message.key] for message in ctx.history if message.key in stays]


# -- choosing ----------------------------------------------------------------------------------------


@dataclass
class Choice:
    """Which units stay, as it comes about."""

    units: list[Unit]
    free: int
    """Tokens left of what may be kept."""
    kept: set[int] = field(default_factory=set)
    """Places of the units that stay."""
    newest: int = 0
    """Where the newest work begins: from there on, every unit stays."""

    @property
    def stays(self) -> list[Unit]:
        return [self.units[place] for place in sorted(self.kept)]

    def take(self, place: int, *, paid: bool = True) -> None:
        if place not in self.kept:
            self.kept.add(place)
            self.free -= self.units[place].tokens if paid else 0


def choose(ctx: CompactionContext, units: Sequence[Unit], worth: Sequence[float]) -> Choice:
    """What has to stay, the newest work, and of the old what is worth most for its size."""
    keep = ctx.keep_recent_tokens
    choice = Choice(list(units), free=keep, newest=len(units))
    must = {*_must_stay(ctx, units)}
    for place in must:
        choice.take(place, paid=not _is_pinned(ctx, units[place]))
    if ctx.first_kept_index is not None:
        _keep_from(choice, ctx.first_kept_index)
        _keep_what_is_answered(ctx, choice)
    else:
        _keep_newest(choice, until=keep - keep // _NEWEST_SHARE, leaving=keep // _LEAST_SHARE)
        _keep_request_of_newest(choice)
        _keep_what_is_answered(ctx, choice)
        choice.free = max(choice.free, keep // _LEAST_SHARE)
        _keep_worthiest(choice, worth)
        _keep_newest(choice, until=0, leaving=0)
        _leave_consents_to_nothing(choice, must)
    _begin_well(ctx, choice)
    return choice


def _must_stay(ctx: CompactionContext, units: Sequence[Unit]) -> Iterator[int]:
    """Pins, the newest unit, results the model has not seen yet, and the requests it has not answered."""
    if ctx.pins:
        yield from (place for place, unit in enumerate(units) if _is_pinned(ctx, unit))
    backwards = range(len(units) - 1, -1, -1)
    spoken = (place for place in backwards if not isinstance(units[place].first, DeveloperMessage))
    yield from islice(spoken, 1)
    answers = (place for place in backwards if isinstance(units[place].first, AssistantMessage))
    yield from (place for place in islice(answers, 1) if units[place].results)
    open_turn = [*takewhile(lambda place: not _ends_turn(units[place]), backwards)]
    yield from islice((place for place in open_turn if isinstance(units[place].first, UserMessage)), 1)
    yield from islice((place for place in open_turn if units[place].asked), 1)


def _ends_turn(unit: Unit) -> bool:
    return isinstance(unit.first, AssistantMessage) and not unit.calls


def _is_pinned(ctx: CompactionContext, unit: Unit) -> bool:
    return any(message.index in ctx.pins for message in unit.messages)


def _keep_from(choice: Choice, first_kept: int) -> None:
    """What the user keeps by placing the cut."""
    here = (place for place, unit in enumerate(choice.units) if unit.first.index == first_kept)
    choice.newest = next(here, len(choice.units))
    for place in range(choice.newest, len(choice.units)):
        choice.take(place)


def _keep_newest(choice: Choice, *, until: int, leaving: int) -> None:
    """Further back from what is kept of the newest work, until so much is left, without a gap."""
    while choice.newest > 0:
        place = choice.newest - 1
        if place not in choice.kept and (
            choice.free <= until or choice.units[place].tokens > choice.free - leaving
        ):
            return
        choice.take(place)
        choice.newest = place


def _keep_request_of_newest(choice: Choice) -> None:
    """What the newest work was asked for, where it fits."""
    if choice.newest < len(choice.units) and isinstance(choice.units[choice.newest].first, UserMessage):
        return
    for place in range(choice.newest - 1, -1, -1):
        if isinstance(choice.units[place].first, UserMessage):
            if choice.units[place].tokens <= choice.free:
                choice.take(place)
            return


def _keep_what_is_answered(ctx: CompactionContext, choice: Choice) -> None:
    """The words that a kept "ok, do as you said" agrees to, which says nothing without them: those of the
    newest one in any case, others where they fit."""
    limit = max(_LEAST_CLIP, ctx.keep_recent_tokens // _NEWEST_SHARE)
    leaning = [place for place in choice.kept if needs_context(choice.units[place].asked)]
    for place in sorted(leaning, reverse=True):
        answered = answered_by(choice.units, place)
        if answered is not None and answered not in choice.kept:
            first, *rest = choice.units[answered].messages
            unit = Unit((_clipped(first, limit), *rest))
            if place == max(leaning) or unit.tokens <= choice.free:
                choice.units[answered] = unit
                choice.take(answered)


def _leave_consents_to_nothing(choice: Choice, must: set[int]) -> None:
    """A consent to what is compacted says nothing any more."""
    for place in choice.kept - must:
        if is_bare_consent(choice.units[place]) and answered_by(choice.units, place) not in choice.kept:
            choice.kept.remove(place)


def _keep_worthiest(choice: Choice, worth: Sequence[float]) -> None:
    room = max(1, choice.free)

    def value(place: int) -> float:
        return worth[place] / (1 + _SIZE_MATTERS * choice.units[place].tokens / room)

    places = (place for place in range(choice.newest) if worth[place] >= WORTH)
    for place in sorted(places, key=value, reverse=True):
        if choice.units[place].tokens <= choice.free:
            choice.take(place)


def _begin_well(ctx: CompactionContext, choice: Choice) -> None:
    """What is kept, pins apart, never begins with a notice (invariant 6)."""
    for place in sorted(choice.kept):
        unit = choice.units[place]
        if not _is_pinned(ctx, unit):
            if not isinstance(unit.first, DeveloperMessage):
                return
            choice.kept.remove(place)


# -- giants ------------------------------------------------------------------------------------------


def _clip_limit(ctx: CompactionContext) -> int:
    return max(_LEAST_CLIP, ctx.keep_recent_tokens // _CLIP_SHARE)


def _clipped(message: BaseMessage, limit: int) -> BaseMessage:
    """Stable: what is clipped already is within the limit, and stays as it is."""
    text = message.text
    if 2 * len(text) <= limit or estimate_tokens(text) <= limit:  # no sign takes more than two
        return message
    return with_text(message, clip_to_tokens(text, limit, message.index))


class ImportanceCompaction:
    """Keeps the newest work, and of all before it the messages that tell most: failures and their fixes,
    decisions, constraints, the newest code. "ok, go on" is not kept at the cost of what it agrees to.
    """

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        units = await asyncio.to_thread(units_in, ctx)
        scores = await asyncio.to_thread(importance, units)
        return await compact_units(ctx, units, [score.points for score in scores])
