"""Sessions: of this folder, of all, archived, of other agents; found, resumed, read, forked and tidied.

The lists are read and searched beside the event loop, one after the other; so is what is done on disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from textual import on
from textual.widgets import Input

from foldline.context.harmless import clean_line
from foldline.history import short_id
from foldline.history.lock import holder_of
from foldline.history.session_search import SessionHit
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import crop, shorten, wrap_spans
from foldline.tui.keys.commands import key_of as command_key
from foldline.tui.keys.table import ScreenKey, bindings
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.screens import sessions_view as view
from foldline.tui.screens.sessions_list import (
    DEBOUNCE,
    SCOPES,
    Listed,
    Listing,
    ListRow,
    Scope,
    SessionsState,
    archive_session,
    delete_session,
    fork_session,
    found_in,
    import_session,
    kept_title,
    list_rows,
    read_listing,
    rename_session,
)
from foldline.tui.widgets.lines import Line, Rule, boxed, filled

Mode = Literal["list", "field", "renaming"]
"""What has the keys: the list, the search line, or the field of a new title."""

_ROWS_FOR_ALL: Final = 18
"""Rows below which the details give theirs to the list; as in the chat."""
_TALL: Final = 30
"""Rows from which the details have all they need."""
_PLACEHOLDER: Final = "search in all that was ever said"

Action = Callable[[], object]
Work = Callable[[], Awaitable[str | None]]
"""Something done beside the event loop, and what it says then."""


class SessionsScreen(ListScreen[Path | None, ListRow]):
    """Gives back the event file of the session to go on with, or None to stay in this chat."""

    DEFAULT_CSS = "SessionsScreen > ListBox { width: 100%; height: 100%; color: $role-text; }"
    KEYS = view.KEYS
    state: SessionsState
    BINDINGS = bindings(view.KEYS, "list")

    def __init__(
        self,
        title: str,
        *,
        home: Path,
        root: Path,
        here: Path | None,
        now: Callable[[], datetime],
        read: Callable[[Listed, int | None], Awaitable[None]],
        retitle: Callable[[str], Awaitable[str]],
        query: str | None = None,
        beside: Collection[Path] = (),
    ) -> None:
        """
        Args:
            title: what stands before `▸ Sessions`.
            home: the data folder.
            root: the folder of this chat.
            here: the event file of its session, which `retitle` gives another title.
            read: opens a session to be read, at an entry where one is given.
            query: opens the search line, also where it is empty.
            beside: the event files of the sessions that are open.
        """
        self._query_field = Field("query", _PLACEHOLDER)
        self._title_field = Field("title", "another title")
        super().__init__((), (self._query_field, self._title_field))
        self.state = SessionsState(here=here)
        self.mode: Mode = "list" if query is None else "field"
        self._first_query = query or ""
        self.busy = ""
        """What is being done just now, as a sentence; empty where nothing is."""
        self._title, self._home, self._root, self._now = title, home, root, now
        self._read, self._retitle, self._beside = read, retitle, beside
        self._news = ""
        self._listings: dict[Scope, Listing] = {}

    def height_wanted(self) -> str:
        return "100%"

    def on_mount(self) -> None:
        self._query_field.value = self._first_query
        self._list()

    def _begin(self, group: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this beside the event loop, in the place of what the group was doing."""
        # Not as a coroutine: Python would complain of one that is put aside before it has begun.
        self.run_worker(work, group=group, exclusive=True)  # type: ignore[arg-type]  # the union confuses mypy

    # --- what is shown ----------------------------------------------------------------------------------

    @property
    def marked(self) -> Listed | None:
        """The session under the mark."""
        return self.row.session if self.row is not None else None

    @property
    def hit(self) -> SessionHit | None:
        """The match under the mark."""
        return self.row.hit if self.row is not None else None

    def _with(self, state: SessionsState) -> None:
        """Show this state. With another query or scope the list is looked at from its top."""
        before, self.state = self.state, state
        drawn = ("scope", "listing", "query", "found")
        if all(getattr(before, name) is getattr(state, name) for name in drawn):
            self.update()
            return
        rows = list_rows(state)
        if (before.query, before.scope) != (state.query, state.scope):
            self.at = 0
            self.show_rows(rows)
        else:
            self.show_rows(rows, ListRow.same)

    def tell(self, words: str) -> None:
        """Say something in the status row, until the mark moves."""
        self._news = words
        self.update()

    def moved(self) -> None:
        self._news = ""

    # --- the lists --------------------------------------------------------------------------------------

    def _to_scope(self, scope: Scope) -> None:
        self._with(self.state.in_scope(scope, self._listings.get(scope)))
        if scope not in self._listings:
            self._list()
        self._search(at_once=True)

    def _list(self) -> None:
        self._begin("list", partial(self._listed, self.state.scope))

    async def _listed(self, scope: Scope) -> None:
        listing = self._listings[scope] = await asyncio.to_thread(read_listing, scope, self._home, self._root)
        if self.state.scope == scope:
            self._with(replace(self.state, listing=listing))
            if self.state.asked is not None:
                self._search(at_once=True)

    def list_again(self) -> None:
        """Something has changed on disk. What is shown stays until the new list is there."""
        self._listings = {scope: was for scope, was in self._listings.items() if scope == "others"}
        self._list()

    # --- the search -------------------------------------------------------------------------------------

    @on(Input.Changed, "#query")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self.state.query:
            self._with(self.state.looking_for(event.value))
            self._search()

    def _search(self, *, at_once: bool = False) -> None:
        """Look for what was said; the answer to an earlier question is not waited for."""
        if self.state.asked is None or self.state.scope == "others":
            self.workers.cancel_group(self, "search")
            self._with(replace(self.state, searching=False))
            return
        self._with(replace(self.state, searching=True))
        self._begin("search", partial(self._searched, 0.0 if at_once else DEBOUNCE))

    async def _searched(self, wait: float) -> None:
        await asyncio.sleep(wait)
        cwd = self._root if self.state.scope == "here" else None
        try:
            found = await found_in(self._home, self.state.query, cwd)
        except FoldlineError as failure:
            self._with(replace(self.state, searching=False, trouble=str(failure)))
            return
        self._with(replace(self.state, searching=False, found=found, trouble=""))

    # --- keys -------------------------------------------------------------------------------------------

    def field(self) -> Field | None:
        return {"field": self._query_field, "renaming": self._title_field}.get(self.mode)

    def field_place(self, height: int) -> tuple[int, int]:
        return 1 if self.mode == "field" else height - 2, 2

    def _to(self, mode: Mode) -> None:
        self.mode = mode
        self.update()

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        renaming = self.mode == "renaming"
        self._to("list")
        if renaming and self.marked is not None:
            listed, title = self.marked, kept_title(self._title_field.value)
            if not title:
                self.tell("The title is empty: nothing was renamed.")
            elif title != listed.title:
                self._rename(listed, title)

    def works_now(self, command: str) -> bool:
        match command:
            case "close":
                return True
            case "help" | "other" | "up" | "down" | "page-up" | "page-down" | "first" | "last":
                return self.mode in ("list", "field")
            case _ if self.mode != "list":
                return False
            case _ if command.startswith("scope") or command == "search":
                return True
            case _ if self.marked is None or self.busy:
                return False
        listed = self.marked
        match command:
            case "resume" | "read":
                return listed.readable
            case "import":
                return not listed.ours
            case "fork" | "rename":
                return listed.ours and listed.readable
            case _:
                return listed.ours and listed.path != self.state.here

    def action_list(self, command: str) -> None:
        if self.busy and self.mode == "list" and not self.works_now(command):
            self.tell("One moment.")
        super().action_list(command)

    def do(self, command: str) -> None:
        match command:
            case "down" | "page-down" if self.mode == "field":
                self._to("list")
            case "up" | "page-up" if self.mode == "field":
                pass
            case "page-up" | "page-down":
                room = max(len(self.seen) - 1, 1)
                self.move(-room if command == "page-up" else room)
            case _:
                super().do(command)

    def act(self, command: str) -> None:
        self._news = ""
        if command.startswith("scope"):
            at = SCOPES.index(self.state.scope) + 1 if command == "scope" else int(command[-1]) - 1
            self._to_scope(SCOPES[at % len(SCOPES)])
        elif command == "search" or command == "other":
            self._to("field" if self.mode == "list" else "list")
        elif self.marked is not None:
            self._act_on(command, self.marked, self.hit.index if self.hit is not None else None)

    def _act_on(self, command: str, listed: Listed, index: int | None) -> None:
        match command:
            case "resume" if listed.path == self.state.here:
                self.dismiss(None)
            case "resume" if listed.ours:
                self._begin("action", partial(self._resume, listed))
            case "resume" | "read":
                self._open(listed, index)
            case "fork":
                self._fork(listed, index)
            case "import":
                copy = partial(import_session, listed, self._home, self._root)
                self._make(f"Importing {view.session_name(listed)}", copy)
            case "rename":
                self._title_field.value = listed.title
                self._title_field.cursor_position = len(listed.title)
                self._to("renaming")
            case "archive":
                self._change("Moving it", partial(archive_session, self._home, listed))
            case "delete":
                remove = partial(self._change, "Deleting it", partial(delete_session, self._home, listed))
                self.confirm(view.delete_question(listed, self._look()), "", remove, "delete")

    def leave(self) -> None:
        """One step outwards."""
        if self.mode != "list":
            self._to("list")
        elif self.state.query:
            self._query_field.value = ""
        else:
            self.dismiss(None)

    # --- what is done -----------------------------------------------------------------------------------

    async def _resume(self, listed: Listed) -> None:
        here = listed.path in self._beside
        holder = None if here else await asyncio.to_thread(holder_of, listed.path.parent)
        if holder is None:
            self.dismiss(listed.path)
        else:
            read, fork = partial(self._open, listed, None), partial(self._fork, listed, None)
            answers = {"r": ("read along", read), "f": ("fork: go on in a copy", fork)}
            name = view.session_name(listed)
            self.ask(f"{name} is being written by {holder}: only one may write to a session.", answers)

    def _fork(self, listed: Listed, until: int | None) -> None:
        copy = partial(fork_session, listed.path, self._home, self._root, until)
        self._make(f"Copying {view.session_name(listed)}", copy)

    def _make(self, doing: str, make: Callable[[], Path]) -> None:
        """Make a session in a thread, and go on with it."""

        async def made() -> None:
            self.dismiss(await asyncio.to_thread(make))

        self._carry_out(doing, made)

    def _open(self, listed: Listed, index: int | None) -> None:
        self._carry_out(f"Opening {view.session_name(listed)}", partial(self._read, listed, index))

    def _rename(self, listed: Listed, title: str) -> None:
        async def renamed() -> str:
            if listed.path != self.state.here:
                return await asyncio.to_thread(rename_session, listed.path, title)
            return await self._retitle(title)

        self._carry_out("Renaming", renamed, lists=True)

    def _change(self, doing: str, change: Callable[[], str]) -> None:
        """Change something on disk in a thread, and list the sessions again."""
        self._carry_out(doing, partial(asyncio.to_thread, change), lists=True)

    def _carry_out(self, doing: str, action: Work, *, lists: bool = False) -> None:
        self._begin("action", partial(self._done, doing, action, lists))

    async def _done(self, doing: str, action: Work, lists: bool) -> None:
        """What it says, or why it was not done, is in the status row then."""
        self.busy = f"{doing} …"
        self.update()
        try:
            said = await action() or ""
        except FoldlineError as failure:
            said, lists = str(failure), False
        finally:
            self.busy = ""
        self.tell(said)
        if lists:
            self.list_again()

    # --- drawing ----------------------------------------------------------------------------------------

    def _look(self) -> view.Look:
        """What all rows are drawn by, as of now."""
        return view.Look(self.state.scope, self._now(), self.state.asked, self.state.here)

    def draw(self, width: int, height: int) -> list[Line]:
        inner, roomy = width - 2, height >= _ROWS_FOR_ALL
        below = 7 if height >= _TALL else 4 if roomy else 0
        top: list[Line | Rule] = [
            self._search_line(),
            Rule(tail=view.search_foot(self.state)),
            [(" ", ""), *view.tabs(self.state.scope)],
            [("  ", ""), *view.heading(inner - 3, self.state.scope)],
        ]
        room = height - len(top) - 3 - (below + 1 if below else 0)
        body = [*top, *self._list_lines(inner - 3, room, len(top) + 1)]
        if below:
            body += self._below(inner, below, room)
        body.append(self._status(inner))
        if self.question is not None and not roomy:
            body = self._below(inner, height - 3, room)
        count = view.count(self.state, sum(row.hit is None for row in self.rows))
        foot = self.foot(width, [view.called(command) for command in ("resume", "search", "help")])
        return boxed(width, view.title_spans(self._title), count, body, *foot)

    def _search_line(self) -> Line:
        query = clean_line(self.state.query)
        if self.mode == "field":
            return [(" ❯ ", "accent")]
        return [(" ❯ ", "muted"), (query, "text") if query else (_PLACEHOLDER, "muted")]

    def _list_lines(self, cells: int, room: int, top: int) -> list[Line]:
        in_list, drawn = self.mode == "list", self._look()

        def line(each: ListRow, marked: bool) -> Line:
            if each.hit is None:
                spans = view.session_row(each.session, drawn, cells)
            else:
                spans = view.hit_row(each.hit, each.more, cells)
            mark = ("▶" if in_list else "▷") if marked else " "
            return [(mark, "accent"), (" ", ""), *crop(spans, cells + 1)]

        words = wrap_spans([view.empty(self.state)], cells)
        empty = [[], *([("  ", ""), *each] for each in words)]
        return self.row_lines(max(room, 1), top, line, empty, reverses=in_list)

    def _below(self, width: int, rows: int, room: int) -> list[Line | Rule]:
        """The question, or what is known of the marked session; and where in a long list that is."""
        count, question, listed = len(self.rows), self.question, self.marked
        place = ((f"{self.at + 1:,} of {count:,}", "muted"),) if count > room else ()
        if question is not None:
            words = wrap_spans([(question.sentence, "text")], max(width - 2, 8))
            rule = Rule((("? ", "altered"), ("Please confirm", "text bold")), place)
            return [rule, *filled([[(" ", ""), *line] for line in words], rows)]
        if listed is None:
            return [Rule(), *filled([], rows)]
        known = view.details(listed, self._look(), width, rows)
        head = clean_line(short_id(listed.id) if listed.ours else f"{listed.agent}:{listed.id}")
        return [Rule(((head, "muted"),), place), *filled(known, rows)]

    def _status(self, width: int) -> Line:
        """What is under way, or the news."""
        if self.mode == "renaming":
            return [(" ❯ ", "accent")]
        words = self.busy or self._news or ("Enter goes to the list" if self.mode == "field" else "")
        return [(" ", ""), *shorten([(clean_line(words), "text")], width - 2)]

    def hints(self) -> list[tuple[str, str]]:
        match self.mode:
            case "field":
                return [("Enter ↓", "to the list"), (command_key("help"), "keys"), ("Esc", self._closes())]
            case "renaming":
                return [("Enter", "save the title"), ("Esc", self._closes())]
            case "list":
                foreign = self.marked is not None and not self.marked.ours
                read = view.called("read")
                return [each for each in super().hints() if not (foreign and each[0] == read)]  # Enter reads

    def word(self, key: ScreenKey[Any]) -> str:
        listed = self.marked
        match key.id:
            case "close":
                return self._closes()
            case "archive" if listed is not None and listed.archived:
                return "bring back"
            case "resume" if listed is not None and listed.path == self.state.here:
                return "back to it"
            case "resume" if listed is not None and not listed.ours:
                return "read"
            case "read" | "fork" if self.hit is not None:
                return f"{key.hint} at {self.hit.index}"
            case _:
                return key.hint

    def _closes(self) -> str:
        """What Esc does now."""
        match self.mode:
            case "renaming":
                return "cancel"
            case "field":
                return "to the list"
            case "list":
                return "end search" if self.state.query else "to the chat"
