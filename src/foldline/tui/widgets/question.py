"""Questions that wait for an answer, docked above the prompt: the question of a tool call, or a choice.

An answer that agrees (`Answerable.agrees`: to a call, a plan, hooks, a page to be opened) counts once all of
the question was on the screen. Nothing of it is left out, hidden in a sequence or looks like a blank.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from foldline.context.harmless import clean, clean_line, nothing_hidden, nothing_hidden_lines
from foldline.tui.blocks.cells import Span, Spans, in_reverse, piece, row, width_of, wrap_spans
from foldline.tui.keys.commands import key_of
from foldline.tui.messages import OperationWanted
from foldline.tui.state import Answerable, Question
from foldline.tui.widgets.fields import OneLine
from foldline.tui.widgets.lines import Line, Lines, edge, frame, hint, key_words, sides, window_start

if TYPE_CHECKING:
    from foldline.tui.blocks.diff import DiffRows


_MOST_MARKDOWN = 20_000
"""Characters up to which Markdown is drawn as such, within a frame; a longer text is shown as its source."""


class QuestionText:
    """What is asked, in lines of one width: the call, then its diff; or what a choice should be made by.

    A place in it is the number of characters before it, blanks and decoration apart: the same at any width,
    as long as `order` is the same.
    """

    def __init__(
        self, question: Question, width: int, head: Sequence[list[Span]] = (), in_frame: int = 0
    ) -> None:
        """`head`: lines for which the frame has no room. `in_frame`: the characters for which it has."""
        drawn = _markdown_lines(question, width)
        self._lines = [*head, *(drawn or _plain_lines(question, width))]
        self._diff = _diff_rows(question.diff, width) if question.diff else None
        self._start = in_frame
        by_width = width if drawn and "|" in question.title else 0
        self.order = (self._diff is not None and self._diff.is_beside, bool(drawn), by_width)
        """What the order of its lines depends on: whether diffs stand side by side, Markdown, tables."""
        texts = ["".join(text for text, style in line if "deco" not in style) for line in self._lines]
        if self._diff is not None:
            texts += map(self._diff.text, range(len(self._diff)))
        self._before = list(accumulate(map(_characters, texts), initial=in_frame))

    def __len__(self) -> int:
        return len(self._before) - 1

    def lines(self, top: int, rows: int) -> list[list[Span]]:
        """So many lines from `top` on, as far as there are any."""
        return [self._line(at) for at in range(top, min(top + rows, len(self)))]

    def _line(self, at: int) -> list[Span]:
        own = len(self._lines)
        return self._lines[at] if at < own or self._diff is None else self._diff[at - own]

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
        follows = self.place(top) <= max(place, self._start)
        return max(place, self.place(top + rows)) if follows else place


def _characters(text: str) -> int:
    """How many characters a text has, blanks apart."""
    return len("".join(text.split()))


def _plain_lines(question: Question, width: int) -> list[list[Span]]:
    if not question.title:
        return []
    if not question.asks_agreement:
        return wrap_spans([(clean(question.title), "text")], width)
    lines = nothing_hidden_lines(question.title)
    return [part for line in lines for part in wrap_spans([(line, "text")], width)]


def _markdown_lines(question: Question, width: int) -> list[list[Span]]:
    """Empty if it is no Markdown, or some of it would be hidden or cut off."""
    if not question.is_markdown or len(question.title) > _MOST_MARKDOWN:
        return []
    from foldline.tui.blocks.markdown import agreement_lines  # asked for seldom

    lines = agreement_lines("\n".join(nothing_hidden_lines(question.title)), width)
    return [] if any(width_of(line) > width for line in lines) else lines


def _diff_rows(diff: str, width: int) -> "DiffRows":
    from foldline.tui.blocks.diff import DiffRows, language_of, lines_of_our_diff, path_in  # asked for seldom

    return DiffRows(tuple(lines_of_our_diff(diff)), width, language_of(path_in(diff)))


DEAF_SECONDS = 1.0
"""A question that interrupts takes no answer for so long: the key was meant for what was there before."""

_HELD_SECONDS = 0.5
"""A key that comes sooner after one that was refused is held down, or pressed again and again."""

Answer = Literal["once", "always", "project", "deny"]
"""The user's answer to a tool call."""
ANSWERS: dict[str, Answer] = {"y": "once", "a": "always", "p": "project", "n": "deny"}
"""What the options of a tool call's question mean. Their numbers stay the same if some are not offered: if 2
were sometimes no and sometimes always, a habit would grant a rule."""
_COMMANDS = {"y": "allow-once", "a": "allow-always", "p": "allow-project", "n": "decline"}
"""The commands that give the same answers from anywhere."""

