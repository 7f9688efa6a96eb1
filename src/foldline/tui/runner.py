"""The runner: sends prompts to the agent, in order. No Textual here.

It owns the queue. A prompt is `held` while a compaction makes room for it; cancelled, it goes back to the
editor.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from foldline.agent import Agent
from foldline.agent.auto_compact import auto_compact_blocker
from foldline.compaction import BUILT_IN, strategy_name
from foldline.context.numbers import many
from foldline.history import Session, Unsent, keep_unsent, parent_of, short_id, take_unsent
from foldline.protocol import Part, UserMessage, events, operations, text_parts
from foldline.protocol.events import Event, TaskFinished
from foldline.tui.prompting.inputs import ShellCall, parse_input

if TYPE_CHECKING:
    from foldline.tui.chat import ChatScreen


class Runner:
    """Drives one agent for an interface. `give_back(text)` returns a prompt to the editor, or says that it
    holds other text. Prompts are texts up to the last moment: `parts_of` makes of one what the model gets.
    """

    def __init__(
        self,
        agent: Agent,
        emit: Callable[[Event], None],
        give_back: Callable[[str], bool],
        parts_of: Callable[[str], tuple[Part, ...]] = text_parts,
    ) -> None:
        self.agent = agent
        self._emit = emit
        self._give_back = give_back
        self._parts_of = parts_of
        self._queue: list[str] = []
        self._held: str | None = None
        self._paused = False
        self._again = False
        """Whether the interrupted turn continues before the next prompt."""
        self._came_back = False
        """Whether the editor got a prompt back: what is sent from there next goes before the queue."""
        self._unsent: tuple[Sequence[Part], str] | None = None
        """The prompt that came back unsent, and what went wrong, until the user's next word."""
        self._declined: object = False
        """The newest change of the view when the user cancelled a compaction between two turns."""
        self._delivery: asyncio.Task[None] | None = None
        self._closed = False
        agent.executor.subscribe(self._look_again)

    # --- what the interface calls ------------------------------------------------------------------

    def send(self, text: str, *, first: bool = False) -> None:
        """Send a prompt, or queue it behind what runs; `first`: before those that wait. Lifts a pause."""
        self._queue.insert(0 if first or self._came_back else len(self._queue), text)
        self._came_back = self._paused = False
        self._unsent = None
        self._announce()
        if self._rests:
            self._delivery = asyncio.create_task(self._deliver())

    def set_paused(self, paused: bool) -> None:
        self._paused, self._unsent = paused, None
        self._announce()
        if not paused and self._rests:
            self._delivery = asyncio.create_task(self._deliver())

    def retry(self) -> None:
        """Continue the turn that failed or was stopped. Prompts that wait follow it."""
        self._again, self._unsent = True, None
        if self._rests:
            self._delivery = asyncio.create_task(self._deliver())

    def forget_unsent(self) -> None:
        """The prompt that came back was deleted: why it was not sent is no matter any more."""
        if self._came_back and self._unsent:
            self._unsent = None
            self._announce()

    def edit_queue(self, before: tuple[str, ...], after: tuple[str, ...], paused: bool) -> None:
        """Make the queue `after`, as far as it has not moved on since the user saw `before`."""
        self._queue = edited(self._queue, before, after)
        self.set_paused(paused)

    def cancel(self) -> None:
        """Cancel what runs. Prompts that wait stay, and wait for the user's next word."""
        if self._queue:
            self._paused = True
            self._announce()
        self.agent.executor.submit(operations.Interrupt())

    def submit(self, operation: operations.Operation) -> None:
        """Any other operation: an answer, a compaction by hand, an undo, a switch of models."""
        self.agent.executor.submit(operation)

    @property
    def waiting(self) -> int:
        """Prompts that were not sent."""
        return len(self._queue) + (self._held is not None)

    @property
    def unsent(self) -> tuple[str, ...]:
        """The prompts that wait, the held one first."""
        return (*((self._held,) if self._held is not None else ()), *self._queue)

    async def drained(self) -> None:
        """Wait until nothing is being sent any more."""
        while self._delivery is not None and not self._delivery.done():
            await asyncio.wait([self._delivery])

    async def quiet(self) -> None:
        """Wait until nothing runs, and nothing is being sent any more."""
        await self.agent.executor.settle()
        await self.drained()
        while self.agent.executor.busy:
            await self.agent.executor.settle()
        await self.drained()

    async def aclose(self) -> None:
        """Cancel what runs and forget what waits."""
        self._closed, self._again = True, False
        self._queue.clear()
        await self.agent.aclose()
        if self._delivery is not None:
            self._delivery.cancel()
            await asyncio.wait([self._delivery])

    # --- delivery ----------------------------------------------------------------------------------

    @property
    def _rests(self) -> bool:
        """Whether no delivery is under way, and one may begin."""
        return not self._closed and (self._delivery is None or self._delivery.done())

    async def _deliver(self) -> None:
        """Each waiting prompt once, in order, until none is left, one fails, or the user pauses."""
        await self._idle()
        while self._again or (self._queue and not self._paused):
            done = False
            try:
                if not self._again and isinstance(parse_input(self._queue[0]), ShellCall):
                    await self._run_shell()
                else:
                    await self._learn_window()
                    if self._again:
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
        """It may take as long as the server is slow: what is waited for is said, too."""
        info = self.agent.state.llm.info
        if info.guessed:
            self._announce(f"Asking the server for the window of {info.id}")
        await self.agent.state.learn_window()
        if info.guessed:
            self._announce()

    async def _idle(self) -> None:
        """Operations that were asked for by hand go first: a prompt typed in the meantime waits for them."""
        while self.agent.executor.busy:
            await self.agent.executor.settle()

    async def _run_shell(self) -> None:
        call = parse_input(self._queue.pop(0))
        assert isinstance(call, ShellCall)
        self._announce()
        ran = await self._done(operations.RunShell(command=call.command, aside=call.aside))
        self._paused = self._paused or (ran.outcome == "failed" and bool(self._queue))

    async def _retry_turn(self) -> bool:
        """The turn that broke off, once more; whether it was carried through, so that what waits goes."""
        self._again = self._paused = False
        self._announce()
        outcome = (await self._done(operations.Retry())).outcome
        if outcome != "done":
            self._paused = bool(self._queue)
        return outcome == "done"

    async def _send_prompt(self, text: str) -> bool:
        """One turn; whether it was carried through. A prompt that never came into the history is given back;
        what follows it then waits."""
        executor, sent = self.agent.executor, False
        parts = self._parts_of(text)

        def hear(event: Event) -> None:
            nonlocal sent
            match event:
                case events.CompactionStart() | events.ChoiceRequested() if not (sent or self._held):
                    self._held = text
                    self._announce()
                case events.EntryAppended(entry=UserMessage()):
                    sent, held, self._held = True, self._held, None
                    if held is not None:
                        self._announce()

        self._announce()
        stop = executor.subscribe(hear)
        outcome, error = "failed", ""
        try:
            finished = await executor.wait_for(executor.submit(operations.RunAgent(parts=parts)))
            outcome, error = finished.outcome, finished.error or "it was cancelled."
        finally:
            stop()
            self._held = None
            # A cancel has paused already, and what was sent since lifted the pause. A compaction by hand
            # has not.
            aborted = outcome == "cancelled" and executor.busy
            if not sent:
                self._return(text, parts, error)
            elif outcome == "failed" or aborted:
                self._paused = bool(self._queue)
        return sent and outcome == "done"

    def _look_again(self, event: Event) -> None:
        """What was done since may have made room."""
        if isinstance(event, TaskFinished) and self._unsent:
            self._announce()

    def _why_unsent(self) -> str:
        """Why the prompt came back, and what sending it again comes to now."""
        if self._unsent is None:
            return ""
        parts, error = self._unsent
        state = self.agent.state
        if not state.unsent:
            return f"{error} Enter sends it again."
        if state.unsent.startswith("Too long"):
            return state.unsent
        if not self.agent.must_make_room(parts):
            return f"{state.unsent} There is room now: Enter sends it."
        if self.agent.fits(parts):
            return f"{state.unsent} Enter sends it without compacting."
        if auto_compact_blocker(state) is not None:
            return f"{state.unsent} Enter asks again what to leave out."
        drafts = "drafts a compaction to decide about" if state.mode == "ask" else "compacts and sends"
        return f"{state.unsent} Enter {drafts}."

    async def _compact_after_turn(self) -> None:
        """A turn has ended well: a good moment to compact what is nearly full, while the user reads.

        After an Esc it would be the very compaction that was cancelled.
        """
        tried = self.agent.session.projection.newest_change
        if self._closed or tried is self._declined or not self.agent.at_good_moment():
            return
        finished = await self._done(operations.CompactSession(reason="phase"))
        if finished.outcome != "done":
            self._declined = tried  # not again before the view has changed otherwise

    def _return(self, text: str, parts: Sequence[Part], error: str) -> None:
        """Back to the editor, or first in the queue where that holds text. Nothing continues by itself, and
        why it was not sent is said until the user's next word."""
        if self._closed:
            return
        self._unsent = (parts, error) if error or self.agent.state.unsent else None
        self._came_back = self._give_back(text)
        if not self._came_back:
            self._queue.insert(0, text)
        self._paused = bool(self._queue)

    async def _done(self, operation: operations.Operation) -> TaskFinished:
        executor = self.agent.executor
        return await executor.wait_for(executor.submit(operation))

    def _announce(self, awaits: str = "") -> None:
        why = self._why_unsent()
        self._emit(
            events.QueueChanged(
                held=self._held,
                queued=tuple(self._queue),
                paused=self._paused and bool(self._queue),
                unsent=f"Not sent: {why}" if why else "",
                awaits=awaits,
            )
        )


