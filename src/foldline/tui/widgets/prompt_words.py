"""What the lower edge of the prompt says: what Enter does now, and how to begin something else. Pure."""

from typing import Literal

from foldline.tui.blocks.cells import Spans
from foldline.tui.keys.commands import key_of
from foldline.tui.state import ChatState

Shell = Literal["seen", "aside"]
"""A text that is a command for the shell: whether the model sees what comes of it."""
_ROOMY = 100
"""Columns from which every word has room."""


def shell_of(line: str) -> Shell | None:
    """What the first line of a text says of it; None for a prompt."""
    return ("aside" if line.startswith("!!") else "seen") if line.startswith("!") else None


def frame_words(state: ChatState, *, marks: bool, shell: Shell | None, width: int) -> tuple[Spans, Spans]:
    """The words at the left and at the right end. `marks`: a queued prompt is marked."""
    waits, send = state.waiting, key_of("send")
    if marks:
        enter = f"{send} changes places"
    elif waits.paused and waits.count:
        enter = f"{send} sends all, in order"
    elif shell is not None:
        return _shell_words(f"{send} {'queues' if state.busy else 'runs'} it in your shell", shell, width)
    else:
        enter = f"{send} {'queues' if state.busy else 'sends'}"
    newline = f"{key_of('newline')} new line"
    if width < _ROOMY:
        return _muted(f"{enter} · / @ !"), _muted(newline)
    begins = f"{enter} · {newline} · / commands · @ files · ! shell"
    return _muted(begins), _muted(f"{key_of('editor')} editor")


def _shell_words(enter: str, shell: Shell, width: int) -> tuple[Spans, Spans]:
    """Who sees what comes of a command."""
    words = f"{enter} · the model {'sees it' if shell == 'seen' else 'does not see it'}"
    return _muted(words), _muted(f"{key_of('complete')} completes files") if width >= _ROOMY else ()


def _muted(words: str) -> Spans:
    return ((words, "muted"),)