_ALWAYS = ("a", "p")
TOO_SOON = "Press again to confirm"
UNREAD = "Read on first: what was not shown cannot be allowed"
_NOT_SEEN = "There is no room to show what always would allow: make the terminal higher, or answer once"
_NO_RULE = "It can only be allowed once: each such call asks"
REMARKS = frozenset({TOO_SOON, UNREAD, _NOT_SEEN, _NO_RULE})
"""What the status row says of a question; it forgets it with the question."""
_WHY = "why, and what instead"

_ACTS = "outside, or a file that acts"
_BEYOND = {"fetch": "not a public address", "bash": "may leave this folder", "edit": _ACTS, "write": _ACTS}
"""Why a call asks each time, if it does not name a file outside of the folder. A host that cannot be resolved
and a command that cannot be parsed count as well. Files that act are hooks, instructions and settings: other
programs run or follow them."""

_TEXT_LINES = 3
"""Lines of what is asked that are shown before its answers are, where there is no room for all."""


class _Layout(NamedTuple):
    """What stands between the edges, in this order."""

    rows: int
    """How many lines of what is asked."""
    where: list[Line]
    """Which of its lines these are, where not all are shown."""
    promise: list[Line]
    """What "always" means; empty where there is nothing, or no room, and then it is not offered."""
    answers: list[Line]
    first: int
    """The first answer that is shown."""
    options: Sequence[Answerable]
    """The answers that can be given: "always" only where what it means is shown."""


