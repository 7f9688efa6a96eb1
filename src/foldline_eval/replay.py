"""Replays a recorded session with one strategy, through the agent's own compaction code.

Every answer is the recorded one, whatever the view contains (teacher forcing). A replay measures what a
strategy costs and keeps, not how an agent would have continued.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from foldline.agent.session.auto_compact import auto_compact_blocker, end_of_task_is_due
from foldline.agent.session.compact import CompactionRequest, compact
from foldline.agent.session.state import AgentState
from foldline.compaction import CompactionStrategy
from foldline.compaction.ledger import SessionLedger
from foldline.history import Session
from foldline.llm import LLM, Answer, Chunk, Request, WrappedLLM
from foldline.memory.clip import clip_to_tokens
from foldline.memory.ledger import Ledger
from foldline.memory.ledger_score import Score, likelihood
from foldline.memory.todos import newly_completed
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
from foldline.view.budget import BudgetSettings
from foldline.view.calls import paired
from foldline.view.items import is_preamble, with_text
from foldline.view.projection import project
from foldline.view.rules import broken
from foldline.view.tokens import message_tokens

from .record import (
    CommittedCompaction,
    Messages,
    PerMessage,
    RecordedSession,
    ReplayRun,
    SentRequest,
    View,
)

STEP_SECONDS = 10.0
"""Time assumed between two messages without timestamps, in seconds."""
PREAMBLE_TOO_LARGE = "the system prompt and the instruction files fill the window"
UNLIMITED = 100_000_000
"""Window size for a run that never compacts, in tokens."""

Sizes = Callable[[int], BudgetSettings]


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to compact, with its name as used in the report."""

    name: str
    strategy: CompactionStrategy | None
    """The strategy; if None, nothing is compacted."""
    score: Score = likelihood
    """Ranks the lines in the ledger."""


async def replay(
    session: RecordedSession,
    arm: Arm,
    summariser: LLM,
    sizes: Sizes = lambda *_: BudgetSettings(),
) -> ReplayRun:
    """Replay a recorded session with one arm.

    If the summariser cannot be reached, a later rung of the failure ladder makes the compactions.

    Args:
        summariser: writes summaries, and stands in for the session's model. Its window is the session's.
        sizes: returns the user's settings for a given window.

    Raises:
        WindowTooSmall: the preamble fills the window.
    """
    run = ReplayRun(session, arm.name, summariser.info.window)
    player = _Player(run, arm, summariser, sizes)
    for message in session.history:
        await player.play(message)
    run.last_view = player.session.view
    return run


class WindowTooSmall(FoldlineError):
    """The system prompt and the instruction files leave no room in the window."""


class _MemorySession(Session):
    """A session that is kept in memory.

    Recorded messages keep their index and time. Other entries get the next index.
    """

    def __init__(self) -> None:
        now = datetime.now(UTC)
        super().__init__(SessionHeader(id="replay", created_at=now, cwd="/"))

    async def append(self, *entries: Entry, durable: bool = False) -> list[Entry]:
        appended = []
        for entry in entries:
            index = (
                entry.index
                if isinstance(entry, BaseMessage)
                else self.projection.last_index + 1
            )
            numbered = entry.model_copy(update={"index": index})
            self.take_in((numbered,))
            appended.append(numbered)
        return appended

    @property
    def view(self) -> View:
        return tuple(item.message for item in self.projection.view)


@dataclass
class _RecordingLLM(WrappedLLM):
    """Reports each response of the summariser."""

    on_answer: Callable[[Request, AssistantMessage], None]

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        async with aclosing(self.llm.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Answer):
                    self.on_answer(request, chunk.message)
                yield chunk


