"""An app and its terminal: unforeseen errors, signs it can show, the title, frames that come whole."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TextIO, TypeVar

from textual import events, on
from textual.actions import ActionParseResult
from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.worker import WorkerFailed

from foldline.context.harmless import clean_line, copied
from foldline.tui.blocks.cells import cut_right
from foldline.tui.blocks.links import FileLinks
from foldline.tui.state import ChatState
from foldline.tui.terminal.clipboard import to_tmux
from foldline.tui.terminal.signs import AsciiFilter, Charset, charset_for
from foldline.tui.textual_private import HookedApp

if TYPE_CHECKING:
    from foldline.tui.terminal.pictures import Pictures

if sys.platform != "win32":
    import termios

Result = TypeVar("Result")
_LOOKS: Final = 1.0
"""Seconds between two looks whether the terminal is still there."""
_LONGEST: Final = 60
"""Cells of a title's name, and of what is done: more than tabs and task bars show."""


class Control(Enum):
    """All that is ever written beside Textual's frames; `{}` stands for the text that goes with it."""

    KEEP_TITLE = "\x1b[22;2t"
    """The title before ours is on the terminal's stack until the end (xterm's operations 22 and 23)."""
    OLD_TITLE = "\x1b[23;2t"
    TITLE = "\x1b]2;{}\x1b\\"
    BACKGROUND = "\x1b]11;?\x1b\\"
    """Which colour is the background? (xterm, "OSC Ps ; Pt ST", Ps = 11; tmux and nearly all know it.)"""
    REPORT = "\x1b[?2031h"
    """Tell when it changes between dark and light: Contour's protocol, in Ghostty, kitty, foot, iTerm2,
    tmux 3.6. Others ignore a private mode they do not know."""
    REPORT_NO_MORE = "\x1b[?2031l"
    NOTICE = "\x1b]9;Foldline: {}\x1b\\"
    """A desktop notification: iTerm2's, in most terminals. ConEmu's commands of this number begin with a
    digit: no text is taken for one."""
    NOTICE_IN_TMUX = "\x1bPtmux;\x1b\x1b]9;Foldline: {}\x07\x1b\\"
    """The same for the terminal around tmux, where `allow-passthrough` is on."""
    NOTICE_BY_VTE = "\x1b]777;notify;Foldline;{}\x1b\\"
    """urxvt's, in GNOME's terminals."""
    WORKING = "\x1b]9;4;3\x1b\\"
    """Progress without an end in sight, in tab or task bar: ConEmu's, in many others by now."""
    AT_REST = "\x1b]9;4;0\x1b\\"
    PICTURE = "\x1b_G{}\x1b\\"
    """A command of Kitty's graphics protocol: `terminal/pictures.py`."""
    NO_MOUSE = "".join(f"\x1b[?{mode}l" for mode in (1000, 1003, 1015, 1006))


class _Writable(Protocol):
    def write(self, data: str, /) -> object: ...


def write_beside(terminal: _Writable, sequence: Control, text: str = "") -> None:
    """Write one of the sequences. Its text may be anybody's: nothing in it acts on the terminal."""
    terminal.write(sequence.value.format(clean_line(text)))


def whole(stream: TextIO) -> TextIO:
    """A stream to the same file that loses nothing of what is written.

    With PYTHONUNBUFFERED, as in most containers, standard error hands a frame to the system in one call and
    drops what that did not take: where the terminal changes its size in between, half a frame is seen.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False)


class Lasting:
    """A stream whose writes never fail. What cannot be written goes nowhere.

    Textual writes in a thread that an error would end; its queue then fills, and the event loop waits for
    room in it for ever, deaf even to the signal that says that the terminal is gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def is_gone(stream: TextIO | None) -> bool:
    """Whether this was a terminal, and is none any more: its window was closed, its connection ended."""
    if stream is None or sys.platform == "win32":
        return False
    try:
        termios.tcgetattr(stream.fileno())
    except termios.error:
        return True
    except (OSError, ValueError):
        return False
    return False


def not_loaded(missing: ImportError) -> str:
    """What is said of a part that cannot be imported: it is when it is first asked for, and by then another
    version may have been installed over the one that runs."""
    return f"This part of Foldline cannot be loaded, {missing}: was it updated while it ran? Start it again."


