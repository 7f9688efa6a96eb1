"""The question of a tool call, docked above the prompt. It waits; only the reader brings the focus to it."""

from collections.abc import Callable, Iterator
from typing import ClassVar

from textual import events
from textual.message import Message

from foldline.tui.blocks.block import SIGNS
from foldline.tui.blocks.cells import Span, Spans, chop_spans, wrap_spans
from foldline.tui.blocks.clean import clean, clean_line
from foldline.tui.blocks.diffs import lines_of_diff
from foldline.tui.commands import BY_ID, key_name
from foldline.tui.messages import Answer, QuestionAnswered
from foldline.tui.state import Question
from foldline.tui.widgets.frames import edge, frame, sides
from foldline.tui.widgets.lines import Lines

DEAF_SECONDS = 1.0
"""A question that has just appeared takes no answer: the key was meant for what was there before."""

ANSWERS: dict[str, Answer] = {"y": "once", "a": "always", "n": "deny"}
"""Letters while the question has the focus; Enter is none of them."""


def question_body(question: Question, width: int) -> list[list[Span]]:
    """What is asked, wrapped to `width`: the call, then its diff."""
    lines = list(wrap_spans([(clean(question.title), "text")], width))
    if question.diff:
        for line in lines_of_diff(question.diff):
            sign, style = SIGNS[line.kind]
            number = line.number or "⋮"
            head: list[Span] = [(f"{number:>5} ", "muted"), (f"{sign} ", style)]
            for part in chop_spans([(line.content, style)], max(width - 8, 8)):
                lines.append([*head, *part])
                head = [(" " * 8, "")]
    return lines


class QuestionDock(Lines, can_focus=True):
    """At most a quarter of the screen; longer questions scroll with ↑ and ↓."""

    DEFAULT_CSS: ClassVar[str] = """
    QuestionDock { display: none; }
    """

    class TooSoon(Message):
        """An answer in the first second, not taken."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(id="question")
        self._clock = clock
        self._question: Question | None = None
        self._others = 0
        self._shown_at = 0.0
        self._top = 0
        self._most = 8

    def show(self, questions: tuple[Question, ...]) -> None:
        """The first of these, and how many wait behind it; none hides the dock."""
        question = questions[0] if questions else None
        self._others = max(len(questions) - 1, 0)
        if (question and question.call_id) != (self._question and self._question.call_id):
            self._shown_at, self._top = self._clock(), 0
        self._question = question
        self.display = question is not None
        self._fit()

    def set_screen(self, height: int) -> None:
        """The height of the screen decides how much of a long question is shown."""
        self._most = max(height // 4 - 1, 1)
        self._fit()

    def answer(self, answer: Answer) -> None:
        """Pass on the reader's word, unless the question has only just appeared."""
        if self._question is None:
            return
        if self._clock() - self._shown_at < DEAF_SECONDS:
            self.post_message(self.TooSoon())
            return
        self.post_message(QuestionAnswered(self._question.call_id, answer))

    def on_key(self, event: events.Key) -> None:
        if answer := ANSWERS.get(event.key):
            self.answer(answer)
        elif event.key in ("up", "k"):
            self._scroll(-1)
        elif event.key in ("down", "j"):
            self._scroll(1)
        else:
            return
        event.stop()
        event.prevent_default()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.update()

    def on_resize(self) -> None:
        self._fit()

    def _scroll(self, lines: int) -> None:
        self._top = min(max(self._top + lines, 0), max(len(self._body()) - self._rows(), 0))
        self.update()

    def _body(self, width: int | None = None) -> list[list[Span]]:
        width = self.size.width if width is None else width
        return question_body(self._question, max(width - 4, 8)) if self._question else []

    def _rows(self) -> int:
        return max(min(len(self._body()), self._most), 1)

    def _fit(self) -> None:
        if self._question is not None and self.size.width:
            self.styles.height = self._rows() + 2
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        if self._question is None:
            return []
        look = frame(self.has_focus)
        body = self._body(width)
        rows = max(min(len(body), self._most), 1)
        shown = body[self._top : self._top + rows]
        title: Spans = (
            ("? ", "altered"),
            (f"{clean_line(self._question.name)} asks before it runs", "text bold"),
        )
        lines = [edge(look, True, title, tuple(self._remark(len(body), rows)), width)]
        lines += [sides(look, [(" ", ""), *line], width) for line in shown]
        lines.append(edge(look, False, tuple(self._keys()), (), width))
        return lines

    def _remark(self, total: int, rows: int) -> Iterator[Span]:
        if total > rows:
            yield f"{self._top + 1}–{min(self._top + rows, total)} of {total} lines, ↑↓", "muted"
        if self._others:
            yield f"{' · ' if total > rows else ''}1 of {self._others + 1} questions", "muted"

    def _keys(self) -> Iterator[Span]:
        if self.has_focus:
            pairs = [("y", "once"), ("a", "always"), ("n", "no")]
        else:
            commands = (("allow-once", "once"), ("allow-always", "always"), ("decline", "no"))
            pairs = [(key_name(BY_ID[command].keys[0]), word) for command, word in commands]
        for at, (key, word) in enumerate(pairs):
            if at:
                yield " · ", "muted"
            yield key, "accent"
            yield f" {word}", "text"
        if not self.has_focus:
            yield " · ", "muted"
            yield key_name(BY_ID["complete"].keys[0]), "accent"
            yield " reads it", "muted"