class _Player:
    """Plays the messages of a session, and adds what happens to the record of the run.

    Raises:
        WindowTooSmall: the system prompt and instruction files fill the window.
        FoldlineError: the window is too small for any session.
    """

    def __init__(self, run: ReplayRun, arm: Arm, summariser: LLM, sizes: Sizes) -> None:
        self.run = run
        self.arm = arm
        self.session = _MemorySession()
        self.clock = 0.0
        self.newest: BaseMessage | None = None
        self._length = PerMessage(message_tokens)
        self.state = AgentState(
            session=self.session,
            llm=_RecordingLLM(summariser, self._record_summary),
            tools=(),
            emit=self._on_event,
            budget_settings=sizes,
            ledger=SessionLedger(Ledger(arm.score)),
        )
        if arm.strategy is None:
            self.state.mode = "off"
            return
        self.state.strategy = arm.strategy
        _ = self.state.budget
        preamble = filter(is_preamble, run.session.history)
        try:
            self.state.check_window(sum(map(message_tokens, preamble)))
        except FoldlineError:
            raise WindowTooSmall(PREAMBLE_TOO_LARGE) from None

    # --- one message ------------------------------------------------------------------------------

    async def play(self, message: BaseMessage) -> None:
        """Append one recorded message.

        If a compaction is due, compact first.
        """
        match message:
            case UserMessage():
                await self._before_prompt(message)
                await self.session.append(message)
            case AssistantMessage():
                await self._step(message)
            case ToolResultMessage():
                await self.session.append(self._clipped_to_fit(message))
            case _:
                await self.session.append(message)
        if message.index in self.run.session.pins:
            await self.session.append(Edit(target=message.index, action="pin"))
        self._advance_clock(message)
        self.newest = message

    async def _before_prompt(self, message: UserMessage) -> None:
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
        messages = await self._fitting_request()
        length = sum(map(self._length, messages))
        usage = Usage(
            input=length,
            cached=self._cached_tokens(messages),
            output=self._length(answer),
        )
        record = RequestRecord(
            digest="",
            model=state.llm.info.id,
            dialect=state.llm.dialect,
            after=state.projection.last_index,
            view_items=len(messages),
            estimated=state.projection.meter.sent,
            usage=usage,
        )
        step = SentRequest(
            "step", messages, length, usage.output, self.clock, answer.index
        )
        self.run.requests.append(step)
        measured_answer = answer.model_copy(
            update={"usage": usage, "model": state.llm.info.id}
        )
        await self.session.append(measured_answer, record)

    async def _fitting_request(self) -> View:
        """Compact until the next request fits into the window, and return its messages."""
        messages = tuple(paired(self.session.view))
        while self.arm.strategy and sum(map(self._length, messages)) > self.run.window:
            count = len(self.run.compactions)
            await self._compact("overflow")
            messages = tuple(paired(self.session.view))
            if len(self.run.compactions) == count:
                break
        return messages

    def _clipped_to_fit(self, result: ToolResultMessage) -> ToolResultMessage:
        """Clip a new result as the agent does, so that it fits into the remaining room of its tool group."""
        if self.arm.strategy is None:
            return result
        group = self.state.projection.group(self.newest.index) if self.newest else ()
        used = sum(
            message_tokens(item.message)
            for item in self.session.projection.view[-len(group) - 1 :]
            if isinstance(item.message, ToolResultMessage) and item.index in group
        )
        room = max(_LEAST_RESULT, self.state.room_for_results() - used)
        if message_tokens(result) <= room:
            return result
        clipped = with_text(result, clip_to_tokens(result.text, room, result.index))
        self.run.clipped[result.index] = clipped
        return clipped

    # --- compacting ----------------------------------------------------------------------------------

    async def _compact(self, reason: Reason, *, pending: int = 0) -> None:
        """Compact as the agent does.

        If automatic compaction has stopped, the user is assumed to compact manually.
        """
        if self.arm.strategy is None:
            return
        self.run.due += 1
        if reason == "threshold" and auto_compact_blocker(self.state):
            reason = "manual"
        before = self.session.view
        count = len(self.session.entries)
        with suppress(FoldlineError):  # recorded by `_on_event`
            await compact(self.state, CompactionRequest(reason, pending=pending))
        for entry in self.session.entries[count:]:
            if isinstance(entry, Compaction):
                self._record_compaction(entry, before)

    def _record_compaction(self, entry: Compaction, before: View) -> None:
        run = self.run
        after = self.session.view
        place = f"compaction {len(run.compactions) + 1} of {self.arm.name}"
        run.broken += [f"{place}: {fault}" for fault in broken(self.session.projection)]
        run.compactions.append(
            CommittedCompaction(entry, before, after, len(run.requests))
        )

    def _on_event(self, event: events.Event) -> None:
        if isinstance(event, events.CompactionEnd) and event.error:
            self.run.failures.append(event.error)

    def _record_summary(self, request: Request, answer: AssistantMessage) -> None:
        messages = tuple(request.messages)
        length = sum(map(self._length, messages))
        # The cache-preserving form adds an instruction to the ordinary request, so it includes the tools.
        extends_view = messages[:1] == self.session.view[:1]
        self.run.requests.append(
            SentRequest(
                "summary",
                messages,
                length,
                self._length(answer),
                self.clock,
                tools=extends_view,
            )
        )

    # --- measuring --------------------------------------------------------------------------------

    def _cached_tokens(self, messages: Messages) -> int:
        """Return how many cached tokens a provider would report.

        These are the tokens of the prefix shared with the previous request.
        """
        steps = (sent for sent in reversed(self.run.requests) if sent.kind == "step")
        newest = next(steps, None)
        previous = newest.messages if newest else ()
        tokens = 0
        for earlier, message in zip(previous, messages, strict=False):
            if earlier is not message:
                break
            tokens += self._length(message)
        return tokens

    def _advance_clock(self, message: BaseMessage) -> None:
        recorded = message.at.timestamp() if message.at else self.clock + STEP_SECONDS
        self.clock = max(self.clock, recorded)


