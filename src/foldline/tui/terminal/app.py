"""The base class of the apps.

Handles the terminal's errors, character set, title and notifications.
"""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, TextIO, TypeVar

from textual import events, on
from textual.actions import ActionParseResult
from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.worker import WorkerFailed

from foldline.frontend.state import ChatState
from foldline.text.harmless import clean_line, copied
from foldline.tui.look.cells import cut_right
from foldline.tui.look.links import FileLinks
from foldline.tui.look.textual_private import HookedApp
from foldline.tui.terminal.clipboard import to_tmux
from foldline.tui.terminal.signs import AsciiFilter, Charset, charset_for

if sys.platform != "win32":
    import termios

Result = TypeVar("Result")
_CHECK_SECONDS: Final = 1.0
"""Interval in seconds for checking whether the terminal still exists."""
_LONGEST: Final = 60
"""Maximum width, in cells, of the name and of the activity in a title."""


class Control(Enum):
    """The control sequences that are written in addition to Textual's frames.

    `{}` stands for inserted text.
    """

    KEEP_TITLE = "\x1b[22;2t"
    """Push the window title onto the terminal's stack. `OLD_TITLE` pops it (xterm, operations 22 and 23)."""
    OLD_TITLE = "\x1b[23;2t"
    TITLE = "\x1b]2;{}\x1b\\"
    BACKGROUND = "\x1b]11;?\x1b\\"
    """Query the background colour (xterm, "OSC Ps ; Pt ST", Ps = 11). Nearly all terminals support it."""
    REPORT = "\x1b[?2031h"
    """Ask the terminal to report changes between dark and light (Contour's protocol).

    Ghostty, kitty, foot, iTerm2 and tmux 3.6 support this. Other terminals ignore unknown private modes.
    """
    REPORT_NO_MORE = "\x1b[?2031l"
    NOTICE = "\x1b]9;Foldline: {}\x1b\\"
    """Show a desktop notification (iTerm2's sequence, supported by most terminals).

    ConEmu uses the same number for its commands, but these begin with a digit.
    """
    NOTICE_IN_TMUX = "\x1bPtmux;\x1b\x1b]9;Foldline: {}\x07\x1b\\"
    """Show a desktop notification in the terminal around tmux, if `allow-passthrough` is on."""
    NOTICE_BY_VTE = "\x1b]777;notify;Foldline;{}\x1b\\"
    """Show a desktop notification (urxvt's sequence, also supported by GNOME's terminals)."""
    WORKING = "\x1b]9;4;3\x1b\\"
    """Show indeterminate progress in the tab or task bar (ConEmu's sequence, supported by many terminals)."""
    AT_REST = "\x1b]9;4;0\x1b\\"
    NO_MOUSE = "".join(f"\x1b[?{mode}l" for mode in (1000, 1003, 1015, 1006))


class _Writable(Protocol):
    def write(self, data: str, /) -> object: ...


def write_beside(terminal: _Writable, sequence: Control, text: str = "") -> None:
    """Write a control sequence, with cleaned `text` inserted."""
    terminal.write(sequence.value.format(clean_line(text)))


def buffered(stream: TextIO) -> TextIO:
    """Open a stream to the same file that completes partial writes.

    If PYTHONUNBUFFERED is set, as in most containers, standard error writes a frame in one system call. If
    this call is interrupted, for example by a change of the terminal's size, the rest of the frame is lost.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(
        stream.fileno(),
        "w",
        encoding=stream.encoding,
        errors=stream.errors,
        closefd=False,
    )


class FailSafeStream:
    """A stream that ignores write errors.

    An error would end Textual's writer thread. The thread's queue would then fill up, and block the event
    loop forever, even if a signal reports that the terminal is gone.
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
    """Whether the stream's terminal no longer exists, because its window or connection was closed."""
    if stream is None or sys.platform == "win32":
        return False
    try:
        termios.tcgetattr(stream.fileno())
    except termios.error:
        return True
    except (OSError, ValueError):
        return False
    return False


NOT_LOADED: Final = "Part of Foldline could not be loaded ({error}). If it was just updated, restart it."


def not_loaded(missing: ImportError) -> str:
    """Return the message for an import error.

    Modules are imported when they are first used, and are missing if an update has removed them by then.
    """
    return NOT_LOADED.format(error=missing)


