"""The Sessions screen: its keys at work. What they do to the disk is done beside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from textual import on
from textual.binding import BindingType

from foldline.data import real_path
from foldline.files import is_folder
from foldline.history import (
    Folder,
    Session,
    archive,
    clip_cells,
    data_home,
    delete,
    short_id,
    unarchive,
    utc_now,
)
from foldline.history.lock import holder_of
from foldline.history.paths import holds_home
from foldline.protocol import FoldlineError, Title
from foldline.tui.blocks import BlockView
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import bindings, works
from foldline.tui.runner import Runner
from foldline.tui.sessions import words
from foldline.tui.sessions.keys import KEYS
from foldline.tui.sessions.lists import SessionsLists
from foldline.tui.sessions.parts import SURE, Question, SearchField, Strip
from foldline.tui.sessions.reading import read_along
from foldline.tui.sessions.rows import named_note
from foldline.tui.sessions.state import SCOPES, Listed, SessionsState

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp


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
        copy = partial(fork_session, row.path, self._home, self._root, until)
        self._leave_for(lambda: self._make(f"Copying {words.name_of(row)}", copy))

    def _import(self) -> None:
        if self.marked is not None:
            row = self.marked.row
            copy = partial(import_session, row, self._home, self._root)
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
            title = kept_title(text)
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
            done = await self._done("Renaming", partial(rename_session, row.path, title))
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
            self._change("Moving it", partial(archive_session, self._home, self.marked.row))

    def _ask_delete(self) -> None:
        marked = self.marked
        if marked is not None:
            remove = partial(delete_session, self._home, marked.row)
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


T = TypeVar("T")

_TITLE_CELLS: Final = 200
"""Of a title that is kept. Lists show less of it."""


def kept_title(text: str) -> str:
    """A title as it is kept: one line. Empty where there is nothing to keep."""
    return clip_cells(text, _TITLE_CELLS)


def rename_session(path: Path, title: str) -> str:
    """Give a session another title.

    Raises:
        FoldlineError: another process writes to it, or the disk refused.
    """
    session = Session.open(path)
    try:
        _run(session.append(Title(title=title), durable=True))
        session.save_meta()
    finally:
        session.close()
    return f"{short_id(session.id)} is called “{title}” now."


def archive_session(home: Path, row: Listed) -> str:
    """Archive a session, or bring an archived one back.

    Raises:
        FoldlineError: another process writes to it, or the disk refused.
    """
    name = short_id(row.id)
    if row.archived:
        unarchive(home, row.path)
        return f"{name} is among the sessions again."
    archive(home, row.path)
    return f"{name} is archived: 3 shows it, x brings it back."


def delete_session(home: Path, row: Listed) -> str:
    """Delete a session for good.

    Raises:
        FoldlineError: another process writes to it, or the disk refused.
    """
    gone = delete(home, row.path)
    return f"{short_id(row.id)} is deleted: {gone.files} file{'s' * (gone.files != 1)}."


def fork_session(path: Path, home: Path, root: Path, until: int | None = None) -> Path:
    """The event file of a copy, which ends with the entry `until` where one is given. It belongs to the
    folder its session was held in, wherever that is from `root`.

    Raises:
        FoldlineError: it cannot be read, or the disk refused.
    """
    session = Session.open(path)
    place = Folder(root).place(session.header)
    folder = place.folder if place.tie is not None else session.cwd
    return _kept(session.copy(home=home, cwd=folder, until=until))


def import_session(row: Listed, home: Path, root: Path) -> Path:
    """The event file of a copy of another agent's session, in the folder it was held in, or in `root` where
    that is not here.

    Raises:
        FoldlineError: it cannot be read, or the disk refused.
    """
    from foldline.formats import read_foreign  # in a thread: nobody waits for it before

    found = read_foreign(row.path, row.agent)
    if not found.entries:
        raise FoldlineError(f"{row.path} holds nothing that could go on.")
    held = Path(found.header.cwd)
    folder = held if held.is_absolute() and is_folder(held) and not holds_home(held) else root
    session = Session.from_entries(found.header, found.entries, damage=found.damage)
    return _kept(session.copy(home=home, cwd=folder, named=real_path(folder) != real_path(root)))


def _kept(copying: Coroutine[Any, Any, Session]) -> Path:
    copy = _run(copying)
    try:
        copy.save_meta()
    finally:
        copy.close()
    assert copy.path is not None, "it was written"
    return copy.path


def _run(main: Coroutine[Any, Any, T]) -> T:
    """In a loop of this thread's own: the screen's one is not kept from drawing by a long history."""
    return asyncio.run(main)


Commands = dict[str, Callable[[Runner, str], None]]


def session_commands(
    app: "FoldlineApp", root: Path, where: Callable[[], str], go_on_with: Callable[[str], None]
) -> Commands:
    """`where` says what stands before a screen's name; `go_on_with` leaves this chat for the session in an
    event file."""
    opening = _Opening(app, root, where, go_on_with)
    return {
        "sessions": lambda runner, path: opening.resume(path) if path else opening.open(runner, None),
        "search": opening.open,
        "rename": opening.rename,
        "fork": lambda runner, _: opening.fork(runner),
    }


class _Opening:
    def __init__(
        self, app: "FoldlineApp", root: Path, where: Callable[[], str], go_on_with: Callable[[str], None]
    ) -> None:
        self._app = app
        self._root = root
        self._where = where
        self._go_on_with = go_on_with

    def open(self, runner: Runner, query: str | None) -> None:
        """Show the sessions; with a query, even an empty one, the search line has the focus."""

        screen = SessionsScreen(
            self._where(),
            home=data_home(),
            root=self._root,
            here=_kept_in(runner),
            now=lambda: utc_now().astimezone(),
            query=query,
            lost=self._lost,
            retitle=lambda title: _retitle(runner, title),
        )
        self._app.push_screen(screen, self._go)

    def resume(self, path: str) -> None:
        """Go on with the session in this event file, where that ends nothing here."""
        if lost := self._lost():
            self._app.chat.remark(f"Not opened. {lost} /sessions opens it all the same")
        else:
            self._go_on_with(path)

    def _go(self, chosen: Path | None) -> None:
        if chosen is not None:
            self._go_on_with(str(chosen))

    def _lost(self) -> str:
        """What leaving this chat ends, as sentences; empty where it ends nothing."""
        state = self._app.state
        waits = bool(state.waiting.count or self._app.chat.prompt.editor.text.strip())
        kept = self._app.runner is not None and _kept_in(self._app.runner) is not None
        sentences = [
            "What runs is cancelled." if state.busy else "",
            "The text in the prompt goes." if waits and not kept else "",
            "What waits to be sent is there next time." if waits and kept and state.busy else "",
        ]
        return " ".join(filter(None, sentences))

    def rename(self, runner: Runner, title: str) -> None:
        """Give this session another title; without one, say which it has."""

        kept = kept_title(title)
        if kept:
            self._app.run_worker(self._renamed(runner, kept), group="rename", exclusive=True)
        else:
            now = runner.agent.session.meta().title or "not named yet"
            self._app.chat.remark(f"Now: {now}. /rename TITLE gives it another title")

    async def _renamed(self, runner: Runner, title: str) -> None:
        try:
            await _retitle(runner, title)
        except FoldlineError as failure:
            self._app.chat.remark(str(failure))
        else:
            self._app.chat.remark(f"This session is called “{title}” now")

    def fork(self, runner: Runner) -> None:
        """Go on in a copy of this session, from here; the session itself stays as it is."""
        path, lost = _kept_in(runner), self._lost()
        if path is None:
            self._app.chat.remark("Nothing has been said here yet: there is nothing to fork")
        elif lost:
            self._app.chat.remark(f"Not forked. {lost}")
        else:
            self._app.run_worker(self._forked(path), group="fork", exclusive=True)

    async def _forked(self, path: Path) -> None:

        self._app.chat.remark("Copying this session …")
        try:
            copy = await asyncio.to_thread(fork_session, path, data_home(), self._root)
        except FoldlineError as failure:
            self._app.chat.remark(str(failure))
        else:
            self._go_on_with(str(copy))


def _kept_in(runner: Runner) -> Path | None:
    """The event file of this session; None where nothing was said in it yet."""
    path = runner.agent.session.path
    return path if path is not None and path.exists() else None


async def _retitle(runner: Runner, title: str) -> None:
    session = runner.agent.session
    await session.append(Title(title=title), durable=True)
    session.save_meta()
