"""The plain chat: reads prompts, runs them, and asks the agent's questions."""

import asyncio
import signal
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

from foldline.agent import Agent
from foldline.agent.session.skill_loading import look_around
from foldline.cli.streams import UNREAD
from foldline.frontend.editor import edit_text
from foldline.frontend.inputs import (
    BlankInput,
    EmptyShellCall,
    SlashCall,
    UnknownSlash,
    parse_input,
)
from foldline.frontend.interrupt import interrupt_step
from foldline.frontend.questions import (
    operation_of,
    option_for,
    option_label,
    options_of,
    question_lines,
    unanswered,
)
from foldline.frontend.runner import Runner
from foldline.frontend.state import Answerable, Question
from foldline.protocol.operations import Operation

from .commands import carry_out, handlers, help_lines
from .printer import PlainPrinter
from .terminal import PROMPT, Interrupted, PlainTerminal, PromptReader

_ANSWER_DELAY = 1.0
"""How long a new question accepts no answer, in seconds.

The user may have been typing before the question appeared.
"""
UNANSWERED: Final = "There is no terminal to answer at, so the answer is: {answer}."
KEPT_AS_PROMPT: Final = (
    "Kept as your next prompt. First, answer with a letter or a number."
)
NOT_AN_ANSWER: Final = "Answer with a letter or a number from the list."
ANSWER_AGAIN: Final = "The question has just appeared. Answer again to confirm."
NO_SHELL_COMMAND: Final = "Type a shell command after the !."
YOUR_ANSWER: Final = "Your answer"
WHY: Final = "Why not, and what to do instead (optional): "
NOT_SENT: Final = "The prompt was not sent. Press Enter on an empty line to retry."
QUIT_WARNING: Final = "Ctrl+C again quits."


