"""Questions above the prompt: approval of tool calls, and choices.

Some answers mean agreement to a call, a plan, hooks or a page (`Answerable.agrees`). They are accepted only
after the whole question has been on the screen.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.geometry import Region
from textual.strip import Strip

from foldline.frontend.commands import key_of
from foldline.frontend.state import Answerable, Question
from foldline.text.harmless import clean_line, nothing_hidden
from foldline.tui.chat.question_text import (
    QuestionReading,
    QuestionText,
    reason_for_approval,
)
from foldline.tui.chat.question_window import QuestionWindow
from foldline.tui.keys.typed_ahead import DEAF_SECONDS, TOO_SOON
from foldline.tui.lists.rows import PickerItem, Ranked, choice_line
from foldline.tui.look.cells import Span, Spans, width_of, wrap_spans
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
    from foldline.tui.lists.line import LineDialog

_REPEAT_SECONDS = 0.5
"""How long after a rejected key another key press counts as its repeat, in seconds.

A key that is held down is sent repeatedly.
"""
_COMMANDS = {
    "y": "allow-once",
    "a": "allow-always",
    "p": "allow-project",
    "n": "decline",
}
"""For each option's key, the command with the same effect."""
UNREAD = "Scroll to the end first: you can only allow what you have seen"
_NOT_SEEN = "Not enough room to show what “always” would allow: enlarge the terminal, or allow once"
NO_RULE = "A call like this can only be allowed once at a time"
REMARKS = frozenset({TOO_SOON, UNREAD, _NOT_SEEN, NO_RULE})
"""Remarks about a question in the status row.

They are removed together with the question.
"""
WHY = "Why not, and what to do instead"

ANOTHER_RULE = "another rule"
READ_ALL = "to read all"
TO_ANSWER = "to answer"
SCROLLS = "scrolls"
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

    @property
    def lines_above(self) -> int:
        """Number of lines in the frame above the answers."""
        return self.rows + len(self.where) + len(self.promise)


