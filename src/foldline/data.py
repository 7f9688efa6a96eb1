"""Where the files that travel with the program lie: `prompts/` and `themes/`."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def data_dir(name: str) -> Path:
    """The folder `prompts` or `themes`: inside an installed wheel, or at the top of a checkout."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent.parent / name
