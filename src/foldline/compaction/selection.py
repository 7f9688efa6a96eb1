"""Strategies that keep some old items, too: `ImportanceCompaction` and `SemanticCompaction`."""

import asyncio
import logging
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice, takewhile
from operator import mul

from foldline.context.budget import Unit, units_of
from foldline.context.clip import clip_to_tokens
from foldline.context.cut import can_pay, seen_up_to
from foldline.context.importance import (
    WORTH,
    CurrentTask,
    Importance,
    answered_by,
    current_task,
    importance,
    is_bare_consent,
    similarity,
    unit_text,
)
from foldline.context.language import language_of
from foldline.context.permissions import needs_context
from foldline.context.tokens import estimate_tokens
from foldline.context.view import is_preamble, is_summary, with_text
from foldline.llm import Embedder, LLMError, NoEmbedder, Vector
from foldline.protocol import AssistantMessage, BaseMessage, DeveloperMessage, ToolResultMessage, UserMessage

from .strategy import CompactionContext, load_prompt
from .summary import Writer, can_shrink
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
    """The units of a view, seen giants clipped. Of a very long view, only the newest messages and pins."""
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
    """The view with the worthiest units, and one summary of the others; None: nothing to compact."""
    choice = await asyncio.to_thread(choose, ctx, units, worth)
    stays = {message.key: message for unit in choice.stays for message in unit.messages}
    compacted = [m for m in ctx.history if not (m.key in stays or is_preamble(m) or is_summary(m))]
    language = language_of(ctx.history)
    absorbed = [unframed(m) for m in ctx.history if is_summary(m) and m.index not in ctx.pins]
    pinned = {m.key: m for m in ctx.history if is_summary(m) and m.index in ctx.pins}

    async def view(notes: str) -> list[BaseMessage]:
        summary = await asyncio.to_thread(
            with_appendix, notes, compacted, "\n\n".join(absorbed), ctx.details, ctx.max_summary_tokens
        )
        if min(choice.kept, default=0) < choice.newest:
            summary += f"\n\n<{KEPT}>\n{load_prompt('summary-kept', language)}\n</{KEPT}>"
        return [*ctx.preamble, framed(summary), *_in_order(ctx, stays | pinned)]

    if not can_pay(compacted) or not await can_shrink(ctx, compacted, view):
        return _only_clipped(ctx, choice.units)
    earlier = "\n\n".join(map(notes_of, absorbed))
    return await view(await Writer(ctx, language).update(earlier, _seen_by_model(ctx.history, compacted)))


