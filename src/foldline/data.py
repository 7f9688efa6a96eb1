"""Where files lie: those that travel with the program, `prompts/` and `themes/`, and the user's own."""

import os
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).parent


def data_dir(name: str) -> Path:
    """The folder `prompts` or `themes`: inside an installed wheel, or at the top of a checkout."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent.parent / name


def config_dir(environ: Mapping[str, str]) -> Path:
    """The user's own folder of settings, prompts and themes: `FOLDLINE_HOME`, else that of this platform."""
    home = environ.get("FOLDLINE_HOME")
    if home:
        return Path(home).expanduser()
    from platformdirs import user_config_path

    return user_config_path("foldline", appauthor=False)


def data_home(environ: Mapping[str, str]) -> Path:
    """The folder of everything Foldline stores: `FOLDLINE_HOME`, else the data folder of this platform."""
    home = environ.get("FOLDLINE_HOME")
    if home:
        return Path(os.path.expanduser(home))  # noqa: PTH111 - `Path.expanduser` raises for nobody
    from platformdirs import user_data_path

    return user_data_path("foldline", appauthor=False)
