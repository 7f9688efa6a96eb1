"""The program on the screen: connects the chat to an agent. What is slow comes after the first paint."""

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType

from foldline.tui import dialogs
from foldline.tui.base_app import BaseApp
from foldline.tui.chat import ChatScreen
from foldline.tui.messages import (
    CancelRequested,
    CommandInvoked,
    EntryWanted,
    OperationWanted,
    PromptSubmitted,
    QueueEdited,
)
from foldline.tui.presenter import Presenter, Shown
from foldline.tui.prompting.prompt import Prompt
from foldline.tui.startup import Load, Opened, Opening, import_ahead, import_client
from foldline.tui.state import ChatState, News, Waiting
from foldline.tui.terminal.app import not_loaded
from foldline.tui.widgets.status import HasStatusLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.screen import Screen

    from foldline.llm import LLM
    from foldline.protocol.events import Event
    from foldline.tui.inspector_host import InspectorHost
    from foldline.tui.model_setup import Setup
    from foldline.tui.runner import Runner
    from foldline.tui.screens.palette import Item, Source

PATIENCE = 0.4
"""Seconds after which it is said that the session is being opened, and how far that is, again and again."""


class FoldlineApp(BaseApp[None]):
    """Foldline's chat. `load` is called once the screen is there; what is entered before it ends is kept."""

    TITLE = "Foldline"
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE: ClassVar[bool] = False
    CSS: ClassVar[str] = "Screen { background: ansi_default; } ModalScreen { background: transparent; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Ctrl+C needs no focus. The chat has its own; this one is for the screens above it.
        Binding("ctrl+c", "interrupt", "Copy, cancel, quit", show=False, priority=True),
        Binding("ctrl+q", "nothing", show=False, priority=True),
    ]

    def __init__(
        self,
        load: Load,
        *,
        root: Path,
        theme: str = "foldline-dark",
        prompt: str = "",
        clock: Callable[[], float] = time.monotonic,
        themes_dir: Path | None = None,
        is_first_start: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(theme, themes_dir)
        self._clock = clock
        self._root = root
        self._is_first_start = is_first_start
        self._setup: Setup | None = None
        self._closing = False
        self.failure: str | None = None
        """Why the program ended on its own, for the shell."""
        self.resume: str | None = None
        """Event file of the session to resume, where the user chose one; empty for a new one."""
        self.chat = ChatScreen(root=root, clock=clock)
        self._opening = Opening(load, self.chat.transcript, prompt)
        first = ChatState(workdir=root.name or str(root), waiting=self._opening.waiting)
        self.presenter = Presenter(self.chat, first, clock)
        self._typed = ""
        self._client_of: LLM | None = None
        """The model whose client is imported, or being imported."""

    @property
    def state(self) -> ChatState:
        """What the chat shows, or shows with its next frame."""
        return self.presenter.state

    # --- starting and stopping -----------------------------------------------------------------------

    def get_default_screen(self) -> ChatScreen:
        """The chat, below all others. Pushed onto another one, it would be painted two frames later."""
        return self.chat

    async def on_mount(self) -> None:
        await self.chat.ready.wait()  # What was typed before then is for the editor.
        self.presenter.show(self.state)
        self.call_after_refresh(self._start)

    def _leave(self, number: int) -> None:
        """Ended by the system, put the terminal back in order first."""
        self.exit(return_code=128 + number)

    def _start(self) -> None:
        from foldline.termination import on_termination  # after the first paint

        on_termination(asyncio.get_running_loop(), self._leave, self.give_terminal_back)
        self.run_worker(self._bring_agent(), group="attach", exclusive=True)

    async def _bring_agent(self) -> None:
        late = self.set_interval(PATIENCE, self._say_opening)
        try:
            opened = await asyncio.to_thread(self._opening.run)
        finally:
            late.stop()
            gc.freeze()  # what is there by now stays: collecting it again and again would hold up frames
            gc.enable()  # the front door starts without (`cli/chat.py`)
            # So many objects a frame makes; at Python's 700 a fifth of its time went into looking at them.
            # Three frames are looked at together: ten, as by default, are 15 ms in which no key is heard.
            gc.set_threshold(10_000, 3, 30)
        if isinstance(opened, str):
            self.failure = opened
            self.exit(return_code=1)
            return
        self._use(opened)
        self._look_at_git()
        self._look_around()
        if not opened.blocks:
            self.chat.invite()
            self._find_last_sessions()
        import_ahead(self, opened.agent.state)
        self._typing()
        self.agent_ready()

    def _say_opening(self) -> None:
        share = self._opening.share_read
        far = f": {share:.0%}" if share else ""
        self.presenter.show(
            replace(self.state, news=News(f"Opening the session{far}", "info", self._clock()))
        )

    def _use(self, opened: Opened) -> None:
        from foldline.tui.idle_compaction import IdleCompaction
        from foldline.tui.machine import EDITS
        from foldline.tui.model_setup import Setup
        from foldline.tui.preview_host import PreviewHost
        from foldline.tui.prompting.earlier import recalled
        from foldline.tui.runner import Runner, restore_unsent_prompts, resume_notes

        agent, transcript, blocks, figures, typed = opened
        prompt = self.chat.prompt
        runner = Runner(agent, self._hear, prompt.give_back, prompt.attachments.parts)
        previewing = PreviewHost(
            self,
            runner,
            clock=self._clock,
            title=self._where,
            remark=self.chat.remark,
        )
        idle = IdleCompaction(runner, lambda: self._is_untouched, self.chat.set_timer)
        self.presenter.shown = Shown(runner, transcript, figures, previewing, idle, self._made_inspecting)
        agent.executor.subscribe(self._hear)
        transcript.show(blocks)
        self.chat.reading.source = transcript
        prompt.set_history(recalled(typed, prompt.attachments))
        self.presenter.state = replace(
            self.state,
            title=agent.session.meta().title,
            model=agent.state.llm.info.id,
            edits=EDITS[agent.state.policy.mode],
            compaction_mode=agent.state.mode,
            news=None,
            waiting=Waiting(),
        )
        for words in resume_notes(agent.session):
            self.chat.remark(words)
        self.presenter.refresh_figures()
        agent.start()
        self._setup = Setup(self, runner, clock=self._clock, is_first_start=self._is_first_start())
        for command, argument in self._opening.commands:  # before prompts, as whatever is asked by hand
            self._carry_out(command, argument, self.presenter.shown)
        self._setup.begin(self._opening.prompts)
        if not self._opening.prompts:  # else they go first, and what waited waits for the next time
            restore_unsent_prompts(agent.session, runner, self.chat)

    @property
    def _is_untouched(self) -> bool:
        """Whether nothing runs, waits or is being written."""
        typed = self.chat.prompt.editor.text.strip()
        return not (self.state.busy or self.state.waiting.count or self.state.questions or typed)

    def agent_ready(self) -> None:
        """The session is open and shown. The tour begins here."""

    @property
    def runner(self) -> "Runner | None":
        """What sends prompts; None until the session is open."""
        return self.presenter.shown.runner if self.presenter.shown is not None else None

    async def on_unmount(self) -> None:
        self._closing = True
        self._opening.give_up()
        if self.runner is not None:
            from foldline.tui.runner import keep_unsent_prompts

            keep_unsent_prompts(self.runner, self.chat)
            await self.runner.aclose()

    def _hear(self, event: "Event") -> None:
        """Every event of the session, until the program ends."""
        from foldline.protocol.events import TaskFinished

        if not self._closing:
            self.presenter.hear(event)
            if isinstance(event, TaskFinished):
                self._look_at_git()

    @work(thread=True, exclusive=True, group="git", exit_on_error=False)
    def _look_at_git(self) -> None:
        from foldline.tui.git import git_state

        self.call_from_thread(self._git_known, git_state(self._root))

    @work(thread=True, group="welcome", exit_on_error=False)
    def _find_last_sessions(self) -> None:
        from foldline.tui.startup import last_sessions

        self.call_from_thread(self.chat.welcome.offer, last_sessions(self._root))

    @work(exclusive=True, group="catalogue")
    async def _look_around(self) -> None:
        """Which skills and commands there are."""
        from foldline.agent.skill_loading import look_around

        if self.runner is not None:
            await look_around(self.runner.agent.state)
            self.presenter.refresh_figures()
            self.chat.prompt.refresh_completion()

    def _git_known(self, state: str) -> None:
        self.presenter.show(replace(self.state, git=state))

    # --- what the user asks for ------------------------------------------------------------------------

    @on(PromptSubmitted)
    def _prompt(self, message: PromptSubmitted) -> None:
        if self.runner is not None:
            if self._setup is None or not self._setup.holds(message.text):
                self.runner.send(message.text)
        else:
            self._opening.prompts.append(message.text)
            self.presenter.show(replace(self.state, waiting=self._opening.waiting))

    @on(Prompt.FactsChanged)
    def _typing(self) -> None:
        if self.runner is None or not (text := self.chat.prompt.editor.text):
            return
        if text == "/" != self._typed:  # a command is looked for: it may have come just now
            self._look_around()
        self._typed = text
        if (llm := self.runner.agent.state.llm) is not self._client_of:
            self._client_of = llm
            import_client(self, llm)

    @on(CancelRequested)
    def _cancel(self) -> None:
        if self.runner is None:
            return
        if self.state.busy:
            self.presenter.show(replace(self.state, cancelling=True))
        if self.state.busy or self.state.drafting_ahead:
            self.runner.cancel()

    @on(QueueEdited)
    def _edit_queue(self, message: QueueEdited) -> None:
        if self.runner is not None:
            self.runner.edit_queue(message.before, message.after, message.paused)

    @on(OperationWanted)
    def _submit(self, message: OperationWanted) -> None:
        if self.runner is not None:
            self.runner.submit(message.operation)

    @on(EntryWanted)
    def _show_entry(self, message: EntryWanted) -> None:
        self._inspect(message.index)

    @on(CommandInvoked)
    def _command(self, message: CommandInvoked) -> None:
        if message.command == "quit":
            self.exit()
        elif self.presenter.shown is None:
            self.chat.remark(self._opening.keep(message.command, message.argument, self.state))
        else:
            self._carry_out(message.command, message.argument, self.presenter.shown)

    def _carry_out(self, command: str, argument: str, shown: Shown) -> None:
        try:
            self._commands(shown)[command](shown.runner, argument)
        except ImportError as missing:
            self.say(not_loaded(missing))

    def _commands(self, shown: Shown) -> dict[str, Callable[["Runner", str], None]]:
        from foldline.tui.context_screen import context_commands
        from foldline.tui.runner import compaction_commands
        from foldline.tui.screens.jobs import job_commands
        from foldline.tui.screens.permissions import permission_commands
        from foldline.tui.screens.rewind import open_rewind
        from foldline.tui.screens.settings import settings_commands
        from foldline.tui.session_commands import session_commands

        give_back = self.chat.prompt.give_back
        return {
            "inspector": lambda _, __: shown.inspecting.toggle(self.state),
            "open-tools": lambda _, __: self._open_tools(shown),
            "rewind": lambda runner, _: open_rewind(self, runner, give_back),
            **compaction_commands(shown.previewing.open, self.chat.remark),
            **(self._setup.commands if self._setup is not None else {}),
            **permission_commands(self),
            **context_commands(self, shown),
            **session_commands(self, self._root, self._where, self._go_on_with),
            **dialogs.server_commands(self),
            **dialogs.skill_commands(self),
            **settings_commands(self),
            **job_commands(self),
        }

    def _made_inspecting(self) -> "InspectorHost":
        from foldline.tui.inspector_host import InspectorHost

        assert self.runner is not None, "a session is shown"
        return InspectorHost(self, self.chat, self.runner, title=self._where)

    def _inspect(self, index: int) -> None:
        if self.presenter.shown is not None:
            self.presenter.shown.inspecting.open_at(index, self.state)

    def _open_tools(self, shown: Shown) -> None:
        self.presenter.in_slices(shown.transcript.toggle_all_calls(), "opening")

    def palette_items(self, below: "Screen[Any]") -> "Iterable[Item]":
        from foldline.tui.screens.palette import chat_items

        return chat_items(self, below)

    def palette_sources(self) -> "Sequence[Source]":
        from foldline.tui.screens.palette import chat_sources

        return chat_sources(self, self._root)

    def _where(self) -> str:
        return f"{self.state.workdir} ▸ {self.state.title or 'new session'}"

    def _go_on_with(self, session: str) -> None:
        """Leave this session for another, by its event file, or for a new one; the program starts over."""
        self.resume = session
        self.exit()

    def action_interrupt(self) -> None:
        """Ctrl+C on a screen above the chat: as in the chat itself, and its answer is seen here."""
        self.chat.run_command("interrupt")
        self._tell_above()

    def say(self, words: str) -> None:
        """In the status row, and on the screen above the chat."""
        self.chat.remark(words)
        self._tell_above()

    def _tell_above(self) -> None:
        if isinstance(self.screen, HasStatusLine) and self.chat.remarked:
            self.screen.tell(self.chat.remarked)

    def action_nothing(self) -> None:
        """Textual's own way out at one key: here only Ctrl+C, twice, quits."""
