"""What Esc and Ctrl+C do in the chat."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from foldline.context.numbers import many
from foldline.tui.keys.commands import interrupt_step
from foldline.tui.messages import CancelRequested, CommandInvoked, QueueEdited
from foldline.tui.terminal import clipboard

if TYPE_CHECKING:
    from foldline.tui.chat import ChatScreen

REWIND_WITHIN = 1.0
"""Seconds in which a second Esc on an empty prompt opens Rewind."""


class EscStep(NamedTuple):
    """Something Esc does."""

    holds: bool
    """Whether there is anything to do it to."""
    label: str
    """How the status row says so."""
    do: Callable[[], object]


class EscapeActions:
    """Takes one step outwards at a time; Esc never discards anything."""

    def __init__(self, chat: "ChatScreen", clock: Callable[[], float]) -> None:
        self._chat = chat
        self._clock = clock
        self._quit_warned: float | None = None
        self._escaped: float | None = None
        """When Esc was last pressed on an empty prompt."""

    def _steps(self) -> Iterator[EscStep]:
        """In order: the first that holds is taken."""
        chat, state, prompt, dock = self._chat, self._chat.state, self._chat.prompt, self._chat.dock
        waiting, asks = state.waiting, self._chat.dock.has_focus
        pause = partial(chat.post_message, QueueEdited(waiting.queued, waiting.queued, paused=True))
        cancel = partial(chat.post_message, CancelRequested())
        may_cancel = not state.cancelling
        elsewhere = chat.focused is not None and chat.focused is not prompt.editor
        again = self._escaped is not None and self._clock() - self._escaped <= REWIND_WITHIN
        yield EscStep(prompt.between_modes, "Esc to normal mode", prompt.to_normal_mode)
        yield EscStep(chat.completion.open, "Esc closes the list", prompt.close_completion)
        yield EscStep(chat.reading.searching, "Esc ends the search", chat.reading.end_search)
        yield EscStep(prompt.in_queue, "Esc leaves it, keeps the text", prompt.leave_queue)
        yield EscStep(dock.why.display, "Esc back to the question", dock.keep_why)
        yield EscStep(asks and state.asks_choice, "Esc leaves it undecided", dock.leave)
        yield EscStep(asks, "Esc declines this call", dock.leave)
        yield EscStep(elsewhere, "Esc to the prompt", partial(chat.set_focus, prompt.editor))
        yield EscStep(may_cancel and state.retry_at(self._clock()) is not None, "Esc gives up", cancel)
        yield EscStep(may_cancel and state.compacting is not None, "Esc cancels, prompts stay", cancel)
        yield EscStep(may_cancel and state.busy, "Esc cancels", cancel)
        yield EscStep(state.drafting_ahead and not state.busy, "Esc cancels the draft", cancel)
        yield EscStep(waiting.count > 0 and not waiting.paused, "Esc pauses the queue", pause)
        yield EscStep(prompt.edited is not None, "Esc ends the edit, ↑ returns the text", prompt.leave_edit)
        yield EscStep(bool(prompt.editor.selected_text), "Esc unselects", prompt.unselect)
        yield EscStep(bool(prompt.editor.text.strip()), "Esc stashes it, ↑ returns it", prompt.stash)
        yield EscStep(bool(state.subagents) and not state.busy, "Esc ends the subagents", cancel)
        yield EscStep(again, "Esc again: rewind", partial(chat.run_command, "rewind"))

    @property
    def step(self) -> EscStep | None:
        """What Esc would do now."""
        return next((step for step in self._steps() if step.holds), None)

    def escape(self) -> None:
        step = self.step
        self._escaped = self._clock() if step is None else None
        if step is not None:
            step.do()
        else:  # a second Esc soon after rewinds: the status says so until then
            self._chat.show_status()
            self._chat.set_timer(REWIND_WITHIN, self._chat.show_status)

    def interrupt(self) -> None:
        """Ctrl+C: copy, cancel, or quit at the second time."""
        chat = self._chat
        now = self._clock()
        front = chat.app.screen
        typed = chat.prompt.editor.selected_text if front is chat else ""
        selected = typed or front.get_selected_text() or ""
        step = interrupt_step(
            selection=bool(selected),
            running=chat.state.busy,
            cancelling=chat.state.cancelling,
            since_last=None if self._quit_warned is None else now - self._quit_warned,
        )
        match step:
            case "copy":
                clipboard.copy(chat.app, selected)
                chat.prompt.unselect()
                front.clear_selection()
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
