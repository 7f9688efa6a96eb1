"""The runner: sends prompts to the agent in order, folding first where the window is full. No Textual here.

It owns the queue. A prompt is `held` while a fold makes room for it; cancelled, it goes back to the editor.
"""

import asyncio
from collections.abc import Callable, Sequence

from foldline.agent import Agent
from foldline.agent.agent import sent_uncompacted
from foldline.agent.room import auto_compact_blocker
from foldline.context import numbers
from foldline.protocol import Part, UserMessage, events, operations, text_parts
from foldline.protocol.events import Event, TaskFinished
from foldline.tui.prompting.inputs import ShellCall, parse_input


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
        """Whether the turn that broke off goes on before the next prompt."""
        self._unfolded = False
        """Whether the next prompt goes without a fold if it fits: the user cancelled the one for it."""
        self._came_back = False
        """Whether the editor got a prompt back: what is sent from there next goes before the queue."""
        self._unsent = ""
        """Why the prompt that came back was not sent, until the user's next word."""
        self._declined: object = False
        """The newest change of the view when the user cancelled a fold between two turns."""
        self._delivery: asyncio.Task[None] | None = None
        self._closed = False

    # --- what the interface calls ------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Send a prompt, or queue it behind what runs. Sending lifts a pause."""
        self._queue.insert(0 if self._came_back else len(self._queue), text)
        self._came_back = False
        self.set_paused(False)

    def set_paused(self, paused: bool) -> None:
        self._paused, self._unsent = paused, ""
        self._announce()
        if not paused:
            self._go_on()

    def retry(self) -> None:
        """Go on with the turn that failed or was stopped. Prompts that wait follow it."""
        self._again, self._unsent = True, ""
        self._go_on()

    def edit_queue(self, before: tuple[str, ...], after: tuple[str, ...], paused: bool) -> None:
        """Make the queue `after`, as far as it has not moved on since the reader saw `before`."""
        self._queue = edited(self._queue, before, after)
        self.set_paused(paused)

    def cancel(self) -> None:
        """Cancel what runs. Prompts that wait stay, and wait for the user's next word."""
        if self._queue:
            self._paused = True
            self._announce()
        self.agent.executor.submit(operations.Interrupt())

    def answer(self, call_id: str, answer: str, nth: int = 0) -> None:
        word = {"call_id": call_id, "answer": answer, "nth": nth}
        self.agent.executor.submit(operations.Approve.model_validate(word))

    def submit(self, operation: operations.Operation) -> None:
        """Any other operation: a manual fold, an undo, a clear, a switch of models."""
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

    async def aclose(self) -> None:
        """Cancel what runs and forget what waits."""
        self._closed, self._again = True, False
        self._queue.clear()
        await self.agent.aclose()
        if self._delivery is not None:
            self._delivery.cancel()
            await asyncio.wait([self._delivery])

    # --- delivery ----------------------------------------------------------------------------------

    def _go_on(self) -> None:
        waits = self._again or self._queue
        if waits and not self._closed and (self._delivery is None or self._delivery.done()):
            self._delivery = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        """Each waiting prompt once, in order, until none is left, one fails, or the user pauses."""
        await self._idle()
        while self._again or (self._queue and not self._paused):
            done = False
            try:
                done = await (self._go_on_with_turn() if self._again else self._run_next())
            finally:
                self._announce()
            await self._idle()
            if done:
                await self._fold_at_the_end()
                await self._idle()

    async def _run_next(self) -> bool:
        """The next prompt, or command of the user's; whether a turn was carried through."""
        if not isinstance(parse_input(self._queue[0]), ShellCall):
            await self.agent.state.learn_window()
            if self._paused or not self._queue:
                return False
        text = self._queue.pop(0)
        match parse_input(text):
            case ShellCall(command=command, aside=aside):
                self._announce()
                ran = await self._done(operations.RunShell(command=command, aside=aside))
                self._paused = self._paused or (ran.outcome == "failed" and bool(self._queue))
                return False
            case _:
                parts = self._parts_of(text)
                return await self._make_room(text, parts) and await self._run_turn(text, parts)

    async def _go_on_with_turn(self) -> bool:
        """The turn that broke off, once more; whether it was carried through, so that what waits goes."""
        self._again = self._paused = False
        self._announce()
        await self.agent.state.learn_window()
        outcome = (await self._done(operations.Retry())).outcome
        if outcome != "done":
            self._paused = bool(self._queue)
        return outcome == "done"

    async def _fold_at_the_end(self) -> None:
        """A turn has ended well: a good moment to fold what is nearly full, while the user reads.

        After an Esc it would be the very fold that was cancelled.
        """
        tried = self.agent.session.projection.newest_change
        if self._closed or tried is self._declined or not self.agent.at_good_moment():
            return
        finished = await self._done(operations.CompactSession(reason="phase"))
        if finished.outcome != "done":
            self._declined = tried  # not again before the view has changed otherwise

    async def _idle(self) -> None:
        """Operations that were asked for by hand go first: a prompt typed during a fold waits for it."""
        while self.agent.executor.busy:
            await self.agent.executor.settle()

    async def _make_room(self, text: str, parts: Sequence[Part]) -> bool:
        """Fold first where this prompt would cross the threshold. False: it was given back."""
        if refusal := self.agent.too_long(parts):
            self._return(text, refusal)
            return False
        unfolded, self._unfolded = self._unfolded, False
        if not self.agent.must_make_room(parts) or (unfolded and self.agent.fits(parts)):
            return True
        self._held = text
        self._announce()
        nothing_to_fold = False

        def hear(event: Event) -> None:
            nonlocal nothing_to_fold
            if isinstance(event, events.CompactionEnd):
                nothing_to_fold = event.nothing

        stop = self.agent.executor.subscribe(hear)
        try:
            finished = await self._done(self.agent.room_for(parts))
        except BaseException:
            self._held = None
            self._return(text)
            raise
        finally:
            stop()
        self._held = None
        if finished.outcome == "done" and self.agent.fits(parts):
            return True
        if finished.outcome == "failed" and self.agent.fits(parts):
            self._emit(sent_uncompacted(finished.error))
            return True
        if nothing_to_fold:
            return True  # nothing was old enough; once the prompt is in the history, the last answer is
        self._unfolded = True
        self._return(
            text, f"{_why_unsent(self.agent, parts, finished)} {_what_enter_does(self.agent, parts)}"
        )
        return False

    async def _run_turn(self, text: str, parts: tuple[Part, ...]) -> bool:
        """One turn; whether it was carried through. A prompt that never came into the history is given back;
        what follows it then waits.
        """
        first = self.agent.session.next_index
        outcome, error = "failed", ""
        self._announce()
        try:
            finished = await self._done(operations.RunAgent(parts=parts))
            outcome, error = finished.outcome, finished.error or "it was cancelled."
        finally:
            entries = reversed(self.agent.session.entries)
            newest = next((entry for entry in entries if isinstance(entry, UserMessage)), None)
            # A cancel has paused already, and what was sent since lifted the pause. A fold by hand has not.
            aborted = outcome == "cancelled" and self.agent.executor.busy
            if newest is None or newest.index < first:
                self._return(text, f"{error} Enter sends it again." if error else "")
            elif outcome == "failed" or aborted:
                self._paused = bool(self._queue)
        return outcome == "done"

    def _return(self, text: str, why: str = "") -> None:
        """Back to the editor, or first in the queue where that holds text. Nothing goes on by itself, and why
        it was not sent is said until the user's next word."""
        if self._closed:
            return
        self._unsent = f"Not sent: {why}" if why else ""
        self._came_back = self._give_back(text)
        if not self._came_back:
            self._queue.insert(0, text)
        self._paused = bool(self._queue)

    async def _done(self, operation: operations.Operation) -> TaskFinished:
        executor = self.agent.executor
        return await executor.wait_for(executor.submit(operation))

    def _announce(self) -> None:
        self._emit(
            events.QueueChanged(
                held=self._held,
                queued=tuple(self._queue),
                paused=self._paused and bool(self._queue),
                unsent=self._unsent,
            )
        )


def _why_unsent(agent: Agent, parts: Sequence[Part], finished: TaskFinished) -> str:
    """Why a prompt that room was to be made for came back."""
    match finished.outcome:
        case "cancelled":
            return "you cancelled the compaction that makes room for it."
        case "failed":
            return finished.error or "the compaction that makes room for it failed."
        case "done":
            size = agent.state.size([UserMessage(parts=tuple(parts))])
            window = agent.state.window
            return f"the request would take {numbers.tokens(size)} of {numbers.short_tokens(window)}."


def _what_enter_does(agent: Agent, parts: Sequence[Part]) -> str:
    """What sending the prompt again comes to."""
    if agent.fits(parts) or not agent.must_make_room(parts):
        return "Enter sends it without compacting."
    if auto_compact_blocker(agent.state) is not None:
        return "Enter asks again what to leave out."
    return (
        "Enter drafts a compaction to decide about."
        if agent.state.mode == "ask"
        else "Enter compacts and sends."
    )


def edited(queue: list[str], before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    """The queue after an edit that was made when it was `before`.

    Meanwhile prompts may have been sent, from its front, and others added at its end: what was sent does not
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
