"""Which window a session is measured against."""

import os
from pathlib import Path

from foldline.agent.settings import Settings, load_settings
from foldline.context.projection import Projection
from foldline.files import is_folder
from foldline.llm.models import DEFAULT_WINDOW, is_known, model_info


def settings_here(cwd: str | Path | None = None, **options: object) -> Settings:
    """The settings in force in a folder; options that were not given count as absent.

    Options are named with `__` for the dot: `context__window`.
    """
    given = {key.replace("__", "."): value for key, value in options.items() if value is not None}
    folder = Path(cwd) if cwd else Path.cwd()
    return load_settings(folder if is_folder(folder) else Path.cwd(), os.environ, given)


def session_window(projection: Projection, settings: Settings) -> int | None:
    """The window of the model the session was held with, in tokens; None where that model is not known."""
    from foldline.llm.offline import OFFLINE

    window = settings.window_of(projection.model or "")
    if window is not None:
        return window
    if projection.model == OFFLINE:
        return settings.offline.window
    if projection.model and is_known(projection.model):
        return model_info(projection.model).window
    return None


def window_of(projection: Projection, cwd: str) -> int:
    """The window to show a session against, in tokens."""
    return session_window(projection, settings_here(cwd)) or DEFAULT_WINDOW