def _seen_by_model(history: Sequence[BaseMessage], compacted: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What the model reads: what is compacted, under the requests it was done for, kept or not."""
    gone = {message.key for message in compacted}
    last = max(place for place, message in enumerate(history) if message.key in gone)
    return [m for m in history[: last + 1] if m.key in gone or isinstance(m, UserMessage)]


def _only_clipped(ctx: CompactionContext, units: Sequence[Unit]) -> list[BaseMessage] | None:
    """The view with its giants clipped, where nothing can be compacted; None: there are none."""
    clipped = {message.key: message for unit in units for message in unit.messages}
    if all(clipped.get(message.key, message) is message for message in ctx.history):
        return None
    movable = {message.key: message for message in ctx.history if not is_preamble(message)}
    return [*ctx.preamble, *_in_order(ctx, movable | clipped)]


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
    """Keep what lies behind the cut that the user placed."""
    here = (place for place, unit in enumerate(choice.units) if unit.first.index == first_kept)
    choice.newest = next(here, len(choice.units))
    for place in range(choice.newest, len(choice.units)):
        choice.take(place)


def _keep_newest(choice: Choice, *, until: int, leaving: int) -> None:
    """Keep the newest work, further back without a gap, until so much is left."""
    while choice.newest > 0:
        place = choice.newest - 1
        if place not in choice.kept and (
            choice.free <= until or choice.units[place].tokens > choice.free - leaving
        ):
            return
        choice.take(place)
        choice.newest = place


def _keep_request_of_newest(choice: Choice) -> None:
    """Keep the request of the newest work, where it fits."""
    if choice.newest < len(choice.units) and isinstance(choice.units[choice.newest].first, UserMessage):
        return
    for place in range(choice.newest - 1, -1, -1):
        if isinstance(choice.units[place].first, UserMessage):
            if choice.units[place].tokens <= choice.free:
                choice.take(place)
            return


def _keep_what_is_answered(ctx: CompactionContext, choice: Choice) -> None:
    """What a kept "ok, do as you said" agrees to: of the newest one always, of others where it fits."""
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
    """Drop consents to what is compacted: they say nothing any more."""
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
    """What is kept, pins apart, never begins with a notice (docs/design/invariants.md)."""
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
    """The message within the limit. Stable: what is clipped already stays as it is."""
    text = message.text
    if 2 * len(text) <= limit or estimate_tokens(text) <= limit:  # no sign takes more than two
        return message
    return with_text(message, clip_to_tokens(text, limit, message.index))


class ImportanceCompaction:
    """Keeps the newest work, and what matters most of all before it: failures and fixes, decisions,
    constraints, code."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        units = await asyncio.to_thread(units_in, ctx)
        scores = await asyncio.to_thread(importance, units)
        return await compact_units(ctx, units, [score.points for score in scores])


_log = logging.getLogger("foldline.compaction")

_NEAREST = 8.0
"""Points of the unit that is nearest to the task: as many as constraints can get."""
_OWN_SHARE = 0.4
"""What is left of the points a unit has by itself. Constraints count in full, whatever the task is."""
_MOST_EMBEDDED = 96
"""Units whose vectors are asked for: many more than can be kept. The best by words and by importance."""
_REQUESTS_SHARE = 0.7
"""What was asked says what the task is; the newest steps say where it has come to."""
_NOWHERE = NoEmbedder()

Near = Mapping[int, float]
"""How near units are to the task, from 0 to 1, by their place."""


class SemanticCompaction:
    """Chooses like importance, but mostly by how near a unit is to the task at hand: by the provider's
    embeddings, else by the words that texts share."""

    def __init__(self, embedder: Embedder = _NOWHERE) -> None:
        self._embedder = embedder
        self._vectors: Mapping[bytes, Vector] = {}

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        units = await asyncio.to_thread(units_in, ctx)
        if sum(unit.tokens for unit in units) <= ctx.keep_recent_tokens:
            return await compact_units(ctx, units, [0.0] * len(units))  # all of it stays
        scores = await asyncio.to_thread(importance, units)
        return await compact_units(ctx, units, await self._worth(units, scores))

    async def _worth(self, units: Sequence[Unit], scores: Sequence[Importance]) -> list[float]:
        task = current_task(units)
        texts = await asyncio.to_thread(_gists, units, scores, task)
        worth = blended(scores, await asyncio.to_thread(_near_by_words, texts, task), task.asked_at)
        best = sorted(texts, key=lambda place: -worth[place])[:_MOST_EMBEDDED]
        try:
            near = await self._near_by_meaning({place: texts[place] for place in best}, task)
        except LLMError as failure:
            _log.info("compared by words, not by embeddings: %s", failure)
            return worth
        return blended(scores, near, task.asked_at)

    async def _near_by_meaning(self, texts: Mapping[int, str], task: CurrentTask) -> Near:
        """How near each text is to the task, by embeddings."""
        goals = _goals(task)
        vectors = await self._embedded([*texts.values(), *goals])
        others, wanted = vectors[: len(texts)], vectors[len(texts) :]
        return _together(texts, goals, [[_cosine(goal, vector) for vector in others] for goal in wanted])

    async def _embedded(self, texts: Sequence[str]) -> list[Vector]:
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        fresh = await self._embedder.embed(list(missing.values())) if missing else []
        known = {**self._vectors, **dict(zip(missing, fresh, strict=False))}
        if any(key not in known for key in keys) or len({len(known[key]) for key in keys}) > 1:
            raise LLMError("The embeddings that came back are not one vector of one length for each text.")
        # Only those of this compaction: what has left the view does not come back.
        self._vectors = {key: known[key] for key in keys}
        return [known[key] for key in keys]


def blended(scores: Sequence[Importance], near: Near, at_hand: Container[int] = ()) -> list[float]:
    """Each unit's worth: its constraints, a share of the rest, nearness to the task, which is `at_hand`."""
    return [
        score.rules
        + _OWN_SHARE * (score.points - score.rules)
        + (0.0 if score.empty else _NEAREST * (1.0 if place in at_hand else near.get(place, 0.0)))
        for place, score in enumerate(scores)
    ]


def _gists(units: Sequence[Unit], scores: Sequence[Importance], task: CurrentTask) -> dict[int, str]:
    """What the units are about, by place; nothing for those that say nothing, and for the task itself."""
    task_itself = task.asked_at | task.worked_at
    gists = {
        place: unit_text(unit)
        for place, unit in enumerate(units)
        if not scores[place].empty and place not in task_itself
    }
    return {place: text for place, text in gists.items() if text.strip()}


def _near_by_words(texts: Mapping[int, str], task: CurrentTask) -> Near:
    goals = _goals(task)
    return _together(texts, goals, [similarity(goal, list(texts.values())) for goal in goals])


def _together(
    places: Iterable[int], goals: Mapping[str, float], found: Sequence[Sequence[float]]
) -> dict[int, float]:
    """From the nearness to each of the goals, the nearness to the task, from 0 to 1."""
    scaled = [(share, _scaled(near)) for share, near in zip(goals.values(), found, strict=True)]
    return {place: sum(share * near[at] for share, near in scaled) for at, place in enumerate(places)}


def _scaled(near: Sequence[float]) -> list[float]:
    """From the middle one on, as texts of one conversation are all somewhat alike; 1 for the nearest."""
    middle, most = (sorted(near)[len(near) // 2], max(near)) if near else (0.0, 0.0)
    return [max(0.0, value - middle) / (most - middle) if most > middle else 0.0 for value in near]


def _goals(task: CurrentTask) -> dict[str, float]:
    """The texts of the task, each with its share."""
    goals = {task.requests: _REQUESTS_SHARE, task.steps: 1 - _REQUESTS_SHARE}
    return {text: share for text, share in goals.items() if text.strip()}


def _cosine(one: Vector, other: Vector) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths else 0.0
