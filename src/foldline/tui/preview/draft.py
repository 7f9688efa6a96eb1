"""The Draft panel: the notes, what is appended from the history, the difference; and the field to edit in."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from textual.message import Message
from textual.strip import Strip

from foldline.agent.tools.files import change
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
from foldline.context.harmless import clean, clean_line
from foldline.context.ledger import LedgerLine
from foldline.context.numbers import many
from foldline.sequences import same_start
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import ruled, to_strip
from foldline.tui.blocks.diff import DiffBlock, lines_of_diff
from foldline.tui.blocks.plain import TextBlock
from foldline.tui.blocks.styles import Styles
from foldline.tui.keys.table import key_of
from foldline.tui.panels.bodies import ledger_blocks
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel
from foldline.tui.preview.keys import KEYS
from foldline.tui.preview.state import PreviewState
from foldline.tui.widgets.fields import Editor

NOTES: Final = 0
HISTORY: Final = 1
LEDGER_ROWS: Final = 2
"""Key numbers: lines of the notes, lines from the history, lines of the ledger."""

_ITEM: Final = re.compile(r"(\s*(?:[-*+•]|\d+[.)])\s+)(?=\S)")
_WORDS: Final = {CONSTRAINTS: "quoted constraints", LAST_MESSAGES: "messages"}


class HistoryRule(TextBlock):
    """`┄┄ from the history, not from the model: ┄┄┄┄`."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return [to_strip(ruled(f"┄┄ {self.body}", width, "muted", "┄"), styles)]


class LedgerRow(NamedTuple):
    """A line of the ledger, and whether later compactions keep it."""

    line: LedgerLine
    pinned: bool


def note_lines(text: str) -> list[str]:
    """The lines of foreign text, made harmless."""
    return clean(text).split("\n")


def note_blocks(lines: Sequence[str], first: int = 0) -> list[Block]:
    """A block for each line of clean text, numbered from `first`; list items hang."""
    return [_line((NOTES, number), line) for number, line in enumerate(lines, first)]


def _line(key: Key, line: str) -> Block:
    if line.lstrip().startswith("#"):
        return TextBlock(key, line, "text bold")
    item = _ITEM.match(line)
    if item is None:
        return TextBlock(key, line)
    return TextBlock(key, line[item.end() :], lead=((item[1], "text"),))


def history_blocks(proposal: Proposal) -> list[Block]:
    """The lists that are appended to the notes: their counts, then their lines."""
    if not proposal.entry.summary:
        words = "No summary is written: the Cut panel marks what is shortened or left out."
        return [TextBlock((HISTORY, 0), words, "muted")]
    lists = appended(proposal.entry.summary)
    if not lists:
        return []
    counts = " · ".join(f"{_WORDS.get(tag, tag)} {counted(items)}" for tag, items in lists)
    blocks: list[Block] = [
        HistoryRule((HISTORY, 0), "from the history, not from the model:", stop=False),
        TextBlock((HISTORY, 1), counts, "text"),
    ]
    for tag, items in lists:
        blocks.append(TextBlock((HISTORY, len(blocks)), _WORDS.get(tag, tag), "muted", gap=1))
        lines = [line for item in items for line in item.splitlines()]
        blocks += [
            TextBlock((HISTORY, at), clean_line(line), "muted", lead=(("  ", ""),))
            for at, line in enumerate(lines, len(blocks))
        ]
    return blocks


def appended(summary: str) -> list[tuple[str, list[str]]]:
    """The lists at the end of a summary but its ledger: files first, as they are counted."""
    lists = [each for each in lists_of(summary) if each[0] not in (LEDGER, PINNED)]
    return sorted(lists, key=lambda each: each[0] in _WORDS)


def earlier_notes(proposal: Proposal | None) -> tuple[int, str] | None:
    """Index and text of the summary that goes into this one, if any."""
    previous = proposal.cut.previous if proposal is not None and proposal.cut else ()
    if not previous:
        return None
    return previous[-1].index, "\n\n".join(notes_of(unframed(item.message)) for item in previous)


def _difference_block(earlier: str, notes: str) -> Block:
    """The difference between the earlier summary and the draft."""
    before, after = ("".join(f"{line}\n" for line in note_lines(text)) for text in (earlier, notes))
    if changed := change(before, after, "notes").diff:
        return DiffBlock((NOTES, 0), tuple(lines_of_diff(changed)))
    return TextBlock((NOTES, 0), "The draft says what the earlier summary said.", "muted")


