"""The three panels of the preview, what stands in them, and how they share the screen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from foldline.compaction import Proposal
from foldline.context import numbers
from foldline.tui.blocks import BlockView, Key, Spans
from foldline.tui.blocks.cells import Piece
from foldline.tui.keys.table import key_of
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel, Text
from foldline.tui.preview import words
from foldline.tui.preview.audit_rows import Fact, Names, empty_block, fact_blocks, facts_of
from foldline.tui.preview.cut_rows import CUT_KEY, GUTTER, Row, cut_rows, marks, row_blocks
from foldline.tui.preview.draft_rows import DraftSheet, earlier_notes
from foldline.tui.preview.editor import DraftPanel
from foldline.tui.preview.keys import KEYS, Facts, Mode, named
from foldline.tui.preview.messages import CutMoved, FocusAdded, NotesEdited, PinsChosen, PreviewMessage
from foldline.tui.preview.outlook import Outlook, redraft_words
from foldline.tui.preview.state import PreviewState
from foldline.tui.widgets.fields import OneLine
from foldline.tui.widgets.status import retry_pieces


@dataclass
class Pending:
    """RedraftOptions in the order: text, pins, focus, cut. The later of two wishes of a kind holds."""

    notes: str | None = None
    pin: frozenset[int] = frozenset()
    unpin: frozenset[int] = frozenset()
    focus: list[str] = field(default_factory=list)
    cut: int | None = None
    """Index of the entry to cut before."""
    heading: int | None = None
    """Where the cut will be once all this is done; None where it stays."""
    asked: str = ""
    """Identity of the proposal whose revision is under way."""

    def want_cut(self, index: int) -> None:
        self.cut = self.heading = index

    def want_pins(self, pin: frozenset[int] = frozenset(), unpin: frozenset[int] = frozenset()) -> None:
        self.pin = (self.pin - unpin) | pin
        self.unpin = (self.unpin - pin) | unpin

    @property
    def open(self) -> bool:
        """Whether anything is under way or still to be asked for."""
        return bool(
            self.asked
            or self.notes is not None
            or self.pin
            or self.unpin
            or self.focus
            or self.cut is not None
        )

    def answered(self, proposal: Proposal | None) -> None:
        """A proposal is shown."""
        if proposal is None:
            self.forget()
        elif proposal.id != self.asked:
            self.asked = ""
            if proposal.cut is not None and proposal.cut.first_kept_index == self.heading:
                self.heading = None

    def forget(self) -> None:
        """Ask for nothing more: the reader has to see first what went wrong."""
        self.notes = self.cut = self.heading = None
        self.pin = self.unpin = frozenset()
        self.focus = []
        self.asked = ""

    def next(self, proposal: Proposal, focus: str | None) -> PreviewMessage | None:
        """The next wish that changes anything, for this proposal; it is under way from now on."""
        if self.asked:
            return None
        message = self._next(proposal, focus or "")
        if message is not None:
            self.asked = proposal.id
        return message

    def _next(self, proposal: Proposal, focus: str) -> PreviewMessage | None:
        notes, self.notes = self.notes, None
        if notes is not None and notes.strip() != proposal.notes:
            return NotesEdited(proposal.id, notes)
        pins, self.pin, self.unpin = (proposal.pins | self.pin) - self.unpin, frozenset(), frozenset()
        if pins != proposal.pins:
            return PinsChosen(proposal.id, pins)
        added, self.focus = [text for text in dict.fromkeys(self.focus) if text not in focus], []
        if added:
            return FocusAdded(proposal.id, "; ".join(added), "; ".join(filter(None, [focus, *added])))
        cut, self.cut = self.cut, None
        if cut is not None and proposal.cut is not None and cut != proposal.cut.first_kept_index:
            return CutMoved(proposal.id, cut)
        self.heading = None
        return None


WIDE: Final = 120
"""Columns from which Cut and Draft stand side by side; SCREENS, picture (c)."""
TALL: Final = 36
"""Rows from which Audit stands below them."""
_ABOVE: Final = 3
"""Rows of the screen above the panels: header and bars."""
CUT, DRAFT, AUDIT = 0, 1, 2


class PreviewBoard(Widget):
    """Shows a proposal in three panels. What keys do is `PreviewPanels`' business."""

    DEFAULT_CSS: ClassVar[str] = """
    PreviewBoard { layout: vertical; width: 1fr; height: 1fr; }
    PreviewBoard > #upper { height: 1fr; width: 1fr; }
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._state = PreviewState()
        self._outlook: Outlook | None = None
        self._pending = Pending()
        self._rows: dict[Key, Row] = {}
        self._row_of: dict[int, Key] = {}
        """The row of an entry."""
        self._facts: dict[Key, Fact] = {}
        self._names = Names()
        self._marked: set[Key] = set()
        self._shown: tuple[object, ...] = ()
        self._took: float | None = None
        self._over = False
        """Whether a draft was begun here and has ended, in whatever way."""
        self._ready = False
        self._active = CUT
        self._upper = CUT
        self._mode: Mode = "panels"
        self._needle = ""
        self._news = ""
        self._sure = ""
        """Identity of the proposal that the next x throws away."""
        cut = EntryList(gutter=self._marks, gutter_width=GUTTER, faded=self._faded, follow=False, id="cut")
        draft = EntryList(
            gutter=lambda key, line: (), gutter_width=1, faded=lambda _: False, follow=True, id="draft"
        )
        audit = EntryList(
            gutter=lambda key, line: (), gutter_width=1, faded=lambda _: False, follow=False, id="audit"
        )
        self.draft = DraftPanel(draft, title="2 Draft")
        self._text = DraftSheet(draft)
        self._panels: tuple[Panel, ...] = (
            Panel(cut, title="1 Cut"),
            self.draft,
            Panel(audit, title="3 Audit"),
        )
        self._status = Text(id="status")
        self._hints = Text(id="hints")
        self._one_line = OneLine()

    def compose(self) -> ComposeResult:
        with Horizontal(id="upper"):
            yield self._panels[CUT]
            yield self._panels[DRAFT]
        yield self._panels[AUDIT]
        yield self._status
        yield self._one_line
        yield self._hints

    def on_mount(self) -> None:
        self._ready = True
        self._lay_out()
        self._redraw()

    # --- For the owner --------------------------------------------------------------------------------

    @property
    def active_view(self) -> EntryList:
        """The list of the panel that has, or last had, the focus."""
        return self._panels[self._active].view

    @property
    def state(self) -> PreviewState:
        return self._state

    @property
    def facts(self) -> Facts:
        """What decides which keys work now."""
        state, outlook = self._state, self._outlook
        made = state.proposal
        return Facts(
            mode=self._mode,
            panel=self._active,
            drafting=state.drafting is not None,
            proposal=made is not None,
            stale=made is not None and made.state == "stale",
            editable=made is not None and made.editable,
            textless=made is not None and not made.entry.summary,
            has_cut=outlook is not None and bool(outlook.legal),
            has_earlier=made is not None and earlier_notes(made) is not None,
            differing=self._text.differing,
            facts=bool(self._facts),
            searching=bool(self._needle),
        )

    def focus_panels(self) -> None:
        """Give the focus to the panel that had it last."""
        self.active_view.focus()

    def show(self, state: PreviewState, outlook: Outlook | None) -> None:
        """Show what is; lists whose content is the same are left alone."""
        before, self._state, self._outlook = self._state, state, outlook
        if before.drafting is not None and state.drafting is None:
            self._took, self._over = self._clock() - before.drafting.since, True
        elif state.drafting is not None:
            self._took, self._over = None, False
        if state.proposal is not before.proposal:
            self._news = self._sure = ""
            self._text.differing = False
        if state.error != before.error:
            self._news = state.error
        self._redraw()

    def tell(self, words: str) -> None:
        """Say something in the status row, until the cursor moves."""
        self._news = words
        self._describe()

    def tick(self) -> None:
        """Time has passed: a draft takes another second."""
        self._describe()

    # --- Content --------------------------------------------------------------------------------------

    def _redraw(self) -> None:
        if not self._ready:
            return
        state = self._state
        basis = (state.proposal, state.plan, state.held, state.focus, state.drafting is None)
        if basis != self._shown:
            self._shown = basis
            self._show_cut()
            self._show_audit()
        self._text.show(state)
        self._relink()
        self._describe()

    def _show_cut(self) -> None:
        view = self._panels[CUT].view
        rows: list[Row] = []
        if self._outlook is not None:
            strategy = self._state.proposal.entry.strategy if self._state.proposal else self._state.strategy
            rows = cut_rows(self._outlook, self._state.held, self._state.cwd, strategy)
        first, before = not self._rows, self._rows.get(CUT_KEY)
        self._rows = {row.key: row for row in rows}
        self._row_of = {index: row.key for row in rows for index in row.indices}
        view.set_blocks(row_blocks(rows))
        view.fill()
        cut = self._rows.get(CUT_KEY)
        if first and rows:
            self.call_after_refresh(self._start_at_cut)
        elif cut is not None and before is not None and cut.position != before.position:
            view.scroll_to_key(CUT_KEY)

    def _start_at_cut(self) -> None:
        """The cursor begins behind the cut, which is in sight."""
        view = self._panels[CUT].view
        behind = [row.key for row in self._rows.values() if row.kind in ("turn", "step", "held")]
        outlook = self._outlook
        if outlook is not None and outlook.cut is not None:
            place = outlook.cut
            behind = [key for key in behind if self._rows[key].position >= place] or behind
        if behind and self._active == CUT:
            view.cursor_to(behind[0], quiet=True)
        view.scroll_to_key(CUT_KEY)
        self._relink()
        self._describe()

    def _show_audit(self) -> None:
        made, outlook = self._state.proposal, self._outlook
        facts: list[Fact] = []
        if made is not None and outlook is not None:
            facts = facts_of(made.audit, outlook, self._state.focus, self._names)
        self._facts = {fact.key: fact for fact in facts}
        self._marked &= self._facts.keys()
        self._draw_facts()

    def _draw_facts(self) -> None:
        made, view = self._state.proposal, self._panels[AUDIT].view
        blocks = fact_blocks(list(self._facts.values()), self._marked, self.facts.stale)
        at_top = view.top is None or (view.index_of(view.top[0]), view.top[1]) == (0, 0)
        view.set_blocks(blocks or [empty_block(made.audit if made else None)])
        if at_top and view.top is not None:  # what is worth most stands first, and comes as a surprise
            view.scroll_to_key(view.block_at(0).key)
        if view.cursor is not None:
            view.scroll_to_key(view.cursor)
        view.fill()

    # --- Gutter and link ------------------------------------------------------------------------------

    def _marks(self, key: Key, line: int) -> Spans:
        return marks(self._rows.get(key))

    def _faded(self, key: Key) -> bool:
        row = self._rows.get(key)
        return row is not None and row.gone and row.kind != "summary"

    @on(BlockView.CursorMoved)
    def _cursor_moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        if event.view is self.active_view:
            self._forget_news()
            self._relink()
            self._describe()

    def _forget_news(self) -> None:
        """What was said is read; not so why a draft failed, as long as no other one is written."""
        self._news = self._state.error if self._state.drafting is not None else ""
        self._sure = ""

    def _relink(self) -> None:
        """Show in the other panel what the cursor is on: the facts of a turn, the turn of a fact."""
        cut, audit = self._panels[CUT].view, self._panels[AUDIT].view
        if self._active == AUDIT:
            fact = self.fact
            cut.show_counterpart(self._row_of.get(fact.entry) if fact is not None else None)
        elif self._active == CUT:
            row = self.row
            inside = frozenset(row.indices) if row is not None and row.gone else frozenset()
            lost = (fact.key for fact in self._facts.values() if inside.intersection(fact.lost.indices))
            audit.show_counterpart(next(lost, None))

    @property
    def row(self) -> Row | None:
        """The row of Cut under the cursor."""
        key = self._panels[CUT].view.cursor
        return self._rows.get(key) if key is not None else None

    @property
    def fact(self) -> Fact | None:
        """The fact of Audit under the cursor."""
        key = self._panels[AUDIT].view.cursor
        return self._facts.get(key) if key is not None else None

    @property
    def chosen(self) -> list[Fact]:
        """The facts a key acts on: all marked ones, else the one under the cursor."""
        if self._marked:
            return [fact for key, fact in self._facts.items() if key in self._marked]
        return [self.fact] if self.fact is not None else []

    # --- Panels and focus -----------------------------------------------------------------------------

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Which panels show at this size: all three, Cut and Draft, or one above Audit, or one alone."""
        width, height = self.size
        if not width:
            return
        wide, tall = width >= WIDE, height >= TALL - _ABOVE
        audit = tall or self._active == AUDIT
        upper = tall or self._active != AUDIT
        for number in (CUT, DRAFT):
            self._panels[number].display = upper and (wide or number == self._upper)
        self.query_one("#upper").display = upper
        self._panels[AUDIT].display = audit
        self._panels[AUDIT].styles.height = max(8, height // 4) if upper else "1fr"
        self.call_after_refresh(self._show_places)

    def _show_places(self) -> None:
        for panel in (self._panels[CUT], self._panels[AUDIT]):
            key = panel.view.cursor or panel.view.counterpart
            if panel.display:
                panel.view.fill()
                if key is not None:
                    panel.view.scroll_to_key(key)
        self._describe()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Tab, a number or the mouse: the cursor goes along."""
        for number, panel in enumerate(self._panels):
            if event.widget is panel.view and number != self._active:
                self._take_over(number)
        self._describe()

    def on_descendant_blur(self) -> None:
        self.call_after_refresh(self._describe)

    def _take_over(self, number: int) -> None:
        if self._active != DRAFT:  # nothing else answers to a line of the draft
            self.active_view.give_cursor()
        self.active_view.set_search("")
        self._active = number
        self._upper = number if number != AUDIT else self._upper
        self.active_view.set_search(self._needle)
        if number != DRAFT and self.active_view.cursor is None:
            self.active_view.take_cursor()
        self._lay_out()

    def _go(self, number: int) -> None:
        """Focus a panel."""
        self._forget_news()
        if number != self._active:
            self._take_over(number)
        self.active_view.focus()
        self._relink()
        self._describe()

    # --- Words ----------------------------------------------------------------------------------------

    def _describe(self) -> None:
        """Frames, status and hints say what is."""
        if not self._ready:
            return
        state, outlook, facts = self._state, self._outlook, self.facts
        focused = self.has_focus_within
        for number, panel in enumerate(self._panels):
            panel.show_focus(focused and number == self._active)
        cut, draft, audit = self._panels
        movable = facts.has_cut and facts.proposal and not facts.drafting
        more, less = (key_of(KEYS, each).names[:1] for each in ("keep-more", "keep-less"))
        cut.head(f"{''.join(more)} keeps more  {''.join(less)} keeps less" if movable else "")
        cut.foot(
            "├ legal places · tokens estimated", "Enter cuts here" if self._active == CUT and movable else ""
        )
        self.draft.state(words.draft_head(state, outlook, self._clock(), self._took))
        earlier = earlier_notes(state.proposal) if state.proposal is not None else None
        draft.foot(words.draft_foot(facts, earlier[0] if earlier else None, redraft_words(state)))
        title, count = words.audit_head(state, outlook)
        audit.head(count, title)
        works = self._active == AUDIT and facts.facts and not facts.drafting
        keys = f"Enter pins · {named('focus')} adds to the focus · {named('mark')} marks several"
        audit.foot(keys if works else "", f"{named('entry')} opens the entry" if works else "")
        width = self.size.width
        self._status.show(words.status_row(self._effect(facts), self._aside(), width))
        self._hints.show(words.hints_row(facts, self._closes(facts), width))

    def _effect(self, facts: Facts) -> str | list[Piece]:
        """What Enter would do, or the news, or what is waited for."""
        state, outlook = self._state, self._outlook
        if self._news:
            return self._news
        if self._mode == "asking":
            return "You have changed the text. Keep it as guidance for the new draft?"
        if self._mode == "editing":
            return "What you write replaces the draft. The lists from the history stay below it."
        if state.drafting is not None:
            if (again := state.drafting.waits_at(self._clock())) is not None:
                return retry_pieces(again, self._clock())
            waited = numbers.elapsed(self._clock() - state.drafting.since)
            return f"The model writes, {waited}. Nothing is decided before you do it."
        if state.proposal is None or outlook is None:
            if self._over or state.error:
                return "Nothing is drafted. Esc leads back, and /preview from there drafts a fold."
            return "What runs goes first: the fold is drafted when that has ended."
        if self._active == CUT:
            return words.about_cut(outlook, self.row)
        if self._active == DRAFT:
            return words.about_draft(facts)
        return words.about_facts(outlook, self.chosen, bool(self._marked), facts.stale)

    def _aside(self) -> str:
        if self._state.proposal is None or self._news:
            return ""
        return "one moment" if self._pending.open else words.NOT_YET

    def _closes(self, facts: Facts) -> str:
        """What Esc does, in words."""
        if facts.searching:
            return "ends the search"
        if facts.drafting:
            return "cancels the draft"
        return "close, proposal kept" if facts.proposal else "close"
