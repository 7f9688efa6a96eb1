"""History, LLM view, Files and Timeline as one widget, with their keys."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Unpack

from textual import on
from textual.app import ComposeResult
from textual.geometry import Size as Space
from textual.timer import Timer

from foldline.past.subagents import started_by
from foldline.protocol import Subagent
from foldline.text.numbers import many
from foldline.tui.blocks.view import BlockView
from foldline.tui.browser.dock import CHAT_COLUMNS
from foldline.tui.browser.draft.mode import AFTER_DRAFT, DraftMode
from foldline.tui.browser.draft.rows import ProposedView
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.draft.words import bar_rows
from foldline.tui.browser.inspector.entry_panels import (
    NO_ENTRIES_HERE,
    READ_ONLY,
    PanelOptions,
)
from foldline.tui.browser.inspector.files import FileBlock
from foldline.tui.browser.inspector.link import (
    FILES,
    HISTORY,
    MEDIUM,
    VIEW,
    files_width,
    legend,
    panels_at,
)
from foldline.tui.browser.inspector.panel_state import PanelState
from foldline.tui.browser.inspector.sizes import (
    USE_WIDTH,
    UsePanel,
    UseRow,
    WindowUse,
    window_rows,
)
from foldline.tui.browser.inspector.time_panels import TimePanels
from foldline.tui.browser.inspector.time_travel import (
    PROPOSED,
    Viewpoint,
    comparisons,
)
from foldline.tui.browser.keys import AUDIT, DRAFT, KEYS, KeyState, hints
from foldline.tui.browser.panels.entry_list import (
    EntryList,
    ScrollPosition,
    row_key,
)
from foldline.tui.browser.panels.entry_rows import (
    is_compaction,
)
from foldline.tui.browser.panels.frame import Panel, TextLines
from foldline.tui.browser.panels.states import compaction_of
from foldline.tui.keys.bindings import bindings
from foldline.tui.look.cells import Span, piece, row
from foldline.tui.look.lines import LineWidget
from foldline.view.projection import Projection

_STEPS: Final = frozenset(
    {"older-request", "newer-request", "before-compaction", "after-compaction", "now"}
)

NOTHING_TO_COMPARE: Final = "There is no earlier request to compare with."
NOT_LISTED: Final = "The view has no items of the category {category}."
_ALL_ROWS: Final = 18
"""Minimum height, in rows, at which the legend, and the rows about compactions, are shown."""


class InspectorPanels(TimePanels):
    """The Inspector's panels, docked beside the chat or on their own screen.

    The owner calls `refresh_from` after events.
    """

    KEYS = KEYS
    BINDINGS = bindings(KEYS, "inspect")

    def __init__(
        self,
        projection: Projection,
        *,
        use_now: Callable[[], WindowUse] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[PanelOptions],
    ) -> None:
        """Create the panels.

        Args:
            use_now: returns the use of the agent's window; None if there is no agent.
            clock: returns the time in seconds.
            options: those of `EntryPanels`.
        """
        super().__init__(projection, **options)
        self.kept_hint = "now"
        self.draft = DraftMode(self, self.view.view, self.view.show_proposed, clock)
        """The draft that `show_draft` shows."""
        self.open_draft: Callable[[], object] | None = None
        """Shows the draft, or starts one; None if there is no agent."""
        self._seconds: Timer | None = None
        self._use_now = use_now
        self.use = UsePanel(self.travel.use(projection))
        self._window = TextLines(id="window")
        self._legend = LineWidget("legend")
        self._legend.show(legend)
        self._comparisons: list[Viewpoint] = []
        """The comparisons that the user can step through."""
        self._before_comparison = PanelState()
        self._back: PanelState | None = None
        """The state to which Esc returns, from a comparison or from the entry of a draft."""
        self.head: Callable[[InspectorPanels, int], Sequence[Span]] | None = None
        """Returns the header above the panels for a given width; None if there is no header."""
        self.close: Callable[[], object] = lambda: None
        """Closes the Inspector."""
        self.maximise: Callable[[], object] = lambda: None
        """Switches between full screen and docked."""
        self._header = LineWidget("header")
        self._entered: int | None = None
        """The panel that was focused when the Inspector was entered.

        In the docked Inspector, Tab closes the Inspector instead of returning to this panel.
        """

    def compose(self) -> ComposeResult:
        if self.head is not None:
            yield self._header
        yield self._window
        with self.side_by_side:
            yield self.use
            yield from self.lists.panels
            yield self.draft.panel
        yield self.draft.audit
        yield self.timeline
        yield self._legend
        yield from self.foot()

    def on_mount(self) -> None:
        self._seconds = self.set_interval(1.0, self.describe, pause=True)
        self.lay_out()
        if self.in_draft:
            self._show_draft(self.draft.state)
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

    def enter(self) -> None:
        """Focus the panel that had the focus last."""
        self._entered = self.active
        super().enter()

    @property
    def proposed(self) -> ProposedView | None:
        return self.draft.view if self.in_draft else None

    def relink(self) -> None:
        if self.in_draft:
            self.draft.relink()
        elif self.active_view is not self.use.view:
            self.lists.link_here(self.active)

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
        if by_size == self.by_size and not self.in_draft:
            return
        self.set_mode(Viewpoint(self.travel.moment), by_size)
        panel = self.active
        if by_size:
            self._place_cursor = self._to_first_item
            narrow = self.room.width < MEDIUM
            panel = HISTORY if narrow else VIEW
        self.go(panel)
        self._show_chosen()

    def show_draft(self, state: DraftState) -> None:
        """Show a draft, or its new state if it is already shown."""
        was_shown = self.in_draft
        if not was_shown:
            self.set_mode(PROPOSED)
            self.draft.forget_rows()
        if self.is_mounted:
            self._show_draft(state)
        else:
            self.draft.state = state
            self.travel.shown = PROPOSED
        if not was_shown and self.is_mounted:
            self._place_cursor = self.draft.start_at_cut
            self.enter()
            self._show_chosen()

    def set_mode(self, viewpoint: Viewpoint, by_size: bool = False) -> None:
        self._back = None
        history, view, files = self.lists.panels
        first = self.use if by_size else history
        panels: tuple[Panel, ...] = (first, view, files)
        if viewpoint.draft:
            panels = (view, self.draft.panel, self.draft.audit)
        self.travel.chosen = viewpoint
        self.kept_hint = "panel" if viewpoint.draft else "now"
        if self._seconds is not None:
            self._seconds.pause()
        if panels != self.panels:
            shown = self.panels[self.active]
            is_kept = shown in panels
            if not is_kept:
                shown.view.give_cursor()
                shown.view.set_search("")
            self.panels = panels
            self.active = panels.index(shown) if is_kept else 0
        self.view.by_size = by_size
        self.show_use()

    def show_use(self) -> None:
        """Update the use of the window, if it is displayed."""
        if not self.by_size:
            return
        if self._use_now is not None and self.travel.is_now:
            self.use.show(self._use_now())
        else:
            self.use.show(self.travel.use(self.projection))

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
        comparison = self._comparisons[number % len(self._comparisons)]
        self.set_mode(comparison)
        self._back = self._before_comparison
        self._place_cursor = self._to_first_item
        self.status_note = ""
        self.go(VIEW)
        self._show_chosen()

    @property
    def _all_panels(self) -> tuple[Panel, ...]:
        draft = self.draft
        return (self.use, *self.lists.panels, draft.panel, draft.audit)

    def _show_draft(self, state: DraftState) -> None:
        """Show a state of the draft, and count the seconds while it is being written."""
        self.draft.show(state)
        assert self._seconds is not None, "mounted"
        if state.drafting is not None:
            self._seconds.resume()
        else:
            self._seconds.pause()

    def _toggle_draft(self) -> None:
        """Close the draft and keep the proposal, or show it."""
        if self.in_draft:
            self.leave()
        elif self.open_draft is not None:
            self.open_draft()
        else:
            self.status_note = READ_ONLY

    def _to_entries(self) -> None:
        """Show the entries in order or, if they are already shown, close the Inspector."""
        if self.in_draft or self.by_size:
            self.go_to_history()
        else:
            self.close()

    def _to_draft_entry(self) -> None:
        """Show the entry at the cursor of a draft in History. Esc returns to the draft."""
        index = self.draft.entry
        if index is not None:
            back = self.state
            self.go_to_history()
            self._back = back
            self._reveal_there(index)

    def go_to_history(self) -> None:
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
            if self.is_docked:
                width -= CHAT_COLUMNS
        if self.head is not None:
            height -= 1
        return Space(width, max(height, 0))

    def lay_out(self) -> None:
        width, height = self.room
        has_room = height >= _ALL_ROWS
        self._legend.display = has_room
        self._window.display = self.by_size or (self.in_draft and has_room)
        self._window.styles.height = 3 if has_room else 1
        if self.in_draft:
            self._window.styles.height = 2
            shown = self.draft.panels_at(width, height)
            shares_height = AUDIT in shown and len(shown) > 1
            self.side_by_side.display = shown != (AUDIT,)
            self.draft.audit.styles.height = (
                max(8, height // 4) if shares_height else "1fr"
            )
        else:
            shown = panels_at(width, self.active, alone=self.comparing)
            self.side_by_side.display = True
            self._files.lay_out(files_width(width) if len(shown) > 1 else None, height)
            self.use.styles.width = USE_WIDTH if len(shown) > 1 else "1fr"
        for panel in self._all_panels:
            if panel not in self.panels:
                panel.display = False
        self.show_panels(*shown)
        self._lay_out_timeline()

    def take_over(self, number: int) -> None:
        super().take_over(number)
        if self.in_draft:
            self.draft.relink()
        elif self.active_view.cursor != self.lists.counterpart(number):
            self.relink()

    def _to_panel(self, step: int) -> None:
        """Go to the next or previous panel.

        The docked Inspector closes once all panels have been visited.
        """
        number = (self.active + step) % len(self.panels)
        if self.is_docked and number == self._entered:
            self.close()
        else:
            self.go(number)

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self) -> None:
        if self.head is not None:
            self._header.show(partial(self.head, self))
        if self.in_draft:
            draft = self.draft
            rows = bar_rows(draft.state, draft.forecast, self.room.width)
            self._window.show(*rows)
            draft.describe_panels(self.lists.panels[VIEW])
            return
        self.describe_lists()
        if self.by_size:
            self._window.show(*window_rows(self.use.shown, self.room.width))
            self.use.describe(is_active=self.active == HISTORY)

    def hint_pairs(self) -> Sequence[tuple[str, str]]:
        pairs = (self.draft.hint_pairs() if self.in_draft else ()) or self._hints()
        return [
            (keys, self.esc_words() if word == "close" else word)
            for keys, word in pairs
        ]

    def _hints(self) -> list[tuple[str, str]]:
        index = self._index
        idle: set[str] = set()
        if index < 0 or compaction_of(self.projection, index) is None:
            idle.add("compaction")
        if index < 0 or started_by(self.projection, index) is None:
            idle.add("subagent")
        past = self.travel.moment is not None
        return hints(self.key_state, past=past, idle=idle)

    def esc_words(self) -> str:
        if self.searching:
            return "end search"
        if self.in_draft:
            return self.draft.esc_words()
        if self.lists.picked:
            return "unmark"
        if self.comparing:
            return "end comparison"
        if self._back is not None:
            return "back to the draft"
        return "to the prompt" if self.is_docked else "close"

    def clear_status_note(self) -> None:
        """Clear the note, unless it is an error that occurred during the current draft."""
        is_drafting = self.in_draft and self.draft.state.drafting is not None
        self.status_note = self.draft.state.error if is_drafting else ""

    def show_place(self, view: EntryList) -> None:
        if self.in_draft:
            view.fill()
        super().show_place(view)

    def has_cursor(self, number: int) -> bool:
        """Whether the shared cursor can be in this panel.

        It cannot be in the text of a draft, because its lines are not entries.
        """
        return not (self.in_draft and number == DRAFT)

    def status_row(self, width: int) -> list[Span]:
        if self.in_draft:
            return self.draft.status_row(width)
        needs_words = self.timeline.display and not self.timeline.shows_words
        if self.travel.moment is not None and needs_words:
            return self._timeline_row(width)
        if self.by_size and self.active == HISTORY:
            return row([piece(self.use.about, cut="right")], [], width)
        if self.active == FILES:
            file = self._files.file
            words = ""
            if file is not None:
                accesses = many(len(file.touches), "access", "accesses")
                words = f"{file.words()} · {accesses}"
            return row([piece(words, cut="left")], [], width)
        return self.entry_status(width)

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def key_state(self) -> KeyState:
        return self.draft.key_state if self.in_draft else KeyState(live=self.live)

    def action_inspect(self, command: str) -> None:
        """Run a command from the key table."""
        if self.in_draft:
            self._act_in_draft(command)
        elif (
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

    def _act_in_draft(self, command: str) -> None:
        if not self.works_now(command) and command != "apply":
            if self.draft.state.drafting is not None:
                self.status_note = AFTER_DRAFT
            return
        self.status_note = ""
        own = self.draft.actions.get(command)
        if own is None:
            self.act(command)
        else:
            own()

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
            "subagent": self._to_draft_entry if self.in_draft else self._to_subagent,
            "draft": self._toggle_draft,
            "entries": self._to_entries,
            "diff": self._compare,
            "by-size": lambda: self.show_by_size(not self.by_size),
            "notes": self._toggle_notes,
            "mark": self._mark,
            "copy": self._copy,
            "undo": self._undo,
            "maximise": self.maximise,
        }

    @on(BlockView.BlockOpened)
    def _opened(self, event: BlockView.BlockOpened) -> None:
        event.stop()
        self.status_note = ""
        block = event.view.block(event.key)
        if self.in_draft:
            self.draft.open()
        elif isinstance(block, FileBlock):
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

    def leave(self) -> None:
        if self.in_draft and self.draft.cancel():
            return
        if self.lists.picked:
            self.lists.pick(set())
        elif self._back is not None:
            self.restore(self._back)
        else:
            self.close()

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
        self.set_mode(state.viewpoint, state.by_size)
        self._shows_timeline = state.timeline
        self.history.shows_notes = state.shows_notes
        self.lists.picked = set(state.picked)
        self.needle = state.needle
        for table, opened in zip(self.lists.tables, state.opened, strict=True):
            table.opened = set(opened)
        self.go(state.active)
        self._place_cursor = partial(self._restore_places, state)
        self._show_chosen()

    def _restore_places(self, state: PanelState) -> None:
        for panel, scroll in zip(self.lists.panels, state.scrolls, strict=True):
            scroll.restore(panel.view)
        self.active_view.set_search(self.search_words)
