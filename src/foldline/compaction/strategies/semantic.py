"""`SemanticCompaction`: keeps older messages verbatim if they are close to the current task."""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from operator import mul

from foldline.compaction.strategy import CompactionContext
from foldline.llm import Embedder, LLMError, Vector
from foldline.memory.importance import (
    current_task,
    importance,
    is_bare_consent,
    similarity,
    unit_text,
)
from foldline.view.items import Messages
from foldline.view.units import Unit

from .selection import compact_units, units_in

_log = logging.getLogger("foldline.compaction")

_NEAREST = 8.0
"""Score of the unit that is closest to the task. This equals the maximum for constraints."""
_OWN_SHARE = 0.4
"""Weight of a unit's importance, not counting constraints, which are counted in full."""
_MOST_EMBEDDED = 96
"""Maximum number of texts that are embedded, many more than can be kept.

Those that share the most words with the task are chosen.
"""


class SemanticCompaction:
    """Chooses like `ImportanceCompaction`, but mostly by similarity to the current task.

    Texts are compared using the provider's embeddings or, if the provider has none, the words they share.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        units = await asyncio.to_thread(units_in, ctx)
        if sum(unit.tokens for unit in units) <= ctx.keep_recent_tokens:
            # Everything can be kept, so no unit needs a value.
            return await compact_units(ctx, units, [0.0] * len(units))
        scores = await asyncio.to_thread(importance, units)
        embedder = self._embedder
        # After a switch to another provider, texts must not be sent to the previous one.
        provider = ctx.llm.info.provider
        if getattr(embedder, "provider", provider) != provider:
            embedder = None
        nearness = await _nearness(units, embedder)
        worth = [
            score.rules
            + _OWN_SHARE * (score.points - score.rules)
            + _NEAREST * nearness.get(position, 0.0)
            for position, score in enumerate(scores)
        ]
        return await compact_units(ctx, units, worth)


async def _nearness(
    units: Sequence[Unit], embedder: Embedder | None
) -> dict[int, float]:
    """Return how close each unit is to the current task, from 0 to 1, by position.

    All units are rated by words. The best of them are then rated again by embeddings.
    """
    task = current_task(units)
    texts = await asyncio.to_thread(_texts, units, task.positions)
    shares = await asyncio.to_thread(similarity, task.text, list(texts.values()))
    nearness = dict(zip(texts, shares, strict=True))
    if embedder is not None and task.text.strip():
        best = sorted(texts, key=lambda position: -nearness[position])[:_MOST_EMBEDDED]
        try:
            vectors = await embedder.embed(
                [task.text, *(texts[position] for position in best)]
            )
            nearness = dict(zip(best, _similarities(vectors, len(best)), strict=True))
        except LLMError as error:
            _log.info("compared by words, not by embeddings: %s", error)
    return _scaled(nearness) | dict.fromkeys(task.positions, 1.0)


def _texts(units: Sequence[Unit], own_positions: frozenset[int]) -> dict[int, str]:
    """Return the texts that are compared with the task, by position."""
    texts = {
        position: unit_text(unit)
        for position, unit in enumerate(units)
        if position not in own_positions and not is_bare_consent(unit)
    }
    return {position: text for position, text in texts.items() if text.strip()}


def _similarities(vectors: Sequence[Vector], count: int) -> list[float]:
    """Return the cosine similarity of the first vector to each of the others.

    Raises:
        LLMError: there are not `count` others, or the lengths differ.
    """
    if len(vectors) != count + 1 or len({len(vector) for vector in vectors}) > 1:
        raise LLMError(
            "The server did not return one embedding for each text, all of the same length."
        )
    task, *others = vectors
    similarities = []
    for other in others:
        lengths = math.hypot(*task) * math.hypot(*other)
        product = sum(map(mul, task, other))
        similarities.append(product / lengths if lengths else 0.0)
    return similarities


def _scaled(values: Mapping[int, float]) -> dict[int, float]:
    """Scale values to a range from 0 (the median) to 1 (the largest)."""
    ranked = sorted(values.values())
    median = ranked[len(ranked) // 2] if ranked else 0.0
    largest = ranked[-1] if ranked else 0.0
    spread = max(largest - median, 1e-9)
    return {at: max(0.0, value - median) / spread for at, value in values.items()}
