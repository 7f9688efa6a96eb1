"""What a question asks about, as lines, and how much of it has been on the screen. Pure.

What was not shown cannot be allowed: nothing here is left out, hidden in a sequence or looks like a blank.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby

from foldline.context.harmless import BLANKS, FLOOD, clean, nothing_hidden
from foldline.tui.blocks.cells import Span, chop_spans, wrap_spans
from foldline.tui.state import Question


def question_body(question: Question, width: int) -> list[list[Span]]:
    """What is asked, wrapped to `width`: the call, then its diff; or what a choice should be made by."""
    if question.kind == "choice":
        return wrap_spans([(clean(question.title), "text")], width) if question.title else []
    lines = wrap_spans([(nothing_hidden(question.title), "text")], width) if question.title else []
    if question.diff:
        lines += _diff_body(question.diff, width)
    return lines


def _diff_body(diff: str, width: int) -> list[list[Span]]:
    from foldline.tui.blocks.diffs import lines_of_our_diff  # no first screen asks anything
    from foldline.tui.blocks.plain import SIGNS

    lines: list[list[Span]] = []
    for (kind, is_blank), found in groupby(
        lines_of_our_diff(diff), lambda line: (line.kind, not line.content.strip(BLANKS))
    ):
        run = list(found)
        sign, style = SIGNS[kind]
        flood = is_blank and len(run) >= FLOOD
        for line in run[:1] if flood else run:
            content: Span = (f"{len(run):,} blank lines", "muted") if flood else (line.content, style)
            head: list[Span] = [(f"{line.number or '⋮':>5} ", "muted"), (f"{sign} ", style)]
            for part in chop_spans([content], max(width - 8, 8)):
                lines.append([*head, *part])
                head = [(" " * 8, "")]
    return lines


class QuestionText:
    """The lines of a question at one width. A place in it is the number of signs before it, blanks apart: the
    same at any width."""

    def __init__(self, lines: Sequence[list[Span]]) -> None:
        self.lines = lines
        signs = (sum(len("".join(text.split())) for text, _ in line) for line in lines)
        self._before = list(accumulate(signs, initial=0))

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def end(self) -> int:
        """The place behind all of it."""
        return self._before[-1]

    def place(self, line: int) -> int:
        """Where a line begins."""
        return self._before[min(line, len(self.lines))]

    def line_at(self, place: int) -> int:
        """The line that holds a place; the last one where it is the end."""
        return max(min(bisect_right(self._before, place) - 1, len(self.lines) - 1), 0)

    def read(self, place: int, top: int, rows: int) -> int:
        """How far it has been read, from its beginning, after `place` (-1: not at all), once these rows were
        on the screen."""
        return max(place, self.place(top + rows)) if self.place(top) <= max(place, 0) else place
