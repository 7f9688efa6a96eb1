"""What the Draft panel holds: the draft as it grows, then with what is appended; or the difference."""

from foldline.tui.blocks import Block, Key
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.preview.draft_rows import (
    HISTORY,
    NOTES,
    diff_blocks,
    earlier_notes,
    history_blocks,
    note_blocks,
    note_lines,
)
from foldline.tui.preview.state import PreviewState


class DraftSheet:
    """Fills a view. A line that is there already stays: a draft that grows only draws its last one again."""

    def __init__(self, view: EntryView) -> None:
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
