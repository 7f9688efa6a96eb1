"""A recorded session played again, step by step, through the agent's own compacting, under one strategy.

Teacher-forced: every answer is the recorded one, whatever the view holds. So it measures what a strategy
costs and what it keeps, and not how an agent would have gone on from there.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from foldline.agent.auto_compact import auto_compact_blocker, end_of_task_is_due
from foldline.agent.compact import CompactionRequest, commit, compact, draft_now
from foldline.agent.state import AgentState
from foldline.compaction import CompactionStrategy, Proposal
from foldline.compaction.ledger import SessionLedger
from foldline.context.budget import LEAST_ANSWER, Budget, BudgetSettings
from foldline.context.calls import paired
from foldline.context.clip import clip_to_tokens
from foldline.context.invariants import broken
from foldline.context.ledger import Ledger, Score, likelihood
from foldline.context.projection import Projection, project
from foldline.context.todos import newly_completed
from foldline.context.tokens import message_tokens
from foldline.context.view import is_preamble, with_text
from foldline.history import Session
from foldline.llm import LLM, Answer, Chunk, ModelInfo, Request
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Edit,
    Entry,
    FoldlineError,
    Reason,
    RequestRecord,
    SessionHeader,
    ToolResultMessage,
    Usage,
    UserMessage,
    events,
)

from .record import Compacted, Messages, Meter, PerMessage, Run, Sent, View

STEP_SECONDS = 10.0
"""Between two messages of a session that recorded no times."""
UNLIMITED = 100_000_000
"""The window of a run that never compacts."""

Sizes = Callable[[int, str], BudgetSettings]
Progress = Callable[[int], None]
"""Called with the number of recorded messages played so far."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the ways that are compared."""

    name: str
    strategy: CompactionStrategy | None
    """None: the whole history is sent each time."""
    score: Score = likelihood
    """What its ledger goes by."""


async def replay(
    history: Messages,
    arm: Arm,
    *,
    session: str,
    window: int,
    summariser: LLM,
    summarised_by: str,
    meter: Meter,
    sizes: Sizes = lambda *_: BudgetSettings(),
    pins: frozenset[int] = frozenset(),
    moments: Mapping[int, int] | None = None,
    progress: Progress = lambda _: None,
) -> Run:
    """What this arm would have sent and compacted, had it held the recorded session (`recorded_messages`).

    The window is that of the session's model, whose part the summariser plays; in tokens. `sizes` are those a
    user set, given a window and a model; `pins` are pinned as soon as they are said. Where the summariser
    cannot be asked, the compactions say by which later rung they were made.

    Args:
        moments: where they are given, it compacts before these messages, by index, and to so many tokens at
            most; and at no other time. What is recalled is counted from the first on.
    """
    player = _Player(history, arm, window, summariser, meter, sizes, pins, moments or {})
    player.check_room()
    for played, message in enumerate(history, start=1):
        await player.play(message)
        progress(played)
    return player.run(session, summarised_by)


class WindowTooSmall(FoldlineError):
    """What is never compacted leaves no room to work in: the agent would not begin."""


class _MemorySession(Session):
    """A session in memory. Recorded messages keep their index and their time; markers get the next one."""

    def __init__(self, on_compaction: Callable[[Compaction, View], None]) -> None:
        now = datetime.now(UTC)
        super().__init__(SessionHeader(id="replay", created_at=now, cwd="/"))
        self._on_compaction = on_compaction

    async def append(self, *entries: Entry, durable: bool = False) -> list[Entry]:
        appended = []
        for entry in entries:
            index = entry.index if isinstance(entry, BaseMessage) else self.projection.last_index + 1
            numbered = entry.model_copy(update={"index": index})
            before = self.view if isinstance(entry, Compaction) else ()
            self.take_in((numbered,))
            if isinstance(numbered, Compaction):
                self._on_compaction(numbered, before)
            appended.append(numbered)
        return appended

    @property
    def view(self) -> View:
        return tuple(item.message for item in self.projection.view)


@dataclass
class _RecordingLLM:
    """The summariser, its answers recorded: as itself, or as the session's model, with another window."""

    llm: LLM
    window: int
    on_answer: Callable[[Request, AssistantMessage], None]

    @property
    def info(self) -> ModelInfo:
        return replace(self.llm.info, window=self.window)

    @property
    def dialect(self) -> str:
        return self.llm.dialect

    async def prepare(self) -> ModelInfo:
        await self.llm.prepare()
        return self.info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        async with aclosing(self.llm.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Answer):
                    self.on_answer(request, chunk.message)
                yield chunk

    async def aclose(self) -> None:
        await self.llm.aclose()


