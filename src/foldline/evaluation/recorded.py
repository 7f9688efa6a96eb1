"""The arm `recorded`: the compactions a session was recorded with, as its own agent made them.

Its views are projected from the record. The moments and sizes of its compactions are what other arms are then
held to: the same number of tokens at the same moment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from foldline.context.calls import paired
from foldline.context.projection import Projection
from foldline.protocol import AssistantMessage, BaseMessage, Compaction, Entry

from .record import Compacted, Meter, PerMessage, Run, Sent
from .replay import STRIDE, kept_messages

RECORDED = "recorded"


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
        self.compactions.append(Compacted(entry, before, after, len(self.requests), bool(entry.summary)))

    def _ask(
        self, kind: Literal["step", "summary"], messages: tuple[BaseMessage, ...], answer: BaseMessage
    ) -> None:
        tokens, at = sum(map(self._tokens, messages)), answer.at.timestamp() if answer.at else 0.0
        index = answer.index if kind == "step" else None
        self.requests.append(Sent(kind, messages, tokens, self._tokens(answer), at, index))

    def view(self) -> tuple[BaseMessage, ...]:
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
