"""One open session: its chat, the agent behind it, and what shows the one in the other."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from textual import on, work

from foldline.tui import dialogs
from foldline.tui.chat import ChatScreen
from foldline.tui.messages import (
    CancelRequested,
    CommandInvoked,
    EntryWanted,
    OperationWanted,
    PromptEditWanted,
    PromptSubmitted,
    QueueEdited,
    SubagentWanted,
)
from foldline.tui.presenter import Presenter, Shown
from foldline.tui.prompting.prompt import Prompt
from foldline.tui.startup import Load, Opened, Opening, import_ahead, import_client
from foldline.tui.state import ChatState, News, Tab, Waiting
from foldline.tui.terminal.app import not_loaded

if TYPE_CHECKING:
    from foldline.llm import LLM
    from foldline.protocol.events import Event
    from foldline.tui.app import FoldlineApp
    from foldline.tui.runner import Commands, Runner

PATIENCE = 0.4
"""Seconds after which it is said that the session is being opened, and how far that is, again and again."""


class OpenSession(ChatScreen):
    """The chat of one session. What is entered before `open` has ended is kept. It works on while another
    session is on the screen; `mode` is the name of its stack of screens, of which this is the lowest."""

    def __init__(
        self,
        load: Load,
        mode: str,
        *,
        root: Path,
        file: str = "",
        prompt: str = "",
        clock: Callable[[], float] = time.monotonic,
        is_first_start: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(root=root, clock=clock)
        self.mode = mode
        self.root = root
        self._file = file
        self._is_first_start = is_first_start
        self._ended = False
        self._opening = Opening(load, self.transcript, prompt)
        first = ChatState(workdir=root.name or str(root), waiting=self._opening.waiting)
        self.presenter = Presenter(self, first, clock, lambda: self.program.written)
        self._typed = ""
        self._client_of: LLM | None = None
        """The model whose client is imported, or being imported."""
        self._unseen: Literal["", "finished", "failed"] = ""
        """How the last task ended, where another session was on the screen."""
        self._offered: Path | None = None
        """The folder that it was offered to continue in."""

    @property
    def program(self) -> "FoldlineApp":
        return cast("FoldlineApp", self.app)

    @property
    def runner(self) -> "Runner | None":
        """What sends prompts; None until the session is open."""
        return self.presenter.shown.runner if self.presenter.shown is not None else None

    @property
    def file(self) -> str:
        """The event file; empty where nothing was said yet."""
        if self.runner is None:
            return self._file
        path = self.runner.agent.session.path
        return str(path) if path is not None and path.exists() else ""

    @property
    def where(self) -> str:
        """What stands before the name of a screen above the chat."""
        return f"{self.presenter.state.workdir} ▸ {self.name_now}"

    @property
    def name_now(self) -> str:
        return self.presenter.state.title or "new session"

    # --- beside other sessions -----------------------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """Whether nothing was said or written here yet: left, it is closed."""
        return self.welcome.display and not self.prompt.editor.text.strip()

    @property
    def runs(self) -> bool:
        """Whether something would end with the session."""
        jobs = self.runner.agent.state.jobs.all() if self.runner is not None else []
        state = self.presenter.state
        return state.busy or bool(state.subagents) or any(job.runs or job.runs_on for job in jobs)

    @property
    def tab(self) -> Tab:
        """How it is listed among the open sessions."""
        state = self.presenter.state
        if state.question is not None:
            return Tab(self.name_now, "waits for you", self.is_shown)
        works = "compacting" if state.compacting is not None else "working" if state.busy else self._unseen
        return Tab(self.name_now, works, self.is_shown)

    def seen(self) -> None:
        """It is on the screen now."""
        self._unseen = ""
        self.presenter.show(self.presenter.state)

    def watch_state(self) -> None:
        if not self._ended:
            super().watch_state()
            self.program.show_tabs()

    # --- opening and closing ---------------------------------------------------------------------------

    async def open(self) -> str | None:
        """Read the session and show it; why that failed, as a sentence."""
        late = self.set_interval(PATIENCE, self._say_opening)
        try:
            opened = await asyncio.to_thread(self._opening.run)
        finally:
            late.stop()
        if isinstance(opened, str):
            return opened
        if self._ended:  # closed while it was read
            await opened.agent.aclose()
            return None
        self._use(opened)
        self._look_at_git()
        self._look_around()
        self._read_children()
        if not opened.blocks:
            self.welcome.display, self.reading.display = True, False
            self._show()
            self._find_last_sessions()
        self.run_worker(import_ahead(opened.agent.state), group="screens", exit_on_error=False)
        self._typing()
        return None

    async def aclose(self) -> None:
        """Cancel what runs, keep what was not sent, and give the session back."""
        if self._ended:
            return
        self._ended = True
        self._opening.given_up = True
        if self.runner is not None:
            from foldline.tui.runner import keep_unsent_prompts

            keep_unsent_prompts(self.runner, self)
            await self.runner.aclose()

    def _say_opening(self) -> None:
        share = self._opening.share_read
        far = f": {share:.0%}" if share else ""
        self.presenter.show(
            replace(self.presenter.state, news=News(f"Opening the session{far}", "info", self.clock()))
        )

    def _use(self, opened: Opened) -> None:
        from foldline.tui.idle_compaction import IdleCompaction
        from foldline.tui.model_setup import Setup
        from foldline.tui.preview_host import PreviewHost
        from foldline.tui.prompting.earlier import recalled
        from foldline.tui.runner import Runner, restore_unsent_prompts, resume_notes

        agent, transcript, blocks, figures, typed = opened
        prompt = self.prompt
        runner = Runner(agent, self._hear, prompt.give_back, prompt.attachments.parts)
        idle = IdleCompaction(runner, lambda: self._is_untouched, self.set_timer)
        setup = Setup(self, runner, is_first_start=self._is_first_start())
        shown = Shown(self, runner, transcript, figures, PreviewHost(self, runner), idle, setup)
        self.presenter.shown = shown
        agent.executor.subscribe(self._hear)
        transcript.show(blocks)
        self.reading.source = transcript
        prompt.set_history(recalled(typed, prompt.attachments))
        self.presenter.state = replace(
            self.presenter.state,
            title=agent.session.meta().title,
            model=agent.state.llm.info.id,
            edits=agent.state.policy.mode,
            compaction_mode=agent.state.mode,
            news=None,
            waiting=Waiting(),
        )
        for words in resume_notes(agent.session):
            self.remark(words)
        self.presenter.refresh_figures()
        agent.start()
        for command, argument in self._opening.commands:  # before prompts, as whatever is asked by hand
            self._carry_out(command, argument, shown)
        setup.begin(self._opening.prompts)
        if not self._opening.prompts:  # else they go first, and what waited waits for the next time
            restore_unsent_prompts(agent.session, runner, self)

    @property
    def _is_untouched(self) -> bool:
        """Whether nothing runs, waits or is being written."""
        state, typed = self.presenter.state, self.prompt.editor.text.strip()
        return not (state.busy or state.waiting.count or state.questions or typed)

    def report(self, work: Coroutine[Any, Any, str], group: str) -> None:
        """Do this beside the event loop. The status row says what it came to, or why not."""
        from foldline.protocol import FoldlineError

        async def done() -> None:
            try:
                self.remark(await work)
            except FoldlineError as failure:
                self.remark(str(failure))

        self.run_worker(done(), group=group, exclusive=True)

    def _hear(self, event: "Event") -> None:
        """Every event of the session, until it is closed."""
        from foldline.protocol.events import SubagentProgress, TaskFinished

        if self._ended:
            return
        if isinstance(event, TaskFinished):
            if not self.is_shown and event.outcome != "cancelled":
                self._unseen = "failed" if event.outcome == "failed" else "finished"
            self._look_at_git()
            self._look_at_folder()
        self.presenter.hear(event)
        if isinstance(event, SubagentProgress) and event.state in ("done", "failed", "cancelled"):
            self._read_children()

    @work(exclusive=True, group="children")
    async def _read_children(self) -> None:
        """What the subagents that have ended came to, as their histories say."""
        from foldline.tui.transcript.children import works_of

        shown = self.presenter.shown
        events = None if shown is None else shown.runner.agent.session.path
        if shown is not None and events is not None and (unread := shown.transcript.children.unread):
            shown.transcript.learn_of_children(await asyncio.to_thread(works_of, events, unread))

    def _look_at_folder(self) -> bool:
        """Whether the working folder was moved, and it is offered now to continue where it is."""
        folder = None if self.runner is None else self.runner.agent.state.folder.moved_to
        if folder is None or folder == self._offered:
            return False
        self._offered = folder
        self.run_worker(self._offer(folder), group="folder", exclusive=True)
        return True

    async def _offer(self, folder: Path) -> None:
        from foldline.history.paths import with_tilde

        question = "The working folder was moved. Continue there?"
        note = f"in {with_tilde(str(folder))}: the session is opened again, jobs that run end"
        if await dialogs.confirmed(self, question, "Continue there", note):
            self.program.continue_in(self, folder)

    @work(thread=True, exclusive=True, group="git", exit_on_error=False)
    def _look_at_git(self) -> None:
        from foldline.tui.git import git_state

        self.app.call_from_thread(self._git_known, git_state(self.root))

    @work(thread=True, group="welcome", exit_on_error=False)
    def _find_last_sessions(self) -> None:
        from foldline.tui.startup import last_sessions

        self.app.call_from_thread(self.welcome.offer, last_sessions(self.root))

    @work(exclusive=True, group="catalogue")
    async def _look_around(self) -> None:
        """Which skills and commands there are."""
        from foldline.agent.skill_loading import look_around

        if self.runner is not None:
            await look_around(self.runner.agent.state)
            self.presenter.refresh_figures()
            self.prompt.refresh_completion()

    def _git_known(self, state: str) -> None:
        self.presenter.show(replace(self.presenter.state, git=state))

    # --- what the user asks for ------------------------------------------------------------------------

    @on(PromptSubmitted)
    def _prompt(self, message: PromptSubmitted) -> None:
        if (shown := self.presenter.shown) is not None:
            edited, self.prompt.edited = self.prompt.edited, None
            if edited is not None:
                self.run_worker(self._send_edited(shown.runner, *edited, message.text), group="rewind")
            elif self._look_at_folder():
                self.prompt.give_back(message.text)
            elif not shown.setup.holds(message.text):
                shown.runner.send(message.text)
        else:
            self._opening.prompts.append(message.text)
            self.presenter.show(replace(self.presenter.state, waiting=self._opening.waiting))

    @on(PromptEditWanted)
    def _edit_earlier(self, message: PromptEditWanted) -> None:
        """Put an earlier prompt into the editor; sent, it takes the place of the old one."""
        from foldline.context.branches import prompt_number
        from foldline.protocol import UserMessage, entered

        if self.runner is None:
            return
        projection = self.runner.agent.session.projection
        number, asked = prompt_number(projection, message.index), projection.entry(message.index)
        if number is None or not isinstance(asked, UserMessage):
            self.remark("Only a prompt that was typed can be edited")
            return
        self.prompt.edit(message.index, number, entered(asked.text))
        self.set_focus(self.prompt.editor)

    async def _send_edited(self, runner: "Runner", index: int, number: int, text: str) -> None:
        """Go back to before an earlier prompt, and send this one in its place, before those that wait."""
        from foldline.context.branches import before_prompt

        executor = runner.agent.executor
        back = before_prompt(runner.agent.session.projection, index)
        finished = await executor.wait_for(executor.submit(back))
        if finished.outcome == "done":
            runner.send(text, first=True)
        else:
            self.prompt.edit(index, number, text)

    @on(Prompt.FactsChanged)
    def _typing(self) -> None:
        if self.runner is None:
            return
        text = self.prompt.editor.text
        if text == "/" != self._typed:  # a command is looked for: it may have come just now
            self._look_around()
        self._typed = text
        if not text.strip():
            self.runner.forget_unsent()
            return
        if (llm := self.runner.agent.state.llm) is not self._client_of:
            self._client_of = llm
            self.run_worker(partial(import_client, llm), thread=True, exit_on_error=False)

    @on(QueueEdited)
    def _edit_queue(self, message: QueueEdited) -> None:
        if self.runner is not None:
            self.runner.edit_queue(message.before, message.after, message.paused)

    @on(CancelRequested)
    @on(EntryWanted)
    @on(OperationWanted)
    @on(SubagentWanted)
    def take(self, message: CancelRequested | EntryWanted | OperationWanted | SubagentWanted) -> None:
        """Carry out what is wanted in the chat, or on a screen above it."""
        message.stop()
        shown, state = self.presenter.shown, self.presenter.state
        if shown is None:
            return
        match message:
            case OperationWanted():
                shown.runner.submit(message.operation)
            case EntryWanted():
                self.show_entry(message.index)
            case SubagentWanted():
                shown.inspecting.open_child(message.started)
            case CancelRequested():
                if state.busy:
                    self.presenter.show(replace(state, cancelling=True))
                if state.busy or state.drafting_ahead or state.subagents:
                    shown.runner.cancel()

    def show_entry(self, index: int) -> None:
        """Open the Inspector on an entry."""
        if self.presenter.shown is not None:
            self.presenter.shown.inspecting.open_at(index)

    @on(CommandInvoked)
    def _command(self, message: CommandInvoked) -> None:
        if message.command in ("quit", "close", "tabs"):
            self.program.on_sessions(message.command)
        elif self.presenter.shown is None:
            self.remark(self._opening.keep(message.command, message.argument, self.presenter.state))
        else:
            self._carry_out(message.command, message.argument, self.presenter.shown)

    def _carry_out(self, command: str, argument: str, shown: Shown) -> None:
        try:
            if command == "inspector":  # not held up by the imports of all the other screens
                shown.inspecting.toggle()
            else:
                self._commands(shown)[command](shown.runner, argument)
        except ImportError as missing:
            self.program.say(not_loaded(missing))

    def _commands(self, shown: Shown) -> "Commands":
        from foldline.tui.runner import compaction_commands
        from foldline.tui.screens.context import open_context
        from foldline.tui.screens.jobs import open_jobs
        from foldline.tui.screens.permissions import open_permissions
        from foldline.tui.screens.rewind import open_rewind
        from foldline.tui.screens.settings import open_settings
        from foldline.tui.session_commands import session_commands
        from foldline.tui.tree_host import open_tree

        in_slices = self.presenter.in_slices
        return {
            "open-tools": lambda _, __: in_slices(shown.transcript.openings.toggle_all_calls(), "opening"),
            "background": lambda runner, _: self._to_background(runner, shown),
            "context": lambda _, __: open_context(shown),
            "rewind": lambda runner, _: open_rewind(self, runner),
            "tree": lambda runner, _: open_tree(self, runner),
            "approvals": lambda runner, _: open_permissions(self, runner),
            "jobs": lambda runner, _: open_jobs(self, runner),
            "settings": partial(open_settings, self),
            "mcp": partial(dialogs.show_servers, self),
            "skill": partial(dialogs.show_skills, self),
            **compaction_commands(shown.previewing.open, self.remark),
            "strategy": partial(dialogs.switch_strategy, self),
            **shown.setup.commands,
            **session_commands(self),
        }

    def _to_background(self, runner: "Runner", shown: Shown) -> None:
        from foldline.protocol.operations import SendToBackground

        cursor = self.transcript.cursor if self.reading.focused else None
        chosen = None if cursor is None else shown.transcript.child_at(cursor)
        awaited = self.presenter.state.awaited
        one = next(
            (each for each in awaited if chosen is not None and each.child == chosen.child), awaited[0]
        )
        runner.submit(SendToBackground(call_id=one.call_id))
