"""The prompt: the framed editor below the queued prompts.

Also handles their key commands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import TextArea
from textual.worker import Worker

from foldline.frontend.commands import COMMANDS, ChatCommand, key_of
from foldline.frontend.inputs import PromptHistory
from foldline.frontend.state import ChatState, Waiting
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.tui.look.cells import RowPiece, Span, Spans, in_reverse, piece, row
from foldline.tui.look.fields import Editor
from foldline.tui.look.lines import Frame, LinesWidget, edge, frame, hints_in, sides
from foldline.tui.messages import QueueEdited
from foldline.tui.prompting.attachments import Attacher, Attachments
from foldline.tui.prompting.completion import Completer, Completion, CompletionList
from foldline.tui.prompting.file_finder import FileFinder, Work

QUEUE_ROWS = 5
"""Maximum number of rows for queued prompts."""
NOT_SENT: Final = "not sent"
HELD: Final = "sent after compacting"
HELD_FOR_ANSWER: Final = "waits for your answer"
EDIT_QUEUED: Final = "{send} edits it · {delete} removes it"
SEND_QUEUE: Final = "{send} sends them in order"
MARK_QUEUED: Final = "{older} on the first line to edit"


def queue_rows(
    waiting: Waiting,
    marked: int | None,
    look: Frame,
    width: int,
    most: int = QUEUE_ROWS,
    *,
    asks_user: bool = False,
) -> list[list[Span]]:
    """Draw the held prompt and the queued prompts, one row each.

    Args:
        marked: Index of the selected prompt, which is drawn in reverse video.
        most: Maximum number of rows. If it is 1, the held prompt is left out.
        asks_user: Whether the held prompt waits for the user's answer.
    """
    pause = ((" ‖", "altered"),) if waiting.paused else ()

    def draw(label: str, text: str, remark: Spans, is_marked: bool) -> list[Span]:
        pieces = [
            RowPiece(((f"{label:<4}", "muted"), *pause)),
            piece(clean_line(text), gap=1, cut="right"),
        ]
        # On a narrow screen the remark is dropped first; otherwise the text is shortened.
        right = [RowPiece(remark, rank=0 if width >= 70 else 1)] if remark else []
        line = row(pieces, right, max(width - 2, 0))
        return sides(look, in_reverse(line) if is_marked else line, width)

    rows: list[list[Span]] = []
    if waiting.held is not None and most > 1:
        note = HELD_FOR_ANSWER if asks_user else HELD
        remark: Spans = ((NOT_SENT if waiting.paused else note, "muted"),)
        rows.append(draw("held", waiting.held, remark, False))
    room = most - len(rows)
    first = max(0, min(marked or 0, len(waiting.queued) - room))
    shown = waiting.queued[first : first + room]
    hidden = len(waiting.queued) - len(shown)
    for number, text in enumerate(shown, start=first):
        remark = ()
        if number == marked:
            hint = EDIT_QUEUED.format(
                send=key_of("send"), delete=key_of("queue-delete")
            )
            remark = hints_in(hint, "muted")
        elif number == first + len(shown) - 1 and marked is None:
            hint = SEND_QUEUE if waiting.paused else MARK_QUEUED
            remark = hints_in(
                hint.format(send=key_of("send"), older=key_of("recall-older")), "muted"
            )
            if hidden:
                remark = ((f"{hidden} more · ", "muted"), *remark)
        rows.append(draw(str(number + 1), text, remark, number == marked))
    return rows


def waiting_words(waiting: Waiting) -> str:
    """Return the number of waiting prompts, such as `1 held, 2 queued`.

    The string starts with `‖` if the queue is paused, and is empty if no prompt is waiting.
    """
    parts = ["1 held"] if waiting.held is not None else []
    if waiting.queued:
        parts.append(f"{len(waiting.queued)} queued")
    return ("‖ " if parts and waiting.paused else "") + ", ".join(parts)


Queue = tuple[str, ...]


def move_prompt(queue: Queue, number: int, step: int) -> tuple[Queue, int]:
    """Return the queue with a prompt moved by `step`, and the prompt's new index."""
    target = min(max(number + step, 0), len(queue) - 1)
    others = without_prompt(queue, number)
    return (*others[:target], queue[number], *others[target:]), target


