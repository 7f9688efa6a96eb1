"""A turn: the user's prompt, then steps until the model answers without a tool call."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from foldline.agent.session.auto_compact import AutoCompact
from foldline.agent.session.event_stream import record_failure
from foldline.agent.session.file_records import record_others_changes
from foldline.agent.session.hook_runs import HOOK_SAYS
from foldline.agent.session.instructions import (
    ending_notice,
    job_notice,
    moved_notice,
    session_preamble,
    skill_news,
)
from foldline.agent.session.rewind import deliver
from foldline.agent.session.skill_loading import opened_prompt
from foldline.agent.session.state import AgentState
from foldline.agent.session.trust_question import ask_trust
from foldline.compaction import largest_items
from foldline.llm import ContextOverflow, LLMError
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    DeveloperMessage,
    Edit,
    FoldlineError,
    Part,
    UserMessage,
    text_parts,
)
from foldline.view.calls import broke_off, early_end, unanswered
from foldline.view.tally import FIXED
from foldline.view.tokens import message_tokens

from .calls import Calls
from .fallback import Fallbacks
from .loop_watch import LoopWatch
from .reminders import Reminders
from .request import (
    TOO_MANY_BYTES,
    hide_refused_picture,
    may_be_too_long,
    picture_advice,
    send_request,
)

MADE_SMALLER = "{failure} The request may be too long. It will be sent once more after a compaction."
NO_SMALLER = (
    "{overflow} {blocker} Largest items: {largest}. Compact with /compact, start over with /clear, or switch "
    "to a model with a larger window (/model)."
)
ALL_COMPACTED = "Nothing more can be compacted."
HOOK_REFUSED = "a user hook rejected the prompt: {reason}"
CANCELLED = "you cancelled the compaction that would have made room for it."
NOTHING_TO_RETRY = (
    "There is nothing to retry: the model has already answered. Send a prompt."
)
_MOST_CONTINUATIONS = 3
"""Maximum number of times that hooks may continue one turn.

