"""The actions of Esc and Ctrl+C in the chat."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from foldline.frontend.interrupt import interrupt_step
from foldline.text.numbers import many
from foldline.tui.messages import CancelRequested, CommandInvoked, QueueEdited
from foldline.tui.terminal import clipboard

if TYPE_CHECKING:
    from foldline.tui.chat.screen import ChatScreen

REWIND_WITHIN: Final = 1.0
"""Seconds within which a second Esc on an empty prompt opens Rewind."""

COPIED = "Copied"
QUIT_WARNING = "Press Ctrl+C again to quit"
PROMPTS_KEPT = "; {prompts} will be kept for next time"

ESC_CLOSES_LIST = "Esc closes the list"
ESC_ENDS_SEARCH = "Esc ends the search"
ESC_LEAVES_QUEUE = "Esc deselects it, keeps the text"
ESC_LEAVES_CHOICE = "Esc leaves it undecided"
ESC_DECLINES = "Esc declines this call"
ESC_TO_PROMPT = "Esc returns to the prompt"
ESC_STOPS_RETRYING = "Esc gives up"
ESC_CANCELS_COMPACTION = "Esc cancels, keeps prompts"
ESC_CANCELS = "Esc cancels"
ESC_CANCELS_DRAFT = "Esc cancels the draft"
ESC_PAUSES = "Esc pauses the queue"
ESC_ENDS_EDIT = "Esc stops editing (↑ brings the text back)"
ESC_DESELECTS = "Esc clears the selection"
ESC_CLEARS = "Esc clears (↑ brings it back)"
ESC_STOPS_SUBAGENTS = "Esc stops the subagents"
ESC_REWINDS = "Esc again: rewind"


class EscStep(NamedTuple):
    """An action of Esc."""

    label: str
    """Description of the action, for the status row.

    It follows a key name, for example in `Esc closes the list`.
    """
    do: Callable[[], object]


class EscapeActions:
    """Carries out Esc and Ctrl+C.

    Each press of Esc goes back one level, and never discards anything.
    """

    def __init__(self, chat: "ChatScreen", clock: Callable[[], float]) -> None:
        self._chat = chat
        self._clock = clock
        self._quit_warned: float | None = None
        self._escaped: float | None = None
        """Time of the last Esc on an empty prompt."""

    def _steps(self) -> Iterable[tuple[object, str, Callable[[], object]]]:
        """Return all actions as (condition, label, function).

        The first action whose condition is true applies.
        """
        chat = self._chat
        state = chat.state
        prompt = chat.prompt
        dock = chat.dock
        waiting = state.waiting
        in_question = dock.has_focus
        may_cancel = not state.cancelling
        is_elsewhere = chat.focused is not None and chat.focused is not prompt.editor
        is_second = (
            self._escaped is not None and self._clock() - self._escaped <= REWIND_WITHIN
        )
        pause = partial(
            chat.post_message, QueueEdited(waiting.queued, waiting.queued, paused=True)
        )
        cancel = partial(chat.post_message, CancelRequested())
        return (
            (chat.completion.open, ESC_CLOSES_LIST, prompt.close_completion),
            (chat.reading.searching, ESC_ENDS_SEARCH, chat.reading.end_search),
            (prompt.in_queue, ESC_LEAVES_QUEUE, prompt.leave_queue),
            (in_question and state.asks_choice, ESC_LEAVES_CHOICE, dock.leave),
            (in_question, ESC_DECLINES, dock.leave),
            (is_elsewhere, ESC_TO_PROMPT, partial(chat.set_focus, prompt.editor)),
            (may_cancel and state.retry_at(self._clock()), ESC_STOPS_RETRYING, cancel),
            (may_cancel and state.compacting, ESC_CANCELS_COMPACTION, cancel),
            (may_cancel and state.busy, ESC_CANCELS, cancel),
            (state.drafting_ahead and not state.busy, ESC_CANCELS_DRAFT, cancel),
            (waiting.count and not waiting.paused, ESC_PAUSES, pause),
            (prompt.edited, ESC_ENDS_EDIT, prompt.leave_edit),
            (prompt.editor.selected_text, ESC_DESELECTS, prompt.unselect),
            (prompt.editor.text.strip(), ESC_CLEARS, prompt.stash),
            (state.subagents and not state.busy, ESC_STOPS_SUBAGENTS, cancel),
            (is_second, ESC_REWINDS, partial(chat.run_command, "rewind")),
        )

    @property
    def step(self) -> EscStep | None:
        """The action that Esc performs now, if any."""
        for condition, label, do in self._steps():
            if condition:
                return EscStep(label, do)
        return None

    def escape(self) -> None:
        step = self.step
        self._escaped = None
        if step is not None:
            step.do()
            return
        self._escaped = self._clock()
        self._chat.show_status()
        self._chat.set_timer(REWIND_WITHIN, self._chat.show_status)

    def interrupt(self) -> None:
        """Handle Ctrl+C: copy, cancel, or quit if pressed twice."""
        chat = self._chat
        now = self._clock()
        front = chat.app.screen
        selection = front.get_selected_text() or ""
        if chat.is_active:
            selection = chat.prompt.editor.selected_text or selection
        step = interrupt_step(
            selection=bool(selection),
            running=chat.state.busy,
            cancelling=chat.state.cancelling,
            since_last=None if self._quit_warned is None else now - self._quit_warned,
        )
        match step:
            case "copy":
                clipboard.copy(chat.app, selection)
                chat.prompt.unselect()
                front.clear_selection()
                chat.remark(COPIED)
            case "cancel":
                chat.post_message(CancelRequested())
            case "quit":
                chat.post_message(CommandInvoked("quit", ""))
            case "warn":
                self._quit_warned = now
                count = chat.state.waiting.count
                kept = PROMPTS_KEPT.format(prompts=many(count, "prompt"))
                chat.remark(QUIT_WARNING + (kept if count else ""))
