"""All uses of Textual's private interface, written for Textual 8.2.8.

`tests/tui/look/test_textual_private.py` has a test for each hook, which fails when Textual changes its code.
"""

import codecs
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import AwaitMount, Widget
from textual.widgets import Input, TextArea

from foldline.tui.look.frames import Frames

if sys.platform != "win32":
    from textual.drivers import linux_driver

Result = TypeVar("Result")
Other = TypeVar("Other")


class HookedApp(App[Result]):
    """An app that writes minimal output, and keeps unexpected errors for its caller.

    Textual would print a traceback with the values of local variables: for example keys, prompts and files
    (see docs/security.md).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._frames = Frames()

    @property
    def written(self) -> int:
        """Number of characters written so far, not counting full frames."""
        return self._frames.written

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if isinstance(renderable, (ChopsUpdate, LayoutUpdate)):
            renderable = _LeanUpdate(renderable, self._frames)  # type: ignore[assignment]
        super()._display(screen, renderable)

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """The screens that are visible behind dialogs.

        Textual treats each screen with the terminal's background as transparent. Without this override, any
        change below such a screen would write a full frame.
        """
        stack = self._screen_stack
        below = len(stack) - 1
        while below > 0 and stack[below].is_modal:
            below -= 1
        return stack[max(below, 0) : -1]

    def takes_fault(self, error: Exception) -> bool:
        """Handle an unexpected error.

        Returns:
            Whether the app can continue.
        """
        return False

    def _handle_exception(self, error: Exception) -> None:
        """End the app like Textual's own handler, without a traceback."""
        if self.takes_fault(error):
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    @property
    def fault(self) -> Exception | None:
        """The error that ended the app, if any."""
        return self._exception

    @property
    def terminal_driver(self) -> Driver | None:
        """The terminal driver.

        None without a terminal, for example in tests or in a browser.
        """
        driver = self._driver
        return None if driver is None or driver.is_headless or driver.is_web else driver

    def add_line_filter(self, line_filter: LineFilter) -> None:
        """Add a filter for all painted lines."""
        self._filters.append(line_filter)

    def apply_theme_again(self, name: str) -> None:
        """Apply a changed theme of the same name, which Textual would ignore."""
        self._watch_theme(name)


class _LeanUpdate(CompositorUpdate):
    """A screen update that is written as minimal output.

    Full frames are written unchanged, because other programs may have written on the screen.
    """

    def __init__(self, update: ChopsUpdate | LayoutUpdate, frames: Frames) -> None:
        self._update = update
        self._frames = frames

    def render_segments(self, console: Console) -> str:
        update = self._update
        colors = console._color_system or ColorSystem.TRUECOLOR
        if isinstance(update, LayoutUpdate):
            self._frames.show(update.strips)
            return update.render_segments(console)
        written = self._frames.write(_pieces(update), colors)
        if written is None:
            written = update.render_segments(console)
        self._frames.written += len(written)
        return written


