"""Which window a session is measured against."""

import os
from pathlib import Path
from typing import NamedTuple

from foldline.agent.settings import Settings, load_settings
from foldline.context.budget import SMALLEST_WINDOW
from foldline.context.numbers import short_tokens
from foldline.context.projection import Projection
from foldline.files import is_folder
from foldline.llm.models import model_info


def settings_here(cwd: str | Path | None = None, **options: object) -> Settings:
    """The settings in force in a folder; options that were not given count as absent.

    Options are named with `__` for the dot: `context__window`.
    """
    given = {key.replace("__", "."): value for key, value in options.items() if value is not None}
    folder = Path(cwd) if cwd else Path.cwd()
    return load_settings(folder if is_folder(folder) else Path.cwd(), os.environ, given)


class Window(NamedTuple):
    """The context window that a session is measured against."""

    tokens: int
    assumed: bool = False
    """Whether nobody has said it: at least what the history proves, at least a default."""


def session_window(projection: Projection, settings: Settings) -> Window:
    """The window of the model the session was held with: what was set, what the history tells, or what is
    publicly known."""
    from foldline.llm.offline import OFFLINE

    model = projection.model or ""
    proof = projection.window_proof(model)
    window = settings.window_of(model)
    if window is not None:
        return Window(window)
    if model == OFFLINE:
        return Window(settings.offline.window)
    known = model_info(model)
    believed = proof.window(known.window)
    if SMALLEST_WINDOW <= proof.refused < believed:
        return Window(proof.refused)
    return Window(believed, assumed=known.guessed and not proof.stated)


def window_of(projection: Projection, cwd: str) -> Window:
    """The window to show a session against."""
    return session_window(projection, settings_here(cwd))


def window_words(window: Window) -> str:
    """`200k`; `32.8k (assumed)` where nobody has said it."""
    return short_tokens(window.tokens) + (" (assumed)" if window.assumed else "")
