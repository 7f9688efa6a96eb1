"""Text for the terminal's clipboard: only when the reader asks."""

import base64
import os
from typing import Any, Final

from textual.app import App

_MOST: Final = 74_994
"""Bytes, in base64, that xterm takes at a time; few terminals take less, many more."""


def copy(app: App[Any], text: str) -> str:
    """Put text into the clipboard by OSC 52, and inside tmux by its own means; what may be wrong with that,
    in words, mostly nothing."""
    app.copy_to_clipboard(text)
    if os.environ.get("TMUX"):
        # tmux as it is set up by default keeps OSC 52 of its programs to itself; this it hands on.
        app.run_worker(lambda: _to_tmux(text), thread=True, group="tmux", exit_on_error=False)
    if len(base64.b64encode(text.encode("utf-8", "replace"))) > _MOST and not os.environ.get("TMUX"):
        return "some terminals take no more than 56 kB"
    return ""


def _to_tmux(text: str) -> None:
    import subprocess

    given = text.encode("utf-8", "replace")
    command = ["tmux", "load-buffer", "-w", "-"]
    subprocess.run(command, input=given, capture_output=True, timeout=5, check=False)