@dataclass
class _Player:
    history: Messages
    arm: Arm
    window: int
    summariser: LLM
    meter: Meter
    sizes: Sizes
    pins: frozenset[int]
    moments: Mapping[int, int]
    requests: list[Sent] = field(default_factory=list)
    compactions: list[Compacted] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    clipped: dict[int, BaseMessage] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = _MemorySession(self._record_compaction)
        self.clock = 0.0
        self.newest: BaseMessage | None = None
        self._due = 0
        self._length = PerMessage(self.meter.tokens)
        limit = self.window if self.arm.strategy else UNLIMITED
        llm, writer = (
            _RecordingLLM(self.summariser, window, self._record_summary)
            for window in (limit, min(limit, self.summariser.info.window))
        )
        self.state = AgentState(
            session=self.session,
            llm=llm,
            summary_llm=writer,
            tools=(),
            emit=self._on_event,
            budget_settings=self.sizes,
            ledger=SessionLedger(Ledger(self.arm.score)),
        )
        if self.arm.strategy is None:
            self.state.mode = "off"
        else:
            self.state.strategy = self.arm.strategy

    # --- one message ------------------------------------------------------------------------------

    def check_room(self) -> None:
        """Raises WindowTooSmall where system prompt and instruction files fill the window, and FoldlineError
        where nothing could be done in it."""
        if self.arm.strategy is not None:
            _ = self.state.budget
            try:
                self.state.check_window(sum(map(message_tokens, filter(is_preamble, self.history))))
            except FoldlineError:
                raise WindowTooSmall("its system prompt and instruction files fill the window") from None

    async def play(self, message: BaseMessage) -> None:
        if (size := self.moments.get(message.index)) and self.arm.strategy:
            await self._compact_to(size)
        match message:
            case UserMessage():
                await self._before_a_prompt(message)
                await self.session.append(message)
            case AssistantMessage():
                await self._step(message)
            case ToolResultMessage():
                await self.session.append(self._clipped_to_fit(message))
            case _:
                await self.session.append(message)
        if message.index in self.pins:
            await self.session.append(Edit(target=message.index, action="pin"))
        self._advance_clock(message)
        self.newest = message

    async def _before_a_prompt(self, message: UserMessage) -> None:
        if end_of_task_is_due(self.state) and auto_compact_blocker(self.state) is None:
            await self._compact("phase")
        if self.state.is_full([message]):
            await self._compact("threshold", pending=self.state.estimate(message))

    async def _step(self, answer: AssistantMessage) -> None:
        state = self.state
        if isinstance(self.newest, ToolResultMessage):
            if state.is_full():
                await self._compact("threshold")
            elif newly_completed(self.session.projection) and end_of_task_is_due(state):
                await self._compact("phase")
        messages = await self._sent()
        length = sum(map(self._length, messages))
        usage = Usage(input=length, cached=self._shared(messages), output=self._length(answer))
        record = RequestRecord(
            digest="",
            model=state.llm.info.id,
            dialect=state.llm.dialect,
            after=state.projection.last_index,
            view_items=len(messages),
            estimated=state.projection.sent,
            usage=usage,
        )
        self.requests.append(Sent("step", messages, length, usage.output, self.clock, answer.index))
        said = answer.model_copy(update={"usage": usage, "model": state.llm.info.id})
        await self.session.append(said, record)

    async def _sent(self) -> View:
        """The request as it leaves: where it is longer than the window, the server refuses it first."""
        messages = tuple(paired(self.session.view))
        while self.arm.strategy and sum(map(self._length, messages)) > self.window:
            known = len(self.compactions)
            await self._compact("overflow")
            messages = tuple(paired(self.session.view))
            if len(self.compactions) == known:
                break
        return messages

    def _clipped_to_fit(self, result: ToolResultMessage) -> ToolResultMessage:
        """A fresh result as this agent lets it in: a group must fit beside what a compaction leaves."""
        if self.arm.strategy is None:
            return result
        group = self.state.projection.group(self.newest.index) if self.newest else ()
        taken = sum(
            message_tokens(item.message)
            for item in reversed(self.session.projection.view[-len(group) - 1 :])
            if isinstance(item.message, ToolResultMessage) and item.index in group
        )
        room = max(256, self.state.room_for_results() - taken)
        if message_tokens(result) <= room:
            return result
        short = with_text(result, clip_to_tokens(result.text, room, result.index))
        self.clipped[result.index] = short
        return short

    # --- compacting ----------------------------------------------------------------------------------

    async def _compact(self, reason: Reason, *, pending: int = 0) -> None:
        """As the agent does; where it stops doing so by itself, its user is taken to say "compact now"."""
        if self.arm.strategy is None:
            return
        self._due += 1
        asked = "manual" if reason == "threshold" and auto_compact_blocker(self.state) else reason
        with suppress(FoldlineError):  # noted by `_on_event`
            await compact(
                self.state, CompactionRequest(asked, pending=pending, will_retry=reason == "overflow")
            )

    async def _compact_to(self, size: int) -> None:
        """To the fullest view of so many tokens at most, else to the smallest there is: of a few drafts that
        keep more or less of the newest work, the one that comes nearest."""
        self._due += 1
        sent = len(self.requests)
        drafts: list[tuple[int, Proposal, list[Sent]]] = []
        least, most = 1, _PARTS
        while least < most:
            part = (least + most) // 2
            del self.requests[sent:]
            try:
                proposal = await draft_now(self.state, _to_size(size, part), self._on_event)
            except FoldlineError as failure:
                self.failures.append(str(failure))
                break
            if proposal is None:
                break
            tokens = sum(map(self._length, proposal.after))
            drafts.append((tokens, proposal, self.requests[sent:]))
            least, most = (part + 1, most) if tokens <= size else (least, part)
        del self.requests[sent:]
        if drafts:
            fitting = [draft for draft in drafts if draft[0] <= size]
            drafts.sort(key=lambda draft: draft[0])
            _, proposal, asked = drafts[max(0, len(fitting) - 1)]
            self.requests += asked
            await commit(self.state, proposal)

    def _record_compaction(self, entry: Compaction, before: View) -> None:
        after = self.session.view
        wrong = broken(self.session.projection)
        where = f"compaction {len(self.compactions) + 1} of {self.arm.name}"
        self.broken += [f"{where}: {fault}" for fault in wrong]
        self.compactions.append(Compacted(entry, before, after, len(self.requests)))

    def _on_event(self, event: events.Event) -> None:
        if isinstance(event, events.CompactionEnd) and event.error:
            self.failures.append(event.error)

    def _record_summary(self, request: Request, answer: AssistantMessage) -> None:
        messages = tuple(request.messages)
        length = sum(map(self._length, messages))
        # The cache-preserving form is the ordinary request and one instruction more: it has the tools, too.
        goes_on = messages[:1] == self.session.view[:1]
        self.requests.append(
            Sent("summary", messages, length, self._length(answer), self.clock, tools=goes_on)
        )

    # --- measuring --------------------------------------------------------------------------------

    def _shared(self, messages: Messages) -> int:
        """What a prefix cache would report: that a provider has one is all that compacting asks for."""
        before = next((sent.messages for sent in reversed(self.requests) if sent.kind == "step"), ())
        shared = 0
        for earlier, now in zip(before, messages, strict=False):
            if earlier is not now:
                break
            shared += self._length(now)
        return shared

    def _advance_clock(self, message: BaseMessage) -> None:
        recorded = message.at.timestamp() if message.at else self.clock + STEP_SECONDS
        self.clock = max(self.clock, recorded)

    def run(self, session: str, summarised_by: str) -> Run:
        return Run(
            session=session,
            strategy=self.arm.name,
            window=self.window,
            summariser=summarised_by,
            history=tuple(self.history),
            requests=tuple(self.requests),
            compactions=tuple(self.compactions),
            last_view=self.session.view,
            clipped=self.clipped,
            pins=self.pins,
            broken=tuple(self.broken),
            failures=tuple(self.failures),
            due=self._due,
            counted_from=min(self.moments, default=0),
        )


