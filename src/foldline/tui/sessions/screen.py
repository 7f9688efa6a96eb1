"""The Sessions screen: its keys at work. What they do to the disk is done beside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from foldline.history.holder import holder_of
from foldline.protocol import FoldlineError
from foldline.tui.blocks import BlockView
from foldline.tui.help import open_help
from foldline.tui.keys.table import bindings, works
from foldline.tui.sessions import deeds, words
from foldline.tui.sessions.keys import KEYS
from foldline.tui.sessions.lists import SessionsLists
from foldline.tui.sessions.parts import SURE, Question, SearchField, Strip
from foldline.tui.sessions.reading import read_along
from foldline.tui.sessions.rows import named_note
from foldline.tui.sessions.state import SCOPES, Listed, SessionsState


class SessionsScreen(SessionsLists):
    """Gives back the event file of the session to go on with, or None to stay in this chat."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "sessions")

    def __init__(
        self,
        title: str,
        *,
        home: Path,
        root: Path,
        here: Path | None,
        now: Callable[[], datetime],
        query: str | None = None,
        lost: Callable[[], str] = lambda: "",
        retitle: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`title` stands before `▸ Sessions`. `home` is the data folder, `root` the folder of this chat,
        `here` its session's event file, which `retitle` gives another title. A `query`, even an empty one,
        opens the search line. `lost` says, as sentences, what leaving this chat would end."""
        super().__init__(title, SessionsState(here=here), now, home=home, root=root)
        self._first_query = query
        self._lost = lost
        self._retitle = retitle
        self._do: dict[str, Callable[[], None]] = {
            "read": self._read,
            "fork": self._fork,
            "import": self._import,
            "rename": self._rename,
            "archive": self._archive,
            "delete": self._ask_delete,
            "search": self._to_field,
            "other": self._other,
            "scope": lambda: self._to_scope(SCOPES[(SCOPES.index(self.state.scope) + 1) % len(SCOPES)]),
            **{
                f"scope-{number}": partial(self._to_scope, scope)
                for number, scope in enumerate(SCOPES, start=1)
            },
            "help": self._help,
            "close": self._close,
        }

    def on_mount(self) -> None:
        if self._first_query is None:
            self._view.focus()
        else:
            self._search.field.value = self._first_query
            self._search.field.focus()
        self._list()

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.facts)

    def action_sessions(self, command: str) -> None:
        """One of the keys in `keys.KEYS`."""
        if works(KEYS, command, self.facts):
            self._news = ""
            self._do[command]()
        elif self._busy and self.facts.mode == "list":
            self._news = "One moment."
        self._describe()

    # --- going on with one ----------------------------------------------------------------------------

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        marked, facts = self.marked, self.facts
        if marked is None or facts.mode != "list" or facts.busy:
            return
        if facts.here:
            self.dismiss(None)
        elif not facts.readable:
            self.tell(named_note(marked.row))
        elif not facts.ours:
            self._read()
        else:
            self._begin("deed", partial(self._resume, marked.row))

    async def _resume(self, row: Listed) -> None:
        holder = await asyncio.to_thread(holder_of, row.path.parent)
        self._holders[row.path] = holder
        if holder is None:
            self._leave_for(partial(self._go_on_with, row.path))
            return
        answers = (
            ("r", "read along", partial(self._read_row, row, None)),
            ("f", "fork: go on in a copy", partial(self._fork_row, row, None)),
        )
        self._ask(Question(words.held_question(row, holder), answers))

    def _go_on_with(self, path: Path) -> None:
        self.dismiss(path)

    def _leave_for(self, go: Callable[[], None]) -> None:
        """Go, once the reader knows what that ends."""
        lost = self._lost()
        if not lost:
            go()
            return
        question = words.leaving_question(lost)
        self._ask(Question(question, ((SURE, "leaves it", go),), "stays here"))

    def _fork(self) -> None:
        if self.marked is not None:
            self._fork_row(self.marked.row, self.hit.index if self.hit is not None else None)

    def _fork_row(self, row: Listed, until: int | None) -> None:
        copy = partial(deeds.fork, row.path, self._home, self._root, until)
        self._leave_for(lambda: self._make(f"Copying {words.name_of(row)}", copy))

    def _import(self) -> None:
        if self.marked is not None:
            row = self.marked.row
            copy = partial(deeds.bring_in, row, self._home, self._root)
            self._leave_for(lambda: self._make(f"Importing {words.name_of(row)}", copy))

    def _make(self, doing: str, make: Callable[[], Path]) -> None:
        """Make a session in a thread, and go on with it."""
        self._begin("deed", partial(self._made, doing, make))

    async def _made(self, doing: str, make: Callable[[], Path]) -> None:
        made: list[Path] = []

        def make_it() -> str:
            made.append(make())
            return ""

        if await self._done(doing, make_it):
            self.dismiss(made[0])

    # --- reading --------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self.marked is not None:
            self._read_row(self.marked.row, self.hit.index if self.hit is not None else None)

    def _read_row(self, row: Listed, index: int | None) -> None:
        self._begin("deed", partial(self._open, row, index))

    async def _open(self, row: Listed, index: int | None) -> None:
        async def open_it() -> str:
            await read_along(self.app, row, index)
            return ""

        await self._done_async(f"Opening {words.name_of(row)}", open_it)

    # --- tidying --------------------------------------------------------------------------------------

    def _rename(self) -> None:
        marked = self.marked
        if marked is None:
            return
        row = marked.row

        def take(text: str) -> None:
            self._leave_line()
            title = deeds.kept_title(text)
            if not title:
                self.tell("The title is empty: nothing was renamed.")
            elif title != row.title:
                self._begin("deed", partial(self._retitled, row, title))

        self._status.display = False
        self._one_line.ask("another title", row.title, take)
        self._describe()

    async def _retitled(self, row: Listed, title: str) -> None:
        own = self._retitle if row.path == self.state.here else None
        if own is None:
            done = await self._done("Renaming", partial(deeds.rename, row.path, title))
        else:
            retitle = own

            async def rename_here() -> str:
                await retitle(title)
                return f"This chat is called “{title}” now."

            done = await self._done_async("Renaming", rename_here)
        if done:
            self._list_again()

    def _leave_line(self) -> None:
        self._one_line.close()
        self._status.display = True
        self._view.focus()

    def _archive(self) -> None:
        if self.marked is not None:
            self._change("Moving it", partial(deeds.put_away, self._home, self.marked.row))

    def _ask_delete(self) -> None:
        marked = self.marked
        if marked is not None:
            remove = partial(deeds.remove, self._home, marked.row)
            answers = ((SURE, "deletes it", lambda: self._change("Deleting it", remove)),)
            self._ask(Question(words.delete_question(marked.row, self.look), answers))

    def _change(self, doing: str, change: Callable[[], str]) -> None:
        self._begin("deed", partial(self._changed, doing, change))

    async def _changed(self, doing: str, change: Callable[[], str]) -> None:
        if await self._done(doing, change):
            self._list_again()

    async def _done(self, doing: str, deed: Callable[[], str]) -> bool:
        """Do it in a thread; whether that went well. Its sentence, or why not, is in the status row."""
        return await self._done_async(doing, lambda: asyncio.to_thread(deed))

    async def _done_async(self, doing: str, deed: Callable[[], Awaitable[str]]) -> bool:
        self._busy = f"{doing} …"
        self._describe()
        try:
            said, well = await deed(), True
        except FoldlineError as failure:
            said, well = str(failure), False
        finally:
            self._busy = ""
        self.tell(said)
        return well

    # --- questions ------------------------------------------------------------------------------------

    def _ask(self, question: Question) -> None:
        self._strip.ask(question)
        self._fit(*self.size)
        self._strip.focus()
        self._describe()

    @on(Strip.Answered)
    def _answered(self, event: Strip.Answered) -> None:
        event.stop()
        if event.question is self._strip.question:
            self._close_question()
            next(does for key, _, does in event.question.answers if key == event.key)()

    def _close_question(self) -> None:
        self._strip.ask(None)
        self._view.focus()
        self._fit(*self.size)
        self._describe()

    # --- focus and Esc --------------------------------------------------------------------------------

    def _to_field(self) -> None:
        self._search.field.focus()

    @on(SearchField.Done)
    def _to_list(self) -> None:
        self._view.focus()

    def _other(self) -> None:
        match self.facts.mode:
            case "asking":
                self._strip.focus()
            case "field":
                self._view.focus()
            case _:
                self._to_field()

    def _close(self) -> None:
        """One step outwards."""
        match self.facts.mode:
            case "asking":
                self._close_question()
            case "renaming":
                self._leave_line()
            case "field":
                self._view.focus()
            case _ if self.state.query:
                self._search.field.value = ""
            case _:
                self.dismiss(None)

    def _help(self) -> None:
        open_help(self.app)
