"""The preview's keys at work. Whatever they ask for is posted; nothing here changes a proposal."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message

from foldline.tui import dialogs
from foldline.tui.blocks import Block, BlockView, clean, clean_line
from foldline.tui.keys.table import bindings, works
from foldline.tui.panels.search import find
from foldline.tui.preview import messages, words
from foldline.tui.preview.board import AUDIT, CUT, DRAFT, PreviewBoard
from foldline.tui.preview.cut_rows import Row
from foldline.tui.preview.editor import NotesEditor
from foldline.tui.preview.keys import KEYS, named
from foldline.tui.preview.outlook import Outlook
from foldline.tui.preview.state import PreviewState


class PreviewPanels(PreviewBoard):
    """Cut, Draft and Audit of one proposal. The owner calls `show` whenever something changed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "preview")

    class HelpRequested(Message):
        """The reader asks for the keys."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._unsent: str | None = None
        """The reader's own text, until a proposal shows it."""
        self._do: dict[str, Callable[[], None]] = {
            "apply": self._apply,
            "redraft": self._redraft,
            "discard": self._discard,
            "edit": self._edit,
            "editor": self._edit_outside,
            "difference": self._difference,
            "keep-more": lambda: self._move_cut(-1),
            "keep-less": lambda: self._move_cut(1),
            "pin": self._pin,
            "focus": self._add_focus,
            "mark": self._mark,
            "entry": self._open_entry,
            "older-prompt": lambda: self._to_prompt(-1),
            "newer-prompt": lambda: self._to_prompt(1),
            "next-panel": lambda: self._go((self._active + 1) % 3),
            "previous-panel": lambda: self._go((self._active - 1) % 3),
            "panel-1": lambda: self._go(CUT),
            "panel-2": lambda: self._go(DRAFT),
            "panel-3": lambda: self._go(AUDIT),
            "search": self._ask_search,
            "next-match": lambda: self._search(1),
            "previous-match": lambda: self._search(-1),
            "help": lambda: self._post(self.HelpRequested()),
            "close": self._close,
        }

    def show(self, state: PreviewState, outlook: Outlook | None) -> None:
        made = state.proposal
        if made is not None and self._unsent is not None and made.notes == self._unsent.strip():
            self._unsent = None
        self._pending.answered(made)
        if state.error and state.error != self._state.error:
            self._pending.forget()
        super().show(state, outlook)
        self._ask_next()

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.facts)

    def action_preview(self, command: str) -> None:
        """One of the keys in `keys.KEYS`."""
        if self._mode == "asking":
            self._answer(command)
        elif works(KEYS, command, self.facts) or command == "apply":
            sure, self._sure, self._news = self._sure, "", ""
            if command == "discard":
                self._sure = sure
            self._do[command]()
        elif self.facts.drafting:
            self._news = "Once it is drafted."
        self._describe()

    def _post(self, message: Message) -> None:
        self.post_message(message)

    @property
    def _identity(self) -> str:
        return self._state.proposal.id if self._state.proposal is not None else ""

    # --- Enter ----------------------------------------------------------------------------------------

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        if self._mode == "asking":
            self._answer("enter")
        elif not works(KEYS, "enter", self.facts):
            self._news = "Once it is drafted." if self.facts.drafting else ""
        elif event.view is self._panels[CUT].view:
            self._cut_here()
        elif event.view is self._panels[AUDIT].view:
            self._pin_facts()
        else:
            self._edit()
        self._describe()

    # --- The cut --------------------------------------------------------------------------------------

    def _cut_here(self) -> None:
        row, outlook = self.row, self._outlook
        if row is None or outlook is None:
            return
        place = outlook.legal_before(row.position) if row.kind not in ("preamble", "note") else None
        if outlook.cut is None:
            self._news = "There is no cut to move: this strategy decides itself what stays."
        elif place is None:
            self._news = "Nothing can be cut at or before this row."
        else:
            self._want_cut(outlook.index_at(place))

    def _move_cut(self, step: int) -> None:
        outlook = self._outlook
        if outlook is None or outlook.cut is None:
            return
        heading = self._pending.heading
        heading_for = outlook.position_of(heading) if heading is not None else None
        place = outlook.legal_beside(outlook.cut if heading_for is None else heading_for, step)
        if place is None:
            self._news = "More cannot be kept: " if step < 0 else "Less cannot be kept: "
            self._news += "this is the first legal place." if step < 0 else "this is the last legal place."
        else:
            self._want_cut(outlook.index_at(place))

    def _want_cut(self, index: int) -> None:
        outlook = self._outlook
        here = outlook.index_at(outlook.cut) if outlook is not None and outlook.cut is not None else None
        if index == here and self._pending.heading is None:
            return  # moved for nothing, the draft would be stale for nothing
        self._pending.want_cut(index)
        self._ask_next()

    def _to_prompt(self, step: int) -> None:
        if self._active != CUT:
            self._news = f"No prompts here: {named('panel-1')} goes to Cut."
            return
        view = self._panels[CUT].view

        def is_prompt(block: Block) -> bool:
            return self._rows[block.key].prompt

        key = view.next_where(view.cursor, step, is_prompt)
        if key is None:
            self._news = f"No prompt {'above' if step < 0 else 'below'}."
        else:
            view.cursor_to(key)

    # --- Pins and focus -------------------------------------------------------------------------------

    def _pin(self) -> None:
        if self._active == AUDIT:
            self._pin_facts()
        elif self.row is not None:
            self._pin_row(self.row)

    def _pin_row(self, row: Row) -> None:
        made = self._state.proposal
        entries = frozenset(row.indices)
        if made is None or not entries or row.kind in ("preamble", "summary"):
            self._news = (
                "Only what was said and done can be pinned: this stays, or goes into the draft, anyway."
            )
        elif entries & made.pinned_before:
            self._news = f"{row.index} was pinned before: the Inspector takes that back."
        elif row.pinned:
            self._pending.want_pins(unpin=entries)
        else:
            self._pending.want_pins(pin=entries)
        self._ask_next()

    def _pin_facts(self) -> None:
        pins = frozenset(index for fact in self.chosen for index in fact.group)
        if not pins:
            self._news = f"No entry of the view holds it: {named('focus')} asks the next draft for it."
            return
        self._marked.clear()
        self._pending.want_pins(pin=pins)
        self._ask_next()

    def _add_focus(self) -> None:
        wanted = [fact.lost.text for fact in self.chosen if not fact.in_focus]
        if not wanted:
            self._news = f"It is in the focus. {named('redraft')} drafts it."
            return
        self._marked.clear()
        self._pending.focus += wanted
        self._ask_next()

    def _mark(self) -> None:
        fact = self.fact
        if fact is not None:
            self._marked ^= {fact.key}
            self._draw_facts()
            self.active_view.move_cursor(1)

    def _open_entry(self) -> None:
        index = None
        if self._active == AUDIT and self.fact is not None:
            index = self.fact.entry
        elif self._active == CUT and self.row is not None:
            index = self.row.index
        if index is None:
            self._news = "No entry under the cursor."
        else:
            self._post(messages.EntryWanted(self._identity, index))

    def _ask_next(self) -> None:
        """Post the next wish, if none is under way."""
        made = self._state.proposal
        if made is not None and self._state.drafting is None:
            message = self._pending.next(made, self._state.focus)
            if message is not None:
                # The same sentence once more is then news again, and an answer to this wish.
                self._state = replace(self._state, error="")
                self._post(message)

    # --- The text -------------------------------------------------------------------------------------

    def _edit(self) -> None:
        made = self._state.proposal
        if made is None or not made.editable:
            self._news = "This fold has not one new text: there is nothing to edit."
            return
        line = self._text.line_of(self.draft.view.cursor)
        self._text.differing = False
        self._text.show(self._state)
        if self._active != DRAFT:
            self._take_over(DRAFT)
        self._mode = "editing"
        self.draft.edit(self._unsent if self._unsent is not None else made.notes, line)

    @on(NotesEditor.EditorWanted)
    def _edit_outside(self, event: NotesEditor.EditorWanted | None = None) -> None:
        """The text in the reader's own editor: that of the field, or the draft."""
        if event is not None:
            event.stop()
        made = self._state.proposal
        if made is None:
            return
        field = self._mode == "editing"
        text = self.draft.editor.text if field else self._unsent if self._unsent is not None else made.notes
        changed = dialogs.edited(self.app, text, self.tell)
        if changed is None:
            return
        if field:
            self.draft.leave()
        self._take_text(clean(changed))
        self._describe()

    @on(NotesEditor.Left)
    def _left(self, event: NotesEditor.Left) -> None:
        event.stop()
        if self._mode != "editing":
            return
        self._take_text(self.draft.leave())
        self._describe()

    def _take_text(self, text: str) -> None:
        """The reader's own text is the draft, where it is another one."""
        made = self._state.proposal
        self._mode = "panels"
        self.focus_panels()
        if made is not None and text.strip() != made.notes:
            self._unsent = self._pending.notes = text
            self._ask_next()
        self._describe()

    def _difference(self) -> None:
        self._text.differing = not self._text.differing
        self._text.show(self._state)
        self._go(DRAFT)

    # --- Deciding -------------------------------------------------------------------------------------

    def _apply(self) -> None:
        made = self._state.proposal
        if made is None or self._state.drafting is not None:
            self._news = "Once it is drafted."
        elif self._pending.open:
            again = f"Then {named('apply')} again."
            self._news = f"One moment: what you changed is being worked out. {again}"
        elif self._unsent is not None:
            throw = f"{named('redraft')} or {named('discard')} throw it away."
            self._news = f"Your text was not taken: {named('edit')} shows it. {throw}"
        elif made.state == "stale":
            state, _ = words.draft_state(self._state, self._outlook, 0.0)
            why = f"the draft is {state}" if "made for" in state else "it is stale"
            self._news = f"{named('redraft')} first: {why}."
        else:
            self._post(messages.ApplyWanted(made.id))

    def _discard(self) -> None:
        """Throws away what cost money or a hand's work, so only at the second press."""
        if self._sure == self._identity:
            self._sure, self._unsent = "", None
            self._post(messages.DiscardWanted(self._identity))
            return
        self._sure = self._identity
        what = "your text and the draft" if self._by_hand else "the draft"
        again = f"{named('discard')} again throws away {what}."
        self._news = f"{again} The session stays as it is. Any other key keeps it."

    @property
    def _by_hand(self) -> bool:
        """Whether the reader has written what a new draft would throw away."""
        made = self._state.proposal
        edited = made is not None and made.state == "edited"
        return edited or self._state.hand_written or self._unsent is not None

    def _redraft(self) -> None:
        if self._by_hand:
            self._mode = "asking"
        else:
            self._ask_guidance(keep_text=False)

    def _answer(self, command: str) -> None:
        """What is to become of the reader's own text: Enter keeps it as guidance, R starts afresh."""
        if command in ("enter", "redraft"):
            self._ask_guidance(keep_text=command == "enter")
        elif command == "close":
            self._mode = "panels"

    def _ask_guidance(self, *, keep_text: bool) -> None:
        def draft(text: str) -> None:
            self._back_to_panels()
            self._unsent = None
            self._post(messages.RedraftWanted(self._identity, text.strip() or None, keep_text))

        self._open_line("guiding", "what the new draft should do better; empty: nothing special", "", draft)

    # --- The line in the place of the status row ------------------------------------------------------

    def _open_line(self, mode: str, placeholder: str, text: str, done: Callable[[str], None]) -> None:
        self._mode = "guiding" if mode == "guiding" else "finding"
        self._status.display = False
        self._one_line.ask(placeholder, text, done)

    def _back_to_panels(self) -> None:
        self._one_line.close()
        self._status.display = True
        self._mode = "panels"
        self.focus_panels()
        self._describe()

    def _close(self) -> None:
        """One step outwards."""
        if self._mode == "editing":
            self.draft.editor.post_message(NotesEditor.Left())
        elif self._mode in ("guiding", "finding"):
            self._back_to_panels()
        elif self._needle:
            self._needle = ""
            self.active_view.set_search("")
        elif self._state.drafting is not None:
            self._post(messages.CancelWanted(self._identity))
        else:
            self._post(messages.Closed(self._identity))

    # --- Search ---------------------------------------------------------------------------------------

    def _ask_search(self) -> None:
        def start(text: str) -> None:
            self._back_to_panels()
            self._needle = text
            self.active_view.set_search(text)
            if text:
                self._search(1)

        self._open_line("finding", "find in this panel", self._needle, start)

    def _search(self, step: int) -> None:
        if not self._needle:
            self._news = f"Nothing to look for yet: {named('search')} asks."
            return
        self.run_worker(self._look(self._active, self._needle, step), group="search", exclusive=True)

    async def _look(self, panel: int, needle: str, step: int) -> None:
        view = self._panels[panel].view
        key, wrapped = await find(view, needle, view.cursor, step, lambda block: block.text())
        if self._active == panel:
            shown = f"“{clean_line(needle)}”"
            if key is not None:
                view.cursor_to(key, quiet=True)
                self._relink()
            found = f"{shown}{', round the end' if wrapped else ''} · n N next, previous"
            self._news = found if key is not None else f"{shown} is nowhere in this panel."
            self._describe()
