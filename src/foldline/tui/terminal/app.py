"""An app and its terminal: the signs it can show, the title of its window, and frames that come whole."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

from textual import events, on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import LineFilter

from foldline.context.harmless import clean_line, copied
from foldline.tui.blocks.cells import cut_right
from foldline.tui.state import ChatState
from foldline.tui.terminal.ascii_set import AsciiFilter, Charset, charset_for
from foldline.tui.terminal.clipboard import to_tmux
from foldline.tui.terminal.faults import PlainApp, raise_fault
from foldline.tui.terminal.output import Control, Lasting, is_gone, whole, write_beside

Result = TypeVar("Result")
_LOOKS: Final = 1.0
"""Seconds between two looks whether the terminal is still there."""


class TerminalApp(PlainApp[Result]):
    """An app that paints in the signs its terminal can show, and keeps its window as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # As in any program of a terminal; `fg` brings it back.
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True)
    ]
    _signs: AsciiFilter | None = None
    _window_title = ""
    rings = False
    """Whether a bell may call the reader back."""

    def use_charset(self, charset: Charset) -> None:
        """Paint in these signs from now on."""
        self._signs = None if charset == "unicode" else AsciiFilter(strictly=charset == "ascii")

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return filters if self._signs is None else [*filters, self._signs]

    @on(events.Mount)
    def _keep_title(self) -> None:
        self.app_suspend_signal.subscribe(self, lambda _: self._write(Control.OLD_TITLE), immediate=True)
        self.app_resume_signal.subscribe(self, lambda _: self._take_back())

    def _take_back(self) -> None:
        """Suspended, we have lost the title, and whatever was on the screen."""
        self._write(Control.KEEP_TITLE)
        if self._window_title:
            self.write_title(self._window_title)
        self.refresh()

    @on(events.Mount)
    def _watch_terminal(self) -> None:
        if self._driver is not None and not (self._driver.is_headless or self._driver.is_web):
            self.set_interval(_LOOKS, self._leave_if_gone)

    def _leave_if_gone(self) -> None:
        """Without a terminal there is nobody to ask, and reading from it would turn in circles for ever. The
        system tells only who is in front of it (SIGHUP)."""
        if is_gone(sys.__stdin__):
            self.exit(return_code=128 + signal.SIGHUP)

    @on(events.Resize)
    def _say_too_small(self, event: events.Resize) -> None:
        from foldline.tui.widgets.toosmall import cover_if_too_small

        cover_if_too_small(self.screen, event.size)

    def copy_to_clipboard(self, text: str) -> None:
        """Put text into the clipboard, as it is shown: by OSC 52, and inside tmux by its own means. Every way
        of copying leads here, Textual's own included."""
        text = copied(text)
        super().copy_to_clipboard(text)
        if os.environ.get("TMUX"):
            self.run_worker(lambda: to_tmux(text), thread=True, group="tmux", exit_on_error=False)

    def give_terminal_back(self) -> None:
        """Put the terminal in order from another thread, where the loop no longer turns."""
        driver = self._driver
        if driver is not None and not (driver.is_headless or driver.is_web):
            write_beside(driver, Control.NO_MOUSE)  # Textual's own way to it is for the main thread
            driver.stop_application_mode()
            self._write(Control.OLD_TITLE)
            driver.close()  # waits until all is written

    def write_title(self, title: str) -> None:
        """Give the terminal's window this title."""
        self._window_title = title
        self._write(Control.TITLE, title)

    def _write(self, sequence: Control, text: str = "") -> None:
        driver = self._driver
        if driver is not None and not (driver.is_headless or driver.is_web) and _has_window(os.environ):
            write_beside(driver, sequence, text)


def run_app(app: TerminalApp[Result]) -> None:
    """Run an app on the terminal until it ends.

    Raises:
        Exception: whatever nobody had foreseen, after the terminal is as it was.
    """
    from foldline.agent.layers import chosen_by_user

    if sys.__stderr__ is not None:  # where Textual's driver writes
        sys.__stderr__ = Lasting(whole(sys.__stderr__))  # type: ignore[assignment,misc]
    app.use_charset(charset_for(os.environ, chosen_by_user("ascii", os.environ)))
    app.rings = chosen_by_user("bell", os.environ) == "on"
    with _own_title():
        app.run()
    raise_fault(app)


def _has_window(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM") not in ("linux", "dumb")


@contextmanager
def _own_title() -> Iterator[None]:
    """The title of the window is ours meanwhile. A terminal that keeps none ignores the words."""
    terminal = sys.__stderr__
    if terminal is None or not terminal.isatty() or not _has_window(os.environ):
        yield
        return
    write_beside(terminal, Control.KEEP_TITLE)
    try:
        yield
    finally:
        write_beside(terminal, Control.OLD_TITLE)
        terminal.flush()


_LONGEST: Final = 60
"""Cells of a title's name, and of what is done: more than tabs and task bars show."""


def title_words(state: ChatState) -> str:
    """`Idempotent orders · working`, `? Idempotent orders` where a question waits."""
    name = _cut(state.title or state.workdir) or "Foldline"
    if state.question is not None:
        return f"? {name} · waits for you"
    return f"{name} · {_cut(state.doing)}" if state.busy else name


def _cut(text: str) -> str:
    return cut_right(clean_line(text[: 8 * _LONGEST]), _LONGEST)


def calls_back(before: ChatState, now: ChatState) -> bool:
    """Whether something waits for the reader that did not: a question, or the end of what ran."""
    asks = now.question is not None and now.question != before.question
    ended = before.busy and not now.busy and now.waiting.count == 0
    return asks or ended


class Window:
    """Keeps the title true while the chat is on the screen. What it was before comes back at the end."""

    def __init__(self) -> None:
        self._shown = ChatState()
        self._title = ""

    def show(self, app: App[Any], state: ChatState) -> None:
        """Say what is done now; ring where that was asked for and the terminal has no focus."""
        before, self._shown = self._shown, state
        if not isinstance(app, TerminalApp):
            return
        if app.rings and not app.app_focus and calls_back(before, state):
            app.bell()
        title = title_words(state)
        if title != self._title:
            self._title = title
            app.write_title(title)
