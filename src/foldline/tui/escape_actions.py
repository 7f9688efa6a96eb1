"""What Esc and Ctrl+C do in the chat."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from foldline.context.numbers import many
from foldline.tui.keys.escape import (
    REWIND_WITHIN,
    EscFacts,
    EscStep,
    InterruptFacts,
    escape_step,
    interrupt_step,
)
from foldline.tui.messages import CancelRequested, CommandInvoked, QueueEdited
from foldline.tui.terminal import clipboard

if TYPE_CHECKING:
    from foldline.tui.chat import ChatScreen


class EscapeActions:
    """Gathers what the table of `keys/escape.py` asks, and carries out its answer."""

    def __init__(self, chat: "ChatScreen", clock: Callable[[], float]) -> None:
        self._chat = chat
        self._clock = clock
        self._quit_warned: float | None = None
        self._escaped: float | None = None
        """When Esc was last pressed on an empty prompt."""

    @property
    def step(self) -> EscStep:
        """What Esc would do now."""
        chat, state = self._chat, self._chat.state
        return escape_step(
            EscFacts(
                completion_open=chat.completion.open,
                searching=chat.reading.searching,
                in_queue=chat.prompt.in_queue,
                choice_focused=chat.dock.has_focus and state.asks_choice,
                question_focused=chat.dock.has_focus and not state.asks_choice,
                panel_focused=chat.focused is not None and chat.focused is not chat.prompt.editor,
                retrying=state.retry_at(self._clock()) is not None,
                compacting=state.compacting is not None,
                running=state.busy,
                cancelling=state.cancelling,
                drafting_ahead=state.drafting_ahead,
                queue_waits=state.waiting.count > 0 and not state.waiting.paused,
                selection=chat.prompt.has_selection,
                text=bool(chat.prompt.editor.text.strip()),
                again=self._escaped is not None and self._clock() - self._escaped <= REWIND_WITHIN,
            )
        )

    def escape(self) -> None:
        chat, waiting = self._chat, self._chat.state.waiting
        action = self.step.action
        self._escaped = self._clock() if action == "none" else None
        carry_out: dict[str, Callable[[], object]] = {
            "close-completion": chat.prompt.close_completion,
            "end-search": chat.reading.end_search,
            "leave-queue": chat.prompt.leave_queue,
            "leave-choice": partial(chat.dock.choose, ""),
            "decline": partial(chat.dock.answer, "deny"),
            "to-prompt": partial(chat.set_focus, chat.prompt.editor),
            "cancel": partial(chat.post_message, CancelRequested()),
            "pause": partial(chat.post_message, QueueEdited(waiting.queued, waiting.queued, paused=True)),
            "unselect": chat.prompt.unselect,
            "stash": chat.prompt.stash,
            "rewind": partial(chat.run_command, "rewind"),
            "none": self._wait_for_second,
        }
        carry_out[action]()

    def _wait_for_second(self) -> None:
        """A second Esc soon after rewinds: the status says so until then."""
        self._chat.show_status()
        self._chat.set_timer(REWIND_WITHIN, self._chat.show_status)

    def interrupt(self) -> None:
        """Ctrl+C: copy, cancel, or quit at the second time."""
        chat = self._chat
        now = self._clock()
        selected = chat.prompt.editor.selected_text or chat.get_selected_text() or ""
        facts = InterruptFacts(
            selection=bool(selected),
            running=chat.state.busy,
            cancelling=chat.state.cancelling,
            since_last=None if self._quit_warned is None else now - self._quit_warned,
        )
        match interrupt_step(facts):
            case "copy":
                clipboard.copy(chat.app, selected)
                chat.prompt.unselect()
                chat.clear_selection()
                chat.remark("Copied")
            case "cancel":
                chat.post_message(CancelRequested())
            case "quit":
                chat.post_message(CommandInvoked("quit", ""))
            case "warn":
                self._quit_warned = now
                count = chat.state.waiting.count
                waits = f"; {many(count, 'prompt waits', 'prompts wait')} here for next time"
                chat.remark(f"Ctrl+C again quits{waits if count else ''}")
