"""The program on the screen: the sessions that are open, and which of them is shown. What is slow comes after
the first paint."""

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType

from foldline.tui import dialogs
from foldline.tui.base_app import BaseApp
from foldline.tui.blocks.links import file_links
from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings
from foldline.tui.messages import CancelRequested, EntryWanted, OperationWanted
from foldline.tui.open_session import OpenSession
from foldline.tui.startup import Another, Load
from foldline.tui.state import ChatState, Tab
from foldline.tui.widgets.status import HasStatusLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.screen import Screen

    from foldline.tui.runner import Runner
    from foldline.tui.screens.palette import Item, Source


class FoldlineApp(BaseApp[None]):
    """Foldline's chat. `load` is called once the screen is there. Each open session is a mode of Textual's:
    a stack of screens, the lowest of them its chat."""

    TITLE = "Foldline"
    DEFAULT_MODE: ClassVar[str] = "session 1"
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings([BY_ID["tabs"]], "everywhere"),
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
        another: Another | None = None,
    ) -> None:
        """`another` loads further sessions; without it there is the one."""
        super().__init__(theme, themes_dir)
        self._clock = clock
        self.files = file_links(root, gethostname(), os.environ)
        self._another = another
        self._modes_made = count(2)
        self.failure: str | None = None
        """Why the program ended on its own, for the shell."""
        self.chat = OpenSession(
            load, self.DEFAULT_MODE, root=root, prompt=prompt, clock=clock, is_first_start=is_first_start
        )
        """The session that is shown."""
        self.sessions = [self.chat]
        """Those that are open, in the order in which they were opened."""
        self._before = self.chat
        """The one that was shown before."""
        self._tabs: tuple[Tab, ...] = ()
        self.add_mode(self.DEFAULT_MODE, lambda: self.sessions[0])

    @property
    def state(self) -> ChatState:
        """What the chat shows, or shows with its next frame."""
        return self.chat.presenter.state

    @property
    def runner(self) -> "Runner | None":
        """What sends prompts; None until the session is open."""
        return self.chat.runner

    # --- starting and stopping -----------------------------------------------------------------------

    async def on_mount(self) -> None:
        await self.chat.ready.wait()  # What was typed before then is for the editor.
        self.chat.presenter.show(self.state)
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        from foldline.termination import on_termination  # after the first paint

        loop = asyncio.get_running_loop()
        on_termination(loop, lambda number: self.exit(return_code=128 + number), self.give_terminal_back)
        self.show_pictures()
        self.run_worker(self._open_first(), group="attach", exclusive=True)

    async def _open_first(self) -> None:
        try:
            failure = await self.chat.open()
        finally:
            gc.freeze()  # what is there by now stays: collecting it again and again would hold up frames
            gc.enable()  # the front door starts without (`cli/chat.py`)
            # So many objects a frame makes; at Python's 700 a fifth of its time went into looking at them.
            # Three frames are looked at together: ten, as by default, are 15 ms in which no key is heard.
            gc.set_threshold(10_000, 3, 30)
        if failure is not None:
            self.failure = failure
            self.exit(return_code=1)
        else:
            self.agent_ready()

    def agent_ready(self) -> None:
        """The first session is open and shown. The tour begins here."""

    async def on_unmount(self) -> None:
        await asyncio.gather(*(each.aclose() for each in self.sessions))

    # --- several sessions ------------------------------------------------------------------------------

    def open_session(self, file: str = "") -> None:
        """Open the session in this event file, or a new one, beside those that are; one that is open already
        is shown."""
        if not self._shows(file):
            self.run_worker(self._open_beside(file), group="open")

    def _shows(self, file: str) -> bool:
        found = next((each for each in self.sessions if file and each.file == file), None)
        if found is not None:
            self.show_session(found)
        return found is not None

    @work(group="open")
    async def continue_in(self, session: OpenSession, folder: Path) -> None:
        """Open a session again in the folder that its working folder was moved to."""
        await session.aclose()
        await self._open_beside(session.file, folder, instead_of=session)

    async def _open_beside(
        self, file: str, here: Path | None = None, instead_of: OpenSession | None = None
    ) -> None:
        """Open a session from the folder `here`, by default that of the session shown."""
        from foldline.protocol import FoldlineError

        if self._another is None:
            self.say("Only this session can be open here")
            return
        try:
            load, root = await asyncio.to_thread(self._another, file, here or self.chat.root, self._agreed)
        except FoldlineError as failure:
            self.say(str(failure))
            return
        if instead_of is None and self._shows(file):  # asked for twice
            return
        mode = f"session {next(self._modes_made)}"
        session = OpenSession(load, mode, root=root, file=file, clock=self._clock)
        self.add_mode(mode, lambda: session)
        self.sessions.append(session)
        self.show_session(session)
        await session.ready.wait()
        refused = await session.open()
        if refused is not None:
            await self.close_session(session)
            self.say(refused)
        else:
            if instead_of is not None:
                await self.close_session(instead_of)
            await self._close_blank()

    def _agreed(self, question: str) -> bool:
        """The user's answer to a question that comes up in a thread."""

        def ask() -> bool | Awaitable[bool]:
            return dialogs.confirmed(self.chat, question, "Yes", question)

        return self.call_from_thread(ask)

    def show_session(self, session: OpenSession) -> None:
        """Put this one on the screen, as it was left."""
        before = self.chat
        if session is before:
            return
        self._before, self.chat = before, session
        self.switch_mode(session.mode)
        session.seen()
        self.show_tabs()
        self.run_worker(self._close_blank(), group="close")

    async def _close_blank(self) -> None:
        """Close those that were left with nothing in them, once what is shown in their place is there."""
        for each in tuple(self.sessions):
            if each.is_blank and each is not self.chat and self.chat.runner is not None:
                await self.close_session(each)

    async def close_session(self, session: OpenSession) -> None:
        """Close one of several; another one is shown in its place."""
        if session not in self.sessions:
            return
        self.sessions.remove(session)
        if session is self.chat:
            self.show_session(self._before if self._before in self.sessions else self.sessions[-1])
        await session.aclose()
        await self.remove_mode(session.mode)
        self.show_pictures()  # those of the others alone
        self.show_tabs()

    def show_tabs(self) -> None:
        """Say in the header how it is with the sessions, where there are several; and what is new of those
        that are not shown."""
        tabs = tuple(each.tab for each in self.sessions if each is self.chat or not each.is_blank)
        tabs = tabs if len(tabs) > 1 else ()
        if tabs == self.state.tabs:
            return
        known = {(tab.title, tab.state) for tab in self._tabs}
        worth_saying = [tab for tab in tabs if tab.state in ("waits for you", "failed", "finished")]
        news = [tab for tab in worth_saying if not tab.shown and (tab.title, tab.state) not in known]
        self._tabs = tabs
        self.chat.presenter.show(replace(self.state, tabs=tabs))
        for tab in news if self.chat.is_mounted else ():
            self.chat.remark(f"{tab.title}: {tab.state} · {BY_ID['tabs'].name}")

    def on_sessions(self, command: str) -> None:
        """Carry out a command on the sessions that are open."""
        match command:
            case "tabs":
                dialogs.pick_session(self, self._before)
            case "close" if len(self.sessions) == 1:
                self.say("No other session is open: /quit ends the program")
            case "close":
                self.ask_to_close(self.chat)
            case _:
                several = self.sessions if len(self.sessions) > 1 else ()
                if working := ", ".join(each.name_now for each in several if each.runs):
                    self.run_worker(self._quit(working), group="quit", exclusive=True)
                else:
                    self.exit()

    @work(group="close")
    async def ask_to_close(self, session: OpenSession) -> None:
        """Close one of several; where something runs in it, only once the user agrees."""
        loses = "what runs there is cancelled, the history is kept"
        question = f"Close {session.name_now}?"
        if not session.runs or await dialogs.confirmed(self.chat, question, "Close", loses):
            await self.close_session(session)

    async def _quit(self, working: str) -> None:
        loses = f"what runs is cancelled, the histories are kept: {working}"
        if await dialogs.confirmed(self.chat, f"Quit? Still at work: {working}", "Quit", loses):
            self.exit()

    # --- above the chat --------------------------------------------------------------------------------

    @on(CancelRequested)
    @on(EntryWanted)
    @on(OperationWanted)
    def _wanted_above(self, message: CancelRequested | EntryWanted | OperationWanted) -> None:
        self.chat.take(message)

    def palette_items(self, below: "Screen[Any]") -> "Iterable[Item]":
        from foldline.tui.screens.palette import chat_items

        return chat_items(self, below)

    def palette_sources(self) -> "Sequence[Source]":
        from foldline.tui.screens.palette import chat_sources

        return chat_sources(self)

    def action_everywhere(self, command: str) -> None:
        if command == "tabs":
            self.on_sessions(command)
        else:
            super().action_everywhere(command)

    def action_interrupt(self) -> None:
        """Ctrl+C on a screen above the chat: as in the chat itself, and its answer is seen here."""
        self.chat.run_command("interrupt")
        self.tell_above()

    def say(self, words: str) -> None:
        """In the status row, and on the screen above the chat."""
        self.chat.remark(words)
        self.tell_above()

    def tell_above(self) -> None:
        """What the chat answered, on the screen above it."""
        if isinstance(self.screen, HasStatusLine) and self.chat.remarked:
            self.screen.tell(self.chat.remarked)

    def action_nothing(self) -> None:
        """Textual's own way out at one key: here only Ctrl+C, twice, quits."""
