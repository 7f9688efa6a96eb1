"""Keys of model providers stay with us: out of what tools bring, and out of what other programs can read.

Commands run without them (`tools.environment`). What is left are detours: a file that holds a key, and the
environment of this very process, which the system shows to all programs of its user.
"""

import ctypes
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache

from foldline.llm.providers import SHORTEST_KEY
from foldline.protocol import FoldlineError

from .keys import secret_variables, stored_keys

_HIDDEN = "[key]"


def hider(environ: Mapping[str, str]) -> Callable[[str], str]:
    """What takes every key we know of out of a text."""
    known = {environ.get(name, "").strip() for name in secret_variables()}
    with suppress(FoldlineError):  # A file of keys that is refused holds none that we use.
        known |= set(stored_keys(environ).values())
    keys = sorted((key for key in known if len(key) >= SHORTEST_KEY), key=len, reverse=True)

    def hide(text: str) -> str:
        for key in keys:
            text = text.replace(key, _HIDDEN)
        return text

    return hide


@cache
def wipe_first_environment() -> None:
    """Overwrites our keys in the environment this process was started with, which the system goes on showing
    (/proc/PID/environ, `ps e`). `os.environ` has them still. Where there is no such thing: nothing.
    """
    _overwrite(secret_variables())


def _overwrite(names: Collection[str]) -> None:
    try:
        pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    except (OSError, TypeError, ValueError):
        return
    wanted = {os.fsencode(name) for name in names}
    at = 0
    while address := pointers[at]:
        name, _, value = ctypes.string_at(address).partition(b"=")
        if name in wanted:
            ctypes.memset(address + len(name) + 1, ord("x"), len(value))
        at += 1
