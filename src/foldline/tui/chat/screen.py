"""The chat screen: lays out its widgets, and turns keys into messages.

The screen only shows a `ChatState`. The app handles the messages and runs the agent.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from foldline.frontend.commands import BY_ID, COMMANDS, check_handlers
from foldline.frontend.state import ChatState
from foldline.text.harmless import clean_line
from foldline.tui.blocks.view import BlockView
from foldline.tui.browser.dock import Dock
from foldline.tui.browser.panels import app_actions
from foldline.tui.chat.escape_actions import EscapeActions
from foldline.tui.chat.question import REMARKS, QuestionDock
from foldline.tui.chat.sidebar import Sidebar
from foldline.tui.chat.welcome import HINTS, Welcome
from foldline.tui.keys.bindings import bindings
from foldline.tui.look.lines import LEAST, LineWidget, TooSmall
from foldline.tui.look.meter import header_row, meter_row
from foldline.tui.look.status import (
    HasStatusLine,
    StatusContext,
    hints_row,
    next_change,
    status_row,
)
from foldline.tui.look.textual_private import SessionScreen, mode_of
from foldline.tui.messages import NOT_NOW, CommandInvoked, PromptSubmitted
from foldline.tui.prompting.completion import CompletionList
from foldline.tui.prompting.prompt import PromptBox
from foldline.tui.transcript.panel import ReadingPane

SIDEBAR_FROM = 100
"""Minimum width, in columns, for showing the sidebar."""
FRAME_FROM = 18
"""Minimum height, in rows, for showing the header and the hints."""
REMARK_SECONDS = 4.0
"""How long feedback on a key press stays in the status row, in seconds."""

if TYPE_CHECKING:
    from foldline.tui.lists.line import LineDialog

Clock = Callable[[], float]
Result = TypeVar("Result")


class ChatScreen(SessionScreen[None]):
    """The main screen.

    The app calls `show` and `sidebar.show`, fills `transcript`, and handles the messages from this screen.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ChatScreen { layers: base popup; color: $role-text; overflow: hidden; }
    ChatScreen > #body { height: 1fr; }
    ChatScreen #transcript { width: 1fr; height: 1fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(COMMANDS, "command")
    AUTO_FOCUS: ClassVar[str | None] = "#editor"
    ESCAPE_TO_MINIMIZE: ClassVar[bool | None] = False

    state: reactive[ChatState] = reactive(ChatState, init=False, repaint=False)
    """The chat's state, as shown on the screen.

    Setting a state equal to the current one costs little.
    """

    def __init__(
        self, *, root: Path | None = None, clock: Clock = time.monotonic
    ) -> None:
        """Create the screen.

        Args:
            root: folder of the files that `@` completes.
            clock: supplies the `now` passed to `reduce`.
        """
        super().__init__()
        self._root = root
        self.clock = clock
        self.ready = asyncio.Event()
        """Set once the editor has the focus."""
        self.remarked = ""
        """Feedback on the last key press; empty after `REMARK_SECONDS`."""
        self._wake: Timer | None = None
        self._remark_timer: Timer | None = None
        self.header = LineWidget("header")
        self.reading = ReadingPane(self.remark, self.run_command)
        self.transcript: BlockView = self.reading.view
        self.welcome = Welcome()
        self.sidebar = Sidebar()
        self.completion = CompletionList()
        self.dock = QuestionDock(self)
        self.prompt = PromptBox(self.completion, root, self.remark, self.run_command)
        self.meter = LineWidget("meter")
        self.status = LineWidget("status")
        self.hints = LineWidget("hints")
        self.docked = Dock()
        self.leaving = EscapeActions(self, clock)
        self._too_small = TooSmall()
        self._focused_before: Widget | None = None
        """The widget that had the focus before the terminal became too small."""
        self._handlers: dict[str, Callable[..., object]] = {
            "complete": self._complete,
            "editor": self._edit_prompt,
            "prompt-older": partial(self.reading.to_prompt, -1),
            "prompt-newer": partial(self.reading.to_prompt, 1),
            "page-up": partial(self.reading.page, -1),
            "page-down": partial(self.reading.page, 1),
            "end": self.transcript.follow_end,
            "allow-once": partial(self.dock.give, "y"),
            "allow-always": partial(self.dock.give, "a"),
            "allow-project": partial(self.dock.give, "p"),
            "other-rule": self.dock.other_rule,
            "decline": partial(self.dock.give, "n"),
            "escape": self.leaving.escape,
            "interrupt": self.leaving.interrupt,
            "help": self._open_help,
            "paste-picture": self.prompt.attacher.paste_picture,
            "search-prompts": self.prompt.search_earlier,
            "help-panel": self._open_help,
            "palette": lambda: app_actions.open_palette(self.app),
        }
        check_handlers(self._handlers, "chat")

    def compose(self) -> ComposeResult:
        yield self.docked
        yield self.header
        with Horizontal(id="body"):
            yield self.welcome
            yield self.reading
            yield self.sidebar
        rows = (self.dock, self.prompt, self.meter, self.status, self.hints)
        yield from (*rows, self._too_small, self.completion)

    def show(self, state: ChatState) -> None:
        self.state = state

    def remark(self, text: str) -> None:
        """Show a message in the status row for a few seconds."""
        self.remarked = clean_line(text)
        if self._remark_timer is not None:
            self._remark_timer.stop()
        self._remark_timer = (
            self.set_timer(REMARK_SECONDS, partial(self.remark, "")) if text else None
        )
        self.show_status()

    def tell_front(self, words: str) -> None:
        """Show a message on the screen in front: the chat, or a screen that covers it."""
        front = self.front
        if isinstance(front, HasStatusLine):
            front.tell(words)
        else:
            self.remark(words)

    @property
    def front(self) -> Screen[Any]:
        """The top screen of this session, even if another session is shown."""
        mode = mode_of(self)
        return self if mode is None else self.app.get_screen_stack(mode)[-1]

    @property
    def is_shown(self) -> bool:
        """Whether this session is on the screen."""
        return mode_of(self) == self.app.current_mode

    def works_now(self, command: str) -> bool:
        """Whether a command is available now."""
        return BY_ID[command].works(self.state)

    def run_command(self, command: str, argument: str = "") -> None:
        """Carry out a command here, or pass it on to the app."""
        entry = BY_ID[command]
        if not entry.works(self.state):
            self.remark(NOT_NOW.format(command=entry.title))
        elif entry.scope == "app":
            if command == "inspector" and self.is_current:
                self.docked.expect(self.size.width)
            self.post_message(CommandInvoked(command, argument))
        else:
            arguments = (argument,) if entry.argument else ()
            self._handlers[command](*arguments)

    def on_resize(self) -> None:
        self.fit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (action == "command" and self.docked.keeps(*parameters))

    def action_command(self, command: str) -> None:
        self.run_command(command)

    # --- Showing --------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.fit()
        self._show()
        self.ready.set()

    def watch_state(self) -> None:
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        state = self.state
        was_in_question = self.dock.has_focus_within
        self.welcome.show(state)
        if self.welcome.display and (
            state.busy or state.waiting.count or self.transcript.count
        ):
            if self.welcome.has_focus:
                self.set_focus(self.prompt.editor)
            self.welcome.display, self.reading.display = False, True
        self.header.show(partial(header_row, state))
        is_new_question = self.dock.show(state.questions)
        self.dock.display = state.question is not None and not self._too_small.display
        self.prompt.show(state)
        self.meter.show(partial(meter_row, state))
        if was_in_question and state.question is None:
            self.set_focus(self.prompt.editor)
        elif is_new_question and state.question and self.prompt.is_untouched:
            self.set_focus(self.dock)
        if is_new_question:
            if self.remarked in REMARKS:
                self.remark("")
            self.call_after_refresh(self._place_above_prompt)
        self._show_keys()

    def show_status(self) -> None:
        step = self.leaving.step if self.is_active else None
        context = StatusContext(
            new_below=self.transcript.new_below,
            escape=step.label
            if step is not None and not self.docked.keeps("escape")
            else "",
            remark=self.remarked,
            writes=bool(self.prompt.editor.text.strip()),
            question_focused=self.dock.has_focus,
        )
        now = self.clock()
        self.status.show(partial(status_row, self.state, context, now))
        if self._wake is not None:
            self._wake.stop()
        seconds = next_change(self.state, now)
        self._wake = (
            None if seconds is None else self.set_timer(seconds, self.show_status)
        )

    def fit(self) -> None:
        """Show the widgets that fit the terminal, and lay them out."""
        size = (
            self.size or self.app.size
        )  # a screen has no size before its first layout
        width, height = self.docked.chat_columns(size.width), size.height
        fits = width >= LEAST[0] and height >= LEAST[1]
        if not fits and self.focused is not None:
            self._focused_before = self.focused
        elif fits and self.focused is None:  # hidden widgets have lost the focus
            self.call_after_refresh((self._focused_before or self.prompt.editor).focus)
        framed = fits and height >= FRAME_FROM
        for widget in (self.query_one("#body"), self.prompt, self.meter, self.status):
            widget.display = fits
        self._too_small.display = not fits
        self.header.display = framed
        self.hints.display = framed
        self.sidebar.display = width >= SIDEBAR_FROM
        self.dock.display = fits and self.state.question is not None
        self.prompt.set_room(height)
        self.call_after_refresh(self._place_above_prompt)

    def _place_above_prompt(self) -> None:
        """Place the list of completions and the question above the prompt."""
        fixed = (self.header, self.prompt, self.meter, self.status, self.hints)
        height = self.size.height
        free = height - sum(widget.size.height for widget in fixed if widget.display)
        used = self.dock.set_room(height, free)
        # Without a maximum height, 1fr of zero space would still take one row.
        self.query_one("#body").styles.max_height = None if used < free else 0
        below = max(height - self.prompt.region.y, 0)
        if self.completion.styles.margin.bottom != below:
            self.completion.styles.margin = (0, 0, below, 2)

    def on_screen_suspend(self) -> None:
        self.prompt.set_active(False)
        self._show_keys()

    def on_screen_resume(self) -> None:
        self.fit()  # the terminal may have been resized since
        self.prompt.set_active(True)
        self.dock.deafen()
        self._show_keys()

    @on(PromptBox.FactsChanged)
    def _facts_changed(self) -> None:
        self._place_above_prompt()
        self.show_status()

    def on_descendant_focus(self) -> None:
        self._show_keys()

    @on(ReadingPane.Changed)
    def _show_keys(self) -> None:
        reading: Iterable[tuple[str, str]] | None = (
            HINTS if self.welcome.has_focus else None
        )
        if self.reading.focused:
            reading = self.reading.hints
        state = self.state
        is_covered = not self.is_active
        self.hints.show(
            lambda width: hints_row(state, width, reading, covered=is_covered)
        )
        self.show_status()

    @on(ReadingPane.PicturesWanted)
    def _show_pictures(self, event: ReadingPane.PicturesWanted) -> None:
        from foldline.tui.overlays.picture import PictureScreen

        event.stop()
        self.app.push_screen(PictureScreen(event.pictures))

    @on(BlockView.BelowChanged)
    def _below_changed(self, event: BlockView.BelowChanged) -> None:
        event.stop()
        self.show_status()

    # --- From the widgets to the app ------------------------------------------------------------------

    @on(PromptBox.Submitted)
    def _submitted(self, event: PromptBox.Submitted) -> None:
        event.stop()
        if not self.state.busy:  # a queued prompt does not scroll
            self.transcript.follow_end()
            self.transcript.cursor_to(
                None
            )  # otherwise the next keys would act on a hidden block
        self.post_message(PromptSubmitted(event.text))

    @property
    def covers_question(self) -> bool:
        """Whether the list of completions is open, which may cover the question."""
        return self.completion.open

    def give_back(self, text: str) -> bool:
        """Put text into the prompt, unless it has other text."""
        return self.prompt.give_back(text)

    def open_dialog(
        self, dialog: "LineDialog[str]", answered: Callable[[str | None], None]
    ) -> None:
        """Open a dialog over this session, even if another session is shown."""
        self.push_screen(dialog, answered)

    def move_to_prompt(self, event: events.Key | events.Paste) -> None:
        """Pass text typed at a question to the prompt.

        Also focuses the prompt.
        """
        self.set_focus(self.prompt.editor)
        if isinstance(event, events.Key):
            event = events.Key(event.key, event.character)
        self.prompt.editor.post_message(event)

    @on(PromptBox.EmptySubmitted)
    def _empty_submitted(self, event: PromptBox.EmptySubmitted) -> None:
        event.stop()
        self.reading.toggle_compaction()

    @on(Welcome.Selected)
    def _welcome_picked(self, event: Welcome.Selected) -> None:
        event.stop()
        if event.session:
            self.run_command("sessions", event.session)
        else:
            self.set_focus(self.prompt.editor)
            self.prompt.take_earlier(event.prompt)

    @on(CompletionList.Picked)
    def _picked(self, event: CompletionList.Picked) -> None:
        event.stop()
        self.prompt.pick(event.completion)

    # --- Commands -------------------------------------------------------------------------------------

    def _open_help(self) -> None:
        app_actions.open_help(self.app)

    def _complete(self) -> None:
        """Complete the word, or go to the next part of the screen.

        Waits until the editor has handled all earlier keys.
        """
        (self.focused or self).call_later(self._complete_now)

    def _complete_now(self) -> None:
        if self.prompt.complete():
            return
        if self.transcript.has_focus and self.docked.is_used:
            self.docked.enter()
            return
        first = self.welcome if self.welcome.display else self.transcript
        panels: list[Widget] = [first, self.prompt.editor]
        if self.state.question is not None:
            # The question is next after the prompt, because Tab is usually meant for it.
            panels.insert(0, self.dock)
        focused = next((at for at, panel in enumerate(panels) if panel.has_focus), -1)
        self.set_focus(panels[(focused + 1) % len(panels)])

    def edited(self, text: str) -> str | None:
        """Open text in the user's editor, and return the edited text."""
        return app_actions.edited(self.app, text, self.remark)

    def _edit_prompt(self) -> None:
        text = self.edited(self.prompt.attachments.expand(self.prompt.editor.text))
        if text is not None:
            self.prompt.attacher.put(text)
