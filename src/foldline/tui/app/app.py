"""The app: holds the open sessions and shows one of them.

Slow imports and other slow work start only after the first paint.
"""

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on, work
from textual.binding import Binding, BindingType

from foldline.frontend.commands import BY_ID
from foldline.frontend.state import ChatState, Tab
from foldline.tui.app.open_session import OpenSession
from foldline.tui.app.startup import Another, Load
from foldline.tui.base_app import BaseApp
from foldline.tui.keys.bindings import bindings
from foldline.tui.look.links import file_links
from foldline.tui.look.status import HasStatusLine
from foldline.tui.messages import CancelRequested, EntryWanted, OperationWanted
from foldline.tui.overlays import dialogs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.screen import Screen

    from foldline.frontend.runner import Runner
    from foldline.tui.overlays.palette import ItemSource, PaletteItem

_PICKER_ID: Final = "open-sessions"
_OPENING_COMMANDS: Final = ("new", "sessions")
"""Commands that open another session, offered in the list of open sessions."""

ONLY_ONE_SESSION = "Only one session can be open here"
CLOSE_NOTE = "cancels the running task, keeps the history"
QUIT_QUESTION = "Quit Foldline? Still running: {sessions}"
QUIT_NOTE = "cancels the running tasks in {sessions}, keeps the histories"
CURRENT_SESSION = "current"
IDLE_SESSION = "idle"


