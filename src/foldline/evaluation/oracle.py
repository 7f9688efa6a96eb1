"""The ceiling, an arm nobody can build: the digest, and a ledger that knows what the recorded answers use.

It is the ledger of every other arm, in the same room, with another score. So it tells how much of what is
forgotten is forgotten for lack of room, and how much for want of choosing.
"""

from collections.abc import Sequence

from foldline.context.ledger_score import Place, Score, Seen
from foldline.protocol import AssistantMessage, BaseMessage

from .recall import Atom, Form, Need, said

ORACLE = "oracle"
_FADES = 0.97  # what a use counts that comes one answer later: what is needed sooner goes first


def foresight(history: Sequence[BaseMessage], future: Sequence[Need]) -> Score:
    """A score for this one session: what is needed in the answers to come, in sooner ones more."""
    answers = [message.index for message in history if isinstance(message, AssistantMessage)]
    number = {index: at for at, index in enumerate(answers, start=1)}
    uses: dict[Form, set[int]] = {}
    for need in future:
        for form in need.forms:
            uses.setdefault(form, set()).add(number[need.step])
    known: dict[tuple[str, str], tuple[int, ...]] = {}

    def score(seen: Seen, place: Place | None, now: int) -> float:
        key = (seen.kind, seen.text)
        if key not in known:
            forms = said([Atom(seen.kind, seen.text)])
            known[key] = tuple(set().union(*(uses.get(form, ()) for form in forms)))
        return sum((_FADES ** (use - now) for use in known[key] if use > now), start=0.0)

    return score


def of_possible(value: float | None, ceiling: float | None) -> float | None:
    """A figure as a share of the oracle's; None where the oracle has none. More than 1 where another strategy
    left more standing than the digest and its ledger."""
    return None if value is None or not ceiling else value / ceiling