class TerminalApp(HookedApp[Result]):
    """An app that adapts to its terminal.

    It uses only characters that the terminal supports, and restores the window title at the end.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # As in other terminal programs; `fg` resumes it.
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True)
    ]
    _signs: AsciiFilter | None = None
    window_title = ""
    """The window title that was last written."""
    notify_by = "off"
    """The `notify` setting: `off`, `bell` or `desktop`."""
    paints_background = False
    """Whether the theme's background replaces the terminal's.

    This is the `theme_background` setting.
    """
    files: FileLinks | None = None
    """Converts paths to links. None if paths are not linked."""

    def say(self, words: str) -> None:
        """Show a message. Does nothing by default."""

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key.

        If a module cannot be imported, show a message.
        """
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
        """Switch to this character set."""
        self._signs = None
        if charset != "unicode":
            self._signs = AsciiFilter(strictly=charset == "ascii")

    def paint_background(self, paints: bool) -> None:
        """Set whether to use the theme's background or the terminal's."""
        if paints != self.paints_background:
            self.paints_background = paints
            self.apply_theme_again(self.theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return filters if self._signs is None else [*filters, self._signs]

    @on(events.Load)
    def _begin_tasks_in_turn(self) -> None:
        """Disable Textual's eager tasks (Python 3.12).

        An eager task would compose a screen before the screen is on the screen stack.
        """
        asyncio.get_running_loop().set_task_factory(None)

    @on(events.Mount)
    def _watch_terminal(self) -> None:
        self.app_suspend_signal.subscribe(
            self, lambda _: self._write(Control.OLD_TITLE), immediate=True
        )
        self.app_resume_signal.subscribe(self, lambda _: self._take_back())
        if self.terminal_driver is not None:
            self.set_interval(_CHECK_SECONDS, self._leave_if_gone)

    def _take_back(self) -> None:
        """Restore the title and the screen after the program was suspended."""
        self._write(Control.KEEP_TITLE)
        if self.window_title:
            self.write_title(self.window_title)
        self.refresh()

    def _leave_if_gone(self) -> None:
        """Exit if the terminal no longer exists.

        Reading from a closed terminal would loop forever, and the system sends SIGHUP only to the foreground
        process.
        """
        if is_gone(sys.__stdin__):
            self.exit(return_code=128 + signal.SIGHUP)

    @on(events.Resize)
    def _say_too_small(self, event: events.Resize) -> None:
        from foldline.tui.look.lines import cover_if_too_small

        cover_if_too_small(self.screen, event.size)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text as it is shown, with OSC 52.

        Inside tmux, a tmux command also copies it. Textual calls this method, too.
        """
        text = copied(text)
        super().copy_to_clipboard(text)
        if os.environ.get("TMUX"):
            self.run_worker(
                lambda: to_tmux(text),
                thread=True,
                group="tmux",
                exit_on_error=False,
            )

    def give_terminal_back(self) -> None:
        """Restore the terminal from another thread, when the event loop is blocked."""
        driver = self.terminal_driver
        if driver is not None:
            write_beside(
                driver, Control.NO_MOUSE
            )  # Textual does this only in the main thread
            driver.stop_application_mode()
            self._write(Control.OLD_TITLE)
            driver.close()  # waits for pending writes

    def write_title(self, title: str) -> None:
        """Set the window title."""
        self.window_title = title
        self._write(Control.TITLE, title)

    def notify_user(self, words: str) -> None:
        """Notify the user, depending on `notify_by`.

        The user gets a bell, a desktop notification, or nothing.
        """
        if self.notify_by == "bell":
            self.bell()
        elif self.notify_by == "desktop":
            self._write(notice_for(os.environ), words)

    def show_progress(self, *, busy: bool) -> None:
        if self.notify_by == "desktop" and not _in_multiplexer(os.environ):
            self._write(Control.WORKING if busy else Control.AT_REST)

    def _write(self, sequence: Control, text: str = "") -> None:
        if self.terminal_driver is not None and _has_window(os.environ):
            write_beside(self.terminal_driver, sequence, text)


def run_app(app: TerminalApp[Result]) -> None:
    """Run an app on the terminal until the app exits.

    Raises:
        Exception: An unexpected error of the app, raised after the terminal is restored.
    """
    from foldline.agent.settings.layers import chosen_by_user

    if sys.__stderr__ is not None:  # Textual's driver writes to it
        sys.__stderr__ = FailSafeStream(buffered(sys.__stderr__))  # type: ignore[assignment,misc]
    app.use_charset(charset_for(os.environ, chosen_by_user("ascii", os.environ)))
    app.notify_by = chosen_by_user("notify", os.environ) or app.notify_by
    app.paint_background(chosen_by_user("theme_background", os.environ) == "theme")
    with _own_title(progress=app.notify_by == "desktop"):
        app.run()
    error = app.fault
    if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
        raise error.error
    if error is not None:
        raise error


def notice_for(environ: Mapping[str, str]) -> Control:
    """Return the notification sequence for this terminal."""
    if environ.get("TMUX"):
        return Control.NOTICE_IN_TMUX
    if environ.get("VTE_VERSION") or environ.get("TERM", "").startswith("rxvt"):
        return Control.NOTICE_BY_VTE
    return Control.NOTICE


def _in_multiplexer(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("TMUX")) or environ.get("TERM", "").startswith("screen")


def _has_window(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM") not in ("linux", "dumb")


@contextmanager
def _own_title(*, progress: bool) -> Iterator[None]:
    """Save the window title.

    At the end, restore the title and reset the progress.
    """
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


WAITS: Final = "? {name} · waits for you"
DONE: Final = "{title} · done"


def title_words(state: ChatState) -> str:
    """Return the window title, such as `Idempotent orders · working`.

    While a question is open, the title is `? Idempotent orders · waits for you`.
    """
    name = _cut(state.title or state.workdir) or "Foldline"
    if state.question is not None:
        return WAITS.format(name=name)
    return f"{name} · {_cut(state.doing)}" if state.busy else name


def _cut(text: str) -> str:
    return cut_right(clean_line(text[: 8 * _LONGEST]), _LONGEST)


def needs_user(before: ChatState, now: ChatState) -> bool:
    """Whether the user has to act.

    This is so if there is a new question, or if the work has ended.
    """
    if now.question is not None and now.question != before.question:
        return True
    return before.busy and not now.busy and now.waiting.count == 0


class WindowTitle:
    """The window title and the notifications of a chat."""

    def __init__(self) -> None:
        self._shown = ChatState()

    def show(self, app: App[Any], state: ChatState, *, shown: bool) -> None:
        """Update the window title, and notify the user if necessary.

        The user is notified only if the chat is not `shown` or the terminal does not have the focus.
        """
        before, self._shown = self._shown, state
        if not isinstance(app, TerminalApp):
            return
        title = title_words(state)
        if not (shown and app.app_focus) and needs_user(before, state):
            app.notify_user(title if state.question else DONE.format(title=title))
        if shown and title != app.window_title:
            app.write_title(title)
            app.show_progress(busy=state.busy)
