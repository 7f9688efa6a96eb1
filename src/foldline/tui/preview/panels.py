"""Cut, Draft and Audit of a proposal as one widget. What its keys ask for is an operation: nothing here
changes a proposal."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from textual import events, on
from textual.app import ComposeResult

from foldline.context import numbers
from foldline.context.harmless import clean, clean_line
from foldline.protocol import operations
from foldline.protocol.operations import LedgerChange, Operation
from foldline.tui import dialogs
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Piece, Span, Spans, piece, row
from foldline.tui.blocks.view import BlockView
from foldline.tui.keys.table import bindings, key_of
from foldline.tui.lists.screen import Question, TypedText
from foldline.tui.messages import CancelRequested, EntryWanted
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.entry_rows import Source, gutter_width
from foldline.tui.panels.frame import Panel
from foldline.tui.panels.workbench import Workbench
from foldline.tui.preview import words
from foldline.tui.preview.draft import DraftPanel, DraftSheet, LedgerRow, NotesEditor, earlier_notes
from foldline.tui.preview.keys import KEYS, Facts, Mode, hints_in_mode, named
from foldline.tui.preview.outlook import Outlook, redraft_words
from foldline.tui.preview.rows import (
    CUT_KEY,
    PREAMBLE_KEY,
    Fact,
    FactKeys,
    Row,
    cut_gutter,
    cut_rows,
    empty_block,
    fact_blocks,
    facts_of,
)
from foldline.tui.preview.state import PendingRevision, PreviewState
from foldline.tui.widgets.lines import hint
from foldline.tui.widgets.question import TOO_SOON
from foldline.tui.widgets.status import retry_pieces

KEEP_TEXT: Final = "Take this text over as it is, and add only what is missing."
"""Guidance where the reader keeps the text of their own, and says no more."""
WIDE: Final = 120
"""Columns from which Cut and Draft stand side by side."""
TALL: Final = 36
"""Rows from which Audit stands below them."""
_ABOVE: Final = 3
"""Rows of the screen above the panels: header and bars."""
CUT, DRAFT, AUDIT = 0, 1, 2


class PreviewPanels(Workbench):
    """The three panels. The owner calls `show` whenever something changed."""

    KEYS = KEYS
    BINDINGS = bindings(KEYS, "preview")
    KEPT_HINT = "panel"

    def __init__(self, ask: Callable[[Operation], None], clock: Callable[[], float]) -> None:
        self.draft = DraftPanel()
        self._gutter_width = gutter_width(0)
        cut = EntryList(id="cut", gutter=self._gutter, gutter_width=self._gutter_width, faded=self._faded)
        super().__init__(Panel(cut, title="1 Cut"), self.draft, Panel(EntryList(id="audit"), title="3 Audit"))
        self._ask = ask
        self._clock = clock
        self.state = PreviewState()
        self._outlook: Outlook | None = None
        self._pending = PendingRevision()
        self._text = DraftSheet(self.draft.view)
        self._rows: dict[Key, Row] = {}
        self._row_of: dict[int, Key] = {}
        """The row of an entry."""
        self._facts: dict[Key, Fact] = {}
        self._fact_keys = FactKeys()
        self._marked: set[Key] = set()
        self._shown: tuple[object, ...] = ()
        self._took: float | None = None
        """Seconds that the draft took."""
        self._over = False
        """Whether a draft was begun here and has ended, in whatever way."""
        self._upper = CUT
        self._mode: Mode = "panels"
        self._question: Question | None = None
        """What is done only at a second key; its answers are by command."""
        self._typed = TypedText()
        self._unsent: str | None = None
        """The reader's own text, until a proposal shows it."""

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
    def facts(self) -> Facts:
        """The facts by which keys work or not."""
        state, outlook = self.state, self._outlook
        proposal, finds = state.proposal, self._mode == "panels" and self.line.display
        return Facts(
            mode="asked" if self._question else "finding" if finds else self._mode,
            panel=self.active,
            drafting=state.drafting is not None,
            proposal=proposal is not None,
            stale=proposal is not None and proposal.state == "stale",
            editable=proposal is not None and proposal.editable,
            textless=proposal is not None and not proposal.entry.summary,
            has_cut=outlook is not None and bool(outlook.cut_points),
            has_earlier=earlier_notes(proposal) is not None,
            differing=self._text.shows_difference,
            facts=bool(self._facts),
            on_ledger=self.ledger_row is not None,
            searching=bool(self.needle),
        )

    def show(self, state: PreviewState, outlook: Outlook | None) -> None:
        """Show this state. Lists with the same content are left alone."""
        before, self.state, self._outlook = self.state, state, outlook
        proposal = state.proposal
        if proposal is not None and self._unsent is not None and proposal.notes == self._unsent.strip():
            self._unsent = None
        self._pending.answered(proposal)
        if before.drafting is not None and state.drafting is None:
            self._took, self._over = self._clock() - before.drafting.since, True
        elif state.drafting is not None:
            self._took, self._over = None, False
        if proposal is not before.proposal:
            self.news, self._question = "", None
            self._text.shows_difference = False
        if state.error != before.error:
            self.news = state.error
            if state.error:
                self._pending.forget()
        self._redraw()
        self._ask_next()

    # --- Content --------------------------------------------------------------------------------------

    def _redraw(self) -> None:
        state = self.state
        basis = (state.proposal, state.plan, state.held, state.focus, state.drafting is None)
        if basis != self._shown:
            self._shown = basis
            self._show_cut()
            self._show_audit()
        self._text.show(state)
        self.relink()
        self.describe()

    def _show_cut(self) -> None:
        view, proposal = self.panels[CUT].view, self.state.proposal
        rows: list[Row] = []
        if self._outlook is not None and self.state.projection is not None:
            strategy = proposal.entry.strategy if proposal else self.state.strategy
            source = Source(self.state.projection, self.state.cwd)
            rows = cut_rows(self._outlook, source, self.state.held, strategy)
            self._gutter_width = gutter_width(source.projection.last_index)
            view.widen_gutter(self._gutter_width)
        first, before = not self._rows, self._rows.get(CUT_KEY)
        self._rows = {row.key: row for row in rows}
        self._row_of = {index: row.key for row in rows for index in row.indices}
        view.set_blocks([row.block for row in rows])
        view.fill()
        cut = self._rows.get(CUT_KEY)
        if first and rows:
            self.call_after_refresh(self._start_at_cut)
        elif cut is not None and before is not None and cut.position != before.position:
            view.scroll_to_key(CUT_KEY)

    def _start_at_cut(self) -> None:
        """The cursor begins behind the cut, which is in sight."""
        view, outlook = self.panels[CUT].view, self._outlook
        left = [row for row in self._rows.values() if not (row.written or row.pinned)]
        behind = [row.key for row in left if row.stands_for_items and row.key != CUT_KEY]
        if outlook is not None and outlook.cut is not None:
            place = outlook.cut
            behind = [key for key in behind if self._rows[key].position >= place] or behind
        if behind and self.active == CUT:
            view.cursor_to(behind[0], quiet=True)
        view.scroll_to_key(CUT_KEY)
        self.relink()
        self.describe()

    def _show_audit(self) -> None:
        proposal, outlook = self.state.proposal, self._outlook
        facts: list[Fact] = []
        if proposal is not None and outlook is not None:
            facts = facts_of(proposal.audit, outlook, self.state.focus, self._fact_keys)
        self._facts = {fact.key: fact for fact in facts}
        self._marked &= self._facts.keys()
        self._draw_facts()

    def _draw_facts(self) -> None:
        proposal, view = self.state.proposal, self.panels[AUDIT].view
        blocks = fact_blocks(list(self._facts.values()), self._marked, self.facts.stale)
        at_top = view.top is None or (view.index_of(view.top[0]), view.top[1]) == (0, 0)
        view.set_blocks(blocks or [empty_block(proposal.audit if proposal else None)])
        if at_top and view.top is not None:  # what is worth most stands first, and comes as a surprise
            view.scroll_to_key(view.block_at(0).key)
        if view.cursor is not None:
            view.scroll_to_key(view.cursor)
        view.fill()

    def _gutter(self, key: Key, line: int) -> Spans:
        return cut_gutter(self._rows.get(key), self._gutter_width)

    def _faded(self, key: Key) -> bool:
        row = self._rows.get(key)
        return row is not None and row.gone and not row.written

    # --- Panels and focus -----------------------------------------------------------------------------

    @property
    def row(self) -> Row | None:
        """The row of Cut under the cursor."""
        key = self.panels[CUT].view.cursor
        return self._rows.get(key) if key is not None else None

    @property
    def fact(self) -> Fact | None:
        """The fact of Audit under the cursor."""
        key = self.panels[AUDIT].view.cursor
        return self._facts.get(key) if key is not None else None

    @property
    def ledger_row(self) -> LedgerRow | None:
        """The line of the ledger under the cursor of Draft."""
        key = self.draft.view.cursor
        return self._text.ledger.get(key) if key is not None else None

    @property
    def chosen(self) -> list[Fact]:
        """The facts a key acts on: all marked ones, or the one under the cursor."""
        if self._marked:
            return [fact for key, fact in self._facts.items() if key in self._marked]
        return [self.fact] if self.fact is not None else []

    def relink(self) -> None:
        """Show the counterpart in the other panel: the facts of a turn, or the turn of a fact."""
        cut, audit = self.panels[CUT].view, self.panels[AUDIT].view
        if self.active == AUDIT:
            fact = self.fact
            cut.show_counterpart(self._row_of.get(fact.entry) if fact is not None else None)
        elif self.active == CUT:
            row = self.row
            inside = frozenset(row.indices) if row is not None and row.gone else frozenset()
            lost = (fact.key for fact in self._facts.values() if inside.intersection(fact.lost.indices))
            audit.show_counterpart(next(lost, None))

    def forget_news(self) -> None:
        """Clear the news. Why a draft failed stays until another one is written."""
        self.news = self.state.error if self.state.drafting is not None else ""
        self._question = None

    def lay_out(self) -> None:
        """All three panels, Cut and Draft, or one above Audit, or one alone."""
        width, height = self.size
        if not width:
            return
        wide, tall = width >= WIDE, height >= TALL - _ABOVE
        upper = tall or self.active != AUDIT
        shown = [number for number in (CUT, DRAFT) if upper and (wide or number == self._upper)]
        self.side_by_side.display = upper
        self.show_panels(*shown, *([AUDIT] if tall or not upper else []))
        self.share_rows(str(max(8, height // 4)) if upper else "1fr")

    @property
    def below(self) -> Panel:
        return self.panels[AUDIT]

    def show_place(self, view: EntryList) -> None:
        view.fill()
        view.show_place()

    def has_cursor(self, number: int) -> bool:
        """Nothing else answers to a line of the draft."""
        return number != DRAFT

    def take_over(self, number: int) -> None:
        self._upper = number if number != AUDIT else self._upper
        super().take_over(number)
        self.relink()

    # --- Words ----------------------------------------------------------------------------------------

    def describe_panels(self) -> None:
        state, outlook, facts = self.state, self._outlook, self.facts
        cut, draft, audit = self.panels
        movable = facts.has_cut and facts.proposal and not facts.drafting
        sides = (("keep-more", "keeps more"), ("keep-less", "keeps less"))
        moves = [hint("".join(key_of(KEYS, each).names[:1]), word, "muted", "muted") for each, word in sides]
        cut.head((*moves[0], ("  ", "muted"), *moves[1]) if movable else "")
        cut.foot(
            "├ cut points · tokens estimated", "Enter cuts here" if self.active == CUT and movable else ""
        )
        draft.head(words.draft_head(state, outlook, self._clock(), self._took))
        earlier = earlier_notes(state.proposal)
        draft.foot(words.draft_foot(facts, earlier[0] if earlier else None, redraft_words(state)))
        audit.head(*words.audit_head(state))
        usable = self.active == AUDIT and facts.facts and not facts.drafting
        keys = f"Enter pins · {named('focus')} adds to the focus · {named('mark')} marks several"
        audit.foot(keys if usable else "", f"{named('entry')} to the entry" if usable else "")

    def status_row(self, width: int) -> list[Span]:
        """The effect of Enter, and that nothing is applied yet."""
        said = self._effect(self.facts)
        left = [piece(clean_line(said), cut="right")] if isinstance(said, str) else said
        remark = "one moment" if self._pending.open else words.NOT_YET
        right = [piece(remark, "muted", rank=1)] if self.state.proposal is not None else []
        return row(left, right, width)

    def hint_pairs(self) -> Sequence[tuple[str, str]]:
        if self._question is None:
            mode = self.facts.mode
            return super().hint_pairs() if mode == "panels" else hints_in_mode(mode)
        answers = self._question.answers.items()
        keys = [("Enter" if command == "enter" else named(command), word) for command, (word, _) in answers]
        return (*keys, ("any other key", "no"))

    def _effect(self, facts: Facts) -> str | list[Piece]:
        """The effect of Enter, or the work that is waited for."""
        state, outlook = self.state, self._outlook
        if self._question is not None:
            return self._question.sentence
        if self._mode == "editing":
            return "What you write replaces the draft. The lists from the history stay below it."
        if state.drafting is not None:
            if (again := state.drafting.waits_at(self._clock())) is not None:
                return retry_pieces(again, self._clock())
            waited = numbers.elapsed(self._clock() - state.drafting.since)
            return f"The model writes, {waited}. Nothing is applied until you say so."
        if state.proposal is None or outlook is None:
            if self._over or state.error:
                return "Nothing is drafted. Esc leads back; /preview there starts a draft."
            return "What runs goes first: the draft starts when that has ended."
        if self.active == CUT:
            return words.about_cut(outlook, self.row)
        if self.active == DRAFT and self.ledger_row is not None:
            return words.about_ledger(self.ledger_row)
        if self.active == DRAFT:
            return "Enter edits the text. No model is asked for that." if facts.editable else ""
        return words.about_facts(outlook, self.chosen, bool(self._marked), facts.stale)

    def esc_words(self) -> str:
        facts = self.facts
        if self.size.width < 60:
            return "close"
        if facts.searching:
            return "ends the search"
        if facts.drafting:
            return "cancels the draft"
        return "close, proposal kept" if facts.proposal else "close"

    # --- Keys -----------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        self._typed.note(event, self._clock())

    def action_preview(self, command: str) -> None:
        """One of the keys of the table."""
        if self._question is not None:
            self._answer(self._question, command)
        elif self.works_now(command) or command == "apply":
            self.news = ""
            self.act(command)
        elif self.facts.drafting:
            self.news = "Once it is drafted."
        self.describe()

    def act(self, command: str) -> None:
        own = self._actions.get(command)
        if own is not None:
            own()
        elif command.endswith("-prompt") and self.active != CUT:
            self.news = f"No prompts here: {named('panel-1')} goes to Cut."
        else:
            super().act(command)

    def is_prompt(self, block: Block) -> bool:
        return self._rows[block.key].prompt

    @property
    def _actions(self) -> dict[str, Callable[[], None]]:
        """The commands that only the preview has."""
        return {
            "apply": self._apply,
            "redraft": self._redraft,
            "discard": self._discard,
            "edit": self._edit,
            "editor": self._edit_outside,
            "difference": self._show_difference,
            "keep-more": lambda: self._move_cut(-1),
            "keep-less": lambda: self._move_cut(1),
            "pin": (self._pin_row, self._pin_line, self._pin_facts)[self.active],
            "drop": lambda: self._change_line("drop"),
            "focus": self._add_focus,
            "mark": self._mark,
            "entry": self._open_entry,
            "close": self._close,
        }

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        if self._question is not None:
            self._answer(self._question, "enter")
        elif not self.works_now("enter"):
            self.news = "Once it is drafted." if self.facts.drafting else ""
        elif event.view is self.panels[CUT].view:
            self._cut_here()
        elif event.view is self.panels[AUDIT].view:
            self._pin_facts()
        else:
            self._edit()
        self.describe()

    def _close(self) -> None:
        """One step outwards."""
        if self._mode == "editing":
            self.draft.editor.post_message(NotesEditor.Left())
        elif self._mode == "guiding":
            self._mode = "panels"
            self.close_line()
        else:
            super().act("close")

    def leave(self) -> None:
        if self.state.drafting is not None:
            self.post_message(CancelRequested())
        else:
            super().leave()

    def _open_entry(self) -> None:
        index = None
        if self.active == AUDIT and self.fact is not None:
            index = self.fact.entry
        elif self.active == CUT and self.row is not None:
            index = self.row.index
        elif self.active == DRAFT and self.ledger_row is not None:
            index = self.ledger_row.line.entry
        if index is None:
            self.news = "No entry under the cursor."
        else:
            self.post_message(EntryWanted(index))

    # --- The cut --------------------------------------------------------------------------------------

    def _cut_here(self) -> None:
        row, outlook = self.row, self._outlook
        if row is None or outlook is None:
            return
        place = outlook.cut_point_before(row.position) if row.stands_for_items else None
        if outlook.cut is None:
            self.news = "There is no cut to move: this strategy decides itself what stays."
        elif place is None:
            self.news = "No cut point at or before this row."
        else:
            self._want_cut(outlook.index_at(place))

    def _move_cut(self, step: int) -> None:
        outlook = self._outlook
        if outlook is None or outlook.cut is None:
            return
        heading = self._pending.heading
        heading_for = outlook.position_of(heading) if heading is not None else None
        place = outlook.cut_point_beside(outlook.cut if heading_for is None else heading_for, step)
        if place is not None:
            self._want_cut(outlook.index_at(place))
        elif step < 0:
            self.news = "More cannot be kept: this is the first cut point."
        else:
            self.news = "Less cannot be kept: this is the last cut point."

    def _want_cut(self, index: int) -> None:
        outlook = self._outlook
        here = outlook.index_at(outlook.cut) if outlook is not None and outlook.cut is not None else None
        if index == here and self._pending.heading is None:
            return  # moved for nothing, the draft would be stale for nothing
        self._pending.want_cut(index)
        self._ask_next()

    # --- Pins and focus -------------------------------------------------------------------------------

    def _pin_row(self) -> None:
        proposal, row = self.state.proposal, self.row
        entries = frozenset(row.indices) if row is not None else frozenset()
        if row is None:
            return
        if proposal is None or not entries or row.written or row.key == PREAMBLE_KEY:
            self.news = "Only messages and tool calls can be pinned: this stays, or goes into the draft."
        elif entries & proposal.pinned_before:
            self.news = f"{row.index} was pinned before: the Inspector takes that back."
        elif row.pinned:
            self._pending.want_pins(unpin=entries)
        else:
            self._pending.want_pins(pin=entries)
        self._ask_next()

    def _pin_line(self) -> None:
        row = self.ledger_row
        self._change_line("unpin" if row is not None and row.pinned else "pin")

    def _change_line(self, change: LedgerChange) -> None:
        """Change the ledger line under the cursor."""
        row = self.ledger_row
        if row is not None:
            self._pending.ledger[row.line.id] = change
            self._ask_next()

    def _pin_facts(self) -> None:
        pins = frozenset(index for fact in self.chosen for index in fact.group)
        if not pins:
            self.news = f"No entry of the view holds it: {named('focus')} asks the next draft for it."
            return
        self._marked.clear()
        self._pending.want_pins(pin=pins)
        self._ask_next()

    def _add_focus(self) -> None:
        wanted = [fact.lost.text for fact in self.chosen if not fact.in_focus]
        if not wanted:
            self.news = f"It is in the focus. {named('redraft')} drafts it."
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

    def _ask_next(self) -> None:
        """Ask for the pending changes, if no other request is under way."""
        proposal = self.state.proposal
        if proposal is not None and self.state.drafting is None:
            asked = self._pending.next(proposal, self.state.focus)
            if asked is not None:
                # The same sentence once more is then news again, and an answer to this.
                self.state = replace(self.state, error="")
                self._ask(asked)

    # --- The text -------------------------------------------------------------------------------------

    def _edit(self) -> None:
        proposal = self.state.proposal
        if proposal is None or not proposal.editable:
            self.news = "There is not one new text: nothing to edit."
            return
        line = self._text.line_of(self.draft.view.cursor)
        self._text.shows_difference = False
        self._text.show(self.state)
        if self.active != DRAFT:
            self.take_over(DRAFT)
        self._mode = "editing"
        self.draft.edit(self._unsent if self._unsent is not None else proposal.notes, line)

    @on(NotesEditor.EditorWanted)
    def _edit_outside(self, event: NotesEditor.EditorWanted | None = None) -> None:
        """The text in the reader's own editor: that of the field, or the draft."""
        if event is not None:
            event.stop()
        proposal = self.state.proposal
        if proposal is None:
            return
        in_field = self._mode == "editing"
        text = self._unsent if self._unsent is not None else proposal.notes
        changed = dialogs.edited(self.app, self.draft.editor.text if in_field else text, self.tell)
        if changed is None:
            return
        if in_field:
            self.draft.leave()
        self._take_text(clean(changed))

    @on(NotesEditor.Left)
    def _left(self, event: NotesEditor.Left) -> None:
        event.stop()
        if self._mode == "editing":
            self._take_text(self.draft.leave())

    def _take_text(self, text: str) -> None:
        """The reader's own text is the draft, where it is another one."""
        proposal = self.state.proposal
        self._mode = "panels"
        self.enter()
        if proposal is not None and text.strip() != proposal.notes:
            self._unsent = self._pending.notes = text
            self._ask_next()
        self.describe()

    def _show_difference(self) -> None:
        self._text.shows_difference = not self._text.shows_difference
        self._text.show(self.state)
        self.go(DRAFT)

    # --- Deciding -------------------------------------------------------------------------------------

    def _apply(self) -> None:
        proposal = self.state.proposal
        if proposal is None or self.state.drafting is not None:
            self.news = "Once it is drafted."
        elif self._pending.open:
            again = f"Then {named('apply')} again."
            self.news = f"One moment: what you changed is being worked out. {again}"
        elif self._unsent is not None:
            throw = f"{named('redraft')} or {named('discard')} throw it away."
            self.news = f"Your text was not taken: {named('edit')} shows it. {throw}"
        elif proposal.state == "stale":
            state, _ = words.draft_state(self.state, self._outlook, 0.0)
            why = f"the draft is {state}" if "made for" in state else "it is stale"
            self.news = f"{named('redraft')} first: {why}."
        else:
            self._ask(operations.ApplyProposal(proposal=proposal.id))

    def _discard(self) -> None:
        """Throw the proposal away, once Enter confirms it."""
        proposal = self.state.proposal
        assert proposal is not None, "the key works where there is one"

        def throw() -> None:
            self._unsent = None
            self._ask(operations.DiscardProposal(proposal=proposal.id))

        sentence = f"Throw away {'your text and ' * self._by_hand}the draft? The session stays as is."
        question = Question(sentence, {"enter": ("throws it away", throw)}, math.inf)
        self._question = question
        self.call_after_refresh(question.take_keys, self._typed.deaf_until)

    def _answer(self, question: Question, command: str) -> None:
        if command == "enter" and self._clock() < question.deaf_until:
            self.tell(TOO_SOON)
            return
        self._question = None
        if command in question.answers:
            question.answers[command][1]()

    @property
    def _by_hand(self) -> bool:
        """Whether a new draft would discard text of the reader."""
        proposal = self.state.proposal
        edited = proposal is not None and proposal.state == "edited"
        return edited or self.state.hand_written or self._unsent is not None

    def _redraft(self) -> None:
        if not self._by_hand:
            self._ask_guidance()
            return
        keep = partial(self._ask_guidance, KEEP_TEXT)
        self._question = Question(
            "You have changed the text. Keep it as guidance for the new draft?",
            {"enter": ("my text as guidance", keep), "redraft": ("start afresh", self._ask_guidance)},
        )

    def _ask_guidance(self, besides: str = "") -> None:
        """Ask for guidance for a new draft; `besides` is added to it."""

        def draft(text: str) -> None:
            self._mode, self._unsent = "panels", None
            self.close_line()
            guidance = " ".join(filter(None, (text.strip(), besides)))
            proposal = self.state.proposal
            if proposal is not None:
                self._ask(operations.RedraftProposal(proposal=proposal.id, guidance=guidance or None))
            self.describe()

        self._mode = "guiding"
        self.status.display = False
        self.line.ask("what the new draft should do better; empty: nothing special", "", draft)