class PlainChat:
    """A chat between an agent and a user on a plain terminal."""

    def __init__(
        self, agent: Agent, terminal: PlainTerminal, reader: PromptReader
    ) -> None:
        self._agent = agent
        self._terminal = terminal
        self._reader = reader
        self._inbox: asyncio.Queue[Question | None] = asyncio.Queue()
        """Questions to ask while the agent works; None when it has finished."""
        self._printer = PlainPrinter(agent, terminal, self._inbox.put_nowait)
        self._runner = Runner(agent, self._printer.on_event, self._keep_unsent)
        self._commands = handlers(self._runner, terminal.line)
        self._commands["help"] = lambda *_: help_lines(self._commands)
        self._unsent_prompt = ""
        self._warned_at: float | None = None
        """Time of the last warning that another Ctrl+C will quit."""
        self._quits = False

    async def run(self, first: str) -> int:
        """Run the chat until the user quits, and return the exit code.

        The exit code is 1 if the last prompt of a piped chat failed or a write to stdout failed, 130 if
        Ctrl+C was pressed twice, and 141 if stdout was closed.

        Args:
            first: a prompt to send before any prompt is read, or an empty string.
        """
        self._main = asyncio.current_task()
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self._agent.executor.subscribe(self._printer.on_event)
        try:
            self._agent.start()
            await self._converse(first)
        except asyncio.CancelledError:
            if not self._quits:
                raise
            return 128 + signal.SIGINT
        finally:
            await self._runner.aclose()
            self._reader.close()
        if self._terminal.error is not None:
            return UNREAD if isinstance(self._terminal.error, BrokenPipeError) else 1
        return 1 if self._printer.failed and not self._reader.is_terminal else 0

    async def _converse(self, first: str) -> None:
        if first:
            self._terminal.line(f"{PROMPT}{first}")
        text: str | None = first
        while text is not None and await self._handle(text):
            if self._terminal.error is not None:
                return
            text = await self._prompt()

    async def _prompt(self) -> str | None:
        """Read the next prompt.

        Returns None at the end of the input.
        """
        while True:
            try:
                return await self._reader.prompt()
            except Interrupted:
                continue
            except EOFError:
                return None

    async def _handle(self, text: str) -> bool:
        """Run a prompt or command until it has finished.

        Returns False if the user wants to quit.
        """
        text = text.rstrip() or self._unsent_prompt
        self._unsent_prompt = ""
        if text.startswith("/"):
            await look_around(self._agent.state)
        match parse_input(text, self._agent.state.tools.catalogue.by_name):
            case SlashCall(command, _) if command.id == "quit":
                return False
            case SlashCall(command, argument):
                state = self._printer.state
                say = self._terminal.line
                await self._settle(
                    carry_out(
                        command, argument, self._commands, self._runner, state, say
                    )
                )
            case UnknownSlash() as unknown:
                self._terminal.line(f"{unknown} Type /help for a list of commands.")
            case EmptyShellCall():
                self._terminal.line(NO_SHELL_COMMAND)
            case BlankInput():
                await self._settle()
            case _:
                self._runner.send(text)
                await self._settle()
        if self._unsent_prompt:
            self._terminal.line(NOT_SENT)
        return True

    async def _settle(self, command: Awaitable[None] | None = None) -> None:
        """Ask questions until the command and the agent have finished."""

        async def finish() -> None:
            if command is not None:
                await command
            await self._runner.quiet()

        work = asyncio.create_task(finish())
        work.add_done_callback(lambda _: self._inbox.put_nowait(None))
        answered = False
        while (question := await self._inbox.get()) is not None:
            await self._ask(question)
            answered = True
        work.result()  # raises the task's error, if it failed
        if answered:
            await self._settle()

    def _interrupt(self) -> None:
        """Cancel the running task.

        If no task is running, the second Ctrl+C quits.
        """
        state = self._printer.state
        now = time.monotonic()
        step = interrupt_step(
            running=state.busy,
            cancelling=state.cancelling,
            since_last=None if self._warned_at is None else now - self._warned_at,
        )
        if step == "quit" and self._main is not None:
            self._quits = True
            self._main.cancel()
            return
        if step == "cancel":
            self._printer.state = replace(state, cancelling=True)
            self._runner.cancel()
        else:
            self._warned_at = now
            self._terminal.line(QUIT_WARNING)
        self._reader.interrupt()

    async def _ask(self, question: Question) -> None:
        """Ask a question until the answer is valid.

        Without a terminal, the last answer is used.
        """
        options = options_of(question)
        for line in question_lines(question):
            self._terminal.line(line)
        for number, option in enumerate(options, start=1):
            label = option_label(question, option)
            self._terminal.line(f"{number}  {option.key}  {label}")
        if (
            not self._reader.is_terminal or self._terminal.error is not None
        ):  # never allow an unseen call
            last_answer = options[-1].label.partition(", and ")[0]
            self._terminal.line(UNANSWERED.format(answer=last_answer))
            self._runner.submit(unanswered(question))
            return
        shown_at = time.monotonic()
        operation: Operation | None = None
        try:
            while operation is None:
                line = await self._reader.line("Answer: ")
                chosen = option_for(question, line)
                is_early = time.monotonic() - shown_at < _ANSWER_DELAY
                if chosen is None and len(line.split()) > 1:
                    self._reader.keep(line)
                    self._terminal.line(KEPT_AS_PROMPT)
                elif chosen is None:
                    self._terminal.line(NOT_AN_ANSWER)
                elif is_early and not question.opened_by_user:
                    self._terminal.line(ANSWER_AGAIN)
                    shown_at -= _ANSWER_DELAY
                else:
                    operation = await self._operation(question, chosen)
        except Interrupted:
            return
        except EOFError:
            operation = operation_of(question, options[-1])
        self._runner.submit(operation)

    async def _operation(
        self, question: Question, chosen: Answerable
    ) -> Operation | None:
        """Return an answer's operation, after asking for its text if it requires one.

        Returns None if the editor failed.
        """
        text = ""
        if chosen.asks == "edit":
            try:
                text = await asyncio.to_thread(edit_text, question.title)
            except (OSError, ValueError) as error:
                self._terminal.line(f"The editor failed: {error}.")
                return None
        elif chosen.asks:
            label = WHY if chosen.key == "n" else f"{YOUR_ANSWER}: "
            text = (await self._reader.line(label)).strip()
        return operation_of(question, chosen, text)

    def _keep_unsent(self, text: str) -> bool:
        """Store an unsent prompt. Entering an empty line sends it again."""
        self._unsent_prompt = text
        return True
