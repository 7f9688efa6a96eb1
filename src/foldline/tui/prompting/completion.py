"""Completes slash commands, arguments and files in the prompt.

Also contains the list of candidates.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.app import App
from textual.message import Message
from textual.strip import Strip

from foldline.frontend.commands import (
    BY_SLASH,
    COMMANDS,
    ChatCommand,
    common_first,
    own_command,
)
from foldline.frontend.inputs import TypedWord, typed_word
from foldline.frontend.state import ChatState
from foldline.text import numbers
from foldline.text.harmless import clean, clean_line
from foldline.tui.lists.fuzzy import INSIDE, fit
from foldline.tui.look.cells import Span, crop, cut_left, cut_right, in_reverse
from foldline.tui.look.fields import Editor
from foldline.tui.look.lines import (
    LIGHT,
    LinesWidget,
    edge,
    hints_in,
    sides,
    window_start,
)
from foldline.tui.prompting.file_finder import MOST_FILES, FileFinder

if TYPE_CHECKING:
    from foldline.agent.session.state import AgentState

ROWS = 10
_FOR_THE_SHELL: Final = re.compile(r"([^\w./~+:@%-])")
_BY_TITLE: Final = INSIDE - 1
_BY_HELP: Final = INSIDE - 2
"""Score of a match in the help text.

The score is lower than for a match in the name or title, and higher than for scattered letters.
"""
_TITLES: Final = {
    "command": "commands",
    "argument": "choices",
    "file": "files",
    "path": "files",
}
FILES_AND_RESOURCES: Final = "files and resources"
INCOMPLETE: Final = f" (first {MOST_FILES:,}) · FOLDER/ for others"


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion candidate. Its texts contain no control characters."""

    insert: str
    """The text that replaces the typed word, including the `/` or `@`."""
    label: str
    note: str = ""


# --- Commands and their arguments -----------------------------------------------------------------------


def slash_matches(typed: str, state: ChatState) -> tuple[tuple[str, ChatCommand], ...]:
    """Return the available slash commands that match, each with its best matching name.

    The best match comes first. Among equal matches, names come before aliases, common commands before
    others, and the user's own commands last.
    """
    typed = typed.lower()
    ranked: list[tuple[float, str, ChatCommand]] = []
    for command in (*common_first(COMMANDS), *map(own_command, state.own_commands)):
        if command.slash and command.works(state):
            score, name = max(
                ((fit(typed, name)[0], name) for name in command.slashes),
                key=itemgetter(0),
            )
            if score < INSIDE:
                name = command.slash
                score = max(_score_of_words(typed, command), score)
            if score:
                ranked.append((score, name, command))
    ranked.sort(key=lambda match: (match[0], match[1] == match[2].slash), reverse=True)
    return tuple((name, command) for _, name, command in ranked)


def _score_of_words(typed: str, command: ChatCommand) -> float:
    for score, text in ((_BY_TITLE, command.title), (_BY_HELP, command.help_text)):
        if any(word.startswith(typed) for word in text.lower().split()):
            return score
    return 0.0


def commands(typed: str, state: ChatState) -> Iterator[Completion]:
    """Yield completions of a slash command.

    They end with a space if the command has an argument.
    """
    for name, command in slash_matches(typed, state):
        insert = f"/{name} " if command.argument else f"/{name}"
        note = describe_command(name, command, state)
        yield Completion(insert, f"/{name} {command.argument}".rstrip(), note)


def describe_command(name: str, command: ChatCommand, state: ChatState) -> str:
    """Return the description of a command.

    For undo, it includes the change in tokens.
    """
    if command.id == "undo" and state.undo_adds is not None:
        now = state.room.size
        after = numbers.tokens(now + state.undo_adds, estimated=True)
        return f"{command.title}: {numbers.tokens(now)} → {after}"
    if " " in command.title:
        return command.title
    repeats_name = command.title.lower() in ("", name)
    return (
        command.help_text if repeats_name else f"{command.title}. {command.help_text}"
    )


def arguments(command: str, typed: str, app: App[Any]) -> tuple[Completion, ...]:
    """Return the matching arguments of a command, best match first.

    Sends no requests.
    """
    ranked = []
    for at, (name, note) in enumerate(_known_arguments(command, app)):
        score = fit(typed.lower(), name.lower())[0]
        if score:
            ranked.append(
                (-score, at, Completion(name, clean_line(name), clean_line(note)))
            )
    ranked.sort(key=itemgetter(0, 1))
    return tuple(completion for _, _, completion in ranked)


def _agent_state(app: App[Any]) -> "AgentState | None":
    """Return the agent's state, or None if the app has no session yet."""
    runner = getattr(app, "runner", None)
    return None if runner is None else runner.agent.state


