"""What an empty chat says: what this is, prompts to try, the last sessions of the folder, three keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.message import Message

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, in_reverse, piece, row, wrap_spans
from foldline.tui.keys.commands import key_of
from foldline.tui.state import ChatState
from foldline.tui.widgets.lines import Line, Lines, filled, key_words

PROMPTS: Final = ("What is in this folder?", "Read README.md and say what this is", "Search for TODO")
"""To try; the offline model can do them, too."""
HINTS: Final = (("↑↓", "move"), ("Enter", "select"))


@dataclass(frozen=True, slots=True)
class Resumable:
    """A session of this folder. Its title may be foreign."""

    path: str
    title: str
    age: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the welcome."""

    line: Line
    rank: int
    """Where there is no room the highest goes first."""
    at: int | None = None
    """What it stands for: the number of a prompt, or of a session after them."""


class Welcome(Lines, can_focus=True):
    """Stands in the place of an empty transcript. A prompt that is picked is for the editor."""

    DEFAULT_CSS: ClassVar[str] = "Welcome { display: none; height: 1fr; }"

    @dataclass
    class Picked(Message):
        """A prompt, or the event file of a session."""

        prompt: str = ""
        session: str = ""

    def __init__(self) -> None:
        super().__init__(id="welcome")
        self._where = ""
        self._sessions: Sequence[Resumable] = ()
        self._marked = 0
        self._rows: list[_Row] = []

    def show(self, state: ChatState) -> None:
        self._where = f"{clean_line(state.model)} works in {clean_line(state.workdir)}"
        self.update()

    def offer(self, sessions: Sequence[Resumable]) -> None:
        """The last sessions of the folder, found after the first paint."""
        self._sessions = sessions
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        self._rows = self._fitting(width, self.size.height)
        return filled([each.line for each in self._rows], self.size.height)

    def _fitting(self, width: int, height: int) -> list[_Row]:
        inside = max(width - 4, 8)
        keys = (
            (key_of("inspector"), "see what the model sees"),
            (key_of("preview"), "preview a compaction"),
            (key_of("palette"), "everything"),
        )
        hints = wrap_spans(key_words(keys), inside)
        if len(hints) > 1:  # a key stays beside its word
            hints = [list(key_words([each])) for each in keys]
        what = "Foldline, an agent whose context you can see and edit."
        rows = [_Row([], 7)]
        rows += [_Row(line, 2) for line in wrap_spans([(what, "text bold")], inside)]
        rows += [_Row(line, 3) for line in wrap_spans([(self._where, "muted")], inside)]
        rows += [_Row([], 7), _Row([("Try", "muted")], 6)]
        rows += [_Row(self._item(at, text, "", inside), 0, at) for at, text in enumerate(PROMPTS)]
        if self._sessions:
            rows += [_Row([], 7), _Row([("Go on with", "muted")], 6)]
        for at, each in enumerate(self._sessions, start=len(PROMPTS)):
            rows.append(_Row(self._item(at, clean_line(each.title), each.age, inside), 2 + at, at))
        rows += [_Row([], 7), *(_Row(line, 4) for line in hints)]
        while len(rows) > height:
            rows.remove(max(reversed(rows), key=lambda each: each.rank))
        return [_Row([("  ", ""), *each.line], each.rank, each.at) for each in rows]

    def _item(self, at: int, text: str, age: str, width: int) -> Line:
        marked = self.has_focus and at == self._marked
        left = piece(f"{'▶' if marked else ' '} {text}", cut="right")
        line = row([left], [piece(age, "muted", rank=1)] * bool(age), min(width, 72), margin=0)
        return in_reverse(line) if marked else line

    def _take(self, at: int) -> None:
        if at < len(PROMPTS):
            self.post_message(self.Picked(prompt=PROMPTS[at]))
        else:
            self.post_message(self.Picked(session=self._sessions[at - len(PROMPTS)].path))

    def on_key(self, event: events.Key) -> None:
        shown = [each.at for each in self._rows if each.at is not None]
        match event.key:
            case "enter" if self._marked in shown:
                self._take(self._marked)
            case "up" | "k":
                self._marked = max((at for at in shown if at < self._marked), default=self._marked)
            case "down" | "j":
                self._marked = min((at for at in shown if at > self._marked), default=self._marked)
            case _:
                return
        event.stop()
        event.prevent_default()
        self.update()

    def on_click(self, event: events.Click) -> None:
        at = self._rows[event.y].at if event.y < len(self._rows) else None
        if at is not None:
            self._take(at)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.update()

    def on_resize(self) -> None:
        self.update()