_LEAST_RESULT = 256
"""Minimum size, in tokens, to which a new result is clipped."""
STRIDE = 8
"""Distance between the indexes of recorded messages. It leaves room for other entries."""


def recorded_messages(entries: Sequence[Entry]) -> View:
    """Return the messages to replay.

    Messages that were rewound, and the session's own compactions, are left out. Usage is removed, because it
    belongs to a different view.
    """
    messages = []
    for position, message in enumerate(_kept_messages(entries), start=1):
        update: dict[str, object] = {"index": STRIDE * position}
        if isinstance(message, AssistantMessage):
            update |= {"usage": None, "model": None}
        messages.append(message.model_copy(update=update))
    return tuple(messages)


def recorded_pins(entries: Sequence[Entry]) -> frozenset[int]:
    """Return the indexes of the messages that are pinned at the end of the session.

    The indexes are those in `recorded_messages`.
    """
    pins = project(entries).pins
    kept = enumerate(_kept_messages(entries), start=1)
    return frozenset(
        STRIDE * position for position, message in kept if message.index in pins
    )


def _kept_messages(entries: Sequence[Entry]) -> list[BaseMessage]:
    projection = project(entries)
    messages = [
        entry
        for entry in entries
        if isinstance(entry, BaseMessage)
        and projection.fate(entry.index).kind not in ("reverted", "aside")
    ]
    is_user = [isinstance(message, UserMessage) for message in messages]
    first_prompt = is_user.index(True) if True in is_user else len(messages)
    # Answers before the first prompt answer nothing.
    preamble = [
        message
        for message in messages[: first_prompt + 1]
        if not isinstance(message, AssistantMessage | ToolResultMessage)
    ]
    return [*preamble, *messages[first_prompt + 1 :]]


def session_name(path: Path) -> str:
    """Return the name of a session as used in a report."""
    return (
        path.parent.name if path.name == "events.jsonl" else path.name.split(".", 1)[0]
    )
