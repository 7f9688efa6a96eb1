"""The Inspector's keys at work: opening in place, jumps, edits; the widget others use."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from foldline.context.moments import first_entry
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.protocol import Compaction
from foldline.tui.blocks import Block, BlockView
from foldline.tui.inspector.comparing import comparisons
from foldline.tui.inspector.diff_screen import DiffScreen
from foldline.tui.inspector.edits import (
    EditKey,
    Picked,
    action_of,
    actions_of,
    entries_words,
    may_edit,
    undo_target,
    undo_words,
)
from foldline.tui.inspector.filelist import FileBlock
from foldline.tui.inspector.filter_bar import FilterBar
from foldline.tui.inspector.filters import EVERYTHING
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.layout import FILES, HISTORY, TIMELINE
from foldline.tui.inspector.linked import Link
from foldline.tui.inspector.offering import nothing_to
from foldline.tui.inspector.places import first_folded, fold_of, row_key, row_of
from foldline.tui.inspector.rows import is_fold, is_prompt
from foldline.tui.inspector.standing import Standing, scroll_of, take_up
from foldline.tui.inspector.timeboard import TimeBoard
from foldline.tui.inspector.timeline import TimelinePanel
from foldline.tui.keys.table import bindings, name_of, works
from foldline.tui.messages import EditWanted, UndoWanted
from foldline.tui.terminal.clipboard import copy


class FindingBoard(TimeBoard):
    """Shows less, or goes where a word is; each in the panel that has the focus."""

    # --- Filter ---------------------------------------------------------------------------------------

    def _open_filter(self) -> None:
        if self._active == FILES:
            self._news = f"A filter is of entries: {name_of(KEYS, 'panel-1')} goes to History."
        else:
            panel = self._panels[self._active].region
            self.filtering.begin(self._sheet, panel.translate(-self.region.offset))

    @on(FilterBar.Chosen)
    def _filter_chosen(self, event: FilterBar.Chosen) -> None:
        event.stop()
        self.filtering.chosen(event.wanted)

    @on(FilterBar.Left)
    def _filter_left(self, event: FilterBar.Left) -> None:
        event.stop()
        self.filtering.end()
        self.active_view.focus()
        self._describe()

    # --- Search ---------------------------------------------------------------------------------------

    def _open_search(self) -> None:
        self._status.display = False
        self._searching.ask()

    def _close_search(self) -> None:
        self._status.display = True
        if self._searching.close():
            self.screen.set_focus(self.active_view)  # at once: a key may be right behind

    @on(Input.Submitted, "#find")
    def _search_for(self, event: Input.Submitted) -> None:
        event.stop()
        self._searching.needle = event.value
        self._close_search()
        self.active_view.set_search(event.value)
        if event.value:
            self._search(1)

    def _search(self, step: int) -> None:
        if not self._searching.needle:
            self._news = f"Nothing to look for yet: {name_of(KEYS, 'search')} asks."
            return
        self.run_worker(self._look(self._active, step), group="search", exclusive=True)

    async def _look(self, panel: int, step: int) -> None:
        view = self._panels[panel].view
        opened = self.history.opened if panel == HISTORY else self.view.opened
        key, words = await self._searching.look(view, step, opened, of_entries=panel != FILES)
        if key is not None and self._active == panel:
            view.cursor_to(key, quiet=True)
            self._link_here()
        if key is None or self._active == panel:
            self._news = words
        self._describe()


_OF_ENTRIES: Final = frozenset(
    (
        *("fold", "older-prompt", "newer-prompt", "older-fold", "newer-fold", "filter", "search"),
        *("next-match", "previous-match", "pin", "hide", "drop", "restore", "copy"),
    )
)
"""Keys that are of no use on the timeline."""


class InspectorPanels(FindingBoard):
    """History, LLM view and Files, docked beside the chat or on a screen of their own. The owner calls
    `refresh_from` after events; nothing here changes the history: what the reader wants of it is posted as
    `EditWanted` and `UndoWanted`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "inspect")

    _wanted_entry: int | None = None
    """The entry to go to once the moment that is on its way is shown."""

    class CloseRequested(Message):
        """Esc or F2: the reader is done here."""

    class HelpRequested(Message):
        """The reader asks for the keys."""

    class MaximiseRequested(Message):
        """The reader wants the whole screen for it, or no longer."""

    _came_from: int | None = None
    """The entry from which the reader went to its fold."""
    _entered: int | None = None
    """The panel the focus came to from outside: Tab goes round to it, and leaves, beside the chat."""

    def enter(self) -> None:
        """Take the focus, in the panel that had it last."""
        self._entered = self._active
        self.focus_panels()

    @property
    def shown_panel(self) -> int:
        """The panel that has, or last had, the focus."""
        return TIMELINE if self.timeline.has_focus else self._active

    def reveal(self, index: int) -> None:
        """Go to an entry in History, also where its row is still to be built."""
        self._go(HISTORY)
        key = row_key(index)
        if self.history.view.index_of(key) is None and (self.history.missing or self.history.filter.active):
            self.run_worker(self._reveal_when_filled(index), group="reveal", exclusive=True)
            return
        self.history.view.cursor_to(key, quiet=True)
        self._link_here()

    async def _reveal_when_filled(self, index: int) -> None:
        if self.history.filter.active:
            await self.history.show_only(EVERYTHING)
        while self.history.missing:  # what is built as the panels open may overtake this
            await self.history.fill()
        if self.history.view.index_of(row_key(index)) is not None:
            self.reveal(index)

    def tell(self, words: str) -> None:
        """Say something in the status row, until the cursor moves."""
        self._news = words
        self._describe()

    # --- Enter ----------------------------------------------------------------------------------------

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        self._news = ""
        block = event.view.block(event.key)
        if isinstance(block, FileBlock):
            self._jump_to_touch(block)
        elif event.view is self.history.view:
            self.history.toggle(row_of(event.key))
        elif event.view is self.view.view:
            self.view.toggle(row_of(event.key))
        self._describe()

    def _jump_to_touch(self, file: FileBlock) -> None:
        """History to the newest touch of a file; from there to an older one; round to the newest."""
        touches = file.touches
        at = touches.index(self._link.index) if self._link and self._link.index in touches else 0
        again = self._link is not None and self._link.source == FILES
        target = touches[at - 1] if again or self._link is None else touches[-1]
        self._files.file = file
        self._link = Link(row_key(target), FILES)
        self._relink(scroll=True)

    # --- Keys -----------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.live)

    def action_inspect(self, command: str) -> None:
        """One of the keys in `keys.KEYS`."""
        if self.timeline.has_focus and command in _OF_ENTRIES:
            self._news = f"This is the timeline: {name_of(KEYS, 'panel-1')} goes to History."
            self._describe()
            return
        match command:
            case "next-panel":
                self._next_panel(1)
            case "previous-panel":
                self._next_panel(-1)
            case "panel-4":
                self.focus_timeline()
            case "diff":
                self._compare()
            case "panel-1" | "panel-2" | "panel-3":
                self._go(int(command[-1]) - 1)
            case "fold":
                self._to_fold()
            case "older-prompt" | "newer-prompt":
                self._to_next(-1 if command.startswith("older") else 1, is_prompt, "prompt")
            case "older-fold" | "newer-fold":
                self._to_next(-1 if command.startswith("older") else 1, is_fold, "fold")
            case "filter":
                self._open_filter()
            case "search":
                self._open_search()
            case "next-match" | "previous-match":
                self._search(1 if command.startswith("next") else -1)
            case "pin" | "hide" | "drop" | "restore":
                self._edit(command)
            case "mark" if self.timeline.has_focus:
                self._mark_request()
            case "mark":
                self._mark_entry()
            case "copy":
                self._copy()
            case "undo":
                self._undo()
            case "maximise":
                self.post_message(self.MaximiseRequested())
            case "help":
                self.post_message(self.HelpRequested())
            case "close":
                self._close()
            case _:
                self.travel(command)
        self._describe()

    @on(TimelinePanel.Asked)
    def _timeline_asked(self, event: TimelinePanel.Asked) -> None:
        event.stop()
        if event.command == "first-entry":
            self._to_first_entry()
        else:
            self.travel(event.command)
        self._describe()

    def _to_first_entry(self) -> None:
        """From the timeline to the first entry that the shown request sent anew."""
        index = first_entry(self.now, self.moment)
        if index is None:
            self._news = "Nothing was added for it."
        else:
            self._reveal_there(index)

    def _compare(self) -> None:
        """Show what two views do not share: of the marked request, of a fold, of the request before."""
        link = self._link
        entry = self._projection.entry(link.index) if link is not None and link.index >= 0 else None
        on_fold = isinstance(entry, Compaction) and self._active != FILES and not self.timeline.has_focus
        pairs = comparisons(self.now, self.moment, self.marked, entry.index if entry and on_fold else None)
        if not pairs:
            self._news = "There is nothing before it to compare it with."
            return
        self.app.push_screen(DiffScreen(self.now, self.past, pairs, self._cwd), self._back_from_difference)

    def _back_from_difference(self, index: int | None) -> None:
        """To the entry that was asked for, at the moment that is shown where it is there, else now."""
        if index is None:
            return
        if self._projection.entry(index) is None:
            self.go_to(None)
        self._reveal_there(index)

    def _reveal_there(self, index: int) -> None:
        """Go to an entry as soon as the moment that was chosen is shown."""
        if self.settled:
            self.reveal(index)
        else:
            self._wanted_entry = index

    def arrived(self) -> None:
        index, self._wanted_entry = self._wanted_entry, None
        if index is not None:
            self.reveal(index)

    def _next_panel(self, step: int) -> None:
        here = TIMELINE if self.timeline.has_focus else self._active
        there = (here + step) % (TIMELINE + (self.timeline.display or self.one_at_a_time))
        if self.one_at_a_time and there == self._entered:
            self.post_message(self.CloseRequested())
            return
        if there == TIMELINE:
            self.focus_timeline()
        else:
            self._go(there)

    def _edit(self, key: EditKey) -> None:
        """Ask for an edit of the entry under the cursor, or say why there is none."""
        if not self.live:
            self._news = self._why_not_live()
            return
        if self._active == FILES:
            history, view = _key("panel-1"), _key("panel-2")
            self._news = f"Edits are of entries: {history} goes to History, {view} to the LLM view."
            return
        later = bool(self._activity)
        if self._picked:
            answer = edit_all(self._projection, tuple(sorted(self._picked)), key, later=later)
            if answer.wanted:
                self._pick(())
        else:
            index = -1 if self._link is None else self._link.index
            answer = edit(self._projection, index, key, later=later)
        self._give(answer)

    def _give(self, answer: "Answer") -> None:
        self._news = answer.words
        for wanted in answer.wanted:
            self.post_message(wanted)

    def _mark_entry(self) -> None:
        """Mark the entry under the cursor for the edit keys, or no longer."""
        index = -1 if self._link is None else self._link.index
        if not self.live:
            self._news = self._why_not_live()
        elif self._active == FILES or index < 0 or not may_edit(self._projection, index):
            self._news = "There is nothing to mark here: what is marked is edited together."
        else:
            self._pick(self._picked ^ {index})

    def _pick(self, picked: Iterable[int]) -> None:
        self._picked = set(picked)
        for sheet in (self.history, self.view):
            sheet.view.refresh()

    def _copy(self) -> None:
        """The text of the entry under the cursor goes to the clipboard."""
        key = self.active_view.cursor or self.active_view.counterpart
        block = self.active_view.block(row_of(key) if self._active != FILES else key) if key else None
        text = block.text() if block is not None else ""
        if not text:
            self._news = "There is nothing to copy here."
            return
        wrong = copy(self.app, text)
        self._news = f"Copied {many(len(text), 'character')}{f': {wrong}' if wrong else ''}."

    def _undo(self) -> None:
        """Ask for the newest change of the view to be taken back, or say why it cannot be."""
        if not self.live:
            self._news = self._why_not_live()
            return
        self._give(undo(self._projection, later=bool(self._activity)))

    def _why_not_live(self) -> str:
        if self.moment is None:
            return "This session is only looked at here: nothing in it is edited."
        name = self.moment.name
        return f"This is how it was at {name}: nothing to edit. {name_of(KEYS, 'now')} goes back to now."

    def _to_next(self, step: int, wanted: Callable[[Block], bool], what: str) -> None:
        if self._active == FILES:
            self._news = f"No {what}s here: {_key('panel-1')} goes to History."
            return
        view = self.active_view
        key = view.stop_where(view.cursor, step, wanted)
        if key is None:
            self._news = f"No {what} {'above' if step < 0 else 'below'}."
        else:
            view.cursor_to(key)

    def _to_fold(self) -> None:
        link = self._link
        if link is None or link.index < 0:
            return
        there = fold_of(self._projection, link.index)
        if there is None:
            self._news = f"No fold has touched {link.index}."
            return
        if there == link.index:
            there = self._folded_by(there)
            if there is None:
                self._news = f"Fold {link.index} stands for no entry now."
                return
        else:
            self._came_from = link.index
        if self.history.view.index_of(row_key(there)) is None and self.history.filter.active:
            self._news = f"{there} is not in the filter: {name_of(KEYS, 'close')} shows all."
            return
        if self._active != HISTORY:
            self._go(HISTORY)
        self.history.view.cursor_to(row_key(there))
        self._link_here()

    def _folded_by(self, fold: int) -> int | None:
        """The entry one came from to a fold; else the first that it stands for."""
        came = self._came_from
        if came is not None and came != fold and fold_of(self._projection, came) == fold:
            return came
        return first_folded(self._projection, fold)

    def _close(self) -> None:
        if self._searching.going:
            self._searching.needle = ""
            self.active_view.set_search("")
            self._close_search()
        elif self._picked:
            self._pick(())
        elif self._active == FILES or not self.filtering.clear(self._sheet):
            self.post_message(self.CloseRequested())

    # --- From one board to another --------------------------------------------------------------------

    @property
    def standing(self) -> Standing:
        """Where the reader stands."""
        return Standing(
            active=self._active,
            timeline=self.timeline.has_focus,
            history=self.history.listed,
            view=self.view.listed,
            files=scroll_of(self._panels[FILES].view),
            needle=self._searching.needle,
            picked=frozenset(self._picked),
            moment=self.moment,
        )

    def take_up(self, standing: Standing) -> None:
        """Stand where another board stood."""
        if standing.moment is not None:
            self.go_to(standing.moment)
        self._picked = set(standing.picked)
        self._searching.needle = standing.needle
        self._go(standing.active)
        if self.history.lacks(standing.history) or self.view.lacks(standing.view):
            self.run_worker(self._take_up_later(standing), group="fill", exclusive=True)
        else:
            self._stand(standing)

    async def _take_up_later(self, standing: Standing) -> None:
        await self.history.take_up(standing.history)
        await self.view.take_up(standing.view)
        self._stand(standing)

    def _stand(self, standing: Standing) -> None:
        scrolls = standing.history.scroll, standing.view.scroll, standing.files
        for panel, scroll in zip(self._panels, scrolls, strict=True):
            take_up(panel.view, scroll)
        self.active_view.set_search(self._searching.needle)
        if standing.timeline:
            self.focus_timeline()
        self._link_here()


