"""The Sessions screen: lists, searches, resumes, reads, forks and changes sessions.

Disk access runs in threads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from textual import on
from textual.widgets import Input

from foldline.history import short_id, title_entry
from foldline.history.lock import holder_of
from foldline.protocol import FoldlineError, Title
from foldline.tui.keys.bindings import bindings
from foldline.tui.lists.line import LineDialog
from foldline.tui.lists.picker import Picker
from foldline.tui.lists.rows import PickerItem
from foldline.tui.look.cells import wrap_spans
from foldline.tui.look.lines import Line
from foldline.tui.overlays import sessions_view as view
from foldline.tui.overlays.dialogs import confirmed, result_of
from foldline.tui.overlays.sessions_list import (
    DEBOUNCE,
    RENAMED,
    SCOPES,
    ListRow,
    Scope,
    SessionListing,
    SessionRow,
    SessionsState,
    archive_session,
    delete_session,
    fork,
    import_session,
    list_rows,
    read_listing,
    search_text,
)

TITLE: Final = "Sessions"
NEW_TITLE: Final = "New title for {session}"
EMPTY_TITLE: Final = "The title is empty, so the session was not renamed."
BUSY: Final = "One moment, please."
IN_USE: Final = (
    "{session} is in use by {holder}. Only one process may write to a session."
)
READ_ALONG: Final = "Read along"
FORK_INSTEAD: Final = "Fork: continue in a copy"
READ: Final = "Read it in the Inspector"
READ_AT: Final = "Read it in the Inspector at entry {index}"
FORK: Final = "Fork: continue in a copy"
FORK_AT: Final = "Fork: continue in a copy that ends at entry {index}"
IMPORT: Final = "Import: continue in a copy"
RENAME: Final = "Rename …"
ARCHIVE: Final = "Archive"
RESTORE: Final = "Restore"
DELETE: Final = "Delete"
OPENING: Final = "Opening {session} …"
COPYING: Final = "Copying {session} …"
CHANGING: Final = "Changing {session} …"
_DETAIL_ROWS: Final = 8

Work = Callable[[], Coroutine[Any, Any, None]]


class SessionsScreen(Picker):
    """The list of sessions. The result is the event file of the session to open, or None."""

    DEFAULT_CSS = "SessionsScreen > ListBox { width: 100%; height: 100%; }"
    BINDINGS = bindings(view.KEYS, "list")

    def __init__(
        self,
        *,
        home: Path,
        root: Path,
        here: Path | None,
        now: Callable[[], datetime],
        read: Callable[[SessionRow, int | None], Awaitable[None]],
        retitle: Callable[[Title], Awaitable[str]],
        query: str = "",
        open_files: Collection[Path] = (),
    ) -> None:
        """Create the screen.

        Args:
            home: The data folder.
            root: Working folder of this chat.
            here: Event file of this chat's session.
            read: Opens a session read-only, at an entry or at the end.
            retitle: Changes the title of this chat's session, and returns a message.
            query: Initial query.
            open_files: Event files of the sessions that are open in this program.
        """
        super().__init__(
            TITLE,
            (),
            on_take=self._on(self._resume),
            on_remove=self._on(self._delete),
            take_word="open",
            remove_word="delete",
        )
        self._first_query = query
        self.state = SessionsState(here=here)
        self.list_rows: dict[str, ListRow] = {}
        """The sessions and matches, by the ids of their items."""
        self.busy = False
        """Whether an action is running."""
        self._home = home
        self._root = root
        self._now = now
        self._read = read
        self._retitle = retitle
        self._open_files = open_files
        self._news = ""
        self._listings: dict[Scope, SessionListing] = {}

    def height_wanted(self) -> str:
        return "100%"

    def on_mount(self) -> None:
        self._find.value = self._first_query
        self._list()

    def _begin(self, group: str, work: Work) -> None:
        """Run work in the background, and cancel earlier work in the same group."""
        # Not as a coroutine: Python warns of a coroutine that is cancelled before it starts.
        self.run_worker(work, group=group, exclusive=True)  # type: ignore[arg-type]  # the union confuses mypy

    # --- state ------------------------------------------------------------------------------------------

    @property
    def list_row(self) -> ListRow | None:
        """The selected session or match."""
        return self.list_rows.get(self.marked or "")

    def _set_state(self, state: SessionsState) -> None:
        """Show a state. If the query or scope has changed, the first row is selected."""
        before = self.state
        self.state = state
        names = ("scope", "listing", "query", "matches")
        if any(getattr(before, name) is not getattr(state, name) for name in names):
            self.list_rows = {view.row_id(row): row for row in list_rows(state)}
            context = self._row_context()
            rows = tuple(
                view.ranked_item(row, context) for row in self.list_rows.values()
            )
            same = (before.query, before.scope) == (state.query, state.scope)
            self._show_ranked(rows, keep=same)
        self._say_state()

    def _say_state(self) -> None:
        self._title = f"{TITLE} ▸ {view.SCOPE_NAMES[self.state.scope]}"
        self.say(self._news or view.search_state(self.state))

    def report(self, words: str) -> None:
        """Show a message until another row is selected."""
        self._news = words
        self._say_state()

    def move_to(self, at: int) -> None:
        self._news = ""
        self._say_state()
        super().move_to(at)

    def _row_context(self) -> view.RowContext:
        return view.RowContext(
            self.state.scope, self._now(), self.state.parsed_query, self.state.here
        )

    # --- the lists and the search -----------------------------------------------------------------------

    def _next_scope(self) -> None:
        scope = SCOPES[(SCOPES.index(self.state.scope) + 1) % len(SCOPES)]
        self._news = ""
        self._set_state(self.state.with_scope(scope, self._listings.get(scope)))
        if scope not in self._listings:
            self._list()
        self._search(now=True)

    def _list(self) -> None:
        self._begin("list", partial(self._load, self.state.scope))

    async def _load(self, scope: Scope) -> None:
        listing = self._listings[scope] = await asyncio.to_thread(
            read_listing, scope, self._home, self._root
        )
        if self.state.scope == scope:
            self._set_state(replace(self.state, listing=listing))
            if self.state.parsed_query is not None:
                self._search(now=True)

    def list_again(self) -> None:
        """Reload the list after a change on disk.

        The old list stays visible until the new one is loaded.
        """
        self._listings = {
            scope: rows for scope, rows in self._listings.items() if scope == "others"
        }
        self._list()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        event.prevent_default()
        if event.value != self.state.query:
            self._set_state(self.state.with_query(event.value))
            self._search()

    def _search(self, *, now: bool = False) -> None:
        """Start a search in messages, and cancel the previous search."""
        if self.state.parsed_query is None or self.state.scope == "others":
            self.workers.cancel_group(self, "search")
            self._set_state(replace(self.state, is_searching=False))
            return
        self._set_state(replace(self.state, is_searching=True))
        self._begin("search", partial(self._searched, 0.0 if now else DEBOUNCE))

    async def _searched(self, wait: float) -> None:
        await asyncio.sleep(wait)
        cwd = self._root if self.state.scope == "here" else None
        try:
            matches = await search_text(self._home, self.state.query, cwd)
        except FoldlineError as failure:
            self._set_state(
                replace(self.state, is_searching=False, search_error=str(failure))
            )
            return
        self._set_state(
            replace(self.state, is_searching=False, matches=matches, search_error="")
        )

    # --- actions ----------------------------------------------------------------------------------------

    def do(self, command: str) -> None:
        match command:
            case "scope":
                self._next_scope()
            case "actions" if self.marked is not None:
                self._on(self._act)(self.marked)
            case _:
                super().do(command)

    def leave(self) -> None:
        """End the search or, without one, close the screen."""
        if self._find.value:
            self._find.value = ""
        else:
            self.dismiss(None)

    def _on(
        self, action: Callable[[ListRow], Coroutine[Any, Any, None]]
    ) -> Callable[[str], None]:
        """Return a function that runs an action on the row with this id, in the background."""

        async def run(row: ListRow) -> None:
            self.busy = True
            try:
                await action(row)
            except FoldlineError as failure:
                self.report(str(failure))
            finally:
                self.busy = False

        def start(id: str) -> None:
            if self.busy:
                self.report(BUSY)
            else:
                self._begin("action", partial(run, self.list_rows[id]))

        return start

    async def _resume(self, row: ListRow) -> None:
        session = row.session
        if session.path == self.state.here:
            self.dismiss(None)
        elif not session.is_ours:
            await self._open(row)
        elif session.readable:
            holder = None
            if session.path not in self._open_files:
                holder = await asyncio.to_thread(holder_of, session.path.parent)
            if holder is None:
                self.dismiss(str(session.path))
                return
            name = view.session_name(session)
            answers = (
                PickerItem("read", READ_ALONG),
                PickerItem("fork", FORK_INSTEAD),
            )
            question = IN_USE.format(session=name, holder=holder)
            answer = await result_of(self, Picker(question, answers, hint=question))
            await self._do(answer, ListRow(session))

    async def _act(self, row: ListRow) -> None:
        """Let the user choose an action."""
        name = view.session_name(row.session)
        await self._do(await result_of(self, Picker(name, self._actions(row))), row)

    def _actions(self, row: ListRow) -> Iterator[PickerItem]:
        session = row.session
        is_own = session.is_ours and session.readable
        index = None if row.hit is None else row.hit.index
        if session.readable:
            read = READ if index is None else READ_AT.format(index=index)
            yield PickerItem("read", read)
        if is_own:
            fork = FORK if index is None else FORK_AT.format(index=index)
            yield PickerItem("fork", fork)
            yield PickerItem("rename", RENAME)
        if not session.is_ours:
            yield PickerItem("import", IMPORT)
        elif session.path != self.state.here:
            yield PickerItem("archive", RESTORE if session.archived else ARCHIVE)
            yield PickerItem("delete", DELETE)

    async def _do(self, action: str | None, row: ListRow) -> None:
        session = row.session
        match action:
            case "read":
                await self._open(row)
            case "fork":
                until = None if row.hit is None else row.hit.index
                copy = partial(fork, session.path, self._home, self._root, until)
                await self._create(session, copy)
            case "import":
                copy = partial(import_session, session, self._home, self._root)
                await self._create(session, copy)
            case "rename":
                await self._rename(session)
            case "archive":
                await self._change(
                    session, partial(archive_session, self._home, session)
                )
            case "delete":
                await self._delete(row)

    async def _open(self, row: ListRow) -> None:
        self.report(OPENING.format(session=view.session_name(row.session)))
        await self._read(row.session, None if row.hit is None else row.hit.index)
        self.report("")

    async def _create(self, session: SessionRow, create: Callable[[], Path]) -> None:
        """Create a copy of a session in a thread, and close the screen."""
        self.report(COPYING.format(session=view.session_name(session)))
        self.dismiss(str(await asyncio.to_thread(create)))

    async def _change(self, session: SessionRow, change: Callable[[], str]) -> None:
        """Change a session in a thread, and reload the list."""
        self.report(CHANGING.format(session=view.session_name(session)))
        self.report(await asyncio.to_thread(change))
        self.list_again()

    async def _rename(self, session: SessionRow) -> None:
        from foldline.frontend.session_files import rename_session

        async def rename(text: str) -> str:
            title = title_entry(text)
            if title is None:
                return EMPTY_TITLE
            if session.path == self.state.here:
                return await self._retitle(title)
            renaming = rename_session(session.path, title)
            renamed = await asyncio.to_thread(asyncio.run, renaming)
            return RENAMED.format(name=short_id(renamed.id), title=title.title)

        title = NEW_TITLE.format(session=view.session_name(session))
        dialog = LineDialog(title, "", rename, text=session.title)
        message = await result_of(self, dialog)
        if message is not None:
            self.report(message)
            self.list_again()

    async def _delete(self, row: ListRow) -> None:
        session = row.session
        if not session.is_ours or session.path == self.state.here:
            return
        question = view.DELETE_QUESTION.format(session=view.session_name(session))
        facts = view.delete_facts(session, self._row_context())
        if await confirmed(self, question, DELETE, facts):
            await self._change(session, partial(delete_session, self._home, session))

    # --- drawing ----------------------------------------------------------------------------------------

    def hints(self) -> list[tuple[str, str]]:
        *hints, close = super().hints()
        return [*hints, *((key.name, key.hint) for key in view.KEYS), close]

    def _empty_lines(self, width: int) -> list[Line]:
        words = wrap_spans([(view.empty(self.state), "muted")], width - 6)
        return [[("  ", ""), *line] for line in words]

    def _detail_rows(self, width: int) -> int:
        return _DETAIL_ROWS

    def _details(self, choice: PickerItem, width: int) -> list[Line]:
        row = self.list_rows[choice.id]
        return view.details(row.session, self._row_context(), max(width - 12, 8))
