"""A turn: the user's prompt, then steps until the model answers without calling a tool."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from foldline.compaction import largest_items
from foldline.context.calls import broke_off, early_end, unanswered
from foldline.context.tally import FIXED
from foldline.context.tokens import message_tokens
from foldline.llm import ContextOverflow, LLMError
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    DeveloperMessage,
    Edit,
    FoldlineError,
    Part,
    UserMessage,
    text_parts,
)

from .auto_compact import AutoCompact, auto_compact_blocker
from .calls import Calls
from .fallback import Fallbacks
from .hooks import fire, refresh_hooks
from .instructions import ending_notice, job_notice, moved_notice, session_preamble, skill_news
from .limits import LoopWatch
from .reminders import reminders
from .request import TOO_MANY_BYTES, hide_refused_picture, may_be_too_long, picture_advice, send_request
from .rewind import deliver, record_others_changes
from .skill_loading import opened_prompt
from .state import AgentState
from .toolset import take_tools, wait_for_servers
from .trust_question import ask_trust

_MOST_SENT_ON = 3
"""Times that a hook may send the model on in one turn: one that never lets it stop would cost without end."""


class Turn:
    """Runs one turn. The history holds all of it, also when it is cancelled or fails half-way."""

    def __init__(self, state: AgentState, calls: Calls, fallbacks: Fallbacks) -> None:
        self._state = state
        self._fallbacks = fallbacks
        self._calls = calls
        self._compaction = AutoCompact(state)
        self._loop = LoopWatch()
        self._steps = 0
        """Requests so far, those for summaries apart."""
        self._decided = False
        """Whether it is decided already how the next step goes: with its prompt."""
        self._summaries_before = 0
        self._hook_messages: list[DeveloperMessage] = []
        """What hooks say to the prompt."""
        self._sent_on_times = 0
        """How often a hook did not let the model stop."""

    async def run(
        self, parts: Sequence[Part] | None, max_steps: int | None = None
    ) -> AssistantMessage | None:
        """The final answer to a prompt; without `parts`, that of the turn that broke off, which is continued.

        None where the prompt was not sent: `AgentState.unsent` says why.

        Raises:
            FoldlineError: it failed, or a bound was reached: `max_steps` requests, also those for summaries.
        """
        state, usual = self._state, self._state.bounds.limits
        if max_steps is not None:
            state.bounds.limits = replace(usual, turn_steps=max_steps)
        try:
            return await self._run(parts)
        finally:
            state.bounds.limits = usual

    async def _run(self, parts: Sequence[Part] | None) -> AssistantMessage | None:
        self._state.plan_waits = False
        await self._state.bounds.begin_turn(self._state)
        if parts is None:
            await self._reopen()
        elif not await self._open(UserMessage(parts=tuple(parts))):
            return None
        self._summaries_before = self._state.bounds.summaries
        try:
            answer = await self._answer()
            while await self._sent_on():
                answer = await self._answer()
        except FoldlineError as failure:
            await self._state.record_failure(failure)
            raise
        return answer

    async def _answer(self) -> AssistantMessage:
        while (answer := await self.step()).calls and not self._state.plan_waits:
            pass
        return answer

    async def _sent_on(self) -> bool:
        """Whether a hook wants more than this answer: the model reads what."""
        again = {"stop_hook_active": self._sent_on_times > 0}
        ended = "Stop" if self._state.parent is None else "SubagentStop"
        why = (await fire(self._state, ended, again)).refused
        if not why or self._sent_on_times >= _MOST_SENT_ON:
            return False
        self._sent_on_times += 1
        more = UserMessage(origin="machine", parts=text_parts(f"A hook of the user's says: {why}"))
        await self._state.session.append(more, durable=True)
        return True

    async def _heard(self, prompt: UserMessage) -> str:
        """What hooks refuse of a prompt, as a sentence; what they say to it goes with it."""
        state = self._state
        if state.parent is not None:
            return ""  # its prompt is the model's
        await refresh_hooks(state)
        if state.start_words is None:
            state.start_words = []
            source = "resume" if state.projection.view else "startup"
            state.start_words = (await fire(state, "SessionStart", {"source": source}, [source])).messages
        answer = await fire(state, "UserPromptSubmit", {"prompt": prompt.text})
        self._hook_messages = answer.messages
        return f"a hook refuses it: {answer.refused}" if answer.refused else ""

    async def _open(self, prompt: UserMessage) -> bool:
        """Make room for the prompt and append it; whether that could be done."""
        state = self._state
        state.unsent = ""
        await ask_trust(state)
        if why := await self._heard(prompt):
            state.unsent = why
            return False
        await wait_for_servers(state)  # they may have what it calls or names
        prompt = await opened_prompt(state, prompt)
        await take_tools(state)
        try:
            state.unsent = await self._compaction.before_prompt(prompt)
        except asyncio.CancelledError:
            state.unsent = "you cancelled the compaction that makes room for it."
            raise
        if not state.unsent:
            await self.begin(prompt)
            self._decided = True
        return not state.unsent

    async def _reopen(self) -> None:
        """Drop an answer that broke off from the view, so that the request that failed leaves again."""
        state = self._state
        if unanswered(state.projection) is None:
            raise FoldlineError("There is nothing to try again: the model has answered. Send a prompt.")
        await self._settle()
        await take_tools(state)
        await self._drop_broken()

    async def _drop_broken(self) -> None:
        """The newest answer, where it broke off: what is asked again is asked as it was."""
        newest = unanswered(self._state.projection)
        if newest is not None and broke_off(newest):
            await self._state.session.append(Edit(target=newest.index, action="drop"), durable=True)

    async def begin(self, prompt: UserMessage) -> None:
        """The prompt is on disk before anything leaves for the model."""
        state = self._state
        await self._settle()
        opened = bool(state.projection.view)
        first = (
            [*moved_notice(state.session), *skill_news(state)] if opened else await session_preamble(state)
        )
        preamble = state.projection.tally.estimate(FIXED) if opened else sum(map(message_tokens, first))
        state.check_window(preamble)
        await record_others_changes(state)
        turn = Checkpoint(id=state.projection.next_checkpoint_id)
        beside = (
            *ending_notice(state),
            *job_notice(state.jobs),
            *(state.start_words or ()),
            *self._hook_messages,
        )
        await state.session.append(*first, turn, *beside, *reminders(state), prompt, durable=True)
        if state.start_words:
            state.start_words = []

    async def _settle(self) -> None:
        """Wait until a cancelled turn has recorded its files, and drop its D-Mail: it would hit this turn."""
        await self._state.known_files.settled()
        if self._state.mailbox is not None:
            self._state.mailbox.take()

    async def step(self) -> AssistantMessage:
        """Make room, ask the model, run what it calls; its answer."""
        self._demand_steps_left()
        if self._state.subagents is not None and await self._state.subagents.deliver():
            self._decided = False
        await self._compaction.before_step(decided=self._decided)
        self._decided = False
        self._demand_steps_left()
        answer = await self.query()
        self._steps += 1
        if answer.calls:
            if ending := early_end(answer, self._state.window):
                await self._calls.refuse(answer, ending)
            else:
                await self._calls.run(answer.calls)
            await self._loop.after_step(self._state, answer)
            await self._deliver_dmail()
        return answer

    async def query(self) -> AssistantMessage:
        """The answer to one request. Refused as too long, it is sent again, each time strictly smaller."""
        state = self._state
        # The model sees the checkpoint where it may come back to it.
        shown = state.mailbox is not None
        await record_others_changes(state)
        place = Checkpoint(id=state.projection.next_checkpoint_id, shown=shown)
        await state.session.append(*reminders(state), place)
        self._compaction.draft_next()  # not before: the checkpoint may change the last item
        suspected = False
        while True:
            size = state.size()
            try:
                return await send_request(state)
            except ContextOverflow as overflow:
                if not await hide_refused_picture(state, overflow):
                    await self._make_smaller(overflow, size)
            except LLMError as failure:
                if await hide_refused_picture(state, failure):
                    continue
                if not suspected and may_be_too_long(failure, size, state.window):
                    suspected = True
                    state.warn(f"{failure} It may be too long: made smaller, it is tried once more.")
                    if await self._compaction.after_overflow():
                        continue
                if await self._fallbacks.take(failure):
                    await self._drop_broken()
                    continue
                if advice := picture_advice(state, failure):
                    state.warn(advice)
                raise

    async def _make_smaller(self, overflow: ContextOverflow, size: int) -> None:
        """Make room after a request of this size, in tokens, was refused as too long."""
        state = self._state
        if overflow.status != TOO_MANY_BYTES:
            state.learn_refusal(min(size, overflow.window or size))
        if await self._compaction.after_overflow():
            return
        why = auto_compact_blocker(state)
        if why is None and overflow.window is None:
            state.forget_refusal()
        if advice := picture_advice(state, overflow):
            raise FoldlineError(f"{overflow} {advice}") from overflow
        raise FoldlineError(
            f"{overflow} {why or 'Nothing more can be compacted.'} Largest: "
            f"{largest_items(state.projection)}. Compact with /compact, start over with /clear, or switch to "
            "a model with a larger window (/model)."
        ) from overflow

    def _demand_steps_left(self) -> None:
        """Raises FoldlineError where a bound is reached. Requests for summaries count: a model that calls the
        same tool for ever has one with nearly every step."""
        summaries = self._state.bounds.summaries - self._summaries_before
        self._state.bounds.demand(self._steps + summaries if self._steps else 0, summaries)

    async def _deliver_dmail(self) -> None:
        """Where the model sent itself one: back to its checkpoint, keeping the request of this turn."""
        dmail = self._state.mailbox.take() if self._state.mailbox is not None else None
        if dmail is not None:
            await deliver(self._state, dmail)