def _pieces(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Yield the strips that Textual would write, each with its position (x, y)."""
    for y, first, last in update.spans:
        for end, (x, strip) in zip(
            update.chop_ends[y], update.chops[y].items(), strict=False
        ):
            if strip is not None and x <= last and end > first:
                yield x, y, strip.crop(0, min(end, last) - x)


class SelectedByDragging(Widget):
    """A widget whose text is selected only by dragging.

    Textual would also select its whole text on a double click, and the container's text on a triple click.
    """

    def text_select_all(self) -> None:
        """Ignore double clicks."""

    @property
    def select_container(self) -> Widget:
        return self

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def mode_of(screen: Screen[Any]) -> str | None:
    """Return the mode with this screen in its stack, if any."""
    stacks = screen.app._screen_stacks
    return next((mode for mode, stack in stacks.items() if screen in stack), None)


class SessionScreen(Screen[Result]):
    """A screen of a session, which opens others over itself even while another session is shown."""

    def push_screen(
        self,
        screen: Screen[Other],
        callback: Callable[[Other | None], None] | None = None,
    ) -> AwaitMount:
        """Open a screen over this one."""
        return self.app.push_screen(screen, callback, mode=mode_of(self))


@contextmanager
def in_mode_of(screen: Screen[Any]) -> Iterator[None]:
    """Make Textual use this screen's stack.

    Otherwise, Textual uses the stack that is being shown.
    """
    app = screen.app
    current_mode = app._current_mode
    app._current_mode = mode_of(screen) or current_mode
    try:
        yield
    finally:
        app._current_mode = current_mode


class SizedScrollView(ScrollView, SelectedByDragging):
    """A scroll view whose `sized` method is called before painting."""

    sizing = False
    """Whether Textual is limiting `scroll_y` to a new size.

    Such a change of `scroll_y` is not scrolling by the user.
    """

    def sized(self) -> None:
        """Called after the size has been set."""

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        self.sizing = True
        try:
            resized = super()._size_updated(size, virtual_size, container_size, layout)
        finally:
            self.sizing = False
        self.sized()
        return resized

    def show_scrollbars(self) -> None:
        """Create the scrollbars before the first layout."""
        self._refresh_scrollbars()


async def act_now(field: Widget, key: str) -> bool:
    """Run the field's own binding for a key immediately.

    Textual would run the binding only after the key has bubbled to the app, so that text typed later would be
    handled first.

    Returns:
        Whether the field has such a binding.
    """
    node, own = field.screen._modal_binding_chain[0]
    if node is not field:
        return False  # the field has lost the focus
    for binding in own.key_to_bindings.get(key, ()):
        if not binding.priority and await field.app.run_action(binding.action, field):
            return True
    return False


def dimmed(rendered: RenderableType, style: Style) -> RenderableType:
    """Render the screen behind a modal screen in a single style."""
    return (
        _Dimmed(rendered, style) if isinstance(rendered, BackgroundScreen) else rendered
    )


class _Dimmed:
    """A background screen drawn in a single style, except for its background colours."""

    def __init__(self, behind: BackgroundScreen, style: Style) -> None:
        self._behind = behind
        self._style = style

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        for text, style, control in console.render(self._behind, options):
            own = Style(bgcolor=style.bgcolor) if style is not None else Style()
            yield Segment(text, own + self._style, control)


class OrderedInput(Input):
    """An `Input` that handles keys in order, and cleans pasted text."""

    async def _on_key(self, event: events.Key) -> None:
        if await act_now(self, event.key):
            event.stop()
            event.prevent_default()

    def pasted(self, text: str) -> str:
        """Return the text to insert when `text` is pasted."""
        return " ".join(text.split())

    def _on_paste(self, event: events.Paste) -> None:
        self.replace(self.pasted(event.text), *self.selection)
        event.prevent_default()
        event.stop()


class OrderedTextArea(TextArea):
    """A `TextArea` that handles keys in order, after its owner has seen them."""

    take_key: Callable[[str], Awaitable[bool]]
    """Handles a key. Returns False if the text area should handle the key."""
    take_paste: Callable[[str], Awaitable[str]]
    """Returns the text to insert when text is pasted."""

    async def _on_key(self, event: events.Key) -> None:
        if await self.take_key(event.key) or await act_now(self, event.key):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_here(await self.take_paste(event.text))

    def insert_here(self, text: str) -> None:
        """Replace the selection with cleaned text.

        The user can undo this in the same way as typing.
        """
        if text and (edit := self._replace_via_keyboard(text, *self.selection)):
            self.move_cursor(edit.end_location)

    @property
    def _draw_cursor(self) -> bool:
        """Whether to draw the cursor.

        It is hidden while another screen covers the text area.
        """
        return self.show_cursor and super()._draw_cursor


def stop_watching(watched: DOMNode, widget: Widget) -> None:
    """End the watches of a removed widget.

    Textual ends them only when the watched value changes, and keeps the widget until then.
    """
    watchers: dict[str, list[tuple[DOMNode, object]]]
    watchers = getattr(watched, "__watchers", {})
    for watches in watchers.values():
        watches[:] = [watch for watch in watches if watch[0] is not widget]


def app_of(driver: Driver) -> App[Any]:
    """Return the app of a driver."""
    return driver._app


class KeyParser(XTermParser):
    """Textual's parser, extended to recognise Alt+Enter, which is sent as Escape and Enter."""

    def _sequence_to_key_events(
        self, sequence: str, alt: bool = False
    ) -> Iterable[events.Key]:
        if sequence == "\x1b\r":
            return (events.Key("alt+enter", None),)
        return super()._sequence_to_key_events(sequence, alt)


if sys.platform != "win32":

    class ResumableDriver(linux_driver.LinuxDriver):
        """A driver that sets up the screen only after a suspension.

        SIGCONT is also sent when the terminal is closed. Textual would set up the screen in that case, too,
        and start a second thread that reads keys. The program would keep running without a terminal because
        the thread would never end.
        """

        def _sigcont_application(self, *_: object) -> None:
            if self._must_signal_resume:
                super()._sigcont_application()
            elif self._app.is_running:
                self.send_message(
                    self.SignalResume()
                )  # other programs may have written on the screen

    def read_keys_with(parser: type[XTermParser]) -> None:
        """Make the driver use this parser, and make it replace invalid UTF-8.

        Invalid UTF-8 must be replaced, because an error in the thread that reads keys would end the program.
        The driver looks up parser and decoder by the names that are set here.
        """

        def decoder(encoding: str) -> "partial[codecs.IncrementalDecoder]":
            return partial(codecs.getincrementaldecoder(encoding), errors="replace")

        linux_driver.XTermParser = parser  # type: ignore[attr-defined]
        linux_driver.getincrementaldecoder = decoder  # type: ignore[attr-defined, assignment]