This limits the cost of a faulty hook.
"""


class Turn:
    """Runs one turn.

    The history contains the whole turn, even if it is cancelled or fails.
    """

    def __init__(self, state: AgentState, calls: Calls, reminders: Reminders) -> None:
        self._state = state
        self._calls = calls
        self._reminders = reminders
        self._fallbacks = Fallbacks(state)
        self._compaction = AutoCompact(state.compaction)
        self._loop = LoopWatch(
            state.tools, state.budget.bounds, state.permissions.choices
        )
        self._steps = 0
        """Number of requests so far, except those for summaries."""
        self._summaries_before = 0
        self._has_room = False
        """Whether making room for the prompt has already made room for the next request."""
        self._hook_messages: list[DeveloperMessage] = []
        """Messages that hooks add to the prompt."""
        self._continuations = 0
        """Number of times that hooks have continued the turn."""

    async def run(
        self, parts: Sequence[Part] | None, max_steps: int | None = None
    ) -> AssistantMessage | None:
        """Answer a prompt, or continue an interrupted turn.

        Args:
            parts: the prompt; None to continue.
            max_steps: maximum number of requests, including those for summaries.

        Returns:
            The final answer. None if the prompt was not sent; the reason is then in `AgentState.unsent`.

        Raises:
            FoldlineError: the turn failed, or reached a limit.
        """
        bounds = self._state.budget.bounds
        limits = bounds.limits
        if max_steps is not None:
            bounds.limits = replace(limits, turn_steps=max_steps)
        try:
            return await self._run(parts)
        finally:
            bounds.limits = limits

    async def _run(self, parts: Sequence[Part] | None) -> AssistantMessage | None:
        state = self._state
        state.tools.ends_with_plan = False
        await state.budget.bounds.begin_turn(
            state.session, state.models.id, state.events.warn
        )
        if parts is None:
            await self._reopen()
        elif not await self._open(UserMessage(parts=tuple(parts))):
            return None
        self._summaries_before = state.budget.bounds.summaries
        try:
            return await self._answer()
        except FoldlineError as failure:
            await record_failure(state.session, failure)
            raise

    # --- steps -----------------------------------------------------------------------------------

    async def _answer(self) -> AssistantMessage:
        while True:
            answer = await self.step()
            is_final = not answer.calls or self._state.tools.ends_with_plan
            if is_final and not await self._hook_continues():
                return answer

    async def step(self) -> AssistantMessage:
        """Call the model, and run the tool calls in its answer."""
        return await self.execute_calls(await self.query())

    async def query(self) -> AssistantMessage:
        """Make room, append a checkpoint, and call the model."""
        await self._make_room()
        await self._mark_step()
        answer = await self._send()
        self._steps += 1
        return answer

    async def execute_calls(self, answer: AssistantMessage) -> AssistantMessage:
        """Run the tool calls in an answer, and return the answer."""
        if not answer.calls:
            return answer
        ending = early_end(answer, self._state.models.window)
        if ending:
            await self._calls.refuse(answer, ending)
        else:
            await self._calls.run(answer.calls)
        await self._loop.after_step(answer)
        await self._deliver_dmail()
        return answer

    async def _make_room(self) -> None:
        """Deliver the subagents' answers, then compact if needed.

        The limits are checked before and after.
        """
        self._check_limits()
        subagents = self._state.subagents
        if subagents is not None and await subagents.deliver():
            self._has_room = False
        await self._compaction.before_step(has_room=self._has_room)
        self._has_room = False
        self._check_limits()

    async def _mark_step(self) -> None:
        state = self._state
        await record_others_changes(state.tools)
        checkpoint = Checkpoint(
            id=state.projection.next_checkpoint_id,
            shown=state.tools.mailbox
            is not None,  # the model may return to this checkpoint
        )
        await state.session.append(*self._reminders.due(), checkpoint)
        self._compaction.draft_next()  # not earlier: the checkpoint may change the last item

    async def _send(self) -> AssistantMessage:
        """Send the request, repeatedly if necessary, and return the answer.

        A request that was rejected as too long is made strictly smaller and sent again.
        """
        state = self._state
        was_made_smaller = False
        while True:
            size = state.budget.size()
            try:
                return await send_request(state)
            except ContextOverflow as overflow:
                if not await hide_refused_picture(state, overflow):
                    await self._make_smaller(overflow, size)
            except LLMError as failure:
                if await hide_refused_picture(state, failure):
                    continue
                if not was_made_smaller and may_be_too_long(
                    failure, size, state.models.window
                ):
                    was_made_smaller = True
                    state.events.warn(MADE_SMALLER, failure=failure)
                    if await self._compaction.after_overflow():
                        continue
                if await self._fallbacks.take(failure):
                    await self._drop_broken_answer()
                    continue
                if advice := picture_advice(state.projection.view, failure):
                    state.events.warn(advice)
                raise

    async def _make_smaller(self, overflow: ContextOverflow, size: int) -> None:
        """Make room after a request was rejected as too long.

        Args:
            size: size of the rejected request in tokens.

        Raises:
            FoldlineError: nothing is left to compact.
        """
        state = self._state
        if overflow.status != TOO_MANY_BYTES:
            state.budget.record_refusal(min(size, overflow.window or size))
        if await self._compaction.after_overflow():
            return
        blocker = state.compaction.blocker
        if blocker is None and overflow.window is None:
            state.budget.clear_refusal()
        if advice := picture_advice(state.projection.view, overflow):
            raise FoldlineError(f"{overflow} {advice}") from overflow
        raise FoldlineError(
            NO_SMALLER,
            overflow=overflow,
            blocker=blocker or ALL_COMPACTED,
            largest=largest_items(state.projection),
        ) from overflow

    def _check_limits(self) -> None:
        """Raise `LimitReached` if a limit has been reached.

        Requests for summaries count as well, because a model that repeats a call forever causes one in nearly
        every step.
        """
        summaries = self._state.budget.bounds.summaries - self._summaries_before
        steps = self._steps + summaries if self._steps else 0
        self._state.budget.bounds.check(steps, summaries)

    async def _deliver_dmail(self) -> None:
        """Rewind if the model has sent a D-Mail."""
        if self._state.tools.mailbox is None:
            return
        dmail = self._state.tools.mailbox.take()
        if dmail is not None:
            await deliver(self._state.tools, dmail)

    # --- beginning -------------------------------------------------------------------------------

    async def _open(self, prompt: UserMessage) -> bool:
        """Make room for the prompt and append it.

        Returns:
            Whether the prompt was appended.
        """
        state = self._state
        state.unsent = ""
        await ask_trust(state.permissions)
        refusal = await self._run_prompt_hooks(prompt)
        if refusal:
            state.unsent = HOOK_REFUSED.format(reason=refusal)
            return False
        # The prompt may use the servers' prompts or resources.
        await state.tools.wait_for_servers()
        prompt = await opened_prompt(state, prompt)
        await state.tools.take()
        try:
            state.unsent = await self._compaction.before_prompt(prompt)
        except asyncio.CancelledError:
            state.unsent = CANCELLED
            raise
        if state.unsent:
            return False
        await self.begin(prompt)
        self._has_room = True
        return True

    async def begin(self, prompt: UserMessage) -> None:
        """Append the prompt, and wait until it is on disk."""
        state = self._state
        await self._settle()
        opening: Sequence[BaseMessage]
        if state.projection.view:
            opening = [*moved_notice(state.session), *skill_news(state.tools)]
            state.budget.check_window(state.projection.tally.estimate(FIXED))
        else:
            opening = await session_preamble(state)
            state.budget.check_window(sum(map(message_tokens, opening)))
        await record_others_changes(state.tools)
        await state.session.append(
            *opening,
            Checkpoint(id=state.projection.next_checkpoint_id),
            *ending_notice(state.models),
            *job_notice(state.tools.jobs),
            *(state.hooks.start_messages or ()),
            *self._hook_messages,
            *self._reminders.due(),
            prompt,
            durable=True,
        )
        if state.hooks.start_messages:
            state.hooks.start_messages = []

    async def _reopen(self) -> None:
        """Prepare to send the failed request again."""
        state = self._state
        if unanswered(state.projection) is None:
            raise FoldlineError(NOTHING_TO_RETRY)
        await self._settle()
        await state.tools.take()
        await self._drop_broken_answer()

    async def _drop_broken_answer(self) -> None:
        """Drop the newest answer if it is incomplete, so that its request can be repeated."""
        newest = unanswered(self._state.projection)
        if newest is not None and broke_off(newest):
            await self._state.session.append(
                Edit(target=newest.index, action="drop"), durable=True
            )

    async def _settle(self) -> None:
        """Wait until a cancelled turn's tools have finished writing, and drop that turn's D-Mail.

        The D-Mail would otherwise rewind this turn.
        """
        await self._state.tools.known_files.settled()
        if self._state.tools.mailbox is not None:
            self._state.tools.mailbox.take()

    # --- hooks -----------------------------------------------------------------------------------

    async def _run_prompt_hooks(self, prompt: UserMessage) -> str:
        """Run the hooks for a prompt.

        The hooks' messages are appended together with the prompt.

        Returns:
            The reason why the prompt is rejected, or an empty string if it is not.
        """
        state = self._state
        if state.parent is not None:
            return ""  # a subagent's prompt was written by the model
        await state.hooks.refresh()
        if state.hooks.start_messages is None:
            state.hooks.start_messages = []
            source = "resume" if state.projection.view else "startup"
            outcome = await state.hooks.fire(
                "SessionStart", {"source": source}, [source]
            )
            state.hooks.start_messages = outcome.messages
        outcome = await state.hooks.fire("UserPromptSubmit", {"prompt": prompt.text})
        self._hook_messages = outcome.messages
        return outcome.refused

    async def _hook_continues(self) -> bool:
        """Run the hooks at the end of the turn.

        If a hook continues the turn, append its message.

        Returns:
            Whether the turn continues.
        """
        event = "Stop" if self._state.parent is None else "SubagentStop"
        outcome = await self._state.hooks.fire(
            event, {"stop_hook_active": self._continuations > 0}
        )
        if not outcome.refused or self._continuations >= _MOST_CONTINUATIONS:
            return False
        self._continuations += 1
        text = HOOK_SAYS.format(text=outcome.refused)
        message = UserMessage(origin="machine", parts=text_parts(text))
        await self._state.session.append(message, durable=True)
        return True