class DraftSheet:
    """Fills the list. A line that is there stays: a draft that grows only draws its last one again."""

    def __init__(self, view: EntryList) -> None:
        self.view = view
        self.shows_difference = False
        """Whether the difference to the earlier summary is shown."""
        self.ledger: dict[Key, LedgerRow] = {}
        """The lines of the ledger that are shown."""
        self._numbers: dict[str, int] = {}
        """The key of every line of a ledger that was shown, by its id."""
        self._lines: list[str] = []
        self._shown: tuple[object, ...] = ()

    def show(self, state: PreviewState) -> None:
        proposal, drafting = state.proposal, state.drafting
        summary = proposal.entry.summary if proposal is not None else ""
        # A compaction without a text has as little of it as none at all: that is said, none the less.
        text = drafting.text if drafting else summary
        shown = (text, drafting is None, self.shows_difference, proposal is not None)
        if shown == self._shown:
            return
        grew, self._shown = self._shown[1:2] == (False,), shown
        self.ledger = {}
        earlier = earlier_notes(proposal) if self.shows_difference else None
        if proposal is not None and earlier is not None:
            self._lines = []
            self.view.set_blocks([_difference_block(earlier[1], proposal.notes)])
            self._to_top()
        elif drafting is not None or proposal is None:
            self._write(text, [])
        else:
            self._write(proposal.notes, [*history_blocks(proposal), *self._ledger_blocks(summary)])
            if grew:
                self._to_top()

    def line_of(self, key: Key | None) -> int:
        """The line of the notes that a block shows; 0 for other blocks."""
        return key[1] if key is not None and key[0] == NOTES and not self.shows_difference else 0

    def _ledger_blocks(self, summary: str) -> list[Block]:
        """The ledger under its own rule, by entry. A line keeps its key when others change."""
        ledger, pinned = ledger_of(summary)
        if not ledger and not pinned:
            return []
        lines, kept = sorted((*ledger, *pinned), key=lambda line: line.entry), {line.id for line in pinned}
        keys = [(LEDGER_ROWS, self._numbers.setdefault(line.id, len(self._numbers) + 1)) for line in lines]
        self.ledger = {key: LedgerRow(line, line.id in kept) for key, line in zip(keys, lines, strict=True)}
        words = f"ledger: {many(len(lines), 'line')} most likely to be needed"
        rule = HistoryRule((LEDGER_ROWS, 0), words, stop=False, gap=1)
        return [rule, *ledger_blocks(lines, keys.__getitem__, kept)]

    def _write(self, text: str, below: list[Block]) -> None:
        before, self._lines = self._lines, note_lines(text) if text else []
        same = same_start(before, self._lines)
        blocks = [*note_blocks(self._lines[same:], same), *below]
        if same:
            keys = ((NOTES, same), (HISTORY, 0))
            start = next(filter(self.view.holds, keys), keys[0])
            self.view.replace_from(start, blocks)
            return
        self.view.set_blocks(blocks)
        if below:
            self._to_top()

    def _to_top(self) -> None:
        """A finished text is read from its beginning. Not before the list has a size."""
        self.view.call_after_refresh(self.view.scroll_lines, -self.view.virtual_size.height - 10_000)


_LEAVING: Final = ("close", "apply", "next-panel", "previous-panel")
"""Commands whose keys leave the text and keep it."""


class NotesEditor(Editor):
    """The text of the draft, to be written over."""

    DEFAULT_CSS = """
    NotesEditor, NotesEditor:focus { display: none; height: 1fr; max-height: 100%; margin: 0 1 0 1; }
    """

    class Left(Message):
        """The reader is done with the text, and keeps it."""

    class EditorWanted(Message):
        """The reader wants to go on with the text in an editor of their own."""

    def __init__(self) -> None:
        super().__init__(self._take, self._clean)
        self.placeholder = ""

    async def _take(self, key: str) -> bool:
        """Keys that are no text: out of the field, never into the void."""
        if any(key in key_of(KEYS, command).pressed for command in _LEAVING):
            self.post_message(self.Left())
            return True
        if key in key_of(KEYS, "editor").pressed:
            self.post_message(self.EditorWanted())
            return True
        return False

    async def _clean(self, pasted: str) -> str:
        return clean(pasted)


class DraftPanel(Panel):
    """Shows the draft, or in the same place the field to edit it in."""

    def __init__(self) -> None:
        self.editor = NotesEditor()
        super().__init__(EntryList(id="draft", follow=True), title="2 Draft", below=self.editor)

    def edit(self, text: str, line: int) -> None:
        """Show the field, the text's `line` under its cursor."""
        self.editor.load_text(clean(text))
        self.editor.move_cursor((min(line, self.editor.document.line_count - 1), 0))
        self._show_editor(True)
        self.editor.focus()

    def leave(self) -> str:
        """Show the draft again; the text as the reader left it."""
        self._show_editor(False)
        return self.editor.text

    def _show_editor(self, shown: bool) -> None:
        self.editor.display = shown
        self.view.display = not shown
