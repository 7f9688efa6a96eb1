"""Sessions replayed under one arm, for tests of what is measured of them."""

from collections.abc import Sequence

from foldline.context.tokens import message_tokens
from foldline.evaluation.arms import arm_named
from foldline.evaluation.record import Meter, Run
from foldline.evaluation.replay import replay
from foldline.evaluation.summarisers import digest_summariser
from foldline.llm import LLM
from foldline.protocol import BaseMessage

METER = Meter("script weights", message_tokens)


async def replayed(
    history: Sequence[BaseMessage],
    arm: str,
    *,
    window: int,
    llm: LLM | None = None,
    pins: frozenset[int] = frozenset(),
) -> Run:
    """Summaries by the digest, where no other model is given."""
    writer = llm or digest_summariser(window)
    return await replay(
        history,
        arm_named(arm, window, {LLM: writer}),
        session="made",
        window=window,
        summariser=writer,
        summarised_by="digest",
        meter=METER,
        pins=pins,
    )