class TerminalApp(HookedApp[Result]):
    """An app that paints in the signs its terminal can show, and keeps its window as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # As in any program of a terminal; `fg` brings it back.
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True)
    ]
    _signs: AsciiFilter | None = None
    window_title = ""
    """The title that was written last."""
    calls_by = "off"
    """How the reader is called back: the setting `notify`."""
    paints_background = False
    """Whether the theme's background is painted over the terminal's: the setting `theme_background`."""
    files: FileLinks | None = None
    """How the paths on the screen are addressed; None: they are no links."""
    pictures: "Pictures | None" = None
    """Those among the lines; None: the terminal shows none there."""
    vim = False
    """Whether the prompt is edited with Vim's keys: the setting `vim`."""

    def say(self, words: str) -> None:
        """Answer a key in words. Where a screen has no row for them, they are not said."""

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """What a key does, as Textual does it."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except ImportError as missing:
            self.say(not_loaded(missing))
            return True

    def takes_fault(self, error: Exception) -> bool:
        if isinstance(error, WorkerFailed) and isinstance(error.error, ImportError):
            self.say(not_loaded(error.error))
            return True
        return False

    def use_charset(self, charset: Charset) -> None:
        """Paint in these signs from now on."""
        self._signs = None if charset == "unicode" else AsciiFilter(strictly=charset == "ascii")

    def show_pictures(self) -> None:
        """Show pictures among the lines, where the terminal can: all sent anew, it keeps none from before."""
        from foldline.tui.terminal.pictures import Pictures, shows_among_lines  # no first paint needs it

        if self._signs is not None or not shows_among_lines(os.environ):
            return
        if self.pictures is not None:
            self.pictures.end()
        self.pictures = Pictures(self, partial(self._write, Control.PICTURE), self.show_pictures)
        self.theme_changed_signal.publish(self.current_theme)

    def paint_background(self, paints: bool) -> None:
        """Paint the theme's background, or leave the terminal's, from now on."""
        if paints != self.paints_background:
            self.paints_background = paints
            self.apply_theme_again(self.theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return filters if self._signs is None else [*filters, self._signs]

    @on(events.Load)
    def _begin_tasks_in_turn(self) -> None:
        """From Python 3.12 on, Textual has each task begin where it is made: a screen is composed before it
        is on the stack that its widgets look at."""
        asyncio.get_running_loop().set_task_factory(None)

    @on(events.Mount)
    def _watch_terminal(self) -> None:
        self.app_suspend_signal.subscribe(self, lambda _: self._write(Control.OLD_TITLE), immediate=True)
        self.app_resume_signal.subscribe(self, lambda _: self._take_back())
        if self.terminal_driver is not None:
            self.set_interval(_LOOKS, self._leave_if_gone)

    def _take_back(self) -> None:
        """Suspended, we have lost the title, and whatever was on the screen."""
        self._write(Control.KEEP_TITLE)
        if self.window_title:
            self.write_title(self.window_title)
        self.show_pictures()
        self.refresh()

    def _leave_if_gone(self) -> None:
        """Without a terminal there is nobody to ask, and reading from it would turn in circles. The
        system notifies only the foreground process (SIGHUP)."""
        if is_gone(sys.__stdin__):
            self.exit(return_code=128 + signal.SIGHUP)

    @on(events.Resize)
    def _say_too_small(self, event: events.Resize) -> None:
        from foldline.tui.widgets.lines import cover_if_too_small

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
        driver = self.terminal_driver
        if driver is not None:
            write_beside(driver, Control.NO_MOUSE)  # Textual's own way to it is for the main thread
            driver.stop_application_mode()
            self._write(Control.OLD_TITLE)
            driver.close()  # waits until all is written

    def write_title(self, title: str) -> None:
        """Give the terminal's window this title."""
        self.window_title = title
        self._write(Control.TITLE, title)

    def call_back(self, words: str) -> None:
        """Tell the reader, who looks elsewhere, that something waits."""
        if self.calls_by == "bell":
            self.bell()
        elif self.calls_by == "desktop":
            self._write(notice_for(os.environ), words)

    def show_progress(self, *, busy: bool) -> None:
        if self.calls_by == "desktop" and not _in_multiplexer(os.environ):
            self._write(Control.WORKING if busy else Control.AT_REST)

    def _write(self, sequence: Control, text: str = "") -> None:
        if self.terminal_driver is not None and _has_window(os.environ):
            write_beside(self.terminal_driver, sequence, text)


def run_app(app: TerminalApp[Result]) -> None:
    """Run an app on the terminal until it ends.

    Raises:
        Exception: whatever nobody had foreseen, after the terminal is as it was.
    """
    from foldline.agent.layers import chosen_by_user

    if sys.__stderr__ is not None:  # where Textual's driver writes
        sys.__stderr__ = Lasting(whole(sys.__stderr__))  # type: ignore[assignment,misc]
    app.use_charset(charset_for(os.environ, chosen_by_user("ascii", os.environ)))
    app.calls_by = chosen_by_user("notify", os.environ) or app.calls_by
    app.paint_background(chosen_by_user("theme_background", os.environ) == "theme")
    app.vim = chosen_by_user("vim", os.environ) == "on"
    with _own_title(progress=app.calls_by == "desktop"):
        app.run()
    error = app.fault
    if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
        raise error.error
    if error is not None:
        raise error


def notice_for(environ: Mapping[str, str]) -> Control:
    """The notification that this terminal knows."""
    if environ.get("TMUX"):
        return Control.NOTICE_IN_TMUX
    by_vte = environ.get("VTE_VERSION") or environ.get("TERM", "").startswith("rxvt")
    return Control.NOTICE_BY_VTE if by_vte else Control.NOTICE


def _in_multiplexer(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("TMUX")) or environ.get("TERM", "").startswith("screen")


def _has_window(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM") not in ("linux", "dumb")


@contextmanager
def _own_title(*, progress: bool) -> Iterator[None]:
    """The window's title and progress are ours until the end. A terminal without them ignores the words."""
    terminal = sys.__stderr__
    if terminal is None or not terminal.isatty() or not _has_window(os.environ):
        yield
        return
    write_beside(terminal, Control.KEEP_TITLE)
    try:
        yield
    finally:
        write_beside(terminal, Control.OLD_TITLE)
        if progress:
            write_beside(terminal, Control.AT_REST)
        terminal.flush()


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

    def show(self, app: App[Any], state: ChatState, *, shown: bool) -> None:
        """Say what is done now; ring where that was asked for, and the terminal has no focus or shows another
        session."""
        before, self._shown = self._shown, state
        if not isinstance(app, TerminalApp):
            return
        title = title_words(state)
        if not (shown and app.app_focus) and calls_back(before, state):
            app.call_back(title if state.question else f"{title} · done")
        if shown and title != app.window_title:  # as it is where work begins, changes and ends
            app.write_title(title)
            app.show_progress(busy=state.busy)
