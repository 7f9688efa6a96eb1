"""The arms of a comparison: strategies and references. An arm is made anew for each run.

`oracle`, which nobody can build, is the digest and a ledger that knows what the recorded answers use. That is
the ledger of every other arm, in the same room, with another score: so it tells how much of what is forgotten
is forgotten for lack of room, and how much for want of choosing.

`recorded` is the compactions a session was recorded with, as its own agent made them. Its views are projected
from the record; other arms are held to the moments and sizes of its compactions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from foldline.compaction import (
    BUILT_IN,
    Dependencies,
    DigestCompaction,
    TruncateTurns,
    load_strategy,
)
from foldline.context.calls import paired
from foldline.context.ledger import Place, Score, Seen, likelihood
from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    OptionError,
)
from foldline.sequences import grouped

from .recall import Atom, Need, said
from .record import Compacted, Messages, Meter, PerMessage, Run, Sent, View
from .replay import STRIDE, Arm, kept_messages

RAW = "raw"
"""The whole history with each request: what would be remembered and paid if windows had no end."""
TRUNCATE, ORACLE, RECORDED = "truncate", "oracle", "recorded"
REFERENCES = {
    RAW: "nothing is ever compacted; marked where it exceeds the window",
    TRUNCATE: "leaves out the oldest turns, down to half of the window",
    ORACLE: "impossible: the digest, and a ledger that knows what comes",
    RECORDED: "what the session's own agent kept; all others at its moments, at equal size",
}
"""Arms beside the strategies, and what each is."""


def default_arms() -> list[str]:
    """What is compared where nobody says: all that comes along, and the references that need nothing else."""
    return [RAW, *BUILT_IN, TRUNCATE]


def arm_named(name: str, window: int, dependencies: Dependencies, score: Score = likelihood) -> Arm:
    """The arm of this name, made anew: strategies may remember what they did. `score` is the oracle's.

    Raises:
        FoldlineError: there is no such strategy, or it cannot be made.
    """
    match name:
        case "raw":
            return Arm(name, None)
        case "truncate":
            return Arm(name, TruncateTurns(window // 2))
        case "oracle":
            return Arm(name, DigestCompaction(), score)
        case _:
            if name not in BUILT_IN and ":" not in name:
                known = ", ".join([*REFERENCES, *BUILT_IN])
                raise OptionError(
                    f"There is no strategy {name}; there are {known}, and your own as module:ClassName."
                )
            return Arm(name, load_strategy(name, dependencies))


# --- the oracle --------------------------------------------------------------------------------------

_FADES = 0.97  # what a use counts that comes one answer later: what is needed sooner goes first


def foresight(history: Messages, future: Sequence[Need]) -> Score:
    """A score for this one session: what is needed in the answers to come, in sooner ones more."""
    answers = [message.index for message in history if isinstance(message, AssistantMessage)]
    number = {index: at for at, index in enumerate(answers, start=1)}
    uses = grouped((form, number[need.step]) for need in future for form in need.forms)
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


# --- as its own agent compacted it -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recording:
    """What a session's own compactions came to."""

    run: Run
    sizes: Mapping[int, int]
    """Tokens of the view after a compaction, by the index of the recorded message that came next."""


def recording(entries: Sequence[Entry], *, session: str, meter: Meter) -> Recording | None:
    """The session as its agent held it; None where no compaction was followed by an answer."""
    player = _Views(entries, meter)
    for entry in entries:
        player.play(entry)
    if not player.sizes:
        return None
    run = Run(
        session=session,
        strategy=RECORDED,
        window=0,
        summariser="its own",
        history=tuple(player.history.values()),
        requests=tuple(player.requests),
        compactions=tuple(player.compactions),
        last_view=player.view(),
        due=len(player.sizes),
        counted_from=min(player.sizes),
    )
    return Recording(run, player.sizes)


@dataclass
class _Views:
    """The recorded entries, taken in one by one; messages as `recorded_messages` numbers them."""

    entries: Sequence[Entry]
    meter: Meter
    projection: Projection = field(default_factory=Projection)
    requests: list[Sent] = field(default_factory=list)
    compactions: list[Compacted] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history = dict(kept_messages(self.entries))
        self._tokens = PerMessage(self.meter.tokens)
        self._numbered: dict[int, tuple[BaseMessage, BaseMessage]] = {}
        self._waiting: int | None = None  # tokens after a compaction that no message has followed yet

    def play(self, entry: Entry) -> None:
        message = self.history.get(entry.index) if isinstance(entry, BaseMessage) else None
        if message is not None and self._waiting is not None:
            self.sizes[message.index], self._waiting = self._waiting, None
        if isinstance(message, AssistantMessage):
            self._ask("step", tuple(paired(self.view())), message)
        if not isinstance(entry, Compaction):
            self.projection.append(entry)
            return
        before = self.view()
        if entry.summary:  # asked for by going on from the view, as far as agents are known
            self._ask("summary", before, next(iter(entry.written)).message)
        self.projection.append(entry)
        after = self.view()
        self._waiting = sum(map(self._tokens, after))
        self.compactions.append(Compacted(entry, before, after, len(self.requests)))

    def _ask(self, kind: Literal["step", "summary"], messages: View, answer: BaseMessage) -> None:
        tokens, at = sum(map(self._tokens, messages)), answer.at.timestamp() if answer.at else 0.0
        index = answer.index if kind == "step" else None
        self.requests.append(Sent(kind, messages, tokens, self._tokens(answer), at, index))

    def view(self) -> View:
        """The view now; what was taken back later is no part of the session that is replayed."""
        return tuple(self._shown())

    def _shown(self) -> Iterator[BaseMessage]:
        for item in self.projection.view:
            known, message = self.history.get(item.index), item.message
            if known is None and not item.written:
                continue
            if id(message) not in self._numbered:
                after = STRIDE * len(self._numbered) + 1  # an index that no recorded message has
                numbered = message.model_copy(update={"index": after if known is None else known.index})
                shown = known if known is not None and known.parts == message.parts else numbered
                self._numbered[id(message)] = (message, shown)  # kept alive: known by its identity
            yield self._numbered[id(message)][1]
