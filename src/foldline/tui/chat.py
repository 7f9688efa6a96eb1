"""The chat screen: lays out transcript, prompt, side list and rows, and turns keys into messages.

It shows a `ChatState` and decides nothing: what runs is the program's business, posted as messages.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import AwaitMount, Widget

from foldline.context.harmless import clean_line
from foldline.tui import dialogs
from foldline.tui.blocks.view import BlockView
from foldline.tui.dock import Dock
from foldline.tui.escape_actions import EscapeActions
from foldline.tui.keys.commands import BY_ID, COMMANDS, check_handlers
from foldline.tui.keys.table import bindings
from foldline.tui.messages import CommandInvoked, PromptSubmitted
from foldline.tui.prompting.completion import CompletionList
from foldline.tui.prompting.prompt import Prompt
from foldline.tui.state import ChatState
from foldline.tui.textual_private import mode_of
from foldline.tui.transcript.panel import ReadingPane
from foldline.tui.widgets.lines import LEAST, Row, TooSmall
from foldline.tui.widgets.meter import header_row, meter_row
from foldline.tui.widgets.question import REMARKS, QuestionDock
from foldline.tui.widgets.sidebar import Sidebar
from foldline.tui.widgets.status import StatusContext, hints_row, next_change, status_row
from foldline.tui.widgets.welcome import HINTS, Welcome

if TYPE_CHECKING:
    from foldline.tui.base_app import BaseApp

SIDEBAR_FROM = 100
"""Columns from which the side list is shown."""
FRAME_FROM = 18
"""Rows from which header and hints are shown."""
REMARK_SECONDS = 4.0
"""How long an answer to a key stands in the status row."""

Clock = Callable[[], float]
Result = TypeVar("Result")


class ChatScreen(Screen[None]):
    """The main screen. The program calls `show`, `sidebar.show` and fills `transcript`; it gets messages."""

    DEFAULT_CSS: ClassVar[str] = """
    ChatScreen { layers: base popup; color: $role-text; overflow: hidden; }
    ChatScreen > #body { height: 1fr; }
    ChatScreen #transcript { width: 1fr; height: 1fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(COMMANDS, "command")
    AUTO_FOCUS: ClassVar[str | None] = "#editor"
    ESCAPE_TO_MINIMIZE: ClassVar[bool | None] = False

    state: reactive[ChatState] = reactive(ChatState, init=False, repaint=False)
    """What is shown; cheap to set where it is the same."""

    def __init__(self, *, root: Path | None = None, clock: Clock = time.monotonic) -> None:
        """`root` is the folder whose files `@` completes. `clock` is the one `reduce` is given `now` by."""
        super().__init__()
        self._root = root
        self.clock = clock
        self.ready = asyncio.Event()
        """Set once the editor has the focus."""
        self.remarked = ""
        """What the status row answers to the last key; empty where that is over."""
        self._wake: Timer | None = None
        self._remark_timer: Timer | None = None
        self.header = Row("header")
        self.reading = ReadingPane(self.remark, self.run_command)
        self.transcript: BlockView = self.reading.view
        self.welcome = Welcome()
        self.sidebar = Sidebar()
        self.completion = CompletionList()
        self.dock = QuestionDock(
            clock, self.remark, lambda: self.completion.open, self._typed_elsewhere, self._edited
        )
        self.prompt = Prompt(self.completion, root, self.remark, self.run_command)
        self.meter = Row("meter")
        self.status = Row("status")
        self.hints = Row("hints")
        self.docked = Dock(self.fit)
        self.leaving = EscapeActions(self, clock)
        self._too_small = TooSmall()
        self._focused_before: Widget | None = None
        """What had the focus before the terminal became too small."""
        self._handlers: dict[str, Callable[[str], None]] = {
            "complete": lambda _: self._in_turn(self._complete),
            "editor": lambda _: self._edit_prompt(),
            "prompt-older": lambda _: self.reading.to_prompt(-1),
            "prompt-newer": lambda _: self.reading.to_prompt(1),
            "page-up": lambda _: self.reading.page(-1),
            "page-down": lambda _: self.reading.page(1),
            "end": lambda _: self.transcript.follow_end(),
            "allow-once": lambda _: self.dock.give("y"),
            "allow-always": lambda _: self.dock.give("a"),
            "allow-project": lambda _: self.dock.give("p"),
            "other-rule": lambda _: self.dock.other_rule(),
            "decline": lambda _: self.dock.give("n"),
            "escape": lambda _: (
                self._in_turn(self.leaving.escape) if self.prompt.vim else self.leaving.escape()
            ),
            "interrupt": lambda _: self.leaving.interrupt(),
            "theme": lambda name: dialogs.change_theme(cast("BaseApp[Any]", self.app), name, self.remark),
            "help": lambda _: dialogs.open_help(self.app),
            "paste-picture": lambda _: self.prompt.attaching.paste_picture(),
            "search-prompts": lambda _: self._in_turn(self.prompt.search_earlier),
            "help-panel": lambda _: dialogs.open_help(self.app),
            "palette": lambda _: dialogs.open_palette(self.app),
        }
        check_handlers(self._handlers, "chat")

    def compose(self) -> ComposeResult:
        yield self.docked
        yield self.header
        with Horizontal(id="body"):
            yield self.welcome
            yield self.reading
            yield self.sidebar
        yield self.dock
        yield self.prompt
        yield self.meter
        yield self.status
        yield self.hints
        yield self._too_small
        yield self.completion

    def show(self, state: ChatState) -> None:
        self.state = state

    def remark(self, text: str) -> None:
        """Answer a key in the status row, for a few seconds."""
        self.remarked = clean_line(text)
        if self._remark_timer is not None:
            self._remark_timer.stop()
        self._remark_timer = self.set_timer(REMARK_SECONDS, partial(self.remark, "")) if text else None
        self.show_status()

    @property
    def front(self) -> Screen[Any]:
        """What lies over this chat, on top; the chat itself where nothing does. Another session may be the
        one that is shown."""
        mode = mode_of(self)
        return self if mode is None else self.app.get_screen_stack(mode)[-1]

    @property
    def is_shown(self) -> bool:
        """Whether this session is the one on the screen."""
        return mode_of(self) == self.app.current_mode

    def push_screen(
        self, screen: Screen[Result], callback: Callable[[Result | None], None] | None = None
    ) -> AwaitMount:
        """Open a screen over this chat."""
        return self.app.push_screen(screen, callback, mode=mode_of(self))

    def works_now(self, command: str) -> bool:
        """Whether a command would do something."""
        return BY_ID[command].works(self.state)

    def run_command(self, command: str, argument: str = "") -> None:
        """Carry out a command here, or pass it on to the program."""
        asked = BY_ID[command]
        if not asked.works(self.state):
            self.remark(f"{asked.title}: not now")
        elif asked.scope == "app":
            if command == "inspector" and self.is_current:
                self.docked.expect(self.size.width)
            self.post_message(CommandInvoked(command, argument))
        else:
            self._handlers[command](argument)

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
        asked = self.dock.has_focus_within
        self.welcome.show(state)
        if self.welcome.display and (state.busy or state.waiting.count or self.transcript.count):
            if self.welcome.has_focus:
                self.set_focus(self.prompt.editor)
            self.welcome.display, self.reading.display = False, True
        self.header.show(partial(header_row, state))
        is_other = self.dock.show(state.questions)
        self.dock.display = state.question is not None and not self._too_small.display
        self.prompt.show(state)
        self.meter.show(partial(meter_row, state))
        if asked and state.question is None:
            self.set_focus(self.prompt.editor)
        elif is_other and state.question and self.prompt.is_untouched:
            self.set_focus(self.dock)
        if is_other:
            if self.remarked in REMARKS:
                self.remark("")
            self.call_after_refresh(self._place_above_prompt)
        self._show_keys()

    def show_status(self) -> None:
        step = self.leaving.step if self.is_active else None
        beside = StatusContext(
            new_below=self.transcript.new_below,
            escape=step.label if step is not None and not self.docked.keeps("escape") else "",
            remark=self.remarked,
            writes=bool(self.prompt.editor.text.strip()),
            question_focused=self.dock.has_focus,
        )
        now = self.clock()
        self.status.show(partial(status_row, self.state, beside, now))
        if self._wake is not None:
            self._wake.stop()
        seconds = next_change(self.state, now)
        self._wake = None if seconds is None else self.set_timer(seconds, self.show_status)

    def fit(self) -> None:
        """Show what there is room for."""
        size = self.size or self.app.size  # A screen has none of its own before its first layout.
        width, height = self.docked.chat_columns(size.width), size.height
        fits = width >= LEAST[0] and height >= LEAST[1]
        if not fits and self.focused is not None:
            self._focused_before = self.focused
        elif fits and self.focused is None:  # what is not shown loses the focus
            self.call_after_refresh((self._focused_before or self.prompt.editor).focus)
        framed = fits and height >= FRAME_FROM
        for widget, shown in (
            (self._too_small, not fits),
            (self.query_one("#body"), fits),
            (self.prompt, fits),
            (self.meter, fits),
            (self.status, fits),
            (self.header, framed),
            (self.hints, framed),
            (self.sidebar, width >= SIDEBAR_FROM),
        ):
            widget.display = shown
        self.dock.display = fits and self.state.question is not None
        self.prompt.set_room(height)
        self.call_after_refresh(self._place_above_prompt)

    def _place_above_prompt(self) -> None:
        """The list of completions stands there, and the question has the rows up to the header."""
        fixed = (self.header, self.prompt, self.meter, self.status, self.hints)
        height = self.size.height
        free = height - sum(each.size.height for each in fixed if each.display)
        taken = self.dock.set_room(height, free)
        self.query_one("#body").styles.max_height = None if taken < free else 0  # 1fr of nothing is a row
        below = max(height - self.prompt.region.y, 0)
        if self.completion.styles.margin.bottom != below:
            self.completion.styles.margin = (0, 0, below, 2)

    def on_screen_suspend(self) -> None:
        self.prompt.set_active(False)
        self._show_keys()

    def on_screen_resume(self) -> None:
        self.fit()  # the terminal may have another size than when this was last seen
        self.prompt.set_active(True)
        self.dock.deafen()
        self._show_keys()

    @on(Prompt.FactsChanged)
    def _facts_changed(self) -> None:
        self._place_above_prompt()
        self.show_status()

    def on_descendant_focus(self) -> None:
        self._show_keys()

    @on(ReadingPane.Changed)
    def _show_keys(self) -> None:
        reading = self.reading.hints if self.reading.focused else HINTS if self.welcome.has_focus else None
        state, covered = self.state, not self.is_active
        self.hints.show(lambda width: hints_row(state, width, reading, covered=covered))
        self.show_status()

    @on(BlockView.BelowChanged)
    def _below_changed(self, event: BlockView.BelowChanged) -> None:
        event.stop()
        self.show_status()

    # --- From the widgets to the program --------------------------------------------------------------

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        if not self.state.busy:  # a prompt that only waits moves nothing
            self.transcript.follow_end()
            self.transcript.cursor_to(None)  # out of sight, it would be what the next keys act on
        self.post_message(PromptSubmitted(event.text))

    @on(QuestionDock.WhyUnsent)
    def _why_unsent(self, event: QuestionDock.WhyUnsent) -> None:
        event.stop()
        self.prompt.give_back(event.text)

    def _typed_elsewhere(self, event: events.Key | events.Paste) -> None:
        """Text that came to the question is the prompt's, behind what it was given before."""
        typed = events.Key(event.key, event.character) if isinstance(event, events.Key) else event
        self.set_focus(self.prompt.editor)
        self.prompt.editor.post_message(typed)

    @on(Prompt.EnteredNothing)
    def _entered_nothing(self, event: Prompt.EnteredNothing) -> None:
        event.stop()
        self.reading.toggle_compaction()

    @on(Welcome.Picked)
    def _welcome_picked(self, event: Welcome.Picked) -> None:
        event.stop()
        if event.session:
            self.run_command("sessions", event.session)
        else:
            self.set_focus(self.prompt.editor)
            self.prompt.take_earlier(event.prompt)

    @on(CompletionList.Picked)
    def _picked(self, event: CompletionList.Picked) -> None:
        event.stop()
        self.prompt.pick(event.candidate)

    # --- Commands -------------------------------------------------------------------------------------

    def _in_turn(self, do: Callable[[], object]) -> None:
        """Behind what was typed before it, which the text field may not have heard yet."""
        (self.focused or self).call_later(do)

    def _complete(self) -> None:
        if self.prompt.complete():
            return
        if self.transcript.has_focus and self.docked.taken:
            self.docked.enter()
            return
        first = self.welcome if self.welcome.display else self.transcript
        panels: list[Widget] = [first, self.prompt.editor]
        if self.state.question is not None:
            # Right after the prompt: an open question is what Tab is pressed for.
            panels.insert(0, self.dock)
        focused = next((at for at, panel in enumerate(panels) if panel.has_focus), -1)
        self.set_focus(panels[(focused + 1) % len(panels)])

    def _edited(self, text: str) -> str | None:
        return dialogs.edited(self.app, text, self.remark)

    def _edit_prompt(self) -> None:
        text = self._edited(self.prompt.attachments.opened(self.prompt.editor.text))
        if text is not None:
            self.prompt.attaching.put(text)
