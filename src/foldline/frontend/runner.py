"""Sends prompts to the agent, in order.

Does not import Textual.

A prompt is `held` while a compaction makes room for it. If the compaction is cancelled, the prompt returns to
the editor.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from foldline.agent import Agent
from foldline.agent.session.auto_compact import TOO_LONG
from foldline.frontend.inputs import ShellCall, parse_input
from foldline.history import (
    Session,
    Unsent,
    keep_unsent,
    parent_of,
    short_id,
    take_unsent,
)
from foldline.protocol import Part, UserMessage, events, operations, text_parts
from foldline.protocol.events import Event, TaskFinished
from foldline.text.numbers import many

ASKING_FOR_WINDOW = "Asking the server for the context window of {model}"
WAS_CANCELLED = "it was cancelled."
ENTER_RESENDS = "Press Enter to send it again."
ENTER_SENDS = "There is room now: press Enter to send it."
ENTER_SENDS_AS_IS = "Press Enter to send it without compacting."
ENTER_ASKS = "Press Enter to be asked again what to remove."
ENTER_DRAFTS = "Press Enter to draft a compaction and decide about it."
ENTER_COMPACTS = "Press Enter to compact and send."
NOT_SENT = "Not sent: {reason}"


class Runner:
    """Owns the queue of prompts for one agent."""

    def __init__(
        self,
        agent: Agent,
        emit: Callable[[Event], None],
        give_back: Callable[[str], bool],
        parts_of: Callable[[str], tuple[Part, ...]] = text_parts,
    ) -> None:
        """Create a runner.

        Args:
            emit: called with each event of the queue.
            give_back: puts a prompt back into the editor. Returns False if the editor has other text.
            parts_of: converts a prompt into message parts just before the prompt is sent.
        """
        self.agent = agent
        self._emit = emit
        self._give_back = give_back
        self._parts_of = parts_of
        self._queue: list[str] = []
        self._held: str | None = None
        self._paused = False
        self._retries = False
        """Whether to retry the interrupted turn before the next prompt."""
        self._was_returned = False
        """Whether a prompt was returned to the editor.

        If so, the next prompt goes ahead of the queue.
        """
        self._unsent: tuple[Sequence[Part], str] | None = None
        """The returned prompt and the error, until the user does something about them."""
        self._change_at_failure: object = False
        """The newest change to the view at the last failed compaction.

        Only compactions between two turns count.
        """
        self._delivery: asyncio.Task[None] | None = None
        self._closed = False
        agent.executor.subscribe(self._on_agent_event)

    # --- what the interface calls ------------------------------------------------------------------

    def send(self, text: str, *, first: bool = False) -> None:
        """Send a prompt, or queue it while a task runs.

        Also ends a pause of the queue.

        Args:
            first: whether to put the prompt ahead of the queue.
        """
        position = 0 if first or self._was_returned else len(self._queue)
        self._queue.insert(position, text)
        self._was_returned = False
        self.set_paused(False)

    def set_paused(self, paused: bool) -> None:
        self._paused = paused
        self._unsent = None
        self._announce()
        if not paused:
            self._start_delivery()

    def retry(self) -> None:
        """Continue the turn that failed or was cancelled, ahead of the queue."""
        self._retries = True
        self._unsent = None
        self._start_delivery()

    def forget_unsent(self) -> None:
        """Forget the error of a returned prompt.

        Called when the user has deleted the prompt.
        """
        if self._was_returned and self._unsent:
            self._unsent = None
            self._announce()

    def edit_queue(
        self, before: tuple[str, ...], after: tuple[str, ...], paused: bool
    ) -> None:
        """Apply the change from `before` to `after` to the queue.

        See `edited` for how the change is applied.
        """
        self._queue = edited(self._queue, before, after)
        self.set_paused(paused)

    def cancel(self) -> None:
        """Cancel the running task and pause the queue."""
        if self._queue:
            self._paused = True
            self._announce()
        self.agent.executor.submit(operations.Interrupt())

    def submit(self, operation: operations.Operation) -> str:
        """Start an operation other than a prompt, and return its id.

        For example an answer, an undo or a compaction.
        """
        return self.agent.executor.submit(operation)

    @property
    def unsent(self) -> tuple[str, ...]:
        """The unsent prompts, with the held prompt first."""
        held = () if self._held is None else (self._held,)
        return (*held, *self._queue)

    async def drained(self) -> None:
        """Wait until all prompts are delivered, or the queue pauses."""
        while self._delivery is not None and not self._delivery.done():
            await asyncio.wait([self._delivery])

    async def quiet(self) -> None:
        """Wait until all tasks and deliveries are done."""
        await self.agent.executor.settle()
        await self.drained()
        while self.agent.executor.busy:
            await self.agent.executor.settle()
        await self.drained()

    async def aclose(self) -> None:
        """Cancel the running task and clear the queue."""
        self._closed = True
        self._retries = False
        self._queue.clear()
        await self.agent.aclose()
        if self._delivery is not None:
            self._delivery.cancel()
            await asyncio.wait([self._delivery])

    # --- delivery ----------------------------------------------------------------------------------

    def _start_delivery(self) -> None:
        is_delivering = self._delivery is not None and not self._delivery.done()
        if not self._closed and not is_delivering:
            self._delivery = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        """Send the queued prompts in order, until one fails or the queue is paused."""
        await self._idle()
        while self._retries or (self._queue and not self._paused):
            done = False
            try:
                if not self._retries and isinstance(
                    parse_input(self._queue[0]), ShellCall
                ):
                    await self._run_shell()
                else:
                    await self._learn_window()
                    if self._retries:
                        done = await self._retry_turn()
                    elif self._queue and not self._paused:
                        done = await self._send_prompt(self._queue.pop(0))
            finally:
                self._announce()
            await self._idle()
            if done:
                await self._compact_after_turn()
                await self._idle()

    async def _learn_window(self) -> None:
        """Ask the server for the size of the context window.

        Until then, shows why the prompt waits.
        """
        info = self.agent.state.models.llm.info
        if info.guessed:
            self._announce(ASKING_FOR_WINDOW.format(model=info.id))
        await self.agent.state.models.learn_window()
        if info.guessed:
            self._announce()

    async def _idle(self) -> None:
        """Wait for running operations.

        Operations started by the user take precedence over prompts.
        """
        while self.agent.executor.busy:
            await self.agent.executor.settle()

    async def _run_shell(self) -> None:
        call = parse_input(self._queue.pop(0))
        assert isinstance(call, ShellCall)
        self._announce()
        finished = await self.run(
            operations.RunShell(command=call.command, aside=call.aside)
        )
        if finished.outcome == "failed" and self._queue:
            self._paused = True

    async def _retry_turn(self) -> bool:
        """Retry the interrupted turn.

        Returns:
            Whether the turn succeeded, so that the queue continues.
        """
        self._retries = False
        self._paused = False
        self._announce()
        outcome = (await self.run(operations.Retry())).outcome
        if outcome != "done":
            self._paused = bool(self._queue)
        return outcome == "done"

    async def _send_prompt(self, text: str) -> bool:
        """Send a prompt, and run its turn.

        If the prompt was not added to the history, it returns to the editor.

        Returns:
            Whether the turn succeeded, so that the queue continues.
        """
        executor = self.agent.executor
        sent = False
        parts = self._parts_of(text)

        def on_event(event: Event) -> None:
            nonlocal sent
            match event:
                case events.CompactionStart() | events.ChoiceRequested() if not (
                    sent or self._held
                ):
                    self._held = text
                    self._announce()
                case events.EntryAppended(entry=UserMessage()):
                    sent = True
                    if self._held is not None:
                        self._held = None
                        self._announce()

        self._announce()
        stop = executor.subscribe(on_event)
        outcome = "failed"
        error = ""
        try:
            finished = await self.run(operations.RunAgent(parts=parts))
            outcome = finished.outcome
            error = finished.error or WAS_CANCELLED
        finally:
            stop()
            self._held = None
            # `cancel` has already paused the queue, but a compaction that aborts the turn has not.
            aborted = outcome == "cancelled" and executor.busy
            if not sent:
                self._return(text, parts, error)
            elif outcome == "failed" or aborted:
                self._paused = bool(self._queue)
        return sent and outcome == "done"

    def _on_agent_event(self, event: Event) -> None:
        """Update the hint about an unsent prompt after a task.

        The task may have made room for the prompt.
        """
        if isinstance(event, TaskFinished) and self._unsent:
            self._announce()

    def _why_unsent(self) -> str:
        """Return the reason why a prompt was returned, and the current effect of Enter."""
        if self._unsent is None:
            return ""
        parts, error = self._unsent
        state = self.agent.state
        if not state.unsent:
            return f"{error} {ENTER_RESENDS}"
        if state.unsent.startswith(TOO_LONG.partition(".")[0]):
            return state.unsent
        if not self.agent.must_make_room(parts):
            return f"{state.unsent} {ENTER_SENDS}"
        if self.agent.fits(parts):
            return f"{state.unsent} {ENTER_SENDS_AS_IS}"
        if state.compaction.blocker is not None:
            return f"{state.unsent} {ENTER_ASKS}"
        enter = ENTER_DRAFTS if state.compaction.mode == "ask" else ENTER_COMPACTS
        return f"{state.unsent} {enter}"

    async def _compact_after_turn(self) -> None:
        """Compact a nearly full view after a successful turn, while the user reads.

        If such a compaction failed or was cancelled, it is not tried again until the view changes.
        """
        newest_change = self.agent.session.projection.newest_change
        if (
            self._closed
            or newest_change is self._change_at_failure
            or not self.agent.at_good_moment()
        ):
            return
        finished = await self.run(operations.CompactSession(reason="phase"))
        if finished.outcome != "done":
            self._change_at_failure = newest_change  # no retry until the view changes

    def _return(self, text: str, parts: Sequence[Part], error: str) -> None:
        """Return a prompt to the editor.

        If the editor has other text, the prompt returns to the queue. The queue is paused, and the error is
        shown until the user does something about it.
        """
        if self._closed:
            return
        self._unsent = (parts, error) if error or self.agent.state.unsent else None
        self._was_returned = self._give_back(text)
        if not self._was_returned:
            self._queue.insert(0, text)
        self._paused = bool(self._queue)

    async def run(self, operation: operations.Operation) -> TaskFinished:
        """Start an operation, and wait until it ends."""
        executor = self.agent.executor
        return await executor.wait_for(executor.submit(operation))

    def _announce(self, awaits: str = "") -> None:
        why = self._why_unsent()
        self._emit(
            events.QueueChanged(
                held=self._held,
                queued=tuple(self._queue),
                paused=self._paused and bool(self._queue),
                unsent=NOT_SENT.format(reason=why) if why else "",
                awaits=awaits,
            )
        )


def edited(
    queue: list[str], before: tuple[str, ...], after: tuple[str, ...]
) -> list[str]:
    """Apply an edit to a queue that may have changed since it was read.

    The edit is the change from `before` to `after`. Prompts that were sent from the front are not restored,
    and prompts that were added at the end are kept. A queue that has changed in any other way is returned
    unchanged.
    """
    for sent in range(len(before) + 1):
        unsent = len(before) - sent
        if tuple(queue[:unsent]) == before[sent:]:
            prompts = list(after)
            for text in before[:sent]:
                if text in prompts:
                    prompts.remove(text)
            return prompts + queue[unsent:]
    return queue


Commands = dict[str, Callable[[Runner, str], None]]
"""Handlers by command. Each is called with the runner and the argument."""


def compaction_commands(
    preview: Callable[[str], None], choose: Callable[[str], None]
) -> Commands:
    """Return the commands that concern compaction and the current turn.

    Args:
        preview: opens the Compact preview with this focus.
        choose: shows the possible arguments of a command.
    """

    def compact(runner: Runner, argument: str) -> None:
        flag, _, focus = argument.strip().partition(" ")
        if flag == "--preview":
            preview(focus.strip())
        elif runner.agent.state.compaction.mode == "ask":
            preview(argument)
        else:
            runner.submit(
                operations.CompactSession(reason="manual", focus=argument or None)
            )

    def strategy(runner: Runner, name: str) -> None:
        if name:
            runner.submit(operations.SwitchStrategy(strategy=name))
        else:
            choose("strategy")

    def skill(runner: Runner, name: str) -> None:
        if name:
            runner.submit(operations.LoadSkill(asked=name))
        else:
            choose("skill")

    def plan(runner: Runner, argument: str) -> None:
        policy = runner.agent.state.permissions.policy
        if argument == "off" or policy.mode != "plan":
            mode = policy.usual if argument == "off" else "plan"
            runner.submit(operations.SwitchApprovals(mode=mode))
        else:
            runner.submit(operations.ReviewPlan())

    return {
        "plan": plan,
        "goal": lambda runner, line: runner.submit(
            operations.SetGoal(text=" ".join(line.split()))
        ),
        "compact": compact,
        "preview": lambda _, focus: preview(focus),
        "undo": lambda runner, _: runner.submit(operations.UndoCompaction()),
        "retry": lambda runner, _: runner.retry(),
        "clear": lambda runner, _: runner.submit(operations.ClearView()),
        "strategy": strategy,
        "skill": skill,
    }


# --- resuming ---------------------------------------------------------------------------------------------

MOVED_HERE = "This session has been moved here from {folder}"
COPY_OF = "This is a copy of {id} up to entry {index}. The original is unchanged"
PROMPTS_RESTORED = "Restored {prompts} from last time"
DAMAGED = "This session's file is damaged: {damage}. All other entries were read."


def resume_notes(session: Session) -> Iterator[str]:
    """Yield messages about an opened session.

    The last message stays on the screen.
    """
    if session.moved_from:
        yield MOVED_HERE.format(folder=session.moved_from)
    elif origin := _origin(session):
        yield origin
    if session.damage:
        yield DAMAGED.format(damage=session.damage)


def _origin(session: Session) -> str:
    """Return a message that names the original of a copied session.

    Returns an empty string once the copy has entries of its own.
    """
    parent = parent_of(session.header)
    if parent is None or session.projection.last_index != parent.index:
        return ""
    return COPY_OF.format(id=short_id(parent.id), index=parent.index)


def keep_unsent_prompts(runner: Runner, draft: str) -> None:
    """Save the queue and the editor's text in the session's folder.

    Errors, for example a full disk, are ignored.
    """
    session = runner.agent.session
    if session.path is not None:
        with suppress(OSError):
            queue = tuple(map(session.mask, runner.unsent))
            keep_unsent(session.path.parent, Unsent(queue, session.mask(draft)))


def restore_unsent_prompts(
    runner: Runner, give_back: Callable[[str], object], remark: Callable[[str], None]
) -> None:
    """Restore the saved prompts.

    The queue is paused until the next Enter.
    """
    path = runner.agent.session.path
    if path is None:
        return
    unsent = take_unsent(path.parent)
    if unsent.draft.strip():
        give_back(unsent.draft)
    if unsent.queued:
        runner.edit_queue((), unsent.queued, paused=True)
        remark(PROMPTS_RESTORED.format(prompts=many(len(unsent.queued), "prompt")))
