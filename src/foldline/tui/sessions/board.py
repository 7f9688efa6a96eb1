"""The Sessions screen as it looks: its parts, what stands in them, which have room. Keys are `screen`'s."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult

from foldline.history.lock import Holder
from foldline.history.session_search import SessionHit
from foldline.tui.blocks import Block, BlockView, Key
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.sessions import words
from foldline.tui.sessions.keys import Facts
from foldline.tui.sessions.parts import GUTTER, Given, Heading, ListPanel, SearchLine, Strip
from foldline.tui.sessions.rows import HitBlock, Look, SessionBlock, session_blocks, words_block
from foldline.tui.sessions.state import Listing, SessionsState, Shown, shown
from foldline.tui.widgets.fields import OneLine
from foldline.tui.widgets.leaving import LeftOnce
from foldline.tui.widgets.lines import LEAST, TooSmall

_ROWS_FOR_ALL: Final = 18
"""Rows below which header, details and hints give theirs to the list; as in the chat."""
_TALL: Final = 30
"""Rows from which the details have all they need."""


class SessionsBoard(LeftOnce[Path | None]):
    """Shows a `SessionsState`."""

    DEFAULT_CSS: ClassVar[str] = """
    SessionsBoard { layout: vertical; background: ansi_default; color: $role-text; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None

    def __init__(self, title: str, state: SessionsState, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._title = title
        self._now = now
        self._state = state
        self._sessions: tuple[Shown, ...] = ()
        self._numbers: dict[Path, int] = {}
        """What a session is called in keys, as long as the screen is open."""
        self._holders: dict[Path, Holder | None] = {}
        """Who writes to a session, as of the last look."""
        self._news = ""
        self._whole: tuple[Listing | None, Sequence[Block]] = (None, ())
        """A list without a query, and its rows."""
        self._settled: Key | None = None
        """Where the cursor came to by a change of the list, which is no move of the reader's."""
        self._busy = ""
        """What is being done just now, as a sentence; empty where nothing is."""
        self._ready = False
        self._view = EntryView(
            gutter=lambda key, line: (),
            gutter_width=GUTTER,
            faded=lambda key: False,
            follow=False,
            id="sessions",
        )
        self._too_small = TooSmall()
        self._header = Given(id="header")
        self._search = SearchLine()
        self._heading = Heading()
        self._panel = ListPanel(self._view, self._heading)
        self._strip = Strip()
        self._status = Given(id="status")
        self._one_line = OneLine()
        self._one_line.select_on_focus = False
        self._hints = Given(id="hints")

    def compose(self) -> ComposeResult:
        yield self._too_small
        yield self._header
        yield self._search
        yield self._panel
        yield self._strip
        yield self._status
        yield self._one_line
        yield self._hints

    def on_mount(self) -> None:
        self._ready = True
        self._redraw()

    # --- what stands under the cursor -----------------------------------------------------------------

    @property
    def state(self) -> SessionsState:
        """What is shown."""
        return self._state

    @property
    def marked(self) -> Shown | None:
        """The session under the cursor, or under its `▷` while the search line has the focus."""
        block = self._marked_block()
        return block.shown if block is not None else None

    @property
    def hit(self) -> SessionHit | None:
        """The match under the cursor."""
        block = self._marked_block()
        return block.hit if isinstance(block, HitBlock) else None

    def _marked_block(self) -> SessionBlock | HitBlock | None:
        key = self._view.cursor or self._view.counterpart
        block = self._view.block(key) if key is not None else None
        return block if isinstance(block, SessionBlock | HitBlock) else None

    @property
    def facts(self) -> Facts:
        """What decides which keys work now."""
        here = self.marked
        row = here.row if here is not None else None
        asking = self._strip.question is not None
        return Facts(
            mode="asking"
            if asking
            else "renaming"
            if self._one_line.display
            else "field"
            if self._search.field.has_focus
            else "list",
            row=row is not None,
            ours=row is not None and row.ours,
            here=row is not None and row.path == self._state.here,
            readable=row is not None and row.readable,
            archived=row is not None and row.archived,
            in_strip=self._strip.has_focus,
            busy=bool(self._busy),
        )

    # --- showing --------------------------------------------------------------------------------------

    def tell(self, words: str) -> None:
        """Say something in the status row, until the cursor moves."""
        self._news = words
        self._describe()

    def _show(self, state: SessionsState) -> None:
        """Show this state; the list is left alone where nothing in it is another."""
        before, self._state = self._state, state
        drawn = ("scope", "listing", "query", "found", "here")
        if all(getattr(before, name) is getattr(state, name) for name in drawn) and not self._is_empty:
            self._describe()
        else:
            self._redraw(new_query=before.query != state.query or before.scope != state.scope)

    @property
    def _is_empty(self) -> bool:
        return not self._sessions

    @property
    def look(self) -> Look:
        """What all rows are drawn by, as of now."""
        return Look(self._state.scope, self._now(), self._state.asked, self._state.here)

    def _redraw(self, *, new_query: bool = False) -> None:
        """The list anew. With another query it is looked at from its top, else cursor and top line stay."""
        if not self._ready:
            return
        self._sessions = shown(self._state)
        for each in self._sessions:
            self._numbers.setdefault(each.row.path, len(self._numbers))
        if self._sessions:
            self._view.set_blocks(self._blocks())
        else:
            self._view.set_blocks([words_block(*words.empty(self._state))])
        if new_query or self.marked is None:
            self._mark_first()
        self._settled = self._view.cursor
        self._view.fill()
        self._describe()

    def _blocks(self) -> Sequence[Block]:
        """The rows. Those of a whole list, perhaps thousands, are made once and come back after a query."""
        if self._state.asked is not None:
            return list(session_blocks(self._sessions, self.look, self._numbers))
        if self._whole[0] is not self._state.listing:
            self._whole = (
                self._state.listing,
                list(session_blocks(self._sessions, self.look, self._numbers)),
            )
        return self._whole[1]

    def _mark_first(self) -> None:
        first = self._view.block_at(0)
        key = first.key if first.stop else None
        if self._view.has_focus:
            self._view.cursor_to(key, quiet=True)
        else:
            self._view.cursor_to(None)
            self._view.counterpart = key
        self._view.scroll_to_key(first.key)

    def _describe(self) -> None:
        """Frames, details, status and hints say what is."""
        if not self._ready:
            return
        state, facts, marked, look = self._state, self.facts, self.marked, self.look
        self._header.show(lambda width: words.header_row(self._title, state, width))
        self._search.show(words.search_foot(state))
        self._heading.show(state.scope)
        self._panel.show_head(words.tabs(state.scope), words.count(state, self._sessions))
        self._panel.focus_is_inside(self._view.has_focus)
        if marked is None:
            self._strip.show("", lambda width, rows: [])
        else:
            row, holder = marked.row, self._holders.get(marked.row.path)
            self._strip.show(
                words.details_head(row),
                lambda width, rows: words.details(row, holder, look, width, rows),
            )
        closes, news = self._closes(facts), self._busy or self._news
        hit = self.hit
        outwards = "" if self._hints.display else closes
        self._status.show(lambda width: words.status_row(marked, hit, facts, news, outwards, width))
        self._hints.show(lambda width: words.hints_row(facts, closes, width))

    def _closes(self, facts: Facts) -> str:
        """What Esc does now."""
        match facts.mode:
            case "asking":
                return self._strip.question.leaves if self._strip.question is not None else ""
            case "renaming":
                return "leaves it as it was"
            case "field":
                return "to the list"
            case "list":
                return "ends the search" if self._state.query else "to the chat"

    # --- room and focus -------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._fit(*event.size)

    def _fit(self, width: int, height: int) -> None:
        """Show what has room."""
        fits = width >= LEAST[0] and height >= LEAST[1]
        roomy = fits and height >= _ROWS_FOR_ALL
        asking = self._strip.question is not None
        for widget, is_shown in (
            (self._too_small, not fits),
            (self._search, fits),
            (self._panel, fits),
            (self._strip, roomy or (fits and asking)),
            (self._status, fits and not self._one_line.display),
            (self._header, roomy),
            (self._hints, roomy),
        ):
            widget.display = is_shown
        self._strip.styles.height = 9 if height >= _TALL else 6 if roomy else 5
        self.call_after_refresh(self._show_place)

    def _show_place(self) -> None:
        self._view.fill()
        key = self._view.cursor or self._view.counterpart
        if key is not None:
            self._view.scroll_to_key(key)
        self._describe()

    def on_descendant_focus(self) -> None:
        if self._view.has_focus and self._view.cursor is None:
            self._view.take_cursor()
        self._describe()

    def on_descendant_blur(self) -> None:
        if not self._view.has_focus and self._view.cursor is not None:
            self._view.give_cursor()
        self.call_after_refresh(self._describe)

    @on(BlockView.CursorMoved)
    def _cursor_moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        if event.key != self._settled:
            self._news = ""
        self._settled = None
        self._moved()
        self._describe()

    def _moved(self) -> None:
        """The cursor stands on another row."""

    def _with(self, **changes: object) -> None:
        self._show(replace(self._state, **changes))  # type: ignore[arg-type]
