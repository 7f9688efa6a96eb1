"""What waits for the reader's word, docked above the prompt: the question of a tool call, or a choice.

Only the reader brings the focus to it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from foldline.context.harmless import clean, clean_line
from foldline.tui.blocks.cells import Span, Spans, chop_spans, width_of, wrap_spans
from foldline.tui.keys.commands import key_of
from foldline.tui.messages import Answer, ChoiceAnswered, QuestionAnswered
from foldline.tui.state import Question
from foldline.tui.widgets.frames import edge, frame, sides
from foldline.tui.widgets.lines import Lines

DEAF_SECONDS = 1.0
"""A question that has just appeared takes no answer: the key was meant for what was there before."""

ANSWERS: dict[str, Answer] = {"y": "once", "a": "always", "p": "project", "n": "deny"}
"""What the letters of a tool call's question mean; Enter is none of them."""
_COMMANDS = {"y": "allow-once", "a": "allow-always", "p": "allow-project", "n": "decline"}
"""The commands that give the same answers from the prompt."""

_ALWAYS: tuple[Answer, ...] = ("always", "project")
_TOO_SOON = "The question has only just appeared: press again to answer it"
_NOT_SEEN = "There is no room to show what always would allow: make the terminal higher, or answer once"
_NO_RULE = "Nothing can always be allowed here: each such call asks"

_ACTS = "outside, or a file that acts"
_BEYOND = {
    "fetch": "not a public address",
    "bash": "may leave this folder",
    "edit": _ACTS,
    "write": _ACTS,
}
"""What a call does that each time asks, where it is not that it names a file elsewhere. Of a host nobody here
can resolve, as of a command nobody can take apart, all that is known is that it may. What acts are hooks,
instructions and settings, which others run or follow unasked."""

_LONG = "your choice"
"""In the frame, for a choice whose title is too long for it and stands below."""


