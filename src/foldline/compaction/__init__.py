"""Compaction: strategies that rewrite a view, the engine that runs them, and their prompts.

The public names are those of `api`. They are imported on first access, because `compressor` needs only half
of the modules.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api import *  # noqa: F403


def __getattr__(name: str) -> object:
    from importlib import import_module

    return getattr(import_module(f"{__name__}.api"), name)
