"""All that Foldline uses of Textual beyond its public interface, as read in Textual 8.2.8.

`tests/tui/test_textual_private.py` has a test for each hook, which fails when Textual's code of it changes.
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
from textual.driver import Driver
from textual.filter import LineFilter
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from foldline.context.harmless import PLACEHOLDER
from foldline.tui.frames import Frames

if sys.platform != "win32":
    from textual.drivers import linux_driver

Result = TypeVar("Result")


class HookedApp(App[Result]):
    """An app that writes only what the terminal does not show yet; keeps an unforeseen error for its caller,
    and prints nothing of its own.

    Textual prints a traceback with the values of local variables: keys, prompts, files (docs/security.md).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._frames = Frames()

    @property
    def written(self) -> int:
        """Characters written so far to bring the screen up to date, whole frames left out."""
        return self._frames.written

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if isinstance(renderable, (ChopsUpdate, LayoutUpdate)):
            renderable = _LeanUpdate(renderable, self._frames)  # type: ignore[assignment]
        super()._display(screen, renderable)

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """The screens below dialogs. Textual takes each screen with the terminal's own background for one
        that can be seen through: whatever changed below it was a whole frame."""
        stack, below = self._screen_stack, len(self._screen_stack) - 1
        while below > 0 and stack[below].is_modal:
            below -= 1
        return stack[max(below, 0) : -1]

    def takes_fault(self, error: Exception) -> bool:
        """Whether the app continues after this error."""
        return False

    def _handle_exception(self, error: Exception) -> None:
        """Ends the app, as Textual's own handler does."""
        if self.takes_fault(error):
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    @property
    def fault(self) -> Exception | None:
        """The first error that ended the app."""
        return self._exception

    @property
    def terminal_driver(self) -> Driver | None:
        """What speaks with the terminal; None where nothing does, as in tests and in a browser."""
        driver = self._driver
        return None if driver is None or driver.is_headless or driver.is_web else driver

    @property
    def unwritten(self) -> int:
        """How many pieces of what was to be written the terminal has not taken yet, at least."""
        thread = getattr(self._driver, "_writer_thread", None)
        return 0 if thread is None else thread._queue.qsize()

    def add_line_filter(self, line_filter: LineFilter) -> None:
        """Filter all lines that are painted. `App.get_line_filters` gives these."""
        self._filters.append(line_filter)

    def apply_theme_again(self, name: str) -> None:
        """Paint with another theme of the same name: Textual sees no change of it."""
        self._watch_theme(name)


class _LeanUpdate(CompositorUpdate):
    """A whole frame is written as it is: others may have written on the screen."""

    def __init__(self, update: ChopsUpdate | LayoutUpdate, frames: Frames) -> None:
        self._update = update
        self._frames = frames

    def render_segments(self, console: Console) -> str:
        update, colors = self._update, console._color_system or ColorSystem.TRUECOLOR
        if isinstance(update, LayoutUpdate):
            self._frames.show(update.strips)
            return update.render_segments(console)
        written = self._frames.write(_pieces(update), colors)
        if written is None:
            written = update.render_segments(console)
        self._frames.written += len(written)
        return written