class FoldlineApp(BaseApp[None]):
    """The Foldline app.

    Each open session is a Textual mode: a stack of screens with the session's chat at the bottom.
    """

    TITLE = "Foldline"
    DEFAULT_MODE: ClassVar[str] = "session 1"
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings([BY_ID["tabs"]], "everywhere"),
        # Ctrl+C works without focus. The chat has its own binding; this binding is for screens over the chat.
        Binding("ctrl+c", "interrupt", "Copy, cancel, quit", show=False, priority=True),
        Binding("ctrl+q", "nothing", show=False, priority=True),
    ]

    def __init__(
        self,
        load: Load,
        *,
        root: Path,
        theme: str = "foldline-dark",
        prompts: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        themes_dir: Path | None = None,
        is_first_start: Callable[[], bool] = lambda: False,
        another: Another | None = None,
        lists_sessions: bool = False,
    ) -> None:
        """Create the app.

        Args:
            load: opens the first session, after the first paint.
            another: returns a loader for another session. If None, only one session can be open.
            lists_sessions: whether to open the list of sessions first.
        """
        super().__init__(theme, themes_dir)
        self._clock = clock
        self.files = file_links(root, gethostname(), os.environ)
        self._another = another
        self._mode_numbers = count(2)
        self.failure: str | None = None
        """The error that ended the program, to be printed in the shell."""
        self.chat = OpenSession(
            load,
            self.DEFAULT_MODE,
            root=root,
            prompts=prompts,
            clock=clock,
            is_first_start=is_first_start,
            command="sessions" if lists_sessions else "",
        )
        """The session that is on the screen."""
        self.sessions = [self.chat]
        """The open sessions, in the order they were opened."""
        self._previous = self.chat
        """The session that was on the screen before the current one."""
        self._tabs: tuple[Tab, ...] = ()
        self.add_mode(self.DEFAULT_MODE, lambda: self.sessions[0])

    @property
    def state(self) -> ChatState:
        """The state of the chat.

        The screen might show it only in the next frame.
        """
        return self.chat.presenter.state

    @property
    def runner(self) -> "Runner | None":
        """The runner of the session on the screen.

        None until the session is open.
        """
        return self.chat.runner

    # --- starting and stopping -----------------------------------------------------------------------

    async def on_mount(self) -> None:
        await self.chat.ready.wait()  # earlier keys go to the editor
        self.chat.presenter.show(self.state)
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        from foldline.termination import on_termination  # after the first paint

        loop = asyncio.get_running_loop()
        on_termination(
            loop,
            lambda number: self.exit(return_code=128 + number),
            self.give_terminal_back,
        )
        self.run_worker(self._open_first(), group="attach", exclusive=True)

    async def _open_first(self) -> None:
        try:
            failure = await self.chat.open()
        finally:
            gc.freeze()  # repeated scans of these objects would delay frames
            gc.enable()  # disabled at the start by `cli/chat.py`
            # A frame creates about this many objects. With Python's default of 700, garbage collection
            # took a fifth of the time.
            # Collect older objects after three frames. The default of ten would block keys for 15 ms.
            gc.set_threshold(10_000, 3, 30)
        if failure is not None:
            self.failure = failure
            self.exit(return_code=1)

    async def on_unmount(self) -> None:
        await asyncio.gather(*(session.aclose() for session in self.sessions))

    # --- several sessions ------------------------------------------------------------------------------

    def open_session(self, file: str = "") -> None:
        """Open the session in this event file.

        If `file` is empty, open a new session. A session that is already open is brought to the screen.
        """
        if not self._show_file(file):
            self.run_worker(self._open_another(file), group="open")

    def _show_file(self, file: str) -> bool:
        """Show the session in this event file if it is open.

        Returns:
            Whether the session is open.
        """
        for session in self.sessions:
            if file and session.file == file:
                self.show_session(session)
                return True
        return False

    @work(group="open")
    async def continue_in(self, mode: str, folder: Path) -> None:
        """Reopen a session in another folder.

        `mode` is the session's Textual mode.
        """
        if session := self._in_mode(mode):
            await session.aclose()
            await self._open_another(session.file, folder, replaced=session)

    def _in_mode(self, mode: str | None) -> OpenSession | None:
        return next(
            (session for session in self.sessions if session.mode == mode), None
        )

    async def _open_another(
        self, file: str, folder: Path | None = None, replaced: OpenSession | None = None
    ) -> None:
        """Open another session.

        Args:
            folder: where to open the session; by default, the folder of the session on the screen.
            replaced: a session to close once the new one is open.
        """
        from foldline.protocol import FoldlineError

        if self._another is None:
            self.say(ONLY_ONE_SESSION)
            return
        try:
            load, root = await asyncio.to_thread(
                self._another, file, folder or self.chat.root, self._confirm
            )
        except FoldlineError as failure:
            self.say(str(failure))
            return
        if replaced is None and self._show_file(file):  # the command was entered twice
            return
        mode = f"session {next(self._mode_numbers)}"
        session = OpenSession(load, mode, root=root, file=file, clock=self._clock)
        self.add_mode(mode, lambda: session)
        self.sessions.append(session)
        self.show_session(session)
        await session.ready.wait()
        failure_text = await session.open()
        if failure_text is not None:
            await self.close_session(session)
            self.say(failure_text)
            return
        if replaced is not None:
            await self.close_session(replaced)
        await self._close_blank()

    def _confirm(self, question: str) -> bool:
        """Ask the user a yes/no question.

        Call it from a thread. It blocks until the user answers.
        """

        def ask() -> bool | Awaitable[bool]:
            return dialogs.confirmed(self.chat, question, "Yes", question)

        return self.call_from_thread(ask)

    def show_session(self, session: OpenSession) -> None:
        """Bring a session to the screen, as the user left it."""
        if session is self.chat:
            return
        self._previous = self.chat
        self.chat = session
        self.switch_mode(session.mode)
        session.mark_seen()
        self.show_tabs()
        self.run_worker(self._close_blank(), group="close")

    async def _close_blank(self) -> None:
        """Close all blank sessions except the one on the screen.

        Does nothing while the session on the screen is still being opened.
        """
        for session in tuple(self.sessions):
            if (
                session.is_blank
                and session is not self.chat
                and self.chat.runner is not None
            ):
                await self.close_session(session)

    async def close_session(self, session: OpenSession) -> None:
        """Close a session, and show another one if necessary."""
        if session not in self.sessions:
            return
        self.sessions.remove(session)
        if session is self.chat:
            self.show_session(
                self._previous if self._previous in self.sessions else self.sessions[-1]
            )
        await session.aclose()
        await self.remove_mode(session.mode)
        self.show_tabs()

    def show_tabs(self) -> None:
        """List the open sessions in the header.

        Also reports changes in sessions that are not on the screen.
        """
        tabs = tuple(
            session.tab
            for session in self.sessions
            if session is self.chat or not session.is_blank
        )
        if len(tabs) < 2:
            tabs = ()
        if tabs == self.state.tabs:
            return
        reported = {(tab.title, tab.state) for tab in self._tabs}
        self._tabs = tabs
        self.chat.presenter.show(replace(self.state, tabs=tabs))
        if not self.chat.is_mounted:
            return
        for tab in tabs:
            is_new = not tab.shown and (tab.title, tab.state) not in reported
            if is_new and tab.state in ("waits for you", "failed", "finished"):
                self.chat.remark(f"{tab.title}: {tab.state} · {BY_ID['tabs'].name}")

    def on_sessions(self, command: str) -> None:
        """Carry out a command that concerns the open sessions."""
        match command:
            case "tabs":
                self._pick_session()
            case _:
                working = ", ".join(
                    session.session_name for session in self.sessions if session.runs
                )
                if working and len(self.sessions) > 1:
                    self.run_worker(self._quit(working), group="quit", exclusive=True)
                else:
                    self.exit()

    def _pick_session(self) -> None:
        """List the open sessions.

        If the list is already open, select its next row.
        """
        from foldline.tui.lists.picker import Picker
        from foldline.tui.lists.rows import PickerItem

        if isinstance(self.screen, Picker) and self.screen.id == _PICKER_ID:
            self.screen.do("down")
            return

        def choices() -> Iterator[PickerItem]:
            for session in self.sessions:
                tab = session.tab
                at_rest = CURRENT_SESSION if tab.shown else IDLE_SESSION
                yield PickerItem(
                    session.mode,
                    tab.title,
                    f"{tab.state or at_rest} · {session.presenter.state.workdir}",
                )
            for command in _OPENING_COMMANDS:
                yield PickerItem(command, BY_ID[command].title, BY_ID[command].usage)

        def on_choice(choice: str | None) -> None:
            if choice in _OPENING_COMMANDS:
                self.chat.run_command(choice)
            elif session := self._in_mode(choice):
                self.show_session(session)

        def on_end(choice: str) -> None:
            if session := self._in_mode(choice):
                picker.dismiss(None)
                self.call_later(self.ask_to_close, session)

        picker = Picker(
            "Open sessions",
            [*choices()],
            marked=self._previous.mode,
            on_remove=on_end if len(self.sessions) > 1 else None,
            remove_word="close session",
        )
        picker.id = _PICKER_ID
        self.chat.push_screen(picker, on_choice)
        picker.set_interval(dialogs.REFRESH_SECONDS, lambda: picker.offer(choices()))

    @work(group="close")
    async def ask_to_close(self, session: OpenSession) -> None:
        """Close a session.

        If it is busy, ask the user first.
        """
        question = f"Close {session.session_name}?"
        if not session.runs or await dialogs.confirmed(
            self.chat, question, "Close", CLOSE_NOTE
        ):
            await self.close_session(session)

    async def _quit(self, working: str) -> None:
        note = QUIT_NOTE.format(sessions=working)
        if await dialogs.confirmed(
            self.chat, QUIT_QUESTION.format(sessions=working), "Quit", note
        ):
            self.exit()

    # --- above the chat --------------------------------------------------------------------------------

    @on(CancelRequested)
    @on(EntryWanted)
    @on(OperationWanted)
    def _pass_to_chat(
        self, message: CancelRequested | EntryWanted | OperationWanted
    ) -> None:
        self.chat.take(message)

    def palette_items(self, below: "Screen[Any]") -> "Iterable[PaletteItem]":
        from foldline.tui.overlays.palette import chat_items

        return chat_items(self, below)

    def palette_sources(self) -> "Sequence[ItemSource]":
        from foldline.tui.overlays.palette import chat_sources

        return chat_sources(self)

    def action_everywhere(self, command: str) -> None:
        if command == "tabs":
            self.on_sessions(command)
        else:
            super().action_everywhere(command)

    def action_interrupt(self) -> None:
        """Handle Ctrl+C on a screen over the chat.

        It has the same effect as in the chat.
        """
        self.chat.run_command("interrupt")
        self.tell_above()

    def say(self, words: str) -> None:
        """Show a message in the status row.

        Any screen that covers the chat shows it, too.
        """
        self.chat.remark(words)
        self.tell_above()

    def tell_above(self) -> None:
        """Show the chat's last message on the screen over the chat."""
        if isinstance(self.screen, HasStatusLine) and self.chat.remarked:
            self.screen.tell(self.chat.remarked)

    def action_nothing(self) -> None:
        """Disable Ctrl+Q, with which Textual quits.

        Only pressing Ctrl+C twice quits.
        """
