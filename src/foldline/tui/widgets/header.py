"""The header: where we are, and with which model and modes."""

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span
from foldline.tui.state import ChatState
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import Piece, piece, row


def header(state: ChatState, width: int, help_key: str) -> list[Span]:
    """` shop-api ▸ Idempotent orders        kimi-k2   edits: ask   fold: auto   F1 help `."""
    place = clean_line(state.workdir) or "foldline"
    where: list[Span] = [(place, "bold")]
    if state.title:
        where += [(" ▸ ", "muted"), (clean_line(state.title), "text bold")]
    right = [piece(clean_line(state.model) or "no model", "text", rank=1)]
    for name, value, usual in (("edits", state.edits, "ask"), ("fold", state.fold, "auto")):
        if value == usual and width < 100:
            continue
        if value == "all":
            right.append(Piece((("asks: ", "muted"), ("never", "alert"))))
            continue
        style = "muted" if value == usual else "altered"
        right.append(Piece(((f"{name}: ", "muted"), (value, style)), rank=3))
    right.append(Piece(((help_key, "accent"), (" help", "muted")), rank=2))
    return row([Piece(tuple(where), cut="right", least=width // 3)], right, width)


class Header(Lines):
    """One row at the top."""

    def __init__(self, help_key: str) -> None:
        super().__init__(id="header")
        self._help_key = help_key
        self._state = ChatState()

    def show(self, state: ChatState) -> None:
        self._state = state
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [header(self._state, width, self._help_key)]