class QuestionDock(LinesWidget, can_focus=True):
    """The area for a question, which uses up to 60 % of the screen.

    Longer questions scroll.

    Until the whole question has been painted, choosing an answer that means agreement scrolls to the next
    lines instead.
    """

    DEFAULT_CSS: ClassVar[str] = "QuestionDock { display: none; }"

    def __init__(self, chat: QuestionWindow) -> None:
        super().__init__(id="question")
        self._chat = chat
        self._question: Question | None = None
        self._others = 0
        self._now = QuestionReading(0.0)
        self._dialog: LineDialog[str] | None = None
        """The dialog for a reason or a typed answer, while it is open."""
        self._refused_at = -DEAF_SECONDS
        """Time at which a key was last rejected for being pressed too soon."""
        self._most = 20
        """Maximum height, including the frame."""

    def show(self, questions: tuple[Question, ...]) -> bool:
        """Show the first of these questions, if there is one.

        Returns:
            Whether another question is now shown.
        """
        question = questions[0] if questions else None
        self._others = max(len(questions) - 1, 0)
        is_other = question != self._question
        if is_other:
            self._withdraw()
            self._question = question
            self._now = QuestionReading(self._chat.clock(), _default_option(question))
        self._fit()
        return is_other

    def _withdraw(self) -> None:
        """Close the dialog of a question that is gone. The reason for a call is put into the prompt."""
        reason = self._now.reason
        if self._dialog is not None:
            reason = self._dialog.text
            self._dialog.dismiss()
        is_call = self._question is not None and self._question.kind == "call"
        if is_call and reason.strip():
            self._chat.give_back(reason)

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
        self._now.shown_at = self._chat.clock()

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
            self._chat.remark(NO_RULE)
        else:
            # If this key came too soon, the next Enter must not agree.
            if not option.agrees:
                self._mark(option)
            self._take(option)

    def _mark(self, option: Answerable) -> None:
        """Move the mark to this answer, if it is on the screen."""
        if option in self._now.offered:
            self._now.marked = self._now.offered.index(option)
            self.update()

    def leave(self) -> None:
        """Decline the call without a reason, or close a choice without an answer."""
        from foldline.frontend.questions import options_of

        if self._question is not None and self._takes_answers():
            self._answer(self._question, options_of(self._question)[-1])

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
                self._ask_line(question, option)
            case "edit":
                text = self._chat.edited(question.title)
                if text is not None:
                    self._answer(question, option, text)
            case "":
                self._answer(question, option)

    def _may_agree(self, question: Question, option: Answerable) -> bool:
        """Whether this answer is allowed.

        The whole question, and the rule that the answer grants, must have been on the screen.
        """
        now = self._now
        has_room = not option.grants_rule or self._layout(question).promise
        if has_room and self._unread:
            self._read_on()
            return False
        if not has_room or (option.grants_rule and now.nth not in now.rules_read):
            self._chat.remark(_NOT_SEEN)
            return False
        return self._is_past(now.turned_at)

    def _read_on(self) -> None:
        """Scroll to the first unread line."""
        self._now.turned_at = self._chat.clock()
        self._move_to(self._now.read)
        self._chat.remark(UNREAD)

    def _answer(self, question: Question, option: Answerable, text: str = "") -> None:
        from foldline.frontend.questions import operation_of

        self._now.reason = ""
        operation = operation_of(question, option, text, self._now.nth)
        self.post_message(OperationWanted(operation))

    def _ask_line(self, question: Question, option: Answerable) -> None:
        """Ask for the text of an answer in a dialog."""
        from foldline.tui.lists.line import LineDialog  # not needed on the first screen

        async def one_line(text: str) -> str:
            return " ".join(text.split())

        def answered(line: str | None) -> None:
            if self._dialog is not dialog:
                return  # the question is gone
            self._dialog = None
            self.update()
            if line is None:
                self._now.reason = dialog.text
            else:
                self._answer(question, option, line)

        note = WHY if question.kind == "call" else self._sentence(question)
        dialog = LineDialog(option.label, note, one_line, text=self._now.reason)
        dialog.cover_prompt()
        self._dialog = dialog
        self.update()
        self._chat.open_dialog(dialog, answered)

    def other_rule(self) -> None:
        """Select the next rule that "always" could grant."""
        if self._question is not None and self._question.promises:
            self._now.nth = (self._now.nth + 1) % len(self._question.promises)
            self._fit()

    def _takes_answers(self) -> bool:
        """Whether answers are accepted.

        A question accepts answers once it has been visible for a second, or immediately if the user opened
        it.
        """
        if self._question is None or not self._question.opened_by_user:
            return self._is_past(self._now.shown_at)
        if self._now.read < 0:
            self._chat.remark(TOO_SOON)
            self.refresh()
        return self._now.read >= 0

    def _is_past(self, moment: float) -> bool:
        """Whether a key pressed now can be meant for the current screen.

        The screen has not changed since `moment`. A key that is held down is rejected.
        """
        now = self._chat.clock()
        if now - moment >= DEAF_SECONDS and now - self._refused_at >= _REPEAT_SECONDS:
            return True
        self._refused_at = now
        self._chat.remark(TOO_SOON)
        return False

    # --- keys and mouse ---------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if self._takes_key(event):
            event.stop()
            event.prevent_default()

    def _takes_key(self, event: events.Key) -> bool:
        question = self._question
        if question is None or self.screen.focused is not self:
            # typed right after other text
            self._chat.move_to_prompt(event)
            return True
        self._layout(question)  # the offered answers
        now = self._now
        numbers = [_number(question, option) for option in now.offered]
        match event.key:
            case "enter" if now.marked >= 0:
                self._take(now.offered[now.marked])
            case "enter" if question.asks_agreement and self._unread:
                self._read_on()
            case key if key in numbers:
                now.marked = numbers.index(key)
                self._take(now.offered[now.marked])
            case "up" | "down":
                self._step(question, -1 if event.key == "up" else 1)
            case "left" | "right" if question.promises:
                self.other_rule()
            case _ if event.is_printable:
                self._chat.move_to_prompt(event)
            case _:
                return False
        return True

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._chat.move_to_prompt(event)

    def on_click(self, event: events.Click) -> None:
        """Give the answer that was clicked."""
        question = self._question
        if question is None:
            return
        layout = self._layout(question)
        at = event.screen_y - self.region.y - 1 - layout.lines_above
        if 0 <= at < len(layout.answers):
            self._now.marked = layout.first + at
            self._take(self._now.offered[self._now.marked])
            self.update()

    def on_mouse_scroll_down(self) -> None:
        self._move_to(self._now.top + 1)

    def on_mouse_scroll_up(self) -> None:
        self._move_to(self._now.top - 1)

    def _step(self, question: Question, step: int) -> None:
        """Scroll through the text first, then move the selection from answer to answer."""
        now = self._now
        last_top = len(self._body(question)) - self._layout(question).rows
        scrolls = now.top < last_top if step > 0 else now.marked <= 0
        if scrolls:
            self._move_to(now.top + step)
        else:
            now.marked = min(now.marked + step, len(now.offered) - 1)
            self.update()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._fit()  # the key hints may need another line

    def on_resize(self) -> None:
        self._fit()

    def _move_to(self, line: int) -> None:
        self._now.top = max(line, 0)
        self.update()

    # --- reading ----------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines.

        Lines that are drawn at full width count as read.
        """
        strips = super().render_lines(crop)
        is_covered = not self.screen.is_current or self._chat.covers_question
        if self._question is not None and not is_covered:
            self._painted(self._question, crop)
        return strips

    def _painted(self, question: Question, crop: Region) -> None:
        if crop.y > 1 or crop.x > 0 or crop.right != self.size.width:
            return
        now = self._now
        layout = self._layout(question)
        if layout.promise and 1 + layout.lines_above <= crop.bottom:
            now.rules_read.add(now.nth)
        bottom = now.top + min(layout.rows, crop.bottom - 1)
        if now.top <= max(now.read, 0) and bottom > now.read:
            now.read = bottom
            self.call_after_refresh(self.update)  # the answers may be active now

    @property
    def _unread(self) -> bool:
        """Whether a part of the question has not been on the screen yet."""
        text = self._now.text
        return text is None or self._now.read < len(text)

    def _fit(self) -> None:
        if self._question is not None and self.size.width:
            layout = self._layout(self._question)
            self.styles.height = layout.lines_above + len(layout.answers) + 2
        self.update()

    # --- drawing --------------------------------------------------------------------------------------

    def lines(self, width: int) -> list[list[Span]]:
        question = self._question
        if question is None:
            return []
        look = frame(self.has_focus and self._dialog is None)
        body = self._body(question)
        layout = self._layout(question)
        self._now.top = min(self._now.top, max(len(body) - layout.rows, 0))
        shown = body.lines(self._now.top, layout.rows) or [[]]
        inside = [[(" ", ""), *line] for line in (*shown, *layout.where)]
        inside += [[(" ", ""), *line] for line in layout.promise]
        title: Spans = (("? ", "altered"), (self._sentence(question), "text bold"))
        return [
            edge(look, True, title, self._remarks(question, width), width),
            *(sides(look, line, width) for line in (*inside, *layout.answers)),
            edge(look, False, self._foot(question), (), width),
        ]

    def _body(self, question: Question) -> QuestionText:
        """Return the question's text at the current width.

        If the width has changed, the text is read from its start again.
        """
        now = self._now
        width = self.size.width
        if now.text is not None and width == now.width:
            return now.text
        inside = max(width - 4, 8)
        head: list[Line] = []
        sentence = self._sentence(question)
        if cell_len(sentence) > width - 8:
            head += wrap_spans([(sentence, "text bold")], inside)
        if question.outside and not self._has_room_for_reason(question, width):
            head += wrap_spans([(reason_for_approval(question), "altered")], inside)
        now.text = QuestionText(question, inside, head)
        now.width = width
        now.read = -1
        now.top = 0
        return now.text

    def _sentence(self, question: Question) -> str:
        """Return the question's title.

        It is shown in the frame or, if it is too long, above the text.
        """
        return nothing_hidden(clean_line(question.sentence))

    def _has_room_for_reason(self, question: Question, width: int) -> bool:
        """Whether the reason why each call needs approval fits into the frame."""
        remarks = width_of(self._remarks(question))
        return cell_len(self._sentence(question)) + remarks + 15 <= width

    def _remarks(self, question: Question, width: int = 0) -> Spans:
        """Return the text at the right of the frame.

        With `width`, the reason for the approval is left out if it does not fit.
        """
        remarks: list[Span] = []
        if question.outside and (
            not width or self._has_room_for_reason(question, width)
        ):
            remarks.append((reason_for_approval(question), "altered"))
        if self._others:
            if remarks:
                remarks.append((" · ", "muted"))
            remarks.append((f"1 of {self._others + 1} questions", "muted"))
        return tuple(remarks)

    def _layout(self, question: Question) -> _Layout:
        """Divide the rows between text, rule and answers.

        If there is too little room, the rule is dropped first, then all answers but one, then lines of text.
        """
        inside = max(self._most - 2, 1)
        total = len(self._body(question))
        promise = self._promise(question, max(self.size.width - 4, 8))
        if len(promise) > min(max(inside // 2, 2), inside - _TEXT_LINES):
            promise = []
        options = question.options
        if not promise:
            options = tuple(option for option in options if not option.grants_rule)
        self._offer(options)
        free = inside - len(promise)
        count = max(min(len(options), free - min(total, _TEXT_LINES)), 1)
        rows = min(total, free - count)
        if total > rows:
            rows -= 1  # for the line numbers
        rows = max(rows, 1)
        where = [self._where(question, rows, total)] if total > rows else []
        first = window_start(max(self._now.marked, 0), len(options), count)
        answers = [
            self._answer_row(question, at, is_part=count < len(options))
            for at in range(first, first + count)
        ]
        return _Layout(rows, where, promise, answers, first)

    def _offer(self, options: Sequence[Answerable]) -> None:
        """Set the offered answers.

        The selected answer stays selected if it is still offered.
        """
        now = self._now
        marked = now.offered[now.marked] if 0 <= now.marked < len(now.offered) else None
        if marked in options:
            now.marked = options.index(marked)
        else:
            now.marked = min(now.marked, len(options) - 1)
        now.offered = options

    def _promise(self, question: Question, width: int) -> list[Line]:
        """Return the lines of the rule that "always" would grant."""
        if not question.promises:
            return []
        rule = nothing_hidden(question.promises[self._now.nth])
        spans: Line = [("always: ", "muted"), (rule, "accent")]
        if len(question.promises) > 1:
            key = "→" if self.has_focus else key_of("other-rule")
            spans += [(" · ", "muted"), *hint(key, ANOTHER_RULE, of_keys="muted")]
        return wrap_spans(spans, width)

    def _where(self, question: Question, rows: int, total: int) -> Line:
        """Return the row with the numbers of the visible lines.

        For example `lines 1–9 of 40, ↓ to read all`.
        """
        top = min(self._now.top, total - rows)
        where: Line = [(f"lines {top + 1}–{top + rows} of {total}", "altered")]
        if question.asks_agreement and self._unread:
            command = _COMMANDS["y"] if question.kind == "call" else "complete"
            key = "↓" if self.has_focus else key_of(command)
            where += [(", ", "muted"), *hint(key, READ_ALL, "text")]
        return where

    def _answer_row(self, question: Question, at: int, *, is_part: bool) -> Line:
        """Return the row of an answer with its keys: `▶ 1 Allow once    Alt+Y`.

        If not all answers have room (`is_part`), its number among them is shown instead of the second key.
        """
        options = self._now.offered
        option = options[at]
        right = f"{at + 1} of {len(options)}" if is_part else ""
        if not right and question.kind == "call":
            right = key_of(_COMMANDS[option.key])
        label = f" {_number(question, option)} {option.label}"
        item = Ranked(PickerItem(option.key, label, right=right))
        style = "muted" if option.agrees and self._unread else "text"
        is_marked = self.has_focus and at == self._now.marked
        return choice_line(item, is_marked, None, self.size.width - 2, style)

    def _foot(self, question: Question) -> Spans:
        """Return the key hints for the bottom border."""
        if not self.has_focus:
            return key_words(((key_of("complete"), TO_ANSWER),))
        now = self._now
        agrees = question.asks_agreement
        if now.marked >= 0:
            agrees = now.offered[now.marked].agrees
        keys = ("Enter", SCROLLS) if agrees and self._unread else ("↑↓ Enter", "select")
        leaves = "declines" if question.kind == "call" else "leaves it undecided"
        return key_words((keys, ("Esc", leaves)))


def _default_option(question: Question | None) -> int:
    """Return the index of the option that is selected initially.

    Returns -1 if no option is.
    """
    if question is None:
        return -1
    is_one = question.kind == "call" or len(question.options) == 1
    return 0 if is_one or question.opened_by_user else -1


def _number(question: Question, option: Answerable) -> str:
    """Return the number key of an answer.

    The key works while the dock has the focus.
    """
    return str(question.numbers.index(option.key) + 1)
