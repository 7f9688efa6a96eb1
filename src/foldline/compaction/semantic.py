"""`SemanticCompaction`: what is near to the task at hand stays word for word, the rest becomes a summary."""

import asyncio
import logging
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from operator import mul

from foldline.context.budget import Unit
from foldline.context.importance import (
    CurrentTask,
    Importance,
    current_task,
    importance,
    similarity,
    unit_text,
)
from foldline.llm import Embedder, LLMError, NoEmbedder, Vector
from foldline.protocol import BaseMessage

from .selection import compact_units, units_in
from .strategy import CompactionContext

_log = logging.getLogger("foldline.compaction")

_NEAREST = 8.0
"""Points of the unit that is nearest to the task: as many as constraints can get."""
_OWN_SHARE = 0.4
"""What is left of the points a unit has by itself. Constraints count in full, whatever the task is."""
_MOST_EMBEDDED = 96
"""Units whose vectors are asked for: many more than can be kept. The best by words and by what they tell."""
_REQUESTS_SHARE = 0.7
"""What was asked says what the task is; the newest steps say where it has come to."""
_NOWHERE = NoEmbedder()

Near = Mapping[int, float]
"""How near units are to the task, from 0 to 1, by their place."""


class SemanticCompaction:
    """Chooses like `ImportanceCompaction`, but mostly by how near a unit is to the task at hand.

    By the provider's embeddings; where there are none, or they fail, by the words that texts share. The
    vectors of one compaction are there for the next.
    """

    def __init__(self, embedder: Embedder = _NOWHERE) -> None:
        self._embedder = embedder
        self._vectors: Mapping[bytes, Vector] = {}

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        units = await asyncio.to_thread(units_in, ctx)
        if sum(unit.tokens for unit in units) <= ctx.keep_recent_tokens:
            return await compact_units(
                ctx, units, [0.0] * len(units)
            )  # all of it stays: there is nothing to choose
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
        """How near each text is to the task, by embeddings.

        Raises:
            LLMError: they cannot be had.
        """
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
    """What each unit is worth: its constraints, a share of the rest, and how near it is to the task.

    The requests `at_hand` are the task itself.
    """
    return [
        score.rules
        + _OWN_SHARE * (score.points - score.rules)
        + (0.0 if score.empty else _NEAREST * (1.0 if place in at_hand else near.get(place, 0.0)))
        for place, score in enumerate(scores)
    ]


def _gists(units: Sequence[Unit], scores: Sequence[Importance], task: CurrentTask) -> dict[int, str]:
    """What the units are about, by place; nothing for those that say nothing, and for the task itself."""
    task_itself = task.asked_at | task.worked_at
    told = {
        place: unit_text(unit)
        for place, unit in enumerate(units)
        if not scores[place].empty and place not in task_itself
    }
    return {place: text for place, text in told.items() if text.strip()}


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
