"""The Cut, Draft and Audit panels as one widget, and the operations that their keys request."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.geometry import Size

from foldline.frontend.keymap import key_of
from foldline.protocol import operations
from foldline.protocol.operations import LedgerChange, Operation, ReviseProposal
from foldline.text import numbers
from foldline.text.harmless import clean, clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.view import BlockView
from foldline.tui.browser.panels import app_actions, entry_rows
from foldline.tui.browser.panels.entry_list import EntryList, row_key
from foldline.tui.browser.panels.entry_rows import ItemRow, gutter_width
from foldline.tui.browser.panels.frame import Panel
from foldline.tui.browser.panels.workbench import Workbench
from foldline.tui.browser.preview import words
from foldline.tui.browser.preview.draft import DraftPanel, earlier_notes
from foldline.tui.browser.preview.forecast import ViewForecast
from foldline.tui.browser.preview.keys import AUDIT, CUT, DRAFT, KEYS, KeyState, named
from foldline.tui.browser.preview.rows import (
    CUT_KEY,
    LostFact,
    cut_gutter,
    cut_rows,
    empty_block,
    fact_blocks,
    facts_of,
)
from foldline.tui.browser.preview.state import Drafting, PreviewState
from foldline.tui.keys.bindings import bindings
from foldline.tui.keys.typed_ahead import DEAF_SECONDS, TOO_SOON
from foldline.tui.look.cells import RowPiece, Span, Spans, piece, row
from foldline.tui.look.status import retry_pieces
from foldline.tui.messages import CancelRequested, EntryWanted
from foldline.view.items import ViewItem, is_preamble

KEEP_TEXT: Final = "Keep this text unchanged, and add only what is missing."
"""Suggested guidance for a new draft of a text that the user has edited."""
WIDE: Final = 120
"""Minimum width, in columns, at which Cut and Draft are shown side by side."""
TALL: Final = 36
"""Minimum height, in rows, at which Audit is shown below Cut and Draft."""
_ABOVE: Final = 3
"""Number of rows above the panels, for the header and the bars."""
GUIDANCE_PROMPT: Final = "what should the new draft do better? (optional)"
NOT_YET: Final = "not applied yet"
UPDATING: Final = "updating …"
CUT_FOOT: Final = "├ cut points"
NO_CUT: Final = "No cut: this strategy chooses what to keep."
EDITING: Final = (
    "Your text replaces the draft. The lists from the history stay below it."
)
ENTER_EDITS: Final = "Enter edits the text, without asking a model."
DRAFT_ENDED: Final = (
    "There is no draft. Press Esc to return, then use /preview to start one."
)
DRAFT_WAITS: Final = "The draft starts when the current work has finished."
WRITING: Final = (
    "The model is writing, {elapsed}. Nothing changes until you apply the draft."
)
AFTER_DRAFT: Final = "Available once the draft has been written."
FIRST_CUT_POINT: Final = "No more can be kept: this is the first cut point."
LAST_CUT_POINT: Final = "No less can be kept: this is the last cut point."
NOT_EDITABLE: Final = (
    "This proposal cannot be edited: it does not have exactly one new text."
)
ALREADY_IN_FOCUS: Final = "Already in the focus. Press {key} for a new draft."
STILL_UPDATING: Final = (
    "Your last change is still being applied. When it is done, press {key} again."
)
TEXT_NOT_USED: Final = (
    "Your text has not been applied. Press {edit} to see it, or {redraft} or {discard} "
    "to discard it."
)
STALE: Final = "The draft is out of date. Press {key} to draft again."
DISCARD: Final = "Discard {what}? The session will not change. Enter discards."
ONLY_DRAFT: Final = "the draft"
TEXT_AND_DRAFT: Final = "your text and the draft"
CANNOT_PIN: Final = (
    "Messages and tool calls can be pinned here, and unpinned in the Inspector."
)
_NO_EDITS: Final = ReviseProposal(proposal="")
_LEAVING: Final = ("close", "apply", "next-panel", "previous-panel")
"""Commands whose keys close the editor and keep the text."""


class PreviewPanels(Workbench):
    """The three panels. Their owner calls `show` after each change."""

    KEYS = KEYS
    BINDINGS = bindings(KEYS, "preview")
    KEPT_HINT = "panel"

    def __init__(
        self, ask: Callable[[Operation], None], clock: Callable[[], float]
    ) -> None:
        self.draft = DraftPanel(self._editor_key)
        self._gutter_width = gutter_width(0)
        self._cut = EntryList(
            id="cut",
            gutter=self._gutter,
            gutter_width=self._gutter_width,
            faded=self._faded,
        )
        self._audit = EntryList(id="audit")
        super().__init__(
            Panel(self._cut, title="1 Cut"),
            self.draft,
            Panel(self._audit, title="3 Audit: lost facts"),
        )
        self._ask = ask
        self._clock = clock
        self.state = PreviewState()
        self._forecast: ViewForecast | None = None
        self._facts: list[LostFact] = []
        self._shown: tuple[object, ...] = ()
        """The values from which Cut and Audit were drawn."""
        self._upper = CUT
        """The panel shown above Audit if there is no room for both Cut and Draft."""
        self._asked_at = 0.0
        """When the question whether to discard the draft was asked, in seconds on the clock."""
        self._edits = _NO_EDITS
        """The user's edits that are not part of the proposal yet, as one revision."""
        self._has_unsent = False
        """Whether some of the edits have not been requested yet."""
        self._revising = ""
        """Id of the proposal whose revision has been requested; empty if there is none."""
        self._text: str | None = None
        """The text edited by the user, until a proposal contains it."""

    def compose(self) -> ComposeResult:
        with self.side_by_side:
            yield self.panels[CUT]
            yield self.panels[DRAFT]
        yield self.panels[AUDIT]
        yield from self.foot()

    def on_mount(self) -> None:
        self.lay_out()
        self._redraw()

    # --- For the owner --------------------------------------------------------------------------------

    @property
    def key_state(self) -> KeyState:
        """State that determines which keys work."""
        state = self.state
        proposal = state.proposal
        return KeyState(
            panel=self.active,
            in_panels=not (self.draft.is_editing or self.line.display),
            decides=proposal is not None and state.drafting is None,
            is_stale=proposal is not None and proposal.state == "stale",
            is_editable=proposal is not None and proposal.editable,
            writes_text=proposal is None or bool(proposal.entry.summary),
            has_cut=self._forecast is not None and bool(self._forecast.cut_points),
            has_earlier=earlier_notes(proposal) is not None,
            on_row=self.entry is not None,
        )

    def show(self, state: PreviewState, forecast: ViewForecast | None) -> None:
        """Show a state.

        Lists are redrawn only if their content has changed.
        """
        before = self.state
        self.state = state
        self._forecast = forecast
        if state.proposal is not before.proposal:
            self.status_note = ""
            self.draft.shows_difference = False
        self._note_answer(state)
        if state.error != before.error:
            self.status_note = state.error
            if state.error:  # the edits must not hide the error
                self._forget_edits()
        self._redraw()
        self._send_edits()

    # --- The user's edits -----------------------------------------------------------------------------

    @property
    def _is_updating(self) -> bool:
        return bool(self._revising) or self._has_unsent

    def _revise(self, **changes: object) -> None:
        """Add a change to the edits, and request them as soon as possible."""
        self._edits = self._edits.model_copy(update=changes)
        self._has_unsent = True
        self._send_edits()

    def _send_edits(self) -> None:
        """Request the edits, unless a revision or a draft is already in progress."""
        proposal = self.state.proposal
        if proposal is None or self.state.drafting is not None:
            return
        if self._has_unsent and not self._revising:
            self._has_unsent = False
            self._revising = proposal.id
            # Clear the error, so that the same error is shown again.
            self.state = replace(self.state, error="")
            self._ask(self._edits.model_copy(update={"proposal": proposal.id}))

    def _note_answer(self, state: PreviewState) -> None:
        """Forget the edits that the displayed proposal contains."""
        proposal = state.proposal
        if proposal is None:
            self._forget_edits()
        elif proposal.id != self._revising:
            self._revising = ""
            if not self._has_unsent:
                self._edits = _NO_EDITS
        if proposal is not None and proposal.notes == (self._text or "").strip():
            self._text = None

    def _forget_edits(self) -> None:
        self._edits = _NO_EDITS
        self._has_unsent = False
        self._revising = ""

    # --- Content --------------------------------------------------------------------------------------

    def _redraw(self) -> None:
        state = self.state
        basis = (state.proposal, state.plan, state.held, state.focus)
        if basis != self._shown:
            self._shown = basis
            self._show_cut()
            self._show_audit()
        self.draft.show(state)
        self.relink()
        self.describe()

    def _show_cut(self) -> None:
        view = self._cut
        state = self.state
        if self._forecast is None or state.projection is None:
            return
        self._gutter_width = gutter_width(state.projection.last_index)
        view.widen_gutter(self._gutter_width)
        is_first = not view.count
        cut_before = view.block(CUT_KEY)
        view.set_blocks(cut_rows(self._forecast, state, state.projection))
        view.fill()
        cut = view.block(CUT_KEY)
        if is_first:
            self.call_after_refresh(self._start_at_cut)
        elif cut and cut_before and cut.text() != cut_before.text():
            view.scroll_to_key(CUT_KEY)

    def _start_at_cut(self) -> None:
        """Move the cursor to the first row after the cut, and show the cut in the middle."""
        view = self._cut
        cut = view.index_of(CUT_KEY)
        if self.active == CUT and cut is not None:
            view.cursor_to(view.block_at(cut + 1).key, quiet=True)
        view.show_in_middle(CUT_KEY)
        self.relink()
        self.describe()

    def _show_audit(self) -> None:
        state = self.state
        proposal = state.proposal
        facts: list[LostFact] = []
        if proposal and state.projection and self._forecast:
            facts = facts_of(
                proposal.audit,
                self._forecast,
                state.projection,
                state.focus,
            )
        self._facts = facts
        view = self._audit
        blocks = fact_blocks(facts, is_stale=self.key_state.is_stale)
        view.set_blocks(blocks or [empty_block(proposal.audit if proposal else None)])
        view.scroll_to_key(view.cursor or view.block_at(0).key)
        view.fill()

    def _gutter(self, key: Key, line: int) -> Spans:
        if self._forecast is None:
            return ()
        return cut_gutter(self._forecast, self._cut.block(key), self._gutter_width)

    def _faded(self, key: Key) -> bool:
        block = self._cut.block(key)
        if self._forecast is None or not isinstance(block, ItemRow):
            return False
        return self._forecast.is_gone(block.item)

    # --- Panels and focus -----------------------------------------------------------------------------

    @property
    def room(self) -> Size:
        """Available columns and rows, or the expected ones before the first layout."""
        width, height = self.app.size
        return self.size or Size(width, max(height - _ABOVE, 0))

    @property
    def item(self) -> ViewItem | None:
        """The view item at the cursor in Cut, if any."""
        key = self._cut.cursor
        block = None if key is None else self._cut.block(key)
        return block.item if isinstance(block, ItemRow) else None

    @property
    def fact(self) -> LostFact | None:
        """The fact at the cursor in Audit, if any."""
        at = self._audit.index_of(self._audit.cursor)
        return self._facts[at] if at is not None and self._facts else None

    @property
    def entry(self) -> int | None:
        """Index of the entry at the cursor, or of the one that a fact or ledger line comes from, if any."""
        line = self.draft.ledger_line
        if self.active == DRAFT:
            return None if line is None else line.entry
        if self.active == AUDIT:
            return None if self.fact is None else self.fact.entry
        return None if self.item is None else self.item.index

    def relink(self) -> None:
        """Mark the row that corresponds to the cursor.

        For an item that is removed, this is its first lost fact; for a fact, this is its item.
        """
        entry = self.entry
        if self.active == AUDIT:
            self._cut.show_counterpart(None if entry is None else row_key(entry))
        elif self.active == CUT:
            lost = [fact for fact in self._facts if entry in fact.lost.indices]
            self._audit.show_counterpart(lost[0].key if lost else None)

    def is_prompt(self, block: Block) -> bool:
        return entry_rows.is_prompt(block)

    def clear_status_note(self) -> None:
        """Clear the note, unless it is an error that occurred during the current draft."""
        self.status_note = self.state.error if self.state.drafting is not None else ""

    def lay_out(self) -> None:
        """Show as many panels as fit.

        These are all three panels, Cut and Draft side by side, one of the two above Audit, or a single panel.
        """
        width, height = self.room
        is_tall = height >= TALL - _ABOVE
        shows_upper = is_tall or self.active != AUDIT
        shown: list[int] = []
        if shows_upper:
            shown += (CUT, DRAFT) if width >= WIDE else (self._upper,)
        if is_tall or not shows_upper:
            shown.append(AUDIT)
        self.side_by_side.display = shows_upper
        self.show_panels(*shown)
        self.panels[AUDIT].styles.height = max(8, height // 4) if shows_upper else "1fr"

    def show_place(self, view: EntryList) -> None:
        view.fill()
        view.show_place()

    def has_cursor(self, number: int) -> bool:
        """Whether the shared cursor can be in this panel.

        It cannot be in Draft, because the lines there are not entries.
        """
        return number != DRAFT

    def take_over(self, number: int) -> None:
        if number != AUDIT:
            self._upper = number
        super().take_over(number)
        self.relink()

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self) -> None:
        forecast = self._forecast
        cut, draft, audit = self.panels
        cut.head("")
        cut.foot(NO_CUT if forecast is not None and forecast.cut is None else CUT_FOOT)
        draft.head(words.draft_head(self.state, forecast, self._clock()))
        draft.foot(words.draft_foot(self.state))
        audit.head(words.audit_head(self.state))
        audit.foot("")

    def status_row(self, width: int) -> list[Span]:
        """Return the effect of pressing Enter, and the note that nothing has been applied yet."""
        effect = self._effect()
        if isinstance(effect, str):
            effect = [piece(clean_line(effect), cut="right")]
        right = []
        if self.state.proposal is not None:
            note = UPDATING if self._is_updating else NOT_YET
            right.append(piece(note, "muted", rank=1))
        return row(effect, right, width)

    def hint_pairs(self) -> Sequence[tuple[str, str]]:
        if self.draft.is_editing:
            return (
                (named("editor"), "open $EDITOR"),
                (named("close"), "keep the text"),
            )
        if self.line.display:
            return (("Enter", "continue"), (named("close"), "leave"))
        return super().hint_pairs()

    def _effect(self) -> str | list[RowPiece]:
        """Return the effect of pressing Enter, the question to answer, or the work in progress."""
        state = self.state
        forecast = self._forecast
        if self.draft.is_editing:
            return EDITING
        if state.drafting is not None:
            return self._drafting_words(state.drafting)
        if state.proposal is None or forecast is None or state.projection is None:
            return DRAFT_ENDED if state.error else DRAFT_WAITS
        line = self.draft.ledger_line
        if self.active == CUT:
            index = self.item.index if self.item is not None else -1
            return words.about_item(forecast, self.item, state.projection.group(index))
        if self.active == AUDIT:
            return words.about_fact(forecast, self.fact)
        if line is not None:
            return words.about_line(line, pinned=self.draft.is_pinned(line))
        return ENTER_EDITS if state.proposal.editable else ""

    def _drafting_words(self, drafting: Drafting) -> str | list[RowPiece]:
        now = self._clock()
        retry = drafting.retry_at(now)
        if retry is not None:
            return retry_pieces(retry, now)
        elapsed = numbers.elapsed(now - drafting.since)
        return WRITING.format(elapsed=elapsed)

    def esc_words(self) -> str:
        if self.searching or self.size.width < 60:
            return super().esc_words()
        if self.state.drafting is not None:
            return "cancel the draft"
        return "close, keep proposal" if self.state.proposal else "close"

    # --- Keys -----------------------------------------------------------------------------------------

    def action_preview(self, command: str) -> None:
        """Run a command from the key table."""
        if self.works_now(command) or command == "apply":
            self.status_note = ""
            self.act(command)
        elif self.state.drafting is not None:
            self.status_note = AFTER_DRAFT
        self.describe()

    def act(self, command: str) -> None:
        own = self._actions.get(command)
        if own is not None:
            own()
        elif command == "close" and self.line.display:
            self.close_line()
        else:
            super().act(command)

    @property
    def _actions(self) -> dict[str, Callable[[], None]]:
        """The commands that are specific to the preview, with their actions."""
        return {
            "apply": self._apply,
            "redraft": self._redraft,
            "discard": self._discard,
            "edit": self._edit,
            "editor": self._edit_outside,
            "difference": self._show_difference,
            "keep-more": lambda: self._move_cut(-1),
            "keep-less": lambda: self._move_cut(1),
            "pin": (self._pin_item, self._pin_line, self._pin_fact)[self.active],
            "drop": lambda: self._change_line("drop"),
            "focus": self._add_focus,
            "entry": self._open_entry,
        }

    @on(BlockView.BlockOpened)
    def _opened(self, event: BlockView.BlockOpened) -> None:
        event.stop()
        if self.works_now("enter"):
            (self._cut_here, self._edit, self._pin_fact)[self.active]()
        elif self.state.drafting is not None:
            self.status_note = AFTER_DRAFT
        self.describe()

    def leave(self) -> None:
        if self.state.drafting is not None:
            self.post_message(CancelRequested())
        else:
            super().leave()

    def _open_entry(self) -> None:
        if self.entry is not None:
            self.post_message(EntryWanted(self.entry))

    # --- The cut --------------------------------------------------------------------------------------

    def _cut_here(self) -> None:
        forecast = self._forecast
        item = self.item
        if forecast is None or item is None:
            return
        point = forecast.cut_point_before(forecast.items.index(item))
        if point is None:
            self.status_note = words.NO_CUT_POINT
        else:
            self._cut_at(forecast, point)

    def _move_cut(self, step: int) -> None:
        forecast = self._forecast
        if forecast is None or forecast.cut is None:
            return
        position = forecast.cut
        if self._edits.first_kept_index is not None:
            position = forecast.position_of(self._edits.first_kept_index)
        point = forecast.next_cut_point(position, step)
        if point is None:
            self.status_note = FIRST_CUT_POINT if step < 0 else LAST_CUT_POINT
        else:
            self._cut_at(forecast, point)

    def _cut_at(self, forecast: ViewForecast, point: int) -> None:
        if point == forecast.cut and self._edits.first_kept_index is None:
            return  # so that the draft does not become stale without need
        self._revise(first_kept_index=forecast.items[point].index)

    # --- Pins and focus -------------------------------------------------------------------------------

    def _pin(self, group: Sequence[int]) -> None:
        """Pin the entries of a tool group or, if they are pinned, unpin them."""
        proposal = self.state.proposal
        if proposal is None:
            return
        pins = set(proposal.pins if self._edits.pins is None else self._edits.pins)
        pins = pins.difference(group) if pins.issuperset(group) else pins.union(group)
        self._revise(pins=tuple(sorted(pins)))

    def _pin_item(self) -> None:
        state = self.state
        item = self.item
        if item is None or state.proposal is None or state.projection is None:
            return
        if (
            item.written
            or is_preamble(item)
            or item.index in state.proposal.pinned_before
        ):
            self.status_note = CANNOT_PIN
        else:
            self._pin(state.projection.group(item.index))

    def _pin_fact(self) -> None:
        if self.fact is not None and self.fact.group:
            self._pin(self.fact.group)
        else:
            self.status_note = words.ONLY_IN_SUMMARY.format(key=named("focus"))

    def _pin_line(self) -> None:
        line = self.draft.ledger_line
        if line is not None:
            self._change_line("unpin" if self.draft.is_pinned(line) else "pin")

    def _change_line(self, change: LedgerChange) -> None:
        """Change the ledger line at the cursor, if any."""
        line = self.draft.ledger_line
        if line is not None:
            self._revise(ledger={**(self._edits.ledger or {}), line.id: change})

    def _add_focus(self) -> None:
        fact = self.fact
        focus = self._edits.focus or self.state.focus or ""
        if fact is None:
            return
        if fact.lost.text in focus:
            self.status_note = ALREADY_IN_FOCUS.format(key=named("redraft"))
        else:
            self._revise(focus="; ".join(filter(None, (focus, fact.lost.text))))

    # --- The text -------------------------------------------------------------------------------------

    def _edit(self) -> None:
        proposal = self.state.proposal
        if proposal is None or not proposal.editable:
            self.status_note = NOT_EDITABLE
            return
        if self.active != DRAFT:
            self.take_over(DRAFT)
        self.draft.edit(proposal.notes if self._text is None else self._text)

    async def _editor_key(self, key: str) -> bool:
        """Handle a key that closes the editor or opens an external one.

        Returns whether the key was handled.
        """
        if any(key in key_of(KEYS, command).pressed for command in _LEAVING):
            self.call_next(self._end_editing)
            return True
        if key in key_of(KEYS, "editor").pressed:
            self.call_next(self._edit_outside)
            return True
        return False

    def _end_editing(self) -> None:
        if self.draft.is_editing:
            self._take_text(self.draft.leave())

    def _edit_outside(self) -> None:
        """Edit the draft, or the content of the open editor, in $VISUAL or $EDITOR."""
        proposal = self.state.proposal
        if proposal is None:
            return
        text = proposal.notes if self._text is None else self._text
        if self.draft.is_editing:
            text = self.draft.editor.text
        changed = app_actions.edited(self.app, text, self.tell)
        if changed is not None:
            self.draft.leave()
            self._take_text(clean(changed))

    def _take_text(self, text: str) -> None:
        """Use the user's text as the draft if the text has changed."""
        proposal = self.state.proposal
        self.enter()
        if proposal is not None and text.strip() != proposal.notes:
            self._text = text
            self._revise(notes=text)
        self.describe()

    def _show_difference(self) -> None:
        self.draft.shows_difference = not self.draft.shows_difference
        self.draft.show(self.state)
        self.go(DRAFT)

    # --- Deciding -------------------------------------------------------------------------------------

    def _apply(self) -> None:
        proposal = self.state.proposal
        if proposal is None or self.state.drafting is not None:
            self.status_note = AFTER_DRAFT
        elif self._is_updating:
            self.status_note = STILL_UPDATING.format(key=named("apply"))
        elif self._text is not None:
            self.status_note = TEXT_NOT_USED.format(
                edit=named("edit"), redraft=named("redraft"), discard=named("discard")
            )
        elif proposal.state == "stale":
            self.status_note = STALE.format(key=named("redraft"))
        else:
            self._ask(operations.ApplyProposal(proposal=proposal.id))

    @property
    def _by_hand(self) -> bool:
        """Whether the user has edited the draft."""
        proposal = self.state.proposal
        return self._text is not None or (proposal is not None and proposal.edited)

    def _discard(self) -> None:
        """Discard the proposal after the user confirms with Enter."""
        what = TEXT_AND_DRAFT if self._by_hand else ONLY_DRAFT
        self._asked_at = self._clock()
        self._ask_line(DISCARD.format(what=what), "", self._discard_confirmed)

    def _discard_confirmed(self, typed: str) -> None:
        """Discard the proposal, unless Enter may belong to text that was typed before the question."""
        proposal = self.state.proposal
        self.close_line()
        if self._clock() < self._asked_at + DEAF_SECONDS:
            self.status_note = TOO_SOON
        elif proposal is not None and not typed:
            self._text = None
            self._ask(operations.DiscardProposal(proposal=proposal.id))
        self.describe()

    def _redraft(self) -> None:
        """Ask for guidance, then start a new draft.

        The guidance suggested for a text that the user has edited is to keep the text.
        """
        suggestion = KEEP_TEXT if self._by_hand else ""
        self._ask_line(GUIDANCE_PROMPT, suggestion, self._draft_again)

    def _ask_line(self, prompt: str, text: str, done: Callable[[str], None]) -> None:
        """Show a field instead of the status row."""
        self.status.display = False
        self.line.ask(prompt, text, done)

    def _draft_again(self, guidance: str) -> None:
        self.close_line()
        self._text = None
        proposal = self.state.proposal
        if proposal is not None:
            self._ask(
                operations.RedraftProposal(
                    proposal=proposal.id, guidance=guidance.strip() or None
                )
            )
        self.describe()
