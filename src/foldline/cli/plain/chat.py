"""A chat as plain lines: one thread reads what the person types, the agent works in a loop of another."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from inspect import isawaitable
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final

from foldline.agent import Agent
from foldline.agent.skill_loading import look_around
from foldline.cli.streams import UNREAD
from foldline.protocol.operations import Approve, Operation
from foldline.termination import end_soon
from foldline.tui.keys.commands import interrupt_step
from foldline.tui.prompting.inputs import (
    NoCommand,
    Nothing,
    PromptText,
    ShellCall,
    SlashCall,
    UnknownSlash,
    parse_input,
)
from foldline.tui.runner import Runner
from foldline.tui.terminal.clipboard import edit_text

from .commands import TABLES, answer, carry_out, handlers, help_lines
from .narrator import Answer, Asked, Narrator
from .terminal import PROMPT, LineReader, Paper

HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NUDGE: Final = signal.SIGURG
"""Ends a blocking call of the main thread, and means nothing else: ignored by whoever has no handler."""
_SOON: Final = 0.05
"""Seconds the main thread has to notice a signal by itself."""


@contextmanager
def heard_at_once(loop: asyncio.AbstractEventLoop, heard: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have `heard` called in the main thread, whose block this is, for each signal that wants the program to
    stop.

    Python calls handlers in the main thread only, once it runs again. The system may give a signal to any
    other thread, or to this one right before it blocks; then it would not run. `loop`, which runs in another
    thread, sees every signal, and ends the blocking call.
    """
    main = threading.get_ident()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)

    def handle(number: int, _: FrameType | None) -> None:
        if number not in (_NUDGE, signal.SIGINT):
            end_soon(number)
        if number != _NUDGE:
            heard(signal.Signals(number))

    def noticed() -> None:
        if set(ours.recv(4096)) - {_NUDGE}:
            loop.call_later(_SOON, signal.pthread_kill, main, _NUDGE)

    # What is ignored was meant to be: `nohup`.
    wanted = [number for number in HEARD if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in (*wanted, _NUDGE)}
    fd_before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    loop.call_soon_threadsafe(loop.add_reader, ours, noticed)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        loop.call_soon_threadsafe(loop.remove_reader, ours)
        loop.call_soon_threadsafe(ours.close)
        for number, handler in before.items():
            signal.signal(number, handler)
        theirs.close()


_DEAF: Final = 1.0
"""Seconds in which a question takes no answer: the line was typed for what was there before."""