def _key(command: str) -> str:
    """How a sentence calls the key of a command."""
    return name_of(KEYS, command)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a key asks for, if anything, and the words for the status row."""

    words: str
    wanted: Sequence[Message] = ()


def edit(projection: Projection, index: int, key: EditKey, *, later: bool) -> Answer:
    """An edit of one entry. `later`: something runs, and it waits for the end of that."""
    action = action_of(projection, index, key) if index >= 0 else None
    if action is None:
        return Answer(nothing_to(projection, index, key))
    said = _later(f"{action} {entries_words(projection.group(index))}", later)
    return Answer(said, (EditWanted(index, action),))


def edit_all(projection: Projection, picked: Picked, key: EditKey, *, later: bool) -> Answer:
    """The same for all that are marked; each is an edit of its own."""
    action, targets = actions_of(projection, picked, key)
    if action is None:
        return Answer(f"Nothing to {key} in what is marked.")
    said = f"{action}: {many(len(targets), 'edit')}"
    back = f"{name_of(KEYS, 'undo')} takes back one after the other"
    wanted = tuple(EditWanted(target, action) for target in targets)
    return Answer(_later(said, later) or f"{said}. {back}.", wanted)


def undo(projection: Projection, *, later: bool) -> Answer:
    """The newest change of the view taken back, or why it cannot be."""
    marker = undo_target(projection)
    if marker is None:
        return Answer("Nothing to undo: no fold, edit, clear or rewind is in force.")
    refusal = projection.undo_refusal(marker.index)
    if refusal is not None:
        return Answer(refusal)
    said = _later(f"undo {undo_words(projection, marker)}", later)
    return Answer(said, (UndoWanted(marker.index),))


def _later(what: str, later: bool) -> str:
    """A key that acts at once needs no words: the panels show it."""
    return f"{what}: after this turn" if later else ""