_PARTS = 16  # how finely what is kept of the newest work is varied, where a view shall have a given size


def _to_size(size: int, part: int) -> CompactionRequest:
    """A compaction to so many tokens that keeps so many sixteenths of them of the newest work, and writes
    half as much."""
    keep = max(1, size * part // _PARTS)
    summary = max(LEAST_ANSWER, keep // 2)
    budget = Budget(2 * size, size // 7, keep, summary, soft_ratio=0.75, set_threshold=size + size // 2)
    return CompactionRequest("threshold", budget=budget)


STRIDE = 8
"""Between the indices of two recorded messages there is room for the markers of any strategy."""


def recorded_messages(entries: Sequence[Entry]) -> View:
    """The messages a replay plays again: all that the session went on from, its own compactions left out.

    What was taken back by a rewind is no part of it. Usage is that of another view, and is dropped.
    """
    return tuple(message for _, message in kept_messages(entries))


def kept_messages(entries: Sequence[Entry]) -> Iterator[tuple[int, BaseMessage]]:
    """The messages of `recorded_messages`, each with the index it was recorded with."""
    for at, message in enumerate(_kept_messages(entries, project(entries))):
        update: dict[str, object] = {"index": STRIDE * (at + 1)}
        if isinstance(message, AssistantMessage):
            update |= {"usage": None, "model": None}
        yield message.index, message.model_copy(update=update)


def recorded_pins(entries: Sequence[Entry]) -> frozenset[int]:
    """What the user had pinned in the end, by the index it has in `recorded_messages`."""
    pins = project(entries).pins
    return frozenset(message.index for index, message in kept_messages(entries) if index in pins)


def _kept_messages(entries: Sequence[Entry], projection: Projection) -> list[BaseMessage]:
    said = [
        entry
        for entry in entries
        if isinstance(entry, BaseMessage) and projection.fate(entry.index).kind not in ("reverted", "aside")
    ]
    opening = next((at for at, message in enumerate(said) if isinstance(message, UserMessage)), len(said))
    # Before the first request there is nothing to answer.
    answers = AssistantMessage | ToolResultMessage
    return [message for at, message in enumerate(said) if at > opening or not isinstance(message, answers)]


def session_name(path: Path) -> str:
    """What a report calls a session."""
    return path.parent.name if path.name == "events.jsonl" else path.name.split(".", 1)[0]
