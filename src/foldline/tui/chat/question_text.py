"""The text of a question as styled lines, and how far the user has read it.

Control sequences and invisible characters are made visible in questions that ask for agreement.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foldline.frontend.state import Answerable, Question
from foldline.text.harmless import clean, nothing_hidden_lines
from foldline.tui.keys.typed_ahead import DEAF_SECONDS
from foldline.tui.look.cells import Span, width_of, wrap_spans

if TYPE_CHECKING:
    from foldline.tui.blocks.diff import DiffRows

_MOST_MARKDOWN = 20_000
"""Maximum number of characters of Markdown to draw in one frame.

For a longer text, its Markdown source is shown instead.
"""


class QuestionText:
    """The lines of a question at one width: a call and its diff, or the text of a choice."""

    def __init__(
        self, question: Question, width: int, head: Sequence[list[Span]] = ()
    ) -> None:
        """Lay out a question.

        `head` contains the lines of the title, if the title does not fit into the frame.
        """
        drawn = _markdown_lines(question, width)
        self._lines = [*head, *(drawn or _plain_lines(question, width))]
        self._diff = _diff_rows(question.diff, width) if question.diff else None

    def __len__(self) -> int:
        return len(self._lines) + (0 if self._diff is None else len(self._diff))

    def lines(self, top: int, rows: int) -> list[list[Span]]:
        """Return up to `rows` lines, starting at line `top`."""
        stop = min(top + rows, len(self))
        return [self._line(at) for at in range(top, stop)]

    def _line(self, at: int) -> list[Span]:
        text_lines = len(self._lines)
        if at < text_lines or self._diff is None:
            return self._lines[at]
        return self._diff[at - text_lines]


def _plain_lines(question: Question, width: int) -> list[list[Span]]:
    if not question.title:
        return []
    if not question.asks_agreement:
        return wrap_spans([(clean(question.title), "text")], width)
    lines = nothing_hidden_lines(question.title)
    return [part for line in lines for part in wrap_spans([(line, "text")], width)]


def _markdown_lines(question: Question, width: int) -> list[list[Span]]:
    """Draw a question that is Markdown.

    Returns an empty list if the question is not Markdown, or if parts of it would not be visible.
    """
    if not question.is_markdown or len(question.title) > _MOST_MARKDOWN:
        return []
    from foldline.tui.blocks.markdown import agreement_lines  # rarely needed

    lines = agreement_lines("\n".join(nothing_hidden_lines(question.title)), width)
    return [] if any(width_of(line) > width for line in lines) else lines


def _diff_rows(diff: str, width: int) -> "DiffRows":
    from foldline.tui.blocks.diff import (
        DiffRows,
        language_of,
        lines_of_our_diff,
        path_in,
    )  # rarely needed

    return DiffRows(tuple(lines_of_our_diff(diff)), width, language_of(path_in(diff)))


SENSITIVE = "outside this folder, or a sensitive file"
MAY_LEAVE = "may access files outside this folder"
NOT_PUBLIC = "not a public address"
OUTSIDE = "outside this folder"
_BEYOND = {
    "fetch": NOT_PUBLIC,
    "bash": MAY_LEAVE,
    "edit": SENSITIVE,
    "write": SENSITIVE,
}
"""Why a call needs approval each time, by tool.

For other tools, the reason is `OUTSIDE`.

The reasons also apply to hosts that cannot be resolved and to commands that cannot be parsed. Hooks,
instructions and settings are sensitive, because other programs run or follow them.
"""


def reason_for_approval(question: Question) -> str:
    """Return why a call needs approval each time."""
    return _BEYOND.get(question.name, OUTSIDE)


@dataclass(slots=True)
class QuestionReading:
    """What the user has done with a question so far."""

    shown_at: float
    """Time at which the question became visible."""
    marked: int = -1
    """Index of the selected answer among the `offered` ones; -1 if none is selected."""
    offered: Sequence[Answerable] = ()
    """The answers in the last layout."""
    nth: int = 0
    """Index of the rule that "always" would grant."""
    reason: str = ""
    """The reason or answer that was typed in a dialog and not given."""
    turned_at: float = -DEAF_SECONDS
    """Time at which an answer last scrolled instead of being given.

    This happens to an answer that means agreement if there are unread lines.
    """
    text: QuestionText | None = None
    """The question's text at the width of the last layout."""
    width: int = 0
    top: int = 0
    """Index of the first visible line of the text."""
    read: int = -1
    """Number of lines from the top that have been on the screen at the current width.

    -1 if nothing has been painted yet.
    """
    rules_read: set[int] = field(default_factory=set)
    """Indexes of the rules that have been completely on the screen."""
