"""Completion in the prompt: which word it is about, what is offered for it, and taking it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from foldline.context.harmless import clean
from foldline.tui.prompting.finding import FileFinder
from foldline.tui.state import ChatState
from foldline.tui.widgets.completion import Candidate, CompletionList
from foldline.tui.widgets.editor import Editor

if TYPE_CHECKING:
    from foldline.tui.prompting.inputs import Completing

Arguments = Callable[[str, str], Sequence[Candidate]]
"""The arguments of a command that fit what was typed."""

_TITLES = {"command": "commands", "argument": "choices", "file": "files", "path": "files"}


class Completer:
    """Keeps the list at what completes the word at the cursor."""

    def __init__(
        self, editor: Editor, shown: CompletionList, finder: FileFinder, arguments: Arguments
    ) -> None:
        self.state = ChatState()
        self._editor = editor
        self._list = shown
        self._finder = finder
        self._arguments = arguments
        self._closed_at: str | None = None  # the word whose completion Esc closed
        self._asked_at: int | None = None  # the line in which Tab asked for paths

    @property
    def open(self) -> bool:
        """Whether the reader sees a list: keys that come in one burst are ahead of it."""
        return bool(self._list.painted.candidates)

    def refresh(self, *, now: bool = False) -> None:
        """Look again: after typing, and when more is known. `now`: also where that takes a moment."""
        word = self._word()
        if word is None or self._key(word) == self._closed_at:
            self._list.close()
            if word is None:
                self._closed_at = self._asked_at = None
            return
        found = self._found(word, now)
        exact = any(candidate.insert.strip() == word.sign + word.typed for candidate in found)
        whole = word.kind == "argument" and not word.typed
        self._list.offer(_TITLES[word.kind], () if exact else found, marked=not whole)

    def close(self) -> None:
        """Close the list; for this word it stays closed."""
        word = self._word()
        self._closed_at = None if word is None else self._key(word)
        self._list.close()

    def hide(self) -> None:
        self._list.close()

    def ask(self) -> bool:
        """Behind a `!`, offer paths for the word at the cursor, or take the only one; False elsewhere."""
        line = self._editor.cursor_location[0]
        if self._list.open or not self._editor.document.get_line(line).startswith("!"):
            return False
        self._asked_at = line
        self.refresh(now=True)
        if len(self._list.offered.candidates) == 1:
            self.put(self._list.offered.candidates[0])
        return True

    def move(self, step: int) -> None:
        self._list.move(step)

    def take(self, *, first: bool = True) -> bool:
        """Put the marked completion, or the first where none is marked, in place of the typed word; one that
        was not on the screen yet is only shown. False where there is nothing to take."""
        self.refresh(now=True)  # keys may be ahead of what was offered for them
        offered, painted = self._list.offered, self._list.painted
        candidate, seen = (offered.first, painted.first) if first else (offered.marked, painted.marked)
        if candidate is None:
            return False
        if candidate == seen:
            self.put(candidate)
        return True

    def put(self, candidate: Candidate) -> None:
        """Put this completion in place of the typed word."""
        word = self._word()
        if word is None:
            return
        line, column = self._editor.cursor_location
        self._list.close()
        insert = clean(candidate.insert)
        self._editor.replace(insert, (line, word.start), (line, column))
        self._editor.move_cursor((line, word.start + len(insert)))

    def _found(self, word: "Completing", now: bool) -> Sequence[Candidate]:
        from foldline.tui.prompting import candidates

        match word.kind:
            case "command":
                return candidates.commands(word, self.state)
            case "argument":
                return self._arguments(word.command, word.typed)
            case "file" | "path":
                return candidates.files(word, self._finder.find(word.typed, now=now))

    def _word(self) -> "Completing | None":
        if not self._editor.has_focus or self._editor.selected_text or not self._editor.text:
            return None
        from foldline.tui.prompting.inputs import completing  # by now: the first screen has no text

        line, column = self._editor.cursor_location
        text = self._editor.document.get_line(line)
        return completing(text, column, first_line=line == 0, asked=line == self._asked_at)

    def _key(self, word: "Completing") -> str:
        return f"{self._editor.cursor_location[0]}:{word.start}:{word.kind}"