def edited(queue: list[str], before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    """The queue after an edit that was made when it was `before`.

    Since then prompts may have been sent, from its front, and others added at its end: what was sent does not
    come back, and what was added stays. A queue that changed in any other way is left as it is.
    """
    for sent in range(len(before) + 1):
        rest = len(before) - sent
        if tuple(queue[:rest]) == before[sent:]:
            wanted = list(after)
            for text in before[:sent]:
                if text in wanted:
                    wanted.remove(text)
            return wanted + queue[rest:]
    return queue


Commands = dict[str, Callable[[Runner, str], None]]
"""What carries each command out, with what was typed behind it."""


def compaction_commands(preview: Callable[[str], None], remark: Callable[[str], None]) -> Commands:
    """`preview` shows the compaction with this focus before it is made; `remark` answers in the status
    row."""

    def compact(runner: Runner, argument: str) -> None:
        flag, _, focus = argument.strip().partition(" ")
        if flag == "--preview":
            preview(focus.strip())
        elif runner.agent.state.mode == "ask":
            preview(argument)
        else:
            runner.submit(operations.CompactSession(reason="manual", focus=argument or None))

    def strategy(runner: Runner, name: str) -> None:
        if name:
            runner.submit(operations.SwitchStrategy(strategy=name))
        else:
            now = strategy_name(runner.agent.state.strategy)
            others = ", ".join(name for name in BUILT_IN if name != now)
            remark(f"Now: {now}. Others: {others}, or your own as module:ClassName")

    def compact_first(runner: Runner, _: str) -> None:
        runner.agent.state.draft.declined = False  # who asks for it wants the draft that was stopped
        runner.submit(operations.CompactSession(reason="phase", cause="asked"))

    def plan(runner: Runner, argument: str) -> None:
        policy = runner.agent.state.policy
        if argument == "off" or policy.mode != "plan":
            mode = policy.usual if argument == "off" else "plan"
            runner.submit(operations.SwitchApprovals(mode=mode))
        else:
            runner.submit(operations.ReviewPlan())

    return {
        "plan": plan,
        "goal": lambda runner, line: runner.submit(operations.SetGoal(text=" ".join(line.split()))),
        "compact": compact,
        "compact-first": compact_first,
        "preview": lambda _, focus: preview(focus),
        "undo": lambda runner, _: runner.submit(operations.UndoCompaction()),
        "retry": lambda runner, _: runner.retry(),
        "clear": lambda runner, _: runner.submit(operations.ClearView()),
        "strategy": strategy,
    }


# --- resuming ---------------------------------------------------------------------------------------------


def resume_notes(session: Session) -> Iterator[str]:
    """What is said of a session that was opened; the last sentence stays in the status row."""
    if session.moved_from:
        yield f"This session was held in {session.moved_from}; it continues here"
    elif origin := _origin(session):
        yield origin
    if session.damage:
        yield f"This session's file is damaged: {session.damage}. All else is here."


def _origin(session: Session) -> str:
    """What a session is a copy of, as long as nothing was said in it."""
    parent = parent_of(session.header)
    if parent is None or session.projection.last_index != parent.index:
        return ""
    return f"A copy of {short_id(parent.id)} up to entry {parent.index}; the original stays as it is"


def keep_unsent_prompts(runner: Runner, chat: "ChatScreen") -> None:
    """Keep the queue and the editor's text beside the session. What a full disk refuses is lost."""
    path = runner.agent.session.path
    if path is not None:
        with suppress(OSError):
            mask = runner.agent.session.mask
            keep_unsent(path.parent, Unsent(tuple(map(mask, runner.unsent)), mask(chat.prompt.editor.text)))


def restore_unsent_prompts(session: Session, runner: Runner, chat: "ChatScreen") -> None:
    """Give back what was kept. Nothing is sent automatically: the queue is paused until the next Enter."""
    kept = take_unsent(session.path.parent) if session.path is not None else Unsent()
    if kept.draft.strip():
        chat.prompt.give_back(kept.draft)
    if kept.queued:
        runner.edit_queue((), kept.queued, paused=True)
        chat.remark(f"{many(len(kept.queued), 'prompt waits', 'prompts wait')} from last time")