def without_prompt(queue: Queue, number: int) -> Queue:
    """Return the queue without the prompt at index `number`."""
    return (*queue[:number], *queue[number + 1 :])


Shell = Literal["seen", "hidden"]
"""Whether the model sees the output of a shell command."""
REWINDS: Final = "rewinds and sends"
RUNS_SHELL: Final = "runs it in your shell"
QUEUES_SHELL: Final = "queues it for your shell"
SEES_OUTPUT: Final = "the model sees the output"
HIDES_OUTPUT: Final = "the model does not see the output"
_ROOMY = 100
"""Minimum width, in columns, at which all hints are shown."""


def shell_of(line: str) -> Shell | None:
    """Return whether the model sees a shell command's output.

    `line` contains the command. For other text, returns None.
    """
    if not line.startswith("!"):
        return None
    return "hidden" if line.startswith("!!") else "seen"


def frame_hints(
    state: ChatState, *, marks: bool, edits: bool, shell: Shell | None, width: int
) -> tuple[Spans, Spans]:
    """Return the hints for the left and right of the frame.

    Args:
        marks: Whether a queued prompt is selected.
        edits: Whether an earlier prompt is being edited in place.
    """
    waiting = state.waiting
    act = "queues" if state.busy else "sends"
    if marks:
        act = "edits it"
    elif edits:
        act = REWINDS
    elif waiting.paused and waiting.count:
        act = f"sends {many(waiting.count, 'queued prompt')}"
    elif shell is not None:
        act = QUEUES_SHELL if state.busy else RUNS_SHELL
        sees = SEES_OUTPUT if shell == "seen" else HIDES_OUTPUT
        completes = hints_in(f"{key_of('complete')} completes files", "muted")
        words = f"{key_of('send')} {act} · {sees}"
        return hints_in(words, "muted"), completes if width >= _ROOMY else ()
    enter = f"{key_of('send')} {act}"
    newline = f"{key_of('newline')} new line"
    if width < _ROOMY:
        return hints_in(f"{enter} · / @ !", "muted"), hints_in(newline, "muted")
    words = f"{enter} · {newline} · / commands · @ files · ! shell"
    return hints_in(words, "muted"), hints_in(f"{key_of('editor')} editor", "muted")


QUEUE_FROM = 30
"""Minimum screen height, in rows, at which queued prompts are always listed."""
_ROWS_BELOW = 3
"""Number of rows below the prompt: the meter, the status row and the hints."""
TEXT_LINES = 8
"""Maximum number of visible lines of text."""

_IN_QUEUE: Final = ("queue-up", "queue-down", "queue-delete")
"""Commands on the selected queued prompt. Without a selection, their keys edit the text."""
SHELL_HINT: Final = (
    "Type a shell command after !, or after !! to hide it from the model"
)
UNKNOWN_COMMAND: Final = "{error} Type / to list the commands"
NO_ARGUMENT: Final = "/{command} takes no argument"
NOT_NOW: Final = "/{command} is not available now"