def question_body(question: Question, width: int) -> list[list[Span]]:
    """What is asked, wrapped to `width`: the call, then its diff; or what a choice should be made by."""
    lines = list(wrap_spans([(clean(question.title), "text")], width)) if question.title else []
    if question.diff:
        from foldline.tui.blocks.diffs import lines_of_diff  # no first screen asks anything
        from foldline.tui.blocks.plain import SIGNS

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

    class NotTaken(Message):
        """An answer that was not taken, and why."""

        def __init__(self, sentence: str) -> None:
            super().__init__()
            self.sentence = sentence

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(id="question")
        self._clock = clock
        self._question: Question | None = None
        self._others = 0
        self._nth = 0
        """Which of the rules "always" means."""
        self._shown_at = 0.0
        self._top = 0
        self._most = 8

    def show(self, questions: tuple[Question, ...]) -> None:
        """The first of these, and how many wait behind it; none hides the dock."""
        question = questions[0] if questions else None
        self._others = max(len(questions) - 1, 0)
        if _identity(question) != _identity(self._question):
            self._shown_at, self._top, self._nth = self._clock(), 0, 0
        self._question = question
        self.display = question is not None
        self._fit()

    def set_screen(self, height: int) -> None:
        """The height of the screen decides how much of a long question is shown."""
        self._most = max(height // 4 - 1, 1)
        self._fit()

    def answer(self, answer: Answer) -> None:
        """Pass on the reader's word on a call, unless the question has only just appeared."""
        question = self._question
        if question is None or question.kind != "call" or not self._hears():
            return
        if answer in _ALWAYS and not self._promises:
            self.post_message(self.NotTaken(_NOT_SEEN if question.promises else _NO_RULE))
        else:
            self.post_message(QuestionAnswered(question.id, answer, self._nth))

    def other_rule(self) -> None:
        """Let "always" mean the next of the rules that would cover the call."""
        if self._question is not None and self._question.promises:
            self._nth = (self._nth + 1) % len(self._question.promises)
            self._fit()

    def choose(self, key: str) -> None:
        """Pass on the reader's choice, or with an empty key that they leave it, unless it has only just
        appeared."""
        question = self._question
        if question is not None and question.kind == "choice" and self._hears():
            self.post_message(ChoiceAnswered(question.id, key))

    def _hears(self) -> bool:
        hears = self._clock() - self._shown_at >= DEAF_SECONDS
        if not hears:
            self.post_message(self.NotTaken(_TOO_SOON))
        return hears

    def _take(self, key: str) -> None:
        if self._question is not None and self._question.kind == "choice":
            self.choose(key)
        else:
            self.answer(ANSWERS[key])

    def on_key(self, event: events.Key) -> None:
        options = self._question.options if self._question is not None else ()
        if any(option.key == event.key for option in options):
            self._take(event.key)
        elif event.key == "w":
            self.other_rule()
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
        self._fit()  # its keys may take another line

    def on_resize(self) -> None:
        self._fit()

    def _scroll(self, lines: int) -> None:
        width = self.size.width
        self._top = min(max(self._top + lines, 0), max(len(self._body(width)) - self._rows(width), 0))
        self.update()

    def _body(self, width: int) -> list[list[Span]]:
        question, inside = self._question, max(width - 4, 8)
        if question is None:
            return []
        name = [(clean_line(question.name), "text bold")]
        sentence = wrap_spans(name, inside) if self._title(width) == _LONG else []
        return [*sentence, *question_body(question, inside)]

    def _title(self, width: int) -> str:
        """What stands in the frame: what asks, or what is to be chosen where that is short enough."""
        name = clean_line(self._question.name) if self._question else ""
        if self._question is None or self._question.kind == "call":
            return f"{name} asks before it runs"
        return name if cell_len(name) <= width - 8 else _LONG

    def _rows(self, width: int) -> int:
        """Lines of what is asked that are shown at once."""
        return max(min(len(self._body(width)), self._most - len(self._foot(width))), 1)

    @property
    def _promises(self) -> bool:
        """Whether there is something "always" may stand for, and the height to show it: unseen, it is not
        granted."""
        return self._question is not None and bool(self._question.promises) and self._most > 1

    def _foot(self, width: int) -> list[list[Span]]:
        """What stays below what is asked, however long that is: what "always" means, and the keys."""
        return [*self._promise(max(width - 4, 8)), *self._keys_inside(width)]

    def _promise(self, width: int) -> list[list[Span]]:
        question = self._question
        if question is None or not self._promises:
            return []
        means: Spans = (("always: ", "muted"), (clean_line(question.promises[self._nth]), "accent"))
        key = "w" if self.has_focus else key_of("other-rule")
        other: Spans = ((f" · {key} another rule", "muted"),) if len(question.promises) > 1 else ()
        return list(wrap_spans([*means, *other], width))

    def _fit(self) -> None:
        width = self.size.width
        if self._question is not None and width:
            self.styles.height = self._rows(width) + len(self._foot(width)) + 2
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        question = self._question
        if question is None:
            return []
        look = frame(self.has_focus)
        body = self._body(width)
        rows = self._rows(width)
        shown = body[self._top : self._top + rows] or [[]]
        title: Spans = (("? ", "altered"), (self._title(width), "text bold"))
        inside, foot = self._keys_inside(width), self._foot(width)
        lines = [edge(look, True, title, tuple(self._remark(len(body), rows)), width)]
        lines += [sides(look, [(" ", ""), *line], width) for line in (*shown, *foot)]
        lines.append(edge(look, False, () if inside else tuple(_joined(self._keys())), (), width))
        return lines

    def _remark(self, total: int, rows: int) -> Iterator[Span]:
        remarks: list[Span] = []
        if self._question is not None and self._question.outside:
            remarks.append((_BEYOND.get(self._question.name, "outside this folder"), "altered"))
        if total > rows:
            last = min(self._top + rows, total)
            remarks.append((f"{self._top + 1}–{last} of {total} lines, ↑↓", "muted"))
        if self._others:
            remarks.append((f"1 of {self._others + 1} questions", "muted"))
        yield from _joined([(remark,) for remark in remarks])

    def _keys_inside(self, width: int) -> list[list[Span]]:
        """The keys on lines of their own, where the frame is too narrow for them and there is the height."""
        keys = list(self._keys())
        if width_of(_joined(keys)) <= width - 6:
            return []
        lines: list[list[Spans]] = [[]]
        for key in keys:
            if lines[-1] and width_of(_joined([*lines[-1], key])) > width - 4:
                lines.append([])
            lines[-1].append(key)
        return [list(_joined(line)) for line in lines] if len(lines) < self._most else []

    def _keys(self) -> Iterator[Spans]:
        """What may be pressed now, each with its word."""
        question = self._question
        options = question.options if question is not None else ()
        if question is not None and question.kind == "call" and not self._promises:
            options = tuple(option for option in options if ANSWERS[option.key] not in _ALWAYS)
        tab = (key_of("complete"), "accent")
        match question and question.kind, self.has_focus:
            case "call", True:
                yield from (_key(option.key, option.label) for option in options)
            case "call", False:
                yield from (_key(_anywhere(option.key), option.label) for option in options)
                yield tab, (" reads it", "muted")
            case "choice", True:
                yield from (_key(option.key, option.label) for option in options)
                yield _key("Esc", "leave it")
            case "choice", False:
                yield tab, (" to answer", "text")
                yield from (_key(option.key, option.label, "muted") for option in options)


def _key(key: str, word: str, style: str = "accent") -> Spans:
    return (clean_line(key), style), (f" {clean_line(word)}", "text")


def _identity(question: Question | None) -> tuple[str, str] | None:
    return None if question is None else (question.kind, question.id)


def _anywhere(letter: str) -> str:
    """The key that gives an answer while the prompt has the focus."""
    return key_of(_COMMANDS[letter])


def _joined(keys: Iterable[Spans]) -> Iterator[Span]:
    for at, key in enumerate(keys):
        if at:
            yield " · ", "muted"
        yield from key
