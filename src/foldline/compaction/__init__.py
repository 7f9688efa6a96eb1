"""How a view is rewritten: strategies, the engine that runs them, and the prompts they use.

What it offers is in `api`, imported when one of its names is first asked for: a program that has its own
messages compacted (`compressor`) needs half of the modules.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api import *  # noqa: F403


def __getattr__(name: str) -> object:
    from importlib import import_module

    return getattr(import_module(f"{__name__}.api"), name)
