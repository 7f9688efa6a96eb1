"""The active settings in a folder, and the resulting context window of a session."""

import os
from pathlib import Path
from typing import NamedTuple

from foldline.agent.settings.settings import Settings, load_settings
from foldline.files import is_folder
from foldline.llm.base import OFFLINE
from foldline.llm.models import model_info
from foldline.text.numbers import short_tokens
from foldline.view.budget import SMALLEST_WINDOW
from foldline.view.projection import Projection


def settings_here(cwd: str | Path | None = None, **options: object) -> Settings:
    """Load the settings for a folder. By default, this is the current folder.

    Args:
        options: values of command line options. In their names, `__` stands for a dot, as in
            `context__window`. Options that are None count as not set.
    """
    overrides = {
        key.replace("__", "."): value
        for key, value in options.items()
        if value is not None
    }
    folder = Path(cwd or "")
    return load_settings(
        folder if cwd and is_folder(folder) else Path.cwd(), os.environ, overrides
    )


class Window(NamedTuple):
    """The context window with which a session's size is compared."""

    tokens: int
    assumed: bool = False
    """Whether the size is a guess.

    The guess is a default, or the largest size proved by the history if that is larger.
    """

    def __str__(self) -> str:
        """Format the size, for example `200k` or `32.8k (assumed)`."""
        return short_tokens(self.tokens) + (" (assumed)" if self.assumed else "")


def session_window(projection: Projection, settings: Settings) -> Window:
    """Return the model's window.

    It is taken from the settings, the history, or the model table.
    """
    model = projection.meter.model or ""
    window = settings.window_of(model)
    if window is not None:
        return Window(window)
    if model == OFFLINE:
        return Window(settings.offline.window)
    info = model_info(model)
    proof = projection.meter.window_proof(model)
    believed = proof.window(info.window)
    if SMALLEST_WINDOW <= proof.refused < believed:
        return Window(proof.refused)
    return Window(believed, assumed=info.guessed and not proof.stated)


def window_of(projection: Projection, cwd: str) -> Window:
    """Return the window with which the size of a session in this folder is compared."""
    return session_window(projection, settings_here(cwd))
