"""The rows of all lists: pickers, completions and the answers to a question."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len

from foldline.text.harmless import clean_line
from foldline.tui.look.cells import Span, crop, cut_right, in_reverse, width_of


@dataclass(frozen=True, slots=True)
class PickerItem:
    """An item of a picker.

    The picker returns its `id`. The texts are untrusted.
    """

    id: str
    label: str
    note: str = ""
    right: str = ""
    """Text at the right end of the row, such as the keys with the same effect."""
    detail: str = ""
    """Text below the list while the item is selected.

    By default, this is the note, if the row cuts it off.
    """


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item that matches the typed text."""

    choice: PickerItem
    letters: frozenset[int] = frozenset()
    """Positions of the typed letters in the label."""


def choice_line(
    ranked: Ranked,
    marked: bool,
    column: int | None,
    width: int,
    style: str = "text",
) -> list[Span]:
    """Return the row of an item: `▶Compact the context  /compact [focus]        F3`.

    Typed letters are underlined. The selected row is in reverse video.

    Args:
        column: Width of the label. If it is None, the label has all the room, and there is no note.
    """
    choice = ranked.choice
    right = clean_line(choice.right)
    if cell_len(right) > width // 3:
        right = ""
    tail = cell_len(right) + 2 if right else 1
    most = width - tail - 1 if column is None else column
    text = cut_right(clean_line(choice.label), most)
    label = list(_label(text, ranked.letters, style))
    spans = [("▶" if marked else " ", "accent"), *label]
    if column is not None:
        blanks = " " * (column - width_of(label))
        note = cut_right(clean_line(choice.note), max(width - column - tail - 4, 0))
        spans += [(blanks + "  ", ""), (note, "muted")]
    end = (f" {right} ", "muted") if right else (" ", "")
    line = [*crop(spans, width - tail), end]
    return in_reverse(line) if marked else line


def _label(label: str, letters: frozenset[int], style: str) -> Iterator[Span]:
    for at, character in enumerate(label):
        yield character, "accent underline" if at in letters else style
