"""The parts of the Sessions screen: header, search line, list, and the strip for details or a question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.message import Message

from foldline.tui.blocks import Span, Spans
from foldline.tui.blocks.cells import wrap_spans
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.panel import Panel
from foldline.tui.keys.names import key_name
from foldline.tui.sessions.rows import heading
from foldline.tui.sessions.state import Scope
from foldline.tui.textual_private import OrderedInput
from foldline.tui.widgets.lines import Lines, edge, frame, sides

GUTTER: Final = 2
"""Cells left of a row: the cursor's, and a blank."""


class Given(Lines):
    """A row that is drawn by a function of the width."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._draw: Callable[[int], list[Span]] = lambda width: []

    def show(self, draw: Callable[[int], list[Span]]) -> None:
        self._draw = draw
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [self._draw(width)]


class SearchField(OrderedInput):
    """The text that is looked for."""

    DEFAULT_CSS: ClassVar[str] = """
    SearchField, SearchField:focus {
        margin: 1 2 1 4; height: 1; border: none; padding: 0; background: transparent; color: $role-text;
        .input--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .input--placeholder { color: $role-muted; }
    }
    """

    class Done(Message):
        """The reader wants to the list."""

    def __init__(self) -> None:
        what = "search in all that was ever said"
        super().__init__(id="query", placeholder=what, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def action_submit(self) -> None:
        self.post_message(self.Done())

    def on_key(self, event: events.Key) -> None:
        if event.key in ("down", "pagedown"):
            event.stop()
            self.post_message(self.Done())


class SearchLine(Lines):
    """The field in its frame; how the search stands is said in the lower edge."""

    DEFAULT_CSS: ClassVar[str] = "SearchLine { height: 3; }"

    def __init__(self) -> None:
        super().__init__()
        self.field = SearchField()
        self._foot: Spans = ()

    def compose(self) -> ComposeResult:
        yield self.field

    def show(self, foot: Spans) -> None:
        self._foot = foot
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        look = frame(self.field.has_focus)
        return [
            edge(look, True, (("Search", "bold"),), (), width),
            sides(look, [(" ❯ ", "accent" if self.field.has_focus else "muted")], width),
            edge(look, False, self._foot, (), width),
        ]


class Heading(Lines):
    """The names of the columns."""

    def __init__(self) -> None:
        super().__init__()
        self._scope: Scope = "here"

    def show(self, scope: Scope) -> None:
        self._scope = scope
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        scrollbar = 1
        return [[(" " * GUTTER, ""), *heading(max(width - GUTTER - scrollbar, 1), self._scope)]]


class ListPanel(Panel):
    """The list; the scopes stand in its upper edge."""

    def __init__(self, view: EntryView, heading: Heading) -> None:
        super().__init__(view, title="", above=heading)

    def show_head(self, tabs: Spans, count: str) -> None:
        self._upper.show(tabs, ((count, "muted"),) if count else ())


SURE: Final = "ctrl+s"
"""The answer to what nothing takes back: no word that was typed ahead holds it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the keys that answer it; Esc leaves it in any case."""

    sentence: str
    answers: tuple[tuple[str, str, Callable[[], None]], ...]
    """(key, its word, what it does)."""
    leaves: str = "leaves it as it is"
    """What Esc does."""


class Strip(Lines, can_focus=True):
    """What is known of the session under the cursor, or in its place a question."""

    DEFAULT_CSS: ClassVar[str] = "Strip { height: 6; }"

    class Answered(Message):
        """One of the keys of the question."""

        def __init__(self, question: Question, key: str) -> None:
            super().__init__()
            self.question = question
            self.key = key

    def __init__(self) -> None:
        super().__init__(id="details")
        self._head = ""
        self._details: Callable[[int, int], Sequence[list[Span]]] = lambda width, rows: []
        self.question: Question | None = None
        self.can_focus = False

    def show(self, head: str, details: Callable[[int, int], Sequence[list[Span]]]) -> None:
        """`details` gives the lines for a width and a number of rows."""
        self._head, self._details = head, details
        self.update()

    def ask(self, question: Question | None) -> None:
        """Show a question, or the details again."""
        self.question = question
        self.can_focus = question is not None
        self.update()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.update()

    def on_key(self, event: events.Key) -> None:
        question = self.question
        if question is not None and any(event.key == key for key, _, _ in question.answers):
            event.stop()
            event.prevent_default()
            self.post_message(self.Answered(question, event.key))

    def lines(self, width: int) -> list[list[Span]]:
        look, rows = frame(self.has_focus), max(self.size.height - 2, 0)
        question = self.question
        if question is None:
            inside = list(self._details(width - 2, rows))[:rows]
            title: Spans = ((self._head, "muted"),) if self._head else ()
            keys: Spans = ()
        else:
            inside = [
                [(" ", ""), *line] for line in wrap_spans([(question.sentence, "text")], max(width - 4, 8))
            ][:rows]
            title, keys = (("? ", "altered"), ("your word", "text bold")), _keys(question)
        inside += [[] for _ in range(rows - len(inside))]
        return [
            edge(look, True, title, (), width),
            *(sides(look, line, width) for line in inside),
            edge(look, False, keys, (), width),
        ]


def _keys(question: Question) -> Spans:
    spans: list[Span] = []
    for key, word, _ in question.answers:
        spans += [(key_name(key), "accent"), (f" {word} · ", "text")]
    return (*spans, ("Esc", "accent"), (f" {question.leaves}", "text"))
