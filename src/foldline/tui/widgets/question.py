"""What waits for the reader's word, docked above the prompt: the question of a tool call, or a choice.

What was not shown cannot be allowed: nothing of it is left out, hidden in a sequence or looks like a blank.
Only the reader brings the focus to it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from foldline.context.harmless import clean, clean_line, nothing_hidden
from foldline.tui.blocks.cells import Span, Spans, text_of, width_of, wrap_spans
from foldline.tui.keys.commands import key_of
from foldline.tui.messages import OperationWanted
from foldline.tui.state import Answerable, Question
from foldline.tui.widgets.lines import Lines, edge, frame, sides

if TYPE_CHECKING:
    from foldline.tui.blocks.diff import DiffRows


class QuestionText:
    """What is asked, in lines of one width: the call, then its diff; or what a choice should be made by. A
    place in it is the number of signs before it, blanks apart: the same at any width, unless old and new
    lines come to stand side by side."""

    def __init__(
        self,
        question: Question,
        width: int,
        head: Sequence[list[Span]] = (),
        options: Sequence[list[Span]] = (),
    ) -> None:
        """`options` of a choice, which has no diff, where there is no other room for them."""
        title = (clean if question.kind == "choice" else nothing_hidden)(question.title)
        self._lines = [*head, *(wrap_spans([(title, "text")], width) if title else ()), *options]
        self._diff = _diff_rows(question.diff, width) if question.diff else None
        texts = [text_of(line) for line in self._lines]
        if self._diff is not None:
            texts += map(self._diff.text, range(len(self._diff)))
        self._before = list(accumulate((len("".join(text.split())) for text in texts), initial=0))

    def __len__(self) -> int:
        return len(self._before) - 1

    def lines(self, top: int, rows: int) -> list[list[Span]]:
        """So many lines from `top` on, as far as there are any."""
        return [self._line(at) for at in range(top, min(top + rows, len(self)))]

    def _line(self, at: int) -> list[Span]:
        own = len(self._lines)
        return self._lines[at] if at < own or self._diff is None else self._diff[at - own]

    @property
    def is_beside(self) -> bool:
        """Whether it has old and new lines side by side: in another order than below each other."""
        return self._diff is not None and self._diff.is_beside

    @property
    def end(self) -> int:
        """The place behind all of it."""
        return self._before[-1]

    def place(self, line: int) -> int:
        """Where a line begins."""
        return self._before[min(line, len(self))]

    def line_at(self, place: int) -> int:
        """The line that holds a place; the last one where it is the end."""
        return max(min(bisect_right(self._before, place) - 1, len(self) - 1), 0)

    def read(self, place: int, top: int, rows: int) -> int:
        """The place up to which it is read after `place` (-1: not at all), once these rows were painted."""
        return max(place, self.place(top + rows)) if self.place(top) <= max(place, 0) else place


def _diff_rows(diff: str, width: int) -> "DiffRows":
    from foldline.tui.blocks.diff import DiffRows, language_of, lines_of_our_diff, path_in  # asked for seldom

    return DiffRows(tuple(lines_of_our_diff(diff)), width, language_of(path_in(diff)))


DEAF_SECONDS = 1.0
"""A question that has just appeared takes no answer: the key was meant for what was there before."""

Answer = Literal["once", "always", "project", "deny"]
"""The user's word on a tool call."""
ANSWERS: dict[str, Answer] = {"y": "once", "a": "always", "p": "project", "n": "deny"}
"""What the letters of a tool call's question mean; Enter is none of them."""
_COMMANDS = {"y": "allow-once", "a": "allow-always", "p": "allow-project", "n": "decline"}
"""The commands that give the same answers from the prompt."""

_ALWAYS: tuple[Answer, ...] = ("always", "project")
_TOO_SOON = "The question has only just appeared: press again to answer it"
_UNREAD = "What was not shown cannot be allowed: read on, or decline"
_NOT_SEEN = "There is no room to show what always would allow: make the terminal higher, or answer once"
_NO_RULE = "Nothing can always be allowed here: each such call asks"