def _known_arguments(command: str, app: App[Any]) -> Sequence[tuple[str, str]]:
    """Return a (name, note) pair for each argument of a command."""
    match command:
        case "theme":
            from foldline.tui.look.themes import described

            return described(getattr(app, "themes", ()))
        case "strategy":
            from foldline.compaction import BUILT_IN

            return [
                (name, _first_sentence(strategy.__doc__))
                for name, strategy in BUILT_IN.items()
            ]
        case "model":
            from foldline.llm.models import table

            windows = (
                (name, row.get("window")) for name, row in table().by_model.items()
            )
            return [
                (name, f"window {numbers.short_tokens(size)}" if size else "")
                for name, size in windows
            ]
        case "mcp" | "skill":
            from foldline.agent.session.skill_loading import skill_rows

            state = _agent_state(app)
            if state is None:
                return ()
            if command == "skill":
                return [*skill_rows(state)]
            servers = state.servers
            return (
                []
                if servers is None
                else [(server.name, str(server)) for server in servers.states]
            )
        case _:
            return ()


def resources(typed: str, app: App[Any]) -> tuple[Completion, ...]:
    """Return the matching resources of tool servers, best match first.

    Sends no requests.
    """
    state = _agent_state(app)
    if state is None or state.servers is None:
        return ()
    from foldline.agent.session.server_prompts import resource_rows

    ranked = []
    for name, note, is_complete in resource_rows(state):
        score = fit(typed.lower(), name.lower())[0]
        if score:
            insert = f"@{name}{' ' if is_complete else ''}"
            ranked.append(
                (-score, len(name), Completion(insert, clean_line(name), note))
            )
    return tuple(
        completion for *_, completion in nsmallest(ROWS, ranked, key=itemgetter(0, 1))
    )


def _first_sentence(text: str | None) -> str:
    return (
        " ".join((text or "").replace("`", "").split()).partition(". ")[0].rstrip(".")
    )


def _files(word: TypedWord, paths: Sequence[str]) -> Iterator[Completion]:
    """Yield completions of a path.

    Paths of shell commands are escaped. Files end with a space.
    """
    for path in paths:
        insert = (
            f"@{path}" if word.kind == "file" else _FOR_THE_SHELL.sub(r"\\\1", path)
        )
        yield Completion(insert + ("" if path.endswith("/") else " "), clean_line(path))


# --- The list -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidates:
    """The listed completions and the selection."""

    completions: Sequence[Completion] = ()
    at: int = -1
    """Index of the selected completion, or -1 if no completion is selected."""

    @property
    def marked(self) -> Completion | None:
        return self.completions[self.at] if self.completions and self.at >= 0 else None

    @property
    def first(self) -> Completion | None:
        """The selected completion.

        If none is selected, the first one; None if the list is empty.
        """
        return self.marked or next(iter(self.completions), None)


