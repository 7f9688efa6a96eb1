"""Panels that show entries, with the commands on the entry at the cursor and the search by properties."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypedDict

from foldline.past.subagents import started_by
from foldline.protocol import Compaction, Subagent
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.browser.inspector.ledger_uses import LedgerUses
from foldline.tui.browser.inspector.link import VIEW, LinkedLists
from foldline.tui.browser.inspector.search import parse_search, properties_of
from foldline.tui.browser.inspector.tables import RowTable
from foldline.tui.browser.inspector.time_travel import TimeTravel
from foldline.tui.browser.panels import edit_hints, entry_rows, status_rows
from foldline.tui.browser.panels.entry_list import row_key, row_of
from foldline.tui.browser.panels.states import compaction_of
from foldline.tui.browser.panels.workbench import Workbench
from foldline.tui.look.cells import Span
from foldline.tui.terminal.clipboard import copy
from foldline.view.projection import Projection

NO_SUBAGENT: Final = "This entry has no subagent."
NO_CHILD_SESSION: Final = "The session of this subagent cannot be opened here."
NOTHING_TO_COPY: Final = "There is nothing to copy here."
READ_ONLY: Final = "This session is read-only here."
NO_ENTRIES_HERE: Final = (
    "This panel has no entries to act on. Press {key} for the LLM view."
)
COVERS_NOTHING: Final = "Compaction {index} covers no entries now."
NOT_COMPACTED: Final = "No compaction has changed entry {index}."
NOT_LIVE: Final = "This is the state at {moment}, which cannot be edited. Press {key} to return to now."
COPIED: Final = "Copied {count}{failure}."
SEARCH_PROMPT: Final = "text, or tool:bash kind:user state:hidden mark:failed"


class PanelOptions(TypedDict, total=False):
    """The options of `EntryPanels`, which its subclasses pass on."""

    overhead: int
    window: int
    cwd: str
    live: bool
    threshold: int | None
    activity: str
    open_child: Callable[[Subagent], None] | None


class EntryPanels(Workbench):
    """The linked lists, and the commands on the entry that all of them show as selected.

    Edits by the user are posted as `OperationWanted`. The panels never change the history themselves.
    """

    SEARCH_PROMPT = SEARCH_PROMPT

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
        """Create the panels.

        Args:
            overhead: estimated size of the tool schemas, in tokens before calibration.
            window: size of the model's context window, in tokens; 0 if unknown.
            cwd: paths below it are shown relative to it.
            live: whether the user can edit the view in these panels.
            threshold: size, in tokens, above which the view is compacted before a request.
            activity: what the agent is doing; empty if it is idle, so that edits apply immediately.
            open_child: opens the session of a subagent; None if they cannot be opened.
        """
        uses = LedgerUses(self, self._uses_found)
        self.lists = LinkedLists(projection, cwd, overhead, self._rows_changed, uses)
        super().__init__(*self.lists.panels)
        self.history = self.lists.history
        self.view = self.lists.view
        self._files = self.lists.files
        self.travel = TimeTravel(projection, overhead, window)
        basis = edit_hints.SizeBasis(overhead, threshold)
        self._edit_hints = (
            edit_hints.HintWorker(self, basis, self.describe) if live else None
        )
        self.activity = activity
        self._open_child = open_child

    # --- State ----------------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The history in the state that the panels show."""
        return self.lists.projection

    @property
    def in_draft(self) -> bool:
        """Whether a draft is shown."""
        return self.travel.chosen.draft

    @property
    def live(self) -> bool:
        """Whether the view can be edited now.

        It cannot be edited while an earlier state is displayed.
        """
        return self.has_hints and self.travel.is_now and not self.in_draft

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

    @property
    def _picked(self) -> tuple[int, ...]:
        """Indices of the marked entries, in order."""
        return tuple(sorted(self.lists.picked))

    @property
    def _table(self) -> RowTable | None:
        """The rows of the active panel if it shows entries or items."""
        tables = (
            table for table in self.lists.tables if table.view is self.active_view
        )
        return next(tables, None)

    @property
    def _compaction_at_cursor(self) -> int | None:
        index = self._index
        if self._table is None or index < 0:
            return None
        return index if isinstance(self.projection.entry(index), Compaction) else None

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

    def go_to_history(self) -> None:
        """Show all entries in order, and focus History."""
        raise NotImplementedError

    # --- Content --------------------------------------------------------------------------------------

    def _rows_changed(self) -> None:
        """Update the counterparts of the cursor after rows have changed."""
        self.lists.relink(VIEW if self.in_draft else self.active, scroll=False)
        self.describe()

    def _uses_found(self) -> None:
        """Mark the ledger lines that have been found to be used."""
        for table in self.lists.tables:
            table.view.refresh()
        self.describe()

    def reveal(self, index: int) -> None:
        """Go to an entry in History, even if its row has not been built yet."""
        self.go_to_history()
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

    # --- Commands on the entry at the cursor -----------------------------------------------------------

    def entry_status(self, width: int) -> list[Span]:
        """Return the status row for the entry selected in all panels."""
        uses = ""
        if self._index >= 0:
            uses = self.lists.uses.look_at(self.projection, self._index).words
        link = self.lists.link
        if self._edit_hints is None or not self.live:
            cursor = self.active_view.cursor
            return (
                []
                if link is None
                else status_rows.entry_row(
                    self.projection, link.key, cursor, width, uses
                )
            )
        index = None if link is None else link.index
        picked = self._picked
        hints = self._edit_hints.at(self.projection, picked or index)
        if hints is None:
            hints = edit_hints.EditHints(index, picked=picked)
        later = bool(self.activity)
        return status_rows.edit_row(
            self.projection, hints, self.key, later=later, width=width, more=uses
        )

    def is_prompt(self, block: Block) -> bool:
        return entry_rows.is_prompt(block)

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
        self.go_to_history()
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
