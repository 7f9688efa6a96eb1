"""The ceiling, an arm that nobody can build: the digest, and behind it what the recorded answers use next.

Within a fixed budget it takes, soonest first, what an answer to come needs, the session has said and the view
no longer says. So it tells how much of what is forgotten is forgotten for lack of room, and how much for want
of choosing.
"""

from collections.abc import Sequence
from dataclasses import replace

from foldline.compaction import CompactionContext, DigestCompaction
from foldline.context.tokens import estimate_tokens
from foldline.context.view import is_summary, with_text
from foldline.protocol import NEW, BaseMessage

from .recall import USABLE, Form, Need, atoms, said

ORACLE = "oracle"
ORACLE_TOKENS = 3_000
"""What it may add to a view, at each compaction anew: at 32k twice as much gained next to nothing."""
_MARK = "\n\n[the oracle] What the recorded answers will use, which no agent can know:\n"


class OracleCompaction:
    """Knows the future of one recorded session: the needs of its answers, in their order."""

    def __init__(self, future: Sequence[Need]) -> None:
        self._future = future

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        history = tuple(_without_choice(message) for message in ctx.history)
        made = await DigestCompaction().compact(replace(ctx, history=history))
        now = max((message.index for message in ctx.history), default=NEW)
        return made and [
            with_text(message, message.text + self._choice(made, now))
            if _is_new_summary(message)
            else message
            for message in made
        ]

    def _choice(self, view: Sequence[BaseMessage], now: int) -> str:
        """What this view lacks of what comes after the entry `now`."""
        known: set[Form] = set().union(*(said(atoms(message, USABLE)) for message in view))
        chosen: list[str] = []
        room = ORACLE_TOKENS - estimate_tokens(_MARK)
        for need in self._future:
            if need.source.index <= now < need.step and known.isdisjoint(need.forms):
                tokens = estimate_tokens(need.atom.text) + 1
                if tokens <= room:
                    room -= tokens
                    chosen.append(need.atom.text)
                    known |= said([need.atom])
        return _MARK + "\n".join(chosen) if chosen else ""


def of_possible(value: float | None, ceiling: float | None) -> float | None:
    """A figure as a share of the oracle's; None where the oracle has nothing either. More than 1 where a
    strategy left more standing than the oracle's base and choice together."""
    return None if value is None or not ceiling else value / ceiling


def _is_new_summary(message: BaseMessage) -> bool:
    return message.index == NEW and is_summary(message)


def _without_choice(message: BaseMessage) -> BaseMessage:
    """Each compaction chooses anew, from all that was said."""
    before, mark, _ = message.text.partition(_MARK) if is_summary(message) else ("", "", "")
    return with_text(message, before) if mark else message
