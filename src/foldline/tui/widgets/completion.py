"""The list of completions above the prompt. It never has the focus: the prompt moves and takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from foldline.tui.blocks.cells import Span, cut_left, cut_right
from foldline.tui.widgets.frames import LIGHT, edge, sides
from foldline.tui.widgets.lines import Lines

ROWS = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """One completion. All texts are clean."""

    insert: str
    """What replaces the typed word, its `/` or `@` included."""
    label: str
    note: str = ""


def window_start(marked: int, count: int, rows: int) -> int:
    """The first candidate shown, so that the marked one is."""
    return max(0, min(marked - rows + 1, count - rows))


def candidate_lines(shown: Sequence[Candidate], marked: int, rows: int, width: int) -> list[list[Span]]:
    """At most `rows` candidates in two columns, the marked one reversed. Paths are cut at the left."""
    first = window_start(marked, len(shown), rows)
    window = shown[first : first + rows]
    widest = max((cell_len(candidate.label) for candidate in shown), default=0)
    noted = any(candidate.note for candidate in shown)
    column = min(widest, max(width // 2 if noted else width - 2, 8))
    lines: list[list[Span]] = []
    for at, candidate in enumerate(window, start=first):
        path = "/" in candidate.label[1:] and " " not in candidate.label
        label = (cut_left if path else cut_right)(candidate.label, column)
        mark = at == marked
        lines.append(
            [
                ("▶" if mark else " ", "accent"),
                (label + " " * (column - cell_len(label)), "text reverse" if mark else "text"),
                ("  ", ""),
                (cut_right(candidate.note, max(width - column - 4, 0)), "muted"),
            ]
        )
    return lines


def completion_lines(title: str, shown: Sequence[Candidate], marked: int, width: int) -> list[list[Span]]:
    """A light frame around at most `ROWS` candidates."""
    count = ((f"{max(marked, 0) + 1} of {len(shown)}", "muted"),) if len(shown) > ROWS else ()
    takes = "Enter takes" if marked >= 0 else "↓ marks one"
    return [
        edge(LIGHT, True, ((title, "muted"),), (), width),
        *(sides(LIGHT, line, width) for line in candidate_lines(shown, marked, ROWS, width - 2)),
        edge(LIGHT, False, ((f"{takes} · Esc closes", "muted"),), count, width),
    ]


class CompletionList(Lines):
    """Over the transcript's lower lines, right above the prompt."""

    DEFAULT_CSS: ClassVar[str] = """
    CompletionList {
        layer: popup; dock: bottom; display: none; width: 72; max-width: 100%; background: ansi_default;
    }
    """

    class Picked(Message):
        """A click on a candidate."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self) -> None:
        super().__init__(id="completion")
        self._title = ""
        self._candidates: Sequence[Candidate] = ()
        self._marked = 0

    @property
    def open(self) -> bool:
        return bool(self._candidates)

    @property
    def count(self) -> int:
        return len(self._candidates)

    @property
    def marked(self) -> Candidate | None:
        return self._candidates[self._marked] if self._candidates and self._marked >= 0 else None

    @property
    def first(self) -> Candidate | None:
        """The marked one, or, where none is, the first."""
        return self.marked or next(iter(self._candidates), None)

    def offer(self, title: str, candidates: Sequence[Candidate], *, marked: bool = True) -> None:
        """Show these, the first one marked or, where what is typed is whole without them, none; no candidates
        close the list."""
        if candidates != self._candidates:
            self._marked = 0 if marked else -1
        self._title, self._candidates = title, candidates
        self.styles.height = min(len(candidates), ROWS) + 2
        self.display = self.open
        self.update()

    def close(self) -> None:
        self.offer("", ())

    def move(self, step: int) -> None:
        if self._candidates:
            at = max(self._marked, -1 if step > 0 else 0)
            self._marked = (at + step) % len(self._candidates)
            self.update()

    def mark(self, number: int) -> bool:
        """Mark a candidate by its number; whether there is one."""
        if 0 <= number < len(self._candidates):
            self._marked = number
            self.update()
            return True
        return False

    def on_click(self, event: events.Click) -> None:
        first = window_start(self._marked, len(self._candidates), ROWS)
        self.post_message(self.Picked(first + event.y - 1))

    def lines(self, width: int) -> list[list[Span]]:
        return completion_lines(self._title, self._candidates, self._marked, width)
