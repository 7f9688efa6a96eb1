"""History, LLM view, Files and Timeline as one widget: what is shown where, at which moment, and the keys."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import Size as Space
from textual.widget import Widget
from textual.worker import Worker

from foldline.context.moments import Moment, first_entry
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.context.subagents import started_by
from foldline.history.stored import without_gc
from foldline.protocol import Compaction, Subagent
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Piece, Span, piece, row
from foldline.tui.blocks.view import BlockView
from foldline.tui.dock import CHAT_COLUMNS
from foldline.tui.inspector.compare import CompareScreen
from foldline.tui.inspector.files import FileBlock
from foldline.tui.inspector.filters import EVERYTHING, Filter, FilterScreen
from foldline.tui.inspector.keys import EDIT, KEYS, hints, time_hints
from foldline.tui.inspector.ledger_uses import LedgerUses
from foldline.tui.inspector.link import FILES, HISTORY, TIMELINE, VIEW, LinkedLists, files_width, panels_at
from foldline.tui.inspector.past import comparisons
from foldline.tui.inspector.sheets import PanelState, Sheet
from foldline.tui.inspector.time_travel import TimeTravel
from foldline.tui.inspector.timeline import TimelinePanel, rows_for
from foldline.tui.keys.table import bindings
from foldline.tui.panels import edit_hints
from foldline.tui.panels.entry_list import Scroll, row_key, row_of
from foldline.tui.panels.entry_rows import entry_row, is_compaction, is_prompt
from foldline.tui.panels.states import compaction_of
from foldline.tui.panels.workbench import Workbench
from foldline.tui.terminal.clipboard import copy
from foldline.tui.widgets.lines import Row

_OF_ENTRIES: Final = frozenset(key.id for key in KEYS if key.group in ("Jump", "Search", EDIT)) - {"undo"}
"""Keys that are of no use on the timeline."""
_STEPS: Final = frozenset({"older-request", "newer-request", "before-compaction", "after-compaction", "now"})


class InspectorPanels(Workbench):
    """The Inspector's panels, docked beside the chat or on a screen of their own. The owner calls
    `refresh_from` after events; nothing here changes the history: what the reader wants of it is posted as
    `OperationWanted`."""

    KEYS = KEYS
    BINDINGS = bindings(KEYS, "inspect")
    one_at_a_time: bool = False
    """Whether one panel shows, however wide it is: beside the chat."""

    def __init__(
        self,
        projection: Projection,
        *,
        overhead: int = 0,
        window: int = 0,
        cwd: str = "",
        live: bool = False,
        threshold: int | None = None,
        activity: str = "",
        open_child: Callable[[Subagent], None] | None = None,
    ) -> None:
        """
        Args:
            overhead: estimate of the tool schemas in tokens, before calibration.
            window: the model's, in tokens; 0 where it is not known.
            cwd: paths below it are shown relative to it.
            live: whether the view can be edited here.
            threshold: size in tokens from which on the view is compacted before a request.
            activity: what the agent does just now; empty: nothing, edits act at once.
            open_child: shows the session of a subagent; None where there is none to show.
        """
        uses = LedgerUses(self, self._uses_found)
        self.lists = LinkedLists(projection, cwd, overhead, self._rows_changed, uses)
        super().__init__(*self.lists.panels)
        self.history, self.view, self._files = self.lists.history, self.lists.view, self.lists.files
        self.travel = TimeTravel(projection, overhead, window)
        self.timeline = TimelinePanel(self.action_inspect, self._timeline_picked)
        limits = edit_hints.Limits(overhead, threshold)
        self._edit_hints = edit_hints.HintWorker(self, limits, self.describe) if live else None
        self.activity = activity
        self._open_child = open_child
        self.head: Callable[[InspectorPanels, int], Sequence[Span]] | None = None
        """The row above the panels at this width, where they are on a screen of their own or docked."""
        self.close: Callable[[], object] = lambda: None
        """What Esc or F2 does: the reader is done here."""
        self.maximise: Callable[[], object] = lambda: None
        """Gives it the whole screen, or no longer."""
        self._header = Row("header")
        self._wanted_entry: int | None = None
        """The entry to go to once the moment that is on its way is shown."""
        self._entered: int | None = None
        """The panel the focus came to from outside: Tab goes round to it, and leaves, beside the chat."""

    def compose(self) -> ComposeResult:
        if self.head is not None:
            yield self._header
        with self.side_by_side:
            yield from self.panels
        yield self.timeline
        yield from self.foot()

    def on_mount(self) -> None:
        self.lay_out()
        self._rebuild()
        self.enter()
        self.call_after_refresh(self._show_timeline)

    def on_unmount(self) -> None:
        """Let go of all that is as large as the history: see `BlockCanvas.on_unmount`."""
        self.travel.past.forget()
        self.lists.projection = self.travel.now
        for sheet in self.lists.sheets:
            sheet.forget()

    # --- For the owner --------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The history that is shown."""
        return self.lists.projection

    @property
    def live(self) -> bool:
        """Whether the view can be edited here, now."""
        return self._edit_hints is not None and self.travel.is_now

    @property
    def has_hints(self) -> bool:
        """Whether the view can be edited here, once now is shown."""
        return self._edit_hints is not None

    @property
    def priced(self) -> bool:
        """Whether the status row says by now what the edit keys would do."""
        return self._edit_hints is not None and self._edit_hints.known

    @property
    def _index(self) -> int:
        """The entry all panels show; negative: none."""
        return -1 if self.lists.link is None else self.lists.link.index

    @property
    def shown_panel(self) -> int:
        """The panel that has, or last had, the focus."""
        return TIMELINE if self.timeline.has_focus else self.active

    def enter(self) -> None:
        """Take the focus, in the panel that had it last."""
        self._entered = self.active
        super().enter()

    def set_activity(self, activity: str, threshold: int | None) -> None:
        """What the agent does just now, and the threshold where it is known; shown by `refresh_from`."""
        self.activity = activity
        if self._edit_hints is not None and threshold is not None:
            self._edit_hints.limits = replace(self._edit_hints.limits, threshold=threshold)

    def set_price(self, dollars: float | None) -> None:
        """What a token of a request costs; None where that is not known."""
        if self._edit_hints is not None:
            self._edit_hints.limits = replace(self._edit_hints.limits, price=dollars)

    def refresh_from(self, projection: Projection) -> None:
        """Show what has come since; the panels only where they show now."""
        if projection is not self.travel.now:
            self.travel.begin(projection)
            self.lists.projection, self.lists.link = projection, None
            self._rebuild()
        elif self.travel.is_now:
            self._grow()
        self._show_timeline()

    def reveal(self, index: int) -> None:
        """Go to an entry in History, also where its row is still to be built."""
        self.go(HISTORY)
        key = row_key(self.history.row_index(index))
        if not self.history.view.holds(key) and (self.history.missing or self.history.filter.active):
            self.run_worker(self._reveal_when_filled(index), group="reveal", exclusive=True)
            return
        self.history.view.cursor_to(key, quiet=True)
        self.relink()
        self.describe()

    async def _reveal_when_filled(self, index: int) -> None:
        if self.history.filter.active:
            await self.history.show_only(EVERYTHING)
        while self.history.missing:  # what is built as the panels open may overtake this
            await self.history.fill()
        if self.history.view.holds(row_key(self.history.row_index(index))):
            self.reveal(index)

    # --- Content --------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        """All anew: the ends at once, what is above them in slices."""
        filters = [(sheet, sheet.filter) for sheet in self.lists.sheets]
        self.lists.begin(self.projection)
        self._fill_later()
        for sheet, wanted in filters:
            if wanted.active:
                self._filter(sheet, wanted)
        self.describe()

    def _grow(self) -> None:
        came, changed = self.lists.grow(self.active)
        if came:
            for sheet in self.lists.sheets:
                if changed and sheet.filter.active:  # others may fit
                    self._build(sheet, sheet.build)
            self._fill_later()
        self.describe()

    def _fill_later(self) -> None:
        if self.history.missing or self.view.missing:
            self.run_worker(self._fill(), group="fill", exclusive=True)

    async def _fill(self) -> None:
        for sheet in self.lists.sheets:
            await sheet.fill()
        self._rows_changed()

    def _rows_changed(self) -> None:
        """Other rows are shown: the place stays."""
        self.lists.relink(self.active, scroll=False)
        self.describe()

    def _uses_found(self) -> None:
        """More is known of a ledger: its used lines are marked."""
        for sheet in self.lists.sheets:
            sheet.view.refresh()
        self.describe()

    def relink(self) -> None:
        self.lists.link_here(self.active)

    @property
    def _sheet(self) -> Sheet:
        """The list of the active panel, where that is one of entries; else History's."""
        return self.view if self.active == VIEW else self.history

    @property
    def _is_filtered(self) -> bool:
        """Whether a filter leaves entries out of the active panel."""
        return self.active != FILES and self._sheet.filter.active

    # --- Panels and focus -----------------------------------------------------------------------------

    @property
    def room(self) -> Space:
        """Columns and rows: before its first layout those it will have, else that would be done twice."""
        width, height = self.size
        if not self.size:
            width, height = self.app.size
            width -= CHAT_COLUMNS if self.one_at_a_time else 0
        return Space(width, max(height - (self.head is not None), 0))

    def lay_out(self) -> None:
        width, height = self.room
        shown = panels_at(width, self.active, alone=self.one_at_a_time)
        self._files.lay_out(files_width(width) if len(shown) > 1 else None, height)
        self.show_panels(*shown)
        self._lay_out_timeline()

    def _lay_out_timeline(self) -> None:
        """On a short screen it is there only as long as it has the focus."""
        rows = rows_for(self.room.height, self.timeline.has_focus)
        self.timeline.display = self.timeline.has_focus or (bool(rows) and not self.one_at_a_time)
        self.share_rows(str(rows + 2))

    @property
    def below(self) -> Widget:
        return self.timeline

    def take_over(self, number: int) -> None:
        super().take_over(number)
        if self.active_view.cursor != self.lists.counterpart(number):
            self.relink()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._lay_out_timeline()

    def on_descendant_blur(self) -> None:
        self.call_after_refresh(self._lay_out_timeline)

    def focus_timeline(self) -> None:
        """Give the timeline the focus."""
        self.news = ""
        self.timeline.display = True
        self.timeline.focus()

    def _to_panel(self, step: int) -> None:
        """To the next or previous panel, the timeline among them; beside the chat out of the last one."""
        there = (self.shown_panel + step) % (TIMELINE + (self.timeline.display or self.one_at_a_time))
        if self.one_at_a_time and there == self._entered:
            self.close()
        elif there == TIMELINE:
            self.focus_timeline()
        else:
            self.go(there)

    # --- Other moments --------------------------------------------------------------------------------

    def go_to(self, moment: Moment | None) -> None:
        """Show another moment; None is now. It is on its way at once, and takes its time where it is far."""
        if moment == self.travel.moment:
            return
        self.travel.moment = moment
        self.news = ""
        self._show_timeline()
        self.describe()
        # The function and not what it gives: where it is overtaken at once, nothing was begun.
        _: Worker[None] = self.run_worker(self._turn, group="moment", exclusive=True)

    async def _turn(self) -> None:
        """Let the panels show what was chosen. Whoever chooses again cancels it."""
        moment = self.travel.moment
        with without_gc():
            then = self.travel.now if moment is None else await self.travel.past.at(moment)
            await self.lists.turn(then)
            self.travel.shown = moment
            if moment is None:
                self._grow()  # what came while its rows were made
            self.relink()
            self.describe()
            self._show_timeline()
            index, self._wanted_entry = self._wanted_entry, None
            if index is not None:
                self.reveal(index)
            if moment is not None:
                await self.travel.past.prove(moment, then)
                self._show_timeline()
                await self.travel.past.learn_cache_use(moment)
                self._show_timeline()

    def _reveal_there(self, index: int) -> None:
        """Go to an entry as soon as the moment that was chosen is shown."""
        if self.travel.settled:
            self.reveal(index)
        else:
            self._wanted_entry = index

    def go_by(self, command: str) -> None:
        """A key of the timeline."""
        if command == "first-entry":
            index = first_entry(self.travel.now, self.travel.moment)
            if index is None:
                self.news = "Nothing was added for it."
            else:
                self._reveal_there(index)
            return
        there = self.travel.step(command)
        if isinstance(there, str):
            self.news = there
        else:
            self.go_to(there)

    def _timeline_picked(self, slot: int) -> None:
        there = self.travel.request(slot + 1)
        if not isinstance(there, str):
            self.go_to(there)

    def _show_timeline(self) -> None:
        if self.is_mounted:
            self.timeline.show(self.travel.scene(self.projection, self.activity))
        if self.timeline.has_focus:
            self.describe()

    def _compare(self) -> None:
        """Compare the views of two requests, or before and after a compaction."""
        travel, index = self.travel, self._index
        in_list = self.active != FILES and not self.timeline.has_focus and index >= 0
        on = index if in_list and isinstance(self.projection.entry(index), Compaction) else None
        pairs = comparisons(travel.now, travel.moment, travel.marked, on)
        if pairs:
            screen = CompareScreen(travel.now, travel.past, pairs, travel.size_of, self.lists.cwd)
            self.app.push_screen(screen, self._back_from_comparison)
        else:
            self.news = "There is nothing before it to compare it with."

    def _back_from_comparison(self, index: int | None) -> None:
        """To the entry that was asked for, at the moment that is shown where it is there, else now."""
        if index is not None:
            if self.projection.entry(index) is None:
                self.go_to(None)
            self._reveal_there(index)

    # --- Words ----------------------------------------------------------------------------------------

    @property
    def focused(self) -> int | None:
        return None if self.shown_panel == TIMELINE else super().focused

    def describe_panels(self) -> None:
        if self.head is not None:
            self._header.show(partial(self.head, self))
        link, here = self.lists.link, self.shown_panel
        as_of, weight = self.travel.as_of, self.travel.weight(self.projection)
        history, view, files = self.panels
        history.head(self.history.head(as_of))
        view.head(*self.view.head(weight, as_of))
        files.head(str(len(self._files.table.by_path)))
        key = None if link is None else link.key
        history.foot(*(self.history.foot(key) if here == HISTORY else ("", "")))
        from_history = link is not None and link.source == HISTORY
        view.foot(*self.view.foot(key, weight, active=here == VIEW, from_history=from_history))
        files.foot("Enter jumps to latest" if here == FILES else "")
        self._files.show_touches(link.index if link is not None else None)

    def hint_pairs(self) -> list[tuple[str, str]]:
        if self.timeline.has_focus or self.travel.moment is not None:
            return time_hints(on_timeline=self.timeline.has_focus)
        here, index = self.projection, self._index
        idle = {"compaction"} if index < 0 or compaction_of(here, index) is None else set[str]()
        if index < 0 or started_by(here, index) is None:
            idle.add("subagent")
        return hints(self.esc_words(), live=self.live, idle=idle)

    def esc_words(self) -> str:
        if self.searching:
            return "ends the search"
        if self.lists.picked:
            return "unmarks"
        if self._is_filtered:
            return "shows all"
        return "to the prompt" if self.one_at_a_time else "close"

    def status_row(self, width: int) -> list[Span]:
        link = self.lists.link
        if self.timeline.has_focus:
            words = self.timeline.scene.words
            if self.timeline.says_all or len(words) < 2:  # the keys may be faster than its first picture
                return row([], [], width)
            _, weight, *more = words
            return row([Piece(weight), *(Piece(each, cut="right") for each in more[-1:])], [], width)
        if self.active == FILES:
            file = self._files.file
            said = "" if file is None else f"{file.shown} · {many(len(file.touches), 'touch', 'touches')}"
            return row([piece(said, cut="left")], [], width)
        uses = self.lists.uses.look_at(self.projection, self._index).words if self._index >= 0 else ""
        if self._edit_hints is None or not self.live:
            cursor = self.active_view.cursor
            return [] if link is None else entry_row(self.projection, link.key, cursor, width, uses)
        index = None if link is None else link.index
        picked = tuple(sorted(self.lists.picked))
        found = self._edit_hints.at(self.projection, picked or index)
        found = found or edit_hints.EditHints(index, picked=picked)
        later = bool(self.activity)
        return edit_hints.edit_row(self.projection, found, self.key, later=later, width=width, more=uses)

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def facts(self) -> bool:
        return self.live

    def action_inspect(self, command: str) -> None:
        """One of the keys of the table."""
        if self.timeline.has_focus and command in (*_OF_ENTRIES, "copy"):
            self.news = f"This is the timeline: {self.key('panel-1')} goes to History."
        elif self.active == FILES and command.startswith(("older-", "newer-")) and command not in _STEPS:
            self.news = f"Nothing to jump to here: {self.key('panel-1')} goes to History."
        elif command in _STEPS or command.startswith("first-"):
            self.go_by(command)
        else:
            self.act(command)
        self.describe()

    def act(self, command: str) -> None:
        match command:
            case "next-panel" | "previous-panel":
                self._to_panel(1 if command == "next-panel" else -1)
            case "older-compaction" | "newer-compaction":
                self.to_next(1 if command == "newer-compaction" else -1, is_compaction, "compaction")
            case "pin" | "hide" | "drop" | "restore":
                self._edit(command)
            case _ if command in self._actions:
                self._actions[command]()
            case _:
                super().act(command)

    @property
    def _actions(self) -> dict[str, Callable[[], object]]:
        """What other keys do that only the Inspector has."""
        return {
            "panel-4": self.focus_timeline,
            "compaction": self._to_compaction,
            "subagent": self._to_subagent,
            "diff": self._compare,
            "filter": self._open_filter,
            "mark": self._mark,
            "copy": self._copy,
            "undo": self._undo,
            "maximise": self.maximise,
        }

    def is_prompt(self, block: Block) -> bool:
        return is_prompt(block)

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        self.news = ""
        block = event.view.block(event.key)
        if isinstance(block, FileBlock):
            self.lists.jump_to_touch(block, self.active)
        elif isinstance(self.projection.outline(event.key[0]), Subagent):
            self._to_subagent()
        else:
            self._sheet.toggle(row_of(event.key))
        self.describe()

    def _to_compaction(self) -> None:
        """To the compaction of the entry under the cursor; from one, to what it stands for."""
        index = self._index
        if index < 0:
            return
        there = self.lists.beside_compaction(index)
        there = None if there is None else self.history.row_index(there)
        if there is None:
            is_one = compaction_of(self.projection, index) == index
            stands = f"Compaction {index} stands for no entry now."
            self.news = stands if is_one else f"No compaction has touched {index}."
        elif not self.history.view.holds(row_key(there)) and self.history.filter.active:
            self.news = f"{there} is not in the filter: {self.key('close')} shows all."
        else:
            if self.active != HISTORY:
                self.go(HISTORY)
            self.history.view.cursor_to(row_key(there))
            self.relink()

    def _to_subagent(self) -> None:
        """To the session of the subagent that the entry under the cursor is about."""
        started = (
            None if self._index < 0 or self.active == FILES else started_by(self.projection, self._index)
        )
        if started is None:
            self.news = "No subagent worked for this entry."
        elif self._open_child is None:
            self.news = "The session of this subagent is not at hand here."
        else:
            self._open_child(started)

    def _edit(self, key: edit_hints.EditKey) -> None:
        """Ask for an edit of the entry under the cursor, or of those that are marked, or say why not."""
        if not self.live:
            self.news = self._why_not_live()
        elif self.active == FILES:
            history, view = self.key("panel-1"), self.key("panel-2")
            self.news = f"Edits are of entries: {history} goes to History, {view} to the LLM view."
        else:
            picked = tuple(sorted(self.lists.picked))
            place, later = picked or self._index, bool(self.activity)
            answer = edit_hints.edit(self.projection, place, key, self.key, later=later)
            if picked and answer.wanted:
                self.lists.pick(set())
            self.ask_for(answer)

    def _undo(self) -> None:
        if self.live:
            self.ask_for(edit_hints.undo(self.projection, later=bool(self.activity)))
        else:
            self.news = self._why_not_live()

    def _why_not_live(self) -> str:
        moment = self.travel.moment
        if moment is None:
            return "This session is only looked at here: nothing in it is edited."
        back = f"{self.key('now')} goes back to now"
        return f"This is how it was at {moment.name}: nothing to edit. {back}."

    def _mark(self) -> None:
        """Mark a request on the timeline, or the entry under the cursor for the edit keys; or no longer."""
        index = self._index
        if self.timeline.has_focus:
            self.news = self.travel.mark()
            self._show_timeline()
        elif not self.live:
            self.news = self._why_not_live()
        elif self.active == FILES or index < 0 or not edit_hints.may_edit(self.projection, index):
            self.news = "There is nothing to mark here: what is marked is edited together."
        else:
            self.lists.pick(self.lists.picked ^ {index})

    def _copy(self) -> None:
        """The text of the entry under the cursor goes to the clipboard."""
        key = self.active_view.cursor or self.active_view.counterpart
        block = self.active_view.block(row_of(key) if self.active != FILES else key) if key else None
        text = block.text() if block is not None else ""
        if not text:
            self.news = "There is nothing to copy here."
            return
        wrong = copy(self.app, text)
        self.news = f"Copied {many(len(text), 'character')}{f': {wrong}' if wrong else ''}."

    def leave(self) -> None:
        if self.lists.picked:
            self.lists.pick(set())
        elif self._is_filtered:
            self._filter(self._sheet, EVERYTHING)
        else:
            self.close()

    # --- Search and filter ----------------------------------------------------------------------------

    def search_text(self, block: Block) -> str:
        """An entry that is opened has its text below it."""
        return "" if self.active != FILES and block.key in self._sheet.opened else block.text()

    def match_words(self, key: Key) -> str:
        return f" in {key[0]}" if self.active != FILES and key[0] >= 0 else ""

    def _open_filter(self) -> None:
        if self.active == FILES:
            self.news = f"A filter is of entries: {self.key('panel-1')} goes to History."
        else:
            sheet = self._sheet
            want = partial(self._filter, sheet)
            self.app.push_screen(FilterScreen(sheet.what, sheet.filter, sheet.tally, want))

    def _filter(self, sheet: Sheet, wanted: Filter) -> None:
        """Show what a filter admits."""
        self._build(sheet, partial(sheet.show_only, wanted))

    def _build(self, sheet: Sheet, build: Callable[[], Awaitable[None]]) -> None:
        """Build the rows of a list anew, in slices."""

        async def built() -> None:
            await build()
            self._rows_changed()

        _: Worker[None] = self.run_worker(built, group=f"filter {sheet.what}", exclusive=True)

    # --- From one Inspector to another ----------------------------------------------------------------

    @property
    def state(self) -> PanelState:
        """All that the reader has chosen."""
        return PanelState(
            active=self.active,
            timeline=self.timeline.has_focus,
            history=self.history.state,
            view=self.view.state,
            files=Scroll.of(self._files.view),
            needle=self.needle,
            picked=frozenset(self.lists.picked),
            moment=self.travel.moment,
        )

    def restore(self, state: PanelState) -> None:
        """Show what another Inspector showed."""
        if state.moment is not None:
            self.go_to(state.moment)
        self.lists.picked = set(state.picked)
        self.needle = state.needle
        self.go(state.active)
        if self.history.lacks(state.history) or self.view.lacks(state.view):
            self.run_worker(self._restore_rows(state), group="fill", exclusive=True)
        else:
            self._restore_places(state)

    async def _restore_rows(self, state: PanelState) -> None:
        await self.history.restore(state.history)
        await self.view.restore(state.view)
        self._restore_places(state)

    def _restore_places(self, state: PanelState) -> None:
        scrolls = state.history.scroll, state.view.scroll, state.files
        for panel, scroll in zip(self.panels, scrolls, strict=True):
            scroll.restore(panel.view)
        self.active_view.set_search(self.needle)
        if state.timeline:
            self.focus_timeline()
        self.relink()
        self.describe()