def _pieces(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """What Textual would write, each piece with its (x, y)."""
    for y, first, last in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= last and end > first:
                yield x, y, strip.crop(0, min(end, last) - x)


class SelectedByDragging(Widget):
    """A widget of which text is selected by dragging alone. At a double click Textual selects all of it, at a
    third click all around it."""

    def text_select_all(self) -> None:
        """Two clicks are two clicks."""

    @property
    def select_container(self) -> Widget:
        return self

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def mode_of(screen: Screen[Any]) -> str | None:
    """The mode in whose stack a screen is; None where it is in none."""
    stacks = screen.app._screen_stacks
    return next((mode for mode, stack in stacks.items() if screen in stack), None)


@contextmanager
def in_mode_of(screen: Screen[Any]) -> Iterator[None]:
    """Take screens from the stack that this one is in: Textual takes them from the one that is shown."""
    app, mode = screen.app, mode_of(screen)
    shown = app._current_mode
    app._current_mode = mode or shown
    try:
        yield
    finally:
        app._current_mode = shown


class SizedScrollView(ScrollView, SelectedByDragging):
    """A scroll view that learns of its size before it is painted."""

    sizing = False
    """While Textual cuts `scroll_y` down to a new size, which is not the reader's doing."""

    def sized(self) -> None:
        """Called when the size was set."""

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
        """Make the scrollbars before the first layout."""
        self._refresh_scrollbars()


async def act_now(field: Widget, key: str) -> bool:
    """Do what the field's own binding of this key does, before a key behind it; False where it has none.

    Textual carries out a field's bindings after the key has bubbled to the app: text typed before that comes
    first.
    """
    node, own = field.screen._modal_binding_chain[0]
    if node is not field:
        return False  # it has the focus no longer
    for binding in own.key_to_bindings.get(key, ()):
        if not binding.priority and await field.app.run_action(binding.action, field):
            return True
    return False


def dimmed(rendered: RenderableType, style: Style) -> RenderableType:
    """What a modal screen renders, with all that is behind it in one style."""
    return _Dimmed(rendered, style) if isinstance(rendered, BackgroundScreen) else rendered


class _Dimmed:
    """A background of its own stays."""

    def __init__(self, behind: BackgroundScreen, style: Style) -> None:
        self._behind = behind
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._behind, options):
            own = Style(bgcolor=style.bgcolor) if style is not None else Style()
            yield Segment(text, style if PLACEHOLDER in text else own + self._style, control)


class OrderedInput(Input):
    """An `Input` whose keys keep their order, and that says what it takes of a paste."""

    async def _on_key(self, event: events.Key) -> None:
        if await act_now(self, event.key):
            event.stop()
            event.prevent_default()

    def pasted(self, text: str) -> str:
        """What goes in for a paste."""
        return " ".join(text.split())

    def _on_paste(self, event: events.Paste) -> None:
        self.replace(self.pasted(event.text), *self.selection)
        event.prevent_default()
        event.stop()


class OrderedTextArea(TextArea):
    """A `TextArea` whose keys keep their order, and whose owner sees keys and pastes first."""

    take_key: Callable[[str], Awaitable[bool]]
    """Carries out a key; False where the text area is to."""
    take_paste: Callable[[str], Awaitable[str]]
    """Says what goes in for a paste."""

    async def _on_key(self, event: events.Key) -> None:
        if await self.take_key(event.key) or await act_now(self, event.key):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_here(await self.take_paste(event.text))

    def insert_here(self, text: str) -> None:
        """Put clean text in place of the selection, the cursor behind it; can be undone like typing."""
        if text and (edit := self._replace_via_keyboard(text, *self.selection)):
            self.move_cursor(edit.end_location)

    @property
    def _draw_cursor(self) -> bool:
        """Not under another screen, which has the one cursor, although the text has the focus of its own."""
        return self.show_cursor and super()._draw_cursor


def app_of(driver: Driver) -> App[Any]:
    """The app that a driver serves."""
    return driver._app


class KeyParser(XTermParser):
    """Textual's parser, and Alt+Enter, which it takes for Enter where the terminal sends it as terminals
    always have: an escape before the key."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence == "\x1b\r":
            return (events.Key("alt+enter", None),)
        return super()._sequence_to_key_events(sequence, alt)


if sys.platform != "win32":

    class ResumableDriver(linux_driver.LinuxDriver):
        """A driver that sets the screen up again only where it was given back.

        SIGCONT comes along with the signal that says that the terminal is gone; Textual then starts
        a second thread that reads keys. Nobody ends that one, and it keeps the program alive without a
        terminal.
        """

        def _sigcont_application(self, *_: object) -> None:
            if self._must_signal_resume:
                super()._sigcont_application()
            elif self._app.is_running:
                self.send_message(self.SignalResume())  # stopped from outside: others may have written here

    def read_keys_with(parser: type[XTermParser]) -> None:
        """Have the driver read with this parser; what is no text becomes the sign for that: an error in the
        thread that reads keys would end the program. The driver makes both by these names."""

        def decoder(encoding: str) -> "partial[codecs.IncrementalDecoder]":
            return partial(codecs.getincrementaldecoder(encoding), errors="replace")

        linux_driver.XTermParser = parser  # type: ignore[attr-defined]
        linux_driver.getincrementaldecoder = decoder  # type: ignore[attr-defined, assignment]