_ACTS = "outside, or a file that acts"
_BEYOND = {"fetch": "not a public address", "bash": "may leave this folder", "edit": _ACTS, "write": _ACTS}
"""What a call does that each time asks, where it is not that it names a file elsewhere. Of a host nobody here
can resolve, as of a command nobody can take apart, all that is known is that it may. What acts are hooks,
instructions and settings, which others run or follow unasked."""

_LONG = {"choice": "your choice", "call": "asks before it runs"}
"""In the frame, where what asks is too long for it and stands below."""


class _Layout(NamedTuple):
    """How many lines of what is asked are shown at once, and what stays below them however long it is."""

    rows: int
    promise: list[list[Span]]
    keys: list[list[Span]]
    """Empty where they stand in the frame."""


class QuestionDock(Lines, can_focus=True):
    """At most a quarter of the screen, or half of it for longer questions, which scroll. A call is allowed
    once all of it was painted; until then the keys that allow read on."""

    DEFAULT_CSS: ClassVar[str] = """
    QuestionDock { display: none; }
    """

    @dataclass
    class NotTaken(Message):
        """An answer that was not taken, and why."""

        sentence: str

    def __init__(self, clock: Callable[[], float], covered: Callable[[], bool] = lambda: False) -> None:
        """`covered`: whether something of the same screen lies over it."""
        super().__init__(id="question")
        self._clock = clock
        self._covered = covered
        self._question: Question | None = None
        self._others = 0
        self._nth = 0
        """Which of the rules "always" means."""
        self._shown_at = 0.0
        self._turned_at = -DEAF_SECONDS
        """When a key that would have allowed it read on instead."""
        self._text: QuestionText | None = None
        """What is asked, at the width it was laid out for last."""
        self._width = 0
        self._top = 0
        self._read = -1
        """The place in the text up to which it was on the screen; -1: nothing was."""
        self._rules_read: set[int] = set()
        """Which of the rules were on the screen whole."""
        self._height = 36

    def show(self, questions: tuple[Question, ...]) -> None:
        """The first of these, and how many wait behind it; none hides the dock."""
        question = questions[0] if questions else None
        self._others = max(len(questions) - 1, 0)
        if question != self._question:
            self._shown_at, self._turned_at = self._clock(), -DEAF_SECONDS
            self._text, self._read, self._top, self._nth = None, -1, 0, 0
            self._rules_read.clear()
        self._question = question
        self.display = question is not None
        self._fit()

    def set_screen(self, height: int) -> None:
        """The height of the screen decides how much of a long question is shown."""
        self._height = height
        if self._question is not None and self._question.kind == "choice":
            self._text = None
        self._fit()

    def answer(self, answer: Answer) -> None:
        """Pass on the reader's word on a call, unless the question has only just appeared. What was not
        shown is shown instead of allowed."""
        question = self._question
        if question is None or question.kind != "call" or not self._hears(self._shown_at):
            return
        if answer == "deny":
            self._pass_on(question, answer)
        elif answer in _ALWAYS and not self._promises:
            self.post_message(self.NotTaken(_NOT_SEEN if question.promises else _NO_RULE))
        elif self._unread:
            self._turned_at = self._clock()
            if self._text is not None:
                self._move_to(self._text.line_at(self._read))
            self.post_message(self.NotTaken(_UNREAD))
        elif answer in _ALWAYS and self._nth not in self._rules_read:
            self.post_message(self.NotTaken(_NOT_SEEN))
        elif self._hears(self._turned_at):
            self._pass_on(question, answer)

    def _pass_on(self, question: Question, answer: Answer) -> None:
        from foldline.protocol import operations  # no first screen asks anything

        approve = operations.Approve(call_id=question.id, answer=answer, nth=self._nth)
        self.post_message(OperationWanted(approve))

    def other_rule(self) -> None:
        """Let "always" mean the next of the rules that would cover the call."""
        if self._question is not None and self._question.promises:
            self._nth = (self._nth + 1) % len(self._question.promises)
            self._fit()

    def choose(self, key: str) -> None:
        """Pass on the reader's choice, or with an empty key none, unless the question just appeared."""
        from foldline.protocol import operations

        question = self._question
        if question is not None and question.kind == "choice" and self._hears(self._shown_at):
            self.post_message(OperationWanted(operations.Choose(choice=question.id, key=key)))

    def _hears(self, since: float) -> bool:
        hears = self._clock() - since >= DEAF_SECONDS
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
            self._move_to(self._top - 1)
        elif event.key in ("down", "j"):
            self._move_to(self._top + 1)
        else:
            return
        event.stop()
        event.prevent_default()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._fit()  # its keys may take another line

    def on_resize(self) -> None:
        self._fit()

    def _move_to(self, line: int) -> None:
        self._top = max(line, 0)
        self.update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw; what is drawn here in full width stands on the screen."""
        strips = super().render_lines(crop)
        if self._question is not None and self.screen.is_current and not self._covered():
            self._painted(self._question, crop)
        return strips

    def _painted(self, question: Question, crop: Region) -> None:
        width = self.size.width
        whole = crop.y <= 1 and crop.x == 0 and crop.right == width
        rows, promise, _ = self._layout(question, width)
        if whole and promise and 1 + rows + len(promise) <= crop.bottom:
            self._rules_read.add(self._nth)
        seen = min(rows, crop.bottom - 1) if whole else 0
        read = self._body(question, width).read(self._read, self._top, seen)
        if read != self._read:
            self._read = read
            self.call_after_refresh(self._fit)  # other keys work now

    def _fit(self) -> None:
        width = self.size.width
        if self._question is not None and width:
            rows, promise, keys = self._layout(self._question, width)
            self.styles.height = rows + len(promise) + len(keys) + 2
        self.update()

    # --- what is shown --------------------------------------------------------------------------------

    def lines(self, width: int) -> list[list[Span]]:
        question = self._question
        if question is None:
            return []
        look, body = frame(self.has_focus), self._body(question, width)
        rows, promise, keys = self._layout(question, width)
        self._top = min(self._top, max(len(body) - rows, 0))
        shown = body.lines(self._top, rows) or [[]]
        title: Spans = (("? ", "altered"), (self._title(width), "text bold"))
        below = () if keys else tuple(_in_lines(self._keys(question, rows, len(body)), width - 6)[0])
        return [
            edge(look, True, title, tuple(_joined(self._remarks(width))), width),
            *(sides(look, [(" ", ""), *line], width) for line in (*shown, *promise, *keys)),
            edge(look, False, below, (), width),
        ]

    def _body(self, question: Question, width: int) -> QuestionText:
        """What is asked, at this width. At another one the same part of it stays in sight."""
        if self._text is not None and width == self._width:
            return self._text
        inside = max(width - 4, 8)
        head: list[list[Span]] = []
        if self._title(width) == _LONG[question.kind]:
            head = wrap_spans([(nothing_hidden(clean_line(question.name)), "text bold")], inside)
        if question.outside and not self._says_beyond(width):
            head.append([(_beyond(question), "altered")])
        place = 0 if self._text is None else self._text.place(self._top)
        below = [list(_key(option.key, option.label)) for option in self._low_options(question, width)]
        before, self._text = self._text, QuestionText(question, inside, head, below)
        if before is not None and before.is_beside != self._text.is_beside:
            self._read, place = -1, 0  # lines that were read may stand behind others now
        self._width, self._top = width, self._text.line_at(place)
        return self._text

    def _low_options(self, question: Question, width: int) -> Sequence[Answerable]:
        """Those of a choice that stand below its text, to be scrolled to: on a low screen, where the frame is
        too narrow for all of them."""
        if question.kind != "choice" or self._height >= 18:
            return ()
        in_frame = width_of(list(_joined(_key(option.key, option.label) for option in question.options)))
        return question.options if in_frame + len(" lines 1–1 of 9 · Esc leave it ") > width - 6 else ()

    @property
    def _unread(self) -> bool:
        """Whether something of it was not on the screen yet."""
        return self._text is None or self._read < self._text.end

    def _title(self, width: int) -> str:
        """What stands in the frame: what asks, or what is to be chosen, where that is short enough."""
        if self._question is None:
            return ""
        name = clean_line(self._question.name)
        title = f"{name} asks before it runs" if self._question.kind == "call" else name
        return title if cell_len(title) <= width - 8 else _LONG[self._question.kind]

    def _says_beyond(self, width: int) -> bool:
        """Whether the frame has room for what the call reaches beyond."""
        words = ("? ", self._title(width), *(text for spans in self._remarks() for text, _ in spans))
        return sum(map(cell_len, words)) + 13 <= width

    def _remarks(self, width: int = 0) -> list[Spans]:
        remarks: list[Spans] = []
        if self._question is not None and self._question.outside and (not width or self._says_beyond(width)):
            remarks.append(((_beyond(self._question), "altered"),))
        if self._others:
            remarks.append(((f"1 of {self._others + 1} questions", "muted"),))
        return remarks

    def _layout(self, question: Question, width: int) -> _Layout:
        """At most a quarter of the screen, or half of it where a quarter does not hold all that is asked."""
        total = len(self._body(question, width))
        promise = self._promise(question, max(width - 4, 8))
        most = max(self._height // 4 - 1, 1)
        if total + len(promise) >= most and self._height >= 18:
            most = self._height // 2 - 3
        if len(promise) > max(most // 2, 2):
            promise = []
        rows = max(min(total, most - len(promise)), 1)
        keys = self._keys_inside(question, rows, total, width)
        if len(keys) >= most - len(promise):
            keys = []
        return _Layout(max(min(total, most - len(promise) - len(keys)), 1), promise, keys)

    @property
    def _promises(self) -> bool:
        """Whether there is something "always" may stand for, and the height to show it."""
        return self._question is not None and bool(self._question.promises) and self._height >= 12

    def _promise(self, question: Question, width: int) -> list[list[Span]]:
        """What "always" means."""
        if not self._promises:
            return []
        means: Spans = (("always: ", "muted"), (nothing_hidden(question.promises[self._nth]), "accent"))
        key = "w" if self.has_focus else key_of("other-rule")
        other: Spans = ((f" · {key} another rule", "muted"),) if len(question.promises) > 1 else ()
        return wrap_spans([*means, *other], width)

    def _keys_inside(self, question: Question, rows: int, total: int, width: int) -> list[list[Span]]:
        """The keys on lines of their own, where the frame is too narrow for them. As many before all was read
        as after: what comes into sight last is not pushed out by the keys that work then."""
        read = list(self._keys(question, rows, total, unread=False))
        if width_of(_joined(read)) <= width - 6:
            return []
        lines = _in_lines(read, width - 4)
        return [*_in_lines(self._keys(question, rows, total), width - 4), *([] for _ in lines)][: len(lines)]

    def _keys(self, question: Question, rows: int, total: int, unread: bool | None = None) -> Iterator[Spans]:
        """Where in a long text one is, first of all, and what may be pressed now, each with its word."""
        focused, options = self.has_focus, question.options
        if unread is None:
            unread = question.kind == "call" and self._unread and total > rows
        if total > rows:
            top = min(self._top, total - rows)
            where: Spans = ((f"lines {top + 1}–{top + rows} of {total}", "altered"),)
            key = "↓" if focused else _anywhere("y")
            more = unread or (focused and bool(self._low_options(question, self._width)))
            yield (*where, (" · ", "muted"), (key, "accent"), (" to read on", "text")) if more else where
        if unread or (question.kind == "call" and not self._promises):
            allowed = ("deny",) if unread else ("once", "deny")
            options = tuple(option for option in options if ANSWERS[option.key] in allowed)
        tab = (key_of("complete"), "accent")
        match question.kind, focused:
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


def _beyond(question: Question) -> str:
    return _BEYOND.get(question.name, "outside this folder")


def _anywhere(letter: str) -> str:
    """The key that gives an answer while the prompt has the focus."""
    return key_of(_COMMANDS[letter])


def _in_lines(keys: Iterable[Spans], width: int) -> list[list[Span]]:
    """The keys on lines of this width, none of them torn."""
    lines: list[list[Spans]] = [[]]
    for key in keys:
        if lines[-1] and width_of(_joined([*lines[-1], key])) > width:
            lines.append([])
        lines[-1].append(key)
    return [list(_joined(line)) for line in lines]


def _joined(keys: Iterable[Spans]) -> Iterator[Span]:
    for at, key in enumerate(keys):
        if at:
            yield " · ", "muted"
        yield from key