class Ended(BaseException):
    """The program ends with this exit code: the system, or the person, wants it to."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class PlainChat:
    """One conversation. `run` holds it, and gives the exit code."""

    def __init__(self, agent: Agent, paper: Paper, reader: LineReader) -> None:
        self._agent = agent
        self._paper = paper
        self._reader = reader
        self._loop = asyncio.new_event_loop()
        self._inbox: SimpleQueue[Asked | Future[None] | signal.Signals] = SimpleQueue()
        """What the person's thread waits for while the agent works; a signal may come at any moment, which
        only this kind of queue stands."""
        self._narrator = Narrator(agent, paper, self._inbox.put)
        self._runner = Runner(agent, self._narrator.on_event, self._give_back)
        self._commands = {**handlers(self._runner, paper.line), **TABLES}
        self._commands["help"] = lambda *_: help_lines(self._commands)
        self._works = 0
        """Pieces of work that were begun and are not known to have ended."""
        self._returned = ""
        """A prompt that was not sent."""
        self._reading = False
        self._warned: float | None = None
        """When a Ctrl+C said that the next one quits."""

    def run(self, first: str) -> int:
        """Converse until the person leaves; `first` is sent before anything is read.

        Returns the exit code: 1 where what was piped in failed last, 130 after Ctrl+C twice, 141 where nobody
        reads stdout any more.
        """
        self._agent.executor.subscribe(self._narrator.on_event)
        thread = threading.Thread(target=self._loop.run_forever, name="agent", daemon=True)
        thread.start()
        try:
            with heard_at_once(self._loop, self._heard):
                self._converse(first)
        except Ended as end:
            return end.code
        finally:
            self._do(self._runner.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()
        if self._paper.lost is not None:
            return UNREAD if isinstance(self._paper.lost, BrokenPipeError) else 1
        return 1 if self._narrator.failed and not self._reader.is_terminal else 0

    # --- the person's thread ----------------------------------------------------------------------------

    def _converse(self, first: str) -> None:
        self._call(self._agent.start)
        text: str | None = first
        if first:
            self._paper.line(f"{PROMPT}{first}")
        while text is not None and self._take(text) and self._paper.lost is None:
            text = self._prompt()

    def _prompt(self) -> str | None:
        """The next prompt; None where nothing more comes."""
        while True:
            try:
                with self._reads():
                    return self._reader.prompt()
            except EOFError:
                return None
            except KeyboardInterrupt:
                self._interrupted()

    def _take(self, text: str) -> bool:
        """Carry out what was typed, and attend until nothing runs any more. False: the chat is over."""
        if text.startswith("/"):
            self._do(look_around(self._agent.state))
        match parse_input(text, self._agent.state.catalogue.by_name):
            case SlashCall(command, _) if command.id == "quit":
                return False
            case SlashCall(command, argument):
                here = (self._commands, self._runner, self._narrator.state, self._paper.line)
                self._work(carry_out, command, argument, *here)
            case UnknownSlash(name) if name in self._commands:  # what the screen has another place for
                self._work(answer, self._commands[name], "", self._runner, self._paper.line)
            case UnknownSlash() as unknown:
                self._paper.line(f"{unknown} /help lists those there are.")
            case NoCommand():
                self._paper.line("Behind ! stands a command for your shell.")
            case PromptText() | ShellCall():
                self._work(self._runner.send, text.rstrip())
            case Nothing() if self._returned:
                self._work(self._runner.send, self._returned)
            case Nothing():
                pass
        self._attend()
        return True

    def _attend(self) -> None:
        """Until nothing runs: answer questions, pass on Ctrl+C."""
        while self._works:
            match self._inbox.get():
                case Future() as done:
                    self._works -= 1
                    done.result()  # an error nobody foresaw is raised here
                case Asked() as asked:
                    self._ask(asked)
                case signal.SIGINT:
                    self._interrupted()
                case number:
                    raise Ended(128 + number)
        if self._returned:
            self._paper.line("The prompt was not sent: an empty line sends it again.")

    def _interrupted(self) -> None:
        """Ctrl+C cancels what runs; else the second one quits."""
        state, now = self._narrator.state, time.monotonic()
        step = interrupt_step(
            running=state.busy,
            cancelling=state.cancelling,
            since_last=None if self._warned is None else now - self._warned,
        )
        if step == "quit":
            raise Ended(128 + signal.SIGINT)
        if step == "cancel":
            self._narrator.state = replace(state, cancelling=True)
            self._call(self._runner.cancel)
        else:
            self._warned = now
            self._paper.line("Ctrl+C again quits.")

    def _ask(self, asked: Asked) -> None:
        """Ask until there is an answer; where nobody is there, it is the last one."""
        for line in asked.all_lines():
            self._paper.line(line)
        if not self._reader.is_terminal or self._paper.lost is not None:  # unprinted, it is not allowed
            words = asked.answers[-1].words.partition(", and ")[0]
            self._paper.line(f"Nobody is at a terminal to answer: {words}.")
            self._work(self._runner.submit, asked.unanswered)
            return
        shown = time.monotonic()
        while True:
            try:
                with self._reads():
                    typed = self._reader.answer("Answer: ")
            except EOFError:
                typed = asked.answers[-1].key
            except KeyboardInterrupt:
                self._interrupted()
                return
            answer_given = asked.taken(typed)
            if answer_given is None and len(typed.split()) > 1:
                self._reader.keep(typed)
                self._paper.line("That is kept as your next prompt. First this: a letter or a number.")
            elif answer_given is None:
                self._paper.line("A letter or a number of the list answers.")
            elif asked.interrupts and time.monotonic() - shown < _DEAF:
                self._paper.line("The question had only just come: answer it once more.")
                shown -= _DEAF
            else:
                operation = self._with_text(answer_given, asked.text)
                if operation is not None:
                    self._work(self._runner.submit, operation)
                    return

    def _with_text(self, given: Answer, text: str) -> Operation | None:
        """What an answer asks of the agent, with what is written with it; None where nothing could be."""
        operation = given.operation
        if given.asks == "edit":
            try:
                return operation.model_copy(update={"text": edit_text(text)})
            except (OSError, ValueError) as error:
                self._paper.line(f"The editor did not work: {error}.")
                return None
        if not given.asks:
            return operation
        usual = f" (an empty line: {given.usual})" if given.usual else ""
        why = "Why, and what instead (an empty line says nothing): "
        mark = why if given.key == "n" else f"Your words{usual}: "
        try:
            with self._reads():
                return given.with_line(self._reader.answer(mark))
        except (EOFError, KeyboardInterrupt):
            return operation if isinstance(operation, Approve) else None

    @contextmanager
    def _reads(self) -> Iterator[None]:
        """While the person types: what comes waits, and a signal breaks off the reading."""
        self._paper.reading(True)
        self._reading, ended = True, False
        try:
            yield
            ended = True
        finally:
            self._reading = False
            self._paper.reading(False, ends_line=self._reader.is_terminal and not ended)

    def _heard(self, number: signal.Signals) -> None:
        """What the system, or Ctrl+C, says goes where this thread waits."""
        if not self._reading:
            self._inbox.put(number)
        elif number is signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise Ended(128 + number)

    # --- across to the agent's loop ---------------------------------------------------------------------

    def _call(self, call: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(call, *arguments)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _work(self, call: Callable[..., object], *arguments: object) -> None:
        """Have the agent do this. The inbox says when it, and what it began, is done."""
        self._works += 1
        self._returned = ""

        async def work() -> None:
            begun = call(*arguments)
            if isawaitable(begun):
                await begun
            await self._runner.quiet()

        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        future.add_done_callback(self._inbox.put)

    def _give_back(self, text: str) -> bool:
        """A prompt that was not sent waits here for an empty line."""
        self._returned = text
        return True
