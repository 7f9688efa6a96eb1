"""The prompt: the editor in its frame, its keys, and the prompts that wait above the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import TextArea
from textual.worker import Worker

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Piece, Span, Spans, in_reverse, piece, row
from foldline.tui.keys.commands import COMMANDS, Command, key_of
from foldline.tui.messages import QueueEdited
from foldline.tui.prompting.attachments import Attachments, PromptAttachments
from foldline.tui.prompting.completion import Candidate, Completer, CompletionList, FileFinder, Work
from foldline.tui.prompting.inputs import Recall
from foldline.tui.state import ChatState, Waiting
from foldline.tui.widgets.fields import Editor
from foldline.tui.widgets.lines import Frame, Lines, edge, frame, hints_in, sides

if TYPE_CHECKING:
    from foldline.tui.prompting.vim_editing import VimEditing

QUEUE_ROWS = 5
"""Waiting prompts shown at once; one on a short screen, while the reader goes through them."""


def queue_rows(
    waiting: Waiting,
    marked: int | None,
    look: Frame,
    width: int,
    most: int = QUEUE_ROWS,
    *,
    asked: bool = False,
) -> list[list[Span]]:
    """The waiting prompts, one row each: the held one, then the queue; the marked one reversed. At most
    `most`, which leaves out the held one where there is room for one only. `asked`: a question about it
    waits for its answer.
    """
    pause = ((" ‖", "altered"),) if waiting.paused else ()

    def drawn(label: str, text: str, remark: Spans, *, is_marked: bool = False) -> list[Span]:
        left = [Piece(((f"{label:<4}", "muted"), *pause)), piece(clean_line(text), gap=1, cut="right")]
        # The text gives way to the note, except where there is hardly room for either.
        right = [Piece(remark, rank=0 if width >= 70 else 1)] if remark else []
        line = row(left, right, max(width - 2, 0))
        return sides(look, in_reverse(line) if is_marked else line, width)

    rows: list[list[Span]] = []
    if waiting.held is not None and most > 1:
        note = "waits for your answer" if asked else "sent after compacting"
        rows.append(drawn("held", waiting.held, (("not sent" if waiting.paused else note, "muted"),)))
    room = most - len(rows)
    first = max(0, min(marked or 0, len(waiting.queued) - room))
    shown = waiting.queued[first : first + room]
    for number, text in enumerate(shown, start=first):
        remark: Spans = ()
        hidden = len(waiting.queued) - len(shown)
        if number == marked:
            remark = hints_in(f"{key_of('send')} swaps · {key_of('queue-delete')} stashes", "muted")
        elif number == first + len(shown) - 1 and marked is None:
            edit, send = key_of("recall-older"), key_of("send")
            note = f"{send} sends them in order" if waiting.paused else f"{edit} from the first line: edit"
            remark = (*(((f"{hidden} more · ", "muted"),) if hidden else ()), *hints_in(note, "muted"))
        rows.append(drawn(str(number + 1), text, remark, is_marked=number == marked))
    return rows


def waiting_words(waiting: Waiting) -> str:
    """`1 held, 2 queued`; with `‖` while paused; empty where nothing waits."""
    parts = ["1 held"] if waiting.held is not None else []
    if waiting.queued:
        parts.append(f"{len(waiting.queued)} queued")
    return ("‖ " if parts and waiting.paused else "") + ", ".join(parts)


Queue = tuple[str, ...]


def moved(queue: Queue, number: int, step: int) -> tuple[Queue, int]:
    """The queue with one prompt moved by a place, and where it is then."""
    to = min(max(number + step, 0), len(queue) - 1)
    rest = without(queue, number)
    return (*rest[:to], queue[number], *rest[to:]), to


def without(queue: Queue, number: int) -> Queue:
    """The queue without one prompt."""
    return (*queue[:number], *queue[number + 1 :])


Shell = Literal["seen", "aside"]
"""A text that is a command for the shell: whether the model sees what comes of it."""
_ROOMY = 100
"""Columns from which every word has room."""


def shell_of(line: str) -> Shell | None:
    """What the first line of a text says of it; None for a prompt."""
    return ("aside" if line.startswith("!!") else "seen") if line.startswith("!") else None


def frame_words(
    state: ChatState, *, marks: bool, edits: bool, shell: Shell | None, width: int
) -> tuple[Spans, Spans]:
    """The words at the left and at the right end. `marks`: a queued prompt is marked; `edits`: an earlier one
    is edited."""
    waits, send = state.waiting, key_of("send")
    if marks:
        enter = f"{send} swaps"
    elif edits:
        enter = f"{send} goes back, sends"
    elif waits.paused and waits.count:
        enter = f"{send} sends all, in order"
    elif shell is not None:
        sees = "sees it" if shell == "seen" else "does not see it"
        words = f"{send} {'queues' if state.busy else 'runs'} it in your shell · the model {sees}"
        completes = hints_in(f"{key_of('complete')} completes files", "muted")
        return hints_in(words, "muted"), completes if width >= _ROOMY else ()
    else:
        enter = f"{send} {'queues' if state.busy else 'sends'}"
    newline = f"{key_of('newline')} new line"
    if width < _ROOMY:
        return hints_in(f"{enter} · / @ !", "muted"), hints_in(newline, "muted")
    begins = f"{enter} · {newline} · / commands · @ files · ! shell"
    return hints_in(begins, "muted"), hints_in(f"{key_of('editor')} editor", "muted")


QUEUE_FROM = 30
"""Rows of the screen from which waiting prompts are listed."""
_ROWS_BELOW = 3
"""Rows below the prompt: meter, status row and hints."""
TEXT_LINES = 8
"""Lines of text shown at once."""

_IN_QUEUE: Final = ("queue-up", "queue-down", "queue-delete")
"""What its keys do to the marked prompt; without one they are the editor's."""


