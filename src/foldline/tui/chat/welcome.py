"""The welcome screen of an empty chat.

It offers sample prompts, the folder's last sessions, and three keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from textual import events
from textual.message import Message

from foldline.frontend.commands import key_of
from foldline.frontend.state import ChatState
from foldline.text.harmless import clean_line
from foldline.tui.look.cells import Span, in_reverse, piece, row, wrap_spans
from foldline.tui.look.lines import Line, LinesWidget, filled, key_words

PROMPTS: Final = (
    "What is in this folder?",
    "Read README.md and say what this is",
    "Search for TODO",
)
"""Sample prompts. The offline model can also answer them."""
HINTS: Final = (("↑↓", "move"), ("Enter", "select"))
TAGLINE: Final = "Foldline, an agent whose context you can see and edit."
SUBTITLE: Final = "model {model} · folder {folder}"
TRY: Final = "Try"
CONTINUE: Final = "Continue"
KEYS: Final = (
    ("inspector", "see what the model sees"),
    ("preview", "preview a compaction"),
    ("palette", "all commands"),
)
"""Commands to show with their keys, and their descriptions."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """A session of this folder that can be resumed.

    Its title is untrusted.
    """

    path: str
    title: str
    age: str


@dataclass(frozen=True, slots=True)
class _WelcomeRow:
    """A line of the welcome screen."""

    line: Line
    rank: int
    """Priority for dropping the line.

    Lines with the highest rank are dropped first if there is too little room.
    """
    at: int | None = None
    """Index of the prompt or session in this line, if any.

    Sessions are numbered after the prompts.
    """


class Welcome(LinesWidget, can_focus=True):
    """The welcome screen, shown instead of an empty transcript.

    A selected prompt is put into the editor.
    """

    DEFAULT_CSS: ClassVar[str] = "Welcome { display: none; height: 1fr; }"

    @dataclass
    class Selected(Message):
        """The user has selected a prompt or a session.

        A session is given by its event file.
        """

        prompt: str = ""
        session: str = ""

    def __init__(self) -> None:
        super().__init__(id="welcome")
        self._subtitle = ""
        self._sessions: Sequence[Resumable] = ()
        self._marked = 0
        self._rows: list[_WelcomeRow] = []

    def show(self, state: ChatState) -> None:
        self._subtitle = SUBTITLE.format(
            model=clean_line(state.model), folder=clean_line(state.workdir)
        )
        self.update()

    def offer(self, sessions: Sequence[Resumable]) -> None:
        """Show the last sessions of the folder."""
        self._sessions = sessions
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        self._rows = self._fitting(width, self.size.height)
        return filled([row.line for row in self._rows], self.size.height)

    def _fitting(self, width: int, height: int) -> list[_WelcomeRow]:
        inside = max(width - 4, 8)
        keys = [(key_of(command), description) for command, description in KEYS]
        hints = wrap_spans(key_words(keys), inside)
        if len(hints) > 1:  # keep each key next to its word
            hints = [list(key_words([key])) for key in keys]
        rows = [_WelcomeRow([], 7)]
        for text, style, rank in (
            (TAGLINE, "text bold", 2),
            (self._subtitle, "muted", 3),
        ):
            lines = wrap_spans([(text, style)], inside)
            rows += [_WelcomeRow(line, rank) for line in lines]
        rows += [_WelcomeRow([], 7), _WelcomeRow([(TRY, "muted")], 6)]
        for at, prompt in enumerate(PROMPTS):
            rows.append(_WelcomeRow(self._item(at, prompt, "", inside), 0, at))
        if self._sessions:
            rows += [_WelcomeRow([], 7), _WelcomeRow([(CONTINUE, "muted")], 6)]
        for at, session in enumerate(self._sessions, start=len(PROMPTS)):
            line = self._item(at, clean_line(session.title), session.age, inside)
            rows.append(_WelcomeRow(line, 2 + at, at))
        rows += [_WelcomeRow([], 7), *(_WelcomeRow(line, 4) for line in hints)]
        while len(rows) > height:
            rows.remove(max(reversed(rows), key=lambda row: row.rank))
        return [replace(row, line=[("  ", ""), *row.line]) for row in rows]

    def _item(self, at: int, text: str, age: str, width: int) -> Line:
        is_marked = self.has_focus and at == self._marked
        title = piece(f"{'▶' if is_marked else ' '} {text}", cut="right")
        right = [piece(age, "muted", rank=1)] if age else []
        line = row([title], right, min(width, 72), margin=0)
        return in_reverse(line) if is_marked else line

    def _select(self, at: int) -> None:
        if at < len(PROMPTS):
            self.post_message(self.Selected(prompt=PROMPTS[at]))
        else:
            session = self._sessions[at - len(PROMPTS)]
            self.post_message(self.Selected(session=session.path))

    def on_key(self, event: events.Key) -> None:
        shown = [row.at for row in self._rows if row.at is not None]
        match event.key:
            case "enter" if self._marked in shown:
                self._select(self._marked)
            case "up" | "k":
                self._marked = max(
                    (at for at in shown if at < self._marked), default=self._marked
                )
            case "down" | "j":
                self._marked = min(
                    (at for at in shown if at > self._marked), default=self._marked
                )
            case _:
                return
        event.stop()
        event.prevent_default()
        self.update()

    def on_click(self, event: events.Click) -> None:
        if event.y >= len(self._rows):
            return
        at = self._rows[event.y].at
        if at is not None:
            self._select(at)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.update()

    def on_resize(self) -> None:
        self.update()
