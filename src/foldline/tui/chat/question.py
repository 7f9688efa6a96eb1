"""Questions above the prompt: approval of tool calls, and choices.

Some answers mean agreement to a call, a plan, hooks or a page (`Answerable.agrees`). They are accepted only
after the whole question has been on the screen. Control sequences and invisible characters are made visible.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from foldline.frontend.commands import key_of
from foldline.frontend.state import Answerable, Question
from foldline.text.harmless import (
    clean,
    clean_line,
    nothing_hidden,
    nothing_hidden_lines,
)
from foldline.tui.keys.typed_ahead import DEAF_SECONDS, TOO_SOON
from foldline.tui.look.cells import (
    RowPiece,
    Span,
    Spans,
    in_reverse,
    piece,
    row,
    width_of,
    wrap_spans,
)
from foldline.tui.look.fields import LineInput
from foldline.tui.look.lines import (
    Line,
    LinesWidget,
    edge,
    frame,
    hint,
    key_words,
    sides,
    window_start,
)
from foldline.tui.messages import OperationWanted

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


_REPEAT_SECONDS = 0.5
"""How long after a rejected key another key press counts as its repeat, in seconds.

A key that is held down is sent repeatedly.
"""

Answer = Literal["once", "always", "project", "deny"]
"""The user's answer to a tool call."""
ANSWERS: dict[str, Answer] = {"y": "once", "a": "always", "p": "project", "n": "deny"}
"""The answers to a tool call's question, by the key of the option.

The number of an option does not depend on which others are offered. If 2 sometimes meant "no" and sometimes
"always", the user could grant a rule by habit.
"""
_COMMANDS = {
    "y": "allow-once",
    "a": "allow-always",
    "p": "allow-project",
    "n": "decline",
}
"""For each option's key, the command with the same effect.
"""

_ALWAYS = ("a", "p")
UNREAD = "Scroll to the end first: you can only allow what you have seen"
_NOT_SEEN = "Not enough room to show what “always” would allow: enlarge the terminal, or allow once"
NO_RULE = "A call like this can only be allowed once at a time"
REMARKS = frozenset({TOO_SOON, UNREAD, _NOT_SEEN, NO_RULE})
"""Remarks about a question in the status row.

They are removed together with the question.
"""
_WHY = "why, and what to do instead"

SENSITIVE = "outside this folder, or a sensitive file"
MAY_LEAVE = "may access files outside this folder"
NOT_PUBLIC = "not a public address"
OUTSIDE = "outside this folder"
ANOTHER_RULE = "another rule"
READ_ALL = "to read all"
TO_ANSWER = "to answer"
SCROLLS = "scrolls"
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

_TEXT_LINES = 3
"""Minimum number of visible lines of the question's text.

If there is too little room for them, the rule and all answers but one are left out.
"""


class _Layout(NamedTuple):
    """The content of the frame, from top to bottom."""

    rows: int
    """Number of visible lines of the question's text."""
    where: list[Line]
    """The row that says which lines are visible; empty if all are."""
    promise: list[Line]
    """The rule that "always" would grant.

    If there is no room for the rule, "always" is not offered.
    """
    answers: list[Line]
    first: int
    """Index of the first visible answer."""
    options: Sequence[Answerable]
    """The answers that are offered."""


