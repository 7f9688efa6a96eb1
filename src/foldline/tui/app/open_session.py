"""An open session: the chat screen with its presenter, runner and agent."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from textual import on, work

from foldline.frontend.state import ChatState, News, Tab, Waiting
from foldline.tui.app.presenter import Presenter, Shown
from foldline.tui.app.startup import Load, Opened, Opening, import_ahead, import_client
from foldline.tui.chat.screen import ChatScreen
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
from foldline.tui.overlays import dialogs
from foldline.tui.prompting.prompt import PromptBox
from foldline.tui.terminal.app import not_loaded

if TYPE_CHECKING:
    from foldline.frontend.runner import Commands, Runner
    from foldline.llm import LLM
    from foldline.protocol.events import Event
    from foldline.tui.session_window import Program

PROGRESS_SECONDS = 0.4
"""Seconds between reports on the progress of opening a session."""

OPENING = "Opening the session"
FOLDER_MOVED = "The working folder has been moved. Continue in its new location?"
CONTINUE_THERE = "Continue there"
CONTINUE_NOTE = "reopens the session in {folder}; running jobs are stopped"
ONLY_PROMPTS_EDITED = "Only prompts that you typed can be edited"


class OpenSession(ChatScreen):
    """The chat of one session.

    Prompts and commands entered before `open` returns are kept. The agent continues while another session is
    on the screen. `mode` is the name of the session's stack of screens, with this screen at the bottom.
    """

    def __init__(
        self,
        load: Load,
        mode: str,
        *,
        root: Path,
        file: str = "",
        prompts: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        is_first_start: Callable[[], bool] = lambda: False,
        command: str = "",
    ) -> None:
        """Create the chat. `command` is carried out as soon as the session is open."""
        super().__init__(root=root, clock=clock)
        self.mode = mode
        self.root = root
        self._file = file
        self._is_first_start = is_first_start
        self._ended = False
        self._opening = Opening(load, self.transcript, prompts)
        if command:
            self._opening.commands.append((command, ""))
        first = ChatState(workdir=root.name or str(root), waiting=self._opening.waiting)
        self.presenter = Presenter(self, first, clock, lambda: self.program.written)
        self._typed = ""
        self._client_of: LLM | None = None
        """The model whose client library has been imported."""
        self._unseen: Literal["", "finished", "failed"] = ""
        """Outcome of the last task.

        Set only if another session was on the screen when the task ended.
        """
        self._moved_to: Path | None = None
        """The new location of a working folder that was moved.

        Set once the user has been asked about it.
        """

    @property
    def program(self) -> "Program":
        return cast("Program", self.app)

    @property
    def runner(self) -> "Runner | None":
        """The runner of the agent, once the session is open."""
        return self.presenter.shown.runner if self.presenter.shown is not None else None

    @property
    def file(self) -> str:
        """Path of the event file; empty until the first entry is written."""
        if self.runner is None:
            return self._file
        path = self.runner.agent.session.path
        return str(path) if path is not None and path.exists() else ""

    @property
    def where(self) -> str:
        """The title shown before the name of a screen over the chat."""
        return f"{self.presenter.state.workdir} ▸ {self.session_name}"

    @property
    def session_name(self) -> str:
        return self.presenter.state.title or "new session"

    # --- among the open sessions -----------------------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """Whether the session has no messages and the editor is empty.

        A blank session is closed when another session is shown.
        """
        return self.welcome.display and not self.prompt.editor.text.strip()

    @property
    def runs(self) -> bool:
        """Whether closing the session would stop a task, subagent or job."""
        jobs = (
            self.runner.agent.state.tools.jobs.all() if self.runner is not None else []
        )
        state = self.presenter.state
        return (
            state.busy
            or bool(state.subagents)
            or any(job.is_running or job.has_leftovers for job in jobs)
        )

    @property
    def tab(self) -> Tab:
        """The session's item in the list of open sessions."""
        state = self.presenter.state
        if state.question is not None:
            return Tab(self.session_name, "waits for you", self.is_shown)
        if state.compacting is not None:
            return Tab(self.session_name, "compacting", self.is_shown)
        return Tab(
            self.session_name, "working" if state.busy else self._unseen, self.is_shown
        )

    def mark_seen(self) -> None:
        """Mark the outcome of the last task as seen.

        Called when the session has come to the screen.
        """
        self._unseen = ""
        self.presenter.show(self.presenter.state)

    def watch_state(self) -> None:
        if not self._ended:
            super().watch_state()
            self.program.show_tabs()

    # --- opening and closing ---------------------------------------------------------------------------

    async def open(self) -> str | None:
        """Read the session and show it.

        Returns:
            An error message; None if the session was opened.
        """
        timer = self.set_interval(PROGRESS_SECONDS, self._show_progress)
        try:
            opened = await asyncio.to_thread(self._opening.run)
        finally:
            timer.stop()
        if isinstance(opened, str):
            return opened
        if self._ended:  # closed in the meantime
            await opened.agent.aclose()
            return None
        self._show_opened(opened)
        self._read_git_state()
        self._find_commands()
        self._read_children()
        if not opened.blocks:
            self.welcome.display, self.reading.display = True, False
            self._show()
            self._find_last_sessions()
        self.run_worker(
            import_ahead(opened.agent.state), group="screens", exit_on_error=False
        )
        self._on_typing()
        return None

    async def aclose(self) -> None:
        """Cancel the running task, save unsent prompts, and close the session."""
        if self._ended:
            return
        self._ended = True
        self._opening.is_cancelled = True
        if self.runner is not None:
            from foldline.frontend.runner import keep_unsent_prompts

            keep_unsent_prompts(self.runner, self.prompt.editor.text)
            await self.runner.aclose()

    def _show_progress(self) -> None:
        text = OPENING
        if self._opening.share_read:
            text = f"{text}: {self._opening.share_read:.0%}"
        self.presenter.show(
            replace(self.presenter.state, news=News(text, "info", self.clock()))
        )

    def _show_opened(self, opened: Opened) -> None:
        from foldline.frontend.runner import (
            Runner,
            restore_unsent_prompts,
            resume_notes,
        )
        from foldline.tui.app.model_setup import ModelSetup
        from foldline.tui.app.preview_host import PreviewHost
        from foldline.tui.prompting.earlier import prompt_texts

        agent, transcript, blocks, figures, typed = opened
        prompt = self.prompt
        runner = Runner(
            agent, self._take_event, prompt.give_back, prompt.attachments.parts
        )
        setup = ModelSetup(self, runner, is_first_start=self._is_first_start())
        previewing = PreviewHost(
            self, runner, lambda state: shown.inspecting.open_draft(state)
        )
        shown = Shown(self, runner, transcript, figures, previewing, setup)
        self.presenter.shown = shown
        agent.executor.subscribe(self._take_event)
        transcript.show(blocks)
        self.reading.source = transcript
        prompt.set_history(prompt_texts(typed, prompt.attachments))
        self.presenter.state = replace(
            self.presenter.state,
            title=agent.session.meta().title,
            model=agent.state.models.llm.info.id,
            edits=agent.state.permissions.policy.mode,
            compaction_mode=agent.state.compaction.mode,
            news=None,
            waiting=Waiting(),
        )
        for words in resume_notes(agent.session):
            self.remark(words)
        self.presenter.refresh_figures()
        agent.start()
        for (
            command,
            argument,
        ) in self._opening.commands:  # before prompts, like all commands
            self._carry_out(command, argument, shown)
        setup.begin(self._opening.prompts)
        if not self._opening.prompts:  # otherwise the saved prompts would stay on disk
            restore_unsent_prompts(runner, prompt.give_back, self.remark)

    def report(self, work: Coroutine[Any, Any, str], group: str) -> None:
        """Run a coroutine, and show its result or error in the status row."""
        from foldline.protocol import FoldlineError

        async def run() -> None:
            try:
                self.remark(await work)
            except FoldlineError as failure:
                self.remark(str(failure))

        self.run_worker(run(), group=group, exclusive=True)

    def _take_event(self, event: "Event") -> None:
        """Handle an event from the session, unless the session is closed."""
        from foldline.protocol.events import SubagentProgress, TaskFinished

        if self._ended:
            return
        if isinstance(event, TaskFinished):
            if not self.is_shown and event.outcome != "cancelled":
                self._unseen = "failed" if event.outcome == "failed" else "finished"
            self._read_git_state()
            self._ask_if_folder_moved()
        self.presenter.on_event(event)
        if isinstance(event, SubagentProgress) and event.state in (
            "done",
            "failed",
            "cancelled",
        ):
            self._read_children()

    @work(exclusive=True, group="children")
    async def _read_children(self) -> None:
        """Show the results of finished subagents.

        The results are read from the subagents' session files.
        """
        from foldline.tui.transcript.children import works_of

        shown = self.presenter.shown
        if shown is None:
            return
        path = shown.runner.agent.session.path
        unread = shown.transcript.children.unread
        if path is not None and unread:
            shown.transcript.add_child_works(
                await asyncio.to_thread(works_of, path, unread)
            )

    def _ask_if_folder_moved(self) -> bool:
        """Ask whether to continue in the new folder, if the working folder was moved.

        Returns:
            Whether the user is being asked now.
        """
        folder = (
            None
            if self.runner is None
            else self.runner.agent.state.tools.folder.moved_to
        )
        if folder is None or folder == self._moved_to:
            return False
        self._moved_to = folder
        self.run_worker(self._ask_to_continue(folder), group="folder", exclusive=True)
        return True

    async def _ask_to_continue(self, folder: Path) -> None:
        from foldline.history.paths import with_tilde

        note = CONTINUE_NOTE.format(folder=with_tilde(str(folder)))
        if await dialogs.confirmed(self, FOLDER_MOVED, CONTINUE_THERE, note):
            self.program.continue_in(self.mode, folder)

    @work(thread=True, exclusive=True, group="git", exit_on_error=False)
    def _read_git_state(self) -> None:
        from foldline.tui.app.git import git_state

        self.app.call_from_thread(self._show_git_state, git_state(self.root))

    @work(thread=True, group="welcome", exit_on_error=False)
    def _find_last_sessions(self) -> None:
        from foldline.tui.app.startup import last_sessions

        self.app.call_from_thread(self.welcome.offer, last_sessions(self.root))

    @work(exclusive=True, group="catalogue")
    async def _find_commands(self) -> None:
        """Find the user's skills and commands."""
        from foldline.agent.session.skill_loading import look_around

        if self.runner is not None:
            await look_around(self.runner.agent.state)
            self.presenter.refresh_figures()
            self.prompt.refresh_completion()

    def _show_git_state(self, state: str) -> None:
        self.presenter.show(replace(self.presenter.state, git=state))

    # --- messages from the widgets ------------------------------------------------------------------------

    @on(PromptSubmitted)
    def _prompt(self, message: PromptSubmitted) -> None:
        shown = self.presenter.shown
        if shown is None:
            self._opening.prompts.append(message.text)
            self.presenter.show(
                replace(self.presenter.state, waiting=self._opening.waiting)
            )
            return
        edited = self.prompt.edited
        self.prompt.edited = None
        if edited is not None:
            self.run_worker(
                self._send_edited(shown.runner, *edited, message.text), group="rewind"
            )
        elif self._ask_if_folder_moved():
            self.prompt.give_back(message.text)
        elif not shown.setup.holds(message.text):
            shown.runner.send(message.text)

    @on(PromptEditWanted)
    def _edit_earlier(self, message: PromptEditWanted) -> None:
        """Put an earlier prompt into the editor.

        The edited text replaces that prompt when sent.
        """
        from foldline.past.branches import prompt_number
        from foldline.protocol import UserMessage

        if self.runner is None:
            return
        projection = self.runner.agent.session.projection
        number = prompt_number(projection, message.index)
        prompt = projection.entry(message.index)
        if number is None or not isinstance(prompt, UserMessage):
            self.remark(ONLY_PROMPTS_EDITED)
            return
        self.prompt.edit(message.index, number, prompt.editable)
        self.set_focus(self.prompt.editor)

    async def _send_edited(
        self, runner: "Runner", index: int, number: int, text: str
    ) -> None:
        """Rewind to the point before an earlier prompt.

        Then send the edited text, ahead of the queue.
        """
        from foldline.past.branches import before_prompt

        finished = await runner.run(
            before_prompt(runner.agent.session.projection, index)
        )
        if finished.outcome == "done":
            runner.send(text, first=True)
        else:
            self.prompt.edit(index, number, text)

    @on(PromptBox.FactsChanged)
    def _on_typing(self) -> None:
        if self.runner is None:
            return
        text = self.prompt.editor.text
        if text == "/" != self._typed:  # there may be new command files
            self._find_commands()
        self._typed = text
        if not text.strip():
            self.runner.forget_unsent()
            return
        llm = self.runner.agent.state.models.llm
        if llm is not self._client_of:
            self._client_of = llm
            self.run_worker(
                partial(import_client, llm), thread=True, exit_on_error=False
            )

    @on(QueueEdited)
    def _edit_queue(self, message: QueueEdited) -> None:
        if self.runner is not None:
            self.runner.edit_queue(message.before, message.after, message.paused)

    @on(CancelRequested)
    @on(EntryWanted)
    @on(OperationWanted)
    @on(SubagentWanted)
    def take(
        self, message: CancelRequested | EntryWanted | OperationWanted | SubagentWanted
    ) -> None:
        """Carry out a request from the chat or a screen over it."""
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
        if message.command in ("quit", "tabs"):
            self.program.on_sessions(message.command)
        elif self.presenter.shown is None:
            self.remark(
                self._opening.keep(
                    message.command, message.argument, self.presenter.state
                )
            )
        else:
            self._carry_out(message.command, message.argument, self.presenter.shown)

    def _carry_out(self, command: str, argument: str, shown: Shown) -> None:
        try:
            if (
                command == "inspector"
            ):  # this need not wait for the imports of all screens
                shown.inspecting.toggle()
            else:
                self._commands(shown)[command](shown.runner, argument)
        except ImportError as missing:
            self.program.say(not_loaded(missing))

    def _commands(self, shown: Shown) -> "Commands":
        from foldline.frontend.runner import compaction_commands
        from foldline.tui.app.session_commands import session_commands
        from foldline.tui.overlays.jobs import open_jobs
        from foldline.tui.overlays.permissions import open_permissions
        from foldline.tui.overlays.rewind import open_rewind
        from foldline.tui.overlays.settings import change_setting, open_settings

        in_slices = self.presenter.in_slices
        return {
            "open-tools": lambda _, __: in_slices(
                shown.transcript.openings.toggle_all_calls(), "opening"
            ),
            "background": lambda runner, _: self._to_background(runner, shown),
            "context": lambda _, __: shown.inspecting.open_by_size(),
            "rewind": lambda runner, _: open_rewind(self, runner),
            "approvals": lambda runner, _: open_permissions(self, runner),
            "jobs": lambda runner, _: open_jobs(self, runner),
            "settings": partial(open_settings, self),
            "theme": partial(change_setting, self, "theme"),
            "effort": partial(change_setting, self, "effort"),
            "mcp": partial(dialogs.show_servers, self),
            **compaction_commands(
                shown.previewing.open,
                partial(dialogs.choose_argument, self, shown.runner),
            ),
            **shown.setup.commands,
            **session_commands(self),
        }

    def _to_background(self, runner: "Runner", shown: Shown) -> None:
        from foldline.protocol.operations import SendToBackground

        awaited = self.presenter.state.awaited
        child = awaited[0]
        cursor = self.transcript.cursor
        selected = (
            shown.transcript.child_at(cursor)
            if self.reading.focused and cursor is not None
            else None
        )
        if selected is not None:
            child = next(
                (other for other in awaited if other.child == selected.child), child
            )
        runner.submit(SendToBackground(call_id=child.call_id))
