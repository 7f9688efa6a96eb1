"""Completion in the prompt: commands, their arguments, and files; and the list of what is offered."""

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.app import App
from textual.message import Message
from textual.strip import Strip

from foldline.context import numbers
from foldline.context.harmless import clean, clean_line
from foldline.tui.blocks.cells import Span, crop, cut_left, cut_right, in_reverse
from foldline.tui.fuzzy import INSIDE, START, fit
from foldline.tui.keys.commands import BY_SLASH, COMMANDS, Command, common_first
from foldline.tui.prompting.inputs import Completing, completing
from foldline.tui.state import ChatState
from foldline.tui.widgets.fields import Editor
from foldline.tui.widgets.lines import LIGHT, Lines, edge, hints_in, sides, window_start

if TYPE_CHECKING:
    from foldline.tui.runner import Runner

ROWS = 10
MOST_FILES: Final = 50_000
"""Files listed at most. In a larger tree, folders that are typed are listed besides."""
SLICE: Final = 2_000
"""Paths that are matched at a time: a few milliseconds."""
_FRESH: Final = 2.0
"""Seconds a list of files is not made anew, however often completion is opened."""
_FOR_THE_SHELL: Final = re.compile(r"([^\w./~+:@%-])")
_BY_TITLE: Final = INSIDE - 1
_BY_HELP: Final = INSIDE - 2
"""A word of a command's title, or of what it does, is worth less than its name, more than letters spread over
that."""
_TITLES: Final = {
    "command": "commands",
    "argument": "choices",
    "file": "files",
    "path": "files",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One completion. All texts are clean."""

    insert: str
    """What replaces the typed word, its `/` or `@` included."""
    label: str
    note: str = ""


# --- Commands and their arguments -----------------------------------------------------------------------


def slash_matches(typed: str, state: ChatState) -> tuple[tuple[str, Command], ...]:
    """The slash commands that work now and fit, each by its name or alias that fits best, or by a word of
    what it does; best first, among equals those by their own names, and of these the common ones; the user's
    own behind them."""
    typed = typed.lower()
    ranked: list[tuple[float, str, Command]] = []
    for command in (*common_first(COMMANDS), *state.own_commands):
        if command.slash and command.works(state):
            worth, name = max(((fit(typed, name)[0], name) for name in command.slashes), key=itemgetter(0))
            if worth < INSIDE:
                name, worth = command.slash, max(_worth_of_words(typed, command), worth)
            if worth:
                ranked.append((worth, name, command))
    ranked.sort(key=lambda each: (each[0], each[1] == each[2].slash), reverse=True)
    return tuple((name, command) for _, name, command in ranked)


def _worth_of_words(typed: str, command: Command) -> float:
    texts = ((_BY_TITLE, command.title), (_BY_HELP, command.help_text))
    found = (worth for worth, text in texts if any(word.startswith(typed) for word in text.lower().split()))
    return next(found, 0.0)


def commands(typed: str, state: ChatState) -> Iterator[Candidate]:
    """One that takes something leaves a blank behind it."""
    for name, command in slash_matches(typed, state):
        insert = f"/{name} " if command.argument else f"/{name}"
        yield Candidate(insert, f"/{name} {command.argument}".rstrip(), what_it_does(name, command, state))


def what_it_does(name: str, command: Command, state: ChatState) -> str:
    """What a command does: its title, where that says more than a name; of an undo its price, before it is
    asked for."""
    if command.id != "undo" or state.undo_adds is None:
        if " " in command.title:
            return command.title
        repeats = command.title.lower() in ("", name)
        return command.help_text if repeats else f"{command.title}. {command.help_text}"
    now, then = state.room.size, state.room.size + state.undo_adds
    return f"{command.title}: {numbers.tokens(now)} → {numbers.tokens(then, estimated=True)}"


def arguments(command: str, typed: str, app: App[Any]) -> tuple[Candidate, ...]:
    """The known arguments of a command that fit what was typed, best first. Asks no server."""
    ranked = [
        (-worth, at, Candidate(name, clean_line(name), clean_line(note)))
        for at, (name, note) in enumerate(_known_arguments(command, app))
        if (worth := fit(typed.lower(), name.lower())[0])
    ]
    return tuple(candidate for _, _, candidate in sorted(ranked, key=lambda found: found[:2]))


def _known_arguments(command: str, app: App[Any]) -> Sequence[tuple[str, str]]:
    """Names, and what each stands for."""
    match command:
        case "theme":
            from foldline.tui.themes import described

            return described(getattr(app, "themes", ()))
        case "strategy":
            from foldline.compaction import BUILT_IN

            return [(name, _first_sentence(strategy.__doc__)) for name, strategy in BUILT_IN.items()]
        case "model":
            from foldline.llm.models import table

            windows = ((name, row.get("window")) for name, row in table().by_model.items())
            return [(name, f"window {numbers.short_tokens(size)}" if size else "") for name, size in windows]
        case "mcp" | "skill":
            from foldline.agent.skill_loading import skill_rows

            runner: Runner | None = getattr(app, "runner", None)
            if runner is None:
                return ()
            if command == "skill":
                return [*skill_rows(runner.agent.state)]
            servers = runner.agent.state.servers
            return [] if servers is None else [(state.name, str(state)) for state in servers.states]
        case _:
            return ()


def resources(typed: str, app: App[Any]) -> tuple[Candidate, ...]:
    """The resources of tool servers that fit what was typed behind an `@`, best first. Asks no server."""
    runner: Runner | None = getattr(app, "runner", None)
    if runner is None or runner.agent.state.servers is None:
        return ()
    from foldline.agent.server_prompts import resource_rows

    ranked = [
        (-worth, len(name), Candidate(f"@{name}{' ' if is_whole else ''}", clean_line(name), about))
        for name, about, is_whole in resource_rows(runner.agent.state)
        if (worth := fit(typed.lower(), name.lower())[0])
    ]
    return tuple(candidate for *_, candidate in nsmallest(ROWS, ranked, key=lambda found: found[:2]))


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").replace("`", "").split()).partition(". ")[0].rstrip(".")


# --- Files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths below a folder, relative to it; folders end in `/`."""

    paths: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()
    whole: bool = True
    """Whether there are no others."""

    def with_folder(self, root: Path, folder: str) -> "Listing":
        """The same with what lies in one more folder. Slow: for a thread."""
        from foldline.agent.tools.tree import entries_in

        if folder.startswith("/") or ".." in folder.split("/"):
            return self
        paths = tuple(dict.fromkeys((*self.paths, *_relative(root, entries_in(root / folder)))))
        return Listing(paths, tuple(path.lower() for path in paths), whole=False)


def listing_of(root: Path, most: int = MOST_FILES) -> Listing:
    """All files below `root`, or the first ones, and the folders they are in. Slow: for a thread."""
    more = list_files(root, most + 1)
    files = more[:most]
    folders = {f"{parent.as_posix()}/": None for path in files for parent in list(Path(path).parents)[:-1]}
    paths = (*folders, *files)
    return Listing(paths, tuple(path.lower() for path in paths), whole=len(more) <= most)


def list_files(root: Path, most: int = MOST_FILES) -> tuple[str, ...]:
    """Paths below `root`, relative to it, without what `.gitignore` leaves out. Slow: for a thread."""
    from foldline.agent.tools.tree import files_below  # the tools are not needed before the first `@`

    return tuple(islice(_relative(root, files_below(root)), most))


def _relative(root: Path, absolute: Iterable[str]) -> Iterator[str]:
    """These paths relative to `root`. A name that would do something to the terminal, or turns text around,
    is left out: it would be typed into the prompt as it is."""
    skip = len(str(root.absolute()).rstrip("/")) + 1
    paths = (path[skip:].replace("\\", "/") for path in absolute)
    return (path for path in paths if path.isprintable() or clean_line(path) == path)


def matching(typed: str, listing: Listing, most: int = 10) -> Iterator[tuple[str, ...] | None]:
    """The best `most` paths for what was typed, as the last value; None after each slice of work before.

    Case counts only where a capital was typed. Shorter paths first among equals.
    """
    best: list[tuple[float, int, str]] = []
    compared = listing.paths if typed != typed.lower() else listing.lowered
    for start in range(0, len(compared), SLICE):
        if start:
            yield None
        found = [
            (-worth, len(each), listing.paths[at])
            for at, each in enumerate(compared[start : start + SLICE], start)
            if (worth := _worth(typed, each))
        ]
        best = nsmallest(most, best + found)
    yield tuple(path for _, _, path in best)


def _worth(typed: str, path: str) -> float:
    """A place in the name of a file or folder is worth more than one in the folders above it."""
    if path.startswith(typed):
        return START
    name = path[path.rfind("/", 0, -1) + 1 :]
    return fit(typed, name)[0] if typed in name else fit(typed, path)[0] / 2


def _files(word: Completing, paths: Sequence[str]) -> Iterator[Candidate]:
    """A folder leaves the cursor behind its `/`; behind `!` a path stands as a shell reads it."""
    for path in paths:
        written = f"@{path}" if word.kind == "file" else _FOR_THE_SHELL.sub(r"\\\1", path)
        yield Candidate(written + ("" if path.endswith("/") else " "), clean_line(path))


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
        self._folders: set[str] = set()
        """Folders that were listed besides, because the listing is not whole."""
        self._listed_at: float | None = None
        self.lists = False
        """Whether files are being listed: what is there is not all."""
        self._typed: str | None = None
        """What the paths found belong to."""
        self._found: Sequence[str] = ()
        self._search: Iterator[tuple[str, ...] | None] = iter(())
        self._searched = ""

    def find(self, typed: str, *, now: bool = False) -> Sequence[str]:
        """The best paths. Of a long list at first those found before; `now` waits for the new ones."""
        folder = typed[: typed.rfind("/") + 1]
        if not self.lists and self._is_stale(typed):
            self.lists = True
            self._start(self._list)
        elif not self.lists and not self.is_whole and folder not in self._folders:
            self.lists = True
            self._start(partial(self._list, folder))
        if typed != self._typed:
            self._search, self._searched = matching(typed, self._listing), typed
            self._go_on()
            while now and self._typed != typed:
                self._go_on()
            if self._typed != typed and not self.lists:
                self._start(partial(self._finish, typed))
        return self._found

    @property
    def is_whole(self) -> bool:
        """Whether all files are listed."""
        return self._listing.whole

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

    async def _list(self, folder: str | None = None) -> None:
        """List all files, or one more folder."""
        try:
            if self._root is not None and folder is not None:
                self._listing = await asyncio.to_thread(self._listing.with_folder, self._root, folder)
                self._folders.add(folder)
            elif self._root is not None:
                self._folders.clear()
                self._listing = await asyncio.to_thread(listing_of, self._root)
                self._listed_at = self._clock()
        finally:
            self.lists = False
        self._typed = None
        self._changed()


# --- The list -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offered:
    """Candidates, and which of them is marked."""

    candidates: Sequence[Candidate] = ()
    at: int = -1
    """Number of the marked one; -1: none."""

    @property
    def marked(self) -> Candidate | None:
        return self.candidates[self.at] if self.candidates and self.at >= 0 else None

    @property
    def first(self) -> Candidate | None:
        """The marked one, or, where none is, the first."""
        return self.marked or next(iter(self.candidates), None)


def completion_lines(title: str, shown: Sequence[Candidate], marked: int, width: int) -> list[list[Span]]:
    """A light frame around at most `ROWS` candidates in two columns, the marked one reversed. Paths are cut
    at the left."""
    first = window_start(marked, len(shown), ROWS)
    inside = width - 2
    widest = max((cell_len(candidate.label) for candidate in shown), default=0)
    noted = any(candidate.note for candidate in shown)
    column = min(widest, max(inside // 2 if noted else inside - 2, 8))
    lines: list[list[Span]] = []
    for at, candidate in enumerate(shown[first : first + ROWS], start=first):
        is_path = "/" in candidate.label[1:] and " " not in candidate.label
        label = (cut_left if is_path else cut_right)(candidate.label, column)
        note = cut_right(candidate.note, max(inside - column - 4, 0))
        label += " " * (column - cell_len(label))
        mark = "▶" if at == marked else " "
        line = crop([(mark, "accent"), (label, "text"), ("  ", ""), (note, "muted")], inside)
        lines.append(sides(LIGHT, in_reverse(line) if at == marked else line, width))
    count = ((f"{max(marked, 0) + 1} of {len(shown)}", "muted"),) if len(shown) > ROWS else ()
    keys = hints_in(f"{'Enter select' if marked >= 0 else '↓ mark one'} · Esc close", "muted")
    title_spans = ((title, "muted"),)
    return [edge(LIGHT, True, title_spans, (), width), *lines, edge(LIGHT, False, keys, count, width)]


class CompletionList(Lines):
    """The list above the prompt. It never has the focus: the prompt's keys move and take."""

    DEFAULT_CSS: ClassVar[str] = """
    CompletionList {
        layer: popup; dock: bottom; display: none; width: 72; max-width: 100%; background: $role-background;
    }
    """

    @dataclass
    class Picked(Message):
        """A click on a candidate."""

        candidate: Candidate

    def __init__(self) -> None:
        super().__init__(id="completion")
        self._title = ""
        self.offered = Offered()
        self.painted = Offered()
        """What stands on the screen: keys that come in one burst are ahead of it."""

    @property
    def open(self) -> bool:
        return bool(self.offered.candidates)

    def offer(self, title: str, candidates: Sequence[Candidate], *, marked: bool = True) -> None:
        """Show these, the first one `marked` or none; no candidates close the list."""
        if candidates != self.offered.candidates:
            self.offered = Offered(candidates, 0 if marked else -1)
        self._title = title
        self.styles.height = min(len(candidates), ROWS) + 2
        self.display = self.open
        if not self.open:
            self.painted = Offered()
        self.update()

    def close(self) -> None:
        self.offer("", ())

    def move(self, step: int) -> None:
        if self.open:
            at = max(self.offered.at, -1 if step > 0 else 0)
            self.offered = replace(self.offered, at=(at + step) % len(self.offered.candidates))
            self.update()

    def on_click(self, event: events.Click) -> None:
        seen = self.painted
        first = window_start(seen.at, len(seen.candidates), ROWS)
        if 0 < event.y <= len(shown := seen.candidates[first : first + ROWS]):  # not on an edge
            self.post_message(self.Picked(shown[event.y - 1]))

    def render_line(self, y: int) -> Strip:
        self.painted = self.offered
        return super().render_line(y)

    def lines(self, width: int) -> list[list[Span]]:
        return completion_lines(self._title, self.offered.candidates, self.offered.at, width)


class Completer:
    """Keeps the list at what completes the word at the cursor."""

    def __init__(self, editor: Editor, shown: CompletionList, finder: FileFinder) -> None:
        self.state = ChatState()
        self._editor = editor
        self._list = shown
        self._finder = finder
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
        exact = exact or (word.kind == "command" and word.typed.lower() in BY_SLASH)  # one that does not work
        whole = word.kind == "argument" and not word.typed
        has_lent = word.kind == "file" and any(":" in candidate.label for candidate in found)
        title = "files and resources" if has_lent else _TITLES[word.kind]
        if word.kind in ("file", "path") and not self._finder.is_whole:
            title += f" of the first {MOST_FILES:,} · FOLDER/ for others"
        self._list.offer(title, () if exact else found, marked=not whole)

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
        was not on the screen yet is only shown. False where there is nothing to take, nor will be."""
        self.refresh(now=True)  # keys may be ahead of what was offered for them
        offered, painted = self._list.offered, self._list.painted
        candidate, seen = (offered.first, painted.first) if first else (offered.marked, painted.marked)
        if candidate is None:  # a Tab before the files are known is no Tab to another panel
            return first and self._finder.lists and self._word() is not None
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

    def _found(self, word: Completing, now: bool) -> tuple[Candidate, ...]:
        match word.kind:
            case "command":
                return tuple(commands(word.typed, self.state))
            case "argument":
                return arguments(word.command, word.typed, self._editor.app)
            case "file" | "path":
                files = tuple(_files(word, self._finder.find(word.typed, now=now)))
                lent = resources(word.typed, self._editor.app) if word.kind == "file" else ()
                return (*lent, *files) if ":" in word.typed else (*files, *lent)

    def _word(self) -> Completing | None:
        if not self._editor.has_focus or self._editor.selected_text or not self._editor.text:
            return None
        line, column = self._editor.cursor_location
        text = self._editor.document.get_line(line)
        return completing(text, column, first_line=line == 0, asked=line == self._asked_at)

    def _key(self, word: Completing) -> str:
        return f"{self._editor.cursor_location[0]}:{word.start}:{word.kind}"
