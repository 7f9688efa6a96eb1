"""The list of completions above the prompt. It never has the focus: the prompt moves and takes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

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


@dataclass(frozen=True, slots=True)
class Offered:
    """Candidates, and which of them is marked."""

    candidates: Sequence[Candidate] = ()
    at: int = -1
    """Number of the marked one; -1: none."""

    @property
    def marked(self) -> Candidate | None:
        return self.candidates[self.at] if self.candidates and self.at >= 0 else None

    @property
    def first(self) -> Candidate | None:
        """The marked one, or, where none is, the first."""
        return self.marked or next(iter(self.candidates), None)


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

        def __init__(self, candidate: Candidate) -> None:
            super().__init__()
            self.candidate = candidate

    def __init__(self) -> None:
        super().__init__(id="completion")
        self._title = ""
        self.offered = Offered()
        self.painted = Offered()
        """What stands on the screen: keys that come in one burst are ahead of it."""

    @property
    def open(self) -> bool:
        return bool(self.offered.candidates)

    def offer(self, title: str, candidates: Sequence[Candidate], *, marked: bool = True) -> None:
        """Show these, the first one marked or, where what is typed is whole without them, none; no candidates
        close the list."""
        if candidates != self.offered.candidates:
            self.offered = Offered(candidates, 0 if marked else -1)
        self._title = title
        self.styles.height = min(len(candidates), ROWS) + 2
        self.display = self.open
        if not self.open:
            self.painted = Offered()
        self.update()

    def close(self) -> None:
        self.offer("", ())

    def move(self, step: int) -> None:
        if self.open:
            at = max(self.offered.at, -1 if step > 0 else 0)
            self.offered = replace(self.offered, at=(at + step) % len(self.offered.candidates))
            self.update()

    def on_click(self, event: events.Click) -> None:
        seen = self.painted
        number = window_start(seen.at, len(seen.candidates), ROWS) + event.y - 1
        if 0 <= number < len(seen.candidates):
            self.post_message(self.Picked(seen.candidates[number]))

    def render_line(self, y: int) -> Strip:
        self.painted = self.offered
        return super().render_line(y)

    def lines(self, width: int) -> list[list[Span]]:
        return completion_lines(self._title, self.offered.candidates, self.offered.at, width)
