"""The settings in force in a folder, and the context window that they give a session."""

import os
from pathlib import Path
from typing import NamedTuple

from foldline.agent.settings import Settings, load_settings
from foldline.context.budget import SMALLEST_WINDOW
from foldline.context.numbers import short_tokens
from foldline.context.projection import Projection
from foldline.files import is_folder
from foldline.llm.base import OFFLINE
from foldline.llm.models import model_info


def settings_here(cwd: str | Path | None = None, **options: object) -> Settings:
    """Load a folder's settings; the current one's by default.

    Args:
        options: values of command line options, `__` for the dot: `context__window`. None is not set.
    """
    overrides = {key.replace("__", "."): value for key, value in options.items() if value is not None}
    folder = Path(cwd) if cwd else Path.cwd()
    return load_settings(folder if is_folder(folder) else Path.cwd(), os.environ, overrides)


class Window(NamedTuple):
    """The context window that a session is measured against."""

    tokens: int
    assumed: bool = False
    """Whether it is a guess: a default, and at least the largest size that the history proves."""

    def __str__(self) -> str:
        """`200k`; `32.8k (assumed)`."""
        return short_tokens(self.tokens) + (" (assumed)" if self.assumed else "")


def session_window(projection: Projection, settings: Settings) -> Window:
    """Return the model's window by settings, history or model table."""
    model = projection.model or ""
    window = settings.window_of(model)
    if window is not None:
        return Window(window)
    if model == OFFLINE:
        return Window(settings.offline.window)
    info = model_info(model)
    proof = projection.window_proof(model)
    believed = proof.window(info.window)
    if SMALLEST_WINDOW <= proof.refused < believed:
        return Window(proof.refused)
    return Window(believed, assumed=info.guessed and not proof.stated)


def window_of(projection: Projection, cwd: str) -> Window:
    """Return the window to show a session of this folder against."""
    return session_window(projection, settings_here(cwd))