class QuestionDock(Lines, can_focus=True):
    """Up to 60 % of the screen; longer questions scroll. Until all of a question was painted, an answer that
    would agree to it shows the next lines instead."""

    DEFAULT_CSS: ClassVar[str] = "QuestionDock { display: none; }"

    @dataclass
    class WhyUnsent(Message):
        """The question is gone, and with it whom this sentence was for."""

        text: str

    def __init__(
        self,
        clock: Callable[[], float],
        remark: Callable[[str], None],
        covered: Callable[[], bool],
        typed: Callable[[events.Key | events.Paste], None],
        edit: Callable[[str], str | None],
    ) -> None:
        """`remark` says why an answer was not taken. `covered`: whether something of the same screen lies
        over it. `typed` takes text that was not meant for it, and the focus; `edit` lends a text to the
        reader's editor."""
        super().__init__(id="question")
        self._clock, self._remark = clock, remark
        self._covered = covered
        self._typed = typed
        self._edit = edit
        self.why = OneLine()
        """Where the reader says why a call is declined, or types an answer: in the place of the last one."""
        self._question: Question | None = None
        self._others = 0
        self._nth = 0
        """Which of the rules "always" means."""
        self._marked = 0
        self._offered: Sequence[Answerable] = ()
        """The answers that it was marked among."""
        self._shown_at = 0.0
        self._turned_at = -DEAF_SECONDS
        """When a key that would have allowed it read on instead."""
        self._refused_at = -DEAF_SECONDS
        """When a key was refused because it came too soon."""
        self._text: QuestionText | None = None
        """What is asked, at the width it was laid out for last."""
        self._width = 0
        self._top = 0
        self._read = -1
        """The place in the text up to which it was on the screen; -1: nothing was."""
        self._rules_read: set[int] = set()
        """Which of the rules were on the screen whole."""
        self._most = 20

    def compose(self) -> ComposeResult:
        yield self.why

    def show(self, questions: tuple[Question, ...]) -> bool:
        """The first of these, and how many wait behind it; whether it is another one."""
        question = questions[0] if questions else None
        self._others = max(len(questions) - 1, 0)
        is_other = question != self._question
        if is_other:
            self._shown_at, self._turned_at = self._clock(), -DEAF_SECONDS
            self._text, self._read, self._top, self._nth, self._offered = None, -1, 0, 0, ()
            self._marked = 0 if question is None else _marked_first(question)
            self._rules_read.clear()
            if self.why.value.strip() and self._question is not None and self._question.kind == "call":
                self.post_message(self.WhyUnsent(self.why.value))
            if self.why.display:
                self.keep_why()
            self.why.value = ""
        self._question = question
        self._fit()
        return is_other

    def set_room(self, height: int, free: int) -> int:
        """At most 60 % of the height of the screen, and of what the rows that stay leave free of it: how much
        it takes of these."""
        self._most = min(height * 3 // 5, free)
        self._fit()
        return int(self.styles.height.value) if self.display and self.styles.height else 0

    def deafen(self) -> None:
        """Take no answer for a moment: it comes into sight again."""
        self._shown_at = self._clock()

    # --- answers --------------------------------------------------------------------------------------

    def give(self, key: str) -> None:
        """Give the answer with this letter to a call, as its row does."""
        question = self._question
        if question is None or question.kind != "call":
            return
        option = next((option for option in question.options if option.key == key), None)
        if option is None:
            self._remark(_NO_RULE)
        else:
            self._take(option)

    def leave(self) -> None:
        """Decline the call without a reason, or leave the choice undecided."""
        if self._question is not None and self._takes_answers():
            self._pass_on(self._question, "n" if self._question.kind == "call" else "")

    def _take(self, option: Answerable) -> None:
        """Pass on an answer, once what is written with it is there. One that agrees shows instead what was
        not shown."""
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
                    self._pass_on(question, option.key, text)
            case "":
                self._pass_on(question, option.key)

    def _may_agree(self, question: Question, option: Answerable) -> bool:
        """Whether all that this answer agrees to was on the screen, its rule included."""
        always = question.kind == "call" and option.key in _ALWAYS
        if always and not self._layout(question, self.size.width).promise:
            self._remark(_NOT_SEEN)
            return False
        if self._unread:
            self._read_on()
            return False
        if always and self._nth not in self._rules_read:
            self._remark(_NOT_SEEN)
            return False
        return self._is_past(self._turned_at)

    def _read_on(self) -> None:
        """Show the first lines that were not on the screen."""
        self._turned_at = self._clock()
        if self._text is not None:
            self._move_to(self._text.line_at(self._read))
        self._remark(UNREAD)

    def _pass_on(self, question: Question, key: str, text: str = "") -> None:
        from foldline.protocol import operations  # no first screen asks anything

        self.why.value = ""
        answer: operations.Operation
        if question.kind == "choice":
            answer = operations.Choose(choice=question.id, key=key, text=text)
        else:
            answer = operations.Approve(call_id=question.id, answer=ANSWERS[key], nth=self._nth, why=text)
        self.post_message(OperationWanted(answer))

    def other_rule(self) -> None:
        """Let "always" mean the next of the rules that would cover the call."""
        if self._question is not None and self._question.promises:
            self._nth = (self._nth + 1) % len(self._question.promises)
            self._fit()

    def keep_why(self) -> None:
        """Close the field in which the reader says why; what it holds stays."""
        self.why.close()
        self.screen.set_focus(self)

    def _ask_line(self, option: Answerable) -> None:
        """Have the reader write in the place of an answer: "No, and say why" becomes "No:"."""
        if option in self._offered:
            self._marked = self._offered.index(option)
        rest, text = option.label.partition(", ")[2], self.why.value or option.usual or ""
        self.why.ask(_WHY if option.key == "n" else rest, text, partial(self._written, option))
        self._fit()

    def _written(self, option: Answerable, line: str) -> None:
        self.screen.set_focus(self)
        if self._question is not None and self._takes_answers():
            self._pass_on(self._question, option.key, " ".join(line.split()))

    def _takes_answers(self) -> bool:
        """Whether it takes answers by now: a question that the user opened, once it is on the screen; one
        that interrupts, a second after it appeared."""
        if self._question is None or not self._question.opened_by_user:
            return self._is_past(self._shown_at)
        if self._read < 0:
            self._remark(TOO_SOON)
            self.refresh()
        return self._read >= 0

    def _is_past(self, moment: float) -> bool:
        """Whether a key is no longer meant for what was there before `moment`. One that is held never is."""
        now = self._clock()
        is_past = now - moment >= DEAF_SECONDS and now - self._refused_at >= _HELD_SECONDS
        if not is_past:
            self._refused_at = now
            self._remark(TOO_SOON)
        return is_past

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
            if event.is_printable:  # typed right behind the key that opened the field
                self.why.post_message(events.Key(event.key, event.character))
            return event.is_printable
        if question is None or self.screen.focused is not self:  # typed right behind other text
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
        """A click on an answer gives it."""
        question = self._question
        if question is None:
            return
        layout = self._layout(question, self.size.width)
        at = event.screen_y - self.region.y - (1 + layout.rows + len(layout.where) + len(layout.promise))
        if 0 <= at < len(layout.answers):
            self._marked = layout.first + at
            self._take(layout.options[self._marked])
            self.update()

    def on_mouse_scroll_down(self) -> None:
        self._move_to(self._top + 1)

    def on_mouse_scroll_up(self) -> None:
        self._move_to(self._top - 1)

    def _step(self, step: int) -> None:
        """Through the text first, then from answer to answer."""
        question = self._question
        assert question is not None, "keys are only taken where something is asked"
        layout, total = self._layout(question, self.size.width), len(self._body(question, self.size.width))
        if self._top < total - layout.rows if step > 0 else self._marked <= 0:
            self._move_to(self._top + step)
        else:
            self._marked = min(self._marked + step, len(layout.options) - 1)
            self.update()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._fit()  # what it says of its keys may take another line

    def on_descendant_blur(self) -> None:
        self.why.close()
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _move_to(self, line: int) -> None:
        self._top = max(line, 0)
        self.update()

    # --- what was shown ---------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw; what is drawn here in full width stands on the screen."""
        strips = super().render_lines(crop)
        if self._question is not None and self.screen.is_current and not self._covered():
            self._painted(self._question, crop)
        return strips

    def _painted(self, question: Question, crop: Region) -> None:
        width = self.size.width
        whole = crop.y <= 1 and crop.x == 0 and crop.right == width
        rows, where, promise, *_ = self._layout(question, width)
        if whole and promise and 1 + rows + len(where) + len(promise) <= crop.bottom:
            self._rules_read.add(self._nth)
        if not whole:
            return
        read = self._body(question, width).read(self._read, self._top, min(rows, crop.bottom - 1))
        if read != self._read:
            self._read = read
            self.call_after_refresh(self.update)  # it may be allowed now

    @property
    def _unread(self) -> bool:
        """Whether something of it was not on the screen yet."""
        return self._text is None or self._read < self._text.end

    def _fit(self) -> None:
        width = self.size.width
        if self._question is not None and width:
            rows, where, promise, answers, *_ = self._layout(self._question, width)
            last = rows + len(where) + len(promise) + len(answers)
            self.styles.height = last + 2
            word = self._question.options[-1].label.partition(", ")[0]
            self.why.styles.margin = (last, 2, 0, 7 + cell_len(word))
        self.update()

    # --- what is shown --------------------------------------------------------------------------------

    def lines(self, width: int) -> list[list[Span]]:
        question = self._question
        if question is None:
            return []
        look, body = frame(self._is_active), self._body(question, width)
        rows, where, promise, answers, _, options = self._layout(question, width)
        self._top = min(self._top, max(len(body) - rows, 0))
        shown = body.lines(self._top, rows) or [[]]
        title: Spans = (("? ", "altered"), (self._sentence(question), "text bold"))
        inside = (*shown, *where, *promise, *answers)
        return [
            edge(look, True, title, self._remark_spans(width), width),
            *(sides(look, [(" ", ""), *line], width) for line in inside),
            edge(look, False, self._foot(question, options), (), width),
        ]

    @property
    def _is_active(self) -> bool:
        return self.has_focus or self.why.display

    def _body(self, question: Question, width: int) -> QuestionText:
        """What is asked, at this width. At another one the same part of it stays in sight."""
        if self._text is not None and width == self._width:
            return self._text
        inside, sentence = max(width - 4, 8), self._sentence(question)
        words = [(sentence, "text bold", cell_len(sentence) <= width - 8)]
        if question.outside:
            words.append((_beyond(question), "altered", self._says_beyond(width)))
        below = [(text, style) for text, style, fits in words if not fits]
        head = [line for span in below for line in wrap_spans([span], inside)]
        in_frame = sum(_characters(text) for text, _, fits in words if fits)
        place = 0 if self._text is None else self._text.place(self._top)
        before, self._text = self._text, QuestionText(question, inside, head, in_frame)
        if before is not None and before.order != self._text.order:
            self._read, place = -1, 0  # lines that were read may stand behind others now
        self._width, self._top = width, self._text.line_at(place)
        return self._text

    def _sentence(self, question: Question) -> str:
        """What stands in the frame, and below it too if the frame has no room for all of it."""
        return nothing_hidden(clean_line(question.sentence))

    def _says_beyond(self, width: int) -> bool:
        """Whether the frame has room for what the call reaches beyond."""
        sentence = "" if self._question is None else self._sentence(self._question)
        words = ("? ", sentence, *(text for text, _ in self._remark_spans()))
        return sum(map(cell_len, words)) + 13 <= width

    def _remark_spans(self, width: int = 0) -> Spans:
        remarks: list[Span] = []
        if self._question is not None and self._question.outside and (not width or self._says_beyond(width)):
            remarks.append((_beyond(self._question), "altered"))
        if self._others:
            remarks += [(" · ", "muted")] if remarks else []
            remarks.append((f"1 of {self._others + 1} questions", "muted"))
        return tuple(remarks)

    def _layout(self, question: Question, width: int) -> _Layout:
        """What "always" means goes first where there is no room, then all answers but one, then text."""
        inside, total = max(self._most - 2, 1), len(self._body(question, width))
        promise = self._promise(question, max(width - 4, 8))
        if len(promise) > max(inside // 2, 2) or inside - len(promise) < _TEXT_LINES:
            promise = []
        options = question.options
        if question.kind == "call" and not promise:
            options = tuple(option for option in options if option.key not in _ALWAYS)
        left = inside - len(promise)
        count = max(min(len(options), left - min(total, _TEXT_LINES)), 1)
        rows = min(total, left - count)
        rows = max(rows if total <= rows else rows - 1, 1)
        marked = self._offered[self._marked] if 0 <= self._marked < len(self._offered) else None
        self._marked = options.index(marked) if marked in options else min(self._marked, len(options) - 1)
        self._offered = options  # with other room there are others: the mark stays on its answer
        first = window_start(max(self._marked, 0), len(options), count)
        some = f" of {len(options)}" if count < len(options) else ""
        return _Layout(
            rows,
            [self._where(question, rows, total)] if total > rows else [],
            promise,
            [
                self._answer_row(question, option, at == self._marked, some and f"{at + 1}{some}", width - 4)
                for at, option in enumerate(options[first : first + count], start=first)
            ],
            first,
            options,
        )

    def _promise(self, question: Question, width: int) -> list[Line]:
        """What "always" means."""
        if not question.promises:
            return []
        means: Spans = (("always: ", "muted"), (nothing_hidden(question.promises[self._nth]), "accent"))
        key = "→" if self._is_active else key_of("other-rule")
        other = ((" · ", "muted"), *hint(key, "another rule", of_keys="muted"))
        return wrap_spans([*means, *(other if len(question.promises) > 1 else ())], width)

    def _where(self, question: Question, rows: int, total: int) -> Line:
        """Which lines of a long text these are: a line of its own, which no width pushes out."""
        top = min(self._top, total - rows)
        where: Line = [(f"lines {top + 1}–{top + rows} of {total}", "altered")]
        if question.asks_agreement and self._unread:
            command = _COMMANDS["y"] if question.kind == "call" else "complete"
            key = "↓" if self._is_active else key_of(command)
            where += [(", ", "muted"), *hint(key, "to read all", "text")]
        return where

    def _answer_row(
        self, question: Question, option: Answerable, marked: bool, which: str, width: int
    ) -> Line:
        """`▶ 1 Allow once    Alt+Y`; at the end which of how many it is, where not all are in sight."""
        label, style, rank = clean_line(option.label), "text", 0 if which else 1
        if option.asks == "line" and self.why.display:
            label = f"{label.partition(', ')[0]}:"
        if question.kind == "call":
            which = which or key_of(_COMMANDS[option.key])
        if option.agrees and self._unread:
            style = "muted"
        marked = marked and self._is_active
        words = f"{'▶' if marked else ' '} {clean_line(_key(question, option))} {label}"
        right = [piece(which, "muted", rank=rank)] * bool(which)
        line = row([piece(words, style, cut="right")], right, width, margin=0)
        return in_reverse(line) if marked and not self.why.display else line

    def _foot(self, question: Question, options: Sequence[Answerable]) -> Spans:
        """What may be pressed now."""
        if self.why.display:
            enter = "declines it" if question.options[-1].key == "n" else "answers"
            return key_words((("Enter", enter), ("Esc", "back")))
        if not self._is_active:
            return key_words(((key_of("complete"), "to answer"),))
        agrees = question.asks_agreement if self._marked < 0 else options[self._marked].agrees
        keys = ("Enter", "reads on") if agrees and self._unread else ("↑↓ Enter", "select")
        leaves = "declines" if question.kind == "call" else "leaves it undecided"
        return key_words((keys, ("Esc", leaves)))


def _marked_first(question: Question) -> int:
    """The answer that Enter gives: what the user asked for, or the only thing that is asked. Of several
    remedies, one is chosen first (-1)."""
    if question.options[-1].usual is not None:
        return len(question.options) - 1
    is_one = question.kind == "call" or len(question.options) == 1
    return 0 if is_one or question.opened_by_user else -1


def _key(question: Question, option: Answerable) -> str:
    """The key that gives an answer while the dock has the focus."""
    answers = [each.key for each in question.options] if question.kind == "choice" else list(ANSWERS)
    return str(answers.index(option.key) + 1)


def _beyond(question: Question) -> str:
    return _BEYOND.get(question.name, "outside this folder")
