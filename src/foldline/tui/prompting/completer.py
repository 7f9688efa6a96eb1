"""Completion in the prompt: which word it is about, what is offered for it, and taking it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from foldline.context.harmless import clean
from foldline.tui.state import ChatState
from foldline.tui.widgets.completion import Candidate, CompletionList
from foldline.tui.widgets.editor import Editor

if TYPE_CHECKING:
    from foldline.tui.prompting.inputs import Completing
import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any, Final

from foldline.context.harmless import clean_line
from foldline.tui.prompting.fuzzy import in_order

MOST_FILES: Final = 50_000
"""Files listed at most; a tree this large is found by longer paths anyway."""
SLICE: Final = 2_000
"""Paths that are matched at a time: a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths below a folder, relative to it; folders end in `/`."""

    paths: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()


def listing_of(root: Path, most: int = MOST_FILES) -> Listing:
    """All files below `root` and the folders they are in. Slow: for a thread."""
    files = list_files(root, most)
    folders = {f"{parent.as_posix()}/": None for path in files for parent in list(Path(path).parents)[:-1]}
    paths = (*folders, *files)
    return Listing(paths, tuple(path.lower() for path in paths))


def list_files(root: Path, most: int = MOST_FILES) -> tuple[str, ...]:
    """Paths below `root`, relative to it, without what `.gitignore` leaves out. Slow: for a thread.

    A name that would do something to the terminal, or turns text around, is left out: it would be typed into
    the prompt as it is.
    """
    from foldline.agent.tools.walk import files_below  # the tools are not needed before the first `@`

    skip = len(str(root.absolute()).rstrip("/")) + 1
    paths = (path[skip:].replace("\\", "/") for path in islice(files_below(root), most))
    return tuple(path for path in paths if path.isprintable() or clean_line(path) == path)


def match_files(typed: str, paths: Sequence[str], most: int = 10) -> tuple[str, ...]:
    """The best `most` paths for what was typed."""
    listing = Listing(tuple(paths), tuple(path.lower() for path in paths))
    return next(found for found in matching(typed, listing, most) if found is not None)


def matching(typed: str, listing: Listing, most: int = 10) -> Iterator[tuple[str, ...] | None]:
    """The best `most` paths for what was typed, as the last value; None after each slice of work before.

    The name begins with it, the name holds it, the path holds it, the path has its letters in order. Case
    counts only where a capital was typed. Shorter paths first among equals.
    """
    best: list[tuple[int, int, str]] = []
    compared = listing.paths if typed != typed.lower() else listing.lowered
    for start in range(0, len(compared), SLICE):
        if start:
            yield None
        found = [
            (rank, len(each), listing.paths[at])
            for at, each in enumerate(compared[start : start + SLICE], start)
            if (rank := _rank(typed, each)) is not None
        ]
        best = nsmallest(most, best + found)
    yield tuple(path for _, _, path in best)


def _rank(typed: str, path: str) -> int | None:
    name = path[path.rfind("/", 0, -1) + 1 :]
    if name.startswith(typed) or path.startswith(typed):
        return 0
    if typed in name:
        return 1
    if typed in path:
        return 2
    return 3 if in_order(typed, path) else None


_FRESH: Final = 2.0
"""Seconds a list of files is not made anew, however often completion is opened."""

Work = Callable[[], Coroutine[Any, Any, object]]
"""What is to be done in the background: not begun yet, for it may be overtaken at once."""
Start = Callable[[Work], object]
"""Runs it, in place of what it ran before."""


class FileFinder:
    """The files below `root` for what is typed. `changed` is called when there is more to be found than
    before: the list was made, or matching a long one has ended.
    """

    def __init__(
        self,
        root: Path | None,
        changed: Callable[[], None],
        start: Start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._changed = changed
        self._start = start
        self._clock = clock
        self._listing = Listing()
        self._listed_at: float | None = None
        self._lists = False
        self._typed: str | None = None
        """What the paths found belong to."""
        self._found: Sequence[str] = ()
        self._search: Iterator[tuple[str, ...] | None] = iter(())
        self._searched = ""

    def find(self, typed: str, *, now: bool = False) -> Sequence[str]:
        """The best paths for this. Of a long list, those found for what was typed before, until the new ones
        are there; `now` waits for them."""
        if not self._lists and self._is_stale(typed):
            self._lists = True
            self._start(self._list)
        if typed != self._typed:
            self._search, self._searched = matching(typed, self._listing), typed
            self._go_on()
            while now and self._typed != typed:
                self._go_on()
            if self._typed != typed and not self._lists:
                self._start(partial(self._finish, typed))
        return self._found

    def _is_stale(self, typed: str) -> bool:
        """A list is made when completion begins: files come and go."""
        if self._listed_at is None:
            return True
        begins = self._typed is None or not typed.startswith(self._typed or "\0")
        return begins and not typed and self._clock() - self._listed_at > _FRESH

    def _go_on(self) -> None:
        found = next(self._search, None)
        if found is not None:
            self._found, self._typed = found, self._searched

    async def _finish(self, typed: str) -> None:
        while self._typed != typed and self._searched == typed:
            await asyncio.sleep(0)
            self._go_on()
        self._changed()

    async def _list(self) -> None:
        try:
            if self._root is not None:
                self._listing = await asyncio.to_thread(listing_of, self._root)
            self._listed_at = self._clock()
        finally:
            self._lists = False
        self._typed = None
        self._changed()


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
