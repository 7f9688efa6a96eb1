"""History, LLM view, Files and Timeline as one widget, with their keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.geometry import Size as Space
from textual.worker import Worker

from foldline.history.stored import without_gc
from foldline.past.describe import size_words
from foldline.past.moments import Moment, first_entry
from foldline.past.subagents import started_by
from foldline.protocol import Compaction, Subagent
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.view import BlockView
from foldline.tui.browser.dock import CHAT_COLUMNS
from foldline.tui.browser.inspector.files import FileBlock
from foldline.tui.browser.inspector.keys import KEYS, hints
from foldline.tui.browser.inspector.ledger_uses import LedgerUses
from foldline.tui.browser.inspector.link import (
    FILES,
    HISTORY,
    MEDIUM,
    VIEW,
    LinkedLists,
    files_width,
    legend,
    panels_at,
)
from foldline.tui.browser.inspector.search import parse_search, properties_of
from foldline.tui.browser.inspector.sizes import (
    USE_WIDTH,
    UseRow,
    WindowUse,
    use_heading,
    use_rows,
    window_rows,
)
from foldline.tui.browser.inspector.tables import RowTable
from foldline.tui.browser.inspector.time_travel import (
    NOW,
    TimeTravel,
    Viewpoint,
    comparisons,
)
from foldline.tui.browser.inspector.timeline import TALL, TimelinePanel, rows_for
from foldline.tui.browser.panels import edit_hints
from foldline.tui.browser.panels.entry_list import (
    EntryList,
    ScrollPosition,
    row_key,
    row_of,
)
from foldline.tui.browser.panels.entry_rows import (
    ItemRow,
    entry_row,
    is_compaction,
    is_prompt,
)
from foldline.tui.browser.panels.frame import Panel, TextLines
from foldline.tui.browser.panels.states import compaction_of
from foldline.tui.browser.panels.workbench import Workbench
from foldline.tui.keys.bindings import bindings
from foldline.tui.look.cells import RowPiece, Span, piece, row
from foldline.tui.look.lines import LineWidget
from foldline.tui.terminal.clipboard import copy
from foldline.view.budget import Size
from foldline.view.projection import Projection

_STEPS: Final = frozenset(
    {"older-request", "newer-request", "before-compaction", "after-compaction", "now"}
)

NOTHING_ADDED: Final = "This request added no entries."
NOTHING_TO_COMPARE: Final = "There is no earlier request to compare with."
NO_SUBAGENT: Final = "This entry has no subagent."
NO_CHILD_SESSION: Final = "The session of this subagent cannot be opened here."
NOTHING_TO_MARK: Final = "Only entries that can be edited can be marked."
NOTHING_TO_COPY: Final = "There is nothing to copy here."
READ_ONLY: Final = "This session is read-only here."
NO_ENTRIES_HERE: Final = (
    "This panel has no entries to act on. Press {key} for the LLM view."
)
COVERS_NOTHING: Final = "Compaction {index} covers no entries now."
NOT_COMPACTED: Final = "No compaction has changed entry {index}."
NOT_LIVE: Final = "This is the state at {moment}, which cannot be edited. Press {key} to return to now."
COPIED: Final = "Copied {count}{failure}."
JUMPS_TO_ACCESS: Final = "Enter goes to latest access"
NOT_LISTED: Final = "The view has no items of the category {category}."
SHOWS_LARGEST: Final = "Enter goes to the largest item"
_ALL_ROWS: Final = 18
"""Minimum height, in rows, at which the legend, and the rows about compactions, are shown."""
SEARCH_PROMPT: Final = "text, or tool:bash kind:user state:hidden mark:failed"


@dataclass(frozen=True, slots=True)
class PanelState:
    """The state of the panels: what they show, positions, expanded rows and marks."""

    viewpoint: Viewpoint = NOW
    by_size: bool = False
    shows_notes: bool = False
    active: int = 0
    timeline: bool | None = None
    """Whether the timeline is shown; None if that depends on the height."""
    needle: str = ""
    picked: frozenset[int] = frozenset()
    opened: tuple[frozenset[Key], ...] = ()
    """The expanded rows of History and of the LLM view."""
    scrolls: tuple[ScrollPosition, ...] = ()
    """The scroll positions of History, LLM view and Files."""


class InspectorPanels(Workbench):
    """The Inspector's panels, docked beside the chat or on their own screen.

    The owner calls `refresh_from` after events. Edits by the user are posted as `OperationWanted`. The panels
    never change the history themselves.
    """

    KEYS = KEYS
    SEARCH_PROMPT = SEARCH_PROMPT
    KEPT_HINT = "now"
    BINDINGS = bindings(KEYS, "inspect")
    one_at_a_time: bool = False
    """Whether only one panel is shown at any width. True in the docked Inspector."""

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
        use_now: Callable[[], WindowUse] | None = None,
    ) -> None:
        """Create the panels.

        Args:
            overhead: estimated size of the tool schemas, in tokens before calibration.
            window: size of the model's context window, in tokens; 0 if unknown.
            cwd: paths below it are shown relative to it.
            live: whether the user can edit the view in these panels.
            threshold: size, in tokens, above which the view is compacted before a request.
            activity: what the agent is doing; empty if it is idle, so that edits apply immediately.
            open_child: opens the session of a subagent; None if they cannot be opened.
            use_now: returns the use of the agent's window; None if there is no agent.
        """
        uses = LedgerUses(self, self._uses_found)
        self.lists = LinkedLists(projection, cwd, overhead, self._rows_changed, uses)
        super().__init__(*self.lists.panels)
        self.history = self.lists.history
        self.view = self.lists.view
        self._files = self.lists.files
        self.travel = TimeTravel(projection, overhead, window)
        self.timeline = TimelinePanel(self._timeline_picked)
        self._shows_timeline: bool | None = None
        basis = edit_hints.SizeBasis(overhead, threshold)
        self._edit_hints = (
            edit_hints.HintWorker(self, basis, self.describe) if live else None
        )
        self.activity = activity
        self._open_child = open_child
        self._use_now = use_now
        self._use = self.travel.use(projection)
        """The use of the window at the displayed point. Only updated while items are listed by size."""
        self._use_heading = TextLines(id="heading")
        self._use_panel = Panel(
            EntryList(id="use"), title="1 Use", above=self._use_heading
        )
        self._window = TextLines(id="window")
        self._legend = LineWidget("legend")
        self._legend.show(legend)
        self._comparisons: list[Viewpoint] = []
        """The comparisons that the user can step through."""
        self._before_comparison = PanelState()
        self.head: Callable[[InspectorPanels, int], Sequence[Span]] | None = None
        """Returns the header above the panels for a given width; None if there is no header."""
        self.close: Callable[[], object] = lambda: None
        """Closes the Inspector."""
        self.maximise: Callable[[], object] = lambda: None
        """Switches between full screen and docked."""
        self._header = LineWidget("header")
        self._place_cursor: Callable[[], object] = lambda: None
        """Moves the cursor as soon as the selected point in history is displayed."""
        self._entered: int | None = None
        """The panel that was focused when the Inspector was entered.

        In the docked Inspector, Tab closes the Inspector instead of returning to this panel.
        """

    def compose(self) -> ComposeResult:
        if self.head is not None:
            yield self._header
        yield self._window
        with self.side_by_side:
            yield self._use_panel
            yield from self.lists.panels
        yield self.timeline
        yield self._legend
        yield from self.foot()

    def on_mount(self) -> None:
        self.lay_out()
        self._rebuild()
        self.enter()
        self.call_after_refresh(self._show_timeline)

    def on_unmount(self) -> None:
        """Free everything that grows with the history. `BlockView.on_unmount` explains why."""
        self.travel.past.forget()
        self.lists.projection = self.travel.now
        for table in self.lists.tables:
            table.forget()

    # --- For the owner --------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The history in the state that the panels show."""
        return self.lists.projection

    @property
    def live(self) -> bool:
        """Whether the view can be edited now.

        It cannot be edited while an earlier state is displayed.
        """
        return self._edit_hints is not None and self.travel.is_now

    @property
    def has_hints(self) -> bool:
        """Whether the view can be edited while its current state is displayed."""
        return self._edit_hints is not None

    @property
    def has_edit_hints(self) -> bool:
        """Whether the effects of the edit keys have been computed for the cursor position."""
        return self._edit_hints is not None and self._edit_hints.is_ready

    @property
    def _index(self) -> int:
        """Index of the entry selected in all panels; negative without a selection."""
        return -1 if self.lists.link is None else self.lists.link.index

    def enter(self) -> None:
        """Focus the panel that had the focus last."""
        self._entered = self.active
        super().enter()

    def set_activity(self, activity: str, threshold: int | None) -> None:
        """Set the agent's activity and, if known, the threshold.

        The change becomes visible with the next `refresh_from`.
        """
        self.activity = activity
        if self._edit_hints is not None and threshold is not None:
            self._edit_hints.basis = replace(
                self._edit_hints.basis, threshold=threshold
            )

    def set_price(self, dollars: float | None) -> None:
        """Set the price of a request in dollars per token.

        None means that the price is unknown.
        """
        if self._edit_hints is not None:
            self._edit_hints.basis = replace(self._edit_hints.basis, price=dollars)

    def refresh_from(self, projection: Projection) -> None:
        """Show new entries, unless the panels show an earlier state."""
        if projection is not self.travel.now:
            self.travel.begin(projection)
            self.lists.projection = projection
            self.lists.link = None
            self._rebuild()
        elif self.travel.is_now:
            self._grow()
        self._show_timeline()

    def reveal(self, index: int) -> None:
        """Go to an entry in History, even if its row has not been built yet."""
        self._go_to_history()
        key = row_key(self.history.row_index(index))
        if self.history.missing and not self.history.view.holds(key):
            self.run_worker(
                self._reveal_when_filled(index), group="reveal", exclusive=True
            )
            return
        self.history.view.cursor_to(key, quiet=True)
        self.relink()
        self.describe()

    async def _reveal_when_filled(self, index: int) -> None:
        while self.history.missing:  # another build may stop this one
            await self.history.fill()
        if self.history.view.holds(row_key(self.history.row_index(index))):
            self.reveal(index)

    # --- Content --------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        """Rebuild both lists: the last rows immediately, earlier rows in slices."""
        self.lists.begin(self.projection)
        self._fill_later()
        self._show_use()
        self.describe()

    def _grow(self) -> None:
        if self.lists.grow(self.active):
            self._fill_later()
        self._show_use()
        self.describe()

    def _fill_later(self) -> None:
        if self.history.missing or self.view.missing:
            self.run_worker(self._fill(), group="fill", exclusive=True)

    async def _fill(self) -> None:
        for table in self.lists.tables:
            await table.fill()
        self._rows_changed()

    def _rows_changed(self) -> None:
        """Update the counterparts of the cursor after rows have changed."""
        self.lists.relink(self.active, scroll=False)
        self.describe()

    def _uses_found(self) -> None:
        """Mark the ledger lines that have been found to be used."""
        for table in self.lists.tables:
            table.view.refresh()
        self.describe()

    def relink(self) -> None:
        if self.active_view is not self._use_panel.view:
            self.lists.link_here(self.active)

    @property
    def _table(self) -> RowTable | None:
        """The rows of the active panel if it shows entries or items."""
        tables = (
            table for table in self.lists.tables if table.view is self.active_view
        )
        return next(tables, None)

    # --- Modes ----------------------------------------------------------------------------------------

    @property
    def by_size(self) -> bool:
        """Whether the items are listed by size, next to the panel with the window's usage."""
        return self.view.by_size

    @property
    def comparing(self) -> bool:
        """Whether the differences between two views are shown."""
        return self.travel.chosen.before is not None

    def show_by_size(self, by_size: bool = True) -> None:
        """List the items by size, beside the use of the window, or all entries in order."""
        if by_size == self.by_size:
            return
        self._set_by_size(by_size)
        if by_size:
            self._place_cursor = self._to_first_item
        self.travel.chosen = Viewpoint(self.travel.moment)
        panel = self.active
        if by_size:
            narrow = self.room.width < MEDIUM or self.one_at_a_time
            panel = HISTORY if narrow else VIEW
        self.go(panel)
        self._show_chosen()

    def _set_by_size(self, by_size: bool) -> None:
        if by_size != self.by_size and self.active == HISTORY:
            self.active_view.give_cursor()
        self.view.by_size = by_size
        first = self._use_panel if by_size else self.lists.panels[HISTORY]
        self.panels = (first, *self.lists.panels[1:])
        self._show_use()

    def _show_use(self) -> None:
        """Update the use of the window, if it is displayed."""
        if not self.by_size:
            return
        if self._use_now is not None and self.travel.is_now:
            self._use = self._use_now()
        else:
            self._use = self.travel.use(self.projection)
        self._use_panel.view.set_blocks(use_rows(self._use))

    def _compare(self) -> None:
        """Show the differences between two views, or the next such comparison."""
        travel = self.travel
        chosen = travel.chosen
        number = 0
        if self.comparing:
            number = self._comparisons.index(chosen) + 1
        else:
            self._comparisons = comparisons(
                travel.now, travel.moment, travel.marked, self._compaction_at_cursor
            )
            self._before_comparison = self.state
        if not self._comparisons:
            self.status_note = NOTHING_TO_COMPARE
            return
        self._set_by_size(False)
        self._place_cursor = self._to_first_item
        self.go(VIEW)
        self.choose(self._comparisons[number % len(self._comparisons)])

    @property
    def _compaction_at_cursor(self) -> int | None:
        index = self._index
        if self._table is None or index < 0:
            return None
        return index if isinstance(self.projection.entry(index), Compaction) else None

    def _go_to_history(self) -> None:
        self.show_by_size(False)
        self.go(HISTORY)

    # --- Panels and focus -----------------------------------------------------------------------------

    @property
    def room(self) -> Space:
        """Available columns and rows.

        Before the first layout, this is the expected size, which makes a second layout unnecessary.
        """
        width, height = self.size
        if not self.size:
            width, height = self.app.size
            if self.one_at_a_time:
                width -= CHAT_COLUMNS
        if self.head is not None:
            height -= 1
        return Space(width, max(height, 0))

    def lay_out(self) -> None:
        width, height = self.room
        alone = self.one_at_a_time or self.comparing
        shown = panels_at(width, self.active, alone=alone)
        self._files.lay_out(files_width(width) if len(shown) > 1 else None, height)
        self._use_panel.styles.width = USE_WIDTH if len(shown) > 1 else "1fr"
        for panel in (self._use_panel, self.lists.panels[HISTORY]):
            panel.display = False
        self._window.display = self.by_size
        self._legend.display = height >= _ALL_ROWS
        self._window.styles.height = 3 if height >= _ALL_ROWS else 1
        self.show_panels(*shown)
        self._lay_out_timeline()

    def _lay_out_timeline(self) -> None:
        """Show the timeline if the user wants it, or otherwise if there are enough rows."""
        height = self.room.height
        shows = self._shows_timeline
        if shows is None:
            shows = height >= TALL and not self.one_at_a_time
        self.timeline.display = shows
        self.timeline.styles.height = rows_for(height) + 2

    def _toggle_timeline(self) -> None:
        self._shows_timeline = not self.timeline.display
        self.lay_out()
        self.call_after_refresh(self._show_timeline)

    def take_over(self, number: int) -> None:
        super().take_over(number)
        if self.active_view.cursor != self.lists.counterpart(number):
            self.relink()

    def _to_panel(self, step: int) -> None:
        """Go to the next or previous panel.

        The docked Inspector closes once all panels have been visited.
        """
        number = (self.active + step) % len(self.panels)
        if self.one_at_a_time and number == self._entered:
            self.close()
        else:
            self.go(number)

    # --- Earlier states -------------------------------------------------------------------------------

    def go_to(self, moment: Moment | None) -> None:
        """Show another point in history, or the current state."""
        self.choose(Viewpoint(moment))

    def choose(self, viewpoint: Viewpoint) -> None:
        """Show the history from another viewpoint.

        The timeline changes immediately. The panels follow once the history has been replayed.
        """
        if viewpoint != self.travel.chosen:
            self.travel.chosen = viewpoint
            self.status_note = ""
            self._show_chosen()

    def _show_chosen(self) -> None:
        self._show_timeline()
        self.lay_out()
        self.workers.cancel_group(self, "fill")
        # Pass the function, because a coroutine would never be awaited if the worker is cancelled at once.
        _: Worker[None] = self.run_worker(self._turn, group="moment", exclusive=True)

    async def _turn(self) -> None:
        """Show the selected point in history.

        If the user selects another point, this task is cancelled.
        """
        travel = self.travel
        chosen = travel.chosen
        moment = chosen.moment
        with without_gc():
            before = None
            if chosen.before is not None:
                before = await travel.past.at(chosen.before)
            then = travel.now if moment is None else await travel.past.at(moment)
            await self.lists.show_history(then, before)
            travel.shown = chosen
            if moment is None:
                self._grow()  # entries may have been added in the meantime
            self._show_use()
            place_cursor, self._place_cursor = self._place_cursor, lambda: None
            place_cursor()
            self.relink()
            self.describe()
            self._show_timeline()
            if moment is not None:
                await travel.past.check(moment, then)
                self._show_timeline()

    def _to_first_item(self) -> None:
        view = self.view.view
        view.action_home()
        first = view.next_where(None, 1, lambda row: isinstance(row, ItemRow))
        if first is not None:
            view.cursor_to(first, quiet=True)

    def _reveal_there(self, index: int) -> None:
        """Go to an entry as soon as the selected point in history is shown."""
        if self.travel.settled:
            self.reveal(index)
        else:
            self._place_cursor = partial(self.reveal, index)

    def go_by(self, command: str) -> None:
        """Run a timeline command."""
        if command == "first-entry":
            index = first_entry(self.travel.now, self.travel.moment)
            if index is None:
                self.status_note = NOTHING_ADDED
            else:
                self._reveal_there(index)
            return
        moment = self.travel.step(command)
        if isinstance(moment, str):
            self.status_note = moment
        else:
            self.go_to(moment)

    def _timeline_picked(self, slot: int) -> None:
        moment = self.travel.request(slot + 1)
        if not isinstance(moment, str):
            self.go_to(moment)

    def _show_timeline(self) -> None:
        if self.is_mounted:
            self.timeline.show(self.travel.timeline(self.projection, self.activity))
        if self.travel.moment is not None:
            self.describe()

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self) -> None:
        if self.head is not None:
            self._header.show(partial(self.head, self))
        link = self.lists.link
        key = None if link is None else link.key
        focused = self.active
        as_of = self.travel.shown.as_of
        weight = self.travel.weight(self.projection)
        history, view, files = self.lists.panels
        history.head(self.history.head(as_of))
        view.head(*self._view_head(weight))
        files.head(str(len(self._files.table.by_path)))
        history.foot(*(self.history.foot(key) if focused == HISTORY else ("", "")))
        from_history = link is not None and link.source == HISTORY
        view.foot(
            *self.view.foot(
                key, weight, active=focused == VIEW, from_history=from_history
            )
        )
        files.foot(JUMPS_TO_ACCESS if focused == FILES else "")
        self._files.show_touches(link.index if link is not None else None)
        if self.by_size:
            self._window.show(*window_rows(self._use, self.room.width))
            width = self._use_panel.size.width or USE_WIDTH
            self._use_heading.show(use_heading(width - 2))
            self._use_panel.head("~ estimated")
            self._use_panel.foot(SHOWS_LARGEST if focused == HISTORY else "")

    def _view_head(self, weight: Size) -> tuple[str, str]:
        """Return the remark and the title of the LLM view."""
        shown = self.travel.shown
        difference = self.view.difference
        if shown.before is None or difference is None:
            return self.view.head(weight, shown.as_of)
        before = self.travel.size_of(shown.before, difference.before)
        sizes = f"{size_words(before)} → {size_words(weight)}"
        return sizes, f"2 LLM view: {shown.title(self.travel.now)}"

    def hint_pairs(self) -> list[tuple[str, str]]:
        index = self._index
        idle: set[str] = set()
        if index < 0 or compaction_of(self.projection, index) is None:
            idle.add("compaction")
        if index < 0 or started_by(self.projection, index) is None:
            idle.add("subagent")
        return hints(
            self.esc_words(),
            live=self.live,
            past=self.travel.moment is not None,
            idle=idle,
        )

    def esc_words(self) -> str:
        if self.searching:
            return "end search"
        if self.lists.picked:
            return "unmark"
        if self.comparing:
            return "end comparison"
        return "to the prompt" if self.one_at_a_time else "close"

    def status_row(self, width: int) -> list[Span]:
        needs_words = self.timeline.display and not self.timeline.shows_words
        if self.travel.moment is not None and needs_words:
            return self._timeline_row(width)
        if self.by_size and self.active == HISTORY:
            about = self._use_row.about if self._use_row is not None else ""
            return row([piece(about, cut="right")], [], width)
        if self.active == FILES:
            file = self._files.file
            words = ""
            if file is not None:
                accesses = many(len(file.touches), "access", "accesses")
                words = f"{file.words()} · {accesses}"
            return row([piece(words, cut="left")], [], width)
        uses = ""
        if self._index >= 0:
            uses = self.lists.uses.look_at(self.projection, self._index).words
        link = self.lists.link
        if self._edit_hints is None or not self.live:
            cursor = self.active_view.cursor
            return (
                []
                if link is None
                else entry_row(self.projection, link.key, cursor, width, uses)
            )
        index = None if link is None else link.index
        picked = self._picked
        hints = self._edit_hints.at(self.projection, picked or index)
        if hints is None:
            hints = edit_hints.EditHints(index, picked=picked)
        later = bool(self.activity)
        return edit_hints.edit_row(
            self.projection, hints, self.key, later=later, width=width, more=uses
        )

    @property
    def _use_row(self) -> UseRow | None:
        """The category at the cursor of the Use panel, if there is one."""
        block = self._use_panel.view.block(self._use_panel.view.cursor or (-1, 0))
        return block if isinstance(block, UseRow) else None

    def _timeline_row(self, width: int) -> list[Span]:
        words = self.timeline.data.words
        _, weight, *more = words
        pieces = [RowPiece(weight)]
        if more:
            pieces.append(RowPiece(more[-1], cut="right"))
        return row(pieces, [], width)

    @property
    def _picked(self) -> tuple[int, ...]:
        """Indices of the marked entries, in order."""
        return tuple(sorted(self.lists.picked))

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def key_state(self) -> bool:
        return self.live

    def action_inspect(self, command: str) -> None:
        """Run a command from the key table."""
        if (
            self._table is None
            and command.startswith(("older-", "newer-"))
            and command not in _STEPS
        ):
            self.status_note = NO_ENTRIES_HERE.format(key=self.key("panel-2"))
        elif command in _STEPS or command == "first-entry":
            self.go_by(command)
        else:
            self.act(command)
        self.describe()

    def act(self, command: str) -> None:
        match command:
            case "next-panel" | "previous-panel":
                self._to_panel(1 if command == "next-panel" else -1)
            case "older-compaction" | "newer-compaction":
                self.to_next(
                    1 if command == "newer-compaction" else -1,
                    is_compaction,
                    "compaction",
                )
            case "pin" | "hide" | "drop" | "restore":
                self._edit(command)
            case _ if command in self._actions:
                self._actions[command]()
            case _:
                super().act(command)

    @property
    def _actions(self) -> dict[str, Callable[[], object]]:
        """The commands that are specific to the Inspector, with their actions."""
        return {
            "timeline": self._toggle_timeline,
            "compaction": self._to_compaction,
            "subagent": self._to_subagent,
            "diff": self._compare,
            "by-size": lambda: self.show_by_size(not self.by_size),
            "notes": self._toggle_notes,
            "mark": self._mark,
            "copy": self._copy,
            "undo": self._undo,
            "maximise": self.maximise,
        }

    def is_prompt(self, block: Block) -> bool:
        return is_prompt(block)

    @on(BlockView.BlockOpened)
    def _opened(self, event: BlockView.BlockOpened) -> None:
        event.stop()
        self.status_note = ""
        block = event.view.block(event.key)
        if isinstance(block, FileBlock):
            self.lists.jump_to_touch(block, self.active)
        elif isinstance(block, UseRow):
            self._to_largest(block)
        elif isinstance(self.projection.outline(event.key[0]), Subagent):
            self._to_subagent()
        elif self._table is not None:
            self._table.toggle(event.key)
        self.describe()

    def _to_largest(self, use: UseRow) -> None:
        """Go to the largest item of a category."""
        category = use.category
        item = None if category is None else self.view.largest(category)
        if item is None:
            self.status_note = NOT_LISTED.format(category=use.name)
            return
        self.go(VIEW)
        self.active_view.cursor_to(row_key(*item.key))

    def _to_compaction(self) -> None:
        """Go to the compaction of the entry at the cursor, or from a compaction back to the entry."""
        index = self._index
        if index < 0:
            return
        counterpart = self.lists.compaction_counterpart(index)
        if counterpart is None:
            if compaction_of(self.projection, index) == index:
                self.status_note = COVERS_NOTHING.format(index=index)
            else:
                self.status_note = NOT_COMPACTED.format(index=index)
            return
        self._go_to_history()
        self.history.view.cursor_to(row_key(self.history.row_index(counterpart)))
        self.relink()

    def _to_subagent(self) -> None:
        """Open the session of the subagent at the cursor, if there is one."""
        started = None
        if self._index >= 0 and self._table is not None:
            started = started_by(self.projection, self._index)
        if started is None:
            self.status_note = NO_SUBAGENT
        elif self._open_child is None:
            self.status_note = NO_CHILD_SESSION
        else:
            self._open_child(started)

    def _edit(self, key: edit_hints.EditKey) -> None:
        """Request an edit of the marked entries.

        If none are marked, the edit applies to the entry at the cursor.
        """
        if not self.live:
            self.status_note = self._why_not_live()
            return
        if self._table is None:
            self.status_note = NO_ENTRIES_HERE.format(key=self.key("panel-2"))
            return
        picked = self._picked
        later = bool(self.activity)
        request = edit_hints.edit(
            self.projection, picked or self._index, key, self.key, later=later
        )
        if picked and request.messages:
            self.lists.pick(set())
        self.ask_for(request)

    def _undo(self) -> None:
        if self.live:
            self.ask_for(edit_hints.undo(self.projection, later=bool(self.activity)))
        else:
            self.status_note = self._why_not_live()

    def _why_not_live(self) -> str:
        moment = self.travel.moment
        if moment is None:
            return READ_ONLY
        return NOT_LIVE.format(moment=moment.name, key=self.key("now"))

    def _mark(self) -> None:
        """Mark or unmark the entry at the cursor or, in an earlier state, the displayed request."""
        index = self._index
        if self.travel.moment is not None:
            self.status_note = self.travel.mark()
            self._show_timeline()
        elif not self.live:
            self.status_note = self._why_not_live()
        elif (
            self._table is None
            or index < 0
            or not edit_hints.may_edit(self.projection, index)
        ):
            self.status_note = NOTHING_TO_MARK
        else:
            self.lists.pick(self.lists.picked ^ {index})

    def _copy(self) -> None:
        """Copy the text of the entry at the cursor to the clipboard."""
        view = self.active_view
        key = view.cursor or view.counterpart
        if key is not None and self._table is not None:
            key = row_of(key)
        block = None if key is None else view.block(key)
        text = "" if block is None else block.text()
        if not text:
            self.status_note = NOTHING_TO_COPY
            return
        failure = copy(self.app, text)
        self.status_note = COPIED.format(
            count=many(len(text), "character"),
            failure=f": {failure}" if failure else "",
        )

    def leave(self) -> None:
        if self.lists.picked:
            self.lists.pick(set())
        elif self.comparing:
            self.restore(self._before_comparison)
        else:
            self.close()

    # --- Search ---------------------------------------------------------------------------------------

    @property
    def search_words(self) -> str:
        return self.needle if self._table is None else parse_search(self.needle).text

    def search_text(self, block: Block) -> str | None:
        table = self._table
        if table is None:
            return block.text()
        query = parse_search(self.needle)
        if query.terms:
            index = block.key[0]
            properties = properties_of(self.projection, index, self.view.new_from)
            is_below_row = block.key != row_of(block.key)
            if not query.admits(properties) or (is_below_row and not query.text):
                return None
        # The text of an expanded entry is in the blocks below its row.
        is_text_elsewhere = not query.text or block.key in table.opened
        return "" if is_text_elsewhere else block.text()

    def match_words(self, key: Key) -> str:
        return f" in {key[0]}" if self._table is not None and key[0] >= 0 else ""

    def _toggle_notes(self) -> None:
        """Show or hide the system notes in History."""
        self.history.shows_notes = not self.history.shows_notes
        self.history.missing = len(self.history)
        self._fill_later()

    # --- From one Inspector to another ----------------------------------------------------------------

    @property
    def state(self) -> PanelState:
        """The state that can be restored here, or in another Inspector."""
        return PanelState(
            viewpoint=self.travel.chosen,
            by_size=self.by_size,
            shows_notes=self.history.shows_notes,
            active=self.active,
            timeline=self._shows_timeline,
            needle=self.needle,
            picked=frozenset(self.lists.picked),
            opened=tuple(frozenset(table.opened) for table in self.lists.tables),
            scrolls=tuple(ScrollPosition.of(panel.view) for panel in self.lists.panels),
        )

    def restore(self, state: PanelState) -> None:
        """Restore an earlier state, or that of another Inspector."""
        self._set_by_size(state.by_size)
        self._shows_timeline = state.timeline
        self.history.shows_notes = state.shows_notes
        self.lists.picked = set(state.picked)
        self.needle = state.needle
        for table, opened in zip(self.lists.tables, state.opened, strict=True):
            table.opened = set(opened)
        self.go(state.active)
        self._place_cursor = partial(self._restore_places, state)
        self.travel.chosen = state.viewpoint
        self._show_chosen()

    def _restore_places(self, state: PanelState) -> None:
        for panel, scroll in zip(self.lists.panels, state.scrolls, strict=True):
            scroll.restore(panel.view)
        self.active_view.set_search(self.search_words)
