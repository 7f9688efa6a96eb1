"""The lines of the Draft panel: the notes, what is appended from the history, the difference. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from textual.strip import Strip

from foldline.compaction import Proposal
from foldline.compaction.summary_text import CONSTRAINTS, LAST_MESSAGES, counted, lists_of, notes_of, unframed
from foldline.tui.blocks import Block, DiffBlock, Key, Span, Styles, TextBlock, clean, clean_line, diff_lines
from foldline.tui.blocks.cells import crop, to_strip
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.preview.state import PreviewState

NOTES: Final = 0
HISTORY: Final = 1
"""Key numbers: lines of the notes, lines from the history."""

_ITEM: Final = re.compile(r"(\s*(?:[-*+•]|\d+[.)])\s+)(?=\S)")
_WORDS: Final = {CONSTRAINTS: "quoted constraints", LAST_MESSAGES: "messages"}
_DASHES: Final = "┄┄"


class HistoryRule(TextBlock):
    """`┄┄ from the history, not from the model: ┄┄┄┄`."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        line: list[Span] = crop([(f"{_DASHES} {self.body} ", "muted")], width)
        return [to_strip([*line[:-1], ("┄" * len(line[-1][0]), "muted")], styles)]


def note_blocks(lines: Sequence[str], first: int = 0) -> list[Block]:
    """A block for each line of clean text, numbered from `first`; list items hang."""
    return [_line((NOTES, number), line) for number, line in enumerate(lines, first)]


def note_lines(text: str) -> list[str]:
    """The lines of foreign text, made harmless."""
    return clean(text).split("\n")


def _line(key: Key, line: str) -> Block:
    if line.lstrip().startswith("#"):
        return TextBlock(key, line, "text bold")
    item = _ITEM.match(line)
    if item is None:
        return TextBlock(key, line)
    return TextBlock(key, line[item.end() :], lead=((item[1], "text"),))


def history_blocks(proposal: Proposal) -> list[Block]:
    """What is appended to the notes whoever wrote them: the counts, then the lists themselves."""
    if not proposal.entry.summary:
        words = "No summary: this fold writes no text, it shortens or leaves out what the Cut panel marks."
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
        blocks += [
            TextBlock((HISTORY, len(blocks) + at), clean_line(line), "muted", lead=(("  ", ""),))
            for at, line in enumerate(line for item in items for line in item.splitlines())
        ]
    return blocks


def appended(summary: str) -> list[tuple[str, list[str]]]:
    """The lists at the end of a summary: files first, as they are counted."""
    return sorted(lists_of(summary), key=lambda each: each[0] in _WORDS)


def earlier_notes(proposal: Proposal) -> tuple[int, str] | None:
    """Index and text of the summary that goes into this one; None where there is none."""
    previous = proposal.cut.previous if proposal.cut else ()
    if not previous:
        return None
    return previous[-1].index, "\n\n".join(notes_of(unframed(item.message)) for item in previous)


def diff_blocks(earlier: str, notes: str) -> Iterator[Block]:
    """What the draft changes in the earlier summary."""
    lines = diff_lines(note_lines(earlier), note_lines(notes), context=1)
    if lines:
        yield DiffBlock((NOTES, 0), lines)
    else:
        yield TextBlock((NOTES, 0), "The draft says what the earlier summary said.", "muted")


class DraftSheet:
    """Fills a view. A line that is there already stays: a draft that grows only draws its last one again."""

    def __init__(self, view: EntryList) -> None:
        self.view = view
        self.differing = False
        """Whether the difference to the earlier summary is shown."""
        self._lines: list[str] = []
        self._shown: tuple[object, ...] = ()

    def show(self, state: PreviewState) -> None:
        made, drafting = state.proposal, state.drafting
        summary = made.entry.summary if made is not None else ""
        # A fold that writes no text has as little of it as no fold: it is said what it is, none the less.
        shown = (drafting.text if drafting else summary, drafting is None, self.differing, made is not None)
        if shown == self._shown:
            return
        grew, self._shown = self._shown[1:2] == (False,), shown
        earlier = earlier_notes(made) if made is not None and self.differing else None
        if made is not None and earlier is not None:
            self._lines = []
            self.view.set_blocks(diff_blocks(earlier[1], made.notes))
            self._to_top()
        elif drafting is not None:
            self._write(drafting.text, [])
        elif made is not None:
            self._write(made.notes, history_blocks(made))
            if grew:
                self._to_top()
        else:
            self._write("", [])

    def line_of(self, key: Key | None) -> int:
        """The line of the notes that a block shows; the first one for everything else."""
        return key[1] if key is not None and key[0] == NOTES and not self.differing else 0

    def _write(self, text: str, below: list[Block]) -> None:
        before, self._lines = self._lines, note_lines(text) if text else []
        same = _common(before, self._lines)
        blocks = [*note_blocks(self._lines[same:], same), *below]
        if same:
            keys = ((NOTES, same), (HISTORY, 0))
            start = next((key for key in keys if self.view.index_of(key) is not None), keys[0])
            self.view.replace_from(start, blocks)
            return
        self.view.set_blocks(blocks)
        if below:
            self._to_top()

    def _to_top(self) -> None:
        """A finished text is read from its beginning. Not before the view has a size."""
        self.view.call_after_refresh(self.view.scroll_lines, -self.view.virtual_size.height - 10_000)


def _common(before: list[str], after: list[str]) -> int:
    """How many lines at the start are the same."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))
