"""The draft as a mode of the browser: the Draft and Audit panels, and the edits that the user requests.

The Cut panel is the LLM view with the rows of a `ProposedView`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from foldline.frontend.keymap import key_of
from foldline.protocol import operations
from foldline.protocol.operations import LedgerChange, Operation
from foldline.text.harmless import clean, clean_line
from foldline.tui.browser.draft import words
from foldline.tui.browser.draft.edits import PendingEdits
from foldline.tui.browser.draft.forecast import ViewForecast, forecast_of
from foldline.tui.browser.draft.panel import DraftPanel, earlier_notes
from foldline.tui.browser.draft.rows import (
    CUT_KEY,
    LostFact,
    ProposedView,
    empty_block,
    fact_blocks,
    facts_of,
)
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.keys import AUDIT, CUT, DRAFT, KEYS, KeyState, key_name
from foldline.tui.browser.panels import app_actions
from foldline.tui.browser.panels.entry_list import EntryList, row_key
from foldline.tui.browser.panels.entry_rows import ItemRow
from foldline.tui.browser.panels.frame import Panel
from foldline.tui.browser.panels.workbench import Workbench
from foldline.tui.keys.typed_ahead import DEAF_SECONDS, TOO_SOON
from foldline.tui.look.cells import RowPiece, Span, piece, row
from foldline.tui.messages import CancelRequested, OperationWanted
from foldline.view.items import ViewItem, is_preamble

KEEP_TEXT: Final = "Keep this text unchanged, and add only what is missing."
"""Suggested guidance for a new draft of a text that the user has edited."""
WIDE: Final = 110
"""Minimum width, in columns, at which Cut and Draft are shown side by side."""
TALL: Final = 35
"""Minimum height, in rows, at which Audit is shown below Cut and Draft."""
GUIDANCE_PROMPT: Final = "what should the new draft do better? (optional)"
UPDATING: Final = "updating …"
NO_CUT: Final = "No cut: this strategy chooses what to keep."
DRAFT_ENDED: Final = (
    "There is no draft. Press Esc, then use /compact --preview to start one."
)
DRAFT_WAITS: Final = "The draft starts when the current work has finished."
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
_LEAVING: Final = ("close", "apply", "next-panel", "previous-panel")
"""Commands whose keys close the editor and keep the text."""


class DraftMode:
    """The draft that the browser shows.

    The owner calls `show` after each change.
    """

    def __init__(
        self,
        browser: Workbench,
        cut: EntryList,
        show_rows: Callable[[ProposedView], None],
        clock: Callable[[], float],
    ) -> None:
        """Create the panels.

        Args:
            cut: the list that shows the rows of the proposed view.
            show_rows: shows these rows.
            clock: returns the time in seconds.
        """
        self._browser = browser
        self._cut = cut
        self._show_rows = show_rows
        self._clock = clock
        self.panel = DraftPanel(self._editor_key)
        self._audit = EntryList(id="audit")
        self.audit = Panel(self._audit, title="3 Audit: lost facts")
        self.state = DraftState()
        self.view: ProposedView | None = None
        """The rows of the Cut panel; None until there is a plan."""
        self.forecast: ViewForecast | None = None
        self._facts: list[LostFact] = []
        self._shown: tuple[object, ...] = ()
        """The values from which Cut and Audit were drawn."""
        self._starts_at_cut = True
        """Whether the cursor goes to the cut as soon as there is one."""
        self._upper = CUT
        """The panel shown above Audit if there is no room for both Cut and Draft."""
        self._asked_at = 0.0
        """When the question whether to discard the draft was asked, in seconds on the clock."""
        self._edits = PendingEdits()
        self._text: str | None = None
        """The text edited by the user, until a proposal contains it."""

    def _ask(self, operation: Operation) -> None:
        self._browser.post_message(OperationWanted(operation))

    # --- For the browser ------------------------------------------------------------------------------

    @property
    def key_state(self) -> KeyState:
        """State that determines which keys work."""
        state = self.state
        proposal = state.proposal
        return KeyState(
            in_draft=True,
            panel=self._browser.active,
            in_panels=not (self.panel.is_editing or self._browser.line.display),
            decides=proposal is not None and state.drafting is None,
            is_stale=proposal is not None and proposal.state == "stale",
            is_editable=proposal is not None and proposal.editable,
            writes_text=proposal is None or bool(proposal.entry.summary),
            has_cut=self.forecast is not None and bool(self.forecast.cut_points),
            has_earlier=earlier_notes(proposal) is not None,
            on_row=self.entry is not None,
        )

    def show(self, state: DraftState) -> None:
        """Show a state.

        Lists are redrawn only if their content has changed. If only the text of the draft has grown, the
        update is fast.
        """
        before = self.state
        self.state = state
        if self.forecast is None or (state.proposal, state.plan) != (
            before.proposal,
            before.plan,
        ):
            self.forecast = forecast_of(state)
        if state.proposal is not before.proposal:
            self._browser.status_note = ""
            self.panel.shows_difference = False
        self._edits.answered(state.proposal)
        if state.proposal and state.proposal.notes == (self._text or "").strip():
            self._text = None
        if state.error != before.error:
            self._browser.status_note = state.error
            if state.error:  # the edits must not hide the error
                self._edits.forget()
        self.redraw()
        self._send_edits()

    # --- The user's edits -----------------------------------------------------------------------------

    def _revise(self, **changes: object) -> None:
        """Add a change to the edits, and request them as soon as possible."""
        self._edits.add(changes)
        self._send_edits()

    def _send_edits(self) -> None:
        """Request the edits, unless a revision or a draft is already in progress."""
        proposal = self.state.proposal
        if proposal is None or self.state.drafting is not None:
            return
        request = self._edits.next_request(proposal)
        if request is not None:
            # Clear the error, so that the same error is shown again.
            self.state = replace(self.state, error="")
            self._ask(request)

    # --- Content --------------------------------------------------------------------------------------

    def forget_rows(self) -> None:
        """Draw all rows with the next `show`, because the list has shown others."""
        self._shown = ()

    def redraw(self) -> None:
        """Draw the panels with changed content."""
        state = self.state
        basis = (state.proposal, state.plan, state.held, state.focus)
        if basis != self._shown:
            self._shown = basis
            self._show_cut()
            self._show_audit()
        self.panel.show(state)
        self.relink()
        self._browser.describe()

    def _show_cut(self) -> None:
        state = self.state
        if self.forecast is None or state.projection is None:
            return
        self.view = ProposedView(self.forecast, state.projection, state.held, state.cwd)
        cut_before = self._cut.block(CUT_KEY)
        self._show_rows(self.view)
        self._cut.fill()
        cut = self._cut.block(CUT_KEY)
        if self._starts_at_cut:
            self._browser.call_after_refresh(self.start_at_cut)
        elif cut and cut_before and cut.text() != cut_before.text():
            self._cut.scroll_to_key(CUT_KEY)

    def start_at_cut(self) -> None:
        """Move the cursor to the first row after the cut, and show the cut in the middle."""
        cut = self._cut.index_of(CUT_KEY)
        if cut is None:
            return
        self._starts_at_cut = False
        if self._browser.active == CUT:
            self._cut.cursor_to(self._cut.block_at(cut + 1).key, quiet=True)
        self._cut.show_in_middle(CUT_KEY)
        self.relink()
        self._browser.describe()

    def _show_audit(self) -> None:
        state = self.state
        proposal = state.proposal
        facts: list[LostFact] = []
        if proposal and state.projection and self.forecast:
            facts = facts_of(
                proposal.audit, self.forecast, state.projection, state.focus
            )
        self._facts = facts
        view = self._audit
        blocks = fact_blocks(facts, is_stale=self.key_state.is_stale)
        view.set_blocks(blocks or [empty_block(proposal.audit if proposal else None)])
        view.scroll_to_key(view.cursor or view.block_at(0).key)
        view.fill()

    # --- Panels and focus -----------------------------------------------------------------------------

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
        line = self.panel.ledger_line
        if self._browser.active == DRAFT:
            return None if line is None else line.entry
        if self._browser.active == AUDIT:
            return None if self.fact is None else self.fact.entry
        return None if self.item is None else self.item.index

    def relink(self) -> None:
        """Mark the row that corresponds to the cursor.

        For an item that is removed, this is its first lost fact; for a fact, this is its item.
        """
        entry = self.entry
        if self._browser.active == AUDIT:
            self._cut.show_counterpart(None if entry is None else row_key(entry))
        elif self._browser.active == CUT:
            lost = [fact for fact in self._facts if entry in fact.lost.indices]
            self._audit.show_counterpart(lost[0].key if lost else None)

    def panels_at(self, width: int, height: int) -> tuple[int, ...]:
        """Return the panels to show in a browser of this size.

        These are all three panels, Cut and Draft side by side, one of the two above Audit, or a single panel.
        """
        active = self._browser.active
        is_tall = height >= TALL
        if active != AUDIT:
            self._upper = active
        elif not is_tall:
            return (AUDIT,)
        upper = (CUT, DRAFT) if width >= WIDE else (self._upper,)
        return (*upper, AUDIT) if is_tall else upper

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self, cut: Panel) -> None:
        """Update the text in the frames."""
        forecast = self.forecast
        cut.head("", "1 Cut")
        cut.foot(
            NO_CUT if forecast is not None and forecast.cut is None else words.CUT_FOOT
        )
        self.panel.head(words.draft_head(self.state, forecast, self._clock()))
        self.panel.foot(words.draft_foot(self.state))
        self.audit.head(words.audit_head(self.state))

    def status_row(self, width: int) -> list[Span]:
        """Return the effect of pressing Enter, and the note that nothing has been applied yet."""
        effect = self._effect()
        if isinstance(effect, str):
            effect = [piece(clean_line(effect), cut="right")]
        if self.state.proposal is None:
            return row(effect, [], width)
        note = UPDATING if self._edits.is_updating else words.NOT_YET
        return row(effect, [piece(note, "muted", rank=1)], width)

    def hint_pairs(self) -> Sequence[tuple[str, str]]:
        """Return the hints of the editor or of an open field, if any."""
        if self.panel.is_editing:
            return (
                (key_name("editor"), "open $EDITOR"),
                (key_name("close"), "keep the text"),
            )
        if self._browser.line.display:
            return (("Enter", "continue"), (key_name("close"), "leave"))
        return ()

    def _effect(self) -> str | list[RowPiece]:
        """Return the effect of pressing Enter, the question to answer, or the work in progress."""
        state = self.state
        forecast = self.forecast
        if self.panel.is_editing:
            return words.EDITING
        if state.drafting is not None:
            return words.writing_words(state.drafting, self._clock())
        if state.proposal is None or forecast is None or state.projection is None:
            return DRAFT_ENDED if state.error else DRAFT_WAITS
        line = self.panel.ledger_line
        if self._browser.active == CUT:
            index = self.item.index if self.item is not None else -1
            return words.about_item(forecast, self.item, state.projection.group(index))
        if self._browser.active == AUDIT:
            return words.about_fact(forecast, self.fact)
        if line is not None:
            return words.about_line(line, pinned=self.panel.is_pinned(line))
        return words.ENTER_EDITS if state.proposal.editable else ""

    def esc_words(self) -> str:
        """Return the effect of Esc, in words."""
        if self._browser.size.width < 60:
            return "close"
        if self.state.drafting is not None:
            return "cancel the draft"
        return "close, keep proposal" if self.state.proposal else "close"

    # --- Keys -----------------------------------------------------------------------------------------

    @property
    def actions(self) -> dict[str, Callable[[], None]]:
        """The commands that a draft has, with their actions."""
        pin = (self._pin_item, self._pin_line, self._pin_fact)
        return {
            "apply": self._apply,
            "redraft": self._redraft,
            "discard": self._discard,
            "edit": self._edit,
            "editor": self._edit_outside,
            "diff": self._show_difference,
            "keep-more": lambda: self._move_cut(-1),
            "keep-less": lambda: self._move_cut(1),
            "pin": pin[self._browser.active],
            "drop": lambda: self._change_line("drop"),
            "focus": self._add_focus,
        }

    def open(self) -> None:
        """Carry out Enter in the active panel."""
        if self._browser.works_now("open"):
            (self._cut_here, self._edit, self._pin_fact)[self._browser.active]()
        elif self.state.drafting is not None:
            self._browser.status_note = AFTER_DRAFT

    def cancel(self) -> bool:
        """Cancel the draft that is being written, and return whether there is one."""
        if self.state.drafting is None:
            return False
        self._browser.post_message(CancelRequested())
        return True

    # --- The cut --------------------------------------------------------------------------------------

    def _cut_here(self) -> None:
        forecast = self.forecast
        item = self.item
        if forecast is None or item is None:
            return
        point = forecast.cut_point_before(forecast.items.index(item))
        if point is None:
            self._browser.status_note = words.NO_CUT_POINT
        else:
            self._cut_at(forecast, point)

    def _move_cut(self, step: int) -> None:
        forecast = self.forecast
        if forecast is None or forecast.cut is None:
            return
        position = forecast.cut
        cut_index = self._edits.revision.first_kept_index
        if cut_index is not None:
            position = forecast.position_of(cut_index)
        point = forecast.next_cut_point(position, step)
        if point is None:
            self._browser.status_note = FIRST_CUT_POINT if step < 0 else LAST_CUT_POINT
        else:
            self._cut_at(forecast, point)

    def _cut_at(self, forecast: ViewForecast, point: int) -> None:
        if point == forecast.cut and self._edits.revision.first_kept_index is None:
            return  # so that the draft does not become stale without need
        self._revise(first_kept_index=forecast.items[point].index)

    # --- Pins and focus -------------------------------------------------------------------------------

    def _pin(self, group: Sequence[int]) -> None:
        """Pin the entries of a tool group or, if they are pinned, unpin them."""
        proposal = self.state.proposal
        if proposal is None:
            return
        pins = set(
            proposal.pins
            if self._edits.revision.pins is None
            else self._edits.revision.pins
        )
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
            self._browser.status_note = CANNOT_PIN
        else:
            self._pin(state.projection.group(item.index))

    def _pin_fact(self) -> None:
        if self.fact is not None and self.fact.group:
            self._pin(self.fact.group)
        else:
            self._browser.status_note = words.ONLY_IN_SUMMARY.format(
                key=key_name("focus")
            )

    def _pin_line(self) -> None:
        line = self.panel.ledger_line
        if line is not None:
            self._change_line("unpin" if self.panel.is_pinned(line) else "pin")

    def _change_line(self, change: LedgerChange) -> None:
        """Change the ledger line at the cursor, if any."""
        line = self.panel.ledger_line
        if line is not None:
            self._revise(
                ledger={**(self._edits.revision.ledger or {}), line.id: change}
            )

    def _add_focus(self) -> None:
        fact = self.fact
        focus = self._edits.revision.focus or self.state.focus or ""
        if fact is None:
            return
        if fact.lost.text in focus:
            self._browser.status_note = ALREADY_IN_FOCUS.format(key=key_name("redraft"))
        else:
            self._revise(focus="; ".join(filter(None, (focus, fact.lost.text))))

    # --- The text -------------------------------------------------------------------------------------

    def _edit(self) -> None:
        proposal = self.state.proposal
        if proposal is None or not proposal.editable:
            self._browser.status_note = NOT_EDITABLE
            return
        if self._browser.active != DRAFT:
            self._browser.take_over(DRAFT)
        self.panel.edit(proposal.notes if self._text is None else self._text)

    async def _editor_key(self, key: str) -> bool:
        """Handle a key that closes the editor or opens an external one.

        Returns whether the key was handled.
        """
        if any(key in key_of(KEYS, command).pressed for command in _LEAVING):
            self._browser.call_next(self._end_editing)
            return True
        if key in key_of(KEYS, "editor").pressed:
            self._browser.call_next(self._edit_outside)
            return True
        return False

    def _end_editing(self) -> None:
        if self.panel.is_editing:
            self._take_text(self.panel.leave())

    def _edit_outside(self) -> None:
        """Edit the draft, or the content of the open editor, in $VISUAL or $EDITOR."""
        proposal = self.state.proposal
        if proposal is None:
            return
        text = proposal.notes if self._text is None else self._text
        if self.panel.is_editing:
            text = self.panel.editor.text
        changed = app_actions.edited(self._browser.app, text, self._browser.tell)
        if changed is not None:
            self.panel.leave()
            self._take_text(clean(changed))

    def _take_text(self, text: str) -> None:
        """Use the user's text as the draft if the text has changed."""
        proposal = self.state.proposal
        self._browser.enter()
        if proposal is not None and text.strip() != proposal.notes:
            self._text = text
            self._revise(notes=text)
        self._browser.describe()

    def _show_difference(self) -> None:
        self.panel.shows_difference = not self.panel.shows_difference
        self.panel.show(self.state)
        self._browser.go(DRAFT)

    # --- Deciding -------------------------------------------------------------------------------------

    def _apply(self) -> None:
        proposal = self.state.proposal
        if proposal is None or self.state.drafting is not None:
            self._browser.status_note = AFTER_DRAFT
        elif self._edits.is_updating:
            self._browser.status_note = STILL_UPDATING.format(key=key_name("apply"))
        elif self._text is not None:
            self._browser.status_note = TEXT_NOT_USED.format(
                edit=key_name("edit"),
                redraft=key_name("redraft"),
                discard=key_name("discard"),
            )
        elif proposal.state == "stale":
            self._browser.status_note = STALE.format(key=key_name("redraft"))
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
        self._browser.ask_line(DISCARD.format(what=what), "", self._discard_confirmed)

    def _discard_confirmed(self, typed: str) -> None:
        """Discard the proposal, unless Enter may belong to text that was typed before the question."""
        proposal = self.state.proposal
        self._browser.close_line()
        if self._clock() < self._asked_at + DEAF_SECONDS:
            self._browser.status_note = TOO_SOON
        elif proposal is not None and not typed:
            self._text = None
            self._ask(operations.DiscardProposal(proposal=proposal.id))
        self._browser.describe()

    def _redraft(self) -> None:
        """Ask for guidance, then start a new draft.

        The guidance suggested for a text that the user has edited is to keep the text.
        """
        suggestion = KEEP_TEXT if self._by_hand else ""
        self._browser.ask_line(GUIDANCE_PROMPT, suggestion, self._draft_again)

    def _draft_again(self, guidance: str) -> None:
        self._browser.close_line()
        self._text = None
        proposal = self.state.proposal
        if proposal is not None:
            self._ask(
                operations.RedraftProposal(
                    proposal=proposal.id, guidance=guidance.strip() or None
                )
            )
        self._browser.describe()
