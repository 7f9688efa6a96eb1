"""The prompt: the editor in its frame, and the prompts that wait above the text."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import TextArea

from foldline.tui.blocks.cells import Span, Spans
from foldline.tui.commands import BY_ID, COMMANDS, Command, key_name
from foldline.tui.inputs import (
    Completing,
    Nothing,
    PromptText,
    SlashCall,
    UnknownSlash,
    completing,
    parse_input,
)
from foldline.tui.messages import QueueEdited
from foldline.tui.recall import Recall
from foldline.tui.state import ChatState, Waiting
from foldline.tui.widgets.completion import Candidate, CompletionList
from foldline.tui.widgets.editor import Editor
from foldline.tui.widgets.frames import edge, frame, sides
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.queue import QUEUE_ROWS, queue_rows, waiting_words

QUEUE_FROM = 30
"""Rows of the screen from which waiting prompts are listed."""
TEXT_LINES = 8
"""Lines of text shown at once."""

Find = Callable[[Completing], Sequence[Candidate]]

_KEYS: dict[str, str] = {
    key: command.id for command in COMMANDS if command.place == "prompt" for key in command.keys
}


class Prompt(Lines):
    """Text and queue grow upwards; the lower edge stays where it is."""

    DEFAULT_CSS: ClassVar[str] = """
    Prompt { height: auto; }
    """

    class Submitted(Message):
        """Text for the model. The editor is empty again."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class CommandTyped(Message):
        """A slash command was entered."""

        def __init__(self, command: Command, argument: str) -> None:
            super().__init__()
            self.command = command
            self.argument = argument

    class Refused(Message):
        """Enter did nothing, and why. The text is still there."""

        def __init__(self, sentence: str) -> None:
            super().__init__()
            self.sentence = sentence

    class FactsChanged(Message):
        """What Esc would do may be another thing now."""

    class EndWanted(Message):
        """`End` at the end of the text: the transcript's end is meant."""

    def __init__(self, find: Find, completion: CompletionList) -> None:
        super().__init__(id="prompt")
        self._find = find
        self._completion = completion
        self._state = ChatState()
        self._tall = True
        self._active = True
        self._recall = Recall()
        self._marked: int | None = None
        self._closed_at: str | None = None  # the word whose completion Esc closed
        self.editor = Editor(self._take_key)

    def compose(self) -> ComposeResult:
        yield self.editor

    # --- What the screen tells it ---------------------------------------------------------------------

    def show(self, state: ChatState) -> None:
        self._state = state
        if self._marked is not None:
            count = len(state.waiting.queued)
            self._mark(min(self._marked, count - 1) if count else None)
        self._arrange()

    def set_room(self, height: int) -> None:
        """The height of the screen: from 30 rows on the waiting prompts are listed, below only counted; the
        text has up to 8 lines, less on a short screen, so that something of the transcript is always seen."""
        self._tall = height >= QUEUE_FROM
        self.editor.styles.max_height = min(height // 3, TEXT_LINES) if height >= 18 else 2
        self._arrange()

    def set_active(self, active: bool) -> None:
        """Whether this screen is on top: under another one the frame is light."""
        self._active = active
        self.update()

    def set_history(self, prompts: Sequence[str]) -> None:
        """Earlier prompts, oldest first, for ↑."""
        self._recall = Recall(tuple(prompts))
        if prompts:
            self.editor.placeholder = ""

    def give_back(self, text: str) -> bool:
        """Put a prompt that was not sent back into the editor; False where that holds other text."""
        if self.editor.text.strip():
            return False
        self.editor.put(text)
        return True

    @property
    def in_queue(self) -> bool:
        """Whether a queued prompt is marked."""
        return self._marked is not None

    @property
    def has_selection(self) -> bool:
        return bool(self.editor.selected_text)

    def leave_queue(self) -> None:
        self._mark(None)

    def close_completion(self) -> None:
        self._closed_at = self._word_key()
        self._completion.close()
        self.post_message(self.FactsChanged())

    def unselect(self) -> None:
        self.editor.move_cursor(self.editor.cursor_location)

    def stash(self) -> None:
        """Put the text aside; ↑ returns it."""
        self._recall = self._recall.with_item(self.editor.text)
        self.editor.put("")

    def refresh_completion(self) -> None:
        """Look again for what completes the word at the cursor: after typing, and when files became known."""
        word = self._word()
        if word is None or self._word_key() == self._closed_at:
            self._completion.close()
            if word is None:
                self._closed_at = None
            return
        found = self._find(word)
        sign = "/" if word.kind == "command" else "@"
        exact = any(candidate.insert.strip() == sign + word.typed for candidate in found)
        self._completion.offer("commands" if word.kind == "command" else "files", () if exact else found)

    def take_completion(self) -> bool:
        """Put the marked completion in place of the typed word; False where there is none."""
        candidate, word = self._completion.marked, self._word()
        if candidate is None or word is None:
            return False
        line, column = self.editor.cursor_location
        self.editor.replace(candidate.insert, (line, word.start), (line, column))
        self.editor.move_cursor((line, word.start + len(candidate.insert)))
        self._completion.close()
        return True

    # --- Keys -----------------------------------------------------------------------------------------

    def _take_key(self, key: str) -> bool:
        if self._completion.open and self._completion_key(key):
            return True
        match _KEYS.get(key):
            case "send":
                self._enter()
                return True
            case "newline":
                self.editor.replace("\n", *self.editor.selection)
                return True
            case "recall-older":
                return self._older()
            case "recall-newer":
                return self._newer()
        if key == "end" and self.editor.at_end:
            self.post_message(self.EndWanted())
            return True
        if self._marked is not None and key not in ("left", "right"):
            self.leave_queue()
        return False

    def _completion_key(self, key: str) -> bool:
        match key:
            case "up" | "down":
                self._completion.move(-1 if key == "up" else 1)
            case "enter":
                return self.take_completion()
            case _:
                return False
        return True

    def _enter(self) -> None:
        if self._marked is not None:
            self._change_places(self._marked)
            return
        text = self.editor.text
        match parse_input(text):
            case Nothing():
                waiting = self._state.waiting
                if waiting.paused and waiting.count:
                    self.post_message(QueueEdited(waiting.queued, waiting.queued, paused=False))
            case PromptText(text=prompt):
                self._sent(text)
                self.post_message(self.Submitted(prompt))
            case UnknownSlash(name=name):
                self.post_message(self.Refused(f"There is no command /{name}; type / to see what there is"))
            case SlashCall(command=command, argument=argument):
                if argument and not command.argument:
                    self.post_message(self.Refused(f"/{command.slash} takes nothing behind it"))
                elif not command.enabled(self._state):
                    self.post_message(
                        self.Refused(f"/{command.slash} does nothing now: Esc cancels what runs")
                    )
                else:
                    self._sent(text)
                    self.post_message(self.CommandTyped(command, argument))

    def _sent(self, text: str) -> None:
        self.editor.placeholder = ""
        self._recall = self._recall.with_item(text)
        self._completion.close()
        self.editor.load_text("")

    def _change_places(self, number: int) -> None:
        waiting, text = self._state.waiting, self.editor.text
        put = (text,) if text.strip() else ()
        after = (*waiting.queued[:number], *put, *waiting.queued[number + 1 :])
        self.editor.put(waiting.queued[number])
        self.leave_queue()
        self.post_message(QueueEdited(waiting.queued, after, waiting.paused))

    def _older(self) -> bool:
        if not self.editor.on_first_line:
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
        if not self.editor.on_last_line:
            return False
        self._go(self._recall.newer())
        return True

    def _go(self, recall: Recall | None) -> None:
        if recall is not None:
            self._recall = recall
            self.editor.put(recall.shown)

    # --- Completion -----------------------------------------------------------------------------------

    def _word(self) -> Completing | None:
        if not self.editor.has_focus or self.editor.selected_text:
            return None
        line, column = self.editor.cursor_location
        return completing(self.editor.document.get_line(line), column, first_line=line == 0)

    def _word_key(self) -> str | None:
        word = self._word()
        return None if word is None else f"{self.editor.cursor_location[0]}:{word.start}:{word.kind}"

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _text_changed(self, event: Message) -> None:
        event.stop()
        self.refresh_completion()
        self.post_message(self.FactsChanged())

    # --- Drawing --------------------------------------------------------------------------------------

    def on_descendant_focus(self) -> None:
        self.update()

    def on_descendant_blur(self) -> None:
        self._completion.close()
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
            self._arrange()
            self.post_message(self.FactsChanged())

    def lines(self, width: int) -> list[list[Span]]:
        look = frame(self.editor.has_focus and self._active)
        waiting = self._state.waiting
        top = edge(look, True, (("prompt", "muted"),), self._count(waiting), width)
        most = self._queue_rows()
        asked = self._state.asks_choice
        queue = queue_rows(waiting, self._marked, look, width, most, asked=asked) if most else []
        height = max(self.size.height - 2 - len(queue), 1)
        text = [sides(look, [(" ❯ ", "accent")] if row == 0 else [], width) for row in range(height)]
        left, right = self._keys(width)
        return [top, *queue, *text, edge(look, False, left, right, width)]

    def _count(self, waiting: Waiting) -> Spans:
        words = waiting_words(waiting)
        return ((words, "altered" if waiting.paused else "text"),) if words else ()

    def _keys(self, width: int) -> tuple[Spans, Spans]:
        waits = self._state.waiting
        if self._marked is not None:
            enter = "Enter changes places"
        elif waits.paused and waits.count:
            enter = "Enter sends all, in order"
        elif self._state.busy:
            enter = "Enter queues"
        else:
            enter = "Enter sends"
        newline = f"{key_name(BY_ID['newline'].keys[0])} new line"
        editor = f"{key_name(BY_ID['editor'].keys[0])} editor"
        if width < 100:
            return ((f"{enter} · / @", "muted"),), ((newline, "muted"),)
        return ((f"{enter} · {newline} · / commands · @ files", "muted"),), ((editor, "muted"),)