class QuestionDock(LinesWidget, can_focus=True):
    """The area for a question, which uses up to 60 % of the screen.

    Longer questions scroll.

    Until the whole question has been painted, choosing an answer that means agreement scrolls to the next
    lines instead.
    """

    DEFAULT_CSS: ClassVar[str] = "QuestionDock { display: none; }"

    @dataclass
    class WhyUnsent(Message):
        """The question was withdrawn while the user was writing this reason."""

        text: str

    def __init__(
        self,
        clock: Callable[[], float],
        remark: Callable[[str], None],
        covered: Callable[[], bool],
        typed: Callable[[events.Key | events.Paste], None],
        edit: Callable[[str], str | None],
    ) -> None:
        """Create the dock.

        Args:
            clock: Returns the time in seconds.
            remark: Shows why an answer was rejected.
            covered: Returns whether another widget covers the dock.
            typed: Receives text that is typed while the dock has the focus, and moves the focus.
            edit: Opens text in the user's editor, and returns the edited text.
        """
        super().__init__(id="question")
        self._clock = clock
        self._remark = remark
        self._covered = covered
        self._typed = typed
        self._edit = edit
        self.why = LineInput()
        """The field for a reason or a typed answer.

        It is in the same row as the last option.
        """
        self._question: Question | None = None
        self._others = 0
        self._nth = 0
        """Index of the rule that "always" would grant."""
        self._marked = 0
        self._offered: Sequence[Answerable] = ()
        """The answers in the last layout. `_marked` is the index of the selected one."""
        self._shown_at = 0.0
        self._turned_at = -DEAF_SECONDS
        """Time at which an answer last scrolled instead of being given.

        This happens to an answer that means agreement if there are unread lines.
        """
        self._refused_at = -DEAF_SECONDS
        """Time at which a key was last rejected for being pressed too soon."""
        self._text: QuestionText | None = None
        """The question's text at the width of the last layout."""
        self._width = 0
        self._top = 0
        self._read = -1
        """Number of lines from the top that have been on the screen at the current width.

        -1 if nothing has been painted yet.
        """
        self._rules_read: set[int] = set()
        """Indexes of the rules that have been completely on the screen."""
        self._most = 20

    def compose(self) -> ComposeResult:
        yield self.why

    def show(self, questions: tuple[Question, ...]) -> bool:
        """Show the first of these questions, if there is one.

        Returns:
            Whether another question is now shown.
        """
        question = questions[0] if questions else None
        self._others = max(len(questions) - 1, 0)
        is_other = question != self._question
        if is_other:
            self._shown_at = self._clock()
            self._turned_at = -DEAF_SECONDS
            self._text = None
            self._read = -1
            self._top = 0
            self._nth = 0
            self._offered = ()
            self._marked = 0 if question is None else _default_option(question)
            self._rules_read.clear()
            if (
                self.why.value.strip()
                and self._question is not None
                and self._question.kind == "call"
            ):
                self.post_message(self.WhyUnsent(self.why.value))
            if self.why.display:
                self.keep_why()
            self.why.value = ""
        self._question = question
        self._fit()
        return is_other

    def set_room(self, height: int, free: int) -> int:
        """Limit the height to 60 % of the screen, and to `free` rows.

        Returns:
            The number of rows that the dock uses.
        """
        self._most = min(height * 3 // 5, free)
        self._fit()
        if not self.display or not self.styles.height:
            return 0
        return int(self.styles.height.value)

    def deafen(self) -> None:
        """Reject answers for a second.

        Called when the question has just become visible again.
        """
        self._shown_at = self._clock()

    # --- answers --------------------------------------------------------------------------------------

    def give(self, key: str) -> None:
        """Answer a tool call's question with the option for this key."""
        question = self._question
        if question is None or question.kind != "call":
            return
        option = next(
            (option for option in question.options if option.key == key), None
        )
        if option is None:
            self._remark(NO_RULE)
        else:
            self._take(option)

    def leave(self) -> None:
        """Decline the call without a reason, or close a choice without an answer."""
        if self._question is not None and self._takes_answers():
            self._post_answer(
                self._question, "n" if self._question.kind == "call" else ""
            )

    def _take(self, option: Answerable) -> None:
        """Give an answer, or ask for its text first.

        If the answer means agreement while there are unread lines, scroll to those lines instead.
        """
        question = self._question
        if question is None or not self._takes_answers():
            return
        if option.agrees and not self._may_agree(question, option):
            return
        match option.asks:
            case "line":
                self._ask_line(option)
            case "edit":
                text = self._edit(question.title)
                if text is not None:
                    self._post_answer(question, option.key, text)
            case "":
                self._post_answer(question, option.key)

    def _may_agree(self, question: Question, option: Answerable) -> bool:
        """Whether this answer is allowed.

        The whole question, and the rule that the answer grants, must have been on the screen.
        """
        grants_rule = question.kind == "call" and option.key in _ALWAYS
        if grants_rule and not self._layout(question, self.size.width).promise:
            self._remark(_NOT_SEEN)
            return False
        if self._unread:
            self._read_on()
            return False
        if grants_rule and self._nth not in self._rules_read:
            self._remark(_NOT_SEEN)
            return False
        return self._is_past(self._turned_at)

    def _read_on(self) -> None:
        """Scroll to the first unread line."""
        self._turned_at = self._clock()
        self._move_to(self._read)
        self._remark(UNREAD)

    def _post_answer(self, question: Question, key: str, text: str = "") -> None:
        from foldline.protocol import operations  # not needed on the first screen

        self.why.value = ""
        answer: operations.Operation
        if question.kind == "choice":
            answer = operations.Choose(choice=question.id, key=key, text=text)
        else:
            answer = operations.Approve(
                call_id=question.id,
                answer=ANSWERS[key],
                nth=self._nth,
                why=text,
            )
        self.post_message(OperationWanted(answer))

    def other_rule(self) -> None:
        """Select the next rule that "always" could grant."""
        if self._question is not None and self._question.promises:
            self._nth = (self._nth + 1) % len(self._question.promises)
            self._fit()

    def keep_why(self) -> None:
        """Close the field for the reason, but keep its text."""
        self.why.close()
        self.screen.set_focus(self)

    def _ask_line(self, option: Answerable) -> None:
        """Ask for text in the row of an answer.

        The answer's label changes from "No, and say why" to "No:".
        """
        if option in self._offered:
            self._marked = self._offered.index(option)
        placeholder = _WHY if option.key == "n" else option.label.partition(", ")[2]
        self.why.ask(placeholder, self.why.value, partial(self._written, option))
        self._fit()

    def _written(self, option: Answerable, line: str) -> None:
        self.screen.set_focus(self)
        if self._question is not None and self._takes_answers():
            self._post_answer(self._question, option.key, " ".join(line.split()))

    def _takes_answers(self) -> bool:
        """Whether answers are accepted.

        A question accepts answers once it has been visible for a second, or immediately if the user opened
        it.
        """
        if self._question is None or not self._question.opened_by_user:
            return self._is_past(self._shown_at)
        if self._read < 0:
            self._remark(TOO_SOON)
            self.refresh()
        return self._read >= 0

    def _is_past(self, moment: float) -> bool:
        """Whether a key pressed now can be meant for the current screen.

        The screen has not changed since `moment`. A key that is held down is rejected.
        """
        now = self._clock()
        if now - moment >= DEAF_SECONDS and now - self._refused_at >= _REPEAT_SECONDS:
            return True
        self._refused_at = now
        self._remark(TOO_SOON)
        return False

    # --- keys and mouse ---------------------------------------------------------------------------------

    def focus_on_click(self) -> bool:
        return not self.why.display

    def on_key(self, event: events.Key) -> None:
        if self._takes_key(event):
            event.stop()
            event.prevent_default()

    def _takes_key(self, event: events.Key) -> bool:
        question = self._question
        if self.why.display:
            if event.is_printable:  # typed right after the key that opened the field
                self.why.post_message(events.Key(event.key, event.character))
            return event.is_printable
        if (
            question is None or self.screen.focused is not self
        ):  # typed right after other text
            self._typed(event)
            return True
        options = self._layout(question, self.size.width).options
        pressed = [_key(question, option) for option in options]
        match event.key:
            case "enter" if self._marked >= 0:
                self._take(options[self._marked])
            case "enter" if question.asks_agreement and self._unread:
                self._read_on()
            case key if key in pressed:
                self._marked = pressed.index(key)
                self._take(options[self._marked])
            case "up" | "down":
                self._step(-1 if event.key == "up" else 1)
            case "left" | "right" if question.promises:
                self.other_rule()
            case _ if event.is_printable:
                self._typed(event)
            case _:
                return False
        return True

    def on_paste(self, event: events.Paste) -> None:
        if not self.why.display:
            event.stop()
            self._typed(event)

    def on_click(self, event: events.Click) -> None:
        """Give the answer that was clicked."""
        question = self._question
        if question is None:
            return
        layout = self._layout(question, self.size.width)
        lines_above = 1 + layout.rows + len(layout.where) + len(layout.promise)
        at = event.screen_y - self.region.y - lines_above
        if 0 <= at < len(layout.answers):
            self._marked = layout.first + at
            self._take(layout.options[self._marked])
            self.update()

    def on_mouse_scroll_down(self) -> None:
        self._move_to(self._top + 1)

    def on_mouse_scroll_up(self) -> None:
        self._move_to(self._top - 1)

    def _step(self, step: int) -> None:
        """Scroll through the text first, then move the selection from answer to answer."""
        question = self._question
        assert question is not None, "keys are only taken for a question"
        layout = self._layout(question, self.size.width)
        total = len(self._body(question, self.size.width))
        scrolls = self._top < total - layout.rows if step > 0 else self._marked <= 0
        if scrolls:
            self._move_to(self._top + step)
        else:
            self._marked = min(self._marked + step, len(layout.options) - 1)
            self.update()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._fit()  # the key hints may need another line

    def on_descendant_blur(self) -> None:
        self.why.close()
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _move_to(self, line: int) -> None:
        self._top = max(line, 0)
        self.update()

    # --- reading ----------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines.

        Lines that are drawn at full width count as read.
        """
        strips = super().render_lines(crop)
        if (
            self._question is not None
            and self.screen.is_current
            and not self._covered()
        ):
            self._painted(self._question, crop)
        return strips

    def _painted(self, question: Question, crop: Region) -> None:
        width = self.size.width
        if crop.y > 1 or crop.x > 0 or crop.right != width:
            return
        rows, where, promise, *_ = self._layout(question, width)
        if promise and 1 + rows + len(where) + len(promise) <= crop.bottom:
            self._rules_read.add(self._nth)
        bottom = self._top + min(rows, crop.bottom - 1)
        if self._top <= max(self._read, 0) and bottom > self._read:
            self._read = bottom
            self.call_after_refresh(self.update)  # the answers may be active now

    @property
    def _unread(self) -> bool:
        """Whether a part of the question has not been on the screen yet."""
        return self._text is None or self._read < len(self._text)

    def _fit(self) -> None:
        width = self.size.width
        if self._question is not None and width:
            rows, where, promise, answers, *_ = self._layout(self._question, width)
            last = rows + len(where) + len(promise) + len(answers)
            self.styles.height = last + 2
            word = self._question.options[-1].label.partition(", ")[0]
            self.why.styles.margin = (last, 2, 0, 7 + cell_len(word))
        self.update()

    # --- drawing --------------------------------------------------------------------------------------

    def lines(self, width: int) -> list[list[Span]]:
        question = self._question
        if question is None:
            return []
        frame_style = frame(self._is_active)
        body = self._body(question, width)
        rows, where, promise, answers, _, options = self._layout(question, width)
        self._top = min(self._top, max(len(body) - rows, 0))
        shown = body.lines(self._top, rows) or [[]]
        title: Spans = (("? ", "altered"), (self._sentence(question), "text bold"))
        inside = (*shown, *where, *promise, *answers)
        return [
            edge(
                frame_style,
                True,
                title,
                self._remark_spans(width),
                width,
            ),
            *(sides(frame_style, [(" ", ""), *line], width) for line in inside),
            edge(
                frame_style,
                False,
                self._foot(question, options),
                (),
                width,
            ),
        ]

    @property
    def _is_active(self) -> bool:
        return self.has_focus or self.why.display

    def _body(self, question: Question, width: int) -> QuestionText:
        """Return the question's text at this width.

        If the width has changed, the text is read from its start again.
        """
        if self._text is not None and width == self._width:
            return self._text
        inside = max(width - 4, 8)
        head: list[Line] = []
        sentence = self._sentence(question)
        if cell_len(sentence) > width - 8:
            head += wrap_spans([(sentence, "text bold")], inside)
        if question.outside and not self._has_room_for_reason(width):
            head += wrap_spans([(_beyond(question), "altered")], inside)
        self._text = QuestionText(question, inside, head)
        self._width = width
        self._read = -1
        self._top = 0
        return self._text

    def _sentence(self, question: Question) -> str:
        """Return the question's title.

        It is shown in the frame or, if it is too long, above the text.
        """
        return nothing_hidden(clean_line(question.sentence))

    def _has_room_for_reason(self, width: int) -> bool:
        """Whether the reason for approval fits into the frame.

        The reason says why each call needs approval.
        """
        sentence = "" if self._question is None else self._sentence(self._question)
        return cell_len(sentence) + width_of(self._remark_spans()) + 15 <= width

    def _remark_spans(self, width: int = 0) -> Spans:
        remarks: list[Span] = []
        question = self._question
        if (
            question is not None
            and question.outside
            and (not width or self._has_room_for_reason(width))
        ):
            remarks.append((_beyond(question), "altered"))
        if self._others:
            if remarks:
                remarks.append((" · ", "muted"))
            remarks.append((f"1 of {self._others + 1} questions", "muted"))
        return tuple(remarks)

    def _layout(self, question: Question, width: int) -> _Layout:
        """Divide the rows between text, rule and answers.

        If there is too little room, the rule is dropped first, then all answers but one, then lines of text.
        """
        inside = max(self._most - 2, 1)
        total = len(self._body(question, width))
        promise = self._promise(question, max(width - 4, 8))
        most_lines = min(max(inside // 2, 2), inside - _TEXT_LINES)
        if len(promise) > most_lines:
            promise = []
        options = question.options
        if question.kind == "call" and not promise:
            options = tuple(option for option in options if option.key not in _ALWAYS)
        free = inside - len(promise)
        count = max(min(len(options), free - min(total, _TEXT_LINES)), 1)
        rows = min(total, free - count)
        if total > rows:
            rows -= 1  # for the line numbers
        rows = max(rows, 1)
        self._offer(options)
        first = window_start(max(self._marked, 0), len(options), count)
        answers: list[Line] = []
        for at, option in enumerate(options[first : first + count], start=first):
            number = f"{at + 1} of {len(options)}" if count < len(options) else ""
            answers.append(
                self._answer_row(
                    question,
                    option,
                    at == self._marked,
                    number,
                    width - 4,
                )
            )
        where = [self._where(question, rows, total)] if total > rows else []
        return _Layout(
            rows,
            where,
            promise,
            answers,
            first,
            options,
        )

    def _offer(self, options: Sequence[Answerable]) -> None:
        """Set the offered answers.

        The selected answer stays selected if it is still offered.
        """
        marked = (
            self._offered[self._marked]
            if 0 <= self._marked < len(self._offered)
            else None
        )
        if marked in options:
            self._marked = options.index(marked)
        else:
            self._marked = min(self._marked, len(options) - 1)
        self._offered = options

    def _promise(self, question: Question, width: int) -> list[Line]:
        """Return the lines of the rule that "always" would grant."""
        if not question.promises:
            return []
        spans: Line = [
            ("always: ", "muted"),
            (nothing_hidden(question.promises[self._nth]), "accent"),
        ]
        if len(question.promises) > 1:
            key = "→" if self._is_active else key_of("other-rule")
            spans += [(" · ", "muted"), *hint(key, ANOTHER_RULE, of_keys="muted")]
        return wrap_spans(spans, width)

    def _where(self, question: Question, rows: int, total: int) -> Line:
        """Return the row with the numbers of the visible lines.

        For example `lines 1–9 of 40, ↓ to read all`.
        """
        top = min(self._top, total - rows)
        where: Line = [(f"lines {top + 1}–{top + rows} of {total}", "altered")]
        if question.asks_agreement and self._unread:
            command = _COMMANDS["y"] if question.kind == "call" else "complete"
            key = "↓" if self._is_active else key_of(command)
            where += [(", ", "muted"), *hint(key, READ_ALL, "text")]
        return where

    def _answer_row(
        self,
        question: Question,
        option: Answerable,
        marked: bool,
        number: str,
        width: int,
    ) -> Line:
        """Return the row of an answer with its key: `▶ 1 Allow once    Alt+Y`.

        `number`, if given, is shown in place of the key at the right.
        """
        label = clean_line(option.label)
        if option.asks == "line" and self.why.display:
            label = f"{label.partition(', ')[0]}:"
        style = "muted" if option.agrees and self._unread else "text"
        marked = marked and self._is_active
        words = f"{'▶' if marked else ' '} {clean_line(_key(question, option))} {label}"
        right: list[RowPiece] = []
        command_key = key_of(_COMMANDS[option.key]) if question.kind == "call" else ""
        if number:
            right.append(piece(number, "muted"))
        elif command_key:
            right.append(piece(command_key, "muted", rank=1))
        line = row([piece(words, style, cut="right")], right, width, margin=0)
        return in_reverse(line) if marked and not self.why.display else line

    def _foot(self, question: Question, options: Sequence[Answerable]) -> Spans:
        """Return the key hints for the bottom border."""
        if self.why.display:
            enter = "declines it" if question.options[-1].key == "n" else "answers"
            return key_words((("Enter", enter), ("Esc", "back")))
        if not self._is_active:
            return key_words(((key_of("complete"), TO_ANSWER),))
        agrees = (
            question.asks_agreement
            if self._marked < 0
            else options[self._marked].agrees
        )
        keys = ("Enter", SCROLLS) if agrees and self._unread else ("↑↓ Enter", "select")
        leaves = "declines" if question.kind == "call" else "leaves it undecided"
        return key_words((keys, ("Esc", leaves)))


def _default_option(question: Question) -> int:
    """Return the index of the option that is selected initially.

    Returns -1 if no option is.
    """
    is_one = question.kind == "call" or len(question.options) == 1
    return 0 if is_one or question.opened_by_user else -1


def _key(question: Question, option: Answerable) -> str:
    """Return the number key of an answer.

    The key works while the dock has the focus.
    """
    keys = list(ANSWERS)
    if question.kind == "choice":
        keys = [answer.key for answer in question.options]
    return str(keys.index(option.key) + 1)


def _beyond(question: Question) -> str:
    return _BEYOND.get(question.name, OUTSIDE)