class Prompt(Lines):
    """Text and queue grow upwards; the lower edge stays where it is."""

    DEFAULT_CSS = "Prompt { height: auto; }"

    @dataclass
    class Submitted(Message):
        """Text for the model. The editor is empty again."""

        text: str

    class FactsChanged(Message):
        """What Esc would do may be another thing now."""

    class EnteredNothing(Message):
        """Enter in an empty prompt, where nothing waits to be sent."""

    def __init__(
        self,
        completion: CompletionList,
        root: Path | None,
        remark: Callable[[str], None],
        run: Callable[[str, str], None],
    ) -> None:
        """`root` is the folder whose files `@` completes, and pictures are named from. `remark` says why
        Enter did nothing, `run` carries out a command with what was typed behind it."""
        super().__init__(id="prompt")
        self._remark, self._run_command = remark, run
        self._state = ChatState()
        self._root = root
        self._tall = True
        self._active = True
        own = [command for command in COMMANDS if command.place == "prompt"]
        self._own_keys = {key: command.id for command in own for key in command.pressed}
        """The keys that mean something in the editor only, and what."""
        self._recall = Recall()
        self._marked: int | None = None
        self._shell: Shell | None = None
        self.attaching = PromptAttachments(root, remark, partial(self._in_background, "pictures"))
        self.editor = self.attaching.editor = Editor(self._take_key, self.attaching.take_paste)
        self.editor.delete_whole = self.attaching.delete_placeholder
        finder = FileFinder(root, self.refresh_completion, partial(self._in_background, "files"))
        self.completer = Completer(self.editor, completion, finder)
        self.edited: tuple[int, int] | None = None
        """The entry of an earlier prompt that is being edited in place, and which of the prompts it is."""
        self.vim: VimEditing | None = None
        """Where the setting `vim` is on."""

    def on_mount(self) -> None:
        if getattr(self.app, "vim", False):
            from foldline.tui.prompting.vim_editing import VimEditing

            self.vim = VimEditing(self.editor, (self._older, self._newer), self._mode_changed)

    def compose(self) -> ComposeResult:
        yield self.editor

    # --- What the screen tells it ---------------------------------------------------------------------

    def show(self, state: ChatState) -> None:
        self._state = self.completer.state = state
        if self._marked is not None:
            count = len(state.waiting.queued)
            self._mark(min(self._marked, count - 1) if count else None)
        self._arrange()

    def set_room(self, height: int) -> None:
        """Fit the height of the screen: a short one lists no waiting prompts and shows little text."""
        self._tall = height >= QUEUE_FROM
        self.editor.styles.max_height = min(height // 3, TEXT_LINES) if height >= 18 else height // 6
        self._arrange()

    def set_active(self, active: bool) -> None:
        """Whether this screen is on top: under another one the frame is light."""
        self._active = active
        self._show_cursor()
        self.update()

    def set_history(self, prompts: Sequence[str]) -> None:
        """Earlier prompts, oldest first, for ↑."""
        self._recall = Recall((*prompts, *self._recall.items))  # what was sent before these were known
        if prompts:
            self.editor.placeholder = ""

    def give_back(self, text: str) -> bool:
        """Put a prompt that was not sent back into the editor; False where that holds other text."""
        if self.editor.text.strip():
            return False
        self.attaching.put(text)
        return True

    def enter(self) -> None:
        """The keys in the frame are the editor's."""
        self.screen.set_focus(self.editor)

    @property
    def recalled(self) -> tuple[str, ...]:
        """Earlier prompts, oldest first."""
        return self._recall.items

    def take_earlier(self, text: str) -> None:
        """Make an earlier prompt the text; what was being written is put aside."""
        if self.editor.text.strip():
            self.stash()
        self.attaching.put(text)

    def search_earlier(self) -> None:
        """Open the search in earlier prompts: those of this session, then those of the folder's others."""
        if self.vim is not None and self.vim.takes("ctrl+r"):
            return
        from foldline.tui.prompting.earlier import EarlierPrompts

        def take(number: str | None) -> None:
            if number is not None:
                self.take_earlier(search.text_of(number))

        if not isinstance(self.app.screen, EarlierPrompts):
            search = EarlierPrompts(self.recalled, self._root, above=self.size.height + _ROWS_BELOW)
            self.app.push_screen(search, take)

    @property
    def attachments(self) -> Attachments:
        """What the placeholders in prompts stand for."""
        return self.attaching.attachments

    @property
    def in_queue(self) -> bool:
        """Whether a queued prompt is marked."""
        return self._marked is not None

    @property
    def is_untouched(self) -> bool:
        """Whether it has the focus, and nothing is being written or chosen in it."""
        busy = self.editor.text.strip() or self.in_queue or self.completer.open
        return self.editor.has_focus and not busy

    @property
    def between_modes(self) -> bool:
        """Whether Esc leads to Vim's normal mode."""
        return self.vim is not None and not self.vim.idle and self.editor.has_focus and not self.in_queue

    def to_normal_mode(self) -> None:
        if self.vim is not None:
            self.vim.escape()

    @property
    def _takes_commands(self) -> bool:
        """Whether letters are commands, not text."""
        return self.vim is not None and self.vim.commands

    def _mode_changed(self) -> None:
        self.leave_queue()
        self._show_cursor()
        self.update()
        self.refresh_completion()

    def leave_queue(self) -> None:
        self._mark(None)

    def close_completion(self) -> None:
        self.completer.close()
        self.post_message(self.FactsChanged())

    def unselect(self) -> None:
        self.editor.move_cursor(self.editor.cursor_location)

    def stash(self) -> None:
        """Put the text aside; ↑ returns it."""
        self._recall = self._recall.with_item(self.editor.text)
        self.editor.put("")

    def edit(self, index: int, number: int, text: str) -> None:
        """Edit an earlier prompt in place: what is sent next takes its place."""
        self.take_earlier(text)
        self.edited = index, number
        self.update()

    def leave_edit(self) -> None:
        """Send what comes next as a prompt of its own; the text is put aside."""
        self.edited = None
        self.stash()
        self.update()

    def refresh_completion(self) -> None:
        """Look again for what completes the word at the cursor: after typing, and when files became known."""
        if self._takes_commands:
            self.completer.hide()
        else:
            self.completer.refresh()
        self.post_message(self.FactsChanged())

    def complete(self) -> bool:
        """Take what is offered or, behind a `!`, offer files; False where there is nothing to complete."""
        if not self.editor.has_focus or self._takes_commands:
            return False
        taken = self.completer.take()
        self.attaching.attach_soon()
        return taken or self.completer.ask()

    def pick(self, candidate: Candidate) -> None:
        """Take the completion that was clicked on."""
        self.completer.put(candidate)
        self.attaching.attach_soon()

    def _in_background(self, group: str, work: Work) -> None:
        _: Worker[object] = self.run_worker(work, group=group, exclusive=True)

    # --- Keys -----------------------------------------------------------------------------------------

    async def _take_key(self, key: str) -> bool:
        if self.completer.open and self._completion_key(key):
            return True
        if self.vim is not None and self.vim.takes(key):
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
            self._run_command("end", "")  # the transcript's end is meant
            return True
        if self._marked is not None and key not in ("left", "right"):
            self.leave_queue()
        return False

    def _completion_key(self, key: str) -> bool:
        match key:
            case "up" | "down":
                self.completer.move(-1 if key == "up" else 1)
            case "enter":
                return self.completer.take(first=False)
            case _:
                return False
        return True

    async def _enter(self) -> None:
        if self._marked is not None:
            self._change_places(self._marked)
            return
        if self._continues():
            return
        from foldline.tui.prompting import inputs  # by now: nothing was entered on the first screen

        text = self.editor.text
        match inputs.parse_input(text, [each.id for each in self._state.own_commands]):
            case inputs.Nothing():
                self._resume_queue()
            case inputs.PromptText():
                if await self.attaching.attach_named():
                    self._send(self.editor.text)
            case inputs.ShellCall():
                self._sent(text)
                self.post_message(self.Submitted(text.rstrip()))
            case inputs.NoCommand():
                self._remark("Behind ! stands a command for your shell; behind !! the model does not see it")
            case inputs.UnknownSlash() as unknown:
                self._remark(f"{unknown} Type / to see what there is")
            case inputs.SlashCall(command=command, argument=argument):
                self._enter_command(text, command, argument)

    def _resume_queue(self) -> None:
        waiting = self._state.waiting
        if waiting.paused and waiting.count:
            self.post_message(QueueEdited(waiting.queued, waiting.queued, paused=False))
        else:
            self.post_message(self.EnteredNothing())

    def _enter_command(self, text: str, command: Command, argument: str) -> None:
        if argument and not command.argument:
            self._remark(f"/{command.slash} takes nothing behind it")
        elif not command.works(self._state):
            self._remark(f"/{command.slash} does nothing now: Esc cancels what runs")
        else:
            self._sent(text)
            self._run_command(command.id, argument)

    def _continues(self) -> bool:
        """Enter behind a backslash begins a new line in its place; to a shell both mean that, so it has both.
        A backslash behind another one is text."""
        line, column = self.editor.cursor_location
        before = self.editor.document.get_line(line)[:column]
        if self.editor.selected_text or (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return False
        start = column if shell_of(self.editor.document.get_line(0)) else column - 1
        self.editor.move_cursor(self.editor.replace("\n", (line, start), (line, column)).end_location)
        return True

    def _send(self, text: str) -> None:
        if not self.attaching.in_vain(text, self._state.model):
            self._sent(text)
            self.post_message(self.Submitted(text.rstrip()))

    def _sent(self, text: str) -> None:
        self.editor.placeholder = ""
        self._recall = self._recall.with_item(text)
        self.completer.hide()
        self.editor.load_text("")
        if self.vim is not None:
            self.vim.begin()

    def _change_places(self, number: int) -> None:
        waiting, text = self._state.waiting, self.editor.text
        put = (text,) if text.strip() else ()
        after = (*waiting.queued[:number], *put, *waiting.queued[number + 1 :])
        self.editor.put(waiting.queued[number])
        self.leave_queue()
        self.post_message(QueueEdited(waiting.queued, after, waiting.paused))

    def _change_queue(self, command: str, number: int) -> None:
        """Move the marked prompt, or put it aside, where ↑ finds it again."""
        waiting = self._state.waiting
        match command:
            case "queue-delete":
                self._recall = self._recall.with_item(waiting.queued[number])
                after, number = without(waiting.queued, number), min(number, len(waiting.queued) - 2)
            case "queue-up":
                after, number = moved(waiting.queued, number, -1)
            case _:
                after, number = moved(waiting.queued, number, 1)
        self._mark(number if after else None)
        self.post_message(QueueEdited(waiting.queued, after, waiting.paused))

    def _older(self) -> bool:
        if not self.editor.navigator.is_first_wrapped_line(self.editor.cursor_location):
            return False
        queued = self._state.waiting.queued
        if self._marked is not None:
            self._mark(max(self._marked - 1, 0))
        elif queued:
            self._mark(len(queued) - 1)
        else:
            self._go(self._recall.older(self.editor.text))
        return True

    def _newer(self) -> bool:
        if self._marked is not None:
            last = self._marked >= len(self._state.waiting.queued) - 1
            self._mark(None if last else self._marked + 1)
            return True
        if not self.editor.navigator.is_last_wrapped_line(self.editor.cursor_location):
            return False
        self._go(self._recall.newer())
        return True

    def _go(self, recall: Recall | None) -> None:
        if recall is not None:
            self._recall = recall
            self.attaching.put(recall.shown)

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _text_changed(self, event: Message) -> None:
        event.stop()
        self.refresh_completion()
        if (shell := shell_of(self.editor.document.get_line(0))) != self._shell:
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
        self.post_message(self.FactsChanged())  # the completion stands on the upper edge

    def _queue_rows(self) -> int:
        """How many waiting prompts are listed."""
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
        """A marked prompt has the one cursor there is."""
        selects = self.vim is not None and self.vim.selects
        self.editor.show_cursor = self._active and self._marked is None and not selects

    def lines(self, width: int) -> list[list[Span]]:
        look = frame(self.editor.has_focus and self._active)
        waiting = self._state.waiting
        mode = () if self.vim is None else ((f" · {clean_line(self.vim.words)}", "accent"),)
        title = ("prompt", "muted")
        if self.edited is not None:
            title = (f"editing prompt {self.edited[1]}", "altered")
        count = ((waiting_words(waiting), "altered" if waiting.paused else "text"),) if waiting.count else ()
        top = edge(look, True, (title, *mode), count, width)
        most = self._queue_rows()
        asked = self._state.asks_choice
        queue = queue_rows(waiting, self._marked, look, width, most, asked=asked) if most else []
        height = max(self.size.height - 2 - len(queue), 1)
        text = [sides(look, [(" ❯ ", "accent")] if row == 0 else [], width) for row in range(height)]
        marks, edits = self._marked is not None, self.edited is not None
        left, right = frame_words(self._state, marks=marks, edits=edits, shell=self._shell, width=width)
        return [top, *queue, *text, edge(look, False, left, right, width)]
