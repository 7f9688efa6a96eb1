"""A turn: the user's request, then steps until the model answers without calling a tool."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress

from foldline.compaction import CompactionFailed, largest_items, pause_reason
from foldline.context.calls import broke_off, paired, unanswered
from foldline.context.numbers import many
from foldline.context.tally import FIXED
from foldline.context.todos import newly_completed
from foldline.context.tokens import message_tokens
from foldline.llm import (
    Answer,
    ContextOverflow,
    LLMError,
    Request,
    RetryChunk,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)
from foldline.protocol import (
    OVERFLOW,
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Edit,
    FoldlineError,
    Part,
    Reason,
    RequestRecord,
    UserMessage,
    events,
    text_parts,
)

from .calls import Calls
from .instructions import moved_notice, opening
from .job_news import ended_notice
from .on_record import record_failure
from .pictures import hide_refused_picture, picture_advice
from .rewind import deliver
from .room import (
    auto_compact_blocker,
    doubt,
    draft_early,
    end_of_task_is_due,
    make_room,
    must_choose,
    was_declined,
)
from .state import AgentState
from .toolset import take_tools, tools_digest

_BYTES = 413
"""The status of a request too large in bytes, which says nothing about the window."""


class Turn:
    """Runs one turn. The history holds all of it, also when it is cancelled or fails half-way."""

    def __init__(self, state: AgentState, calls: Calls) -> None:
        self._state = state
        self._calls = calls
        self._compacts: set[Reason] = {"threshold", "phase"}
        """What is still a reason to compact in this turn: what failed is not tried at each step."""
        self._summaries_before = state.summary_requests

    async def run(self, parts: Sequence[Part], max_steps: int | None = None) -> AssistantMessage:
        """The final answer.

        Raises:
            FoldlineError: it failed, or was not done after `max_steps` requests, also those for summaries.
        """
        grew = await take_tools(self._state)
        await self.begin(parts)
        if grew or not self._state.fits():
            await self.make_room()
        if self._state.is_full() and not must_choose(self._state):
            self._say_stopped()
        return await self._steps(max_steps)

    async def again(self) -> AssistantMessage:
        """Goes on with a turn that broke off: its step once more. Of an answer that broke off the view lets
        go, so that what leaves is the request that failed; the history keeps what there was of it.

        Raises:
            FoldlineError: nothing is open, or it failed again.
        """
        state = self._state
        newest = unanswered(state.projection)
        if newest is None:
            raise FoldlineError("There is nothing to try again: the model has answered. Send a prompt.")
        await self._settle()
        await take_tools(state)
        if broke_off(newest):
            await state.session.append(Edit(target=newest.index, action="drop"), durable=True)
        await self.make_room()
        return await self._steps()

    async def _steps(self, max_steps: int | None = None) -> AssistantMessage:
        try:
            answer = await self.step(drafts=self._drafts_at(0, max_steps))
            steps = 1
            while answer.calls:
                await self._calls.run(answer.calls)
                await self.deliver_dmail()
                self._demand_more(steps, max_steps)
                await self.make_room()
                self._demand_more(steps, max_steps)
                answer = await self.step(drafts=self._drafts_at(steps, max_steps))
                steps += 1
        except FoldlineError as failure:
            await record_failure(self._state, failure)
            raise
        return answer

    def _demand_more(self, steps: int, max_steps: int | None) -> None:
        """Raises FoldlineError where the turn has had its steps. Requests for summaries count: a model that
        calls the same tool for ever has one with nearly every step."""
        summaries = self._state.summary_requests - self._summaries_before
        if max_steps is not None and steps + summaries >= max_steps:
            of_these = f" ({summaries} of them for summaries)" if summaries else ""
            total = many(steps + summaries, "step")
            raise FoldlineError(f"Stopped after {total}{of_these}, before the work was done.")

    async def _settle(self) -> None:
        """A turn that was cancelled may still be at a file, and record it; its D-Mail would fold this."""
        await self._state.known_files.settled()
        if self._state.mailbox is not None:
            self._state.mailbox.take()

    async def begin(self, parts: Sequence[Part]) -> None:
        """The request is on disk before anything leaves for the model."""
        state = self._state
        await self._settle()
        opened = bool(state.projection.view)
        first = moved_notice(state.session) if opened else await opening_of(state)
        preamble = state.projection.tally.estimate(FIXED) if opened else sum(map(message_tokens, first))
        state.check_window(preamble)
        turn = Checkpoint(id=state.projection.next_checkpoint_id)
        told = ended_notice(state.jobs)
        await state.session.append(*first, turn, *told, UserMessage(parts=tuple(parts)), durable=True)

    async def deliver_dmail(self) -> None:
        """Where the model sent one: back to its checkpoint, keeping the request of this turn."""
        state = self._state
        dmail = state.mailbox.take() if state.mailbox is not None else None
        if dmail is not None:
            await deliver(state, dmail)

    async def make_room(self) -> None:
        """Between two steps: fold where the window is full, or a task is done and it soon will be.

        Only a full window waits for a draft that is still being written. Where it fails, the turn goes on.
        """
        state = self._state
        draft = state.draft
        if state.is_full():
            if not was_declined(state):
                await self._fold("threshold")
        elif (draft.overdue or newly_completed(state.projection)) and end_of_task_is_due(state):
            if draft.drafting:
                draft.overdue = True
            else:
                await self._fold("phase")

    async def _fold(self, reason: Reason) -> None:
        state = self._state
        if reason not in self._compacts:
            return
        if reason == "phase" and (state.mode == "ask" or auto_compact_blocker(state) is not None):
            return  # nothing depends on it yet
        if auto_compact_blocker(state) is not None and not must_choose(state):
            self._say_stopped()
            return
        try:
            await make_room(state, reason)
        except (CompactionFailed, LLMError) as failure:
            self._compacts -= {"phase", reason}
            state.emit(events.Notice(level="warning", text=f"{failure} The turn goes on without a fold."))

    def _say_stopped(self) -> None:
        """Once a turn, where folding by itself has stopped although a fold is due."""
        state = self._state
        paused = pause_reason(state.projection)
        if state.mode == "off" or not paused:
            return
        self._compacts.clear()
        text = f"{paused[:-1]}: not folding again by itself. "
        text += f"Largest: {largest_items(state.projection)}. /compact folds at your word."
        state.emit(events.Notice(level="warning", text=text))

    def _drafts_at(self, steps: int, max_steps: int | None) -> bool:
        """Whether the next fold may be drafted beside the step after so many. Where nobody goes on after the
        turn (`foldline run`), its last step drafts in vain: that is the first one of a plain question."""
        return self._state.choices.interactive or (steps > 0 and steps + 1 != max_steps)

    async def step(self, *, drafts: bool = True) -> AssistantMessage:
        """One request; refused as too long, room is made and it is sent again, each time strictly smaller.
        `drafts` is whether the next fold may be drafted meanwhile."""
        state = self._state
        await self._mark_step()
        if drafts:
            draft_early(state)  # not before: the mark may change the last item
        while True:
            size = state.size()
            try:
                return await self._ask()
            except LLMError as failure:
                if await hide_refused_picture(state, failure):
                    continue
                if not isinstance(failure, ContextOverflow):
                    self._advise(failure)
                    raise
                overflow = failure
                if overflow.status != _BYTES:
                    state.learn_refusal(min(size, overflow.window or size))
                if not await self._shrunk():
                    why = auto_compact_blocker(state)
                    if why is None and overflow.window is None:
                        state.forget_refusal()
                    raise _given_up(overflow, why or "Nothing more can be folded.", state) from overflow

    def _advise(self, failure: LLMError) -> None:
        if advice := picture_advice(self._state, failure):
            self._state.emit(events.Notice(level="warning", text=advice))

    async def _mark_step(self) -> None:
        """A checkpoint before the step. The model is told of it where it may come back."""
        state = self._state
        shown = state.mailbox is not None
        await state.session.append(Checkpoint(id=state.projection.next_checkpoint_id, shown=shown))

    async def _shrunk(self) -> bool:
        """Whether a fold, or what the user chose, made the refused request smaller."""
        before = self._state.projection.tokens
        with suppress(CompactionFailed, ContextOverflow):  # The fold has reported it as an event.
            await make_room(self._state, "overflow")
        return self._state.projection.tokens < before

    async def _ask(self) -> AssistantMessage:
        state = self._state
        messages = paired(item.message for item in state.projection.view)
        estimated = state.projection.sent + state.overhead
        state.emit(events.StepStarted(model=state.llm.info.id, tokens=state.size()))
        record = RequestRecord(
            digest=state.digests.of(messages),
            model=state.llm.info.id,
            dialect=state.llm.dialect,
            after=state.projection.last_index,
            view_items=len(messages),
            tools=tools_digest(state.specs),
            estimated=estimated,
        )
        heard = _Heard(state)

        async def given_up(again: RetryChunk) -> None:
            """What came of an answer that is asked for again is kept, outside of the view."""
            nonlocal record
            if (partial := again.partial) is not None:
                calls = [f"{call.name} {call.arguments}" for call in partial.calls]
                said = "\n\n".join(filter(None, [partial.text, *calls])) or None
                broken = {"error": again.sentence, "usage": partial.usage, "said": said}
                await self._close(record.model_copy(update=broken), None)
                record = record.model_copy(update={"after": state.projection.last_index})

        try:
            answer = await heard.listen(Request(messages=messages, tools=state.specs), given_up)
        except asyncio.CancelledError:
            partial = heard.partial("cancelled")
            await self._close(record.model_copy(update={"stop_reason": "cancelled"}), partial)
            raise
        except ContextOverflow as overflow:
            said = (overflow.partial or heard.partial("error") or AssistantMessage()).text
            why = None if overflow.status == _BYTES else OVERFLOW
            refused = {"error": str(overflow), "said": said or None, "window": overflow.window or 0}
            await self._close(record.model_copy(update={**refused, "stop_reason": why}), None)
            raise
        except LLMError as failure:
            partial = failure.partial or heard.partial("error")
            await self._close(record.model_copy(update={"error": str(failure)}), partial)
            raise
        usage = answer.usage
        if usage is not None:
            doubt(state, usage.input, estimated)
        if state.llm.info.window_from == "server":
            record = record.model_copy(update={"window": state.llm.info.window})
        state.forget_refusal()  # what went through is smaller: from here on, the history tells of it
        record = record.model_copy(update={"usage": usage, "stop_reason": answer.stop_reason})
        await self._close(record, answer)
        if usage is not None:
            state.emit(events.UsageReported(model=answer.model or state.llm.info.id, usage=usage))
        if answer.stop_reason == "length":
            cut = answer.error or "The answer was cut off at the model's output limit."
            state.emit(events.Notice(level="warning", text=cut))
        elif not answer.text and not answer.calls:
            state.emit(events.Notice(level="warning", text="The model gave an empty answer. Ask again."))
        return answer

    async def _close(self, record: RequestRecord, answer: AssistantMessage | None) -> None:
        said = [answer] if answer is not None and answer.parts else []
        await self._state.session.append(*said, record, durable=not (answer and answer.calls))


async def opening_of(state: AgentState) -> Sequence[BaseMessage]:
    """What a new session begins with. Instruction files that were left alone are named."""
    begins = await asyncio.to_thread(opening, state.cwd)
    for sentence in begins.left_out:
        state.emit(events.Notice(level="warning", text=sentence))
    return begins.messages


def _given_up(overflow: ContextOverflow, why: str, state: AgentState) -> FoldlineError:
    if advice := picture_advice(state, overflow):
        return FoldlineError(f"{overflow} {advice}")
    return FoldlineError(
        f"{overflow} {why} Largest: {largest_items(state.projection)}. "
        "Fold with /compact, start over with /clear, or switch to a model with a larger window (/model)."
    )


class _Heard:
    """Listens to one answer, passes it on as events, and remembers what came in case it breaks off."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._text: list[str] = []

    async def listen(
        self, request: Request, given_up: Callable[[RetryChunk], Awaitable[None]]
    ) -> AssistantMessage:
        """The answer. Each one that is given up for another goes to `given_up`."""
        emit = self._state.emit
        async with aclosing(self._state.llm.stream(request)) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk():
                        self._text.append(chunk.text)
                        emit(events.TextDelta(text=chunk.text))
                    case ThinkingChunk():
                        emit(events.ThinkingDelta(text=chunk.text))
                    case ToolCallChunk():
                        pass
                    case RetryChunk():
                        self._text.clear()
                        await given_up(chunk)
                        emit(chunk.event)
                    case Answer():
                        return chunk.message
        raise LLMError("The model's answer ended without an end: try again.")

    def partial(self, reason: str) -> AssistantMessage | None:
        text = "".join(self._text)
        if not text:
            return None
        return AssistantMessage.model_validate(
            {"model": self._state.llm.info.id, "stop_reason": reason, "parts": text_parts(text)}
        )