def completion_lines(
    title: str, shown: Sequence[Completion], marked: int, width: int
) -> list[list[Span]]:
    """Draw at most `ROWS` completions in two columns, with a frame around them."""
    first = window_start(marked, len(shown), ROWS)
    inside = width - 2
    widest = max((cell_len(completion.label) for completion in shown), default=0)
    has_notes = any(completion.note for completion in shown)
    column = min(widest, max(inside // 2 if has_notes else inside - 2, 8))
    lines: list[list[Span]] = []
    for at, completion in enumerate(shown[first : first + ROWS], start=first):
        is_path = "/" in completion.label[1:] and " " not in completion.label
        cut = cut_left if is_path else cut_right
        label = cut(completion.label, column)
        label += " " * (column - cell_len(label))
        note = cut_right(completion.note, max(inside - column - 4, 0))
        mark = "▶" if at == marked else " "
        line = crop(
            [(mark, "accent"), (label, "text"), ("  ", ""), (note, "muted")], inside
        )
        lines.append(sides(LIGHT, in_reverse(line) if at == marked else line, width))
    count = (
        ((f"{max(marked, 0) + 1} of {len(shown)}", "muted"),)
        if len(shown) > ROWS
        else ()
    )
    keys = hints_in(
        f"{'Enter select' if marked >= 0 else '↓ choose one'} · Esc close", "muted"
    )
    title_spans = ((title, "muted"),)
    return [
        edge(LIGHT, True, title_spans, (), width),
        *lines,
        edge(LIGHT, False, keys, count, width),
    ]


class CompletionList(LinesWidget):
    """The list of completions above the prompt.

    It never has the focus, because the prompt handles its keys.
    """

    DEFAULT_CSS: ClassVar[str] = """
    CompletionList {
        layer: popup; dock: bottom; display: none; width: 72; max-width: 100%; background: $role-background;
    }
    """

    @dataclass
    class Picked(Message):
        """A completion was clicked."""

        completion: Completion

    def __init__(self) -> None:
        super().__init__(id="completion")
        self._title = ""
        self.offered = Candidates()
        self.painted = Candidates()
        """The candidates as last painted.

        They may be outdated, because several keys can arrive before a repaint.
        """

    @property
    def open(self) -> bool:
        return bool(self.offered.completions)

    def offer(
        self, title: str, completions: Sequence[Completion], *, marked: bool = True
    ) -> None:
        """Show completions.

        With `marked`, the first is selected. An empty sequence closes the list.
        """
        if completions != self.offered.completions:
            self.offered = Candidates(completions, 0 if marked else -1)
        self._title = title
        self.styles.height = min(len(completions), ROWS) + 2
        self.display = self.open
        if not self.open:
            self.painted = Candidates()
        self.update()

    def close(self) -> None:
        self.offer("", ())

    def move(self, step: int) -> None:
        if self.open:
            at = max(self.offered.at, -1 if step > 0 else 0)
            self.offered = replace(
                self.offered, at=(at + step) % len(self.offered.completions)
            )
            self.update()

    def on_click(self, event: events.Click) -> None:
        completions = self.painted.completions
        first = window_start(self.painted.at, len(completions), ROWS)
        shown = completions[first : first + ROWS]
        if 0 < event.y <= len(shown):  # not on the frame
            self.post_message(self.Picked(shown[event.y - 1]))

    def render_line(self, y: int) -> Strip:
        self.painted = self.offered
        return super().render_line(y)

    def lines(self, width: int) -> list[list[Span]]:
        return completion_lines(
            self._title, self.offered.completions, self.offered.at, width
        )


class Completer:
    """Completes the word at the cursor, and shows the candidates in the list."""

    def __init__(
        self, editor: Editor, completion_list: CompletionList, finder: FileFinder
    ) -> None:
        self.state = ChatState()
        self._editor = editor
        self._list = completion_list
        self._finder = finder
        self._closed_at: str | None = (
            None  # identifies the word for which Esc closed the list
        )
        self._asked_at: int | None = None  # line in which Tab was pressed to list paths

    @property
    def is_open(self) -> bool:
        """Whether the list is visible on the screen."""
        return bool(self._list.painted.completions)

    def refresh(self, *, now: bool = False) -> None:
        """Update the list.

        With `now`, wait until files have been matched.
        """
        word = self._word()
        if word is None:
            self._closed_at = self._asked_at = None
            self._list.close()
            return
        if self._key(word) == self._closed_at:
            self._list.close()
            return
        completions = self._completions(word, now)
        is_exact = any(
            completion.insert.strip() == word.sign + word.typed
            for completion in completions
        )
        is_command = (
            word.kind == "command" and word.typed.lower() in BY_SLASH
        )  # a known command, even if it is not available now
        if is_exact or is_command:
            completions = ()
        title = _TITLES[word.kind]
        if word.kind == "file" and any(
            ":" in completion.label for completion in completions
        ):
            title = FILES_AND_RESOURCES
        if word.kind in ("file", "path") and not self._finder.is_complete:
            title += INCOMPLETE
        self._list.offer(
            title, completions, marked=word.kind != "argument" or bool(word.typed)
        )

    def close(self) -> None:
        """Close the list until another word is typed."""
        word = self._word()
        self._closed_at = None if word is None else self._key(word)
        self._list.close()

    def hide(self) -> None:
        self._list.close()

    def ask(self) -> bool:
        """List the paths that match a word of a shell command.

        If only one path matches, insert it. Returns False if the line does not start with `!`, or if the list
        is open.
        """
        line = self._editor.cursor_location[0]
        if self._list.open or not self._editor.document.get_line(line).startswith("!"):
            return False
        self._asked_at = line
        self.refresh(now=True)
        if len(self._list.offered.completions) == 1:
            self.put(self._list.offered.completions[0])
        return True

    def move(self, step: int) -> None:
        self._list.move(step)

    def accept(self, *, first: bool = True) -> bool:
        """Insert the selected completion, or with `first`, the first one if none is selected.

        A completion that has not been painted yet is shown, but not inserted. Returns whether the key was
        handled.
        """
        self.refresh(now=True)  # the list may be outdated
        completion, seen = self._list.offered.marked, self._list.painted.marked
        if first:
            completion, seen = self._list.offered.first, self._list.painted.first
        if completion is None:
            # While files are being listed, Tab must not switch to another panel.
            return first and self._finder.is_listing and self._word() is not None
        if completion == seen:
            self.put(completion)
        return True

    def put(self, completion: Completion) -> None:
        """Replace the typed word with a completion."""
        word = self._word()
        if word is None:
            return
        line, column = self._editor.cursor_location
        self._list.close()
        insert = clean(completion.insert)
        self._editor.replace(insert, (line, word.start), (line, column))
        self._editor.move_cursor((line, word.start + len(insert)))

    def _completions(self, word: TypedWord, now: bool) -> tuple[Completion, ...]:
        match word.kind:
            case "command":
                return tuple(commands(word.typed, self.state))
            case "argument":
                return arguments(word.command, word.typed, self._editor.app)
            case "file" | "path":
                files = _files(word, self._finder.find(word.typed, now=now))
                if word.kind == "path":
                    return tuple(files)
                of_servers = resources(word.typed, self._editor.app)
                return (
                    (*of_servers, *files)
                    if ":" in word.typed
                    else (*files, *of_servers)
                )

    def _word(self) -> TypedWord | None:
        if (
            not self._editor.has_focus
            or self._editor.selected_text
            or not self._editor.text
        ):
            return None
        line, column = self._editor.cursor_location
        text = self._editor.document.get_line(line)
        return typed_word(
            text, column, first_line=line == 0, asked=line == self._asked_at
        )

    def _key(self, word: TypedWord) -> str:
        return f"{self._editor.cursor_location[0]}:{word.start}:{word.kind}"