class PromptBox(LinesWidget):
    """The framed editor below the queued prompts.

    The box grows upwards.
    """

    DEFAULT_CSS = "PromptBox { height: auto; }"

    @dataclass
    class Submitted(Message):
        """The user submitted text for the model."""

        text: str

    class FactsChanged(Message):
        """The action of Esc may have changed.

        Posted when the prompt's state changes.
        """

    class EmptySubmitted(Message):
        """Enter was pressed in an empty prompt while no prompt was waiting."""

    def __init__(
        self,
        completion: CompletionList,
        root: Path | None,
        remark: Callable[[str], None],
        run: Callable[[str, str], None],
    ) -> None:
        """Create the prompt.

        Args:
            root: Folder in which `@` completes files and named images are found.
            remark: Shows a message that explains why Enter had no effect.
            run: Runs a command with its argument.
        """
        super().__init__(id="prompt")
        self._remark = remark
        self._run_command = run
        self._state = ChatState()
        self._root = root
        self._tall = True
        self._active = True
        own_commands = [command for command in COMMANDS if command.place == "prompt"]
        self._own_keys = {
            key: command.id for command in own_commands for key in command.pressed
        }
        """The prompt's commands, by key."""
        self._history = PromptHistory()
        self._marked: int | None = None
        self._shell: Shell | None = None
        self.attacher = Attacher(root, remark, partial(self._in_background, "pictures"))
        self.editor = self.attacher.editor = Editor(
            self._take_key, self.attacher.take_paste
        )
        self.editor.delete_placeholder = self.attacher.delete_placeholder
        finder = FileFinder(
            root, self.refresh_completion, partial(self._in_background, "files")
        )
        self.completer = Completer(self.editor, completion, finder)
        self.edited: tuple[int, int] | None = None
        """Entry index and number of the prompt being edited in place."""

    def compose(self) -> ComposeResult:
        yield self.editor

    # --- Called by the screen -------------------------------------------------------------------------

    def show(self, state: ChatState) -> None:
        self._state = self.completer.state = state
        if self._marked is not None:
            count = len(state.waiting.queued)
            self._mark(min(self._marked, count - 1) if count else None)
        self._arrange()

    def set_room(self, height: int) -> None:
        """Adapt to the height of the screen.

        On a low screen, the prompt has fewer lines, and the queue is not listed.
        """
        self._tall = height >= QUEUE_FROM
        self.editor.styles.max_height = (
            min(height // 3, TEXT_LINES) if height >= 18 else height // 6
        )
        self._arrange()

    def set_active(self, active: bool) -> None:
        """Set whether the screen is the active one.

        If it is not, the frame is drawn with thin lines.
        """
        self._active = active
        self._show_cursor()
        self.update()

    def set_history(self, prompts: Sequence[str]) -> None:
        """Insert earlier prompts before those that were already sent.

        `prompts` are oldest first.
        """
        self._history = PromptHistory((*prompts, *self._history.items))
        if prompts:
            self.editor.placeholder = ""

    def give_back(self, text: str) -> bool:
        """Put an unsent prompt back into the editor.

        Return False if the editor contains other text.
        """
        if self.editor.text.strip():
            return False
        self.attacher.put(text)
        return True

    def enter(self) -> None:
        """Focus the editor."""
        self.screen.set_focus(self.editor)

    def take_earlier(self, text: str) -> None:
        """Stash the current text, and put an earlier prompt into the editor."""
        if self.editor.text.strip():
            self.stash()
        self.attacher.put(text)

    def search_earlier(self) -> None:
        """Open the picker that searches earlier prompts."""
        from foldline.tui.prompting.earlier import EarlierPrompts

        def take(number: str | None) -> None:
            if number is not None:
                self.take_earlier(search.text_of(number))

        if not isinstance(self.app.screen, EarlierPrompts):
            search = EarlierPrompts(
                self._history.items, self._root, above=self.size.height + _ROWS_BELOW
            )
            self.app.push_screen(search, take)

    @property
    def attachments(self) -> Attachments:
        """The images and pasted texts, by placeholder."""
        return self.attacher.attachments

    @property
    def in_queue(self) -> bool:
        """Whether a queued prompt is selected."""
        return self._marked is not None

    @property
    def is_untouched(self) -> bool:
        """Whether the editor is focused and empty.

        There must also be no selected queued prompt, and no open list.
        """
        if self.editor.text.strip() or self.in_queue or self.completer.is_open:
            return False
        return self.editor.has_focus

    def leave_queue(self) -> None:
        self._mark(None)

    def close_completion(self) -> None:
        self.completer.close()
        self.post_message(self.FactsChanged())

    def unselect(self) -> None:
        self.editor.move_cursor(self.editor.cursor_location)

    def stash(self) -> None:
        """Move the text into the history, from which ↑ recalls it."""
        self._history = self._history.with_item(self.editor.text)
        self.editor.put("")

    def edit(self, index: int, number: int, text: str) -> None:
        """Edit an earlier prompt in place.

        The next prompt that is sent replaces it.
        """
        self.take_earlier(text)
        self.edited = index, number
        self.update()

    def leave_edit(self) -> None:
        """Stop editing in place, and stash the text."""
        self.edited = None
        self.stash()
        self.update()

    def refresh_completion(self) -> None:
        """Update the completion of the word at the cursor."""
        self.completer.refresh()
        self.post_message(self.FactsChanged())

    def complete(self) -> bool:
        """Insert the selected completion, or list paths after `!`.

        Returns:
            Whether one of these was possible.
        """
        if not self.editor.has_focus:
            return False
        accepted = self.completer.accept()
        self.attacher.attach_soon()
        return accepted or self.completer.ask()

    def pick(self, completion: Completion) -> None:
        """Insert the clicked completion."""
        self.completer.put(completion)
        self.attacher.attach_soon()

    def _in_background(self, group: str, work: Work) -> None:
        _: Worker[object] = self.run_worker(work, group=group, exclusive=True)

    # --- Keys -----------------------------------------------------------------------------------------

    async def _take_key(self, key: str) -> bool:
        if self.completer.is_open and self._completion_key(key):
            return True
        match self._own_keys.get(key):
            case "send":
                await self._enter()
                return True
            case "newline":
                self.editor.replace("\n", *self.editor.selection)
                return True
            case "recall-older":
                return self._older()
            case "recall-newer":
                return self._newer()
            case command if command in _IN_QUEUE and self._marked is not None:
                self._change_queue(command, self._marked)
                return True
        if key == "end" and self.editor.cursor_location == self.editor.document.end:
            self._run_command("end", "")  # goes to the end of the transcript
            return True
        if self._marked is not None and key not in ("left", "right"):
            self.leave_queue()
        return False

    def _completion_key(self, key: str) -> bool:
        match key:
            case "up" | "down":
                self.completer.move(-1 if key == "up" else 1)
            case "enter":
                return self.completer.accept(first=False)
            case _:
                return False
        return True

    async def _enter(self) -> None:
        if self._marked is not None:
            self._swap_with_queued(self._marked)
            return
        if self._continues_line():
            return
        # Imported here because the first screen does not need it.
        from foldline.frontend import inputs

        text = self.editor.text
        match inputs.parse_input(
            text, [command.name for command in self._state.own_commands]
        ):
            case inputs.BlankInput():
                self._resume_queue()
            case inputs.PromptText():
                if await self.attacher.attach_named():
                    self._send(self.editor.text)
            case inputs.ShellCall():
                self._submit(text)
            case inputs.EmptyShellCall():
                self._remark(SHELL_HINT)
            case inputs.UnknownSlash() as unknown:
                self._remark(UNKNOWN_COMMAND.format(error=unknown))
            case inputs.SlashCall(command=command, argument=argument):
                self._enter_command(text, command, argument)

    def _resume_queue(self) -> None:
        waiting = self._state.waiting
        if waiting.paused and waiting.count:
            self.post_message(QueueEdited(waiting.queued, waiting.queued, paused=False))
        else:
            self.post_message(self.EmptySubmitted())

    def _enter_command(self, text: str, command: ChatCommand, argument: str) -> None:
        if argument and not command.argument:
            self._remark(NO_ARGUMENT.format(command=command.slash))
        elif not command.works(self._state):
            self._remark(NOT_NOW.format(command=command.slash))
        else:
            self._reset(text)
            self._run_command(command.id, argument)

    def _continues_line(self) -> bool:
        """Start a new line if the cursor is after a backslash.

        The backslash is removed, except from a shell command. An escaped backslash has no effect.

        Returns:
            Whether a new line was started.
        """
        line, column = self.editor.cursor_location
        before = self.editor.document.get_line(line)[:column]
        backslashes = len(before) - len(before.rstrip("\\"))
        if self.editor.selected_text or backslashes % 2 == 0:
            return False
        start = column if shell_of(self.editor.document.get_line(0)) else column - 1
        self.editor.move_cursor(
            self.editor.replace("\n", (line, start), (line, column)).end_location
        )
        return True

    def _send(self, text: str) -> None:
        if not self.attacher.refuses_pictures(text, self._state.model):
            self._submit(text)

    def _submit(self, text: str) -> None:
        self._reset(text)
        self.post_message(self.Submitted(text.rstrip()))

    def _reset(self, text: str) -> None:
        """Clear the editor after `text` was entered."""
        self.editor.placeholder = ""
        self._history = self._history.with_item(text)
        self.completer.hide()
        self.editor.load_text("")

    def _swap_with_queued(self, number: int) -> None:
        waiting = self._state.waiting
        text = self.editor.text
        queue = without_prompt(waiting.queued, number)
        if text.strip():
            queue = (*queue[:number], text, *queue[number:])
        self.editor.put(waiting.queued[number])
        self.leave_queue()
        self.post_message(QueueEdited(waiting.queued, queue, waiting.paused))

    def _change_queue(self, command: str, number: int) -> None:
        """Move the selected prompt in the queue, or stash it.

        Stashing removes the prompt from the queue.
        """
        waiting = self._state.waiting
        if command == "queue-delete":
            self._history = self._history.with_item(waiting.queued[number])
            queue = without_prompt(waiting.queued, number)
            number = min(number, len(queue) - 1)
        else:
            queue, number = move_prompt(
                waiting.queued, number, -1 if command == "queue-up" else 1
            )
        self._mark(number if queue else None)
        self.post_message(QueueEdited(waiting.queued, queue, waiting.paused))

    def _older(self) -> bool:
        if not self.editor.navigator.is_first_wrapped_line(self.editor.cursor_location):
            return False
        queued = self._state.waiting.queued
        if self._marked is not None:
            self._mark(max(self._marked - 1, 0))
        elif queued:
            self._mark(len(queued) - 1)
        else:
            self._go(self._history.older(self.editor.text))
        return True

    def _newer(self) -> bool:
        if self._marked is not None:
            last = self._marked >= len(self._state.waiting.queued) - 1
            self._mark(None if last else self._marked + 1)
            return True
        if not self.editor.navigator.is_last_wrapped_line(self.editor.cursor_location):
            return False
        self._go(self._history.newer())
        return True

    def _go(self, history: PromptHistory | None) -> None:
        if history is not None:
            self._history = history
            self.attacher.put(history.shown)

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _text_changed(self, event: Message) -> None:
        event.stop()
        self.refresh_completion()
        shell = shell_of(self.editor.document.get_line(0))
        if shell != self._shell:
            self._shell = shell
            self.update()

    # --- Drawing --------------------------------------------------------------------------------------

    def on_descendant_focus(self) -> None:
        self.update()

    def on_descendant_blur(self) -> None:
        self.completer.hide()
        self.update()

    def on_resize(self) -> None:
        self.update()
        self.post_message(
            self.FactsChanged()
        )  # the completion list moves with the prompt

    def _queue_rows(self) -> int:
        """The number of rows now available for queued prompts."""
        if self._tall:
            return QUEUE_ROWS
        return 0 if self._marked is None else 1

    def _arrange(self) -> None:
        waiting = self._state.waiting
        top = 1 + min(waiting.count, self._queue_rows())
        if self.editor.styles.margin.top != top:
            self.editor.styles.margin = (top, 2, 1, 4)
        self.update()

    def _mark(self, number: int | None) -> None:
        if number != self._marked:
            self._marked = number
            self._show_cursor()
            self._arrange()
            self.post_message(self.FactsChanged())

    def _show_cursor(self) -> None:
        """Show the cursor, except while a queued prompt is selected."""
        self.editor.show_cursor = self._active and self._marked is None

    def lines(self, width: int) -> list[list[Span]]:
        look = frame(self.editor.has_focus and self._active)
        waiting = self._state.waiting
        title: Spans = (("prompt", "muted"),)
        if self.edited is not None:
            title = ((f"editing prompt {self.edited[1]}", "altered"),)
        count = (
            ((waiting_words(waiting), "altered" if waiting.paused else "text"),)
            if waiting.count
            else ()
        )
        top = edge(
            look,
            True,
            title,
            count,
            width,
        )
        most = self._queue_rows()
        queue: list[list[Span]] = []
        if most:
            queue = queue_rows(
                waiting,
                self._marked,
                look,
                width,
                most,
                asks_user=self._state.asks_choice,
            )
        height = max(self.size.height - 2 - len(queue), 1)
        first_row = sides(look, [(" ❯ ", "accent")], width)
        text_rows = [first_row, *[sides(look, [], width)] * (height - 1)]
        marks = self._marked is not None
        edits = self.edited is not None
        hints, end_hints = frame_hints(
            self._state, marks=marks, edits=edits, shell=self._shell, width=width
        )
        return [
            top,
            *queue,
            *text_rows,
            edge(
                look,
                False,
                hints,
                end_hints,
                width,
            ),
        ]
