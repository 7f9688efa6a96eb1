"""The help screen, and what it says of the chat: every key and command, from the registry."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from foldline.tui.blocks import Block, BlockView, RuleBlock, TextBlock
from foldline.tui.commands import groups, key_name, slash_usage
from foldline.tui.widgets.frames import HEAVY, edge
from foldline.tui.widgets.telling import Telling

_KEYS_COLUMN = 20


def help_blocks() -> Iterator[Block]:
    """A rule for each group, then one paragraph for each command: its keys, then what it does."""
    number = 0
    for name, commands in groups().items():
        yield RuleBlock((number, 0), name, "muted", gap=1 if number else 0, stop=False, wide=False)
        for command in commands:
            number += 1
            keys = " ".join(key_name(key) for key in command.keys) or slash_usage(command)
            lead = keys + " " * max(_KEYS_COLUMN - cell_len(keys), 1)
            also = f" Also {slash_usage(command)}." if command.keys and command.slash else ""
            yield TextBlock((number, 1), command.help + also, lead=((lead, "accent"),))


class _Edge(Telling):
    def __init__(self, top: bool, words: str) -> None:
        super().__init__()
        self._top = top
        self._words = words

    def lines(self, width: int) -> list[list[tuple[str, str]]]:
        style = "text bold" if self._top else "muted"
        return self.with_told([edge(HEAVY, self._top, ((self._words, style),), (), width)], width)


class HelpScreen(ModalScreen[None]):
    """Keys and what they do, over any screen; closing it gives everything back as it was."""

    DEFAULT_CSS: ClassVar[str] = """
    HelpScreen { align: center middle; background: transparent; }
    HelpScreen > BlockView {
        width: 92; max-width: 100%; height: 1fr;
        border-left: heavy $role-accent; border-right: heavy $role-accent; background: ansi_default;
    }
    HelpScreen > _Edge { width: 92; max-width: 100%; background: ansi_default; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,question_mark,q", "close", "Close", show=False, priority=True)
    ]

    def __init__(self, title: str, blocks: Iterable[Block]) -> None:
        super().__init__()
        self._heading = title
        self._blocks = blocks
        self._below = _Edge(False, "Esc closes · ↑↓ PgUp PgDn scroll")

    def compose(self) -> ComposeResult:
        yield _Edge(True, self._heading)
        yield BlockView(self._blocks, gutter_width=1, cursor=False, follow=False)
        yield self._below

    def on_mount(self) -> None:
        self._fit()
        self.query_one(BlockView).focus()

    def on_resize(self) -> None:
        self._fit()

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self._below.tell(words)

    def _fit(self) -> None:
        self.query_one(BlockView).styles.height = max(self.size.height - 6, 3)

    def action_close(self) -> None:
        self.dismiss()
