"""The Draft panel: a draft's notes, appended lists and ledger, and the editor of the notes.

The panel can also show how the draft differs from the earlier summary.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from foldline.agent.tools.diffs import unified_diff
from foldline.compaction import Proposal
from foldline.compaction.summary_text import (
    CONSTRAINTS,
    LAST_MESSAGES,
    LEDGER,
    PINNED,
    counted,
    ledger_of,
    lists_of,
    notes_of,
    unframed,
)
from foldline.memory.ledger_lines import LedgerLine
from foldline.sequences import same_start
from foldline.text.harmless import clean, clean_line
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.diff import DiffBlock, lines_of_diff
from foldline.tui.blocks.plain import RuleBlock, TextBlock
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.panels.bodies import LedgerBlock, ledger_blocks
from foldline.tui.browser.panels.entry_list import EntryList
from foldline.tui.browser.panels.frame import Panel
from foldline.tui.look.fields import Editor

NOTES: Final = 0
HISTORY: Final = 1
LEDGER_ROWS: Final = 2
"""First numbers in the keys of the lines of the notes, the appended lists and the ledger."""

NO_SUMMARY: Final = "This strategy writes no summary. The Cut panel shows what it shortens or leaves out."
NO_DIFFERENCE: Final = "The draft is identical to the earlier summary."
FROM_HISTORY: Final = "from the history, not from the model"
LEDGER_TITLE: Final = "ledger: {lines} most likely to be needed"
_ITEM: Final = re.compile(r"(\s*(?:[-*+•]|\d+[.)])\s+)(?=\S)")
_LIST_NAMES: Final = {CONSTRAINTS: "quoted constraints", LAST_MESSAGES: "messages"}


def note_blocks(text: str) -> list[Block]:
    """Return a block for each line of the notes. Wrapped list items are indented."""
    lines = clean(text).split("\n") if text else []
    return [_line((NOTES, number), line) for number, line in enumerate(lines)]


def _line(key: Key, line: str) -> Block:
    if line.lstrip().startswith("#"):
        return TextBlock(key, line, "text bold")
    item = _ITEM.match(line)
    if item is None:
        return TextBlock(key, line)
    return TextBlock(key, line[item.end() :], lead=((item[1], "text"),))


def history_blocks(summary: str) -> list[Block]:
    """Return the lists that are appended to the notes, each with its number of items."""
    if not summary:
        return [TextBlock((HISTORY, 0), NO_SUMMARY, "muted")]
    ledgers = (LEDGER, PINNED)
    lists = [(tag, items) for tag, items in lists_of(summary) if tag not in ledgers]
    if not lists:
        return []
    rule = RuleBlock(
        (HISTORY, 0),
        FROM_HISTORY,
        "muted",
        stop=False,
        wide=False,
    )
    blocks: list[Block] = [rule]
    for tag, items in sorted(lists, key=lambda tagged: tagged[0] in _LIST_NAMES):
        title = f"{_LIST_NAMES.get(tag, tag)} {counted(items)}"
        gap = 1 if len(blocks) > 1 else 0
        blocks.append(TextBlock((HISTORY, len(blocks)), title, gap=gap))
        for line in "\n".join(items).splitlines():
            key = (HISTORY, len(blocks))
            text = clean_line(line)
            blocks.append(TextBlock(key, text, "muted", lead=(("  ", ""),)))
    return blocks


def earlier_notes(proposal: Proposal | None) -> tuple[int, str] | None:
    """Return the index and text of the earlier summary that this draft replaces, if any."""
    if proposal is None or proposal.cut is None or not proposal.cut.previous:
        return None
    summaries = proposal.cut.previous
    texts = [notes_of(unframed(item.message)) for item in summaries]
    return summaries[-1].index, "\n\n".join(texts)


def difference_block(earlier: str, notes: str) -> Block:
    """Return a block with the differences between the earlier summary and the draft."""
    diff = unified_diff(f"{clean(earlier)}\n", f"{clean(notes)}\n", "notes").text
    if not diff:
        return TextBlock((NOTES, 0), NO_DIFFERENCE, "muted")
    return DiffBlock((NOTES, 0), tuple(lines_of_diff(diff)))


class NotesEditor(Editor):
    """The editor for the text of the draft."""

    DEFAULT_CSS = """
    NotesEditor, NotesEditor:focus { display: none; height: 1fr; max-height: 100%; margin: 0 1 0 1; }
    """

    def __init__(self, take_key: Callable[[str], Awaitable[bool]]) -> None:
        super().__init__(take_key, _cleaned)
        self.placeholder = ""


async def _cleaned(pasted: str) -> str:
    return clean(pasted)


class DraftPanel(Panel):
    """The panel that shows the draft or its editor.

    While a draft grows, only its last line is redrawn.
    """

    def __init__(self, take_key: Callable[[str], Awaitable[bool]]) -> None:
        """Create the panel.

        Args:
            take_key: receives the keys in the editor first, and returns whether it has handled them.
        """
        self.editor = NotesEditor(take_key)
        super().__init__(
            EntryList(id="draft", follow=True), title="2 Draft", below=self.editor
        )
        self.shows_difference = False
        """Whether the differences from the earlier summary are shown."""
        self._numbers: dict[str, int] = {}
        """The key number of each ledger line displayed so far, by line id."""
        self._streamed: list[str] = []
        """The text of each line of the draft that is being written."""
        self._notes: str | None = None
        """The notes of the proposal that was displayed last; None while a draft is being written."""
        self._shown: tuple[object, ...] = ()
        self._pinned: set[str] = set()

    @property
    def is_editing(self) -> bool:
        """Whether the editor is open."""
        return self.editor.display

    @property
    def ledger_line(self) -> LedgerLine | None:
        """The ledger line at the cursor, if any."""
        block = self.view.block(self.view.cursor) if self.view.cursor else None
        return block.line if isinstance(block, LedgerBlock) else None

    def is_pinned(self, line: LedgerLine) -> bool:
        """Whether later compactions keep a ledger line."""
        return line.id in self._pinned

    def show(self, state: DraftState) -> None:
        """Show the draft, unless it is already shown."""
        text = None if state.drafting is None else state.drafting.text
        shown = (text, state.proposal, self.shows_difference)
        if shown == self._shown:
            return
        self._shown = shown
        if text is not None or state.proposal is None:
            self._stream(text or "")
            return
        self._streamed = []
        self.view.set_blocks(self._blocks(state.proposal))
        if state.proposal.notes != self._notes or self.shows_difference:
            self._notes = state.proposal.notes
            first = self.view.block_at(0).key
            self.view.call_after_refresh(self.view.scroll_to_key, first, False)

    def _stream(self, text: str) -> None:
        blocks = note_blocks(text)
        lines = [block.text() for block in blocks]
        same = same_start(self._streamed, lines)
        self._streamed = lines
        self._notes = None
        if same:
            self.view.replace_from((NOTES, same), blocks[same:])
        else:
            self.view.set_blocks(blocks)

    def _blocks(self, proposal: Proposal) -> Sequence[Block]:
        earlier = earlier_notes(proposal)
        if self.shows_difference and earlier is not None:
            return [difference_block(earlier[1], proposal.notes)]
        summary = proposal.entry.summary
        return [
            *note_blocks(proposal.notes),
            *history_blocks(summary),
            *self._ledger_blocks(summary),
        ]

    def _ledger_blocks(self, summary: str) -> list[Block]:
        """Return the ledger below a rule, ordered by entry.

        A line keeps its key even if other lines change.
        """
        ledger, pinned = ledger_of(summary)
        self._pinned = {line.id for line in pinned}
        lines = sorted((*ledger, *pinned), key=lambda line: line.entry)
        if not lines:
            return []
        keys = [(LEDGER_ROWS, self._number(line)) for line in lines]
        title = LEDGER_TITLE.format(lines=many(len(lines), "line"))
        rule = RuleBlock(
            (LEDGER_ROWS, 0), title, "muted", gap=1, stop=False, wide=False
        )
        return [rule, *ledger_blocks(lines, keys, self._pinned)]

    def _number(self, line: LedgerLine) -> int:
        return self._numbers.setdefault(line.id, len(self._numbers) + 1)

    def edit(self, text: str) -> None:
        """Open the editor, at the line of the notes under the cursor."""
        kind, line = self.view.cursor or (NOTES, 0)
        if kind != NOTES or self.shows_difference:
            line = 0
        self.editor.load_text(clean(text))
        self.editor.move_cursor((min(line, self.editor.document.line_count - 1), 0))
        self._show_editor(True)
        self.editor.focus()

    def leave(self) -> str:
        """Close the editor, and return the edited text."""
        self._show_editor(False)
        return self.editor.text

    def _show_editor(self, shown: bool) -> None:
        self.editor.display = shown
        self.view.display = not shown
