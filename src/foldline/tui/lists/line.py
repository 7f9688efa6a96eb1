"""The line dialog: a single text field with an explanation below it."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from textual import on
from textual.worker import Worker

from foldline.frontend.keymap import ScreenKey, table
from foldline.protocol import FoldlineError
from foldline.text.harmless import clean_line
from foldline.tui.keys.bindings import bindings
from foldline.tui.lists.screen import PROMPT, Field, ListScreen
from foldline.tui.look.cells import Span, wrap_spans
from foldline.tui.look.lines import Line, boxed

Value = TypeVar("Value")

KEYS: Final = table(
    "line",
    "Dialog",
    ScreenKey[None]("take", ("enter",), "Accepts the text.", hint="done", own=True),
    ScreenKey(
        "close",
        ("escape",),
        "Stops the work, or cancels.",
        hint="cancel",
        place="anywhere",
    ),
    title="Enter a text",
)
_WIDTH: Final = 100


class LineDialog(ListScreen[Value | None, None], Generic[Value]):
    """A dialog that asks for one line of text.

    Its result is the result of `work` with the text, or None if the user cancelled.
    """

    DEFAULT_CSS = f"""
    LineDialog > ListBox {{ width: {_WIDTH}; }}
    LineDialog.-over-prompt {{ align: center bottom; }}
    LineDialog.-over-prompt > ListBox {{ width: 100%; margin: 0 0 2 0; }}
    """
    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")

    def __init__(
        self,
        title: str,
        note: str,
        work: Callable[[str], Awaitable[Value]],
        *,
        text: str = "",
        field: Field | None = None,
        working: str = "",
        fault: str = "",
    ) -> None:
        """Create the dialog.

        Args:
            note: Text below the field.
            work: Uses the text. If it raises FoldlineError, the dialog shows the error and stays open.
            field: The field, if it is not a plain one.
            working: Text that is shown while `work` is running.
            fault: An error that is shown at first.
        """
        self._field = field or Field("line", "")
        super().__init__(self._field)
        self._title = title
        self._note = note
        self._work = work
        self._working = working
        self._worker: Worker[None] | None = None
        self._message: Span = (f"✗ {fault}" if fault else "", "alert")
        self._field.value = text

    @property
    def text(self) -> str:
        """The text in the field."""
        return self._field.value

    def cover_prompt(self) -> None:
        """Show the dialog in place of the prompt, so that the question above stays readable."""
        self.dims = False
        self.add_class("-over-prompt")

    def height_wanted(self) -> int:
        return len(self._lines(min(_WIDTH, self.app.size.width))) + 3

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        if self._worker is None:
            self._say(self._working, "text")
            self._worker = self.run_worker(self._finish)

    async def _finish(self) -> None:
        try:
            self.dismiss(await self._work(self._field.value))
        except FoldlineError as failure:
            self._worker = None
            self._say(f"✗ {failure}", "alert")

    def leave(self) -> None:
        """Stop the running work, or close the dialog if nothing is running."""
        if self._worker is None:
            self.dismiss(None)
        else:
            self._worker.cancel()
            self._worker = None
            self._say("", "text")

    def _say(self, words: str, style: str) -> None:
        self._message = (words, style)
        self.fit()
        self.update()

    def _lines(self, width: int) -> list[Line]:
        words, style = self._message
        texts = [(words, style), *((line, "muted") for line in self._note.split("\n"))]
        return [
            [(" ", ""), *line]
            for text, style in texts
            if text
            for line in wrap_spans([(clean_line(text), style)], width - 4)
        ]

    def draw(self, width: int, height: int) -> list[Line]:
        title = ((clean_line(self._title), "text bold"),)
        body = [[PROMPT], *self._lines(width)]
        return boxed(width, title, body[: height - 2], self.foot(width))
